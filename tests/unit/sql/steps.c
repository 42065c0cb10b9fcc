/* SPDX-License-Identifier: Apache-2.0 */
/* Every step on a real server. */
#include "steps.h"

#include "engine/kit/hash.h"
#include "lib/random.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <cmocka.h>

#define LONG INT64_C(600000000) /* ten minutes, in µs */
#define ALL (INT64_C(1) << 62)

struct steps steps;

/* ---- Scenes ---------------------------------------------------------------------------------------- */

/* A link to empty tables; sessions 1 to 4 live. */
static void begin(struct rider *r)
{
    rider_start(r, steps.driver, steps.url);
    DO(r, STEP0(MAKE));
    steps.run("delete from rota_ticket");
    steps.run("delete from rota_line");
    steps.run("delete from rota_session");
    DO(r, STEP(OPEN, N(1), N(LONG), T("one")), STEP(OPEN, N(2), N(LONG), T("two")),
       STEP(OPEN, N(3), N(LONG), T("three")), STEP(OPEN, N(4), N(LONG), T("four")));
}

static void kill_session(int id)
{
    char sql[80];
    snprintf(sql, sizeof(sql), "update rota_session set expires = 1 where id = %d", id);
    steps.run(sql);
}

static int64_t turn(void)
{
    static int64_t turns = 100;
    return ++turns;
}

struct ask { /* zero: a plain exclusive ticket */
    const char *name;
    int64_t session, nonce, mode, take, of, flags, at_least, until, bell, gate;
    bool durable, try;
    const char *value, *label;
};

static int64_t weight_of(const struct ask *a)
{
    return a->mode == RT_EXCLUSIVE ? ALL
           : a->mode == RT_SHARED  ? 1
           : a->mode == RT_PERMITS ? a->take
                                   : 0;
}

#define TEXT_OR_NULL(x) ((x) != NULL ? T(x) : NOTHING)
#define JOIN(a)                                                                            \
    STEP(JOIN, T((a).name), N((a).session), N((a).nonce), N(77), N((a).mode), N((a).take), \
         N((a).of), N(weight_of(&(a))), N((a).flags), N((a).at_least), N((a).until),       \
         N((a).durable), N((a).try), TEXT_OR_NULL((a).value), TEXT_OR_NULL((a).label),     \
         N((a).bell), N((a).gate))
#define GATE(a)                                                                   \
    STEP(GATE, T((a).name), N((a).session), N((a).nonce), N((a).mode), N((a).of), \
         N(weight_of(&(a))), N((a).try), N((a).durable))

enum {
    LOCKED,
    UNFOLDED,
    PURGED,
    SETTLED,
    JOINED,
    OPENED,
    WANTED,
    ANSWERED
}; /* the steps of join() */

/* The whole slow path of one ask; the row of ANSWER. */
static const char *join(struct rider *r, struct ask a)
{
    DO(r, STEP(LOCK, T(a.name), N(turn())), STEP(UNFOLD, T(a.name)), STEP(PURGE, T(a.name)),
       STEP(SETTLE, T(a.name)), JOIN(a), STEP(SETTLE, T(a.name)), STEP(WANT, T(a.name)),
       STEP(ANSWER, T(a.name), N(a.session), N(a.nonce)));
    return rider_row(r, ANSWERED, 0);
}
#define ASK(r, ...) join(r, (struct ask){__VA_ARGS__})

static int64_t answered(const struct rider *r, size_t column)
{
    return rider_cell(r, ANSWERED, 0, column);
}

/* Leaves by number; what LEAVE answered. */
static const char *leave(struct rider *r, const char *name, int64_t session, int64_t number)
{
    DO(r, STEP(LOCK, T(name), N(turn())), STEP(UNFOLD, T(name)),
       STEP(LEAVE, T(name), N(session), N(number), N(0), N(1)), STEP(PURGE, T(name)),
       STEP(SETTLE, T(name)), STEP(TELL, T(name)));
    return rider_row(r, 2, 0);
}

static int64_t state_of(struct rider *r, const char *name, int64_t session, int64_t number,
                        size_t column)
{
    DO(r, STEP(STATE, T(name), N(session), N(number)));
    return rider_cell(r, 0, 0, column);
}

/* The line's own counts agree with its rows. */
static void check_counts(void)
{
    assert_int_equal(
        steps.number(
            "select count(*) from rota_line l where l.count <> (select count(*) from rota_ticket t"
            " where t.name = l.name) or l.waiting <> (select count(*) from rota_ticket t"
            " where t.name = l.name and not t.granted)"),
        0);
}

static void end(struct rider *r)
{
    check_counts();
    rider_close(r);
}

/* ---- Sessions and folded lines ------------------------------------------------------------------------ */

void steps_sessions(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
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
    /* One that was held up takes back nothing; after the clock was set back three ttls are enough. */
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
    end(&r);
}

