/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine below the client, on a real server: what the conformance suite cannot bring about. */
#include "engine/redis/redis.h"
#include "lib/user.h"
#include "one_redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TTL_MS 10000
#define SHORT_MS 3000 /* it ends in the case, but not before it was seen */
#define LONG_MS 600000

static struct rt_redis_conn *redis_of(const struct user *u)
{
    return (struct rt_redis_conn *)(void *)u->conn;
}

/* ---- Pushes lost and sessions gone ------------------------------------------------------ */

/* The grant is pushed while nobody listens; the new subscription finds it. */
static void test_push_connection_is_killed(void **state)
{
    struct user a, b;
    struct rt_join first = {0}, second = {0};
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    user_start(&b, one_redis_url, TTL_MS);
    assert_int_equal(user_join(&a, "x", &first), 0);
    assert_true(first.granted);
    assert_int_equal(user_join(&b, "x", &second), 0);
    assert_false(second.granted);
    while (!redis_of(&b)->rooms[0].subscribed)
        user_turn(&b, 100);
    rt_redis_must(&one_redis, "CLIENT KILL TYPE pubsub");
    assert_int_equal(user_leave(&a, "x", first.number), 0);
    (void)user_hear(&b, RT_GRANTED, second.number, 0);
    assert_int_equal(user_leave(&b, "x", second.number), 0);
    assert_int_equal(user_lines(&a, ""), 0);
    user_close(&a);
    user_close(&b);
}

static void test_server_forgets_all(void **state)
{
    struct user a;
    struct rt_join join = {0};
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    assert_int_equal(user_join(&a, "x", &join), 0);
    rt_redis_must(&one_redis, "FLUSHALL");
    rt_redis_must(&one_redis, "SCRIPT FLUSH");
    assert_int_equal(user_beat(&a), ROTA_LOST);
    struct rt_op op = {.kind = RT_OP_BEAT};
    op.beat.open = true;
    assert_int_equal(user_do(&a, &op), 0);
    assert_true(op.beat.session != a.session);
    a.session = op.beat.session;
    a.held_count = 0;
    struct rt_join again = {0};
    assert_int_equal(user_join(&a, "x", &again), 0);
    assert_true(again.granted && again.number > join.number);
    assert_int_equal(user_leave(&a, "x", again.number), 0);
    user_close(&a);
}

/* A ticket that its user does not know of is told as granted, to be given back. */
static void test_ghost_is_told(void **state)
{
    struct user a;
    struct rt_join join = {0};
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    assert_int_equal(user_join(&a, "x", &join), 0);
    a.held_count = 0; /* as if its answer had never come */
    assert_int_equal(user_beat(&a), 0);
    (void)user_hear(&a, RT_GRANTED, join.number, 0);
    assert_int_equal(user_leave(&a, "x", join.number), 0);
    user_close(&a);
}

/* A ticket that the server has forgotten while the session lives. */
static void test_forgotten_ticket_is_told(void **state)
{
    struct user a;
    struct rt_join x = {0}, y = {0};
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    assert_int_equal(user_join(&a, "x", &x), 0);
    assert_int_equal(user_join(&a, "y", &y), 0);
    a.held_count = 1; /* and one that was broken while pushes were lost: */
    struct rt_op op = {.kind = RT_OP_BREAK};
    op.brk.name = "y";
    op.brk.number = y.number;
    assert_int_equal(user_do(&a, &op), 0);
    rt_redis_must(&one_redis, "CLIENT KILL TYPE pubsub");
    a.held_count = 2;
    assert_int_equal(user_beat(&a), 0);
    (void)user_hear(&a, RT_TICKET_LOST, y.number, 0);
    assert_int_equal(user_leave(&a, "x", x.number), 0);
    user_close(&a);
}

static void test_durable_waits(void **state)
{
    struct user a, b;
    struct rt_join first = {0}, second = {.session = 4711, .flags = RT_JOIN_DURABLE};
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    user_start(&b, one_redis_url, TTL_MS);
    assert_int_equal(user_join(&a, "x", &first), 0);
    assert_int_equal(user_join(&b, "x", &second), 0);
    assert_false(second.granted);
    while (!redis_of(&b)->rooms[0].subscribed)
        user_turn(&b, 100);
    assert_int_equal(user_leave(&a, "x", first.number), 0);
    size_t i = user_hear(&b, RT_GRANTED, second.number, 0);
    assert_true(b.told[i].session == 4711);
    b.session = 4711;
    assert_int_equal(user_leave(&b, "x", second.number), 0);
    user_close(&a);
    user_close(&b);
}

