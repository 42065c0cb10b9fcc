/* SPDX-License-Identifier: Apache-2.0 */
/* Ops against a server that the test plays: answers and pushes in every order, lost, late and twice. */
#include "ops_played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Sessions --------------------------------------------------------------------------- */

static void test_beat_in_one_request(void **state)
{
    struct rt_op op;
    const char *args;
    (void)state;
    beat(&op, false);
    uint64_t tag = expect_call(RT_REDIS_SCRIPT_BEAT, &args);
    assert_non_null(strstr(args, p.conn->sid));
    answer(tag, 0, "i1000000000 i0 i0 i0 i0 s0");
    expect_told("beat ok");
    assert_int_equal(op.beat.ttl_ms, 10000);
    expect_no_call(); /* nothing to catch up on */
}

static void test_beat_of_another_session(void **state)
{
    struct rt_op op = {.kind = RT_OP_BEAT, .user = beat_name};
    (void)state;
    submit(&op); /* session 0 */
    expect_told("beat LOST");
    op.beat.session = p.conn->session + 1;
    submit(&op);
    expect_told("beat LOST");
    expect_no_call();
}

static void test_beat_says_lost(void **state)
{
    struct rt_op op;
    struct joining j;
    (void)state;
    beat(&op, false);
    answer(expect_call(RT_REDIS_SCRIPT_BEAT, NULL), 1, "");
    expect_told("beat LOST");
    assert_int_equal(p.conn->session, 0);
    join(&j, "a", 1);
    expect_told("join LOST");
    expect_no_call();
}

/* The answer that comes after the deadline renews nothing here: the user has gone on. */
static void test_beat_after_its_deadline(void **state)
{
    struct rt_op op = {.kind = RT_OP_BEAT, .user = beat_name};
    (void)state;
    op.beat.session = p.conn->session;
    op.deadline = rt_loop_now(&p.loop) + 100 * RT_MS;
    submit(&op);
    uint64_t tag = expect_call(RT_REDIS_SCRIPT_BEAT, NULL);
    played_pass(&p, 150);
    expect_told("beat UNKNOWN");
    answer(tag, 1, ""); /* whatever it says */
    expect_told("");
    assert_true(p.conn->session != 0);
}

static void test_second_session(void **state)
{
    struct rt_op op;
    char first[RT_REDIS_SID_SIZE];
    const char *args;
    (void)state;
    memcpy(first, p.conn->sid, sizeof(first));
    uint64_t session = p.conn->session;
    beat(&op, true);
    answer(expect_call(RT_REDIS_SCRIPT_OPEN, NULL), 0, "i1000000000");
    expect_told("beat ok");
    assert_true(op.beat.session != session);
    (void)expect_call(RT_REDIS_SCRIPT_END, &args); /* the old one, if it has no tickets */
    assert_string_equal(args, first);
}

static void test_id_is_taken(void **state)
{
    struct rt_op op;
    const char *args;
    char first[64];
    (void)state;
    beat(&op, true);
    uint64_t tag = expect_call(RT_REDIS_SCRIPT_OPEN, &args);
    snprintf(first, sizeof(first), "%.16s", args);
    answer(tag, 5, "");
    tag = expect_call(RT_REDIS_SCRIPT_OPEN, &args);
    assert_true(strncmp(first, args, 12) == 0 && strncmp(first, args, 16) != 0);
    answer(tag, 0, "i1000000000");
    expect_told("beat ok");
}

/* The next, and the next, and no more: a server that knows all our ids is no server of ours. */
static void test_ids_are_all_taken(void **state)
{
    struct rt_op op;
    (void)state;
    beat(&op, true);
    for (int i = 0; i < 3; i++)
        answer(expect_call(RT_REDIS_SCRIPT_OPEN, NULL), 5, "");
    expect_told("beat INTERNAL");
    expect_no_call();
}

/* ---- JOIN and its pushes ---------------------------------------------------------------- */

static void test_join_waits_then_granted(void **state)
{
    struct joining j;
    (void)state;
    join(&j, "a", 7);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 0, "i1000000000 i0 i11 i4");
    expect_told("join ok");
    assert_false(j.join.granted);
    assert_int_equal(j.join.number, 11);
    push(1, "G 11 a");
    expect_told("granted a 11");
    push(1, "G 11 a"); /* doubled on the way */
    expect_told("");
}

