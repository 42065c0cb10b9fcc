/* SPDX-License-Identifier: Apache-2.0 */
/* Ops of several requests: the gravest error is told, once, and memory lasts until the last answer. */
#include "engine/kit/words.h"
#include "engine/kit/work.h"
#include "lib/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int told, freed;

static void on_done(struct rt_up *up, struct rt_op *op)
{
    (void)up;
    (void)op;
    told++;
}

static struct rt_up up = {.done = on_done};
static struct rt_conn conn = {.up = &up};
static struct rt_work *works;

static void on_free(struct rt_conn *c, struct rt_work *w)
{
    assert_ptr_equal(c, &conn);
    assert_int_equal(w->pending, 0);
    freed++;
}

static struct rt_work *begin(struct rt_op *op)
{
    struct rt_work *w = rt_work_new(&works, &conn, sizeof(*w), op);
    assert_non_null(w);
    w->free = on_free;
    told = freed = 0;
    return w;
}

/* Also with its own words, and whatever came first or last. */
static void test_gravest(void **state)
{
    static const struct {
        int errs[3], told;
        const char *says;
    } all[] = {
        {{0, 0, 0}, 0, "before"},
        {{ROTA_BUSY, 0, ROTA_INVALID}, ROTA_BUSY, "0"},
        {{ROTA_BUSY, ROTA_UNKNOWN, ROTA_BUSY}, ROTA_UNKNOWN, "1"},
        {{ROTA_UNKNOWN, ROTA_LOST, ROTA_UNKNOWN}, ROTA_LOST, "1"},
        {{ROTA_LOST, ROTA_UNKNOWN, ROTA_NOMEM}, ROTA_LOST, "0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rt_op op = {.kind = RT_OP_BEAT};
        struct rt_work *w = begin(&op);
        (void)rt_words_fail(&conn, 0, "before");
        for (int k = 0; k < 3; k++)
            if (all[i].errs[k] != 0)
                rt_work_note(&conn, w, rt_words_fail(&conn, all[i].errs[k], "%d", k));
        rt_work_end(&conn, w, 0);
        assert_int_equal(told, 1);
        assert_int_equal(freed, 1);
        assert_int_equal(op.err, all[i].told);
        assert_string_equal(conn.errmsg, all[i].says);
    }
    assert_null(works);
}

/* The op is told at once; what is under way ends later, and then it is gone. */
static void test_end_before_the_last(void **state)
{
    struct rt_op op = {.kind = RT_OP_INSPECT};
    struct rt_work *w = begin(&op);
    (void)state;
    w->pending = 2;
    rt_work_end(&conn, w, rt_words_fail(&conn, ROTA_CANCELED, "canceled"));
    assert_int_equal(told, 1);
    assert_int_equal(op.err, ROTA_CANCELED);
    w->pending--;
    rt_work_settle(&conn, w);
    assert_int_equal(freed, 0);
    w->pending--;
    rt_work_end(&conn, w, ROTA_UNKNOWN); /* nobody is left to be told */
    assert_int_equal(told, 1);
    assert_int_equal(freed, 1);
    assert_null(works);
}

/* One without an op, and one that goes on, are not settled before their time. */
static void test_settle(void **state)
{
    struct rt_op op = {.kind = RT_OP_LIST};
    struct rt_work *w = begin(&op);
    (void)state;
    rt_work_settle(&conn, w);
    assert_int_equal(freed, 0);
    w->op = NULL;
    rt_work_settle(&conn, w);
    assert_int_equal(freed, 1);
    w = begin(NULL);
    w->pending = 1;
    rt_work_settle(&conn, w);
    assert_int_equal(freed, 0);
    w->pending = 0;
    rt_work_settle(&conn, w);
    assert_int_equal(freed, 1);
    assert_int_equal(told, 0);
}

static void test_close(void **state)
{
    struct rt_op op = {.kind = RT_OP_LIST};
    (void)state;
    scarce_begin();
    for (int i = 0; i < 3; i++)
        (void)begin(&op);
    struct rt_work *middle = works->next;
    middle->op = NULL;
    rt_work_settle(&conn, middle); /* out of the midst */
    rt_work_close(&works, &conn);
    assert_null(works);
    assert_int_equal(freed, 3);
    assert_int_equal(told, 0);
    assert_int_equal(scarce.live, 0);
    scarce_leave(0);
    assert_null(rt_work_new(&works, &conn, sizeof(struct rt_work), &op));
    assert_string_equal(conn.errmsg, "out of memory");
    scarce_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gravest),
        cmocka_unit_test(test_end_before_the_last),
        cmocka_unit_test(test_settle),
        cmocka_unit_test(test_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