/* Nobody waits in the line and nobody else works there: an observer sees the end. */
static void test_observer_sees_an_end_by_time(void **state)
{
    struct user a, b;
    struct rt_join join = {.value = "leader"};
    (void)state;
    user_start(&a, one_redis_url, LONG_MS); /* looks by itself only every third of it */
    user_start(&b, one_redis_url, SHORT_MS);
    assert_int_equal(user_join(&b, "x", &join), 0);
    struct rt_op op = {.kind = RT_OP_OBSERVE};
    op.observe.name = "x";
    op.observe.cookie = &op;
    assert_int_equal(user_do(&a, &op), 0);
    size_t i = user_hear(&a, RT_CHANGED, 0, 0);
    assert_int_equal(a.told[i].count, 1);
    assert_string_equal(a.told[i].value, "leader");
    i = user_hear(&a, RT_CHANGED, 0, i + 1); /* b beats no more */
    assert_int_equal(a.told[i].count, 0);
    user_close(&a);
    user_close(&b);
}

/* ---- Marks that end by themselves ------------------------------------------------------- */

#define MARKS 24
#define MARK_MS 500
#define OPEN_SWEEPS 16
#define JOIN_SWEEPS 4

/* What is over on the server and not yet ended. */
static long long due(void)
{
    return rt_redis_integer(&one_redis, "EVAL %s 0",
                            "local t = redis.call('TIME')"
                            "return redis.call('ZCOUNT', 'rota:{0}:e', '-inf',"
                            "                  string.format('%d%06d', t[1], t[2]))");
}

static bool all_due(void *arg)
{
    return due() == rt_redis_integer(&one_redis, "ZCARD rota:{0}:e") - *(long long *)arg;
}

static void mark(struct user *u, const char *name, int64_t until_ms)
{
    static uint64_t session = 5000;
    struct rt_join join = {
        .session = session++, .until_ms = until_ms, .flags = RT_JOIN_DURABLE | RT_JOIN_TRY};
    assert_int_equal(user_join(u, name, &join), 0);
    assert_true(join.granted);
}

static long long less(long long n, long long by)
{
    return n > by ? n - by : 0;
}

/* Nobody lives as long as a heartbeat: one that comes for a moment ends some of them, up to a limit. */
static void test_marks_are_swept_by_who_comes(void **state)
{
    struct user a, b, d;
    char name[16];
    long long sessions = 1, left;
    (void)state;
    rt_redis_must(&one_redis, "FLUSHALL");
    user_start(&a, one_redis_url, LONG_MS);
    for (int i = 0; i < MARKS; i++) {
        snprintf(name, sizeof(name), "mark%d", i);
        mark(&a, name, MARK_MS);
    }
    assert_true(rt_await(all_due, &sessions, USER_LIMIT_MS));
    left = due(); /* all, unless the machine was so slow that a join ended some already */
    assert_true(left > 0 && left <= MARKS);
    user_start(&b, one_redis_url, LONG_MS);
    left = less(left, OPEN_SWEEPS);
    assert_int_equal(due(), left);
    mark(&b, "lasting", LONG_MS);
    left = less(left, JOIN_SWEEPS);
    assert_int_equal(due(), left);
    user_start(&d, one_redis_url, LONG_MS);
    assert_int_equal(due(), less(left, OPEN_SWEEPS));
    assert_int_equal(
        rt_redis_integer(&one_redis, "EVAL %s 0", "return #redis.call('KEYS', 'rota:*:mark*')"), 0);
    assert_int_equal(user_lines(&d, ""), 1); /* the lasting one */
    user_close(&a);
    user_close(&b);
    user_close(&d);
    rt_redis_must(&one_redis, "FLUSHALL");
}

/* ---- Keys of another type --------------------------------------------------------------- */

