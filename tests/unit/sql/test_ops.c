/* SPDX-License-Identifier: Apache-2.0 */
/* The lock engine on SQL, op by op, with a server that the test plays: what is sent for each, and how the answers are
 * understood. */
#include "lib/scarce.h"
#include "play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000)
#define SECOND (1000 * MS)

#define assert_said(p, n, words) assert_string_equal(play_said(p, n), words)

static bool has(const char *text, const char *words)
{
    return strstr(text, words) != NULL;
}

/* ---- Greeting ------------------------------------------------------------------------------------------- */

static void open_and_up(struct play *p)
{
    play_open(p, true);
    play_turn(p);
    play_up(p, 0);
    play_facts(p, 0);
    play_land(p, 0, RT_SQL_LANDED);
    assert_said(p, 0, "facts layout");
    play_facts(p, 0);
}

static void layout(struct play *p, size_t step, const char *at)
{
    play_cells(p, 0, step, (const struct rt_sql_cell[]){PLAY_TEXT("1.0"), PLAY_TEXT(at)}, 2);
    play_land(p, 0, RT_SQL_LANDED);
}

static bool is_ready(struct play *p)
{
    return ((struct rt_sql_conn *)(void *)p->conn)->lanes[0].state == RT_DIAL_READY;
}

static void tables_are_made(void **state)
{
    struct play p;
    (void)state;
    open_and_up(&p);
    play_land(&p, 0, RT_SQL_ABSENT);
    assert_said(&p, 0, "make");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "layout");
    layout(&p, 0, "");
    assert_said(&p, 0, "here(s 0)"); /* nobody has used them */
    play_land(&p, 0, RT_SQL_LANDED);
    assert_true(is_ready(&p));
    play_close(&p);
}

/* They were last used on another server: this one is noted, as its clock is not behind ours. */
static void tables_that_were_elsewhere(void **state)
{
    struct play p;
    (void)state;
    open_and_up(&p);
    layout(&p, 1, "t 0");
    assert_said(&p, 0, "here(s 0)");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_true(is_ready(&p));
    play_close(&p);
}

/* Our clock is a minute ahead: we do not wait for the server's. Where nobody was before, there is nothing to be
 * behind. */
static void a_clock_that_is_far_behind(void **state)
{
    struct play p;
    (void)state;
    for (int used = 0; used < 2; used++) {
        play_open(&p, true);
        p.ahead = 60 * SECOND;
        play_turn(&p);
        play_up(&p, 0);
        play_facts(&p, 0);
        play_land(&p, 0, RT_SQL_LANDED);
        play_facts(&p, 0);
        layout(&p, 1, used ? "t 0" : "");
        assert_said(&p, 0, used ? "" : "here(s 0)");
        if (!used)
            play_land(&p, 0, RT_SQL_LANDED);
        assert_true(is_ready(&p));
        assert_int_equal(has(p.conn->unsafe, "clock is 60 s behind"), used);
        play_close(&p);
    }
}

/* Somebody already waits for its clock: then all do, and look at it again. */
static void a_floor_that_is_noted(void **state)
{
    struct play p;
    (void)state;
    open_and_up(&p);
    layout(&p, 1, "s 500001");
    assert_false(is_ready(&p));
    assert_true(has(p.trouble, "its clock is 501 ms behind"));
    play_pass(&p, SECOND / 2);
    assert_said(&p, 0, "");
    play_pass(&p, 1);
    assert_said(&p, 0, "facts layout");
    play_close(&p);
}

