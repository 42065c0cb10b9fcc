/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants of DESIGN 2, as far as they can be seen from outside at one moment. */
#include "sim/invariants.h"

#include "sim/calm.h"
#include "sim/excuse.h"
#include "sim/world.h"

#include <assert.h>
#include <string.h>

/* ---- What the engine says ----------------------------------------------- */

static void check_weights(const struct sim *sim, const char *name, const struct sim_place *places,
                          size_t n)
{
    uint32_t granted = 0, taken = 0, of = 0;
    bool exclusive = false;
    for (size_t i = 0; i < n; i++) {
        if (!places[i].granted)
            continue;
        granted++;
        taken += places[i].mode == RT_PERMITS ? places[i].take : 0;
        of = places[i].of;
        exclusive = exclusive || places[i].mode == RT_EXCLUSIVE;
    }
    if ((exclusive && granted > 1) || taken > of)
        sim_violated(sim, "I1", "the engine granted %u tickets of %s at once", granted, name);
}

/* In late worlds numbers do not tell this: places do. */
static void check_places(const struct sim *sim, const char *name, const struct sim_place *places,
                         size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (places[i].granted && !places[i - 1].granted)
            sim_violated(sim, "I7", "%s was granted to %llu before the one ahead", name,
                         (unsigned long long)places[i].number);
}

/* No ticket waits behind one that was taken later. */
static void check_order(const struct sim *sim, const char *name, const struct sim_place *places,
                        size_t n)
{
    uint64_t waiting = UINT64_MAX, granted = 0;
    for (size_t i = 0; i < n; i++) {
        if (!places[i].granted)
            waiting = places[i].number < waiting ? places[i].number : waiting;
        else if (places[i].number > granted)
            granted = places[i].number;
    }
    if (waiting < granted)
        sim_violated(sim, "I7", "%s was granted to %llu while %llu waits", name,
                     (unsigned long long)granted, (unsigned long long)waiting);
}

void sim_check_line(struct sim *sim, struct sim_line *seen)
{
    struct sim_place places[SIM_PLACES_MAX];
    size_t n = sim->kind->look(sim, seen->name, places, SIM_PLACES_MAX);
    sim_witness(sim, seen, places, n);
    if (n == 0)
        return;
    check_weights(sim, seen->name, places, n);
    if (sim->kind->late)
        check_places(sim, seen->name, places, n);
    else
        check_order(sim, seen->name, places, n);
    const struct sim_place *front = &places[0];
    if (front->mode != RT_EXCLUSIVE || !front->granted)
        return;
    if (front->number < seen->last_exclusive)
        sim_violated(sim, "I2", "%s was granted with fence %llu after %llu", seen->name,
                     (unsigned long long)front->number, (unsigned long long)seen->last_exclusive);
    seen->last_exclusive = front->number;
}

void sim_check_lines(struct sim *sim, uint64_t leaver)
{
    sim->leaver = leaver;
    for (uint32_t i = 0; i < sim->plan.names; i++)
        sim_check_line(sim, &sim->lines[i]);
    sim->leaver = 0;
}

/* ---- What clients believe ----------------------------------------------- */

bool sim_believes(const struct sim *sim, const struct sim_job *job)
{
    const struct rt_desk *desk = &job->client->d.desk;
    return job->state == SIM_HELD && rt_desk_until(desk, &job->ask) > sim->now &&
           !sim_is_excused(sim, job->client) && !sim_is_lost(sim, desk->session.id) &&
           !sim_is_broken(sim, job->ask.fence);
}

static uint32_t mode_of(const struct sim_job *job)
{
    return job->downgrading ? RT_SHARED : job->ask.mode;
}

static void check_pair(const struct sim *sim, const struct sim_job *a, const struct sim_job *b)
{
    bool same_owner = a->client == b->client && a->ask.owner == b->ask.owner && a->ask.owner != 0;
    if (a->name != b->name || same_owner || a->ask.mode == RT_PERMITS)
        return;
    if (mode_of(a) == RT_EXCLUSIVE || mode_of(b) == RT_EXCLUSIVE)
        sim_violated(sim, "I1", "c%u (fence %llu) and c%u (fence %llu) both believe they hold %s",
                     a->client->index, (unsigned long long)a->ask.fence, b->client->index,
                     (unsigned long long)b->ask.fence, sim->lines[a->name].name);
}

