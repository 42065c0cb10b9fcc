/* SPDX-License-Identifier: Apache-2.0 */
/* The session: when to beat, until when its holds are certainly ours (I3). */
#include "core/session.h"

#include "base/bug.h"

#include <assert.h>

/* Four beats per ttl: when half of it is lost to an outage, a fifth is left to come back in; after a failure sooner. */
#define BEATS_PER_TTL 4
#define RETRIES_PER_TTL 40

/* Holders are told this part of the ttl before the deadline: while they run, they learn of the
 * loss before somebody else can be granted (DESIGN 1.2). */
#define TELL_PART 20

#define BIT(state) (1u << (state))

/* From which states each state may be reached: the arrows of the diagram in session.h. */
static const unsigned allowed_from[] = {
    [RT_SESSION_NONE] = BIT(RT_SESSION_OPENING) | BIT(RT_SESSION_ALIVE),
    [RT_SESSION_OPENING] = BIT(RT_SESSION_NONE),
    [RT_SESSION_ALIVE] = BIT(RT_SESSION_OPENING) | BIT(RT_SESSION_ALIVE),
};

static void move(struct rt_session *s, enum rt_session_state to)
{
    assert((allowed_from[to] & BIT(s->state)) != 0);
    s->state = to;
}

static void forget(struct rt_session *s)
{
    assert(s->state == RT_SESSION_NONE);
    s->id = 0;
    s->deadline = s->usable_until = 0;
    s->beat_at = RT_NEVER;
}

void rt_session_init(struct rt_session *s)
{
    *s = (struct rt_session){.state = RT_SESSION_NONE};
    forget(s);
}

bool rt_session_want(struct rt_session *s, int64_t now)
{
    if (s->state != RT_SESSION_NONE || s->in_flight)
        return false;
    move(s, RT_SESSION_OPENING);
    assert(s->id == 0); /* the old one is forgotten */
    s->in_flight = true;
    s->sent_at = now;
    return true;
}

bool rt_session_beat(struct rt_session *s, int64_t now)
{
    if (s->state != RT_SESSION_ALIVE || s->in_flight || now < s->beat_at)
        return false;
    assert(s->usable_until > s->sent_at); /* it was answered in time */
    s->in_flight = true;
    s->sent_at = now;
    return true;
}

bool rt_session_answered(struct rt_session *s, uint64_t id, uint32_t ttl_ms, uint32_t allowance_ms,
                         int64_t now)
{
    assert(s->in_flight && s->state != RT_SESSION_NONE);
    bool opened = s->state == RT_SESSION_OPENING;
    if (opened)
        s->id = id;
    s->in_flight = false;
    move(s, RT_SESSION_ALIVE);
    s->ttl = ttl_ms * RT_MS;
    if (ttl_ms == 0) {
        s->deadline = s->usable_until = s->beat_at = RT_NEVER;
        return opened;
    }
    /* Counted from before the request left: the engine cannot have started later (I3). */
    int64_t from = RT_BUG(RT_BUG_DEADLINE_FROM_REPLY) ? now : s->sent_at;
    int64_t drift = RT_BUG(RT_BUG_NO_DRIFT) ? 0 : s->ttl / 100 + 2 * RT_MS;
    s->deadline = from + s->ttl - drift - allowance_ms * RT_MS;
    s->usable_until = s->deadline - s->ttl / TELL_PART;
    assert(s->usable_until < s->deadline); /* owners that run are told before (I3) */
    /* Where an allowance leaves less than the ttl, the beats have to fall into what is left. */
    int64_t span = allowance_ms == 0 ? s->ttl : s->usable_until - s->sent_at;
    s->beat_at = s->sent_at + span / BEATS_PER_TTL;
    return opened;
}

void rt_session_failed(struct rt_session *s, int64_t now)
{
    assert(s->in_flight);
    s->in_flight = false;
    if (s->state == RT_SESSION_OPENING)
        rt_session_end(s);
    else
        s->beat_at = now + s->ttl / RETRIES_PER_TTL;
}

void rt_session_end(struct rt_session *s)
{
    move(s, RT_SESSION_NONE);
    forget(s);
}

bool rt_session_alive(const struct rt_session *s, int64_t now)
{
    assert(s->usable_until <= s->deadline);
    return s->state == RT_SESSION_ALIVE && now < s->usable_until;
}

int64_t rt_session_next(const struct rt_session *s)
{
    if (s->state != RT_SESSION_ALIVE)
        return RT_NEVER;
    assert(s->in_flight || s->beat_at >= s->sent_at);
    if (s->in_flight || s->usable_until < s->beat_at)
        return s->usable_until;
    return s->beat_at;
}
