/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in every order, doubled, late, rolled back: one after the other. Simultaneous calls are in both.c. */
#include "desk.h"

#include "lib/patience.h"
#include "lib/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- All short orders ------------------------------------------------------------------- */

#define LENGTH 4 /* calls of one branch: 3 + 9 + 27 + 81 orders, each a prefix of another */

static void play(void *conn, unsigned order)
{
    struct rota_call call = call_new(ROTA_OP_TRY);
    struct model model = {0};
    int done[4] = {0};

    for (int i = 0; i < LENGTH; i++, order /= 3) {
        enum rota_op op = (enum rota_op)(1 + order % 3);
        struct rota_call next = call_as(&call, op);
        enum rota_fenced want = model_call(&model, op);
        assert_int_equal(serve(conn, &next), want);
        done[op] += want == ROTA_FENCE_DO;
    }
    for (enum rota_op op = ROTA_OP_TRY; op <= ROTA_OP_CANCEL; op++)
        assert_int_equal(effects(&call, op), done[op]);
}

static void every_order_of_four_calls(void **state)
{
    void *conn = desk_open();

    (void)state;
    for (int level = 0; HERE->levels[level] != NULL; level++) {
        desk_sql(conn, "%s", HERE->levels[level]);
        for (unsigned order = 0; order < 81; order++)
            play(conn, order);
    }
    desk_close(conn);
}

static void a_call_that_was_rolled_back_was_never_called(void **state)
{
    void *conn = desk_open();

    (void)state;
    for (enum rota_op op = ROTA_OP_TRY; op <= ROTA_OP_CANCEL; op++) {
        struct rota_call call = call_new(ROTA_OP_TRY), again = call_as(&call, op);
        if (op != ROTA_OP_TRY)
            assert_int_equal(serve(conn, &call), ROTA_FENCE_DO);
        desk_sql(conn, "%s", HERE->begin);
        assert_int_equal(fenced(conn, &again), ROTA_FENCE_DO);
        effect(conn, &again);
        desk_sql(conn, "ROLLBACK");
        assert_int_equal(effects(&call, op), 0);
        assert_int_equal(serve(conn, &again), ROTA_FENCE_DO);
        assert_int_equal(effects(&call, op), 1);
    }
    desk_close(conn);
}

static void branches_of_one_transaction_are_apart(void **state)
{
    struct rota_call one = call_new(ROTA_OP_TRY), two = one;
    void *conn = desk_open();

    (void)state;
    two.branch += 7;
    assert_int_equal(serve(conn, &one), ROTA_FENCE_DO);
    assert_int_equal(serve(conn, &two), ROTA_FENCE_DO);
    one = call_as(&one, ROTA_OP_CANCEL);
    assert_int_equal(serve(conn, &one), ROTA_FENCE_DO);
    two = call_as(&two, ROTA_OP_CONFIRM);
    assert_int_equal(serve(conn, &two), ROTA_FENCE_DO);
    desk_close(conn);
}

static void a_try_long_after_its_deadline_is_refused(void **state)
{
    struct rota_call call = call_aged(ROTA_OP_TRY, INT64_C(2) * 3600 * 1000);
    struct rota_call fresh = call_aged(ROTA_OP_TRY, INT64_C(600) * 1000); /* clocks differ */
    void *conn = desk_open();

    (void)state;
    assert_int_equal(serve(conn, &call), ROTA_FENCE_LATE);
    assert_int_equal(effects(&call, ROTA_OP_TRY), 0);
    assert_int_equal(serve(conn, &fresh), ROTA_FENCE_DO);
    call = call_as(&call, ROTA_OP_CANCEL); /* that has no end: it is asked until it is answered */
    assert_int_equal(serve(conn, &call), ROTA_FENCE_EMPTY);
    desk_close(conn);
}

/* ---- Ten thousand random ones ------------------------------------------------------------- */

#define ORDERS 10000
#define WINDOW 48 /* branches that are under way together */
#define BATCH 32  /* calls in one transaction, of different branches */

/* A branch, and a transport that doubles, delays and reorders the calls that are still to arrive. The last one is
 * repeated until it is answered, so it comes at the end, too. */
struct order {
    struct rota_call call;
    struct model model;
    uint8_t left[4]; /* of each operation, to arrive in any order */
    enum rota_op last;
    bool over;
};

struct world {
    void *conn;
    struct rt_random random;
    struct order open[WINDOW];
    long begun, calls, rolled_back;
};

