/* SPDX-License-Identifier: Apache-2.0 */
/* JOIN and JOIN_ALL: one transaction puts the tickets, all with one revision, and looks at their lines.
 *
 *   [leases of their own] ──▶ put ──▶ all stand ──▶ [at_least: secured] ──▶ done, those not granted wait
 *                              │ ▲        └── of another kind: taken back
 *                              ▼ │
 *                     the line is not as guarded: look, decide (BUSY, INVALID), guard anew
 *
 * Sets of more than FRONTS_MAX names look in a separate transaction, after the put.
 *
 * A leased ticket is put whatever the line holds, and taken back if it does not fit: one flight in nearly
 * every case. A try, and a durable ticket, which nobody would take out if we died, are put only if the line
 * is still as it was when we decided.
 * What if the reply is lost: the key or its value has the nonce; when asked again, it is found there. A spot
 * where something else of ours stands (a JOIN that came late) is left alone: the ticket gets its own key. */
#include "engine/etcd/ops.h"

#include "base/alloc.h"
#include "core/grant.h"

#include <assert.h>

#define TRIES 200       /* of a guarded put while others come and go */
#define FULL_LOOK_MAX 1 /* joins whose whole line is read with the put */
#define FRONTS_MAX (RT_ETCD_OPS_MAX / 2)

enum guard { GUARD_NONE, GUARD_EMPTY, GUARD_FRONT, GUARD_OLDER };

struct one {
    struct rt_join *join;
    struct rt_etcd_ticket *ticket; /* not in the table until the end */
    enum guard guard;
    int64_t lease;        /* of its own; 0: none */
    uint64_t number;      /* 0: not there */
    bool granted, looked; /* looked: `granted` is certain, and `aim` is what to watch if not */
    struct rt_etcd_aim aim;
    bool wanted;
    /* GUARD_FRONT */
    uint64_t front;
    size_t front_size;
    char *front_key;
};

struct joining {
    struct rt_work work; /* first */
    size_t n, secured;
    uint32_t tries;
    int64_t revision; /* GUARD_OLDER: the line as of then */
    bool durable, attempt;
    bool effect; /* something was done: from now on no definite error, but UNKNOWN */
    bool put;    /* the last try put them all; else they were found, or not */
    struct one ones[];
};

static struct joining *joining_of(struct rt_work *w)
{
    return (struct joining *)(void *)w;
}

static void free_joining(struct rt_conn *conn, struct rt_work *w)
{
    struct joining *j = joining_of(w);
    struct rt_etcd_conn *c = rt_etcd_of(conn);
    for (size_t i = 0; i < j->n; i++) {
        if (j->ones[i].ticket != NULL)
            rt_etcd_least_end(c, j->ones[i].ticket);
        rt_free(j->ones[i].ticket);
        rt_free(j->ones[i].front_key);
    }
}

static bool looks_fully(const struct joining *j)
{
    return j->n <= FULL_LOOK_MAX;
}

/* Whether there is room for looks beside the puts, and for two conditions each. */
static bool sees_fronts(const struct joining *j)
{
    return j->n <= FRONTS_MAX;
}

/* Whether only the front and the one ahead decide. */
static bool is_simple(const struct one *one)
{
    return one->join->mode == RT_EXCLUSIVE;
}

/* ---- Checks ----------------------------------------------------------------------------------- */

static int check_all(struct rt_etcd_conn *c, const struct rt_work *w)
{
    const struct rt_op *op = w->op;
    int rv = rt_check_joins(rt_etcd_base(c), op);
    for (size_t i = 0; i < op->join.n && rv == 0; i++)
        rv = rt_etcd_check_name(c, op->join.joins[i].name);
    if (rv == 0)
        rv = rt_check_session(rt_etcd_base(c), op, rt_etcd_s(c)->session.id);
    if (rv != 0)
        return rv;
    if (op->join.n > RT_ETCD_OPS_MAX)
        return rt_etcd_fail(c, ROTA_INVALID, "a set has at most %d names", RT_ETCD_OPS_MAX);
    if (rt_turn_names(w) != op->join.n)
        return rt_etcd_fail(c, ROTA_INVALID, "a set names one line twice");
    return 0;
}

