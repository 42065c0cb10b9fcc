/* SPDX-License-Identifier: Apache-2.0 */
/* Bugs that bit users of other clients of etcd, replayed with ours on one node: each test is named by
 * its number in the list of regressions (R1 ...), and names the issue of etcd it comes from. */
#include "lib/etcd_server.h"
#include "lib/findings.h"
#include "lib/players.h"
#include "lib/proxy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONG_MS 60000 /* a ttl whose renewals (each third of it) come too late to help a test */

static struct rt_etcds etcds;
static char *url;

/* ---- Parts ------------------------------------------------------------------------------------ */

static void revoke(uint64_t lease)
{
    char text[32];
    snprintf(text, sizeof(text), "%llx", (unsigned long long)lease);
    rt_etcds_must(&etcds, "lease", "revoke", text);
}

static long keys_of(const char *name)
{
    char prefix[80];
    snprintf(prefix, sizeof(prefix), "%s/", name);
    return rt_etcds_keys(&etcds, prefix);
}

/* A client behind a proxy of its own: its connection can be held, cut, refused. */
struct behind {
    struct rt_proxy *proxy;
    struct rota *r;
};

static void behind_open(struct behind *b, uint32_t ttl_ms, uint32_t call_ms)
{
    struct rt_proxy_options opts = {.port = etcds.node[0].server.port};
    char text[64];
    b->proxy = rt_proxy_start(&opts);
    snprintf(text, sizeof(text), "etcd://127.0.0.1:%u", (unsigned)rt_proxy_port(b->proxy));
    b->r = player(text, ttl_ms, call_ms);
}

static void behind_close(struct behind *b)
{
    rota_close(b->r);
    rt_proxy_stop(b->proxy);
}

/* The connection is gone and does not come back. */
static void cut(struct behind *b)
{
    rt_proxy_door(b->proxy, RT_PROXY_REFUSE);
    rt_proxy_end(b->proxy, RT_PROXY_RESET, 0);
}

/* ---- R1: etcd #11456 ---------------------------------------------------------------------------- */

/* A waiter loses its lease, then the holder leaves; the notifications all come at once, after that. */
static void r1_lease_revoked_while_waiting(void **state)
{
    struct rota *a = player(url, LONG_MS, 0);
    struct behind b;
    struct player_wish wish;
    int err;
    (void)state;
    behind_open(&b, LONG_MS, 0);
    struct rota_lock *lock = player_take(a, "r1", NULL);
    player_wish(b.r, "r1", ROTA_EXCLUSIVE, &wish);
    player_counts(a, "r1", 2);
    rt_proxy_hold(b.proxy, RT_PROXY_DOWN);
    revoke(player_session(a, "r1", 1));
    assert_int_equal(rota_release(lock), 0);
    rt_proxy_release(b.proxy, RT_PROXY_DOWN);
    assert_null(player_wished(&wish, ROTA_LOST));
    assert_int_equal(keys_of("r1"), 0);
    /* In a new session; LOST until the end of the old one is reported. */
    UNTIL((err = rota_acquire(b.r, "r1", NULL, &lock)) != ROTA_LOST);
    assert_int_equal(err, 0);
    assert_int_equal(rota_release(lock), 0);
    behind_close(&b);
    rota_close(a);
}

/* As Jepsen had it: the waiter's keep-alives do not get through. */
static void r1_lease_expired_while_waiting(void **state)
{
    struct rota *a = player(url, LONG_MS, 0);
    struct behind b;
    struct player_wish wish;
    (void)state;
    behind_open(&b, 2000, 0);
    struct rota_lock *lock = player_take(a, "r1-expired", NULL);
    player_wish(b.r, "r1-expired", ROTA_EXCLUSIVE, &wish);
    player_counts(a, "r1-expired", 2);
    rt_proxy_hold(b.proxy, RT_PROXY_BOTH);
    player_counts(a, "r1-expired", 1);
    assert_int_equal(rota_release(lock), 0);
    rt_proxy_release(b.proxy, RT_PROXY_BOTH);
    assert_null(player_wished(&wish, ROTA_LOST));
    assert_int_equal(keys_of("r1-expired"), 0);
    behind_close(&b);
    rota_close(a);
}

