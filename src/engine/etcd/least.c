/* SPDX-License-Identifier: Apache-2.0 */
/* at_least_ms: a ticket that keeps the line taken for a while, whatever becomes of its holder.
 *
 *   granted ──▶ a lease of its own ──▶ the key on it ──▶ told ──▶ time over: back on the session's lease
 *                                                         └──▶ left: marked, on a shorter one; time over: that is revoked
 *
 * The lease is not kept alive: if we die, it ends the ticket some time after the ticket's own time. It lasts a ttl and
 * a bit longer than that time, so that no deadline promised until then is later than its end (I3), and so that the key
 * can be moved while it lives. If the key cannot be moved, the session is renewed for no longer than the lease lasts,
 * and before its end the ticket is declared lost. */
#include "engine/etcd/ops.h"

#include "base/alloc.h"

#define MARGIN_MS 3000 /* of the lease over the time: to move the key, even across a fail-over */
#define AGAIN (200 * RT_MS)
#define TRIES 4 /* to put a key that changes meanwhile: nobody changes it often */

struct rt_etcd_least {
    struct rt_etcd_least *next;
    struct rt_etcd_ticket *ticket; /* NULL: left, or ended */
    int64_t until;  /* the time that was promised: from then on a LEAVE takes it out */
    int64_t act_at; /* when to move or revoke: then, and later again */
    int64_t lease;
    int64_t ends; /* the lease's end, counted as a session's */
    bool busy;
    bool refused; /* a LEAVE did not go well: it ends with its time all the same */
    uint32_t tries;
    /* while it is secured */
    rt_etcd_secured_fn *fn;
    void *arg;
    struct rt_op *op;
};

/* Somebody was told that it holds, and has not let go of it. */
static bool is_held(const struct rt_etcd_least *l)
{
    return l->ticket != NULL && l->fn == NULL && !l->ticket->leaving;
}

/* While a LEAVE is under way the key stays on its lease: what the LEAVE marks ends with that lease. */
static bool is_idle(const struct rt_etcd_least *l)
{
    return !l->busy && (l->ticket == NULL || !l->ticket->leaving);
}

/* Early enough that the lease still lasts for some beats, so that the other holds do not go with it. */
static int64_t give_up_at(struct rt_etcd_conn *c, const struct rt_etcd_least *l)
{
    return l->ends - rt_etcd_base(c)->ttl_ms / 2 * RT_MS;
}

static void follow(struct rt_etcd_conn *c)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    int64_t at = RT_NEVER;
    for (const struct rt_etcd_least *l = s->leasts; l != NULL; l = l->next) {
        if (is_idle(l) && l->act_at < at)
            at = l->act_at;
        if (is_held(l) && give_up_at(c, l) < at)
            at = give_up_at(c, l);
    }
    rt_timers_at(&rt_etcd_base(c)->loop->timers, &s->least_timer.timer, at);
}

static void drop(struct rt_etcd_conn *c, struct rt_etcd_least *least)
{
    struct rt_etcd_least **at = &rt_etcd_s(c)->leasts;
    while (*at != least)
        at = &(*at)->next;
    *at = least->next;
    if (least->ticket != NULL)
        least->ticket->least = NULL;
    rt_free(least);
    follow(c);
}

/* ---- Securing --------------------------------------------------------------------------------- */

static void tell(struct rt_etcd_conn *c, struct rt_etcd_least *least, int err)
{
    rt_etcd_secured_fn *fn = least->fn;
    void *arg = least->arg;
    least->fn = NULL;
    if (err == 0 && give_up_at(c, least) <= rt_loop_now(rt_etcd_base(c)->loop))
        err = rt_etcd_fail(c, ROTA_LOST, "the lease of at_least_ms was over too soon");
    if (err != 0 || least->ticket == NULL) {
        if (least->lease != 0)
            rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)least->lease);
        drop(c, least);
    } else {
        least->busy = false;
        least->ticket->lease = least->lease;
        follow(c);
    }
    fn(c, arg, err);
}

static int send_read(struct rt_etcd_conn *c, struct rt_etcd_least *least);

/* If not succeeded: the key was changed since it was read, or is gone. */
static void put_answered(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_least *least = a->owner;
    const RtEtcd__TxnResponse *got = reply;
    if (err == 0 && !got->succeeded && least->ticket != NULL && ++least->tries < TRIES) {
        err = send_read(c, least);
        if (err == 0)
            return;
    } else if (err == 0 && !got->succeeded) {
        err = rt_etcd_fail(c, ROTA_LOST, "the ticket is gone, or changes all the time");
    }
    tell(c, least, err);
}

