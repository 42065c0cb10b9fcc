/* SPDX-License-Identifier: Apache-2.0 */
/* A participant of three-phase commit: what it does next, given its row and what it has heard. */
#include "txn/three/participant.h"

#include "base/bug.h"

#include <assert.h>
#include <string.h>

#define MS INT64_C(1000000)

void rt_participant_init(struct rt_participant *p, uint32_t peers, bool textbook, int64_t t1,
                         int64_t t2)
{
    assert(peers <= RT_PARTICIPANT_PEERS && t1 > 0 && t2 > 0);
    memset(p, 0, sizeof(*p));
    p->peers = peers;
    p->textbook = textbook;
    p->t1 = t1;
    p->t2 = t2;
    p->until = RT_PARTICIPANT_NEVER;
}

/* ---- The row ------------------------------------------------------------- */

static struct rt_promise *rewrite(struct rt_participant *p)
{
    assert(!p->writes && p->doing == RT_PARTICIPANT_NOTHING);
    p->next = p->kept;
    p->writes = true;
    return &p->next;
}

static struct rt_promise *turn(struct rt_participant *p, enum rt_stance stance, enum rt_how how)
{
    struct rt_promise *row = rewrite(p);
    row->stand.stance = (uint8_t)stance;
    row->stand.how = (uint8_t)how;
    row->stand.ended = rt_stance_is_end((uint8_t)stance) && !p->begun;
    return row;
}

/* WAIT and PRECOMMITTED have an end: T1, T2. */
static void turn_until(struct rt_participant *p, enum rt_stance stance, int64_t in, int64_t wall_ms,
                       int64_t now)
{
    struct rt_promise *row = turn(p, stance, RT_HOW_NONE);
    row->until_ms = wall_ms + in / MS;
    p->until = now + in;
}

void rt_participant_restore(struct rt_participant *p, const struct rt_promise *row, int64_t wall_ms,
                            int64_t now)
{
    assert(row->stand.stance != RT_STANCE_NONE && p->kept.stand.stance == RT_STANCE_NONE);
    p->kept = *row;
    p->begun = !row->stand.ended;
    int64_t left = (row->until_ms - wall_ms) * MS;
    p->until = now + (left < 0 ? 0 : left > p->t2 ? p->t2 : left);
    if (row->stand.stance == RT_STANCE_WAIT ||
        (RT_BUG(RT_BUG_THREE_RESTART_FORGETS) && row->stand.stance == RT_STANCE_PRECOMMITTED))
        turn(p, RT_STANCE_ABORTED, RT_HOW_RESTART)->sure = true;
    p->over = rt_stance_is_end(row->stand.stance) && row->stand.ended && row->sure;
}

/* ---- What it makes of what it knows ------------------------------------- */

static void settle_none(struct rt_participant *p, int64_t wall_ms, int64_t now)
{
    if (p->told == RT_DECISION_ABORT)
        turn(p, RT_STANCE_ABORTED, RT_HOW_TOLD)->sure =
            true; /* a CAN that comes later is refused */
    else if (p->can && !p->refuses)
        turn_until(p, RT_STANCE_WAIT, p->t1, wall_ms, now);
    else if (p->can || p->pre)
        turn(p, RT_STANCE_ABORTED, RT_HOW_FAILED)->sure = true;
}

static void settle_wait(struct rt_participant *p, int64_t wall_ms, int64_t now)
{
    if (p->told != RT_DECISION_NONE) { /* COMMIT without us: not allowed, so reported (H2) */
        struct rt_promise *row = turn(p, RT_STANCE_ABORTED, RT_HOW_TOLD);
        row->sure = true;
        row->stand.mixed = p->told == RT_DECISION_COMMIT;
    } else if (p->has_worked && p->worked == RT_REPLY_YES)
        turn_until(p, RT_STANCE_PRECOMMITTED, p->t2, wall_ms, now);
    else if (p->has_worked)
        turn(p, RT_STANCE_ABORTED, RT_HOW_FAILED)->sure = true;
    else if (p->judged == RT_STANCE_ABORTED) {
        struct rt_promise *row = turn(p, RT_STANCE_ABORTED, RT_HOW_TIMEOUT);
        row->sure = true;
        row->stand.mixed = p->against;
    }
}

