/* SPDX-License-Identifier: Apache-2.0 */
/* OBSERVE: states of a line, pushed when it changes and looked at now and then.
 *
 *   subscribe ROOM:o:NAME ── confirmed ──▶ look ──▶ told, if it is another state than the last
 *   look again: every third of the ttl (which also keeps the room telling), after every link, and
 *   soon after a push that came near a look: the two travel on two connections, and the older
 *   state may arrive last. */
#include "engine/redis/ops.h"

#include "base/alloc.h"
#include "engine/kit/check.h"
#include "engine/kit/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_PARTS 3        /* looks per ttl */
#define NEAR (1000 * RT_MS) /* a push this soon after a look may be older than it */
#define RELOOK (20 * RT_MS) /* ... then we look again, after this long */

struct watch {
    struct rt_view base;         /* first */
    struct rt_op *op;            /* the OBSERVE that is not answered yet */
    struct rt_redis_request *rq; /* the look under way */
    uint32_t room;
    int64_t looked_at;
};

static struct watch *watch_of(struct rt_view *v)
{
    return (struct watch *)(void *)v;
}

/* ---- Looking ---------------------------------------------------------------------------- */

static void follow_looks(struct rt_redis_conn *c)
{
    rt_timers_at(&c->base.loop->timers, &c->side.look_timer.timer, rt_view_next(c->side.views));
}

/* "ROOM:o:NAME", to be freed; NULL: no memory. */
static char *channel_of(const struct rt_redis_conn *c, uint32_t room, const char *name)
{
    char key[64];
    rt_redis_room_key(c, room, key, sizeof(key));
    size_t size = strlen(key) + strlen(name) + 4;
    char *channel = rt_alloc(size);
    if (channel != NULL)
        (void)snprintf(channel, size, "%s:o:%s", key, name);
    return channel;
}

/* W is told nothing any more; the channel is given up with the last of its line. */
static void end(struct rt_redis_conn *c, struct watch *w)
{
    uint32_t room = w->room;
    char *channel = channel_of(c, room, w->base.name);
    c->rooms[room].watched--;
    bool last = rt_view_of(c->side.views, w->base.name) == &w->base &&
                rt_view_of(w->base.next, w->base.name) == NULL;
    rt_view_stop(&w->base);
    if (last && channel != NULL)
        rt_resp_unsubscribe(&c->link, room, channel);
    rt_free(channel);
    follow_looks(c);
}

static void look(struct rt_redis_conn *c, struct watch *w);

static void look_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct watch *w = rq->owner;
    struct rt_op *op = w->op;
    struct rt_view_state s = {0};
    w->rq = NULL;
    w->op = NULL;
    if (!rt_view_end(&w->base))
        return;
    if (err == 0 && (status != RT_REDIS_OK || rt_redis_count(reply) != 8))
        err = rt_redis_odd(c, rq);
    if (op != NULL)
        rt_conn_done(&c->base, op, err);
    if (op != NULL && err != 0) { /* nobody counts on it */
        end(c, w);
        return;
    }
    if (err == 0) {
        s.count = (size_t)rt_redis_int(reply, 2);
        s.mode = (uint32_t)rt_redis_int(reply, 3);
        s.of = (uint32_t)rt_redis_int(reply, 4);
        s.fence = (uint64_t)rt_redis_int(reply, 5);
        rt_view_label(&s, rt_redis_str(reply, 6), strlen(rt_redis_str(reply, 6)));
        rt_view_value(&s, rt_redis_str(reply, 7), strlen(rt_redis_str(reply, 7)));
        rt_view_tell(&c->base, &w->base, &s);
        rt_redis_note_ends(c, w->room, rt_redis_int(reply, 0), rt_redis_int(reply, 1));
    }
    if (w->base.again)
        look(c, w);
    follow_looks(c);
}

static void look(struct rt_redis_conn *c, struct watch *w)
{
    struct rt_redis_args a;
    int64_t now = rt_loop_now(c->base.loop);
    w->base.look_at = now + c->base.ttl_ms * RT_MS / LOOK_PARTS;
    if (!rt_view_begin(&w->base))
        return;
    rt_redis_args_few(&a);
    rt_redis_arg(&a, w->base.name);
    rt_redis_arg_number(&a, c->base.ttl_ms);
    struct rt_redis_request *rq = rt_redis_ask(c, NULL, &a, RT_REDIS_SCRIPT_LOOK, w->room,
                                               w->op != NULL ? w->op->deadline : 0, look_answered);
    if (rq == NULL) {
        (void)rt_view_end(&w->base); /* the next one is due as ever */
        return;
    }
    rq->call.entry.op = w->op;
    rq->owner = w;
    w->rq = rq;
    w->looked_at = now;
}

