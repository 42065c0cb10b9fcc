/* SPDX-License-Identifier: Apache-2.0 */
/* What lock calls cost on the wire of SQL databases, counted by the proxy: flights, notifications, connections. */
#include "house.h"
#include "lib/players.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define QUIET_TTL_MS 3600000 /* no heartbeat comes between */
#define NAMES 8              /* some of them for each lane */

struct peer { /* a client behind a proxy of its own */
    struct rt_proxy *proxy;
    struct rota *rota;
};

/* ---- Counting ---------------------------------------------------------------------------------------- */

static struct rt_proxy_counts count_of(const struct peer *p)
{
    struct rt_proxy_counts c;
    rt_proxy_counts(p->proxy, &c);
    return c;
}

static bool all_answered(void *arg, const struct rt_proxy_counts *counts)
{
    return counts->replies >= *(uint64_t *)arg && counts->replies >= counts->requests;
}

/* Returns once every request has been answered, and at least that many replies have come. */
static void settle(const struct peer *p, uint64_t replies)
{
    assert_true(rt_proxy_await(p->proxy, all_answered, &replies, HOUSE_LIMIT_MS));
}

/* Counts requests with these words from now on. */
static uint32_t look_for(const struct peer *p, const char *words)
{
    struct rt_fault look = {
        .on = RT_FAULT_REQUEST, .what = RT_FAULT_LOOK, .match = words, .times = RT_FAULT_ALWAYS};
    return rt_proxy_fault(p->proxy, &look);
}

static void assert_cost(const struct peer *p, struct rt_proxy_counts before, uint64_t flights,
                        uint64_t pushes)
{
    struct rt_proxy_counts now = count_of(p);
    assert_int_equal(now.requests - before.requests, flights);
    assert_int_equal(now.flights - before.flights, flights);
    assert_int_equal(now.pushes - before.pushes, pushes);
}

/* ---- Clients ----------------------------------------------------------------------------------------- */

static const char *name_of(const char *word, int i)
{
    static char name[64];
    snprintf(name, sizeof(name), "%s %d", word, i);
    return name;
}

/* All its connections are up and have prepared their statements, both those for a new name and those for a known
 * one. */
static void peer_open(struct peer *p, uint32_t ttl_ms, const char *more)
{
    struct rota_options options = {.ttl_ms = ttl_ms, .call_ms = HOUSE_LIMIT_MS};
    p->proxy = house_proxy(1);
    char *base = house->url(rt_proxy_port(p->proxy)), url[1000];
    snprintf(url, sizeof(url), "%s%s%s", base, strchr(base, '?') != NULL ? "&" : "?", more);
    assert_int_equal(rota_open(&p->rota, url, &options), 0);
    for (int i = 0; i < 2 * NAMES; i++)
        assert_int_equal(rota_release(player_take(p->rota, name_of("warm", i % NAMES), NULL)), 0);
    settle(p, 1);
    free(base);
}

static void peer_close(struct peer *p)
{
    rota_close(p->rota);
    rt_proxy_stop(p->proxy);
}

/* ---- Pairs ------------------------------------------------------------------------------------------- */

static void a_pair_is_two_flights(void **state)
{
    struct rt_proxy_counts before;
    struct peer p;
    (void)state;
    peer_open(&p, QUIET_TTL_MS, "");
    for (int i = 0; i < 100; i++) {
        before = count_of(&p);
        struct rota_lock *lock = player_take(p.rota, name_of("pair", i % NAMES), NULL);
        assert_cost(&p, before, 1, 0);
        before = count_of(&p);
        assert_int_equal(rota_release(lock), 0);
        assert_cost(&p, before, 1, 0);
    }
    assert_int_equal(count_of(&p).connections, house->links);
    peer_close(&p);
}

/* The short way tells it that the lock is held, and the long one by whom. */
static void a_failed_try_is_two_flights(void **state)
{
    struct rota_ask ask = {.flags = ROTA_TRY};
    struct rota_lock *other = NULL;
    struct peer p, q;
    (void)state;
    peer_open(&p, QUIET_TTL_MS, "");
    peer_open(&q, QUIET_TTL_MS, "");
    struct rota_lock *lock = player_take(p.rota, "tried", NULL);
    assert_int_equal(rota_acquire(q.rota, "tried", &ask, &other),
                     ROTA_BUSY); /* now its words are known */
    struct rt_proxy_counts idle = count_of(&p), before = count_of(&q);
    for (int i = 0; i < 10; i++)
        assert_int_equal(rota_acquire(q.rota, "tried", &ask, &other), ROTA_BUSY);
    assert_cost(&q, before, 20, 0);
    assert_cost(&p, idle, 0, 0);
    assert_int_equal(rota_release(lock), 0);
    peer_close(&p);
    peer_close(&q);
}

/* ---- Waiting ----------------------------------------------------------------------------------------- */

/* The waiter: what it sent is answered, except the bell it waits for where there are no notifications. */
static bool waits(void *arg, const struct rt_proxy_counts *counts)
{
    uint64_t flights = *(uint64_t *)arg + (house->driver->bells ? 1 : 0);
    return counts->requests >= flights && counts->replies >= *(uint64_t *)arg;
}