void steps_a_line_stays_folded(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(11), N(12), N(0), N(13), N(FAR)));
    int64_t number = rider_cell(&r, 0, 0, 0);
    assert_true(number > INT64_C(1700000000000000)); /* the clock */
    DO(&r, STEP(TAKE, T("a"), N(2), N(21), N(22), N(0), N(23), N(FAR)),
       STEP(VERIFY, T("a"), N(1), N(number)), STEP(VERIFY, T("a"), N(2), N(number)),
       STEP(VERIFY, T("a"), N(1), N(number + 1)), STEP(FOLDED, T("a"), N(1)),
       STEP(FOLDED, T("a"), N(2)), STEP(GIVE, T("a"), N(1), N(number + 1)),
       STEP(GIVE, T("a"), N(2), N(number)));
    assert_int_equal(rider_rows(&r, 0), 0);
    assert_string_equal(rider_row(&r, 1, 0), "1");
    assert_int_equal(rider_rows(&r, 2), 0);
    assert_int_equal(rider_rows(&r, 3), 0);
    assert_int_equal(rider_cell(&r, 4, 0, 0), number);
    assert_int_equal(rider_cell(&r, 4, 0, 1), 11);
    assert_int_equal(rider_rows(&r, 5), 0);
    assert_int_equal(r.changed[6], 0);
    assert_int_equal(r.changed[7], 0);
    DO(&r, STEP(GIVE, T("a"), N(1), N(number)),
       STEP(TAKE, T("a"), N(2), N(21), N(22), N(0), N(23), N(FAR)));
    assert_int_equal(r.changed[0], 1);
    assert_true(rider_cell(&r, 1, 0, 0) > number);
    assert_int_equal(steps.number("select count(*) from rota_ticket"), 0);
    kill_session(2);
    DO(&r, STEP(VERIFY, T("a"), N(2), N(rider_cell(&r, 1, 0, 0))),
       STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    assert_int_equal(r.row_count, 0); /* dead: no promise, and the slow path's to take away */
    for (int i = 0; i < 2; i++) {     /* a new line, and one that is there */
        enum rt_sql_end how = FLY(&r, STEP(TAKE, T("b"), N(2), N(1), N(1), N(0), N(1), N(i)));
        assert_true(how == RT_SQL_LANDED || how == RT_SQL_REFUSED);
        assert_int_equal(r.row_count, 0);
        DO(&r, STEP(FOLDED, T("b"), N(2)), STEP(LOCK, T("b"), N(turn())));
        assert_int_equal(r.row_count, 0);
    }
    end(&r);
}

void steps_numbers_only_grow(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    DO(&r, STEP(GIVE, T("a"), N(1), N(rider_cell(&r, 0, 0, 0))));
    steps.run(
        "update rota_line set fence = 9000000000000000"); /* as if the clock had been far ahead */
    DO(&r, STEP(TAKE, T("a"), N(1), N(2), N(1), N(0), N(1), N(FAR)));
    assert_string_equal(rider_row(&r, 0, 0), "9000000000000001");
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1);
    assert_int_equal(answered(&r, 1), INT64_C(9000000000000002));
    end(&r);
}

void steps_watched_lines_unfold(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    DO(&r, STEP(WATCH, T("a"), N(LONG)), STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    assert_int_equal(rider_rows(&r, 1), 0);
    DO(&r, STEP(TAKE, T("b"), N(1), N(1), N(1), N(0), N(1), N(FAR)), STEP(WATCH, T("b"), N(LONG)));
    int64_t number = rider_cell(&r, 0, 0, 0);
    DO(&r, STEP(GIVE, T("b"), N(1), N(number)), STEP(WATCH, T("b"), N(1)),
       STEP(GIVE, T("b"), N(1), N(number)));
    assert_int_equal(r.changed[0], 0);
    assert_int_equal(r.changed[2], 0); /* the longer watch counts */
    end(&r);
}

void steps_unfolding(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(11), N(12), N(RT_SQL_ARMED), N(13), N(FAR)),
       STEP(TAKE, T("b"), N(2), N(21), N(22), N(0), N(23), N(FAR)));
    int64_t number = rider_cell(&r, 0, 0, 0);
    kill_session(2);
    DO(&r, STEP(LOCK, T("a"), N(turn())), STEP(LOCK, T("b"), N(turn())),
       STEP(LOCK, T("c"), N(turn())), STEP(UNFOLD, T("a")), STEP(UNFOLD, T("b")),
       STEP(UNFOLD, T("c")), STEP(STATE, T("a"), N(1), N(number)),
       STEP(ANSWER, T("a"), N(1), N(11)), STEP(FOLDED, T("a"), N(1)));
    assert_string_equal(rider_row(&r, 6, 0), "1|0|0");
    assert_int_equal(rider_cell(&r, 7, 0, 1), number);
    assert_int_equal(rider_rows(&r, 8), 0);
    assert_int_equal(steps.number("select count(*) from rota_ticket"), 1);
    assert_int_equal(steps.number("select weight from rota_ticket"), ALL);
    assert_int_equal(steps.number("select bell from rota_ticket"), 13);
    assert_int_equal(steps.number("select count(*) from rota_line where session is not null"), 0);
    assert_int_equal(steps.number("select count(*) from rota_line"), 3);
    end(&r);
}

/* ---- Lines ---------------------------------------------------------------------------------------------- */

