/* SPDX-License-Identifier: Apache-2.0 */
/* Every step on a real server: sessions, lines, their ends, hand-overs. */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Sessions and folded lines ------------------------------------------------------------------------ */

void steps_sessions(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    DO(&r, STEP(OPEN, N(1), N(LONG), T("again")), STEP(OPEN, N(-9), N(LONG), T("me")),
       STEP(RENEW, N(-9), N(LONG)), STEP(RENEW, N(99), N(LONG)),
       STEP(OPEN, N(5), N(1), T("short")));
    assert_int_equal(rider_rows(&r, 0), 0);
    assert_int_equal(rider_rows(&r, 1), 1);
    assert_true(rider_cell(&r, 2, 0, 0) >= rider_cell(&r, 1, 0, 0));
    assert_int_equal(rider_cell(&r, 2, 0, 0),
                     steps.number("select expires from rota_session where id = -9"));
    assert_int_equal(rider_rows(&r, 3), 0);
    assert_int_equal(rider_rows(&r, 4), 1);
    DO(&r, STEP(RENEW, N(5), N(LONG)), STEP(END, N(-9)));
    assert_int_equal(rider_rows(&r, 0), 0); /* a microsecond is over */
    assert_int_equal(r.changed[1], 1);
    /* A late renewal takes nothing back; after the clock was set back three ttls are enough. */
    long long ends = steps.number("select expires from rota_session where id = 3");
    DO(&r, STEP(RENEW, N(3), N(LONG / 2)));
    long long later = steps.number("select expires from rota_session where id = 3");
    assert_true(later == ends || later == ends + 1);
    DO(&r, STEP(RENEW, N(3), N(LONG / 10)));
    assert_int_equal(rider_rows(&r, 0), 1);
    assert_true(steps.number("select expires from rota_session where id = 3") < ends - LONG / 2);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .mode = RT_SHARED);
    DO(&r, STEP(END, N(1)), STEP(END, N(2)));
    assert_int_equal(steps.number("select count(*) from rota_session where id = 1"), 1);
    assert_int_equal(steps.number("select count(*) from rota_session where id = 2"), 0);
    scene_end(&r);
}

void steps_a_line_stays_folded(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(11), N(12), N(0), N(13), N(FAR)));
    int64_t number = rider_cell(&r, 0, 0, 0);
    assert_true(number > INT64_C(1700000000000000)); /* the clock */
    DO(&r, STEP(TAKE, T("a"), N(2), N(21), N(22), N(0), N(23), N(FAR)),
       STEP(VERIFY, T("a"), N(1), N(number)), STEP(VERIFY, T("a"), N(2), N(number)),
       STEP(VERIFY, T("a"), N(1), N(number + 1)), STEP(FOLDED, T("a"), N(1)),
       STEP(FOLDED, T("a"), N(2)), STEP(GIVE, T("a"), N(1), N(number + 1), N(11)),
       STEP(GIVE, T("a"), N(2), N(number), N(11)), STEP(GIVE, T("a"), N(1), N(number), N(12)));
    assert_int_equal(rider_rows(&r, 0), 0);
    assert_string_equal(rider_row(&r, 1, 0), "1");
    assert_int_equal(rider_rows(&r, 2), 0);
    assert_int_equal(rider_rows(&r, 3), 0);
    assert_int_equal(rider_cell(&r, 4, 0, 0), number);
    assert_int_equal(rider_cell(&r, 4, 0, 1), 11);
    assert_int_equal(rider_rows(&r, 5), 0);
    assert_int_equal(r.changed[6], 0);
    assert_int_equal(r.changed[7], 0);
    assert_int_equal(r.changed[8], 0); /* another ticket had that number before */
    DO(&r, STEP(GIVE, T("a"), N(1), N(number), N(11)),
       STEP(TAKE, T("a"), N(2), N(21), N(22), N(0), N(23), N(FAR)));
    assert_int_equal(r.changed[0], 1);
    assert_true(rider_cell(&r, 1, 0, 0) > number);
    assert_int_equal(steps.number("select count(*) from rota_ticket"), 0);
    scene_kill(2);
    DO(&r, STEP(VERIFY, T("a"), N(2), N(rider_cell(&r, 1, 0, 0))),
       STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    assert_int_equal(r.row_count, 0); /* dead: no promise, and the slow path's to take away */
    for (int i = 0; i < 2; i++) {     /* a new line, and one that is there */
        enum rt_sql_end how = FLY(&r, STEP(TAKE, T("b"), N(2), N(1), N(1), N(0), N(1), N(i)));
        assert_true(how == RT_SQL_LANDED || how == RT_SQL_REFUSED);
        assert_int_equal(r.row_count, 0);
        DO(&r, STEP(FOLDED, T("b"), N(2)), STEP(LOCK, T("b")));
        assert_int_equal(r.row_count, 0);
    }
    scene_end(&r);
}

