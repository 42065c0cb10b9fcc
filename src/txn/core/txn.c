/* SPDX-License-Identifier: Apache-2.0 */
/* A transaction: from its branches' votes to the one decision, and from that to all of them. */
#include "txn/core/txn.h"

#include "base/bug.h"

#include <assert.h>
#include <stddef.h>

#define BIT(state) (1u << (state))

/* From which states each may be reached: the arrows of the diagram in txn.h. */
static const unsigned allowed_from[] = {
    [RT_TXN_ACTIVE] = 0,
    [RT_TXN_PREPARING] = BIT(RT_TXN_ACTIVE) | BIT(RT_TXN_LOOKING),
    [RT_TXN_LOOKING] = BIT(RT_TXN_DECIDING),
    [RT_TXN_ONE_PHASE] = BIT(RT_TXN_ACTIVE),
    [RT_TXN_DECIDING] = BIT(RT_TXN_ACTIVE) | BIT(RT_TXN_PREPARING) | BIT(RT_TXN_LOOKING),
    [RT_TXN_COMMITTING] = BIT(RT_TXN_ACTIVE) | BIT(RT_TXN_DECIDING),
    [RT_TXN_ABORTING] = BIT(RT_TXN_ACTIVE) | BIT(RT_TXN_DECIDING) | BIT(RT_TXN_ONE_PHASE),
    [RT_TXN_CLOSING] = BIT(RT_TXN_COMMITTING) | BIT(RT_TXN_ABORTING),
    [RT_TXN_ENDED] = BIT(RT_TXN_ACTIVE) | BIT(RT_TXN_PREPARING) | BIT(RT_TXN_ONE_PHASE) |
                     BIT(RT_TXN_ABORTING) | BIT(RT_TXN_CLOSING),
};

static void move(struct rt_txn *t, enum rt_txn_state to)
{
    assert((allowed_from[to] & BIT(t->state)) != 0);
    t->state = (uint8_t)to;
    t->news |= to == RT_TXN_ENDED ? RT_TXN_OVER : 0;
}

/* ---- What is told ------------------------------------------------------- */

static void tell(struct rt_txn *t, enum rt_outcome what)
{
    if (t->told != RT_OUTCOME_OPEN || t->adopted || t->limit_at == RT_TXN_NEVER)
        return; /* was told, or nobody has asked */
    t->told = (uint8_t)what;
    t->news |= RT_TXN_ANSWERED;
}

/* It is known how it ends. */
static void resolve(struct rt_txn *t, enum rt_outcome what)
{
    assert(t->outcome == RT_OUTCOME_OPEN);
    t->outcome = (uint8_t)what;
    if (!t->waits || what != RT_OUTCOME_COMMITTED)
        tell(t, what);
}

static void end(struct rt_txn *t)
{
    move(t, RT_TXN_ENDED);
    tell(t, (enum rt_outcome)t->outcome);
}

uint32_t rt_txn_news(struct rt_txn *t)
{
    uint32_t news = t->news;
    assert((news & RT_TXN_OVER) == 0 || t->state == RT_TXN_ENDED);
    t->news = 0;
    return news;
}

/* ---- Phase two ---------------------------------------------------------- */

static bool all_over(const struct rt_txn *t)
{
    bool over = true;
    for (uint32_t i = 0; i < t->count; i++)
        over = over && rt_branch_is_over(&t->branches[i]);
    return over;
}

static void phase_two_over(struct rt_txn *t, int64_t now)
{
    if (t->state != RT_TXN_COMMITTING && t->state != RT_TXN_ABORTING)
        return;
    bool stuck_closes = RT_BUG(RT_BUG_TXN_CLOSES_STUCK) && t->count > 0 &&
                        t->branches[0].stuck == RT_STUCK_LOST;
    if (!all_over(t) && !stuck_closes)
        return;
    if (!t->stands) {
        end(t); /* there is no row to be closed */
        return;
    }
    tell(t, (enum rt_outcome)t->outcome);
    move(t, RT_TXN_CLOSING);
    rt_retry_soon(&t->journal, now);
}

