/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting where one node stands for all (the dialect `simple`): all waiters watch it, and when it goes, all run for it.
 *
 *   watch the one node ── it goes ──▶ create mine, with the one node ── made ──▶ granted, told
 *     ▲        └── it is not there ──────▶ ▲ │
 *     └────────────── somebody has it ◀────┼─┘
 *                       not there ◀── is mine there? ◀── the answer was lost; the next BEAT
 *
 * A set tries for all at once, and watches one of those that others have: it holds nothing while it waits. A hold is
 * two nodes made in one step: the one that excludes, and one named by session and nonce. Both are deleted in one step,
 * so a delete that is asked again, or comes late, takes nobody else's. */
#include "engine/zookeeper/ops.h"

#include "base/alloc.h"
#include "base/list.h"

#include <assert.h>

#define LINES_TRIES 4 /* to make a line; after that, with the next BEAT */

struct rt_zk_herd {
    struct rt_zk_herd *next, **link;
    uint64_t serial; /* by which answers find it */
    struct rt_zk_watch watch;
    bool asking; /* something was asked; its answer says what comes next */
    uint32_t tries;
    size_t n, left, at;             /* at: whose node is watched */
    struct rt_zk_ticket *tickets[]; /* NULL: it has left */
};

static struct rt_zk_herd *find(struct rt_zk *z, uint64_t serial)
{
    struct rt_zk_herd *h = z->herds;
    while (h != NULL && h->serial != serial)
        h = h->next;
    return h;
}

void rt_zk_herd_part(struct rt_zk_ticket *t)
{
    struct rt_zk_herd *h = t->herd;
    t->herd = NULL;
    if (h == NULL)
        return;
    for (size_t i = 0; i < h->n; i++)
        if (h->tickets[i] == t)
            h->tickets[i] = NULL;
    if (--h->left > 0)
        return;
    rt_zk_unwatch(&h->watch);
    RT_LIST_OUT(h);
    rt_free(h);
}

void rt_zk_herd_create(struct rt_zk *z, struct rt_zk_ask *a, const char *name, const char *node,
                       struct rt_text data)
{
    rt_zk_multi_create(&z->c, a, rt_zk_node_path(z, name, z->dialect->lone),
                       (struct rt_text){"", 0}, RT_ZK_EPHEMERAL);
    rt_zk_multi_create(&z->c, a, rt_zk_node_path(z, name, node), data, RT_ZK_EPHEMERAL);
}

void rt_zk_herd_won(struct rt_zk *z, struct rt_zk_ticket *t, uint64_t number)
{
    assert(t->number >= RT_ZK_CALLED);
    rt_zk_wait_end(t);
    rt_zk_ticket_renumber(z, t, number & ~RT_ZK_CALLED); /* whatever a server says */
    t->serial = ++z->serial;
    t->granted = true;
}

/* All of H have won: they leave it. */
static void won(struct rt_zk *z, struct rt_zk_herd *h, uint64_t number)
{
    size_t left = h->left;
    for (size_t i = 0; left > 0; i++) {
        struct rt_zk_ticket *t = h->tickets[i];
        if (t == NULL)
            continue;
        left--;
        rt_zk_herd_won(z, t, number); /* with the last of them H goes */
        t->told = true;
        t->wanted = t->armed;
        rt_zk_tell(z, RT_GRANTED, t);
        if (t->wanted)
            rt_zk_tell(z, RT_WANTED, t);
    }
}

/* The next one at or after I that has not left. */
static size_t member(const struct rt_zk_herd *h, size_t i)
{
    assert(h->left > 0);
    for (i %= h->n; h->tickets[i] == NULL;)
        i = (i + 1) % h->n;
    return i;
}

static void try_all(struct rt_zk *z, struct rt_zk_herd *h);
static void ask_mine(struct rt_zk *z, struct rt_zk_herd *h);

/* ---- The one node ----------------------------------------------------------------------------- */

static void fired(struct rt_zk *z, struct rt_zk_watch *w, enum rt_zk_event event, bool afresh)
{
    (void)event;
    (void)afresh;
    try_all(z, w->owner);
}

static void seen(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_herd *h = find(z, a->extra);
    if (h == NULL)
        return;
    h->asking = false;
    if (err == 0 && reply->said == RT_ZK_OK)
        return;
    rt_zk_unwatch(&h->watch);
    if (err == 0)
        try_all(z, h);
}

static bool ask(struct rt_zk *z, const struct rt_zk_herd *h, struct rt_zk_ask *a)
{
    return rt_zk_send(&z->c, a, NULL, NULL, h->serial, NULL) == 0;
}

