/* SPDX-License-Identifier: Apache-2.0 */
/* Between a desk and an engine, in virtual time: the engine is the test, which sees each op and answers it. */
#include "client/dispatch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define OPS_MAX 16

static struct rt_loop loop;
static struct rt_dispatch dispatch;
static struct rt_conn conn;
static struct rt_op *ops[OPS_MAX]; /* submitted, not answered */
static size_t op_count;

static const struct rt_event *heard; /* inside the next submit; NULL: nothing */

static void submit(struct rt_conn *c, struct rt_op *op)
{
    assert_ptr_equal(c, &conn);
    assert_true(op_count < OPS_MAX);
    ops[op_count++] = op;
    const struct rt_event *event = heard;
    heard = NULL;
    if (event != NULL)
        dispatch.up.event(&dispatch.up, event);
}

static const struct rt_engine engine = {.submit = submit};

static void on_news(struct rt_dispatch *d, struct rt_ask *ask, unsigned news)
{
    (void)d;
    (void)ask;
    (void)news;
}

static const struct rt_dispatch_hooks hooks = {.news = on_news};

/* The only op that is open: it must be of KIND. */
static struct rt_op *the_op(enum rt_op_kind kind)
{
    rt_dispatch_drain(&dispatch);
    assert_int_equal(op_count, 1);
    assert_int_equal(ops[0]->kind, kind);
    return ops[0];
}

static void answer(struct rt_op *op, int err)
{
    op_count = 0;
    op->err = err;
    dispatch.up.done(&dispatch.up, op);
    rt_dispatch_drain(&dispatch);
}

static void advance_to(int64_t at)
{
    rt_loop_arm(&loop);
    rt_loop_advance(&loop, at);
    rt_loop_turn(&loop, rt_dispatch_timer, &dispatch);
}

/* A client whose first ask opened its session, with TTL_MS; the ask goes on as a JOIN. */
static void begin(uint32_t call_ms, uint32_t ttl_ms, struct rt_ask *ask)
{
    struct rt_desk_options options = {
        .pass_limit = 16, .pass_ms = 10, .call_ms = call_ms, .nonce = 1000};
    rt_loop_init_virtual(&loop);
    conn = (struct rt_conn){
        .engine = &engine, .up = &dispatch.up, .loop = &loop, .call_ms = call_ms};
    assert_int_equal(rt_dispatch_init(&dispatch, &loop, &options, &hooks), 0);
    dispatch.conn = &conn;
    op_count = 0;
    ask->line = rt_names_get(&dispatch.names, "a", NULL);
    assert_non_null(ask->line);
    rt_desk_ask(&dispatch.desk, ask, rt_loop_now(&loop));
    struct rt_op *op = the_op(RT_OP_BEAT);
    assert_true(op->beat.open);
    assert_true(op->deadline == call_ms * RT_MS);
    op->beat.session = 5;
    op->beat.ttl_ms = ttl_ms;
    answer(op, 0);
}

static void end(void)
{
    op_count = 0;
    dispatch.conn = NULL;
    rt_dispatch_abort(&dispatch);
    rt_dispatch_fini(&dispatch);
    rt_loop_fini(&loop);
}

/* A renewal waits for its answer for a quarter of the ttl at most: otherwise, with a patience of 20 s and a ttl
 * of 8 s, one lost reply would cost the session. */
static void a_renewal_is_waited_for_a_quarter_of_the_ttl(void **state)
{
    static const struct {
        uint32_t call_ms, ttl_ms, patience_ms;
    } known[] = {{20000, 8000, 2000}, {1000, 8000, 1000}, {2001, 8000, 2000}, {1999, 8000, 1999}};
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct rt_ask ask = {.owner = 1};
        begin(known[i].call_ms, known[i].ttl_ms, &ask);
        struct rt_op *join = the_op(RT_OP_JOIN);
        join->join.joins[0].number = 7;
        join->join.joins[0].granted = true;
        answer(join, 0);
        advance_to(dispatch.desk.session.beat_at);
        struct rt_op *beat = the_op(RT_OP_BEAT);
        assert_false(beat->beat.open);
        assert_int_equal(beat->beat.session, 5);
        assert_int_equal(beat->beat.ticket_count, 1);
        assert_int_equal(beat->beat.tickets[0], 7);
        assert_int_equal(beat->deadline - rt_loop_now(&loop), known[i].patience_ms * RT_MS);
        end();
    }
}

static uint64_t joined_nonce; /* by begin_held */

/* Begins, and holds by ticket 7. */
static void begin_held(struct rt_ask *ask)
{
    begin(5000, 0, ask);
    struct rt_op *join = the_op(RT_OP_JOIN);
    joined_nonce = join->join.joins[0].nonce;
    join->join.joins[0].number = 7;
    join->join.joins[0].granted = true;
    answer(join, 0);
    assert_int_equal(ask->state, RT_ASK_HELD);
}

