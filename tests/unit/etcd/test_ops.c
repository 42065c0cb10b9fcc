/* SPDX-License-Identifier: Apache-2.0 */
/* The engine on a real etcd: outages, foreign tickets, large sets, what is left behind. */
#include "lib/etcd_server.h"
#include "lib/players.h"
#include "lib/proxy.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TTL_MS 6000
#define LONG_MS 60000 /* a ttl whose renewals (each third of it) come too late to help a test */

static struct rt_etcds etcds;
static char *url;

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

/* ---- Keys ------------------------------------------------------------------------------------ */

/* etcd walks over all keys that were ever in a line: a client that takes its lock again uses the same key. */
static void test_keys_are_used_again(void **state)
{
    struct rota *a = player(url, LONG_MS, 0);
    char first[128], key[128], lease[32];
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct rota_lock *lock = player_take(a, "used", NULL);
        key_of("used", 0, i == 0 ? first : key, sizeof(key), lease);
        assert_int_equal(rota_release(lock), 0);
    }
    assert_string_equal(key, first);
    rota_close(a);
}

/* A key of ours that is there although we know nothing of it (a late JOIN): its place in the line is not
 * taken for ours. */
static void test_a_key_that_is_there_already(void **state)
{
    struct rota *a = player(url, 10 * LONG_MS, 0);
    struct player_wish wish;
    char late[128], key[128], lease[32], option[48];
    (void)state;
    struct rota_lock *lock = player_take(a, "late", NULL);
    key_of("late", 0, late, sizeof(late), lease);
    assert_int_equal(rota_release(lock), 0);
    snprintf(option, sizeof(option), "--lease=%s", lease);
    rt_etcds_must(&etcds, "put", option, late, "rota1 0 0 0 - 0 0 0 77 0  ");
    player_wish(a, "late", ROTA_EXCLUSIVE, &wish);
    player_counts(a, "late", 2);
    assert_int_equal(atomic_load(&wish.calls), 0);
    key_of("late", 1, key, sizeof(key), lease);
    assert_string_not_equal(key, late);
    rt_etcds_must(&etcds, "del", late);
    assert_int_equal(rota_release(player_wished(&wish, 0)), 0);
    rota_close(a);
}

/* The same while the answer that would have said so is lost: the JOIN is retried, finds something else at its spot,
 * and goes elsewhere; it does not try that spot for ever (sim --etcd --seed 2003228). */
static void test_a_key_taken_while_in_doubt(void **state)
{
    struct rt_proxy_options opts = {.port = etcds.node[0].server.port, .framing = &rt_proxy_h2};
    struct rt_fault lost = {.on = RT_FAULT_REPLY, .what = RT_FAULT_DROP, .match = "Txn put"};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    struct player_wish wish;
    char text[64], late[128], lease[32], option[48];
    (void)state;
    snprintf(text, sizeof(text), "etcd://127.0.0.1:%u", (unsigned)rt_proxy_port(proxy));
    struct rota *a = player(url, 10 * LONG_MS, 0), *b = player(text, 10 * LONG_MS, 1000);
    struct rota_lock *lock = player_take(b, "doubt", NULL);
    key_of("doubt", 0, late, sizeof(late), lease);
    assert_int_equal(rota_release(lock), 0);
    snprintf(option, sizeof(option), "--lease=%s", lease);
    rt_etcds_must(&etcds, "put", option, late, "rota1 0 0 0 - 0 0 0 77 0  ");
    uint32_t fault = rt_proxy_fault(proxy, &lost);
    player_wish(b, "doubt", ROTA_EXCLUSIVE, &wish);
    assert_true(rt_proxy_await_hits(proxy, fault, 1, 15000));
    /* It has a key of its own; or it holds, because its client, slow to hear, has found the strange one and given it
     * back. */
    UNTIL(player_granted(&wish) || player_count(a, "doubt") == 2);
    if (!player_granted(&wish)) /* else it may stand at that spot by now */
        rt_etcds_must(&etcds, "del", late);
    assert_int_equal(rota_release(player_wished(&wish, 0)), 0);
    rota_close(a);
    rota_close(b);
    rt_proxy_stop(proxy);
}

