/* SPDX-License-Identifier: Apache-2.0 */
/* The library's metrics: exact counts after scripted sequences, and nothing without the flag. */
#include "client/metrics.h"

#include <math.h>
#include <pthread.h>
#include <rota.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct rota *must_open(const char *url, uint32_t flags)
{
    struct rota_options opts = {.flags = flags, .ttl_ms = 60000};
    struct rota *r = NULL;
    if (rota_open(&r, url, &opts) != 0)
        fail_msg("%s: %s", url, rota_errmsg(NULL));
    return r;
}

static struct rota_lock *must_take(struct rota *r, const char *name, const struct rota_ask *ask)
{
    struct rota_lock *lock = NULL;
    if (rota_acquire(r, name, ask, &lock) != 0)
        fail_msg("%s: %s", name, rota_errmsg(r));
    return lock;
}

/* ---- Looking a metric up ------------------------------------------------- */

struct look {
    const char *name, *labels;
    double value;
    uint64_t count;
    int found;
};

static void look_at(void *arg, const struct rota_metric *m)
{
    struct look *look = arg;
    if (strcmp(m->name, look->name) != 0 || strcmp(m->labels, look->labels) != 0)
        return;
    look->value = m->value;
    look->count = m->count;
    look->found++;
}

static struct look look_up(struct rota *r, const char *name, const char *labels)
{
    struct look look = {.name = name, .labels = labels};
    assert_int_equal(rota_metrics(r, look_at, &look), 0);
    if (look.found != 1)
        fail_msg("%s{%s} is there %d times", name, labels, look.found);
    return look;
}

static void counts(struct rota *r, const char *name, const char *labels, double want)
{
    double value = look_up(r, name, labels).value;
    if (value != want)
        fail_msg("%s{%s} is %g, not %g", name, labels, value, want);
}

static void measured(struct rota *r, const char *name, const char *labels, uint64_t want)
{
    uint64_t count = look_up(r, name, labels).count;
    if (count != want)
        fail_msg("%s{%s} has %llu values, not %llu", name, labels, (unsigned long long)count,
                 (unsigned long long)want);
}

/* ---- Without the flag ----------------------------------------------------- */

static void nothing_is_counted_unasked(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:metrics-off", 0);
    struct look look = {.name = "rota_acquires_total", .labels = ""};
    assert_int_equal(rota_metrics(r, look_at, &look), ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_errmsg(r), "ROTA_METRICS"));
    assert_int_equal(look.found, 0);
    struct rota_lock *lock = must_take(r, "a", NULL);
    assert_null(rt_more_of(lock)); /* no memory per lock */
    rota_release(lock);
    rota_close(r);
    r = must_open("mem:metrics-off", ROTA_METRICS);
    assert_int_equal(rota_metrics(r, NULL, NULL), ROTA_INVALID);
    assert_int_equal(rota_metrics(NULL, look_at, &look), ROTA_INVALID);
    rota_close(r);
}

/* ---- Counts ---------------------------------------------------------------- */

static void a_new_client_has_counted_nothing(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:metrics-new", ROTA_METRICS);
    counts(r, "rota_acquires_total", "", 0);
    counts(r, "rota_refusals_total", "reason=\"busy\"", 0);
    counts(r, "rota_waiting", "", 0);
    counts(r, "rota_holding", "", 0);
    measured(r, "rota_wait_seconds", "", 0);
    rota_close(r);
}

static void pairs_reentries_and_relocks(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:metrics-pairs", ROTA_METRICS);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rota_release(must_take(r, "plain", NULL)), 0);
    struct rota_lock *outer = must_take(r, "again", NULL), *inner = must_take(r, "again", NULL);
    counts(r, "rota_holding", "", 2);
    assert_int_equal(rota_release(inner), 0);
    assert_int_equal(rota_release(outer), 0);
    const struct rota_ask linger = {.linger_ms = 60000};
    for (int i = 0; i < 5; i++)
        assert_int_equal(rota_release(must_take(r, "linger", &linger)), 0);

    counts(r, "rota_acquires_total", "", 10);
    counts(r, "rota_reentries_total", "", 1);
    counts(r, "rota_relocks_total", "", 4);
    counts(r, "rota_passes_total", "", 0);
    counts(r, "rota_releases_total", "result=\"released\"", 10);
    counts(r, "rota_releases_total", "result=\"lost\"", 0);
    counts(r, "rota_holding", "", 0);
    counts(r, "rota_waiting", "", 0);
    measured(r, "rota_wait_seconds", "", 10);
    measured(r, "rota_hold_seconds", "", 10);
    measured(r, "rota_op_seconds", "op=\"join\"", 5);  /* 3 + again + linger's first */
    measured(r, "rota_op_seconds", "op=\"leave\"", 4); /* linger's stays */
    measured(r, "rota_op_seconds", "op=\"beat\"", 1);  /* opened the session */
    counts(r, "rota_heartbeats_total", "state=\"sent\"", 0);
    counts(r, "rota_op_errors_total", "op=\"join\"", 0);
    rota_close(r);
}