static void settle_precommitted(struct rt_participant *p)
{
    if (p->told != RT_DECISION_NONE) {
        bool commit = p->told == RT_DECISION_COMMIT;
        turn(p, commit ? RT_STANCE_COMMITTED : RT_STANCE_ABORTED, RT_HOW_TOLD)->sure = true;
        return;
    }
    if (p->found == RT_REPLY_COMMITTED || p->found == RT_REPLY_ABSENT) {
        bool commit = p->found == RT_REPLY_COMMITTED;
        p->begun = false;
        (void)turn(p, commit ? RT_STANCE_COMMITTED : RT_STANCE_ABORTED, RT_HOW_ELSEWHERE);
        return;
    }
    if (p->judged == RT_STANCE_NONE)
        return;
    bool peer = false;
    for (uint32_t i = 1; i <= p->peers; i++)
        peer = peer || p->heard[i] == p->judged;
    struct rt_promise *row = turn(p, (enum rt_stance)p->judged,
                                  peer ? RT_HOW_PEER : RT_HOW_TIMEOUT);
    /* A peer that ABORTED was told to, or never answered PRECOMMITTED: COMMIT will never stand. With `block`, a peer
     * that COMMITTED is just as sure. */
    row->sure = p->judged == RT_STANCE_ABORTED || !p->textbook;
    p->news |= peer ? 0 : RT_PARTICIPANT_ALONE;
}

static void settle_end(struct rt_participant *p)
{
    bool told = p->told != RT_DECISION_NONE;
    bool same = (p->told == RT_DECISION_COMMIT) == (p->kept.stand.stance == RT_STANCE_COMMITTED);
    bool mixed = ((told && !same) || p->against) && !RT_BUG(RT_BUG_THREE_MIX_NOT_TOLD);
    if ((told && !p->kept.sure) || (mixed && !p->kept.stand.mixed)) {
        struct rt_promise *row = rewrite(p);
        row->sure = row->sure || told;
        row->stand.mixed = row->stand.mixed || mixed;
    }
}

static void settle(struct rt_participant *p, int64_t wall_ms, int64_t now)
{
    if (p->writes || p->doing != RT_PARTICIPANT_NOTHING)
        return;
    switch ((enum rt_stance)p->kept.stand.stance) {
    case RT_STANCE_NONE:
        settle_none(p, wall_ms, now);
        break;
    case RT_STANCE_WAIT:
        settle_wait(p, wall_ms, now);
        break;
    case RT_STANCE_PRECOMMITTED:
        settle_precommitted(p);
        break;
    default:
        settle_end(p);
    }
    if (p->writes && p->next.stand.mixed && !p->kept.stand.mixed)
        p->news |= RT_PARTICIPANT_MIXED;
}

/* ---- What is asked ------------------------------------------------------- */

void rt_participant_asked(struct rt_participant *p, enum rt_three_ask ask, int64_t now)
{
    assert(ask >= RT_THREE_CAN && ask < RT_THREE_ASKS);
    p->can = p->can || ask == RT_THREE_CAN;
    p->pre = p->pre || ask == RT_THREE_PRE;
    if (ask == RT_THREE_NO)
        p->told = RT_DECISION_ABORT;
    if (ask == RT_THREE_DO && p->kept.stand.stance != RT_STANCE_NONE)
        p->told = RT_DECISION_COMMIT;
    rt_retry_soon(&p->local, now);
}

void rt_participant_met(struct rt_participant *p, enum rt_stance theirs)
{
    p->against = p->against || rt_stance_contradicts(p->kept.stand.stance, (uint8_t)theirs);
}

