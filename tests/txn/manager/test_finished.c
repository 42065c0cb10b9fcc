/* SPDX-License-Identifier: Apache-2.0 */
/* A person says that a transaction is finished (resolve --done) while a process is at work on it: nothing of it is called
 * after that. The person comes while a service is being called; the transaction is over when the manager has let go of
 * it. */
#include "lib/proc.h"
#include "txn/manager/inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct rota_txns *m;
static struct rt_txn_id id;
static _Atomic int calls, answer; /* of confirm and cancel */
static atomic_bool person;        /* comes with the next call */

static void open_manager(uint32_t flags)
{
    struct rota_txns_options opts = {.flags = flags, .recover_ms = 100};
    char url[256];

    snprintf(url, sizeof(url), "file:%s/journal", rt_tmpdir());
    if (rota_txns_open(&m, url, &opts) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
}

static int on_try(void *arg, const struct rota_call *call, const void *payload, size_t size)
{
    (void)arg, (void)call, (void)payload, (void)size;
    return 0;
}

static int on_end(void *arg, const struct rota_call *call, const void *payload, size_t size)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_DONE, .finish = {.ids = &id, .count = 1}};

    (void)arg, (void)call, (void)payload, (void)size;
    calls++;
    if (atomic_exchange(&person, false))
        assert_int_equal(rt_txns_ask(m, &op), 0);
    return answer;
}

/* Two services, one after the other. */
static struct rota_txn *tried(void)
{
    static const struct rota_tcc functions = {on_try, on_end, on_end};
    struct rota_txn *t = NULL;

    assert_int_equal(rota_tcc_serve(m, "stock", &functions, NULL), 0);
    assert_int_equal(rota_tcc_serve(m, "money", &functions, NULL), 0);
    assert_int_equal(rota_txn_begin(m, &(struct rota_txn_options){.flags = ROTA_TXN_ORDERED}, &t),
                     0);
    assert_int_equal(rota_tcc_call(t, "stock", "x", 1), 0);
    assert_int_equal(rota_tcc_call(t, "money", "x", 1), 0);
    char hex[33];
    snprintf(hex, sizeof(hex), "%.32s", rota_txn_id(t));
    assert_true(rt_txn_id_read(hex, &id));
    calls = 0;
    return t;
}

static bool at_work(void)
{
    pthread_mutex_lock(&m->mu);
    bool is = rt_entry_find(m, &id) != NULL;
    pthread_mutex_unlock(&m->mu);
    return is;
}

static void nothing_more_is_called(void)
{
    char text[RT_TXN_ID_TEXT];
    struct rota_outcome o = {0};

    rt_watchdog(60, "it goes on with what a person has finished");
    while (calls == 0 || at_work())
        assert_true(calls <= 1);
    rt_watchdog(0, "");
    assert_int_equal(calls, 1);
    rt_txn_id_text(&id, text);
    assert_int_equal(rota_txn_outcome(m, text, &o), 0);
    assert_int_equal(o.unfinished, 0);
}

static const int answers[] = {ROTA_UNREACHABLE, ROTA_BUSY, 0};

static void by_the_process_that_began_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof(answers) / sizeof(answers[0]); i++) {
        open_manager(0);
        struct rota_txn *t = tried();
        answer = answers[i / 2];
        person = true;
        assert_int_equal(i % 2 == 0 ? rota_txn_commit(t) : rota_txn_abort(t), 0);
        nothing_more_is_called();
        rota_txns_close(m);
    }
}

static void by_recovery(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        open_manager(0);
        struct rota_txn *t = tried();
        answer = ROTA_UNREACHABLE;
        assert_int_equal(rota_txn_commit(t), 0);
        rota_txns_close(m);
        calls = 0;
        answer = answers[i];
        person = true;
        open_manager(ROTA_TXN_RECOVER);
        static const struct rota_tcc functions = {on_try, on_end, on_end};
        assert_int_equal(rota_tcc_serve(m, "money", &functions, NULL), 0);
        assert_int_equal(rota_tcc_serve(m, "stock", &functions, NULL), 0);
        nothing_more_is_called();
        rota_txns_close(m);
    }
}

static int on_refuse(void *arg, const struct rota_call *call, const void *payload, size_t size)
{
    (void)arg, (void)call, (void)payload, (void)size;
    return ROTA_ABORTED;
}

/* One that is stuck for this process is not stuck once a person has finished it, although it still waits for its next
 * try. */
static void it_is_not_stuck(void **state)
{
    static const struct rota_tcc refuses = {on_try, on_refuse, on_refuse};
    struct rt_journal_op op = {.kind = RT_JOURNAL_DONE, .finish = {.ids = &id, .count = 1}};
    struct rota_outcome o = {0};
    struct rota_txn *t = NULL;
    char text[RT_NAME_TICKET];

    (void)state;
    open_manager(0);
    assert_int_equal(rota_tcc_serve(m, "bank", &refuses, NULL), 0);
    assert_int_equal(rota_txn_begin(m, &(struct rota_txn_options){0}, &t), 0);
    assert_int_equal(rota_tcc_call(t, "bank", "x", 1), 0);
    snprintf(text, sizeof(text), "%s", rota_txn_id(t));
    assert_int_equal(rota_txn_commit(t), 0);
    rt_watchdog(60, "it is not told as stuck");
    while (o.stand != ROTA_STAND_STUCK)
        assert_int_equal(rota_txn_outcome(m, text, &o), 0);
    rt_watchdog(0, "");
    text[32] = '\0';
    assert_true(rt_txn_id_read(text, &id));
    assert_int_equal(rt_txns_ask(m, &op), 0);
    assert_int_equal(rota_txn_outcome(m, text, &o), 0);
    assert_int_equal(o.stand, ROTA_STAND_COMMITTED);
    assert_int_equal(o.unfinished, 0);
    rota_txns_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_the_process_that_began_it),
        cmocka_unit_test(by_recovery),
        cmocka_unit_test(it_is_not_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
