/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of a SQL server is set back and forward, its time zone is changed, and a replica that knows less and whose
 * clock is a second behind is promoted: fences keep growing. */
#include "house.h"
#include "lib/players.h"
#include "lib/servers.h"
#include "rota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define TTL_MS 1000
#define LONG_TTL_MS 10000
#define SECOND INT64_C(1000000)
#define HOUR (3600 * SECOND)

static struct house_knob clock_of;

static struct stage *begin(const char *title, uint32_t ttl_ms, uint32_t more)
{
    struct stage *st = house_stage(title, 1, ttl_ms, more);
    char *url = house->url(0);
    stage_url(st, url);
    free(url);
    stage_start(st);
    return st;
}

/* It follows at once. */
static void set_clock(int64_t shift)
{
    house_knob_set(&clock_of, shift);
    assert_true(llabs(house_number("%s", house->time) - time(NULL) - shift / SECOND) < 60);
}

/* What the old clock promised to sessions lasts longer by the new one. */
static void set_back_or_another_zone(void **state)
{
    static const int64_t walk[] = {-SECOND / 5, -SECOND, -HOUR, -HOUR - 5 * SECOND};
    static const char *const zones[] = {"+05:30", "-08:00", "+14:00", "+00:00"};
    struct stage *st = begin("clock set back", LONG_TTL_MS, 0);
    (void)state;
    for (uint32_t i = 0; i < 4 * stage_factor(); i++) {
        stage_pause(st, 300);
        stage_mark(st);
        if (i < 4)
            set_clock(walk[i]);
        stage_pause(st, 200);
        stage_mark(st);
        if (house->driver->notifies) {
            house_ask("alter system set timezone = '%s'", zones[i % 4]);
            house_ask("select pg_reload_conf()");
        } else {
            house_ask("SET GLOBAL time_zone='%s'", zones[i % 4]);
        }
    }
    house_finish(st, false);
}

/* By more than the ttl: all sessions end at once, which no server can help; by less: nobody notices. */
static void set_forward(void **state)
{
    struct stage *st = begin("clock set forward", TTL_MS, STAGE_LOSSY);
    int64_t at = -2 * HOUR;
    (void)state;
    set_clock(at);
    for (uint32_t i = 0; i < 3 * stage_factor(); i++) {
        stage_pause(st, 300);
        stage_mark(st);
        at += i % 2 == 0 ? 3 * SECOND : SECOND / 10;
        set_clock(at);
        stage_await_grants(st);
    }
    set_clock(0);
    stage_pause(st, 500);
    house_finish(st, true);
}

static int own_clock(void **state)
{
    house_knob_begin(&clock_of, HOUSE_CLOCK);
    int rv = house_setup(state);
    house_knob_end(HOUSE_CLOCK);
    return rv;
}

/* ---- A stale replica ----------------------------------------------------------------------------------- */

/* The switch-over takes less time than the clocks are apart: the slower clock repeats times already given out. */
static void a_stale_replica_is_promoted(void **state)
{
    struct stage *st = house_stage("stale replica promoted", 1, TTL_MS, STAGE_LOSSY);
    struct house_knob behind;
    (void)state;
    house->start_logged();
    house_knob_begin(&behind, HOUSE_CLOCK);
    house_knob_set(&behind, -SECOND);
    house->follow();
    house_knob_end(HOUSE_CLOCK);
    struct rt_proxy *proxy = house_proxy(stage_seed());
    char *url = house->url(rt_proxy_port(proxy));
    stage_url(st, url);
    stage_start(st);
    stage_pause(st, 700);
    house->detach();
    stage_pause(st, 300 + stage_below(st, 500));
    stage_mark(st);
    house->kill();
    house->promote();
    rt_proxy_target(proxy, NULL, house->port());
    rt_proxy_end(proxy, RT_PROXY_RESET, 0);
    stage_await_grants(st);
    stage_pause(st, 700);
    house_finish(st, true);
    rt_proxy_stop(proxy);
    free(url);
    house->fini();
}

/* The fence; 0: the server was not there in time. */
static uint64_t take_and_go(const char *url, uint32_t call_ms)
{
    struct rota *r;
    struct rota_lock *lock;
    uint64_t fence = 0;
    const struct rota_options opts = {.call_ms = call_ms};
    const struct rota_ask ask = {.flags = ROTA_TRY};
    int err = rota_open(&r, url, &opts);
    if (err == 0) {
        err = rota_acquire(r, "x", &ask, &lock);
        if (err == 0) {
            fence = rota_fence(lock);
            int freed = rota_release(lock);
            assert_true(freed == 0 || freed == ROTA_UNKNOWN);
        }
        rota_close(r);
    }
    /* A slow server may not answer in time; what it did then is taken back, and may be in the way until it is. */
    assert_true(err == 0 || err == ROTA_UNREACHABLE || err == ROTA_UNKNOWN || err == ROTA_BUSY);
    return fence;
}

/* The last grant is not there, and nobody who was told of it is left. Newcomers have less time than the clock is
 * behind: they wait together. */
static void strangers_come_to_a_stale_replica(void **state)
{
    struct house_knob behind;
    (void)state;
    house->start_logged();
    house_knob_begin(&behind, HOUSE_CLOCK);
    house_knob_set(&behind, -3 * SECOND);
    house->follow();
    house_knob_end(HOUSE_CLOCK);
    char *url = house->url(0), *other = house->replica_url();
    uint64_t before = 0, after = 0;
    UNTIL(take_and_go(url, 0) != 0);
    house->detach();
    UNTIL((before = take_and_go(url, 0)) != 0);
    house->kill();
    house->promote();
    UNTIL((after = take_and_go(other, 1000)) != 0);
    print_message("%s: %.3f s later\n", house->name, (double)(int64_t)(after - before) / 1e6);
    assert_true(after > before);
    assert_true(take_and_go(other, 0) > after); /* and the next one waits for nothing */
    free(url);
    free(other);
    house->fini();
}

static void stale_replicas(void **state)
{
    for (uint32_t i = 0; i < 1 + stage_factor() / 2; i++)
        a_stale_replica_is_promoted(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest clocks[] = {
        cmocka_unit_test(set_back_or_another_zone),
        cmocka_unit_test(set_forward),
    };
    const struct CMUnitTest replicas[] = {
        cmocka_unit_test(stale_replicas),
        cmocka_unit_test(strangers_come_to_a_stale_replica),
    };
    if (!house_choose(argc, argv))
        return 64;
    int failed = cmocka_run_group_tests(clocks, own_clock, house_teardown);
    return failed + cmocka_run_group_tests(replicas, NULL, NULL);
}
