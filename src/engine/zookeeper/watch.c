/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: which there are, said to a new server, fired once. */
#include "engine/zookeeper/zk.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"
#include "engine/kit/hash.h"

#include <string.h>

#define XID_SET_WATCHES (-8)

int rt_zk_watch(struct rt_zk_conn *c, struct rt_zk_watch *w, enum rt_zk_watch_kind kind,
                const char *path, rt_zk_fired_fn *fired, void *owner)
{
    char *copy = rt_strdup(path);
    rt_zk_unwatch(w);
    if (copy == NULL)
        return rt_words_nomem(c->base);
    w->path = copy;
    w->kind = kind;
    w->fired = fired;
    w->owner = owner;
    w->link_count = c->link_count + (c->link.state == RT_DIAL_READY ? 0 : 1);
    RT_LIST_ADD(&c->watches[rt_hash(path, strlen(path)) % RT_ZK_LANES], w);
    return 0;
}

void rt_zk_unwatch(struct rt_zk_watch *w)
{
    if (w->link == NULL)
        return;
    RT_LIST_OUT(w);
    w->link = NULL;
    rt_free(w->path);
    w->path = NULL;
}

/* ---- A new server ----------------------------------------------------------------------------- */

void rt_zk_watches_say(struct rt_zk_conn *c)
{
    struct rt_jute_out o = {0};
    int32_t counts[RT_ZK_WATCH_KINDS] = {0}, all = 0;
    for (size_t i = 0; i < RT_ZK_LANES; i++)
        for (const struct rt_zk_watch *w = c->watches[i]; w != NULL; w = w->next, all++)
            counts[w->kind]++;
    if (all == 0 || RT_BUG(RT_BUG_WATCHES_NOT_SET_AGAIN))
        return;
    rt_zk_begin(&o, XID_SET_WATCHES, RT_ZK_SET_WATCHES);
    rt_jute_long(&o, c->zxid);
    for (uint32_t kind = 0; kind < RT_ZK_WATCH_KINDS; kind++) { /* in the order of their numbers */
        rt_jute_int(&o, counts[kind]);
        for (size_t i = 0; i < RT_ZK_LANES; i++)
            for (const struct rt_zk_watch *w = c->watches[i]; w != NULL; w = w->next)
                if (w->kind == kind)
                    rt_jute_text(&o, w->path);
    }
    rt_zk_say(c, &o);
}

/* ---- Fired ------------------------------------------------------------------------------------ */

static bool concerns(const struct rt_zk_watch *w, int32_t event, const struct rt_text *path)
{
    bool kind = event == RT_ZK_DELETED || event == RT_ZK_CREATED ||
                (w->kind == RT_ZK_WATCH_CHILDREN) == (event == RT_ZK_CHILD);
    return kind && strlen(w->path) == path->size && memcmp(w->path, path->at, path->size) == 0;
}

void rt_zk_notice(struct rt_zk_conn *c, struct rt_jute_in *in)
{
    struct rt_zk_watch *fired = NULL;
    int32_t event = rt_jute_get_int(in);
    (void)rt_jute_get_int(in); /* the state of the connection, which we know */
    struct rt_text path = rt_jute_get_bytes(in);
    if (in->bad || event < RT_ZK_CREATED || event > RT_ZK_CHILD || path.size == 0)
        return;
    struct rt_zk_watch **bucket = &c->watches[rt_hash(path.at, path.size) % RT_ZK_LANES];
    for (struct rt_zk_watch *w = *bucket, *next; w != NULL; w = next) {
        next = w->next;
        if (!concerns(w, event, &path))
            continue;
        RT_LIST_OUT(w);
        RT_LIST_ADD(&fired, w);
    }
    while (fired != NULL) { /* one may end the others */
        struct rt_zk_watch *w = fired;
        rt_zk_unwatch(w);
        w->fired(c, w, (enum rt_zk_event)event, w->link_count == c->link_count);
    }
}