struct rt_stand rt_participant_stand(const struct rt_participant *p)
{
    if (RT_BUG(RT_BUG_THREE_ANSWERS_FIRST) && p->writes)
        return p->next.stand;
    return p->kept.stand;
}

bool rt_participant_is_quiet(const struct rt_participant *p)
{
    return p->doing == RT_PARTICIPANT_NOTHING ||
           (RT_BUG(RT_BUG_THREE_ANSWERS_FIRST) && p->doing == RT_PARTICIPANT_WRITE);
}

/* ---- Questions ----------------------------------------------------------- */

static uint32_t everybody(const struct rt_participant *p)
{
    uint32_t bits = (UINT32_C(1) << (p->peers + 1)) - 1;
    if (p->kept.stand.stance == RT_STANCE_PRECOMMITTED)
        bits |= UINT32_C(1) << (p->peers + 1); /* its own database */
    return bits;
}

/* The time from which it wants to know how others stand. */
static int64_t asks_from(const struct rt_participant *p)
{
    const struct rt_stand *stand = &p->kept.stand;
    if (p->writes || p->told != RT_DECISION_NONE)
        return RT_PARTICIPANT_NEVER; /* it knows enough */
    if (stand->stance == RT_STANCE_WAIT)
        return p->pre ? RT_PARTICIPANT_NEVER : p->until;
    if (stand->stance == RT_STANCE_PRECOMMITTED)
        return p->until;
    bool unsure = rt_stance_is_end(stand->stance) && stand->ended && !p->kept.sure;
    return unsure ? INT64_MIN : RT_PARTICIPANT_NEVER;
}

/* What WAIT and PRECOMMITTED may do once everybody was asked and the coordinator said nothing. */
static enum rt_stance judge(const struct rt_participant *p)
{
    bool committed = false, aborted = false, waits = p->heard[0] == RT_STANCE_WAIT;
    if (RT_BUG(RT_BUG_THREE_OPEN_IS_ABORT) && waits)
        return RT_STANCE_ABORTED;
    bool undecided = waits;
    uint32_t ready = 0;
    for (uint32_t i = 1; i <= p->peers; i++) {
        ready += p->heard[i] == RT_STANCE_PRECOMMITTED;
        committed = committed || p->heard[i] == RT_STANCE_COMMITTED;
        aborted = aborted || p->heard[i] == RT_STANCE_ABORTED;
        waits = waits || p->heard[i] == RT_STANCE_WAIT;
    }
    if (p->kept.stand.stance == RT_STANCE_WAIT)
        return undecided ? RT_STANCE_NONE : RT_STANCE_ABORTED;
    if (committed && aborted)
        return RT_STANCE_NONE; /* mixed without us: wait for the decision */
    if (committed || aborted)
        return committed ? RT_STANCE_COMMITTED : RT_STANCE_ABORTED;
    bool alone = p->textbook || RT_BUG(RT_BUG_THREE_BLOCK_COMMITS) ||
                 (RT_BUG(RT_BUG_THREE_ALL_ARE_READY) && ready == p->peers);
    return waits || !alone ? RT_STANCE_NONE : RT_STANCE_COMMITTED;
}

static void round_over(struct rt_participant *p, int64_t now)
{
    uint8_t stance = p->kept.stand.stance;
    p->round.seq = 0;
    p->news |= rt_retry_later(&p->round, now) ? RT_PARTICIPANT_ATTENTION : 0;
    for (uint32_t i = 1; i <= p->peers; i++)
        p->against = p->against || rt_stance_contradicts(stance, p->heard[i]) ||
                     (stance == RT_STANCE_WAIT && p->heard[i] == RT_STANCE_COMMITTED);
    if (rt_stance_is_end(stance) || p->writes)
        return;
    p->judged = (uint8_t)judge(p);
    if (stance == RT_STANCE_PRECOMMITTED && p->judged == RT_STANCE_NONE && !p->blocked) {
        p->blocked = true;
        p->news |= RT_PARTICIPANT_BLOCKED;
    }
}

