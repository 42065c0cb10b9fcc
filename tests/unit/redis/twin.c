/* SPDX-License-Identifier: Apache-2.0 */
/* Two worlds side by side: how they are asked and compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>

#include "twin.h"

#include "base/alloc.h"
#include "engine/mem/mem.h"
#include "engine/url.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const twin_names[TWIN_NAMES] = {"lock",      "other {lock} 1", "50%",
                                            "{permits}", "count",          "gather it"};

int64_t twin_now_us(const struct twin *t)
{
    return t->epoch_us + rt_loop_now(&t->loop) / 1000;
}

static int name_index(const char *name)
{
    for (int i = 0; i < TWIN_NAMES; i++)
        if (strcmp(twin_names[i], name) == 0)
            return i;
    fail_msg("no line of ours: %s", name);
    return -1;
}

/* ---- Asking ------------------------------------------------------------- */

/* Turns the short reply to a short join ("TAG NUMBER") or leave ("TAG") into the long one that says the same. */
static redisReply *in_full(redisReply *reply, const char *tag, bool joined)
{
    char text[160];
    void *full = NULL;
    const char *number = strchr(reply->str, ' ');
    assert_int_equal(strncmp(reply->str, tag, strlen(tag)), 0);
    assert_int_equal(reply->str[strlen(tag)], joined ? ' ' : '\0');
    if (joined)
        snprintf(text, sizeof(text), "*6\r\n$%zu\r\n%s\r\n:0\r\n:0\r\n:0\r\n:%s\r\n:1\r\n",
                 strlen(tag), tag, number + 1);
    else
        snprintf(text, sizeof(text), "*3\r\n$%zu\r\n%s\r\n:0\r\n:1\r\n", strlen(tag), tag);
    freeReplyObject(reply);
    redisReader *reader = redisReaderCreate();
    redisReaderFeed(reader, text, strlen(text));
    redisReaderGetReply(reader, &full);
    redisReaderFree(reader);
    assert_non_null(full);
    return full;
}

redisReply *twin_script(struct twin *t, enum rt_redis_script script, size_t n,
                        const char *const *args)
{
    const char *argv[64] = {"EVALSHA", rt_redis_texts_test[script][0].sha1, "1", TWIN_ROOM};
    char tag[24];
    snprintf(tag, sizeof(tag), "%lld", ++t->tag);
    argv[4] = tag;
    assert_true(n <= 58);
    for (size_t i = 0; i < n; i++)
        argv[5 + i] = args[i];
    redisReply *reply = redisCommandArgv(t->work, (int)n + 5, argv, NULL);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("step %d, %s: %s", t->step, rt_redis_texts_test[script][0].name, reply->str);
    bool joined = script == RT_REDIS_SCRIPT_JOIN && n == 5;
    if (reply->type == REDIS_REPLY_STRING && (joined || (script == RT_REDIS_SCRIPT_LEAVE && n < 5)))
        reply = in_full(reply, tag, joined);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    assert_string_equal(reply->element[0]->str, tag);
    assert_int_equal(reply->element[1]->type, REDIS_REPLY_INTEGER);
    for (size_t i = 0; i < reply->elements; i++)
        assert_int_not_equal(reply->element[i]->type, REDIS_REPLY_NIL);
    return reply;
}

static void set_clock(struct twin *t)
{
    freeReplyObject(
        redisCommand(t->work, "SET %s:clock %lld", TWIN_ROOM, (long long)twin_now_us(t)));
}

void twin_sweep(struct twin *t)
{
    static const char *const budgets[] = {"1", "2", "1000"};
    long long more = 1;
    for (int i = 0; more != 0; i++) {
        assert_true(i < 10000);
        const char *args[] = {budgets[rt_random_below(&t->random, 3)], "", ""};
        if (rt_random_below(&t->random, 4) == 0)
            args[2] = twin_names[rt_random_below(&t->random, TWIN_NAMES)];
        redisReply *r = twin_script(t, RT_REDIS_SCRIPT_SWEEP, 3, args);
        more = r->element[4]->integer;
        freeReplyObject(r);
    }
}