static void stand_in_line(struct peer *q, struct player_wish *wish)
{
    struct rt_proxy_counts before = count_of(q);
    uint64_t flights = before.replies + 2;
    player_wish(q->rota, "stock", ROTA_EXCLUSIVE, wish);
    assert_true(rt_proxy_await(q->proxy, waits, &flights, HOUSE_LIMIT_MS));
}

/* Granted by a notification, or by the answer to the bell: the next in line asks nothing. */
static void hand_over(struct peer *p, struct peer *q, bool counted)
{
    static struct player_wish wish;
    bool told = house->driver->notifies;
    struct rota_lock *lock = player_take(p->rota, "stock", NULL);
    struct rt_proxy_counts before_q = count_of(q), before_p;
    stand_in_line(q, &wish);
    if (counted)
        assert_int_equal(count_of(q).requests - before_q.requests, told ? 2 : 3);
    before_p = count_of(p);
    assert_int_equal(rota_release(lock), 0);
    lock = player_wished(&wish, 0);
    if (counted) {
        uint64_t flights = count_of(p).requests - before_p.requests;
        print_message("left in %llu flights\n", (unsigned long long)flights);
        assert_in_range(flights, 1, 2);
        assert_int_equal(count_of(q).requests - before_q.requests, told ? 2 : 3);
        assert_int_equal(count_of(q).pushes - before_q.pushes, told ? 1 : 0);
        assert_int_equal(count_of(p).pushes, before_p.pushes);
    }
    assert_int_equal(rota_release(lock), 0);
    settle(q, 0);
}

static void a_hand_over_is_what_is_told(void **state)
{
    struct peer p, q;
    (void)state;
    peer_open(&p, QUIET_TTL_MS, "");
    peer_open(&q, QUIET_TTL_MS, "");
    for (int i = 0; i < 10; i++)
        hand_over(&p, &q, i > 1);
    assert_true(count_of(&p).connections <= house->links);
    assert_true(count_of(&q).connections <= house->links + (house->driver->bells ? 1 : 0));
    peer_close(&p);
    peer_close(&q);
}

/* LISTEN once for many waits, and UNLISTEN when there is nothing to hear; neither for pairs. */
static void listens_only_while_something_is_to_be_heard(void **state)
{
    struct peer p, q;
    (void)state;
    peer_open(&p, QUIET_TTL_MS, "");
    peer_open(&q, QUIET_TTL_MS, "");
    uint32_t begins = look_for(&q, "listen rota_"), ends = look_for(&q, "unlisten rota_");
    uint32_t never = look_for(&p, "listen rota_");
    assert_int_equal(rota_release(player_take(q.rota, "alone", NULL)), 0);
    assert_int_equal(rt_proxy_fault_hits(q.proxy, begins), 0);
    for (int i = 0; i < 3; i++)
        hand_over(&p, &q, false);
    assert_int_equal(rt_proxy_fault_hits(q.proxy, begins), 1);
    assert_true(rt_proxy_await_hits(q.proxy, ends, 1, HOUSE_LIMIT_MS));
    assert_int_equal(rt_proxy_fault_hits(p.proxy, never), 0);
    peer_close(&p);
    peer_close(&q);
}

/* A listener that does not read keeps all notifications in the server's queue: it is counted in pages, so it takes
 * some. */
static void nobody_is_told_where_nobody_waits(void **state)
{
    const struct rota_ask shared = {.mode = ROTA_SHARED};
    struct rota_lock *lock = NULL;
    struct peer p;
    (void)state;
    peer_open(&p, QUIET_TTL_MS, "");
    house_ask("listen somebody_else");
    house_ask("begin");
    for (int i = 0; i < 400; i++) {
        assert_int_equal(rota_acquire(p.rota, "shared", &shared, &lock), 0);
        assert_int_equal(rota_release(lock), 0);
    }
    assert_string_equal(house_ask("select pg_notification_queue_usage() = 0"), "t");
    house_ask("commit; unlisten *");
    peer_close(&p);
}

/* The same queue fills where somebody waits: the case above can fail. */
static void one_is_told_where_one_waits(void **state)
{
    struct peer p, q;
    (void)state;
    peer_open(&p, QUIET_TTL_MS, "");
    peer_open(&q, QUIET_TTL_MS, "");
    struct rt_proxy_counts before = count_of(&q);
    for (int i = 0; i < 20; i++)
        hand_over(&p, &q, false);
    assert_int_equal(count_of(&q).pushes - before.pushes, 20);
    peer_close(&p);
    peer_close(&q);
}

/* ---- Many waits, few connections --------------------------------------------------------------------- */

#define MANY 100

