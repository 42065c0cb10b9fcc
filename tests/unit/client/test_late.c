/* SPDX-License-Identifier: Apache-2.0 */
/* A process that stalls between hearing of its grant and telling the caller: what is over by then is
 * not reported as held. The clock is the test's. */
#include "client/client.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define TTL_MS 5000
#define LONG_S 3600 /* far beyond any deadline */

/* ---- A clock that can be moved ------------------------------------------- */

static atomic_llong ahead_s;
static int still_s;

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int rv = (int)syscall(SYS_clock_gettime, id, ts);
    if (id == CLOCK_BOOTTIME)
        ts->tv_sec += (time_t)atomic_load(&ahead_s);
    return rv;
}

static void stand_still(void)
{
    atomic_fetch_add(&ahead_s, still_s);
}

/* ---- Answers that are the last thing before the standstill ---------------- */

static void (*real_done)(struct rt_up *up, struct rt_op *op);
static int late_after; /* enum rt_op_kind; -1: none */

static void late_done(struct rt_up *up, struct rt_op *op)
{
    bool late = (int)op->kind == late_after;
    real_done(up, op);
    if (!late)
        return;
    late_after = -1;
    stand_still();
}

static struct rota *open_late(void)
{
    struct rota_options opts = {.ttl_ms = TTL_MS, .flags = ROTA_NO_KEEPER};
    struct rota *r;
    if (rota_open(&r, "mem:late", &opts) != 0)
        fail_msg("%s", rota_errmsg(NULL));
    late_after = -1;
    still_s = LONG_S;
    rt_client_lock(r);
    real_done = r->d.up.done;
    r->d.up.done = late_done;
    rt_client_unlock(r);
    return r;
}

/* Its session is there, so that only the answer is late. */
static struct rota *open_with_session(void)
{
    struct rota *r = open_late();
    struct rota_lock *lock;
    assert_int_equal(rota_acquire(r, "first", NULL, &lock), 0);
    assert_int_equal(rota_release(lock), 0);
    return r;
}

static void is_free(struct rota *r, const char *name)
{
    struct rota_ask try = {.flags = ROTA_TRY, .owner = ROTA_OWNER_NONE};
    struct rota_lock *lock;
    assert_int_equal(rota_acquire(r, name, &try, &lock), 0);
    assert_int_equal(rota_release(lock), 0);
}

/* ---- Calls ---------------------------------------------------------------- */

static void an_acquire_is_not_told_after_its_deadline(void **state)
{
    (void)state;
    struct rota *r = open_with_session();
    struct rota_lock *lock = NULL;
    late_after = RT_OP_JOIN;
    assert_int_equal(rota_acquire(r, "x", NULL, &lock), ROTA_LOST);
    assert_null(lock);
    is_free(r, "x");
    late_after = RT_OP_JOIN;
    assert_int_equal(rota_elect(r, "x", "me", NULL, &lock), ROTA_LOST);
    is_free(r, "x");
    rota_close(r);
}

static void nor_after_its_hold_ms(void **state)
{
    (void)state;
    struct rota *r = open_with_session();
    struct rota_ask ask = {.hold_ms = 1000, .owner = ROTA_OWNER_NONE};
    struct rota_lock *lock = NULL;
    late_after = RT_OP_JOIN;
    assert_int_equal(rota_acquire(r, "x", &ask, &lock), ROTA_LOST);
    is_free(r, "x");
    rota_close(r);
}

static void nor_is_a_set(void **state)
{
    (void)state;
    static const char *const names[] = {"x", "y"};
    struct rota *r = open_with_session();
    struct rota_lock *locks[2] = {NULL, NULL};
    late_after = RT_OP_JOIN_ALL;
    assert_int_equal(rota_acquire_all(r, names, 2, NULL, locks), ROTA_LOST);
    assert_null(locks[0]);
    is_free(r, "x");
    is_free(r, "y");
    rota_close(r);
}

