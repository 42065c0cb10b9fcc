/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: the set of them, repeated to each new server; each fires once. */
#include "engine/zookeeper/zk.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"
#include "engine/kit/hash.h"

#include <string.h>

#define LANES_FIRST 64
#define XID_SET_WATCHES (-8)
#define HEAD 20                   /* bytes before the paths: size, xid, call, zxid */
#define SAID_AT_ONCE (128u << 10) /* bytes: a server takes no message above jute.maxbuffer, 1 MiB */

static struct rt_zk_watch **lane(const struct rt_zk_conn *c, const void *path, size_t size)
{
    return &c->watches[rt_hash(path, size) & (c->lane_count - 1)];
}

static void link_in(struct rt_zk_conn *c, struct rt_zk_watch *w)
{
    RT_LIST_ADD(lane(c, w->path, strlen(w->path)), w);
}

/* False: there is no table at all. Without memory for a larger one it stays as it is, and is slower. */
static bool room_for_one(struct rt_zk_conn *c)
{
    struct rt_zk_watch **old = c->watches;
    size_t count = c->lane_count;
    if (c->watch_count < count)
        return true;
    struct rt_zk_watch **lanes = rt_alloc((count > 0 ? 2 * count : LANES_FIRST) *
                                          sizeof(struct rt_zk_watch *));
    if (lanes == NULL)
        return count > 0;
    c->watches = lanes;
    c->lane_count = count > 0 ? 2 * count : LANES_FIRST;
    for (size_t i = 0; i < count; i++)
        while (old[i] != NULL) {
            struct rt_zk_watch *w = old[i];
            RT_LIST_OUT(w);
            link_in(c, w);
        }
    rt_free(old);
    return true;
}

void rt_zk_watches_fini(struct rt_zk_conn *c)
{
    rt_free(c->watches);
    c->watches = NULL;
    c->lane_count = 0;
}

int rt_zk_watch(struct rt_zk_conn *c, struct rt_zk_watch *w, enum rt_zk_watch_kind kind,
                const char *path, rt_zk_fired_fn *fired, void *owner)
{
    char *copy = room_for_one(c) ? rt_strdup(path) : NULL;
    rt_zk_unwatch(w);
    if (copy == NULL)
        return rt_words_nomem(c->base);
    w->conn = c;
    w->path = copy;
    w->kind = kind;
    w->fired = fired;
    w->owner = owner;
    w->link_count = c->link_count + (c->link.state == RT_DIAL_READY ? 0 : 1);
    link_in(c, w);
    c->watch_count++;
    return 0;
}

void rt_zk_unwatch(struct rt_zk_watch *w)
{
    if (w->link == NULL)
        return;
    RT_LIST_OUT(w);
    w->link = NULL;
    w->conn->watch_count--;
    rt_free(w->path);
    w->path = NULL;
}

/* ---- A new server ----------------------------------------------------------------------------- */

/* Sends the N paths of KIND that are in O. */
static int say(struct rt_zk_conn *c, struct rt_jute_out *o, uint32_t kind, int32_t n)
{
    if (n == 0)
        return 0;
    rt_jute_set_int(o, HEAD + 4 * kind, n);
    for (uint32_t k = kind + 1; k < RT_ZK_WATCH_KINDS; k++)
        rt_jute_int(o, 0);
    return rt_zk_say(c, o);
}

static int say_kind(struct rt_zk_conn *c, struct rt_jute_out *o, uint32_t kind)
{
    int32_t n = 0;
    int rv = 0;
    for (size_t i = 0; i < c->lane_count; i++)
        for (const struct rt_zk_watch *w = c->watches[i]; w != NULL && rv == 0; w = w->next) {
            if (w->kind != kind)
                continue;
            if (n++ == 0) {
                rt_zk_begin(o, XID_SET_WATCHES, RT_ZK_SET_WATCHES);
                rt_jute_long(o, c->zxid);
                for (uint32_t k = 0; k <= kind; k++) /* none of the others; N is not known yet */
                    rt_jute_int(o, 0);
            }
            rt_jute_text(o, w->path);
            if (o->size < SAID_AT_ONCE)
                continue;
            rv = say(c, o, kind, n);
            n = 0;
        }
    return rv != 0 ? rv : say(c, o, kind, n);
}

int rt_zk_watches_say(struct rt_zk_conn *c)
{
    struct rt_jute_out o = {0};
    int rv = 0;
    for (uint32_t kind = 0;
         rv == 0 && kind < RT_ZK_WATCH_KINDS && !RT_BUG(RT_BUG_WATCHES_NOT_SET_AGAIN); kind++)
        rv = say_kind(c, &o, kind);
    rt_jute_free(&o);
    return rv;
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
    struct rt_zk_watch *first = c->lane_count > 0 ? *lane(c, path.at, path.size) : NULL;
    for (struct rt_zk_watch *w = first, *next; w != NULL; w = next) {
        next = w->next;
        if (!concerns(w, event, &path))
            continue;
        RT_LIST_OUT(w);
        RT_LIST_ADD(&fired, w);
    }
    while (fired != NULL) { /* one may end the others */
        struct rt_zk_watch *w = fired;
        rt_zk_unwatch(w);
        w->fired(c->rider, w, (enum rt_zk_event)event, w->link_count == c->link_count);
    }
}