static bool listed(const struct rt_txn_part *parts, uint32_t n, uint32_t number)
{
    bool found = false;
    for (uint32_t i = 0; i < n; i++)
        found = found || parts[i].number == number;
    return found;
}

static void order_one(struct rt_txn *t, struct rt_branch *b, enum rt_decision decision, int64_t now)
{
    assert(t->state == RT_TXN_COMMITTING || t->state == RT_TXN_ABORTING);
    if (b->order != RT_DECISION_NONE || b->retry.seq != 0)
        return; /* its vote is under way: when that has come */
    b->either = t->outcome == RT_OUTCOME_EXPIRED;
    rt_branch_order(b, decision, now);
    t->news |= b->stuck != RT_STUCK_NOT ? RT_TXN_STUCK : 0;
}

/* Whom the decision that stands does not list took part too late: it is rolled back. Without PARTS it is the list that
 * we asked for: all that are prepared. */
static void commit_all(struct rt_txn *t, const struct rt_txn_part *parts, uint32_t n, int64_t now)
{
    assert(parts != NULL || !t->adopted);
    move(t, RT_TXN_COMMITTING);
    t->stands = true;
    for (uint32_t i = 0; i < n; i++)
        rt_txn_found(t, &parts[i]);
    for (uint32_t i = 0; i < t->count; i++) {
        struct rt_branch *b = &t->branches[i];
        bool part = parts != NULL ? listed(parts, n, b->number) : b->state == RT_BRANCH_PREPARED;
        order_one(t, b, part ? RT_DECISION_COMMIT : RT_DECISION_ABORT, now);
    }
    phase_two_over(t, now);
}

static void roll_back_all(struct rt_txn *t, int64_t now)
{
    move(t, RT_TXN_ABORTING);
    for (uint32_t i = 0; i < t->count; i++)
        order_one(t, &t->branches[i], RT_DECISION_ABORT, now);
    phase_two_over(t, now);
}

/* ---- The decision ------------------------------------------------------- */

static void decide(struct rt_txn *t, enum rt_decision want, int64_t now)
{
    assert(want != RT_DECISION_NONE);
    if (t->state != RT_TXN_DECIDING)
        move(t, RT_TXN_DECIDING);
    t->want = (uint8_t)want;
    rt_retry_soon(&t->journal, now);
}

/* It will not be committed: nobody else writes COMMIT, and we have not. */
static void give_up(struct rt_txn *t, int64_t now)
{
    assert(!t->commit_sent || t->state == RT_TXN_DECIDING);
    if (!t->commit_sent && t->outcome == RT_OUTCOME_OPEN && !t->adopted)
        resolve(t, RT_OUTCOME_ABORTED);
    if (t->state == RT_TXN_ACTIVE && !t->sent && !t->shared && !t->adopted) {
        roll_back_all(t, now); /* nothing is prepared: nothing can be in doubt */
        return;
    }
    decide(t, RT_DECISION_ABORT, now);
}

static void decided_commit(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    assert(t->outcome != RT_OUTCOME_ABORTED); /* that was told only if nobody could write COMMIT */
    if (t->outcome == RT_OUTCOME_OPEN)
        resolve(t, RT_OUTCOME_COMMITTED);
    commit_all(t, a->parts, a->part_count, now);
}

/* COMMIT was refused, and so will be every copy of it that is still on its way: the count only grows. */
static void others_joined(struct rt_txn *t, int64_t now)
{
    t->commit_sent = t->commit_lost = false;
    if (t->want == RT_DECISION_ABORT) { /* the deadline came meanwhile */
        give_up(t, now);
        return;
    }
    move(t, RT_TXN_LOOKING);
    rt_retry_soon(&t->journal, now);
}