static void nor_is_a_check(void **state)
{
    (void)state;
    struct rota *r = open_with_session();
    struct rota_lock *lock;
    assert_int_equal(rota_acquire(r, "x", NULL, &lock), 0);
    assert_int_equal(rota_check(lock), 0);
    late_after = RT_OP_CHANGE;
    assert_int_equal(rota_check(lock), ROTA_LOST);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    assert_int_equal(rota_elect(r, "x", "me", NULL, &lock), 0);
    late_after = RT_OP_CHANGE;
    assert_int_equal(rota_proclaim(lock, "I"), ROTA_LOST);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    rota_close(r);
}

static void who_is_in_time_holds(void **state)
{
    (void)state;
    struct rota *r = open_with_session();
    struct rota_lock *lock;
    still_s = 1;
    late_after = RT_OP_JOIN;
    assert_int_equal(rota_acquire(r, "x", NULL, &lock), 0);
    int64_t left = rota_remaining_ms(lock);
    assert_true(left > 0 && left < TTL_MS - 1000);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
}

/* ---- Callbacks ------------------------------------------------------------ */

struct told {
    int err, calls, losses;
    struct rota_lock *lock;
    bool still; /* stands still inside */
};

static void on_grant(void *arg, int err, struct rota_lock *lock)
{
    struct told *t = arg;
    t->calls++;
    t->err = err;
    t->lock = lock;
    if (t->still)
        stand_still();
}

static void on_checked(void *arg, int err)
{
    struct told *t = arg;
    t->calls++;
    t->err = err;
}

static void on_lost(struct rota_lock *lock, int reason, void *arg)
{
    struct told *t = arg;
    (void)lock;
    (void)reason;
    t->losses++;
}

static void ask_async(struct rota *r, const char *name, struct told *t)
{
    struct rota_ask ask = {.on_lost = on_lost, .arg = t};
    assert_int_equal(rota_acquire_async(r, name, &ask, on_grant, t, NULL), 0);
}

static void process(struct rota *r, const struct told *t)
{
    for (int i = 0; t->calls == 0 && i < 100; i++)
        assert_int_equal(rota_process(r), 0);
    assert_int_equal(t->calls, 1);
}

static void a_callback_is_told_what_is_so(void **state)
{
    (void)state;
    struct rota *r = open_with_session();
    struct told t = {0};
    late_after = RT_OP_JOIN;
    ask_async(r, "x", &t);
    process(r, &t);
    assert_int_equal(t.err, ROTA_LOST);
    assert_null(t.lock);
    is_free(r, "x");
    assert_int_equal(t.calls, 1);
    assert_int_equal(t.losses, 0); /* it was never given */
    rota_close(r);
}

/* The function of the one before it took an hour. */
static void nor_does_one_that_waits_behind_another_promise_too_much(void **state)
{
    (void)state;
    struct rota *r = open_with_session();
    struct told first = {.still = true}, second = {0};
    ask_async(r, "x", &first);
    ask_async(r, "y", &second);
    process(r, &second);
    assert_int_equal(first.err, 0);
    assert_int_equal(second.err, ROTA_LOST);
    assert_null(second.lock);
    assert_int_equal(rota_release(first.lock), ROTA_LOST);
    is_free(r, "y");
    assert_int_equal(second.losses, 0);
    rota_close(r);
}

static void nor_does_a_check(void **state)
{
    (void)state;
    struct rota *r = open_with_session();
    struct told t = {0};
    struct rota_lock *lock;
    assert_int_equal(rota_acquire(r, "x", NULL, &lock), 0);
    late_after = RT_OP_CHANGE;
    assert_int_equal(rota_check_async(lock, on_checked, &t), 0);
    process(r, &t);
    assert_int_equal(t.err, ROTA_LOST);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    rota_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_acquire_is_not_told_after_its_deadline),
        cmocka_unit_test(nor_after_its_hold_ms),
        cmocka_unit_test(nor_is_a_set),
        cmocka_unit_test(nor_is_a_check),
        cmocka_unit_test(who_is_in_time_holds),
        cmocka_unit_test(a_callback_is_told_what_is_so),
        cmocka_unit_test(nor_does_one_that_waits_behind_another_promise_too_much),
        cmocka_unit_test(nor_does_a_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
