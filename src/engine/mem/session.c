/* SPDX-License-Identifier: Apache-2.0 */
/* Leased sessions, and the sweeping of what is over by time. */
#include "engine/mem/world.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A broken ticket is forgotten when no BEAT has named it for this many ttls: one or two may have
 * been composed before its client knew it, and come late. */
#define FORGET_TTLS 3

struct rt_mem_session *rt_mem_session_open(struct rt_mem_conn *mc)
{
    struct rt_mem_world *world = mc->world;
    const char *label = mc->conn.label != NULL ? mc->conn.label : "";
    size_t length = strnlen(label, RT_LABEL_MAX);
    struct rt_mem_session *s = rt_alloc(sizeof(*s) + length + 1);
    if (s == NULL)
        return NULL;
    memcpy(s->label, label, length);
    s->id = ++world->session_id;
    s->conn = mc;
    s->next = mc->sessions;
    mc->sessions = s;
    rt_mem_ring_init(&s->link);
    rt_mem_ring_init(&s->calm);
    rt_mem_ring_init(&s->inbox);
    rt_mem_ring_init(&s->lost);
    rt_mem_session_renew(world, s, mc->conn.ttl_ms);
    return s;
}

void rt_mem_session_renew(struct rt_mem_world *world, struct rt_mem_session *s, uint32_t ttl_ms)
{
    s->expires = world->now + ttl_ms * RT_MS;
    rt_mem_link_out(&s->link);
    /* Mostly all have one ttl: then its place is the end. */
    struct rt_mem_link *where = &world->sessions;
    while (where->prev != &world->sessions && rt_mem_session_of(where->prev)->expires > s->expires)
        where = where->prev;
    rt_mem_link_before(where, &s->link);
}

struct rt_mem_session *rt_mem_session_find(struct rt_mem_conn *mc, uint64_t id)
{
    for (struct rt_mem_session *s = mc->sessions; s != NULL; s = s->next)
        if (s->id == id && !s->over)
            return s;
    struct rt_mem_link *head = &mc->world->sessions;
    for (struct rt_mem_link *l = head->next; l != head; l = l->next)
        if (rt_mem_session_of(l)->id == id)
            return rt_mem_session_of(l);
    return NULL;
}

static bool named(uint64_t number, const uint64_t *tickets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (tickets[i] == number)
            return true;
    return false;
}

/* In a late world: a client that names it by its number has heard of its grant. */
static void learn_names(struct rt_mem_link *ring, const uint64_t *tickets, size_t count)
{
    for (struct rt_mem_link *l = ring->next; l != ring; l = l->next) {
        struct rt_mem_ticket *t = rt_mem_ticket_of(l);
        if (!(t->flags & RT_MEM_GRANTED) || rt_mem_ticket_name(t) == 0 ||
            t->pending & RT_MEM_TELL_LOST || !named(t->number, tickets, count))
            continue;
        t->extra->name = 0;
        t->flags &= (uint8_t)~RT_MEM_WAITED;
    }
}

static void announce_ticket(struct rt_mem_ticket *t)
{
    if (t->flags & RT_MEM_WAITED)
        rt_mem_ticket_tell(t, RT_MEM_TELL_GRANTED);
    if (t->flags & RT_MEM_TOLD && t->line->waiting > 0)
        rt_mem_ticket_tell(t, RT_MEM_TELL_WANTED);
}