void steps_numbers_only_grow(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    DO(&r, STEP(GIVE, T("a"), N(1), N(rider_cell(&r, 0, 0, 0)), N(0)));
    steps.run(
        "update rota_line set fence = 9000000000000000"); /* as if the clock had been far ahead */
    DO(&r, STEP(TAKE, T("a"), N(1), N(2), N(1), N(0), N(1), N(FAR)));
    assert_string_equal(rider_row(&r, 0, 0), "9000000000000001");
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1);
    assert_int_equal(scene_answered(&r, 1), INT64_C(9000000000000002));
    scene_end(&r);
}

void steps_watched_lines_unfold(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    DO(&r, STEP(WATCH, T("a"), N(LONG)), STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    assert_int_equal(rider_rows(&r, 1), 0);
    DO(&r, STEP(TAKE, T("b"), N(1), N(1), N(1), N(0), N(1), N(FAR)), STEP(WATCH, T("b"), N(LONG)));
    int64_t number = rider_cell(&r, 0, 0, 0);
    DO(&r, STEP(GIVE, T("b"), N(1), N(number), N(0)), STEP(WATCH, T("b"), N(1)),
       STEP(GIVE, T("b"), N(1), N(number), N(0)));
    assert_int_equal(r.changed[0], 0);
    assert_int_equal(r.changed[2], 0); /* the longer watch counts */
    scene_end(&r);
}

void steps_unfolding(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(11), N(12), N(RT_SQL_ARMED), N(13), N(FAR)),
       STEP(TAKE, T("b"), N(2), N(21), N(22), N(0), N(23), N(FAR)));
    int64_t number = rider_cell(&r, 0, 0, 0);
    scene_kill(2);
    DO(&r, STEP(LOCK, T("a")), STEP(LOCK, T("b")), STEP(LOCK, T("c")), STEP(UNFOLD, T("a")),
       STEP(UNFOLD, T("b")), STEP(UNFOLD, T("c")), STEP(STATE, T("a"), N(1), N(number)),
       STEP(ANSWER, T("a"), N(1), N(11)), STEP(FOLDED, T("a"), N(1)));
    assert_string_equal(rider_row(&r, 6, 0), "1|0|0");
    assert_int_equal(rider_cell(&r, 7, 0, 1), number);
    assert_int_equal(rider_rows(&r, 8), 0);
    assert_int_equal(steps.number("select count(*) from rota_ticket"), 1);
    assert_int_equal(steps.number("select weight from rota_ticket"), ALL);
    assert_int_equal(steps.number("select bell from rota_ticket"), 13);
    assert_int_equal(steps.number("select count(*) from rota_line where session is not null"), 0);
    assert_int_equal(steps.number("select count(*) from rota_line"), 3);
    scene_end(&r);
}

/* ---- Lines ---------------------------------------------------------------------------------------------- */

void steps_one_after_the_other(void **state)
{
    struct rider r;
    int64_t numbers[4];
    (void)state;
    scene_begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    numbers[1] = rider_cell(&r, 0, 0, 0);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 2);
    assert_int_equal(scene_answered(&r, 0), 1); /* lives */
    numbers[2] = scene_answered(&r, 1);
    assert_true(numbers[2] > numbers[1]);
    assert_int_equal(scene_answered(&r, 2), 0); /* waits */
    assert_int_equal(scene_answered(&r, 4), RT_EXCLUSIVE);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 3, .mode = RT_SHARED);
    numbers[3] = scene_answered(&r, 1);
    assert_int_equal(scene_answered(&r, 2), 0);
    assert_string_equal(scene_leave(&r, "a", 1, numbers[1]), "1");
    assert_int_equal(scene_state(&r, "a", 2, numbers[2], 0), 1);
    assert_int_equal(scene_state(&r, "a", 3, numbers[3], 0), 0);
    assert_int_equal(scene_state(&r, "a", 3, numbers[3], 1), RT_SHARED);
    assert_string_equal(scene_leave(&r, "a", 2, numbers[2] + 1), ""); /* none of that number */
    assert_string_equal(scene_leave(&r, "a", 3, numbers[2]), "");     /* not its own */
    /* Of another ticket that had its number before the number was reused. */
    DO(&r, STEP(LOCK, T("a")), STEP(LEAVE, T("a"), N(2), N(numbers[2]), N(3), N(1)));
    assert_int_equal(rider_rows(&r, 1), 0);
    /* One that gives up is found by its nonce, too. */
    DO(&r, STEP(LOCK, T("a")), STEP(LEAVE, T("a"), N(3), N(0), N(3), N(0)), STEP(SETTLE, T("a")));
    assert_string_equal(rider_row(&r, 1, 0), "0");
    assert_string_equal(scene_leave(&r, "a", 2, numbers[2]), "1");
    assert_int_equal(steps.number("select count(*) from rota_ticket"), 0);
    DO(&r, STEP(TAKE, T("a"), N(1), N(4), N(1), N(0), N(1), N(FAR)));
    assert_true(rider_cell(&r, 0, 0, 0) > numbers[3]);
    scene_end(&r);
}

