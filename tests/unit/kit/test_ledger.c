/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger in virtual time: what is told and when, and how often it was sent. */
#include "engine/kit/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CALL_MS 1000

struct asked {
    struct rt_entry entry; /* first */
    int number, sent, ended, err;
    bool was_flying;
    char why[64];
};

static struct rt_loop loop;
static struct rt_conn base;
static struct rt_ledger ledger;
static int answer;        /* of `send` */
static int64_t busy_till; /* what `send` asks to wait for */
static const int here = 1, there = 2, *way;
static int room; /* for as many; -1: for any number */
static int tries;
static int order[16], orders; /* numbers, as they were sent */
static int ticks;
static bool inside;

static int on_send(struct rt_ledger *l, struct rt_entry *e, const void **via)
{
    struct asked *a = (struct asked *)(void *)e;
    assert_ptr_equal(l, &ledger);
    tries++;
    if (room == 0)
        return ROTA_UNREACHABLE;
    room -= room > 0;
    if (answer == 0) {
        a->sent++;
        order[orders++ % 16] = a->number;
        *via = way;
    } else if (busy_till != 0) {
        e->not_before = busy_till;
    }
    return answer;
}

static void on_ended(struct rt_ledger *l, struct rt_entry *e, int err, const char *why)
{
    struct asked *a = (struct asked *)(void *)e;
    assert_ptr_equal(l, &ledger);
    assert_false(inside);
    assert_null(e->next);
    assert_int_equal(a->ended++, 0);
    a->err = err;
    a->was_flying = e->flying;
    snprintf(a->why, sizeof(a->why), "%s", why != NULL ? why : "-");
}

static int64_t on_tick(struct rt_ledger *l, int64_t now)
{
    (void)l;
    (void)now;
    ticks++;
    return RT_NEVER;
}

static bool on_full(const struct rt_ledger *l)
{
    assert_ptr_equal(l, &ledger);
    return room == 0;
}

static bool on_queues(const struct rt_ledger *l, const struct rt_entry *e)
{
    (void)l;
    (void)e;
    return room == 0;
}

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
    for (;;) {
        struct rt_timer *t = &ledger.timer.timer;
        if (t->slot == 0 || t->at > until)
            break;
        if (t->at > rt_loop_now(&loop))
            rt_loop_advance(&loop, t->at);
        rt_loop_turn(&loop, other, NULL);
    }
    rt_loop_advance(&loop, until);
}

static bool add(struct asked *a, int number)
{
    a->number = number;
    inside = true;
    bool sent = rt_ledger_add(&ledger, &a->entry);
    inside = false;
    assert_int_equal(a->ended, 0);
    return sent;
}

static int begin(void **state)
{
    static const struct rt_ledger_user user = {on_send, on_ended, on_tick, on_full, on_queues};
    (void)state;
    rt_loop_init_virtual(&loop);
    rt_loop_advance(&loop, RT_MS);
    if (rt_loop_reserve(&loop, 1) != 0)
        return -1;
    base = (struct rt_conn){.loop = &loop, .call_ms = CALL_MS};
    memset(&ledger, 0, sizeof(ledger));
    rt_ledger_init(&ledger, &base, &user);
    answer = orders = ticks = tries = 0;
    room = -1;
    busy_till = 0;
    way = &here;
    return 0;
}

static int freed;

static void on_free(struct rt_ledger *l, struct rt_entry *e)
{
    (void)l;
    (void)e;
    freed++;
}

static int end(void **state)
{
    (void)state;
    rt_ledger_fini(&ledger, on_free);
    rt_loop_unreserve(&loop, 1);
    rt_loop_fini(&loop);
    return 0;
}

static void answered_once(void **state)
{
    static struct asked a = {0};
    (void)state;
    assert_true(add(&a, 1));
    rt_ledger_out(&a.entry);
    rt_ledger_abandon(&ledger, &a.entry, ROTA_CANCELED); /* too late: nothing */
    pass(2 * CALL_MS);
    rt_ledger_lost(&ledger, &here, "cut");
    assert_int_equal(a.ended, 0);
    assert_int_equal(a.sent, 1);
}

