/* SPDX-License-Identifier: Apache-2.0 */
/* Asks: kept until a connection is ready, sent, judged, sent again, ended at their deadline. */
#include "engine/etcd/link.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define SPARES_KEPT 64
#define ROOM_LEAST 512 /* of a message: most fit */
#define PAUSE_FIRST_MS 20
#define PAUSE_LAST_MS 500

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

static void on_end(void *arg, const struct rt_grpc_end *end);

/* ---- Memory ----------------------------------------------------------------------------------- */

static struct rt_etcd_ask *get(struct rt_etcd_conn *c, size_t size)
{
    struct rt_etcd_ask *a = c->spare;
    size_t room = size < ROOM_LEAST ? ROOM_LEAST : size;
    if (a != NULL && room == ROOM_LEAST) {
        c->spare = a->next;
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
    a->next = c->spare;
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
    a->reads = calls[call].reads;
    a->answer = answer;
    return a;
}

/* ---- Ends --------------------------------------------------------------------------------------- */

/* A is in no list any more. */
static void answer(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    if (!c->closing)
        a->answer(c, a, err, reply);
    put(c, a);
}

static void answer_done(struct rt_etcd_conn *c, struct rt_etcd_ask *a,
                        const struct rt_grpc_end *end)
{
    void *reply;
    rt_etcd_arena_reset(&c->arena);
    int rv = rt_etcd_unpack(&c->arena, calls[a->call_kind].reply, end->bytes, end->n, &reply);
    if (rv == 0) {
        answer(c, a, 0, reply);
        return;
    }
    (void)rt_etcd_fail(c, rv, "%.180s: %s", rt_etcd_at(c),
                       rv == ROTA_NOMEM ? "out of memory for its answer"
                                        : "its answer cannot be understood");
    answer(c, a, a->reads ? rv : ROTA_UNKNOWN, NULL); /* done it is, but what? */
}

/* Waits again; what can go at once goes from the next turn of the timer. */
static void again(struct rt_etcd_conn *c, struct rt_etcd_ask *a, bool pause)
{
    int64_t ms = PAUSE_FIRST_MS << (a->pauses < 5 ? a->pauses : 5);
    RT_ETCD_LIST_ADD(&c->waiting, a);
    a->was_again = a->was_again || a->maybe;
    a->not_before = rt_loop_now(c->base->loop);
    if (pause) {
        a->pauses++;
        a->not_before += (ms > PAUSE_LAST_MS ? PAUSE_LAST_MS : ms) * RT_MS;
    }
    rt_etcd_timer_by(c, a->not_before);
}

/* What its user can do about it, where etcd does not say. */
static void explain(struct rt_etcd_conn *c, enum rt_etcd_reason reason, const char *said, char *out,
                    size_t room)
{
    const char *at = rt_etcd_at(c);
    const char *prefix = c->on->prefix != NULL ? c->on->prefix(c) : "";
    if (reason == RT_ETCD_NO_TOKEN && c->user == NULL)
        snprintf(out, room,
                 "%.100s wants a user: write %s://USER@HOST, and give the password by "
                 "$ROTA_PASSWORD or ?password_file=",
                 at, c->secure ? "etcds" : "etcd");
    else if (reason == RT_ETCD_RIGHTS && c->user != NULL && prefix[0] == '\0')
        snprintf(out, room,
                 "%.80s: permission denied: the user '%.60s' needs readwrite on all keys; or name "
                 "what its keys may begin with by ?prefix=",
                 at, c->user);
    else if (reason == RT_ETCD_RIGHTS && c->user != NULL)
        snprintf(
            out, room,
            "%.50s: permission denied: the user '%.30s' needs readwrite on the keys that begin "
            "with '%.60s'",
            at, c->user, prefix);
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

static void refuse_one(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const char *why)
{
    int rv = a->maybe && !a->reads ? ROTA_UNKNOWN : err; /* an earlier try may be done yet */
    (void)rt_etcd_fail(c, rv, "%s", why);
    answer(c, a, rv, NULL);
}

/* It was not done, or nobody knows; shall it be tried again, and where? */
static void judge(struct rt_etcd_conn *c, struct rt_etcd_ask *a, const struct rt_grpc_end *end)
{
    struct rt_grpc_verdict v = end->verdict;
    const char *said = end->message[0] != '\0' ? end->message : rt_grpc_status_name(end->status);
    char why[sizeof(c->trouble)];
    explain(c, v.reason, said, why, sizeof(why));
    a->reason = v.reason;
    a->maybe = a->maybe || v.fate == RT_GRPC_MAYBE;
    if (v.elsewhere)
        rt_etcd_sicken(c, why);
    else
        rt_etcd_progress(c);
    if (v.reason == RT_ETCD_NO_TOKEN && rt_etcd_reauthenticate(c, a->token_serial)) {
        again(c, a, a->pauses > 0 || a->was_again);
        a->pauses++;
    } else if (v.reason == RT_ETCD_TOO_MANY || v.reason == RT_ETCD_NO_SPACE) {
        snprintf(c->trouble, sizeof(c->trouble), "%s", why);
        again(c, a, true);
    } else if (v.fate == RT_GRPC_NOT_DONE && v.elsewhere) {
        again(c, a, false);
    } else if (v.fate == RT_GRPC_NOT_DONE) {
        refuse_one(c, a, v.err, why);
    } else if (v.elsewhere && (a->reads || a->again)) {
        again(c, a, false);
    } else {
        refuse_one(c, a, v.err, why);
    }
}

static void on_end(void *arg, const struct rt_grpc_end *end)
{
    struct rt_etcd_ask *a = arg;
    struct rt_etcd_conn *c = a->conn;
    RT_ETCD_LIST_REMOVE(a);
    a->flying = false;
    a->call = NULL;
    if (end->status != RT_GRPC_OK) {
        judge(c, a, end);
        return;
    }
    rt_etcd_progress(c);
    answer_done(c, a, end);
}

/* ---- Sending ------------------------------------------------------------------------------------ */

static void end_soon(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err)
{
    a->ended = true;
    a->err = err;
    rt_etcd_timer_by(c, rt_loop_now(c->base->loop));
}

/* True: it is in flight now, and in that ring. A is in no ring. */
static bool try_send(struct rt_etcd_conn *c, struct rt_etcd_ask *a)
{
    struct rt_grpc_ask ask = {.path = calls[a->call_kind].path,
                              .token = c->token,
                              .end = on_end,
                              .arg = a,
                              .flag = a->call_kind != RT_ETCD_STATUS ? RT_ETCD_LED : NULL};
    int64_t now = rt_loop_now(c->base->loop);
    if (!rt_etcd_usable(c) || c->authenticating || a->ended || a->not_before > now)
        return false;
    int rv = rt_grpc_call(c->link->grpc, &ask, a->bytes, a->size, &a->call);
    if (rv == 0) {
        a->flying = true;
        a->sent_at = now;
        a->token_serial = c->token_serial;
        RT_ETCD_LIST_ADD(&c->flying, a);
    } else if (rv == ROTA_INVALID || rv == ROTA_NOMEM) {
        end_soon(c, a, rv);
    } else if (rt_grpc_err(c->link->grpc) == 0) {
        a->not_before = now + PAUSE_FIRST_MS * RT_MS; /* leaving, or too many at once */
        rt_etcd_timer_by(c, a->not_before);
    }
    rt_etcd_wrote(c);
    return rv == 0;
}

void rt_etcd_ask_send(struct rt_etcd_conn *c, struct rt_etcd_ask *a)
{
    if (a->deadline == 0 || a->deadline == RT_NEVER)
        a->deadline = rt_loop_now(c->base->loop) + c->base->call_ms * RT_MS;
    if (!try_send(c, a)) {
        RT_ETCD_LIST_ADD(&c->waiting, a);
        rt_etcd_want(c);
    }
    rt_etcd_timer_by(c, a->deadline);
}

int rt_etcd_ask(struct rt_etcd_conn *c, enum rt_etcd_call call, const void *message,
                int64_t deadline, rt_etcd_answer_fn *answer_fn, struct rt_op *op, void *owner)
{
    struct rt_etcd_ask *a = rt_etcd_ask_new(c, call, message, answer_fn);
    if (a == NULL)
        return rt_etcd_fail(c, ROTA_NOMEM, "out of memory");
    a->deadline = deadline;
    a->op = op;
    a->owner = owner;
    rt_etcd_ask_send(c, a);
    return 0;
}

void rt_etcd_flush(struct rt_etcd_conn *c)
{
    struct rt_etcd_ask all;
    RT_ETCD_LIST_MOVE(&all, &c->waiting);
    while (all.next != &all) {
        struct rt_etcd_ask *a = all.next;
        RT_ETCD_LIST_REMOVE(a);
        if (!try_send(c, a))
            RT_ETCD_LIST_ADD(&c->waiting, a);
    }
}

void rt_etcd_ask_abandon(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err)
{
    if (!a->ended)
        end_soon(c, a, err);
}

struct rt_etcd_ask *rt_etcd_ask_of(struct rt_etcd_conn *c, const struct rt_op *op)
{
    for (struct rt_etcd_ask *a = c->flying.next; a != &c->flying; a = a->next)
        if (a->op == op)
            return a;
    for (struct rt_etcd_ask *a = c->waiting.next; a != &c->waiting; a = a->next)
        if (a->op == op)
            return a;
    return NULL;
}

/* ---- Deadlines and lost connections --------------------------------------------------------------- */

void rt_etcd_timer_by(struct rt_etcd_conn *c, int64_t at)
{
    struct rt_timer *t = &c->timer.timer;
    if (at != RT_NEVER && (t->slot == 0 || t->at > at))
        rt_timers_start(&c->base->loop->timers, t, at);
}

/* Its time is over, or its owner's interest. */
static void end_one(struct rt_etcd_conn *c, struct rt_etcd_ask *a)
{
    bool unknown = !a->reads && (a->maybe || a->flying);
    int err = unknown ? ROTA_UNKNOWN : a->ended ? a->err : ROTA_UNREACHABLE;
    const char *trouble = c->trouble[0] != '\0' ? c->trouble : "it has not answered yet";
    if (a->flying)
        rt_grpc_cancel(a->call);
    a->call = NULL;
    if (err == ROTA_INVALID)
        (void)rt_etcd_fail(c, err, "the request is too large for etcd");
    else if (err == ROTA_NOMEM)
        (void)rt_etcd_fail(c, err, "out of memory");
    else if (a->ended)
        (void)rt_etcd_fail(c, err,
                           a->flying ? "given up under way" : "given up before it was sent");
    else if (a->flying)
        (void)rt_etcd_fail(c, err, "%.180s has not answered in time", rt_etcd_at(c));
    else
        (void)rt_etcd_fail(c, err, "etcd cannot be used now: %.220s", trouble);
    a->flying = false;
    answer(c, a, err, NULL);
}

static void take_over(struct rt_etcd_ask *from, struct rt_etcd_ask *over, int64_t now)
{
    for (struct rt_etcd_ask *a = from->next, *next; a != from; a = next) {
        next = a->next;
        if (a->ended || a->deadline <= now) {
            RT_ETCD_LIST_REMOVE(a);
            RT_ETCD_LIST_ADD(over, a);
        }
    }
}

static int64_t next_due(const struct rt_etcd_conn *c, int64_t now)
{
    int64_t next = RT_NEVER;
    for (const struct rt_etcd_ask *a = c->flying.next; a != &c->flying; a = a->next) {
        int64_t at = a->ended ? now : a->deadline;
        next = at < next ? at : next;
    }
    for (const struct rt_etcd_ask *a = c->waiting.next; a != &c->waiting; a = a->next) {
        int64_t at = a->ended ? now : a->deadline;
        if (a->not_before > now && a->not_before < at)
            at = a->not_before;
        next = at < next ? at : next;
    }
    return next;
}

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_etcd_conn *c = (struct rt_etcd_conn *)(void *)((char *)call -
                                                             offsetof(struct rt_etcd_conn, timer));
    struct rt_etcd_ask over;
    RT_ETCD_LIST_INIT(&over);
    take_over(&c->waiting, &over, now);
    take_over(&c->flying, &over, now);
    while (over.next != &over) {
        struct rt_etcd_ask *a = over.next;
        RT_ETCD_LIST_REMOVE(a);
        end_one(c, a);
    }
    rt_etcd_timer_by(c, rt_etcd_lease_tick(c, now));
    rt_etcd_flush(c);
    rt_etcd_timer_by(c, next_due(c, now));
    rt_etcd_wrote(c);
}

static bool any_refused(const struct rt_etcd_ask *head)
{
    const struct rt_etcd_ask *a = head->next;
    while (a != head && a->pauses == 0)
        a = a->next;
    return a != head;
}

const char *rt_etcd_trouble(const struct rt_etcd_conn *c)
{
    bool now = c->state != RT_ETCD_READY || any_refused(&c->waiting) || any_refused(&c->flying);
    return now && c->trouble[0] != '\0' ? c->trouble : NULL;
}

void rt_etcd_asks_lost(struct rt_etcd_conn *c, const char *why)
{
    struct rt_etcd_ask all;
    RT_ETCD_LIST_MOVE(&all, &c->flying);
    for (struct rt_etcd_ask *a = all.next; a != &all; a = a->next) { /* before anybody is told */
        a->flying = false;
        a->call = NULL;
        a->maybe = true;
    }
    while (all.next != &all) {
        struct rt_etcd_ask *a = all.next;
        RT_ETCD_LIST_REMOVE(a);
        if (a->reads || a->again || a->ended) {
            again(c, a, false);
            continue;
        }
        (void)rt_etcd_fail(c, ROTA_UNKNOWN, "no answer came: %.220s", why);
        answer(c, a, ROTA_UNKNOWN, NULL);
    }
}

void rt_etcd_refuse(struct rt_etcd_conn *c, int err, const char *why)
{
    struct rt_etcd_ask all;
    RT_ETCD_LIST_MOVE(&all, &c->waiting);
    while (all.next != &all) {
        struct rt_etcd_ask *a = all.next;
        int rv = a->maybe && !a->reads ? ROTA_UNKNOWN : err;
        RT_ETCD_LIST_REMOVE(a);
        (void)rt_etcd_fail(c, rv, "%s", why);
        answer(c, a, rv, NULL);
    }
}

void rt_etcd_ask_init(struct rt_etcd_conn *c)
{
    RT_ETCD_LIST_INIT(&c->waiting);
    RT_ETCD_LIST_INIT(&c->flying);
    rt_etcd_arena_init(&c->arena);
    c->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = fire};
}

static void free_ring(struct rt_etcd_ask *head)
{
    while (head->next != head) {
        struct rt_etcd_ask *a = head->next;
        RT_ETCD_LIST_REMOVE(a);
        rt_free(a);
    }
}

void rt_etcd_ask_fini(struct rt_etcd_conn *c)
{
    rt_timers_stop(&c->base->loop->timers, &c->timer.timer);
    free_ring(&c->waiting);
    free_ring(&c->flying);
    while (c->spare != NULL) {
        struct rt_etcd_ask *a = c->spare;
        c->spare = a->next;
        rt_free(a);
    }
    rt_etcd_arena_fini(&c->arena);
}
