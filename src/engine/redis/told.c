/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes: in their order, none twice, and never before the answer to the JOIN they speak of.
 *
 * They come on a connection of their own and may overtake that answer. One that speaks of a line
 * with a JOIN of ours under way is kept until all JOINs that were sent before it came are answered.
 * Each carries its count in the session and room: a gap, or a beat that knows more, makes us ask. */
#include "engine/redis/ops.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

struct rt_redis_push {
    struct rt_redis_push *next;
    uint64_t session, number;
    uint64_t until; /* side.join_seq when it came */
    char kind;
    char name[];
};

/* ---- Telling ---------------------------------------------------------------------------- */

void rt_redis_tell(struct rt_redis_conn *c, const struct rt_event *event)
{
    if (c->link.replicas == 0 || RT_BUG(RT_BUG_REPLICAS_NOT_WAITED_FOR) ||
        !rt_redis_tell_replicated(c, event))
        rt_redis_tell_now(c, event);
}

void rt_redis_tell_now(struct rt_redis_conn *c, const struct rt_event *event)
{
    if (rt_redis_set_hears(c, event->kind, event->session, event->number, event->name))
        return;
    rt_conn_event(&c->base, event);
    c->side.counted_at = -1;
}

static void tell(struct rt_redis_conn *c, uint64_t session, char kind, uint64_t number,
                 const char *name)
{
    struct rt_event event = {
        .kind = RT_GRANTED, .session = session, .number = number, .name = name};
    if (kind == 'G' || kind == 'H') {
        c->side.handed++;
        rt_redis_tell(c, &event);
    }
    event.kind = kind == 'L' ? RT_TICKET_LOST : RT_WANTED;
    if (kind == 'H' || kind == 'W' || kind == 'L')
        rt_redis_tell(c, &event);
}

/* ---- Keeping ---------------------------------------------------------------------------- */

/* Whether the answer to a JOIN of the line NAME may still be on its way. */
static bool is_joining(const struct rt_redis_conn *c, const char *name)
{
    for (const struct rt_redis_request *rq = c->side.joins.next; rq != &c->side.joins;
         rq = rq->next) {
        size_t i = rq->call.argc == RT_REDIS_JOIN_SHORT ? 2 : RT_REDIS_JOIN_AHEAD;
        for (; i < rq->call.argc; i += RT_REDIS_JOIN_EACH)
            if (strcmp(rq->call.args[i], name) == 0)
                return true;
    }
    return false;
}

static bool keep(struct rt_redis_conn *c, uint64_t session, char kind, uint64_t number,
                 const char *name)
{
    size_t size = strlen(name) + 1;
    struct rt_redis_push *p = rt_alloc(sizeof(*p) + size);
    if (p == NULL)
        return false;
    p->session = session;
    p->number = number;
    p->kind = kind;
    p->until = c->side.join_seq;
    memcpy(p->name, name, size);
    *c->side.kept_tail = p;
    c->side.kept_tail = &p->next;
    return true;
}

/* The oldest first: `until` only grows along the list. */
void rt_redis_tell_kept(struct rt_redis_conn *c)
{
    struct rt_redis_push *p;
    const struct rt_redis_request *joins = &c->side.joins;
    while ((p = c->side.kept) != NULL && (RT_RING_EMPTY(joins) || joins->next->seq > p->until)) {
        c->side.kept = p->next;
        if (p->next == NULL)
            c->side.kept_tail = &c->side.kept;
        tell(c, p->session, p->kind, p->number, p->name);
        rt_free(p);
    }
}

void rt_redis_drop_kept(struct rt_redis_conn *c)
{
    struct rt_redis_push *p;
    while ((p = c->side.kept) != NULL) {
        c->side.kept = p->next;
        rt_free(p);
    }
    c->side.kept_tail = &c->side.kept;
    RT_RING_INIT(&c->side.joins);
}

/* ---- Coming in -------------------------------------------------------------------------- */

/* Counts a push of our session about ticket NUMBER; false: it is known already. A session counts anew in every
 * stay in a room. What may be of an earlier one is told and not counted: if it was of this one, the next beat
 * shows the gap. */