static void answered_one(struct rt_participant *p, uint32_t bit, int64_t now)
{
    p->open &= ~bit;
    if (p->open == 0 && p->asked == everybody(p))
        round_over(p, now);
}

void rt_participant_heard(struct rt_participant *p, uint32_t whom, uint32_t seq,
                          enum rt_stance stance, int64_t now)
{
    assert(whom <= p->peers && stance < RT_STANCES);
    uint32_t bit = UINT32_C(1) << whom;
    if (seq == 0 || seq != p->round.seq || (p->open & bit) == 0)
        return;
    p->heard[whom] = (uint8_t)stance;
    if (whom == 0 && rt_stance_is_end((uint8_t)stance)) {
        p->told = stance == RT_STANCE_COMMITTED ? RT_DECISION_COMMIT : RT_DECISION_ABORT;
        rt_retry_soon(&p->local, now);
    }
    answered_one(p, bit, now);
}

static bool begin_round(struct rt_participant *p, int64_t now)
{
    int64_t from = asks_from(p);
    if (p->round.seq == 0 && (from > now || !rt_retry_may(&p->round, now)))
        return false;
    if (p->round.seq != 0)
        return true;
    rt_retry_sent(&p->round, ++p->last_seq);
    p->asked = p->open = 0;
    p->found = RT_REPLY_LOST;
    memset(p->heard, RT_STANCE_NONE, sizeof(p->heard));
    return true;
}

static bool ask(struct rt_participant *p, struct rt_participant_todo *todo, int64_t now)
{
    if (!begin_round(p, now))
        return false;
    for (uint32_t i = 0; i <= p->peers; i++) {
        uint32_t bit = UINT32_C(1) << i;
        if ((p->asked & bit) != 0)
            continue;
        p->asked |= bit;
        p->open |= bit;
        todo->op = RT_PARTICIPANT_ASK;
        todo->seq = p->round.seq;
        todo->whom = i;
        return true;
    }
    return false;
}

/* ---- What is done -------------------------------------------------------- */

static enum rt_participant_op local_op(const struct rt_participant *p)
{
    const struct rt_stand *stand = &p->kept.stand;
    uint32_t look = UINT32_C(1) << (p->peers + 1);
    if (p->writes)
        return RT_PARTICIPANT_WRITE;
    if (stand->stance == RT_STANCE_WAIT && p->pre && !p->has_worked)
        return RT_PARTICIPANT_WORK;
    if (rt_stance_is_end(stand->stance) && !stand->ended)
        return stand->stance == RT_STANCE_COMMITTED ? RT_PARTICIPANT_COMMIT
                                                    : RT_PARTICIPANT_ROLLBACK;
    if (stand->stance == RT_STANCE_PRECOMMITTED && p->round.seq != 0 && (p->asked & look) == 0)
        return RT_PARTICIPANT_LOOK;
    return RT_PARTICIPANT_NOTHING;
}

static bool work(struct rt_participant *p, struct rt_participant_todo *todo, int64_t now)
{
    enum rt_participant_op op = local_op(p);
    if (op == RT_PARTICIPANT_NOTHING || !rt_retry_may(&p->local, now))
        return false;
    rt_retry_sent(&p->local, ++p->last_seq);
    p->doing = (uint8_t)op;
    p->begun = p->begun || op == RT_PARTICIPANT_WORK;
    if (op == RT_PARTICIPANT_LOOK) {
        uint32_t look = UINT32_C(1) << (p->peers + 1);
        p->asked |= look;
        p->open |= look;
    }
    todo->op = op;
    todo->seq = p->local.seq;
    todo->row = p->next;
    return true;
}