static void refusals_have_reasons(void **state)
{
    (void)state;
    struct rota *other = must_open("mem:metrics-refusals", 0);
    struct rota *r = must_open("mem:metrics-refusals", ROTA_METRICS);
    struct rota_lock *held = must_take(other, "a", NULL), *none = NULL;
    struct rota_ask ask = {.flags = ROTA_TRY};
    assert_int_equal(rota_acquire(r, "a", &ask, &none), ROTA_BUSY);
    assert_int_equal(rota_acquire(r, "a", &ask, &none), ROTA_BUSY);
    ask = (struct rota_ask){.limit_ms = 1};
    assert_int_equal(rota_acquire(r, "a", &ask, &none), ROTA_TIMEOUT);
    const char *const names[] = {"a", "b"};
    ask = (struct rota_ask){.flags = ROTA_TRY};
    struct rota_lock *set[2] = {NULL, NULL};
    assert_int_equal(rota_acquire_all(r, names, 2, &ask, set), ROTA_BUSY);

    counts(r, "rota_acquires_total", "", 0);
    counts(r, "rota_refusals_total", "reason=\"busy\"", 4); /* a set is asked for lock by lock */
    counts(r, "rota_refusals_total", "reason=\"timeout\"", 1);
    counts(r, "rota_refusals_total", "reason=\"canceled\"", 0);
    counts(r, "rota_waiting", "", 0);
    counts(r, "rota_op_errors_total", "op=\"join\"", 0); /* BUSY is an answer */
    rota_release(held);
    assert_int_equal(rota_acquire_all(r, names, 2, NULL, set), 0);
    counts(r, "rota_acquires_total", "", 2);
    counts(r, "rota_holding", "", 2);
    assert_int_equal(rota_release(set[0]), 0);
    assert_int_equal(rota_release(set[1]), 0);
    measured(r, "rota_hold_seconds", "", 2);
    rota_close(r);
    rota_close(other);
}

static void losses_are_counted_once(void **state)
{
    (void)state;
    struct rota *other = must_open("mem:metrics-losses", 0);
    struct rota *r = must_open("mem:metrics-losses", ROTA_METRICS);
    struct rota_lock *lock = must_take(r, "a", NULL);
    assert_int_equal(rota_break(other, "a", rota_fence(lock)), 0);
    assert_int_equal(rota_check(lock), ROTA_LOST);
    counts(r, "rota_losses_total", "reason=\"lost\"", 1);
    counts(r, "rota_holding", "", 0);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    lock = must_take(r, "a", NULL); /* lost, and only the release finds out */
    assert_int_equal(rota_break(other, "a", rota_fence(lock)), 0);
    assert_int_equal(rota_release(lock), ROTA_LOST);

    counts(r, "rota_losses_total", "reason=\"lost\"", 2);
    counts(r, "rota_losses_total", "reason=\"hold_ms\"", 0);
    counts(r, "rota_releases_total", "result=\"lost\"", 2);
    counts(r, "rota_releases_total", "result=\"released\"", 0);
    measured(r, "rota_hold_seconds", "", 2);
    rota_close(r);
    rota_close(other);
}

/* ---- Threads ---------------------------------------------------------------- */

static void *take_and_release(void *arg)
{
    struct rota_lock *lock = NULL;
    if (rota_acquire(arg, "shared-by-threads", NULL, &lock) == 0)
        rota_release(lock);
    return NULL;
}

static void until_waiting(struct rota *r, double n)
{
    while (look_up(r, "rota_waiting", "").value < n)
        sched_yield();
}

static void passes_and_their_time(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:metrics-passes", ROTA_METRICS);
    struct rota_lock *lock = must_take(r, "shared-by-threads", NULL);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_release, r), 0);
        until_waiting(r, i + 1);
    }
    assert_int_equal(rota_release(lock), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);

    counts(r, "rota_acquires_total", "", 4);
    counts(r, "rota_passes_total", "", 3);
    counts(r, "rota_reentries_total", "", 0);
    measured(r, "rota_handover_seconds", "", 3);
    measured(r, "rota_op_seconds", "op=\"join\"", 1);
    assert_true(look_up(r, "rota_wakeups_total", "").value > 0);
    rota_close(r);
}

static void canceled(void *arg, int err, struct rota_lock *lock)
{
    assert_null(lock);
    *(int *)arg = err;
}