static void decide_answered(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    bool commit = a->reply == RT_REPLY_STANDS && a->decision == RT_DECISION_COMMIT;
    if (RT_BUG(RT_BUG_TXN_OWN_WISH) && a->reply == RT_REPLY_STANDS)
        commit = t->want == RT_DECISION_COMMIT;
    if (t->state != RT_TXN_DECIDING)
        return; /* only with RT_BUG_TXN_NOT_DURABLE */
    if (a->reply == RT_REPLY_OPEN) {
        others_joined(t, now);
        return;
    }
    if (a->reply != RT_REPLY_STANDS && a->reply != RT_REPLY_BELOW) {
        t->commit_lost = t->commit_lost || t->asked_commit;
        t->news |= rt_retry_later(&t->journal, now) ? RT_TXN_ATTENTION : 0;
        return;
    }
    rt_retry_soon(&t->journal, now);
    if (commit) {
        decided_commit(t, a, now);
        return;
    }
    /* Below the floor a COMMIT of ours may have stood, been done and been forgotten: what is not done is not (X9). */
    bool forgotten = a->reply == RT_REPLY_BELOW && (t->commit_lost || t->adopted);
    if (RT_BUG(RT_BUG_TXN_EXPIRED_IS_ABORTED))
        forgotten = false;
    if (t->outcome == RT_OUTCOME_OPEN)
        resolve(t, forgotten ? RT_OUTCOME_EXPIRED : RT_OUTCOME_ABORTED);
    t->stands = a->reply == RT_REPLY_STANDS;
    roll_back_all(t, now);
}

/* ---- Votes -------------------------------------------------------------- */

/* All have voted, unless some are still asked. */
static void count_votes(struct rt_txn *t, int64_t now)
{
    uint32_t open = 0, yes = 0, no = 0;
    assert(t->state == RT_TXN_PREPARING);
    for (uint32_t i = 0; i < t->count; i++) {
        const struct rt_branch *b = &t->branches[i];
        open += b->state == RT_BRANCH_ACTIVE || b->state == RT_BRANCH_PREPARING;
        yes += b->state == RT_BRANCH_PREPARED;
        no += b->state == RT_BRANCH_REFUSED || b->state == RT_BRANCH_DOUBTFUL;
    }
    if (no > 0)
        give_up(t, now);
    else if (open > 0)
        return;
    else if (yes > 0 || t->shared)
        decide(t, RT_DECISION_COMMIT, now);
    else { /* nothing was changed anywhere */
        resolve(t, RT_OUTCOME_COMMITTED);
        end(t);
    }
}

static void one_phase_answered(struct rt_txn *t, struct rt_branch *b, enum rt_reply reply,
                               int64_t now)
{
    assert(t->state == RT_TXN_ONE_PHASE && t->count == 1);
    if (b->state == RT_BRANCH_PREPARING)
        rt_branch_voted(b, reply);
    else if (reply == RT_REPLY_COMMITTED)
        b->state = RT_BRANCH_FINISHED;
    else if (reply ==
             RT_REPLY_ABSENT) { /* ... and the fence keeps it so; or its marker was cleaned away */
        b->state = RT_BRANCH_CHECKING;
        rt_retry_soon(&t->journal, now);
        return;
    }
    if (b->state == RT_BRANCH_DOUBTFUL) {
        t->news |= rt_retry_later(&b->retry, now) ? RT_TXN_ATTENTION : 0;
        return;
    }
    if (rt_branch_is_over(b)) {
        resolve(t, RT_OUTCOME_COMMITTED);
        end(t);
        return;
    }
    resolve(t, RT_OUTCOME_ABORTED);
    roll_back_all(t, now);
}

/* Its branch left no marker, and can leave none any more. Markers go only below the floor: above it, there was none. */
static void one_phase_checked(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    assert(t->state == RT_TXN_ONE_PHASE && t->branches[0].state == RT_BRANCH_CHECKING);
    if (a->reply == RT_REPLY_LOST) {
        t->news |= rt_retry_later(&t->journal, now) ? RT_TXN_ATTENTION : 0;
        return;
    }
    t->branches[0].state = RT_BRANCH_FINISHED;
    resolve(t, a->reply == RT_REPLY_BELOW ? RT_OUTCOME_EXPIRED : RT_OUTCOME_ABORTED);
    end(t);
}

