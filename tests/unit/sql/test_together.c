/* SPDX-License-Identifier: Apache-2.0 */
/* Asks of one name that ride in one flight: which may, in which order they speak, and what the line's lock is asked for. */
#include "play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define JOINED(nonce, bell)                                              \
    "join(a,S," nonce ",0,0,0,0,4611686018427387904,0,0,0,0,0,-,-," bell \
    ",0) want(a) tell(a) answer(a,S," nonce ")"
#define OPENED "lock(a) unfold(a) purge(a) settle(a)"
#define CLOSED "purge(a) settle(a) tell(a)"

static const char *said(struct play *p)
{
    return play_said(p, 0);
}

/* Something flies: what is asked now leaves together when that has landed. */
static void begin(struct play *p, bool notifies, struct rt_op *list)
{
    play_begin(p, notifies);
    *list = (struct rt_op){.kind = RT_OP_LIST, .list = {.prefix = "x"}};
    play_do(p, list);
    assert_string_equal(said(p), "list(x)");
}

static void ask_join(struct play *p, struct rt_op *op, struct rt_join *j, uint64_t nonce)
{
    *j = (struct rt_join){.name = "a", .session = p->session, .nonce = nonce, .mode = RT_EXCLUSIVE};
    *op = (struct rt_op){.kind = RT_OP_JOIN, .join = {.joins = j, .n = 1}};
    play_do(p, op);
}

static void ask_leave(struct play *p, struct rt_op *op, uint64_t number, uint64_t nonce)
{
    *op = (struct rt_op){
        .kind = RT_OP_LEAVE,
        .leave = {.name = "a", .session = p->session, .number = number, .nonce = nonce}};
    play_do(p, op);
}

/* The line is locked and opened once, however many join it; each is answered by itself. */
static void joins_ride_together(void **state)
{
    struct rt_op list, ops[3];
    struct rt_join joins[3];
    struct play p;
    (void)state;
    begin(&p, true, &list);
    for (uint64_t i = 0; i < 3; i++)
        ask_join(&p, &ops[i], &joins[i], i + 1);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_non_null(
        strstr(said(&p), OPENED " " JOINED("1", "*") " " JOINED("2", "*") " " JOINED("3", "*")));
    int dones = p.dones;
    size_t first = strncmp(said(&p), "listen", 6) == 0 ? 8 : 7; /* the first ANSWER */
    for (size_t i = 0; i < 3; i++)
        PLAY_ROW(&p, 0, first + 4 * i, 1, (int64_t)(70 + i), i == 0, 0, 0, 0, PLAY_NULL, PLAY_NULL,
                 0);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.dones, dones + 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(joins[i].number, 70 + i);
        assert_int_equal(joins[i].granted, i == 0);
    }
    play_close(&p);
}

/* Those that leave speak first, whenever they were asked, so that whoever joins finds them gone. */
static void those_that_leave_come_first(void **state)
{
    struct rt_op list, join, leaves[2];
    struct rt_join j;
    struct play p;
    (void)state;
    begin(&p, true, &list);
    ask_join(&p, &join, &j, 9);
    ask_leave(&p, &leaves[0], 7, 1);
    ask_leave(&p, &leaves[1], 8, 2);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_non_null(strstr(said(&p), "lock(a) unfold(a) leave(a,S,7,1,1) leave(a,S,8,2,1) " CLOSED
                                     " " JOINED("9", "*")));
    play_close(&p);
}

/* By its nonce alone it may be of a JOIN that is still to arrive: it comes after that, and keeps others behind it. */
static void one_without_a_number_waits(void **state)
{
    struct rt_op list, joins[2], leave;
    struct rt_join j[2];
    struct play p;
    (void)state;
    begin(&p, true, &list);
    ask_join(&p, &joins[0], &j[0], 1);
    ask_leave(&p, &leave, 0, 1);
    ask_join(&p, &joins[1], &j[1], 2);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_string_equal(said(&p), "take(a,S,1,0,0,*,900)");
    PLAY_ROW(&p, 0, 0, 70);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_string_equal(said(&p), "lock(a) unfold(a) leave(a,S,0,1,0) " CLOSED);
    PLAY_ROW(&p, 0, 2, 1);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_string_equal(said(&p), "take(a,S,2,0,0,*,900)");
    play_close(&p);
}