void steps_readers(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .mode = RT_SHARED);
    int64_t first = scene_answered(&r, 1);
    assert_int_equal(scene_answered(&r, 2), 1);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1, .mode = RT_SHARED);
    int64_t second = scene_answered(&r, 1);
    assert_int_equal(scene_answered(&r, 2), 1);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 1);
    int64_t writer = scene_answered(&r, 1);
    assert_int_equal(scene_answered(&r, 2), 0);
    (void)ASK(&r, .name = "a", .session = 4, .nonce = 1, .mode = RT_SHARED);
    int64_t last = scene_answered(&r, 1);
    assert_int_equal(scene_answered(&r, 2), 0); /* behind a writer */
    (void)scene_leave(&r, "a", 1, first);
    assert_int_equal(scene_state(&r, "a", 3, writer, 0), 0);
    (void)scene_leave(&r, "a", 2, second);
    assert_int_equal(scene_state(&r, "a", 3, writer, 0), 1);
    assert_int_equal(scene_state(&r, "a", 4, last, 0), 0);
    (void)scene_leave(&r, "a", 3, writer);
    assert_int_equal(scene_state(&r, "a", 4, last, 0), 1);
    scene_end(&r);
}

void steps_permits(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "p", .session = 1, .nonce = 1, .mode = RT_PERMITS, .take = 2, .of = 3);
    int64_t first = scene_answered(&r, 1);
    assert_int_equal(scene_answered(&r, 2), 1);
    (void)ASK(&r, .name = "p", .session = 2, .nonce = 1, .mode = RT_PERMITS, .take = 2, .of = 3);
    int64_t large = scene_answered(&r, 1);
    assert_int_equal(scene_answered(&r, 2), 0);
    assert_int_equal(scene_answered(&r, 5), 3); /* of the front */
    (void)ASK(&r, .name = "p", .session = 3, .nonce = 1, .mode = RT_PERMITS, .take = 1, .of = 3);
    int64_t small = scene_answered(&r, 1);
    assert_int_equal(scene_answered(&r, 2), 0); /* nobody overtakes */
    (void)scene_leave(&r, "p", 1, first);
    assert_int_equal(scene_state(&r, "p", 2, large, 0), 1);
    assert_int_equal(scene_state(&r, "p", 3, small, 0), 1);
    scene_end(&r);
}

void steps_counted(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    for (int i = 1; i <= 4; i++) {
        (void)ASK(&r, .name = "c", .session = i, .nonce = 1, .mode = RT_COUNT, .of = 2);
        assert_int_equal(scene_answered(&r, 2), 1);
    }
    DO(&r, STEP(LIST, T("c")));
    assert_string_equal(rider_row(&r, 0, 0), "c|4|4");
    scene_end(&r);
}

void steps_barrier(void **state)
{
    struct rider r;
    int64_t number[5];
    (void)state;
    scene_begin(&r);
    for (int i = 1; i <= 4; i++) {
        (void)ASK(&r, .name = "b", .session = i, .nonce = 1, .mode = RT_GATHER, .of = 3);
        number[i] = scene_answered(&r, 1);
        assert_int_equal(scene_answered(&r, 2), i == 3);
    }
    assert_int_equal(scene_state(&r, "b", 1, number[1], 0), 1);
    assert_int_equal(scene_state(&r, "b", 2, number[2], 0), 1);
    assert_int_equal(scene_state(&r, "b", 4, number[4], 0), 0);
    scene_end(&r);
}

