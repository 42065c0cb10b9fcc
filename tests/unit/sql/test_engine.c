/* SPDX-License-Identifier: Apache-2.0 */
/* The lock engine on SQL, flight by flight, with a server that the test plays: when it looks, what it says of trouble,
 * and what becomes of flights that do not land. */
#include "play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000)
#define SECOND (1000 * MS)
#define TEND "lock(a) unfold(a) purge(a) settle(a) tell(a)"

#define assert_said(p, n, words) assert_string_equal(play_said(p, n), words)

static bool has(const char *text, const char *words)
{
    return strstr(text, words) != NULL;
}

/* ---- Who waits for a bell ------------------------------------------------------------------------------- */

static struct rt_join waits;

static void wait_behind_5(struct play *p)
{
    play_begin(p, false);
    play_wait(p, &waits, "a", 7, 5, 8 * SECOND);
    play_turn(p);
    play_greet(p, 1); /* a link of its own */
    assert_said(p, 1, "bell_wait(5,8010) look_ahead(a,S,7)");
    assert_said(p, 0, "");
}

/* The bell's answer says that it still waits: at once for the next bell, and for the same one if it was silent for a
 * while. */
static void it_waits_for_the_next_bell(void **state)
{
    struct play p;
    (void)state;
    wait_behind_5(&p);
    play_pass(&p, 20 * MS);
    PLAY_ROW(&p, 1, 1, 0, 6 * SECOND, 5);
    play_land(&p, 1, RT_SQL_LANDED);
    assert_said(&p, 1, "bell_wait(5,6010) look_ahead(a,S,7)");
    PLAY_ROW(&p, 1, 1, 0, 5 * SECOND, 6); /* at once, but another one */
    play_land(&p, 1, RT_SQL_LANDED);
    assert_said(&p, 1, "bell_wait(6,5010) look_ahead(a,S,7)");
    PLAY_ROW(&p, 1, 1, 0, 60 * SECOND, 8); /* not longer than a ttl */
    play_land(&p, 1, RT_SQL_LANDED);
    assert_said(&p, 1, "bell_wait(8,9000) look_ahead(a,S,7)");
    PLAY_ROW(&p, 1, 1, 0, PLAY_NULL, 9);
    play_land(&p, 1, RT_SQL_LANDED);
    assert_said(&p, 1, "bell_wait(9,9000) look_ahead(a,S,7)");
    assert_int_equal(p.told_count, 0);
    PLAY_ROW(&p, 1, 1, 1, PLAY_NULL, PLAY_NULL);
    play_land(&p, 1, RT_SQL_LANDED);
    assert_int_equal(p.told_count, 1);
    assert_int_equal(p.told[0].kind, RT_GRANTED);
    assert_int_equal(p.told[0].number, 7);
    assert_said(&p, 1, "");
    play_close(&p);
}

/* A bell that rings for nothing, at once, would do so again: the line is looked at every 20 ms, on the working link,
 * until there is another bell. */
static void a_bell_that_rings_for_nothing(void **state)
{
    struct play p;
    (void)state;
    wait_behind_5(&p);
    play_pass(&p, 20 * MS - 1);
    PLAY_ROW(&p, 1, 1, 0, 6 * SECOND, 5);
    play_land(&p, 1, RT_SQL_LANDED);
    for (int i = 0; i < 3; i++) {
        assert_said(&p, 1, "");
        play_pass(&p, 20 * MS - 1);
        assert_said(&p, 0, "");
        play_pass(&p, 1);
        assert_said(&p, 0, "look(a,S,7)");
        assert_said(&p, 1, "");
        play_pass(&p, i * 30 * MS); /* however long it takes */
        PLAY_ROW(&p, 0, 0, 0, 5 * SECOND, i < 2 ? 5 : 6);
        play_land(&p, 0, RT_SQL_LANDED);
    }
    assert_said(&p, 1, "bell_wait(6,5010) look_ahead(a,S,7)");
    play_close(&p);
}

