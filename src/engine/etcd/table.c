/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets of ours that etcd knows, by name: found by number or by nonce; and their keys. */
#include "engine/etcd/ops.h"

#include "base/alloc.h"
#include "base/list.h"
#include "engine/kit/hash.h"

#define TABLE_FIRST 64

/* ---- Tickets whose JOIN was not answered ---------------------------------------------------------- */

void rt_etcd_ticket_doubt(struct rt_etcd_conn *c, struct rt_etcd_ticket *t)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    t->next = s->doubts;
    s->doubts = t;
}

void rt_etcd_doubts_end(struct rt_etcd_side *s, uint64_t session, uint64_t nonce)
{
    for (struct rt_etcd_ticket **link = &s->doubts, *t; (t = *link) != NULL;) {
        if (t->session == session && (nonce == 0 || t->nonce == nonce)) {
            *link = t->next;
            rt_free(t);
        } else {
            link = &t->next;
        }
    }
}

static const struct rt_etcd_ticket *find_doubt(struct rt_etcd_conn *c, const struct rt_join *join)
{
    const struct rt_etcd_ticket *t = rt_etcd_s(c)->doubts;
    while (t != NULL &&
           (t->session != join->session || t->nonce != join->nonce ||
            strlen(join->name) != t->name_size || memcmp(t->key, join->name, t->name_size) != 0))
        t = t->next;
    return t;
}

static bool is_free(struct rt_etcd_conn *c, const char *key, size_t size)
{
    const struct rt_etcd_ticket *t = rt_etcd_s(c)->doubts;
    while (t != NULL && (t->key_size != size || memcmp(t->key, key, size) != 0))
        t = t->next;
    return t == NULL && rt_etcd_ticket_of_key(c, key, size) == NULL;
}

/* ---- New ones ----------------------------------------------------------------------------------------- */

/* The key of the same JOIN, or the first spot where none of ours stands; 0: there is none. */
static size_t choose_spot(struct rt_etcd_conn *c, const struct rt_join *join, char *key)
{
    const struct rt_etcd_ticket *same = rt_etcd_ticket_find(c, join->name, join->session, 0,
                                                            join->nonce);
    if (same == NULL)
        same = find_doubt(c, join); /* it may stand there */
    if (same != NULL) {
        memcpy(key, same->key, same->key_size);
        return same->key_size;
    }
    for (uint64_t i = 1; i <= RT_ETCD_SPOTS; i++) {
        size_t size = rt_etcd_key_spot(key, join->name, join->session, i);
        if (size == 0 || is_free(c, key, size))
            return size;
    }
    return 0;
}

/* ONCE: the key of its nonce, which is never used again; even if the same JOIN was put elsewhere before,
 * where it may have found another ticket. */
static size_t choose_key(struct rt_etcd_conn *c, const struct rt_join *join, bool once, char *key)
{
    size_t size = once ? 0 : choose_spot(c, join, key);
    if (size > 0)
        return size;
    return rt_etcd_key(key, join->name, join->session, join->flags & RT_JOIN_DURABLE, join->nonce);
}

struct rt_etcd_ticket *rt_etcd_ticket_new(struct rt_etcd_conn *c, const struct rt_join *join,
                                          bool once)
{
    char key[RT_ETCD_KEY_MAX];
    size_t size = choose_key(c, join, once || join->flags & RT_JOIN_DURABLE, key);
    return size > 0 ? rt_etcd_ticket_with_key(join, key, size) : NULL;
}

struct rt_etcd_ticket *rt_etcd_ticket_with_key(const struct rt_join *join, const void *key,
                                               size_t size)
{
    struct rt_etcd_ticket *t = rt_alloc(sizeof(*t) + size + 1);
    if (t == NULL)
        return NULL;
    memcpy(t->key, key, size);
    t->key_size = (uint16_t)size;
    t->name_size = (uint16_t)strlen(join->name);
    t->session = join->session;
    t->nonce = join->nonce;
    t->at_least_ms = join->at_least_ms;
    t->mode = join->mode;
    t->take = join->take;
    t->of = join->of;
    t->durable = join->flags & RT_JOIN_DURABLE;
    t->armed = join->flags & RT_JOIN_ARM;
    return t;
}