void steps_one_after_the_other(void **state)
{
    struct rider r;
    int64_t numbers[4];
    (void)state;
    begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    numbers[1] = rider_cell(&r, 0, 0, 0);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 2);
    assert_int_equal(answered(&r, 0), 1); /* lives */
    numbers[2] = answered(&r, 1);
    assert_true(numbers[2] > numbers[1]);
    assert_int_equal(answered(&r, 2), 0); /* waits */
    assert_int_equal(answered(&r, 4), RT_EXCLUSIVE);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 3, .mode = RT_SHARED);
    numbers[3] = answered(&r, 1);
    assert_int_equal(answered(&r, 2), 0);
    assert_string_equal(leave(&r, "a", 1, numbers[1]), "1");
    assert_int_equal(state_of(&r, "a", 2, numbers[2], 0), 1);
    assert_int_equal(state_of(&r, "a", 3, numbers[3], 0), 0);
    assert_int_equal(state_of(&r, "a", 3, numbers[3], 1), RT_SHARED);
    assert_string_equal(leave(&r, "a", 2, numbers[2] + 1), ""); /* none of that number */
    assert_string_equal(leave(&r, "a", 3, numbers[2]), "");     /* not its own */
    /* Who gives up is found by its nonce, too. */
    DO(&r, STEP(LOCK, T("a"), N(turn())), STEP(LEAVE, T("a"), N(3), N(0), N(3), N(0)),
       STEP(SETTLE, T("a")));
    assert_string_equal(rider_row(&r, 1, 0), "0");
    assert_string_equal(leave(&r, "a", 2, numbers[2]), "1");
    assert_int_equal(steps.number("select count(*) from rota_ticket"), 0);
    DO(&r, STEP(TAKE, T("a"), N(1), N(4), N(1), N(0), N(1), N(FAR)));
    assert_true(rider_cell(&r, 0, 0, 0) > numbers[3]);
    end(&r);
}

void steps_readers(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .mode = RT_SHARED);
    int64_t first = answered(&r, 1);
    assert_int_equal(answered(&r, 2), 1);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1, .mode = RT_SHARED);
    int64_t second = answered(&r, 1);
    assert_int_equal(answered(&r, 2), 1);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 1);
    int64_t writer = answered(&r, 1);
    assert_int_equal(answered(&r, 2), 0);
    (void)ASK(&r, .name = "a", .session = 4, .nonce = 1, .mode = RT_SHARED);
    int64_t last = answered(&r, 1);
    assert_int_equal(answered(&r, 2), 0); /* behind a writer */
    (void)leave(&r, "a", 1, first);
    assert_int_equal(state_of(&r, "a", 3, writer, 0), 0);
    (void)leave(&r, "a", 2, second);
    assert_int_equal(state_of(&r, "a", 3, writer, 0), 1);
    assert_int_equal(state_of(&r, "a", 4, last, 0), 0);
    (void)leave(&r, "a", 3, writer);
    assert_int_equal(state_of(&r, "a", 4, last, 0), 1);
    end(&r);
}

void steps_permits(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)ASK(&r, .name = "p", .session = 1, .nonce = 1, .mode = RT_PERMITS, .take = 2, .of = 3);
    int64_t first = answered(&r, 1);
    assert_int_equal(answered(&r, 2), 1);
    (void)ASK(&r, .name = "p", .session = 2, .nonce = 1, .mode = RT_PERMITS, .take = 2, .of = 3);
    int64_t large = answered(&r, 1);
    assert_int_equal(answered(&r, 2), 0);
    assert_int_equal(answered(&r, 5), 3); /* of the front */
    (void)ASK(&r, .name = "p", .session = 3, .nonce = 1, .mode = RT_PERMITS, .take = 1, .of = 3);
    int64_t small = answered(&r, 1);
    assert_int_equal(answered(&r, 2), 0); /* nobody overtakes */
    (void)leave(&r, "p", 1, first);
    assert_int_equal(state_of(&r, "p", 2, large, 0), 1);
    assert_int_equal(state_of(&r, "p", 3, small, 0), 1);
    end(&r);
}

void steps_counted(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    for (int i = 1; i <= 4; i++) {
        (void)ASK(&r, .name = "c", .session = i, .nonce = 1, .mode = RT_COUNT, .of = 2);
        assert_int_equal(answered(&r, 2), 1);
    }
    DO(&r, STEP(LIST, T("c")));
    assert_string_equal(rider_row(&r, 0, 0), "c|4|4");
    end(&r);
}

void steps_barrier(void **state)
{
    struct rider r;
    int64_t number[5];
    (void)state;
    begin(&r);
    for (int i = 1; i <= 4; i++) {
        (void)ASK(&r, .name = "b", .session = i, .nonce = 1, .mode = RT_GATHER, .of = 3);
        number[i] = answered(&r, 1);
        assert_int_equal(answered(&r, 2), i == 3);
    }
    assert_int_equal(state_of(&r, "b", 1, number[1], 0), 1);
    assert_int_equal(state_of(&r, "b", 2, number[2], 0), 1);
    assert_int_equal(state_of(&r, "b", 4, number[4], 0), 0);
    end(&r);
}