/* The one ahead is dead: its line is tended, and looked at again when that is done. */
static void the_dead_ahead_are_tended(void **state)
{
    struct play p;
    (void)state;
    wait_behind_5(&p);
    PLAY_ROW(&p, 1, 1, 0, 0, 6);
    play_land(&p, 1, RT_SQL_LANDED);
    assert_said(&p, 0, TEND);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.told_count, 0);
    play_close(&p);
}

static void no_such_ticket(void **state)
{
    struct play p;
    (void)state;
    wait_behind_5(&p);
    play_land(&p, 1, RT_SQL_LANDED);
    assert_int_equal(p.told_count, 1);
    assert_int_equal(p.told[0].kind, RT_TICKET_LOST);
    play_pass(&p, 30 * SECOND);
    assert_said(&p, 0, "");
    play_close(&p);
}

/* Its caller gave up, and its LEAVE is under way: whatever rings, nobody looks for it until that is answered. */
static void what_is_leaving_is_not_looked_for(void **state)
{
    struct rt_op leave = {.kind = RT_OP_LEAVE, .leave = {.name = "a", .number = 7}};
    struct play p;
    (void)state;
    wait_behind_5(&p);
    leave.leave.session = p.session;
    play_do(&p, &leave);
    assert_true(has(play_said(&p, 0), "leave(a,S,7,"));
    PLAY_ROW(&p, 1, 1, 0, 6 * SECOND, 6); /* the bell, and there is another one */
    play_land(&p, 1, RT_SQL_LANDED);
    for (int i = 0; i < 3; i++) {
        assert_said(&p, 1, "");
        play_pass(&p, SECOND);
    }
    assert_int_equal(p.told_count, 0);
    play_close(&p);
}

/* Its LEAVE was refused: it still stands there, and is looked for again. */
static void what_could_not_leave_is_looked_for_again(void **state)
{
    struct rt_op leave = {.kind = RT_OP_LEAVE, .leave = {.name = "a", .number = 7}};
    struct play p;
    (void)state;
    wait_behind_5(&p);
    leave.leave.session = p.session;
    play_do(&p, &leave);
    PLAY_ROW(&p, 1, 1, 0, 6 * SECOND, 6);
    play_land(&p, 1, RT_SQL_LANDED);
    play_land(&p, 0, RT_SQL_DENIED);
    assert_int_equal(p.err, ROTA_AUTH);
    play_pass(&p, MS);
    assert_true(has(play_said(&p, 1), "look_ahead(a,S,7)"));
    play_close(&p);
}

/* Of ours in one line only the first waits for a bell: the others cannot be granted before it is. */
static void the_first_of_ours_waits_for_all(void **state)
{
    static struct rt_join others[3];
    struct play p;
    (void)state;
    wait_behind_5(&p);
    play_wait(&p, &others[0], "a", 9, 8, 8 * SECOND);
    play_wait(&p, &others[1], "a", 8, 7, 8 * SECOND); /* its answer was late */
    play_pass(&p, SECOND);
    assert_said(&p, 0, "");
    assert_int_equal(p.link_count, 2);
    for (int64_t number = 7; number <= 9; number++) {
        PLAY_ROW(&p, 1, 1, 1, PLAY_NULL, PLAY_NULL);
        play_land(&p, 1, RT_SQL_LANDED);
        assert_int_equal(p.told_count, number - 6);
        assert_int_equal(p.told[number - 7].number, number);
        play_turn(&p);
        assert_said(&p, 1,
                    number == 7   ? "bell_wait(7,7010) look_ahead(a,S,8)"
                    : number == 8 ? "bell_wait(8,7010) look_ahead(a,S,9)"
                                  : "");
    }
    play_wait(&p, &others[2], "a", 10, 9, 8 * SECOND); /* the first again */
    play_turn(&p);
    assert_said(&p, 1, "bell_wait(9,8010) look_ahead(a,S,10)");
    play_close(&p);
}

