/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: locks and what they may have beyond the plain, kept for the next ones; numbers for asks. */
#include "client/client.h"

#include "base/alloc.h"

#include <assert.h>

/* Idle ones kept for the next call; more are given back. */
#define SPARE_LOCKS 256
#define SPARE_MORE 64

struct rota_lock *rt_handle_new(struct rota *r)
{
    assert(rt_client_mine(r));
    struct rota_lock *lock = r->free_locks;

    if (lock != NULL) {
        r->free_locks = rt_lock_of_next(lock);
        r->free_lock_count--;
        lock->ask = (struct rt_ask){0};
        return lock;
    }
    lock = rt_alloc(sizeof(*lock));
    if (lock != NULL)
        lock->client = r;
    return lock;
}

void rt_handle_free(struct rota *r, struct rota_lock *lock)
{
    assert(rt_client_mine(r) && lock->client == r);
    struct rt_more *more = rt_more_of(lock);

    if (more != NULL && more->running) {
        more->doomed = true; /* the callback that has it frees it */
        return;
    }
    if (more != NULL)
        rt_more_free(r, more);
    lock->ask.terms = NULL;
    if (r->free_lock_count >= SPARE_LOCKS) {
        rt_free(lock);
        return;
    }
    lock->ask.next = r->free_locks != NULL ? &r->free_locks->ask : NULL;
    r->free_locks = lock;
    r->free_lock_count++;
}

struct rt_more *rt_more_new(struct rota *r, struct rota_lock *lock)
{
    assert(rt_client_mine(r));
    struct rt_more *more = r->free_more;

    if (rt_loop_reserve(&r->loop, 1) != 0)
        return NULL;
    if (more != NULL) {
        r->free_more = more->next_free;
        r->free_more_count--;
        *more = (struct rt_more){0};
    } else {
        more = rt_alloc(sizeof(*more));
    }
    if (more == NULL) {
        rt_loop_unreserve(&r->loop, 1);
        return NULL;
    }
    more->terms.timer.kind = RT_TIMER_ASK;
    more->terms.limit_at = RT_NEVER;
    more->terms.ask = &lock->ask;
    more->callback.run = rt_lock_callback;
    lock->ask.terms = &more->terms;
    return more;
}

void rt_more_explain(struct rota *r, struct rt_more *more, int err)
{
    assert(rt_client_mine(r));
    const char *said = rt_engine_said(r, err);

    rt_free(more->errmsg);
    more->errmsg = said != NULL ? rt_strdup(said) : NULL;
}

void rt_more_free(struct rota *r, struct rt_more *more)
{
    assert(rt_client_mine(r) && !more->running);
    rt_timers_stop(&r->loop.timers, &more->terms.timer);
    rt_loop_unreserve(&r->loop, 1);
    rt_callback_drop(r, &more->callback);
    if (more->id != 0)
        rt_ids_remove(&r->ids, more->id);
    rt_free(more->errmsg);
    if (r->free_more_count >= SPARE_MORE) {
        rt_free(more);
        return;
    }
    more->next_free = r->free_more;
    r->free_more = more;
    r->free_more_count++;
}

void rt_handle_fini(struct rota *r)
{
    while (r->free_locks != NULL) {
        struct rota_lock *lock = r->free_locks;
        r->free_locks = rt_lock_of_next(lock);
        rt_free(lock);
    }
    while (r->free_more != NULL) {
        struct rt_more *more = r->free_more;
        r->free_more = more->next_free;
        rt_free(more);
    }
    rt_free(r->ids.slots);
}

/* ---- Numbers ------------------------------------------------------------ */

static uint64_t id_of(const struct rt_ids *ids, uint32_t index)
{
    return (uint64_t)ids->slots[index].generation << 32 | (index + 1);
}

uint64_t rt_ids_add(struct rt_ids *ids, enum rt_id_kind kind, void *object)
{
    if (ids->free == 0) {
        uint32_t size = ids->size * 2 + 16;
        struct rt_slot *slots = rt_realloc(ids->slots, size * sizeof(*slots));
        if (slots == NULL)
            return 0;
        for (uint32_t i = ids->size; i < size; i++)
            slots[i] = (struct rt_slot){.next_free = i + 1 < size ? i + 2 : 0};
        ids->free = ids->size + 1;
        ids->slots = slots;
        ids->size = size;
    }
    uint32_t index = ids->free - 1;
    ids->free = ids->slots[index].next_free;
    ids->slots[index].object = object;
    ids->slots[index].kind = kind;
    return id_of(ids, index);
}

static struct rt_slot *slot_of(const struct rt_ids *ids, uint64_t id)
{
    uint32_t place = (uint32_t)id;

    if (place == 0 || place > ids->size || id_of(ids, place - 1) != id)
        return NULL;
    return &ids->slots[place - 1];
}

void *rt_ids_find(const struct rt_ids *ids, enum rt_id_kind kind, uint64_t id)
{
    const struct rt_slot *slot = slot_of(ids, id);

    return slot != NULL && slot->kind == kind ? slot->object : NULL;
}

void rt_ids_remove(struct rt_ids *ids, uint64_t id)
{
    struct rt_slot *slot = slot_of(ids, id);

    assert(slot != NULL && slot->object != NULL);
    slot->object = NULL;
    slot->generation++; /* a number that was used finds nothing any more */
    slot->next_free = ids->free;
    ids->free = (uint32_t)id;
}