static void nothing(void *arg, const char *name, const struct rota_place *place)
{
    (void)arg;
    (void)name;
    (void)place;
}

void twin_advance(struct twin *t, int64_t ms)
{
    rt_loop_advance(&t->loop, rt_loop_now(&t->loop) + ms * RT_MS);
    set_clock(t);
    struct rt_op op = {
        .kind = RT_OP_INSPECT, .deadline = INT64_MAX, .inspect = {.name = "none", .each = nothing}};
    t->actor[0].conn->engine->submit(t->actor[0].conn, &op);
    if (!t->lazy)
        twin_sweep(t);
    t->swept = true;
}

/* ---- Hearing ------------------------------------------------------------ */

static void on_done(struct rt_up *up, struct rt_op *op)
{
    (void)up;
    (void)op;
}

static void on_event(struct rt_up *up, const struct rt_event *event)
{
    struct twin_actor *a = (struct twin_actor *)(void *)up;
    struct twin *t = a->twin;
    static const char kinds[] = {[RT_GRANTED] = 'G', [RT_WANTED] = 'W', [RT_TICKET_LOST] = 'L'};
    if (event->kind != RT_GRANTED && event->kind != RT_WANTED && event->kind != RT_TICKET_LOST)
        return;
    assert_true(t->told_count < TWIN_TOLD);
    t->told[t->told_count++] = (struct twin_told){.actor = (int)(a - t->actor),
                                                  .name = name_index(event->name),
                                                  .kind = kinds[event->kind],
                                                  .number = event->number};
}

static uint64_t mem_number(struct twin *t, int name, uint64_t number)
{
    for (size_t i = t->tickets; i-- > 0;)
        if (t->ticket[i].name == name && t->ticket[i].number == number)
            return t->ticket[i].join.number;
    fail_msg("step %d: nobody has the number %" PRIu64 " of %s", t->step, number, twin_names[name]);
    return 0;
}

static void pushed(struct twin *t, int actor, char kind, int name, uint64_t number)
{
    assert_true(t->pushed_count < TWIN_TOLD);
    t->pushed[t->pushed_count++] = (struct twin_told){
        .actor = actor, .name = name, .kind = kind, .number = number};
}

/* "SID v KIND NUMBER NAME" */
static void hear(struct twin *t, const char *channel, const char *text)
{
    char sid[32], kind;
    long long v;
    uint64_t number;
    int at = 0, i = 0;
    assert_int_equal(sscanf(text, "%31s %lld %c %" SCNu64 " %n", sid, &v, &kind, &number, &at), 4);
    while (i < TWIN_ACTORS && strcmp(channel + strlen(TWIN_ROOM ":p:"), t->actor[i].cid) != 0)
        i++;
    assert_true(i < TWIN_ACTORS);
    if (sid[0] == 'd') {
        assert_int_equal(v, 0);
    } else if (strcmp(sid, t->actor[i].sid) == 0) {
        assert_int_equal(v, t->actor[i].pushes + 1);
        t->actor[i].pushes = v;
    }
    int name = name_index(text + at);
    number = mem_number(t, name, number);
    pushed(t, i, kind == 'H' ? 'G' : kind, name, number);
    if (kind == 'H')
        pushed(t, i, 'W', name, number);
}

static void collect(struct twin *t)
{
    char token[32];
    snprintf(token, sizeof(token), "sync %lld", ++t->tag);
    freeReplyObject(redisCommand(t->work, "PUBLISH %s:sync %s", TWIN_ROOM, token));
    for (bool end = false; !end;) {
        redisReply *r = NULL;
        assert_int_equal(redisGetReply(t->push, (void **)&r), REDIS_OK);
        assert_string_equal(r->element[0]->str, "pmessage");
        const char *channel = r->element[2]->str, *text = r->element[3]->str;
        if (strstr(channel, ":sync") != NULL)
            end = strcmp(text, token) == 0;
        else if (strncmp(channel, TWIN_ROOM ":p:", strlen(TWIN_ROOM ":p:")) == 0)
            hear(t, channel, text);
        else
            snprintf(t->observed[name_index(channel + strlen(TWIN_ROOM ":o:"))],
                     sizeof(t->observed[0]), "%s", text);
        freeReplyObject(r);
    }
}

