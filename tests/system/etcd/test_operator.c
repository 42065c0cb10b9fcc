/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator does to the lines: leases revoked by hand, history compacted while others wait. */
#include "cluster.h"
#include "lib/players.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define REVOCATIONS 10
#define COMPACTIONS 10
#define TTL_MS 10000 /* nothing ends by itself */
#define SHORT_TTL_MS 2000
#define LEAST_TTL_MS 1000
#define LONG_TTL_MS 60000 /* its heartbeats come too late to help */

static void revoke(const char *lease)
{
    const char *const args[] = {"lease", "revoke", lease, NULL};

    (void)rt_etcds_ctl(&cluster, -1, NULL, 0, args); /* it may have ended meanwhile */
}

/* ---- By hand ------------------------------------------------------------------------ */

static void revoke_number(uint64_t lease)
{
    char text[32];

    snprintf(text, sizeof(text), "%llx", (unsigned long long)lease);
    revoke(text);
}

/* The holder is told long before the deadline, and only from then on must believe nothing any more. */
static void a_holders_lease_is_revoked(void **state)
{
    struct rota *a = player(trio_url, LONG_TTL_MS, 0), *b = player(trio_url, LONG_TTL_MS, 0);
    struct player_lost lost = {0};
    struct rota_lock *held = player_take(a, "revoked", &lost), *next;
    struct player_wish wish;
    uint64_t fence = rota_fence(held);

    (void)state;
    player_wish(b, "revoked", ROTA_EXCLUSIVE, &wish);
    player_counts(b, "revoked", 2);
    revoke_number(player_session(b, "revoked", 0));
    next = player_wished(&wish, 0);
    UNTIL(atomic_load(&lost.calls) == 1);
    assert_int_equal(atomic_load(&lost.reason), ROTA_LOST);
    assert_true(rota_remaining_ms(held) <= 0);
    assert_int_equal(rota_check(held), ROTA_LOST);
    assert_int_equal(rota_release(held), ROTA_LOST);
    assert_true(rota_fence(next) > fence);
    assert_int_equal(rota_release(next), 0);
    held = player_take(a, "revoked", NULL); /* it goes on with a new session */
    assert_true(rota_fence(held) > fence);
    assert_int_equal(rota_release(held), 0);
    rota_close(a);
    rota_close(b);
}

static void a_waiters_lease_is_revoked(void **state)
{
    struct rota *a = player(trio_url, LONG_TTL_MS, 0), *b = player(trio_url, LONG_TTL_MS, 0);
    struct player_lost lost = {0};
    struct rota_lock *held = player_take(a, "awaited", &lost);
    struct player_wish wish;

    (void)state;
    player_wish(b, "awaited", ROTA_EXCLUSIVE, &wish);
    player_counts(a, "awaited", 2);
    revoke_number(player_session(a, "awaited", 1));
    assert_null(player_wished(&wish, ROTA_LOST));
    assert_int_equal(atomic_load(&lost.calls), 0);
    assert_int_equal(rota_check(held), 0);
    assert_int_equal(rota_release(held), 0);
    rota_close(a);
    rota_close(b);
}

/* Found by the heartbeat's look at the keys of the lease; even with the shortest lease there is, of which
 * etcd says that 0 seconds are left. */
static void a_holders_key_is_deleted(void **state)
{
    struct rota *a = player(trio_url, LEAST_TTL_MS, 0);
    struct player_lost lost = {0};
    struct rota_lock *held = player_take(a, "deleted", &lost);

    (void)state;
    assert_int_equal(rota_ttl_ms(a), LEAST_TTL_MS);
    rt_etcds_must(&cluster, "del", "--prefix", "deleted/");
    UNTIL(atomic_load(&lost.calls) == 1);
    assert_int_equal(atomic_load(&lost.reason), ROTA_LOST);
    assert_int_equal(rota_release(held), ROTA_LOST);
    rota_close(a);
}

/* ---- Under contenders ---------------------------------------------------------------- */

static struct stage_plan plan_of(const char *title)
{
    return (struct stage_plan){.title = title,
                               .processes = 6,
                               .threads = 1,
                               .locks = 3,
                               .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                        STAGE_SPICE,
                               .ttl_ms = TTL_MS,
                               .call_ms = 5000,
                               .long_permille = 60,
                               .long_ms = 500,
                               .pause_us = 3000};
}

/* One of those that etcdctl lists after its first line. */
static bool pick_lease(struct stage *st, char *out, size_t size)
{
    static const char *const list[] = {"lease", "list", NULL};
    char text[4096] = "", *lines[64], *save = NULL;
    uint32_t n = 0;

    assert_int_equal(rt_etcds_ctl(&cluster, -1, text, sizeof(text), list), 0);
    (void)strtok_r(text, "\n", &save);
    while (n < 64 && (lines[n] = strtok_r(NULL, "\n", &save)) != NULL)
        n++;
    if (n > 0)
        snprintf(out, size, "%s", lines[stage_below(st, n)]);
    return n > 0;
}

/* A client that loses its lease this way cannot know before it is told, and others need not wait for that: two may
 * hold for a moment, which is what fences are for. */
static void leases_are_revoked(void **state)
{
    struct stage_plan plan = plan_of("etcd: lease revoked by hand");
    struct stage *st;
    char lease[32];

    (void)state;
    plan.flags |= STAGE_LOSSY;
    plan.ttl_ms = SHORT_TTL_MS; /* the end takes that much longer */
    st = stage_new(&plan);
    stage_url(st, trio_url);
    stage_start(st);
    for (uint32_t i = 0; i < REVOCATIONS * stage_factor(); i++) {
        stage_pause(st, 50 + stage_below(st, 100));
        if (!pick_lease(st, lease, sizeof(lease)))
            continue;
        stage_mark(st);
        revoke(lease);
    }
    UNTIL(stage_errors(st, ROTA_LOST) > 0); /* they learn it with their next request */
    trio_finish(st, true);
}

/* Watches begin anew with each connection, after what is forgotten. */
static void history_is_compacted(void **state)
{
    struct stage_plan plan = plan_of("etcd: compaction while waiting");
    struct stage *st = stage_new(&plan);
    struct trio_way way;

    (void)state;
    trio_way(&way, stage_seed());
    stage_url(st, way.url);
    stage_start(st);
    for (uint32_t i = 0; i < COMPACTIONS * stage_factor(); i++) {
        stage_mark(st);
        if (i % 3 == 2)
            rt_proxy_end(way.proxy[i / 3 % TRIO_SERVERS], RT_PROXY_RESET, 0);
        rt_etcds_compact(&cluster);
        stage_pause(st, stage_below(st, 100));
    }
    trio_finish(st, false);
    trio_way_fini(&way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leases_are_revoked),         cmocka_unit_test(history_is_compacted),
        cmocka_unit_test(a_holders_lease_is_revoked), cmocka_unit_test(a_waiters_lease_is_revoked),
        cmocka_unit_test(a_holders_key_is_deleted),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, trio_setup, trio_teardown);
}