/* Otherwise each try would start the wait anew: 7.5 s for 5, 35 for 20. */
static void the_tries_of_a_release_share_its_time(void **state)
{
    (void)state;
    struct rt_ask ask = {.owner = 1};
    begin_held(&ask);
    rt_desk_release(&dispatch.desk, &ask, rt_loop_now(&loop));
    struct rt_op *leave = the_op(RT_OP_LEAVE);
    assert_false(leave->leave.untold);
    assert_int_equal(leave->leave.number, 7);
    assert_int_equal(leave->leave.nonce, joined_nonce); /* the number may be another's by then */
    assert_int_equal(leave->deadline, 5000 * RT_MS);
    advance_to(2500 * RT_MS);
    answer(leave, ROTA_UNKNOWN);
    advance_to(2520 * RT_MS);
    leave = the_op(RT_OP_LEAVE);
    assert_int_equal(leave->deadline, 5000 * RT_MS);
    advance_to(4990 * RT_MS);
    snprintf(conn.errmsg, sizeof(conn.errmsg), "away");
    answer(leave, ROTA_UNKNOWN);
    dispatch.err = 0; /* its user has taken the mutex since */
    advance_to(5000 * RT_MS);
    assert_int_equal(ask.state, RT_ASK_RELEASING);
    advance_to(5001 * RT_MS); /* between two tries: told what became of the last */
    assert_int_equal(ask.state, RT_ASK_DONE);
    assert_int_equal(ask.err, ROTA_UNKNOWN);
    assert_int_equal(dispatch.err, ROTA_UNKNOWN);
    assert_string_equal(dispatch.errmsg, "away");
    advance_to(5030 * RT_MS);
    leave = the_op(RT_OP_LEAVE); /* nobody waits for it any more */
    assert_int_equal(leave->deadline, 10030 * RT_MS);
    end();
}

/* A JOIN that arrived after it had been given up: nobody was told that it holds. */
static void a_stray_keeps_nothing(void **state)
{
    (void)state;
    struct rt_ask ask = {.owner = 1};
    begin_held(&ask);
    struct rt_event event = {
        .kind = RT_GRANTED, .session = 5, .number = 6, .nonce = 77, .name = "b"};
    dispatch.up.event(&dispatch.up, &event);
    struct rt_op *leave = the_op(RT_OP_LEAVE);
    assert_int_equal(leave->leave.number, 6);
    assert_int_equal(leave->leave.nonce, 77);
    assert_true(leave->leave.untold);
    answer(leave, 0);
    end();
}

/* It comes up while something else is being sent: nobody may come back to it for a long time. */
static void a_stray_is_given_back_in_the_same_step(void **state)
{
    (void)state;
    struct rt_ask ask = {.owner = 1};
    begin_held(&ask);
    const struct rt_event event = {.kind = RT_GRANTED, .session = 5, .number = 6, .name = "b"};
    heard = &event;
    rt_desk_release(&dispatch.desk, &ask, rt_loop_now(&loop));
    rt_dispatch_drain(&dispatch);
    assert_int_equal(op_count, 2);
    assert_int_equal(ops[0]->leave.number, 7);
    assert_int_equal(ops[1]->leave.number, 6);
    answer(ops[1], 0);
    answer(ops[0], 0);
    end();
}

/* Where no BEAT brings it up again it is tried until it is known to be gone: otherwise it would hold for nobody as long
 * as the process lives (I6). */
static void a_stray_is_left_until_it_is_gone_where_nothing_beats(void **state)
{
    (void)state;
    struct rt_ask ask = {.owner = 1};
    const struct rt_event event = {.kind = RT_GRANTED, .session = 5, .number = 6, .name = "b"};
    const int errors[] = {ROTA_UNREACHABLE, ROTA_UNKNOWN, ROTA_NOMEM, ROTA_LOST};
    begin_held(&ask);
    dispatch.up.event(&dispatch.up, &event);
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct rt_op *leave = the_op(RT_OP_LEAVE);
        assert_int_equal(leave->leave.number, 6);
        assert_true(leave->leave.untold);
        answer(leave, errors[i]);
        assert_int_equal(op_count, 0); /* not at once: that would be for ever */
        int64_t next = rt_timers_next(&loop.timers);
        assert_int_equal(next == RT_NEVER, errors[i] == ROTA_LOST);
        if (next != RT_NEVER)
            advance_to(next);
    }
    dispatch.up.event(&dispatch.up, &event);
    answer(the_op(RT_OP_LEAVE), ROTA_UNREACHABLE);
    end(); /* with one to be tried again */
}