/* ---- R2: etcd #22082 ---------------------------------------------------------------------------- */

/* A release is stuck on its way; retried elsewhere it is done, and the same session takes the lock
 * again, by the same key. Then the first one arrives. */
static void r2_release_retried_after_a_newer_lock(void **state)
{
    uint16_t port = etcds.node[0].server.port;
    struct rt_proxy_options opts = {.port = port};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    struct player_lost lost;
    char text[64];
    (void)state;
    snprintf(text, sizeof(text), "etcd://127.0.0.1:%u,127.0.0.1:%u", (unsigned)rt_proxy_port(proxy),
             (unsigned)port);
    struct rota *a = player(text, LONG_MS, 2000);
    struct rota_lock *old = player_take(a, "r2", NULL);
    uint64_t fence = rota_fence(old), session = player_session(a, "r2", 0);
    rt_proxy_hold(proxy, RT_PROXY_UP);
    assert_int_equal(rota_release_async(old, NULL, NULL), 0);
    UNTIL(keys_of("r2") == 0);
    struct rota_lock *lock = player_take(a, "r2", &lost);
    assert_true(rota_fence(lock) > fence);
    assert_true(player_session(a, "r2", 0) == session);
    rt_proxy_release(proxy, RT_PROXY_UP);
    UNTIL(rt_proxy_open_connections(proxy) == 0); /* it has arrived */
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(keys_of("r2"), 1);
    assert_int_equal(atomic_load(&lost.calls), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(a);
    rt_proxy_stop(proxy);
}

/* The same by hand: a key of the same name, created again in the same session, is another ticket. */
static void r2_a_key_made_again_is_another_ticket(void **state)
{
    struct rota *a = player(url, LONG_MS, 0);
    char text[256], key[128], lease[48];
    static const char *const list[] = {"get", "r2-again/", "--prefix", "--keys-only", NULL};
    (void)state;
    struct rota_lock *lock = player_take(a, "r2-again", NULL);
    assert_int_equal(rt_etcds_ctl(&etcds, -1, text, sizeof(text), list), 0);
    snprintf(key, sizeof(key), "%.*s", (int)strcspn(text, "\n"), text);
    snprintf(lease, sizeof(lease), "--lease=%llx",
             (unsigned long long)player_session(a, "r2-again", 0));
    rt_etcds_must(&etcds, "del", key);
    rt_etcds_must(&etcds, "put", lease, key, "newer");
    assert_int_equal(rota_release(lock), ROTA_LOST);
    assert_int_equal(keys_of("r2-again"), 1);
    rt_etcds_must(&etcds, "del", key);
    rota_close(a);
}

/* ---- R3: etcd #14758, #20813 ---------------------------------------------------------------------- */

/* What those bugs show to a client: the keys of the lease are gone, and its keep-alives are answered. */
static void r3_keys_gone_while_the_lease_is_kept(void **state)
{
    struct rota *a = player(url, LONG_MS, 0);
    struct player_lost lost;
    char id[32], session[64];
    (void)state;
    struct rota_lock *lock = player_take(a, "r3", &lost);
    snprintf(id, sizeof(id), "%llx", (unsigned long long)player_session(a, "r3", 0));
    snprintf(session, sizeof(session), "+rota/%s", id);
    rt_etcds_must(&etcds, "del", "--prefix", "r3/");
    rt_etcds_must(&etcds, "del", session);
    UNTIL(atomic_load(&lost.calls) > 0);
    assert_int_equal(atomic_load(&lost.reason), ROTA_LOST);
    assert_true(rota_remaining_ms(lock) <= 0);
    rt_etcds_must(&etcds, "lease", "keep-alive", "--once", id); /* it lives, and is kept */
    assert_int_equal(rota_release(lock), ROTA_LOST);
    rt_etcds_must(&etcds, "lease", "revoke", id);
    rota_close(a);
}

/* Only the ticket: the next renewal is answered, and looks at more than the lease. */
static void r3_a_renewal_looks_at_the_keys(void **state)
{
    struct rota *a = player(url, 2000, 0);
    struct player_lost lost;
    (void)state;
    struct rota_lock *lock = player_take(a, "r3-ticket", &lost);
    struct rota_lock *other = player_take(a, "r3-other", NULL);
    rt_etcds_must(&etcds, "del", "--prefix", "r3-ticket/");
    UNTIL(atomic_load(&lost.calls) > 0);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    assert_int_equal(rota_check(other), 0);
    assert_int_equal(rota_release(other), 0);
    rota_close(a);
}

/* ---- R5: etcd #9715 --------------------------------------------------------------------------------- */

static void compact(int times)
{
    for (int i = 0; i < times; i++) {
        rt_etcds_must(&etcds, "put", "elsewhere", "x");
        rt_etcds_compact(&etcds);
    }
}

/* Once with its watch in place, once with the watch made anew after what it waits for is history. */
static void r5_compaction_while_waiting(void **state)
{
    struct rota *a = player(url, LONG_MS, 0);
    struct behind b;
    struct player_wish wish;
    (void)state;
    behind_open(&b, LONG_MS, 0);
    for (int gone = 0; gone < 2; gone++) {
        struct rota_lock *lock = player_take(a, "r5", NULL);
        player_wish(b.r, "r5", ROTA_EXCLUSIVE, &wish);
        player_counts(a, "r5", 2);
        if (gone)
            cut(&b);
        compact(3);
        assert_int_equal(rota_release(lock), 0);
        compact(1);
        rt_proxy_door(b.proxy, RT_PROXY_OPEN);
        assert_int_equal(rota_release(player_wished(&wish, 0)), 0);
        assert_int_equal(keys_of("r5"), 0); /* no orphan */
    }
    rt_etcds_must(&etcds, "del", "elsewhere");
    behind_close(&b);
    rota_close(a);
}

/* ---- R6: etcd #19597 -------------------------------------------------------------------------------- */

/* The holder keeps holding: nobody else will ever wake the waiter. */
static void r6_waiter_whose_session_died(void **state)
{
    struct rota *a = player(url, LONG_MS, 0), *b = player(url, LONG_MS, 0);
    static const enum rota_mode modes[] = {ROTA_EXCLUSIVE, ROTA_SHARED};
    struct player_wish wish;
    (void)state;
    struct rota_lock *lock = player_take(a, "r6", NULL);
    for (size_t i = 0; i < 2; i++) {
        player_wish(b, "r6", modes[i], &wish);
        player_counts(a, "r6", 2);
        revoke(player_session(a, "r6", 1));
        assert_null(player_wished(&wish, ROTA_LOST));
        player_counts(a, "r6", 1);
    }
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(a);
    rota_close(b);
}

/* ---- R7: etcd #16221 -------------------------------------------------------------------------------- */

#define LINE_MAX 4

struct row { /* a line of readers and writers, in order; each with a client of its own */
    struct rota *client[LINE_MAX];
    struct player_wish wish[LINE_MAX];
    enum rota_mode mode[LINE_MAX];
    bool gone[LINE_MAX];
    size_t n;
    char name[64];
};

static bool may_hold(const struct row *row, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (!row->gone[k] && (row->mode[k] == ROTA_EXCLUSIVE || row->mode[i] == ROTA_EXCLUSIVE))
            return false;
    return !row->gone[i];
}

/* Those who may hold are granted, and nobody else, even after each has asked the server once more. */
static void check_row(struct row *row)
{
    struct rota_line *line = NULL;
    for (size_t i = 0; i < row->n; i++)
        if (may_hold(row, i))
            (void)player_wished(&row->wish[i], 0);
    for (size_t i = 0; i < row->n; i++) {
        assert_int_equal(rota_inspect(row->client[i], row->name, &line), 0);
        rota_line_free(line);
    }
    for (size_t i = 0; i < row->n; i++)
        if (!row->gone[i])
            assert_int_equal(player_granted(&row->wish[i]), may_hold(row, i));
}

/* Whoever lost a hold with its session hears of that by the next word from the server: an ask that comes before that
 * word stands on the old lease and is lost too. This one is that ask, so that the next row's is not. */
static void hear_of_the_end(struct rota *r)
{
    struct rota_lock *lock = NULL;
    struct rota_ask ask = {.owner = ROTA_OWNER_NONE, .limit_ms = PLAYERS_PATIENCE_MS};
    int err = rota_acquire(r, "r7-heard", &ask, &lock);
    assert_true(err == 0 || err == ROTA_LOST);
    if (err == 0)
        assert_int_equal(rota_release(lock), 0);
}

static void play_row(struct row *row, unsigned writers, size_t victim)
{
    snprintf(row->name, sizeof(row->name), "r7-%zu-%x-%zu", row->n, writers, victim);
    for (size_t i = 0; i < row->n; i++) {
        row->gone[i] = false;
        row->mode[i] = (writers >> i & 1) != 0 ? ROTA_EXCLUSIVE : ROTA_SHARED;
        player_wish(row->client[i], row->name, row->mode[i], &row->wish[i]);
        player_counts(row->client[i], row->name, i + 1);
    }
    check_row(row);
    bool held = may_hold(row, victim);
    revoke(player_session(row->client[0], row->name, victim));
    player_counts(row->client[0], row->name, row->n - 1);
    row->gone[victim] = true;
    if (!held)
        assert_null(player_wished(&row->wish[victim], ROTA_LOST));
    check_row(row);
    for (size_t i = 0; i < row->n; i++) {
        if (!row->gone[i])
            assert_int_equal(rota_release(atomic_load(&row->wish[i].lock)), 0);
        else if (held)
            assert_int_equal(rota_release(atomic_load(&row->wish[i].lock)), ROTA_LOST);
        row->gone[i] = true;
        check_row(row);
    }
    assert_int_equal(keys_of(row->name), 0);
    hear_of_the_end(row->client[victim]);
}

/* All lines of three and four, and each of the middle ones revoked. */
static void r7_middle_of_readers_and_writers_revoked(void **state)
{
    struct row row = {0};
    (void)state;
    for (size_t i = 0; i < LINE_MAX; i++)
        row.client[i] = player(url, LONG_MS, 0);
    for (row.n = 3; row.n <= LINE_MAX; row.n++)
        for (unsigned writers = 0; writers < 1u << row.n; writers++)
            for (size_t victim = 1; victim + 1 < row.n; victim++)
                play_row(&row, writers, victim);
    for (size_t i = 0; i < LINE_MAX; i++)
        rota_close(row.client[i]);
}

/* ---- R8: etcd #14019, #10686, and tickets that lost their lease -------------------------------------------- */

static struct rt_findings findings;

static const char *leftovers(struct rota *r)
{
    findings.count = 0;
    if (rota_doctor(r, rt_findings_take, &findings) != 0)
        fail_msg("%s", rota_errmsg(r));
    return rt_findings_verdict(&findings, "nothing stays");
}

/* What a mirror of the database has, or a bug of the server leaves: a ticket without its lease. */
static void put_endless(const char *name)
{
    char key[80];
    snprintf(key, sizeof(key), "%s/1234abcd-77", name);
    rt_etcds_must(&etcds, "put", key, "rota1 0 0 0 - 0 0 1700000000000 119 3 who ");
}

/* The doctor counts it and says how to get rid of it. */
static void r8_a_ticket_that_nothing_ends_is_found(void **state)
{
    struct rota *a = player(url, LONG_MS, PLAYERS_PATIENCE_MS);
    struct rota_line *line = NULL;
    struct rota_ask try = {.flags = ROTA_TRY};
    struct rota_lock *lock = NULL;
    char remedy[128];
    (void)state;
    assert_string_equal(leftovers(a), "kept");
    put_endless("r8");
    assert_int_equal(rota_acquire(a, "r8", &try, &lock), ROTA_BUSY);
    assert_string_equal(leftovers(a), "limited");
    assert_non_null(strstr(rt_findings_setting(&findings, "nothing stays"), "1 tickets that"));
    assert_int_equal(rota_inspect(a, "r8", &line), 0);
    assert_true(line->count == 1 && line->places[0].left_ms == -1);
    snprintf(remedy, sizeof(remedy), "rota break r8 --fence %llu",
             (unsigned long long)line->places[0].number);
    assert_string_equal(rt_findings_remedy(&findings, "nothing stays"), remedy);
    assert_int_equal(rota_break(a, "r8", line->places[0].number), 0);
    rota_line_free(line);
    assert_string_equal(leftovers(a), "kept");
    assert_int_equal(rota_acquire(a, "r8", &try, &lock), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(a);
}

/* The waiter behind it removes it: nobody can hold it. */
static void r8_a_ticket_that_nothing_ends_is_swept(void **state)
{
    struct rota *a = player(url, LONG_MS, 0);
    static const enum rota_mode modes[] = {ROTA_EXCLUSIVE, ROTA_SHARED};
    struct player_wish wish;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        put_endless("r8-swept");
        player_wish(a, "r8-swept", modes[i], &wish);
        assert_int_equal(rota_release(player_wished(&wish, 0)), 0);
        assert_int_equal(keys_of("r8-swept"), 0);
    }
    rota_close(a);
}

/* Somebody else's data whose keys look like ours is not swept, not even offered for breaking: it is in the way. */
static void r8_data_is_left_alone(void **state)
{
    static const struct {
        const char *key, *value;
    } data[] = {
        {"r8-data/2026-11", "precious"},
        {"r8-data/1a-s1", "precious"},
        {"r8-data/1a-s1", ""},
        {"r8-data/abc", "precious"},
        {"r8-data/p1-2", "precious"},
        {"r8-data/1a-s1", "rota1 it says"},
        {"r8-data/1a-7", "rota1 0 0 0 - 0 0 0 8 0  "}, /* another ticket's */
    };
    struct rota *a = player(url, LONG_MS, 0);
    struct rota_ask brief = {.limit_ms = 300};
    struct rota_lock *lock = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof(data) / sizeof(*data); i++) {
        rt_etcds_must(&etcds, "put", data[i].key, data[i].value);
        assert_int_equal(rota_acquire(a, "r8-data", &brief, &lock), ROTA_TIMEOUT);
        assert_int_equal(rt_etcds_keys(&etcds, data[i].key), 1);
        (void)leftovers(a);
        assert_null(strstr(rt_findings_remedy(&findings, "nothing stays"), "break"));
        rt_etcds_must(&etcds, "del", data[i].key);
    }
    rota_close(a);
}

