/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong elsewhere, by name: each is a case here. */
#include "desk.h"

#include <string.h>

/* seata#6679: fences that look first lock the gap between rows, and cancels of different transactions wait for each
 * other. Here two empty ones proceed side by side. */
static void seata_6679_empty_cancels_do_not_block_each_other(void **state)
{
    (void)state;
    if (HERE->prepare == NULL)
        skip(); /* SQLite: there is one writer at a time */
    for (int level = 0; HERE->levels[level] != NULL; level++) {
        struct rota_call one = call_new(ROTA_OP_CANCEL), two = call_new(ROTA_OP_CANCEL);
        void *conn = desk_open(), *second = desk_open();
        desk_sql(conn, "%s", HERE->levels[level]);
        desk_sql(second, "%s", HERE->levels[level]);
        desk_sql(second, "%s", HERE->short_wait);
        desk_sql(conn, "%s", HERE->begin);
        desk_sql(second, "%s", HERE->begin);
        assert_int_equal(fenced(conn, &one), ROTA_FENCE_EMPTY);
        assert_int_equal(fenced(second, &two), ROTA_FENCE_EMPTY);
        desk_sql(second, "COMMIT");
        desk_sql(conn, "COMMIT");
        desk_close(conn);
        desk_close(second);
    }
}

/* seata#5596: the fence stood on the caller's side of the call. Here it is in the transaction of the work: a try whose
 * work failed has not been called. */
static void seata_5596_work_that_failed_leaves_no_fence(void **state)
{
    struct rota_call call = call_new(ROTA_OP_TRY), cancel = call_as(&call, ROTA_OP_CANCEL);
    void *conn = desk_open();

    (void)state;
    desk_sql(conn, "%s", HERE->begin);
    assert_int_equal(fenced(conn, &call), ROTA_FENCE_DO);
    assert_false(HERE->site->sql(conn, "INSERT INTO no_such_table VALUES (1)"));
    desk_sql(conn, "ROLLBACK");
    assert_int_equal(fence_rows(&call), 0);
    assert_int_equal(serve(conn, &cancel), ROTA_FENCE_EMPTY);
    assert_int_equal(serve(conn, &call), ROTA_FENCE_LATE);
    desk_close(conn);
}

/* seata-go#685: an empty rollback was an error, and was retried for ever. */
static void seata_go_685_an_empty_cancel_is_a_success_each_time(void **state)
{
    struct rota_call cancel = call_new(ROTA_OP_CANCEL);
    void *conn = desk_open();

    (void)state;
    assert_int_equal(serve(conn, &cancel), ROTA_FENCE_EMPTY);
    for (int i = 0; i < 3; i++)
        assert_int_equal(serve(conn, &cancel), ROTA_FENCE_DONE);
    assert_int_equal(effects(&cancel, ROTA_OP_CANCEL), 0);
    desk_close(conn);
}

/* seata#4530: a service with effects outside its database was not told that a cancel was empty. Here it can tell. */
static void seata_4530_an_empty_cancel_can_be_told_from_a_done_one(void **state)
{
    struct rota_call empty = call_new(ROTA_OP_CANCEL), call = call_new(ROTA_OP_TRY);
    struct rota_call cancel = call_as(&call, ROTA_OP_CANCEL);
    void *conn = desk_open();

    (void)state;
    assert_int_equal(serve(conn, &call), ROTA_FENCE_DO);
    assert_int_equal(serve(conn, &empty), ROTA_FENCE_EMPTY);
    assert_int_equal(serve(conn, &cancel), ROTA_FENCE_DO);
    desk_close(conn);
}

/* dtm#545: a confirm or cancel that can never succeed was silently retried for ever. Here it is refused each time, with
 * verdicts that are answered 409: the coordinator calls a person. */