/* Whoever believes that it holds has a granted ticket of that kind. */
static void check_truth(const struct sim *sim, const struct sim_job *job)
{
    const char *name = sim->lines[job->name].name;
    struct sim_place t;
    bool held = sim_world_find(sim, name, job->ask.fence, &t) && t.granted && t.session != 0 &&
                t.session == job->client->d.desk.session.id;
    if (!held)
        sim_violated(sim, "I5", "c%u believes it holds %s by %llu, which the engine does not know",
                     job->client->index, name, (unsigned long long)job->ask.fence);
    if (mode_of(job) == RT_EXCLUSIVE && t.mode != RT_EXCLUSIVE)
        sim_violated(sim, "I5", "c%u believes %s is its alone", job->client->index, name);
}

static void check_beliefs(const struct sim *sim)
{
    const struct sim_job *held[SIM_CLIENTS_MAX * SIM_JOBS_MAX];
    uint32_t taken[SIM_NAMES_MAX] = {0};
    size_t n = 0;
    for (size_t i = 0; i < sim->plan.clients; i++) {
        const struct sim_client *c = &sim->clients[i];
        for (const struct sim_job *job = c->open ? c->jobs : NULL; job != NULL; job = job->next)
            if (sim_believes(sim, job))
                held[n++] = job;
    }
    for (size_t i = 0; i < n; i++) {
        check_truth(sim, held[i]);
        taken[held[i]->name] += held[i]->take;
        for (size_t k = 0; k < i; k++)
            check_pair(sim, held[i], held[k]);
    }
    for (uint32_t i = 0; i < sim->plan.names; i++)
        if (taken[i] > sim_plan_of(&sim->plan, i))
            sim_violated(sim, "I1", "%u permits of %u are believed to be held of %s", taken[i],
                         sim_plan_of(&sim->plan, i), sim->lines[i].name);
}

/* I3: what we promise ends before what the engine promised, to the session and to every hold. */
static void check_end(const struct sim *sim, const struct sim_client *c, const char *name)
{
    const struct rt_session *s = &c->d.desk.session;
    int64_t ends = 0;
    int64_t until = sim->kind->to_deadline ? s->deadline : s->usable_until;
    bool there = sim->kind->session(sim, s->id, name, &ends);
    if (!there || (ends < until && !sim->plan.forever))
        sim_violated(sim, "I3",
                     "c%u: session %llu is said to live longer than it does%s%s, %lld us", c->index,
                     (unsigned long long)s->id, name != NULL ? " for " : "",
                     name != NULL ? name : "", there ? (long long)(until - ends) / 1000 : -1);
}

static void check_deadline(const struct sim *sim, const struct sim_client *c)
{
    const struct rt_session *s = &c->d.desk.session;
    if (s->state != RT_SESSION_ALIVE || s->usable_until <= sim->now || sim_is_lost(sim, s->id) ||
        sim_is_excused(sim, c) || c->parting)
        return;
    check_end(sim, c, NULL);
    for (const struct sim_job *job = c->jobs; job != NULL; job = job->next)
        if (sim_believes(sim, job))
            check_end(sim, c, sim->lines[job->name].name);
}

static void note_wanted(const struct sim *sim, struct sim_client *c)
{
    for (uint32_t i = 0; i < sim->plan.names; i++) {
        const struct rt_line *line = c->lines[i];
        struct sim_tenure *t = &c->tenures[i];
        bool is_wanted = line != NULL && rt_ticket_has(&line->x, RT_TICKET_WANTED);
        /* The engine was asked again, and nobody waited any more. */
        if (!is_wanted && line != NULL && line->x.id == t->wanted)
            t->wanted = 0;
        if (!is_wanted || line->x.id == t->wanted)
            continue;
        t->wanted = line->x.id;
        t->wanted_at = sim->now;
        t->passes = 0;
    }
}

static struct sim_tenure *tenure_of(struct sim_client *c, const char *name, uint64_t number)
{
    for (uint32_t i = 0; i < c->sim->plan.names; i++)
        if (c->tenures[i].wanted == number && strcmp(c->sim->lines[i].name, name) == 0)
            return &c->tenures[i];
    return NULL;
}