/* One clear error, and nothing stays for ever. */
static void test_other_type_leaves_nothing(void **state)
{
    struct user a, b;
    struct rt_join first = {0}, second = {0}, third = {.value = "v"};
    (void)state;
    rt_redis_must(&one_redis, "FLUSHALL");
    user_start(&a, one_redis_url, TTL_MS);
    user_start(&b, one_redis_url, TTL_MS);
    assert_int_equal(user_join(&a, "x", &first), 0);
    long long keys = rt_redis_integer(&one_redis, "DBSIZE");
    long long fields = rt_redis_integer(&one_redis, "HLEN rota:{0}");
    rt_redis_must(&one_redis, "RENAME rota:{0}:e kept");
    rt_redis_must(&one_redis, "SET rota:{0}:e x");
    struct rt_op op = {.kind = RT_OP_BEAT};
    op.beat.open = true;
    assert_int_equal(user_do(&b, &op), ROTA_PROTOCOL);
    assert_non_null(strstr(b.errmsg, "another type"));
    assert_int_equal(rt_redis_integer(&one_redis, "DBSIZE"), keys + 1);
    assert_int_equal(rt_redis_integer(&one_redis, "HLEN rota:{0}"), fields);
    rt_redis_must(&one_redis, "RENAME kept rota:{0}:e");
    rt_redis_must(&one_redis, "SET rota:{0}:w:x x");
    assert_int_equal(user_join(&b, "x", &second), ROTA_PROTOCOL);
    assert_int_equal(rt_redis_integer(&one_redis, "HLEN rota:{0}:s:%s", redis_of(&b)->sid), 2);
    rt_redis_must(&one_redis, "SET rota:{0}:x:y x");
    assert_int_equal(user_join(&b, "y", &third), ROTA_PROTOCOL);
    assert_int_equal(rt_redis_integer(&one_redis, "HLEN rota:{0}:s:%s", redis_of(&b)->sid), 2);
    assert_int_equal(rt_redis_integer(&one_redis, "HLEN rota:{0}"), fields);
    user_close(&a);
    user_close(&b);
    rt_redis_must(&one_redis, "FLUSHALL");
}

/* The right to publish is revoked while they stand there. */
static void test_right_is_lost_half_way(void **state)
{
    struct user a, b, d;
    struct rt_join first = {.flags = RT_JOIN_ARM}, second = {0}, third = {0};
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    user_start(&b, one_redis_url, TTL_MS);
    user_start(&d, one_redis_url, TTL_MS);
    assert_int_equal(user_join(&a, "x", &first), 0);
    rt_redis_must(&one_redis, "ACL SETUSER default -publish");
    assert_int_equal(user_join(&b, "x", &second), ROTA_AUTH); /* taken back, with these words: */
    assert_non_null(strstr(b.errmsg, "'PUBLISH'"));
    assert_int_equal(rt_redis_integer(&one_redis, "ZCARD rota:{0}:w:x"), 0);
    rt_redis_must(&one_redis, "ACL SETUSER default +publish");
    second = (struct rt_join){0};
    assert_int_equal(user_join(&b, "x", &second), 0);
    rt_redis_must(&one_redis, "ACL SETUSER default -publish");
    assert_int_equal(user_leave(&a, "x", first.number), ROTA_UNKNOWN);
    assert_int_equal(user_leave(&a, "x", first.number), ROTA_LOST); /* it was left */
    rt_redis_must(&one_redis, "ACL SETUSER default +publish");
    assert_int_equal(user_beat(&b), 0);
    (void)user_hear(&b, RT_GRANTED, second.number, 0);
    assert_int_equal(user_leave(&b, "x", second.number), 0);
    assert_int_equal(user_join(&d, "x", &third), 0);
    assert_true(third.granted);
    user_close(&a);
    user_close(&b);
    user_close(&d);
    rt_redis_must(&one_redis, "FLUSHALL");
}

/* ---- Replicas --------------------------------------------------------------------------- */

/* The error is definite: nothing of it stays, whatever the ticket is. */
static void test_no_replica_to_have(void **state)
{
    struct user a;
    struct rt_join joins[] = {
        {.nonce = 97, .name = "x"},
        {.nonce = 98, .name = "x", .at_least_ms = LONG_MS, .flags = RT_JOIN_TRY},
        {.nonce = 99, .name = "x", .session = 5, .flags = RT_JOIN_TRY | RT_JOIN_DURABLE},
    };
    struct rt_join set[] = {{.nonce = 1, .name = "x"}, {.nonce = 2, .name = "y"}};
    char text[512];
    (void)state;
    snprintf(text, sizeof(text), "%s%creplicas=1", one_redis_url,
             strchr(one_redis_url, '?') != NULL ? '&' : '?');
    user_start(&a, text, TTL_MS);
    for (size_t i = 0; i < 4; i++) {
        struct rt_op op = {.kind = i < 3 ? RT_OP_JOIN : RT_OP_JOIN_ALL};
        op.deadline = rt_loop_tick(&a.loop) + 1000 * RT_MS;
        op.join.joins = i < 3 ? &joins[i] : set;
        op.join.n = i < 3 ? 1 : 2;
        for (size_t k = 0; k < op.join.n && i != 2; k++)
            op.join.joins[k].session = a.session;
        assert_int_equal(user_do(&a, &op), ROTA_UNREACHABLE);
        assert_non_null(strstr(a.errmsg, "fewer than 1 replicas"));
        assert_int_equal(user_lines(&a, ""), 0);
        op.deadline = rt_loop_tick(&a.loop) + 50 * RT_MS; /* too late to find out */
        assert_int_equal(user_do(&a, &op), ROTA_UNREACHABLE);
        assert_non_null(strstr(a.errmsg, "fewer than 1 replicas"));
    }
    user_close(&a);
}

