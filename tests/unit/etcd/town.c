/* SPDX-License-Identifier: Apache-2.0 */
/* A town of etcd servers that the test plays in virtual time. */
#include "town.h"

#include "engine/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STEPS_MAX 10000

extern const struct rt_engine rt_engine_etcd;

/* ---- The network ------------------------------------------------------------------------------ */

static int on_open(struct rt_dialer *d, struct rt_stream *s, const struct rt_stream_target *target)
{
    struct town *t = (struct town *)(void *)d;
    struct town_wire *w = &t->wires[t->wire_count++];
    assert_true(t->wire_count <= TOWN_WIRES);
    w->stream = s;
    w->server = (size_t)(target->host[0] - 'a');
    assert_true(w->server < TOWN_SERVERS);
    peer_serve(&w->peer);
    return 0;
}

static struct town_wire *wire_of(struct town *t, const struct rt_stream *s)
{
    for (size_t i = 0; i < t->wire_count; i++)
        if (t->wires[i].stream == s)
            return &t->wires[i];
    fail_msg("a stream that was never opened");
    return NULL;
}

static void on_write(struct rt_dialer *d, struct rt_stream *s, const char *bytes, size_t n)
{
    grpc_bytes_add(&wire_of((struct town *)(void *)d, s)->peer.wire, bytes, n);
}

static void on_close(struct rt_dialer *d, struct rt_stream *s)
{
    wire_of((struct town *)(void *)d, s)->stream = NULL;
}

static void hang_up(struct town_wire *w, const char *why)
{
    struct rt_stream *s = w->stream;
    w->stream = NULL; /* on_close is not called after it */
    rt_stream_feed_down(s, ROTA_UNREACHABLE, why);
}

/* ---- What servers say ---------------------------------------------------------------------------- */

