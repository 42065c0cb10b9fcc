/* SPDX-License-Identifier: Apache-2.0 */
/* A transaction in its manager's list: memory for it and for its branches. */
#include "txn/manager/tcc.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FEW 2 /* branches with room from the start */
#define PLACES_MOST 256

static void on_timer(struct rt_timer_call *call, int64_t now)
{
    struct rota_txn *t = (struct rota_txn *)(void *)((char *)call -
                                                     offsetof(struct rota_txn, timer));
    (void)now;
    rt_txns_due(t);
}

/* Room for its timer: a place that an ended one left, or a new one. WITH_MU: the caller holds the mutex. */
static int take_place(struct rota_txns *m, bool with_mu)
{
    pthread_mutex_lock(&m->front);
    bool found = m->places > 0;
    m->places -= found;
    pthread_mutex_unlock(&m->front);
    if (found)
        return 0;
    if (!with_mu)
        pthread_mutex_lock(&m->mu);
    int rv = rt_loop_reserve(&m->loop, 1);
    if (!with_mu)
        pthread_mutex_unlock(&m->mu);
    return rv;
}

static void leave_place(struct rota_txns *m)
{
    pthread_mutex_lock(&m->front);
    bool kept = m->places < PLACES_MOST;
    m->places += kept;
    pthread_mutex_unlock(&m->front);
    if (!kept)
        rt_loop_unreserve(&m->loop, 1);
}

static char no_memory[] = "out of memory";

static void unsay(char *line)
{
    if (line != no_memory)
        rt_free(line);
}

static void free_memory(struct rota_txn *t)
{
    rt_free(t->core.branches);
    rt_free(t->branches);
    rt_free(t->list);
    rt_free(t->parts);
    rt_free(t->vouched);
    rt_free(t->label);
    unsay(t->line);
    unsay(t->refusal);
    rt_free(t);
}

static struct rota_txn *make(struct rota_txns *m, bool with_mu)
{
    struct rota_txn *t = rt_alloc(sizeof(*t));

    if (t == NULL)
        return NULL;
    t->m = m;
    t->asker = (struct rt_asker){.m = m, .told = rt_decision_told};
    t->timer.fire = on_timer;
    t->free_by = RT_NEVER;
    if (rt_entry_room(t, FEW) == 0 && take_place(m, with_mu) == 0)
        return t;
    free_memory(t);
    return NULL;
}

struct rota_txn *rt_entry_make(struct rota_txns *m)
{
    return make(m, false);
}

void rt_entry_unmake(struct rota_txn *t)
{
    pthread_mutex_lock(&t->m->mu);
    leave_place(t->m);
    pthread_mutex_unlock(&t->m->mu);
    free_memory(t);
}

void rt_entry_link(struct rota_txn *t)
{
    struct rota_txns *m = t->m;

    t->next = m->txns;
    if (t->next != NULL)
        t->next->prev = t;
    m->txns = t;
}

struct rota_txn *rt_entry_new(struct rota_txns *m)
{
    struct rota_txn *t = make(m, true);
    if (t != NULL)
        rt_entry_link(t);
    return t;
}

