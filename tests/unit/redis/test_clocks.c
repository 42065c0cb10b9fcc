/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis scripts on a server whose clock is wrong, and jumps: numbers have more or fewer digits then,
 * and must still be compared as numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>

#include "one_redis.h"
#include "twin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define Y1970 INT64_C(0)
#define Y2000 INT64_C(946684800874463) /* 15 digits: a board without a battery */
#define Y2001 INT64_C(999999999999990) /* 10 us before the 16th */
#define Y2026 INT64_C(1794777991845477)
#define Y2255 INT64_C(9007199254740985)  /* 2^53 is 7 us away: doubles go by two from there on */
#define Y2286 INT64_C(10000000000000001) /* 17 digits */

static const int64_t years[] = {Y1970, Y2000, Y2001, Y2026, Y2255, Y2286};
#define YEARS (sizeof(years) / sizeof(years[0]))

static struct twin world; /* only asks: there is no reference engine whose clock jumps */
static unsigned session_count, nonces;

static int begin(void **state)
{
    (void)state;
    rt_redis_must(&one_redis, "FLUSHALL");
    memset(&world, 0, sizeof(world));
    world.work = redisConnectUnix(one_redis.socket);
    assert_non_null(world.work);
    for (int i = 0; i < RT_REDIS_SCRIPTS; i++)
        freeReplyObject(redisCommand(world.work, "SCRIPT LOAD %s", rt_redis_texts_test[i][0].text));
    return 0;
}

static int end(void **state)
{
    (void)state;
    redisFree(world.work);
    return 0;
}

static void set_clock(int64_t us)
{
    rt_redis_must(&one_redis, "SET " TWIN_ROOM ":clock %lld", (long long)us);
}

/* ---- Asking ------------------------------------------------------------- */

#define SID_SIZE 17

static void open_session(char sid[SID_SIZE], const char *ttl_ms)
{
    snprintf(sid, SID_SIZE, "0123456789ab%04x", ++session_count);
    const char *args[] = {sid, ttl_ms, "somebody"};
    redisReply *r = twin_script(&world, RT_REDIS_SCRIPT_OPEN, 3, args);
    assert_int_equal(r->element[1]->integer, RT_REDIS_OK);
    freeReplyObject(r);
}

enum form {
    SHORT,
    LONG,
    MADE /* makes its session */,
    DURABLE,
    TIMED /* at_least 500 ms */,
    FORMS
};

struct joined {
    long long status, state;
    uint64_t number;
};

static struct joined join(const char *sid, const char *name, enum form form, bool tries)
{
    char field[64], member[96], id[24], how[4];
    snprintf(id, sizeof(id), "%s", form == DURABLE ? "d77" : sid);
    snprintf(field, sizeof(field), "%u %s", ++nonces, name);
    snprintf(member, sizeof(member), "%s %u 0 0 0 %s 7 0%s", id, nonces,
             form == DURABLE ? "Dx"
             : form == TIMED ? "x"
                             : "-",
             form == DURABLE ? " 0123456789ab" : "");
    snprintf(how, sizeof(how), "%s%s",
             form == DURABLE ? "D"
             : form == MADE  ? "c"
                             : "-",
             tries ? "t" : "");
    const char *brief[] = {tries ? "t" : "-", id, name, field, member};
    const char *full[] = {
        how, id, "1000", "l", name, field, member, "0", "0", "0", form == TIMED ? "500" : "0",
        "0", ""};
    redisReply *r = form == SHORT ? twin_script(&world, RT_REDIS_SCRIPT_JOIN, 5, brief)
                                  : twin_script(&world, RT_REDIS_SCRIPT_JOIN, 13, full);
    struct joined j = {.status = r->element[1]->integer};
    if (j.status == RT_REDIS_OK) {
        j.number = (uint64_t)r->element[4]->integer;
        j.state = r->element[5]->integer;
    }
    freeReplyObject(r);
    return j;
}

static long long leave(const char *sid, const char *name, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    const char *args[] = {name, sid, text};
    redisReply *r = twin_script(&world, RT_REDIS_SCRIPT_LEAVE, 3, args);
    long long status = r->element[1]->integer;
    freeReplyObject(r);
    return status;
}

static long long beat(const char *sid)
{
    const char *args[] = {sid, "1000", "100", "0"};
    redisReply *r = twin_script(&world, RT_REDIS_SCRIPT_BEAT, 4, args);
    long long status = r->element[1]->integer;
    freeReplyObject(r);
    return status;
}

/* The number of the first one granted in NAME; 0: nobody. Its time of grant in *SINCE. */
static uint64_t holder(const char *name, int64_t *since)
{
    redisReply *r = twin_script(&world, RT_REDIS_SCRIPT_INSPECT, 1, &name);
    uint64_t number = 0;
    if (r->elements > 3 && r->element[9]->integer == 1) {
        number = (uint64_t)r->element[4]->integer;
        if (since != NULL)
            assert_int_equal(
                sscanf(r->element[5]->str, "%*s %*u %*u %*u %*u %*s %*u %" SCNd64, since), 1);
    }
    freeReplyObject(r);
    return number;
}

