/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds over the engine etcd and a model etcd (server.h): what befalls it, and what is checked. */
#include "sim/calm.h"
#include "sim/etcd/truth.h"
#include "sim/invariants.h"
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

#define CROWD_CALLS \
    4000 /* of 200 asks that are begun, answered, watched and ended within a moment */
#define EXTENDED_MS 1100 /* a new leader adds an election time-out to leases */
#define LEAST_MS 5000    /* leases of at_least_ms: a margin of 3 s, and whole seconds */

/* ---- What is looked at -------------------------------------------------- */

static void trace_txn(const struct sim *sim, const char *what, const RtEtcd__TxnRequest *rq,
                      const struct es_answer *a)
{
    char text[300] = "";
    size_t n = 0;
    const RtEtcd__TxnResponse *reply = a->reply;
    bool done = reply != NULL && reply->succeeded;
    for (size_t i = 0; i < rq->n_compare && n < sizeof(text) - 1; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, " if %.*s", (int)rq->compare[i]->key.len,
                              (char *)rq->compare[i]->key.data);
    for (size_t i = 0; i < rq->n_success && n < sizeof(text) - 1; i++) {
        const RtEtcd__RequestOp *op = rq->success[i];
        const ProtobufCBinaryData *key = &op->range->key; /* the first field of all three */
        static const char *const words[] = {"", "get", "put", "delete"};
        n += (size_t)snprintf(text + n, sizeof(text) - n, " %s %.*s", words[op->request_case],
                              (int)key->len, (char *)key->data);
    }
    sim_trace(sim, NULL, "  etcd: %s%s -> %s, %lld %s",
              strrchr(what, '/') ? strrchr(what, '/') : what, text, done ? "done" : "not so",
              reply != NULL ? (long long)reply->header->revision : 0LL, a->text);
}

/* ---- What was taken out, and when --------------------------------------- */

#define GONE_MAX 512

static struct {
    int64_t seen; /* changes up to this revision were looked at */
    size_t count;
    struct {
        int64_t create, at;
    } ring[GONE_MAX];
} gone;

static void note_gone(const struct es_server *s)
{
    const struct es_store *store = &s->store;
    size_t at = store->log_count;
    while (at > 0 && store->log[at - 1].revision > gone.seen)
        at--;
    for (; at < store->log_count; at++)
        if (store->log[at].after == NULL) {
            gone.ring[gone.count % GONE_MAX].create = store->log[at].before->create;
            gone.ring[gone.count++ % GONE_MAX].at = s->net.now;
        }
}

/* ---- Whom a release wakes ----------------------------------------------- */

static const struct sim_line *line_of(const struct sim *sim, struct es_text key)
{
    for (uint32_t i = 0; i < sim->plan.names; i++) {
        size_t n = strlen(sim->lines[i].name);
        if (key.n > n && memcmp(key.at, sim->lines[i].name, n) == 0 && key.at[n] == '/')
            return &sim->lines[i];
    }
    return NULL;
}

static void on_herd(struct es_server *s, const struct es_change *change)
{
    const struct sim *sim = s->user;
    sim_violated(sim, "I8", "a release of %.*s granted %u and woke %u", (int)change->before->key.n,
                 (const char *)change->before->key.at, change->most - 1, change->told);
}

/* Whether the client that listens on C waits in that line; one that has left it and was not heard yet
 * does not count. */
static bool on_waits(struct es_server *s, const struct sim_conn *c, struct es_text key)
{
    const struct sim *sim = s->user;
    bool heard = c->stream != NULL && sim_is_calm(sim); /* else it has closed that connection */
    const struct sim_line *line = heard ? line_of(sim, key) : NULL;
    for (uint32_t i = 0; line != NULL && i < sim->plan.clients; i++)
        for (size_t k = 0; c->port == &sim->clients[i].port && k < line->witness.count; k++)
            if (line->witness.places[k].session == sim->clients[i].d.desk.session.id &&
                !line->witness.places[k].granted) {
                SIM_TRACE(sim, &sim->clients[i], "  etcd: wakes by %.*s on %p", (int)key.n,
                          (const char *)key.at, (const void *)c);
                return true;
            }
    return false;
}

/* An event and a look; at_least_ms takes a lease and two transactions more; and what was under way. */
static int64_t wakes_within(const struct sim *sim)
{
    return sim_steps_ns(&sim->plan.wire, 30);
}

/* One that was not yet told that it holds, or only just now, or never before it left: its watch may
 * not have ended. */
