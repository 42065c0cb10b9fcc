/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of flight to a SQL server, once each: its reply lost, late, cut off; the flight itself lost, late, twice. */
#include "house.h"
#include "lib/players.h"
#include "treat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROCESSES 6 /* with a proxy each; and one more that is killed now and then */
#define TTL_MS 1000
#define LONG_TTL_MS 6000 /* a slow machine keeps it, and a heartbeat comes soon */

/* Steps that contenders reach. ALONE: the only statement of its flight, where the words differ. */
static const struct {
    const char *name;
    enum rt_sql_step_kind kind;
    bool alone;
} steps[] = {
    {"take", RT_SQL_TAKE, true},           {"give", RT_SQL_GIVE, true},
    {"join", RT_SQL_JOIN, false},          {"leave", RT_SQL_LEAVE, false},
    {"gate of a set", RT_SQL_GATE, false}, {"renew", RT_SQL_RENEW, false},
    {"open", RT_SQL_OPEN, true},           {"end", RT_SQL_END, true},
    {"verify", RT_SQL_VERIFY, false},      {"look at a line", RT_SQL_INSPECT, true},
    {"list", RT_SQL_LIST, true},
};
#define STEPS (sizeof(steps) / sizeof(steps[0]))
#define KINDS (STEPS + 1)

static size_t kinds_make(struct treat_kind *kinds, char words[][300])
{
    char other[300];
    size_t n = 0;
    for (size_t i = 0; i < STEPS; i++) {
        char *at = words[i];
        house->words(steps[i].kind, steps[i].alone ? at : other, steps[i].alone ? other : at, 300);
        kinds[n++] = (struct treat_kind){steps[i].name, at, false};
    }
    if (house->driver->notifies)
        kinds[n++] = (struct treat_kind){"notification", "rota_", true};
    return n;
}

/* Provokes the rare requests: sessions begin and end, and leave something to others. */
static void stir(struct stage *st, void *arg)
{
    (void)arg;
    stage_kill(st, PROCESSES);
    stage_spawn(st, PROCESSES);
}

static void every_flight_in_every_way(void **state)
{
    static char words[STEPS][300], title[64];
    snprintf(title, sizeof(title), "%s: replies lost, late", house->name);
    struct stage_plan plan = {.title = title,
                              .processes = PROCESSES + 1,
                              .threads = 2,
                              .locks = 4,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE,
                              .ttl_ms = TTL_MS,
                              .long_permille = 10,
                              .long_ms = 1200,
                              .pause_us = 2000,
                              .spice_permille = 400};
    struct stage *st = stage_new(&plan);
    struct treat_kind kinds[KINDS];
    struct rt_proxy *proxies[PROCESSES];
    struct treat_line lines[PROCESSES];
    struct treat_plan treat = {.kinds = kinds,
                               .kind_count = kinds_make(kinds, words),
                               .lines = lines,
                               .line_count = PROCESSES,
                               .in_order = true,
                               .late_ms = TTL_MS * 13 / 10,
                               .rounds = 1 + stage_factor() / 4,
                               .stir = stir};
    (void)state;
    char *direct = house->url(0);
    stage_url(st, direct);
    free(direct);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        proxies[i] = house_proxy(stage_seed() + i);
        char *url = house->url(rt_proxy_port(proxies[i]));
        stage_url_of(st, i, url);
        lines[i] = (struct treat_line){&proxies[i], 1};
        free(url);
    }
    stage_start(st);
    size_t left = treat_all(st, &treat);
    house_finish(st, true);
    assert_int_equal(left, 0);
    for (size_t i = 0; i < PROCESSES; i++)
        rt_proxy_stop(proxies[i]);
}

/* Whether the case arose: a notification may come with the answer to the JOIN that waits for it. */
static bool lose_a_notification(struct rota *a, struct rota *b, struct rt_proxy *proxy)
{
    const struct rt_fault lose = {.on = RT_FAULT_PUSH, .what = RT_FAULT_DROP};
    struct rota_lock *held = player_take(a, "prize", NULL);
    struct player_wish wish;
    player_wish(b, "prize", ROTA_EXCLUSIVE, &wish);
    player_counts(a, "prize", 2);
    uint32_t fault = rt_proxy_fault(proxy, &lose);
    assert_int_equal(rota_release(held), 0);
    assert_int_equal(rota_release(player_wished(&wish, 0)), 0);
    bool lost = rt_proxy_fault_hits(proxy, fault) > 0;
    rt_proxy_fault_end(proxy, fault);
    return lost;
}