/* Whether a ticket of this kind may stand behind FRONT. */
static int check_kind(struct rt_etcd_conn *c, const struct rt_join *join,
                      const struct rt_etcd_card *front)
{
    if (front->newer)
        return rt_etcd_fail(c, ROTA_UNSUPPORTED, "%.120s has tickets of a later layout: upgrade",
                            join->name);
    if (rt_grant_same_kind(front->mode, front->of, join->mode, join->of))
        return 0;
    return rt_words_other_kind(rt_etcd_base(c), join, front->mode, front->of);
}

static int fail_busy(struct rt_etcd_conn *c, const struct rt_join *join,
                     const RtEtcd__KeyValue *front)
{
    struct rt_etcd_card card;
    if (front == NULL)
        return rt_words_busy(rt_etcd_base(c), join->name, NULL, 0);
    rt_etcd_card_read(&card, front->value.data, front->value.len);
    if (card.label_size == 0 && front->lease == 0)
        return rt_etcd_fail(c, ROTA_BUSY, "%.100s is held by a key without a lease: %.*s",
                            join->name, front->key.len < 100 ? (int)front->key.len : 100,
                            (const char *)front->key.data);
    if (card.label_size == 0)
        return rt_etcd_fail(c, ROTA_BUSY, "%.100s is held by lease %llx", join->name,
                            (unsigned long long)front->lease);
    return rt_words_busy(rt_etcd_base(c), join->name, (const char *)card.label, card.label_size);
}

/* ---- Sending ------------------------------------------------------------------------------------- */

static size_t write_card(struct rt_etcd_conn *c, const struct one *one, char *out)
{
    const struct rt_join *join = one->join;
    struct rt_etcd_card card = {.mode = join->mode,
                                .take = join->take,
                                .of = join->of,
                                .owner = join->owner,
                                .since_ms = rt_etcd_wall_ms(),
                                .nonce = join->nonce,
                                .plain = one->ticket->plain};
    if (join->flags & RT_JOIN_DETECT)
        card.flags |= RT_ETCD_CARD_DETECT;
    if (join->value != NULL) {
        card.value = (const uint8_t *)join->value;
        card.value_size = strlen(join->value);
    }
    rt_etcd_label(c, &card);
    return rt_etcd_card_write(&card, out);
}

static void add_put(struct rt_etcd_conn *c, struct rt_etcd_txn *t, const struct one *one)
{
    char card[RT_ETCD_CARD_MAX];
    size_t size = write_card(c, one, card);
    RtEtcd__PutRequest *put = rt_etcd_put(t, RT_ETCD_THEN, one->ticket->key, one->ticket->key_size);
    rt_etcd_put_value(t, put, card, size);
    if (one->lease != 0)
        put->lease = one->lease;
    else if (!one->ticket->durable)
        put->lease = (int64_t)one->join->session;
}

/* What to read of the line, in either branch: its front, with the one behind it, or the whole line. */
static void add_looks(struct rt_etcd_txn *t, enum rt_etcd_branch b, const struct joining *j,
                      const struct one *one)
{
    RtEtcd__RangeRequest *range = rt_etcd_get_line(t, b, one->join->name);
    if (is_simple(one) && looks_fully(j))
        range->limit = 2;
    else if (is_simple(one) || one->join->mode == RT_COUNT || (!looks_fully(j) && !j->attempt))
        range->limit = 1;
}

static void add_guard(struct rt_etcd_txn *t, const struct joining *j, const struct one *one)
{
    const char *key = one->ticket->key;
    if (one->guard == GUARD_EMPTY) {
        rt_etcd_if_line_empty(t, one->join->name);
        return;
    }
    if (one->guard == GUARD_OLDER)
        rt_etcd_if_line_older(t, one->join->name, j->revision);
    else if (one->guard == GUARD_FRONT)
        rt_etcd_if_created(t, one->front_key, one->front_size, one->front);
    if (one->guard != GUARD_OLDER || sees_fronts(j)) /* it was absent then, and nobody came since */
        rt_etcd_if_absent(t, key, one->ticket->key_size);
}

/* Otherwise only tickets of an earlier try can be in the way of a put, which is rare: then a
 * separate look follows. */
static bool is_guarded(const struct joining *j)
{
    for (size_t i = 0; i < j->n; i++)
        if (j->ones[i].guard != GUARD_NONE)
            return true;
    return false;
}

static rt_etcd_answer_fn put_answered;