void steps_trying(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .mode = RT_SHARED);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1, .mode = RT_SHARED, .try = true);
    assert_int_equal(answered(&r, 2), 1);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 1, .try = true);
    assert_int_equal(r.changed[JOINED], 0);
    assert_int_equal(answered(&r, 0), 1);
    assert_int_equal(answered(&r, 1), -1);
    assert_non_null(strstr(rider_row(&r, ANSWERED, 0), "|one|")); /* who is at the front */
    (void)ASK(&r, .name = "b", .session = 3, .nonce = 1, .mode = RT_GATHER, .of = 2, .try = true);
    assert_int_equal(answered(&r, 1), -1);
    (void)ASK(&r, .name = "b", .session = 3, .nonce = 1, .mode = RT_GATHER, .of = 2);
    (void)ASK(&r, .name = "b", .session = 4, .nonce = 1, .mode = RT_GATHER, .of = 2, .try = true);
    assert_int_equal(answered(&r, 2), 1);
    end(&r);
}

void steps_asked_twice(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .mode = RT_SHARED);
    int64_t number = answered(&r, 1);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .mode = RT_SHARED);
    assert_int_equal(answered(&r, 1), number);
    assert_int_equal(steps.number("select count(*) from rota_ticket"), 1);
    DO(&r, STEP(TAKE, T("f"), N(1), N(5), N(1), N(0), N(1), N(FAR)));
    number = rider_cell(&r, 0, 0, 0);
    (void)ASK(&r, .name = "f", .session = 1, .nonce = 5); /* a lost answer: it is folded */
    assert_int_equal(answered(&r, 1), number);
    assert_int_equal(answered(&r, 2), 1);
    (void)ASK(&r, .name = "f", .session = 9, .nonce = 5); /* no such session */
    assert_int_equal(answered(&r, 0), 0);
    assert_int_equal(answered(&r, 1), -1);
    end(&r);
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
    begin(&r);
    for (size_t i = 0; i < n * n; i++) {
        char name[16];
        snprintf(name, sizeof(name), "k%zu", i);
        (void)ASK(&r, .name = name, .session = 1, .nonce = 1, .mode = kinds[i / n].mode,
                  .take = kinds[i / n].take, .of = kinds[i / n].of);
        (void)ASK(&r, .name = name, .session = 2, .nonce = 1, .mode = kinds[i % n].mode,
                  .take = kinds[i % n].take, .of = kinds[i % n].of);
        bool same = rt_grant_same_kind((uint32_t)kinds[i / n].mode, (uint32_t)kinds[i / n].of,
                                       (uint32_t)kinds[i % n].mode, (uint32_t)kinds[i % n].of);
        assert_int_equal(answered(&r, 1) > 0, same);
        assert_int_equal(answered(&r, 4), kinds[i / n].mode);
        assert_int_equal(answered(&r, 5), kinds[i / n].of);
    }
    end(&r);
}

/* ---- Ends -------------------------------------------------------------------------------------------------- */

void steps_the_dead_are_purged(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 1);
    int64_t third = answered(&r, 1);
    kill_session(1);
    steps.run("delete from rota_session where id = 2"); /* no row is as dead as an old one */
    (void)ASK(&r, .name = "a", .session = 4, .nonce = 1);
    assert_int_equal(answered(&r, 2), 0);
    assert_non_null(strstr(rider_row(&r, ANSWERED, 0), "|three|"));
    assert_int_equal(state_of(&r, "a", 3, third, 0), 1);
    assert_int_equal(steps.number("select count(*) from rota_ticket"), 2);
    end(&r);
}

void steps_time_that_is_owed(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .at_least = LONG);
    int64_t first = answered(&r, 1);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1, .at_least = LONG);
    int64_t second = answered(&r, 1);
    kill_session(1);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 1);
    assert_non_null(strstr(rider_row(&r, ANSWERED, 0), "|one|")); /* its label outlives it */
    assert_int_equal(
        steps.number("select count(*) from rota_ticket where durable and session = 0 and nonce = 0"
                     " and owner = 0 and until = since + at_least"),
        1);
    DO(&r, STEP(BREAK, T("a"), N(first), N(0)), STEP(SETTLE, T("a")));
    assert_int_equal(r.changed[0], 1);
    assert_int_equal(state_of(&r, "a", 2, second, 0), 1);
    assert_string_equal(leave(&r, "a", 2, second), "1");
    assert_int_equal(steps.number("select count(*) from rota_ticket where durable and session = 0"),
                     1);
    /* Without `keep`, nothing is owed; nor by who only waited. */
    (void)ASK(&r, .name = "b", .session = 2, .nonce = 1, .at_least = LONG);
    int64_t number = answered(&r, 1);
    (void)ASK(&r, .name = "b", .session = 3, .nonce = 1, .at_least = LONG);
    int64_t waits = answered(&r, 1);
    DO(&r, STEP(LOCK, T("b"), N(turn())), STEP(LEAVE, T("b"), N(3), N(waits), N(0), N(1)),
       STEP(LEAVE, T("b"), N(2), N(number), N(0), N(0)));
    assert_int_equal(steps.number("select count(*) from rota_ticket where name = 'b'"), 0);
    steps.run("update rota_ticket set until = 1 where durable"); /* it is over */
    (void)ASK(&r, .name = "a", .session = 4, .nonce = 1);
    assert_int_equal(steps.number("select count(*) from rota_ticket where durable"), 0);
    end(&r);
}