/* Nothing is decided; A has all branches that are registered. Those we do not have are elsewhere. */
static void joined_answered(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    assert(t->state == RT_TXN_LOOKING);
    if (a->reply == RT_REPLY_LOST) {
        t->news |= rt_retry_later(&t->journal, now) ? RT_TXN_ATTENTION : 0;
        return;
    }
    rt_retry_soon(&t->journal, now);
    if (a->reply != RT_REPLY_OPEN) { /* somebody has decided: what, DECIDE tells */
        decide(t, RT_DECISION_ABORT, now);
        return;
    }
    for (uint32_t i = 0; i < a->part_count; i++) {
        uint32_t before = t->count;
        rt_txn_found(t, &a->parts[i]);
        if (t->count > before)
            t->branches[before].elsewhere = true;
    }
    t->registered = a->part_count;
    move(t, RT_TXN_PREPARING);
    count_votes(t, now);
}

/* ---- Whose transaction it is -------------------------------------------- */

void rt_txn_begin(struct rt_txn *t, const struct rt_txn_id *id, int64_t deadline_ms,
                  int64_t deadline_at, struct rt_branch *branches, uint32_t room)
{
    assert(room == 0 || branches != NULL);
    *t = (struct rt_txn){.id = *id,
                         .deadline_ms = deadline_ms,
                         .deadline_at = deadline_at,
                         .limit_at = RT_TXN_NEVER,
                         .branches = branches,
                         .room = room};
}

struct rt_branch *rt_txn_add(struct rt_txn *t, uint32_t number, uint32_t resource, bool gated)
{
    assert(t->count < t->room && t->state == RT_TXN_ACTIVE && !t->adopted);
    struct rt_branch *b = &t->branches[t->count++];
    rt_branch_init(b, number, resource, gated);
    b->own = true;
    return b;
}

static bool any_failed(const struct rt_txn *t)
{
    bool failed = false;
    for (uint32_t i = 0; i < t->count; i++)
        failed = failed || t->branches[i].failed;
    return failed && !RT_BUG(RT_BUG_TXN_FAILED_VOTES_YES);
}

void rt_txn_commit(struct rt_txn *t, bool waits, int64_t limit_at, int64_t now)
{
    assert(!t->adopted && t->limit_at == RT_TXN_NEVER && limit_at != RT_TXN_NEVER);
    t->limit_at = limit_at;
    t->waits = waits;
    if (t->state != RT_TXN_ACTIVE) { /* its deadline was before: that has begun, or is over */
        if (t->outcome != RT_OUTCOME_OPEN)
            tell(t, (enum rt_outcome)t->outcome);
        return;
    }
    if (now >= t->deadline_at || any_failed(t)) {
        give_up(t, now);
        return;
    }
    if (t->count == 1 && !t->shared) {
        move(t, RT_TXN_ONE_PHASE);
        return;
    }
    move(t, RT_TXN_PREPARING);
    count_votes(t, now);
}

void rt_txn_abort(struct rt_txn *t, int64_t limit_at, int64_t now)
{
    assert(!t->adopted && t->limit_at == RT_TXN_NEVER && limit_at != RT_TXN_NEVER);
    t->limit_at = limit_at;
    if (t->state == RT_TXN_ACTIVE)
        give_up(t, now);
    else
        tell(t, (enum rt_outcome)t->outcome);
}

void rt_txn_adopt(struct rt_txn *t, const struct rt_txn_id *id, int64_t deadline_ms,
                  struct rt_branch *branches, uint32_t room)
{
    rt_txn_begin(t, id, deadline_ms, RT_TXN_NEVER, branches, room);
    t->adopted = true;
}

