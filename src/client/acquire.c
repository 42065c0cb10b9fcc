/* SPDX-License-Identifier: Apache-2.0 */
/* Asking for locks: what the caller says is checked, gets a handle, and goes to the desk. */
#include "client/client.h"

#include "base/alloc.h"
#include "client/metrics.h"

#include <assert.h>
#include <string.h>

#define OWNER_MOST (UINT64_C(1) << 62)

/* Longer than any program runs, and far from where nanoseconds overflow. */
#define MS_MOST (INT64_MAX / RT_MS / 4)

/* Buffers that are written before they are read: not worth the hardening's zeroes. */
#define UNINITIALIZED __attribute__((uninitialized))

static int64_t ns_of(uint64_t ms)
{
    return (ms > (uint64_t)MS_MOST ? MS_MOST : (int64_t)ms) * RT_MS;
}

/* Thread numbers are distinct from the owners that callers name, and are never reused: a thread's id would be, and a
 * new thread would re-enter what a dead one held. */
uint64_t rt_thread_owner(void)
{
    static _Atomic uint64_t threads;
    static _Thread_local uint64_t owner;

    if (owner == 0)
        owner = UINT64_C(1) << 63 | (atomic_fetch_add(&threads, 1) + 1);
    return owner;
}

/* ---- What is asked for -------------------------------------------------- */

static int check_ask(const struct rota *r, const struct rota_ask *ask)
{
    uint32_t caps = rota_caps(r);

    if (ask->mode > ROTA_PERMITS)
        return rt_fail(r, ROTA_INVALID,
                       "there is no mode %u: use ROTA_EXCLUSIVE, ROTA_SHARED or "
                       "ROTA_PERMITS",
                       ask->mode);
    if ((ask->flags & ~(ROTA_TRY | ROTA_DETECT | ROTA_REJOIN)) != 0)
        return rt_fail(r, ROTA_INVALID, "unknown flags %#x in the ask", ask->flags);
    if ((ask->flags & ROTA_TRY) != 0 && (ask->flags & ROTA_REJOIN) != 0)
        return rt_fail(r, ROTA_INVALID, "ROTA_TRY does not wait: leave out ROTA_REJOIN");
    if (ask->on_wait != NULL && (ask->flags & ROTA_REJOIN) == 0)
        return rt_fail(r, ROTA_INVALID, "on_wait is called only with ROTA_REJOIN");
    if (!rt_grant_valid(ask->mode, ask->take, ask->of))
        return rt_fail(r, ROTA_INVALID,
                       "cannot take %u of %u: permits want 1 <= take <= of, "
                       "the others neither",
                       ask->take, ask->of);
    if (ask->owner > OWNER_MOST && ask->owner != ROTA_OWNER_NONE)
        return rt_fail(r, ROTA_INVALID, "an owner is a number from 1 to 2^62");
    if (ask->mode == ROTA_SHARED && (caps & ROTA_CAP_SHARED) == 0)
        return rt_fail(r, ROTA_UNSUPPORTED, "shared locks are not possible on %s", r->shown_url);
    if (ask->mode == ROTA_PERMITS && (caps & ROTA_CAP_PERMITS) == 0)
        return rt_fail(r, ROTA_UNSUPPORTED, "permits are not possible on %s", r->shown_url);
    if ((ask->flags & ROTA_DETECT) != 0 && (caps & ROTA_CAP_ORDER) == 0)
        return rt_fail(r, ROTA_UNSUPPORTED,
                       "ROTA_DETECT is not possible on %s: nobody sees there who waits",
                       r->shown_url);
    if (ask->linger_ms != 0 && (caps & ROTA_CAP_WANTED) == 0)
        return rt_fail(r, ROTA_UNSUPPORTED, "linger_ms is not possible on %s", r->shown_url);
    if (ask->at_least_ms != 0 && (caps & ROTA_CAP_DURABLE) == 0)
        return rt_fail(r, ROTA_UNSUPPORTED, "at_least_ms is not possible on %s", r->shown_url);
    return 0;
}

