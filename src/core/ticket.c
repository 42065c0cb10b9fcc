/* SPDX-License-Identifier: Apache-2.0 */
/* One ticket's life. */
#include "core/ticket.h"

#include <assert.h>
#include <stddef.h>

#define BIT(state) (1u << (state))

/* What belongs to the struct, not to one life in a line. */
#define LASTING (RT_TICKET_SOLO | RT_TICKET_SET | RT_TICKET_LISTED)

/* From which states each state may be reached: the arrows of the diagram in ticket.h. */
static const unsigned allowed_from[] = {
    [RT_TICKET_IDLE] = BIT(RT_TICKET_JOINING) | BIT(RT_TICKET_WAITING) | BIT(RT_TICKET_HELD) |
                       BIT(RT_TICKET_LEAVING),
    [RT_TICKET_JOINING] = BIT(RT_TICKET_IDLE),
    [RT_TICKET_WAITING] = BIT(RT_TICKET_JOINING),
    [RT_TICKET_HELD] = BIT(RT_TICKET_WAITING),
    [RT_TICKET_LEAVING] = BIT(RT_TICKET_JOINING) | BIT(RT_TICKET_WAITING) | BIT(RT_TICKET_HELD),
};

static void set(struct rt_ticket *t, unsigned flag)
{
    t->flags = (uint16_t)(t->flags | flag);
}

static void clear(struct rt_ticket *t, unsigned flag)
{
    t->flags = (uint16_t)(t->flags & ~flag);
}

static void move(struct rt_ticket *t, enum rt_ticket_state to, int64_t now)
{
    assert((allowed_from[to] & BIT(t->state)) != 0);
    t->state = (uint8_t)to;
    t->since = now;
    clear(t, RT_TICKET_SENT | RT_TICKET_LATE);
}

void rt_ticket_init(struct rt_ticket *t, struct rt_line *line, uint32_t mode, uint32_t take,
                    uint32_t of, unsigned flags)
{
    assert(line != NULL && (flags & ~(unsigned)LASTING) == 0);
    *t = (struct rt_ticket){
        .line = line, .mode = (uint8_t)mode, .take = take, .of = of, .flags = (uint16_t)flags};
}

void rt_ticket_join(struct rt_ticket *t, uint64_t nonce, bool try, bool arm, int64_t now)
{
    assert(nonce != 0);
    move(t, RT_TICKET_JOINING, now);
    t->flags &= LASTING;
    if (try)
        set(t, RT_TICKET_TRY);
    if (arm)
        set(t, RT_TICKET_ARMED);
    t->id = t->nonce = nonce;
    t->want = (uint8_t)(rt_ticket_has(t, RT_TICKET_SET) ? 0u : RT_WANT_JOIN);
}

void rt_ticket_numbered(struct rt_ticket *t, uint64_t number, int64_t now)
{
    move(t, RT_TICKET_WAITING, now);
    t->id = number;
    set(t, RT_TICKET_NUMBERED);
    clear(t, RT_TICKET_AGAIN);
}

void rt_ticket_fenced(struct rt_ticket *t, uint64_t fence)
{
    assert(t->state == RT_TICKET_WAITING && fence != 0);
    t->id = fence;
}

void rt_ticket_held(struct rt_ticket *t, int64_t now)
{
    assert(rt_ticket_has(t, RT_TICKET_NUMBERED));
    move(t, RT_TICKET_HELD, now);
}

void rt_ticket_leave(struct rt_ticket *t, int64_t now)
{
    assert(t->holds == 0);
    /* A JOIN not sent yet has nothing to take back, one with an unknown end is named by its nonce. */
    bool unsent = (t->want & RT_WANT_JOIN) != 0 && !rt_ticket_has(t, RT_TICKET_AGAIN);
    if (t->state == RT_TICKET_JOINING && unsent) {
        rt_ticket_idle(t, now);
        return;
    }
    move(t, RT_TICKET_LEAVING, now);
    clear(t, RT_TICKET_AGAIN | RT_TICKET_DOOMED);
    t->want = RT_WANT_LEAVE; /* and no longer ARM: nothing is sent for it after this (I4) */
}

void rt_ticket_arm(struct rt_ticket *t)
{
    assert(t->state == RT_TICKET_HELD);
    if (rt_ticket_has(t, RT_TICKET_ASKING))
        return;
    set(t, RT_TICKET_ARMED | RT_TICKET_ASKING);
    clear(t, RT_TICKET_TOLD);
    t->want |= RT_WANT_ARM;
}

void rt_ticket_idle(struct rt_ticket *t, int64_t now)
{
    assert(t->holds == 0);
    move(t, RT_TICKET_IDLE, now);
    t->want = 0;
    t->flags &= LASTING;
    t->id = t->nonce = 0;
}

void rt_ticket_give_up(struct rt_ticket *t, int64_t now)
{
    assert(t->state != RT_TICKET_HELD); /* that is left */
    if (t->state == RT_TICKET_WAITING)
        rt_ticket_leave(t, now);
    else if (t->state == RT_TICKET_JOINING && (t->want & RT_WANT_JOIN) != 0)
        rt_ticket_leave(t, now);
    else if (t->state == RT_TICKET_JOINING)
        set(t, RT_TICKET_DOOMED);
}

void rt_ticket_again(struct rt_ticket *t, bool unknown)
{
    assert(t->state == RT_TICKET_JOINING || t->state == RT_TICKET_LEAVING);
    if (unknown)
        set(t, RT_TICKET_AGAIN);
    if (t->state == RT_TICKET_LEAVING)
        t->want |= RT_WANT_LEAVE;
    else if (!rt_ticket_has(t, RT_TICKET_SET))
        t->want |= RT_WANT_JOIN;
}

void rt_ticket_sent(struct rt_ticket *t, bool late, int64_t now)
{
    assert(t->ops < UINT8_MAX);
    if (late && !rt_ticket_has(t, RT_TICKET_SENT)) {
        t->since = now;
        set(t, RT_TICKET_LATE);
    }
    set(t, RT_TICKET_SENT);
    t->ops++;
}

bool rt_ticket_is(const struct rt_ticket *t, enum rt_ticket_state state, uint64_t id)
{
    return t->state == state && t->id == id;
}