/* Whoever asks is told why this is no server for us; what only strict requires is noted. */
static void servers_that_do_not_do(void **state)
{
    static const char *const says[] = {"it is a toy", "does not say which layout",
                                       "has Rota's layout 9.0"};
    struct play p;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct rt_op op = {.kind = RT_OP_LIST, .list = {.prefix = "x"}};
        play_open(&p, true);
        p.unsafe = "it forgets";
        p.unfit = i == 0 ? "it is a toy" : NULL;
        play_turn(&p);
        play_do(&p, &op);
        play_up(&p, 0);
        play_facts(&p, 0);
        play_land(&p, 0, RT_SQL_LANDED);
        if (i > 0) {
            assert_said(&p, 0, "facts layout");
            play_facts(&p, 0);
            if (i == 2)
                play_cells(&p, 0, 1, (const struct rt_sql_cell[]){PLAY_TEXT("9.0"), PLAY_TEXT("")},
                           2);
            play_land(&p, 0, RT_SQL_LANDED);
        }
        if (i == 1) { /* another may be making it just now: so do we, and look again */
            assert_int_equal(p.dones, 0);
            assert_said(&p, 0, "make");
            play_land(&p, 0, RT_SQL_LANDED);
            assert_said(&p, 0, "layout");
            play_land(&p, 0, RT_SQL_LANDED);
        }
        assert_int_equal(p.dones, 1);
        assert_int_equal(p.err, ROTA_UNSUPPORTED);
        assert_true(has(p.errmsg, says[i]) && has(p.errmsg, "server:1"));
        play_close(&p);
    }
    play_open(&p, true);
    p.unsafe = "it forgets";
    play_turn(&p);
    play_greet(&p, 0);
    assert_true(is_ready(&p));
    assert_string_equal(p.conn->unsafe, "it forgets");
    play_close(&p);
}

static void no_memory_to_greet(void **state)
{
    struct play p;
    (void)state;
    scarce_begin();
    play_open(&p, true);
    play_turn(&p);
    scarce_leave(0);
    play_up(&p, 0);
    assert_said(&p, 0, "");
    play_turn(&p);
    scarce_leave(-1);
    assert_null(p.links[0]);
    assert_true(has(p.trouble, "server:1 cannot be asked: out of memory"));
    play_pass(&p, SECOND);
    play_greet(&p, 1);
    assert_string_equal(p.trouble, "");
    play_close(&p);
    scarce_end();
}

static void what_the_url_says(void **state)
{
    struct play p;
    (void)state;
    static const char *const bad[] = {"17", "1a", "", "-1"};
    for (size_t i = 0; i < 4; i++) {
        char url[64];
        snprintf(url, sizeof(url), "played://server/x?waits=%s", bad[i]);
        assert_int_equal(play_open_url(&p, false, url), ROTA_INVALID);
        assert_true(has(p.errmsg, "is no number from 0 to 16"));
        assert_int_equal(p.opens, 0);
    }
    assert_int_equal(play_open_url(&p, false, "played://server/x?waits=10"), 0);
    assert_int_equal(((struct rt_sql_conn *)(void *)p.conn)->waits, 10);
    play_close(&p);
    assert_int_equal(play_open_url(&p, false, "played:/x"), ROTA_INVALID); /* no host */
    assert_int_equal(p.opens, 0);
}

/* ---- Order ----------------------------------------------------------------------------------------------- */

static void ignore_line(void *arg, const char *name, size_t count, size_t granted)
{
    (void)arg, (void)name, (void)count, (void)granted;
}

/* A heartbeat waits for what was asked before it, and what is asked after it waits for it. */
static void beats_fly_alone(void **state)
{
    struct play p;
    (void)state;
    play_begin(&p, true);
    struct rt_op before = {.kind = RT_OP_LIST, .list = {.prefix = "x", .each = ignore_line}},
                 after = before, beat = {.kind = RT_OP_BEAT, .beat = {.session = p.session}};
    after.list.prefix = "y";
    int dones = p.dones;
    play_do(&p, &before);
    play_do(&p, &beat);
    play_do(&p, &after);
    assert_said(&p, 0, "list(x)");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "renew(S,9000000) mine(S)");
    PLAY_ROW(&p, 0, 0, 1800);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "list(y)");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "dead(8) bury(8)"); /* after everything that waited */
    assert_int_equal(p.dones, dones + 3);
    assert_int_equal(p.err, 0);
    play_close(&p);
}

