/* SPDX-License-Identifier: Apache-2.0 */
/* ?replicas=n: a grant goes up only when n replicas have it, by answer and by push alike.
 *
 * An answer that waits in vain: the ticket is taken back, so that the error is definite and nobody
 * stands behind a holder who never heard of it; where the link for WAIT broke it is ROTA_UNKNOWN, and
 * asked again, the JOIN finds its ticket. A push that waits in vain makes its room stale, and the next beat
 * asks there. What was pushed to the ticket meanwhile came before the user knew it to be granted: the room is asked. */
#include "engine/redis/ops.h"

#include "base/alloc.h"

#include <string.h>

#define LEAST (100 * RT_MS) /* of an op's time, to have a grant confirmed or taken back */

struct grant {
    struct rt_work work;             /* first; `op` of an answer */
    uint64_t session, number, nonce; /* of a push */
    uint64_t pushes;                 /* of the room when it began to wait */
    uint32_t room;
    bool wanted;
    char name[];
};

char rt_redis_grant_works;

static struct grant *grant_new(struct rt_redis_conn *c, struct rt_op *op, const char *name)
{
    size_t size = strlen(name) + 1;
    struct grant *g = rt_work_new(&c->side.works, &c->base, sizeof(*g) + size, op);
    if (g == NULL)
        return NULL;
    g->room = rt_redis_room_of(c, name);
    g->pushes = c->rooms[g->room].pushes;
    memcpy(g->name, name, size);
    g->work.pending = 1;
    return g;
}

static void catch_up(struct rt_redis_conn *c, const struct grant *g)
{
    if (c->rooms[g->room].pushes != g->pushes)
        rt_redis_ask_held(c, g->room);
}

/* ---- Answers ---------------------------------------------------------------------------- */

/* A part of the time is for taking it back. */
int64_t rt_redis_replicas_until(const struct rt_redis_conn *c, int64_t deadline)
{
    int64_t now = rt_loop_now(c->base.loop), most = now + c->base.call_ms * RT_MS;
    if (deadline > most)
        deadline = most;
    return deadline > now ? deadline - (deadline - now) / 4 : now;
}

/* An op with hardly any time left would be told ROTA_UNKNOWN, and the ticket might stay. */
int rt_redis_check_replicas(struct rt_redis_conn *c, const struct rt_op *op)
{
    const struct rt_resp_node *node = c->link.places[rt_redis_room_of(c, op->join.joins[0].name)];
    if (c->link.replicas == 0 || op->deadline - rt_loop_now(c->base.loop) >= LEAST)
        return 0;
    if (node != NULL && node->wait.scarce)
        return rt_redis_fail(c, ROTA_UNREACHABLE,
                             "redis %s has fewer than %u replicas that keep up", node->at,
                             c->link.replicas);
    return rt_redis_fail(c, ROTA_UNREACHABLE, "no time is left to hear of %u replicas",
                         c->link.replicas);
}

static void answer_replicated(struct rt_resp_conn *link, void *arg, int err)
{
    struct rt_redis_conn *c = rt_redis_of_link(link);
    struct grant *g = arg;
    struct rt_op *op = g->work.op;
    if (op != NULL && err != 0 && err != ROTA_UNKNOWN) {
        g->work.op = NULL;
        rt_redis_take_back(c, op, op->join.joins[0].number, err);
    } else {
        rt_work_end(&c->base, &g->work, err);
        catch_up(c, g);
    }
    g->work.pending--;
    rt_work_settle(&c->base, &g->work);
}

void rt_redis_done_replicated(struct rt_redis_conn *c, struct rt_op *op)
{
    struct grant *g = grant_new(c, op, op->join.joins[0].name);
    if (g == NULL)
        rt_conn_done(&c->base, op, rt_redis_fail(c, ROTA_UNKNOWN, "out of memory"));
    else
        rt_resp_when_replicated(&c->link, g->room, rt_redis_replicas_until(c, op->deadline),
                                answer_replicated, g);
}

/* ---- Pushes ----------------------------------------------------------------------------- */

static void push_replicated(struct rt_resp_conn *link, void *arg, int err)
{
    struct rt_redis_conn *c = rt_redis_of_link(link);
    struct grant *g = arg;
    g->work.pending--;
    if (err == 0) {
        struct rt_event event = {.kind = RT_GRANTED,
                                 .session = g->session,
                                 .number = g->number,
                                 .nonce = g->nonce,
                                 .name = g->name};
        rt_redis_tell_now(c, &event);
        event.kind = RT_WANTED;
        if (g->wanted) /* not by asking: one who does not know the ticket would be told again, for ever */
            rt_redis_tell_now(c, &event);
        catch_up(c, g);
    } else {
        c->rooms[g->room].stale = c->rooms[g->room].unheard = true;
    }
    rt_work_settle(&c->base, &g->work);
}

static struct grant *find_grant(struct rt_redis_conn *c, uint64_t session, uint64_t number,
                                const char *name)
{
    for (struct rt_work *w = c->side.works; w != NULL; w = w->next) {
        struct grant *g = (struct grant *)(void *)w;
        if (w->more == &rt_redis_grant_works && g->number == number && g->session == session &&
            strcmp(g->name, name) == 0)
            return g;
    }
    return NULL;
}

bool rt_redis_tell_replicated(struct rt_redis_conn *c, const struct rt_event *event)
{
    struct grant *g = find_grant(c, event->session, event->number, event->name);
    if (g != NULL) {
        g->wanted = g->wanted || event->kind == RT_WANTED;
        return event->kind != RT_TICKET_LOST;
    }
    if (event->kind != RT_GRANTED)
        return false;
    g = grant_new(c, NULL, event->name);
    if (g == NULL) {
        c->rooms[rt_redis_room_of(c, event->name)].unheard = true;
        return true;
    }
    g->work.more = &rt_redis_grant_works;
    g->session = event->session;
    g->number = event->number;
    g->nonce = event->nonce;
    rt_resp_when_replicated(&c->link, g->room, rt_loop_now(c->base.loop) + c->base.call_ms * RT_MS,
                            push_replicated, g);
    return true;
}
