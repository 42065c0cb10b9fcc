/* SPDX-License-Identifier: Apache-2.0 */
/* Two calls of one branch at once, on two connections: the second waits, and is told the result of the first. */
#include "desk.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A call in a thread of its own, which may wait ----------------------------------------- */

struct other {
    pthread_t thread;
    void *conn;
    struct rota_call call;
    int err;
    enum rota_fenced verdict;
    char errmsg[700];
};

static void *other_run(void *arg)
{
    struct other *o = arg;

    if (!HERE->site->sql(o->conn, HERE->begin)) {
        o->err = ROTA_BUSY;
        return NULL;
    }
    o->err = HERE->fence(o->conn, &o->call, &o->verdict);
    snprintf(o->errmsg, sizeof(o->errmsg), "%s", o->err != 0 ? rota_txn_errmsg(NULL) : "");
    return NULL;
}

static void other_start(struct other *o, const struct rota_call *call, enum rota_op op)
{
    o->err = 0;
    o->verdict = 0;
    o->call = call_as(call, op);
    assert_int_equal(pthread_create(&o->thread, NULL, other_run, o), 0);
}

/* It waits for a lock; where that cannot be seen, it may be waiting. */
static void until_blocked(void)
{
    for (int i = 0; HERE->blocked != NULL && desk_number("%s", HERE->blocked) == 0; i++) {
        assert_true(i < SITE_LIMIT_MS / 10);
        poll(NULL, 0, 10);
    }
}

static void other_end(struct other *o)
{
    assert_int_equal(pthread_join(o->thread, NULL), 0);
    if (o->err == 0 && o->verdict == ROTA_FENCE_DO)
        effect(o->conn, &o->call);
    desk_sql(o->conn, o->err == 0 ? "COMMIT" : "ROLLBACK");
}

/* Waits and is answered; or, where its view of the database is too old, is BUSY and is answered the next time. */
static enum rota_fenced other_verdict(struct other *o)
{
    other_end(o);
    if (o->err == ROTA_BUSY)
        return serve(o->conn, &o->call);
    if (o->err != 0)
        fail_msg("%s: %s", rota_strerror(o->err), o->errmsg);
    return o->verdict;
}

/* ---- A try is open, and its cancel comes ----------------------------------------------------- */

enum end { COMMITS, ROLLS_BACK, DIES };

static void try_then_cancel(const char *level, enum end end)
{
    struct rota_call call = call_new(ROTA_OP_TRY);
    struct other o = {.conn = desk_open()};
    void *conn = desk_open();

    desk_sql(conn, "%s", level);
    desk_sql(o.conn, "%s", level);
    desk_sql(conn, "%s", HERE->begin);
    assert_int_equal(fenced(conn, &call), ROTA_FENCE_DO);
    effect(conn, &call);
    other_start(&o, &call, ROTA_OP_CANCEL);
    until_blocked();
    if (end == DIES && HERE->site->kill_connection != NULL)
        HERE->site->kill_connection(conn);
    else
        desk_sql(conn, end == COMMITS ? "COMMIT" : "ROLLBACK");
    assert_int_equal(other_verdict(&o), end == COMMITS ? ROTA_FENCE_DO : ROTA_FENCE_EMPTY);
    assert_int_equal(effects(&call, ROTA_OP_TRY), end == COMMITS);
    assert_int_equal(effects(&call, ROTA_OP_CANCEL), end == COMMITS);
    assert_int_equal(serve(o.conn, &call), ROTA_FENCE_LATE);
    desk_close(conn);
    desk_close(o.conn);
}

static void a_cancel_waits_for_an_open_try(void **state)
{
    (void)state;
    for (int level = 0; HERE->levels[level] != NULL; level++)
        for (enum end end = COMMITS; end <= DIES; end++)
            try_then_cancel(HERE->levels[level], end);
}

static void a_try_waits_for_an_open_cancel(void **state)
{
    (void)state;
    for (int level = 0; HERE->levels[level] != NULL; level++)
        for (enum end end = COMMITS; end <= DIES; end++) {
            struct rota_call call = call_new(ROTA_OP_CANCEL);
            struct other o = {.conn = desk_open()};
            void *conn = desk_open();
            desk_sql(o.conn, "%s", HERE->levels[level]);
            desk_sql(conn, "%s", HERE->begin);
            assert_int_equal(fenced(conn, &call), ROTA_FENCE_EMPTY);
            other_start(&o, &call, ROTA_OP_TRY);
            until_blocked();
            if (end == DIES && HERE->site->kill_connection != NULL)
                HERE->site->kill_connection(conn);
            else
                desk_sql(conn, end == COMMITS ? "COMMIT" : "ROLLBACK");
            assert_int_equal(other_verdict(&o), end == COMMITS ? ROTA_FENCE_LATE : ROTA_FENCE_DO);
            assert_int_equal(effects(&call, ROTA_OP_TRY), end != COMMITS);
            desk_close(conn);
            desk_close(o.conn);
        }
}

