/* SPDX-License-Identifier: Apache-2.0 */
/* Asks: kept until a connection is ready, sent, judged, sent again, ended at their deadline. */
#include "engine/etcd/link.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define SPARES_KEPT 64
#define ROOM_LEAST 512 /* of a message: most fit */
#define PAUSE_MS 20    /* too many calls at once, or the server leaves */

static const struct {
    const char *path;
    const ProtobufCMessageDescriptor *reply;
    bool reads;
} calls[RT_ETCD_CALLS] = {
    [RT_ETCD_RANGE] = {"/etcdserverpb.KV/Range", &rt_etcd__range_response__descriptor, true},
    [RT_ETCD_TXN] = {"/etcdserverpb.KV/Txn", &rt_etcd__txn_response__descriptor, false},
    [RT_ETCD_PUT] = {"/etcdserverpb.KV/Put", &rt_etcd__put_response__descriptor, false},
    [RT_ETCD_DELETE] = {"/etcdserverpb.KV/DeleteRange", &rt_etcd__delete_range_response__descriptor,
                        false},
    [RT_ETCD_LEASE_GRANT] = {"/etcdserverpb.Lease/LeaseGrant",
                             &rt_etcd__lease_grant_response__descriptor, false},
    [RT_ETCD_LEASE_REVOKE] = {"/etcdserverpb.Lease/LeaseRevoke",
                              &rt_etcd__lease_revoke_response__descriptor, false},
    [RT_ETCD_LEASE_LEFT] = {"/etcdserverpb.Lease/LeaseTimeToLive",
                            &rt_etcd__lease_time_to_live_response__descriptor, true},
    [RT_ETCD_STATUS] = {"/etcdserverpb.Maintenance/Status", &rt_etcd__status_response__descriptor,
                        true},
    [RT_ETCD_MEMBERS] = {"/etcdserverpb.Cluster/MemberList",
                         &rt_etcd__member_list_response__descriptor, true},
};

static struct rt_etcd_ask *of(struct rt_entry *e)
{
    return (struct rt_etcd_ask *)(void *)e;
}

/* ---- Memory ----------------------------------------------------------------------------------- */

static struct rt_etcd_ask *get(struct rt_etcd_conn *c, size_t size)
{
    struct rt_etcd_ask *a = c->spare;
    size_t room = size < ROOM_LEAST ? ROOM_LEAST : size;
    if (a != NULL && room == ROOM_LEAST) {
        c->spare = of(a->entry.next);
        c->spares--;
        *a = (struct rt_etcd_ask){0};
    } else {
        a = rt_alloc(sizeof(*a) + room);
    }
    if (a == NULL)
        return NULL;
    a->room = room;
    a->size = size;
    a->bytes = (uint8_t *)(a + 1);
    return a;
}

static void put(struct rt_etcd_conn *c, struct rt_etcd_ask *a)
{
    if (a->room != ROOM_LEAST || c->spares >= SPARES_KEPT) {
        rt_free(a);
        return;
    }
    a->entry.next = (struct rt_entry *)(void *)c->spare;
    c->spare = a;
    c->spares++;
}

struct rt_etcd_ask *rt_etcd_ask_new(struct rt_etcd_conn *c, enum rt_etcd_call call,
                                    const void *message, rt_etcd_answer_fn *answer)
{
    assert(calls[call].path != NULL);
    struct rt_etcd_ask *a = get(c, protobuf_c_message_get_packed_size(message));
    if (a == NULL)
        return NULL;
    (void)protobuf_c_message_pack(message, a->bytes);
    a->conn = c;
    a->call_kind = (uint8_t)call;
    a->entry.reads = calls[call].reads;
    a->answer = answer;
    return a;
}

/* ---- Ends --------------------------------------------------------------------------------------- */

/* A is no longer in the ledger. */
static void answer(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    if (!c->link.closing && a->answer != NULL)
        a->answer(c, a, err, reply);
    put(c, a);
}

static void answer_done(struct rt_etcd_conn *c, struct rt_etcd_ask *a,
                        const struct rt_grpc_end *end)
{
    void *reply;
    rt_arena_reset(&c->arena);
    int rv = rt_etcd_unpack(&c->arena, calls[a->call_kind].reply, end->bytes, end->n, &reply);
    if (rv == 0) {
        answer(c, a, 0, reply);
        return;
    }
    (void)rt_etcd_fail(c, rv, "%.180s: %s", rt_etcd_at(c),
                       rv == ROTA_NOMEM ? "out of memory for its answer"
                                        : "its answer cannot be understood");
    answer(c, a, a->entry.reads ? rv : ROTA_UNKNOWN, NULL); /* it was done, but what? */
}