/* There is no link left to wait on: the line is looked at every 20 ms. */
static void more_waits_than_links(void **state)
{
    static struct rt_join second;
    struct play p;
    (void)state;
    assert_int_equal(play_open_url(&p, false, "played://server/x?waits=1"), 0);
    play_turn(&p);
    play_greet(&p, 0);
    play_session(&p);
    play_wait(&p, &waits, "a", 7, 5, 8 * SECOND);
    play_turn(&p);
    play_greet(&p, 1);
    play_wait(&p, &second, "b", 9, 6, 8 * SECOND);
    for (int i = 0; i < 3; i++) {
        play_pass(&p, 20 * MS - 1);
        assert_said(&p, 0, "");
        play_pass(&p, 1);
        assert_said(&p, 0, "look(b,S,9)");
        PLAY_ROW(&p, 0, 0, 0, 8 * SECOND, 6);
        play_land(&p, 0, RT_SQL_LANDED);
    }
    assert_int_equal(p.link_count, 2);
    play_close(&p);
}

/* The server has no connection left: the line is looked at every 20 ms by the working link, and a link is tried again after a
 * second. */
static void no_connection_to_wait_on(void **state)
{
    struct play p;
    (void)state;
    play_begin(&p, false);
    play_wait(&p, &waits, "a", 7, 5, 8 * SECOND);
    play_turn(&p);
    assert_int_equal(p.link_count, 2);
    play_down_as(&p, 1, ROTA_UNREACHABLE, "Too many connections");
    int looks = 0;
    for (play_pass(&p, 20 * MS); p.link_count == 2; play_pass(&p, 20 * MS)) {
        assert_said(&p, 0, "look(a,S,7)");
        PLAY_ROW(&p, 0, 0, 0, 8 * SECOND, 6 + looks++); /* another bell each time */
        play_land(&p, 0, RT_SQL_LANDED);
    }
    assert_int_equal(looks, 49);
    play_greet(&p, 2);
    assert_said(&p, 2, "bell_wait(54,7990) look_ahead(a,S,7)");
    play_close(&p);
}

/* ---- Who is notified --------------------------------------------------------------------------------------- */

/* Nothing is asked before what is ahead may have ended, plus 10 ms, in which a renewal may be on its way. */
static void looks_when_what_is_ahead_may_have_ended(void **state)
{
    struct play p;
    (void)state;
    play_begin(&p, true);
    play_wait(&p, &waits, "a", 7, 5, 2 * SECOND);
    play_pass(&p, 2 * SECOND + 10 * MS - 1);
    assert_said(&p, 0, "");
    play_pass(&p, 1);
    assert_said(&p, 0, "look(a,S,7)");
    PLAY_ROW(&p, 0, 0, 0, 1, 5); /* not over: it was renewed a moment ago */
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "");
    play_pass(&p, 10 * MS);
    assert_said(&p, 0, "");
    play_pass(&p, 1);
    assert_said(&p, 0, "look(a,S,7)");
    PLAY_ROW(&p, 0, 0, 0, 0, 5); /* it is */
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, TEND);
    play_land(&p, 0, RT_SQL_LANDED); /* and tells whoever is granted */
    assert_said(&p, 0, "");
    play_pass(&p, 10 * MS);
    assert_said(&p, 0, "look(a,S,7)");
    PLAY_ROW(&p, 0, 0, 0, PLAY_NULL, 5); /* nobody ahead ends by time */
    play_land(&p, 0, RT_SQL_LANDED);
    play_pass(&p, 3600 * SECOND);
    assert_said(&p, 0, "");
    play_close(&p);
}

