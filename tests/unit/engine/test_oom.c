/* SPDX-License-Identifier: Apache-2.0 */
/* An engine's ops on a real server with too little memory: every allocation fails once. Each op is answered,
 * nothing leaks, and when there is memory again nothing is left behind and the one whose turn it is holds. */
#include "lib/scarce.h"
#include "lib/servers.h"
#include "lib/user.h"
#include "oom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OP_MS 10000
#define NONCES_MAX 4

static const char *url;
static struct user poor, other; /* the heap runs out for the first, who has one session for all */
static uint64_t nonce = 1000;

/* ---- Parts ------------------------------------------------------------------------------------ */

static struct rt_op op_of(enum rt_op_kind kind, const struct user *u)
{
    return (struct rt_op){.kind = kind, .deadline = rt_loop_now(&u->loop) + OP_MS * RT_MS};
}

/* What an op may say. UNKNOWN: it was sent, and its answer could not be read. */
static int ok(int rv)
{
    if (rv != 0 && rv != ROTA_NOMEM && rv != ROTA_UNKNOWN && rv != ROTA_UNREACHABLE)
        fail_msg("said %s: %s", rota_strerror(rv), poor.errmsg);
    return rv;
}

static struct rt_join ask(const char *name, uint32_t mode)
{
    struct rt_join join = {.name = name, .nonce = nonce++, .mode = mode, .value = NULL};
    if (mode == RT_PERMITS) {
        join.take = 1;
        join.of = 2;
    }
    return join;
}

static int join_all(struct user *u, struct rt_join *joins, size_t n)
{
    rt_loop_tick(&u->loop);
    struct rt_op op = op_of(n > 1 ? RT_OP_JOIN_ALL : RT_OP_JOIN, u);
    for (size_t i = 0; i < n; i++)
        if (!(joins[i].flags & RT_JOIN_DURABLE))
            joins[i].session = u->session;
    op.join.joins = joins;
    op.join.n = n;
    return user_do(u, &op);
}

static int leave(struct user *u, const struct rt_join *join)
{
    rt_loop_tick(&u->loop);
    struct rt_op op = op_of(RT_OP_LEAVE, u);
    op.leave.name = join->name;
    op.leave.session = join->session;
    op.leave.nonce = join->nonce;
    return user_do(u, &op);
}

static size_t places;

static void count_place(void *arg, const char *name, const struct rota_place *place)
{
    (void)arg;
    (void)name;
    (void)place;
    places++;
}

static int inspect(struct user *u, const char *name)
{
    rt_loop_tick(&u->loop);
    struct rt_op op = op_of(RT_OP_INSPECT, u);
    op.inspect.name = name;
    op.inspect.each = count_place;
    places = 0;
    return user_do(u, &op);
}

static int beat(struct user *u)
{
    rt_loop_tick(&u->loop);
    struct rt_op op = op_of(RT_OP_BEAT, u);
    op.beat.session = u->session;
    return user_do(u, &op);
}

static void settle(void)
{
    for (int i = 0; !oom_settle(); i++) { /* what goes on in the background is given time */
        assert_true(i < 2000);
        user_turn(&poor, 5);
        user_turn(&other, 5);
    }
}

/* With memory again it goes, whatever was said, and the line is empty. */
static void clear_line(const struct rt_join *join)
{
    scarce.fail_at = 0;
    int rv = leave(&poor, join);
    assert_true(rv == 0 || rv == ROTA_LOST || rv == ROTA_UNKNOWN);
    do
        assert_int_equal(inspect(&poor, join->name), 0);
    while (places > 0);
}

static void clear(const struct rt_join *join)
{
    clear_line(join);
    settle();
}

static bool has(uint32_t cap)
{
    return (poor.conn->engine->caps(poor.conn) & cap) != 0;
}

/* Nothing of U is under way any more. */
static void part(struct user *u)
{
    while (u->conn->engine->parting != NULL && u->conn->engine->parting(u->conn))
        user_turn(u, 100);
}

/* ---- Scenes -------------------------------------------------------------------------------------- */

static void coming_and_going(struct rt_join join)
{
    if (ok(join_all(&poor, &join, 1)) == 0)
        assert_true(join.granted);
    int rv = leave(&poor, &join);
    assert_true(rv == ROTA_LOST || ok(rv) == rv);
    clear(&join);
}

static void exclusive(void)
{
    coming_and_going(ask("oom", RT_EXCLUSIVE));
}

static void permits(void)
{
    coming_and_going(ask("oom", RT_PERMITS));
}

static void durable(void)
{
    struct rt_join join = ask("oom", RT_EXCLUSIVE);
    join.flags = RT_JOIN_DURABLE | RT_JOIN_TRY;
    join.session = 4711;
    join.until_ms = 2000;
    coming_and_going(join);
}