/* Its grants are in the future then. */
void steps_a_clock_set_back(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1);
    (void)ASK(&r, .name = "b", .session = 1, .nonce = 1, .at_least = LONG);
    (void)ASK(&r, .name = "c", .session = 2, .nonce = 1, .at_least = LONG);
    int64_t number = answered(&r, 1);
    steps.run("update rota_ticket set since = since + 86400000000");
    kill_session(1);
    DO(&r, STEP(LOCK, T("a"), N(turn())), STEP(LOCK, T("b"), N(turn())), STEP(PURGE, T("a")),
       STEP(PURGE, T("b")));
    (void)leave(&r, "c", 2, number);
    DO(&r, STEP(INSPECT, T("a"), N(0)), STEP(INSPECT, T("b"), N(0)), STEP(INSPECT, T("c"), N(0)));
    assert_int_equal(rider_rows(&r, 0), 0); /* it owes nothing */
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(rider_cell(&r, i, 0, 8), 1);
        assert_true(rider_cell(&r, i, 0, 11) > 0 && rider_cell(&r, i, 0, 11) <= LONG);
    }
    end(&r);
}

void steps_durable_tickets(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)ASK(&r, .name = "d", .session = 700, .nonce = 1, .mode = RT_COUNT, .of = 2,
              .durable = true, .label = "me");
    assert_int_equal(answered(&r, 0), 0); /* no such session, and no matter */
    assert_int_equal(answered(&r, 2), 1);
    (void)ASK(&r, .name = "d", .session = 701, .nonce = 1, .mode = RT_COUNT, .of = 2,
              .durable = true, .until = LONG);
    int64_t number = answered(&r, 1);
    (void)ASK(&r, .name = "d", .session = 702, .nonce = 1, .mode = RT_COUNT, .of = 2,
              .durable = true, .until = 1);
    DO(&r, STEP(INSPECT, T("d"), N(0)));
    assert_int_equal(rider_rows(&r, 0), 2);
    assert_int_equal(rider_cell(&r, 0, 0, 2), 0);
    assert_int_equal(rider_cell(&r, 0, 0, 11), -1);
    assert_true(rider_cell(&r, 0, 1, 11) > LONG / 2);
    DO(&r, STEP(DEAD, N(10)));
    assert_string_equal(rider_row(&r, 0, 0), "d");
    DO(&r, STEP(LOCK, T("d"), N(turn())), STEP(PURGE, T("d")));
    assert_int_equal(steps.number("select count(*) from rota_ticket"), 2);
    assert_string_equal(leave(&r, "d", 701, number), "1");
    DO(&r, STEP(BREAK, T("d"), N(0), N(RT_GATHER)), STEP(BREAK, T("d"), N(0), N(RT_COUNT)));
    assert_int_equal(r.changed[0], 0);
    assert_int_equal(r.changed[1], 1);
    end(&r);
}

/* ---- Hand-over ---------------------------------------------------------------------------------------------- */

/* Whether it was so. */
static bool pass(struct rider *r, const char *name, int64_t session, int64_t number)
{
    enum rt_sql_end end = FLY(r, STEP(PASS, T(name), N(turn()), N(session), N(number)),
                              STEP(TELL, T(name)));
    assert_true(end == RT_SQL_LANDED || end == RT_SQL_REFUSED);
    return end == RT_SQL_LANDED && r->changed[0] == 1;
}

/* Who stands in the line, in its order, 1: holds; and how many the line believes that there are, and wait. */
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
    begin(&r);
    for (int i = 1; i <= 4; i++) {
        (void)ASK(&r, .name = "a", .session = i, .nonce = 1);
        numbers[i] = answered(&r, 1);
    }
    assert_line(&r, "a", "1:1 2:0 3:0 4:0 403");
    assert_false(pass(&r, "a", 1, numbers[2])); /* not its own */
    assert_false(pass(&r, "a", 2, numbers[2])); /* does not hold */
    assert_false(pass(&r, "none", 1, numbers[1]));
    assert_line(&r, "a", "1:1 2:0 3:0 4:0 403");
    assert_true(pass(&r, "a", 1, numbers[1]));
    assert_line(&r, "a", "2:1 3:0 4:0 302");
    assert_false(pass(&r, "a", 1, numbers[1])); /* it is gone */
    kill_session(3);
    assert_false(pass(&r, "a", 2, numbers[2])); /* to the dead */
    assert_string_equal(leave(&r, "a", 2, numbers[2]), "1");
    assert_line(&r, "a", "4:1 100");
    assert_true(pass(&r, "a", 4, numbers[4])); /* to nobody */
    assert_line(&r, "a", "0");
    end(&r);
}