void rt_redis_look_fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_redis_conn *c = RT_REDIS_OF_TIMER(call, look_timer);
    for (struct rt_view *v = c->side.views; v != NULL; v = v->next)
        if (!v->over && !v->looking && v->look_at <= now)
            look(c, watch_of(v));
    follow_looks(c);
}

void rt_redis_look_again(struct rt_redis_conn *c, const struct rt_resp_node *node)
{
    for (struct rt_view *v = c->side.views; v != NULL; v = v->next)
        if (!v->over && c->link.places[watch_of(v)->room] == node)
            look(c, watch_of(v));
    follow_looks(c);
}

/* ---- Pushed ----------------------------------------------------------------------------- */

/* "COUNT MODE OF FENCE LABELLEN LABELVALUE" */
static bool read_state(const char *text, size_t size, struct rt_view_state *s)
{
    uint64_t numbers[5];
    const char *at = text;
    char *end;
    for (size_t i = 0; i < 5; i++) {
        numbers[i] = strtoull(at, &end, 10);
        if (end == at || *end != ' ')
            return false;
        at = end + 1;
    }
    size_t left = size - (size_t)(at - text), label = numbers[4];
    if (label > left)
        return false;
    *s = (struct rt_view_state){.count = numbers[0],
                                .mode = (uint32_t)numbers[1],
                                .of = (uint32_t)numbers[2],
                                .fence = numbers[3]};
    rt_view_label(s, at, label);
    rt_view_value(s, at + label, left - label);
    return true;
}

void rt_redis_observed(struct rt_redis_conn *c, uint32_t room, const char *name,
                       const char *message, size_t size)
{
    struct rt_view_state s;
    bool state = message != NULL && read_state(message, size, &s);
    int64_t now = rt_loop_now(c->base.loop);
    for (struct rt_view *v = c->side.views; v != NULL; v = v->next) {
        struct watch *w = watch_of(v);
        if (v->over || w->room != room || strcmp(v->name, name) != 0)
            continue;
        if (!state) { /* subscribed just now: what was pushed before was missed; or it makes no sense */
            look(c, w);
        } else {
            if (v->told) /* else the look under way tells first, and one more what came meanwhile */
                rt_view_tell(&c->base, v, &s);
            if ((v->looking || now - w->looked_at < NEAR) && now + RELOOK < w->base.look_at)
                w->base.look_at = now + RELOOK;
            v->again = v->again || v->looking;
        }
    }
    follow_looks(c);
}

/* ---- OBSERVE ---------------------------------------------------------------------------- */

static void stop(struct rt_redis_conn *c, struct watch *w)
{
    struct rt_op *op = w->op;
    w->op = NULL;
    if (op != NULL) { /* still unanswered: its end is all that is left of it */
        w->rq->call.entry.op = NULL;
        rt_conn_done(&c->base, op, rt_redis_fail(c, ROTA_CANCELED, "the observation was ended"));
    }
    end(c, w);
}

static struct watch *start(struct rt_redis_conn *c, const char *name, void *cookie)
{
    uint32_t room = rt_redis_room_of(c, name);
    bool first = rt_view_of(c->side.views, name) == NULL;
    struct watch *w = rt_view_new(&c->side.views, sizeof(*w), name, cookie);
    char *channel = w != NULL && first ? channel_of(c, room, name) : NULL;
    if (first && (channel == NULL || rt_resp_subscribe(&c->link, room, channel) != 0)) {
        if (w != NULL)
            rt_view_free(&w->base);
        w = NULL;
    }
    rt_free(channel);
    if (w == NULL)
        return NULL;
    w->room = room;
    c->rooms[room].watched++;
    return w;
}

int rt_redis_begin_observe(struct rt_redis_conn *c, struct rt_op *op)
{
    struct watch *w = watch_of(rt_view_find(c->side.views, op->observe.cookie));
    if (op->observe.stop) {
        if (w != NULL)
            stop(c, w);
        rt_conn_done(&c->base, op, 0);
        return 0;
    }
    int rv = rt_check_name(&c->base, op->observe.name);
    if (rv == 0 && w == NULL && (w = start(c, op->observe.name, op->observe.cookie)) == NULL)
        rv = rt_words_nomem(&c->base);
    if (rv != 0)
        return rv;
    w->base.told = false;  /* asked again: told again */
    if (w->base.looking) { /* it is under way already */
        w->base.again = true;
        rt_conn_done(&c->base, op, 0);
        return 0;
    }
    w->op = op;
    look(c, w);
    if (w->rq != NULL)
        return 0;
    w->op = NULL;
    stop(c, w);
    return ROTA_NOMEM;
}