/* One of another kind rides alone, and nothing that was asked after it goes before it. */
static void a_change_keeps_its_place(void **state)
{
    struct rt_op list, joins[2], change;
    struct rt_join j[2];
    struct play p;
    (void)state;
    begin(&p, true, &list);
    change = (struct rt_op){.kind = RT_OP_CHANGE,
                            .change = {.name = "a", .session = p.session, .number = 7}};
    ask_join(&p, &joins[0], &j[0], 1);
    play_do(&p, &change);
    ask_join(&p, &joins[1], &j[1], 2);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_string_equal(said(&p), "take(a,S,1,0,0,*,900)");
    PLAY_ROW(&p, 0, 0, 70);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_string_equal(said(&p), "verify(a,S,7) state(a,S,7)");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_string_equal(said(&p), "take(a,S,2,0,0,*,900)");
    play_close(&p);
}

/* The server refuses the flight: nothing of it was done, and each is asked again. */
static void a_refused_flight_is_asked_again(void **state)
{
    struct rt_op list, ops[2];
    struct rt_join joins[2];
    struct play p;
    (void)state;
    begin(&p, true, &list);
    for (uint64_t i = 0; i < 2; i++)
        ask_join(&p, &ops[i], &joins[i], i + 1);
    play_land(&p, 0, RT_SQL_LANDED);
    int dones = p.dones;
    play_land(&p, 0, RT_SQL_AGAIN);
    assert_int_equal(p.dones, dones);
    play_pass(&p, 20000);
    assert_non_null(strstr(said(&p), OPENED " " JOINED("1", "*") " " JOINED("2", "*")));
    play_close(&p);
}

/* Whoever leaves rings its bell; who joins in the same flight takes a new one, for the old is free by then. */
static void a_bell_that_rings_is_not_taken(void **state)
{
    struct rt_op list, join, leave;
    struct rt_join j;
    struct play p;
    (void)state;
    play_begin(&p, false);
    ask_join(&p, &join, &j, 1);
    assert_string_equal(said(&p), "bell_take(*) take(a,S,1,0,0,*,900)");
    PLAY_ROW(&p, 0, 1, 70);
    play_land(&p, 0, RT_SQL_LANDED);
    list = (struct rt_op){.kind = RT_OP_LIST, .list = {.prefix = "x"}};
    play_do(&p, &list);
    ask_leave(&p, &leave, 70, 1);
    ask_join(&p, &join, &j, 2);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_string_equal(said(&p), "lock(a) unfold(a) leave(a,S,70,1,1) " CLOSED
                                  " bell_ring(*) bell_take(*) " JOINED("2", "*"));
    PLAY_ROW(&p, 0, 2, 1);
    PLAY_ROW(&p, 0, 11, 1, 71, 1, 0, 0, 0, PLAY_NULL, PLAY_NULL, 0);
    play_land(&p, 0, RT_SQL_LANDED);
    ask_leave(&p, &leave, 71, 2);
    play_changed(&p, 0, 0, 1);
    play_land(&p, 0, RT_SQL_LANDED);
    ask_join(&p, &join, &j, 3);
    assert_string_equal(said(&p), "take(a,S,3,0,0,*,900)"); /* it still has the second one */
    play_close(&p);
}

/* Each ticket has its own: who leaves wakes those behind it, and nobody behind our others in that line. */
static void each_ticket_has_a_bell(void **state)
{
    struct rt_op list, joins[2], leave;
    struct rt_join j[2];
    struct play p;
    (void)state;
    begin(&p, false, &list);
    ask_join(&p, &joins[0], &j[0], 1);
    ask_join(&p, &joins[1], &j[1], 2);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_string_equal(said(&p),
                        OPENED " bell_take(*) " JOINED("1", "*") " bell_take(*) " JOINED("2", "*"));
    const struct rt_sql_step *steps = p.links[0]->steps;
    int64_t first = steps[4].args[0].number;
    assert_int_not_equal(first, steps[9].args[0].number);
    PLAY_ROW(&p, 0, 8, 1, 70, 1, 0, 0, 0, PLAY_NULL, PLAY_NULL, 0);
    PLAY_ROW(&p, 0, 13, 1, 71, 0, 0, 0, 0, PLAY_NULL, PLAY_NULL, first);
    play_land(&p, 0, RT_SQL_LANDED);
    ask_leave(&p, &leave, 70, 1);
    assert_string_equal(said(&p), "give(a,S,70,1)");
    play_land(&p, 0, RT_SQL_LANDED); /* not so */
    assert_string_equal(said(&p), "pass(a,S,70,1) tell(a) bell_ring(*)");
    assert_int_equal(steps[2].args[0].number, first);
    play_close(&p);
}

