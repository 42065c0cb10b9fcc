/* SPDX-License-Identifier: Apache-2.0 */
/* The engine on a real etcd whose keys and leases are taken away under it, beside foreign tickets. */
#include "lib/etcd_server.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define PATIENCE_MS 20000
#define TTL_MS 3000

static struct rt_etcds etcds;
static char *url;

/* ---- Parts ------------------------------------------------------------------------------------ */

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

#define UNTIL(condition)                                        \
    do {                                                        \
        int64_t until_end_ = now_ms() + PATIENCE_MS;            \
        while (!(condition)) {                                  \
            if (now_ms() > until_end_)                          \
                fail_msg("waited in vain for: %s", #condition); \
            nanosleep(&(struct timespec){0, 2000000}, NULL);    \
        }                                                       \
    } while (0)

static struct rota *client(uint32_t ttl_ms)
{
    struct rota_options opts = {.ttl_ms = ttl_ms, .label = "test"};
    struct rota *r = NULL;
    if (rota_open(&r, url, &opts) != 0)
        fail_msg("%s", rota_errmsg(NULL));
    return r;
}

struct lost {
    atomic_int calls, reason;
};

static void on_lost(struct rota_lock *lock, int reason, void *arg)
{
    struct lost *lost = arg;
    (void)lock;
    atomic_store(&lost->reason, reason);
    atomic_fetch_add(&lost->calls, 1);
}

struct wish {
    atomic_int calls, err;
    struct rota_lock *_Atomic lock;
};

static void on_grant(void *arg, int err, struct rota_lock *lock)
{
    struct wish *wish = arg;
    atomic_store(&wish->err, err);
    atomic_store(&wish->lock, lock);
    atomic_fetch_add(&wish->calls, 1);
}

static void start(struct rota *r, const char *name, struct wish *wish)
{
    struct rota_ask ask = {.owner = ROTA_OWNER_NONE};
    *wish = (struct wish){0};
    assert_int_equal(rota_acquire_async(r, name, &ask, on_grant, wish, NULL), 0);
}

static struct rota_lock *take(struct rota *r, const char *name, struct lost *lost)
{
    struct rota_ask ask = {.owner = ROTA_OWNER_NONE};
    struct rota_lock *lock = NULL;
    if (lost != NULL) {
        *lost = (struct lost){0};
        ask.on_lost = on_lost;
        ask.arg = lost;
    }
    if (rota_acquire(r, name, &ask, &lock) != 0)
        fail_msg("%s", rota_errmsg(r));
    return lock;
}

static void wait_count(struct rota *r, const char *name, size_t count)
{
    size_t seen = SIZE_MAX;
    int64_t end = now_ms() + PATIENCE_MS;
    while (seen != count) {
        struct rota_line *line = NULL;
        assert_int_equal(rota_inspect(r, name, &line), 0);
        seen = line->count;
        rota_line_free(line);
        if (now_ms() > end)
            fail_msg("%s has %zu tickets, not %zu", name, seen, count);
    }
}

/* The Ith key of a line, and its lease: "NAME/LEASE-NONCE". */
static void key_of(const char *name, size_t i, char *key, size_t room, char *lease)
{
    char text[4096], prefix[64];
    snprintf(prefix, sizeof(prefix), "%s/", name);
    const char *const args[] = {"get", prefix, "--prefix", "--keys-only", "--sort-by=CREATE", NULL};
    assert_int_equal(rt_etcds_ctl(&etcds, -1, text, sizeof(text), args), 0);
    char *at = text;
    for (; *at != '\0' && i > 0; i--) {
        at = strstr(at + 1, prefix);
        assert_non_null(at);
    }
    size_t n = strcspn(at, "\n");
    assert_true(n > 0 && n < room);
    memcpy(key, at, n);
    key[n] = '\0';
    const char *id = strrchr(key, '/') + 1;
    snprintf(lease, 32, "%.*s", (int)strcspn(id, "-"), id);
}

/* ---- What is taken away ------------------------------------------------------------------------- */

/* R3, R4: by its key the holder hears at once that its lease was revoked. */
static void test_a_revoked_lease_is_told(void **state)
{
    struct rota *a = client(60000), *b = client(60000);
    struct lost lost;
    char key[128], lease[32];
    (void)state;
    struct rota_lock *lock = take(a, "revoked", &lost);
    key_of("revoked", 0, key, sizeof(key), lease);
    int64_t begin = now_ms();
    rt_etcds_must(&etcds, "lease", "revoke", lease);
    UNTIL(atomic_load(&lost.calls) > 0);
    assert_int_equal(atomic_load(&lost.reason), ROTA_LOST);
    assert_true(now_ms() - begin < 15000); /* not by a heartbeat: one comes after 20 s */
    assert_true(rota_remaining_ms(lock) <= 0);
    struct rota_lock *other = take(b, "revoked", NULL);
    assert_int_equal(rota_release(lock), ROTA_LOST); /* and not the other's */
    assert_int_equal(rota_check(other), 0);
    assert_int_equal(rota_release(other), 0);
    lock = take(a, "revoked", NULL); /* in a new session */
    assert_int_equal(rota_release(lock), 0);
    rota_close(a);
    rota_close(b);
}

/* R1, R6: who waits when its session dies is not granted, and does not wait for ever. */
static void test_a_waiter_whose_lease_is_revoked(void **state)
{
    struct rota *a = client(60000), *b = client(60000);
    struct wish wish;
    char key[128], lease[32];
    (void)state;
    struct rota_lock *lock = take(a, "waiter", NULL);
    start(b, "waiter", &wish);
    wait_count(a, "waiter", 2);
    key_of("waiter", 1, key, sizeof(key), lease);
    rt_etcds_must(&etcds, "lease", "revoke", lease);
    UNTIL(atomic_load(&wish.calls) > 0);
    assert_int_equal(atomic_load(&wish.err), ROTA_LOST);
    wait_count(a, "waiter", 1);
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(a);
    rota_close(b);
}

/* A key deleted by hand: told with the next heartbeat at the latest. */
static void test_a_deleted_key_is_told(void **state)
{
    struct rota *a = client(TTL_MS);
    struct lost lost;
    char key[128], lease[32];
    (void)state;
    struct rota_lock *lock = take(a, "deleted", &lost), *kept = take(a, "kept", NULL);
    key_of("deleted", 0, key, sizeof(key), lease);
    rt_etcds_must(&etcds, "del", key);
    UNTIL(atomic_load(&lost.calls) > 0);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    assert_int_equal(rota_check(kept), 0);
    assert_int_equal(rota_release(kept), 0);
    rota_close(a);
}

/* R2: a key of the same name made again is another ticket: its create_revision is. */
static void test_a_key_made_again_is_not_ours(void **state)
{
    struct rota *a = client(60000);
    char key[128], lease[32], text[64];
    (void)state;
    struct rota_lock *lock = take(a, "again", NULL);
    key_of("again", 0, key, sizeof(key), lease);
    rt_etcds_must(&etcds, "del", key);
    rt_etcds_must(&etcds, "put", key, "somebody");
    assert_int_equal(rota_release(lock), ROTA_LOST); /* nobody has told it before */
    const char *const get[] = {"get", "--print-value-only", key, NULL};
    assert_int_equal(rt_etcds_ctl(&etcds, -1, text, sizeof(text), get), 0);
    assert_int_equal(strncmp(text, "somebody", 8), 0);
    rt_etcds_must(&etcds, "del", key);
    rota_close(a);
}

/* R5: history is thrown away while somebody waits. */
static void test_compaction_while_waiting(void **state)
{
    struct rota *a = client(TTL_MS), *b = client(TTL_MS);
    struct wish wish;
    (void)state;
    struct rota_lock *lock = take(a, "compacted", NULL);
    start(b, "compacted", &wish);
    wait_count(a, "compacted", 2);
    for (int i = 0; i < 3; i++) {
        rt_etcds_must(&etcds, "put", "elsewhere", "x");
        rt_etcds_compact(&etcds);
    }
    assert_int_equal(rota_release(lock), 0);
    UNTIL(atomic_load(&wish.calls) > 0);
    assert_int_equal(atomic_load(&wish.err), 0);
    assert_int_equal(rota_release(atomic_load(&wish.lock)), 0);
    rt_etcds_must(&etcds, "del", "elsewhere");
    rota_close(a);
    rota_close(b);
}

/* The server dies and comes back within the ttl: holds stay, who waits is granted when it is time. */
static void test_a_server_that_comes_back(void **state)
{
    struct rota *a = client(30000), *b = client(30000);
    struct lost lost;
    struct wish wish;
    (void)state;
    struct rota_lock *lock = take(a, "outage", &lost);
    start(b, "outage", &wish);
    wait_count(a, "outage", 2);
    rt_server_kill(&etcds.node[0].server);
    rt_etcds_run(&etcds, 0);
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(atomic_load(&lost.calls), 0);
    assert_int_equal(atomic_load(&wish.calls), 0);
    assert_int_equal(rota_release(lock), 0);
    UNTIL(atomic_load(&wish.calls) > 0);
    assert_int_equal(atomic_load(&wish.err), 0);
    assert_int_equal(rota_release(atomic_load(&wish.lock)), 0);
    rota_close(a);
    rota_close(b);
}

/* ---- Others in the line ----------------------------------------------------------------------------- */

/* As Go's Mutex writes it: NAME/LEASE, empty, on its lease. */
static void put_foreign(const char *name, const char *value, char *key, size_t room)
{
    char text[256], lease[32];
    const char *const grant[] = {"lease", "grant", "600", NULL};
    assert_int_equal(rt_etcds_ctl(&etcds, -1, text, sizeof(text), grant), 0);
    assert_int_equal(sscanf(text, "lease %31s granted", lease), 1);
    snprintf(key, room, "%s/%s", name, lease);
    char option[48];
    snprintf(option, sizeof(option), "--lease=%s", lease);
    rt_etcds_must(&etcds, "put", option, key, value);
}

static void test_foreign_tickets_are_exclusive(void **state)
{
    struct rota *a = client(TTL_MS);
    struct rota_ask try = {.flags = ROTA_TRY}, shared = {.flags = ROTA_TRY, .mode = ROTA_SHARED};
    struct rota_lock *lock = NULL;
    struct rota_line *line = NULL;
    struct wish wish;
    char first[128], second[128];
    (void)state;
    put_foreign("foreign", "", first, sizeof(first));
    assert_int_equal(rota_acquire(a, "foreign", &try, &lock), ROTA_BUSY);
    assert_int_equal(rota_acquire(a, "foreign", &shared, &lock), ROTA_BUSY);
    wait_count(a, "foreign", 1); /* a try leaves nothing */
    start(a, "foreign", &wish);
    wait_count(a, "foreign", 2);
    put_foreign("foreign", "", second, sizeof(second));
    wait_count(a, "foreign", 3);
    rt_etcds_must(&etcds, "del", first);
    UNTIL(atomic_load(&wish.calls) > 0); /* before the second: in order of arrival */
    assert_int_equal(atomic_load(&wish.err), 0);
    assert_int_equal(rota_inspect(a, "foreign", &line), 0);
    assert_true(line->count == 2 && line->granted == 1);
    assert_true(line->places[0].number == rota_fence(atomic_load(&wish.lock)));
    assert_true(line->places[1].label[0] != '\0');
    rota_line_free(line);
    assert_int_equal(rota_break(a, "foreign", rota_fence(atomic_load(&wish.lock)) + 1000),
                     ROTA_LOST);
    assert_int_equal(rota_release(atomic_load(&wish.lock)), 0);
    rt_etcds_must(&etcds, "del", second);
    rota_close(a);
}

/* A leader's value is the key's value, as foreign observers expect; theirs is understood. */
static void test_values_of_leaders(void **state)
{
    struct rota *a = client(TTL_MS);
    struct rota_lock *lock = NULL;
    struct rota_line *line = NULL;
    char key[128], lease[32], text[128];
    (void)state;
    assert_int_equal(rota_elect(a, "leader", "node 1", NULL, &lock), 0);
    key_of("leader", 0, key, sizeof(key), lease);
    const char *const get[] = {"get", "--print-value-only", key, NULL};
    assert_int_equal(rt_etcds_ctl(&etcds, -1, text, sizeof(text), get), 0);
    assert_string_equal(text, "node 1\n");
    assert_int_equal(rota_inspect(a, "leader", &line), 0);
    assert_string_equal(line->places[0].value, "node 1");
    assert_string_equal(line->places[0].label, "test"); /* its session says it */
    rota_line_free(line);
    assert_int_equal(rota_release(lock), 0);
    put_foreign("leader", "go", key, sizeof(key));
    assert_int_equal(rota_inspect(a, "leader", &line), 0);
    assert_string_equal(line->places[0].value, "go");
    rota_line_free(line);
    rt_etcds_must(&etcds, "del", key);
    rota_close(a);
}

static void test_a_later_layout_is_refused(void **state)
{
    struct rota *a = client(TTL_MS);
    struct rota_lock *lock = NULL;
    (void)state;
    rt_etcds_must(&etcds, "put", "later/1-1", "rota2 what do I know");
    assert_int_equal(rota_acquire(a, "later", NULL, &lock), ROTA_UNSUPPORTED);
    wait_count(a, "later", 1); /* taken back */
    rt_etcds_must(&etcds, "del", "later/1-1");
    rota_close(a);
}

/* R8: nothing is left of clients that have closed: no key, no lease, no watch. */
static void test_nothing_is_left(void **state)
{
    (void)state;
    long sessions = rt_etcds_keys(&etcds, "+rota/"), leases = rt_etcds_leases(&etcds);
    for (int i = 0; i < 3; i++) {
        struct rota *a = client(TTL_MS), *b = client(TTL_MS);
        struct rota_ask least = {.at_least_ms = 1, .owner = ROTA_OWNER_NONE};
        struct wish wish;
        struct rota_lock *lock = take(a, "left", NULL), *other = NULL;
        start(b, "left", &wish);
        wait_count(a, "left", 2);
        assert_int_equal(rota_release(lock), 0);
        UNTIL(atomic_load(&wish.calls) > 0);
        assert_int_equal(rota_release(atomic_load(&wish.lock)), 0);
        assert_int_equal(rota_acquire(a, "least", &least, &other), 0);
        assert_int_equal(rota_release(other), 0);
        rota_close(a);
        rota_close(b);
    }
    assert_int_equal(rt_etcds_keys(&etcds, "left/"), 0);
    UNTIL(rt_etcds_keys(&etcds, "least/") == 0);
    /* etcd may drop a revocation whose connection closes at once: then the ttl ends the session. */
    UNTIL(rt_etcds_keys(&etcds, "+rota/") <= sessions);
    UNTIL(rt_etcds_leases(&etcds) <= leases);
    UNTIL(rt_etcds_metric(&etcds, 0, RT_ETCDS_WATCHERS) <= 0);
}

static int setup(void **state)
{
    (void)state;
    rt_etcds_start(&etcds, 1, NULL);
    url = rt_etcds_url(&etcds, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(url);
    rt_etcds_fini(&etcds);
    return 0;
}

/* Strict goes by the version: caps say whether it opens, and where not, the reason names it. */
static void test_strict_goes_by_the_version(void **state)
{
    (void)state;
    struct rota *r = client(2000), *strict = NULL;
    bool sure = (rota_caps(r) & ROTA_CAP_STRICT) != 0;
    struct rota_options opts = {.flags = ROTA_STRICT};
    int rv = rota_open(&strict, url, &opts);
    assert_int_equal(rv, sure ? 0 : ROTA_UNSAFE);
    if (!sure)
        assert_non_null(strstr(rota_errmsg(NULL), "bugs of leases"));
    if (getenv("ROTA_TEST_ETCD") == NULL) /* Debian's 3.4.23 has them */
        assert_false(sure);
    rota_close(strict);
    rota_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_revoked_lease_is_told),
        cmocka_unit_test(test_a_waiter_whose_lease_is_revoked),
        cmocka_unit_test(test_a_deleted_key_is_told),
        cmocka_unit_test(test_a_key_made_again_is_not_ours),
        cmocka_unit_test(test_compaction_while_waiting),
        cmocka_unit_test(test_a_server_that_comes_back),
        cmocka_unit_test(test_foreign_tickets_are_exclusive),
        cmocka_unit_test(test_values_of_leaders),
        cmocka_unit_test(test_a_later_layout_is_refused),
        cmocka_unit_test(test_strict_goes_by_the_version),
        cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