static void dtm_545_what_cannot_be_is_refused_each_time(void **state)
{
    struct rota_call early = call_new(ROTA_OP_CONFIRM), call = call_new(ROTA_OP_TRY);
    struct rota_call confirm = call_as(&call, ROTA_OP_CONFIRM);
    struct rota_call cancel = call_as(&call, ROTA_OP_CANCEL);
    struct rota_call other = call_new(ROTA_OP_TRY), confirmed = call_as(&other, ROTA_OP_CONFIRM);
    struct rota_call crossed = call_as(&other, ROTA_OP_CANCEL);
    void *conn = desk_open();

    (void)state;
    assert_int_equal(serve(conn, &call), ROTA_FENCE_DO);
    assert_int_equal(serve(conn, &cancel), ROTA_FENCE_DO);
    assert_int_equal(serve(conn, &other), ROTA_FENCE_DO);
    assert_int_equal(serve(conn, &confirmed), ROTA_FENCE_DO);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(serve(conn, &early), ROTA_FENCE_EARLY);
        assert_int_equal(serve(conn, &confirm), ROTA_FENCE_CROSSED);
        assert_int_equal(serve(conn, &crossed), ROTA_FENCE_CROSSED);
    }
    assert_int_equal(effects(&call, ROTA_OP_CONFIRM), 0);
    assert_int_equal(effects(&other, ROTA_OP_CANCEL), 0);
    desk_close(conn);
}

/* An early confirm that was committed against the advice: still nothing is done twice, or contrary to what was said. */
static void an_early_confirm_that_was_committed_stays_early(void **state)
{
    struct rota_call confirm = call_new(ROTA_OP_CONFIRM), call = call_as(&confirm, ROTA_OP_TRY);
    struct rota_call cancel = call_as(&confirm, ROTA_OP_CANCEL);
    void *conn = desk_open();

    (void)state;
    for (int i = 0; i < 2; i++) {
        desk_sql(conn, "%s", HERE->begin);
        assert_int_equal(fenced(conn, &confirm), ROTA_FENCE_EARLY);
        desk_sql(conn, "COMMIT");
    }
    assert_int_equal(serve(conn, &call), ROTA_FENCE_LATE);
    assert_int_equal(serve(conn, &cancel), ROTA_FENCE_DONE);
    desk_close(conn);
}

/* dtm-php/dtm-client#6: the barrier left its transaction open. Here it is the caller's, before and after: whatever the
 * verdict, one ROLLBACK ends it, and the connection goes on. */
static void dtm_php_6_the_transaction_is_the_callers(void **state)
{
    struct rota_call call = call_new(ROTA_OP_TRY), cancel = call_as(&call, ROTA_OP_CANCEL);
    void *conn = desk_open(), *other = desk_open();
    enum rota_fenced verdict = 0;

    (void)state;
    desk_sql(other, "%s", HERE->short_wait);
    for (int i = 0; i < 3; i++) {
        struct rota_call *now = i == 1 ? &cancel : &call; /* DO, EMPTY, DO again: none stays */
        desk_sql(conn, "%s", HERE->begin);
        assert_int_equal(fenced(conn, now), i == 1 ? ROTA_FENCE_EMPTY : ROTA_FENCE_DO);
        desk_sql(conn, "ROLLBACK");
        assert_int_equal(HERE->fence(conn, now, &verdict), ROTA_INVALID); /* in none any more */
        assert_int_equal(fence_rows(&call), 0);
    }
    assert_int_equal(serve(other, &call), ROTA_FENCE_DO); /* nothing is locked */
    desk_close(conn);
    desk_close(other);
}

const struct CMUnitTest cases_peers[] = {
    cmocka_unit_test(seata_6679_empty_cancels_do_not_block_each_other),
    cmocka_unit_test(seata_5596_work_that_failed_leaves_no_fence),
    cmocka_unit_test(seata_go_685_an_empty_cancel_is_a_success_each_time),
    cmocka_unit_test(seata_4530_an_empty_cancel_can_be_told_from_a_done_one),
    cmocka_unit_test(dtm_545_what_cannot_be_is_refused_each_time),
    cmocka_unit_test(an_early_confirm_that_was_committed_stays_early),
    cmocka_unit_test(dtm_php_6_the_transaction_is_the_callers),
};
const size_t cases_peers_count = sizeof(cases_peers) / sizeof(cases_peers[0]);
