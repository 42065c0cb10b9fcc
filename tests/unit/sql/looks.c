/* SPDX-License-Identifier: Apache-2.0 */
/* Every step on a real server: sets, changes, looks, notices, and who is granted in random lines. */
#include "engine/kit/hash.h"
#include "lib/patience.h"
#include "lib/random.h"
#include "scene.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Sets, changes ------------------------------------------------------------------------------------------ */

static void join_all(struct rider *r, struct scene_ask a, struct scene_ask b)
{
    a.gate = b.gate = 2;
    DO(r, STEP(LOCK, T(a.name)), STEP(LOCK, T(b.name)), STEP(UNFOLD, T(a.name)),
       STEP(UNFOLD, T(b.name)), GATE(a), GATE(b), JOIN(a), JOIN(b),
       STEP(ANSWER, T(a.name), N(a.session), N(a.nonce)),
       STEP(ANSWER, T(b.name), N(b.session), N(b.nonce)));
}

void steps_all_or_none(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    join_all(&r, (struct scene_ask){.name = "a", .session = 1, .nonce = 1},
             (struct scene_ask){.name = "b", .session = 1, .nonce = 1});
    assert_true(rider_cell(&r, 8, 0, 1) > 0);
    assert_int_equal(rider_cell(&r, 8, 0, 2), 1);
    assert_int_equal(rider_cell(&r, 9, 0, 2), 1);
    join_all(&r, (struct scene_ask){.name = "b", .session = 2, .nonce = 1, .try = true},
             (struct scene_ask){.name = "c", .session = 2, .nonce = 1, .try = true});
    assert_int_equal(rider_cell(&r, 8, 0, 1), -1);
    assert_int_equal(rider_cell(&r, 9, 0, 1), -1); /* it was free */
    join_all(&r, (struct scene_ask){.name = "b", .session = 2, .nonce = 1},
             (struct scene_ask){.name = "c", .session = 2, .nonce = 1});
    assert_int_equal(rider_cell(&r, 8, 0, 2), 0);
    assert_int_equal(rider_cell(&r, 9, 0, 2), 1);
    join_all(
        &r, (struct scene_ask){.name = "c", .session = 3, .nonce = 1, .mode = RT_COUNT, .of = 1},
        (struct scene_ask){
            .name = "d", .session = 3, .nonce = 1, .mode = RT_COUNT, .of = 1}); /* c is a lock */
    assert_int_equal(rider_cell(&r, 9, 0, 1), -1);
    scene_end(&r);
}

void steps_changes(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .value = "old");
    int64_t first = scene_answered(&r, 1);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1, .mode = RT_SHARED);
    int64_t second = scene_answered(&r, 1);
    DO(&r, STEP(LOCK, T("a")), STEP(CHANGE, T("a"), N(1), N(first), N(0), N(1), T("new"), N(0)),
       STEP(CHANGE, T("a"), N(2), N(second), N(0), N(1), T("never"), N(0)), /* it waits */
       STEP(CHANGE, T("a"), N(3), N(first), N(0), N(1), T("never"), N(0)),
       STEP(STATE, T("a"), N(1), N(first)),
       STEP(CHANGE, T("a"), N(1), N(first), N(0), N(0), NOTHING, N(RT_SQL_ARMED)),
       STEP(STATE, T("a"), N(1), N(first)), STEP(FRONT, T("a")));
    assert_int_equal(r.changed[1], 1);
    assert_int_equal(r.changed[2], 0);
    assert_int_equal(r.changed[3], 0);
    assert_string_equal(rider_row(&r, 4, 0), "1|0|0");
    assert_string_equal(rider_row(&r, 6, 0), "1|0|1"); /* wanted, now that it is armed */
    assert_non_null(strstr(rider_row(&r, 7, 0), "|new|one|"));
    DO(&r, STEP(LOCK, T("a")), STEP(CHANGE, T("a"), N(1), N(first), N(1), N(0), NOTHING, N(0)),
       STEP(SETTLE, T("a")), STEP(STATE, T("a"), N(1), N(first)),
       STEP(STATE, T("a"), N(2), N(second)), STEP(FRONT, T("a")));
    assert_string_equal(rider_row(&r, 3, 0), "1|1|0");
    assert_string_equal(rider_row(&r, 4, 0), "1|1|0");
    assert_non_null(strstr(rider_row(&r, 5, 0), "|new|one|"));
    assert_int_equal(steps.number("select sum(weight) from rota_ticket"), 2);
    (void)ASK(&r, .name = "p", .session = 1, .nonce = 1, .mode = RT_PERMITS, .take = 2, .of = 2);
    DO(&r, STEP(CHANGE, T("p"), N(1), N(scene_answered(&r, 1)), N(1), N(0), NOTHING, N(0)));
    assert_int_equal(steps.number("select weight from rota_ticket where name = 'p' and mode = 2"),
                     2);
    scene_end(&r);
}

