/* SPDX-License-Identifier: Apache-2.0 */
/* ?replicas=n: a grant goes up only when so many replicas have it, by answer and by push alike.
 *
 * An answer that waits in vain becomes ROTA_UNKNOWN: the ticket is there, and asked again the JOIN
 * finds it. A push that waits in vain makes its room stale, and the next beat asks there. What was
 * pushed to the ticket meanwhile came before the user knew it to be granted: the room is asked. */
#include "engine/redis/ops.h"

#include "base/alloc.h"

#include <string.h>

struct grant {
    struct rt_redis_work work; /* first; `op` of an answer */
    uint64_t session, number;  /* of a push */
    uint64_t pushes;           /* of the room when it began to wait */
    uint32_t room;
    bool wanted;
    char name[];
};

static struct grant *grant_new(struct rt_redis_conn *c, struct rt_op *op, const char *name)
{
    size_t size = strlen(name) + 1;
    struct grant *g = rt_redis_work_new(c, sizeof(*g) + size, op);
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
    if (g->wanted || c->rooms[g->room].pushes != g->pushes)
        rt_redis_ask_held(c, g->room);
}

/* ---- Answers ---------------------------------------------------------------------------- */

static void answer_replicated(struct rt_redis_conn *c, void *arg, int err)
{
    struct grant *g = arg;
    g->work.pending--;
    if (err != 0)
        err = ROTA_UNKNOWN; /* it stands in its line, whatever the replicas have */
    rt_redis_work_note(c, &g->work, err);
    rt_redis_work_done(c, &g->work);
    catch_up(c, g);
    rt_redis_work_settle(c, &g->work);
}

void rt_redis_done_replicated(struct rt_redis_conn *c, struct rt_op *op)
{
    struct grant *g = grant_new(c, op, op->join.joins[0].name);
    if (g == NULL)
        rt_conn_done(&c->base, op, rt_redis_fail(c, ROTA_UNKNOWN, "out of memory"));
    else
        rt_redis_when_replicated(c, g->room, op->deadline, answer_replicated, g);
}

/* ---- Pushes ----------------------------------------------------------------------------- */

static void push_replicated(struct rt_redis_conn *c, void *arg, int err)
{
    struct grant *g = arg;
    g->work.pending--;
    if (err == 0) {
        rt_redis_tell_now(c, RT_GRANTED, g->session, g->number, g->name);
        catch_up(c, g);
    } else {
        c->rooms[g->room].stale = c->rooms[g->room].unheard = true;
    }
    rt_redis_work_settle(c, &g->work);
}

static struct grant *find_grant(struct rt_redis_conn *c, uint64_t session, uint64_t number,
                                const char *name)
{
    for (struct rt_redis_work *w = c->side.works; w != NULL; w = w->next) {
        struct grant *g = (struct grant *)(void *)w;
        if (w->kind == RT_REDIS_WORK_GRANT && g->number == number && g->session == session &&
            strcmp(g->name, name) == 0)
            return g;
    }
    return NULL;
}

bool rt_redis_tell_replicated(struct rt_redis_conn *c, enum rt_event_kind kind, uint64_t session,
                              uint64_t number, const char *name)
{
    struct grant *g = find_grant(c, session, number, name);
    if (g != NULL) {
        g->wanted = g->wanted || kind == RT_WANTED;
        return kind != RT_TICKET_LOST;
    }
    if (kind != RT_GRANTED)
        return false;
    g = grant_new(c, NULL, name);
    if (g == NULL) {
        c->rooms[rt_redis_room_of(c, name)].unheard = true;
        return true;
    }
    g->work.kind = RT_REDIS_WORK_GRANT;
    g->session = session;
    g->number = number;
    rt_redis_when_replicated(c, g->room, rt_loop_now(c->base.loop) + c->base.call_ms * RT_MS,
                             push_replicated, g);
    return true;
}