static void read_answered(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_least *least = a->owner;
    const RtEtcd__TxnResponse *got = reply;
    const struct rt_etcd_ticket *t = least->ticket;
    struct rt_etcd_txn txn;
    if (err == 0 && t == NULL)
        err = rt_etcd_fail(c, ROTA_CANCELED, "canceled");
    const RtEtcd__RangeResponse *key = err == 0 && got->succeeded ? rt_etcd_got(got, 0) : NULL;
    if (err == 0 && (key == NULL || key->n_kvs == 0))
        err = rt_etcd_fail(c, ROTA_LOST, "the ticket is gone");
    if (err == 0) {
        /* Compared with what was read, so that a copy that comes late, when the key is on the session's
         * lease again, does not put it back on one that ends. */
        rt_etcd_txn_open(c, &txn, 1, 1, 0);
        rt_etcd_if_changed_at(&txn, t->key, t->key_size, key->kvs[0]->mod_revision);
        RtEtcd__PutRequest *put = rt_etcd_put(&txn, RT_ETCD_THEN, t->key, t->key_size);
        put->ignore_value = true;
        put->lease = least->lease;
        err = rt_etcd_txn_send(c, &txn, put_answered, least->op, least, NULL);
    }
    if (err != 0)
        tell(c, least, err);
}

static int send_read(struct rt_etcd_conn *c, struct rt_etcd_least *least)
{
    const struct rt_etcd_ticket *t = least->ticket;
    struct rt_etcd_txn txn;
    rt_etcd_txn_open(c, &txn, 1, 1, 0);
    rt_etcd_if_created(&txn, t->key, t->key_size, t->number);
    (void)rt_etcd_get(&txn, RT_ETCD_THEN, t->key, t->key_size);
    return rt_etcd_txn_send(c, &txn, read_answered, least->op, least, NULL);
}

/* How long a lease of TTL_S can be relied on, as for a session (core/session). */
static int64_t lasts(int64_t ttl_s)
{
    int64_t ms = ttl_s < RT_NEVER / RT_MS / 2000 ? ttl_s * 1000 : RT_NEVER / RT_MS / 2;
    return (ms - ms / 100 - 2) * RT_MS;
}

static void lease_answered(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err,
                           const void *reply)
{
    struct rt_etcd_least *least = a->owner;
    const RtEtcd__LeaseGrantResponse *got = reply;
    if (err == 0) {
        least->lease = got->id;
        least->ends = a->entry.sent_at + lasts(got->ttl);
    }
    if (err == 0 && least->ticket == NULL)
        err = rt_etcd_fail(c, ROTA_CANCELED, "canceled");
    if (err == 0)
        err = send_read(c, least);
    if (err != 0)
        tell(c, least, err);
}

void rt_etcd_least_take(struct rt_etcd_conn *c, struct rt_etcd_ticket *t, struct rt_op *op,
                        rt_etcd_secured_fn *fn, void *arg)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    RtEtcd__LeaseGrantRequest grant = RT_ETCD__LEASE_GRANT_REQUEST__INIT;
    struct rt_etcd_least *least = t->least == NULL ? rt_alloc(sizeof(*least)) : NULL;
    if (least == NULL) {
        fn(c, arg, rt_words_nomem(rt_etcd_base(c)));
        return;
    }
    int64_t now = rt_loop_now(rt_etcd_base(c)->loop);
    int64_t most = (RT_NEVER - now) / RT_MS - 2 * MARGIN_MS - rt_etcd_base(c)->ttl_ms;
    int64_t ms = t->at_least_ms < most ? t->at_least_ms : most;
    *least = (struct rt_etcd_least){.next = s->leasts,
                                    .ticket = t,
                                    .until = now + ms * RT_MS,
                                    .act_at = now + ms * RT_MS,
                                    .busy = true,
                                    .fn = fn,
                                    .arg = arg,
                                    .op = op};
    s->leasts = least;
    t->least = least;
    /* Plus what `lasts` takes off, or a hold of an hour would end before its time. */
    grant.ttl = rt_etcd_seconds(ms + ms / 64 + rt_etcd_base(c)->ttl_ms + MARGIN_MS);
    if (rt_etcd_ask(c, RT_ETCD_LEASE_GRANT, &grant, lease_answered, op, least, 0) != 0)
        tell(c, least, ROTA_NOMEM);
}

/* ---- The time is over --------------------------------------------------------------------------- */

static void moved(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_least *least = a->owner;
    const RtEtcd__TxnResponse *got = reply;
    struct rt_etcd_ticket *t = least->ticket;
    least->busy = false;
    if (t == NULL) { /* left meanwhile: the key went or goes with its lease */
        rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)least->lease);
        drop(c, least);
    } else if (err == ROTA_UNREACHABLE || err == ROTA_UNKNOWN || err == ROTA_NOMEM) {
        least->act_at = rt_loop_now(rt_etcd_base(c)->loop) + AGAIN;
        follow(c);
    } else if (err != 0 || !got->succeeded) { /* also by our LEAVE, which overtook it */
        rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)least->lease);
        drop(c, least);
        rt_etcd_ticket_lost(c, t);
    } else {
        t->lease = 0;
        rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)least->lease);
        drop(c, least);
    }
}