/* ---- Comparing ---------------------------------------------------------- */

static int by_all(const void *a, const void *b)
{
    const struct twin_told *x = a, *y = b;
    if (x->name != y->name)
        return x->name - y->name;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->kind - y->kind;
}

static void print_told(const char *who, const struct twin_told *told, size_t count)
{
    for (size_t i = 0; i < count; i++)
        print_error("%s: %c %s %" PRIu64 " to %d\n", who, told[i].kind, twin_names[told[i].name],
                    told[i].number, told[i].actor);
}

/* Grants of a line are told in the line's order. */
static void check_order(const struct twin *t)
{
    uint64_t last[TWIN_NAMES] = {0};
    for (size_t i = 0; i < t->pushed_count; i++) {
        const struct twin_told *p = &t->pushed[i];
        if (p->kind != 'G')
            continue;
        assert_true(p->number > last[p->name]);
        last[p->name] = p->number;
    }
}

static bool told_too(const struct twin *t, const struct twin_told *p)
{
    for (size_t i = 0; i < t->told_count; i++)
        if (by_all(&t->told[i], p) == 0)
            return true;
    return false;
}

/* mem ends all that is over in a line before it grants; a sweep ends ticket by ticket, and may see
 * somebody wait whom its next step grants. One WANTED too many harms nobody. */
static void forgive_wanted(struct twin *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->pushed_count; i++)
        if (t->pushed[i].kind != 'W' || told_too(t, &t->pushed[i]))
            t->pushed[n++] = t->pushed[i];
    t->pushed_count = n;
}

static void compare_told(struct twin *t)
{
    check_order(t);
    if (t->swept)
        forgive_wanted(t);
    qsort(t->told, t->told_count, sizeof(t->told[0]), by_all);
    qsort(t->pushed, t->pushed_count, sizeof(t->pushed[0]), by_all);
    bool same = t->told_count == t->pushed_count;
    for (size_t i = 0; same && i < t->told_count; i++)
        same = by_all(&t->told[i], &t->pushed[i]) == 0 && t->told[i].actor == t->pushed[i].actor;
    if (same)
        return;
    print_told("mem", t->told, t->told_count);
    print_told("redis", t->pushed, t->pushed_count);
    fail_msg("step %d: other events", t->step);
}

struct shown {
    struct twin *twin;
    const redisReply *reply;
    size_t at;      /* of the next ticket in the reply */
    uint64_t fence; /* of the first, if it is granted */
    size_t count;
    uint32_t mode, of;
    char label[24], value[64];
};

static bool near(int64_t a, int64_t b)
{
    return a - b <= 1 && b - a <= 1;
}

static void compare_times(const struct shown *s, const struct rota_place *place, uint64_t number,
                          int64_t granted_at, int64_t end)
{
    int64_t now = twin_now_us(s->twin);
    assert_true(near(place->left_ms, end != 0 ? (end - now) / 1000 : -1));
    int64_t since = granted_at != 0 ? granted_at : (int64_t)number;
    bool counted = granted_at == 0 &&
                   number >= TWIN_ONLY_COUNTS; /* it waits; since when is not known */
    assert_true(s->twin->late || counted || near(place->since_ms, (now - since) / 1000));
}