static int send_put(struct rt_etcd_conn *c, struct joining *j)
{
    struct rt_etcd_txn t;
    rt_etcd_txn_open(c, &t, 2 * j->n, 3 * j->n, 3 * j->n);
    for (size_t i = 0; i < j->n; i++)
        add_guard(&t, j, &j->ones[i]);
    for (size_t i = 0; i < j->n; i++) {
        add_put(c, &t, &j->ones[i]);
        (void)rt_etcd_get(&t, RT_ETCD_ELSE, j->ones[i].ticket->key, j->ones[i].ticket->key_size);
    }
    for (size_t i = 0; sees_fronts(j) && i < j->n; i++) {
        add_looks(&t, RT_ETCD_THEN, j, &j->ones[i]);
        if (is_guarded(j))
            add_looks(&t, RT_ETCD_ELSE, j, &j->ones[i]);
    }
    return rt_etcd_work_txn(c, &j->work, &t, put_answered, j);
}

static rt_etcd_answer_fn looks_answered;

static int send_looks(struct rt_etcd_conn *c, struct joining *j)
{
    struct rt_etcd_txn t;
    rt_etcd_txn_open(c, &t, 0, 2 * j->n, 0);
    for (size_t i = 0; i < j->n; i++)
        add_looks(&t, RT_ETCD_THEN, j, &j->ones[i]);
    return rt_etcd_work_txn(c, &j->work, &t, looks_answered, j);
}

/* ---- Ends ------------------------------------------------------------------------------------------ */

static void revoke_leases(struct rt_etcd_conn *c, struct joining *j)
{
    for (size_t i = 0; i < j->n; i++) {
        if (j->ones[i].lease != 0)
            rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)j->ones[i].lease);
        j->ones[i].lease = 0;
    }
}

/* They may stand, or come to stand, where they were put. */
static void doubt_all(struct rt_etcd_conn *c, struct joining *j)
{
    for (size_t i = 0; i < j->n; i++) {
        struct one *one = &j->ones[i];
        if (one->ticket == NULL || one->ticket->durable) /* those have keys by their nonce */
            continue;
        rt_etcd_least_end(c, one->ticket);
        rt_etcd_doubts_end(rt_etcd_s(c), one->ticket->session, one->ticket->nonce);
        rt_etcd_ticket_doubt(c, one->ticket);
        one->ticket = NULL;
    }
}

/* Fails with ERR, for which errmsg is set. None of the tickets stands in a line, or that is not known. */
static void fail(struct rt_etcd_conn *c, struct joining *j, int err)
{
    if (j->effect && err != ROTA_LOST)
        err = ROTA_UNKNOWN;
    if (err == ROTA_UNKNOWN)
        doubt_all(c, j); /* leases too: one without a ticket ends by itself */
    else
        revoke_leases(c, j);
    bool lost = err == ROTA_LOST && !j->durable;
    uint64_t session = j->work.op->join.joins[0].session;
    rt_etcd_work_end(c, &j->work, err);
    if (lost && rt_etcd_s(c)->session.id == session)
        rt_etcd_verify(c);
}

static void undo_answered(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct joining *j = a->owner;
    (void)reply; /* it is gone, by this or before */
    if (err != 0)
        rt_work_note(rt_etcd_base(c), &j->work,
                     rt_etcd_fail(c, ROTA_UNKNOWN,
                                  "a ticket of another kind is "
                                  "still to be taken back"));
    if (j->work.pending > 0)
        return;
    if (j->work.err != ROTA_UNKNOWN)
        revoke_leases(c, j);
    rt_etcd_work_end(c, &j->work, 0);
}

/* Takes all back, then ends with ERR, which is noted. One by one: each only if it is that very ticket. */
static void undo(struct rt_etcd_conn *c, struct joining *j, int err)
{
    rt_work_note(rt_etcd_base(c), &j->work, err);
    for (size_t i = 0; i < j->n; i++) {
        const struct rt_etcd_ticket *ticket = j->ones[i].ticket;
        struct rt_etcd_txn t;
        rt_etcd_txn_open(c, &t, 1, 1, 0);
        rt_etcd_if_created(&t, ticket->key, ticket->key_size, j->ones[i].number);
        rt_etcd_delete(&t, RT_ETCD_THEN, ticket->key, ticket->key_size);
        if (rt_etcd_work_txn(c, &j->work, &t, undo_answered, j) != 0)
            rt_work_note(rt_etcd_base(c), &j->work, rt_etcd_fail(c, ROTA_UNKNOWN, "out of memory"));
    }
    if (j->work.pending == 0)
        rt_etcd_work_end(c, &j->work, 0);
}

