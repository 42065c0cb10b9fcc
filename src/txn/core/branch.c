/* SPDX-License-Identifier: Apache-2.0 */
/* One branch of a transaction: votes, orders, takeovers, and what to do about a lost answer. */
#include "txn/core/branch.h"

#include "base/bug.h"

#include <assert.h>

#define BIT(state) (1u << (state))

/* The states from which each may be reached: the arrows of the diagram in branch.h. */
static const unsigned allowed_from[] = {
    [RT_BRANCH_ACTIVE] = BIT(RT_BRANCH_PREPARING) | /* elsewhere: asked again */
                         BIT(RT_BRANCH_JOINING),
    [RT_BRANCH_PREPARING] = BIT(RT_BRANCH_ACTIVE),
    [RT_BRANCH_PREPARED] = BIT(RT_BRANCH_PREPARING),
    [RT_BRANCH_REFUSED] = BIT(RT_BRANCH_PREPARING) | BIT(RT_BRANCH_DOUBTFUL),
    [RT_BRANCH_DOUBTFUL] = BIT(RT_BRANCH_PREPARING),
    [RT_BRANCH_ORDERED] = BIT(RT_BRANCH_ACTIVE) | BIT(RT_BRANCH_PREPARED) | BIT(RT_BRANCH_REFUSED) |
                          BIT(RT_BRANCH_DOUBTFUL) | BIT(RT_BRANCH_GATE) | BIT(RT_BRANCH_ASKING),
    [RT_BRANCH_GATE] = BIT(RT_BRANCH_ORDERED),
    [RT_BRANCH_ASKING] = BIT(RT_BRANCH_ORDERED) | BIT(RT_BRANCH_GATE) | BIT(RT_BRANCH_CHECKING),
    [RT_BRANCH_CHECKING] = BIT(RT_BRANCH_ASKING),
    [RT_BRANCH_FINISHED] = BIT(RT_BRANCH_PREPARING) | BIT(RT_BRANCH_DOUBTFUL) |
                           BIT(RT_BRANCH_ORDERED) | BIT(RT_BRANCH_GATE) | BIT(RT_BRANCH_ASKING) |
                           BIT(RT_BRANCH_CHECKING) | BIT(RT_BRANCH_JOINING) |
                           BIT(RT_BRANCH_ACTIVE), /* a service whose try never left */
    [RT_BRANCH_READONLY] = BIT(RT_BRANCH_PREPARING),
    [RT_BRANCH_JOINING] = BIT(RT_BRANCH_ACTIVE),
};

static void move(struct rt_branch *b, enum rt_branch_state to)
{
    assert((allowed_from[to] & BIT(b->state)) != 0);
    b->state = (uint8_t)to;
}

void rt_branch_init(struct rt_branch *b, uint32_t number, uint32_t resource, bool gated)
{
    *b = (struct rt_branch){.number = number,
                            .resource = resource,
                            .gated = gated,
                            .clear_at = -1,
                            .state = RT_BRANCH_ACTIVE};
    b->stuck = resource == RT_BRANCH_NO_RESOURCE ? RT_STUCK_NO_RESOURCE : RT_STUCK_NOT;
    assert(!rt_branch_is_over(b));
}

bool rt_branch_is_over(const struct rt_branch *b)
{
    return b->state == RT_BRANCH_FINISHED || b->state == RT_BRANCH_READONLY;
}

void rt_branch_registered(struct rt_branch *b)
{
    assert(b->state == RT_BRANCH_JOINING && b->order == RT_DECISION_NONE);
    move(b, RT_BRANCH_ACTIVE);
}

/* ---- The vote ----------------------------------------------------------- */

void rt_branch_voted(struct rt_branch *b, enum rt_reply reply)
{
    assert(b->state == RT_BRANCH_PREPARING);
    if (RT_BUG(RT_BUG_TXN_LOST_VOTE_IS_YES) && reply == RT_REPLY_LOST)
        reply = RT_REPLY_YES;
    if (b->elsewhere && reply == RT_REPLY_LOST) {
        move(b, RT_BRANCH_ACTIVE);
        return;
    }
    if (RT_BUG(RT_BUG_TXN_UNPREPARED_IS_YES) && b->elsewhere && reply == RT_REPLY_ABSENT)
        reply = RT_REPLY_PREPARED;
    if (b->elsewhere && reply == RT_REPLY_ABSENT) {
        move(b, RT_BRANCH_DOUBTFUL); /* not prepared; it still may be */
        return;
    }
    switch (reply) {
    case RT_REPLY_PREPARED: /* elsewhere */
    case RT_REPLY_YES:
        move(b, RT_BRANCH_PREPARED);
        break;
    case RT_REPLY_READONLY:
        move(b, RT_BRANCH_READONLY);
        break;
    case RT_REPLY_DONE: /* to ONE_PHASE */
        move(b, RT_BRANCH_FINISHED);
        break;
    case RT_REPLY_LOST:
        move(b, RT_BRANCH_DOUBTFUL);
        b->own = false;
        b->late = !b->service && !RT_BUG(RT_BUG_TXN_LATE_PREPARES);
        break;
    default:
        move(b, RT_BRANCH_REFUSED);
    }
}