void rt_txn_found(struct rt_txn *t, const struct rt_txn_part *part)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (t->branches[i].number == part->number)
            return;
    assert(t->count < t->room);
    struct rt_branch *b = &t->branches[t->count++];
    rt_branch_init(b, part->number, part->resource, part->gated);
}

void rt_txn_settle(struct rt_txn *t, enum rt_decision decision, const struct rt_txn_part *parts,
                   uint32_t part_count, int64_t now)
{
    assert(t->adopted && t->state == RT_TXN_ACTIVE);
    if (decision == RT_DECISION_COMMIT) {
        resolve(t, RT_OUTCOME_COMMITTED);
        commit_all(t, parts, part_count, now);
    } else if (decision == RT_DECISION_ABORT || RT_BUG(RT_BUG_TXN_ABORT_PRESUMED)) {
        for (uint32_t i = 0; i < part_count; i++)
            rt_txn_found(t, &parts[i]);
        resolve(t, RT_OUTCOME_ABORTED);
        t->stands = decision == RT_DECISION_ABORT;
        roll_back_all(t, now);
    } else
        give_up(t, now);
}

/* ---- Asking ------------------------------------------------------------- */

uint32_t rt_txn_parts(const struct rt_txn *t, struct rt_txn_part *out, uint32_t room)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct rt_branch *b = &t->branches[i];
        if (b->state != RT_BRANCH_PREPARED)
            continue;
        assert(n < room);
        out[n++] = (struct rt_txn_part){b->number, b->resource, b->gated};
    }
    return n;
}

static enum rt_txn_op journal_next(const struct rt_txn *t)
{
    switch (t->state) {
    case RT_TXN_DECIDING:
        return RT_TXN_DECIDE;
    case RT_TXN_LOOKING:
        return RT_TXN_LOOK;
    case RT_TXN_CLOSING:
        return RT_TXN_DONE;
    case RT_TXN_ONE_PHASE:
    case RT_TXN_COMMITTING:
        for (uint32_t i = 0; i < t->count; i++)
            if (t->branches[i].state == RT_BRANCH_CHECKING)
                return RT_TXN_LOOK;
        return RT_TXN_BRANCH;
    default:
        return RT_TXN_BRANCH; /* nothing */
    }
}

static enum rt_branch_op branch_next(struct rt_txn *t, struct rt_branch *b)
{
    switch (t->state) {
    case RT_TXN_PREPARING:
        if (b->state != RT_BRANCH_ACTIVE)
            return RT_BRANCH_NOTHING;
        return b->elsewhere ? RT_BRANCH_ASK : RT_BRANCH_PREPARE;
    case RT_TXN_ONE_PHASE:
        if (b->state == RT_BRANCH_CHECKING)
            return RT_BRANCH_NOTHING;
        return b->state == RT_BRANCH_ACTIVE ? RT_BRANCH_ONE_PHASE : RT_BRANCH_ASK;
    case RT_TXN_COMMITTING:
    case RT_TXN_ABORTING:
        return b->order != RT_DECISION_NONE ? rt_branch_next(b) : RT_BRANCH_NOTHING;
    default:
        return RT_BRANCH_NOTHING;
    }
}

static void fill_branch(struct rt_txn *t, struct rt_branch *b, enum rt_branch_op op,
                        struct rt_txn_todo *todo)
{
    *todo = (struct rt_txn_todo){.to = RT_TXN_BRANCH, .op = op, .branch = b, .own = b->own};
    todo->seq = ++t->last_seq;
    todo->fence = op == RT_BRANCH_ASK && t->state == RT_TXN_ONE_PHASE;
    rt_retry_sent(&b->retry, todo->seq);
    if (b->state == RT_BRANCH_ACTIVE) {
        assert(t->state == RT_TXN_PREPARING || t->state == RT_TXN_ONE_PHASE);
        b->state = RT_BRANCH_PREPARING;
        t->sent = true;
    }
}