void steps_breaking(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    int64_t first = rider_cell(&r, 0, 0, 0);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1);
    int64_t second = scene_answered(&r, 1);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 1);
    DO(&r, STEP(LOCK, T("a")), STEP(BREAK, T("a"), N(first + 1), N(0)),
       STEP(BREAK, T("a"), N(second), N(0)), STEP(BREAK, T("a"), N(first), N(0)),
       STEP(SETTLE, T("a")), STEP(LIST, T("")));
    assert_int_equal(r.changed[1], 0);
    assert_int_equal(r.changed[2], 1);
    assert_int_equal(r.changed[3], 1);
    assert_string_equal(rider_row(&r, 5, 0), "a|1|1");
    scene_end(&r);
}

/* ---- Looking -------------------------------------------------------------------------------------------------- */

void steps_looking(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .bell = 101);
    int64_t first = scene_answered(&r, 1);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1, .bell = 102);
    int64_t second = scene_answered(&r, 1);
    assert_true(scene_answered(&r, 7) > LONG / 2); /* while session 1 lives ... */
    assert_int_equal(scene_answered(&r, 8), 101);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 1, .bell = 103);
    int64_t third = scene_answered(&r, 1);
    assert_int_equal(scene_answered(&r, 8), 102);
    scene_kill(1);
    DO(&r, STEP(LOOK, T("a"), N(2), N(second)), STEP(LOOK, T("a"), N(3), N(third)),
       STEP(LOOK, T("a"), N(1), N(first)), STEP(LOOK, T("a"), N(3), N(second)));
    assert_string_equal(rider_row(&r, 0, 0), "0|0|101"); /* ... and not a moment longer */
    assert_true(rider_cell(&r, 1, 0, 1) >
                LONG / 2); /* behind one who waits, only that one matters */
    assert_int_equal(rider_cell(&r, 1, 0, 2), 102);
    assert_string_equal(rider_row(&r, 2, 0), "1|-|-");
    assert_int_equal(rider_rows(&r, 3), 0);
    if (steps.driver->bells) {
        DO(&r, STEP(LOOK_AHEAD, T("a"), N(2), N(second)), STEP(LOOK_AHEAD, T("a"), N(1), N(first)),
           STEP(LOOK_AHEAD, T("a"), N(3), N(second)));
        assert_string_equal(rider_row(&r, 0, 0), "0|0|101");
        assert_string_equal(rider_row(&r, 1, 0), "1|-|-");
        assert_int_equal(rider_rows(&r, 2), 0);
    }
    /* The soonest end of all who hold. */
    (void)ASK(&r, .name = "s", .session = 700, .nonce = 1, .mode = RT_SHARED, .durable = true);
    (void)ASK(&r, .name = "s", .session = 701, .nonce = 1, .mode = RT_SHARED, .durable = true,
              .until = LONG * 2);
    (void)ASK(&r, .name = "s", .session = 2, .nonce = 1, .mode = RT_SHARED);
    (void)ASK(&r, .name = "s", .session = 3, .nonce = 1);
    assert_true(scene_answered(&r, 7) > LONG / 2 && scene_answered(&r, 7) <= LONG);
    if (steps.driver->bells) { /* the one ahead, whoever else holds, even one of the dead */
        int64_t waits = scene_answered(&r, 1);
        steps.run("update rota_ticket set until = 1 where until > 1");
        DO(&r, STEP(LOOK, T("s"), N(3), N(waits)), STEP(LOOK_AHEAD, T("s"), N(3), N(waits)));
        assert_int_equal(rider_cell(&r, 0, 0, 1), 0);
        assert_true(rider_cell(&r, 1, 0, 1) > LONG / 2);
    }
    (void)ASK(&r, .name = "n", .session = 700, .nonce = 1, .durable = true);
    (void)ASK(&r, .name = "n", .session = 3, .nonce = 1);
    assert_int_equal(scene_answered(&r, 7), -1); /* never, unless somebody ends it */
    scene_end(&r);
}