static void compare_place(void *arg, const char *name, const struct rota_place *place)
{
    struct shown *s = arg;
    assert_true(s->at + 7 <= s->reply->elements);
    redisReply **e = &s->reply->element[s->at];
    s->at += 7;
    assert_string_equal(e[0]->str, name);
    uint64_t number = (uint64_t)e[1]->integer;
    assert_int_equal(place->number, mem_number(s->twin, name_index(name), number));
    char sid[32], flags[8];
    uint64_t nonce, owner;
    uint32_t mode, take, of;
    int64_t granted_at;
    assert_int_equal(sscanf(e[2]->str, "%31s %" SCNu64 " %u %u %u %7s %" SCNu64 " %" SCNd64, sid,
                            &nonce, &mode, &take, &of, flags, &owner, &granted_at),
                     8);
    assert_int_equal(mode, place->mode);
    assert_int_equal(take, place->take);
    assert_int_equal(of, place->of);
    assert_int_equal(owner, place->owner);
    assert_string_equal(e[4]->str, place->label);
    assert_string_equal(e[5]->str, place->value);
    assert_int_equal(e[6]->integer, (place->flags & ROTA_PLACE_GRANTED) != 0);
    assert_int_equal(strchr(flags, 'D') != NULL, (place->flags & ROTA_PLACE_DURABLE) != 0);
    assert_int_equal(strchr(flags, 'd') != NULL, (place->flags & ROTA_PLACE_DETECT) != 0);
    compare_times(s, place, number, granted_at, e[3]->integer);
    if (s->count++ == 0) {
        s->mode = mode;
        s->of = of;
        if (e[6]->integer != 0) {
            s->fence = number;
            snprintf(s->label, sizeof(s->label), "%s", place->label);
            snprintf(s->value, sizeof(s->value), "%s", place->value);
        }
    }
}

/* A look, and the last state that was told, must say what INSPECT says. */
static void compare_state(struct twin *t, const struct shown *s, int name)
{
    const char *args[] = {twin_names[name], t->watched ? "60000" : "0"};
    redisReply *r = twin_script(t, RT_REDIS_SCRIPT_LOOK, 2, args);
    assert_int_equal(r->elements, 10);
    assert_int_equal(r->element[4]->integer, s->count);
    assert_int_equal(r->element[5]->integer, s->mode);
    assert_int_equal(r->element[6]->integer, s->of);
    assert_int_equal(r->element[7]->integer, s->fence);
    assert_string_equal(r->element[8]->str, s->label);
    assert_string_equal(r->element[9]->str, s->value);
    freeReplyObject(r);
    if (t->observed[name][0] == '\0')
        return;
    char state[256];
    snprintf(state, sizeof(state), "%zu %u %u %" PRIu64 " %zu %s%s", s->count, s->mode, s->of,
             s->fence, strlen(s->label), s->label, s->value);
    if (strcmp(t->observed[name], state) != 0)
        fail_msg("step %d: observers heard [%s] and not [%s]", t->step, t->observed[name], state);
}

static void compare_line(struct twin *t, int name)
{
    redisReply *r = twin_script(t, RT_REDIS_SCRIPT_INSPECT, 1, &twin_names[name]);
    struct shown s = {.twin = t, .reply = r, .at = 3};
    struct rt_op op = {.kind = RT_OP_INSPECT,
                       .deadline = INT64_MAX,
                       .inspect = {.name = twin_names[name], .each = compare_place, .arg = &s}};
    t->actor[0].conn->engine->submit(t->actor[0].conn, &op);
    assert_int_equal(s.at, r->elements);
    freeReplyObject(r);
    if (t->watched || rt_random_below(&t->random, 8) == 0)
        compare_state(t, &s, name);
}

void twin_compare(struct twin *t, bool told)
{
    for (int i = 0; i < TWIN_ACTORS; i++)
        while (rt_mem_pending(t->actor[i].conn))
            rt_mem_deliver(t->actor[i].conn);
    collect(t);
    if (told && !t->lazy)
        compare_told(t);
    t->told_count = t->pushed_count = 0;
    t->swept = false;
    /* Looking at a plain line unfolds it: not after every step. */
    if (t->lazy || (!t->watched && rt_random_below(&t->random, t->plain ? 20 : 3) != 0))
        return;
    for (int i = 0; i < TWIN_NAMES; i++)
        compare_line(t, i);
}