/* So does one that was refused for now: nothing asked later goes before it. */
static void a_beat_is_waited_for(void **state)
{
    struct play p;
    (void)state;
    play_begin(&p, true);
    struct rt_op after = {.kind = RT_OP_LIST, .list = {.prefix = "y", .each = ignore_line}},
                 beat = {.kind = RT_OP_BEAT, .beat = {.session = p.session}};
    play_do(&p, &beat);
    play_land(&p, 0, RT_SQL_AGAIN);
    play_do(&p, &after);
    assert_said(&p, 0, "");
    play_pass(&p, 20 * MS);
    assert_true(has(play_said(&p, 0), "renew(S,9000000) mine(S)"));
    PLAY_ROW(&p, 0, 0, 1800);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "list(y)");
    play_close(&p);
}

/* What was heard of it is not everything. */
static void no_memory_to_hear(void **state)
{
    static char large[20000];
    struct rt_op op = {.kind = RT_OP_LIST, .list = {.prefix = "y", .each = ignore_line}};
    struct play p;
    (void)state;
    memset(large, 'n', sizeof(large) - 1);
    scarce_begin();
    play_begin(&p, true);
    play_do(&p, &op);
    scarce_leave(0);
    const struct rt_sql_cell row[] = {PLAY_TEXT(large), rt_sql_number(1), rt_sql_number(1)};
    play_cells(&p, 0, 0, row, 3);
    play_land(&p, 0, RT_SQL_LANDED);
    scarce_leave(-1);
    assert_int_equal(p.err, ROTA_UNKNOWN);
    assert_true(has(p.errmsg, "out of memory"));
    play_close(&p);
    scarce_end();
}

/* ---- Joining and leaving ------------------------------------------------------------------------------------ */

/* With bells: its own is taken before anybody can see its ticket, once. */
static void a_plain_pair(void **state)
{
    struct rt_join j = {.name = "a", .nonce = 1, .owner = 4};
    struct rt_op op = {.kind = RT_OP_JOIN, .join = {.joins = &j, .n = 1}};
    struct play p;
    (void)state;
    play_begin(&p, false);
    j.session = p.session;
    for (int i = 0; i < 2; i++) {
        op.deadline = 0;
        play_do(&p, &op);
        assert_said(&p, 0, i == 0 ? "bell_take(*) take(a,S,1,4,0,*,900)" : "take(a,S,1,4,0,*,900)");
        PLAY_ROW(&p, 0, i == 0 ? 1 : 0, 70 + i);
        play_land(&p, 0, RT_SQL_LANDED);
        assert_int_equal(p.err, 0);
        assert_true(j.granted);
        assert_int_equal(j.number, 70 + i);
        struct rt_op leave = {
            .kind = RT_OP_LEAVE,
            .leave = {
                .name = "a", .session = p.session, .number = j.number, .nonce = i == 0 ? 1 : 0}};
        play_do(&p, &leave);
        assert_said(&p, 0, i == 0 ? "give(a,S,70,1)" : "give(a,S,71,0)");
        play_changed(&p, 0, 0, 1);
        play_land(&p, 0, RT_SQL_LANDED);
        assert_int_equal(p.err, 0);
        assert_true(leave.leave.granted);
    }
    play_close(&p);
}

/* More than a connection should hold: the oldest goes. */
static void many_bells(void **state)
{
    struct play p;
    char name[8];
    (void)state;
    play_begin(&p, false);
    for (int i = 0; i < 258; i++) {
        struct rt_join j = {.name = name, .session = p.session, .nonce = 1};
        struct rt_op op = {.kind = RT_OP_JOIN, .join = {.joins = &j, .n = 1}};
        snprintf(name, sizeof(name), "%d", i % 257);
        play_do(&p, &op);
        bool rings = has(play_said(&p, 0), "bell_ring(*) bell_take(*) take(");
        assert_int_equal(rings, i >= 256); /* the last one's was the first to go */
        PLAY_ROW(&p, 0, rings ? 2 : 1, 70 + i);
        play_land(&p, 0, RT_SQL_LANDED);
    }
    play_close(&p);
}

