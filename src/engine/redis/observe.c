/* SPDX-License-Identifier: Apache-2.0 */
/* OBSERVE: states of a line, pushed when it changes and looked at now and then.
 *
 *   subscribe ROOM:o:NAME ── confirmed ──▶ look ──▶ told, if it is another state than the last
 *   look again: every third of the ttl (which also keeps the room telling), after every link, and
 *   soon after a push that came near a look: the two travel on two connections, and the older
 *   state may arrive last. */
#include "engine/redis/ops.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_PARTS 3        /* looks per ttl */
#define NEAR (1000 * RT_MS) /* a push so soon after a look may be older than it */
#define RELOOK (20 * RT_MS) /* ... then it is looked again, after so long */

struct state {
    uint64_t count, mode, of, fence;
    char label[RT_LABEL_MAX + 1], value[ROTA_VALUE_MAX + 1];
};

struct rt_redis_watch {
    struct rt_redis_watch *next;
    struct rt_op *op;            /* the OBSERVE that is not answered yet */
    struct rt_redis_request *rq; /* the look under way */
    void *cookie;
    uint32_t room;
    bool told;       /* `last` is what was told last */
    bool look_again; /* ... and once more after it */
    bool over;       /* stopped while a look was under way: freed by its answer */
    int64_t look_at, looked_at;
    struct state last;
    char name[];
};

/* ---- Telling ---------------------------------------------------------------------------- */

static void tell(struct rt_redis_conn *c, struct rt_redis_watch *w, const struct state *s)
{
    if (w->told && s->count == w->last.count && s->mode == w->last.mode && s->of == w->last.of &&
        s->fence == w->last.fence && strcmp(s->label, w->last.label) == 0 &&
        strcmp(s->value, w->last.value) == 0)
        return;
    w->told = true;
    w->last = *s;
    struct rt_event event = {
        .kind = RT_CHANGED,
        .name = w->name,
        .cookie = w->cookie,
        .front = {.fence = s->fence, .value = w->last.value, .label = w->last.label},
        .count = s->count,
        .mode = (uint32_t)s->mode,
        .of = (uint32_t)s->of,
    };
    rt_conn_event(&c->base, &event);
}

static void copy_text(char *out, size_t room, const char *text, size_t size)
{
    size_t n = size < room - 1 ? size : room - 1;
    memcpy(out, text, n);
    out[n] = '\0';
}

/* ---- Looking ---------------------------------------------------------------------------- */

static void follow_looks(struct rt_redis_conn *c)
{
    struct rt_timer *timer = &c->side.look_timer.timer;
    int64_t at = RT_NEVER;
    for (const struct rt_redis_watch *w = c->side.watches; w != NULL; w = w->next)
        if (!w->over && w->rq == NULL && w->look_at < at)
            at = w->look_at;
    if (at == RT_NEVER)
        rt_timers_stop(&c->base.loop->timers, timer);
    else if (timer->slot == 0 || timer->at != at)
        rt_timers_start(&c->base.loop->timers, timer, at);
}

static void unlink_watch(struct rt_redis_conn *c, struct rt_redis_watch *w)
{
    struct rt_redis_watch **at = &c->side.watches;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    rt_free(w);
}

static bool is_observed(const struct rt_redis_conn *c, const char *name)
{
    for (const struct rt_redis_watch *w = c->side.watches; w != NULL; w = w->next)
        if (!w->over && strcmp(w->name, name) == 0)
            return true;
    return false;
}

/* W is told nothing any more; its memory lasts until its look is answered. */
static void end(struct rt_redis_conn *c, struct rt_redis_watch *w)
{
    char key[64], *channel;
    w->over = true;
    c->rooms[w->room].watched--;
    rt_redis_room_key(c, w->room, key, sizeof(key));
    size_t size = strlen(key) + strlen(w->name) + 4;
    if (!is_observed(c, w->name) && (channel = rt_alloc(size)) != NULL) {
        (void)snprintf(channel, size, "%s:o:%s", key, w->name);
        rt_resp_unsubscribe(&c->link, w->room, channel);
        rt_free(channel);
    }
    if (w->rq == NULL)
        unlink_watch(c, w);
    follow_looks(c);
}