void steps_front_and_list(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    DO(&r, STEP(FRONT, T("a")), STEP(LIST, T("")));
    assert_int_equal(r.row_count, 0);
    DO(&r, STEP(TAKE, T("a%"), N(1), N(1), N(1), N(0), N(1), N(FAR)),
       STEP(TAKE, T("b_1"), N(2), N(1), N(1), N(0), N(1), N(FAR)));
    int64_t number = rider_cell(&r, 0, 0, 0);
    (void)ASK(&r, .name = "b_2", .session = 3, .nonce = 1, .mode = RT_SHARED, .value = "v");
    (void)ASK(&r, .name = "b_2", .session = 4, .nonce = 1);
    DO(&r, STEP(FRONT, T("a%")), STEP(FRONT, T("b_2")), STEP(LIST, T("")), STEP(LIST, T("b_")),
       STEP(LIST, T("%")), STEP(LIST, T("bx")));
    assert_int_equal(rider_cell(&r, 0, 0, 0), number);
    assert_int_equal(rider_cell(&r, 0, 0, 1), 1);
    assert_int_equal(rider_cell(&r, 0, 0, 2), 1);
    assert_non_null(strstr(rider_row(&r, 0, 0), "|1|1|0|0|-|one|"));
    assert_true(rider_cell(&r, 0, 0, 7) > LONG / 2);
    assert_non_null(strstr(rider_row(&r, 1, 0), "|1|2|1|0|v|three|"));
    assert_int_equal(rider_rows(&r, 2), 3);
    assert_string_equal(rider_row(&r, 2, 0), "a%|1|1");
    assert_string_equal(rider_row(&r, 3, 1), "b_2|2|1");
    assert_int_equal(rider_rows(&r, 3), 2);
    assert_int_equal(rider_rows(&r, 4), 0);
    assert_int_equal(rider_rows(&r, 5), 0);
    scene_kill(1);
    scene_kill(3);
    DO(&r, STEP(FRONT, T("a%")), STEP(FRONT, T("b_2")), STEP(LIST, T("")));
    assert_int_equal(rider_rows(&r, 0), 0);
    assert_non_null(strstr(rider_row(&r, 1, 0),
                           "|0|1|0|0|-|four|")); /* it will hold, when the dead one is away */
    assert_string_equal(rider_row(&r, 2, 1), "b_2|1|0");
    scene_end(&r);
}