static void announce_lost(struct rt_mem_session *s, const uint64_t *tickets, size_t count)
{
    struct rt_mem_world *world = s->conn->world;
    for (struct rt_mem_link *l = s->lost.next, *next; l != &s->lost; l = next) {
        next = l->next;
        struct rt_mem_ticket *t = rt_mem_ticket_of(l);
        uint64_t name = rt_mem_ticket_name(t);
        if (name != 0 && named(name, tickets, count))
            rt_mem_ticket_rename(t);
        if (named(t->number, tickets, count)) {
            t->since = world->now;
            rt_mem_ticket_tell(t, RT_MEM_TELL_LOST);
        } else if (world->now - t->since > FORGET_TTLS * s->conn->conn.ttl_ms * RT_MS) {
            rt_mem_ticket_forget(world, t);
        }
    }
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t count_tickets(const struct rt_mem_session *s)
{
    uint64_t n = 0;
    for (const struct rt_mem_link *l = s->calm.next; l != &s->calm; l = l->next)
        n++;
    for (const struct rt_mem_link *l = s->inbox.next; l != &s->inbox; l = l->next)
        n++;
    return n;
}

static bool is_unnamed(const struct rt_mem_ticket *t, const uint64_t *sorted, size_t count)
{
    return t->flags & RT_MEM_GRANTED && !(t->pending & RT_MEM_TELL_LOST) &&
           bsearch(&t->number, sorted, count, sizeof(*sorted), by_number) == NULL;
}

/* A granted ticket its client did not name may be one it knows nothing of: its JOIN arrived after
 * the client had given up. It is told, so that it can be given back. Sorting is paid for only
 * when there is such a one, or a JOIN under way. */
static void announce_unnamed(struct rt_mem_session *s, const uint64_t *tickets, size_t count)
{
    if (count_tickets(s) <= count)
        return;
    uint64_t *sorted = rt_alloc((count + 1) * sizeof(*sorted));
    if (sorted == NULL)
        return; /* the next BEAT tries again */
    if (count > 0)
        memcpy(sorted, tickets, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_number);
    for (struct rt_mem_link *l = s->inbox.next; l != &s->inbox; l = l->next) {
        struct rt_mem_ticket *t = rt_mem_ticket_of(l);
        if (is_unnamed(t, sorted, count))
            t->pending |= RT_MEM_TELL_GRANTED;
    }
    for (struct rt_mem_link *l = s->calm.next, *next; l != &s->calm; l = next) {
        next = l->next;
        struct rt_mem_ticket *t = rt_mem_ticket_of(l);
        if (is_unnamed(t, sorted, count))
            rt_mem_ticket_tell(t, RT_MEM_TELL_GRANTED);
    }
    rt_free(sorted);
}

/* A BEAT catches up on events that may have been lost on the way: whatever was told by an
 * event, and not spoken of by the client since, is told again. */
void rt_mem_session_announce(struct rt_mem_session *s, const uint64_t *tickets, size_t count)
{
    if (s->conn == NULL)
        return;
    if (s->conn->world->late) {
        learn_names(&s->calm, tickets, count);
        learn_names(&s->inbox, tickets, count);
    }
    for (struct rt_mem_link *l = s->calm.next, *next; l != &s->calm; l = next) {
        next = l->next;
        announce_ticket(rt_mem_ticket_of(l));
    }
    struct rt_mem_link *durables = &s->conn->durables;
    for (struct rt_mem_link *l = durables->next, *next; l != durables; l = next) {
        next = l->next;
        announce_ticket(rt_mem_durable_of(l));
    }
    announce_unnamed(s, tickets, count);
    announce_lost(s, tickets, count);
    for (struct rt_view *v = s->conn->world->watches; v != NULL; v = v->next) {
        struct rt_mem_watch *w = rt_mem_watch_of(v);
        if (w->conn == s->conn) {
            w->dirty = true;
            rt_mem_ring(w->conn);
        }
    }
}

/* ---- Ends --------------------------------------------------------------- */

static bool is_over(const struct rt_mem_world *world, const struct rt_mem_ticket *t)
{
    return (t->session != NULL ? t->session->expires : t->extra->until) <= world->now;
}

/* All that is over in a line ends before anybody is granted: a dead waiter never holds. */
static void line_purge(struct rt_mem_world *world, struct rt_mem_line *line)
{
    struct rt_mem_ticket *t = rt_mem_line_front(line);
    for (uint32_t left = line->count; left > 0; left--) {
        struct rt_mem_ticket *next = t->next;
        if (is_over(world, t))
            rt_mem_ticket_end(world, t);
        t = next;
    }
    rt_mem_settle(world, line);
}

static void forget_lost(struct rt_mem_world *world, struct rt_mem_session *s)
{
    while (s->lost.next != &s->lost)
        rt_mem_ticket_forget(world, rt_mem_ticket_of(s->lost.next));
    for (struct rt_mem_link *l = s->inbox.next, *next; l != &s->inbox; l = next) {
        next = l->next;
        if (rt_mem_ticket_of(l)->pending & RT_MEM_TELL_LOST)
            rt_mem_ticket_forget(world, rt_mem_ticket_of(l));
    }
}

static void session_expire(struct rt_mem_world *world, struct rt_mem_session *s)
{
    forget_lost(world, s);
    while (s->calm.next != &s->calm)
        line_purge(world, rt_mem_ticket_of(s->calm.next)->line);
    while (s->inbox.next != &s->inbox)
        line_purge(world, rt_mem_ticket_of(s->inbox.next)->line);
    rt_mem_link_out(&s->link);
    if (s->conn == NULL) {
        rt_free(s);
        return;
    }
    s->over = true;
    rt_mem_ring(s->conn);
}

void rt_mem_sweep(struct rt_mem_world *world)
{
    struct rt_mem_link *first;
    while ((first = world->sessions.next) != &world->sessions &&
           rt_mem_session_of(first)->expires <= world->now)
        session_expire(world, rt_mem_session_of(first));
    while ((first = world->fading.next) != &world->fading &&
           rt_mem_ticket_of(first)->extra->until <= world->now)
        line_purge(world, rt_mem_ticket_of(first)->line);
}

int64_t rt_mem_next_end(const struct rt_mem_world *world)
{
    int64_t at = RT_NEVER;
    if (world->sessions.next != &world->sessions)
        at = rt_mem_session_of(world->sessions.next)->expires;
    if (world->fading.next != &world->fading) {
        int64_t until = rt_mem_ticket_of(world->fading.next)->extra->until;
        at = until < at ? until : at;
    }
    return at;
}

/* Its connection closes: nobody is there to be told. Without tickets it ends at once. */
void rt_mem_session_detach(struct rt_mem_world *world, struct rt_mem_session *s)
{
    forget_lost(world, s);
    while (s->inbox.next != &s->inbox) {
        struct rt_mem_ticket *t = rt_mem_ticket_of(s->inbox.next);
        rt_mem_ticket_told(t);
        t->pending = 0;
    }
    s->conn = NULL;
    if (s->over || s->calm.next == &s->calm)
        rt_mem_session_free(world, s);
}

/* The same for durable tickets, which stay. */
void rt_mem_durables_detach(struct rt_mem_conn *mc)
{
    while (mc->durable_inbox.next != &mc->durable_inbox)
        rt_mem_ticket_told(rt_mem_durable_of(mc->durable_inbox.next));
    while (mc->durables.next != &mc->durables) {
        struct rt_mem_ticket *t = rt_mem_durable_of(mc->durables.next);
        rt_mem_link_out(&t->extra->told);
        t->extra->conn = NULL;
        t->pending = 0;
    }
}

/* With all its tickets, as if they had never been. */
void rt_mem_session_free(struct rt_mem_world *world, struct rt_mem_session *s)
{
    forget_lost(world, s);
    assert(s->inbox.next == &s->inbox);
    while (s->calm.next != &s->calm) {
        struct rt_mem_ticket *t = rt_mem_ticket_of(s->calm.next);
        struct rt_mem_line *line = t->line;
        rt_mem_ticket_drop(t);
        rt_mem_line_tidy(world, line);
    }
    rt_mem_link_out(&s->link);
    rt_free(s);
}