void rt_entry_say(char **line, const char *format, ...)
{
    char text[RT_TXN_LINE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (*line != NULL && strcmp(*line, text) == 0)
        return; /* asked again, it says the same again */
    unsay(*line);
    char *copy = rt_strdup(text);
    *line = copy != NULL ? copy : no_memory;
}

void rt_entry_free_branch(struct rota_branch *b)
{
    assert(b->seat == NULL && b->errand_seq == 0 && b->ask_seq == 0);
    rt_free(b->bytes);
    if (b->bond != NULL)
        rt_free(b->bond->last);
    rt_free(b->bond);
    rt_free(b->name);
    unsay(b->line);
    rt_free(b);
}

static struct rota_txn **chain_of(struct rota_txns *m, const struct rt_txn_id *id)
{
    return &m->by_id[rt_txn_id_part(id, 10, 6) % RT_IDS];
}

void rt_entry_named(struct rota_txn *t)
{
    struct rota_txn **chain = chain_of(t->m, &t->core.id);

    assert(!t->named && !t->core.joined);
    t->named = true;
    t->next_same = *chain;
    *chain = t;
}

static void unname(struct rota_txn *t)
{
    struct rota_txn **at = chain_of(t->m, &t->core.id);

    if (!t->named)
        return;
    while (*at != t)
        at = &(*at)->next_same;
    *at = t->next_same;
}

static void free_all(struct rota_txn *t)
{
    for (uint32_t i = 0; i < t->core.count; i++)
        rt_entry_free_branch(t->branches[i]);
    free_memory(t);
}

/* Takes it out of all lists; its timer's place is free for others. */
static void take_out(struct rota_txn *t)
{
    assert(!t->due && t->call == NULL && t->op_seq == 0);
    unname(t);
    if (t->next != NULL)
        t->next->prev = t->prev;
    *(t->prev != NULL ? &t->prev->next : &t->m->txns) = t->next;
    rt_timers_stop(&t->m->loop.timers, &t->timer.timer);
    leave_place(t->m);
}

void rt_entry_free(struct rota_txn *t)
{
    take_out(t);
    free_all(t);
}

void rt_entry_lay_aside(struct rota_txn *t)
{
    take_out(t);
    t->next = t->m->aside;
    t->m->aside = t;
}

void rt_entry_fini(struct rota_txns *m)
{
    while (m->aside != NULL) {
        struct rota_txn *t = m->aside;
        m->aside = t->next;
        free_all(t);
    }
}

struct rota_txn *rt_entry_find(struct rota_txns *m, const struct rt_txn_id *id)
{
    rt_calls_take(m);
    struct rota_txn *t = *chain_of(m, id);
    while (t != NULL && !rt_txn_id_same(&t->core.id, id))
        t = t->next_same;
    return t;
}

int rt_entry_room(struct rota_txn *t, uint32_t more)
{
    uint32_t room = t->core.count + more;

    if (room <= t->core.room)
        return 0;
    if (room < 2 * t->core.room)
        room = 2 * t->core.room;
    struct rt_branch *core = rt_realloc(t->core.branches, room * sizeof(*core));
    if (core != NULL)
        t->core.branches = core;
    struct rota_branch **branches = rt_realloc(t->branches, room * sizeof(*branches));
    if (branches != NULL)
        t->branches = branches;
    struct rt_journal_branch *list = rt_realloc(t->list, room * sizeof(*list));
    if (list != NULL)
        t->list = list;
    struct rt_txn_part *parts = rt_realloc(t->parts, room * sizeof(*parts));
    if (parts != NULL)
        t->parts = parts;
    if (core == NULL || branches == NULL || list == NULL || parts == NULL)
        return ROTA_NOMEM;
    t->core.room = room;
    return 0;
}

struct rota_branch *rt_entry_branch(struct rota_txn *t, const char *name, enum rt_branch_mode mode)
{
    struct rota_branch *b = rt_alloc(sizeof(*b));
    bool service = rt_tcc_is(mode);
    struct rt_bond *bond = service ? NULL : rt_alloc(sizeof(*bond));
    char *copy = rt_strdup(name);

    if (b == NULL || (bond == NULL && !service) || copy == NULL) {
        rt_free(b);
        rt_free(bond);
        rt_free(copy);
        return NULL;
    }
    b->txn = t;
    b->name = copy;
    b->mode = mode;
    b->bond = bond;
    b->asker = (struct rt_asker){.m = t->m, .back = rt_drive_back};
    if (service)
        return b;
    bond->errand.user = &b->asker;
    b->resource = rt_resources_find(t->m->resources, name);
    return b;
}

uint32_t rt_entry_number(struct rota_txn *t)
{
    uint32_t random;

    t->last_number++;
    if (!t->core.joined)
        return t->last_number;
    rt_txns_random(&random, sizeof(random));
    return random | RT_TXN_JOINED;
}