static void look(struct rt_redis_conn *c, struct rt_redis_watch *w);

static void look_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct rt_redis_watch *w = rq->owner;
    struct rt_op *op = w->op;
    struct state s = {0};
    w->rq = NULL;
    w->op = NULL;
    if (w->over) {
        unlink_watch(c, w);
        return;
    }
    if (err == 0 && (status != RT_REDIS_OK || rt_redis_count(reply) != 8))
        err = rt_redis_odd(c, rq);
    if (op != NULL)
        rt_conn_done(&c->base, op, err);
    if (op != NULL && err != 0) { /* nobody counts on it */
        end(c, w);
        return;
    }
    if (err == 0) {
        s.count = (uint64_t)rt_redis_int(reply, 2);
        s.mode = (uint64_t)rt_redis_int(reply, 3);
        s.of = (uint64_t)rt_redis_int(reply, 4);
        s.fence = (uint64_t)rt_redis_int(reply, 5);
        copy_text(s.label, sizeof(s.label), rt_redis_str(reply, 6), strlen(rt_redis_str(reply, 6)));
        copy_text(s.value, sizeof(s.value), rt_redis_str(reply, 7), strlen(rt_redis_str(reply, 7)));
        tell(c, w, &s);
        rt_redis_note_ends(c, w->room, rt_redis_int(reply, 0), rt_redis_int(reply, 1));
    }
    if (w->look_again)
        look(c, w);
    follow_looks(c);
}

static void look(struct rt_redis_conn *c, struct rt_redis_watch *w)
{
    struct rt_redis_args a;
    int64_t now = rt_loop_now(c->base.loop);
    w->look_at = now + c->base.ttl_ms * RT_MS / LOOK_PARTS;
    if (w->rq != NULL) {
        w->look_again = true;
        return;
    }
    w->look_again = false;
    rt_redis_args_few(&a);
    rt_redis_arg(&a, w->name);
    rt_redis_arg_number(&a, c->base.ttl_ms);
    struct rt_redis_request *rq = rt_redis_ask(c, &a, RT_REDIS_SCRIPT_LOOK, w->room,
                                               w->op != NULL ? w->op->deadline : 0, look_answered);
    if (rq == NULL)
        return;
    rq->op = w->op;
    rq->owner = w;
    w->rq = rq;
    w->looked_at = now;
}

void rt_redis_look_fire(struct rt_timer_call *call, int64_t now)
{
    char *side = (char *)call - offsetof(struct rt_redis_side, look_timer);
    struct rt_redis_conn *c = (struct rt_redis_conn *)(void *)(side - offsetof(struct rt_redis_conn,
                                                                               side));
    for (struct rt_redis_watch *w = c->side.watches; w != NULL; w = w->next)
        if (!w->over && w->rq == NULL && w->look_at <= now)
            look(c, w);
    follow_looks(c);
}

void rt_redis_look_again(struct rt_redis_conn *c, const struct rt_resp_node *node)
{
    for (struct rt_redis_watch *w = c->side.watches; w != NULL; w = w->next)
        if (!w->over && c->link.places[w->room] == node)
            look(c, w);
    follow_looks(c);
}

/* ---- Pushed ----------------------------------------------------------------------------- */

/* "COUNT MODE OF FENCE LABELLEN LABELVALUE" */
static bool read_state(const char *text, size_t size, struct state *s)
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
    *s = (struct state){
        .count = numbers[0], .mode = numbers[1], .of = numbers[2], .fence = numbers[3]};
    copy_text(s->label, sizeof(s->label), at, label);
    copy_text(s->value, sizeof(s->value), at + label, left - label);
    return true;
}

