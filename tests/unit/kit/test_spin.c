/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets of a server that knows only who holds: a waiter is asked for again, together with its set; what becomes of an
 * answer whose ticket has gone; when a session is over. */
#include "engine/kit/spin.h"

#include "base/alloc.h"
#include "lib/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TTL_MS 10000
#define PAUSE_MS 50

static struct rt_loop loop;
static struct rt_spin spin;
static char asked[256], told[512];
static int asks, dones, freed;
static bool can_ask;

static bool on_ask(struct rt_spin *s, struct rt_spin_ticket **list, size_t n)
{
    assert_ptr_equal(s, &spin);
    asks++;
    asked[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(asked);
        assert_true(list[i]->in_flight && list[i]->state == RT_SPIN_WAITING);
        (void)snprintf(asked + used, sizeof(asked) - used, "%s ", list[i]->name);
    }
    return can_ask;
}

static void on_freed(struct rt_spin *s, struct rt_spin_ticket *t)
{
    (void)s;
    (void)t;
    freed++;
}

static void on_done(struct rt_up *up, struct rt_op *op)
{
    (void)up;
    (void)op;
    dones++;
}

static void on_event(struct rt_up *up, const struct rt_event *e)
{
    size_t used = strlen(told);
    (void)up;
    (void)snprintf(told + used, sizeof(told) - used, "%d %s %llu %llu; ", (int)e->kind,
                   e->name != NULL ? e->name : "-", (unsigned long long)e->number,
                   (unsigned long long)e->fence);
}

static struct rt_up up = {.done = on_done, .event = on_event};
static struct rt_conn base = {.up = &up, .loop = &loop, .ttl_ms = TTL_MS, .label = ""};

static void other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
    fail();
}

static void pass(int64_t ms)
{
    int64_t until = rt_loop_now(&loop) + ms * RT_MS;
    const struct rt_timer *t = &spin.timer.timer;
    while (t->slot != 0 && t->at <= until) {
        if (t->at > rt_loop_now(&loop))
            rt_loop_advance(&loop, t->at);
        rt_loop_turn(&loop, other, NULL);
    }
    rt_loop_advance(&loop, until);
}

static int begin(void **state)
{
    static const struct rt_spin_user user = {
        .size = sizeof(struct rt_spin_ticket), .ask = on_ask, .freed = on_freed};
    (void)state;
    scarce_begin();
    rt_loop_init_virtual(&loop);
    rt_loop_advance(&loop, RT_MS);
    if (rt_loop_reserve(&loop, 1) != 0)
        return -1;
    rt_spin_init(&spin, &base, &user, PAUSE_MS, 4711);
    rt_spin_open(&spin, 7, rt_loop_now(&loop));
    asks = dones = freed = 0;
    asked[0] = told[0] = '\0';
    can_ask = true;
    return 0;
}

static int end(void **state)
{
    (void)state;
    rt_spin_fini(&spin);
    rt_loop_fini(&loop);
    assert_int_equal(scarce.live, 0);
    scarce_end();
    return 0;
}

static struct rt_op op_of(struct rt_join *joins, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        joins[i].session = 7;
        joins[i].nonce = 100 + i;
    }
    return (struct rt_op){.kind = RT_OP_JOIN, .join = {.joins = joins, .n = n}};
}

static struct rt_spin_ticket *waiting(const char *name)
{
    struct rt_join join = {.name = name};
    struct rt_op op = op_of(&join, 1);
    assert_int_equal(rt_spin_make(&spin, &op), 0);
    rt_spin_wait_all(&spin, &op, -1);
    assert_false(join.granted);
    return rt_spin_by_nonce(&spin, name, 100);
}

static void test_joined(void **state)
{
    struct rt_join join = {.name = "a", .flags = RT_JOIN_ARM};
    struct rt_op op = op_of(&join, 1);
    (void)state;
    assert_int_equal(rt_spin_make(&spin, &op), 0);
    assert_int_equal(rt_spin_make(&spin, &op), 0); /* asked again: it is there */
    assert_int_equal(spin.tickets, 1);
    rt_spin_joined(&spin, &op, 0, 42);
    assert_true(join.granted && join.wanted && join.number == 42);
    assert_non_null(rt_spin_by_number(&spin, "a", 42));
    assert_null(rt_spin_by_number(&spin, "a", 0));
    assert_null(rt_spin_by_number(&spin, "b", 42));
    rt_spin_unmake(&spin, &op); /* it is not JOINING any more */
    assert_int_equal(spin.tickets, 1);
}

static void test_asks_again_in_a_while(void **state)
{
    (void)state;
    waiting("a");
    pass(PAUSE_MS / 2 - 1);
    assert_int_equal(asks, 0);
    pass(PAUSE_MS / 2 + 1);
    assert_int_equal(asks, 1);
    assert_string_equal(asked, "a ");
    pass(1000); /* it is being asked for: not twice */
    assert_int_equal(asks, 1);
}

static void test_as_soon_as_the_holder_is_over(void **state)
{
    struct rt_spin_ticket *t = waiting("a");
    (void)state;
    rt_spin_wait(&spin, t, 3);
    pass(4);
    assert_int_equal(asks, 1);
}

static void test_a_word_meanwhile(void **state)
{
    struct rt_spin_ticket *t = waiting("a");
    bool leaving;
    (void)state;
    pass(PAUSE_MS);
    rt_spin_now(&spin, t); /* while it is being asked for */
    pass(10);
    assert_int_equal(asks, 1);
    assert_ptr_equal(rt_spin_answered(&spin, 7, "a", 100, &leaving), t);
    rt_spin_wait(&spin, t, -1);
    pass(0);
    assert_int_equal(asks, 2);
}