/* ---- The order ---------------------------------------------------------- */

/* It needs a person. */
static void look_later(struct rt_branch *b, int64_t now)
{
    b->look = true;
    rt_retry_not_before(&b->retry, now + RT_BRANCH_STUCK_PAUSE);
}

void rt_branch_order(struct rt_branch *b, enum rt_decision order, int64_t now)
{
    assert(order != RT_DECISION_NONE && b->order == RT_DECISION_NONE && b->retry.seq == 0);
    b->order = (uint8_t)order;
    if (b->state == RT_BRANCH_READONLY)
        return;
    bool untried = b->service && b->own && b->state == RT_BRANCH_ACTIVE;
    if (b->state == RT_BRANCH_JOINING || untried) {
        move(b, RT_BRANCH_FINISHED);
        return;
    }
    move(b, RT_BRANCH_ORDERED);
    rt_retry_soon(&b->retry, now);
    if (b->resource == RT_BRANCH_NO_RESOURCE)
        look_later(b, now);
}

enum rt_branch_op rt_branch_next(struct rt_branch *b)
{
    assert(b->order != RT_DECISION_NONE);
    if (b->look)
        return RT_BRANCH_NOTHING;
    bool shut = b->gated && !b->own && !b->open && !RT_BUG(RT_BUG_TXN_NO_GATE);
    if (b->state == RT_BRANCH_ORDERED && shut)
        move(b, RT_BRANCH_GATE);
    switch (b->state) {
    case RT_BRANCH_ORDERED:
        return b->order == RT_DECISION_COMMIT ? RT_BRANCH_COMMIT : RT_BRANCH_ROLLBACK;
    case RT_BRANCH_GATE:
        return RT_BRANCH_GATED;
    case RT_BRANCH_ASKING:
        return RT_BRANCH_ASK;
    default:
        return RT_BRANCH_NOTHING;
    }
}

static void finish(struct rt_branch *b)
{
    assert(b->order != RT_DECISION_NONE);
    move(b, RT_BRANCH_FINISHED);
    b->stuck = RT_STUCK_NOT;
    b->look = false;
}

/* It came to nothing. */
static bool again(struct rt_branch *b, int64_t now)
{
    bool tenth = rt_retry_later(&b->retry, now);
    assert(b->retry.at > now);
    if (RT_BUG(RT_BUG_TXN_GIVES_UP) && tenth)
        b->state = RT_BRANCH_FINISHED;
    return tenth;
}

/* A service was told to confirm or to cancel. That it is at work counts as a failure: one that says so for ever needs a
 * person, too. */
static bool service_answered(struct rt_branch *b, enum rt_reply reply, int64_t now)
{
    bool commit = b->order == RT_DECISION_COMMIT;
    assert(b->service && b->state == RT_BRANCH_ORDERED);
    bool believed = (reply == RT_REPLY_HELD && RT_BUG(RT_BUG_TXN_HELD_IS_DONE)) ||
                    (reply == RT_REPLY_REFUSED && commit && RT_BUG(RT_BUG_TXN_REFUSED_IS_DONE));
    if (reply == RT_REPLY_DONE || believed) {
        finish(b);
        return false;
    }
    if (reply == RT_REPLY_REFUSED)
        b->stuck = commit ? RT_STUCK_CONFIRM_REFUSED : RT_STUCK_CANCEL_REFUSED;
    else if (reply == RT_REPLY_ABSENT)
        b->stuck = RT_STUCK_NO_RESOURCE;
    bool tenth = again(b, now);
    if (b->stuck != RT_STUCK_NOT)
        look_later(b, now);
    else if (reply == RT_REPLY_HELD && b->retry.at < now + RT_BRANCH_HELD_PAUSE) /* it is at work */
        rt_retry_not_before(&b->retry, now + RT_BRANCH_HELD_PAUSE);
    return tenth;
}

static bool order_answered(struct rt_branch *b, enum rt_reply reply, int64_t now)
{
    bool commit = b->order == RT_DECISION_COMMIT, taken_over = !b->own;
    assert(b->state == RT_BRANCH_ORDERED);
    switch (reply) {
    case RT_REPLY_DONE: /* ... or so it says: the marker is read back after a takeover (X7) */
        if (commit && b->gated && taken_over && !RT_BUG(RT_BUG_TXN_MARKER_NOT_READ)) {
            move(b, RT_BRANCH_ASKING);
            return false;
        }
        finish(b);
        return false;
    case RT_REPLY_ABSENT: /* committed, rolled back, or never there: its marker tells the first */
        if (RT_BUG(RT_BUG_TXN_ABSENT_IS_COMMITTED))
            finish(b);
        else
            move(b, RT_BRANCH_ASKING);
        return false;
    case RT_REPLY_HELD:
        b->open = false;
        b->clear_at = -1;
        return again(b, now);
    case RT_REPLY_REFUSED:
        b->stuck = RT_STUCK_REFUSED;
        return again(b, now);
    default:
        b->own = false;
        return again(b, now);
    }
}

