/* SPDX-License-Identifier: Apache-2.0 */
/* The session: a lease, and a key on it whose end is the session's end.
 *
 *   open:  LeaseGrant ──▶ put +rota/LEASE ──▶ watch it
 *   renew: one keep-alive; ttl 0: gone; beside it, a client with tickets looks at the keys of the lease
 *
 * The key tells at once what a keep-alive tells late or wrongly (etcd before 3.4.38, 3.5.23, 3.6.5
 * keeps leases alive that were revoked): if deleted, the session is gone; if changed, one of its tickets
 * was broken.
 * What if the reply is lost: an `open` leaves a lease that its ttl ends. */
#include "engine/etcd/ops.h"

#include "base/bug.h"
#include "engine/kit/belief.h"

#include <stdio.h>

/* The keys of a lease are listed all at once: a client with more tickets than this looks at them less often, so
 * that a heartbeat costs the same however many it holds. */
#define LOOKED_AT_PER_BEAT 256

struct beat {
    struct rt_work work; /* first */
    struct rt_etcd_keep keep;
    uint64_t session;
    int64_t ttl_s;
    bool keeping; /* a keep-alive is under way */
};

size_t rt_etcd_session_key(struct rt_etcd_conn *c, uint64_t id, char out[RT_ETCD_KEY_MAX])
{
    const struct rt_etcd_side *s = rt_etcd_s(c);
    int n = snprintf(out, RT_ETCD_KEY_MAX, "%.*s%llx", (int)s->sessions_size, s->sessions,
                     (unsigned long long)id);
    return n > 0 && n < (int)RT_ETCD_KEY_MAX ? (size_t)n : 0;
}

int rt_etcd_ask_session(struct rt_etcd_conn *c, struct rt_work *w, uint64_t id,
                        rt_etcd_answer_fn *answer, void *owner, uint64_t extra)
{
    RtEtcd__RangeRequest range = RT_ETCD__RANGE_REQUEST__INIT;
    char key[RT_ETCD_KEY_MAX];
    range.key.len = rt_etcd_session_key(c, id, key);
    range.key.data = (uint8_t *)key;
    if (w != NULL)
        return rt_etcd_work_ask(c, w, RT_ETCD_RANGE, &range, answer, owner, extra);
    return rt_etcd_ask(c, RT_ETCD_RANGE, &range, answer, NULL, owner, extra);
}

/* ---- Its end ------------------------------------------------------------------------------------ */

static void forget(struct rt_etcd_conn *c)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    uint64_t id = s->session.id;
    rt_etcd_unwatch(c, &s->session.watch);
    s->session.id = 0;
    rt_etcd_doubts_end(s, id, 0);
    for (struct rt_etcd_ticket *t = s->tickets, *next; t != NULL; t = next) {
        next = t->next;
        if (!t->durable && t->session == id) {
            if (t->granted && t->least != NULL)
                rt_etcd_least_left(c, t, 0); /* it keeps the line until its time */
            rt_etcd_ticket_drop(c, t);
        }
    }
}

void rt_etcd_session_lost(struct rt_etcd_conn *c, uint64_t id)
{
    if (id == 0 || id != rt_etcd_s(c)->session.id)
        return;
    forget(c);
    struct rt_event event = {.kind = RT_SESSION_LOST, .session = id};
    rt_conn_event(rt_etcd_base(c), &event);
}

void rt_etcd_session_end(struct rt_etcd_conn *c)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    uint64_t id = s->session.id;
    for (const struct rt_etcd_ticket *t = s->tickets; t != NULL; t = t->next)
        if (!t->durable && t->session == id && t->lease == 0)
            return; /* it is left to die */
    if (id == 0)
        return;
    forget(c);
    rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, id);
}

/* ---- Its key -------------------------------------------------------------------------------------- */

static void on_created(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision)
{
    (void)w;
    (void)revision;
    rt_etcd_verify(c);
}