/* Everything a ticket may have, each in its place; and no ticket for a session that is over. */
static void a_ticket_with_everything(void **state)
{
    struct rt_join j = {.name = "a",
                        .nonce = 2,
                        .owner = 3,
                        .value = "v",
                        .at_least_ms = 5,
                        .until_ms = 6,
                        .mode = RT_PERMITS,
                        .take = 7,
                        .of = 8,
                        .flags = RT_JOIN_DETECT | RT_JOIN_ARM};
    struct rt_op op = {.kind = RT_OP_JOIN, .join = {.joins = &j, .n = 1}};
    struct play p;
    (void)state;
    play_begin(&p, true);
    j.session = p.session;
    play_do(&p, &op);
    assert_said(&p, 0,
                "listen(*) lock(a) unfold(a) purge(a) settle(a) "
                "join(a,S,2,3,2,7,8,7,3,5000,6000,0,0,v,-,*,0) want(a) tell(a) answer(a,S,2)");
    PLAY_ROW(&p, 0, 8, 0, PLAY_NULL, PLAY_NULL, PLAY_NULL, PLAY_NULL, PLAY_NULL, PLAY_NULL,
             PLAY_NULL, PLAY_NULL);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, ROTA_LOST);
    op.deadline = 0;
    j.flags = RT_JOIN_DURABLE;
    play_do(&p, &op);
    assert_said(&p, 0,
                "lock(a) unfold(a) purge(a) settle(a) "
                "join(a,S,2,3,2,7,8,7,0,5000,6000,1,0,v,me,*,0) want(a) tell(a) answer(a,S,2)");
    PLAY_ROW(&p, 0, 7, 0, 90, 1, 0, 2, 8, PLAY_NULL, PLAY_NULL, PLAY_NULL);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, 0);
    assert_int_equal(j.number, 90);
    play_close(&p);
}

/* Ids are 64 bits, kept signed. */
static void sessions_have_ids_that_servers_keep(void **state)
{
    struct play p;
    (void)state;
    for (int i = 0; i < 20; i++) {
        play_begin(&p, true);
        assert_in_range(p.session, 1, INT64_MAX);
        play_close(&p);
    }
}

/* The short way does not apply; the next one is handed it, and its bell rings after that. If that does not apply
 * either: the long way. */
static void leaving_by_longer_ways(void **state)
{
    struct play p;
    struct rt_join j;
    (void)state;
    play_begin(&p, false);
    play_wait(&p, &j, "a", 7, 5, 8 * SECOND);
    struct rt_op by_nonce = {.kind = RT_OP_LEAVE,
                             .leave = {.name = "b", .session = p.session, .nonce = 9}},
                 leave = {.kind = RT_OP_LEAVE,
                          .leave = {.name = "c", .session = p.session, .number = 3, .nonce = 8}};
    play_do(&p, &by_nonce);
    assert_said(&p, 0, "lock(b) unfold(b) leave(b,S,0,9,0) purge(b) settle(b) tell(b)");
    PLAY_ROW(&p, 0, 2, 1);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, 0);
    assert_true(by_nonce.leave.granted);
    play_do(&p, &leave);
    assert_said(&p, 0, "give(c,S,3,8)");
    play_changed(&p, 0, 0, 0);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "pass(c,S,3,8) tell(c)");
    play_land(&p, 0, RT_SQL_REFUSED);
    assert_said(&p, 0, "lock(c) unfold(c) leave(c,S,3,8,1) purge(c) settle(c) tell(c)");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, ROTA_LOST);
    play_close(&p);
}

static struct rt_op set_op(struct play *p, struct rt_join *joins, uint32_t flags)
{
    for (size_t i = 0; i < 2; i++)
        joins[i] = (struct rt_join){
            .name = i == 0 ? "b" : "a", .session = p->session, .nonce = i + 1, .flags = flags};
    return (struct rt_op){.kind = RT_OP_JOIN_ALL, .join = {.joins = joins, .n = 2}};
}

