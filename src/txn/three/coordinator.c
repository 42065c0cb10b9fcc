/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator of three-phase commit: what it asks next, given its state and the answers. */
#include "txn/three/coordinator.h"

#include "base/bug.h"

#include <assert.h>
#include <string.h>

/* ---- From state to state --------------------------------------------------- */

/* A new question to everybody: earlier answers no longer count. */
static void enter(struct rt_coordinator *c, enum rt_coordinator_state state, int64_t now)
{
    c->state = (uint8_t)state;
    for (uint32_t i = 0; i < c->count; i++) {
        c->parts[i].fresh = false;
        c->parts[i].retry = (struct rt_retry){.at = now};
    }
    c->journal = (struct rt_retry){.at = now};
}

static void decide(struct rt_coordinator *c, enum rt_decision want, int64_t now)
{
    assert(want != RT_DECISION_NONE && c->state < RT_COORDINATOR_DECIDING);
    c->want = (uint8_t)want;
    enter(c, RT_COORDINATOR_DECIDING, now);
    if (RT_BUG(RT_BUG_THREE_ABORT_PRESUMED) && want == RT_DECISION_ABORT) {
        c->stands = RT_DECISION_ABORT;
        c->news |= RT_COORDINATOR_TOLD;
        enter(c, RT_COORDINATOR_ORDERING, now);
    }
}

void rt_coordinator_begin(struct rt_coordinator *c, struct rt_coordinator_part *parts,
                          uint32_t count, bool textbook, int64_t t1, int64_t t2, int64_t margin,
                          int64_t now)
{
    assert(count > 0 && margin >= 0 && t1 > margin && t2 > margin);
    memset(c, 0, sizeof(*c));
    memset(parts, 0, count * sizeof(*parts));
    c->parts = parts;
    c->count = count;
    c->textbook = textbook;
    c->t1 = t1;
    c->t2 = t2;
    c->margin = margin;
    c->patience = (t2 - margin) / 2;
    c->limit_at = now + t1 - margin;
    c->late_at = INT64_MAX; /* no PRE has left yet */
    enter(c, RT_COORDINATOR_ASKING, now);
}

void rt_coordinator_adopt(struct rt_coordinator *c, struct rt_coordinator_part *parts,
                          uint32_t count, bool textbook, int64_t now)
{
    assert(count > 0 || !textbook);
    memset(c, 0, sizeof(*c));
    memset(parts, 0, count * sizeof(*parts));
    c->parts = parts;
    c->count = count;
    c->textbook = textbook;
    c->limit_at = c->late_at = INT64_MIN;
    if (textbook) /* somebody may have committed: too late to abort on our own */
        enter(c, RT_COORDINATOR_ENTERING, now);
    else
        decide(c, RT_DECISION_ABORT, now);
}

void rt_coordinator_abort(struct rt_coordinator *c, int64_t now)
{
    if (c->state < RT_COORDINATOR_DECIDING)
        decide(c, RT_DECISION_ABORT, now);
}

/* ---- What the answers come to ---------------------------------------------- */

/* All have answered the current question with yes: a promise, or PRECOMMITTED. */
static bool all_said(const struct rt_coordinator *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->count; i++)
        n += c->parts[i].fresh;
    return n == c->count || (RT_BUG(RT_BUG_THREE_DECIDES_EARLY) &&
                             c->state == RT_COORDINATOR_WARNING && n == c->count - 1);
}

static bool any_no(const struct rt_coordinator *c)
{
    bool no = false;
    for (uint32_t i = 0; i < c->count; i++)
        no = no || c->parts[i].stand.stance == RT_STANCE_ABORTED;
    return no;
}

/* The first PRE leaves. In an adopted transaction it has left before. */
static void warn(struct rt_coordinator *c, int64_t now)
{
    if (c->t2 > 0) {
        c->late_at = now + c->t2 - c->margin;
        c->limit_at = now + c->patience;
    }
    enter(c, RT_COORDINATOR_WARNING, now);
}