/* Its owner counts what is under way: once each, however often it is sent, and before it hears of the end. Not when the
 * ledger is emptied: the owner may be gone. */
static void counted(void **state)
{
    static uint32_t pending;
    static struct asked a[4];
    (void)state;
    for (int i = 0; i < 4; i++) {
        a[i] = (struct asked){.entry.pending = &pending, .entry.again = i == 1};
        (void)add(&a[i], i + 1);
    }
    assert_int_equal(pending, 4);
    rt_ledger_out(&a[0].entry);
    assert_int_equal(pending, 3);
    rt_ledger_again(&ledger, &a[1].entry, true);
    rt_ledger_abandon(&ledger, &a[2].entry, ROTA_CANCELED);
    assert_int_equal(pending, 3);
    pass(100);
    assert_int_equal(a[1].sent, 2);
    assert_int_equal(a[2].ended, 1);
    assert_int_equal(pending, 2);
    rt_ledger_lost(&ledger, &here, "cut");
    assert_int_equal(a[3].ended, 1);
    assert_int_equal(pending, 1);
    pass(2 * CALL_MS);
    assert_int_equal(pending, 0);
    a[0].entry.deadline = 0; /* a new one */
    assert_true(add(&a[0], 5));
    rt_ledger_fini(&ledger, on_free);
    assert_int_equal(pending, 1);
}

/* Not sent: definite. Sent: nobody knows, unless it merely reads. */
static void deadlines(void **state)
{
    static struct asked waits = {0}, flies = {0}, reads = {.entry.reads = true};
    static struct asked long_one = {.entry.deadline = RT_NEVER};
    (void)state;
    assert_true(add(&flies, 1));
    assert_true(add(&reads, 2));
    answer = ROTA_UNREACHABLE;
    assert_false(add(&waits, 3));
    assert_false(add(&long_one, 4));
    pass(CALL_MS - 1);
    assert_int_equal(waits.ended + flies.ended + reads.ended, 0);
    pass(1);
    assert_int_equal(waits.err, ROTA_UNREACHABLE);
    assert_int_equal(flies.err, ROTA_UNKNOWN);
    assert_true(flies.was_flying && !waits.was_flying);
    assert_int_equal(reads.err, ROTA_UNREACHABLE);
    assert_string_equal(flies.why, "-");
    assert_true(ticks > 0);
    pass(100 * CALL_MS);
    assert_int_equal(long_one.ended, 0);
    freed = 0;
    rt_ledger_fini(&ledger, on_free);
    assert_int_equal(freed, 1);
}

static void given_up(void **state)
{
    static struct asked waits = {0}, flies = {0};
    (void)state;
    assert_true(add(&flies, 1));
    answer = ROTA_UNREACHABLE;
    assert_false(add(&waits, 2));
    inside = true;
    rt_ledger_abandon(&ledger, &flies.entry, ROTA_CANCELED);
    rt_ledger_abandon(&ledger, &waits.entry, ROTA_CANCELED);
    rt_ledger_abandon(&ledger, &waits.entry, ROTA_NOMEM); /* the first counts */
    inside = false;
    answer = 0;
    rt_ledger_flush(&ledger);
    assert_int_equal(waits.sent, 0);
    pass(0);
    assert_int_equal(flies.err, ROTA_UNKNOWN);
    assert_int_equal(waits.err, ROTA_CANCELED);
    answer = ROTA_NOMEM; /* cannot be sent at all */
    static struct asked large = {0};
    assert_false(add(&large, 3));
    pass(0);
    assert_int_equal(large.err, ROTA_NOMEM);
}