static void a_hundred_waits_on_few_connections(void **state)
{
    static struct player_wish wishes[MANY];
    static struct rota_lock *held[MANY];
    uint64_t most = house->links + (house->driver->bells ? 8 : 0);
    struct peer p, q;
    (void)state;
    peer_open(&p, QUIET_TTL_MS, "");
    peer_open(&q, QUIET_TTL_MS, house->driver->bells ? "waits=8" : "");
    for (int i = 0; i < MANY; i++)
        held[i] = player_take(p.rota, name_of("many", i), NULL);
    for (int i = 0; i < MANY; i++)
        player_wish(q.rota, name_of("many", i), ROTA_EXCLUSIVE, &wishes[i]);
    for (int i = 0; i < MANY; i++)
        player_counts(p.rota, name_of("many", i), 2);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(rota_release(held[i]), 0);
        assert_int_equal(rota_release(player_wished(&wishes[i], 0)), 0);
        assert_true(rt_proxy_open_connections(q.proxy) <= most);
    }
    print_message("%llu connections in all, at most %llu at a time\n",
                  (unsigned long long)count_of(&q).connections, (unsigned long long)most);
    assert_int_equal(count_of(&p).connections, house->links);
    peer_close(&p);
    peer_close(&q);
}

/* ---- Heartbeats -------------------------------------------------------------------------------------- */

/* Somebody else walks through idle lines, for the next hour. */
static void let_others_sweep(void)
{
    house_ask("delete from rota_meta where k = 'sweeper'");
    house_ask("%s", house->driver->notifies
                        ? "insert into rota_meta (k, v) select 'sweeper',"
                          " ((extract(epoch from now()) + 3600) * 1000000)::bigint || ' 0 '"
                        : "insert into rota_meta (k, v) select 'sweeper',"
                          " concat(cast((unix_timestamp() + 3600) * 1000000 as signed), ' 0 ')");
}

/* What follows heartbeats now and then: a look for the dead, and for the sweeper. */
struct sweeps {
    uint32_t dead, sweeper;
};

static struct sweeps look_for_sweeps(const struct peer *p)
{
    char alone[300], among[300];
    house->words(RT_SQL_DEAD, alone, among, sizeof(alone));
    return (struct sweeps){look_for(p, among), look_for(p, "select ")}; /* not prepared */
}

static uint64_t swept(const struct peer *p, const struct sweeps *s)
{
    return rt_proxy_fault_hits(p->proxy, s->dead) + rt_proxy_fault_hits(p->proxy, s->sweeper);
}

/* All that was sent so far, without sweeps. */
static struct rt_proxy_counts count_without(const struct peer *p, const struct sweeps *s)
{
    for (;;) {
        uint64_t before = swept(p, s);
        struct rt_proxy_counts now = count_of(p);
        now.requests -= before;
        if (swept(p, s) == before)
            return now;
    }
}

static void a_heartbeat_is_one_flight_whatever_is_held(void **state)
{
    static const int held[] = {0, 1, 100, 1000};
    static struct peer peers[4];
    char alone[300], among[300];
    (void)state;
    house->words(RT_SQL_RENEW, alone, among, sizeof(alone));
    let_others_sweep();
    for (size_t i = 0; i < 4; i++) {
        peer_open(&peers[i], 6000, "");
        for (int k = 0; k < held[i]; k++)
            (void)player_take(peers[i].rota,
                              name_of(i == 2 ? "hundred" : "thousand", k + (i == 1 ? 5000 : 0)),
                              NULL);
    }
    for (size_t i = 0; i < 4; i++) {
        uint32_t beats = look_for(&peers[i], among);
        struct sweeps sweeps = look_for_sweeps(&peers[i]);
        assert_true(rt_proxy_await_hits(peers[i].proxy, beats, 1, HOUSE_LIMIT_MS));
        settle(&peers[i], 0);
        struct rt_proxy_counts before = count_without(&peers[i], &sweeps);
        assert_true(rt_proxy_await_hits(peers[i].proxy, beats, 3, HOUSE_LIMIT_MS));
        settle(&peers[i], before.replies + 2);
        struct rt_proxy_counts now = count_without(&peers[i], &sweeps);
        print_message("%d held: %llu flights, %llu bytes up, %llu down in two heartbeats\n",
                      held[i], (unsigned long long)(now.requests - before.requests),
                      (unsigned long long)(now.bytes[0] - before.bytes[0]),
                      (unsigned long long)(now.bytes[1] - before.bytes[1]));
        assert_int_equal(now.requests - before.requests, 2);
    }
    for (size_t i = 0; i < 4; i++)
        peer_close(&peers[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_is_two_flights),
        cmocka_unit_test(a_failed_try_is_two_flights),
        cmocka_unit_test(a_hand_over_is_what_is_told),
        cmocka_unit_test(a_hundred_waits_on_few_connections),
        cmocka_unit_test(a_heartbeat_is_one_flight_whatever_is_held),
    };
    const struct CMUnitTest told[] = {
        cmocka_unit_test(listens_only_while_something_is_to_be_heard),
        cmocka_unit_test(nobody_is_told_where_nobody_waits),
        cmocka_unit_test(one_is_told_where_one_waits),
    };
    if (!house_choose(argc, argv))
        return 64;
    int failed = cmocka_run_group_tests(tests, house_setup, house_teardown);
    if (house->driver->notifies)
        failed += cmocka_run_group_tests(told, house_setup, house_teardown);
    return failed;
}