int rt_wish_init(struct rota *r, struct rt_wish *wish, const struct rota_ask *ask, size_t size)
{
    static const struct rota_ask plain;

    *wish = (struct rt_wish){.ask = plain};
    if (ask != NULL && size >= sizeof(*ask)) {
        wish->ask = *ask;
        for (size_t i = sizeof(*ask); i < size; i++)
            if (((const char *)ask)[i] != 0)
                return rt_fail(r, ROTA_INVALID,
                               "the ask has fields this library does not know: "
                               "it is older than the program");
    } else if (ask != NULL) {
        memcpy(&wish->ask, ask, size);
    }
    wish->mode = wish->ask.mode;
    return check_ask(r, &wish->ask);
}

/* ---- Handles ready for the desk ----------------------------------------- */

static bool needs_more(const struct rota *r, const struct rt_wish *wish)
{
    const struct rota_ask *ask = &wish->ask;

    return r->d.metrics != NULL || wish->async || wish->in_set || wish->value != NULL ||
           ask->limit_ms != 0 || ask->hold_ms != 0 || ask->linger_ms != 0 ||
           ask->at_least_ms != 0 || ask->on_lost != NULL || ask->on_wait != NULL ||
           (ask->flags & ROTA_DETECT) != 0;
}

static int add_more(struct rota *r, struct rota_lock *lock, const struct rt_wish *wish)
{
    const struct rota_ask *ask = &wish->ask;
    struct rt_more *more = rt_more_new(r, lock);

    if (more == NULL)
        return ROTA_NOMEM;
    if (ask->limit_ms != 0)
        more->terms.limit_at = rt_loop_now(&r->loop) + ns_of(ask->limit_ms);
    more->terms.hold = ns_of(ask->hold_ms);
    more->terms.linger = ns_of(ask->linger_ms);
    more->terms.at_least_ms = ns_of(ask->at_least_ms) / RT_MS;
    more->terms.value = wish->value;
    more->on_lost = ask->on_lost;
    more->lost_arg = ask->arg;
    more->on_wait = ask->on_wait;
    return 0;
}

/* A line that may linger needs a place for its timer, as long as it is there. */
static int reserve_linger(struct rota *r, struct rt_line *line)
{
    if ((line->hash & RT_NAMES_MARK) != 0)
        return 0;
    int rv = rt_loop_reserve(&r->loop, 1);
    if (rv == 0)
        line->hash |= RT_NAMES_MARK;
    return rv;
}

static int add_solo(struct rota_lock *lock, const struct rt_wish *wish)
{
    const struct rota_ask *ask = &wish->ask;
    struct rt_solo *solo = rt_dispatch_solo(lock->ask.line, wish->mode, ask->take, ask->of,
                                            wish->value);

    if (solo == NULL)
        return ROTA_NOMEM;
    if (wish->value != NULL)
        lock->ask.terms->value = solo->value; /* the caller's is only lent during the call */
    solo->owner = lock->ask.owner;
    solo->at_least_ms = ns_of(ask->at_least_ms) / RT_MS;
    if ((ask->flags & ROTA_DETECT) != 0)
        solo->join_flags = RT_JOIN_DETECT;
    lock->ask.ticket = &solo->ticket;
    return 0;
}

static int fill(struct rota *r, struct rota_lock *lock, const struct rt_wish *wish)
{
    const struct rota_ask *ask = &wish->ask;
    struct rt_ask *a = &lock->ask;
    int rv = needs_more(r, wish) ? add_more(r, lock, wish) : 0;

    if (rv != 0)
        return rv;
    a->mode = (uint8_t)wish->mode;
    a->flags = (uint8_t)(((ask->flags & ROTA_TRY) != 0 ? RT_ASK_TRY : 0) |
                         ((ask->flags & ROTA_DETECT) != 0 ? RT_ASK_DETECT : 0) |
                         ((ask->flags & ROTA_REJOIN) != 0 ? RT_ASK_REJOIN : 0));
    if (ask->owner != 0)
        a->owner = ask->owner == ROTA_OWNER_NONE ? 0 : ask->owner;
    else
        a->owner = wish->async ? 0 : rt_thread_owner();
    if (ask->linger_ms != 0)
        rv = reserve_linger(r, a->line);
    if (rv == 0 && wish->mode == RT_SHARED && rt_names_shared(a->line) == NULL)
        rv = ROTA_NOMEM;
    if (rv == 0 && (wish->in_set || rt_desk_solo(&r->d.desk, a)))
        rv = add_solo(lock, wish);
    if (rv == 0 && (ask->flags & ROTA_DETECT) != 0)
        rv = rt_hunter_new(r, rt_more_of(lock));
    return rv;
}

