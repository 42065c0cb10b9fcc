/* SPDX-License-Identifier: Apache-2.0 */
/* Bugs that bit users of other clients of etcd, replayed with ours on three nodes: those that need another
 * leader, or a member that was paused. See test_regress.c. */
#include "lib/etcd_server.h"
#include "lib/players.h"
#include "lib/proc.h"
#include "lib/resource.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NODES 3
#define LONG_MS 60000 /* a ttl whose renewals (each third of it) come too late to help a test */
#define LEADER_MS 30000

static struct rt_etcds etcds;

/* ---- Parts ------------------------------------------------------------------------------------ */

/* A URL of node I alone. */
static const char *at(size_t i)
{
    static char text[NODES][64];
    snprintf(text[i], sizeof(text[i]), "etcd://127.0.0.1:%u", (unsigned)etcds.node[i].server.port);
    return text[i];
}

static size_t leader(void)
{
    int i = rt_etcds_leader(&etcds, LEADER_MS);
    assert_true(i >= 0);
    return (size_t)i;
}

static bool serves(void *arg)
{
    static const char *const get[] = {"get", "x", NULL};
    return rt_etcds_ctl(&etcds, *(const int *)arg, NULL, 0, get) == 0;
}

/* Until node I serves reads that the majority confirms. */
static void wait_served(size_t i)
{
    int node = (int)i;
    assert_true(rt_await(serves, &node, LEADER_MS));
}

/* Stops the leader for as long as the others need to choose another; returns it. */
static size_t stop_leader(void)
{
    size_t old = leader();
    rt_server_stop(&etcds.node[old].server);
    wait_served((old + 1) % NODES);
    return old;
}

static void guarded(struct rt_resource *res, const struct rota_lock *lock, bool accepted)
{
    uint64_t seq;
    assert_int_equal(rt_resource_write(res, rota_fence(lock), 1, rt_resource_read(res) + 1, &seq),
                     accepted);
}

static struct rt_resource *resource(const char *name)
{
    struct rt_resource *res = NULL;
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", rt_tmpdir(), name);
    assert_int_equal(rt_resource_open(&res, path, 64), 0);
    return res;
}

/* ---- R4: etcd #15247 ---------------------------------------------------------------------------- */

/* A leader that was stalled past its time revokes a lease that others have kept alive. Its pause is
 * real; the revoke, which it does only now and then, is requested by hand. */
static void r4_old_leader_revokes_a_living_lease(void **state)
{
    struct rt_resource *res = resource("r4");
    struct player_lost lost;
    char id[32];
    (void)state;
    size_t old = leader();
    struct rota *a = player(at((old + 1) % NODES), LONG_MS, PLAYERS_PATIENCE_MS);
    struct rota *b = player(at((old + 2) % NODES), LONG_MS, PLAYERS_PATIENCE_MS);
    struct rota_lock *lock = player_take(a, "r4", &lost);
    guarded(res, lock, true);
    assert_true(stop_leader() == old);
    assert_int_equal(rota_check(lock), 0); /* it has missed nothing */
    rt_server_cont(&etcds.node[old].server);
    wait_served(old);
    snprintf(id, sizeof(id), "%llx", (unsigned long long)player_session(a, "r4", 0));
    const char *const revoke[] = {"lease", "revoke", id, NULL};
    assert_int_equal(rt_etcds_ctl(&etcds, (int)old, NULL, 0, revoke), 0);
    int64_t begin = players_now_ms();
    UNTIL(atomic_load(&lost.calls) > 0);
    print_message("R4: told %lld ms after the revocation; renewals are %d ms apart\n",
                  (long long)(players_now_ms() - begin), LONG_MS / 3);
    assert_true(rota_remaining_ms(lock) <= 0);
    struct rota_lock *other = player_take(b, "r4", NULL);
    guarded(res, other, true);
    guarded(res, lock, false); /* what it does between two looks, the fence stops */
    assert_int_equal(rota_release(lock), ROTA_LOST);
    assert_int_equal(rota_check(other), 0);
    assert_int_equal(rota_release(other), 0);
    rt_resource_close(res);
    rota_close(a);
    rota_close(b);
}

/* ---- R9: etcd #9888, #13508 ------------------------------------------------------------------------- */

#define ELECTIONS 3
#define R9_TTL_MS 5000 /* it must not end by itself before its holder is killed */

static uint32_t *holds; /* shared with the child */

/* Takes the lock and stays: it will be killed. */
static int hold(int index, void *arg)
{
    struct rota *r = NULL;
    struct rota_lock *lock = NULL;
    struct rota_options opts = {.ttl_ms = R9_TTL_MS, .call_ms = PLAYERS_PATIENCE_MS};
    (void)arg;
    if (rota_open(&r, at((size_t)index), &opts) != 0 || rota_acquire(r, "r9", NULL, &lock) != 0)
        return 1;
    rt_shared_add(holds, 1);
    for (;;)
        pause();
}

/* Each new leader gives every lease its whole time again: a dead holder's ticket stays as long as new
 * leaders come, and no longer. */