static void move(struct rt_etcd_conn *c, struct rt_etcd_least *least)
{
    const struct rt_etcd_ticket *t = least->ticket;
    struct rt_etcd_txn txn;
    rt_etcd_txn_open(c, &txn, 1, 1, 0);
    rt_etcd_if_created(&txn, t->key, t->key_size, t->number);
    RtEtcd__PutRequest *put = rt_etcd_put(&txn, RT_ETCD_THEN, t->key, t->key_size);
    put->ignore_value = true;
    put->lease = (int64_t)t->session;
    least->busy = true;
    if (rt_etcd_txn_send(c, &txn, moved, NULL, least, NULL) != 0) {
        least->busy = false;
        least->act_at = rt_loop_now(rt_etcd_base(c)->loop) + AGAIN;
    }
}

void rt_etcd_least_fire(struct rt_timer_call *call, int64_t now)
{
    char *at = (char *)call - offsetof(struct rt_etcd_side, least_timer);
    struct rt_etcd_side *s = (struct rt_etcd_side *)(void *)at;
    for (struct rt_etcd_least *l = s->leasts, *next; l != NULL; l = next) {
        next = l->next;
        if (is_held(l) && give_up_at(s->c, l) <= now) {
            s->session.doubtful = true; /* it may have been moved, and we do not know */
            rt_etcd_ticket_lost(s->c, l->ticket);
            continue;
        }
        if (!is_idle(l) || l->act_at > now)
            continue;
        if (l->ticket != NULL && !l->ticket->durable && !l->refused) {
            move(s->c, l);
        } else { /* left: the line is free from now on */
            rt_etcd_chore(s->c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)l->lease);
            drop(s->c, l);
        }
    }
    follow(s->c);
}

/* ---- Ends ------------------------------------------------------------------------------------------ */

uint32_t rt_etcd_least_clamp(struct rt_etcd_conn *c, uint32_t ttl_ms)
{
    int64_t now = rt_loop_now(rt_etcd_base(c)->loop), ms = ttl_ms;
    for (const struct rt_etcd_least *l = rt_etcd_s(c)->leasts; l != NULL; l = l->next)
        if (is_held(l) && (l->ends - now) / RT_MS < ms)
            ms = (l->ends - now) / RT_MS;
    return ms > 0 ? (uint32_t)ms : 1;
}

bool rt_etcd_least_holds(struct rt_etcd_conn *c, const struct rt_etcd_ticket *t)
{
    return t->least != NULL && t->granted && rt_loop_now(rt_etcd_base(c)->loop) < t->least->until;
}

void rt_etcd_least_refused(struct rt_etcd_conn *c, struct rt_etcd_ticket *t)
{
    if (t->least != NULL)
        t->least->refused = true;
    follow(c);
}

int64_t rt_etcd_least_seconds(struct rt_etcd_conn *c, const struct rt_etcd_ticket *t)
{
    int64_t left = t->least->until - rt_loop_now(rt_etcd_base(c)->loop);
    int64_t ms = left > 0 ? left / RT_MS + 1 : 0;
    return rt_etcd_seconds(ms + ms / 1000);
}

void rt_etcd_least_left(struct rt_etcd_conn *c, struct rt_etcd_ticket *t, int64_t lease)
{
    struct rt_etcd_least *least = t->least;
    t->least = NULL;
    if (least != NULL) {
        least->ticket = NULL;
        if (lease != 0) {
            rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)least->lease);
            least->lease = lease;
        }
    }
    follow(c);
}

void rt_etcd_least_end(struct rt_etcd_conn *c, struct rt_etcd_ticket *t)
{
    struct rt_etcd_least *least = t->least;
    if (least == NULL)
        return;
    t->least = NULL;
    least->ticket = NULL;
    if (least->busy)
        return; /* its answer finds nobody */
    if (!rt_etcd_s(c)->closing)
        rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)least->lease);
    drop(c, least);
}

bool rt_etcd_leasts_busy(const struct rt_etcd_side *s)
{
    for (const struct rt_etcd_least *l = s->leasts; l != NULL; l = l->next)
        if (l->busy)
            return true;
    return false;
}

void rt_etcd_leasts_close(struct rt_etcd_side *s)
{
    while (s->leasts != NULL) {
        struct rt_etcd_least *least = s->leasts;
        s->leasts = least->next;
        rt_free(least);
    }
}