void steps_inspecting(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    DO(&r, STEP(TAKE, T("z"), N(1), N(1), N(-5), N(RT_SQL_DETECT), N(1), N(FAR)));
    int64_t number = rider_cell(&r, 0, 0, 0);
    (void)ASK(&r, .name = "p", .session = 1, .nonce = 1, .mode = RT_PERMITS, .take = 1, .of = 3,
              .value = "v", .flags = RT_SQL_ARMED);
    (void)ASK(&r, .name = "p", .session = 2, .nonce = 1, .mode = RT_PERMITS, .take = 3, .of = 3,
              .at_least = LONG);
    DO(&r, STEP(INSPECT, T("z"), N(0)), STEP(INSPECT, T("p"), N(0)), STEP(INSPECT, NOTHING, N(1)),
       STEP(INSPECT, T("q"), N(0)));
    char want[80];
    snprintf(want, sizeof(want), "z|%" PRId64 "|1|-5|0|0|0|1|0|2|", number);
    assert_memory_equal(rider_row(&r, 0, 0), want, strlen(want));
    assert_true(rider_cell(&r, 0, 0, 10) >= 0 && rider_cell(&r, 0, 0, 10) < LONG);
    assert_true(rider_cell(&r, 0, 0, 11) > LONG / 2);
    assert_int_equal(rider_rows(&r, 1), 2);
    assert_non_null(strstr(rider_row(&r, 1, 0), "|1|77|2|1|3|1|0|1|"));
    assert_non_null(strstr(rider_row(&r, 1, 0), "|v|one"));
    assert_non_null(strstr(rider_row(&r, 1, 1), "|2|77|2|3|3|0|0|0|"));
    assert_non_null(strstr(rider_row(&r, 1, 1), "|-|two"));
    assert_int_equal(rider_rows(&r, 2), 2); /* of the session, by name */
    assert_memory_equal(rider_row(&r, 2, 0), "p|", 2);
    assert_memory_equal(rider_row(&r, 2, 1), "z|", 2);
    assert_int_equal(rider_rows(&r, 3), 0);
    /* The dead are left out, except for what they owe. */
    (void)ASK(&r, .name = "o", .session = 3, .nonce = 1, .at_least = LONG);
    scene_kill(1);
    scene_kill(3);
    DO(&r, STEP(INSPECT, T("z"), N(0)), STEP(INSPECT, T("p"), N(0)), STEP(INSPECT, T("o"), N(0)));
    assert_int_equal(rider_rows(&r, 0), 0);
    assert_int_equal(rider_rows(&r, 1), 1);
    assert_int_equal(rider_cell(&r, 2, 0, 2), 0);
    assert_int_equal(rider_cell(&r, 2, 0, 8), 1);
    scene_end(&r);
}

void steps_sweeping(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1);
    (void)ASK(&r, .name = "b", .session = 2, .nonce = 1);
    DO(&r, STEP(TAKE, T("f"), N(3), N(1), N(1), N(0), N(1), N(FAR)), STEP(WATCH, T("w"), N(LONG)),
       STEP(LOCK, T("e")), STEP(DEAD, N(10)), STEP(BURY, N(10)), STEP(IDLE, T(""), N(LONG), N(10)));
    assert_int_equal(rider_rows(&r, 3), 0);
    assert_int_equal(steps.number("select count(*) from rota_session"), 4);
    assert_int_equal(steps.number("select count(*) from rota_line"), 5);
    scene_kill(1);
    scene_kill(3);
    DO(&r, STEP(DEAD, N(10)), STEP(BURY, N(10)));
    assert_int_equal(rider_rows(&r, 0), 1);
    assert_string_equal(rider_row(&r, 0, 0), "a");
    assert_int_equal(steps.number("select count(*) from rota_session where id = 3"),
                     0); /* it had no rows */
    assert_int_equal(steps.number("select count(*) from rota_session where id = 1"), 1);
    DO(&r, STEP(LOCK, T("a")), STEP(PURGE, T("a")), STEP(SETTLE, T("a")), STEP(BURY, N(10)));
    assert_int_equal(steps.number("select count(*) from rota_session where id = 1"), 0);
    /* The clock was ahead for a while, or is behind now. */
    steps.run("update rota_line set fence = fence + 3600000000, since = 0 where name = 'f'");
    DO(&r, STEP(IDLE, T("b"), N(-1000000), N(1)), STEP(IDLE, T("f"), N(-1000000), N(10)));
    assert_string_equal(rider_row(&r, 0, 0), "e"); /* all that it looked at */
    assert_string_equal(rider_row(&r, 1, 0), "w");
    assert_int_equal(steps.number("select count(*) from rota_line"), 4);
    DO(&r, STEP(IDLE, T(""), N(-1000000), N(10)), STEP(IDLE, T("w"), N(-1000000), N(10)));
    assert_string_equal(rider_row(&r, 0, 0), "w");
    assert_int_equal(rider_rows(&r, 1), 0);
    assert_int_equal(
        steps.number("select count(*) from rota_line"),
        3); /* b, which holds, w, which is watched, and f, whose next number must be larger */
    scene_end(&r);
}