void steps_trying(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .mode = RT_SHARED);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1, .mode = RT_SHARED, .try = true);
    assert_int_equal(scene_answered(&r, 2), 1);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 1, .try = true);
    assert_int_equal(r.changed[JOINED], 0);
    assert_int_equal(scene_answered(&r, 0), 1);
    assert_int_equal(scene_answered(&r, 1), -1);
    assert_non_null(strstr(rider_row(&r, ANSWERED, 0), "|one|")); /* who is at the front */
    (void)ASK(&r, .name = "b", .session = 3, .nonce = 1, .mode = RT_GATHER, .of = 2, .try = true);
    assert_int_equal(scene_answered(&r, 1), -1);
    (void)ASK(&r, .name = "b", .session = 3, .nonce = 1, .mode = RT_GATHER, .of = 2);
    (void)ASK(&r, .name = "b", .session = 4, .nonce = 1, .mode = RT_GATHER, .of = 2, .try = true);
    assert_int_equal(scene_answered(&r, 2), 1);
    scene_end(&r);
}

void steps_asked_twice(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .mode = RT_SHARED);
    int64_t number = scene_answered(&r, 1);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .mode = RT_SHARED);
    assert_int_equal(scene_answered(&r, 1), number);
    assert_int_equal(steps.number("select count(*) from rota_ticket"), 1);
    DO(&r, STEP(TAKE, T("f"), N(1), N(5), N(1), N(0), N(1), N(FAR)));
    number = rider_cell(&r, 0, 0, 0);
    (void)ASK(&r, .name = "f", .session = 1, .nonce = 5); /* a lost answer: it is folded */
    assert_int_equal(scene_answered(&r, 1), number);
    assert_int_equal(scene_answered(&r, 2), 1);
    (void)ASK(&r, .name = "f", .session = 9, .nonce = 5); /* no such session */
    assert_int_equal(scene_answered(&r, 0), 0);
    assert_int_equal(scene_answered(&r, 1), -1);
    scene_end(&r);
}

void steps_kinds_do_not_mix(void **state)
{
    static const struct {
        int64_t mode, take, of;
    } kinds[] = {{RT_EXCLUSIVE, 0, 0}, {RT_SHARED, 0, 0}, {RT_PERMITS, 1, 3}, {RT_PERMITS, 1, 4},
                 {RT_COUNT, 0, 3},     {RT_COUNT, 0, 4},  {RT_GATHER, 0, 3},  {RT_GATHER, 0, 4}};
    const size_t n = sizeof(kinds) / sizeof(kinds[0]);
    struct rider r;
    (void)state;
    scene_begin(&r);
    for (size_t i = 0; i < n * n; i++) {
        char name[16];
        snprintf(name, sizeof(name), "k%zu", i);
        (void)ASK(&r, .name = name, .session = 1, .nonce = 1, .mode = kinds[i / n].mode,
                  .take = kinds[i / n].take, .of = kinds[i / n].of);
        (void)ASK(&r, .name = name, .session = 2, .nonce = 1, .mode = kinds[i % n].mode,
                  .take = kinds[i % n].take, .of = kinds[i % n].of);
        bool same = rt_grant_same_kind((uint32_t)kinds[i / n].mode, (uint32_t)kinds[i / n].of,
                                       (uint32_t)kinds[i % n].mode, (uint32_t)kinds[i % n].of);
        assert_int_equal(scene_answered(&r, 1) > 0, same);
        assert_int_equal(scene_answered(&r, 4), kinds[i / n].mode);
        assert_int_equal(scene_answered(&r, 5), kinds[i / n].of);
    }
    scene_end(&r);
}

/* ---- Ends -------------------------------------------------------------------------------------------------- */

void steps_the_dead_are_purged(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 1);
    int64_t third = scene_answered(&r, 1);
    scene_kill(1);
    steps.run("delete from rota_session where id = 2"); /* no row is as dead as an old one */
    (void)ASK(&r, .name = "a", .session = 4, .nonce = 1);
    assert_int_equal(scene_answered(&r, 2), 0);
    assert_non_null(strstr(rider_row(&r, ANSWERED, 0), "|three|"));
    assert_int_equal(scene_state(&r, "a", 3, third, 0), 1);
    assert_int_equal(steps.number("select count(*) from rota_ticket"), 2);
    scene_end(&r);
}