int rt_ask_prepare(struct rota *r, const char *name, const struct rt_wish *wish,
                   struct rota_lock **out)
{
    assert(rt_client_mine(r));
    UNINITIALIZED char room[RT_NAME_ROOM];
    const char *extra;
    const char *spelled = rt_name_spelled(&r->spelling, name, room, &extra);
    struct rt_line *line = rt_names_get(&r->d.names, spelled, extra);

    if (line == NULL)
        return ROTA_NOMEM;
    struct rota_lock *lock = rt_handle_new(r);
    if (lock == NULL) {
        rt_outbox_line_settle(&r->d.desk, line);
        return ROTA_NOMEM;
    }
    lock->ask.line = line;
    int rv = fill(r, lock, wish);
    if (rv != 0)
        rt_ask_discard(r, lock);
    else
        *out = lock;
    return rv;
}

void rt_ask_discard(struct rota *r, struct rota_lock *lock)
{
    assert(rt_client_mine(r));
    struct rt_line *line = lock->ask.line;
    struct rt_ticket *solo = lock->ask.ticket;
    struct rt_more *more = rt_more_of(lock);

    if (more != NULL)
        rt_hunter_free(r, more);
    rt_handle_free(r, lock);
    rt_free(solo); /* the desk has never heard of it */
    rt_outbox_line_settle(&r->d.desk, line);
}

/* ---- Asking ------------------------------------------------------------- */

static void cancel_ask(struct rota *r, struct rt_waiter *w, int err)
{
    (void)rt_desk_cancel(&r->d.desk, w->ask, err, rt_loop_now(&r->loop));
}

int rt_acquire(struct rota *r, const char *name, const struct rt_wish *wish, struct rota_lock **out)
{
    UNINITIALIZED struct rt_waiter w;
    struct rota_lock *lock;
    uint64_t serial = r->serial;

    int rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    rv = rt_ask_prepare(r, name, wish, &lock);
    if (rv != 0) {
        rt_client_leave(r);
        return rt_fail_waiter(serial, rv, NULL);
    }
    rt_wait_init(r, &w, &lock->ask, cancel_ask);
    lock->waiter = &w;
    rt_metrics_ask(r, lock);
    rv = rt_lock_wait(r, &lock, 1, &w);
    if (rv != 0)
        return rt_fail_waiter(serial, rv, w.errmsg);
    *out = lock;
    return 0;
}

int rt_name_check(const struct rota *r, const char *name)
{
    const char *fault = rt_name_fault(name);

    if (fault == NULL)
        return 0;
    return rt_fail(r, ROTA_INVALID,
                   "the name %s: use 1 to 255 bytes of UTF-8 without control characters", fault);
}

int rota_acquire_sized(struct rota *r, const char *name, const struct rota_ask *ask, size_t size,
                       struct rota_lock **out)
{
    UNINITIALIZED struct rt_wish wish;
    int rv = rt_client_check(r, true);

    if (rv == 0 && out == NULL)
        rv = rt_fail(r, ROTA_INVALID, "there is no place for the lock");
    if (rv == 0)
        rv = rt_name_check(r, name);
    if (rv == 0)
        rv = rt_wish_init(r, &wish, ask, size);
    return rv != 0 ? rv : rt_acquire(r, name, &wish, out);
}