/* In the order they were added, even those that come back; a `first` one before all, a `last` one after them. */
static void keeps_its_place(void **state)
{
    static struct asked a = {0}, b = {.entry.again = true}, c = {0}, d = {.entry.first = true},
                        e = {.entry.last = true};
    (void)state;
    assert_true(add(&b, 1));
    answer = ROTA_UNREACHABLE;
    add(&e, 5);
    add(&a, 2);
    add(&c, 3);
    add(&d, 4);
    rt_ledger_lost(&ledger, &here, "cut");
    assert_int_equal(b.ended, 0);
    answer = orders = 0;
    rt_ledger_flush(&ledger);
    const int expected[] = {4, 1, 2, 3, 5};
    for (int i = 0; i < 5; i++)
        assert_int_equal(order[i], expected[i]);
    assert_true(b.entry.was_again && !a.entry.was_again);
    orders = 0;
    assert_true(rt_ledger_resend(&ledger, &a.entry)); /* an error said that nothing was done */
    assert_false(a.entry.was_again);
    assert_int_equal(order[0], 2);
}

/* What a flush costs is what it sends. */
static void a_flush_ends_when_it_is_full(void **state)
{
    static struct asked all[10] = {0}, first = {.entry.first = true}, late = {0};
    (void)state;
    room = 0;
    for (int i = 0; i < 10; i++)
        assert_false(add(&all[i], i));
    room = 2;
    tries = 0;
    rt_ledger_flush(&ledger);
    assert_int_equal(tries, 2);
    assert_false(add(&first, 10));
    assert_false(add(&late, 11));
    tries = 0;
    rt_ledger_flush(&ledger);
    assert_int_equal(tries, 1); /* what is first is always tried */
    room = -1;
    rt_ledger_flush(&ledger);
    const int wanted[] = {0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9, 11};
    assert_int_equal(orders, 12);
    assert_memory_equal(order, wanted, sizeof(wanted));
}

/* FLIES flies, and WAITS waits for it. After half of its time something is answered. */
static void queue_up(struct asked *flies, struct asked *waits)
{
    room = 1;
    assert_true(add(flies, 1));
    assert_false(add(waits, 2));
    pass(CALL_MS / 2);
    ledger.heard_at = rt_loop_now(&loop);
}

/* As long as others are answered, what waits for them does not end; what was sent then has all its time. */
static void what_waits_for_others_waits_on(void **state)
{
    static struct asked flies = {0}, waits = {0}, down = {0};
    (void)state;
    queue_up(&flies, &waits);
    pass(CALL_MS * 3 / 4);
    assert_int_equal(waits.ended, 0);
    ledger.heard_at = rt_loop_now(&loop);
    pass(CALL_MS / 2);
    room = 1;
    rt_ledger_flush(&ledger);
    assert_int_equal(waits.sent, 1);
    pass(CALL_MS - 1);
    assert_int_equal(waits.ended, 0);
    pass(2);
    assert_int_equal(waits.ended, 1);
    assert_int_equal(waits.err, ROTA_UNKNOWN);
    room = -1;
    answer = ROTA_UNREACHABLE; /* its connection is down: answers do not help */
    assert_false(add(&down, 3));
    ledger.heard_at = rt_loop_now(&loop);
    pass(CALL_MS + 1);
    assert_int_equal(down.ended, 1);
    assert_int_equal(down.err, ROTA_UNREACHABLE);
}

/* What landed is served before the timers of its turn: the flush may come after a deadline, before that is delayed. */
static void and_a_flush_that_comes_late_changes_nothing(void **state)
{
    static struct asked flies = {0}, waits = {0};
    (void)state;
    queue_up(&flies, &waits);
    rt_loop_advance(&loop, rt_loop_now(&loop) + (CALL_MS / 2 + 1) * RT_MS);
    rt_ledger_flush(&ledger);
    pass(1);
    assert_int_equal(waits.ended, 0);
    room = 1;
    rt_ledger_flush(&ledger);
    assert_int_equal(waits.sent, 1);
}

static void and_ends_when_nothing_is_answered(void **state)
{
    static struct asked waits = {0};
    (void)state;
    room = 0;
    assert_false(add(&waits, 1));
    ledger.heard_at = rt_loop_now(&loop) + CALL_MS / 2 * RT_MS;
    pass(CALL_MS + CALL_MS / 2 - 1);
    assert_int_equal(waits.ended, 0);
    pass(2);
    assert_int_equal(waits.ended, 1);
    assert_int_equal(waits.err, ROTA_UNREACHABLE);
}

