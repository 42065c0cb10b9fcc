/* SPDX-License-Identifier: Apache-2.0 */
/* Memory runs out: every allocation of ours fails once, alone and with all that follow, in every
 * public call. Nothing crashes, leaks, or stays locked. */

#include "engines.h"
#include "lib/proc.h"
#include "lib/scarce.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- What is tried ------------------------------------------------------- */

static const char *url;
static char names[4][32]; /* new ones for each run: what stays locked is seen at its end */

/* What a call may say when memory runs out. UNKNOWN: the engine could not even note the end. */
static int ok(int rv)
{
    if (rv != 0 && rv != ROTA_NOMEM && rv != ROTA_UNKNOWN)
        fail_msg("said %s: %s", rota_strerror(rv), rota_errmsg(NULL));
    return rv;
}

static uint32_t more_flags;

static struct rota *open_client(void)
{
    /* No keeper: the allocations come in the same order in every run. */
    struct rota_options opts = {
        .flags = ROTA_NO_KEEPER | more_flags, .call_ms = 100, .label = "oom"};
    struct rota *r = NULL;
    if (ok(rota_open(&r, url, &opts)) != 0)
        assert_null(r);
    return r;
}

static void hold(struct rota *r, const char *name, const struct rota_ask *ask)
{
    struct rota_lock *lock = NULL;
    if (ok(rota_acquire(r, name, ask, &lock)) != 0) {
        assert_null(lock);
        return;
    }
    assert_true(rota_fence(lock) > 0);
    assert_string_equal(rota_name(lock), name);
    ok(rota_check(lock));
    ok(rota_release(lock));
}

static void on_lost(struct rota_lock *lock, int reason, void *arg)
{
    (void)lock;
    (void)reason;
    (void)arg;
}

static void plain(struct rota *r)
{
    hold(r, names[0], NULL);
    hold(r, "needs/escapes %", NULL);
}

static void lingering(struct rota *r)
{
    struct rota_ask ask = {.linger_ms = 1000};
    hold(r, names[0], &ask);
    hold(r, names[0], &ask);
}

static void modes(struct rota *r)
{
    struct rota_ask shared = {.mode = ROTA_SHARED, .limit_ms = 10};
    struct rota_ask permits = {.mode = ROTA_PERMITS, .take = 1, .of = 2, .on_lost = on_lost};
    struct rota_ask timed = {.hold_ms = 100000, .flags = ROTA_TRY};
    struct rota_ask detect = {.flags = ROTA_DETECT};
    hold(r, names[0], &shared);
    hold(r, names[1], &permits);
    hold(r, names[2], &timed);
    hold(r, names[3], &detect);
}

/* One owner holds, two others wait for it and give up. */
static void waiting(struct rota *r)
{
    struct rota_ask first = {.owner = 1}, second = {.owner = 2, .limit_ms = 1};
    struct rota_ask reader = {.owner = 3, .limit_ms = 1, .mode = ROTA_SHARED, .flags = ROTA_DETECT};
    struct rota_lock *lock = NULL, *none = NULL;
    if (ok(rota_acquire(r, names[0], &first, &lock)) != 0)
        return;
    int rv = rota_acquire(r, names[0], &second, &none);
    assert_true(rv == ROTA_TIMEOUT || rv == ROTA_NOMEM);
    rv = rota_acquire(r, names[0], &reader, &none);
    assert_true(rv == ROTA_TIMEOUT || rv == ROTA_NOMEM);
    assert_null(none);
    ok(rota_release(lock));
}

static void downgrading(struct rota *r)
{
    struct rota_lock *lock = NULL;
    if (ok(rota_acquire(r, names[0], NULL, &lock)) != 0)
        return;
    ok(rota_downgrade(lock));
    assert_true(rota_remaining_ms(lock) > 0);
    ok(rota_release(lock));
}

static void sets(struct rota *r)
{
    const char *const all[] = {names[0], names[1], names[2]};
    struct rota_lock *locks[3] = {NULL};
    if (ok(rota_acquire_all(r, all, 3, NULL, locks)) != 0)
        return;
    for (int i = 0; i < 3; i++)
        ok(rota_release(locks[i]));
}

static void on_front(void *arg, const struct rota_front *front)
{
    (void)arg;
    assert_non_null(front->value);
}

static void elections(struct rota *r)
{
    struct rota_lock *lock = NULL;
    uint64_t id = 0;
    bool observed = ok(rota_observe(r, names[0], on_front, NULL, &id)) == 0;
    if (ok(rota_elect(r, names[0], "me", NULL, &lock)) == 0) {
        ok(rota_proclaim(lock, "still me, with more to say"));
        ok(rota_process(r));
        ok(rota_release(lock));
    }
    if (observed)
        ok(rota_unobserve(r, id));
}

static void once(struct rota *r)
{
    uint64_t fence = 0;
    if (ok(rota_once(r, names[0], 0, &fence)) == 0) {
        scarce.fail_at = 0; /* undone with memory: what stays is for ever */
        assert_int_equal(rota_break(r, names[0], fence), 0);
    }
}

static void counting(struct rota *r)
{
    if (ok(rota_latch_down(r, names[0], 1, "me")) == 0)
        ok(rota_latch_wait(r, names[0], 1, 1000));
    scarce.fail_at = 0;
    ok(rota_latch_reset(r, names[0]));
}

static void barriers(struct rota *r)
{
    ok(rota_barrier(r, names[0], 1, 1000));
}

static void on_verdict(void *arg, const struct rota_verdict *verdict)
{
    (void)arg;
    assert_non_null(verdict->promise);
}