/* They stand: the tickets are ours from now on, then the op ends, then those not granted wait. The aims
 * point into the reply. */
static void finish(struct rt_etcd_conn *c, struct joining *j)
{
    struct rt_etcd_ticket *own[1], **tickets = own;
    struct rt_etcd_aim aim = {.kind = RT_ETCD_AIM_NONE};
    size_t n = j->n;
    bool looked = n == 1 && j->ones[0].looked;
    if (n > 1)
        tickets = rt_alloc(n * sizeof(struct rt_etcd_ticket *));
    if (looked)
        aim = j->ones[0].aim;
    for (size_t i = 0; i < n; i++) {
        struct one *one = &j->ones[i];
        struct rt_etcd_ticket *t = one->ticket;
        struct rt_etcd_ticket *old = rt_etcd_ticket_of_key(c, t->key, t->key_size);
        if (old != NULL)
            rt_etcd_ticket_drop(c, old); /* of an earlier try */
        t->number = one->number;
        t->granted = one->granted;
        if (one->lease != 0)
            t->lease = one->lease;
        t->wanted = one->wanted;
        one->ticket = NULL;
        rt_etcd_doubts_end(rt_etcd_s(c), t->session, t->nonce);
        rt_etcd_ticket_add(c, t);
        if (tickets != NULL)
            tickets[i] = t;
        one->join->number = one->number;
        one->join->granted = one->granted;
        one->join->wanted = one->granted && one->wanted && t->armed;
    }
    rt_etcd_work_end(c, &j->work, 0);
    for (size_t i = 0; tickets != NULL && i < n; i++) { /* without memory: with the next BEAT */
        if (!tickets[i]->granted)
            rt_etcd_wait_begin(c, tickets[i], looked ? &aim : NULL);
        else if (tickets[i]->armed && !tickets[i]->wanted)
            rt_etcd_arm(c, tickets[i]);
    }
    if (tickets != own)
        rt_free(tickets);
}

static bool needs_least(const struct one *one)
{
    return one->granted && one->join->at_least_ms > 0 && !one->ticket->durable;
}

static void secured(struct rt_etcd_conn *c, void *arg, int err)
{
    struct joining *j = arg;
    j->work.pending--;
    rt_work_note(rt_etcd_base(c), &j->work, err != 0 ? ROTA_UNKNOWN : 0);
    if (j->work.pending > 0)
        return;
    if (j->work.err != 0)
        rt_etcd_work_end(c, &j->work, 0);
    else
        finish(c, j);
}

/* at_least_ms: granted tickets are put on leases of their own before anybody hears of the grant. */
static void settle(struct rt_etcd_conn *c, struct joining *j)
{
    bool any = false;
    for (size_t i = 0; i < j->n; i++)
        any = any || needs_least(&j->ones[i]);
    if (!any) {
        finish(c, j);
        return;
    }
    j->effect = true;
    j->work.pending++; /* none of them is the last before all are begun */
    for (size_t i = 0; i < j->n; i++) {
        struct one *one = &j->ones[i];
        one->looked = false; /* the reply will be gone */
        if (!needs_least(one))
            continue;
        one->ticket->number = one->number;
        j->work.pending++;
        rt_etcd_least_take(c, one->ticket, j->work.op, secured, j);
    }
    secured(c, j, 0);
}

/* ---- Reading ---------------------------------------------------------------------------------------- */

/* All of the line is known. */
static int read_full(struct rt_etcd_conn *c, struct one *one, const RtEtcd__RangeResponse *all)
{
    struct rt_etcd_line *line = &rt_etcd_s(c)->line;
    if (rt_etcd_line_read(line, all->kvs, all->n_kvs) != 0)
        return rt_etcd_fail(c, ROTA_UNKNOWN, "out of memory");
    const struct rt_etcd_place *place = rt_etcd_line_find(line, one->number);
    if (place == NULL)
        return rt_etcd_odd(c);
    one->granted = place->granted;
    one->wanted = line->waiting > 0;
    one->aim = rt_etcd_line_aim(line, place);
    one->looked = true;
    return 0;
}