/* ... nor does breaking it, for which somebody named it, end a lease that has other data too. */
static void r8_a_broken_key_takes_nothing_with_it(void **state)
{
    struct rota *a = player(url, LONG_MS, 0);
    struct rota_line *line = NULL;
    char said[128], option[40];
    const char *const grant[] = {"lease", "grant", "600", NULL};
    (void)state;
    assert_int_equal(rt_etcds_ctl(&etcds, 0, said, sizeof(said), grant), 0);
    assert_memory_equal(said, "lease ", 6);
    snprintf(option, sizeof(option), "--lease=%.16s", said + 6);
    rt_etcds_must(&etcds, "put", option, "r8-leased/1a-2b", "data");
    rt_etcds_must(&etcds, "put", option, "r8-other/x", "precious");
    assert_int_equal(rota_inspect(a, "r8-leased", &line), 0);
    assert_int_equal(rota_break(a, "r8-leased", line->places[0].number), 0);
    rota_line_free(line);
    rota_close(a); /* what it would still do is done */
    assert_int_equal(keys_of("r8-leased"), 0);
    assert_int_equal(keys_of("r8-other"), 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r1_lease_revoked_while_waiting),
        cmocka_unit_test(r1_lease_expired_while_waiting),
        cmocka_unit_test(r2_release_retried_after_a_newer_lock),
        cmocka_unit_test(r2_a_key_made_again_is_another_ticket),
        cmocka_unit_test(r3_keys_gone_while_the_lease_is_kept),
        cmocka_unit_test(r3_a_renewal_looks_at_the_keys),
        cmocka_unit_test(r5_compaction_while_waiting),
        cmocka_unit_test(r6_waiter_whose_session_died),
        cmocka_unit_test(r7_middle_of_readers_and_writers_revoked),
        cmocka_unit_test(r8_a_ticket_that_nothing_ends_is_found),
        cmocka_unit_test(r8_a_ticket_that_nothing_ends_is_swept),
        cmocka_unit_test(r8_data_is_left_alone),
        cmocka_unit_test(r8_a_broken_key_takes_nothing_with_it),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
