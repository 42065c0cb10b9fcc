/* SPDX-License-Identifier: Apache-2.0 */
/* A model etcd that writes down everything it is asked. */
#include "transcript.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OPS 64
#define WATCHES 32
#define QUIET 12 /* steps without a word */

struct es_store transcript_store;

static struct town people[PEOPLE];
static bool there[PEOPLE];
static uint64_t sessions[PEOPLE];
static struct rt_op ops[OPS];
static struct rt_join joins[OPS][4];
static int op_count;
static char text[32768];
static bool spoken; /* since the last look */
bool transcript_hasty;
int transcript_cancel_at;
bool transcript_refuses, transcript_swallows;
static struct rt_op *to_cancel;
static struct town *canceler;

struct watching {
    struct town_wire *wire;
    size_t call;
    int64_t id;
    char key[256], end[256];
    size_t key_size, end_size;
    bool no_put, no_delete;
};
static struct watching watches[WATCHES];
static size_t watch_count, told; /* changes of the log that watchers have heard of */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text + used, sizeof(text) - used, format, args);
    va_end(args);
    assert_true(n >= 0 && used + (size_t)n < sizeof(text));
    spoken = true;
}

void transcript_forget(void)
{
    text[0] = '\0';
}

const char *transcript_text(void)
{
    return text;
}

/* ---- Requests as text -------------------------------------------------------------------- */

static void say_bytes(ProtobufCBinaryData data)
{
    for (size_t i = 0; i < data.len; i++)
        say(data.data[i] > 0x20 && data.data[i] < 0x7f ? "%c"
            : data.data[i] == ' '                      ? "_"
                                                       : "\\%02x",
            data.data[i]);
}

/* A card's `since` depends on the machine. */
static void say_value(ProtobufCBinaryData data)
{
    size_t spaces = 0;
    for (size_t i = 0; i < data.len; i++) {
        ProtobufCBinaryData one = {1, data.data + i};
        bool since = data.len > 6 && memcmp(data.data, "rota1 ", 6) == 0 && spaces == 7 &&
                     data.data[i] != ' ';
        spaces += data.data[i] == ' ';
        if (since && data.data[i - 1] == ' ')
            say("%s", data.data[i] == '0' ? "0" : "T");
        if (!since)
            say_bytes(one);
    }
}

static void say_span(ProtobufCBinaryData key, ProtobufCBinaryData end)
{
    say_bytes(key);
    if (end.len > 0) {
        say("..");
        say_bytes(end);
    }
}

static void say_range(const RtEtcd__RangeRequest *rq)
{
    static const char *const by[] = {"key", "version", "create", "mod", "value"};
    say("get ");
    say_span(rq->key, rq->range_end);
    if (rq->order != 0)
        say(" by %s%s", by[rq->by], rq->order == RT_ETCD__ORDER__ORDER_DESCEND ? " down" : "");
    if (rq->limit != 0)
        say(" limit %lld", (long long)rq->limit);
    if (rq->revision != 0)
        say(" as of %lld", (long long)rq->revision);
    if (rq->min_create_revision != 0)
        say(" from %lld", (long long)rq->min_create_revision);
    if (rq->max_create_revision != 0)
        say(" to %lld", (long long)rq->max_create_revision);
    if (rq->min_mod_revision != 0 || rq->max_mod_revision != 0)
        say(" mod %lld to %lld", (long long)rq->min_mod_revision, (long long)rq->max_mod_revision);
    say("%s%s%s", rq->serializable ? " serializable" : "", rq->keys_only ? " keys" : "",
        rq->count_only ? " count" : "");
}

static void say_put(const RtEtcd__PutRequest *rq)
{
    say("put ");
    say_bytes(rq->key);
    if (!rq->ignore_value) {
        say(" '");
        say_value(rq->value);
        say("'");
    }
    if (rq->lease != 0)
        say(" on %llx", (unsigned long long)rq->lease);
    say("%s%s", rq->ignore_lease ? " same lease" : "", rq->prev_kv ? " prev" : "");
}

static void say_delete(const RtEtcd__DeleteRangeRequest *rq)
{
    say("delete ");
    say_span(rq->key, rq->range_end);
    say("%s", rq->prev_kv ? " prev" : "");
}

