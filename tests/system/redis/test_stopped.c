/* SPDX-License-Identifier: Apache-2.0 */
/* Contenders are stopped past the ttl, who holds as well as who waits, and go on afterwards. */
#include "keys.h"
#include "lib/proc.h"
#include "stage.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define TTL_MS 1000
#define ROUNDS 3
#define PROCESSES 6

/* One that holds just now; it may have ceased to when it is stopped, which is no harm. */
static uint32_t a_holder(struct stage *st)
{
    for (uint32_t tries = 0; tries < 100000; tries++) {
        uint32_t p = stage_below(st, PROCESSES);

        if (stage_holds(st, p))
            return p;
    }
    return 0;
}

static void stopped_past_the_ttl(void **state)
{
    struct stage_plan plan = {.title = "SIGSTOP past the ttl",
                              .processes = PROCESSES,
                              .threads = 1,
                              .locks = 1,
                              .flags = STAGE_SHARED | STAGE_GIVE_UP | STAGE_STOPS | STAGE_SPICE,
                              .ttl_ms = TTL_MS,
                              .long_permille = 100,
                              .long_ms = 300};
    struct stage *st = stage_new(&plan);
    struct rt_redis node;
    struct redis_nodes nodes = {&node, 1};
    char *url;

    (void)state;
    rt_redis_start(&node, NULL);
    url = rt_redis_url(&node, 0);
    stage_url(st, url);
    stage_start(st);
    for (uint32_t i = 0; i < ROUNDS * stage_factor(); i++) {
        uint32_t holder = a_holder(st);
        uint32_t other = (holder + 1 + stage_below(st, PROCESSES - 1)) % PROCESSES;

        stage_mark(st);
        stage_stop(st, holder);
        stage_stop(st, other);
        stage_pause(st, TTL_MS + stage_below(st, TTL_MS / 2));
        stage_cont(st, other);
        stage_cont(st, holder);
        stage_pause(st, 100 + stage_below(st, 300));
    }
    assert_int_equal(stage_finish(st, redis_keys_left, &nodes), 0);
    stage_free(st);
    rt_redis_fini(&node);
    free(url);
}

/* ---- Step by step -------------------------------------------------------------- */

struct prize {        /* shared with the one that is stopped */
    uint64_t highest; /* of the resource */
    uint32_t step;    /* 1: it holds, 2: another does */
    char url[STAGE_URL_MAX];
};

enum { NOT_GRANTED = 1, STILL_REMAINING = 2, WRITE_ACCEPTED = 4, RELEASE_OK = 8 };

static int hold_and_be_stopped(int index, void *arg)
{
    struct prize *p = arg;
    struct rota_options options = {.ttl_ms = TTL_MS};
    struct rota_lock *lock = NULL;
    struct rota *r = NULL;
    int wrong = 0;

    (void)index;
    if (rota_open(&r, p->url, &options) != 0 || rota_acquire(r, "prize", NULL, &lock) != 0 ||
        rota_guard(lock, &p->highest) != 0)
        return NOT_GRANTED;
    rt_shared_add(&p->step, 1);
    rt_shared_wait(&p->step, 2); /* it is stopped here */
    wrong |= rota_remaining_ms(lock) > 0 ? STILL_REMAINING : 0;
    wrong |= rota_guard(lock, &p->highest) == 0 ? WRITE_ACCEPTED : 0;
    wrong |= rota_release(lock) == 0 ? RELEASE_OK : 0;
    rota_close(r);
    return wrong;
}

static void the_first_look_after_a_stop_says_it_is_over(void **state)
{
    struct prize *p = rt_shared_new(sizeof(*p));
    struct rota_options options = {.ttl_ms = TTL_MS};
    struct rota_lock *lock = NULL;
    struct rota *r = NULL;
    struct rt_redis node;
    pid_t holder;
    char *url;

    (void)state;
    rt_watchdog(120, "a stopped holder");
    rt_redis_start(&node, NULL);
    url = rt_redis_url(&node, 0);
    snprintf(p->url, sizeof(p->url), "%s", url);
    holder = rt_proc_start(hold_and_be_stopped, 0, p);
    rt_shared_wait(&p->step, 1);
    rt_proc_stop(holder);
    assert_int_equal(rota_open(&r, url, &options), 0);
    assert_int_equal(rota_acquire(r, "prize", NULL, &lock), 0); /* when its time is over */
    assert_int_equal(rota_guard(lock, &p->highest), 0);
    rt_shared_add(&p->step, 1);
    rt_proc_cont(holder);
    assert_int_equal(rt_proc_wait(holder), 0);
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
    rt_redis_fini(&node);
    rt_shared_free(p, sizeof(*p));
    free(url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_look_after_a_stop_says_it_is_over),
        cmocka_unit_test(stopped_past_the_ttl),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