static bool note_count(struct rt_redis_conn *c, uint32_t at, uint64_t count, uint64_t number)
{
    struct rt_redis_room *room = &c->rooms[at];
    if (!room->stands || number < room->since)
        return true;
    if (count <= room->pushes)
        return false; /* told, or in an answer of `held` since */
    bool gap = count != room->pushes + 1 && !RT_BUG(RT_BUG_PUSH_GAP_IGNORED);
    room->pushes = count;
    if (gap)
        rt_redis_ask_held(c, at);
    return true;
}

static void note_durable(struct rt_redis_room *room, char kind)
{
    if ((kind == 'G' || kind == 'H' || kind == 'L') && room->durable_waits > 0)
        room->durable_waits--;
}

/* "SID v KIND NUMBER NAME"; whatever is not of that form is not ours. */
static void ticket_push(struct rt_redis_conn *c, uint32_t room, const char *text)
{
    bool durable = text[0] == 'd'; /* leased ones begin with 0 to 7 */
    char *end;
    uint64_t session = strtoull(text + durable, &end, durable ? 10 : 16);
    if (*end != ' ')
        return;
    uint64_t count = strtoull(end + 1, &end, 10);
    if (*end != ' ' || end[1] == '\0' || end[2] != ' ')
        return;
    char kind = end[1];
    uint64_t number = strtoull(end + 3, &end, 10);
    if (*end != ' ' || number == 0 || end[1] == '\0')
        return;
    const char *name = end + 1;
    if (durable)
        note_durable(&c->rooms[room], kind);
    else if (session != c->session || !note_count(c, room, count, number))
        return;
    bool early = (c->side.kept != NULL || is_joining(c, name)) && !RT_RING_EMPTY(&c->side.joins) &&
                 !RT_BUG(RT_BUG_PUSH_BEFORE_ITS_ANSWER);
    if (early && keep(c, session, kind, number, name))
        return;
    if (early && !durable) /* no memory: told of a ticket that is not known yet, it would be lost */
        c->rooms[room].stale = c->rooms[room].unheard =
            true; /* it is asked: by that JOIN, or a beat */
    else
        tell(c, session, kind, number, name);
}

/* Pushes may have been lost before the subscription. Only waiters have to know at once: for the
 * rest the next beat compares the counts. */
static void subscribed(struct rt_redis_conn *c, uint32_t at)
{
    struct rt_redis_room *room = &c->rooms[at];
    size_t count = 0, waiting = 0;
    room->subscribed = true;
    if (!room->stands && room->joining == 0)
        return;
    bool known = rt_redis_count_held(c, at, &count, &waiting);
    if (known && count == 0 && room->joining == 0)
        return;         /* there was nothing to push */
    room->stale = true; /* a JOIN that is under way asks, if it is told to wait */
    if (!known || waiting > 0)
        rt_redis_ask_held(c, at);
}

static bool read_channel(const struct rt_redis_conn *c, const char *channel, uint32_t *room,
                         char *kind, const char **rest)
{
    static const char ahead[] = "rota:{";
    char key[64], *end;
    if (strncmp(channel, ahead, sizeof(ahead) - 1) != 0)
        return false;
    unsigned long n = strtoul(channel + sizeof(ahead) - 1, &end, 10);
    if (*end != '}' || n >= c->room_count)
        return false;
    *room = (uint32_t)n;
    rt_redis_room_key(c, *room, key, sizeof(key));
    size_t size = strlen(key);
    if (strncmp(channel, key, size) != 0 || channel[size] != ':' || channel[size + 1] == '\0' ||
        channel[size + 2] != ':')
        return false;
    *kind = channel[size + 1];
    *rest = channel + size + 3;
    return true;
}

void rt_redis_pushed(struct rt_resp_conn *link, struct rt_resp_node *node, const char *channel,
                     const char *message, size_t size)
{
    struct rt_redis_conn *c = rt_redis_of_link(link);
    uint32_t room;
    char kind;
    const char *rest;
    (void)node;
    if (c->rooms == NULL || !read_channel(c, channel, &room, &kind, &rest))
        return;
    if (kind == 'o')
        rt_redis_observed(c, room, rest, message, size);
    else if (kind == 'p' && message == NULL)
        subscribed(c, room);
    else if (kind == 'p' && strlen(message) == size)
        ticket_push(c, room, message);
}