/* What was pushed while the connection was down is looked for, one after the other as far as it was granted. */
static void looks_for_what_it_did_not_hear(void **state)
{
    static struct rt_join behind[2];
    struct play p;
    (void)state;
    play_begin(&p, true);
    play_wait(&p, &waits, "a", 7, 5, PLAY_NULL);
    play_wait(&p, &behind[0], "a", 8, 5, PLAY_NULL);
    play_wait(&p, &behind[1], "a", 9, 5, PLAY_NULL);
    play_down(&p, 0, ROTA_UNREACHABLE);
    play_pass(&p, SECOND);
    play_greet(&p, 1);
    play_turn(&p);
    assert_said(&p, 1, "renew(S,9000000)");
    PLAY_ROW(&p, 1, 0, 900);
    play_land(&p, 1, RT_SQL_LANDED);
    assert_said(&p, 1, "listen(*)");
    play_land(&p, 1, RT_SQL_LANDED);
    play_turn(&p);
    for (int64_t number = 7; number <= 8; number++) {
        assert_true(has(play_said(&p, 1), number == 7 ? "look(a,S,7)" : "look(a,S,8)"));
        PLAY_ROW(&p, 1, 0, number == 7, PLAY_NULL, 5);
        play_land(&p, 1, RT_SQL_LANDED);
        play_turn(&p);
    }
    assert_said(&p, 1, "");
    assert_int_equal(p.told_count, 1);
    assert_int_equal(p.told[0].number, 7);
    play_close(&p);
}

/* ---- Renewals ------------------------------------------------------------------------------------------------- */

/* However much was asked before it: it leaves when what has left has landed. */
static void a_renewal_goes_next(void **state)
{
    enum { MANY = 10 };
    struct rt_join joins[MANY];
    struct rt_op asks[MANY], beat = {.kind = RT_OP_BEAT};
    struct play p;
    (void)state;
    play_begin(&p, true);
    for (size_t i = 0; i < MANY; i++) {
        joins[i] = (struct rt_join){.name = "a", .session = p.session, .nonce = i + 1};
        asks[i] = (struct rt_op){.kind = RT_OP_JOIN, .join = {.joins = &joins[i], .n = 1}};
        play_do(&p, &asks[i]);
    }
    assert_true(has(play_said(&p, 0), "take(a,S,1,"));
    beat.beat.session = p.session;
    play_do(&p, &beat);
    play_land(&p, 0, RT_SQL_LANDED); /* not so */
    assert_true(has(play_said(&p, 0), "renew(S,9000000)"));
    PLAY_ROW(&p, 0, 0, 900);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, 0);
    assert_true(has(play_said(&p, 0), "join(a,S,1,")); /* and the others in their order */
    play_close(&p);
}

/* ---- Observers ------------------------------------------------------------------------------------------------ */

static void observe(struct play *p, const char *name)
{
    struct rt_op op = {.kind = RT_OP_OBSERVE, .observe = {.name = name, .cookie = p}};
    play_do(p, &op);
    play_land(p, 0, RT_SQL_LANDED); /* nobody is there */
    assert_int_equal(p->err, 0);
    assert_int_equal(p->told_count, 1);
    assert_int_equal(p->told[0].kind, RT_CHANGED);
}

static void stop(struct play *p, const char *name)
{
    struct rt_op op = {.kind = RT_OP_OBSERVE, .observe = {.name = name, .cookie = p, .stop = true}};
    play_do(p, &op);
}

/* It is heard of; and looked at every third of a ttl, which keeps the line telling, or when something in it ends. */
static void observers_that_are_notified(void **state)
{
    static const char look[] = "watch(o,9000000) front(o)";
    struct play p;
    (void)state;
    play_begin(&p, true);
    struct rt_op op = {.kind = RT_OP_OBSERVE, .observe = {.name = "o", .cookie = &p}};
    play_do(&p, &op);
    assert_said(&p, 0, "listen_line(o) watch(o,9000000) front(o)");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, look); /* what came between was not heard */
    play_land(&p, 0, RT_SQL_LANDED);
    play_pass(&p, 3 * SECOND - 1);
    assert_said(&p, 0, "");
    play_pass(&p, 1);
    assert_said(&p, 0, look);
    PLAY_ROW(&p, 0, 1, 7, 1, 1, 0, 0, PLAY_NULL, PLAY_NULL, SECOND);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.told_count, 2);
    assert_int_equal(p.told[1].count, 1);
    play_pass(&p, SECOND + 20 * MS - 1);
    assert_said(&p, 0, "");
    play_pass(&p, 1);
    assert_said(&p, 0, look);
    PLAY_ROW(&p, 0, 1, 7, 1, 1, 0, 0, PLAY_NULL, PLAY_NULL, 8 * SECOND);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.told_count, 2); /* nothing else than before */
    play_pass(&p, 3 * SECOND);
    assert_said(&p, 0, look);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.told_count, 3);
    stop(&p, "o");
    assert_said(&p, 0, "unlisten_line(o)");
    play_land(&p, 0, RT_SQL_LANDED);
    play_pass(&p, 60 * SECOND);
    assert_said(&p, 0, "");
    play_close(&p);
}

