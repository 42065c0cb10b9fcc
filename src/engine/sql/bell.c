/* SPDX-License-Identifier: Apache-2.0 */
/* Bells: how waiters are woken where the server pushes nothing.
 *
 *   holder:  BELL_TAKE, then its ticket, which names the bell ── plain pairs keep it ──▶ LEAVE that lets others in: BELL_RING
 *   waiter:  on a link of its own: BELL_WAIT for the bell of the ticket ahead, LOOK ──▶ granted, or the next bell
 *
 * Each ticket has a bell of its own, or a client's cancels would wake everybody behind its other tickets in that line
 * and leave those without a bell. It is taken before its ticket can be seen, and its id is random: nobody else can hold
 * it by then. Links that wait own nothing; links that own never wait. A bell that rings though its ticket stays (its connection broke) wakes its
 * waiter for nothing: then, as when there is no free link, the line is looked at now and then (wait.c). */
#include "engine/sql/sql.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"
#include "engine/kit/hash.h"

#include <assert.h>
#include <string.h>

#define BELLS_MOST 256 /* more are let go, the oldest first */

struct rt_sql_bell {
    struct rt_sql_bell *next, **link;
    const struct rt_sql_lane *lane; /* which holds it */
    uint64_t id;
    uint64_t nonce; /* of the ticket that names it; 0: the next one may */
    uint64_t number;
    bool fresh;   /* no flight that was to take it has landed: it may not be held yet */
    bool going;   /* it is being let go by a flight of its own: no new ticket names it */
    bool ringing; /* ... by the flight that leaves now */
    char name[];
};

/* ---- Ours ------------------------------------------------------------------------------------------------------- */

/* NONCE 0: of any ticket of ours. */
static bool is_of(const struct rt_sql_bell *b, const char *name, uint64_t nonce)
{
    bool named = nonce != 0 ? b->nonce == nonce : b->nonce != 0;
    return named && !b->going && strcmp(b->name, name) == 0;
}

static struct rt_sql_bell *find(struct rt_sql_conn *c, const char *name, uint64_t nonce)
{
    for (struct rt_sql_bell *b = c->bells; b != NULL; b = b->next)
        if (!b->ringing && is_of(b, name, nonce))
            return b;
    return NULL;
}

static struct rt_sql_bell *find_idle(struct rt_sql_conn *c, const char *name)
{
    for (struct rt_sql_bell *b = c->bells; b != NULL; b = b->next)
        if (b->nonce == 0 && !b->going && !b->ringing && strcmp(b->name, name) == 0)
            return b;
    return NULL;
}

static struct rt_sql_bell *find_id(struct rt_sql_conn *c, uint64_t id)
{
    for (struct rt_sql_bell *b = c->bells; b != NULL; b = b->next)
        if (b->id == id)
            return b;
    return NULL;
}

static void forget(struct rt_sql_conn *c, struct rt_sql_bell *b)
{
    RT_LIST_OUT(b);
    c->bell_count--;
    rt_free(b);
}

/* One that no ticket names, if there is one; the last of the list is the oldest. */
static void let_oldest_go(struct rt_sql_conn *c, struct rt_sql_book *book,
                          const struct rt_sql_lane *lane)
{
    struct rt_sql_bell *oldest = NULL;
    for (struct rt_sql_bell *b = c->bells; b != NULL; b = b->next)
        if (b->lane == lane && !b->going && !b->ringing &&
            (oldest == NULL || b->nonce == 0 || oldest->nonce != 0))
            oldest = b;
    if (oldest == NULL)
        return;
    rt_sql_say(book, RT_SQL_BELL_RING, rt_sql_number(oldest->id));
    oldest->ringing = true;
}

uint64_t rt_sql_bell_take(struct rt_sql_conn *c, struct rt_sql_book *book,
                          const struct rt_sql_lane *lane, const char *name, uint64_t nonce)
{
    if (c->driver->notifies)
        return c->ear;
    if (!c->driver->bells)
        return 0;
    struct rt_sql_bell *b = find(c, name, nonce); /* it asked before, the short way */
    b = b != NULL ? b : find_idle(c, name);
    if (b != NULL) {
        b->nonce = nonce;
        b->number = 0;
        if (b->fresh && b->lane == lane) /* taking it twice counts as once */
            rt_sql_say(book, RT_SQL_BELL_TAKE, rt_sql_number(b->id));
        return b->id;
    }
    size_t size = strlen(name) + 1;
    b = rt_alloc(sizeof(*b) + size);
    if (b == NULL)
        return 0; /* waiters behind it look now and then */
    if (c->bell_count >= BELLS_MOST)
        let_oldest_go(c, book, lane);
    if (rt_dial_random(&c->base, &b->id, sizeof(b->id)) != 0)
        b->id = rt_hash(name, size - 1) ^ c->ear ^ ++c->jitter;
    b->id &= INT64_MAX;
    b->lane = lane;
    b->nonce = nonce;
    b->fresh = true;
    memcpy(b->name, name, size);
    RT_LIST_ADD(&c->bells, b);
    c->bell_count++;
    rt_sql_say(book, RT_SQL_BELL_TAKE, rt_sql_number(b->id));
    return b->id;
}