/* A server that is slow answers late, but in order: what it has not come to yet is not asked again. */
static void what_has_time_waits_for_a_slow_server(void **state)
{
    static struct asked early = {0}, late = {.entry.has_time = true}, hasty = {0},
                        next = {.entry.has_time = true};
    (void)state;
    assert_true(add(&early, 1) && add(&late, 2) && add(&hasty, 3));
    pass(CALL_MS / 2);
    assert_true(add(&next, 4));
    rt_ledger_heard(&ledger, &early.entry);
    rt_ledger_out(&early.entry);
    pass(CALL_MS / 2 + 1);
    assert_int_equal(late.ended, 0);
    assert_int_equal(hasty.err, ROTA_UNKNOWN);
    pass(CALL_MS / 2); /* and nothing was answered since */
    assert_int_equal(late.ended, 1);
    assert_int_equal(late.err, ROTA_UNKNOWN);
    assert_int_equal(next.ended, 1);
}

/* But an answer that was overtaken by that to a much later request is not coming. */
static void what_was_overtaken_is_lost(void **state)
{
    static struct asked first = {.entry.has_time = true}, early = {0}, next = {0};
    (void)state;
    assert_true(add(&first, 1) && add(&early, 2));
    pass(CALL_MS / 2);
    rt_ledger_heard(&ledger, &early.entry);
    rt_ledger_out(&early.entry);
    pass(CALL_MS / 2);
    assert_int_equal(first.ended, 0);
    assert_true(add(&next, 3));
    rt_ledger_heard(&ledger, &next.entry);
    rt_ledger_out(&next.entry);
    pass(CALL_MS / 2 + 1);
    assert_int_equal(first.ended, 1);
    assert_int_equal(first.err, ROTA_UNKNOWN);
}

static void lost_by_its_way(void **state)
{
    static struct asked a = {0}, b = {0}, reads = {.entry.reads = true},
                        left = {.entry.reads = true};
    (void)state;
    assert_true(add(&a, 1) && add(&reads, 2) && add(&left, 3));
    way = &there;
    assert_true(add(&b, 4));
    rt_ledger_abandon(&ledger, &left.entry, ROTA_CANCELED);
    answer = ROTA_UNREACHABLE;
    rt_ledger_lost(&ledger, &here, "cut");
    assert_int_equal(a.err, ROTA_UNKNOWN);
    assert_string_equal(a.why, "cut");
    assert_int_equal(left.err, ROTA_CANCELED);
    assert_int_equal(reads.ended + b.ended, 0);
    answer = 0;
    pass(0); /* by itself */
    assert_int_equal(reads.sent, 2);
    rt_ledger_lost(&ledger, &there, "cut too");
    assert_string_equal(b.why, "cut too");
}

static void refused(void **state)
{
    static struct asked fresh = {0}, tried = {.entry.again = true};
    (void)state;
    assert_true(add(&tried, 1));
    answer = ROTA_UNREACHABLE;
    rt_ledger_lost(&ledger, &here, "cut");
    add(&fresh, 2);
    rt_ledger_refuse(&ledger, ROTA_AUTH, "no");
    assert_int_equal(fresh.err, ROTA_AUTH);
    assert_int_equal(tried.err, ROTA_UNKNOWN); /* an earlier try may be done yet */
    assert_string_equal(fresh.why, "no");
}

/* 20, 40, 80, ... 500 ms; and what the sender itself asks for. */
static void pauses(void **state)
{
    static const int ms[] = {20, 40, 80, 160, 320, 500, 500};
    static struct asked a = {.entry.deadline = RT_NEVER}, b = {.entry.deadline = RT_NEVER};
    (void)state;
    assert_true(add(&a, 1));
    for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++) {
        rt_ledger_again(&ledger, &a.entry, true);
        pass(ms[i] - 1);
        assert_int_equal(a.sent, (int)i + 1);
        pass(1);
        assert_int_equal(a.sent, (int)i + 2);
    }
    rt_ledger_out(&a.entry);
    answer = ROTA_UNREACHABLE;
    busy_till = rt_loop_now(&loop) + 30 * RT_MS;
    assert_false(add(&b, 2));
    answer = 0;
    rt_ledger_flush(&ledger);
    pass(29);
    assert_int_equal(b.sent, 0);
    pass(1);
    assert_int_equal(b.sent, 1);
    rt_ledger_out(&b.entry);
}