static void judge(struct rt_coordinator *c, int64_t now)
{
    if (c->state > RT_COORDINATOR_WARNING)
        return;
    /* Too late to abort on our own: a participant's T2 may be over, and it may have committed. */
    bool patient = c->textbook && now > c->late_at;
    if (any_no(c))
        decide(c, RT_DECISION_ABORT, now);
    else if (all_said(c) && c->state == RT_COORDINATOR_ASKING) {
        if (c->textbook && !RT_BUG(RT_BUG_THREE_NOT_REGISTERED))
            enter(c, RT_COORDINATOR_ENTERING, now);
        else
            warn(c, now);
    } else if (all_said(c))
        decide(c, RT_DECISION_COMMIT, now);
    else if (now >= c->limit_at && !patient)
        decide(c, RT_DECISION_ABORT, now);
    else if (now >= c->limit_at && !c->gave_up) {
        c->gave_up = true;
        c->news |= RT_COORDINATOR_ATTENTION;
    }
}

/* All participants have ended: it may be closed, unless it is mixed. */
static void close_it(struct rt_coordinator *c, int64_t now)
{
    if (c->state != RT_COORDINATOR_ORDERING || !all_said(c))
        return;
    if (c->mixed && !RT_BUG(RT_BUG_THREE_MIX_CLOSED)) {
        c->state = RT_COORDINATOR_MIXED;
        c->news |= RT_COORDINATOR_OVER;
    } else
        enter(c, RT_COORDINATOR_CLOSING, now);
}

static bool is_ordered(const struct rt_coordinator *c, const struct rt_stand *stand)
{
    uint8_t wanted = c->stands == RT_DECISION_COMMIT ? RT_STANCE_COMMITTED : RT_STANCE_ABORTED;
    return stand->stance == wanted && stand->ended;
}

static void ordered(struct rt_coordinator *c, struct rt_coordinator_part *part, int64_t now)
{
    uint8_t wanted = c->stands == RT_DECISION_COMMIT ? RT_STANCE_COMMITTED : RT_STANCE_ABORTED;
    bool other = rt_stance_contradicts(part->stand.stance, wanted);
    if ((other || part->stand.mixed) && !c->mixed) {
        c->mixed = true;
        c->news |= RT_COORDINATOR_MIX;
    }
    if (is_ordered(c, &part->stand) || (other && part->stand.ended))
        part->fresh = true;
    else
        c->news |= rt_retry_later(&part->retry, now) ? RT_COORDINATOR_ATTENTION : 0;
    close_it(c, now);
}

void rt_coordinator_answered(struct rt_coordinator *c, uint32_t whom, uint32_t seq, bool lost,
                             const struct rt_stand *stand, int64_t now)
{
    assert(whom < c->count);
    struct rt_coordinator_part *part = &c->parts[whom];
    if (!rt_retry_answered(&part->retry, seq))
        return;
    if (lost && RT_BUG(RT_BUG_THREE_LOST_IS_YES) && c->state == RT_COORDINATOR_WARNING) {
        part->fresh = true;
        judge(c, now);
        return;
    }
    if (lost) {
        c->news |= rt_retry_later(&part->retry, now) ? RT_COORDINATOR_ATTENTION : 0;
        return;
    }
    part->stand = *stand;
    if (c->state == RT_COORDINATOR_ORDERING) {
        ordered(c, part, now);
        return;
    }
    uint8_t least = c->state == RT_COORDINATOR_ASKING ? RT_STANCE_WAIT : RT_STANCE_PRECOMMITTED;
    part->fresh = stand->stance >= least && stand->stance <= RT_STANCE_COMMITTED;
    if (!part->fresh) /* it cannot do it now: asked again */
        (void)rt_retry_later(&part->retry, now);
    judge(c, now);
}