/* All lines are locked by their names, then judged, then joined. */
static void sets(void **state)
{
    struct rt_join joins[2];
    struct play p;
    (void)state;
    play_begin(&p, true);
    struct rt_op op = set_op(&p, joins, RT_JOIN_TRY);
    play_do(&p, &op);
    assert_true(has(play_said(&p, 0), "lock(a) unfold(a) purge(a) settle(a) "
                                      "lock(b) unfold(b) purge(b) settle(b) gate(b,"));
    /* of 18 steps: two answers, the last of three each */
    PLAY_ROW(&p, 0, 14, 1, 30, 1, 0, 0, 0, PLAY_NULL, PLAY_NULL, PLAY_NULL);
    PLAY_ROW(&p, 0, 17, 1, 31, 1, 0, 0, 0, PLAY_NULL, PLAY_NULL, PLAY_NULL);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, 0);
    assert_true(joins[0].granted && joins[1].granted);
    assert_int_equal(joins[0].number, 30);
    assert_int_equal(joins[1].number, 31);
    for (size_t busy = 0; busy < 2; busy++) { /* one of them is taken, be it the first */
        op = set_op(&p, joins, RT_JOIN_TRY);
        play_do(&p, &op);
        for (size_t i = 0; i < 2; i++)
            PLAY_ROW(&p, 0, 14 + 3 * i, 1, PLAY_NULL, PLAY_NULL, PLAY_NULL,
                     i == busy ? 0 : PLAY_NULL, i == busy ? 0 : PLAY_NULL, PLAY_NULL, PLAY_NULL,
                     PLAY_NULL);
        play_land(&p, 0, RT_SQL_LANDED);
        assert_int_equal(p.err, ROTA_BUSY);
        assert_true(has(p.errmsg, busy == 0 ? "b" : "a"));
    }
    op = set_op(&p, joins, 0); /* one was there from an earlier try, and has ended */
    play_do(&p, &op);
    assert_true(has(play_said(&p, 0), "listen(*) lock(a)")); /* it may have to wait */
    PLAY_ROW(&p, 0, 15, 1, 30, 1, 0, 0, 0, PLAY_NULL, PLAY_NULL, PLAY_NULL);
    PLAY_ROW(&p, 0, 18, 1, PLAY_NULL, PLAY_NULL, PLAY_NULL, PLAY_NULL, PLAY_NULL, PLAY_NULL,
             PLAY_NULL, PLAY_NULL);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, ROTA_LOST);
    play_close(&p);
}

/* There is no ticket, and no reason: whatever happened, nobody knows what was done. */
static void answers_that_make_no_sense(void **state)
{
    struct rt_join joins[2];
    struct play p;
    (void)state;
    for (int set = 0; set < 2; set++)
        for (uint32_t flags = 0; flags <= RT_JOIN_TRY; flags += RT_JOIN_TRY) {
            play_begin(&p, true);
            struct rt_op op = set_op(&p, joins, flags);
            if (!set) {
                op = (struct rt_op){.kind = RT_OP_JOIN, .join = {.joins = joins, .n = 1}};
                joins[0].mode = RT_SHARED;
            }
            size_t listens = flags == 0, last = listens + (set ? 17 : 7);
            play_do(&p, &op);
            for (size_t i = 0; i < (set ? 2 : 1); i++)
                PLAY_ROW(&p, 0, last - 3 * i, 1, PLAY_NULL, PLAY_NULL, PLAY_NULL,
                         flags == 0 ? 0 : PLAY_NULL, 0, PLAY_NULL, PLAY_NULL, PLAY_NULL);
            play_land(&p, 0, RT_SQL_LANDED);
            assert_int_equal(p.err, ROTA_UNKNOWN);
            assert_true(has(p.errmsg, "makes no sense"));
            play_close(&p);
        }
}

/* ---- Changes, breaks, looks ------------------------------------------------------------------------------------ */