/* ---- The doctor ------------------------------------------------------------------------- */

struct findings {
    char text[32][2][64];
    size_t count;
};

static void on_verdict(void *arg, const struct rota_verdict *v)
{
    struct findings *f = arg;
    assert_true(f->count < 32);
    snprintf(f->text[f->count][0], 64, "%s", v->promise);
    snprintf(f->text[f->count++][1], 64, "%s", v->verdict);
    if (strcmp(v->verdict, "kept") != 0)
        assert_true(v->setting[0] != '\0' && v->remedy[0] != '\0');
}

static const char *verdict_of(const struct findings *f, const char *promise)
{
    for (size_t i = 0; i < f->count; i++)
        if (strncmp(f->text[i][0], promise, strlen(promise)) == 0)
            return f->text[i][1];
    return "";
}

static void examine(const char *where, struct findings *f)
{
    struct user a;
    struct rt_op op = {.kind = RT_OP_CHECK};
    user_start(&a, where, TTL_MS);
    op.check.each = on_verdict;
    op.check.arg = f;
    f->count = 0;
    assert_int_equal(user_do(&a, &op), 0);
    assert_int_equal(user_lines(&a, ""), 0); /* its own line is gone */
    user_close(&a);
}

static void test_doctor(void **state)
{
    struct findings f;
    (void)state;
    examine(one_redis_url, &f);
    assert_string_equal(verdict_of(&f, "one holder"), "limited"); /* nothing is kept on a disk */
    assert_string_equal(verdict_of(&f, "order"), "kept");
    assert_string_equal(verdict_of(&f, "rights"), "kept");
    assert_string_equal(verdict_of(&f, "pushes"), "kept");
    assert_string_equal(verdict_of(&f, "clock"), "kept");
    rt_redis_must(&one_redis, "CONFIG SET appendonly yes");
    rt_redis_must(&one_redis, "CONFIG SET appendfsync always");
    examine(one_redis_url, &f);
    assert_string_equal(verdict_of(&f, "one holder"), "kept");
    assert_string_equal(verdict_of(&f, "fences"), "kept");
    assert_string_equal(verdict_of(&f, "durable"), "kept");
    rt_redis_must(&one_redis, "CONFIG SET appendfsync everysec");
    examine(one_redis_url, &f);
    assert_string_equal(verdict_of(&f, "one holder"), "limited");
    rt_redis_must(&one_redis, "CONFIG SET maxmemory 100mb");
    rt_redis_must(&one_redis, "CONFIG SET maxmemory-policy allkeys-lru");
    examine(one_redis_url, &f);
    assert_string_equal(verdict_of(&f, "one holder"), "broken");
    assert_string_equal(verdict_of(&f, "eviction"), "broken");
    rt_redis_must(&one_redis, "CONFIG SET maxmemory-policy volatile-ttl"); /* our keys have none */
    examine(one_redis_url, &f);
    assert_string_equal(verdict_of(&f, "eviction"), "kept");
    rt_redis_must(&one_redis, "CONFIG SET maxmemory 0");
    rt_redis_must(&one_redis, "CONFIG SET maxmemory-policy noeviction");
    rt_redis_must(&one_redis, "CONFIG SET appendonly no");
}

/* ---- A cluster -------------------------------------------------------------------------- */