static void test_push_overtakes_its_answer(void **state)
{
    struct joining j;
    (void)state;
    join(&j, "a", 7);
    uint64_t tag = expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    push(1, "G 11 a");
    push(2, "L 11 a");
    expect_told("");
    answer(tag, 0, "i1000000000 i0 i11 i0");
    expect_told("join ok");
    expect_told("granted a 11");
    expect_told("lost a 11");
}

/* JOINs that were sent after the push came do not keep it: it would wait for ever under load. */
static void test_push_waits_only_for_earlier_joins(void **state)
{
    struct joining a, b;
    (void)state;
    join(&a, "a", 7);
    uint64_t first = expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    push(1, "G 5 a");
    join(&b, "a", 8);
    uint64_t second = expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    expect_told("");
    answer(first, 0, "i1000000000 i0 i11 i0");
    expect_told("join ok");
    expect_told("granted a 5");
    answer(second, 0, "i1000000000 i0 i12 i0");
    expect_told("join ok");
}

static void test_push_of_another_line_is_not_kept(void **state)
{
    struct joining a;
    (void)state;
    join(&a, "a", 7);
    uint64_t tag = expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    push(1, "W 5 b");
    expect_told("wanted b 5");
    answer(tag, 0, "i1000000000 i0 i11 i1");
    expect_told("join ok");
}

static void test_push_of_another_session(void **state)
{
    char channel[64], text[64];
    (void)state;
    snprintf(channel, sizeof(channel), "rota:{0}:p:%s", p.conn->cid);
    snprintf(text, sizeof(text), "%s%04x 1 G 11 a", p.conn->cid, 0xffffu);
    push_text(channel, text);
    push_text(channel, "no push at all");
    push_text("rota:{0}:p:", "x");
    push_text("rota:{1}:p:0", "x");
    expect_told("");
}

/* LOST from JOIN for our own session: the op's error, and all else of the session is gone too. */
static void test_join_finds_the_session_dead(void **state)
{
    struct joining j;
    (void)state;
    join(&j, "a", 7);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 1, "");
    expect_told("join LOST");
    expect_told("session lost");
}

static void test_refusals(void **state)
{
    struct joining j;
    (void)state;
    join(&j, "a", 7);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 2, "sme i0");
    expect_told("join BUSY");
    assert_string_equal(p.conn->base.errmsg, "a is held by me");
    join(&j, "a", 8);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 3, "i2 i5 i0");
    expect_told("join INVALID");
    assert_string_equal(p.conn->base.errmsg, "a is permits of 5 now, not a lock: use another name");
}

/* Whatever was done there: a reply that makes no sense says nothing (I5). */
static void test_odd_answers(void **state)
{
    static const char *const odd[] = {"",
                                      "i1",
                                      "sx i0 i11 i1",
                                      "i1 i0 i11",
                                      "i1 i0 i11 i1 i12 i1",
                                      "i1 i0 i0 i1",
                                      "i1 i0 i-11 i1"};
    struct joining j;
    struct rt_op op;
    (void)state;
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        join(&j, "a", i + 1);
        answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 0, odd[i]);
        expect_told("join UNKNOWN");
    }
    leave(&op, "a", 11);
    answer(expect_call(RT_REDIS_SCRIPT_LEAVE, NULL), 0, "sx");
    expect_told("leave UNKNOWN");
    beat(&op, false);
    answer(expect_call(RT_REDIS_SCRIPT_BEAT, NULL), 0, "i1 i2");
    expect_told("beat UNKNOWN");
}

/* ---- What was lost ---------------------------------------------------------------------- */

static void test_push_gap(void **state)
{
    (void)state;
    believe("a", 11, false);
    believe("b", 12, true);
    believe("c", 13, true);
    push(3, "W 12 b"); /* 1 and 2 never came */
    expect_told("wanted b 12");
    answer(expect_call(RT_REDIS_SCRIPT_HELD, NULL), 0, "i3 s0 i11 sa i1 s7 i12 sb i2 s7");
    expect_told("granted a 11");
    expect_told("wanted b 12");
    expect_told("lost c 13");
    push(4, "G 14 d");
    expect_told("granted d 14");
    expect_no_call();
}