static void changes(void **state)
{
    struct play p;
    struct rt_join j = {.name = "a", .nonce = 1};
    struct rt_op join = {.kind = RT_OP_JOIN, .join = {.joins = &j, .n = 1}};
    (void)state;
    play_begin(&p, false);
    j.session = p.session;
    play_do(&p, &join);
    PLAY_ROW(&p, 0, 1, 70);
    play_land(&p, 0, RT_SQL_LANDED);
    struct rt_op op = {
        .kind = RT_OP_CHANGE,
        .change = {.name = "a", .session = p.session, .number = 70, .what = RT_CHANGE_DOWNGRADE}};
    play_do(&p, &op); /* whoever shares it with us from now on waits for our bell */
    assert_said(&p, 0,
                "lock(a) unfold(a) change(a,S,70,1,0,-,0) purge(a) settle(a) tell(a) "
                "bell_ring(*) state(a,S,70)");
    PLAY_ROW(&p, 0, 7, 1, 1, 0);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, 0);
    op.deadline = 0;
    op.change.what = RT_CHANGE_VALUE;
    op.change.value = "v";
    play_do(&p, &op);
    assert_said(&p, 0,
                "lock(a) unfold(a) change(a,S,70,0,1,v,0) purge(a) settle(a) tell(a) "
                "state(a,S,70)");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, ROTA_LOST);
    play_close(&p);
}

/* Permits do not turn into a share; and a line is of one kind. */
static void kinds_do_not_mix(void **state)
{
    struct rt_join j = {.name = "a", .nonce = 1, .mode = RT_SHARED};
    struct play p;
    (void)state;
    play_begin(&p, true);
    j.session = p.session;
    struct rt_op op = {.kind = RT_OP_CHANGE,
                       .change = {.name = "a",
                                  .session = p.session,
                                  .number = 7,
                                  .what = RT_CHANGE_DOWNGRADE}},
                 join = {.kind = RT_OP_JOIN, .join = {.joins = &j, .n = 1}};
    play_do(&p, &op);
    PLAY_ROW(&p, 0, 6, 1, RT_PERMITS, 0);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, ROTA_INVALID);
    play_do(&p, &join);
    PLAY_ROW(&p, 0, p.links[0]->count - 1, 1, PLAY_NULL, PLAY_NULL, PLAY_NULL, RT_PERMITS, 3,
             PLAY_NULL, PLAY_NULL, PLAY_NULL);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, ROTA_INVALID);
    assert_true(has(p.errmsg, "permits"));
    play_close(&p);
}

static void breaks(void **state)
{
    struct play p;
    struct rt_op op = {.kind = RT_OP_BREAK, .brk = {.name = "a", .number = 7}};
    (void)state;
    play_begin(&p, true);
    play_do(&p, &op);
    assert_said(&p, 0, "lock(a) unfold(a) break(a,7,0) purge(a) settle(a) tell(a)");
    play_changed(&p, 0, 2, 1);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, 0);
    op.deadline = 0;
    play_do(&p, &op);
    play_changed(&p, 0, 2, 0);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.err, ROTA_LOST);
    play_close(&p);
}

static void note_place(void *arg, const char *name, const struct rota_place *place)
{
    char *out = arg;
    snprintf(out, 200, "%s %llu %llu %llu %u %u %u %lld %lld %s %s %x", name,
             (unsigned long long)place->number, (unsigned long long)place->session,
             (unsigned long long)place->owner, place->mode, place->take, place->of,
             (long long)place->since_ms, (long long)place->left_ms, place->value, place->label,
             place->flags);
}