static void say_compare(const RtEtcd__Compare *c)
{
    static const char *const results[] = {"=", ">", "<", "!="};
    static const char *const targets[] = {"version", "create", "mod", "value", "lease"};
    int64_t with = c->target == RT_ETCD__COMPARE__TARGET__VERSION  ? c->version
                   : c->target == RT_ETCD__COMPARE__TARGET__CREATE ? c->create_revision
                   : c->target == RT_ETCD__COMPARE__TARGET__MOD    ? c->mod_revision
                                                                   : c->lease;
    say("%s ", targets[c->target]);
    say_span(c->key, c->range_end);
    say(" %s %llx", results[c->result], (unsigned long long)with);
}

static void say_ops(const char *word, RtEtcd__RequestOp *const *list, size_t n)
{
    if (n == 0)
        return;
    say(" %s ", word);
    for (size_t i = 0; i < n; i++) {
        say("%s", i > 0 ? ", " : "");
        if (list[i]->request_case == RT_ETCD__REQUEST_OP__REQUEST_RANGE)
            say_range(list[i]->range);
        else if (list[i]->request_case == RT_ETCD__REQUEST_OP__REQUEST_PUT)
            say_put(list[i]->put);
        else
            say_delete(list[i]->delete_range);
    }
}

static void say_request(enum rt_etcd_call call, const void *request)
{
    if (call == RT_ETCD_TXN) {
        const RtEtcd__TxnRequest *rq = request;
        for (size_t i = 0; i < rq->n_compare; i++) {
            say("%s", i > 0 ? " and " : "if ");
            say_compare(rq->compare[i]);
        }
        say_ops(rq->n_compare > 0 ? "then" : "do", rq->success, rq->n_success);
        say_ops("else", rq->failure, rq->n_failure);
    } else if (call == RT_ETCD_RANGE) {
        say_range(request);
    } else if (call == RT_ETCD_PUT) {
        say_put(request);
    } else if (call == RT_ETCD_DELETE) {
        say_delete(request);
    } else if (call == RT_ETCD_LEASE_GRANT) {
        say("lease of %lld s", (long long)((const RtEtcd__LeaseGrantRequest *)request)->ttl);
    } else {
        say("revoke %llx", (unsigned long long)((const RtEtcd__LeaseRevokeRequest *)request)->id);
    }
}

static void say_result(enum rt_etcd_call call, const struct es_answer *a)
{
    if (a->status != 0)
        say(" => %s", a->text);
    else if (call == RT_ETCD_TXN)
        say(" => %s", ((const RtEtcd__TxnResponse *)a->reply)->succeeded ? "yes" : "no");
    else if (call == RT_ETCD_LEASE_GRANT)
        say(" => %llx", (unsigned long long)((const RtEtcd__LeaseGrantResponse *)a->reply)->id);
    say("\n");
}

/* ---- The server --------------------------------------------------------------------------- */

static const struct {
    const char *path;
    enum rt_etcd_call call;
    const ProtobufCMessageDescriptor *type;
} paths[] = {
    {"/etcdserverpb.KV/Range", RT_ETCD_RANGE, &rt_etcd__range_request__descriptor},
    {"/etcdserverpb.KV/Txn", RT_ETCD_TXN, &rt_etcd__txn_request__descriptor},
    {"/etcdserverpb.KV/Put", RT_ETCD_PUT, &rt_etcd__put_request__descriptor},
    {"/etcdserverpb.KV/DeleteRange", RT_ETCD_DELETE, &rt_etcd__delete_range_request__descriptor},
    {"/etcdserverpb.Lease/LeaseGrant", RT_ETCD_LEASE_GRANT,
     &rt_etcd__lease_grant_request__descriptor},
    {"/etcdserverpb.Lease/LeaseRevoke", RT_ETCD_LEASE_REVOKE,
     &rt_etcd__lease_revoke_request__descriptor},
};

static char name_of(const struct town *town)
{
    return (char)('a' + (town - people));
}