static void test_beat_knows_of_more_pushes(void **state)
{
    struct rt_op op;
    (void)state;
    believe("a", 11, false);
    beat(&op, false);
    answer(expect_call(RT_REDIS_SCRIPT_BEAT, NULL), 0, "i1000000000 i1 i1 i0 i0 s0");
    expect_told("beat ok");
    answer(expect_call(RT_REDIS_SCRIPT_HELD, NULL), 0, "i1 s0 i11 sa i1 s7");
    expect_told("granted a 11");
    push(1, "G 11 a"); /* it was only late */
    expect_told("");
}

/* The same session leaves a room of a cluster and enters it again, and what was pushed in an earlier stay may arrive in
 * the next: it does not count there (sim --cluster --seed 71001139: the grant that had its count was never told). */
static void test_pushes_of_an_earlier_stay(void **state)
{
    struct joining j;
    (void)state;
    p.conn->rooms[0].stands = false; /* as of a room where it was not opened */
    push(1, "G 10 before");
    expect_told("granted before 10");
    join(&j, "a", 7);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 0, "i1000000000 i0 i12 i0");
    expect_told("join ok");
    believe("a", 12, false);
    push(1, "W 11 before");
    expect_told("wanted before 11");
    push(1, "G 12 a");
    expect_told("granted a 12");
    push(1, "G 12 a"); /* twice */
    expect_told("");
    expect_no_call();
}

/* A ticket whose JOIN was given up: a user that does not know it gives it back. */
static void test_ghost(void **state)
{
    struct rt_op op;
    (void)state;
    beat(&op, false);
    answer(expect_call(RT_REDIS_SCRIPT_BEAT, NULL), 0, "i1000000000 i0 i1 i0 i0 s0");
    expect_told("beat ok");
    answer(expect_call(RT_REDIS_SCRIPT_HELD, NULL), 0, "i0 s0 i11 sa i1 s7");
    expect_told("granted a 11");
}

static void test_held_says_session_lost(void **state)
{
    (void)state;
    believe("a", 11, true);
    push(2, "W 11 a");
    expect_told("wanted a 11");
    answer(expect_call(RT_REDIS_SCRIPT_HELD, NULL), 1, "");
    expect_told("session lost");
}

/* A ticket that was joined between two pages is in neither, and not lost. */
static void test_pages(void **state)
{
    struct joining j;
    const char *args;
    (void)state;
    believe("a", 11, true);
    believe("b", 12, true);
    push(2, "W 11 a");
    expect_told("wanted a 11");
    join(&j, "c", 9);
    uint64_t page = expect_call(RT_REDIS_SCRIPT_HELD, NULL);
    uint64_t joined = expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    answer(page, 0, "i2 s17 i11 sa i1 s7");
    answer(joined, 0, "i1000000000 i0 i13 i1");
    expect_told("join ok");
    believe("c", 13, true);
    page = expect_call(RT_REDIS_SCRIPT_HELD, &args);
    assert_non_null(strstr(args, " 17"));
    answer(page, 0, "i2 s0");
    expect_told("lost b 12");
}

/* A confirmed subscription: what was pushed before it is lost. Only waiters must know at once. */
static void test_subscribed_late(void **state)
{
    struct joining j;
    (void)state;
    open_session();
    join(&j, "a", 7);
    uint64_t tag = expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    subscribe();
    expect_no_call();
    answer(tag, 0, "i1000000000 i0 i11 i0");
    expect_told("join ok");
    believe("a", 11, false);
    answer(expect_call(RT_REDIS_SCRIPT_HELD, NULL), 0, "i1 s0 i11 sa i1 s7");
    expect_told("granted a 11");
}

/* ---- Replicas --------------------------------------------------------------------------- */

/* A grant that is wanted at once: both are told when the replicas have it. It used to be asked for again instead, a
 * user that did not know the ticket was told again, and so on as fast as the server answered (sim --redis --seed
 * 100000265). */
static void test_wanted_while_the_replicas_are_waited_for(void **state)
{
    (void)state;
    push(1, "H 11 a");
    assert_string_equal(played_next(&p, 1), "PING");
    assert_true(strncmp(played_next(&p, 1), "WAIT 1 ", 7) == 0);
    expect_told("");
    played_say(&p, 1, "+PONG\r\n:1\r\n");
    expect_told("granted a 11");
    expect_told("wanted a 11");
    expect_no_call();
}

/* ---- Links ------------------------------------------------------------------------------ */