/* Not clear, or nobody can tell: others who ask keep the view old (branch.h of participants). So it is asked again
 * soon, and not always after the same time. */
static bool held(struct rt_branch *b, int64_t now)
{
    int64_t early = (b->retry.tries * INT64_C(130) + b->number) % 400 * INT64_C(1000000);
    int64_t most = now + RT_BRANCH_GATE_MOST - early;
    bool tenth = again(b, now);

    b->clear_at = -1;
    if (b->retry.at > most)
        rt_retry_not_before(&b->retry, most);
    return tenth;
}

static bool gate_answered(struct rt_branch *b, enum rt_reply reply, int64_t now)
{
    assert(b->state == RT_BRANCH_GATE);
    if (reply == RT_REPLY_ABSENT) { /* somebody else has finished it; its marker tells how */
        move(b, RT_BRANCH_ASKING);
        return false;
    }
    if (reply == RT_REPLY_HELD)
        return held(b, now);
    if (reply != RT_REPLY_CLEAR)
        return again(b, now);
    if (b->clear_at < 0 && !RT_BUG(RT_BUG_TXN_ONE_POLL)) {
        b->clear_at = now;
        rt_retry_not_before(&b->retry, now + RT_BRANCH_GATE_APART);
        return false;
    }
    b->open = true; /* the second poll left that much later */
    move(b, RT_BRANCH_ORDERED);
    rt_retry_soon(&b->retry, now);
    return false;
}

static bool ask_answered(struct rt_branch *b, enum rt_reply reply, int64_t now)
{
    bool commit = b->order == RT_DECISION_COMMIT;
    assert(b->state == RT_BRANCH_ASKING);
    switch (reply) {
    case RT_REPLY_COMMITTED:
        if (commit || b->either) {
            finish(b);
            return false;
        }
        b->stuck = RT_STUCK_MIXED;
        bool tenth = again(b, now);
        if (b->state == RT_BRANCH_ASKING)
            move(b, RT_BRANCH_CHECKING); /* whoever mends it says so in the journal */
        return tenth;
    case RT_REPLY_PREPARED: /* it is there, or back again */
        b->stuck = RT_STUCK_NOT;
        move(b, RT_BRANCH_ORDERED);
        return again(b, now);
    case RT_REPLY_ABSENT:
        if (commit)
            move(b, RT_BRANCH_CHECKING);
        else
            finish(b);
        return false;
    default:
        return again(b, now);
    }
}

static bool answered(struct rt_branch *b, enum rt_reply reply, int64_t now)
{
    switch (b->state) {
    case RT_BRANCH_GATE:
        return gate_answered(b, reply, now);
    case RT_BRANCH_ASKING:
        return ask_answered(b, reply, now);
    default:
        return b->service ? service_answered(b, reply, now) : order_answered(b, reply, now);
    }
}

bool rt_branch_answered(struct rt_branch *b, enum rt_reply reply, int64_t now)
{
    assert(b->order != RT_DECISION_NONE && b->retry.seq == 0);
    bool tenth = answered(b, reply, now);
    bool pauses = b->state != RT_BRANCH_CHECKING && !rt_branch_is_over(b) && b->retry.at > now;
    bool hopeless = b->retry.tries >= RT_RETRY_ATTENTION || b->stuck == RT_STUCK_REFUSED;
    b->look = pauses && (b->service || (hopeless && !b->own));
    if (b->moved)
        rt_branch_moved(b, b->resource, now);
    return tenth;
}

void rt_branch_moved(struct rt_branch *b, uint32_t resource, int64_t now)
{
    bool between_polls = b->state == RT_BRANCH_GATE && b->clear_at >= 0;

    if (b->resource == RT_BRANCH_NO_RESOURCE)
        b->stuck = RT_STUCK_NOT;
    b->resource = resource;
    b->moved = b->retry.seq != 0;
    if (!b->moved && !between_polls)
        rt_retry_soon(&b->retry, now);
}

/* B waited for this look. */
static void not_done(struct rt_branch *b, int64_t now)
{
    if (b->resource == RT_BRANCH_NO_RESOURCE) {
        look_later(b, now);
    } else if (b->look) {
        b->look = b->retry.at > now;
    } else {
        b->stuck = b->stuck == RT_STUCK_MIXED ? RT_STUCK_MIXED : RT_STUCK_LOST;
        move(b, RT_BRANCH_ASKING);
        rt_retry_not_before(&b->retry, now + RT_BRANCH_STUCK_PAUSE);
    }
}

void rt_branch_checked(struct rt_branch *b, bool done, uint32_t seq, int64_t now)
{
    bool waits = b->state == RT_BRANCH_CHECKING || b->look;
    bool idle = b->order != RT_DECISION_NONE && b->retry.seq == 0 && !rt_branch_is_over(b);

    if (done && (waits || (idle && (b->service || !b->own))))
        finish(b);
    else if (!done && waits && b->checked < seq)
        not_done(b, now);
}