/* What is more than one who holds and one who is next goes the long way. */
void steps_pass_plain_ones_only(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)ASK(&r, .name = "s", .session = 1, .nonce = 1);
    int64_t number = answered(&r, 1);
    (void)ASK(&r, .name = "s", .session = 2, .nonce = 1, .mode = RT_SHARED);
    (void)ASK(&r, .name = "s", .session = 3, .nonce = 1, .mode = RT_SHARED);
    assert_false(pass(&r, "s", 1, number));
    assert_line(&r, "s", "1:1 2:0 3:0 302");
    assert_string_equal(leave(&r, "s", 1, number), "1");
    (void)ASK(&r, .name = "s", .session = 4, .nonce = 1);
    assert_false(pass(&r, "s", 2, number + 1));
    assert_line(&r, "s", "2:1 3:1 4:0 301");
    (void)ASK(&r, .name = "k", .session = 1, .nonce = 1, .at_least = LONG);
    assert_false(pass(&r, "k", 1, answered(&r, 1)));
    assert_line(&r, "k", "1:1 100");
    (void)ASK(&r, .name = "d", .session = 1, .nonce = 1);
    number = answered(&r, 1);
    (void)ASK(&r, .name = "d", .session = 2, .nonce = 1, .durable = true, .label = "me");
    assert_false(pass(&r, "d", 1, number));
    end(&r);
}

/* ---- Sets, changes ------------------------------------------------------------------------------------------ */

static void join_all(struct rider *r, struct ask a, struct ask b)
{
    a.gate = b.gate = 2;
    DO(r, STEP(LOCK, T(a.name), N(turn())), STEP(LOCK, T(b.name), N(turn())),
       STEP(UNFOLD, T(a.name)), STEP(UNFOLD, T(b.name)), GATE(a), GATE(b), JOIN(a), JOIN(b),
       STEP(ANSWER, T(a.name), N(a.session), N(a.nonce)),
       STEP(ANSWER, T(b.name), N(b.session), N(b.nonce)));
}

void steps_all_or_none(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    join_all(&r, (struct ask){.name = "a", .session = 1, .nonce = 1},
             (struct ask){.name = "b", .session = 1, .nonce = 1});
    assert_true(rider_cell(&r, 8, 0, 1) > 0);
    assert_int_equal(rider_cell(&r, 8, 0, 2), 1);
    assert_int_equal(rider_cell(&r, 9, 0, 2), 1);
    join_all(&r, (struct ask){.name = "b", .session = 2, .nonce = 1, .try = true},
             (struct ask){.name = "c", .session = 2, .nonce = 1, .try = true});
    assert_int_equal(rider_cell(&r, 8, 0, 1), -1);
    assert_int_equal(rider_cell(&r, 9, 0, 1), -1); /* it was free */
    join_all(&r, (struct ask){.name = "b", .session = 2, .nonce = 1},
             (struct ask){.name = "c", .session = 2, .nonce = 1});
    assert_int_equal(rider_cell(&r, 8, 0, 2), 0);
    assert_int_equal(rider_cell(&r, 9, 0, 2), 1);
    join_all(
        &r, (struct ask){.name = "c", .session = 3, .nonce = 1, .mode = RT_COUNT, .of = 1},
        (struct ask){
            .name = "d", .session = 3, .nonce = 1, .mode = RT_COUNT, .of = 1}); /* c is a lock */
    assert_int_equal(rider_cell(&r, 9, 0, 1), -1);
    end(&r);
}

void steps_changes(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .value = "old");
    int64_t first = answered(&r, 1);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1, .mode = RT_SHARED);
    int64_t second = answered(&r, 1);
    DO(&r, STEP(LOCK, T("a"), N(turn())),
       STEP(CHANGE, T("a"), N(1), N(first), N(0), N(1), T("new"), N(0)),
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
    DO(&r, STEP(LOCK, T("a"), N(turn())),
       STEP(CHANGE, T("a"), N(1), N(first), N(1), N(0), NOTHING, N(0)), STEP(SETTLE, T("a")),
       STEP(STATE, T("a"), N(1), N(first)), STEP(STATE, T("a"), N(2), N(second)),
       STEP(FRONT, T("a")));
    assert_string_equal(rider_row(&r, 3, 0), "1|1|0");
    assert_string_equal(rider_row(&r, 4, 0), "1|1|0");
    assert_non_null(strstr(rider_row(&r, 5, 0), "|new|one|"));
    assert_int_equal(steps.number("select sum(weight) from rota_ticket"), 2);
    (void)ASK(&r, .name = "p", .session = 1, .nonce = 1, .mode = RT_PERMITS, .take = 2, .of = 2);
    DO(&r, STEP(CHANGE, T("p"), N(1), N(answered(&r, 1)), N(1), N(0), NOTHING, N(0)));
    assert_int_equal(steps.number("select weight from rota_ticket where name = 'p' and mode = 2"),
                     2);
    end(&r);
}