/* A new work link, after the last was lost, to a server that says MORE of itself. */
static void reconnect(const char *more)
{
    size_t next = p.opened;
    while (p.opened == next)
        played_pass(&p, 5);
    played_accept(&p, next);
    played_greet_as(&p, next, more);
    work_stream = next;
}

static void test_asks_after_reconnection(void **state)
{
    struct joining j;
    const char *args;
    (void)state;
    believe("a", 11, true);
    played_end(&p, WORK);
    join(&j, "b", 8); /* while no link is there */
    reconnect("");
    (void)expect_call(RT_REDIS_SCRIPT_HELD, &args);
    assert_non_null(strstr(args, " 0 10000")); /* and renews: that server may have missed beats */
    (void)expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    expect_told("");
}

/* It may be another server: no beat is told as good before all that it has lost is told. */
static void test_no_beat_before_what_was_lost(void **state)
{
    struct rt_op op;
    (void)state;
    believe("a", 11, true);
    believe("b", 12, true);
    played_end(&p, WORK);
    beat(&op, false);
    reconnect("");
    uint64_t page = expect_call(RT_REDIS_SCRIPT_HELD, NULL);
    uint64_t beaten = expect_call(RT_REDIS_SCRIPT_BEAT, NULL);
    answer(page, 0, "i0 s17 i11 sa i1 s7");
    answer(beaten, 0, "i1000000000 i0 i2 i0 i0 s0");
    expect_told("beat UNKNOWN");
    answer(expect_call(RT_REDIS_SCRIPT_HELD, NULL), 0, "i0 s0");
    expect_told("lost b 12");
    user.held_count = 1;
    beat(&op, false);
    answer(expect_call(RT_REDIS_SCRIPT_BEAT, NULL), 0, "i1000000000 i0 i1 i0 i0 s0");
    expect_told("beat ok");
}

/* Nor while its answer could not be used, be it for lack of memory: it is asked again (sim --redis --seed 1001311). */
static void test_no_beat_while_nothing_is_learned(void **state)
{
    struct rt_op op;
    (void)state;
    believe("a", 11, true);
    played_end(&p, WORK);
    reconnect("");
    answer(expect_call(RT_REDIS_SCRIPT_HELD, NULL), 0, "i0");
    for (int i = 0; i < 2; i++) {
        beat(&op, false);
        answer(expect_call(RT_REDIS_SCRIPT_BEAT, NULL), 0, "i1000000000 i0 i0 i0 i0 s0");
        expect_told("beat UNKNOWN");
        answer(expect_call(RT_REDIS_SCRIPT_HELD, NULL), 0, i == 0 ? "i0" : "i0 s0");
        expect_told(i == 0 ? "" : "lost a 11");
    }
    user.held_count = 0;
    beat(&op, false);
    answer(expect_call(RT_REDIS_SCRIPT_BEAT, NULL), 0, "i1000000000 i0 i0 i0 i0 s0");
    expect_told("beat ok");
}

/* What a server pushed before it was lost says nothing of the one that came after it, and may arrive later than
 * that one's answers: a replica that was behind has as waiting what its primary granted. */
static void test_pushes_of_the_server_before(void **state)
{
    (void)state;
    believe("a", 11, false);
    played_end(&p, WORK);
    reconnect("");
    answer(expect_call(RT_REDIS_SCRIPT_HELD, NULL), 0, "i0 s0 i11 sa i0 s7");
    assert_non_null(p.streams[PUSH].stream); /* only the link was lost */
    played_end(&p, WORK);
    reconnect("run_id:2\r\n");
    answer(expect_call(RT_REDIS_SCRIPT_HELD, NULL), 0, "i0 s0 i11 sa i0 s7");
    assert_null(p.streams[PUSH].stream);
}

/* A session of which the user knows nothing (any more) is left to die: only its beats renew it. */
static void test_asking_keeps_nothing_alive(void **state)
{
    const char *args;
    (void)state;
    push(3, "G 11 a");
    expect_told("granted a 11");
    uint64_t tag = expect_call(RT_REDIS_SCRIPT_HELD, &args);
    assert_null(strstr(args, " 10000"));
    answer(tag, 0, "i3 s0 i11 sa i1 s7");
    expect_told("granted a 11");
}