/* Nothing follows the lost notification, so only the heartbeat's look reveals it. */
static void a_lost_notification_is_made_up_for(void **state)
{
    struct rt_proxy *proxy = house_proxy(1);
    char *direct = house->url(0), *proxied = house->url(rt_proxy_port(proxy));
    struct rota *a = player(direct, LONG_TTL_MS, 0), *b = player(proxied, LONG_TTL_MS, 0);
    int lost = 0;
    (void)state;
    for (int i = 0; i < 30 && lost < 3; i++)
        lost += lose_a_notification(a, b, proxy);
    assert_int_equal(lost, 3);
    rota_close(a);
    rota_close(b);
    rt_proxy_stop(proxy);
    free(direct);
    free(proxied);
}

/* ---- One thing goes wrong, and nobody else comes who would put it right --------------------------------- */

struct duo { /* one client through a proxy, one without */
    struct rt_proxy *proxy;
    struct rota *proxied, *direct;
};

static void duo_begin(struct duo *d)
{
    d->proxy = house_proxy(1);
    char *direct = house->url(0), *proxied = house->url(rt_proxy_port(d->proxy));
    d->direct = player(direct, LONG_TTL_MS, 0);
    d->proxied = player(proxied, LONG_TTL_MS, 0);
    free(direct);
    free(proxied);
}

static void duo_end(struct duo *d)
{
    rota_close(d->proxied);
    rota_close(d->direct);
    rt_proxy_stop(d->proxy);
}

/* A grant nobody heard of may still have been made: it is given back, or found, while its session lives. */
static void what_was_done_unheard_is_found(void **state)
{
    static const enum rt_fault_do ends[] = {RT_FAULT_RESET, RT_FAULT_CUT};
    char alone[300], among[300], name[20];
    struct duo d;
    (void)state;
    duo_begin(&d);
    house->words(RT_SQL_TAKE, alone, among, sizeof(alone));
    for (size_t i = 0; i < 6; i++) {
        const struct rt_fault cut = {.on = RT_FAULT_REPLY, .what = ends[i % 2], .match = alone};
        struct rota_lock *lock = NULL;
        struct rota_ask ask = {.limit_ms = HOUSE_LIMIT_MS};
        snprintf(name, sizeof(name), "odd %zu", i);
        rota_release(player_take(d.proxied, name, NULL)); /* it has its bell, if there are some */
        uint32_t fault = rt_proxy_fault(d.proxy, &cut);
        int err = rota_acquire(d.proxied, name, &ask, &lock);
        assert_int_equal(rt_proxy_fault_hits(d.proxy, fault), 1);
        if (err == 0)
            rota_release(lock);
        UNTIL(house_number("select (select count(*) from rota_line where session is not null)"
                           " + (select count(*) from rota_ticket)") == 0);
    }
    duo_end(&d);
}

/* No push would tell of it. */
static void a_break_unheard_is_told(void **state)
{
    const struct rt_fault lose = {
        .on = RT_FAULT_PUSH, .what = RT_FAULT_DROP, .times = RT_FAULT_ALWAYS};
    struct duo d;
    struct player_lost lost = {0};
    (void)state;
    duo_begin(&d);
    rt_proxy_fault(d.proxy, &lose);
    struct rota_lock *lock = player_take(d.proxied, "prize", &lost);
    assert_int_equal(rota_break(d.direct, "prize", rota_fence(lock)), 0);
    UNTIL(lost.calls == 1);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    duo_end(&d);
}

static void who_waits_for_the_dead_is_granted(void **state)
{
    struct duo d;
    struct player_wish wish;
    (void)state;
    duo_begin(&d);
    struct rota_lock *lock = player_take(d.proxied, "prize", NULL);
    player_wish(d.direct, "prize", ROTA_EXCLUSIVE, &wish);
    player_counts(d.direct, "prize", 2);
    rt_proxy_door(d.proxy, RT_PROXY_REFUSE);
    rt_proxy_end(d.proxy, RT_PROXY_RESET, 0);
    rota_release(player_wished(&wish, 0));
    rota_release(lock);
    duo_end(&d);
}

int main(int argc, char **argv)
{
#define ALL                                                                                        \
    cmocka_unit_test(every_flight_in_every_way), cmocka_unit_test(what_was_done_unheard_is_found), \
        cmocka_unit_test(a_break_unheard_is_told),                                                 \
        cmocka_unit_test(who_waits_for_the_dead_is_granted)
    const struct CMUnitTest tests[] = {ALL};
    const struct CMUnitTest told[] = {
        ALL,
        cmocka_unit_test(a_lost_notification_is_made_up_for),
    };
    if (!house_choose(argc, argv))
        return 64;
    return house->driver->notifies ? cmocka_run_group_tests(told, house_setup, house_teardown)
                                   : cmocka_run_group_tests(tests, house_setup, house_teardown);
}