static void on_events(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision,
                      RtEtcd__Event *const *events, size_t n)
{
    (void)w;
    (void)revision;
    for (size_t i = 0; i < n && !RT_BUG(RT_BUG_KEEP_ALIVE_TRUSTED); i++)
        if (events[i]->type == RT_ETCD__EVENT__TYPE__DELETE) {
            rt_etcd_session_lost(c, rt_etcd_s(c)->session.id);
            return;
        }
    rt_etcd_verify(c);
}

static const struct rt_etcd_watch_user session_user = {on_created, on_events, NULL};

/* ---- Opening ---------------------------------------------------------------------------------------- */

static void end(struct rt_etcd_conn *c, struct beat *b, int err)
{
    if (err != 0 && b->session != 0 && b->work.op->beat.open)
        rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, b->session);
    rt_etcd_work_end(c, &b->work, err);
}

static int take_over(struct rt_etcd_conn *c, const struct beat *b)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    char key[RT_ETCD_KEY_MAX];
    size_t size = rt_etcd_session_key(c, b->session, key);
    forget(c); /* an earlier one is left to die */
    int rv = rt_etcd_watch(c, &s->session.watch, key, size, NULL, 0, 0, &session_user);
    if (rv == 0)
        s->session.id = b->session;
    s->session.doubtful = false;
    return rv;
}

static void key_put(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct beat *b = a->owner;
    struct rt_op *op = b->work.op;
    (void)reply;
    if (err == 0)
        err = take_over(c, b);
    if (err == 0) {
        op->beat.session = b->session;
        op->beat.ttl_ms = (uint32_t)(b->ttl_s * 1000);
        op->beat.allowance_ms = 0;
        rt_etcd_base(c)->ttl_ms = op->beat.ttl_ms;
    }
    end(c, b, err);
}

static void lease_granted(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct beat *b = a->owner;
    const RtEtcd__LeaseGrantResponse *got = reply;
    RtEtcd__PutRequest put = RT_ETCD__PUT_REQUEST__INIT;
    struct rt_etcd_card label = {0};
    char key[RT_ETCD_KEY_MAX];
    if (err == 0 && (got->id <= 0 || got->ttl <= 0 || got->ttl > UINT32_MAX / 1000))
        err = rt_etcd_odd(c);
    if (err == 0) {
        b->session = (uint64_t)got->id;
        b->ttl_s = got->ttl;
        put.key.len = rt_etcd_session_key(c, b->session, key);
        put.key.data = (uint8_t *)key;
        rt_etcd_label(c, &label);
        put.value.len = label.label_size;
        char text[RT_LABEL_MAX + 1];
        memcpy(text, label.label, label.label_size);
        put.value.data = (uint8_t *)text;
        put.lease = got->id;
        struct rt_etcd_ask *ask = rt_etcd_ask_new(c, RT_ETCD_PUT, &put, key_put);
        if (ask != NULL)
            ask->entry.again = true;
        err = rt_etcd_ask_for(c, ask, b->work.op, b, 0, &b->work.pending);
    }
    if (err != 0)
        end(c, b, err);
}

static int begin_open(struct rt_etcd_conn *c, struct beat *b)
{
    RtEtcd__LeaseGrantRequest grant = RT_ETCD__LEASE_GRANT_REQUEST__INIT;
    grant.ttl = rt_etcd_seconds(rt_etcd_base(c)->ttl_ms);
    return rt_etcd_work_ask(c, &b->work, RT_ETCD_LEASE_GRANT, &grant, lease_granted, b, 0);
}

/* ---- Renewing ------------------------------------------------------------------------------------------ */

static bool is_missing(void *arg, const char *name, uint64_t number)
{
    struct rt_etcd_conn *c = arg;
    return rt_etcd_ticket_find(c, name, rt_etcd_s(c)->session.id, number, 0) == NULL;
}