static void observers_that_are_not(void **state)
{
    struct play p;
    (void)state;
    play_begin(&p, false);
    observe(&p, "o");
    for (int i = 0; i < 3; i++) {
        assert_said(&p, 0, "");
        play_pass(&p, 20 * MS - 1);
        assert_said(&p, 0, "");
        play_pass(&p, 1);
        assert_said(&p, 0, "watch(o,9000000) front(o)");
        play_land(&p, 0, RT_SQL_LANDED);
    }
    assert_int_equal(p.told_count, 1);
    stop(&p, "o");
    assert_said(&p, 0, "");
    play_pass(&p, 60 * SECOND);
    assert_said(&p, 0, "");
    play_close(&p);
}

/* One's time is not another's. */
static void observers_are_looked_at_each_in_its_time(void **state)
{
    static int cookies[2];
    struct play p;
    (void)state;
    play_begin(&p, true);
    for (size_t i = 0; i < 2; i++) {
        struct rt_op op = {.kind = RT_OP_OBSERVE,
                           .observe = {.name = i == 0 ? "n" : "o", .cookie = &cookies[i]}};
        play_do(&p, &op);
        play_land(&p, 0, RT_SQL_LANDED);
        play_land(&p, 0, RT_SQL_LANDED); /* the second look */
        assert_said(&p, 0, "");
        play_pass(&p, SECOND);
    }
    play_pass(&p, SECOND);
    assert_said(&p, 0, "watch(n,9000000) front(n)");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "");
    play_pass(&p, SECOND);
    assert_said(&p, 0, "watch(o,9000000) front(o)");
    play_land(&p, 0, RT_SQL_LANDED);
    play_pass(&p, 2 * SECOND);
    assert_said(&p, 0, "watch(n,9000000) front(n)");
    play_close(&p);
}

/* An answer that does not come in time ends the op, and the observation with it. */
static void an_observation_in_vain(void **state)
{
    struct rt_op op = {.kind = RT_OP_OBSERVE, .observe = {.name = "o", .cookie = &op}};
    struct play p;
    (void)state;
    play_begin(&p, true);
    int dones = p.dones;
    play_do(&p, &op);
    play_pass(&p, 3 * SECOND);
    assert_int_equal(p.dones, dones);
    play_pass(&p, SECOND);
    assert_int_equal(p.dones, dones + 1);
    assert_int_equal(p.err, ROTA_UNREACHABLE);
    play_greet(&p, 1);
    play_turn(&p);
    assert_said(&p, 1, "renew(S,9000000)");
    play_land(&p, 1, RT_SQL_LANDED);
    assert_said(&p, 1, "unlisten_line(o)"); /* nothing else */
    play_land(&p, 1, RT_SQL_LANDED);
    play_pass(&p, 10 * SECOND);
    assert_said(&p, 1, "");
    play_close(&p);
}

/* For two seconds longer than there is something to hear. */
static void listens_no_longer(void **state)
{
    struct play p;
    (void)state;
    play_begin(&p, true);
    play_wait(&p, &waits, "a", 7, 5, PLAY_NULL);
    play_notice(&p, 0, "rota_0", "7 G a");
    assert_int_equal(p.told_count, 1);
    play_pass(&p, 10 * SECOND);
    assert_said(&p, 0, "");
    struct rt_op op = {.kind = RT_OP_LEAVE,
                       .leave = {.name = "a", .session = p.session, .number = 7}};
    play_do(&p, &op);
    assert_said(&p, 0, "pass(a,S,7,0) tell(a)");
    play_changed(&p, 0, 0, 1);
    play_land(&p, 0, RT_SQL_LANDED);
    play_pass(&p, 2 * SECOND - 1);
    assert_said(&p, 0, "");
    play_pass(&p, 1);
    assert_said(&p, 0, "unlisten(*)");
    play_close(&p);
}