/* Everybody who watches hears of what is new in the log. */
static void notify(void)
{
    struct rt_arena arena;
    arena = RT_ETCD_ARENA;
    for (; told < transcript_store.log_count; told++) {
        const struct es_change *change = &transcript_store.log[told];
        struct es_text key = (change->after != NULL ? change->after : change->before)->key;
        for (size_t i = 0; i < watch_count; i++) {
            const struct watching *w = &watches[i];
            struct es_text begin = {(const uint8_t *)w->key, w->key_size},
                           end = {(const uint8_t *)w->end, w->end_size};
            RtEtcd__WatchResponse r = RT_ETCD__WATCH_RESPONSE__INIT;
            RtEtcd__Event *event = es_event(&arena, change);
            if (w->wire->stream == NULL || !es_text_within(key, begin, end) ||
                (change->after != NULL ? w->no_put : w->no_delete))
                continue;
            r.header = es_header(&arena, change->revision);
            r.watch_id = w->id;
            r.events = &event;
            r.n_events = 1;
            town_say(w->wire, w->call, &r);
        }
    }
    rt_arena_fini(&arena);
}

static void do_watch(struct town *town, struct town_wire *wire, size_t i,
                     const RtEtcd__WatchCreate *rq)
{
    RtEtcd__WatchResponse r = RT_ETCD__WATCH_RESPONSE__INIT;
    RtEtcd__Header header = RT_ETCD__HEADER__INIT;
    assert_true(watch_count < WATCHES && rq->key.len < 256 && rq->range_end.len < 256);
    struct watching *w = &watches[watch_count++];
    *w = (struct watching){.wire = wire, .call = i, .id = rq->watch_id};
    memcpy(w->key, rq->key.data, w->key_size = rq->key.len);
    if (rq->range_end.len > 0)
        memcpy(w->end, rq->range_end.data, rq->range_end.len);
    w->end_size = rq->range_end.len;
    for (size_t k = 0; k < rq->n_filters; k++) {
        w->no_put = w->no_put || rq->filters[k] == RT_ETCD__WATCH_CREATE__FILTER__NO_PUT;
        w->no_delete = w->no_delete || rq->filters[k] == RT_ETCD__WATCH_CREATE__FILTER__NO_DELETE;
    }
    say("> %c watch ", name_of(town));
    say_span(rq->key, rq->range_end);
    say("%s%s%s%s", w->no_put ? " no puts" : "", w->no_delete ? " no deletes" : "",
        rq->prev_kv ? " prev" : "", rq->progress_notify ? " progress" : "");
    if (rq->start_revision != 0)
        say(" from %lld", (long long)rq->start_revision);
    say("\n");
    header.revision = transcript_store.revision;
    r.header = &header;
    r.watch_id = rq->watch_id;
    r.created = true;
    town_say(wire, i, &r);
}

static void do_unwatch(struct town *town, struct town_wire *wire, size_t i, int64_t id)
{
    RtEtcd__WatchResponse r = RT_ETCD__WATCH_RESPONSE__INIT;
    for (size_t k = 0; k < watch_count; k++) {
        if (watches[k].wire != wire || watches[k].id != id)
            continue;
        ProtobufCBinaryData key = {watches[k].key_size, (uint8_t *)watches[k].key},
                            end = {watches[k].end_size, (uint8_t *)watches[k].end};
        say("> %c unwatch ", name_of(town));
        say_span(key, end);
        say("\n");
        watches[k] = watches[--watch_count];
        r.watch_id = id;
        r.canceled = true;
        town_say(wire, i, &r);
        return;
    }
    say("> %c unwatch what is not watched\n", name_of(town));
}

static void play_watch(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__WatchRequest *rq;
    while ((rq = town_read(w, i, &rt_etcd__watch_request__descriptor)) != NULL) {
        if (rq->request_case == RT_ETCD__WATCH_REQUEST__REQUEST_CREATE)
            do_watch(town, w, i, rq->create);
        else if (rq->request_case == RT_ETCD__WATCH_REQUEST__REQUEST_CANCEL)
            do_unwatch(town, w, i, rq->cancel->watch_id);
        protobuf_c_message_free_unpacked(&rq->base, NULL);
    }
}

void transcript_give_up(char who, struct rt_op *op)
{
    to_cancel = transcript_cancel_at > 0 ? op : NULL;
    canceler = person(who);
}

/* True: the op was given up while its request is under way, and nobody waits for the answer. */
static bool give_up(const struct town *town)
{
    struct rt_op *op = to_cancel;
    if (op == NULL || town != canceler || --transcript_cancel_at > 0)
        return false;
    to_cancel = NULL;
    rt_engine_etcd.cancel(rt_etcd_base(canceler->conn), op);
    return true;
}