static void the_same_call_twice_at_once_is_done_once(void **state)
{
    (void)state;
    for (enum rota_op op = ROTA_OP_TRY; op <= ROTA_OP_CANCEL; op++) {
        struct rota_call call = call_new(ROTA_OP_TRY), twice = call_as(&call, op);
        struct other o = {.conn = desk_open()};
        void *conn = desk_open();
        if (op != ROTA_OP_TRY)
            assert_int_equal(serve(conn, &call), ROTA_FENCE_DO);
        desk_sql(conn, "%s", HERE->begin);
        assert_int_equal(fenced(conn, &twice), ROTA_FENCE_DO);
        effect(conn, &twice);
        other_start(&o, &twice, op);
        until_blocked();
        desk_sql(conn, "COMMIT");
        assert_int_equal(other_verdict(&o), ROTA_FENCE_DONE);
        assert_int_equal(effects(&call, op), 1);
        desk_close(conn);
        desk_close(o.conn);
    }
}

static void a_cancel_waits_for_a_prepared_try(void **state)
{
    struct rota_call call = call_new(ROTA_OP_TRY);
    struct other o = {.conn = desk_open()};
    void *conn = desk_open();
    char sql[200];

    (void)state;
    if (HERE->prepare == NULL) {
        desk_close(conn);
        desk_close(o.conn);
        skip();
    }
    desk_sql(conn, "%s", HERE->begin_prepared);
    assert_int_equal(fenced(conn, &call), ROTA_FENCE_DO);
    effect(conn, &call);
    snprintf(sql, sizeof(sql), "%s", HERE->prepare);
    for (char *part = sql, *next = NULL; part != NULL; part = next) {
        next = strstr(part, "; ");
        if (next != NULL)
            *next = '\0';
        desk_sql(conn, "%s", part);
        next = next != NULL ? next + 2 : NULL;
    }
    other_start(&o, &call, ROTA_OP_CANCEL);
    until_blocked();
    desk_sql(conn, "%s", HERE->commit_prepared);
    assert_int_equal(other_verdict(&o), ROTA_FENCE_DO);
    assert_int_equal(effects(&call, ROTA_OP_CANCEL), 1);
    desk_close(conn);
    desk_close(o.conn);
}

static void a_lock_that_does_not_come_is_busy(void **state)
{
    struct rota_call call = call_new(ROTA_OP_TRY), cancel = call_as(&call, ROTA_OP_CANCEL);
    void *conn = desk_open(), *second = desk_open();
    enum rota_fenced verdict = 77;

    (void)state;
    desk_sql(second, "%s", HERE->short_wait);
    desk_sql(conn, "%s", HERE->begin);
    assert_int_equal(fenced(conn, &call), ROTA_FENCE_DO);
    desk_sql(second, "BEGIN");
    assert_int_equal(HERE->fence(second, &cancel, &verdict), ROTA_BUSY);
    assert_int_equal(verdict, 77);
    assert_non_null(strstr(rota_txn_errmsg(NULL), "answer 425"));
    desk_sql(second, "ROLLBACK");
    desk_sql(conn, "COMMIT");
    assert_int_equal(serve(second, &cancel), ROTA_FENCE_DO);
    desk_close(conn);
    desk_close(second);
}

