/* SPDX-License-Identifier: Apache-2.0 */
/* Ends by time: whoever waits in a room, or observes a line of it, looks again when the next of its
 * sessions or tickets is over.
 *
 * `waiting` of a room is only a hint that it may matter: when the time has come, the user is asked
 * what really waits, so it cannot drift. */
#include "engine/redis/ops.h"

#define US 1000                                /* ns */
#define FAR_US (INT64_C(3155760000) * 1000000) /* a hundred years */
#define JITTER_PARTS 200      /* of the ttl: many that wait do not all look in one moment */
#define RETRY_PARTS 10        /* of the ttl: after a sweep that failed */
#define SWEEP_LINE_BUDGET 256 /* tickets ended by one look */

/* Whether it matters to us when something of the room ends. */
static bool matters(const struct rt_redis_room *room)
{
    return room->waiting > 0 || room->watched > 0;
}

static void follow_ends(struct rt_redis_conn *c)
{
    int64_t at = RT_NEVER;
    for (uint32_t i = 0; i < c->room_count; i++)
        if (matters(&c->rooms[i]) && c->rooms[i].ends_at < at)
            at = c->rooms[i].ends_at;
    rt_timers_at(&c->base.loop->timers, &c->side.ends_timer.timer, at);
}

void rt_redis_note_ends(struct rt_redis_conn *c, uint32_t room, int64_t now, int64_t soonest)
{
    if (soonest > now + FAR_US)
        soonest = 0; /* not in anybody's lifetime, or no time at all */
    int64_t left = soonest > now ? soonest - now : 0;
    c->rooms[room].ends_at = soonest == 0
                                 ? RT_NEVER
                                 : rt_loop_now(c->base.loop) + left * US +
                                       rt_dial_jitter(&c->link.jitter,
                                                      c->base.ttl_ms * RT_MS / JITTER_PARTS);
    if (matters(&c->rooms[room]))
        follow_ends(c);
}

void rt_redis_note_waits(struct rt_redis_conn *c, uint32_t room)
{
    c->rooms[room].waiting++;
    follow_ends(c);
}

static void sweep_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err,
                           int status, const redisReply *reply)
{
    struct rt_redis_room *room = &c->rooms[rq->call.place];
    room->sweeping = false;
    if (err != 0 || status != RT_REDIS_OK || rt_redis_count(reply) != 3) {
        room->ends_at = rt_loop_now(c->base.loop) + c->base.ttl_ms * RT_MS / RETRY_PARTS;
        follow_ends(c);
        return;
    }
    rt_redis_note_ends(c, rq->call.place, rt_redis_int(reply, 0), rt_redis_int(reply, 1));
    if (rt_redis_int(reply, 2) != 0)
        rt_redis_sweep(c, rq->call.place);
}

void rt_redis_sweep(struct rt_redis_conn *c, uint32_t room)
{
    struct rt_redis_args a;
    c->rooms[room].ends_at = RT_NEVER; /* the answer says when again, also that of one under way */
    if (c->rooms[room].sweeping)
        return;
    rt_redis_args_few(&a);
    rt_redis_arg_number(&a, SWEEP_LINE_BUDGET);
    rt_redis_arg(&a, c->sid);
    rt_redis_arg(&a, "");
    if (rt_redis_ask(c, NULL, &a, RT_REDIS_SCRIPT_SWEEP, room, 0, sweep_answered) != NULL)
        c->rooms[room].sweeping = true;
    else /* no memory: soon again */
        c->rooms[room].ends_at = rt_loop_now(c->base.loop) + c->base.ttl_ms * RT_MS / RETRY_PARTS;
}

static void count_waiting(void *arg, const char *name, uint64_t number, bool granted)
{
    struct rt_redis_conn *c = arg;
    (void)number;
    if (!granted)
        c->rooms[rt_redis_room_of(c, name)].waiting++;
}

void rt_redis_ends_fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_redis_conn *c = RT_REDIS_OF_TIMER(call, ends_timer);
    struct rt_up *up = c->base.up;
    if (up->held != NULL) {
        for (uint32_t i = 0; i < c->room_count; i++)
            c->rooms[i].waiting = c->rooms[i].durable_waits;
        up->held(up, count_waiting, c);
    }
    for (uint32_t i = 0; i < c->room_count; i++)
        if (matters(&c->rooms[i]) && c->rooms[i].ends_at <= now)
            rt_redis_sweep(c, i);
    follow_ends(c);
}
