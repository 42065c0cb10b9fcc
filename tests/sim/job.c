/* SPDX-License-Identifier: Apache-2.0 */
/* A job: what a simulated thread asks for, is told, and does with it. */
#include "sim/job.h"

#include "base/alloc.h"
#include "sim/invariants.h"
#include "sim/process.h"
#include "sim/sim.h"

#include <assert.h>
#include <string.h>

static struct sim_job *job_of(struct rt_ask *ask)
{
    return (struct sim_job *)(void *)ask; /* its first member */
}

/* ---- Coming and going --------------------------------------------------- */

static struct rt_line *line_get(struct sim_client *c, uint32_t name)
{
    if (c->lines[name] != NULL)
        return c->lines[name];
    int rv = rt_loop_reserve(&c->loop, 1); /* it may linger */
    c->lines[name] = rt_names_get(&c->d.names, c->sim->lines[name].name, NULL);
    assert(rv == 0 && c->lines[name] != NULL);
    (void)rv;
    return c->lines[name];
}

static int64_t draw_time(struct sim *sim)
{
    return RT_MS + sim_spread_ns(&sim->random, sim->plan.time_ms * 1000);
}

static void draw_terms(struct sim_job *job, bool in_set)
{
    struct sim *sim = job->client->sim;
    const struct sim_plan *plan = &sim->plan;
    struct rt_terms *t = &job->terms;
    t->limit_at = sim_chance(&sim->random, plan->limit) ? sim->now + draw_time(sim) : RT_NEVER;
    t->hold = sim_chance(&sim->random, plan->hold) ? draw_time(sim) : 0;
    t->linger = sim_chance(&sim->random, plan->linger) ? draw_time(sim) : 0;
    if (!in_set && sim_chance(&sim->random, plan->at_least))
        t->at_least_ms = draw_time(sim) / RT_MS + 1;
    if (in_set || t->limit_at != RT_NEVER || t->hold != 0 || t->linger != 0 || t->at_least_ms != 0)
        job->ask.terms = t;
}

static struct sim_job *job_new(struct sim_client *c, uint32_t name, bool in_set)
{
    struct sim *sim = c->sim;
    struct sim_random *r = &sim->random;
    struct sim_job *job = rt_alloc(sizeof(*job));
    assert(job != NULL);
    int rv = rt_loop_reserve(&c->loop, 1);
    assert(rv == 0);
    (void)rv;
    job->id = ++sim->last_job;
    job->asked_at = sim->now;
    job->client = c;
    job->name = name;
    job->next = c->jobs;
    c->jobs = job;
    c->job_count++;
    struct rt_ask *ask = &job->ask;
    ask->line = line_get(c, name);
    uint32_t of = sim_plan_of(&sim->plan, name);
    if (of > 0) {
        ask->mode = RT_PERMITS;
        job->take = 1 + sim_below(r, of);
    } else if (sim_chance(r, sim->plan.shared)) {
        ask->mode = RT_SHARED;
    }
    if (!in_set && sim_chance(r, sim->plan.try))
        ask->flags |= RT_ASK_TRY;
    /* With less time, replicas are not waited for: it would ask for ever. */
    bool vain = sim->plan.replicated && sim->plan.call_ms < 100;
    if (!in_set && !vain && (ask->flags & RT_ASK_TRY) == 0 && sim_chance(&sim->aside, sim_rejoin))
        ask->flags |= RT_ASK_REJOIN;
    if (sim_chance(r, sim->plan.owned))
        ask->owner = 1 + sim_below(r, sim->plan.owners);
    draw_terms(job, in_set);
    return job;
}

static void job_unlink(struct sim_job *job)
{
    struct sim_job **at = &job->client->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    job->client->job_count--;
    assert(job->terms.timer.slot == 0);
    rt_loop_unreserve(&job->client->loop, 1);
}

static void job_free(struct sim_job *job)
{
    job_unlink(job);
    memset(&job->ask, 0xa5, sizeof(job->ask)); /* whoever still looks at it must stumble */
    if (job->downgrading)
        job->over = true;
    else
        rt_free(job);
}

void sim_job_free_all(struct sim_client *c)
{
    struct sim_job *job;
    for (job = c->jobs; job != NULL; job = job->next)
        if (job->set != NULL && job->set->jobs[0] == job)
            rt_free(job->set);
    while ((job = c->jobs) != NULL) {
        rt_timers_stop(&c->loop.timers, &job->terms.timer);
        job_free(job);
    }
}

/* ---- What threads do ---------------------------------------------------- */