static void watch(struct rt_zk *z, struct rt_zk_herd *h)
{
    h->at = member(h, h->at);
    const char *path = rt_zk_node_path(z, h->tickets[h->at]->name, z->dialect->lone);
    h->asking = rt_zk_watch(&z->c, &h->watch, RT_ZK_WATCH_DATA, path, fired, h) == 0 &&
                ask(z, h, rt_zk_read(&z->c, RT_ZK_GET, path, true, seen));
    if (!h->asking)
        rt_zk_unwatch(&h->watch); /* the next BEAT looks */
}

/* ---- Running for it --------------------------------------------------------------------------- */

static void make_lines(struct rt_zk *z, struct rt_zk_herd *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->tickets[i] != NULL)
            (void)rt_zk_make_way(z, rt_zk_node_path(z, h->tickets[i]->name, "x"));
}

static void tried(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_herd *h = find(z, a->extra);
    int32_t said = err == 0 ? rt_zk_multi_read(reply, NULL, NULL) : RT_ZK_OK;
    if (h == NULL)
        return;
    h->asking = false;
    if (err == ROTA_UNKNOWN) {
        ask_mine(z, h);
    } else if (err == 0 && said == RT_ZK_OK) {
        won(z, h, (uint64_t)reply->zxid); /* the czxid of all */
    } else if (err == 0 && said == RT_ZK_EXISTS_ALREADY) {
        h->at++;
        h->tries = 0;
        watch(z, h);
    } else if (err == 0 && said == RT_ZK_NO_NODE && h->tries++ < LINES_TRIES) {
        make_lines(z, h);
        try_all(z, h);
    }
}

static void try_all(struct rt_zk *z, struct rt_zk_herd *h)
{
    if (h->asking)
        return;
    rt_zk_unwatch(&h->watch);
    struct rt_zk_ask *a = rt_zk_ask_new(&z->c, RT_ZK_MULTI, tried);
    for (size_t i = 0; i < h->n; i++) {
        const struct rt_zk_ticket *t = h->tickets[i];
        if (t != NULL)
            rt_zk_herd_create(z, a, t->name, t->node, rt_zk_card_write(z, t->owner, t->value));
    }
    h->asking = ask(z, h, a);
}

/* ---- Is it ours by now? ----------------------------------------------------------------------- */

static void mine_seen(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_herd *h = find(z, a->extra);
    struct rt_zk_stat stat;
    (void)rt_zk_answered_node(err, reply, &stat);
    if (h == NULL)
        return;
    h->asking = false;
    if (err == 0 && reply->said != RT_ZK_OK)
        try_all(z, h);
    else if (err == 0 && !reply->body.bad)
        won(z, h, (uint64_t)stat.czxid);
}

static void ask_mine(struct rt_zk *z, struct rt_zk_herd *h)
{
    const struct rt_zk_ticket *t = h->tickets[member(h, 0)];
    const char *path = rt_zk_node_path(z, t->name, t->node);
    if (h->asking)
        return;
    h->asking = rt_zk_post(&z->c, rt_zk_path(&z->c, RT_ZK_SYNC, path, NULL)) == 0 &&
                ask(z, h, rt_zk_read(&z->c, RT_ZK_GET, path, false, mine_seen));
}

static struct rt_zk_herd *herd_new(struct rt_zk *z, struct rt_zk_ticket *const *tickets, size_t n)
{
    struct rt_zk_herd *h = rt_alloc(sizeof(*h) + n * sizeof(tickets[0]));
    if (h == NULL)
        return NULL;
    h->serial = ++z->serial;
    h->n = h->left = n;
    for (size_t i = 0; i < n; i++) {
        assert(tickets[i]->herd == NULL && !tickets[i]->granted);
        h->tickets[i] = tickets[i];
        tickets[i]->herd = h;
    }
    RT_LIST_ADD(&z->herds, h);
    return h;
}

void rt_zk_herd_look(struct rt_zk *z, struct rt_zk_ticket *t)
{
    if (t->granted || t->leaving)
        return;
    if (t->herd == NULL) /* its LEAVE failed: it waits again */
        (void)herd_new(z, &t, 1);
    if (t->herd != NULL)
        ask_mine(z, t->herd);
}

int rt_zk_herd_wait(struct rt_zk *z, struct rt_zk_ticket *const *tickets, size_t n, size_t busy)
{
    struct rt_zk_herd *h = herd_new(z, tickets, n);
    if (h == NULL)
        return rt_words_nomem(&z->base);
    h->at = busy;
    watch(z, h);
    return 0;
}
