/* SPDX-License-Identifier: Apache-2.0 */
/* Half of the contenders are cut off from the SQL server, for less and for more than the ttl, in each direction. */
#include "house.h"
#include "scenes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define PROCESSES 6
#define TTL_MS 1000
#define LONG_TTL_MS 10000 /* so long that nobody loses anything on a slow machine either */
#define SHORT_CUT_MS 1200
#define SLOW_US 150000 /* not long enough to be given up */
#define LATE_US 400000 /* the answers to heartbeats */

struct cut {
    struct stage *st;
    struct rt_proxy *proxy;
    char title[64];
};

static void cut_begin(struct cut *c, const char *title, uint32_t ttl_ms)
{
    snprintf(c->title, sizeof(c->title), "%s: %s", house->name, title);
    struct stage_plan plan = {.title = c->title,
                              .processes = PROCESSES,
                              .threads = 1,
                              .locks = 4,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE,
                              .ttl_ms = ttl_ms,
                              .call_ms = 5000,
                              .long_permille = 60,
                              .long_ms = TTL_MS * 3 / 2,
                              .pause_us = 5000};
    c->st = stage_new(&plan);
    c->proxy = house_proxy(stage_seed());
    char *direct = house->url(0), *proxied = house->url(rt_proxy_port(c->proxy));
    stage_url(c->st, direct);
    for (uint32_t i = PROCESSES / 2; i < PROCESSES; i++)
        stage_url_of(c->st, i, proxied);
    free(direct);
    free(proxied);
    stage_start(c->st);
}

static void cut_rounds(struct cut *c, uint32_t least_ms, uint32_t most_ms, uint32_t from,
                       bool may_lose)
{
    struct scene_cut how = {
        .proxies = &c->proxy, .n = 1, .least_ms = least_ms, .most_ms = most_ms, .slow_us = SLOW_US};
    scene_cut_rounds(c->st, &how, from);
    house_finish(c->st, may_lose);
    rt_proxy_stop(c->proxy);
}

static void for_less_than_the_ttl(void **state)
{
    struct cut c;
    (void)state;
    cut_begin(&c, "cut for less than the ttl", LONG_TTL_MS);
    cut_rounds(&c, 200, SHORT_CUT_MS, 0, false);
}

static void for_longer_than_the_ttl(void **state)
{
    struct cut c;
    (void)state;
    cut_begin(&c, "cut for longer than the ttl", TTL_MS);
    cut_rounds(&c, TTL_MS * 11 / 10, TTL_MS * 14 / 10, SCENE_CUTS / 2, true);
}

/* However late heartbeats are answered: a client that is cut off learns of its loss before another is granted. */
static void told_before_anybody_else_is_granted(void **state)
{
    struct rt_proxy *proxy = house_proxy(1);
    char alone[300], among[300];
    (void)state;
    house->words(RT_SQL_RENEW, alone, among, sizeof(alone));
    char *direct = house->url(0), *proxied = house->url(rt_proxy_port(proxy));
    struct scene_told told = {.beat = among,
                              .n = 1,
                              .proxies = &proxy,
                              .direct = direct,
                              .proxied = proxied,
                              .ttl_ms = 6 * TTL_MS,
                              .late_us = LATE_US};
    scene_told_before(&told);
    free(direct);
    free(proxied);
    rt_proxy_stop(proxy);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told_before_anybody_else_is_granted),
        cmocka_unit_test(for_less_than_the_ttl),
        cmocka_unit_test(for_longer_than_the_ttl),
    };
    if (!house_choose(argc, argv))
        return 64;
    return cmocka_run_group_tests(tests, house_setup, house_teardown);
}