static void give_ticket(struct sim_job *job)
{
    struct sim_client *c = job->client;
    if (rt_desk_solo(&c->d.desk, &job->ask)) {
        uint32_t of = sim_plan_of(&c->sim->plan, job->name);
        struct rt_solo *solo = rt_dispatch_solo(job->ask.line, job->ask.mode, job->take, of, NULL);
        assert(solo != NULL);
        solo->owner = job->ask.owner;
        solo->at_least_ms = job->terms.at_least_ms;
        job->ask.ticket = &solo->ticket;
        job->solo = true;
    } else if (job->ask.mode == RT_SHARED) {
        struct rt_ticket *s = rt_names_shared(job->ask.line);
        assert(s != NULL);
        (void)s;
    }
}

static void trace_ask(const struct sim_job *job, const char *verb)
{
    const struct sim *sim = job->client->sim;
    const struct rt_terms *t = &job->terms;
    SIM_TRACE(
        sim, job->client, "job %u %s %s mode %u owner %llu%s%s%s limit %lld hold %lld linger %lld",
        job->id, verb, sim->lines[job->name].name, job->ask.mode,
        (unsigned long long)job->ask.owner, job->ask.flags & RT_ASK_TRY ? " try" : "",
        job->ask.flags & RT_ASK_REJOIN ? " rejoin" : "", job->ask.ticket != NULL ? " solo" : "",
        (long long)(t->limit_at == RT_NEVER ? 0 : (t->limit_at - sim->now) / RT_MS),
        (long long)(t->hold / RT_MS), (long long)(t->linger / RT_MS));
}

static bool act_ask(struct sim_client *c)
{
    struct sim *sim = c->sim;
    if (c->job_count >= sim->plan.jobs || c->close_by != 0)
        return false;
    struct sim_job *job = job_new(c, sim_below(&sim->random, sim->plan.names), false);
    give_ticket(job);
    trace_ask(job, "asks for");
    rt_desk_ask(&c->d.desk, &job->ask, sim->now);
    return true;
}

static bool act_ask_all(struct sim_client *c)
{
    struct sim *sim = c->sim;
    uint32_t names[SIM_NAMES_MAX], n = 0;
    for (uint32_t i = 0; i < sim->plan.names; i++)
        if (sim_plan_of(&sim->plan, i) == 0 && n < SIM_SET_MAX && sim_chance(&sim->random, 700))
            names[n++] = i;
    if (n == 0 || c->job_count + n > (sim_crowd ? SIM_JOBS_MAX : SIM_JOBS_FEW) || c->close_by != 0)
        return false;
    struct sim_set *set = rt_alloc(sizeof(*set));
    assert(set != NULL);
    set->n = n;
    set->try = sim_chance(&sim->random, sim->plan.try);
    struct rt_batch *batch = rt_dispatch_batch(n, set->try);
    assert(batch != NULL);
    set->set = &batch->set;
    for (uint32_t i = 0; i < n; i++) {
        struct sim_job *job = job_new(c, names[i], true);
        job->set = set;
        job->terms.set = set->set;
        set->jobs[i] = job;
        set->set->asks[i] = &job->ask;
        give_ticket(job);
        trace_ask(job, "asks, in a set, for");
    }
    rt_desk_ask_all(&c->d.desk, set->set, sim->now);
    return true;
}

static struct sim_job *pick(struct sim_client *c, bool (*fits)(const struct sim_job *))
{
    struct sim_job *found = NULL;
    uint32_t n = 0;
    for (struct sim_job *job = c->jobs; job != NULL; job = job->next)
        if (fits(job) && sim_below(&c->sim->random, ++n) == 0)
            found = job;
    return found;
}

static bool may_release(const struct sim_job *job)
{
    return (job->state == SIM_HELD || job->state == SIM_LOST) && !job->downgrading;
}

static bool may_cancel(const struct sim_job *job)
{
    return job->state == SIM_ASKED && !job->canceled;
}

static bool may_downgrade(const struct sim_job *job)
{
    return job->state == SIM_HELD && job->ask.mode == RT_EXCLUSIVE && !job->downgrading;
}

bool sim_job_release_any(struct sim_client *c)
{
    struct sim_job *job = c->close_by == 0 ? pick(c, may_release) : NULL;
    if (job == NULL)
        return false;
    SIM_TRACE(c->sim, c, "job %u releases %s fence %llu", job->id, c->sim->lines[job->name].name,
              (unsigned long long)job->ask.fence);
    job->state = SIM_RELEASING;
    job->released_at = c->sim->now;
    rt_desk_release(&c->d.desk, &job->ask, c->sim->now);
    return true;
}