static void check_over(struct rt_participant *p)
{
    const struct rt_promise *row = &p->kept;
    bool over = rt_stance_is_end(row->stand.stance) && row->stand.ended && row->sure;
    if (over && !p->over)
        p->news |= RT_PARTICIPANT_ENDED;
    p->over = over;
}

bool rt_participant_todo(struct rt_participant *p, struct rt_participant_todo *todo,
                         int64_t wall_ms, int64_t now)
{
    memset(todo, 0, sizeof(*todo));
    settle(p, wall_ms, now);
    return work(p, todo, now) || ask(p, todo, now);
}

static void written(struct rt_participant *p, int64_t now)
{
    bool turned = p->next.stand.stance != p->kept.stand.stance;
    p->kept = p->next;
    p->writes = false;
    rt_retry_soon(&p->local, now);
    if (turned) { /* earlier answers were to another question */
        p->round.seq = 0;
        p->judged = RT_STANCE_NONE;
        rt_retry_soon(&p->round, now);
    }
    check_over(p);
}

/* COMMIT, ROLLBACK: the branch has ended, perhaps differently, by somebody else's hand. */
static void ended(struct rt_participant *p, bool committed)
{
    bool same = committed == (p->kept.stand.stance == RT_STANCE_COMMITTED);
    p->doing = RT_PARTICIPANT_NOTHING;
    p->begun = false;
    if (!same) {
        p->news |= RT_PARTICIPANT_MIXED;
        turn(p, committed ? RT_STANCE_COMMITTED : RT_STANCE_ABORTED, RT_HOW_ELSEWHERE)
            ->stand.mixed = true;
        return;
    }
    rewrite(p)->stand.ended = true;
}

static void did_order(struct rt_participant *p, uint8_t op, enum rt_reply reply, int64_t now)
{
    bool commit = op == RT_PARTICIPANT_COMMIT;
    if (reply == RT_REPLY_DONE)
        ended(p, commit);
    else if (reply == RT_REPLY_COMMITTED)
        ended(p, true);
    else if (reply == RT_REPLY_ABSENT)
        ended(p, false);
    else
        p->news |= rt_retry_later(&p->local, now) ? RT_PARTICIPANT_ATTENTION : 0;
}

void rt_participant_did(struct rt_participant *p, uint32_t seq, enum rt_reply reply, int64_t now)
{
    uint8_t op = p->doing;
    if (!rt_retry_answered(&p->local, seq))
        return;
    p->doing = RT_PARTICIPANT_NOTHING;
    switch ((enum rt_participant_op)op) {
    case RT_PARTICIPANT_WRITE:
        if (reply == RT_REPLY_DONE)
            written(p, now);
        else
            p->news |= rt_retry_later(&p->local, now) ? RT_PARTICIPANT_ATTENTION : 0;
        break;
    case RT_PARTICIPANT_WORK:
        p->has_worked = true;
        p->worked = reply == RT_REPLY_YES ? RT_REPLY_YES : RT_REPLY_NO;
        p->begun = reply != RT_REPLY_NO;
        break;
    case RT_PARTICIPANT_LOOK:
        p->found = (uint8_t)reply;
        answered_one(p, UINT32_C(1) << (p->peers + 1), now);
        break;
    default:
        did_order(p, op, reply, now);
    }
}

int64_t rt_participant_next(const struct rt_participant *p)
{
    int64_t at = RT_PARTICIPANT_NEVER;
    if (p->doing == RT_PARTICIPANT_NOTHING && local_op(p) != RT_PARTICIPANT_NOTHING)
        at = p->local.at;
    int64_t from = asks_from(p);
    if (p->round.seq == 0 && from != RT_PARTICIPANT_NEVER) {
        from = from > p->round.at ? from : p->round.at;
        at = at < from ? at : from;
    }
    return at;
}

uint32_t rt_participant_news(struct rt_participant *p)
{
    uint32_t news = p->news;
    p->news = 0;
    return news;
}