static void places(void **state)
{
    char seen[200] = "";
    struct rt_op op = {.kind = RT_OP_INSPECT,
                       .inspect = {.name = "a", .each = note_place, .arg = seen}};
    struct play p;
    (void)state;
    play_begin(&p, true);
    play_do(&p, &op);
    assert_said(&p, 0, "inspect(a,0)");
    const struct rt_sql_cell row[] = {PLAY_TEXT("a"),    rt_sql_number(11),   rt_sql_number(12),
                                      rt_sql_number(13), rt_sql_number(2),    rt_sql_number(3),
                                      rt_sql_number(4),  rt_sql_number(1),    rt_sql_number(0),
                                      rt_sql_number(2),  rt_sql_number(5000), rt_sql_number(6000),
                                      PLAY_TEXT("v"),    PLAY_TEXT("me")};
    play_cells(&p, 0, 0, row, 14);
    play_land(&p, 0, RT_SQL_LANDED);
    char want[200];
    snprintf(want, sizeof(want), "a 11 12 13 2 3 4 5 6 v me %x",
             (unsigned)(ROTA_PLACE_GRANTED | ROTA_PLACE_DETECT));
    assert_string_equal(seen, want);
    play_close(&p);
}

static void note_verdict(void *arg, const struct rota_verdict *v)
{
    snprintf(arg, 200, "%s|%s|%s|%s", v->promise, v->verdict, v->setting, v->remedy);
}

static void verdicts(void **state)
{
    char seen[200] = "";
    struct rt_op op = {.kind = RT_OP_CHECK, .check = {.each = note_verdict, .arg = seen}};
    struct play p;
    (void)state;
    play_begin(&p, true);
    play_do(&p, &op);
    assert_said(&p, 0, "doctor");
    const struct rt_sql_cell row[] = {PLAY_TEXT("rights"), PLAY_TEXT("limited"), PLAY_TEXT("few"),
                                      PLAY_TEXT("grant")};
    play_cells(&p, 0, 0, row, 4);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_string_equal(seen, "rights|limited|few|grant");
    play_close(&p);
}

/* ---- Observers ------------------------------------------------------------------------------------------------- */

static void on_changed(struct rt_up *up, const struct rt_event *e)
{
    struct play *p = (struct play *)(void *)up;
    if (e->kind == RT_CHANGED)
        snprintf(p->errmsg, sizeof(p->errmsg), "%llu %s|%s|", (unsigned long long)e->front.fence,
                 e->front.value, e->front.label);
}

/* What its line tells is looked at; what was asked for but is no longer wanted is not. */
static void observers_hear(void **state)
{
    struct rt_op op = {.kind = RT_OP_OBSERVE, .observe = {.name = "o", .cookie = &op}};
    struct play p;
    (void)state;
    play_begin(&p, true);
    p.up.event = on_changed;
    play_do(&p, &op);
    play_land(&p, 0, RT_SQL_LANDED);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "");
    play_notice(&p, 0, "rota_o0123456789abcdef", "o");
    assert_said(&p, 0, "watch(o,9000000) front(o)");
    const struct rt_sql_cell row[] = {rt_sql_number(9), rt_sql_number(1), rt_sql_number(1),
                                      rt_sql_number(0), rt_sql_number(0), PLAY_TEXT("longer"),
                                      PLAY_TEXT("me"),  {.null = true}};
    play_cells(&p, 0, 1, row, 8);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_string_equal(p.errmsg, "9 longer|me|");
    play_notice(&p, 0, "rota_o0123456789abcdef", "o");
    assert_said(&p, 0, "watch(o,9000000) front(o)");
    struct rt_op end = {.kind = RT_OP_OBSERVE,
                        .observe = {.name = "o", .cookie = &op, .stop = true}};
    play_do(&p, &end);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "unlisten_line(o)");
    play_land(&p, 0, RT_SQL_LANDED);
    assert_said(&p, 0, "");
    assert_string_equal(p.errmsg, "");
    play_close(&p);
}

/* While the first look is under way: another look tells the state once more. */
static void observed_twice(void **state)
{
    struct rt_op op = {.kind = RT_OP_OBSERVE, .observe = {.name = "o", .cookie = &op}}, more = op;
    struct play p;
    (void)state;
    play_begin(&p, false);
    int dones = p.dones;
    play_do(&p, &op);
    play_do(&p, &more);
    assert_int_equal(p.dones, dones + 1);
    play_land(&p, 0, RT_SQL_LANDED);
    assert_int_equal(p.dones, dones + 2);
    assert_said(&p, 0, "watch(o,9000000) front(o)");
    play_close(&p);
}