static void play_keep(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__LeaseKeepAliveRequest *rq;
    while ((rq = town_read(w, i, &rt_etcd__lease_keep_alive_request__descriptor)) != NULL) {
        RtEtcd__LeaseKeepAliveResponse r = RT_ETCD__LEASE_KEEP_ALIVE_RESPONSE__INIT;
        const struct es_lease *lease = es_store_lease(&transcript_store, rq->id);
        r.id = rq->id;
        r.ttl = lease != NULL ? lease->ttl_s : 0;
        say("> %c keep %llx => %lld s\n", name_of(town), (unsigned long long)rq->id,
            (long long)r.ttl);
        if (!give_up(town))
            town_say(w, i, &r);
        protobuf_c_message_free_unpacked(&rq->base, NULL);
    }
}

static void play_left(struct town *town, struct town_wire *w, size_t i)
{
    RtEtcd__LeaseTimeToLiveResponse r = RT_ETCD__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    RtEtcd__LeaseTimeToLiveRequest *rq = town_read(
        w, i, &rt_etcd__lease_time_to_live_request__descriptor);
    const struct es_lease *lease = es_store_lease(&transcript_store, rq->id);
    ProtobufCBinaryData keys[64];
    r.id = rq->id;
    r.ttl = lease != NULL ? lease->ttl_s - 1 : -1;
    r.keys = keys;
    for (size_t k = 0; rq->keys && k < transcript_store.count; k++)
        if (transcript_store.kvs[k]->lease == rq->id && r.n_keys < 64)
            keys[r.n_keys++] = (ProtobufCBinaryData){
                transcript_store.kvs[k]->key.n,
                (uint8_t *)(uintptr_t)transcript_store.kvs[k]->key.at};
    say("> %c left %llx%s => %lld s, %zu keys\n", name_of(town), (unsigned long long)rq->id,
        rq->keys ? " keys" : "", (long long)r.ttl, r.n_keys);
    town_answer(w, i, &r);
    protobuf_c_message_free_unpacked(&rq->base, NULL);
}

static bool play(struct town *town, struct town_wire *w, size_t i)
{
    struct rt_arena arena;
    if (town_is_call(w, i, "/etcdserverpb.Watch/Watch")) {
        play_watch(town, w, i);
        return true;
    }
    if (town_is_call(w, i, "/etcdserverpb.Lease/LeaseKeepAlive")) {
        play_keep(town, w, i);
        return true;
    }
    if (town_is_call(w, i, "/etcdserverpb.Lease/LeaseTimeToLive")) {
        play_left(town, w, i);
        return true;
    }
    for (size_t k = 0; k < sizeof(paths) / sizeof(paths[0]); k++) {
        if (!town_is_call(w, i, paths[k].path))
            continue;
        ProtobufCMessage *rq = town_read(w, i, paths[k].type);
        bool mute = give_up(town);
        arena = RT_ETCD_ARENA;
        say("> %c ", name_of(town));
        say_request(paths[k].call, rq);
        struct es_answer a = {RT_GRPC_PERMISSION_DENIED, "etcdserver: permission denied", NULL};
        if (mute && transcript_swallows)
            a.text = "lost on its way";
        else if (!transcript_refuses)
            a = es_store_do(&transcript_store, &arena, paths[k].call, rq, 0);
        say_result(paths[k].call, &a);
        if (a.status == 0 && !mute) {
            town_answer(w, i, a.reply);
        } else if (!mute) {
            char status[12];
            snprintf(status, sizeof(status), "%u", a.status);
            peer_refuse(&w->peer, i, "200", "application/grpc", status, a.text);
        }
        rt_arena_fini(&arena);
        protobuf_c_message_free_unpacked(rq, NULL);
        notify();
        return true;
    }
    return false;
}

/* ---- Clients ------------------------------------------------------------------------------ */

struct town *person(char who)
{
    return &people[who - 'a'];
}

static struct town *of_up(struct rt_up *up)
{
    return (struct town *)(void *)((char *)up - offsetof(struct town, up));
}

static const char *err_name(int err)
{
#define ROTA_NAME(name, number, words) [-(number)] = #name,
    static const char *const names[] = {[0] = "ok", ROTA_ERRORS(ROTA_NAME)};
    return names[-err];
}

