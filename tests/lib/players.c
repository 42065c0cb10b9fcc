/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of the library as small tests play them. */
#include "players.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

int64_t players_now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void players_pause(int64_t end_ms, const char *what)
{
    if (players_now_ms() > end_ms)
        fail_msg("%s", what);
    nanosleep(&(struct timespec){0, 2000000}, NULL);
}

struct rota *player(const char *url, uint32_t ttl_ms, uint32_t call_ms)
{
    struct rota_options opts = {.ttl_ms = ttl_ms, .call_ms = call_ms, .label = "test"};
    struct rota *r = NULL;
    if (rota_open(&r, url, &opts) != 0)
        fail_msg("%s", rota_errmsg(NULL));
    return r;
}

static void on_lost(struct rota_lock *lock, int reason, void *arg)
{
    struct player_lost *lost = arg;
    (void)lock;
    atomic_store(&lost->reason, reason);
    atomic_fetch_add(&lost->calls, 1);
}

struct rota_lock *player_take(struct rota *r, const char *name, struct player_lost *lost)
{
    struct rota_ask ask = {.owner = ROTA_OWNER_NONE, .limit_ms = PLAYERS_PATIENCE_MS};
    struct rota_lock *lock = NULL;
    if (lost != NULL) {
        *lost = (struct player_lost){0};
        ask.on_lost = on_lost;
        ask.arg = lost;
    }
    if (rota_acquire(r, name, &ask, &lock) != 0)
        fail_msg("%s: %s", name, rota_errmsg(r));
    return lock;
}

static void on_grant(void *arg, int err, struct rota_lock *lock)
{
    struct player_wish *wish = arg;
    atomic_store(&wish->err, err);
    atomic_store(&wish->lock, lock);
    atomic_fetch_add(&wish->calls, 1);
}

void player_wish_as(struct rota *r, const char *name, const struct rota_ask *ask,
                    struct player_wish *wish)
{
    *wish = (struct player_wish){0};
    assert_int_equal(rota_acquire_async(r, name, ask, on_grant, wish, NULL), 0);
}

void player_wish(struct rota *r, const char *name, enum rota_mode mode, struct player_wish *wish)
{
    struct rota_ask ask = {.owner = ROTA_OWNER_NONE, .mode = mode};
    player_wish_as(r, name, &ask, wish);
}

bool player_granted(struct player_wish *wish)
{
    return atomic_load(&wish->calls) > 0 && atomic_load(&wish->err) == 0;
}

struct rota_lock *player_wished(struct player_wish *wish, int err)
{
    UNTIL(atomic_load(&wish->calls) > 0);
    assert_int_equal(atomic_load(&wish->err), err);
    return atomic_load(&wish->lock);
}

size_t player_count(struct rota *r, const char *name)
{
    struct rota_line *line = NULL;
    assert_int_equal(rota_inspect(r, name, &line), 0);
    size_t seen = line->count;
    rota_line_free(line);
    return seen;
}

void player_counts(struct rota *r, const char *name, size_t count)
{
    int64_t end = players_now_ms() + PLAYERS_PATIENCE_MS;
    char what[128];
    for (;;) {
        size_t seen = player_count(r, name);
        if (seen == count)
            return;
        snprintf(what, sizeof(what), "%.64s has %zu tickets, not %zu", name, seen, count);
        players_pause(end, what);
    }
}

uint64_t player_session(struct rota *r, const char *name, size_t i)
{
    struct rota_line *line = NULL;
    assert_int_equal(rota_inspect(r, name, &line), 0);
    assert_true(i < line->count);
    uint64_t session = line->places[i].session;
    rota_line_free(line);
    return session;
}