static bool may_watch(const struct sim *sim, const struct rt_ticket *t)
{
    return t->state == RT_TICKET_WAITING || t->state == RT_TICKET_LEAVING ||
           (t->state == RT_TICKET_HELD && sim->now - t->since < wakes_within(sim));
}

/* Whether T, which may watch, has a watch that it needs no more: it held before, or it is out of the line and its client
 * has not heard so. */
static bool watches_still(const struct sim_witness *w, const struct rt_ticket *t)
{
    for (size_t k = 0; k < w->count; k++)
        if (w->places[k].number == t->id)
            return w->places[k].granted && !w->fresh[k];
    return t->state == RT_TICKET_LEAVING;
}

/* How many tickets still watch although they do not wait. */
static uint32_t untold(const struct sim *sim, const struct sim_line *line)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        const struct sim_client *c = &sim->clients[i];
        for (const struct rt_ticket *t = c->open ? c->d.desk.tickets : NULL; t != NULL; t = t->next)
            n += strcmp(t->line->name, line->name) == 0 && may_watch(sim, t) &&
                 watches_still(&line->witness, t);
    }
    return n;
}

/* I8: a release wakes the tickets it grants and at most one more; a client that left and waits there again may hear of
 * it, too. Called after the lines were looked at. Not where others look on: they are told of everything. */
static void judge_releases(struct es_server *s)
{
    if (sim_observe > 0)
        return;
    const struct sim *sim = s->user;
    struct es_store *store = &s->store;
    size_t at = store->log_count;
    while (at > 0 && store->log[at - 1].revision > gone.seen)
        at--;
    for (; at < store->log_count; at++) {
        const struct sim_line *line = store->log[at].after == NULL
                                          ? line_of(sim, store->log[at].before->key)
                                          : NULL;
        uint64_t number = line != NULL ? (uint64_t)store->log[at].before->create : 0;
        if (line != NULL && sim_witness_released(&line->witness, number))
            es_judge(s, &store->log[at],
                     line->witness.granted + 1 + untold(sim, line) +
                         sim_witness_waits(&line->witness, number));
    }
}

/* Whether somebody alive acts for what stands on that lease. */
static bool is_somebodys(const struct sim *sim, int64_t lease)
{
    for (uint32_t i = 0; i < sim->plan.clients; i++)
        if (sim->clients[i].open && rt_desk_session(&sim->clients[i].d.desk) == (uint64_t)lease)
            return true;
    return false;
}

/* A ticket whose owner is gone hands on nothing when its turn comes: the waiter behind it finds that out with its
 * next beat. */
static int64_t harmed_until(const struct sim *sim)
{
    const struct es_server *s = sim->etcd;
    int64_t until = s->leaderless_until > s->busy_until ? s->leaderless_until : s->busy_until;
    if (s->store.full)
        return RT_NEVER;
    for (uint32_t i = 0; i < ES_MEMBERS; i++) {
        const struct es_member *m = &s->members[i];
        int64_t ends[] = {m->down_until, m->behind_until, m->frozen_until};
        for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++)
            until = ends[k] > until ? ends[k] : until;
    }
    for (size_t i = 0; i < s->store.lease_count; i++) {
        const struct es_lease *l = &s->store.leases[i];
        if (l->revoke_at > until && !is_somebodys(sim, l->id))
            until = l->revoke_at;
    }
    return until;
}

/* Only if it is known how old an answer can be. */
static bool gone_long(const struct sim_client *c, uint64_t number)
{
    const struct sim_plan *plan = &c->sim->plan;
    int64_t slack = sim_steps_ns(&plan->wire, 6);
    if (plan->outage_ms != 0 || plan->trouble[SIM_TROUBLE_CUT] != 0)
        return false;
    for (size_t i = 0; i < gone.count && i < GONE_MAX; i++)
        if (gone.ring[i].create == (int64_t)number)
            return gone.ring[i].at + slack < c->sim->now && c->resumed_at <= gone.ring[i].at;
    return false;
}

static void on_after(struct es_server *s, const char *what, const void *request,
                     const struct es_answer *answer)
{
    struct sim *sim = s->user;
    sim_counts.scripts++;
    note_gone(s);
    if (answer == NULL && !is_somebodys(sim, *(const int64_t *)request))
        sim_harm(sim, sim->now); /* see harmed_until */
    if (sim->tracing && answer == NULL)
        sim_trace(sim, NULL, "  etcd: lease %llx has ended", *(const unsigned long long *)request);
    else if (sim->tracing && strcmp(what, "/etcdserverpb.KV/Txn") == 0)
        trace_txn(sim, what, request, answer);
    else if (sim->tracing)
        sim_trace(sim, NULL, "  etcd: %s %s", what, answer->text);
    sim_check_lines(sim, answer != NULL ? SIM_ANYBODY : 0);
    judge_releases(s);
    gone.seen = s->store.revision;
}