static void looking(struct rota *r)
{
    struct rota_lock *lock = NULL;
    struct rota_line *line = NULL, *lines = NULL;
    size_t count = 0;
    bool held = ok(rota_acquire(r, names[0], NULL, &lock)) == 0;
    if (ok(rota_inspect(r, names[0], &line)) == 0)
        assert_int_equal(line->count, held);
    if (ok(rota_list(r, "", &lines, &count)) == 0)
        assert_int_equal(count, held);
    rota_line_free(line);
    rota_list_free(lines, count);
    ok(rota_doctor(r, on_verdict, NULL));
    ok(rota_ddl(url, NULL, NULL));
    if (held)
        ok(rota_release(lock));
}

struct told {
    int grants, dones, err;
    struct rota_lock *lock;
};

static void on_grant(void *arg, int err, struct rota_lock *lock)
{
    struct told *told = arg;
    told->grants++;
    told->err = err;
    told->lock = lock;
}

static void on_done(void *arg, int err)
{
    struct told *told = arg;
    told->dones++;
    ok(err);
}

static void asynchronous(struct rota *r)
{
    struct told told = {0}, second = {0};
    uint64_t id = 0;
    int rv = ok(rota_acquire_async(r, names[0], NULL, on_grant, &told, NULL));
    int rv2 = ok(rota_acquire_async(r, names[0], NULL, on_grant, &second, &id));
    if (rv2 == 0)
        (void)rota_cancel(r, id);
    ok(rota_process(r));
    assert_int_equal(told.grants, rv == 0);
    assert_int_equal(second.grants, rv2 == 0);
    if (second.lock != NULL)
        ok(rota_release(second.lock));
    if (told.lock == NULL)
        return;
    int checks = ok(rota_check_async(told.lock, on_done, &told)) == 0;
    ok(rota_process(r));
    checks += ok(rota_release_async(told.lock, on_done, &told)) == 0;
    for (int i = 0; i < 100 && told.dones < checks; i++) {
        ok(rota_process(r));
        usleep(1000);
    }
    assert_int_equal(told.dones, checks);
}

static void left_held(struct rota *r)
{
    struct rota_lock *lock;
    struct rota_ask ask = {.mode = ROTA_SHARED, .on_lost = on_lost};
    ok(rota_acquire(r, names[0], NULL, &lock));
    ok(rota_acquire(r, names[1], &ask, &lock)); /* and closed */
}

static const struct {
    const char *name;
    void (*run)(struct rota *r);
} scenes[] = {
    {"plain", plain},         {"lingering", lingering}, {"modes", modes},
    {"waiting", waiting},     {"sets", sets},           {"downgrading", downgrading},
    {"elections", elections}, {"once", once},           {"counting", counting},
    {"barriers", barriers},   {"looking", looking},     {"asynchronous", asynchronous},
    {"left held", left_held},
};

/* ---- Trying it ----------------------------------------------------------- */

/* Somebody else finds every name free. */
static void assert_free(struct rota *witness)
{
    struct rota_ask ask = {.limit_ms = 5000};
    struct rota_lock *lock;
    for (int i = 0; i < 4; i++) {
        int rv = rota_acquire(witness, names[i], &ask, &lock);
        if (rv != 0)
            fail_msg("%s stays locked: %s", names[i], rota_errmsg(witness));
        assert_int_equal(rota_release(lock), 0);
    }
}

/* Returns how many allocations there were. */
static long play(size_t scene, long at, bool after, struct rota *witness)
{
    static int run;
    run++;
    for (int i = 0; i < 4; i++)
        snprintf(names[i], sizeof(names[i]), "%c%d", 'a' + i, run);
    long before = scarce.live;
    scarce.asked = 0;
    scarce.fail_at = at;
    scarce.after = after;
    struct rota *r = open_client();
    if (r != NULL)
        scenes[scene].run(r);
    rota_close(r);
    long count = scarce.asked;
    scarce.fail_at = 0;
    if (scarce.live != before)
        fail_msg("%s, allocation %ld %s: %ld left", scenes[scene].name, at, after ? "on" : "alone",
                 scarce.live - before);
    assert_free(witness);
    return count;
}

static void every_scene(void)
{
    struct rota_options opts = {.flags = ROTA_NO_KEEPER};
    struct rota *witness;
    scarce_begin();
    assert_int_equal(rota_open(&witness, url, &opts), 0);
    for (size_t scene = 0; scene < sizeof(scenes) / sizeof(scenes[0]); scene++) {
        struct rota_lock *lock; /* the witness's own memory is there before anything is counted */
        assert_int_equal(rota_acquire(witness, "warm", NULL, &lock), 0);
        assert_int_equal(rota_release(lock), 0);
        play(scene, 0, false, witness);
        long count = play(scene, 0, false, witness);
        assert_true(count > 5);
        for (long at = 1; at <= count; at++) {
            play(scene, at, false, witness);
            play(scene, at, true, witness);
        }
    }
    rota_close(witness);
    assert_int_equal(scarce.live, 0);
    scarce_end();
}

static void memory_runs_out_on_mem(void **state)
{
    (void)state;
    url = "mem:oom";
    every_scene();
}

static void memory_runs_out_while_counting(void **state)
{
    (void)state;
    url = "mem:oom-metrics";
    more_flags = ROTA_METRICS; /* every lock has memory of its own for its times */
    every_scene();
    more_flags = 0;
}

static void memory_runs_out_on_file(void **state)
{
    (void)state;
    char text[4200];
    if (!ROTA_ENGINE_FILE)
        skip();
    snprintf(text, sizeof(text), "file:%s", rt_tmpdir());
    url = text;
    every_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_runs_out_on_mem),
        cmocka_unit_test(memory_runs_out_while_counting),
        cmocka_unit_test(memory_runs_out_on_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