static bool asks_wanted(const struct rt_op *op)
{
    return op->kind == RT_OP_CHANGE && (op->change.what & RT_CHANGE_ARM) != 0;
}

void sim_note_changed(struct sim_client *c, const struct rt_op *op)
{
    struct sim_tenure *t = tenure_of(c, op->change.name, op->change.number);
    if (asks_wanted(op) && op->err == 0 && !op->change.wanted && t != NULL && !t->told)
        t->wanted = 0;
}

void sim_note_wanted(struct sim_client *c, const struct rt_event *event)
{
    struct sim_tenure *t = tenure_of(c, event->name, event->number);
    if (t != NULL)
        t->told = true;
}

void sim_check_step(struct sim *sim, struct sim_client *c)
{
    sim_counts.steps++;
    check_beliefs(sim);
    for (uint32_t i = 0; i < sim->plan.clients; i++)
        if (sim->clients[i].open)
            check_deadline(sim, &sim->clients[i]);
    if (c->open)
        note_wanted(sim, c);
}

static int64_t since(int64_t began, const struct sim_client *c)
{
    return began > c->resumed_at ? began : c->resumed_at;
}

/* What waits behind other requests has its time when it is sent, and waits no longer than that without an answer to any. */
static int64_t patience_until(const struct sim *sim, const struct sim_client *c, int64_t at)
{
    const struct rt_outbox *out = &c->d.desk.out;
    int64_t call = sim->plan.call_ms * RT_MS, from = since(at, c);
    if (out->most == RT_UNDER_WAY_MOST)
        return from + call + RT_MS;
    return (out->heard_at > from ? out->heard_at : from) + 2 * call + RT_MS;
}

static void check_told(const struct sim *sim, const struct sim_client *c, const struct sim_job *job)
{
    const char *name = sim->lines[job->name].name;
    if (job->state == SIM_HELD && rt_desk_until(&c->d.desk, &job->ask) <= sim->now)
        sim_violated(sim, "I3", "c%u: job %u was not told that it lost %s", c->index, job->id,
                     name);
    /* One of a set that holds by re-entry waits as long as the others of it. */
    if (job->state == SIM_ASKED && job->ask.state == RT_ASK_QUEUED &&
        job->terms.limit_at < sim->now)
        sim_violated(sim, "liveness", "c%u: job %u waits for %s beyond its limit", c->index,
                     job->id, name);
    if (job->state == SIM_ASKED && (job->ask.flags & RT_ASK_TRY || (job->set && job->set->try)) &&
        sim->now > patience_until(sim, c, job->asked_at))
        sim_violated(sim, "liveness", "c%u: job %u tries %s for longer than call_ms", c->index,
                     job->id, name);
    if (job->state == SIM_RELEASING && sim->now > patience_until(sim, c, job->released_at))
        sim_violated(sim, "liveness", "c%u: job %u takes too long to release %s", c->index, job->id,
                     name);
}

static void check_lingering(const struct sim *sim, struct sim_client *c)
{
    for (uint32_t i = 0; i < sim->plan.names; i++) {
        const struct rt_line *line = c->lines[i];
        const struct sim_witness *w = &sim->lines[i].witness;
        struct sim_tenure *t = &c->tenures[i];
        if (line == NULL || !line->lingering) {
            t->lingers = 0;
            continue;
        }
        if (t->lingers != line->x.id)
            t->lingers_since = sim->now;
        t->lingers = line->x.id;
        int64_t since = w->wanted_since > t->lingers_since ? w->wanted_since : t->lingers_since;
        if (w->wanted_since != 0 && w->front == line->x.id && sim->now > sim_wanted_by(sim, since))
            sim_violated(sim, "I7", "c%u lingers on %s while somebody waits since %lld us ago",
                         c->index, line->name, (long long)(sim->now - w->wanted_since) / 1000);
        if (rt_ticket_has(&line->x, RT_TICKET_WANTED) || line->linger_until <= sim->now)
            sim_violated(sim, "I7", "c%u lingers on %s and should not", c->index, line->name);
    }
}