/* What the user can do about it, where etcd does not say. */
static void explain(struct rt_etcd_conn *c, enum rt_etcd_reason reason, const char *said, char *out,
                    size_t room)
{
    const char *at = rt_etcd_at(c);
    const char *prefix = c->on->prefix != NULL ? c->on->prefix(c) : "";
    if (reason == RT_ETCD_NO_TOKEN && c->link.user == NULL)
        snprintf(out, room,
                 "%.100s wants a user: write %s://USER@HOST, and give the password by "
                 "$ROTA_PASSWORD or ?password_file=",
                 at, c->link.secure ? "etcds" : "etcd");
    else if (reason == RT_ETCD_RIGHTS && c->link.user != NULL && prefix[0] == '\0')
        snprintf(out, room,
                 "%.80s: permission denied: the user '%.60s' needs readwrite on all keys; or name "
                 "what its keys may begin with by ?prefix=",
                 at, c->link.user);
    else if (reason == RT_ETCD_RIGHTS && c->link.user != NULL)
        snprintf(
            out, room,
            "%.50s: permission denied: the user '%.30s' needs readwrite on the keys that begin "
            "with '%.60s'",
            at, c->link.user, prefix);
    else if (reason == RT_ETCD_TOO_LARGE)
        snprintf(
            out, room,
            "%.60s: %.60s: there is much data below that name; use one, or a ?prefix=, that no "
            "data begins with",
            at, said);
    else if (reason == RT_ETCD_NO_SPACE)
        snprintf(out, room,
                 "%.100s: its database is out of space: compact and defragment it, then etcdctl "
                 "alarm disarm",
                 at);
    else
        snprintf(out, room, "%.100s: %.140s", at, said);
}

/* It was not done, or nobody knows; shall it be tried again, and where? */
static void judge(struct rt_etcd_conn *c, struct rt_etcd_ask *a, const struct rt_grpc_end *end)
{
    struct rt_grpc_verdict v = end->verdict;
    struct rt_entry *e = &a->entry;
    char why[sizeof(c->link.trouble)];
    explain(c, v.reason, rt_grpc_said(end), why, sizeof(why));
    a->reason = v.reason;
    e->maybe = e->maybe || v.fate == RT_GRPC_MAYBE;
    if (v.elsewhere)
        rt_etcd_sicken(c, "%s", why);
    else
        rt_etcd_progress(c);
    if (v.reason == RT_ETCD_NO_TOKEN && rt_etcd_reauthenticate(c, a->token_serial)) {
        rt_ledger_again(&c->link.ledger, e, e->pauses > 0 || e->was_again);
        e->pauses++;
    } else if (v.reason == RT_ETCD_TOO_MANY || v.reason == RT_ETCD_NO_SPACE) {
        snprintf(c->link.trouble, sizeof(c->link.trouble), "%s", why);
        rt_ledger_again(&c->link.ledger, e, true);
    } else if (v.elsewhere && (v.fate == RT_GRPC_NOT_DONE || e->reads || e->again)) {
        rt_ledger_again(&c->link.ledger, e, false);
    } else {
        int rv = e->maybe && !e->reads ? ROTA_UNKNOWN : v.err; /* an earlier try may happen yet */
        rt_ledger_out(e);
        answer(c, a, rt_etcd_fail(c, rv, "%s", why), NULL);
    }
}

static void on_end(void *arg, const struct rt_grpc_end *end)
{
    struct rt_etcd_ask *a = arg;
    struct rt_etcd_conn *c = a->conn;
    a->call = NULL;
    if (end->status == RT_GRPC_OK || !end->verdict.elsewhere)
        rt_ledger_heard(&c->link.ledger, &a->entry);
    if (end->status != RT_GRPC_OK) {
        judge(c, a, end);
        return;
    }
    rt_ledger_out(&a->entry);
    rt_etcd_progress(c);
    answer_done(c, a, end);
}

/* ---- Sending ------------------------------------------------------------------------------------ */

static struct rt_etcd_conn *of_ledger(struct rt_ledger *l)
{
    return (struct rt_etcd_conn *)(void *)((char *)l - offsetof(struct rt_etcd_conn, link.ledger));
}