static struct rt_etcd_ticket **bucket(struct rt_etcd_side *s, const void *name, size_t size)
{
    return &s->table[rt_hash(name, size) & (s->table_size - 1)];
}

/* Without memory it stays as it is, and is slower. */
static void grow(struct rt_etcd_side *s)
{
    size_t size = s->table_size > 0 ? 2 * s->table_size : TABLE_FIRST;
    struct rt_etcd_ticket **table = rt_alloc(size * sizeof(struct rt_etcd_ticket *));
    if (table == NULL)
        return;
    rt_free(s->table);
    s->table = table;
    s->table_size = size;
    for (struct rt_etcd_ticket *t = s->tickets; t != NULL; t = t->next) {
        struct rt_etcd_ticket **at = bucket(s, t->key, t->name_size);
        t->hash_next = *at;
        *at = t;
    }
}

int rt_etcd_table_open(struct rt_etcd_side *s)
{
    grow(s);
    return s->table != NULL ? 0 : ROTA_NOMEM;
}

void rt_etcd_ticket_add(struct rt_etcd_conn *c, struct rt_etcd_ticket *t)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    if (s->ticket_count >= s->table_size)
        grow(s);
    struct rt_etcd_ticket **at = bucket(s, t->key, t->name_size);
    t->hash_next = *at;
    *at = t;
    t->serial = ++s->serial;
    RT_LIST_ADD(&s->tickets, t);
    s->ticket_count++;
    s->key_bytes += t->key_size;
}

void rt_etcd_ticket_drop(struct rt_etcd_conn *c, struct rt_etcd_ticket *t)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    rt_etcd_wait_end(c, t);
    rt_etcd_least_end(c, t);
    struct rt_etcd_ticket **at = bucket(s, t->key, t->name_size);
    while (*at != t)
        at = &(*at)->hash_next;
    *at = t->hash_next;
    if (s->session.page == t)
        s->session.page = t->next;
    if (s->session.page_end == t)
        s->session.page_end = t->next;
    RT_LIST_OUT(t);
    s->ticket_count--;
    s->key_bytes -= t->key_size;
    rt_free(t);
}

struct rt_etcd_ticket *rt_etcd_ticket_find(struct rt_etcd_conn *c, const char *name,
                                           uint64_t session, uint64_t number, uint64_t nonce)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    size_t size = strlen(name);
    struct rt_etcd_ticket *t = *bucket(s, name, size);
    for (; t != NULL; t = t->hash_next)
        if (t->session == session && rt_names_ticket(number, nonce, t->number, t->nonce) &&
            t->name_size == size && memcmp(t->key, name, size) == 0)
            return t;
    return NULL;
}

struct rt_etcd_ticket *rt_etcd_ticket_of_key(struct rt_etcd_conn *c, const void *key, size_t size)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    size_t name_size;
    struct rt_etcd_id id;
    if (!rt_etcd_key_read(key, size, &name_size, &id))
        return NULL;
    struct rt_etcd_ticket *t = *bucket(s, key, name_size);
    while (t != NULL && (t->key_size != size || memcmp(t->key, key, size) != 0))
        t = t->hash_next;
    return t;
}

void rt_etcd_ticket_name(const struct rt_etcd_ticket *t, char out[RT_NAME_ROOM])
{
    memcpy(out, t->key, t->name_size);
    out[t->name_size] = '\0';
}

void rt_etcd_tell(struct rt_etcd_conn *c, enum rt_event_kind kind, const struct rt_etcd_ticket *t)
{
    char name[RT_NAME_ROOM];
    rt_etcd_ticket_name(t, name);
    struct rt_event event = {
        .kind = kind, .session = t->session, .number = t->number, .name = name};
    if (kind == RT_GRANTED)
        event.nonce = t->nonce;
    rt_conn_event(rt_etcd_base(c), &event);
}

void rt_etcd_ticket_lost(struct rt_etcd_conn *c, struct rt_etcd_ticket *t)
{
    if (t->leaving) { /* most likely by that; a look that crossed it says nothing new */
        rt_etcd_wait_end(c, t);
        return;
    }
    /* Or a member that is behind has not seen it (#20418): then the next BEAT looks for it. */
    rt_etcd_s(c)->session.doubtful = true;
    rt_etcd_tell(c, RT_TICKET_LOST, t);
    rt_etcd_ticket_drop(c, t);
}