/* The first two: a ticket that is neither finds the one ahead by its own look, while it waits. */
static void read_simple(struct one *one, const RtEtcd__RangeResponse *first)
{
    const RtEtcd__KeyValue *second = first->n_kvs > 1 ? first->kvs[1] : NULL;
    one->wanted = one->granted && second != NULL;
    one->looked = one->granted;
    if (!one->granted && second != NULL && (uint64_t)second->create_revision == one->number) {
        one->aim = (struct rt_etcd_aim){RT_ETCD_AIM_KEY, first->kvs[0], false};
        one->looked = true;
    }
}

/* How ONE stands, its number known, according to the looks from AT on. */
static int read_stand(struct rt_etcd_conn *c, const struct joining *j, struct one *one,
                      const RtEtcd__TxnResponse *reply, size_t at)
{
    one->granted = one->join->mode == RT_COUNT;
    one->looked = one->wanted = false;
    const RtEtcd__RangeResponse *seen = rt_etcd_got(reply, at);
    if (seen != NULL && seen->n_kvs == 0 && (!sees_fronts(j) || !j->put))
        return 0; /* gone since: whoever waits finds out */
    if (seen == NULL || seen->n_kvs == 0)
        return rt_etcd_odd(c);
    const RtEtcd__KeyValue *front = seen->kvs[0];
    if ((uint64_t)front->create_revision != one->number) {
        struct rt_etcd_card card;
        rt_etcd_card_read(&card, front->value.data, front->value.len);
        int rv = check_kind(c, one->join, &card);
        if (rv != 0)
            return rv;
    } else if (one->join->mode != RT_GATHER) {
        one->granted = true;
    }
    if (is_simple(one) && looks_fully(j))
        read_simple(one, seen);
    if (!is_simple(one) && looks_fully(j) && one->join->mode != RT_COUNT)
        return read_full(c, one, seen);
    return 0;
}

/* All stand in their lines, just put or found; the looks are from AT on. */
static void all_stand(struct rt_etcd_conn *c, struct joining *j, const RtEtcd__TxnResponse *reply,
                      size_t at)
{
    for (size_t i = 0; i < j->n; i++) {
        struct one *one = &j->ones[i];
        int rv = read_stand(c, j, one, reply, at);
        at++;
        if (rv == ROTA_UNKNOWN) {
            fail(c, j, rv);
            return;
        }
        if (rv != 0) {
            undo(c, j, rv);
            return;
        }
        if (j->attempt) /* as guarded when it was put, now or by a try whose answer was lost */
            one->granted = one->join->mode != RT_GATHER;
    }
    settle(c, j);
}

/* Whether there is room for one more behind those already there. */
static bool has_room(const struct rt_etcd_line *line, const struct rt_join *join)
{
    struct rt_grant g;
    rt_grant_init(&g, 0);
    if (line->waiting > 0 && join->mode != RT_COUNT)
        return false;
    for (size_t i = 0; i < line->count; i++) {
        const struct rt_etcd_card *card = &line->places[i].card;
        if (card->mode != RT_GATHER)
            (void)rt_grant_next(&g, card->mode, card->take, card->of, false);
    }
    return join->mode != RT_GATHER &&
           rt_grant_next(&g, join->mode, join->take, join->of, false) == RT_GRANT_HOLDS;
}

/* The line was not as guarded: what now? */
static int decide_one(struct rt_etcd_conn *c, struct joining *j, struct one *one,
                      const RtEtcd__RangeResponse *seen)
{
    struct rt_etcd_line *line = &rt_etcd_s(c)->line;
    if (seen == NULL)
        return rt_etcd_odd(c);
    one->guard = GUARD_EMPTY;
    if (seen->n_kvs == 0)
        return 0;
    const RtEtcd__KeyValue *front = seen->kvs[0];
    struct rt_etcd_card card;
    rt_etcd_card_read(&card, front->value.data, front->value.len);
    int rv = check_kind(c, one->join, &card);
    if (rv != 0)
        return rv;
    if (j->attempt && is_simple(one))
        return fail_busy(c, one->join, front);
    if (j->attempt) {
        if (rt_etcd_line_read(line, seen->kvs, seen->n_kvs) != 0)
            return rt_words_nomem(rt_etcd_base(c));
        one->guard = GUARD_OLDER;
        return has_room(line, one->join) ? 0 : fail_busy(c, one->join, front);
    }
    if (!sees_fronts(j)) {
        one->guard = GUARD_OLDER;
        return 0;
    }
    rt_free(one->front_key);
    one->front_key = rt_alloc(front->key.len + 1);
    if (one->front_key == NULL)
        return rt_words_nomem(rt_etcd_base(c));
    one->guard = GUARD_FRONT;
    one->front = (uint64_t)front->create_revision;
    one->front_size = front->key.len;
    memcpy(one->front_key, front->key.data, front->key.len);
    return 0;
}