void rt_coordinator_wrote(struct rt_coordinator *c, uint32_t seq, enum rt_reply reply,
                          enum rt_decision stands, int64_t now)
{
    if (!rt_retry_answered(&c->journal, seq))
        return;
    if (reply == RT_REPLY_LOST) {
        c->news |= rt_retry_later(&c->journal, now) ? RT_COORDINATOR_ATTENTION : 0;
        return;
    }
    if (c->state == RT_COORDINATOR_CLOSING) {
        c->state = RT_COORDINATOR_ENDED;
        c->news |= RT_COORDINATOR_OVER;
        return;
    }
    if (c->state == RT_COORDINATOR_ENTERING && reply == RT_REPLY_OPEN) {
        warn(c, now);
        return;
    }
    assert(c->state == RT_COORDINATOR_DECIDING || c->state == RT_COORDINATOR_ENTERING);
    c->stands = (uint8_t)(reply == RT_REPLY_STANDS ? stands : RT_DECISION_ABORT);
    c->news |= RT_COORDINATOR_TOLD;
    enter(c, RT_COORDINATOR_ORDERING, now);
    close_it(c, now);
}

/* ---- What is asked --------------------------------------------------------- */

static enum rt_three_ask question(const struct rt_coordinator *c)
{
    switch ((enum rt_coordinator_state)c->state) {
    case RT_COORDINATOR_ASKING:
        return RT_THREE_CAN;
    case RT_COORDINATOR_WARNING:
        return RT_THREE_PRE;
    default:
        return c->stands == RT_DECISION_COMMIT ? RT_THREE_DO : RT_THREE_NO;
    }
}

static bool tell(struct rt_coordinator *c, struct rt_coordinator_todo *todo, int64_t now)
{
    for (uint32_t i = 0; i < c->count; i++) {
        struct rt_coordinator_part *part = &c->parts[i];
        if (part->fresh || !rt_retry_may(&part->retry, now))
            continue;
        rt_retry_sent(&part->retry, ++c->last_seq);
        todo->op = RT_COORDINATOR_TELL;
        todo->ask = question(c);
        todo->whom = i;
        todo->seq = part->retry.seq;
        return true;
    }
    return false;
}

static bool is_telling(const struct rt_coordinator *c)
{
    return c->state == RT_COORDINATOR_ASKING || c->state == RT_COORDINATOR_WARNING ||
           c->state == RT_COORDINATOR_ORDERING;
}

bool rt_coordinator_todo(struct rt_coordinator *c, struct rt_coordinator_todo *todo, int64_t now)
{
    memset(todo, 0, sizeof(*todo));
    judge(c, now);
    if (is_telling(c))
        return tell(c, todo, now);
    if (c->state > RT_COORDINATOR_CLOSING || !rt_retry_may(&c->journal, now))
        return false;
    rt_retry_sent(&c->journal, ++c->last_seq);
    todo->op = c->state == RT_COORDINATOR_CLOSING    ? RT_COORDINATOR_DONE
               : c->state == RT_COORDINATOR_ENTERING ? RT_COORDINATOR_REGISTER
                                                     : RT_COORDINATOR_DECIDE;
    todo->decision = (enum rt_decision)c->want;
    todo->seq = c->journal.seq;
    return true;
}

enum rt_stance rt_coordinator_stance(const struct rt_coordinator *c)
{
    if (c->stands == RT_DECISION_NONE)
        return RT_STANCE_WAIT;
    return c->stands == RT_DECISION_COMMIT ? RT_STANCE_COMMITTED : RT_STANCE_ABORTED;
}

int64_t rt_coordinator_next(const struct rt_coordinator *c)
{
    int64_t at = RT_COORDINATOR_NEVER;
    if (c->state <= RT_COORDINATOR_WARNING && !c->gave_up)
        at = c->limit_at;
    for (uint32_t i = 0; is_telling(c) && i < c->count; i++)
        if (!c->parts[i].fresh && c->parts[i].retry.seq == 0 && c->parts[i].retry.at < at)
            at = c->parts[i].retry.at;
    bool writes = c->state == RT_COORDINATOR_DECIDING || c->state == RT_COORDINATOR_CLOSING ||
                  c->state == RT_COORDINATOR_ENTERING;
    if (writes && c->journal.seq == 0 && c->journal.at < at)
        at = c->journal.at;
    return at;
}

uint32_t rt_coordinator_news(struct rt_coordinator *c)
{
    uint32_t news = c->news;
    c->news = 0;
    return news;
}