static bool is(const struct rt_entry *e, const void *arg)
{
    return ((const struct asked *)(const void *)e)->number == *(const int *)arg;
}

static void found(void **state)
{
    static struct asked a = {0}, b = {0};
    const int one = 1, two = 2, three = 3;
    (void)state;
    assert_true(add(&a, 1));
    answer = ROTA_UNREACHABLE;
    add(&b, 2);
    assert_ptr_equal(rt_ledger_find(&ledger, is, &one), &a.entry);
    assert_ptr_equal(rt_ledger_find(&ledger, is, &two), &b.entry);
    assert_null(rt_ledger_find(&ledger, is, &three));
}

/* By its op; of several the first, and nothing of others. */
static void canceled(void **state)
{
    static struct rt_op one, two, three;
    static struct asked a, b, c;
    (void)state;
    a = (struct asked){.entry.op = &one};
    b = (struct asked){.entry.op = &two};
    c = (struct asked){.entry.op = &two};
    assert_true(add(&a, 1));
    answer = ROTA_UNREACHABLE;
    (void)add(&b, 2);
    (void)add(&c, 3);
    assert_false(rt_ledger_cancel(&ledger, &three));
    assert_true(rt_ledger_cancel(&ledger, &two));
    pass(0);
    assert_true(a.ended == 0 && b.ended == 1 && c.ended == 0);
    assert_int_equal(b.err, ROTA_CANCELED);
    assert_true(rt_ledger_cancel(&ledger, &one));
    pass(0);
    assert_int_equal(a.err, ROTA_UNKNOWN); /* it flew */
    assert_true(rt_ledger_cancel(&ledger, &two));
    pass(0);
    assert_int_equal(c.ended, 1);
    assert_false(rt_ledger_cancel(&ledger, &two));
}

static void says(void **state)
{
    static const struct {
        struct rt_entry entry;
        int err;
        const char *why, *trouble, *text;
    } all[] = {
        {{.flying = true}, ROTA_UNKNOWN, "cut", "", "no answer came: cut"},
        {{.flying = false}, ROTA_AUTH, "no right", "", "no right"},
        {{.given_up = true}, ROTA_NOMEM, NULL, "", "out of memory"},
        {{.given_up = true}, ROTA_CANCELED, NULL, "", "given up before it was sent"},
        {{.given_up = true, .flying = true}, ROTA_UNKNOWN, NULL, "x", "given up under way"},
        {{.flying = true}, ROTA_UNKNOWN, NULL, "x", "a:1 has not answered in time"},
        {{.flying = false}, ROTA_UNREACHABLE, NULL, "x", "db cannot be used now: x"},
        {{.flying = false},
         ROTA_UNREACHABLE,
         NULL,
         "",
         "db cannot be used now: it has not answered yet"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_int_equal(rt_ledger_say(&ledger, &all[i].entry, all[i].err, all[i].why, "db", "a:1",
                                       all[i].trouble),
                         all[i].err);
        assert_string_equal(base.errmsg, all[i].text);
    }
}

#define ONE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(answered_once),
        ONE(canceled),
        ONE(says),
        ONE(counted),
        ONE(deadlines),
        ONE(given_up),
        ONE(keeps_its_place),
        ONE(what_has_time_waits_for_a_slow_server),
        ONE(what_was_overtaken_is_lost),
        ONE(lost_by_its_way),
        ONE(refused),
        ONE(pauses),
        ONE(found),
        ONE(a_flush_ends_when_it_is_full),
        ONE(what_waits_for_others_waits_on),
        ONE(and_a_flush_that_comes_late_changes_nothing),
        ONE(and_ends_when_nothing_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