void steps_strays(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1);
    (void)ASK(&r, .name = "b", .session = 2, .nonce = 1);
    (void)ASK(&r, .name = "d", .session = 700, .nonce = 1, .durable = true);
    DO(&r, STEP(STRAYS, N(10)));
    assert_int_equal(r.row_count, 0);
    scene_kill(2); /* DEAD finds that one */
    steps.run("delete from rota_session where id = 1");
    DO(&r, STEP(STRAYS, N(10)), STEP(DEAD, N(10)));
    assert_int_equal(rider_rows(&r, 0), 1);
    assert_string_equal(rider_row(&r, 0, 0), "a");
    assert_int_equal(rider_rows(&r, 1), 1);
    assert_string_equal(rider_row(&r, 1, 0), "b");
    scene_end(&r);
}

#define MANY 20000
#define DAY_US INT64_C(86400000000)
#define AGED "1600000000000000" /* long ago */

/* COUNT aged lines, PREFIX100000 and so on, folded with SESSION. */
static void add_lines(const char *prefix, int count, const char *session)
{
    char sql[500];
    snprintf(
        sql, sizeof(sql),
        "insert into rota_line (name, fence, since, session, nonce, owner, flags, bell)"
        " with d as (select 0 d union select 1 union select 2 union select 3 union select 4 union"
        " select 5 union select 6 union select 7 union select 8 union select 9)"
        " select concat('%s', 100000 + n), " AGED ", " AGED ", %s, 0, 0, 0, 0 from (select a.d"
        " + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d n from d a, d b, d c, d e, d f) x"
        " where n < %d",
        prefix, session, count);
    steps.run(sql);
}

/* All of them go, step by step, and nothing else does. */
void steps_many_idle_lines(void **state)
{
    struct rider r;
    char after[80] = "";
    int walked = 0;
    (void)state;
    scene_begin(&r);
    scene_kill(4);
    add_lines("idle", MANY, "null");
    add_lines("dead", 100, "4");
    add_lines("held", 100, "1");
    add_lines("new", 100, "null");
    steps.run("update rota_line set since = 4000000000000000 where name like 'new%'");
    (void)ASK(&r, .name = "idle1", .session = 2, .nonce = 1); /* before them all */
    steps.run("update rota_line set since = " AGED ", fence = " AGED " where name = 'idle1'");
    for (bool more = true; more; walked++) {
        long long before = steps.number("select count(*) from rota_line");
        DO(&r, STEP(IDLE, T(after), N(DAY_US), N(500)));
        assert_true(steps.number("select count(*) from rota_line") >= before - 500);
        more = rider_rows(&r, 0) == 1;
        assert_true(!more || strcmp(rider_row(&r, 0, 0), after) > 0);
        snprintf(after, sizeof(after), "%s", rider_row(&r, 0, 0));
    }
    assert_in_range(walked, (MANY + 301) / 500, (MANY + 301) / 500 + 2);
    assert_int_equal(steps.number("select count(*) from rota_line"), 201);
    assert_int_equal(steps.number("select count(*) from rota_line where name like 'held%'"), 100);
    assert_int_equal(steps.number("select count(*) from rota_line where name like 'new%'"), 100);
    scene_end(&r);
}

static void end_lease(void)
{
    steps.run(steps.driver->notifies
                  ? "update rota_meta set v = '1' || substr(v, position(' ' in v)) where k = "
                    "'sweeper'"
                  : "update rota_meta set v = concat('1', substr(v, locate(' ', v))) where k = "
                    "'sweeper'");
}