/* UNLISTEN flies after a JOIN that waits from then on: so it listens again. */
static void listens_again(void **state)
{
    struct rt_join j = {.name = "b", .nonce = 2};
    struct rt_op op = {.kind = RT_OP_JOIN, .join = {.joins = &j, .n = 1}};
    struct play p;
    (void)state;
    play_begin(&p, true);
    j.session = p.session;
    play_wait(&p, &waits, "a", 7, 5, PLAY_NULL);
    struct rt_op leave = {.kind = RT_OP_LEAVE,
                          .leave = {.name = "a", .session = p.session, .number = 7}};
    play_do(&p, &leave);
    PLAY_ROW(&p, 0, 1, 0);
    play_land(&p, 0, RT_SQL_LANDED);
    play_pass(&p, 2 * SECOND - 1);
    play_do(&p, &op);
    assert_true(has(play_said(&p, 0), "take(b,S,2,"));
    play_pass(&p, 1);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_true(has(play_said(&p, 0), "answer(b,S,2)") && !has(play_said(&p, 0), "listen(*)"));
    PLAY_ROW(&p, 0, p.links[0]->count - 1, 1, 9, 0, 0, 0, 0, PLAY_NULL, PLAY_NULL, 5);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "unlisten(*)");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "listen(*)");
    play_close(&p);
}

/* ---- What is said of trouble ----------------------------------------------------------------------------------- */

static void ignore_line(void *arg, const char *name, size_t count, size_t granted)
{
    (void)arg, (void)name, (void)count, (void)granted;
}

static struct rt_op list_op(void)
{
    return (struct rt_op){.kind = RT_OP_LIST, .list = {.prefix = "x", .each = ignore_line}};
}

/* The existing connection works on; a second one, requested again and again, cannot be had. One line says so, however
 * often the first is answered in between. */
static void a_lane_says_it_once(void **state)
{
    struct play p;
    size_t next = 2;
    (void)state;
    wait_behind_5(&p);
    play_down(&p, 1, ROTA_UNREACHABLE);
    int told = p.logs;
    for (int i = 0; i < 1000 && next < 8; i++) {
        play_pass(&p, 20 * MS);
        if (has(play_said(&p, 0), "look("))
            PLAY_ROW(&p, 0, 0, 0, 8 * SECOND, 5);
        if (play_said(&p, 0)[0] != '\0')
            play_land(&p, 0, RT_SQL_LANDED);
        if (p.link_count > next)
            play_down(&p, next++, ROTA_UNREACHABLE);
    }
    assert_int_equal(next, 8); /* dialed that often */
    assert_int_equal(p.logs, told);
    play_close(&p);
}

/* Both servers refuse the password, each in its own words, whenever somebody asks: one line each, until one
 * succeeds. */
static void each_server_says_it_once(void **state)
{
    static const char *const words[] = {"a refuses the password", "b refuses the password"};
    struct play p;
    struct rt_op op;
    (void)state;
    assert_int_equal(play_open_url(&p, true, "played://a,b/x"), 0);
    play_turn(&p);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(p.link_count, i + 1);
        play_down_as(&p, i, ROTA_AUTH, words[i % 2]);
        assert_int_equal(p.logs, i == 0 ? 1 : 2);
        op = list_op();
        play_do(&p, &op);
        play_pass(&p, SECOND);
    }
    play_greet(&p, 8);
    int told = p.logs;
    play_down_as(&p, 8, ROTA_UNREACHABLE, words[0]); /* it is lost again: that is news */
    assert_int_equal(p.logs, told + 1);
    play_close(&p);
}

/* ---- Flights that do not land ---------------------------------------------------------------------------------- */