/* Its first statement was before the try: what it sees of the table is too old. */
static void a_transaction_that_is_too_old_says_nothing_wrong(void **state)
{
    (void)state;
    for (int level = 0; HERE->levels[level] != NULL; level++) {
        struct rota_call call = call_new(ROTA_OP_TRY), cancel = call_as(&call, ROTA_OP_CANCEL);
        void *conn = desk_open(), *old = desk_open();
        enum rota_fenced verdict = 0;
        desk_sql(old, "%s", HERE->levels[level]);
        desk_sql(old, "BEGIN");
        desk_sql(old, "SELECT COUNT(*) FROM work");
        assert_int_equal(serve(conn, &call), ROTA_FENCE_DO);
        int err = HERE->fence(old, &cancel, &verdict);
        assert_true(err == 0 || (err == ROTA_BUSY && HERE->reads_old));
        desk_sql(old, "ROLLBACK");
        if (err == 0)
            assert_int_equal(verdict, ROTA_FENCE_DO);
        assert_int_equal(serve(old, &cancel), ROTA_FENCE_DO);
        assert_int_equal(effects(&call, ROTA_OP_CANCEL), 1);
        desk_close(conn);
        desk_close(old);
    }
}

/* ---- A crowd ------------------------------------------------------------------------------------ */

#define CROWD 3
#define BRANCHES 20

struct one_of_many {
    pthread_t thread;
    void *conn;
    const struct rota_call *calls; /* BRANCHES, each tried, and confirmed or cancelled */
    unsigned seed;
    bool failed;
};

static bool ask_until_answered(struct one_of_many *c, const struct rota_call *call)
{
    enum rota_fenced verdict = 0;
    char sql[200];

    for (int tries = 0; tries < 10000; tries++) {
        int err = HERE->site->sql(c->conn, HERE->begin) ? HERE->fence(c->conn, call, &verdict)
                                                        : ROTA_BUSY;
        snprintf(sql, sizeof(sql), "INSERT INTO effects VALUES ('%s', %u, %d)", call->txn,
                 call->branch, call->op);
        bool ok = err == 0 && (verdict != ROTA_FENCE_DO || HERE->site->sql(c->conn, sql));
        if (ok && verdict != ROTA_FENCE_EARLY && HERE->site->sql(c->conn, "COMMIT"))
            return true;
        HERE->site->sql(c->conn, "ROLLBACK");
        if (err != 0 && err != ROTA_BUSY) {
            fprintf(stderr, "%s: %s\n", rota_strerror(err), rota_txn_errmsg(NULL));
            return false;
        }
        if (ok)
            return true; /* EARLY: the try comes later, and the confirm again */
    }
    return false;
}

static void *crowd_run(void *arg)
{
    struct one_of_many *c = arg;

    for (int i = 0; i < 6 * BRANCHES && !c->failed; i++) {
        struct rota_call call = c->calls[rand_r(&c->seed) % BRANCHES];
        bool first = rand_r(&c->seed) % 2 == 0;
        call.op = first ? ROTA_OP_TRY : call.op;
        c->failed = !ask_until_answered(c, &call);
    }
    return NULL;
}

static void a_crowd_does_each_thing_once(void **state)
{
    struct rota_call calls[BRANCHES];
    struct one_of_many crowd[CROWD];

    (void)state;
    for (int i = 0; i < BRANCHES; i++)
        calls[i] = call_new(i % 2 == 0 ? ROTA_OP_CONFIRM : ROTA_OP_CANCEL);
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = (struct one_of_many){
            .conn = desk_open(), .calls = calls, .seed = (unsigned)rand()};
        assert_int_equal(pthread_create(&crowd[i].thread, NULL, crowd_run, &crowd[i]), 0);
    }
    for (int i = 0; i < CROWD; i++)
        pthread_join(crowd[i].thread, NULL);
    for (int i = 0; i < BRANCHES; i++) { /* and the last word */
        assert_true(ask_until_answered(&crowd[0], &calls[i]));
        long long tried = effects(&calls[i], ROTA_OP_TRY);
        long long ended = effects(&calls[i], (enum rota_op)calls[i].op);
        assert_true(tried <= 1 && ended == tried);
    }
    for (int i = 0; i < CROWD; i++) {
        assert_false(crowd[i].failed);
        desk_close(crowd[i].conn);
    }
}

const struct CMUnitTest cases_both[] = {
    cmocka_unit_test(a_cancel_waits_for_an_open_try),
    cmocka_unit_test(a_try_waits_for_an_open_cancel),
    cmocka_unit_test(the_same_call_twice_at_once_is_done_once),
    cmocka_unit_test(a_cancel_waits_for_a_prepared_try),
    cmocka_unit_test(a_lock_that_does_not_come_is_busy),
    cmocka_unit_test(a_transaction_that_is_too_old_says_nothing_wrong),
    cmocka_unit_test(a_crowd_does_each_thing_once),
};
const size_t cases_both_count = sizeof(cases_both) / sizeof(cases_both[0]);
