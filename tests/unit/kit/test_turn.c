/* SPDX-License-Identifier: Apache-2.0 */
/* Ops on one name begin one after the other, those on different names at once; a set waits for all its names. */
#include "engine/kit/turn.h"
#include "engine/kit/words.h"
#include "net/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define OPS 8

static struct rt_work *begun[OPS];
static size_t begun_count, done_count, canceled;

static void on_done(struct rt_up *up, struct rt_op *op)
{
    (void)up;
    (void)op;
    done_count++;
}

static int on_begin(void *engine, struct rt_work *w)
{
    if (w->op->kind == RT_OP_BREAK)
        return rt_words_fail(engine, ROTA_LOST, "none there"); /* ends before it has begun */
    begun[begun_count++] = w;
    return 0;
}

static void on_cancel(void *engine, struct rt_op *op)
{
    (void)engine;
    (void)op;
    canceled++;
}

static const struct rt_turn_kind kind = {.size = sizeof(struct rt_work), .begin = on_begin};
static const struct rt_turn_kind *const kinds[] = {
    [RT_OP_BEAT] = &kind,    [RT_OP_JOIN] = &kind,  [RT_OP_JOIN_ALL] = &kind,
    [RT_OP_CHANGE] = &kind,  [RT_OP_LEAVE] = &kind, [RT_OP_OBSERVE] = &kind,
    [RT_OP_INSPECT] = &kind, [RT_OP_LIST] = &kind,  [RT_OP_BREAK] = &kind,
    [RT_OP_CHECK] = &kind};
static const struct rt_turn_user user = {kinds, on_cancel, NULL, "test"};

static struct rt_up up = {.done = on_done};
static struct rt_loop loop;
static struct rt_conn conn = {.up = &up, .loop = &loop};
static struct rt_turns turns;

static int setup(void **state)
{
    (void)state;
    memset(&turns, 0, sizeof(turns));
    rt_turns_init(&turns, &conn, &conn, &user);
    begun_count = done_count = canceled = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rt_turns_close(&turns);
    return 0;
}

static struct rt_op leave_of(const char *name)
{
    struct rt_op op = {.kind = RT_OP_LEAVE, .deadline = RT_NEVER};
    op.leave.name = name;
    return op;
}

static void one_after_the_other(void **state)
{
    struct rt_op a = leave_of("a"), b = leave_of("b"), again = leave_of("a"), third = leave_of("a");
    (void)state;
    rt_turns_submit(&turns, &a);
    rt_turns_submit(&turns, &again);
    rt_turns_submit(&turns, &b);
    rt_turns_submit(&turns, &third);
    assert_int_equal(begun_count, 2);
    assert_ptr_equal(begun[1]->op, &b);
    assert_true(rt_turns_busy(&turns, "a"));
    rt_turn_end(&turns, begun[0], 0);
    assert_int_equal(begun_count, 3);
    assert_ptr_equal(begun[2]->op, &again);
    rt_turn_end(&turns, begun[2], 0);
    rt_turn_end(&turns, begun[3], 0);
    rt_turn_end(&turns, begun[1], 0);
    assert_int_equal(done_count, 4);
    assert_false(rt_turns_busy(&turns, "a"));
}

static void a_set_waits_for_all_its_names(void **state)
{
    struct rt_join joins[3] = {
        {.name = "a", .nonce = 1}, {.name = "b", .nonce = 2}, {.name = "a", .nonce = 3}};
    struct rt_op a = leave_of("a"), b = leave_of("b"),
                 set = {.kind = RT_OP_JOIN_ALL, .deadline = RT_NEVER};
    (void)state;
    set.join.joins = joins;
    set.join.n = 3;
    rt_turns_submit(&turns, &a);
    rt_turns_submit(&turns, &b);
    rt_turns_submit(&turns, &set);
    assert_true(rt_turns_joining(&turns, "b", 2));
    assert_false(rt_turns_joining(&turns, "b", 1));
    rt_turn_end(&turns, begun[1], 0);
    assert_int_equal(begun_count, 2);
    rt_turn_end(&turns, begun[0], 0);
    assert_int_equal(begun_count, 3);
    assert_int_equal(rt_turn_names(begun[2]), 2);
}

/* An op that cannot begin lets the next one go, however many there are. */
static void what_fails_at_once(void **state)
{
    struct rt_op first = leave_of("a"), last = leave_of("a"),
                 broken = {.kind = RT_OP_BREAK, .deadline = RT_NEVER};
    struct rt_op late = leave_of("a");
    (void)state;
    broken.brk.name = "a";
    late.deadline = 0; /* over before its turn */
    rt_turns_submit(&turns, &first);
    rt_turns_submit(&turns, &broken);
    rt_turns_submit(&turns, &late);
    rt_turns_submit(&turns, &last);
    rt_turn_end(&turns, begun[0], 0);
    assert_int_equal(broken.err, ROTA_LOST);
    assert_int_equal(late.err, ROTA_UNREACHABLE);
    assert_int_equal(begun_count, 2);
    assert_ptr_equal(begun[1]->op, &last);
}

/* As long as those before it are answered, what has time has all of it when its turn comes; a look has not. */
static void what_waits_for_its_turn_has_time(void **state)
{
    struct rt_join plain = {.name = "a"}, try = {.name = "a", .flags = RT_JOIN_TRY};
    struct rt_op first = leave_of("a"), join = {.kind = RT_OP_JOIN, .deadline = 1000 * RT_MS},
                 hasty = join, look = {.kind = RT_OP_INSPECT, .deadline = 1000 * RT_MS},
                 last = leave_of("a");
    (void)state;
    rt_loop_init_virtual(&loop);
    conn.call_ms = 1000;
    join.join.joins = &plain;
    hasty.join.joins = &try;
    join.join.n = hasty.join.n = 1;
    look.inspect.name = "a";
    last.deadline = 1000 * RT_MS;
    rt_turns_submit(&turns, &first);
    rt_turns_submit(&turns, &join);
    rt_turns_submit(&turns, &hasty);
    rt_turns_submit(&turns, &look);
    rt_turns_submit(&turns, &last);
    rt_loop_advance(&loop, 1500 * RT_MS);
    rt_turn_end(&turns, begun[0], 0);
    assert_int_equal(begun_count, 2);
    assert_int_equal(join.deadline, 2500 * RT_MS);
    rt_loop_advance(&loop, 2500 * RT_MS);
    rt_turn_end(&turns, begun[1], ROTA_UNREACHABLE); /* nothing was answered since */
    assert_int_equal(begun_count, 2);
    assert_int_equal(done_count, 5);
    assert_int_equal(last.err, ROTA_UNREACHABLE);
    rt_loop_fini(&loop);
    memset(&loop, 0, sizeof(loop));
    conn.call_ms = 0;
}

static void canceled_before_its_turn(void **state)
{
    struct rt_op first = leave_of("a"), second = leave_of("a");
    (void)state;
    rt_turns_submit(&turns, &first);
    rt_turns_submit(&turns, &second);
    rt_turns_cancel(&turns, &second);
    assert_int_equal(second.err, ROTA_CANCELED);
    rt_turns_cancel(&turns, &first);
    assert_int_equal(canceled, 1);
    assert_int_equal(done_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_after_the_other, setup, teardown),
        cmocka_unit_test_setup_teardown(a_set_waits_for_all_its_names, setup, teardown),
        cmocka_unit_test_setup_teardown(what_fails_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(what_waits_for_its_turn_has_time, setup, teardown),
        cmocka_unit_test_setup_teardown(canceled_before_its_turn, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