static void r9_takeover_after_elections(void **state)
{
    struct player_wish wish;
    int64_t last = 0;
    (void)state;
    uint16_t ports[NODES]; /* the leader's first: the waiter is there */
    for (size_t i = 0, first = leader(); i < NODES; i++)
        ports[i] = etcds.node[(first + i) % NODES].server.port;
    char *all = rt_etcds_url(&etcds, ports);
    pid_t child = rt_proc_start(hold, 0, NULL); /* before any thread */
    struct rota *b = player(all, LONG_MS, PLAYERS_PATIENCE_MS);
    rt_shared_wait(holds, 1);
    player_wish(b, "r9", ROTA_EXCLUSIVE, &wish);
    player_counts(b, "r9", 2);
    rt_proc_kill(child);
    int64_t begin = players_now_ms();
    for (int i = 0; i < ELECTIONS; i++) {
        size_t old = stop_leader();
        last = players_now_ms();
        rt_server_cont(&etcds.node[old].server);
        wait_served(old);
    }
    struct rota_lock *lock = player_wished(&wish, 0);
    print_message("R9: taken over %lld ms after the death, %lld ms after the last of %d "
                  "elections; the ttl is %d ms\n",
                  (long long)(players_now_ms() - begin), (long long)(players_now_ms() - last),
                  ELECTIONS, R9_TTL_MS);
    assert_int_equal(rota_release(lock), 0);
    rota_close(b);
    free(all);
}

/* ---- R22: etcd #20418 -------------------------------------------------------------------------------- */

#define R22_TTL_MS 6000 /* it must not end by itself before the member is paused */

struct three { /* a holds, b waits on a member that is paused, c waits behind it */
    size_t paused;
    struct rota *a, *b, *c;
    struct rota_lock *lock;
    struct player_wish b_wish, c_wish;
};

static void three_begin(struct three *t, const char *name, uint32_t b_ttl_ms)
{
    size_t first = leader();
    t->paused = (first + 1) % NODES;
    t->a = player(at(first), LONG_MS, PLAYERS_PATIENCE_MS);
    t->b = player(at(t->paused), b_ttl_ms, PLAYERS_PATIENCE_MS);
    t->c = player(at(first), LONG_MS, PLAYERS_PATIENCE_MS);
    t->lock = player_take(t->a, name, NULL);
    player_wish(t->b, name, ROTA_EXCLUSIVE, &t->b_wish);
    player_counts(t->a, name, 2);
    player_wish(t->c, name, ROTA_EXCLUSIVE, &t->c_wish);
    player_counts(t->a, name, 3);
}

static void three_end(struct three *t)
{
    rota_close(t->a);
    rota_close(t->b);
    rota_close(t->c);
}

/* While the member is paused, the lease of its waiter ends, and the next one holds. What the member
 * still believes when it resumes must not grant anything. */
static void r22_paused_member_longer_than_the_ttl(void **state)
{
    struct three t = {0};
    struct player_wish again;
    (void)state;
    three_begin(&t, "r22", R22_TTL_MS);
    rt_server_stop(&etcds.node[t.paused].server);
    assert_int_equal(rota_release(t.lock), 0); /* b is next, and cannot hear of it */
    struct rota_lock *lock = player_wished(&t.c_wish, 0);
    assert_null(player_wished(&t.b_wish, ROTA_LOST)); /* its own clock says so */
    player_wish(t.b, "r22", ROTA_EXCLUSIVE, &again);
    rt_server_cont(&etcds.node[t.paused].server);
    player_counts(t.a, "r22", 2); /* behind c */
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(atomic_load(&again.calls), 0);
    uint64_t fence = rota_fence(lock);
    assert_int_equal(rota_release(lock), 0);
    lock = player_wished(&again, 0);
    assert_true(rota_fence(lock) > fence);
    assert_int_equal(rota_release(lock), 0);
    three_end(&t);
}

/* A shorter pause: it is still next, and the one behind it is not let in. */
static void r22_paused_member_shorter_than_the_ttl(void **state)
{
    struct three t = {0};
    (void)state;
    three_begin(&t, "r22-short", LONG_MS);
    rt_server_stop(&etcds.node[t.paused].server);
    assert_int_equal(rota_release(t.lock), 0);
    player_counts(t.a, "r22-short", 2);
    rt_server_cont(&etcds.node[t.paused].server);
    struct rota_lock *lock = player_wished(&t.b_wish, 0);
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(atomic_load(&t.c_wish.calls), 0);
    assert_int_equal(rota_release(lock), 0);
    assert_int_equal(rota_release(player_wished(&t.c_wish, 0)), 0);
    three_end(&t);
}

static int setup(void **state)
{
    (void)state;
    holds = rt_shared_new(sizeof(*holds));
    rt_etcds_start(&etcds, NODES, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rt_etcds_fini(&etcds);
    rt_shared_free(holds, sizeof(*holds));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r9_takeover_after_elections),
        cmocka_unit_test(r4_old_leader_revokes_a_living_lease),
        cmocka_unit_test(r22_paused_member_longer_than_the_ttl),
        cmocka_unit_test(r22_paused_member_shorter_than_the_ttl),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