/* ---- Fences -------------------------------------------------------------- */

/* I2, whichever year the clock says, and whatever it said before. */
static void test_fences_grow_over_all_years(void **state)
{
    struct rt_random random = {.state = 9};
    uint64_t last = 0;
    (void)state;
    for (int i = 0; i < 600; i++) {
        char sid[SID_SIZE];
        int64_t now = years[rt_random_below(&random, YEARS)] + rt_random_below(&random, 12);
        enum form form = (enum form)rt_random_below(&random, FORMS - 1);
        set_clock(now);
        open_session(sid, "1000");
        if (form == MADE)
            snprintf(sid, sizeof(sid), "0123456789ac%04x", session_count);
        struct joined j = join(sid, "one line", form, i % 2 == 0);
        if (j.status != RT_REDIS_OK || j.state != 1 || j.number <= last)
            fail_msg("step %d at %" PRId64 ", form %d: status %lld, state %lld, fence %" PRIu64
                     " after %" PRIu64,
                     i, now, (int)form, j.status, j.state, j.number, last);
        last = j.number;
        assert_int_equal(leave(form == DURABLE ? "d77" : sid, "one line", last), RT_REDIS_OK);
    }
}

/* As it was seen: a number with a digit less, which was taken. */
static void test_fence_of_a_board_without_a_battery(void **state)
{
    char a[SID_SIZE], b[SID_SIZE], c[SID_SIZE];
    (void)state;
    set_clock(Y2026);
    open_session(a, "1000");
    struct joined before = join(a, "x", SHORT, false);
    assert_int_equal(before.number, Y2026);
    assert_int_equal(leave(a, "x", before.number), RT_REDIS_OK);
    set_clock(Y2000);
    open_session(b, "1000");
    struct joined meanwhile = join(b, "x", SHORT, false);
    assert_int_equal(meanwhile.number, Y2026 + 1);
    assert_int_equal(leave(b, "x", meanwhile.number), RT_REDIS_OK);
    set_clock(Y2026 + 60000000);
    open_session(c, "1000");
    assert_int_equal(join(c, "x", SHORT, false).number, Y2026 + 60000000);
}

/* Where doubles have no odd numbers any more, fences go on one by one, below that. */
static void test_fences_stay_exact(void **state)
{
    char sid[SID_SIZE];
    uint64_t last = 0;
    (void)state;
    set_clock(Y2286);
    open_session(sid, "1000");
    for (int i = 0; i < 20; i++) {
        struct joined j = join(sid, "x", i % 2 == 0 ? SHORT : TIMED, false);
        if (i == 0)
            assert_true(j.number >= UINT64_C(9000000000000000));
        else
            assert_int_equal(j.number, last + 1);
        last = j.number;
    }
    assert_true(last < UINT64_C(1) << 53);
}

/* A counter that cannot be raised any more, or is none, is refused: no number is given twice. */
static void test_counter_at_its_end(void **state)
{
    static const char *const ends[] = {"9007199254740991", "9007199254740992", "1e300", "nonsense"};
    char sid[SID_SIZE];
    (void)state;
    set_clock(Y2026);
    open_session(sid, "1000");
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        rt_redis_must(&one_redis, "HSET " TWIN_ROOM " %b %s", "\1", (size_t)1, ends[i]);
        redisReply *r = redisCommand(world.work, "EVALSHA %s 1 " TWIN_ROOM " 1 - %s x %s %s",
                                     rt_redis_texts_test[RT_REDIS_SCRIPT_JOIN][0].sha1, sid, "1 x",
                                     "0123456789ab0001 1 0 0 0 - 0 0");
        assert_non_null(r);
        if (r->type != REDIS_REPLY_ERROR)
            fail_msg("after %s: a number was given", ends[i]);
        freeReplyObject(r);
        assert_int_equal(rt_redis_integer(&one_redis, "HEXISTS " TWIN_ROOM " x"), 0);
    }
}

/* ---- Order and life ------------------------------------------------------- */

#define QUEUE 24

/* I7: they are granted as they came, whatever the clock said at each. */
static void test_order_of_arrival(void **state)
{
    struct rt_random random = {.state = 5};
    char sid[QUEUE][SID_SIZE];
    uint64_t number[QUEUE];
    (void)state;
    set_clock(Y2286 + 1000);
    for (int i = 0; i < QUEUE; i++)
        open_session(sid[i], "20000000000000"); /* until long after */
    for (int i = 0; i < QUEUE; i++) {
        set_clock(years[rt_random_below(&random, YEARS)] + i);
        struct joined j = join(sid[i], "line", i % 3 == 2 ? LONG : SHORT, false);
        assert_int_equal(j.status, RT_REDIS_OK);
        assert_int_equal(j.state == 1, i == 0);
        number[i] = j.number;
        if (i > 0)
            assert_true(number[i] > number[i - 1]);
    }
    for (int i = 0; i < QUEUE; i++) {
        if (i % 4 == 0) /* a look unfolds the line */
            assert_int_equal(holder("line", NULL), number[i]);
        set_clock(years[rt_random_below(&random, YEARS)] + i);
        assert_int_equal(leave(sid[i], "line", number[i]), RT_REDIS_OK);
    }
    assert_int_equal(holder("line", NULL), 0);
}