static void on_done(struct rt_up *up, struct rt_op *op)
{
    struct town *town = of_up(up);
    town->done++;
    if (op == to_cancel)
        to_cancel = NULL;
    say("%c %s %s", name_of(town), (const char *)op->user, err_name(op->err));
    if (op->err != 0)
        say(": %s", rt_etcd_base(town->conn)->errmsg);
    else if (op->kind == RT_OP_BEAT)
        say(" %llx %u ms", (unsigned long long)op->beat.session, op->beat.ttl_ms);
    else if (op->kind == RT_OP_LEAVE)
        say("%s", op->leave.granted ? " granted" : "");
    else if (op->kind == RT_OP_CHANGE)
        say("%s", op->change.wanted ? " wanted" : "");
    for (size_t i = 0;
         op->err == 0 && (op->kind == RT_OP_JOIN || op->kind == RT_OP_JOIN_ALL) && i < op->join.n;
         i++)
        say(" #%llu%s%s", (unsigned long long)op->join.joins[i].number,
            op->join.joins[i].granted ? " granted" : "", op->join.joins[i].wanted ? " wanted" : "");
    say("\n");
}

static void on_event(struct rt_up *up, const struct rt_event *e)
{
    char who = name_of(of_up(up));
    if (e->kind == RT_LINK)
        return;
    if (e->kind == RT_SESSION_LOST)
        say("%c session lost %llx\n", who, (unsigned long long)e->session);
    else if (e->kind == RT_CHANGED)
        say("%c changed %s: %zu of mode %u/%u, #%llu '%s' of '%s'\n", who, e->name, e->count,
            e->mode, e->of, (unsigned long long)e->front.fence, e->front.value, e->front.label);
    else
        say("%c %s %s #%llu\n", who,
            e->kind == RT_GRANTED  ? "granted"
            : e->kind == RT_WANTED ? "wanted"
                                   : "lost",
            e->name, (unsigned long long)e->number);
}

void transcript_run(void)
{
    for (int quiet = 0, i = 0; quiet < QUIET; i++) {
        assert_true(i < 10000);
        spoken = false;
        for (int k = 0; k < PEOPLE; k++)
            if (there[k])
                town_step(&people[k]);
        quiet = spoken ? 0 : quiet + 1;
    }
}

void person_open(char who)
{
    static const char *const labels[] = {"ann", "bob", "cid"};
    struct town *town = person(who);
    town_init(town, 1);
    town->play = play;
    town_open(town, "etcd://a");
    rt_etcd_base(town->conn)->label = labels[who - 'a'];
    town->up.done = on_done;
    town->up.event = on_event;
    there[who - 'a'] = true;
    town_until_ready(town);
    transcript_forget();
}

int transcript_begin(void **state)
{
    (void)state;
    es_store_open(&transcript_store);
    memset(there, 0, sizeof(there));
    memset(sessions, 0, sizeof(sessions));
    op_count = 0;
    transcript_hasty = false;
    transcript_cancel_at = 0;
    transcript_refuses = transcript_swallows = false;
    to_cancel = NULL;
    watch_count = told = 0;
    transcript_forget();
    return 0;
}

int transcript_end(void **state)
{
    (void)state;
    for (int i = 0; i < PEOPLE; i++)
        if (there[i])
            town_close(&people[i]);
    es_store_close(&transcript_store);
    return 0;
}

/* ---- Ops ----------------------------------------------------------------------------------- */

static struct rt_op *op_new(enum rt_op_kind kind, const char *name)
{
    assert_true(op_count < OPS);
    struct rt_op *op = &ops[op_count++];
    *op = (struct rt_op){.kind = kind, .user = (void *)(uintptr_t)name};
    return op;
}

static struct rt_op *run(char who, struct rt_op *op)
{
    struct town *town = person(who);
    int done = town->done;
    transcript_give_up(who, op);
    town_submit(town, op);
    for (int i = 0; transcript_hasty && town->done == done; i++) {
        assert_true(i < 10000);
        town_step(town);
    }
    if (!transcript_hasty)
        transcript_run();
    return op;
}

struct rt_op *beat_with(char who, uint64_t ticket)
{
    static uint64_t tickets[OPS];
    struct rt_op *op = op_new(RT_OP_BEAT, "beat");
    tickets[op_count - 1] = ticket;
    op->beat.session = sessions[who - 'a'];
    op->beat.tickets = &tickets[op_count - 1];
    op->beat.ticket_count = 1;
    return run(who, op);
}