static void at_least(void)
{
    struct rt_join join = ask("oom", RT_EXCLUSIVE);
    join.at_least_ms = 1;
    coming_and_going(join);
}

static void all_at_once(void)
{
    struct rt_join joins[NONCES_MAX];
    char names[NONCES_MAX][16];
    for (size_t i = 0; i < NONCES_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "oom-%zu", i);
        joins[i] = ask(names[i], RT_EXCLUSIVE);
    }
    (void)ok(join_all(&poor, joins, NONCES_MAX));
    for (size_t i = 0; i < NONCES_MAX; i++)
        clear_line(&joins[i]);
    settle();
}

static void busy(void)
{
    struct rt_join first = ask("oom", RT_EXCLUSIVE),
                   second = ask("oom", has(ROTA_CAP_SHARED) ? RT_SHARED : RT_EXCLUSIVE);
    second.flags = RT_JOIN_TRY;
    long fail_at = scarce.fail_at;
    scarce.fail_at = 0;
    assert_int_equal(join_all(&other, &first, 1), 0);
    scarce.fail_at = scarce.asked + fail_at;
    int rv = join_all(&poor, &second, 1);
    assert_true(rv == ROTA_BUSY || ok(rv) != 0);
    scarce.fail_at = 0;
    assert_int_equal(leave(&other, &first), 0);
    clear(&second);
}

/* A client that is told nothing for lack of memory is told by the next BEAT. */
static void waiting(uint32_t mode)
{
    struct rt_join first = ask("oom", RT_EXCLUSIVE), second = ask("oom", mode);
    long fail_at = scarce.fail_at;
    scarce.fail_at = 0;
    assert_int_equal(join_all(&other, &first, 1), 0);
    second.flags = RT_JOIN_ARM;
    scarce.asked = 0;
    scarce.fail_at = fail_at;
    poor.told_count = 0;
    int rv = ok(join_all(&poor, &second, 1));
    long asked = scarce.asked;
    scarce.fail_at = fail_at > asked ? fail_at : 0;
    if (rv == 0) {
        scarce.fail_at = 0;
        assert_int_equal(leave(&other, &first), 0);
        scarce.asked = asked;
        scarce.fail_at = fail_at;
        for (int i = 0; i < 20 && poor.told_count == 0 && scarce.asked < fail_at; i++)
            user_turn(&poor, 10);
        scarce.fail_at = 0;
        asked = scarce.asked;
        while (poor.told_count == 0 || poor.told[poor.told_count - 1].kind != RT_GRANTED) {
            assert_int_equal(beat(&poor), 0);
            user_turn(&poor, 5);
        }
        const struct told *last = &poor.told[poor.told_count - 1];
        assert_true(last->number == second.number && (last->fence != 0) == !has(ROTA_CAP_ORDER));
    } else {
        scarce.fail_at = 0;
        assert_int_equal(leave(&other, &first), 0);
    }
    clear(&second);
    scarce.asked = asked;
}

static void waiting_alone(void)
{
    waiting(RT_EXCLUSIVE);
}

static void waiting_shared(void)
{
    waiting(RT_SHARED);
}

static void changing(void)
{
    struct rt_join join = ask("oom", RT_EXCLUSIVE);
    if (ok(join_all(&poor, &join, 1)) == 0)
        for (uint32_t what = RT_CHANGE_DOWNGRADE; what <= RT_CHANGE_ARM; what <<= 1) {
            struct rt_op op = op_of(RT_OP_CHANGE, &poor);
            op.change.name = "oom";
            op.change.session = poor.session;
            op.change.number = join.number;
            op.change.what = what;
            op.change.value = "value";
            int rv = user_do(&poor, &op);
            if (rv != ROTA_UNSUPPORTED || has(ROTA_CAP_ORDER))
                (void)ok(rv);
        }
    clear(&join);
}

static void observing(void)
{
    struct rt_op op = op_of(RT_OP_OBSERVE, &poor);
    op.observe.name = "oom";
    op.observe.cookie = &op;
    (void)ok(user_do(&poor, &op));
    op.observe.stop = true;
    (void)ok(user_do(&poor, &op));
}

static void count_line(void *arg, const char *name, size_t count, size_t granted)
{
    (void)arg;
    (void)name;
    (void)count;
    (void)granted;
}

static void looking(void)
{
    struct rt_op op = op_of(RT_OP_LIST, &poor);
    op.list.prefix = "oom";
    op.list.each = count_line;
    (void)ok(user_do(&poor, &op));
    (void)ok(inspect(&poor, "oom"));
    (void)ok(inspect(&poor, NULL));
}