static int64_t turn_since(const struct sim_turn *turns, uint32_t n, const struct rt_ticket *t,
                          int64_t now)
{
    for (uint32_t i = 0; i < n; i++)
        if (turns[i].ticket == t && turns[i].number == t->id)
            return turns[i].since;
    return now;
}

/* I8: the one whose turn it is is woken, and not only by its next beat, unless something bad has happened. */
static void check_turns(const struct sim *sim, struct sim_client *c)
{
    struct sim_turn before[SIM_TURNS_MAX];
    uint32_t n = c->turn_count;
    memcpy(before, c->turns, sizeof(before));
    c->turn_count = 0;
    for (const struct rt_ticket *t = c->d.desk.tickets; t != NULL; t = t->next) {
        struct sim_place place;
        if (t->state != RT_TICKET_WAITING || !rt_ticket_has(t, RT_TICKET_NUMBERED) ||
            c->turn_count == SIM_TURNS_MAX || !sim_world_find(sim, t->line->name, t->id, &place) ||
            !place.granted)
            continue;
        int64_t since = turn_since(before, n, t, sim->now);
        if (sim->now > sim_told_by(sim, since))
            sim_violated(sim, "I8", "c%u was not told for %lld ms that it holds %s", c->index,
                         (long long)((sim->now - since) / RT_MS), t->line->name);
        c->turns[c->turn_count].ticket = t;
        c->turns[c->turn_count].number = t->id;
        c->turns[c->turn_count++].since = since;
    }
}

void sim_check_moment(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        struct sim_client *c = &sim->clients[i];
        if (!sim_client_runs(c))
            continue;
        check_turns(sim, c);
        check_lingering(sim, c);
        sim_watcher_check(sim, c);
        for (const struct sim_job *job = c->jobs; job != NULL; job = job->next)
            check_told(sim, c, job);
    }
}

/* ---- What threads are told ---------------------------------------------- */