static void a_stray_is_left_once_where_beats_bring_it_up(void **state)
{
    (void)state;
    struct rt_ask ask = {.owner = 1};
    const struct rt_event event = {.kind = RT_GRANTED, .session = 5, .number = 6, .name = "b"};
    begin(5000, 9000, &ask);
    struct rt_op *join = the_op(RT_OP_JOIN);
    join->join.joins[0].number = 7;
    join->join.joins[0].granted = true;
    answer(join, 0);
    dispatch.up.event(&dispatch.up, &event);
    answer(the_op(RT_OP_LEAVE), ROTA_UNREACHABLE);
    advance_to(dispatch.desk.session.beat_at);
    the_op(RT_OP_BEAT); /* and nothing beside it */
    end();
}

/* Its session is gone, and it with it. */
static void a_stray_of_a_session_that_ended_is_forgotten(void **state)
{
    (void)state;
    struct rt_ask ask = {.owner = 1};
    const struct rt_event event = {.kind = RT_GRANTED, .session = 5, .number = 6, .name = "b"};
    const struct rt_event over = {.kind = RT_SESSION_LOST, .session = 5};
    begin_held(&ask);
    dispatch.up.event(&dispatch.up, &event);
    struct rt_op *leave = the_op(RT_OP_LEAVE);
    dispatch.up.event(&dispatch.up, &over);
    answer(leave, ROTA_UNREACHABLE);
    assert_int_equal(op_count, 0);
    assert_true(rt_timers_next(&loop.timers) == RT_NEVER);
    end();
}

/* Begins, and waits by a number that only names it: 1. */
static void begin_waiting(struct rt_ask *ask)
{
    begin(5000, 0, ask);
    struct rt_op *join = the_op(RT_OP_JOIN);
    join->join.joins[0].number = 1;
    answer(join, 0);
    assert_int_equal(ask->state, RT_ASK_QUEUED);
}

static void hear_granted(uint64_t number, uint64_t fence)
{
    struct rt_event event = {
        .kind = RT_GRANTED, .session = 5, .number = number, .fence = fence, .name = "a"};
    dispatch.up.event(&dispatch.up, &event);
    rt_dispatch_drain(&dispatch);
}

/* From the grant on it goes by its fence; a second GRANTED by the name it had is harmless. */
static void a_number_may_come_with_the_grant(void **state)
{
    (void)state;
    struct rt_ask ask = {.owner = 1};
    begin_waiting(&ask);
    hear_granted(1, 900);
    assert_int_equal(ask.state, RT_ASK_HELD);
    assert_int_equal(ask.fence, 900);
    hear_granted(1, 900);
    assert_int_equal(op_count, 0);
    assert_int_equal(ask.state, RT_ASK_HELD);
    rt_desk_release(&dispatch.desk, &ask, rt_loop_now(&loop));
    struct rt_op *leave = the_op(RT_OP_LEAVE);
    assert_int_equal(leave->leave.number, 900);
    op_count = 0;
    hear_granted(1, 900); /* also while it is given back */
    assert_int_equal(op_count, 0);
    answer(leave, 0);
    assert_int_equal(ask.state, RT_ASK_DONE);
    end();
}

/* The LEAVE names what the engine has forgotten by then: the fence is left too, or it would be held for nobody. */
static void a_grant_that_crosses_its_giving_up_is_given_back(void **state)
{
    (void)state;
    struct rt_ask ask = {.owner = 1};
    begin_waiting(&ask);
    assert_true(rt_desk_cancel(&dispatch.desk, &ask, ROTA_CANCELED, rt_loop_now(&loop)));
    struct rt_op *leave = the_op(RT_OP_LEAVE);
    assert_int_equal(leave->leave.number, 1);
    op_count = 0;
    hear_granted(1, 900);
    struct rt_op *stray = the_op(RT_OP_LEAVE);
    assert_int_equal(stray->leave.number, 900);
    assert_true(stray->leave.untold);
    answer(stray, 0);
    answer(leave, ROTA_LOST);
    assert_int_equal(ask.state, RT_ASK_DONE);
    hear_granted(1, 901); /* nobody knows it any more */
    stray = the_op(RT_OP_LEAVE);
    assert_int_equal(stray->leave.number, 901);
    answer(stray, 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_renewal_is_waited_for_a_quarter_of_the_ttl),
        cmocka_unit_test(the_tries_of_a_release_share_its_time),
        cmocka_unit_test(a_stray_keeps_nothing),
        cmocka_unit_test(a_stray_is_given_back_in_the_same_step),
        cmocka_unit_test(a_stray_is_left_until_it_is_gone_where_nothing_beats),
        cmocka_unit_test(a_stray_is_left_once_where_beats_bring_it_up),
        cmocka_unit_test(a_stray_of_a_session_that_ended_is_forgotten),
        cmocka_unit_test(a_number_may_come_with_the_grant),
        cmocka_unit_test(a_grant_that_crosses_its_giving_up_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
