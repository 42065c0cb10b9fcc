/* SPDX-License-Identifier: Apache-2.0 */
/* Half of the contenders are cut off from the server they are on, and from all, for less and for more than
 * the ttl, in each direction: a client that reaches any in time loses nothing. */
#include "scenes.h"
#include "trio.h"

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
#define LATE_US 400000 /* the answers to heartbeats: a link that owes one for ttl/4 is given up */

struct cut {
    struct stage *st;
    struct trio_way way;
};

static void cut_begin(struct cut *c, const char *title, uint32_t ttl_ms)
{
    struct stage_plan plan = {.title = title,
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
    trio_way(&c->way, stage_seed());
    stage_url(c->st, trio_url);
    for (uint32_t i = PROCESSES / 2; i < PROCESSES; i++)
        stage_url_of(c->st, i, c->way.url);
    stage_start(c->st);
}

static void cut_end(struct cut *c, bool may_lose)
{
    trio_finish(c->st, may_lose);
    trio_way_fini(&c->way);
}

/* The one that most are on. */
static struct rt_proxy *const *busiest(const struct trio_way *way)
{
    size_t best = 0;

    for (size_t i = 1; i < TRIO_SERVERS; i++)
        if (rt_proxy_open_connections(way->proxy[i]) > rt_proxy_open_connections(way->proxy[best]))
            best = i;
    return &way->proxy[best];
}

/* There are two more, and time enough to find one. */
static void cut_from_one(struct cut *c, uint32_t rounds)
{
    struct scene_cut how = {.n = 1, .least_ms = LONG_TTL_MS, .most_ms = LONG_TTL_MS * 11 / 10};
    uint32_t kind = stage_below(c->st, SCENE_CUTS);

    for (uint32_t i = 0; i < rounds; i++) {
        how.proxies = busiest(&c->way);
        scene_cut(c->st, &how, (kind + i) % SCENE_CUTS);
    }
}

static void cut_from_all(struct cut *c)
{
    struct scene_cut how = {.proxies = c->way.proxy,
                            .n = TRIO_SERVERS,
                            .least_ms = 200,
                            .most_ms = SHORT_CUT_MS,
                            .slow_us = SLOW_US};

    scene_cut_rounds(c->st, &how, 0);
}

/* From one server for longer than the ttl, from all for less, in one run: start and finish take longer. */
static void for_less_than_the_ttl_allows(void **state)
{
    struct cut c;

    (void)state;
    cut_begin(&c, trio_title("cut for less than the ttl allows"), LONG_TTL_MS);
    cut_from_one(&c, 1);
    cut_from_all(&c);
    cut_end(&c, false);
}

static void from_one_server_for_longer_than_the_ttl(void **state)
{
    struct cut c;

    (void)state;
    cut_begin(&c, trio_title("cut from one server"), LONG_TTL_MS);
    cut_from_one(&c, stage_factor()); /* they take long */
    cut_end(&c, false);
}

static void from_all_for_less_than_the_ttl(void **state)
{
    struct cut c;

    (void)state;
    cut_begin(&c, trio_title("cut for less than the ttl"), LONG_TTL_MS);
    cut_from_all(&c);
    cut_end(&c, false);
}

static void from_all_for_longer_than_the_ttl(void **state)
{
    struct scene_cut how = {.n = TRIO_SERVERS,
                            .least_ms = TTL_MS * 11 / 10,
                            .most_ms = TTL_MS * 14 / 10,
                            .slow_us = SLOW_US};
    struct cut c;

    (void)state;
    cut_begin(&c, trio_title("cut for longer than the ttl"), TTL_MS);
    how.proxies = c.way.proxy;
    scene_cut_rounds(c.st, &how, SCENE_CUTS / 2);
    cut_end(&c, true);
}

/* However late heartbeats are answered: a client that is cut off learns of its loss before another is granted. */
static void told_before_anybody_else_is_granted(void **state)
{
    struct scene_told told = {
        .beat = trio.beat, .n = TRIO_SERVERS, .ttl_ms = 6 * TTL_MS, .late_us = LATE_US};
    struct trio_way way;

    (void)state;
    trio_way(&way, 1);
    told.proxies = way.proxy;
    told.direct = trio_url;
    told.proxied = way.url;
    scene_told_before(&told);
    trio_way_fini(&way);
}

int main(void)
{
    const struct CMUnitTest quick[] = {
        cmocka_unit_test(told_before_anybody_else_is_granted),
        cmocka_unit_test(for_less_than_the_ttl_allows),
        cmocka_unit_test(from_all_for_longer_than_the_ttl),
    };
    const struct CMUnitTest torture[] = {
        cmocka_unit_test(from_one_server_for_longer_than_the_ttl),
        cmocka_unit_test(from_all_for_less_than_the_ttl),
        cmocka_unit_test(from_all_for_longer_than_the_ttl),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return stage_factor() == 1 ? cmocka_run_group_tests(quick, trio_setup, trio_teardown)
                               : cmocka_run_group_tests(torture, trio_setup, trio_teardown);
}
