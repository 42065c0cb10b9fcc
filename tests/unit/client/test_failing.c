/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on an engine that fails as it is told: what each returns, what it says, and how often it asks. */
#include "client/client.h"
#include "engine/wrap.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PATIENT_MS 30000
#define CALL_MS 100  /* how long calls insist; what they answer does not depend on it */
#define LOST_REPLY 1 /* it takes effect, and nobody is told */
#define NO_REPLY 2   /* nobody knows yet */

static enum rt_op_kind kind; /* of the ops that fail ... */
static int plan[4];          /* ... one after the other so; the last goes on for ever */
static int planned, asked;
static bool lose_reply;
static struct rota *client;   /* the one under test */
static struct rt_op *kept;    /* not answered: the caller is interrupted meanwhile ... */
static int err_when_canceled; /* ... and gives it up */

/* ---- The engine: between the client and mem ------------------------------ */

static void on_done(struct rt_up *up, struct rt_op *op)
{
    struct rt_wrap *wrap = rt_wrap_of_up(up);
    rt_wrap_follow(wrap);
    rt_conn_done(&wrap->conn, op, lose_reply ? ROTA_UNKNOWN : op->err);
}

static void on_event(struct rt_up *up, const struct rt_event *event)
{
    rt_conn_event(&rt_wrap_of_up(up)->conn, event);
}

static void submit(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_conn *inner = ((struct rt_wrap *)(void *)conn)->inner;
    int err = 0;
    if (op->kind == kind && planned > 0) {
        err = plan[asked < planned ? asked : planned - 1];
        asked++;
    }
    if (err == NO_REPLY) {
        assert_null(kept);
        kept = op;
        rota_interrupt(client); /* as from another thread, or a signal */
    } else if (err == 0 || err == LOST_REPLY) {
        lose_reply = err == LOST_REPLY; /* mem is done when it returns */
        inner->engine->submit(inner, op);
        lose_reply = false;
    } else {
        snprintf(conn->errmsg, sizeof(conn->errmsg), "as planned");
        rt_conn_done(conn, op, err);
    }
}

static void cancel(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_conn *inner = ((struct rt_wrap *)(void *)conn)->inner;
    if (op != kept) {
        inner->engine->cancel(inner, op);
        return;
    }
    kept = NULL;
    rt_conn_done(conn, op, err_when_canceled);
}

static void close_inner(struct rt_conn *conn)
{
    rt_wrap_close_inner((struct rt_wrap *)(void *)conn);
}

static const struct rt_engine failing = {
    .conn_size = sizeof(struct rt_wrap),
    .close = close_inner,
    .submit = submit,
    .cancel = cancel,
    .caps = rt_wrap_caps,
};

static struct rota *open_for(uint32_t call_ms)
{
    struct rota_options opts = {.flags = ROTA_NO_KEEPER, .call_ms = call_ms};
    struct rota *r = NULL;
    planned = 0;
    assert_int_equal(rota_open(&r, "mem:failing", &opts), 0);
    assert_int_equal(rt_wrap_put(&r->d.conn, &failing), 0);
    struct rt_wrap *wrap = (struct rt_wrap *)(void *)r->d.conn;
    client = r;
    wrap->up = (struct rt_up){.done = on_done, .event = on_event, .held = rt_wrap_held};
    return r;
}

static struct rota *open_failing(void)
{
    return open_for(CALL_MS);
}

#define FAIL(which, ...)                                \
    do {                                                \
        const int errors_[] = {__VA_ARGS__};            \
        kind = which;                                   \
        planned = (int)(sizeof(errors_) / sizeof(int)); \
        memcpy(plan, errors_, sizeof(errors_));         \
        asked = 0;                                      \
    } while (0)

/* ---- The calls ---------------------------------------------------------- */

static struct rota_lock *lock; /* held, on "held" */

static int call_inspect(struct rota *r)
{
    struct rota_line *line = NULL;
    int rv = rota_inspect(r, "held", &line);
    assert_int_equal(rv == 0, line != NULL); /* outputs are untouched on error */
    rota_line_free(line);
    return rv;
}

static int call_list(struct rota *r)
{
    struct rota_line *lines = NULL;
    size_t count = 77;
    int rv = rota_list(r, "", &lines, &count);
    assert_int_equal(rv == 0, lines != NULL && count == 1);
    if (rv == 0)
        rota_list_free(lines, count);
    return rv;
}

static int call_break(struct rota *r)
{
    return rota_break(r, "held", rota_fence(lock));
}

static int call_reset(struct rota *r)
{
    return rota_latch_reset(r, "latch");
}

static int call_down(struct rota *r)
{
    return rota_latch_down(r, "latch", 2, "party");
}

static int call_once(struct rota *r)
{
    static int calls;
    char key[24];
    uint64_t fence = 77;
    snprintf(key, sizeof(key), "once-%d", ++calls);
    int rv = rota_once(r, key, 0, &fence);
    assert_int_equal(rv == 0, fence != 77);
    return rv;
}

static void on_verdict(void *arg, const struct rota_verdict *verdict)
{
    (void)arg, (void)verdict;
}