static void test_ops_without_a_link(void **state)
{
    struct rt_op op = {.kind = RT_OP_LEAVE, .user = leave_name};
    (void)state;
    played_end(&p, WORK);
    op.leave.name = "a";
    op.leave.number = 1;
    op.deadline = rt_loop_now(&p.loop) + 50 * RT_MS;
    submit(&op);
    p.refuse = ROTA_UNREACHABLE;
    played_pass(&p, 60);
    expect_told("leave UNREACHABLE");
    p.refuse = 0;
}

static void test_cancel(void **state)
{
    struct joining j;
    struct rt_op op;
    (void)state;
    join(&j, "a", 7);
    (void)expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    rt_engine_redis.cancel(&p.conn->base, &j.op);
    played_turn(&p);
    expect_told("join UNKNOWN"); /* it is on its way */
    played_end(&p, WORK);
    leave(&op, "a", 11);
    rt_engine_redis.cancel(&p.conn->base, &op);
    played_turn(&p);
    expect_told("leave CANCELED"); /* it never left */
}

/* Of several, it is the one that was named, flying or waiting. */
static void test_cancel_one_of_several(void **state)
{
    struct joining j;
    struct rt_op ops[3];
    (void)state;
    join(&j, "a", 7);
    leave(&ops[0], "a", 11);
    rt_engine_redis.cancel(&p.conn->base, &ops[0]);
    played_turn(&p);
    expect_told("leave UNKNOWN");
    played_end(&p, WORK);
    expect_told("join UNKNOWN");
    for (uint64_t i = 0; i < 3; i++)
        leave(&ops[i], "a", 11 + i);
    ops[1].user = other_name;
    rt_engine_redis.cancel(&p.conn->base, &ops[1]);
    played_turn(&p);
    expect_told("op CANCELED");
    played_pass(&p, 5000); /* nobody is there */
    expect_told("leave UNREACHABLE");
    expect_told("leave UNREACHABLE");
}

/* Ops under way are dropped without a word; nothing is leaked (the sanitizer looks). */
static void test_close_with_ops(void **state)
{
    static struct rt_op ops[6];
    static struct joining j[2];
    (void)state;
    join(&j[0], "a", 7);
    push(1, "G 11 a"); /* kept */
    beat(&ops[0], false);
    beat(&ops[1], true);
    leave(&ops[2], "a", 3);
    ops[3] = (struct rt_op){.kind = RT_OP_LIST, .user = other_name};
    submit(&ops[3]);
    ops[4] = (struct rt_op){.kind = RT_OP_OBSERVE, .user = other_name};
    ops[4].observe.name = "o";
    ops[4].observe.cookie = ops;
    submit(&ops[4]);
    ops[5] = (struct rt_op){.kind = RT_OP_CHECK, .user = other_name};
    submit(&ops[5]);
    push(9, "W 3 z"); /* a gap: `held` is under way */
    expect_told("");
}

/* ---- Ends by time ----------------------------------------------------------------------- */

static void test_who_waits_sweeps(void **state)
{
    struct joining j;
    (void)state;
    join(&j, "a", 7);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 0, "i1000000000 i1003000000 i11 i4");
    expect_told("join ok");
    believe("a", 11, false);
    played_pass(&p, 2990);
    expect_no_call();
    played_pass(&p, 10 + 51); /* a jitter of a 200th */
    uint64_t tag = expect_call(RT_REDIS_SCRIPT_SWEEP, NULL);
    answer(tag, 0, "i1003000000 i1003000000 i1"); /* there is more: at once again */
    tag = expect_call(RT_REDIS_SCRIPT_SWEEP, NULL);
    answer(tag, 0, "i1003000000 i1004000000 i0");
    expect_no_call();
    user.held[0].granted = true; /* nobody waits any more: nothing is asked */
    played_pass(&p, 3000);
    expect_no_call();
}

/* ---- Observing -------------------------------------------------------------------------- */