/* What was said before is not the reason. */
static void no_memory_to_dial(void **state)
{
    struct play p;
    struct rt_op op = list_op();
    (void)state;
    play_open(&p, true);
    snprintf(p.conn->errmsg, sizeof(p.conn->errmsg), "something else");
    p.dial_rv = ROTA_NOMEM;
    play_turn(&p);
    assert_true(has(p.trouble, "out of memory"));
    play_do(&p, &op);
    for (int i = 0; i < 8; i++)
        play_pass(&p, SECOND / 2);
    assert_true(p.dials > 4);    /* again and again */
    assert_int_equal(p.logs, 1); /* but said once */
    assert_int_equal(p.err, ROTA_UNREACHABLE);
    assert_true(has(p.errmsg, "out of memory"));
    p.dial_rv = 0;
    play_pass(&p, SECOND);
    play_greet(&p, 0);
    assert_string_equal(p.trouble, "");
    play_close(&p);
}

static void no_memory_to_send(void **state)
{
    struct play p;
    struct rt_op op = list_op();
    (void)state;
    play_begin(&p, true);
    p.send_rv = ROTA_NOMEM;
    play_do(&p, &op);
    assert_int_equal(p.err, ROTA_NOMEM);
    assert_true(has(p.errmsg, "out of memory"));
    p.send_rv = 0;
    op = list_op();
    play_do(&p, &op);
    assert_said(&p, 0, "list(x)"); /* and it goes on, on the same link */
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, 0);
    play_close(&p);
}

/* A quarter of the ttl: then the next connection asks, and what may have been done is reported as such. */
static void a_server_that_is_silent(void **state)
{
    struct rt_join j = {.name = "a", .nonce = 1};
    struct rt_op op = {.kind = RT_OP_JOIN, .join = {.joins = &j, .n = 1}};
    struct play p;
    (void)state;
    play_begin(&p, true);
    j.session = p.session;
    int dones = p.dones;
    play_do(&p, &op);
    play_pass(&p, PLAY_TTL_MS / 4 * MS - 1);
    assert_int_equal(p.dones, dones);
    play_pass(&p, 1);
    assert_int_equal(p.dones, dones + 1);
    assert_int_equal(p.err, ROTA_UNKNOWN);
    assert_null(p.links[0]);
    assert_true(has(p.trouble, "server:1 does not answer"));
    play_pass(&p, SECOND);
    play_greet(&p, 1);
    assert_string_equal(p.trouble, "");
    play_close(&p);
}

/* One that is refused for now flies again, after a growing pause; a full server is reported as trouble. */
static void refused_for_now(void **state)
{
    static const enum rt_sql_end ends[] = {RT_SQL_AGAIN, RT_SQL_FULL};
    struct play p;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rt_op op = list_op();
        play_begin(&p, true);
        int dones = p.dones;
        play_do(&p, &op);
        for (int64_t pause = 20; pause <= 80; pause *= 2) {
            play_land(&p, 0, ends[i]);
            assert_true(has(p.trouble, "not to be") == (ends[i] == RT_SQL_FULL));
            play_pass(&p, pause * MS - 1);
            assert_said(&p, 0, "");
            play_pass(&p, 1);
            assert_said(&p, 0, "list(x)");
        }
        play_land(&p, 0, RT_SQL_LANDED);
        assert_int_equal(p.dones, dones + 1);
        assert_int_equal(p.err, 0);
        assert_string_equal(p.trouble, "");
        play_close(&p);
    }
}

/* The server says that nothing was done: then that is what the caller is told when the time is over. */
static void refused_until_it_is_too_late(void **state)
{
    struct rt_join j = {.name = "a", .nonce = 1};
    struct rt_op op = {.kind = RT_OP_JOIN, .join = {.joins = &j, .n = 1}};
    struct play p;
    (void)state;
    play_begin(&p, true);
    j.session = p.session;
    op.deadline = rt_loop_now(&p.loop) + 10 * RT_MS;
    play_do(&p, &op);
    play_land(&p, 0, RT_SQL_AGAIN);
    play_pass(&p, 10 * MS);
    assert_int_equal(p.err, ROTA_UNREACHABLE);
    play_close(&p);
}

