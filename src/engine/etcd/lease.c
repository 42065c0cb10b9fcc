/* SPDX-License-Identifier: Apache-2.0 */
/* Keep-alives: one stream for all leases, opened again when it ends or stands still.
 *
 * An answer names its lease, not its request: the answer to one that was given up must not be taken for
 * the answer to a later one, whose time would count from too late (I3). So after giving one up, a new
 * stream is used. */
#include "engine/etcd/link.h"

#include "base/bug.h"

#include <assert.h>

static void on_message(void *arg, const uint8_t *bytes, size_t n);
static void on_stream_end(void *arg, const struct rt_grpc_end *end);

/* ---- Sending -------------------------------------------------------------------------------------- */

static bool stream_open(struct rt_etcd_conn *c)
{
    struct rt_etcd_wire *l = rt_etcd_wire(c);
    if (l->lease_call != NULL)
        return true;
    int rv = rt_etcd_stream_open(c, "/etcdserverpb.Lease/LeaseKeepAlive", on_message, on_stream_end,
                                 &l->lease_call);
    if (rv != 0)
        rt_etcd_sicken(c, "the stream of keep-alives could not be opened");
    return rv == 0;
}

static void say(struct rt_etcd_conn *c, struct rt_etcd_keep *k)
{
    RtEtcd__LeaseKeepAliveRequest rq = RT_ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;
    if (k->sent || !rt_etcd_usable(c) || c->authenticating || !stream_open(c))
        return;
    rq.id = k->lease;
    k->sent_at = rt_loop_now(c->base->loop);
    if (rt_etcd_say(c, rt_etcd_wire(c)->lease_call, &rq) == 0)
        k->sent = true;
    else
        rt_etcd_sicken(c, "the server does not read keep-alives");
}

void rt_etcd_keep(struct rt_etcd_conn *c, struct rt_etcd_keep *k, int64_t lease, int64_t deadline,
                  rt_etcd_kept_fn *kept)
{
    assert(k->kept == NULL && kept != NULL);
    if (deadline == RT_NEVER)
        deadline = rt_loop_now(c->base->loop) + c->base->call_ms * RT_MS;
    k->kept = kept;
    k->lease = lease;
    k->deadline = deadline;
    k->sent = false;
    if (rt_etcd_wire(c) != NULL && rt_etcd_wire(c)->lease_owes)
        rt_etcd_lease_reopen(c);
    RT_RING_ADD(&c->keeps, k);
    say(c, k);
    rt_ledger_by(&c->link.ledger, deadline);
    rt_etcd_want(c);
}

static void give_up(struct rt_etcd_conn *c, const struct rt_etcd_keep *k)
{
    if (k->sent && rt_etcd_wire(c) != NULL && !RT_BUG(RT_BUG_OLD_KEEP_ALIVE_COUNTS))
        rt_etcd_wire(c)->lease_owes = true;
}

void rt_etcd_unkeep(struct rt_etcd_conn *c, struct rt_etcd_keep *k)
{
    if (k->kept == NULL)
        return;
    give_up(c, k);
    RT_RING_OUT(k);
    k->kept = NULL;
}

void rt_etcd_lease_linked(struct rt_etcd_conn *c)
{
    for (struct rt_etcd_keep *k = c->keeps.next; k != &c->keeps; k = k->next)
        say(c, k);
}

/* ---- Hearing -------------------------------------------------------------------------------------- */

static void tell(struct rt_etcd_conn *c, struct rt_etcd_keep *k, int err, int64_t ttl_s)
{
    rt_etcd_kept_fn *kept = k->kept;
    RT_RING_OUT(k);
    k->kept = NULL;
    kept(c, k, err, ttl_s, k->sent_at);
}

static void on_message(void *arg, const uint8_t *bytes, size_t n)
{
    struct rt_etcd_wire *l = arg;
    struct rt_etcd_conn *c = rt_etcd_of_wire(l);
    RtEtcd__LeaseKeepAliveResponse *r;
    rt_arena_reset(&c->arena);
    if (rt_etcd_unpack(&c->arena, &rt_etcd__lease_keep_alive_response__descriptor, bytes, n, &r) !=
        0) {
        rt_etcd_cut(c, "the answer to a keep-alive came as garbage");
        return;
    }
    rt_etcd_progress(c);
    for (struct rt_etcd_keep *k = c->keeps.next; k != &c->keeps; k = k->next)
        if (k->sent && k->lease == r->id) {
            int err = r->ttl > 0 ? 0 : rt_etcd_fail(c, ROTA_LOST, "the lease has ended");
            tell(c, k, err, r->ttl);
            return;
        }
}

static void on_stream_end(void *arg, const struct rt_grpc_end *end)
{
    struct rt_etcd_wire *l = arg;
    struct rt_etcd_conn *c = rt_etcd_of_wire(l);
    l->lease_call = NULL;
    l->lease_owes = false;
    rt_etcd_lease_lost(c);
    if (end->verdict.reason == RT_ETCD_NO_TOKEN && rt_etcd_reauthenticate(c, c->token_serial))
        return; /* sent again with the new one */
    rt_etcd_sicken(c, "%.100s: no more keep-alives: %.120s", rt_etcd_at(c), rt_grpc_said(end));
}

/* ---- Trouble ---------------------------------------------------------------------------------------- */

void rt_etcd_lease_lost(struct rt_etcd_conn *c)
{
    for (struct rt_etcd_keep *k = c->keeps.next; k != &c->keeps; k = k->next)
        k->sent = false;
}

void rt_etcd_lease_reopen(struct rt_etcd_conn *c)
{
    if (rt_etcd_wire(c) == NULL || rt_etcd_wire(c)->lease_call == NULL)
        return;
    rt_grpc_cancel(rt_etcd_wire(c)->lease_call);
    rt_etcd_wire(c)->lease_call = NULL;
    rt_etcd_wire(c)->lease_owes = false;
    rt_etcd_lease_lost(c);
    rt_etcd_lease_linked(c);
}

int64_t rt_etcd_lease_owed(const struct rt_etcd_conn *c)
{
    int64_t owed = RT_NEVER;
    for (const struct rt_etcd_keep *k = c->keeps.next; k != &c->keeps; k = k->next)
        if (k->sent && k->sent_at < owed)
            owed = k->sent_at;
    return owed;
}

/* All if NOW is RT_NEVER, else those whose time is over. */
static void end_some(struct rt_etcd_conn *c, int64_t now, const char *why)
{
    struct rt_etcd_keep all;
    RT_RING_MOVE(&all, &c->keeps);
    while (!RT_RING_EMPTY(&all)) {
        struct rt_etcd_keep *k = all.next;
        RT_RING_OUT(k);
        RT_RING_ADD(&c->keeps, k);
        if (k->deadline > now)
            continue;
        give_up(c, k);
        (void)rt_etcd_fail(c, ROTA_UNREACHABLE, "the lease could not be kept: %.200s", why);
        tell(c, k, ROTA_UNREACHABLE, 0);
    }
}

int64_t rt_etcd_lease_tick(struct rt_etcd_conn *c, int64_t now)
{
    int64_t next = RT_NEVER;
    end_some(c, now, c->link.trouble[0] != '\0' ? c->link.trouble : "no answer came");
    for (const struct rt_etcd_keep *k = c->keeps.next; k != &c->keeps; k = k->next)
        next = k->deadline < next ? k->deadline : next;
    return next;
}

void rt_etcd_lease_refuse(struct rt_etcd_conn *c, const char *why)
{
    end_some(c, RT_NEVER, why);
}