static void begin_order(struct world *w, struct order *o)
{
    bool commit = rt_random_below(&w->random, 2) == 0;

    *o = (struct order){.call = call_new(ROTA_OP_TRY)};
    o->last = commit ? ROTA_OP_CONFIRM : ROTA_OP_CANCEL;
    o->left[ROTA_OP_TRY] = (uint8_t)rt_random_below(&w->random, 3);
    o->left[o->last] = (uint8_t)rt_random_below(&w->random, 3);
    if (commit) { /* COMMIT stands when the try was answered, so that comes first */
        assert_int_equal(model_call(&o->model, ROTA_OP_TRY), ROTA_FENCE_DO);
        desk_sql(w->conn, "%s", HERE->begin);
        assert_int_equal(fenced(w->conn, &o->call), ROTA_FENCE_DO);
        effect(w->conn, &o->call);
        desk_sql(w->conn, "COMMIT");
    }
    w->begun++;
}

static enum rota_op draw(struct world *w, const struct order *o)
{
    uint32_t sum = (uint32_t)o->left[ROTA_OP_TRY] + o->left[o->last];

    if (sum == 0)
        return o->last;
    return rt_random_below(&w->random, sum) < o->left[ROTA_OP_TRY] ? ROTA_OP_TRY : o->last;
}

static void arrive(struct world *w, struct order *o)
{
    enum rota_op op = draw(w, o);
    struct rota_call call = call_as(&o->call, op);

    o->over = o->left[ROTA_OP_TRY] + o->left[o->last] == 0;
    o->left[op] = (uint8_t)(o->left[op] - (o->left[op] > 0));
    enum rota_fenced want = model_call(&o->model, op), got = fenced(w->conn, &call);
    if (got != want)
        fail_msg("%s of %s: %d instead of %d", op == ROTA_OP_TRY ? "try" : "the rest", call.txn,
                 (int)got, (int)want);
    if (got == ROTA_FENCE_DO)
        effect(w->conn, &call);
    w->calls++;
}

/* One transaction with calls of many branches, committed or not; if not, its calls count as not arrived. */
static void batch(struct world *w)
{
    static struct order before[WINDOW];
    bool rolls_back = rt_random_below(&w->random, 10) == 0;

    memcpy(before, w->open, sizeof(before));
    desk_sql(w->conn, "%s", HERE->begin);
    for (int i = 0; i < BATCH; i++) {
        struct order *o = &w->open[rt_random_below(&w->random, WINDOW)];
        if (!o->over)
            arrive(w, o);
    }
    desk_sql(w->conn, rolls_back ? "ROLLBACK" : "COMMIT");
    if (rolls_back)
        memcpy(w->open, before, sizeof(before));
    w->rolled_back += rolls_back;
}

static void ten_thousand_random_orders(void **state)
{
    struct world w = {.conn = desk_open(), .random = {rt_seed()}};

    (void)state;
    printf("ROTA_SEED=%llu\n", (unsigned long long)w.random.state);
    HERE->site->admin("DELETE FROM effects");
    HERE->site->admin("DELETE FROM rota_fence");
    for (int i = 0; i < WINDOW; i++)
        begin_order(&w, &w.open[i]);
    for (bool busy = true; busy;) {
        batch(&w);
        busy = false;
        for (int i = 0; i < WINDOW; i++) {
            if (w.open[i].over && w.begun < ORDERS)
                begin_order(&w, &w.open[i]);
            busy = busy || !w.open[i].over;
        }
    }
    assert_int_equal(w.begun, ORDERS);
    assert_int_equal(
        desk_number("SELECT COUNT(*) FROM (SELECT 1 FROM effects GROUP BY txn, branch, "
                    "op HAVING COUNT(*) > 1) AS twice"),
        0);
    assert_int_equal(desk_number("SELECT COUNT(*) FROM (SELECT 1 FROM effects GROUP BY txn, branch "
                                 "HAVING COUNT(*) <> 2) AS reserved_for_ever"),
                     0);
    assert_int_equal(desk_number("SELECT COUNT(*) FROM rota_fence"), ORDERS);
    assert_int_equal(desk_number("SELECT COUNT(*) FROM rota_fence WHERE state = 1"), 0);
    printf("%ld orders, %ld calls, %ld transactions rolled back, %lld effects\n", w.begun, w.calls,
           w.rolled_back, desk_number("SELECT COUNT(*) FROM effects"));
    desk_close(w.conn);
}

const struct CMUnitTest cases_orders[] = {
    cmocka_unit_test(every_order_of_four_calls),
    cmocka_unit_test(a_call_that_was_rolled_back_was_never_called),
    cmocka_unit_test(branches_of_one_transaction_are_apart),
    cmocka_unit_test(a_try_long_after_its_deadline_is_refused),
    cmocka_unit_test(ten_thousand_random_orders),
};
const size_t cases_orders_count = sizeof(cases_orders) / sizeof(cases_orders[0]);