static bool act_cancel(struct sim_client *c)
{
    struct sim_job *job = pick(c, may_cancel);
    if (job == NULL)
        return false;
    SIM_TRACE(c->sim, c, "job %u cancels %s", job->id, c->sim->lines[job->name].name);
    job->canceled = true;
    if (job->set != NULL)
        job->set->jobs[0]->canceled = true;
    (void)rt_desk_cancel(&c->d.desk, &job->ask, ROTA_CANCELED, c->sim->now);
    return true;
}

/* It holds by re-entry while it waits for the rest of a set: two such may wait for each other. */
static bool may_deadlock(const struct sim_job *job)
{
    return job->set != NULL && job->ask.state == RT_ASK_HELD && !job->set->jobs[0]->canceled;
}

bool sim_job_untie(struct sim_client *c)
{
    struct sim_job *job = pick(c, may_deadlock);
    if (job == NULL)
        return false;
    SIM_TRACE(c->sim, c, "job %u cancels its set", job->id);
    job->set->jobs[0]->canceled = true;
    (void)rt_desk_cancel(&c->d.desk, &job->ask, ROTA_CANCELED, c->sim->now);
    return true;
}

static void change_done(struct rt_dispatch *d, struct rt_request *rq)
{
    (void)d;
    struct sim_job *job = (struct sim_job *)(void *)((char *)rq - offsetof(struct sim_job, change));
    job->downgrading = false;
    if (job->over)
        rt_free(job);
}

static bool act_downgrade(struct sim_client *c)
{
    struct sim_job *job = c->close_by == 0 ? pick(c, may_downgrade) : NULL;
    if (job == NULL)
        return false;
    SIM_TRACE(c->sim, c, "job %u downgrades %s", job->id, c->sim->lines[job->name].name);
    /* From sending on it may be shared on the engine: from here on it counts as shared. */
    rt_desk_downgraded(&c->d.desk, &job->ask, c->sim->now);
    if (job->ask.state != RT_ASK_HELD)
        return true; /* lost meanwhile */
    job->downgrading = true;
    struct rt_op *op = &job->change.op;
    memset(op, 0, sizeof(*op));
    op->kind = RT_OP_CHANGE;
    op->deadline = c->sim->now + c->sim->plan.call_ms * RT_MS;
    op->change.name = c->sim->lines[job->name].name;
    op->change.session = c->d.desk.session.id;
    op->change.number = job->ask.fence;
    op->change.what = RT_CHANGE_DOWNGRADE;
    job->change.done = change_done;
    rt_dispatch_send(&c->d, &job->change);
    return true;
}

bool sim_job_act(struct sim_client *c, enum sim_act act)
{
    switch (act) {
    case SIM_ACT_ASK:
        return act_ask(c);
    case SIM_ACT_ASK_ALL:
        return act_ask_all(c);
    case SIM_ACT_RELEASE:
        return sim_job_release_any(c);
    case SIM_ACT_CANCEL:
        return act_cancel(c);
    default:
        return act_downgrade(c);
    }
}

/* ---- What threads are told ---------------------------------------------- */

static void check_error(const struct sim_job *job, int err)
{
    const struct sim *sim = job->client->sim;
    bool try = job->ask.flags & RT_ASK_TRY || (job->set != NULL && job->set->try);
    bool starved = sim->plan.starve > 0 || sim->plan.outage[SIM_OUTAGE_REFUSES] > 0;
    const struct sim_wire *w = &sim->plan.wire;
    bool garbled = w->request_lost + w->request_doubled + w->reply_lost + w->reply_doubled > 0 ||
                   sim->plan.deadlocks > 0; /* or what nobody knows */
    bool ok = err == ROTA_LOST || (err == ROTA_NOMEM && starved) ||
              (err == ROTA_PROTOCOL &&
               (garbled || starved)) || /* in the first greeting: no Redis, it seems */
              err == ROTA_UNREACHABLE ||
              err == ROTA_INVALID || (err == ROTA_CLOSED && job->client->close_by != 0) ||
              (err == ROTA_CANCELED && (job->canceled || job->set != NULL)) ||
              (err == ROTA_TIMEOUT && (job->terms.limit_at <= sim->now || job->set != NULL)) ||
              ((err == ROTA_BUSY || err == ROTA_UNKNOWN) && try);
    /* An ask that outlasts outages is never told that its place is gone; that none can be had, only if
     * it had none before, or by its own limit. */
    bool outage = err == ROTA_LOST || (err == ROTA_UNREACHABLE && job->away);
    if ((job->ask.flags & RT_ASK_REJOIN) != 0 && outage && job->client->close_by == 0)
        ok = err == ROTA_UNREACHABLE && job->terms.limit_at <= sim->now;
    if (!ok)
        sim_violated(sim, "I5", "c%u: job %u was told %s without a reason", job->client->index,
                     job->id, rota_strerror(err));
}