static void ring(struct rt_sql_book *book, const struct rt_sql_bell *b)
{
    if (!RT_BUG(RT_BUG_LOST_WAKE_UP))
        rt_sql_say(book, RT_SQL_BELL_RING, rt_sql_number(b->id));
}

void rt_sql_bell_ring(struct rt_sql_conn *c, struct rt_sql_book *book, const char *name,
                      uint64_t nonce)
{
    for (struct rt_sql_bell *b = c->bells; b != NULL; b = b->next) {
        if (b->ringing || b->lane != rt_sql_lane_of(c, name) || !is_of(b, name, nonce))
            continue;
        ring(book, b);
        b->ringing = true;
    }
}

void rt_sql_bell_rung(struct rt_sql_conn *c, const char *name, uint64_t nonce)
{
    rt_sql_bell_ring_now(c, name, nonce);
}

void rt_sql_bell_number(struct rt_sql_conn *c, const char *name, uint64_t nonce, uint64_t number)
{
    struct rt_sql_bell *b = nonce != 0 ? find(c, name, nonce) : NULL;
    if (b != NULL)
        b->number = number;
}

uint64_t rt_sql_bell_nonce(struct rt_sql_conn *c, const char *name, uint64_t number)
{
    for (struct rt_sql_bell *b = c->bells; b != NULL; b = b->next)
        if (b->nonce != 0 && b->number == number && strcmp(b->name, name) == 0)
            return b->nonce;
    return 0;
}

void rt_sql_bell_idle(struct rt_sql_conn *c, const char *name, uint64_t nonce)
{
    struct rt_sql_bell *b = find(c, name, nonce);
    if (b != NULL)
        b->nonce = 0;
}

void rt_sql_bells_idle(struct rt_sql_conn *c)
{
    for (struct rt_sql_bell *b = c->bells; b != NULL; b = b->next)
        b->nonce = 0;
}

void rt_sql_bells_landed(struct rt_sql_conn *c, const struct rt_sql_lane *lane)
{
    for (struct rt_sql_bell *b = c->bells, *next; b != NULL; b = next) {
        next = b->next;
        if (b->lane != lane)
            continue;
        b->fresh = false;
        if (b->ringing)
            forget(c, b);
    }
}

void rt_sql_bells_kept(struct rt_sql_conn *c, const struct rt_sql_lane *lane)
{
    for (struct rt_sql_bell *b = c->bells; b != NULL; b = b->next)
        if (b->lane == lane)
            b->ringing = false;
}

/* It is forgotten only once it was rung: the flight may be refused because of what others say in it, and then ours is
 * said again. */
static void ring_say(struct rt_sql_ask *a, struct rt_sql_book *book)
{
    const struct rt_sql_bell *b = find_id(a->c, a->tag);
    if (b != NULL)
        ring(book, b);
}

static bool ring_heard(struct rt_sql_ask *a, const struct rt_sql_book *book)
{
    struct rt_sql_bell *b = find_id(a->c, a->tag);
    (void)book;
    if (b != NULL)
        forget(a->c, b);
    return true;
}

static void ring_failed(struct rt_sql_ask *a, int err)
{
    struct rt_sql_bell *b = find_id(a->c, a->tag);
    (void)err;
    if (b != NULL)
        b->going = false; /* whoever leaves next rings it */
}

static const struct rt_sql_plan ring_plan = {
    .reads = true, .say = ring_say, .heard = ring_heard, .failed = ring_failed};

/* A set takes all its bells on one lane, whatever those of its lines are. */
void rt_sql_bell_ring_now(struct rt_sql_conn *c, const char *name, uint64_t nonce)
{
    for (struct rt_sql_bell *b; (b = find(c, name, nonce)) != NULL;) {
        struct rt_sql_ask *a = rt_sql_ask_new(c, &ring_plan, NULL, name, NULL);
        if (a == NULL)
            return;
        b->going = true;
        a->tag = b->id;
        a->on = &c->lanes[b->lane - c->lanes];
        rt_sql_ask_go(a);
    }
}

void rt_sql_bells_lost(struct rt_sql_conn *c, const struct rt_sql_lane *lane)
{
    for (struct rt_sql_bell *b = c->bells, *next; b != NULL; b = next) {
        next = b->next;
        if (lane == NULL || b->lane == lane)
            forget(c, b);
    }
}