/* ---- Beginning and end -------------------------------------------------- */

static void actor_init(struct twin *t, int i)
{
    struct twin_actor *a = &t->actor[i];
    a->twin = t;
    a->up = (struct rt_up){.done = on_done, .event = on_event};
    snprintf(a->label, sizeof(a->label), "actor %d", i);
    snprintf(a->cid, sizeof(a->cid), "%012x", 0xd1234u + (unsigned)i);
    a->conn = rt_alloc(rt_engine_mem.conn_size);
    assert_non_null(a->conn);
    *a->conn = (struct rt_conn){.engine = &rt_engine_mem,
                                .up = &a->up,
                                .loop = &t->loop,
                                .label = a->label,
                                .ttl_ms = TWIN_TTL_MS,
                                .call_ms = 5000};
    char world[32]; /* one that failed leaves its own */
    snprintf(world, sizeof(world), "twin%u", t->world);
    struct rt_url url = {.scheme = "mem", .path = world};
    assert_int_equal(rt_engine_mem.open(a->conn, &url), 0);
}

static redisContext *connect_to(const struct rt_redis *node)
{
    redisContext *c = redisConnectUnix(node->socket);
    assert_non_null(c);
    assert_int_equal(c->err, 0);
    return c;
}

void twin_init(struct twin *t, struct rt_redis *node, uint64_t seed, bool lazy, bool watched,
               int64_t epoch_us)
{
    static unsigned worlds;
    memset(t, 0, sizeof(*t));
    t->world = ++worlds;
    t->random.state = seed;
    t->epoch_us = epoch_us;
    t->node = node;
    t->lazy = t->late = lazy;
    t->watched = watched;
    rt_redis_must(node, "FLUSHALL");
    t->work = connect_to(node);
    t->push = connect_to(node);
    freeReplyObject(redisCommand(t->push, "PSUBSCRIBE %s:*", TWIN_ROOM));
    for (int i = 0; i < RT_REDIS_SCRIPTS; i++)
        freeReplyObject(redisCommand(t->work, "SCRIPT LOAD %s", rt_redis_texts_test[i][0].text));
    rt_loop_init_virtual(&t->loop);
    for (int i = 0; i < TWIN_ACTORS; i++)
        actor_init(t, i);
    twin_advance(t, 5000);
}

/* What never ends by itself is broken. */
static void end_durable(struct twin *t)
{
    static const char *const modes[] = {"0", "1", "2", "3", "4"};
    for (int i = 0; i < TWIN_NAMES; i++) {
        for (int mode = 0; mode < 5; mode++) {
            const char *args[] = {twin_names[i], "0", modes[mode]};
            freeReplyObject(twin_script(t, RT_REDIS_SCRIPT_BREAK, 3, args));
        }
    }
}

void twin_fini(struct twin *t)
{
    rt_loop_advance(&t->loop, rt_loop_now(&t->loop) + 1000000 * RT_MS);
    set_clock(t);
    twin_sweep(t);
    end_durable(t);
    redisReply *r = redisCommand(t->work, "KEYS *");
    for (size_t i = 0; i < r->elements; i++)
        if (strcmp(r->element[i]->str, TWIN_ROOM) != 0 &&
            strcmp(r->element[i]->str, TWIN_ROOM ":clock") != 0)
            fail_msg("left behind: %s", r->element[i]->str);
    freeReplyObject(r);
    r = redisCommand(t->work, "HKEYS %s", TWIN_ROOM);
    for (size_t i = 0; i < r->elements; i++)
        if (r->element[i]->str[0] > '\2')
            fail_msg("left in the index: %s", r->element[i]->str);
    freeReplyObject(r);
    for (int i = 0; i < TWIN_ACTORS; i++) {
        rt_engine_mem.close(t->actor[i].conn);
        rt_free(t->actor[i].conn);
    }
    rt_loop_fini(&t->loop);
    redisFree(t->work);
    redisFree(t->push);
}
