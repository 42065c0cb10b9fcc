/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that, by the journal's word, nobody will ask for are removed; all others stay. */
#include "desk.h"

#include "lib/proc.h"
#include "txn/core/name.h"
#include "txn/fence/call.h"
#include "txn/manager/manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rota_txns *m;
static void *conn;

static void open_all(const char *folder)
{
    char url[400];

    snprintf(url, sizeof(url), "file:%s/%s", rt_tmpdir(), folder);
    assert_int_equal(rota_txns_open(&m, url, NULL), 0);
    HERE->site->admin("DELETE FROM rota_fence");
    conn = desk_open();
}

static void close_all(void)
{
    desk_close(conn);
    rota_txns_close(m);
}

/* A call of a transaction of this journal, or of NUMBER's. */
static struct rota_call call_of(uint32_t number, enum rota_op op)
{
    struct rt_part part = part_new(1);
    struct rota_call call;

    part.name.id = rt_txn_id_make(number != 0 ? number : rt_txns_number(m),
                                  rt_txn_id_birth(&part.name.id),
                                  (uint64_t)rand() << 24 ^ (uint64_t)rand());
    rt_call_of(&call, &part.name, op);
    return call;
}

static void ask(struct rt_journal_op *op)
{
    if (rt_txns_ask(m, op) != 0)
        fail_msg("the journal: %s", rota_txn_errmsg(m));
}

/* ABORT stands; DONE: the whole transaction is finished. */
static void decide(const struct rota_call *call, bool done)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE}, end = {.kind = RT_JOURNAL_DONE};
    struct rt_name name;

    assert_int_equal(rt_call_check(call, &name), 0);
    op.decide.id = name.id;
    op.decide.decision = RT_JOURNAL_ABORT;
    op.decide.deadline_ms = call->deadline_ms;
    ask(&op);
    end.finish.ids = &name.id;
    end.finish.count = 1;
    if (done)
        ask(&end);
}

static struct rota_call played(uint32_t number, bool tried, bool decided, bool done)
{
    struct rota_call call = call_of(number, ROTA_OP_TRY), cancel = call_as(&call, ROTA_OP_CANCEL);

    if (tried)
        assert_int_equal(serve(conn, &call), ROTA_FENCE_DO);
    assert_int_equal(serve(conn, &cancel), tried ? ROTA_FENCE_DO : ROTA_FENCE_EMPTY);
    if (decided)
        decide(&call, done);
    return call;
}

static uint64_t cleaned(void)
{
    uint64_t count = 77;
    int err = HERE->clean(m, conn, &count);

    if (err != 0)
        fail_msg("%s: %s", rota_strerror(err), rota_txn_errmsg(m));
    return count;
}

/* As if two days had passed. */
static void two_days_later(void)
{
    desk_sql(conn, "UPDATE rota_fence SET deadline = deadline - 172800000");
}

static void what_is_over_goes_a_day_after_its_deadline(void **state)
{
    (void)state;
    open_all("over");
    struct rota_call whole = played(0, true, true, true), empty = played(0, false, true, true);
    struct rota_call undone = played(0, true, true, false), open = played(0, true, false, false);
    struct rota_call other = played(SITE_JOURNAL, true, false, false);
    assert_int_equal(cleaned(), 0); /* a try of them may still be on its way */
    two_days_later();
    assert_int_equal(cleaned(), 2);
    assert_int_equal(fence_rows(&whole) + fence_rows(&empty), 0);
    assert_int_equal(fence_rows(&undone), 1); /* its cancel will be asked for again */
    assert_int_equal(fence_rows(&open), 1);
    assert_int_equal(fence_rows(&other), 1); /* another journal's */
    decide(&undone, true);
    assert_int_equal(cleaned(), 1);
    assert_int_equal(cleaned(), 0);
    close_all();
}

static void what_is_reserved_stays_whatever_the_journal_says(void **state)
{
    struct rota_call call, confirm;

    (void)state;
    open_all("reserved");
    call = call_of(0, ROTA_OP_TRY);
    assert_int_equal(serve(conn, &call), ROTA_FENCE_DO);
    decide(&call, true); /* by hand: rota txn resolve --done */
    two_days_later();
    assert_int_equal(cleaned(), 0);
    assert_int_equal(fence_rows(&call), 1);
    confirm = call_as(&call, ROTA_OP_CONFIRM);
    assert_int_equal(serve(conn, &confirm), ROTA_FENCE_DO);
    assert_int_equal(cleaned(), 1);
    close_all();
}

static void what_the_journal_has_forgotten_goes(void **state)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_FORGET}, newer = {.kind = RT_JOURNAL_DECIDE};
    struct rt_name name;

    (void)state;
    open_all("forgotten");
    struct rota_call call = played(0, true, true, true);
    assert_int_equal(rt_call_check(&call, &name), 0);
    int64_t birth = rt_txn_id_birth(&name.id);
    newer.decide.id = rt_txn_id_make(rt_txns_number(m), birth + 1, 7);
    newer.decide.decision = RT_JOURNAL_ABORT;
    ask(&newer); /* by which the file knows that it is later */
    do {
        op.forget.before_ms = birth + 1;
        ask(&op);
    } while (op.forget.floor_ms <= birth);
    two_days_later();
    assert_int_equal(cleaned(), 1);
    assert_int_equal(fence_rows(&call), 0);
    close_all();
}

#define MANY 230 /* more than two pages */

static void page_by_page(void **state)
{
    (void)state;
    open_all("pages");
    desk_sql(conn, "%s", HERE->begin);
    for (int i = 0; i < MANY; i++) {
        struct rota_call call = call_of(0, ROTA_OP_CANCEL);
        assert_int_equal(fenced(conn, &call), ROTA_FENCE_EMPTY);
        if (i % 10 != 0) /* unfinished ones block nobody */
            decide(&call, true);
    }
    desk_sql(conn, "COMMIT");
    two_days_later();
    assert_int_equal(cleaned(), MANY - MANY / 10);
    assert_int_equal(desk_number("SELECT COUNT(*) FROM rota_fence"), MANY / 10);
    close_all();
}

static void cleaning_is_refused_clearly(void **state)
{
    uint64_t count = 77;

    (void)state;
    open_all("refused");
    assert_int_equal(HERE->clean(NULL, conn, &count), ROTA_INVALID);
    assert_int_equal(HERE->clean(m, NULL, &count), ROTA_INVALID);
    desk_sql(conn, "%s", HERE->begin);
    assert_int_equal(HERE->clean(m, conn, &count), ROTA_INVALID);
    assert_non_null(strstr(rota_txn_errmsg(m), "in a transaction"));
    desk_sql(conn, "ROLLBACK");
    HERE->site->admin("ALTER TABLE rota_fence RENAME TO somewhere_else");
    assert_int_equal(HERE->clean(m, conn, &count), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_txn_errmsg(m), "rota_fence"));
    HERE->site->admin("ALTER TABLE somewhere_else RENAME TO rota_fence");
    assert_int_equal(count, 77);
    assert_int_equal(HERE->clean(m, conn, NULL), 0);
    close_all();
}

const struct CMUnitTest cases_clean[] = {
    cmocka_unit_test(what_is_over_goes_a_day_after_its_deadline),
    cmocka_unit_test(what_is_reserved_stays_whatever_the_journal_says),
    cmocka_unit_test(what_the_journal_has_forgotten_goes),
    cmocka_unit_test(page_by_page),
    cmocka_unit_test(cleaning_is_refused_clearly),
};
const size_t cases_clean_count = sizeof(cases_clean) / sizeof(cases_clean[0]);