/* A late ticket that nobody wants is given back, however fast its client asks for that name: there is always a JOIN
 * under way, each of which finds the lock busy because of it. */
static void test_a_key_in_the_way_of_tries(void **state)
{
    struct rota *a = player(url, TTL_MS, 0);
    struct rota_ask try = {.flags = ROTA_TRY};
    char late[128], lease[32], option[48];
    int err;
    (void)state;
    struct rota_lock *lock = player_take(a, "in the way", NULL);
    key_of("in%20the%20way", 0, late, sizeof(late), lease);
    assert_int_equal(rota_release(lock), 0);
    snprintf(option, sizeof(option), "--lease=%s", lease);
    rt_etcds_must(&etcds, "put", option, late, "rota1 0 0 0 - 0 0 0 77 0  ");
    while ((err = rota_acquire(a, "in the way", &try, &lock)) == ROTA_BUSY)
        ;
    assert_int_equal(err, 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(a);
}

/* A client that gives up before its JOIN is answered takes its ticket back by its nonce, which only the
 * value has: with this ttl no heartbeat finds it. */
static void test_what_was_given_up_is_taken_back(void **state)
{
    struct rt_proxy_options opts = {.port = etcds.node[0].server.port, .framing = &rt_proxy_h2};
    struct rt_fault late = {
        .on = RT_FAULT_REPLY, .what = RT_FAULT_DELAY, .match = "Txn put", .delay_us = 3000000};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    struct rota_ask ask = {.limit_ms = 500, .owner = ROTA_OWNER_NONE};
    struct rota_lock *lock = NULL;
    char text[64];
    (void)state;
    snprintf(text, sizeof(text), "etcd://127.0.0.1:%u", (unsigned)rt_proxy_port(proxy));
    struct rota *a = player(url, 10 * LONG_MS, 0), *b = player(text, 10 * LONG_MS, 1000);
    assert_int_equal(rota_release(player_take(b, "other", NULL)), 0); /* it has a session */
    struct rota_lock *held = player_take(a, "given up", NULL);
    uint32_t fault = rt_proxy_fault(proxy, &late);
    assert_int_not_equal(rota_acquire(b, "given up", &ask, &lock), 0);
    assert_int_equal(rt_proxy_fault_hits(proxy, fault), 1);
    player_counts(a, "given up", 1);
    assert_int_equal(rota_release(held), 0);
    rota_close(a);
    rota_close(b);
    rt_proxy_stop(proxy);
}

static void note_granted(void *arg, int err, struct rota_lock *lock)
{
    struct rota_lock *_Atomic *out = arg;
    assert_int_equal(err, 0);
    atomic_store(out, lock);
}

/* A JOIN without an answer is retried where it was put, though a spot before that is free by now: otherwise
 * it would stand twice. With this ttl no heartbeat finds it. */
static void test_what_is_asked_again_stands_once(void **state)
{
    struct rt_proxy_options opts = {.port = etcds.node[0].server.port, .framing = &rt_proxy_h2};
    struct rt_fault lost = {.on = RT_FAULT_REPLY, .what = RT_FAULT_DROP, .match = "Txn put"};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    struct rota_ask ask = {.mode = ROTA_PERMITS, .take = 1, .of = 3, .owner = ROTA_OWNER_NONE};
    static struct rota_lock *_Atomic granted;
    uint64_t id;
    char text[64];
    (void)state;
    snprintf(text, sizeof(text), "etcd://127.0.0.1:%u", (unsigned)rt_proxy_port(proxy));
    struct rota *a = player(url, 10 * LONG_MS, 0), *b = player(text, 10 * LONG_MS, 1000);
    struct rota_lock *first = NULL;
    assert_int_equal(rota_acquire(b, "again", &ask, &first), 0);
    uint32_t fault = rt_proxy_fault(proxy, &lost);
    assert_int_equal(rota_acquire_async(b, "again", &ask, note_granted, &granted, &id), 0);
    assert_true(rt_proxy_await_hits(proxy, fault, 1, 15000));
    (void)rota_release(first); /* it stands behind the JOIN that is not answered */
    UNTIL(atomic_load(&granted) != NULL);
    player_counts(a, "again", 1);
    assert_int_equal(rota_release(atomic_load(&granted)), 0);
    player_counts(a, "again", 0);
    rota_close(a);
    rota_close(b);
    rt_proxy_stop(proxy);
}

/* ---- Outages ----------------------------------------------------------------------------------- */

/* The server dies and comes back within the ttl: holds stay, waiters are granted when it is time. */
static void test_a_server_that_comes_back(void **state)
{
    struct rota *a = player(url, 30000, 0), *b = player(url, 30000, 0);
    struct player_lost lost;
    struct player_wish wish;
    (void)state;
    struct rota_lock *lock = player_take(a, "outage", &lost);
    player_wish(b, "outage", ROTA_EXCLUSIVE, &wish);
    player_counts(a, "outage", 2);
    rt_server_kill(&etcds.node[0].server);
    rt_etcds_run(&etcds, 0);
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(atomic_load(&lost.calls), 0);
    assert_int_equal(atomic_load(&wish.calls), 0);
    assert_int_equal(rota_release(lock), 0);
    assert_int_equal(rota_release(player_wished(&wish, 0)), 0);
    rota_close(a);
    rota_close(b);
}

/* A new watch tells nothing of what happened before: the look that follows it does. */
static void test_what_happened_before_the_watch(void **state)
{
    struct rt_proxy_options opts = {.port = etcds.node[0].server.port};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    struct player_wish wish;
    char text[64];
    (void)state;
    snprintf(text, sizeof(text), "etcd://127.0.0.1:%u", (unsigned)rt_proxy_port(proxy));
    struct rota *a = player(url, LONG_MS, 0), *b = player(text, LONG_MS, 0);
    static const enum rota_mode modes[] = {ROTA_EXCLUSIVE, ROTA_SHARED};
    for (size_t i = 0; i < 2; i++) {
        struct rota_lock *lock = player_take(a, "before", NULL);
        player_wish(b, "before", modes[i], &wish);
        player_counts(a, "before", 2);
        rt_proxy_door(proxy, RT_PROXY_REFUSE);
        rt_proxy_end(proxy, RT_PROXY_RESET, 0);
        assert_int_equal(rota_release(lock), 0);
        rt_proxy_door(proxy, RT_PROXY_OPEN);
        assert_int_equal(rota_release(player_wished(&wish, 0)), 0);
    }
    rota_close(a);
    rota_close(b);
    rt_proxy_stop(proxy);
}

/* ---- Sets --------------------------------------------------------------------------------------------- */

#define SET_MAX 128

struct set {
    char text[SET_MAX][16];
    const char *names[SET_MAX];
    struct rota_lock *locks[SET_MAX];
};

static void set_fill(struct set *set)
{
    for (size_t i = 0; i < SET_MAX; i++) {
        snprintf(set->text[i], sizeof(set->text[i]), "set-%zu", i);
        set->names[i] = set->text[i];
    }
}

static void set_release(struct set *set, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(rota_release(set->locks[i]), 0);
}

/* More names than one transaction can look at besides the puts: a line of another kind is still found,
 * and nothing of the set stays. */
static void test_kinds_in_large_sets(void **state)
{
    struct rota *a = player(url, LONG_MS, 15000);
    struct rota_ask permit = {.mode = ROTA_PERMITS, .take = 1, .of = 3};
    struct rota_ask try = {.flags = ROTA_TRY}, wait = {.limit_ms = 15000};
    static const size_t sizes[] = {64, 65, SET_MAX};
    struct set set;
    struct rota_lock *other = NULL;
    (void)state;
    set_fill(&set);
    for (size_t i = 0; i < 3; i++) {
        size_t n = sizes[i];
        assert_int_equal(rota_acquire_all(a, set.names, n, NULL, set.locks), 0);
        set_release(&set, n);
        assert_int_equal(rota_acquire(a, set.names[n - 1], &permit, &other), 0);
        assert_int_equal(rota_acquire_all(a, set.names, n, &wait, set.locks), ROTA_INVALID);
        assert_non_null(strstr(rota_errmsg(a), set.names[n - 1]));
        assert_int_equal(rota_acquire_all(a, set.names, n, &try, set.locks), ROTA_INVALID);
        assert_int_equal(rt_etcds_keys(&etcds, "set-"), 1);
        assert_int_equal(rota_release(other), 0);
        assert_int_equal(rota_acquire_all(a, set.names, n, &try, set.locks), 0);
        set_release(&set, n);
    }
    rota_close(a);
}

/* Room is seen in large sets too: readers beside readers, at once; behind a writer they wait. */
static void test_readers_in_large_sets(void **state)
{
    struct rota *a = player(url, LONG_MS, 15000), *b = player(url, LONG_MS, 15000);
    struct rota_ask shared = {.mode = ROTA_SHARED, .owner = ROTA_OWNER_NONE};
    struct rota_ask try = {.mode = ROTA_SHARED, .flags = ROTA_TRY};
    struct set set;
    struct rota_lock *reader = NULL;
    (void)state;
    set_fill(&set);
    assert_int_equal(rota_acquire(b, "set-100", &shared, &reader), 0);
    assert_int_equal(rota_acquire_all(a, set.names, SET_MAX, &try, set.locks), 0);
    set_release(&set, SET_MAX);
    assert_int_equal(rota_acquire_all(a, set.names, SET_MAX, &shared, set.locks), 0);
    set_release(&set, SET_MAX);
    assert_int_equal(rota_release(reader), 0);
    struct rota_lock *writer = player_take(b, "set-100", NULL);
    assert_int_equal(rota_acquire_all(a, set.names, SET_MAX, &try, set.locks), ROTA_BUSY);
    shared.limit_ms = 50;
    assert_int_equal(rota_acquire_all(a, set.names, SET_MAX, &shared, set.locks), ROTA_TIMEOUT);
    UNTIL(rt_etcds_keys(&etcds, "set-") == 1);
    assert_int_equal(rota_release(writer), 0);
    rota_close(a);
    rota_close(b);
}

/* ---- Many tickets -------------------------------------------------------------------------------- */

#define WIDE_SETS \
    44 /* of names of 750 bytes on etcd, a blank being three: 4.3 MB of keys on one lease */

static void take_wide(struct rota *r, struct rota_lock **locks)
{
    static char text[SET_MAX][256];
    const char *names[SET_MAX];
    for (size_t k = 0; k < WIDE_SETS; k++) {
        for (size_t i = 0; i < SET_MAX; i++) {
            snprintf(text[i], sizeof(text[i]), "wide-%zu-%zu-%240s", k, i, "");
            names[i] = text[i];
        }
        assert_int_equal(rota_acquire_all(r, names, SET_MAX, NULL, locks + k * SET_MAX), 0);
    }
}

/* What is more than one answer can hold is looked at by pages: a ticket that was broken, or that somebody deleted, is
 * missed as ever, and those that stand are not. */
static void test_a_loss_among_many(void **state)
{
    static struct rota_lock *locks[WIDE_SETS * SET_MAX];
    struct rota *a = player(url, LONG_MS, 15000), *b = player(url, LONG_MS, 15000);
    struct player_lost lost, other;
    char key[1024], lease[32];
    (void)state;
    struct rota_lock *lock = player_take(a, "wide", &lost);
    key_of("wide", 0, key, sizeof(key), lease);
    take_wide(a, locks);
    struct rota_lock *last = player_take(a, "wide-last", &other);
    assert_int_equal(rota_break(b, "wide", rota_fence(lock)), 0);
    UNTIL(atomic_load(&lost.calls) > 0);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    assert_int_equal(atomic_load(&other.calls), 0);
    assert_int_equal(rota_check(last), 0);
    assert_int_equal(rota_check(locks[0]), 0);
    rt_etcds_must(&etcds, "lease", "revoke", lease);
    UNTIL(atomic_load(&other.calls) > 0);
    for (size_t i = 0; i < WIDE_SETS * SET_MAX; i++)
        assert_int_equal(rota_release(locks[i]), ROTA_LOST);
    assert_int_equal(rota_release(last), ROTA_LOST);
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
    struct rota *a = player(url, TTL_MS, 0);
    struct rota_ask try = {.flags = ROTA_TRY}, shared = {.flags = ROTA_TRY, .mode = ROTA_SHARED};
    struct rota_lock *lock = NULL;
    struct rota_line *line = NULL;
    struct player_wish wish;
    char first[128], second[128];
    (void)state;
    put_foreign("foreign", "", first, sizeof(first));
    assert_int_equal(rota_acquire(a, "foreign", &try, &lock), ROTA_BUSY);
    assert_int_equal(rota_acquire(a, "foreign", &shared, &lock), ROTA_BUSY);
    player_counts(a, "foreign", 1); /* a try leaves nothing */
    player_wish(a, "foreign", ROTA_EXCLUSIVE, &wish);
    player_counts(a, "foreign", 2);
    put_foreign("foreign", "", second, sizeof(second));
    player_counts(a, "foreign", 3);
    rt_etcds_must(&etcds, "del", first);
    UNTIL(atomic_load(&wish.calls) > 0); /* before the second: in order of arrival */
    assert_int_equal(atomic_load(&wish.err), 0);
    assert_int_equal(rota_inspect(a, "foreign", &line), 0);
    assert_true(line->count == 2 && line->granted == 1);
    assert_true(line->places[0].number == rota_fence(atomic_load(&wish.lock)));
    assert_memory_equal(line->places[1].label, "lease ", 6);
    assert_true(line->places[1].since_ms == -1 && line->places[0].since_ms >= 0);
    assert_int_equal(line->places[1].flags, ROTA_PLACE_FOREIGN);
    assert_false(line->places[0].flags & ROTA_PLACE_FOREIGN);
    rota_line_free(line);
    assert_int_equal(rota_break(a, "foreign", rota_fence(atomic_load(&wish.lock)) + 1000),
                     ROTA_LOST);
    assert_int_equal(rota_release(atomic_load(&wish.lock)), 0);
    rt_etcds_must(&etcds, "del", second);
    rota_close(a);
}

/* What nothing ends is seen everywhere, and belongs to nobody. */
static void test_a_foreign_ticket_without_a_lease(void **state)
{
    struct rota *a = player(url, TTL_MS, 0);
    struct rota_line *line = NULL;
    size_t count = 0;
    (void)state;
    rt_etcds_must(&etcds, "put", "leaseless/abc", "hello");
    assert_int_equal(rota_list(a, "leaseless", &line, &count), 0);
    assert_true(count == 1 && line->count == 1 && line->granted == 1);
    rota_list_free(line, count);
    assert_int_equal(rota_inspect(a, "leaseless", &line), 0);
    const struct rota_place *place = &line->places[0];
    assert_true(place->session == 0 && place->left_ms == -1 && place->since_ms == -1);
    assert_true(place->flags == (ROTA_PLACE_FOREIGN | ROTA_PLACE_GRANTED));
    assert_string_equal(place->label, "no lease");
    assert_string_equal(place->value, "hello");
    rota_line_free(line);
    rt_etcds_must(&etcds, "del", "leaseless/abc");
    rota_close(a);
}

/* ?names=raw: nobody may stand in the line of the sessions. */
static void test_the_name_of_the_sessions(void **state)
{
    char raw[256];
    static const char *const names[] = {"+rota", "+rota/x", "a+rota"};
    (void)state;
    snprintf(raw, sizeof(raw), "%s?names=raw", url);
    struct rota *a = player(raw, TTL_MS, 0);
    struct rota_lock *lock = NULL;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rota_acquire(a, names[i], NULL, &lock), ROTA_INVALID);
    assert_int_equal(rota_break(a, "+rota", 1), ROTA_INVALID);
    assert_int_equal(rota_acquire(a, "+rotas", NULL, &lock), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(a);
}

/* A leader's value is the key's value, as foreign observers expect; theirs is understood. */
static void test_values_of_leaders(void **state)
{
    struct rota *a = player(url, TTL_MS, 0);
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
    assert_false(line->places[0].flags & ROTA_PLACE_FOREIGN);
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
    struct rota *a = player(url, TTL_MS, 0);
    struct rota_lock *lock = NULL;
    (void)state;
    rt_etcds_must(&etcds, "put", "later/1-1", "rota2 what do I know");
    assert_int_equal(rota_acquire(a, "later", NULL, &lock), ROTA_UNSUPPORTED);
    player_counts(a, "later", 1); /* taken back */
    rt_etcds_must(&etcds, "del", "later/1-1");
    rota_close(a);
}

/* R8: nothing is left of clients that have closed: no key, no lease, no watch. */
static void test_nothing_is_left(void **state)
{
    (void)state;
    long sessions = rt_etcds_keys(&etcds, "+rota/"), leases = rt_etcds_leases(&etcds);
    for (int i = 0; i < 3; i++) {
        struct rota *a = player(url, 60000, 0), *b = player(url, 60000, 0);
        struct rota_ask least = {.at_least_ms = 1, .owner = ROTA_OWNER_NONE};
        struct player_wish wish;
        struct rota_lock *lock = player_take(a, "left", NULL), *other = NULL;
        player_wish(b, "left", ROTA_EXCLUSIVE, &wish);
        player_counts(a, "left", 2);
        assert_int_equal(rota_release(lock), 0);
        assert_int_equal(rota_release(player_wished(&wish, 0)), 0);
        assert_int_equal(rota_acquire(a, "least", &least, &other), 0);
        assert_int_equal(rota_release(other), 0);
        rota_close(a);
        rota_close(b);
    }
    assert_int_equal(rt_etcds_keys(&etcds, "left/"), 0);
    assert_true(rt_etcds_keys(&etcds, "+rota/") <= sessions); /* close has waited for it */
    UNTIL(rt_etcds_keys(&etcds, "least/") == 0);
    UNTIL(rt_etcds_leases(&etcds) <= leases);
    UNTIL(rt_etcds_metric(&etcds, 0, RT_ETCDS_WATCHERS) <= 0);
}

static atomic_bool closed;

static void *close_it(void *r)
{
    rota_close(r);
    atomic_store(&closed, true);
    return NULL;
}

/* etcd drops what it has not begun when the connection goes: close waits for the answer. */
static void test_close_waits_for_the_end(void **state)
{
    struct rt_proxy_options opts = {.port = etcds.node[0].server.port, .framing = &rt_proxy_h2};
    struct rt_fault late = {.on = RT_FAULT_REPLY, .what = RT_FAULT_DELAY, .match = "LeaseRevoke"};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    pthread_t thread;
    char text[64];
    (void)state;
    snprintf(text, sizeof(text), "etcd://127.0.0.1:%u", (unsigned)rt_proxy_port(proxy));
    struct rota *a = player(text, LONG_MS, 15000);
    assert_int_equal(rota_release(player_take(a, "closing", NULL)), 0);
    uint32_t fault = rt_proxy_fault(proxy, &late);
    assert_int_equal(pthread_create(&thread, NULL, close_it, a), 0);
    assert_true(rt_proxy_await_hits(proxy, fault, 1, 15000));
    nanosleep(&(struct timespec){0, 20000000}, NULL); /* only to show one that does not wait */
    assert_false(atomic_load(&closed));
    rt_proxy_fault_release(proxy, fault);
    assert_int_equal(pthread_join(thread, NULL), 0);
    rt_proxy_stop(proxy);
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

/* Strict depends on the version: caps say whether it opens; where it does not, the reason names the version. */
static void test_strict_goes_by_the_version(void **state)
{
    (void)state;
    struct rota *r = player(url, 2000, 0), *strict = NULL;
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
        cmocka_unit_test(test_keys_are_used_again),
        cmocka_unit_test(test_a_key_that_is_there_already),
        cmocka_unit_test(test_a_key_taken_while_in_doubt),
        cmocka_unit_test(test_a_key_in_the_way_of_tries),
        cmocka_unit_test(test_what_was_given_up_is_taken_back),
        cmocka_unit_test(test_what_is_asked_again_stands_once),
        cmocka_unit_test(test_a_server_that_comes_back),
        cmocka_unit_test(test_what_happened_before_the_watch),
        cmocka_unit_test(test_kinds_in_large_sets),
        cmocka_unit_test(test_readers_in_large_sets),
        cmocka_unit_test(test_a_loss_among_many),
        cmocka_unit_test(test_foreign_tickets_are_exclusive),
        cmocka_unit_test(test_a_foreign_ticket_without_a_lease),
        cmocka_unit_test(test_the_name_of_the_sessions),
        cmocka_unit_test(test_values_of_leaders),
        cmocka_unit_test(test_a_later_layout_is_refused),
        cmocka_unit_test(test_strict_goes_by_the_version),
        cmocka_unit_test(test_close_waits_for_the_end),
        cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