static bool is_reentry(const struct sim_job *job)
{
    if (job->set != NULL)
        return true; /* a set has its own tickets, except what it re-entered when it was asked */
    for (const struct sim_job *o = job->client->jobs; o != NULL; o = o->next)
        if (o != job && o->name == job->name && o->ask.state == RT_ASK_HELD &&
            o->ask.fence == job->ask.fence && o->ask.owner == job->ask.owner && o->ask.owner != 0)
            return true;
    return false;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Whatever the client knows: judged by when it must have been told that somebody waits, as the engine has it. */
static void check_late_pass(const struct sim_job *job)
{
    const struct sim *sim = job->client->sim;
    const struct rt_desk *desk = &job->client->d.desk;
    const struct sim_witness *w = &sim->lines[job->name].witness;
    struct sim_tenure *t = &job->client->tenures[job->name];
    if (w->wanted_since == 0 || w->front != job->ask.fence)
        return;
    if (t->waits_since != w->wanted_since) {
        t->waits_since = w->wanted_since;
        t->asks_since = RT_NEVER;
        t->late_passes = 0;
    }
    /* It asks who waits when somebody queues here, and again when the answer did not come: that postpones BY, even
     * later on. */
    int64_t since = later(t->waits_since, later(t->granted_at, job->asked_at));
    t->asks_since = since < t->asks_since ? since : t->asks_since;
    int64_t by = sim_wanted_by(sim, t->asks_since);
    if (sim->now <= by) {
        t->late_passes = 0;
        return;
    }
    t->late_passes++;
    if (t->late_passes > desk->pass_limit || sim->now > by + desk->pass)
        sim_violated(sim, "I7",
                     "c%u: %s passed on while somebody waits since %lld us ago, %u times late",
                     job->client->index, sim->lines[job->name].name,
                     (long long)(sim->now - t->waits_since) / 1000, t->late_passes);
}

/* I7: while somebody waits elsewhere, a tenure is passed on only so often and for so long. */
static void check_pass(const struct sim_job *job)
{
    const struct sim *sim = job->client->sim;
    const struct rt_desk *desk = &job->client->d.desk;
    struct sim_tenure *t = &job->client->tenures[job->name];
    bool first = t->fence != job->ask.fence, reader = job->ask.mode == RT_SHARED;
    bool together = reader && t->passed_to_reader && t->passed_at == sim->now;
    t->fence = job->ask.fence;
    t->passed_to_reader = reader;
    t->passed_at = sim->now;
    if (job->ask.fence == t->retired)
        sim_violated(sim, "I7", "c%u: fence %llu went on after hold_ms", job->client->index,
                     (unsigned long long)job->ask.fence);
    note_wanted(sim, job->client);
    sim_counts.reentered += is_reentry(job);
    sim_counts.passed += !first && !together && !is_reentry(job);
    if (first)
        t->granted_at = sim->now;
    if (first || together || is_reentry(job))
        return;
    check_late_pass(job);
    if (t->wanted != job->ask.fence)
        return;
    if (t->wanted_at == sim->now)
        return; /* the grant may have come before WANTED, both in one step */
    t->passes++;
    if (t->passes > desk->pass_limit || sim->now > t->wanted_at + desk->pass)
        sim_violated(sim, "I7", "c%u: %s passed on for the %uth time, %lld us after WANTED",
                     job->client->index, sim->lines[job->name].name, t->passes,
                     (long long)(sim->now - t->wanted_at) / 1000);
}

/* Plain asks of one client for one name are served in the order in which they were asked. */
static void check_fifo(const struct sim_job *job)
{
    if (job->solo || is_reentry(job))
        return;
    for (const struct sim_job *o = job->client->jobs; o != NULL; o = o->next)
        if (o->name == job->name && !o->solo && o->ask.state == RT_ASK_QUEUED && o->id < job->id)
            sim_violated(job->client->sim, "I7", "c%u: job %u was served before job %u",
                         job->client->index, job->id, o->id);
}

void sim_note_told(const struct sim_job *job)
{
    struct sim *sim = job->client->sim;
    if (job->terms.at_least_ms == 0)
        return;
    assert(sim->told_count < SIM_TOLD_MAX);
    sim->told[sim->told_count].name = job->name;
    sim->told[sim->told_count++].number = job->ask.fence;
}

static bool was_told(const struct sim *sim, const char *name, uint64_t number)
{
    for (size_t i = 0; i < sim->told_count; i++)
        if (sim->told[i].number == number && strcmp(sim->lines[sim->told[i].name].name, name) == 0)
            return true;
    return false;
}

static void note_leaving(struct sim_client *c, const struct rt_op *op)
{
    for (size_t i = 0; i < SIM_LEAVES_MAX; i++)
        if (c->leaves[i].op == NULL) {
            c->leaves[i].op = op;
            c->leaves[i].sent_at = c->sim->now;
            return;
        }
}

/* When OP was sent; RT_NEVER: there were too many. */
static int64_t take_leaving(struct sim_client *c, const struct rt_op *op)
{
    for (size_t i = 0; i < SIM_LEAVES_MAX; i++)
        if (c->leaves[i].op == op) {
            c->leaves[i].op = NULL;
            return c->leaves[i].sent_at;
        }
    return RT_NEVER;
}

/* I4: what was no longer ours when we began to leave it was not left by us. */
static void check_was_ours(struct sim_client *c, const struct rt_op *op)
{
    struct sim *sim = c->sim;
    int64_t sent_at = take_leaving(c, op);
    if (op->err != 0 || sent_at == RT_NEVER || sim->kind->late || sim_is_excused(sim, c))
        return;
    for (uint32_t i = 0; i < sim->plan.names; i++)
        if (strcmp(sim->lines[i].name, op->leave.name) == 0 &&
            !sim_witness_left(&sim->lines[i].witness, op, sent_at))
            sim_violated(sim, "I4",
                         "c%u: a LEAVE of %llu, nonce %llx, in %s that did nothing succeeded",
                         c->index, (unsigned long long)op->leave.number,
                         (unsigned long long)op->leave.nonce & 0xffff, op->leave.name);
}

/* I6: an ask that was told TIMEOUT, or anything but its grant, leaves nothing taken. */
void sim_check_left(struct sim_client *c, const struct rt_op *op)
{
    struct sim_place t;
    check_was_ours(c, op);
    if (op->err != 0 || was_told(c->sim, op->leave.name, op->leave.number))
        return;
    if (sim_world_find(c->sim, op->leave.name, op->leave.number, &t) && t.session == 0)
        sim_violated(c->sim, "I6", "c%u: %llu keeps %s taken, and nobody was told that it holds",
                     c->index, (unsigned long long)op->leave.number, op->leave.name);
}

/* I5: what is told as lost does not stand in its line. If a server that lost data gives a number again, that is
 * another ticket's. */
void sim_check_lost(const struct sim_client *c, const struct rt_event *event)
{
    struct sim_place t;
    int64_t ends;
    if (!c->sim->kind->exact || !sim_world_find(c->sim, event->name, event->number, &t) ||
        t.session != event->session || sim_is_excused(c->sim, c) || sim_is_lost(c->sim, t.session))
        return;
    if (event->session != rt_desk_session(&c->d.desk))
        return; /* of a session that it has given up: nobody is told */
    if (c->sim->kind->inexact != NULL && c->sim->kind->inexact(c->sim, event->name, event->number))
        return;
    if (c->sim->kind->session(c->sim, t.session, event->name, &ends) && ends > c->sim->now)
        sim_violated(c->sim, "I5", "c%u was told that it lost %s, where %llu stands", c->index,
                     event->name, (unsigned long long)event->number);
}

static bool fences_grow(const struct sim *sim)
{
    return sim->kind->fences_grow == NULL || sim->kind->fences_grow(sim);
}

/* A clock that is behind what was lost gives a number again, even one that was given back since the loss. */
static void forget_number(struct sim_job *job)
{
    struct sim_client *c = job->client;
    if (c->tenures[job->name].fence == job->ask.fence)
        c->tenures[job->name].fence = c->tenures[job->name].wanted = 0;
    if (c->tenures[job->name].retired == job->ask.fence)
        c->tenures[job->name].retired = 0;
    for (uint32_t i = 0; i < SIM_GONE_MAX; i++)
        if (c->gone[i].number == job->ask.fence && c->gone[i].name == job->name)
            c->gone[i].number = 0;
}

void sim_check_grant(struct sim_job *job)
{
    struct sim *sim = job->client->sim;
    struct sim_line *line = &sim->lines[job->name];
    const struct rt_desk *desk = &job->client->d.desk;
    if (rt_desk_until(desk, &job->ask) <= sim->now)
        sim_violated(sim, "I3", "c%u: a grant of %s is told when its time is over",
                     job->client->index, line->name);
    if (!fences_grow(sim))
        forget_number(job);
    bool first = job->client->tenures[job->name].fence != job->ask.fence;
    struct sim_place place; /* those of a set share a number: another of them may be gone */
    if (first && sim->kind->gone_long != NULL &&
        sim->kind->gone_long(job->client, job->ask.fence) &&
        !sim_world_find(sim, line->name, job->ask.fence, &place))
        sim_violated(sim, "I5", "c%u was told it holds %s by %llu, which was gone long before",
                     job->client->index, line->name, (unsigned long long)job->ask.fence);
    check_pass(job);
    check_fifo(job);
    if (job->ask.mode != RT_EXCLUSIVE || sim_is_lost(sim, desk->session.id) ||
        sim_is_broken(sim, job->ask.fence))
        return;
    bool excused = sim_is_excused(sim, job->client);
    if (job->ask.fence < line->highest_told && !excused)
        sim_violated(sim, "I2", "c%u was told fence %llu of %s after %llu", job->client->index,
                     (unsigned long long)job->ask.fence, line->name,
                     (unsigned long long)line->highest_told);
    /* Whoever was told something that is now lost may have been at the resource: there it counts. */
    if (job->ask.fence > line->highest_told && (!excused || fences_grow(sim)))
        line->highest_told = job->ask.fence;
}

void sim_check_released(struct sim_job *job, int err)
{
    struct sim_client *c = job->client;
    const struct sim *sim = c->sim;
    const char *name = sim->lines[job->name].name;
    if (err != 0 && err != ROTA_LOST && err != ROTA_UNKNOWN)
        sim_violated(sim, "I5", "c%u: a release told %s", c->index, rota_strerror(err));
    if (err != 0)
        return;
    struct rt_line *line = c->lines[job->name];
    if (line != NULL && rt_line_ticket(line, job->ask.fence) != NULL)
        return; /* passed on, lingering, or held by others */
    struct sim_place t;
    if (sim_world_find(sim, name, job->ask.fence, &t) && t.session != 0 && !sim_is_excused(sim, c))
        sim_violated(sim, "I5", "c%u: released, and %llu still stands in %s", c->index,
                     (unsigned long long)job->ask.fence, name);
    c->gone[c->gone_count % SIM_GONE_MAX].number = job->ask.fence;
    c->gone[c->gone_count++ % SIM_GONE_MAX].name = job->name;
}

/* NAME NULL: not known, but another ticket of that number may be there. */
static bool is_gone(const struct sim_client *c, const char *name, uint64_t number)
{
    for (uint32_t i = 0; i < SIM_GONE_MAX && i < c->gone_count; i++) {
        const char *gone = c->sim->lines[c->gone[i].name].name;
        bool other = name != NULL && strcmp(name, gone) != 0;
        for (const struct rt_ticket *t = c->d.desk.tickets; name == NULL && t != NULL; t = t->next)
            other = other || (t->id == number && strcmp(t->line->name, gone) != 0);
        if (c->gone[i].number == number && !other)
            return true;
    }
    return false;
}

void sim_check_sent(struct sim_client *c, const struct rt_op *op)
{
    struct sim_tenure *t = asks_wanted(op) ? tenure_of(c, op->change.name, op->change.number)
                                           : NULL;
    if (t != NULL)
        t->told = false;
    if (op->kind == RT_OP_LEAVE)
        note_leaving(c, op);
    if (op->kind == RT_OP_CHANGE && is_gone(c, op->change.name, op->change.number))
        sim_violated(c->sim, "I4", "c%u changes ticket %llu after its release", c->index,
                     (unsigned long long)op->change.number);
    for (size_t i = 0; op->kind == RT_OP_BEAT && i < op->beat.ticket_count; i++)
        if (is_gone(c, NULL, op->beat.tickets[i]))
            sim_violated(c->sim, "I4", "c%u renews ticket %llu after its release", c->index,
                         (unsigned long long)op->beat.tickets[i]);
}

/* ---- The end ------------------------------------------------------------ */

static bool is_known(const struct sim *sim, const struct sim_place *place)
{
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        const struct sim_client *c = &sim->clients[i];
        if (!c->open || c->d.desk.session.id != place->session)
            continue;
        for (const struct rt_ticket *t = c->d.desk.tickets; t != NULL; t = t->next)
            if (t->id == place->number && rt_ticket_has(t, RT_TICKET_NUMBERED))
                return true;
    }
    return false;
}

