/* SPDX-License-Identifier: Apache-2.0 */
/* What follows a renewal of the lock engine on SQL, with a server that the test plays: when others' leavings are looked
 * for, and who walks through idle lines. */
#include "play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000)
#define SECOND (1000 * MS)
#define TEND "lock(a) unfold(a) purge(a) settle(a) tell(a)"

#define assert_said(p, n, words) assert_string_equal(play_said(p, n), words)

/* ---- After a renewal ------------------------------------------------------------------------------------------- */

#define DEAD "dead(8) bury(8)"

/* Its flight has nothing but what it is about. */
static void renew(struct play *p)
{
    struct rt_op beat = {.kind = RT_OP_BEAT, .beat = {.session = p->session}};
    play_do(p, &beat);
    assert_said(p, 0, "renew(S,9000000) mine(S)");
    PLAY_ROW(p, 0, 0, 900);
    play_land(p, 0, RT_SQL_LANDED);
    assert_int_equal(p->err, 0);
}

static void land_dead(struct play *p)
{
    if (strcmp(play_said(p, 0), DEAD) == 0)
        play_land(p, 0, RT_SQL_LANDED);
}

/* Renews for SECONDS, or until anything but DEAD follows. Returns how long that took, in seconds. */
static int renew_for(struct play *p, int seconds)
{
    for (int i = 0; i < seconds; i += 3) {
        play_pass(p, 3 * SECOND);
        renew(p);
        land_dead(p);
        if (play_said(p, 0)[0] != '\0')
            return i + 3;
    }
    return seconds;
}

static void a_renewal_sweeps_nothing(void **state)
{
    struct play p;
    (void)state;
    play_begin(&p, true);
    for (int i = 0; i < 10; i++) {
        renew(&p);
        assert_said(&p, 0, i % 3 == 0 ? DEAD : "");
        if (i % 3 == 0)
            play_cells(&p, 0, 0, (const struct rt_sql_cell[]){PLAY_TEXT("a")}, 1);
        land_dead(&p);
        assert_said(&p, 0, i % 3 == 0 ? TEND : "");
        if (i % 3 == 0)
            play_land(&p, 0, RT_SQL_LANDED);
    }
    play_close(&p);
}

/* Whatever is asked meanwhile goes before it, in flights without it; a renewal in any case. */
static void a_sweep_goes_last(void **state)
{
    struct rt_op lists[3], beat = {.kind = RT_OP_BEAT};
    struct play p;
    (void)state;
    play_begin(&p, true);
    beat.beat.session = p.session;
    play_do(&p, &beat);
    for (size_t i = 0; i < 2; i++) {
        lists[i] = (struct rt_op){.kind = RT_OP_LIST, .list = {.prefix = "x"}};
        play_do(&p, &lists[i]);
    }
    PLAY_ROW(&p, 0, 0, 900);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "list(x) list(x)");
    lists[2] = (struct rt_op){.kind = RT_OP_LIST, .list = {.prefix = "y"}};
    play_do(&p, &lists[2]);
    play_do(&p, &beat);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "renew(S,9000000) mine(S)");
    PLAY_ROW(&p, 0, 0, 900);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "list(y)");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, DEAD);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "");
    play_close(&p);
}

/* One that never had its turn ends without a word, and the next one waits for its turn only. */
static void a_sweep_has_its_turn(void **state)
{
    struct rt_op lists[8], beat = {.kind = RT_OP_BEAT};
    struct play p;
    size_t n = 0;
    (void)state;
    play_begin(&p, true);
    beat.beat.session = p.session;
    ((struct rt_sql_conn *)(void *)p.conn)->sweep.ask_at = RT_NEVER; /* only the dead */
    int logs = p.logs;
    for (int round = 0; round < 2; round++) {
        beat.deadline = 0;
        play_do(&p, &beat);
        for (int i = 0; i < (round == 0 ? 4 : 2); i++) {
            lists[n] = (struct rt_op){.kind = RT_OP_LIST, .list = {.prefix = i % 2 ? "y" : "x"}};
            play_do(&p, &lists[n++]);
            if (i == 0)
                PLAY_ROW(&p, 0, 0, 900);
            play_pass(&p, i > 0 ? 1500 * MS : 0);
            play_land(&p, 0, RT_SQL_LANDED);
            if (round == 0)
                assert_said(&p, 0, i % 2 ? "list(y)" : "list(x)");
        }
        assert_said(&p, 0, round == 0 ? "list(y)" : DEAD);
        play_land(&p, 0, RT_SQL_LANDED);
        assert_said(&p, 0, round == 0 ? "" : "list(y)");
        for (int i = 0; round == 0 && i < 2; i++) {
            renew(&p);
            assert_said(&p, 0, "");
        }
    }
    assert_int_equal(p.logs, logs);
    play_close(&p);
}

/* ---- The walk --------------------------------------------------------------------------------------------------- */