/* Two names in rooms LOW < HIGH, different ones every time: what a test leaves to its ttl is not in the way. */
static void two_rooms(struct user *u, char low[16], char high[16])
{
    static unsigned i;
    for (;; i++) {
        snprintf(low, 16, "a%u", i);
        snprintf(high, 16, "b%u", i);
        if (rt_redis_room_of(redis_of(u), low) < rt_redis_room_of(redis_of(u), high))
            break;
    }
    i++;
}

static int join_all(struct user *u, const char *const names[2], uint64_t nonce, uint32_t flags,
                    struct rt_join joins[2])
{
    struct rt_op op = {.kind = RT_OP_JOIN_ALL};
    for (size_t i = 0; i < 2; i++)
        joins[i] = (struct rt_join){
            .name = names[i], .session = u->session, .nonce = nonce + i, .flags = flags};
    op.join.joins = joins;
    op.join.n = 2;
    return user_do(u, &op);
}

static void test_set_over_rooms(void **state)
{
    struct user a, b;
    char low[16], high[16];
    struct rt_join first = {0}, joins[2];
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    user_start(&b, one_redis_url, TTL_MS);
    two_rooms(&a, low, high);
    const char *const names[2] = {high, low}; /* in the other order than their rooms */
    assert_int_equal(user_join(&a, low, &first), 0);
    assert_int_equal(join_all(&b, names, 100, RT_JOIN_TRY, joins), ROTA_BUSY);
    assert_int_equal(user_lines(&a, high), 0);
    /* It waits in the lower room, so that nothing is joined in the higher, and says so in time. */
    assert_int_equal(join_all(&b, names, 200, 0, joins), ROTA_UNKNOWN);
    assert_int_equal(user_lines(&a, high), 0);
    assert_int_equal(user_leave(&a, low, first.number), 0);
    assert_int_equal(join_all(&b, names, 200, 0, joins), 0); /* the same nonces */
    assert_true(joins[0].granted && joins[1].granted);
    assert_int_equal(user_leave(&b, high, joins[0].number), 0);
    assert_int_equal(user_leave(&b, low, joins[1].number), 0);
    /* The other way round: what was joined in the lower room is left again. */
    assert_int_equal(user_join(&a, high, &(struct rt_join){.nonce = 300}), 0);
    assert_int_equal(join_all(&b, names, 400, RT_JOIN_TRY, joins), ROTA_BUSY);
    assert_int_equal(user_lines(&a, low), 0);
    user_close(&a);
    user_close(&b);
}

static void test_set_goes_on_when_granted(void **state)
{
    struct user a, b;
    char low[16], high[16];
    struct rt_join first = {0}, joins[2];
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    user_start(&b, one_redis_url, TTL_MS);
    two_rooms(&a, low, high);
    const char *const names[2] = {low, high};
    assert_int_equal(user_join(&a, low, &first), 0);
    /* a leaves from within b's waiting: by a deferred turn of its loop. */
    struct rt_op leave = {.kind = RT_OP_LEAVE, .deadline = INT64_MAX},
                 op = {.kind = RT_OP_JOIN_ALL};
    leave.leave.name = low;
    leave.leave.session = a.session;
    leave.leave.number = first.number;
    for (size_t i = 0; i < 2; i++)
        joins[i] = (struct rt_join){.name = names[i], .session = b.session, .nonce = 500 + i};
    op.join.joins = joins;
    op.join.n = 2;
    op.deadline = rt_loop_tick(&b.loop) + 5000 * RT_MS;
    int done = b.done;
    b.conn->engine->submit(b.conn, &op);
    while (!redis_of(&b)->rooms[rt_redis_room_of(redis_of(&b), low)].stands && b.done == done)
        user_turn(&b, 10);
    a.conn->engine->submit(a.conn, &leave);
    while (b.done == done) {
        user_turn(&a, 1);
        user_turn(&b, 1);
    }
    /* In time by the push; under load the set may have been asked to come again. */
    assert_true(op.err == 0 || op.err == ROTA_UNKNOWN);
    if (op.err == 0)
        assert_true(joins[0].granted && joins[1].granted);
    user_close(&a);
    user_close(&b);
}