static void cancelling_is_a_refusal(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:metrics-canceled", ROTA_METRICS | ROTA_NO_KEEPER);
    struct rota_lock *lock = must_take(r, "a", NULL);
    int err = 0;
    uint64_t id;
    assert_int_equal(rota_acquire_async(r, "a", NULL, canceled, &err, &id), 0);
    counts(r, "rota_waiting", "", 1);
    assert_int_equal(rota_cancel(r, id), 0);
    while (err == 0)
        assert_int_equal(rota_process(r), 0);
    assert_int_equal(err, ROTA_CANCELED);
    counts(r, "rota_refusals_total", "reason=\"canceled\"", 1);
    counts(r, "rota_waiting", "", 0);
    rota_release(lock);
    rota_close(r);
}

/* ---- Heartbeats -------------------------------------------------------------- */

static void heartbeats_and_their_lag(void **state)
{
    (void)state;
    struct rota_options opts = {.flags = ROTA_METRICS, .ttl_ms = 3000};
    struct rota *r = NULL;
    assert_int_equal(rota_open(&r, "mem:metrics-beats", &opts), 0);
    struct rota_lock *lock = must_take(r, "a", NULL);
    while (look_up(r, "rota_heartbeats_total", "state=\"answered\"").value < 1)
        usleep(1000); /* until the keeper has renewed it */
    rota_release(lock);
    rota_close(r);
    opts.flags |= ROTA_NO_KEEPER; /* nobody renews here but us: what was sent stands still */
    assert_int_equal(rota_open(&r, "mem:metrics-beats", &opts), 0);
    lock = must_take(r, "a", NULL);
    while (look_up(r, "rota_heartbeats_total", "state=\"answered\"").value < 1) {
        usleep(1000);
        assert_int_equal(rota_process(r), 0);
    }
    counts(r, "rota_heartbeats_total", "state=\"sent\"", 1);
    counts(r, "rota_heartbeats_total", "state=\"failed\"", 0);
    measured(r, "rota_heartbeat_lag_seconds", "", 1);
    measured(r, "rota_op_seconds", "op=\"beat\"", 2); /* one opened the session */
    rota_release(lock);
    rota_close(r);
}

/* ---- Histograms --------------------------------------------------------------- */

static void histograms_sort_by_powers_of_two(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        int bucket;
    } cases[] = {
        {-5, 0},
        {0, 0},
        {1000, 0},
        {1001, 1},
        {2000, 1},
        {2001, 2},
        {4000, 2},
        {1024 * 1000, 10},
        {INT64_MAX / 2, 27},
        {(1000LL << 26) + 1, 27},
        {1000LL << 26, 26},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rt_hist hist = {0};
        rt_hist_add(&hist, cases[i].ns);
        if (atomic_load(&hist.buckets[cases[i].bucket]) != 1)
            fail_msg("%lld ns are not in bucket %d", (long long)cases[i].ns, cases[i].bucket);
        assert_true(atomic_load(&hist.sum_ns) == (cases[i].ns > 0 ? (uint64_t)cases[i].ns : 0));
    }
}

static void histogram_is_whole(void *arg, const struct rota_metric *m)
{
    int *seen = arg;
    assert_true(strncmp(m->name, "rota_", 5) == 0);
    if (m->type != ROTA_HISTOGRAM) {
        assert_true(m->type == ROTA_GAUGE || strstr(m->name, "_total") != NULL);
        return;
    }
    ++*seen;
    assert_true(m->buckets > 1 && isinf(m->bounds[m->buckets - 1]));
    assert_true(m->counts[m->buckets - 1] == m->count);
    for (uint32_t i = 1; i < m->buckets; i++) {
        assert_true(m->bounds[i] > m->bounds[i - 1]);
        assert_true(m->counts[i] >= m->counts[i - 1]);
    }
}

static void histograms_are_whole(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:metrics-whole", ROTA_METRICS);
    int seen = 0;
    rota_release(must_take(r, "a", NULL));
    assert_int_equal(rota_metrics(r, histogram_is_whole, &seen), 0);
    assert_int_equal(seen, 4 + 3 /* beat, join, leave */);
    rota_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_counted_unasked),
        cmocka_unit_test(a_new_client_has_counted_nothing),
        cmocka_unit_test(pairs_reentries_and_relocks),
        cmocka_unit_test(refusals_have_reasons),
        cmocka_unit_test(losses_are_counted_once),
        cmocka_unit_test(passes_and_their_time),
        cmocka_unit_test(cancelling_is_a_refusal),
        cmocka_unit_test(heartbeats_and_their_lag),
        cmocka_unit_test(histograms_sort_by_powers_of_two),
        cmocka_unit_test(histograms_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