/* One at a time, until its time is over; the next goes on where it was. */
void steps_who_sweeps(void **state)
{
    const int64_t one = INT64_MAX - 1, two = INT64_MAX - 2;
    char wide[400];
    struct rider r;
    (void)state;
    scene_begin(&r);
    DO(&r, STEP0(SWEEPER), STEP(SWEEP, N(one), N(LONG)));
    assert_int_equal(rider_rows(&r, 0), 0);
    assert_string_equal(rider_row(&r, 1, 0), "");
    assert_int_equal(rider_rows(&r, 1), 1);
    DO(&r, STEP0(SWEEPER), STEP(SWEEP, N(two), N(LONG)),
       STEP(SWEPT, N(two), N(two), N(LONG), T("x")),
       STEP(SWEPT, N(one), N(one), N(LONG), T("it's a")), STEP(SWEEP, N(one), N(LONG)));
    assert_in_range(rider_cell(&r, 0, 0, 0), LONG / 2, LONG);
    assert_int_equal(rider_rows(&r, 1), 0);
    assert_int_equal(r.changed[2], 0);
    assert_int_equal(r.changed[3], 1);
    assert_string_equal(rider_row(&r, 4, 0), "it's a");
    end_lease();
    DO(&r, STEP0(SWEEPER), STEP(SWEEP, N(two), N(LONG)),
       STEP(SWEPT, N(one), N(one), N(LONG), T("x")));
    assert_int_equal(rider_cell(&r, 0, 0, 0), 0);
    assert_string_equal(rider_row(&r, 1, 0), "it's a");
    assert_int_equal(r.changed[2], 0);
    /* It rests. */
    DO(&r, STEP(SWEPT, N(two), N(0), N(LONG), T("")), STEP(SWEEP, N(one), N(LONG)),
       STEP(SWEEP, N(two), N(LONG)), STEP0(SWEEPER));
    assert_int_equal(r.changed[0], 1);
    assert_int_equal(rider_rows(&r, 1) + rider_rows(&r, 2), 0);
    assert_in_range(rider_cell(&r, 3, 0, 0), LONG / 2, LONG);
    /* The clock was set back: nobody waits for such a time. Of a long name its beginning is enough. */
    for (size_t i = 0; i + 2 < sizeof(wide); i += 2)
        memcpy(&wide[i], "\xc3\xa4", 3);
    DO(&r, STEP(SWEPT, N(0), N(one), N(100 * LONG), T(wide)), STEP0(SWEEPER),
       STEP(SWEEP, N(two), N(LONG)));
    assert_int_equal(rider_cell(&r, 1, 0, 0), 0);
    assert_true(strlen(rider_row(&r, 2, 0)) >= 200);
    assert_int_equal(strncmp(wide, rider_row(&r, 2, 0), 200), 0);
    scene_end(&r);
}

void steps_what_a_session_has(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    DO(&r, STEP(TAKE, T("f"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 5, .flags = RT_SQL_ARMED);
    int64_t first = scene_answered(&r, 1);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 6);
    (void)ASK(&r, .name = "b", .session = 2, .nonce = 7);
    (void)ASK(&r, .name = "b", .session = 1, .nonce = 8);
    (void)ASK(&r, .name = "d", .session = 1, .nonce = 9, .durable = true);
    DO(&r, STEP(MINE, N(1)));
    assert_int_equal(rider_rows(&r, 0), 2);
    for (size_t i = 0; i < 2; i++) {
        bool a = rider_row(&r, 0, i)[0] == 'a';
        assert_int_equal(rider_cell(&r, 0, i, 2), a ? 5 : 8);
        assert_int_equal(rider_cell(&r, 0, i, 3), a);
        assert_int_equal(rider_cell(&r, 0, i, 4), a);
        assert_true(!a || rider_cell(&r, 0, i, 1) == first);
    }
    scene_end(&r);
}

void steps_odd_texts(void **state)
{
    static const char *const names[] = {
        " ",
        "A",
        "a",
        "it's",
        "a\\b",
        "\"q\"",
        "$1",
        "%s",
        "; drop table rota_line; --",
        "\xc3\xa4\xe4\xb8\xad\xf0\x9f\x94\x92",
    };
    struct rider r;
    (void)state;
    scene_begin(&r);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        DO(&r, STEP(TAKE, T(names[i]), N(1), N(1), N(1), N(0), N(1), N(FAR)));
        int64_t number = rider_cell(&r, 0, 0, 0);
        assert_true(number > 0);
        (void)ASK(&r, .name = names[i], .session = 2, .nonce = 1, .value = names[i]);
        int64_t second = scene_answered(&r, 1);
        (void)scene_leave(&r, names[i], 1, number);
        DO(&r, STEP(FRONT, T(names[i])), STEP(LIST, T(names[i])));
        assert_int_equal(rider_cell(&r, 0, 0, 0), second);
        assert_non_null(strstr(rider_row(&r, 0, 0), names[i]));
        assert_int_equal(rider_rows(&r, 1), 1);
    }
    /* A value may be any bytes. */
    struct rt_sql_cell bytes = {.text = "\0\xff\\", .size = 3};
    DO(&r, STEP(OPEN, N(50), N(LONG), T("me")), STEP(LOCK, T("v")),
       STEP(JOIN, T("v"), N(50), N(1), N(1), N(0), N(0), N(0), N(ALL), N(0), N(0), N(0), N(0), N(0),
            bytes, NOTHING, N(1), N(0)),
       STEP(LIST, T("v")));
    assert_int_equal(rider_rows(&r, 0), 1);
    assert_string_equal(rider_row(&r, 3, 0), "v|1|1");
    assert_int_equal(
        steps.number("select count(*) from rota_ticket where name = 'v' and length(value) = 3"), 1);
    scene_end(&r);
}