static void test_session_dead_in_one_room(void **state)
{
    struct user a;
    char low[16], high[16], key[64];
    struct rt_join x = {0}, y = {0};
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    two_rooms(&a, low, high);
    assert_int_equal(user_join(&a, low, &x), 0);
    assert_int_equal(user_join(&a, high, &y), 0);
    assert_int_equal(user_beat(&a), 0);
    rt_redis_room_key(redis_of(&a), rt_redis_room_of(redis_of(&a), high), key, sizeof(key));
    int owner = rt_redis_cluster_owner(one_redis_cluster, 0,
                                       rt_redis_cluster_slot(one_redis_cluster, key));
    rt_redis_must(&one_redis_cluster->node[owner], "DEL %s %s:e %s:s:%s", key, key, key,
                  redis_of(&a)->sid);
    assert_int_equal(user_beat(&a), ROTA_LOST);
    assert_int_equal(redis_of(&a)->session, 0);
    user_close(&a);
}

/* A room without tickets gets no more heartbeats, and when used again it is as new. */
/* The END has come, and was for the stay that it found. */
static bool is_left(void *arg)
{
    struct user *a = arg;
    assert_int_equal(user_beat(a), 0); /* lets its loop run */
    for (uint32_t room = 1; room < redis_of(a)->room_count; room++) {
        char key[32];
        snprintf(key, sizeof(key), "rota:{%u}", room);
        int owner = rt_redis_cluster_owner(one_redis_cluster, 0,
                                           rt_redis_cluster_slot(one_redis_cluster, key));
        if (redis_of(a)->rooms[room].listens &&
            rt_redis_integer(&one_redis_cluster->node[owner], "EXISTS %s:s:%s", key,
                             redis_of(a)->sid) != 0)
            return false;
    }
    return true;
}

static void test_room_is_left_and_used_again(void **state)
{
    struct user a;
    char low[16], high[16];
    (void)state;
    user_start(&a, one_redis_url, TTL_MS);
    two_rooms(&a, low, high);
    uint32_t room = rt_redis_room_of(redis_of(&a), high);
    for (int i = 0; i < 3; i++) {
        struct rt_join join = {0};
        assert_int_equal(user_join(&a, high, &join), 0);
        assert_true(join.granted && redis_of(&a)->rooms[room].stands);
        assert_int_equal(user_beat(&a), 0);
        assert_true(redis_of(&a)->rooms[room].stands);
        assert_int_equal(user_leave(&a, high, join.number), 0);
        assert_int_equal(user_beat(&a), 0);
        assert_false(redis_of(&a)->rooms[room].stands);
    }
    assert_true(rt_await(is_left, &a, USER_LIMIT_MS));
    user_close(&a);
}

static void test_replicas_of_a_cluster(void **state)
{
    struct user a, b;
    struct rt_join first = {0}, second = {0};
    char text[512];
    (void)state;
    snprintf(text, sizeof(text), "%s%creplicas=1", one_redis_url,
             strchr(one_redis_url, '?') != NULL ? '&' : '?');
    user_start(&a, text, TTL_MS);
    user_start(&b, text, TTL_MS);
    assert_int_equal(user_join(&a, "x", &first), 0);
    assert_true(first.granted);
    assert_int_equal(user_join(&b, "x", &second), 0);
    assert_false(second.granted);
    assert_int_equal(user_leave(&a, "x", first.number), 0);
    (void)user_hear(&b, RT_GRANTED, second.number, 0);
    assert_int_equal(user_leave(&b, "x", second.number), 0);
    user_close(&a);
    user_close(&b);
}

int main(void)
{
    const struct CMUnitTest one[] = {
        cmocka_unit_test(test_push_connection_is_killed),
        cmocka_unit_test(test_server_forgets_all),
        cmocka_unit_test(test_ghost_is_told),
        cmocka_unit_test(test_forgotten_ticket_is_told),
        cmocka_unit_test(test_durable_waits),
        cmocka_unit_test(test_observer_sees_an_end_by_time),
        cmocka_unit_test(test_marks_are_swept_by_who_comes),
        cmocka_unit_test(test_other_type_leaves_nothing),
        cmocka_unit_test(test_right_is_lost_half_way),
        cmocka_unit_test(test_no_replica_to_have),
        cmocka_unit_test(test_doctor),
    };
    const struct CMUnitTest many[] = {
        cmocka_unit_test(test_set_over_rooms),
        cmocka_unit_test(test_set_goes_on_when_granted),
        cmocka_unit_test(test_session_dead_in_one_room),
        cmocka_unit_test(test_room_is_left_and_used_again),
        cmocka_unit_test(test_replicas_of_a_cluster),
    };
    int failed = cmocka_run_group_tests(one, one_redis_start, one_redis_stop);
    return failed + cmocka_run_group_tests(many, one_redis_cluster_start, one_redis_cluster_stop);
}