static void test_observe(void **state)
{
    struct rt_op op = {.kind = RT_OP_OBSERVE, .user = other_name};
    (void)state;
    op.observe.name = "o";
    op.observe.cookie = &op;
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_LOOK, NULL), 0, "i1000000000 i0 i1 i0 i0 i11 slabel sv1");
    expect_told("op ok");
    expect_told("changed o 1 11 v1");
    while (strncmp(played_next(&p, PUSH), "SUBSCRIBE", 9) != 0)
        ;
    confirm("rota:{0}:o:o");
    answer(expect_call(RT_REDIS_SCRIPT_LOOK, NULL), 0, "i1000000000 i0 i1 i0 i0 i11 slabel sv1");
    expect_told(""); /* as before */
    push_text("rota:{0}:o:o", "2 0 0 12 2 mev2");
    expect_told("changed o 2 12 v2");
    expect_no_call();
    /* The push came near a look, and may be the older of the two: looked again. */
    played_pass(&p, 100);
    answer(expect_call(RT_REDIS_SCRIPT_LOOK, NULL), 0, "i1000000000 i0 i0 i0 i0 i0 s s");
    expect_told("changed o 0 0 ");
    push_text("rota:{0}:o:o", "2 0 0 12 99 mev2"); /* no state */
    expect_told("");
    answer(expect_call(RT_REDIS_SCRIPT_LOOK, NULL), 0, "i1000000000 i0 i0 i0 i0 i0 s s");
    push_text("rota:{0}:o:o", "rubbish");
    expect_told("");
    answer(expect_call(RT_REDIS_SCRIPT_LOOK, NULL), 0, "i1000000000 i0 i0 i0 i0 i0 s s");
    expect_told("");
    op.observe.stop = true;
    submit(&op);
    expect_told("op ok");
    push_text("rota:{0}:o:o", "1 0 0 13 0 ");
    expect_told("");
}

/* Integers that no Redis says: sums with them overflow nothing (the sanitizer looks), and what is to
 * end in such a time is not looked at before. */
static void test_integers_beyond_all(void **state)
{
    static const char *const times[] = {
        "i-9223372036854775808 i9223372036854775807", "i0 i9223372036854775807",
        "i0 i9007199254740991",
        "i9223372036854775807 i-9223372036854775808", /* over long ago: the last, it is looked at */
    };
    struct joining j;
    char words[128];
    struct rt_op op;
    (void)state;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        join(&j, "a", 7 + i);
        snprintf(words, sizeof(words), "%s i%zu i4", times[i], 11 + i);
        answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 0, words);
        expect_told("join ok");
        believe("a", 11 + i, false);
        played_pass(&p, 60);
        if (i < 3)
            expect_no_call();
    }
    answer(expect_call(RT_REDIS_SCRIPT_SWEEP, NULL), 0,
           "i-9223372036854775808 i9223372036854775807 i0");
    beat(&op, false);
    answer(expect_call(RT_REDIS_SCRIPT_BEAT, NULL), 0,
           "i-9223372036854775808 i0 i4 i9223372036854775807 i0 s0");
    expect_told("beat ok");
    expect_no_call();
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup_session, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_beat_in_one_request),
        TEST(test_beat_of_another_session),
        TEST(test_beat_says_lost),
        TEST(test_beat_after_its_deadline),
        TEST(test_second_session),
        TEST(test_id_is_taken),
        TEST(test_join_waits_then_granted),
        TEST(test_push_overtakes_its_answer),
        TEST(test_push_waits_only_for_earlier_joins),
        TEST(test_push_of_another_line_is_not_kept),
        TEST(test_push_of_another_session),
        TEST(test_join_finds_the_session_dead),
        TEST(test_refusals),
        TEST(test_odd_answers),
        TEST(test_push_gap),
        TEST(test_beat_knows_of_more_pushes),
        TEST(test_pushes_of_an_earlier_stay),
        TEST(test_ghost),
        TEST(test_held_says_session_lost),
        TEST(test_pages),
        cmocka_unit_test_setup_teardown(test_subscribed_late, setup, teardown),
        TEST(test_asks_after_reconnection),
        TEST(test_pushes_of_the_server_before),
        TEST(test_asking_keeps_nothing_alive),
        cmocka_unit_test_setup_teardown(test_wanted_while_the_replicas_are_waited_for,
                                        setup_replicated, teardown),
        TEST(test_no_beat_before_what_was_lost),
        TEST(test_no_beat_while_nothing_is_learned),
        TEST(test_ops_without_a_link),
        TEST(test_cancel),
        TEST(test_cancel_one_of_several),
        TEST(test_ids_are_all_taken),
        TEST(test_close_with_ops),
        TEST(test_who_waits_sweeps),
        TEST(test_observe),
        TEST(test_integers_beyond_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