void steps_whole_or_not_at_all(void **state)
{
    struct rider r;
    (void)state;
    scene_begin(&r);
    /* A name that is too long for any index, however it is packed: nothing of the flight was done. */
    char longer[9000];
    struct rt_random random = {.state = 1};
    for (size_t i = 0; i < sizeof(longer); i++)
        longer[i] = (char)('0' + rt_random_below(&random, 75));
    longer[sizeof(longer) - 1] = '\0';
    enum rt_sql_end how = FLY(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)),
                              STEP(TAKE, T(longer), N(1), N(1), N(1), N(0), N(1), N(FAR)),
                              STEP(RENEW, N(1), N(LONG)));
    assert_int_not_equal(how, RT_SQL_LANDED);
    assert_int_not_equal(how, RT_SQL_CUT);
    assert_int_equal(r.failed, 1);
    assert_int_equal(steps.number("select count(*) from rota_line"), 0);
    DO(&r, STEP(RENEW, N(1), N(LONG))); /* the link goes on */
    assert_int_equal(rider_rows(&r, 0), 1);
    scene_end(&r);
}

/* ---- Notices -------------------------------------------------------------------------------------------------- */

static void expect_notice(struct rider *r, int count, const char *channel, const char *text)
{
    rider_until(&r->notices, count);
    assert_int_equal(r->notices, count);
    assert_string_equal(r->channel, channel);
    assert_string_equal(r->notice, text);
}

void steps_notices(void **state)
{
    struct rider r, ear;
    char want[100], line[40];
    (void)state;
    scene_begin(&r);
    if (!steps.driver->notifies) {
        scene_end(&r);
        skip();
    }
    rider_start(&ear, steps.driver, steps.url);
    DO(&ear, STEP(LISTEN, N(0x102)), STEP(LISTEN, N(-1)), STEP(LISTEN_LINE, T("it's")));
    (void)ASK(&r, .name = "it's", .session = 1, .nonce = 1, .bell = -1, .flags = RT_SQL_ARMED);
    int64_t first = scene_answered(&r, 1);
    (void)ASK(&r, .name = "it's", .session = 2, .nonce = 1, .bell = 0x102);
    int64_t second = scene_answered(&r, 1);
    snprintf(want, sizeof(want), "%" PRId64 " W it's", first);
    expect_notice(&ear, 1, "rota_ffffffffffffffff", want);
    (void)ASK(&r, .name = "it's", .session = 3, .nonce = 1,
              .bell = 0x103);                /* nobody listens; the second to wait */
    (void)scene_leave(&r, "it's", 1, first); /* nobody watches */
    snprintf(want, sizeof(want), "%" PRId64 " G it's", second);
    expect_notice(&ear, 2, "rota_0000000000000102", want);
    DO(&r, STEP(WATCH, T("it's"), N(LONG)), STEP(LOCK, T("it's")),
       STEP(BREAK, T("it's"), N(second), N(0)), STEP(SETTLE, T("it's")));
    snprintf(want, sizeof(want), "%" PRId64 " L it's", second);
    expect_notice(&ear, 3, "rota_0000000000000102", want);
    DO(&r, STEP(TELL, T("it's")));
    snprintf(line, sizeof(line), "rota_o%016" PRIx64, rt_hash("it's", 4));
    expect_notice(&ear, 4, line, "it's");
    DO(&ear, STEP(UNLISTEN, N(-1)), STEP(UNLISTEN_LINE, T("it's")));
    DO(&r, STEP(TELL, T("it's")));
    DO(&ear, STEP(RENEW, N(1), N(LONG)));
    assert_int_equal(ear.notices, 4);
    rider_close(&ear);
    scene_end(&r);
}