/* Nobody walks through idle lines while somebody does, or did so lately. */
static void one_walks_at_a_time(void **state)
{
    struct play p;
    (void)state;
    play_begin(&p, true);
    renew(&p);
    land_dead(&p);
    assert_said(&p, 0, "");
    assert_true(renew_for(&p, 60) < 60);
    for (int i = 0; i < 5; i++) {
        assert_said(&p, 0, "sweeper");
        PLAY_ROW(&p, 0, 0, 40 * SECOND);
        play_land(&p, 0, RT_SQL_LANDED);
        assert_said(&p, 0, "");
        assert_in_range(renew_for(&p, 200), 39, 99);
    }
    assert_said(&p, 0, "sweeper"); /* it is free, and another one takes it */
    PLAY_ROW(&p, 0, 0, 0);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "sweep(S,30000000)");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "");
    play_pass(&p, 2 * SECOND);
    assert_said(&p, 0, "");
    assert_in_range(renew_for(&p, 200), 0, 60);
    assert_said(&p, 0, "sweeper");
    play_close(&p);
}

static void begin_walk(struct play *p, const char *after)
{
    play_begin(p, true);
    (void)renew_for(p, 200);
    assert_said(p, 0, "sweeper");
    play_land(p, 0, RT_SQL_LANDED); /* it never was anybody's */
    assert_said(p, 0, "sweep(S,30000000)");
    play_cells(p, 0, 0, (const struct rt_sql_cell[]){PLAY_TEXT(after)}, 1);
    play_land(p, 0, RT_SQL_LANDED);
}

/* A step a second is answered: the last line it looked at, NULL: there are no more. */
static void step(struct play *p, const char *said, const char *last, bool ours)
{
    assert_said(p, 0, "");
    play_pass(p, SECOND - 1);
    assert_said(p, 0, "");
    play_pass(p, 1);
    assert_said(p, 0, said);
    if (last != NULL)
        play_cells(p, 0, 0, (const struct rt_sql_cell[]){PLAY_TEXT(last)}, 1);
    play_changed(p, 0, 1, ours);
    play_land(p, 0, RT_SQL_LANDED);
}

#define DAY "86400000000,500"
#define OURS "swept(S,S,30000000,"

static void a_walk(void **state)
{
    struct play p;
    (void)state;
    begin_walk(&p, "");
    step(&p, "idle(," DAY ") " OURS ")", "f", true);
    step(&p, "idle(f," DAY ") " OURS "f)", "m", true);
    renew(&p);
    land_dead(&p);
    step(&p, "idle(m," DAY ") " OURS "m)", NULL, true);
    assert_said(&p, 0, "strays(64) swept(S,0,3600000000,)");
    play_cells(&p, 0, 0, (const struct rt_sql_cell[]){PLAY_TEXT("a")}, 1);
    play_changed(&p, 0, 1, 1);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, TEND);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "");
    assert_in_range(renew_for(&p, 4000), 3600, 3660); /* it rests */
    assert_said(&p, 0, "sweeper");
    play_close(&p);
}

/* It goes on where somebody else was, until it is somebody else's, or its session is over. */
static void a_walk_that_ends(void **state)
{
    struct play p;
    (void)state;
    for (int i = 0; i < 2; i++) {
        begin_walk(&p, "k");
        step(&p, "idle(k," DAY ") " OURS "k)", "m", true);
        if (i == 0) {
            step(&p, "idle(m," DAY ") " OURS "m)", "n", false);
        } else {
            struct rt_op beat = {.kind = RT_OP_BEAT, .beat = {.session = p.session}};
            play_do(&p, &beat);
            play_land(&p, 0, RT_SQL_LANDED);
            assert_int_equal(p.err, ROTA_LOST);
        }
        play_pass(&p, 5 * SECOND);
        assert_said(&p, 0, "");
        play_close(&p);
    }
}

/* The user may not write there: others sweep, and nobody is told again and again. */
static void a_walk_that_is_denied(void **state)
{
    struct play p;
    (void)state;
    play_begin(&p, true);
    (void)renew_for(&p, 200);
    int logs = p.logs, dones = p.dones;
    assert_said(&p, 0, "sweeper");
    play_land(&p, 0, RT_SQL_LANDED);
    play_land(&p, 0, RT_SQL_DENIED);
    assert_said(&p, 0, "");
    assert_int_equal(p.dones, dones);
    assert_in_range(renew_for(&p, 4000), 3600, 3660);
    assert_said(&p, 0, "sweeper");
    assert_int_equal(p.logs, logs);
    assert_string_equal(p.trouble, "");
    play_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_renewal_sweeps_nothing),
        cmocka_unit_test(a_sweep_goes_last),
        cmocka_unit_test(a_sweep_has_its_turn),
        cmocka_unit_test(one_walks_at_a_time),
        cmocka_unit_test(a_walk),
        cmocka_unit_test(a_walk_that_ends),
        cmocka_unit_test(a_walk_that_is_denied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