static void renewed(struct rt_etcd_conn *c, struct beat *b)
{
    uint64_t session = b->session;
    rt_etcd_work_end(c, &b->work, 0);
    if (session != rt_etcd_s(c)->session.id)
        return;
    rt_belief_tell_lost(rt_etcd_base(c), session, is_missing, c);
    rt_etcd_wait_catch_up(c);
    rt_observe_look_all(&rt_etcd_s(c)->observers);
}

static void key_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct beat *b = a->owner;
    const RtEtcd__RangeResponse *got = reply;
    if (err == 0 && got->n_kvs == 0) {
        err = rt_etcd_fail(c, ROTA_LOST, "session %llx has ended on the server",
                           (unsigned long long)b->session);
        if (b->session == rt_etcd_s(c)->session.id)
            forget(c);
    } else {
        err = rt_etcd_fail(c, ROTA_UNKNOWN, "session %llx was not renewed",
                           (unsigned long long)b->session);
    }
    rt_etcd_work_end(c, &b->work, err);
}

static void kept(struct rt_etcd_conn *c, struct rt_etcd_keep *k, int err, int64_t ttl_s,
                 int64_t sent_at)
{
    struct beat *b = k->owner;
    struct rt_op *op = b->work.op;
    (void)sent_at; /* not before the op was begun: the user counts from before that */
    b->keeping = false;
    if (err == 0) {
        op->beat.ttl_ms = (uint32_t)(ttl_s < UINT32_MAX / 1000 ? ttl_s * 1000 : UINT32_MAX);
        op->beat.ttl_ms = rt_etcd_least_clamp(c, op->beat.ttl_ms);
        op->beat.allowance_ms = 0;
        renewed(c, b);
    } else if (err == ROTA_LOST) {
        /* A leader that has just become one may not know all leases yet: the session's key decides. */
        if (rt_etcd_ask_session(c, &b->work, b->session, key_seen, b, 0) != 0)
            rt_etcd_work_end(c, &b->work, ROTA_UNKNOWN);
    } else {
        rt_etcd_work_end(c, &b->work, err == ROTA_UNREACHABLE ? ROTA_UNKNOWN : err);
    }
}

static void cancel_renewal(void *engine, struct rt_work *w)
{
    struct rt_etcd_conn *c = engine;
    struct beat *b = (struct beat *)(void *)w;
    if (!b->keeping) {
        (void)rt_etcd_ask_cancel(c, w->op);
        return;
    }
    rt_etcd_unkeep(c, &b->keep);
    rt_etcd_work_end(c, w, rt_etcd_fail(c, ROTA_UNKNOWN, "canceled"));
}

static void free_beat(struct rt_conn *conn, struct rt_work *w)
{
    rt_etcd_unkeep(rt_etcd_of(conn), &((struct beat *)(void *)w)->keep);
}

static bool is_time_to_look(struct rt_etcd_conn *c, size_t tickets)
{
    struct rt_etcd_session *s = &rt_etcd_s(c)->session;
    s->unseen += LOOKED_AT_PER_BEAT;
    if ((tickets == 0 && !s->doubtful) || s->unseen < tickets)
        return false;
    s->unseen = 0;
    return true;
}

static int begin_beat(void *engine, struct rt_work *w)
{
    struct rt_etcd_conn *c = engine;
    struct beat *b = (struct beat *)(void *)w;
    struct rt_op *op = w->op;
    if (op->beat.open)
        return begin_open(c, b);
    if (op->beat.session == 0 || op->beat.session != rt_etcd_s(c)->session.id)
        return rt_words_no_session(rt_etcd_base(c), op->beat.session);
    b->session = op->beat.session;
    b->keep.owner = b;
    b->keeping = true;
    rt_etcd_keep(c, &b->keep, (int64_t)b->session, op->deadline, kept);
    if (is_time_to_look(c, op->beat.ticket_count))
        rt_etcd_verify(c); /* in the same flight: it sees all that happened before this beat */
    return 0;
}

const struct rt_turn_kind rt_etcd_beat = {
    .size = sizeof(struct beat), .begin = begin_beat, .cancel = cancel_renewal, .free = free_beat};