static int on_send(struct rt_ledger *l, struct rt_entry *e, const void **via)
{
    struct rt_etcd_conn *c = of_ledger(l);
    struct rt_etcd_ask *a = of(e);
    struct rt_grpc_ask ask = {.path = calls[a->call_kind].path,
                              .token = c->token,
                              .end = on_end,
                              .arg = a,
                              .flag = a->call_kind != RT_ETCD_STATUS ? RT_ETCD_LED : NULL};
    (void)via; /* there is only one connection */
    if (!rt_etcd_usable(c) || c->authenticating)
        return ROTA_UNREACHABLE;
    int rv = rt_grpc_call(rt_etcd_wire(c)->grpc, &ask, a->bytes, a->size, &a->call);
    if (rv == 0)
        a->token_serial = c->token_serial;
    else if (rv != ROTA_INVALID && rv != ROTA_NOMEM) {
        if (rt_grpc_err(rt_etcd_wire(c)->grpc) == 0) /* leaving, or too many at once */
            e->not_before = rt_loop_now(c->base->loop) + PAUSE_MS * RT_MS;
        rv = ROTA_UNREACHABLE;
    }
    rt_etcd_wrote(c);
    return rv;
}

void rt_etcd_ask_send(struct rt_etcd_conn *c, struct rt_etcd_ask *a)
{
    if (a->entry.deadline == RT_NEVER)
        a->entry.deadline = 0;
    if (!rt_ledger_add(&c->link.ledger, &a->entry))
        rt_etcd_want(c);
}

int rt_etcd_ask_for(struct rt_etcd_conn *c, struct rt_etcd_ask *a, struct rt_op *op, void *owner,
                    uint64_t extra, uint32_t *pending)
{
    if (a == NULL)
        return rt_words_nomem(c->base);
    rt_ledger_for(&c->link.ledger, &a->entry, op);
    a->entry.pending = pending;
    a->owner = owner;
    a->extra = extra;
    rt_etcd_ask_send(c, a);
    return 0;
}

int rt_etcd_ask(struct rt_etcd_conn *c, enum rt_etcd_call call, const void *message,
                rt_etcd_answer_fn *answer_fn, struct rt_op *op, void *owner, uint64_t extra)
{
    struct rt_etcd_ask *a = rt_etcd_ask_new(c, call, message, answer_fn);
    return rt_etcd_ask_for(c, a, op, owner, extra, NULL);
}

void rt_etcd_ask_abandon(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err)
{
    rt_ledger_abandon(&c->link.ledger, &a->entry, err);
}

bool rt_etcd_ask_cancel(struct rt_etcd_conn *c, const struct rt_op *op)
{
    return rt_ledger_cancel(&c->link.ledger, op);
}

/* ---- Ends without an answer ----------------------------------------------------------------------- */

static void on_ended(struct rt_ledger *l, struct rt_entry *e, int err, const char *why)
{
    struct rt_etcd_conn *c = of_ledger(l);
    struct rt_etcd_ask *a = of(e);
    if (why == NULL && e->flying)
        rt_grpc_cancel(a->call);
    a->call = NULL;
    if (why == NULL && err == ROTA_INVALID)
        why = "the request is too large for etcd";
    (void)rt_ledger_say(l, e, err, why, "etcd", rt_etcd_at(c), c->link.trouble);
    answer(c, a, err, NULL);
}

static int64_t on_tick(struct rt_ledger *l, int64_t now)
{
    return rt_etcd_lease_tick(of_ledger(l), now);
}

static bool is_refused(const struct rt_entry *e, const void *arg)
{
    (void)arg;
    return e->pauses > 0;
}

const char *rt_etcd_trouble(const struct rt_etcd_conn *c)
{
    const struct rt_link *k = &c->link;
    bool now = k->state != RT_DIAL_READY || rt_ledger_find(&k->ledger, is_refused, NULL) != NULL;
    return now && k->trouble[0] != '\0' ? k->trouble : NULL;
}

/* ---- Life ----------------------------------------------------------------------------------------- */

const struct rt_ledger_user rt_etcd_asks = {.send = on_send, .ended = on_ended, .tick = on_tick};

void rt_etcd_ask_free(struct rt_ledger *l, struct rt_entry *e)
{
    (void)l;
    rt_free(of(e));
}

void rt_etcd_ask_fini(struct rt_etcd_conn *c)
{
    while (c->spare != NULL) {
        struct rt_etcd_ask *a = c->spare;
        c->spare = of(a->entry.next);
        rt_free(a);
    }
    rt_arena_fini(&c->arena);
}