static int call_doctor(struct rota *r)
{
    return rota_doctor(r, on_verdict, NULL);
}

static int call_check(struct rota *r)
{
    (void)r;
    return rota_check(lock);
}

static int call_downgrade(struct rota *r)
{
    (void)r;
    return rota_downgrade(lock);
}

static void on_front(void *arg, const struct rota_front *front)
{
    (void)arg, (void)front;
}

static int call_observe(struct rota *r)
{
    uint64_t id = 77;
    int rv = rota_observe(r, "held", on_front, NULL, &id);
    assert_int_equal(rv == 0, id != 77);
    if (rv != 0) {
        asked--; /* it says that it is over, in case it was begun */
        return rv;
    }
    planned = 0;
    return rota_unobserve(r, id);
}

static const struct {
    const char *name;
    int (*run)(struct rota *r);
    enum rt_op_kind kind;
    bool changes; /* what may have happened stays open */
} calls[] = {
    {"inspect", call_inspect, RT_OP_INSPECT, false},
    {"list", call_list, RT_OP_LIST, false},
    {"break", call_break, RT_OP_BREAK, true},
    {"reset", call_reset, RT_OP_BREAK, true},
    {"down", call_down, RT_OP_JOIN, true},
    {"once", call_once, RT_OP_JOIN, true},
    {"doctor", call_doctor, RT_OP_CHECK, false},
    {"check", call_check, RT_OP_CHANGE, true},
    {"downgrade", call_downgrade, RT_OP_CHANGE, true},
    {"observe", call_observe, RT_OP_OBSERVE, false},
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static void expect_at(struct rota *r, size_t i, int rv, int err, int times, int line)
{
    if (rv != err || (times > 0 && asked != times))
        fail_msg("line %d, %s: %s after %d, not %s after %d", line, calls[i].name,
                 rota_strerror(rv), asked, rota_strerror(err), times);
    if (err != 0 && err != ROTA_LOST && strcmp(rota_errmsg(r), "as planned") != 0)
        fail_msg("line %d, %s says: %s", line, calls[i].name, rota_errmsg(r));
}
#define expect(r, i, rv, err, times) expect_at(r, i, rv, err, times, __LINE__)

static struct rota *begin_for(uint32_t call_ms)
{
    struct rota *r = open_for(call_ms);
    assert_int_equal(rota_acquire(r, "held", NULL, &lock), 0);
    return r;
}

static struct rota *begin(void)
{
    return begin_for(CALL_MS);
}

static void end(struct rota *r)
{
    planned = 0;
    (void)rota_release(lock);
    rota_close(r);
}

static void a_definite_error_is_told_at_once(void **state)
{
    static const int errors[] = {ROTA_PROTOCOL, ROTA_AUTH, ROTA_UNSUPPORTED, ROTA_NOMEM};
    (void)state;
    for (size_t i = 0; i < CALLS; i++)
        for (size_t k = 0; k < 4; k++) {
            struct rota *r = begin();
            FAIL(calls[i].kind, errors[k]);
            expect(r, i, calls[i].run(r), errors[k], 1);
            end(r);
        }
}

static void a_lost_request_is_sent_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < CALLS; i++) {
        struct rota *r = begin_for(PATIENT_MS); /* three tries, whatever else the machine does */
        FAIL(calls[i].kind, ROTA_UNREACHABLE, ROTA_UNKNOWN, ROTA_PROTOCOL);
        expect(r, i, calls[i].run(r), ROTA_PROTOCOL, 3);
        FAIL(calls[i].kind, ROTA_UNREACHABLE, 0);
        int rv = calls[i].run(r);
        expect(r, i, rv, 0, 2);
        end(r);
    }
}

/* I5: nobody knows whether it was done. A look changes nothing: it just could not be had. */
static void what_stays_open_is_unknown(void **state)
{
    (void)state;
    for (size_t i = 0; i < CALLS; i++) {
        struct rota *r = begin();
        FAIL(calls[i].kind, ROTA_UNREACHABLE);
        expect(r, i, calls[i].run(r), ROTA_UNREACHABLE, 0);
        FAIL(calls[i].kind, ROTA_UNKNOWN, ROTA_UNREACHABLE);
        expect(r, i, calls[i].run(r), calls[i].changes ? ROTA_UNKNOWN : ROTA_UNREACHABLE, 0);
        end(r);
    }
}

/* An interrupted caller is told so; but not if a change may have been made (I5). */
static void an_interrupted_call_does_not_hide_what_may_be_done(void **state)
{
    (void)state;
    for (size_t i = 0; i < CALLS; i++) {
        struct rota *r = begin();
        err_when_canceled = ROTA_CANCELED;
        FAIL(calls[i].kind, NO_REPLY, 0);
        int rv = calls[i].run(r);
        if (rv != ROTA_CANCELED)
            fail_msg("%s: %s", calls[i].name, rota_strerror(rv));
        err_when_canceled = ROTA_UNKNOWN;
        FAIL(calls[i].kind, NO_REPLY, 0);
        rv = calls[i].run(r);
        if (rv != (calls[i].changes ? ROTA_UNKNOWN : ROTA_CANCELED))
            fail_msg("%s, open: %s", calls[i].name, rota_strerror(rv));
        end(r);
    }
}