static int decide(struct rt_etcd_conn *c, struct joining *j, const RtEtcd__TxnResponse *reply,
                  size_t at)
{
    if (++j->tries > TRIES)
        return rt_etcd_fail(c, ROTA_UNREACHABLE, "%.120s changes all the time",
                            j->ones[0].join->name);
    j->revision = rt_etcd_revision(reply->header);
    for (size_t i = 0; i < j->n; i++) {
        struct one *one = &j->ones[i];
        int rv = decide_one(c, j, one, rt_etcd_got(reply, at));
        if (rv != 0)
            return rv;
        at++;
    }
    return send_put(c, j);
}

static bool is_of(const struct one *one, const RtEtcd__KeyValue *kv)
{
    struct rt_etcd_card card;
    struct rt_etcd_id id = {0};
    size_t name_size;
    (void)rt_etcd_key_read(kv->key.data, kv->key.len, &name_size, &id);
    rt_etcd_card_read(&card, kv->value.data, kv->value.len);
    return id.spot == 0 || card.nonce == one->join->nonce;
}

/* How many tickets of an earlier try are there; sets their numbers. *TAKEN: spots where another ticket stands. */
static size_t find_all(struct joining *j, const RtEtcd__TxnResponse *reply, size_t *taken)
{
    size_t found = 0;
    for (size_t i = 0; i < j->n; i++) {
        struct one *one = &j->ones[i];
        const RtEtcd__RangeResponse *got = rt_etcd_got(reply, i);
        const RtEtcd__KeyValue *kv = got != NULL && got->n_kvs > 0 ? got->kvs[0] : NULL;
        bool ours = kv != NULL && is_of(one, kv);
        one->number = ours ? (uint64_t)kv->create_revision : 0;
        found += ours;
        *taken += kv != NULL && !ours;
    }
    return found;
}

/* The looks of REPLY, from AT on, say how the FOUND ones stand, or what to do. */
static void judge(struct rt_etcd_conn *c, struct joining *j, const RtEtcd__TxnResponse *reply,
                  size_t at, size_t found)
{
    if (found == j->n) {
        all_stand(c, j, reply, at);
        return;
    }
    int rv = decide(c, j, reply, at);
    if (rv != 0)
        fail(c, j, rv);
}

static void looks_answered(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err,
                           const void *reply)
{
    struct joining *j = a->owner;
    size_t found = j->ones[0].number != 0 ? j->n : 0;
    if (err == 0)
        judge(c, j, reply, 0, found);
    else
        fail(c, j, found > 0 ? ROTA_UNKNOWN : err);
}

static int make_tickets(struct rt_etcd_conn *c, struct joining *j, bool once);

/* None of them was put, so they get keys of their own. The spots stay as they are, so that a JOIN that is
 * asked again finds itself where it was. */
static int put_elsewhere(struct rt_etcd_conn *c, struct joining *j)
{
    rt_etcd_s(c)->session.doubtful = true; /* nobody knows of what stands there */
    int rv = make_tickets(c, j, true);
    return rv != 0 ? rv : send_put(c, j);
}