/* Whatever was said to its beats meanwhile (R3). */
static void check_session(const struct sim *sim, const struct sim_client *c)
{
    const struct rt_session *s = &c->d.desk.session;
    int64_t ends;
    if (c->open && s->state == RT_SESSION_ALIVE && s->usable_until > sim->now &&
        !sim->kind->session(sim, s->id, NULL, &ends))
        sim_violated(sim, "I3", "c%u still believes in session %llu, which is gone", c->index,
                     (unsigned long long)s->id);
}

void sim_check_settled(struct sim *sim)
{
    sim->kind->sweep(sim);
    for (uint32_t i = 0; i < sim->plan.clients; i++)
        check_session(sim, &sim->clients[i]);
    for (uint32_t i = 0; i < sim->plan.names; i++) {
        struct sim_place places[SIM_PLACES_MAX];
        const char *name = sim->lines[i].name;
        size_t n = sim->kind->look(sim, name, places, SIM_PLACES_MAX);
        for (size_t k = 0; k < n; k++)
            if (places[k].session != 0 && !is_known(sim, &places[k]))
                sim_violated(sim, "I6", "ticket %llu stands in %s and nobody knows it",
                             (unsigned long long)places[k].number, name);
    }
}

void sim_check_empty(struct sim *sim)
{
    size_t left = sim->kind->left(sim);
    if (left > 0)
        sim_violated(sim, "I6", "%zu things stay behind when all have gone", left);
}