static void breaking(void)
{
    struct rt_join join = ask("oom", RT_EXCLUSIVE);
    long fail_at = scarce.fail_at;
    scarce.fail_at = 0;
    assert_int_equal(join_all(&other, &join, 1), 0);
    scarce.asked = 0;
    scarce.fail_at = fail_at;
    struct rt_op op = op_of(RT_OP_BREAK, &poor);
    op.brk.name = "oom";
    op.brk.number = join.number;
    (void)ok(user_do(&poor, &op));
    scarce.fail_at = 0;
    long asked = scarce.asked;
    int rv = leave(&other, &join);
    assert_true(rv == 0 || rv == ROTA_LOST);
    clear(&join);
    scarce.asked = asked;
}

static void beating(void)
{
    (void)ok(beat(&poor));
}

/* A session is opened and given back; what was begun and failed is given back too. */
static void opening(void)
{
    struct user u;
    long fail_at = scarce.fail_at;
    scarce.fail_at = 0;
    assert_int_equal(user_open(&u, url), 0);
    assert_int_equal(inspect(&u, "oom"), 0); /* connected: that is tried above */
    u.conn->ttl_ms = 2000;                   /* where the connection goes too, it is left to that */
    scarce.asked = 0;
    scarce.fail_at = fail_at;
    struct rt_op op = op_of(RT_OP_BEAT, &u);
    op.beat.open = true;
    (void)ok(user_do(&u, &op));
    scarce.fail_at = 0;
    long asked = scarce.asked;
    part(&u);
    user_close(&u);
    scarce.asked = asked;
}

/* From the first word to a server on. */
static void connecting(void)
{
    struct user u;
    if (ok(user_open(&u, url)) != 0)
        return;
    (void)ok(inspect(&u, "oom"));
    long fail_at = scarce.fail_at, asked = scarce.asked;
    scarce.fail_at = 0;
    assert_int_equal(inspect(&u, "oom"), 0); /* with memory again it works */
    user_close(&u);
    scarce.fail_at = fail_at;
    scarce.asked = asked;
}

/* ---- Each allocation fails once -------------------------------------------------------------------- */

static void each(void (*scene)(void), const char *what)
{
    long n = 0;
    scene(); /* once with enough: what is kept for the next time is there */
    do {
        scarce.asked = 0;
        scarce.fail_at = ++n;
        poor.told_count = other.told_count = 0;
        scene();
        scarce.fail_at = 0;
        long asked = scarce.asked;
        if (n % 4 == 0) { /* the sessions live on */
            assert_int_equal(beat(&poor), 0);
            assert_int_equal(beat(&other), 0);
        }
        scarce.asked = asked;
    } while (scarce.asked >= n && n < 2000);
    print_message("%s: %ld allocations\n", what, n - 1);
}

#define SCENE(name, cap)               \
    static void test_##name(void **st) \
    {                                  \
        (void)st;                      \
        if ((cap) != 0 && !has(cap))   \
            skip();                    \
        each(name, #name);             \
    }
SCENE(exclusive, 0)
SCENE(permits, ROTA_CAP_PERMITS)
SCENE(durable, ROTA_CAP_DURABLE)
SCENE(at_least, ROTA_CAP_DURABLE)
SCENE(all_at_once, 0)
SCENE(busy, 0)
SCENE(waiting_alone, 0)
SCENE(waiting_shared, ROTA_CAP_SHARED)
SCENE(changing, 0)
SCENE(observing, 0)
SCENE(looking, 0)
SCENE(breaking, 0)
SCENE(beating, 0)
SCENE(connecting, 0)
SCENE(opening, 0)

static bool is_empty(void *unused)
{
    (void)unused;
    return oom_left() == 0;
}

/* After all of them: as if they had never been. */
static void test_nothing_is_left(void **state)
{
    (void)state;
    struct user *const users[] = {&poor, &other};
    for (size_t i = 0; i < 2; i++) {
        part(users[i]);
        user_close(users[i]);
    }
    assert_int_equal(scarce.live, 0);
    assert_true(rt_await(is_empty, NULL, 15000));
}

static int setup(void **state)
{
    (void)state;
    url = oom_start();
    scarce_begin();
    user_start(&poor, url, 0);
    user_start(&other, url, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scarce_end();
    oom_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exclusive),     cmocka_unit_test(test_permits),
        cmocka_unit_test(test_durable),       cmocka_unit_test(test_at_least),
        cmocka_unit_test(test_all_at_once),   cmocka_unit_test(test_busy),
        cmocka_unit_test(test_waiting_alone), cmocka_unit_test(test_waiting_shared),
        cmocka_unit_test(test_changing),      cmocka_unit_test(test_observing),
        cmocka_unit_test(test_looking),       cmocka_unit_test(test_breaking),
        cmocka_unit_test(test_beating),       cmocka_unit_test(test_connecting),
        cmocka_unit_test(test_opening),       cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