/* ---- Links ---------------------------------------------------------------------------------------------------- */

/* One server: a waiter on a link of its own goes on waiting there when the other link is lost. */
static void a_wait_outlasts_the_other_link(void **state)
{
    struct play p;
    struct rt_join j;
    (void)state;
    play_begin(&p, false);
    play_wait(&p, &j, "a", 7, 5, 8 * SECOND);
    play_turn(&p);
    play_greet(&p, 1);
    assert_said(&p, 1, "bell_wait(5,8010) look_ahead(a,S,7)");
    play_down(&p, 0, ROTA_UNREACHABLE);
    assert_said(&p, 1, "bell_wait(5,8010) look_ahead(a,S,7)");
    play_close(&p);
}

/* A bell rings when its connection ends: the next ticket takes another. First comes the question whether the session
 * lives. */
static void bells_go_with_their_link(void **state)
{
    struct rt_join j = {.name = "a", .nonce = 1};
    struct rt_op op = {.kind = RT_OP_JOIN, .join = {.joins = &j, .n = 1}};
    struct play p;
    (void)state;
    play_begin(&p, false);
    j.session = p.session;
    play_do(&p, &op);
    PLAY_ROW(&p, 0, 1, 70);
    play_land(&p, 0, RT_SQL_LANDED);
    play_down(&p, 0, ROTA_PROTOCOL); /* which is no refusal, once it was up */
    play_pass(&p, SECOND);
    play_greet(&p, 1);
    play_turn(&p);
    assert_said(&p, 1, "renew(S,9000000)");
    PLAY_ROW(&p, 1, 0, 901);
    play_land(&p, 1, RT_SQL_LANDED);
    op.deadline = 0;
    play_do(&p, &op);
    assert_said(&p, 1, "bell_take(*) take(a,S,1,0,0,*,901)");
    play_close(&p);
}

/* A refusal is told at once; an absent server is waited for. */
static void refused_at_the_door(void **state)
{
    static const int errs[] = {ROTA_AUTH, ROTA_UNREACHABLE, ROTA_NOMEM};
    struct play p;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct rt_op op = {.kind = RT_OP_LIST, .list = {.prefix = "x", .each = ignore_line}};
        play_open(&p, true);
        play_turn(&p);
        play_do(&p, &op);
        play_down(&p, 0, errs[i]);
        assert_int_equal(p.dones, i == 0);
        if (i == 0)
            assert_int_equal(p.err, ROTA_AUTH);
        play_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_made),
        cmocka_unit_test(tables_that_were_elsewhere),
        cmocka_unit_test(a_clock_that_is_far_behind),
        cmocka_unit_test(a_floor_that_is_noted),
        cmocka_unit_test(servers_that_do_not_do),
        cmocka_unit_test(no_memory_to_greet),
        cmocka_unit_test(what_the_url_says),
        cmocka_unit_test(beats_fly_alone),
        cmocka_unit_test(a_beat_is_waited_for),
        cmocka_unit_test(no_memory_to_hear),
        cmocka_unit_test(a_plain_pair),
        cmocka_unit_test(many_bells),
        cmocka_unit_test(a_ticket_with_everything),
        cmocka_unit_test(sessions_have_ids_that_servers_keep),
        cmocka_unit_test(leaving_by_longer_ways),
        cmocka_unit_test(sets),
        cmocka_unit_test(answers_that_make_no_sense),
        cmocka_unit_test(changes),
        cmocka_unit_test(kinds_do_not_mix),
        cmocka_unit_test(breaks),
        cmocka_unit_test(places),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(observers_hear),
        cmocka_unit_test(observed_twice),
        cmocka_unit_test(a_wait_outlasts_the_other_link),
        cmocka_unit_test(bells_go_with_their_link),
        cmocka_unit_test(refused_at_the_door),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