/* A session lives until its end, and no longer, even where the end has more digits than now. */
static void test_sessions_over_the_digits(void **state)
{
    static const struct {
        int64_t from, to;
        bool lives;
    } all[] = {
        {Y2001, Y2001 + 999000, true}, {Y2001, Y2001 + 1001000, false},
        {Y2026, Y2000, true},          {Y2000, Y2026, false},
        {Y2026, Y2286, false},         {Y2286, Y2026, true},
        {Y2255, Y2255 + 999000, true}, {Y2255, Y2255 + 1001000, false},
        {Y2286 - 500000, Y2286, true}, {Y2286 - 1001000, Y2286, false},
        {Y1970, Y1970 + 999000, true}, {Y1970, Y1970 + 1001000, false},
        {Y1970, Y2000, false},         {Y2000, Y1970, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        for (int how = 0; how < 4; how++) {
            char sid[SID_SIZE];
            rt_redis_must(&one_redis, "DEL " TWIN_ROOM); /* no dead to sweep, no counter */
            set_clock(all[i].from);
            open_session(sid, "1000");
            set_clock(all[i].to);
            long long status = how == 0   ? beat(sid)
                               : how == 1 ? join(sid, "y", SHORT, false).status
                               : how == 2 ? join(sid, "y", LONG, false).status
                                          : join(sid, "y", TIMED, false).status;
            if (status != (all[i].lives ? RT_REDIS_OK : RT_REDIS_LOST))
                fail_msg("%" PRId64 " to %" PRId64 ", way %d: status %lld", all[i].from, all[i].to,
                         how, status);
        }
    }
}

/* A hand-over grants nobody who is dead, and everybody who is not. */
static void test_heirs_over_the_digits(void **state)
{
    static const struct {
        int64_t from, to;
        bool lives;
    } all[] = {{Y2026, Y2286, false},
               {Y2026, Y2000, true},
               {Y2000, Y2026, false},
               {Y2286, Y2026, true},
               {Y2001, Y2001 + 900000, true}};
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        for (int waiting = 1; waiting <= 2; waiting++) {
            char sid[3][SID_SIZE];
            struct joined j[3];
            rt_redis_must(&one_redis, "FLUSHDB"); /* but the scripts */
            set_clock(all[i].from);
            for (int k = 0; k <= waiting; k++) {
                open_session(sid[k], "1000");
                j[k] = join(sid[k], "line", SHORT, false);
            }
            set_clock(all[i].to);
            assert_int_equal(leave(sid[0], "line", j[0].number), RT_REDIS_OK);
            assert_int_equal(holder("line", NULL), all[i].lives ? j[1].number : 0);
        }
    }
}

/* A number that is not the time at which it was given is not taken for that time. */
static void test_at_least_when_the_clock_went_back(void **state)
{
    static const int64_t back[][2] = {{Y2026, Y2000}, {Y2286, Y2286}, {Y2026, Y1970 + 1}};
    (void)state;
    for (size_t i = 0; i < sizeof(back) / sizeof(back[0]); i++) {
        char a[SID_SIZE], b[SID_SIZE];
        int64_t since = 0;
        rt_redis_must(&one_redis, "FLUSHDB");
        set_clock(back[i][0]);
        open_session(a, "1000");
        assert_int_equal(leave(a, "x", join(a, "x", SHORT, false).number), RT_REDIS_OK);
        set_clock(back[i][1]);
        open_session(b, "1000");
        struct joined j = join(b, "x", TIMED, false);
        assert_int_equal(holder("x", &since), j.number);
        assert_true(since >= back[i][1] - 1 && since <= back[i][1] + 1);
        assert_int_equal(leave(b, "x", j.number), RT_REDIS_OK);
        set_clock(back[i][1] + 499000);
        assert_int_equal(join(b, "x", LONG, true).status, RT_REDIS_BUSY);
        set_clock(back[i][1] + 501000);
        j = join(b, "x", LONG, true);
        assert_int_equal(j.status, RT_REDIS_OK);
        assert_int_equal(holder("x", &since), j.number); /* a plain one, too */
        assert_true(since >= back[i][1] + 500999 && since <= back[i][1] + 501001);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fences_grow_over_all_years, begin, end),
        cmocka_unit_test_setup_teardown(test_fence_of_a_board_without_a_battery, begin, end),
        cmocka_unit_test_setup_teardown(test_fences_stay_exact, begin, end),
        cmocka_unit_test_setup_teardown(test_counter_at_its_end, begin, end),
        cmocka_unit_test_setup_teardown(test_order_of_arrival, begin, end),
        cmocka_unit_test_setup_teardown(test_sessions_over_the_digits, begin, end),
        cmocka_unit_test_setup_teardown(test_heirs_over_the_digits, begin, end),
        cmocka_unit_test_setup_teardown(test_at_least_when_the_clock_went_back, begin, end),
    };
    return cmocka_run_group_tests(tests, one_redis_start, one_redis_stop);
}