static void test_cannot_be_asked_now(void **state)
{
    (void)state;
    can_ask = false;
    waiting("a");
    pass(PAUSE_MS);
    assert_int_equal(asks, 1);
    pass(PAUSE_MS);
    assert_int_equal(asks, 2);
}

static void test_a_set_goes_together(void **state)
{
    struct rt_join joins[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    struct rt_op op = op_of(joins, 3);
    (void)state;
    assert_int_equal(rt_spin_make(&spin, &op), 0);
    rt_spin_wait_all(&spin, &op, -1);
    assert_true(rt_spin_stands(&spin, &op));
    assert_int_equal(dones, 1);
    pass(PAUSE_MS);
    assert_int_equal(asks, 1);
    assert_int_equal(strlen(asked), 6);
    rt_spin_forget_all(&spin);
    assert_false(rt_spin_stands(&spin, &op));
}

static void test_granted_gets_its_fence(void **state)
{
    struct rt_spin_ticket *t = waiting("a");
    bool leaving;
    (void)state;
    pass(PAUSE_MS);
    assert_ptr_equal(rt_spin_answered(&spin, 7, "a", 100, &leaving), t);
    rt_spin_granted(&spin, t, 42);
    assert_string_equal(told, "0 a 1 42; ");
    assert_int_equal(spin.waiting, 0);
    told[0] = '\0';
    rt_spin_lost(&spin, t);
    assert_string_equal(told, "3 a 42 0; ");
    assert_int_equal(freed, 1);
}

static void test_an_answer_too_late(void **state)
{
    struct rt_spin_ticket *t = waiting("a");
    bool leaving;
    (void)state;
    pass(PAUSE_MS);
    assert_null(rt_spin_answered(&spin, 8, "a", 100, &leaving)); /* of another session */
    assert_false(leaving);
    rt_spin_state(&spin, t, RT_SPIN_LEAVING);
    assert_null(rt_spin_answered(&spin, 7, "a", 100, &leaving));
    assert_true(leaving);
    rt_spin_free(&spin, t);
    assert_null(rt_spin_answered(&spin, 7, "a", 100, &leaving));
    assert_false(leaving);
}

static void test_a_session_is_over(void **state)
{
    (void)state;
    waiting("a");
    can_ask = false;
    pass(TTL_MS - 100);
    rt_spin_renewed(&spin, 8, rt_loop_now(&loop)); /* another's */
    assert_false(rt_spin_over(&spin));
    pass(200);
    assert_string_equal(told, "4 - 0 0; ");
    assert_int_equal(spin.session, 0);
    assert_int_equal(spin.tickets, 0);
    assert_true(rt_spin_over(&spin));
    assert_string_equal(told, "4 - 0 0; "); /* once */
}

static void test_renewed(void **state)
{
    (void)state;
    waiting("a");
    can_ask = false;
    pass(TTL_MS - 100);
    rt_spin_renewed(&spin, 7, rt_loop_now(&loop));
    rt_spin_renewed(&spin, 7, rt_loop_now(&loop) - TTL_MS * RT_MS); /* an older one, later */
    pass(TTL_MS - 100);
    assert_string_equal(told, "");
    pass(200);
    assert_string_equal(told, "4 - 0 0; ");
}

/* What is held, and what is being requested. */
static void test_dues(void **state)
{
    struct rt_join held = {.name = "held"}, joining = {.name = "joining"};
    struct rt_op one = op_of(&held, 1), two = op_of(&joining, 1);
    (void)state;
    assert_int_equal(rt_spin_make(&spin, &one), 0);
    rt_spin_joined(&spin, &one, 0, 0);
    assert_int_equal(held.number, 1); /* without a fence: a name */
    assert_int_equal(rt_spin_make(&spin, &two), 0);
    struct rt_spin_ticket *quiet = waiting("quiet"), *doubted = waiting("doubted");
    (void)quiet;
    doubted->doubt = true;
    struct rt_spin_dues *d = rt_spin_dues(&spin, true);
    assert_int_equal(d->count, 3);
    for (size_t i = 0; i < d->count; i++)
        assert_int_equal(d->list[i].held, strcmp(d->list[i].name, "held") == 0);
    assert_true(d->session == 7 && d->at == rt_loop_now(&loop));
    rt_free(d);
    d = rt_spin_dues(&spin, false);
    assert_int_equal(d->count, 1);
    assert_string_equal(d->list[0].name, "held");
    rt_free(d);
}

static void test_no_memory(void **state)
{
    struct rt_join joins[2] = {{.name = "a"}, {.name = "b"}};
    struct rt_op op = op_of(joins, 2);
    (void)state;
    scarce_leave(1);
    assert_int_equal(rt_spin_make(&spin, &op), ROTA_NOMEM);
    scarce_leave(-1);
    assert_int_equal(spin.tickets, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_joined, begin, end),
        cmocka_unit_test_setup_teardown(test_asks_again_in_a_while, begin, end),
        cmocka_unit_test_setup_teardown(test_as_soon_as_the_holder_is_over, begin, end),
        cmocka_unit_test_setup_teardown(test_a_word_meanwhile, begin, end),
        cmocka_unit_test_setup_teardown(test_cannot_be_asked_now, begin, end),
        cmocka_unit_test_setup_teardown(test_a_set_goes_together, begin, end),
        cmocka_unit_test_setup_teardown(test_granted_gets_its_fence, begin, end),
        cmocka_unit_test_setup_teardown(test_an_answer_too_late, begin, end),
        cmocka_unit_test_setup_teardown(test_a_session_is_over, begin, end),
        cmocka_unit_test_setup_teardown(test_renewed, begin, end),
        cmocka_unit_test_setup_teardown(test_dues, begin, end),
        cmocka_unit_test_setup_teardown(test_no_memory, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