static void fill_journal(struct rt_txn *t, enum rt_txn_op op, struct rt_txn_todo *todo)
{
    assert(op != RT_TXN_BRANCH);
    *todo = (struct rt_txn_todo){.to = op, .seq = ++t->last_seq};
    if (op == RT_TXN_DECIDE) {
        todo->decision = (enum rt_decision)t->want;
        t->asked_commit = t->want == RT_DECISION_COMMIT;
        t->commit_sent = t->commit_sent || t->asked_commit;
        todo->registered = t->registered;
    }
    t->asked = (uint8_t)op;
    rt_retry_sent(&t->journal, todo->seq);
}

bool rt_txn_todo(struct rt_txn *t, struct rt_txn_todo *todo, int64_t now)
{
    enum rt_txn_op op = journal_next(t);
    if (op != RT_TXN_BRANCH && rt_retry_may(&t->journal, now)) {
        fill_journal(t, op, todo);
        if (RT_BUG(RT_BUG_TXN_NOT_DURABLE) && todo->decision == RT_DECISION_COMMIT)
            commit_all(t, NULL, 0, now);
        return true;
    }
    for (uint32_t i = 0; i < t->count; i++) {
        struct rt_branch *b = &t->branches[i];
        if (!rt_retry_may(&b->retry, now))
            continue;
        enum rt_branch_op what = branch_next(t, b);
        if (what == RT_BRANCH_NOTHING)
            continue;
        fill_branch(t, b, what, todo);
        return true;
    }
    return false;
}

/* ---- Answers ------------------------------------------------------------ */

/* The journal was looked at for branches that their participants do not have. */
static void look_answered(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    if (t->state == RT_TXN_LOOKING) {
        joined_answered(t, a, now);
        return;
    }
    if (t->state == RT_TXN_ONE_PHASE) {
        one_phase_checked(t, a, now);
        return;
    }
    if (a->reply == RT_REPLY_LOST) {
        t->news |= rt_retry_later(&t->journal, now) ? RT_TXN_ATTENTION : 0;
        return;
    }
    rt_retry_soon(&t->journal, now);
    bool done = a->reply == RT_REPLY_BELOW || a->done;
    for (uint32_t i = 0; i < t->count; i++) {
        struct rt_branch *b = &t->branches[i];
        if (b->state != RT_BRANCH_CHECKING || b->checked >= a->seq)
            continue; /* it came to that after this look had left */
        bool was_stuck = b->stuck != RT_STUCK_NOT;
        rt_branch_checked(b, done, now);
        t->news |= b->stuck != RT_STUCK_NOT && !was_stuck ? RT_TXN_STUCK : 0; /* told once */
    }
    phase_two_over(t, now);
}

static void journal_answered(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    if (!rt_retry_answered(&t->journal, a->seq))
        return;
    if (t->asked == RT_TXN_DECIDE)
        decide_answered(t, a, now);
    else if (t->asked == RT_TXN_LOOK)
        look_answered(t, a, now);
    else if (a->reply == RT_REPLY_DONE)
        end(t);
    else
        t->news |= rt_retry_later(&t->journal, now) ? RT_TXN_ATTENTION : 0;
}

/* A vote that comes after the deadline, or after another's no: the branch is as it says, and is rolled back. */
static void vote_answered(struct rt_txn *t, struct rt_branch *b, enum rt_reply reply, int64_t now)
{
    rt_branch_voted(b, reply);
    if (b->state == RT_BRANCH_ACTIVE) /* it is asked again */
        t->news |= rt_retry_later(&b->retry, now) ? RT_TXN_ATTENTION : 0;
    if (t->state == RT_TXN_PREPARING)
        count_votes(t, now);
    else if (t->state == RT_TXN_ABORTING || t->state == RT_TXN_COMMITTING) {
        order_one(t, b, RT_DECISION_ABORT, now);
        phase_two_over(t, now);
    }
}