void rt_redis_observed(struct rt_redis_conn *c, uint32_t room, const char *name,
                       const char *message, size_t size)
{
    struct state s;
    bool state = message != NULL && read_state(message, size, &s);
    int64_t now = rt_loop_now(c->base.loop);
    for (struct rt_redis_watch *w = c->side.watches; w != NULL; w = w->next) {
        if (w->over || w->room != room || strcmp(w->name, name) != 0)
            continue;
        if (!state) {
            look(
                c,
                w); /* subscribed just now: what was pushed before was missed; or it makes no sense */
        } else if (w->told) {
            tell(c, w, &s);
            if ((w->rq != NULL || now - w->looked_at < NEAR) && now + RELOOK < w->look_at)
                w->look_at = now + RELOOK;
            w->look_again = w->look_again || w->rq != NULL;
        }
    }
    follow_looks(c);
}

/* ---- OBSERVE ---------------------------------------------------------------------------- */

static void stop(struct rt_redis_conn *c, struct rt_redis_watch *w)
{
    struct rt_op *op = w->op;
    w->op = NULL;
    if (op != NULL) { /* still unanswered: its end is all that is left of it */
        w->rq->op = NULL;
        rt_conn_done(&c->base, op, rt_redis_fail(c, ROTA_CANCELED, "the observation was ended"));
    }
    end(c, w);
}

static int subscribe(struct rt_redis_conn *c, uint32_t room, const char *name)
{
    char key[64], *channel;
    rt_redis_room_key(c, room, key, sizeof(key));
    size_t size = strlen(key) + strlen(name) + 4;
    if ((channel = rt_alloc(size)) == NULL)
        return ROTA_NOMEM;
    (void)snprintf(channel, size, "%s:o:%s", key, name);
    int rv = rt_resp_subscribe(&c->link, room, channel);
    rt_free(channel);
    return rv;
}

static struct rt_redis_watch *start(struct rt_redis_conn *c, const char *name, void *cookie)
{
    size_t size = strlen(name) + 1;
    uint32_t room = rt_redis_room_of(c, name);
    if (!is_observed(c, name) && subscribe(c, room, name) != 0)
        return NULL;
    struct rt_redis_watch *w = rt_alloc(sizeof(*w) + size);
    if (w == NULL)
        return NULL;
    memcpy(w->name, name, size);
    w->cookie = cookie;
    w->room = room;
    c->rooms[room].watched++;
    w->next = c->side.watches;
    c->side.watches = w;
    return w;
}

void rt_redis_begin_observe(struct rt_redis_conn *c, struct rt_op *op)
{
    struct rt_redis_watch *w = c->side.watches;
    while (w != NULL && (w->over || w->cookie != op->observe.cookie))
        w = w->next;
    if (op->observe.stop) {
        if (w != NULL)
            stop(c, w);
        rt_conn_done(&c->base, op, 0);
        return;
    }
    if (w == NULL)
        w = start(c, op->observe.name, op->observe.cookie);
    if (w == NULL) {
        rt_conn_done(&c->base, op, rt_redis_fail(c, ROTA_NOMEM, "out of memory"));
        return;
    }
    w->told = false;                      /* asked again: told again */
    if (w->op != NULL || w->rq != NULL) { /* it is under way already */
        w->look_again = true;
        rt_conn_done(&c->base, op, 0);
        return;
    }
    w->op = op;
    look(c, w);
    if (w->rq == NULL) {
        w->op = NULL;
        stop(c, w);
        rt_conn_done(&c->base, op, ROTA_NOMEM);
    }
}

void rt_redis_drop_watches(struct rt_redis_conn *c)
{
    struct rt_redis_watch *w;
    while ((w = c->side.watches) != NULL) {
        c->side.watches = w->next;
        rt_free(w);
    }
}
