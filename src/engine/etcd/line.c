/* SPDX-License-Identifier: Apache-2.0 */
/* Which tickets of a line hold (core/grant), and what the others watch. */
#include "engine/etcd/line.h"

#include "base/alloc.h"
#include "core/grant.h"

#include <stdlib.h>
#include <string.h>

int rt_etcd_by_bytes(const void *a, const void *b)
{
    const ProtobufCBinaryData *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int order = n > 0 ? memcmp(x->data, y->data, n) : 0;
    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

static int by_number(const void *a, const void *b)
{
    const struct rt_etcd_place *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    /* Two keys of one revision: never ours, but everybody sees them in the same order. */
    return rt_etcd_by_bytes(&x->kv->key, &y->kv->key);
}

/* Marks those that went through a barrier, and finds out whether it is full for those that did not. */
static void gather(struct rt_etcd_line *line)
{
    uint64_t bound = 0;
    uint32_t waiting = 0;
    for (size_t i = 0; i < line->count; i++)
        if (line->places[i].card.mode == RT_GATHER && line->places[i].card.bound > bound)
            bound = line->places[i].card.bound;
    for (size_t i = 0; i < line->count; i++) {
        struct rt_etcd_place *p = &line->places[i];
        if (p->card.mode != RT_GATHER)
            continue;
        p->granted = p->number <= bound;
        if (!p->granted && ++waiting == p->card.of)
            line->opens = p->number;
    }
}

static void walk(struct rt_etcd_line *line)
{
    struct rt_grant g;
    bool stopped = false;
    rt_grant_init(&g, 0);
    for (size_t i = 0; i < line->count; i++) {
        struct rt_etcd_place *p = &line->places[i];
        const struct rt_etcd_card *card = &p->card;
        if (card->mode != RT_GATHER) {
            if (!stopped &&
                rt_grant_next(&g, card->mode, card->take, card->of, false) == RT_GRANT_WAITS)
                stopped = true;
            p->granted = !stopped;
        }
        line->waiting += !p->granted;
    }
}

int rt_etcd_line_read(struct rt_etcd_line *line, RtEtcd__KeyValue *const *kvs, size_t n)
{
    line->count = line->waiting = 0;
    line->opens = 0;
    if (!rt_grow(&line->places, &line->room, n, sizeof(*line->places)))
        return ROTA_NOMEM;
    for (size_t i = 0; i < n; i++) {
        struct rt_etcd_place *p = &line->places[i];
        size_t name_size;
        *p = (struct rt_etcd_place){.kv = kvs[i], .number = (uint64_t)kvs[i]->create_revision};
        rt_etcd_card_read(&p->card, kvs[i]->value.data, kvs[i]->value.len);
        (void)rt_etcd_key_read(kvs[i]->key.data, kvs[i]->key.len, &name_size, &p->id);
    }
    line->count = n;
    if (n > 1)
        qsort(line->places, n, sizeof(*line->places), by_number);
    gather(line);
    walk(line);
    return 0;
}

void rt_etcd_line_fini(struct rt_etcd_line *line)
{
    rt_free(line->places);
    *line = (struct rt_etcd_line){0};
}

const struct rt_etcd_place *rt_etcd_line_find(const struct rt_etcd_line *line, uint64_t number)
{
    for (size_t i = 0; i < line->count; i++)
        if (line->places[i].number == number)
            return &line->places[i];
    return NULL;
}

/* ---- What to watch ------------------------------------------------------------------------------ */

static bool is_first_waiting(const struct rt_etcd_line *line, const struct rt_etcd_place *place)
{
    return place == line->places || place[-1].granted;
}

/* A reader waits for the last one ahead that is not a reader: if that goes, or becomes a reader, it looks again. */
static struct rt_etcd_aim aim_shared(const struct rt_etcd_line *line,
                                     const struct rt_etcd_place *place)
{
    const struct rt_etcd_place *p = place - 1;
    while (p > line->places && p->card.mode == RT_SHARED)
        p--;
    return (struct rt_etcd_aim){RT_ETCD_AIM_KEY, p->kv, true};
}

struct rt_etcd_aim rt_etcd_line_aim(const struct rt_etcd_line *line,
                                    const struct rt_etcd_place *place)
{
    bool first = is_first_waiting(line, place);
    if (place->granted)
        return (struct rt_etcd_aim){RT_ETCD_AIM_NONE, NULL, false};
    switch (place->card.mode) {
    case RT_GATHER:
        if (line->opens != 0 && (first || place->number == line->opens))
            return (struct rt_etcd_aim){RT_ETCD_AIM_OPEN, NULL, true};
        return (struct rt_etcd_aim){RT_ETCD_AIM_LINE, NULL, true};
    case RT_PERMITS:
        /* When a grant ahead makes a ticket the first, a touch of that key tells it (wait.c). */
        if (first)
            return (struct rt_etcd_aim){RT_ETCD_AIM_LINE, NULL, false};
        return (struct rt_etcd_aim){RT_ETCD_AIM_KEY, place[-1].kv, true};
    case RT_SHARED:
        return aim_shared(line, place);
    default:
        return (struct rt_etcd_aim){RT_ETCD_AIM_KEY, place[-1].kv, false};
    }
}