static void answered(struct sim_job *job, int err, bool lost)
{
    const struct sim *sim = job->client->sim;
    if (job->state != SIM_ASKED)
        sim_violated(sim, "I9", "c%u: job %u was answered twice", job->client->index, job->id);
    if (err == 0) {
        if (job->ask.state != (lost ? RT_ASK_LOST : RT_ASK_HELD))
            sim_violated(sim, "I5", "c%u: job %u was told it holds, and does not",
                         job->client->index, job->id);
        job->state = SIM_HELD;
        sim_counts.granted++;
        sim_note_told(job);
        SIM_TRACE(sim, job->client, "job %u holds %s fence %llu", job->id,
                  sim->lines[job->name].name, (unsigned long long)job->ask.fence);
        if (!lost)
            sim_check_grant(job);
        return;
    }
    SIM_TRACE(sim, job->client, "job %u failed: %s", job->id, rota_strerror(err));
    check_error(job, err);
    sim_counts.failed++;
    if (job->ask.state != RT_ASK_DONE)
        sim_violated(sim, "I5", "c%u: job %u failed and is in state %d", job->client->index,
                     job->id, job->ask.state);
    job_free(job);
}

static void set_answered(struct sim_job *first, int err, bool lost)
{
    struct sim_set *set = first->set;
    size_t n = set->n;
    for (size_t i = 0; i < n; i++) {
        struct sim_job *job = set->jobs[i];
        /* One may already be lost, with its news still to come. */
        bool gone = (i == 0 && lost) || (job->ask.news & RT_NEWS_LOST) != 0;
        if (err != 0)
            check_error(job, err);
        answered(job, err, gone);
        if (err == 0)
            job->set = NULL;
    }
    rt_free(set);
}

static void lost(struct sim_job *job)
{
    const struct sim *sim = job->client->sim;
    struct sim_client *c = job->client;
    SIM_TRACE(sim, c, "job %u lost %s: %s", job->id, sim->lines[job->name].name,
              rota_strerror(job->ask.lost));
    if (job->state != SIM_HELD)
        sim_violated(sim, "I9", "c%u: job %u lost what it did not hold", c->index, job->id);
    job->state = SIM_LOST;
    sim_counts.lost += job->ask.lost != ROTA_TIMEOUT;
    sim_counts.timed_out += job->ask.lost == ROTA_TIMEOUT;
    if (job->ask.lost != ROTA_TIMEOUT)
        return;
    for (const struct sim_job *o = c->jobs; o != NULL; o = o->next)
        if (o->ask.state == RT_ASK_HELD && o->ask.fence == job->ask.fence)
            return;
    c->tenures[job->name].retired = job->ask.fence;
}

static void released(struct sim_job *job)
{
    const struct sim *sim = job->client->sim;
    int err = job->ask.err;
    SIM_TRACE(sim, job->client, "job %u released %s: %s", job->id, sim->lines[job->name].name,
              err == 0 ? "ok" : rota_strerror(err));
    if (job->state != SIM_RELEASING)
        sim_violated(sim, "I9", "c%u: job %u was told of a release in state %d", job->client->index,
                     job->id, (int)job->state);
    sim_counts.released += err == 0;
    sim_counts.released_lost += err == ROTA_LOST;
    sim_counts.released_unknown += err == ROTA_UNKNOWN;
    sim_check_released(job, err);
    job_free(job);
}

void sim_job_news(struct rt_dispatch *d, struct rt_ask *ask, unsigned news)
{
    struct sim_job *job = job_of(ask);
    if (((struct sim_client *)(void *)d)->dead)
        return; /* nobody is there to be told */
    bool is_lost = (news & RT_NEWS_LOST) != 0;
    if ((news & RT_NEWS_AWAY) != 0)
        job->away = true;
    if ((news & RT_NEWS_BACK) != 0) {
        job->away = false;
        sim_counts.rejoined++;
    }
    if ((news & RT_NEWS_ANSWERED) != 0) {
        int err = ask->err;
        if (job->set != NULL)
            set_answered(job, err, is_lost);
        else
            answered(job, err, is_lost);
        if (err != 0)
            return;
    }
    if (is_lost)
        lost(job);
    if ((news & RT_NEWS_RELEASED) != 0)
        released(job);
}

void sim_job_gone(struct rt_dispatch *d, struct rt_ask *ask)
{
    (void)d;
    struct sim_job *job = job_of(ask);
    if (job->state != SIM_HELD && job->state != SIM_LOST)
        sim_violated(job->client->sim, "I9", "c%u: job %u is gone in state %d", job->client->index,
                     job->id, (int)job->state);
    job_free(job);
}