/* Each looks at the whole line: many of one name take several flights, in their order. */
static void many_take_several_flights(void **state)
{
    struct rt_op list, ops[RT_SQL_SHARE + 2];
    struct rt_join joins[RT_SQL_SHARE + 2];
    struct play p;
    (void)state;
    begin(&p, true, &list);
    for (uint64_t i = 0; i < RT_SQL_SHARE + 2; i++)
        ask_join(&p, &ops[i], &joins[i], i + 1);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_non_null(strstr(said(&p), JOINED("8", "*")));
    assert_null(strstr(said(&p), "join(a,S,9,"));
    play_land(&p, 0, RT_SQL_LANDED);
    assert_non_null(strstr(said(&p), JOINED("9", "*") " " JOINED("10", "*")));
    play_close(&p);
}

/* What took the bell was undone, perhaps before it came to that: it is taken again, which counts as once. */
static void a_bell_of_a_failed_flight_is_taken_again(void **state)
{
    static const enum rt_sql_end ends[] = {RT_SQL_AGAIN, RT_SQL_REFUSED};
    struct rt_op list, ops[2];
    struct rt_join j[2];
    struct play p;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        begin(&p, false, &list);
        ask_join(&p, &ops[0], &j[0], 1);
        ask_join(&p, &ops[1], &j[1], 2);
        play_land(&p, 0, RT_SQL_LANDED);
        play_land(&p, 0, ends[i]);
        play_pass(&p, 20000);
        assert_non_null(strstr(said(&p), "bell_take(*) " JOINED("1", "*")));
        play_close(&p);
    }
}

/* Whoever waits behind it finds another ticket ahead. */
static void what_is_lost_rings_its_bell(void **state)
{
    static struct rt_join j;
    struct play p;
    (void)state;
    play_begin(&p, false);
    play_wait(&p, &j, "a", 7, 0, 8000000);
    play_pass(&p, 20000);
    assert_string_equal(said(&p), "look(a,S,7)");
    play_land(&p, 0, RT_SQL_LANDED); /* it is not there */
    assert_int_equal(p.told[p.told_count - 1].kind, RT_TICKET_LOST);
    assert_string_equal(said(&p), "bell_ring(*)");
    play_close(&p);
}

/* Readers may join a holder that shares from now on; ours that wait keep their bells. */
static void a_downgrade_rings_its_own_bell(void **state)
{
    static struct rt_join waits;
    struct rt_join j;
    struct rt_op op, change = {.kind = RT_OP_CHANGE};
    struct play p;
    (void)state;
    play_begin(&p, false);
    ask_join(&p, &op, &j, 77);
    assert_int_equal(p.links[0]->steps[0].kind, RT_SQL_BELL_TAKE);
    int64_t bell = p.links[0]->steps[0].args[0].number;
    PLAY_ROW(&p, 0, 1, 6);
    play_land(&p, 0, RT_SQL_LANDED);
    play_wait(&p, &waits, "a", 7, 0, 8000000);
    change.change.name = "a";
    change.change.session = p.session;
    change.change.number = 6;
    change.change.what = RT_CHANGE_DOWNGRADE;
    play_do(&p, &change);
    const struct play_link *l = p.links[0];
    size_t rings = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->steps[i].kind == RT_SQL_BELL_RING) {
            assert_int_equal(l->steps[i].args[0].number, bell);
            rings++;
        }
    assert_int_equal(rings, 1);
    play_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins_ride_together),
        cmocka_unit_test(those_that_leave_come_first),
        cmocka_unit_test(one_without_a_number_waits),
        cmocka_unit_test(a_change_keeps_its_place),
        cmocka_unit_test(a_refused_flight_is_asked_again),
        cmocka_unit_test(a_bell_that_rings_is_not_taken),
        cmocka_unit_test(each_ticket_has_a_bell),
        cmocka_unit_test(many_take_several_flights),
        cmocka_unit_test(a_bell_of_a_failed_flight_is_taken_again),
        cmocka_unit_test(what_is_lost_rings_its_bell),
        cmocka_unit_test(a_downgrade_rings_its_own_bell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