void steps_breaking(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    DO(&r, STEP(TAKE, T("a"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    int64_t first = rider_cell(&r, 0, 0, 0);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1);
    int64_t second = answered(&r, 1);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 1);
    DO(&r, STEP(LOCK, T("a"), N(turn())), STEP(BREAK, T("a"), N(first + 1), N(0)),
       STEP(BREAK, T("a"), N(second), N(0)), STEP(BREAK, T("a"), N(first), N(0)),
       STEP(SETTLE, T("a")), STEP(LIST, T("")));
    assert_int_equal(r.changed[1], 0);
    assert_int_equal(r.changed[2], 1);
    assert_int_equal(r.changed[3], 1);
    assert_string_equal(rider_row(&r, 5, 0), "a|1|1");
    end(&r);
}

/* ---- Looking -------------------------------------------------------------------------------------------------- */

void steps_looking(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1, .bell = 101);
    int64_t first = answered(&r, 1);
    (void)ASK(&r, .name = "a", .session = 2, .nonce = 1, .bell = 102);
    int64_t second = answered(&r, 1);
    assert_true(answered(&r, 7) > LONG / 2); /* while session 1 lives ... */
    assert_int_equal(answered(&r, 8), 101);
    (void)ASK(&r, .name = "a", .session = 3, .nonce = 1, .bell = 103);
    int64_t third = answered(&r, 1);
    assert_int_equal(answered(&r, 8), 102);
    kill_session(1);
    DO(&r, STEP(LOOK, T("a"), N(2), N(second)), STEP(LOOK, T("a"), N(3), N(third)),
       STEP(LOOK, T("a"), N(1), N(first)), STEP(LOOK, T("a"), N(3), N(second)));
    assert_string_equal(rider_row(&r, 0, 0), "0|0|101"); /* ... and not a moment longer */
    assert_true(rider_cell(&r, 1, 0, 1) >
                LONG / 2); /* behind one who waits, only that one matters */
    assert_int_equal(rider_cell(&r, 1, 0, 2), 102);
    assert_string_equal(rider_row(&r, 2, 0), "1|-|-");
    assert_int_equal(rider_rows(&r, 3), 0);
    /* The soonest end of all who hold. */
    (void)ASK(&r, .name = "s", .session = 700, .nonce = 1, .mode = RT_SHARED, .durable = true);
    (void)ASK(&r, .name = "s", .session = 701, .nonce = 1, .mode = RT_SHARED, .durable = true,
              .until = LONG * 2);
    (void)ASK(&r, .name = "s", .session = 2, .nonce = 1, .mode = RT_SHARED);
    (void)ASK(&r, .name = "s", .session = 3, .nonce = 1);
    assert_true(answered(&r, 7) > LONG / 2 && answered(&r, 7) <= LONG);
    (void)ASK(&r, .name = "n", .session = 700, .nonce = 1, .durable = true);
    (void)ASK(&r, .name = "n", .session = 3, .nonce = 1);
    assert_int_equal(answered(&r, 7), -1); /* never, unless somebody ends it */
    end(&r);
}

void steps_front_and_list(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
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
    kill_session(1);
    kill_session(3);
    DO(&r, STEP(FRONT, T("a%")), STEP(FRONT, T("b_2")), STEP(LIST, T("")));
    assert_int_equal(rider_rows(&r, 0), 0);
    assert_non_null(strstr(rider_row(&r, 1, 0),
                           "|0|1|0|0|-|four|")); /* it will hold, when the dead one is away */
    assert_string_equal(rider_row(&r, 2, 1), "b_2|1|0");
    end(&r);
}

void steps_inspecting(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
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
    /* The dead are left out, but for what they owe. */
    (void)ASK(&r, .name = "o", .session = 3, .nonce = 1, .at_least = LONG);
    kill_session(1);
    kill_session(3);
    DO(&r, STEP(INSPECT, T("z"), N(0)), STEP(INSPECT, T("p"), N(0)), STEP(INSPECT, T("o"), N(0)));
    assert_int_equal(rider_rows(&r, 0), 0);
    assert_int_equal(rider_rows(&r, 1), 1);
    assert_int_equal(rider_cell(&r, 2, 0, 2), 0);
    assert_int_equal(rider_cell(&r, 2, 0, 8), 1);
    end(&r);
}

void steps_sweeping(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 1);
    (void)ASK(&r, .name = "b", .session = 2, .nonce = 1);
    DO(&r, STEP(TAKE, T("f"), N(3), N(1), N(1), N(0), N(1), N(FAR)), STEP(WATCH, T("w"), N(LONG)),
       STEP(LOCK, T("e"), N(turn())), STEP(DEAD, N(10)), STEP(BURY, N(10)),
       STEP(IDLE, N(LONG), N(10)));
    assert_int_equal(rider_rows(&r, 3), 0);
    assert_int_equal(steps.number("select count(*) from rota_session"), 4);
    assert_int_equal(steps.number("select count(*) from rota_line"), 5);
    kill_session(1);
    kill_session(3);
    DO(&r, STEP(DEAD, N(10)), STEP(BURY, N(10)));
    assert_int_equal(rider_rows(&r, 0), 1);
    assert_string_equal(rider_row(&r, 0, 0), "a");
    assert_int_equal(steps.number("select count(*) from rota_session where id = 3"),
                     0); /* it had no rows */
    assert_int_equal(steps.number("select count(*) from rota_session where id = 1"), 1);
    DO(&r, STEP(LOCK, T("a"), N(turn())), STEP(PURGE, T("a")), STEP(SETTLE, T("a")),
       STEP(BURY, N(10)));
    assert_int_equal(steps.number("select count(*) from rota_session where id = 1"), 0);
    /* The clock was ahead for a while, or is behind now. */
    steps.run("update rota_line set fence = fence + 3600000000, since = 0 where name = 'f'");
    DO(&r, STEP(IDLE, N(-1000000), N(10)));
    assert_int_equal(
        steps.number("select count(*) from rota_line"),
        3); /* b, which holds, w, which is watched, and f, whose next number must be larger */
    end(&r);
}