static void put_answered(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct joining *j = a->owner;
    const RtEtcd__TxnResponse *got = reply;
    if (a->entry.was_again) /* what went astray may arrive after its LEAVE */
        rt_etcd_s(c)->session.doubtful = true;
    if (err != 0) {
        fail(c, j, err);
        return;
    }
    size_t found = 0, taken = 0;
    j->put = got->succeeded;
    if (got->succeeded) {
        int64_t revision = rt_etcd_revision(got->header);
        for (size_t i = 0; i < j->n; i++)
            j->ones[i].number = (uint64_t)revision;
        found = revision > 0 ? j->n : 0;
        if (found == 0) {
            fail(c, j, rt_etcd_odd(c));
            return;
        }
    } else {
        found = find_all(j, got, &taken);
    }
    if (found > 0 && found < j->n) {
        fail(c, j, rt_words_set_ended(rt_etcd_base(c)));
    } else if (taken > 0) {
        err = put_elsewhere(c, j);
        if (err != 0)
            fail(c, j, err);
    } else if (sees_fronts(j) && (got->succeeded || is_guarded(j))) {
        judge(c, j, got, j->n, found);
    } else {
        err = send_looks(c, j);
        if (err != 0)
            fail(c, j, found > 0 ? ROTA_UNKNOWN : err);
    }
}

/* ---- Beginning ---------------------------------------------------------------------------------------- */

static void lease_answered(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err,
                           const void *reply)
{
    struct joining *j = a->owner;
    const RtEtcd__LeaseGrantResponse *got = reply;
    if (err == 0)
        j->ones[a->extra].lease = got->id;
    if (err == ROTA_UNKNOWN) /* a lease is no ticket: if granted after all, it ends by itself */
        err = a->entry.given_up ? a->entry.err : ROTA_UNREACHABLE;
    rt_work_note(rt_etcd_base(c), &j->work, err);
    if (j->work.pending > 0)
        return;
    if (j->work.err == 0)
        rt_work_note(rt_etcd_base(c), &j->work, send_put(c, j));
    if (j->work.pending > 0)
        return;
    revoke_leases(c, j); /* nothing was put */
    rt_etcd_work_end(c, &j->work, 0);
}

static int ask_lease(struct rt_etcd_conn *c, struct joining *j, size_t i)
{
    RtEtcd__LeaseGrantRequest grant = RT_ETCD__LEASE_GRANT_REQUEST__INIT;
    grant.ttl = rt_etcd_seconds(j->ones[i].join->until_ms);
    return rt_etcd_work_ask(c, &j->work, RT_ETCD_LEASE_GRANT, &grant, lease_answered, j, i);
}

/* ONCE: with keys that no others ever have. */
static int make_tickets(struct rt_etcd_conn *c, struct joining *j, bool once)
{
    for (size_t i = 0; i < j->n; i++) {
        struct one *one = &j->ones[i];
        const struct rt_join *join = one->join;
        bool plain = join->value != NULL && join->mode == RT_EXCLUSIVE && !j->durable &&
                     !(join->flags & RT_JOIN_DETECT) && join->at_least_ms == 0 &&
                     rt_etcd_plain_fits(join->value);
        rt_free(one->ticket);
        one->ticket = rt_etcd_ticket_new(c, join, once || plain || join->at_least_ms > 0);
        if (one->ticket == NULL)
            return rt_words_nomem(rt_etcd_base(c));
        one->ticket->plain = plain;
    }
    return 0;
}

static int prepare(struct rt_etcd_conn *c, struct joining *j)
{
    const struct rt_op *op = j->work.op;
    j->durable = op->join.joins[0].flags & RT_JOIN_DURABLE;
    j->attempt = op->join.joins[0].flags & RT_JOIN_TRY;
    j->n = op->join.n;
    for (size_t i = 0; i < j->n; i++) {
        struct one *one = &j->ones[i];
        one->join = &op->join.joins[i];
        one->guard = j->attempt || j->durable ? GUARD_EMPTY : GUARD_NONE;
    }
    return make_tickets(c, j, false);
}

static int begin_join(void *engine, struct rt_work *w)
{
    struct rt_etcd_conn *c = engine;
    struct joining *j = joining_of(w);
    int rv = check_all(c, w);
    if (rv == 0)
        rv = prepare(c, j);
    for (size_t i = 0; rv == 0 && i < j->n; i++)
        if (j->durable && j->ones[i].join->until_ms > 0)
            rv = ask_lease(c, j, i);
    if (rv == 0 && w->pending == 0)
        rv = send_put(c, j);
    rt_work_note(rt_etcd_base(c), w, rv);
    return w->pending == 0 ? rv : 0;
}

const struct rt_turn_kind rt_etcd_join = {
    .size = sizeof(struct joining),
    .each = sizeof(struct one),
    .begin = begin_join,
    .free = free_joining,
};
