/* SPDX-License-Identifier: Apache-2.0 */
/* Observations whose looks the test answers: when each op ends, what is told, and what is freed. */
#include "engine/kit/observe.h"
#include "engine/kit/words.h"
#include "net/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct rt_turns turns;
static struct rt_observers all;
static struct rt_observer *looking; /* the one whose look is under way */
static size_t looks, told, done_count, unwatched, emptied;
static int last_err, made_err, look_err;
static int cookies[2];

static void on_done(struct rt_up *up, struct rt_op *op)
{
    (void)up;
    done_count++;
    last_err = op->err;
}

static void on_event(struct rt_up *up, const struct rt_event *event)
{
    (void)up;
    assert_int_equal(event->kind, RT_CHANGED);
    told++;
}

static int check(void *engine, const char *name)
{
    return name[0] == '!' ? rt_words_fail(engine, ROTA_INVALID, "no name") : 0;
}

static int made(void *engine, struct rt_observer *o)
{
    assert_null(o->work);
    return made_err != 0 ? rt_words_fail(engine, made_err, "no watch") : 0;
}

static void look(void *engine, struct rt_observer *o)
{
    struct rt_view_state none = {0};
    (void)engine;
    looks++;
    looking = o;
    if (look_err != 0)
        rt_observed(&all, o, look_err, &none, true);
}

static void unwatch(void *engine, struct rt_observer *o)
{
    (void)engine;
    (void)o;
    unwatched++;
}

static void empty(void *engine, struct rt_observer *o)
{
    (void)engine;
    (void)o;
    emptied++;
}

static const struct rt_observer_user user = {
    sizeof(struct rt_observer), check, made, look, unwatch, empty};

static int begin(void *engine, struct rt_work *w)
{
    (void)engine;
    return rt_observe(&all, w);
}

static const struct rt_turn_kind kind = {.size = sizeof(struct rt_work), .begin = begin};
static const struct rt_turn_kind *const kinds[] = {[RT_OP_OBSERVE] = &kind};
static const struct rt_turn_user turn_user = {kinds, NULL, NULL, "test"};
static struct rt_up up = {.done = on_done, .event = on_event};
static struct rt_loop loop;
static struct rt_conn conn = {.up = &up, .loop = &loop};

static int setup(void **state)
{
    (void)state;
    memset(&turns, 0, sizeof(turns));
    rt_turns_init(&turns, &conn, &conn, &turn_user);
    all = (struct rt_observers){.user = &user, .turns = &turns};
    looks = told = done_count = unwatched = emptied = 0;
    last_err = made_err = look_err = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rt_turns_close(&turns);
    rt_observe_close(&all);
    assert_null(all.views);
    return 0;
}

static struct rt_op op_of(size_t cookie, const char *name)
{
    struct rt_op op = {.kind = RT_OP_OBSERVE, .deadline = RT_NEVER};
    op.observe.cookie = &cookies[cookie];
    op.observe.name = name;
    op.observe.stop = name == NULL;
    return op;
}

static void seen(uint64_t fence)
{
    struct rt_view_state s = {.fence = fence, .count = 1};
    rt_observed(&all, looking, 0, &s, true);
}

static void the_first_look_ends_the_op(void **state)
{
    struct rt_op op = op_of(0, "a"), again = op_of(0, "a"), other = op_of(1, "b");
    (void)state;
    rt_turns_submit(&turns, &op);
    assert_int_equal(done_count, 0);
    rt_turns_submit(&turns, &again); /* the one under way tells */
    assert_int_equal(done_count, 1);
    assert_int_equal(looks, 1);
    seen(5);
    assert_int_equal(done_count, 2);
    assert_int_equal(told, 1);
    rt_observe_look(&all, looking);
    rt_observe_look(&all, looking); /* something came meanwhile */
    assert_int_equal(looks, 2);
    seen(5); /* no news */
    assert_int_equal(looks, 3);
    seen(6);
    assert_int_equal(told, 2);
    rt_turns_submit(&turns, &other);
    seen(7);
    rt_observe_look_all(&all);
    assert_int_equal(looks, 6);
    again = op_of(0, "a"); /* asked again: told again, though it is the same */
    rt_turns_submit(&turns, &again);
    looking = (struct rt_observer *)(void *)rt_view_find(all.views, &cookies[0]);
    seen(6);
    assert_int_equal(told, 4);
}

static void a_first_look_that_fails_ends_it(void **state)
{
    struct rt_op op = op_of(0, "a"), bad = op_of(0, "!"), unmade = op_of(0, "c");
    (void)state;
    look_err = ROTA_UNREACHABLE;
    rt_turns_submit(&turns, &op);
    assert_int_equal(last_err, ROTA_UNREACHABLE);
    assert_null(all.views);
    assert_int_equal(emptied, 1);
    assert_int_equal(unwatched, 1);
    rt_turns_submit(&turns, &bad);
    assert_int_equal(last_err, ROTA_INVALID);
    made_err = ROTA_NOMEM;
    rt_turns_submit(&turns, &unmade);
    assert_int_equal(last_err, ROTA_NOMEM);
    assert_null(all.views);
    assert_int_equal(looks, 1);
}

static void later_ones_that_fail_do_not(void **state)
{
    struct rt_op op = op_of(0, "a");
    struct rt_view_state none = {0};
    (void)state;
    rt_turns_submit(&turns, &op);
    seen(1);
    rt_observe_look(&all, looking);
    rt_observed(&all, looking, ROTA_UNREACHABLE, &none, false);
    assert_int_equal(looks, 2);
    rt_observe_look(&all, looking);
    rt_observed(&all, looking, ROTA_UNREACHABLE, &none, true);
    assert_int_equal(looks, 4);
    assert_int_equal(told, 1);
    seen(2);
    assert_int_equal(told, 2);
}

static void stopped(void **state)
{
    struct rt_op op = op_of(0, "a"), stop = op_of(0, NULL), nobody = op_of(1, NULL);
    (void)state;
    rt_turns_submit(&turns, &nobody); /* of no observation */
    assert_int_equal(done_count, 1);
    rt_turns_submit(&turns, &op);
    rt_turns_submit(&turns, &stop); /* while its first look is under way */
    assert_int_equal(op.err, ROTA_CANCELED);
    assert_int_equal(stop.err, 0);
    assert_int_equal(done_count, 3);
    assert_int_equal(unwatched, 1);
    assert_int_equal(emptied, 0);
    assert_non_null(all.views);
    rt_observe_look(&all, looking);
    rt_observe_look_all(&all);
    seen(1);
    assert_int_equal(emptied, 1);
    assert_int_equal(told, 0);
    assert_int_equal(looks, 1);
    assert_null(all.views);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_look_ends_the_op, setup, teardown),
        cmocka_unit_test_setup_teardown(a_first_look_that_fails_ends_it, setup, teardown),
        cmocka_unit_test_setup_teardown(later_ones_that_fail_do_not, setup, teardown),
        cmocka_unit_test_setup_teardown(stopped, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