void steps_time_that_is_owed(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .at_least = LONG);
    int64_t first = scene_answered(&r, 1);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1, .at_least = LONG);
    int64_t second = scene_answered(&r, 1);
    scene_kill(1);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 1);
    assert_non_null(strstr(rider_row(&r, ANSWERED, 0), "|one|")); /* its label outlives it */
    assert_int_equal(
        steps.number("select count(*) from rota_ticket where durable and session = 0 and nonce = 0"
                     " and owner = 0 and until = since + at_least"),
        1);
    DO(&r, STEP(BREAK, T("a"), N(first), N(0)), STEP(SETTLE, T("a")));
    assert_int_equal(r.changed[0], 1);
    assert_int_equal(scene_state(&r, "a", 2, second, 0), 1);
    assert_string_equal(scene_leave(&r, "a", 2, second), "1");
    assert_int_equal(steps.number("select count(*) from rota_ticket where durable and session = 0"),
                     1);
    /* Without `keep` nothing is owed; nor by one that only waited. */
    (void)ASK(&r, .name = "b", .session = 2, .nonce = 1, .at_least = LONG);
    int64_t number = scene_answered(&r, 1);
    (void)ASK(&r, .name = "b", .session = 3, .nonce = 1, .at_least = LONG);
    int64_t waits = scene_answered(&r, 1);
    DO(&r, STEP(LOCK, T("b")), STEP(LEAVE, T("b"), N(3), N(waits), N(0), N(1)),
       STEP(LEAVE, T("b"), N(2), N(number), N(0), N(0)));
    assert_int_equal(steps.number("select count(*) from rota_ticket where name = 'b'"), 0);
    steps.run("update rota_ticket set until = 1 where durable"); /* it is over */
    (void)ASK(&r, .name = "a", .session = 4, .nonce = 1);
    assert_int_equal(steps.number("select count(*) from rota_ticket where durable"), 0);
    scene_end(&r);
}

/* Its grants are in the future then. */
void steps_a_clock_set_back(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1);
    (void)ASK(&r, .name = "b", .session = 1, .nonce = 1, .at_least = LONG);
    (void)ASK(&r, .name = "c", .session = 2, .nonce = 1, .at_least = LONG);
    int64_t number = scene_answered(&r, 1);
    steps.run("update rota_ticket set since = since + 86400000000");
    scene_kill(1);
    DO(&r, STEP(LOCK, T("a")), STEP(LOCK, T("b")), STEP(PURGE, T("a")), STEP(PURGE, T("b")));
    (void)scene_leave(&r, "c", 2, number);
    DO(&r, STEP(INSPECT, T("a"), N(0)), STEP(INSPECT, T("b"), N(0)), STEP(INSPECT, T("c"), N(0)));
    assert_int_equal(rider_rows(&r, 0), 0); /* it owes nothing */
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(rider_cell(&r, i, 0, 8), 1);
        assert_true(rider_cell(&r, i, 0, 11) > 0 && rider_cell(&r, i, 0, 11) <= LONG);
    }
    scene_end(&r);
}

void steps_durable_tickets(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "d", .session = 700, .nonce = 1, .mode = RT_COUNT, .of = 2,
              .durable = true, .label = "me");
    assert_int_equal(scene_answered(&r, 0), 0); /* no such session, and no matter */
    assert_int_equal(scene_answered(&r, 2), 1);
    (void)ASK(&r, .name = "d", .session = 701, .nonce = 1, .mode = RT_COUNT, .of = 2,
              .durable = true, .until = LONG);
    int64_t number = scene_answered(&r, 1);
    (void)ASK(&r, .name = "d", .session = 702, .nonce = 1, .mode = RT_COUNT, .of = 2,
              .durable = true, .until = 1);
    DO(&r, STEP(INSPECT, T("d"), N(0)));
    assert_int_equal(rider_rows(&r, 0), 2);
    assert_int_equal(rider_cell(&r, 0, 0, 2), 0);
    assert_int_equal(rider_cell(&r, 0, 0, 11), -1);
    assert_true(rider_cell(&r, 0, 1, 11) > LONG / 2);
    DO(&r, STEP(DEAD, N(10)));
    assert_string_equal(rider_row(&r, 0, 0), "d");
    DO(&r, STEP(LOCK, T("d")), STEP(PURGE, T("d")));
    assert_int_equal(steps.number("select count(*) from rota_ticket"), 2);
    assert_string_equal(scene_leave(&r, "d", 701, number), "1");
    DO(&r, STEP(BREAK, T("d"), N(0), N(RT_GATHER)), STEP(BREAK, T("d"), N(0), N(RT_COUNT)));
    assert_int_equal(r.changed[0], 0);
    assert_int_equal(r.changed[1], 1);
    scene_end(&r);
}