static ProtobufCBinaryData text(const char *s)
{
    return (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
}

static void say(struct town_wire *w, size_t i, const void *message, const char *status)
{
    uint8_t bytes[8192];
    assert_true(protobuf_c_message_get_packed_size(message) <= sizeof(bytes));
    size_t n = protobuf_c_message_pack(message, bytes);
    peer_answer(&w->peer, i, bytes, n, status, NULL);
}

void town_answer(struct town_wire *w, size_t i, const void *message)
{
    say(w, i, message, "0");
}

void town_say(struct town_wire *w, size_t i, const void *message)
{
    say(w, i, message, NULL);
}

void *town_read(struct town_wire *w, size_t i, const ProtobufCMessageDescriptor *type)
{
    struct grpc_bytes *body = &w->peer.streams[i]->in;
    if (body->size < 5)
        return NULL;
    size_t n = (size_t)body->at[3] << 8 | body->at[4];
    assert_true(body->at[1] == 0 && body->at[2] == 0 && body->size >= 5 + n);
    void *message = protobuf_c_message_unpack(type, NULL, n, body->at + 5);
    assert_non_null(message);
    grpc_bytes_drop(body, 5 + n);
    return message;
}

static void say_status(struct town_wire *w, size_t i, const struct town_server *s)
{
    RtEtcd__StatusResponse r = RT_ETCD__STATUS_RESPONSE__INIT;
    RtEtcd__Header header = RT_ETCD__HEADER__INIT;
    ProtobufCBinaryData alarm = text(s->alarm != NULL ? s->alarm : "");
    header.cluster_id = s->cluster;
    header.member_id = w->server + 1;
    r.header = &header;
    r.version = text(s->version);
    r.leader = 1;
    r.db_size = s->db_size;
    r.db_size_quota = s->db_quota;
    r.errors = &alarm;
    r.n_errors = s->alarm != NULL;
    town_answer(w, i, &r);
}

static void say_members(struct town *t, struct town_wire *w, size_t i)
{
    RtEtcd__MemberListResponse r = RT_ETCD__MEMBER_LIST_RESPONSE__INIT;
    RtEtcd__Member members[TOWN_SERVERS], *list[TOWN_SERVERS];
    for (size_t k = 0; k < t->members; k++) {
        rt_etcd__member__init(&members[k]);
        members[k].id = k + 1;
        list[k] = &members[k];
    }
    r.members = list;
    r.n_members = t->members;
    town_answer(w, i, &r);
}

static void say_token(struct town *t, struct town_wire *w, size_t i)
{
    RtEtcd__AuthenticateResponse r = RT_ETCD__AUTHENTICATE_RESPONSE__INIT;
    snprintf(t->token, sizeof(t->token), "token%d", ++t->authenticated);
    r.token = text(t->token);
    town_answer(w, i, &r);
}

/* Whether it is let in. */
static bool admits(struct town *t, struct town_wire *w, size_t i)
{
    const struct town_server *s = &t->servers[w->server];
    const struct grpc_call *st = w->peer.streams[i];
    if (s->refuses != NULL && strcmp(st->path, s->refuses) == 0)
        peer_refuse(&w->peer, i, "200", "application/grpc", s->why != NULL ? "8" : "7",
                    s->why != NULL ? s->why : "etcdserver: permission denied");
    else if (s->wants_token && st->token[0] == '\0')
        peer_refuse(&w->peer, i, "200", "application/grpc", "3", "etcdserver: user name is empty");
    else if (s->wants_token && strcmp(st->token, t->token) != 0)
        peer_refuse(&w->peer, i, "200", "application/grpc", "16", "etcdserver: invalid auth token");
    else
        return true;
    return false;
}

static void serve_call(struct town *t, struct town_wire *w, size_t i)
{
    const char *path = w->peer.streams[i]->path;
    RtEtcd__LeaseGrantResponse lease = RT_ETCD__LEASE_GRANT_RESPONSE__INIT;
    RtEtcd__TxnResponse txn = RT_ETCD__TXN_RESPONSE__INIT;
    RtEtcd__LeaseRevokeResponse revoked = RT_ETCD__LEASE_REVOKE_RESPONSE__INIT;
    RtEtcd__RangeResponse empty = RT_ETCD__RANGE_RESPONSE__INIT;
    lease.id = 7;
    lease.ttl = 2;
    txn.succeeded = true;
    if (strcmp(path, "/etcdserverpb.Auth/Authenticate") == 0) {
        if (t->play == NULL || !t->play(t, w, i))
            say_token(t, w, i);
    } else if (!admits(t, w, i) || (t->play != NULL && t->play(t, w, i)))
        return;
    else if (strcmp(path, "/etcdserverpb.Maintenance/Status") == 0)
        say_status(w, i, &t->servers[w->server]);
    else if (strcmp(path, "/etcdserverpb.Cluster/MemberList") == 0)
        say_members(t, w, i);
    else if (strcmp(path, "/etcdserverpb.Lease/LeaseGrant") == 0)
        town_answer(w, i, &lease);
    else if (strcmp(path, "/etcdserverpb.KV/Txn") == 0)
        town_answer(w, i, &txn);
    else if (strcmp(path, "/etcdserverpb.Lease/LeaseRevoke") == 0)
        town_answer(w, i, &revoked);
    else if (strcmp(path, "/etcdserverpb.KV/Range") == 0)
        town_answer(w, i, &empty);
    else
        fail_msg("nobody plays %s", path);
}

static bool is_stream(const struct grpc_call *st)
{
    return strcmp(st->path, "/etcdserverpb.Watch/Watch") == 0 ||
           strcmp(st->path, "/etcdserverpb.Lease/LeaseKeepAlive") == 0;
}

/* Whether the answer to call I must wait. */
static bool is_slow(struct town *t, struct town_wire *w, size_t i)
{
    const struct town_server *s = &t->servers[w->server];
    int64_t now = rt_loop_now(&t->loop);
    if (s->slow_ms == 0 || strcmp(w->peer.streams[i]->path, "/etcdserverpb.KV/Range") != 0)
        return false;
    if (w->asked_at == 0)
        w->asked_at = now;
    return now - w->asked_at < s->slow_ms * RT_MS;
}

/* ---- Steps ----------------------------------------------------------------------------------------- */

static bool serve(struct town *t, struct town_wire *w)
{
    const struct town_server *s = &t->servers[w->server];
    struct grpc_bytes said = {0};
    if (w->stream == NULL || s->mute)
        return false;
    if (s->down) {
        hang_up(w, "nobody listens there");
        return true;
    }
    if (!w->up) {
        w->up = true;
        rt_stream_feed_up(w->stream);
        return true;
    }
    if (w->peer.wire.size > 0)
        peer_server_reads(&w->peer);
    for (size_t i = 0; i < w->answered; i++)
        if (is_stream(w->peer.streams[i]) && w->peer.streams[i]->in.size > 0)
            serve_call(t, w, i);
    for (; w->answered < w->peer.count && !is_slow(t, w, w->answered); w->answered++) {
        const struct grpc_call *st = w->peer.streams[w->answered];
        if (!st->ended && !is_stream(st))
            break;
        serve_call(t, w, w->answered);
    }
    bool busy = grpc_server_says(&w->peer.server, &said) > 0;
    if (busy && w->stream != NULL) /* a test may have given it up meanwhile */
        rt_stream_feed_data(w->stream, (const char *)said.at, said.size);
    free(said.at);
    return busy;
}

static void turn(struct town *t)
{
    rt_loop_arm(&t->loop);
    rt_loop_turn(&t->loop, NULL, NULL);
    rt_loop_arm(&t->loop);
}

void town_step(struct town *t)
{
    bool busy = false;
    for (size_t i = 0; i < t->wire_count; i++) {
        busy = serve(t, &t->wires[i]) || busy;
        turn(t);
    }
    int64_t next = rt_timers_next(&t->loop.timers);
    if (!busy && next != RT_NEVER && next > rt_loop_now(&t->loop))
        rt_loop_advance(&t->loop, next);
    turn(t);
}

/* ---- The engine ------------------------------------------------------------------------------------- */

static void up_done(struct rt_up *up, struct rt_op *op)
{
    struct town *t = (struct town *)(void *)((char *)up - offsetof(struct town, up));
    t->done++;
    if (op != t->op)
        return;
    t->op = NULL;
    t->err = op->err;
    snprintf(t->why, sizeof(t->why), "%s", t->base->errmsg);
}

static void up_event(struct rt_up *up, const struct rt_event *e)
{
    struct town *t = (struct town *)(void *)((char *)up - offsetof(struct town, up));
    if (e->kind != RT_LINK)
        t->events[e->kind]++;
    if (e->kind == RT_GRANTED)
        t->granted_nonce = e->nonce;
}

void town_init(struct town *t, size_t members)
{
    memset(t, 0, sizeof(*t));
    t->dialer = (struct rt_dialer){on_open, on_write, on_close};
    t->members = members;
    t->ttl_ms = 10000;
    for (size_t i = 0; i < TOWN_SERVERS; i++)
        t->servers[i] = (struct town_server){
            .version = "3.6.16", .cluster = 5, .db_size = 20480, .db_quota = 2147483648};
}

int town_try_open(struct town *t, const char *url)
{
    struct rt_url u;
    char errmsg[256];
    rt_loop_init_virtual(&t->loop);
    t->loop.dialer = &t->dialer;
    t->up = (struct rt_up){.done = up_done, .event = up_event};
    t->base = calloc(1, rt_engine_etcd.conn_size);
    assert_non_null(t->base);
    t->conn = rt_etcd_of(t->base);
    *t->base = (struct rt_conn){.engine = &rt_engine_etcd,
                                .up = &t->up,
                                .loop = &t->loop,
                                .label = "town",
                                .ttl_ms = t->ttl_ms,
                                .call_ms = 5000};
    int rv = rt_url_parse(&u, url, errmsg, sizeof(errmsg));
    if (rv == 0) {
        rv = rt_engine_etcd.open(t->base, &u);
        rt_url_fini(&u);
    }
    if (rv != 0) {
        free(t->base);
        rt_loop_fini(&t->loop);
    }
    return rv;
}

void town_open(struct town *t, const char *url)
{
    assert_int_equal(town_try_open(t, url), 0);
}

void town_close(struct town *t)
{
    rt_engine_etcd.close(t->base);
    free(t->base);
    for (int i = 0; i < 4; i++)
        turn(t);
    for (size_t i = 0; i < t->wire_count; i++) {
        assert_null(t->wires[i].stream);
        peer_close(&t->wires[i].peer);
    }
    rt_loop_fini(&t->loop);
}

void town_until_ready(struct town *t)
{
    for (int i = 0; i < STEPS_MAX && !rt_etcd_ready(t->conn); i++)
        town_step(t);
    assert_true(rt_etcd_ready(t->conn));
}

void town_cut(struct town *t)
{
    for (size_t i = 0; i < t->wire_count; i++)
        if (t->wires[i].stream != NULL)
            hang_up(&t->wires[i], "cut");
    turn(t);
}

void town_submit(struct town *t, struct rt_op *op)
{
    t->op = op;
    op->deadline = rt_loop_now(&t->loop) + 5000 * RT_MS;
    rt_engine_etcd.submit(t->base, op);
}

int town_do(struct town *t, struct rt_op *op)
{
    town_submit(t, op);
    for (int i = 0; i < STEPS_MAX && t->op != NULL; i++)
        town_step(t);
    assert_null(t->op);
    return t->err;
}

void town_until(struct town *t, const int *count, int n)
{
    for (int i = 0; i < STEPS_MAX && *count < n; i++)
        town_step(t);
    assert_int_equal(*count, n);
}

bool town_is_call(const struct town_wire *w, size_t i, const char *path)
{
    return strcmp(w->peer.streams[i]->path, path) == 0;
}
