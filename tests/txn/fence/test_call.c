/* SPDX-License-Identifier: Apache-2.0 */
/* What a service is asked, from the four headers: it reads exactly what Rota writes, and nothing else. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "txn/fence/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEADLINE INT64_C(1800000000123)

static struct rt_name a_name(void)
{
    return (struct rt_name){rt_txn_id_make(7, DEADLINE - 60000, 99), 3, DEADLINE};
}

struct headers {
    const char *txn, *branch, *op, *deadline;
};

static struct headers good(void)
{
    static char txn[RT_NAME_TICKET], deadline[24];
    struct rt_name name = a_name();

    rt_name_ticket(&name, txn);
    snprintf(deadline, sizeof(deadline), "%" PRId64, DEADLINE);
    return (struct headers){txn, "3", "confirm", deadline};
}

static int take(struct rota_call *call, const struct headers *h)
{
    return rota_call_read(call, h->txn, h->branch, h->op, h->deadline);
}

static void four_headers_are_a_call(void **state)
{
    struct headers h = good();
    struct rota_call call, same;
    struct rt_name name = a_name(), back;

    (void)state;
    assert_int_equal(take(&call, &h), 0);
    assert_string_equal(call.txn, h.txn);
    assert_int_equal(call.branch, 3);
    assert_int_equal(call.op, ROTA_OP_CONFIRM);
    assert_int_equal(call.deadline_ms, DEADLINE);
    rt_call_of(&same, &name, ROTA_OP_CONFIRM);
    assert_memory_equal(&call, &same, sizeof(call));
    assert_int_equal(rt_call_check(&call, &back), 0);
    assert_int_equal(back.branch, 3);
    assert_true(rt_txn_id_same(&back.id, &name.id));
}

static void each_operation_has_its_word(void **state)
{
    static const struct {
        const char *word;
        int op;
    } words[] = {{"try", ROTA_OP_TRY}, {"confirm", ROTA_OP_CONFIRM}, {"cancel", ROTA_OP_CANCEL}};
    struct rota_call call;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct headers h = good();
        h.op = words[i].word;
        assert_int_equal(take(&call, &h), 0);
        assert_int_equal(call.op, words[i].op);
        assert_string_equal(rt_call_op_name(call.op), words[i].word);
    }
    assert_null(rt_call_op_name(0));
    assert_null(rt_call_op_name(4));
}

static void refused(const struct headers *h, const char *header)
{
    struct rota_call call, before;

    memset(&call, 0x5a, sizeof(call));
    before = call;
    assert_int_equal(take(&call, h), ROTA_INVALID);
    assert_memory_equal(&call, &before, sizeof(call));
    assert_non_null(strstr(rota_txn_errmsg(NULL), header));
    for (const char *c = rota_txn_errmsg(NULL); *c != '\0'; c++)
        assert_true(*c >= ' ' && *c <= '~');
}

static void whatever_is_not_exactly_a_header_is_refused(void **state)
{
    static const char *const txns[] = {
        NULL,
        "",
        "4",
        "rota",
        "00000007abcdef012345000000000063",              /* no deadline */
        "00000007ABCDEF012345000000000063-01a3185c507b", /* capitals: another key in a table */
        "00000007abcdef012345000000000063-01a3185c507b ",
        "gid-of-another-manager\r\nX: y"};
    static const char *const branches[] = {NULL, "",   "0",   "-1",         "+3",
                                           "03", "3 ", "0x3", "4294967296", "99999999999999999999"};
    static const char *const ops[] = {NULL, "", "Try", "commit", "try ", "rollback"};
    static const char *const deadlines[] = {
        NULL, "", "soon", "1.5", "-1", "281474976710656", "0", "1800000000124"};

    (void)state;
    for (size_t i = 0; i < sizeof(txns) / sizeof(*txns); i++) {
        struct headers h = good();
        h.txn = txns[i];
        refused(&h, "Rota-Txn");
    }
    for (size_t i = 0; i < sizeof(branches) / sizeof(*branches); i++) {
        struct headers h = good();
        h.branch = branches[i];
        refused(&h, "Rota-Branch");
    }
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        struct headers h = good();
        h.op = ops[i];
        refused(&h, "Rota-Op");
    }
    for (size_t i = 0; i < sizeof(deadlines) / sizeof(*deadlines); i++) {
        struct headers h = good();
        h.deadline = deadlines[i];
        refused(&h, "Rota-Deadline");
    }
    struct headers h = good();
    assert_int_equal(rota_call_read(NULL, h.txn, h.branch, h.op, h.deadline), ROTA_INVALID);
}

static void a_long_value_is_cut_in_the_error(void **state)
{
    char long_value[4096];
    struct headers h = good();

    (void)state;
    memset(long_value, 'x', sizeof(long_value) - 1);
    long_value[sizeof(long_value) - 1] = '\0';
    h.op = long_value;
    refused(&h, "Rota-Op");
    assert_non_null(strstr(rota_txn_errmsg(NULL), "...' is not try, confirm or cancel"));
}

static void a_call_that_nobody_filled_is_refused(void **state)
{
    struct headers h = good();
    struct rota_call call;
    struct rt_name name;

    (void)state;
    assert_int_equal(rt_call_check(NULL, &name), ROTA_INVALID);
    memset(&call, 'a', sizeof(call)); /* without an end */
    assert_int_equal(rt_call_check(&call, &name), ROTA_INVALID);
    for (int wrong = 0; wrong < 4; wrong++) {
        assert_int_equal(take(&call, &h), 0);
        call.branch = wrong == 0 ? 0 : call.branch;
        call.op = wrong == 1 ? 0 : wrong == 2 ? 4 : call.op;
        call.deadline_ms += wrong == 3;
        assert_int_equal(rt_call_check(&call, &name), ROTA_INVALID);
        assert_non_null(strstr(rota_txn_errmsg(NULL), "rota_call_read"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_headers_are_a_call),
        cmocka_unit_test(each_operation_has_its_word),
        cmocka_unit_test(whatever_is_not_exactly_a_header_is_refused),
        cmocka_unit_test(a_long_value_is_cut_in_the_error),
        cmocka_unit_test(a_call_that_nobody_filled_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
