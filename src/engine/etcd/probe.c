/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the endpoints: each is asked for its Status over a connection of its own, which ours
 * does not notice.
 *
 *   slot: dialing ──▶ asked ──▶ settled (told, refused, silent) ──▶ its stream closes ──▶ gone */
#include "engine/etcd/link.h"

#include "base/alloc.h"

#include <stdio.h>

struct slot {
    struct rt_stream stream; /* first; its memory lasts until it has closed */
    struct rt_etcd_probe *probe;
    struct rt_grpc *grpc; /* NULL until it is up */
    size_t end;
};

struct rt_etcd_probe {
    struct rt_etcd_conn *c;
    void (*done)(struct rt_etcd_conn *c, void *arg);
    void *arg;
    struct rt_timer_call timer;
    size_t pending;
    struct slot **slots; /* NULL: settled */
    struct rt_etcd_probed *found;
};

/* ---- The end of one -------------------------------------------------------------------------------- */

static void on_closed(struct rt_stream *s)
{
    rt_free(s); /* the slot begins with it */
}

static void drop(struct slot *slot)
{
    slot->probe->slots[slot->end] = NULL;
    rt_grpc_close(slot->grpc);
    slot->grpc = NULL;
    slot->probe = NULL;
    rt_stream_close(&slot->stream, on_closed);
}

/* WHY NULL: the result is already in place. The probe may be gone afterwards. */
static void settle(struct slot *slot, const char *why)
{
    struct rt_etcd_probe *p = slot->probe;
    struct rt_etcd_probed *found = &p->found[slot->end];
    if (why != NULL)
        snprintf(found->why, sizeof(found->why), "%.199s", why);
    drop(slot);
    if (--p->pending > 0)
        return;
    rt_timers_stop(&p->c->base->loop->timers, &p->timer.timer);
    p->done(p->c, p->arg);
}

/* ---- Asking ---------------------------------------------------------------------------------------- */

static void on_status(void *arg, const struct rt_grpc_end *end)
{
    struct slot *slot = arg;
    struct rt_etcd_conn *c = slot->probe->c;
    struct rt_etcd_probed *found = &slot->probe->found[slot->end];
    RtEtcd__StatusResponse *r;
    char why[sizeof(found->why)];
    rt_arena_reset(&c->arena);
    if (end->status == RT_GRPC_OK &&
        rt_etcd_unpack(&c->arena, &rt_etcd__status_response__descriptor, end->bytes, end->n, &r) ==
            0)
        rt_etcd_facts_read(&found->facts, r, c->link.ring.ends[slot->end].at);
    found->answers = found->facts.known || end->verdict.err == ROTA_AUTH;
    snprintf(why, sizeof(why), "%.100s: %.90s", c->link.ring.ends[slot->end].at, rt_grpc_said(end));
    settle(slot, found->answers ? NULL : why);
}

static int codec_writes(void *arg, const void *bytes, size_t n)
{
    struct slot *slot = arg;
    return rt_stream_write(&slot->stream, bytes, n);
}

static const struct rt_grpc_user codec_user = {.write = codec_writes, .judge = rt_etcd_judge};

static void on_up(struct rt_stream *s)
{
    struct slot *slot = (struct slot *)(void *)s;
    struct rt_etcd_conn *c = slot->probe->c;
    struct rt_grpc_ask ask = {.path = "/etcdserverpb.Maintenance/Status",
                              .token = c->token,
                              .end = on_status,
                              .arg = slot};
    struct rt_grpc_call *call;
    if (rt_grpc_open(&slot->grpc, c->link.ring.ends[slot->end].at, c->link.secure, &codec_user,
                     slot) != 0 ||
        rt_grpc_call(slot->grpc, &ask, "", 0, &call) != 0)
        settle(slot, "out of memory");
}

static void on_data(struct rt_stream *s, const char *bytes, size_t n)
{
    struct slot *slot = (struct slot *)(void *)s;
    int rv = rt_grpc_feed(slot->grpc, bytes, n);
    if (rv != 0 && rv != ROTA_CLOSED)
        settle(slot, rt_grpc_why(slot->grpc));
}

static void on_down(struct rt_stream *s, int err, const char *why)
{
    (void)err;
    settle((struct slot *)(void *)s, why);
}

static const struct rt_stream_user stream_user = {on_up, on_data, on_down};

static void dial(struct rt_etcd_probe *p, size_t i, uint32_t ms)
{
    const struct rt_dial_end *end = &p->c->link.ring.ends[i];
    struct rt_stream_target target = {
        .host = end->host, .port = end->port, .tls = p->c->link.tls, .alpn = "h2"};
    struct slot *slot = rt_alloc(sizeof(*slot));
    snprintf(p->found[i].why, sizeof(p->found[i].why), "%.180s cannot be dialed", end->at);
    if (slot == NULL)
        return;
    slot->probe = p;
    slot->end = i;
    if (rt_stream_open(&slot->stream, p->c->base->loop, &target, &stream_user, ms) != 0) {
        rt_free(slot);
        return;
    }
    p->slots[i] = slot;
    p->pending++;
}

/* ---- All of them ----------------------------------------------------------------------------------- */

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_etcd_probe *p =
        (struct rt_etcd_probe *)(void *)((char *)call - offsetof(struct rt_etcd_probe, timer));
    (void)now;
    for (size_t i = 0; i < p->c->link.ring.count; i++) {
        if (p->slots[i] == NULL)
            continue;
        snprintf(p->found[i].why, sizeof(p->found[i].why), "%.180s does not answer",
                 p->c->link.ring.ends[i].at);
        drop(p->slots[i]);
    }
    p->pending = 0;
    p->done(p->c, p->arg);
}

struct rt_etcd_probe *rt_etcd_probe_new(struct rt_etcd_conn *c, uint32_t ms,
                                        void (*done)(struct rt_etcd_conn *c, void *arg), void *arg)
{
    struct rt_loop *loop = c->base->loop;
    struct rt_etcd_probe *p = rt_alloc(sizeof(*p));
    if (p == NULL)
        return NULL;
    p->slots = rt_alloc(c->link.ring.count * sizeof(*p->slots));
    p->found = rt_alloc(c->link.ring.count * sizeof(*p->found));
    if (p->slots == NULL || p->found == NULL || rt_loop_reserve(loop, 1) != 0) {
        rt_free(p->slots);
        rt_free(p->found);
        rt_free(p);
        return NULL;
    }
    p->c = c;
    p->done = done;
    p->arg = arg;
    p->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = fire};
    for (size_t i = 0; i < c->link.ring.count; i++)
        dial(p, i, ms);
    rt_timers_start(&loop->timers, &p->timer.timer,
                    rt_loop_now(loop) + (p->pending > 0 ? ms * RT_MS : 0));
    return p;
}

const struct rt_etcd_probed *rt_etcd_probed(const struct rt_etcd_probe *p, size_t end)
{
    return &p->found[end];
}

void rt_etcd_probe_free(struct rt_etcd_probe *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->c->link.ring.count; i++)
        if (p->slots[i] != NULL)
            drop(p->slots[i]);
    rt_timers_stop(&p->c->base->loop->timers, &p->timer.timer);
    rt_loop_unreserve(p->c->base->loop, 1);
    rt_free(p->slots);
    rt_free(p->found);
    rt_free(p);
}
