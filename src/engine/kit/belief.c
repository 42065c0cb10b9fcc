/* SPDX-License-Identifier: Apache-2.0 */
/* Believed and known tickets, compared. */
#include "engine/kit/belief.h"

#include "base/alloc.h"
#include "base/bug.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void rt_belief_add(struct rt_belief *l, struct rt_known k, const char *name)
{
    bool room = rt_grow(&l->at, &l->room, l->count + 1, sizeof(*l->at));
    k.name = room ? rt_strdup(name) : NULL;
    if (k.name == NULL)
        l->failed = true;
    else
        l->at[l->count++] = k;
}

void rt_belief_fini(struct rt_belief *l)
{
    for (size_t i = 0; i < l->count; i++)
        rt_free(l->at[i].name);
    rt_free(l->at);
    *l = (struct rt_belief){0};
}

struct asked {
    struct rt_belief *list;
    bool (*is)(void *arg, const char *name, uint64_t number);
    void *arg;
};

static void believe(void *arg, const char *name, uint64_t number, bool granted)
{
    const struct asked *a = arg;
    if (a->is == NULL || a->is(a->arg, name, number))
        rt_belief_add(a->list, (struct rt_known){.number = number, .granted = granted}, name);
}

void rt_belief_ask(struct rt_belief *l, struct rt_conn *conn,
                   bool (*is)(void *arg, const char *name, uint64_t number), void *arg)
{
    struct asked a = {l, is, arg};
    if (conn->up->held != NULL)
        conn->up->held(conn->up, believe, &a);
}

/* A number is of one line, or of one in each. */
static int by_number(const void *x, const void *y)
{
    const struct rt_known *a = x, *b = y;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return strcmp(a->name, b->name);
}

void rt_belief_sort(struct rt_belief *l)
{
    if (l->count > 1)
        qsort(l->at, l->count, sizeof(*l->at), by_number);
}

static const struct rt_known *find(const struct rt_belief *l, const struct rt_known *k)
{
    return l->count > 0 ? bsearch(k, l->at, l->count, sizeof(*k), by_number) : NULL;
}

bool rt_belief_has(const struct rt_belief *l, size_t sorted, const char *name, uint64_t number)
{
    struct rt_known k = {.number = number};
    struct rt_belief first = {.at = l->at, .count = sorted};
    assert(sorted <= l->count);
    memcpy(&k.name, &name, sizeof(name)); /* only read */
    return find(&first, &k) != NULL;
}

void rt_belief_tell_lost(struct rt_conn *conn, uint64_t session,
                         bool (*is)(void *arg, const char *name, uint64_t number), void *arg)
{
    struct rt_belief lost = {0};
    rt_belief_ask(&lost, conn, is, arg);
    for (size_t i = 0; i < lost.count; i++) {
        struct rt_event event = {.kind = RT_TICKET_LOST,
                                 .session = session,
                                 .number = lost.at[i].number,
                                 .name = lost.at[i].name};
        rt_conn_event(conn, &event);
    }
    rt_belief_fini(&lost);
}

static bool is_lost(const struct rt_known *k, const struct rt_known *there,
                    const struct rt_known *then)
{
    if (then == NULL)
        return false;
    if (there == NULL)
        return !then->unasked;
    return k->granted && then->granted && !there->granted && !RT_BUG(RT_BUG_STALE_SERVER_BELIEVED);
}

bool rt_belief_compare(struct rt_belief *there, struct rt_belief *then, struct rt_belief *now,
                       void (*tell)(void *arg, enum rt_event_kind kind, const struct rt_known *k),
                       void *arg)
{
    if (there->failed || then->failed || now->failed)
        return false;
    rt_belief_sort(there);
    rt_belief_sort(then);
    rt_belief_sort(now);
    for (size_t i = 0; i < there->count; i++) {
        const struct rt_known *k = &there->at[i], *believed = find(now, k);
        if (k->granted && (believed == NULL || !believed->granted))
            tell(arg, RT_GRANTED, k);
        if (k->wanted)
            tell(arg, RT_WANTED, k);
    }
    for (size_t i = 0; i < now->count; i++)
        if (is_lost(&now->at[i], find(there, &now->at[i]), find(then, &now->at[i])))
            tell(arg, RT_TICKET_LOST, &now->at[i]);
    return true;
}