/* ---- Hand-over ---------------------------------------------------------------------------------------------- */

/* Whether it was so. */
static bool pass_by(struct rider *r, const char *name, int64_t session, int64_t number,
                    int64_t nonce)
{
    enum rt_sql_end end = FLY(r, STEP(PASS, T(name), N(session), N(number), N(nonce)),
                              STEP(TELL, T(name)));
    assert_true(end == RT_SQL_LANDED || end == RT_SQL_REFUSED);
    return end == RT_SQL_LANDED && r->changed[0] == 1;
}

static bool pass(struct rider *r, const char *name, int64_t session, int64_t number)
{
    return pass_by(r, name, session, number, 0);
}

/* Who stands in the line, in order, 1: holds; and how many the line believes there are, and how many wait. */
static void assert_line(struct rider *r, const char *name, const char *expected)
{
    char text[100] = "", sql[100];
    DO(r, STEP(INSPECT, T(name), N(0)));
    for (size_t i = 0; i < rider_rows(r, 0); i++)
        snprintf(text + strlen(text), 20, "%d:%d ", (int)rider_cell(r, 0, i, 2),
                 (int)rider_cell(r, 0, i, 7));
    snprintf(sql, sizeof(sql), "select 100 * count + waiting from rota_line where name = '%s'",
             name);
    snprintf(text + strlen(text), 20, "%d", (int)steps.number(sql));
    assert_string_equal(text, expected);
}

void steps_pass(void **state)
{
    struct rider r;
    int64_t numbers[5] = {0};
    (void)state;
    scene_begin(&r);
    for (int i = 1; i <= 4; i++) {
        (void)ASK(&r, .name = "a", .session = i, .nonce = 1);
        numbers[i] = scene_answered(&r, 1);
    }
    assert_line(&r, "a", "1:1 2:0 3:0 4:0 403");
    assert_false(pass(&r, "a", 1, numbers[2])); /* not its own */
    assert_false(pass(&r, "a", 2, numbers[2])); /* does not hold */
    assert_false(pass(&r, "none", 1, numbers[1]));
    assert_false(pass_by(&r, "a", 1, numbers[1], 2)); /* of another ticket that had its number */
    assert_line(&r, "a", "1:1 2:0 3:0 4:0 403");
    assert_true(pass_by(&r, "a", 1, numbers[1], 1));
    assert_line(&r, "a", "2:1 3:0 4:0 302");
    assert_false(pass(&r, "a", 1, numbers[1])); /* it is gone */
    scene_kill(3);
    assert_false(pass(&r, "a", 2, numbers[2])); /* to the dead */
    assert_string_equal(scene_leave(&r, "a", 2, numbers[2]), "1");
    assert_line(&r, "a", "4:1 100");
    assert_true(pass(&r, "a", 4, numbers[4])); /* to nobody */
    assert_line(&r, "a", "0");
    scene_end(&r);
}

/* Anything beyond one holder and one waiter goes the long way. */
void steps_pass_plain_ones_only(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "s", .session = 1, .nonce = 1);
    int64_t number = scene_answered(&r, 1);
    (void)ASK(&r, .name = "s", .session = 2, .nonce = 1, .mode = RT_SHARED);
    (void)ASK(&r, .name = "s", .session = 3, .nonce = 1, .mode = RT_SHARED);
    assert_false(pass(&r, "s", 1, number));
    assert_line(&r, "s", "1:1 2:0 3:0 302");
    assert_string_equal(scene_leave(&r, "s", 1, number), "1");
    (void)ASK(&r, .name = "s", .session = 4, .nonce = 1);
    assert_false(pass(&r, "s", 2, number + 1));
    assert_line(&r, "s", "2:1 3:1 4:0 301");
    (void)ASK(&r, .name = "k", .session = 1, .nonce = 1, .at_least = LONG);
    assert_false(pass(&r, "k", 1, scene_answered(&r, 1)));
    assert_line(&r, "k", "1:1 100");
    (void)ASK(&r, .name = "d", .session = 1, .nonce = 1);
    number = scene_answered(&r, 1);
    (void)ASK(&r, .name = "d", .session = 2, .nonce = 1, .durable = true, .label = "me");
    assert_false(pass(&r, "d", 1, number));
    scene_end(&r);
}