/* Whoever waits for a bell may wait that long, plus the usual patience. */
static void a_bell_has_its_time(void **state)
{
    struct play p;
    (void)state;
    wait_behind_5(&p);
    play_pass(&p, 8010 * MS + PLAY_TTL_MS / 4 * MS - 1);
    assert_non_null(p.links[1]);
    play_pass(&p, 1);
    assert_null(p.links[1]);
    play_close(&p);
}

/* The link is no longer any good: another one asks. */
static void asked_by_another_link(void **state)
{
    static const enum rt_sql_end ends[] = {RT_SQL_ABSENT, RT_SQL_REPLICA};
    struct play p;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rt_op op = list_op();
        play_begin(&p, true);
        int dones = p.dones;
        play_do(&p, &op);
        play_land(&p, 0, ends[i]);
        assert_null(p.links[0]);
        play_pass(&p, SECOND);
        play_greet(&p, 1);
        play_turn(&p);
        assert_said(&p, 1, "renew(S,9000000)"); /* first: until when the session lives there */
        play_land(&p, 1, RT_SQL_LANDED);
        assert_said(&p, 1, "list(x)");
        play_land(&p, 1, RT_SQL_LANDED);
        assert_int_equal(p.dones, dones + 1);
        assert_int_equal(p.err, 0);
        play_close(&p);
    }
}

/* Two that flew together: nobody knows whose fault it was, so each flies by itself. One alone is told. */
static void refused_for_good(void **state)
{
    struct rt_op ops[2] = {list_op(), list_op()};
    struct play p;
    (void)state;
    play_begin(&p, true);
    int dones = p.dones;
    ops[1].list.prefix = "y";
    for (size_t i = 0; i < 2; i++) {
        ops[i].deadline = rt_loop_now(&p.loop) + SECOND * 1000;
        p.conn->engine->submit(p.conn, &ops[i]);
    }
    play_turn(&p);
    assert_said(&p, 0, "list(x) list(y)");
    play_land(&p, 0, RT_SQL_REFUSED);
    assert_said(&p, 0, "list(x)");
    play_land(&p, 0, RT_SQL_DENIED);
    assert_int_equal(p.dones, dones + 1);
    assert_int_equal(p.err, ROTA_AUTH);
    assert_true(has(p.errmsg, "it was not to be"));
    assert_said(&p, 0, "list(y)");
    play_land(&p, 0, RT_SQL_REFUSED);
    assert_int_equal(p.dones, dones + 2);
    assert_int_equal(p.err, ROTA_PROTOCOL);
    assert_true(has(p.errmsg, "it was not to be"));
    play_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_waits_for_the_next_bell),
        cmocka_unit_test(a_bell_that_rings_for_nothing),
        cmocka_unit_test(the_dead_ahead_are_tended),
        cmocka_unit_test(no_such_ticket),
        cmocka_unit_test(what_is_leaving_is_not_looked_for),
        cmocka_unit_test(what_could_not_leave_is_looked_for_again),
        cmocka_unit_test(the_first_of_ours_waits_for_all),
        cmocka_unit_test(more_waits_than_links),
        cmocka_unit_test(no_connection_to_wait_on),
        cmocka_unit_test(looks_when_what_is_ahead_may_have_ended),
        cmocka_unit_test(looks_for_what_it_did_not_hear),
        cmocka_unit_test(a_renewal_goes_next),
        cmocka_unit_test(observers_that_are_notified),
        cmocka_unit_test(observers_that_are_not),
        cmocka_unit_test(observers_are_looked_at_each_in_its_time),
        cmocka_unit_test(an_observation_in_vain),
        cmocka_unit_test(listens_no_longer),
        cmocka_unit_test(listens_again),
        cmocka_unit_test(a_lane_says_it_once),
        cmocka_unit_test(each_server_says_it_once),
        cmocka_unit_test(no_memory_to_dial),
        cmocka_unit_test(no_memory_to_send),
        cmocka_unit_test(a_server_that_is_silent),
        cmocka_unit_test(refused_for_now),
        cmocka_unit_test(refused_until_it_is_too_late),
        cmocka_unit_test(a_bell_has_its_time),
        cmocka_unit_test(asked_by_another_link),
        cmocka_unit_test(refused_for_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