/* A BREAK that was done and retried finds nothing: perhaps by its own doing. */
static void a_break_asked_again_that_finds_nothing_is_unknown(void **state)
{
    (void)state;
    struct rota *r = begin();
    FAIL(RT_OP_BREAK, LOST_REPLY, 0);
    assert_int_equal(call_break(r), ROTA_UNKNOWN);
    assert_int_equal(asked, 2);
    FAIL(RT_OP_BREAK, 0);
    assert_int_equal(call_break(r), ROTA_LOST); /* it is known now that it is gone */
    assert_int_equal(asked, 1);
    end(r);
}

/* Retried with the same nonce: one count and one winner. */
static void a_join_asked_again_counts_once(void **state)
{
    (void)state;
    struct rota *r = begin();
    FAIL(RT_OP_JOIN, LOST_REPLY, 0);
    assert_int_equal(rota_latch_down(r, "latch-1", 2, NULL), 0);
    assert_int_equal(asked, 2);
    struct rota_line *line = NULL;
    assert_int_equal(rota_inspect(r, "latch-1", &line), 0);
    assert_int_equal(line->count, 1);
    rota_line_free(line);
    FAIL(RT_OP_JOIN, LOST_REPLY, 0);
    uint64_t fence = 0;
    assert_int_equal(rota_once(r, "once", 0, &fence), 0);
    assert_int_equal(asked, 2);
    assert_true(fence != 0);
    FAIL(RT_OP_JOIN, 0);
    assert_int_equal(rota_once(r, "once", 0, NULL), ROTA_BUSY);
    end(r);
}

/* ---- Taking and letting go ---------------------------------------------- */

static void an_ask_is_told_what_the_engine_said(void **state)
{
    (void)state;
    struct rota *r = open_failing();
    struct rota_lock *none = NULL;
    const char *names[] = {"a", "b"};
    struct rota_lock *both[2] = {NULL, NULL};
    FAIL(RT_OP_JOIN, ROTA_PROTOCOL);
    assert_int_equal(rota_acquire(r, "a", NULL, &none), ROTA_PROTOCOL);
    assert_string_equal(rota_errmsg(r), "as planned");
    assert_null(none);
    assert_int_equal(rota_elect(r, "a", "me", NULL, &none), ROTA_PROTOCOL);
    assert_int_equal(rota_barrier(r, "a", 2, 1000), ROTA_PROTOCOL);
    FAIL(RT_OP_JOIN_ALL, ROTA_AUTH);
    assert_int_equal(rota_acquire_all(r, names, 2, NULL, both), ROTA_AUTH);
    assert_string_equal(rota_errmsg(r), "as planned");
    assert_true(both[0] == NULL && both[1] == NULL);
    planned = 0;
    assert_int_equal(rota_acquire_all(r, names, 2, NULL, both), 0); /* nothing was left behind */
    assert_int_equal(rota_release(both[0]), 0);
    assert_int_equal(rota_release(both[1]), 0);
    rota_close(r);
}

static void a_session_that_cannot_be_opened_is_told(void **state)
{
    (void)state;
    struct rota *r = open_failing();
    struct rota_lock *none = NULL;
    FAIL(RT_OP_BEAT, ROTA_AUTH);
    assert_int_equal(rota_acquire(r, "a", NULL, &none), ROTA_AUTH);
    assert_string_equal(rota_errmsg(r), "as planned");
    planned = 0;
    assert_int_equal(rota_acquire(r, "a", NULL, &none), 0);
    assert_int_equal(rota_release(none), 0);
    rota_close(r);
}

static void a_release_insists_and_never_lies(void **state)
{
    (void)state;
    struct rota *r = begin();
    FAIL(RT_OP_LEAVE, ROTA_UNREACHABLE, 0);
    assert_int_equal(rota_release(lock), 0);
    assert_int_equal(asked, 2);
    planned = 0;
    assert_int_equal(rota_acquire(r, "held", NULL, &lock), 0);
    FAIL(RT_OP_LEAVE, LOST_REPLY, 0);
    assert_int_equal(rota_release(lock), ROTA_UNKNOWN); /* gone, but whose doing was it? */
    planned = 0;
    assert_int_equal(rota_acquire(r, "held", NULL, &lock), 0);
    FAIL(RT_OP_LEAVE, ROTA_UNREACHABLE);
    assert_int_equal(rota_release(lock), ROTA_UNKNOWN);
    planned = 0;
    rota_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_definite_error_is_told_at_once),
        cmocka_unit_test(a_lost_request_is_sent_again),
        cmocka_unit_test(what_stays_open_is_unknown),
        cmocka_unit_test(an_interrupted_call_does_not_hide_what_may_be_done),
        cmocka_unit_test(a_break_asked_again_that_finds_nothing_is_unknown),
        cmocka_unit_test(a_join_asked_again_counts_once),
        cmocka_unit_test(an_ask_is_told_what_the_engine_said),
        cmocka_unit_test(a_session_that_cannot_be_opened_is_told),
        cmocka_unit_test(a_release_insists_and_never_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