struct rt_op *beat(char who, bool open)
{
    struct rt_op *op = op_new(RT_OP_BEAT, open ? "open" : "beat");
    op->beat.open = open;
    op->beat.session = sessions[who - 'a'];
    run(who, op);
    if (open && op->err == 0)
        sessions[who - 'a'] = op->beat.session;
    return op;
}

struct rt_op *join_all(char who, const struct rt_join *list, size_t n)
{
    struct rt_op *op = op_new(n == 1 ? RT_OP_JOIN : RT_OP_JOIN_ALL, "join");
    struct rt_join *mine = joins[op_count - 1];
    assert_true(n <= 4);
    for (size_t i = 0; i < n; i++) {
        mine[i] = list[i];
        if (mine[i].session == 0)
            mine[i].session = sessions[who - 'a'];
    }
    op->join.joins = mine;
    op->join.n = n;
    return run(who, op);
}

struct rt_op *join(char who, struct rt_join one)
{
    return join_all(who, &one, 1);
}

static struct rt_op *leave_as(char who, const char *name, uint64_t session, uint64_t number,
                              uint64_t nonce, bool untold)
{
    struct rt_op *op = op_new(RT_OP_LEAVE, "leave");
    op->leave.name = name;
    op->leave.session = session;
    op->leave.number = number;
    op->leave.nonce = nonce;
    op->leave.untold = untold;
    return run(who, op);
}

struct rt_op *leave(char who, const char *name, uint64_t number, uint64_t nonce)
{
    return leave_as(who, name, sessions[who - 'a'], number, nonce, false);
}

struct rt_op *leave_untold(char who, const char *name, uint64_t number)
{
    return leave_as(who, name, sessions[who - 'a'], number, 0, true);
}

struct rt_op *leave_durable(char who, const char *name, uint64_t session, uint64_t nonce)
{
    return leave_as(who, name, session, 0, nonce, false);
}

struct rt_op *change(char who, const char *name, uint64_t number, uint32_t what, const char *value)
{
    struct rt_op *op = op_new(RT_OP_CHANGE, "change");
    op->change.name = name;
    op->change.session = sessions[who - 'a'];
    op->change.number = number;
    op->change.what = what;
    op->change.value = value;
    return run(who, op);
}

struct rt_op *break_it(char who, const char *name, uint64_t number, uint32_t mode)
{
    struct rt_op *op = op_new(RT_OP_BREAK, "break");
    op->brk.name = name;
    op->brk.number = number;
    op->brk.mode = mode;
    return run(who, op);
}

struct rt_op *observe(char who, const char *name, void *cookie, bool stop)
{
    struct rt_op *op = op_new(RT_OP_OBSERVE, stop ? "look away" : "look");
    op->observe.name = name;
    op->observe.cookie = cookie;
    op->observe.stop = stop;
    return run(who, op);
}

void end_session(char who)
{
    struct town *town = person(who);
    (void)rt_engine_etcd.parting(rt_etcd_base(town->conn));
    transcript_run();
}

/* ---- Others -------------------------------------------------------------------------------- */

static void others_do(enum rt_etcd_call call, const void *request)
{
    struct rt_arena arena;
    arena = RT_ETCD_ARENA;
    assert_int_equal(es_store_do(&transcript_store, &arena, call, request, 0).status, 0);
    rt_arena_fini(&arena);
    notify();
    transcript_run();
}

static ProtobufCBinaryData bytes(const char *s)
{
    return (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
}

void others_put(const char *key, const char *value, int64_t lease)
{
    RtEtcd__PutRequest rq = RT_ETCD__PUT_REQUEST__INIT;
    rq.key = bytes(key);
    rq.value = bytes(value);
    rq.lease = lease;
    others_do(RT_ETCD_PUT, &rq);
}

void others_delete(const char *key)
{
    RtEtcd__DeleteRangeRequest rq = RT_ETCD__DELETE_RANGE_REQUEST__INIT;
    rq.key = bytes(key);
    others_do(RT_ETCD_DELETE, &rq);
}

void lease_ends(int64_t lease)
{
    assert_true(es_store_revoke(&transcript_store, lease));
    notify();
    transcript_run();
}