void steps_what_a_session_has(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
    DO(&r, STEP(TAKE, T("f"), N(1), N(1), N(1), N(0), N(1), N(FAR)));
    (void)ASK(&r, .name = "a", .session = 1, .nonce = 5, .flags = RT_SQL_ARMED);
    int64_t first = answered(&r, 1);
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
    end(&r);
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
    begin(&r);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        DO(&r, STEP(TAKE, T(names[i]), N(1), N(1), N(1), N(0), N(1), N(FAR)));
        int64_t number = rider_cell(&r, 0, 0, 0);
        assert_true(number > 0);
        (void)ASK(&r, .name = names[i], .session = 2, .nonce = 1, .value = names[i]);
        int64_t second = answered(&r, 1);
        (void)leave(&r, names[i], 1, number);
        DO(&r, STEP(FRONT, T(names[i])), STEP(LIST, T(names[i])));
        assert_int_equal(rider_cell(&r, 0, 0, 0), second);
        assert_non_null(strstr(rider_row(&r, 0, 0), names[i]));
        assert_int_equal(rider_rows(&r, 1), 1);
    }
    /* A value may be any bytes. */
    struct rt_sql_cell bytes = {.text = "\0\xff\\", .size = 3};
    DO(&r, STEP(OPEN, N(50), N(LONG), T("me")), STEP(LOCK, T("v"), N(turn())),
       STEP(JOIN, T("v"), N(50), N(1), N(1), N(0), N(0), N(0), N(ALL), N(0), N(0), N(0), N(0), N(0),
            bytes, NOTHING, N(1), N(0)),
       STEP(LIST, T("v")));
    assert_int_equal(rider_rows(&r, 0), 1);
    assert_string_equal(rider_row(&r, 3, 0), "v|1|1");
    assert_int_equal(
        steps.number("select count(*) from rota_ticket where name = 'v' and length(value) = 3"), 1);
    end(&r);
}

void steps_whole_or_not_at_all(void **state)
{
    struct rider r;
    (void)state;
    begin(&r);
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
    end(&r);
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
    begin(&r);
    if (!steps.driver->notifies) {
        end(&r);
        skip();
    }
    rider_start(&ear, steps.driver, steps.url);
    DO(&ear, STEP(LISTEN, N(0x102)), STEP(LISTEN, N(-1)), STEP(LISTEN_LINE, T("it's")));
    (void)ASK(&r, .name = "it's", .session = 1, .nonce = 1, .bell = -1, .flags = RT_SQL_ARMED);
    int64_t first = answered(&r, 1);
    (void)ASK(&r, .name = "it's", .session = 2, .nonce = 1, .bell = 0x102);
    int64_t second = answered(&r, 1);
    snprintf(want, sizeof(want), "%" PRId64 " W it's", first);
    expect_notice(&ear, 1, "rota_ffffffffffffffff", want);
    (void)ASK(&r, .name = "it's", .session = 3, .nonce = 1,
              .bell = 0x103);          /* nobody listens; the second to wait */
    (void)leave(&r, "it's", 1, first); /* nobody watches */
    snprintf(want, sizeof(want), "%" PRId64 " G it's", second);
    expect_notice(&ear, 2, "rota_0000000000000102", want);
    DO(&r, STEP(WATCH, T("it's"), N(LONG)), STEP(LOCK, T("it's"), N(turn())),
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
    end(&r);
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
    c->at[i].number = answered(r, 1);
    c->at[i].session = session;
    c->at[i].mode = mode;
    c->at[i].take = take;
    c->at[i].of = of;
    c->at[i].granted = false;
    walk(c);
    assert_int_equal(answered(r, 2), c->at[i].granted);
}

static void go(struct rider *r, struct crowd *c, const char *name, struct rt_random *random)
{
    size_t i = (size_t)rt_random_below(random, (uint32_t)c->count);
    assert_int_equal(strtol(leave(r, name, c->at[i].session, c->at[i].number), NULL, 10),
                     c->at[i].granted);
    memmove(&c->at[i], &c->at[i + 1], (c->count - i - 1) * sizeof(c->at[0]));
    c->count--;
    walk(c);
}

void steps_the_rule_at_random(void **state)
{
    static const uint32_t kinds[] = {RT_EXCLUSIVE, RT_EXCLUSIVE, RT_PERMITS,
                                     RT_PERMITS,   RT_COUNT,     RT_GATHER};
    struct rt_random random;
    struct rider r;
    (void)state;
    begin(&r);
    assert_int_equal(getrandom(&random, sizeof(random), 0), sizeof(random));
    print_message("seeds drawn anew: %" PRIx64 "\n", random.state);
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
    end(&r);
}