/* ---- What befalls it ---------------------------------------------------- */

static int64_t a_while(struct sim *sim, uint32_t ms)
{
    return sim->now + 1 + sim_spread_ns(&sim->random, ms * 500);
}

static void lose_leader(struct sim *sim)
{
    bool frozen = sim_chance(&sim->random, 700);
    int64_t until = a_while(sim, 3000);
    int64_t thaws = frozen
                        ? a_while(sim, sim_chance(&sim->random, 500) ? 3000 : 2 * sim->plan.ttl_ms)
                        : 0;
    SIM_TRACE(sim, NULL, "etcd has no leader until %.6f; the last is %s until %.6f",
              (double)until / 1e9, frozen ? "frozen" : "gone", (double)thaws / 1e9);
    es_server_lose_leader(sim->etcd, until, thaws);
    sim_counts.losses++;
}

static void lose_member(struct sim *sim, bool down)
{
    struct es_server *s = sim->etcd;
    uint32_t member = sim_below(&sim->random, ES_MEMBERS);
    int64_t until = a_while(sim, sim_chance(&sim->random, 500) ? 500 : sim->plan.ttl_ms);
    for (uint32_t i = 0; down && i < ES_MEMBERS; i++)
        if (s->members[i].down_until > sim->now)
            return; /* the other two are a majority */
    SIM_TRACE(sim, NULL, "member %u of etcd is %s until %.6f", member, down ? "down" : "behind",
              (double)until / 1e9);
    if (down)
        es_server_take_down(s, member, until);
    else
        es_server_fall_behind(s, member, until);
}

static void refuse(struct sim *sim)
{
    struct es_server *s = sim->etcd;
    if (sim_chance(&sim->random, 500)) {
        s->store.full = !s->store.full;
        SIM_TRACE(sim, NULL, "etcd has %s", s->store.full ? "no space" : "space again");
        return;
    }
    s->busy_until = a_while(sim, sim->plan.ttl_ms / 2);
    SIM_TRACE(sim, NULL, "etcd is too busy until %.6f", (double)s->busy_until / 1e9);
}

static void outage(struct sim *sim)
{
    switch (sim_pick_weighted(sim, sim->plan.outage, SIM_ETCD_OUTAGE_KINDS)) {
    case SIM_ETCD_LEADER:
        lose_leader(sim);
        break;
    case SIM_ETCD_DOWN:
        lose_member(sim, true);
        break;
    case SIM_ETCD_BEHIND:
        lose_member(sim, false);
        break;
    case SIM_ETCD_COMPACTS:
        SIM_TRACE(sim, NULL, "etcd compacts");
        es_server_compact(sim->etcd, sim_below(&sim->random, 1000));
        break;
    case SIM_ETCD_WATCHES:
        SIM_TRACE(sim, NULL, "etcd ends all streams of watches");
        es_server_end_watches(sim->etcd);
        break;
    case SIM_ETCD_REFUSES:
        refuse(sim);
        break;
    default:
        break;
    }
}

/* By hand, or by a leader that was frozen and goes on (#15247). */
static void kill_session(struct sim *sim)
{
    struct es_server *s = sim->etcd;
    if (s->store.lease_count == 0 || sim->lost_session_count == SIM_TAINTS_MAX ||
        sim->broken_count + s->store.count > SIM_TAINTS_MAX)
        return;
    int64_t id = s->store.leases[sim_below(&sim->random, (uint32_t)s->store.lease_count)].id;
    SIM_TRACE(sim, NULL, "lease %llx is revoked", (unsigned long long)id);
    sim_taint(sim->lost_sessions, &sim->lost_session_count, (uint64_t)id);
    for (size_t i = 0; i < s->store.count; i++) /* at_least_ms: a ticket's own lease */
        if (s->store.kvs[i]->lease == id)
            sim_taint(sim->broken, &sim->broken_count, (uint64_t)s->store.kvs[i]->create);
    es_server_revoke(s, id);
}

static void heal(struct sim *sim)
{
    es_server_heal(sim->etcd);
}

/* ---- The kind ----------------------------------------------------------- */