/* ---- The rule --------------------------------------------------------------------------------------------------- */

#define CROWD 12

struct crowd { /* a line as core/grant.h walks it */
    struct {
        int64_t number, session;
        uint32_t mode, take, of;
        bool granted;
    } at[CROWD];
    size_t count;
};

static void walk(struct crowd *c)
{
    struct rt_grant g;
    uint32_t waiting = 0;
    for (size_t i = 0; i < c->count; i++)
        waiting += !c->at[i].granted;
    rt_grant_init(&g, waiting);
    for (size_t i = 0; i < c->count; i++) {
        if (rt_grant_next(&g, c->at[i].mode, c->at[i].take, c->at[i].of, c->at[i].granted) ==
            RT_GRANT_WAITS)
            break;
        c->at[i].granted = true;
    }
}

static void compare(struct rider *r, const struct crowd *c, const char *name)
{
    DO(r, STEP(INSPECT, T(name), N(0)));
    assert_int_equal(rider_rows(r, 0), c->count);
    for (size_t i = 0; i < c->count; i++) {
        assert_int_equal(rider_cell(r, 0, i, 1), c->at[i].number);
        assert_int_equal(rider_cell(r, 0, i, 7), c->at[i].granted);
    }
}

static void come(struct rider *r, struct crowd *c, const char *name, struct rt_random *random,
                 uint32_t kind, uint32_t of)
{
    static int64_t nonce = 1000;
    uint32_t mode = kind == RT_EXCLUSIVE ? (uint32_t)rt_random_below(random, 2) : kind;
    uint32_t take = kind == RT_PERMITS ? 1 + (uint32_t)rt_random_below(random, of) : 0;
    int64_t session = 1 + (int64_t)rt_random_below(random, 4);
    (void)ASK(r, .name = name, .session = session, .nonce = ++nonce, .mode = mode, .take = take,
              .of = of);
    size_t i = c->count++;
    c->at[i].number = scene_answered(r, 1);
    c->at[i].session = session;
    c->at[i].mode = mode;
    c->at[i].take = take;
    c->at[i].of = of;
    c->at[i].granted = false;
    walk(c);
    assert_int_equal(scene_answered(r, 2), c->at[i].granted);
}

static void go(struct rider *r, struct crowd *c, const char *name, struct rt_random *random)
{
    size_t i = (size_t)rt_random_below(random, (uint32_t)c->count);
    assert_int_equal(strtol(scene_leave(r, name, c->at[i].session, c->at[i].number), NULL, 10),
                     c->at[i].granted);
    memmove(&c->at[i], &c->at[i + 1], (c->count - i - 1) * sizeof(c->at[0]));
    c->count--;
    walk(c);
}

void steps_the_rule_at_random(void **state)
{
    static const uint32_t kinds[] = {RT_EXCLUSIVE, RT_EXCLUSIVE, RT_PERMITS,
                                     RT_PERMITS,   RT_COUNT,     RT_GATHER};
    struct rt_random random = {rt_seed()};
    struct rider r;
    (void)state;
    scene_begin(&r);
    print_message("ROTA_SEED=%" PRIu64 "\n", random.state);
    for (int line = 0; line < 200; line++) {
        struct crowd c = {.count = 0};
        uint32_t kind = kinds[rt_random_below(&random, sizeof(kinds) / sizeof(kinds[0]))];
        uint32_t of = kind == RT_EXCLUSIVE ? 0 : 1 + (uint32_t)rt_random_below(&random, 4);
        char name[16];
        snprintf(name, sizeof(name), "r%d", line);
        for (int i = 0; i < 10; i++) {
            if (c.count > 0 && (c.count == CROWD || rt_random_below(&random, 3) == 0))
                go(&r, &c, name, &random);
            else
                come(&r, &c, name, &random, kind, of);
        }
        compare(&r, &c, name);
    }
    scene_end(&r);
}