static void order_answered(struct rt_txn *t, struct rt_branch *b, enum rt_reply reply, int64_t now)
{
    uint8_t stuck = b->stuck;
    assert(b->order != RT_DECISION_NONE);
    t->news |= rt_branch_answered(b, reply, now) ? RT_TXN_ATTENTION : 0;
    t->news |= b->stuck != RT_STUCK_NOT && b->stuck != stuck ? RT_TXN_STUCK : 0;
    b->checked = b->state == RT_BRANCH_CHECKING ? t->last_seq : b->checked;
    phase_two_over(t, now);
}

void rt_txn_answered(struct rt_txn *t, struct rt_branch *b, const struct rt_txn_answer *answer,
                     int64_t now)
{
    assert(answer->seq != 0 && answer->seq <= t->last_seq);
    if (b == NULL)
        journal_answered(t, answer, now);
    else if (!rt_retry_answered(&b->retry, answer->seq))
        return;
    else if (t->state == RT_TXN_ONE_PHASE)
        one_phase_answered(t, b, answer->reply, now);
    else if (b->state == RT_BRANCH_PREPARING)
        vote_answered(t, b, answer->reply, now);
    else
        order_answered(t, b, answer->reply, now);
}

/* ---- Time --------------------------------------------------------------- */

void rt_txn_back(struct rt_txn *t, uint32_t resource, int64_t now)
{
    assert(resource != RT_BRANCH_NO_RESOURCE);
    for (uint32_t i = 0; i < t->count; i++) {
        struct rt_branch *b = &t->branches[i];
        bool between_polls = b->state == RT_BRANCH_GATE && b->clear_at >= 0;
        if (b->resource == resource && !between_polls)
            rt_retry_soon(&b->retry, now);
    }
}

static bool has_deadline(const struct rt_txn *t)
{
    bool undecided = t->state == RT_TXN_ACTIVE || t->state == RT_TXN_PREPARING ||
                     t->state == RT_TXN_LOOKING;
    return undecided || (t->state == RT_TXN_DECIDING && t->want == RT_DECISION_COMMIT);
}

static bool has_limit(const struct rt_txn *t)
{
    return t->told == RT_OUTCOME_OPEN && t->limit_at != RT_TXN_NEVER;
}

/* Its caller waits no longer. What stands, or what nobody can write any more, is told; else it is not known (X5). */
static void over_limit(struct rt_txn *t, int64_t now)
{
    if (t->state == RT_TXN_PREPARING || t->state == RT_TXN_LOOKING) {
        give_up(t, now);
        return;
    }
    bool known = t->outcome != RT_OUTCOME_OPEN;
    enum rt_outcome guess = RT_BUG(RT_BUG_TXN_UNKNOWN_IS_ABORTED) ? RT_OUTCOME_ABORTED
                                                                  : RT_OUTCOME_UNKNOWN;
    tell(t, known ? (enum rt_outcome)t->outcome : guess);
}

void rt_txn_tick(struct rt_txn *t, int64_t now)
{
    assert(!t->adopted || t->deadline_at == RT_TXN_NEVER);
    if (has_deadline(t) && now >= t->deadline_at)
        give_up(t, now); /* of a COMMIT that is under way, and this, the first stands */
    if (has_limit(t) && now >= t->limit_at)
        over_limit(t, now);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t rt_txn_next(struct rt_txn *t)
{
    int64_t at = RT_TXN_NEVER;
    if (has_deadline(t))
        at = sooner(at, t->deadline_at);
    if (has_limit(t))
        at = sooner(at, t->limit_at);
    if (t->journal.seq == 0 && journal_next(t) != RT_TXN_BRANCH)
        at = sooner(at, t->journal.at);
    for (uint32_t i = 0; i < t->count; i++) {
        struct rt_branch *b = &t->branches[i];
        if (b->retry.seq == 0 && branch_next(t, b) != RT_BRANCH_NOTHING)
            at = sooner(at, b->retry.at);
    }
    return at;
}