/* An old answer does not know of it (#20418). Or it is on a lease of its own that ends soon, and could not be put
 * back on its session's, or nobody heard that it was: it is declared lost before that lease ends. */
static bool inexact(const struct sim *sim, const char *name, uint64_t number)
{
    int64_t soon = sim->now + (sim->plan.ttl_ms + EXTENDED_MS) * RT_MS;
    return sim->plan.stale != 0 || es_truth_own_end(sim->etcd, name, number) < soon;
}

static void on_open(struct sim *sim)
{
    static struct es_server etcd;
    static uint64_t version; /* of no other world's */
    struct sim_random aside = sim->random;
    version += 1u << 20;
    sim_plan_draw_etcd(&sim->plan, &aside);
    es_server_open(&etcd, sim_next(&aside));
    etcd.version = version;
    etcd.net.faults = sim->plan.wire;
    etcd.clock_ppm = sim->plan.clock_ppm;
    etcd.stale = sim->plan.stale;
    etcd.lies = sim->plan.lies;
    etcd.crowd = sim_crowd ? CROWD_CALLS : 0;
    etcd.expiry_late_ms = sim->plan.expiry_late_ms;
    etcd.after = on_after;
    etcd.herd = on_herd;
    etcd.waits = on_waits;
    etcd.user = sim;
    gone.seen = etcd.store.revision;
    gone.count = 0;
    es_server_run(&etcd, sim->now);
    sim->etcd = &etcd;
    sim->net = &etcd.net;
}

static void on_close(struct sim *sim)
{
    es_server_close(sim->etcd);
}

static const char *url(const struct sim_client *c)
{
    static const char *const urls[] = {
        "etcd://10.0.0.1,10.0.0.2,10.0.0.3",
        "etcd://10.0.0.2,10.0.0.3,10.0.0.1",
        "etcd://10.0.0.3,10.0.0.1",
    };
    return urls[c->index % 3];
}

static size_t look(const struct sim *sim, const char *name, struct sim_place *out, size_t most)
{
    return es_truth_look(sim->etcd, name, out, most);
}

static bool session(const struct sim *sim, uint64_t id, const char *name, int64_t *ends)
{
    (void)name;
    return es_truth_session(sim->etcd, id, ends);
}

static void run(struct sim *sim)
{
    es_server_run(sim->etcd, sim->now);
    if (sim->etcd->flooded)
        sim_violated(sim, "liveness", "a client asks etcd as fast as it answers");
}

static int64_t next(const struct sim *sim)
{
    return es_server_next(sim->etcd);
}

static void expire(struct sim *sim, int64_t ms)
{
    es_server_run(sim->etcd, sim->now);
    es_truth_expire(sim->etcd, ms + EXTENDED_MS + LEAST_MS);
}

static size_t left(const struct sim *sim)
{
    return es_truth_left(sim->etcd);
}

static void dump(const struct sim *sim)
{
    const struct es_store *s = &sim->etcd->store;
    sim_trace(sim, NULL, "etcd revision %lld compacted %lld", (long long)s->revision,
              (long long)s->compacted);
    for (size_t i = 0; i < s->lease_count; i++)
        sim_trace(sim, NULL, "etcd lease %llx of %lld s ends %.6f, noticed %.6f",
                  (unsigned long long)s->leases[i].id, (long long)s->leases[i].ttl_s,
                  (double)s->leases[i].ends / 1e9, (double)s->leases[i].revoke_at / 1e9);
    for (size_t i = 0; i < s->count; i++)
        sim_trace(sim, NULL, "etcd key %.*s created %lld changed %lld lease %llx: %.*s",
                  (int)s->kvs[i]->key.n, (const char *)s->kvs[i]->key.at,
                  (long long)s->kvs[i]->create, (long long)s->kvs[i]->mod,
                  (unsigned long long)s->kvs[i]->lease, (int)s->kvs[i]->value.n,
                  (const char *)s->kvs[i]->value.at);
}

const struct sim_kind sim_etcd = {
    .name = "etcd",
    .exact = true,
    .inexact = inexact,
    .open = on_open,
    .close = on_close,
    .look = look,
    .session = session,
    .sweep = run,
    .expire = expire,
    .left = left,
    .dump = dump,
    .kill_session = kill_session,
    .wakes_within = wakes_within,
    .harmed_until = harmed_until,
    .gone_long = gone_long,
    .url = url,
    .run = run,
    .next = next,
    .outage = outage,
    .heal = heal,
};
