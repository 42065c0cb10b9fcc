/* SPDX-License-Identifier: Apache-2.0 */
/* Saying something to the server, and what its silence afterwards means. */
#include "engine/etcd/link.h"

#include "base/alloc.h"

#define PING_EVERY_MS 5000 /* etcd cuts clients that ping more often */

/* ---- Saying ------------------------------------------------------------------------------------------- */

void rt_etcd_wrote(struct rt_etcd_conn *c)
{
    struct rt_etcd_wire *l = rt_etcd_wire(c);
    if (l == NULL || l->grpc == NULL)
        return;
    if (rt_grpc_err(l->grpc) != 0 && !l->broken) {
        l->broken = true;
        rt_link_timer(&c->link, rt_loop_now(c->base->loop));
    } else if (c->link.timer.timer.slot == 0) {
        rt_link_timer(&c->link, rt_loop_now(c->base->loop) + rt_dial_patience(c->base) / 2);
    }
}

void rt_etcd_progress(struct rt_etcd_conn *c)
{
    rt_link_well(&c->link);
    if (rt_etcd_wire(c) != NULL)
        rt_etcd_wire(c)->progress_at = rt_loop_now(c->base->loop);
}

int rt_etcd_say(struct rt_etcd_conn *c, struct rt_grpc_call *call, const void *message)
{
    uint8_t small[512];
    size_t n = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = n <= sizeof(small) ? small : rt_alloc(n);
    if (bytes == NULL)
        return ROTA_NOMEM;
    (void)protobuf_c_message_pack(message, bytes);
    int rv = rt_grpc_send(call, bytes, n);
    if (bytes != small)
        rt_free(bytes);
    rt_etcd_wrote(c);
    return rv;
}

int rt_etcd_stream_open(struct rt_etcd_conn *c, const char *path, rt_grpc_message_fn *on_message,
                        rt_grpc_end_fn *on_end, struct rt_grpc_call **out)
{
    struct rt_grpc_ask ask = {.path = path,
                              .token = c->token,
                              .message = on_message,
                              .end = on_end,
                              .arg = rt_etcd_wire(c),
                              .flag = RT_ETCD_LED};
    int rv = rt_grpc_call(rt_etcd_wire(c)->grpc, &ask, NULL, 0, out);
    rt_etcd_wrote(c);
    return rv;
}

/* ---- Silence ------------------------------------------------------------------------------------------ */

static int64_t owed_since(const struct rt_etcd_conn *c)
{
    int64_t kept = rt_etcd_lease_owed(c);
    const struct rt_entry *oldest = c->link.ledger.flying.next;
    return oldest != &c->link.ledger.flying && oldest->sent_at < kept ? oldest->sent_at : kept;
}

static void ping(struct rt_etcd_conn *c, int64_t now, int64_t within)
{
    struct rt_etcd_wire *l = rt_etcd_wire(c);
    if (l->pinged || (l->pinged_at != 0 && now - l->pinged_at < PING_EVERY_MS * RT_MS))
        return;
    l->pinged = true;
    l->pinged_at = now;
    rt_grpc_ping(l->grpc);
    rt_stream_expect(&l->wire.stream, (uint32_t)(within / RT_MS) + 1);
}

/* Lazy: fires at the time of something that may long have been answered, and looks. */
void rt_etcd_look_for_silence(struct rt_etcd_conn *c, int64_t now)
{
    struct rt_etcd_wire *l = rt_etcd_wire(c);
    int64_t patience = rt_dial_patience(c->base), half = patience / 2, owed = owed_since(c);
    int64_t stuck = rt_link_patience(&c->link);
    if (owed == RT_NEVER)
        return;
    int64_t since = owed > l->progress_at ? owed : l->progress_at;
    if (now - since >= stuck) {
        rt_etcd_cut(c, "%.180s did not answer within %lld ms", rt_etcd_at(c),
                    (long long)((now - since) / RT_MS));
        return;
    }
    if (now - rt_etcd_lease_owed(c) >= patience)
        rt_etcd_lease_reopen(c);
    int64_t quiet = l->wire.heard_at > owed ? l->wire.heard_at : owed;
    if (now - quiet >= half)
        ping(c, now, half);
    int64_t next = now - owed >= half ? now + half / 2 : owed + half;
    if (since + stuck < next)
        next = since + stuck;
    rt_link_timer(&c->link, next);
    rt_etcd_wrote(c);
}
