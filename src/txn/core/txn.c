/* SPDX-License-Identifier: Apache-2.0 */
/* A transaction: from its branches' votes to the one decision, and from that back to all of its branches. */
#include "txn/core/txn.h"

#include "base/bug.h"
#include "txn/core/ask.h"
#include "txn/core/reserve.h"
#include "txn/core/tally.h"

#include <assert.h>
#include <stddef.h>

#define BIT(state) (1u << (state))

/* The states from which each may be reached: the arrows of the diagram in txn.h. */
static const unsigned allowed_from[] = {
    [RT_TXN_ACTIVE] = 0,
    [RT_TXN_PREPARING] = BIT(RT_TXN_ACTIVE) | BIT(RT_TXN_LOOKING),
    [RT_TXN_LOOKING] = BIT(RT_TXN_DECIDING),
    [RT_TXN_ONE_PHASE] = BIT(RT_TXN_ACTIVE),
    [RT_TXN_VOUCHING] = BIT(RT_TXN_PREPARING),
    [RT_TXN_WAITING] = BIT(RT_TXN_PREPARING) | BIT(RT_TXN_VOUCHING),
    [RT_TXN_DECIDING] = BIT(RT_TXN_ACTIVE) | BIT(RT_TXN_PREPARING) | BIT(RT_TXN_LOOKING) |
                        BIT(RT_TXN_WAITING) | BIT(RT_TXN_VOUCHING),
    [RT_TXN_COMMITTING] = BIT(RT_TXN_ACTIVE) | BIT(RT_TXN_DECIDING) | BIT(RT_TXN_WAITING) |
                          BIT(RT_TXN_VOUCHING),
    [RT_TXN_ABORTING] = BIT(RT_TXN_ACTIVE) | BIT(RT_TXN_DECIDING) | BIT(RT_TXN_ONE_PHASE) |
                        BIT(RT_TXN_WAITING) | BIT(RT_TXN_VOUCHING),
    [RT_TXN_CLOSING] = BIT(RT_TXN_COMMITTING) | BIT(RT_TXN_ABORTING),
    [RT_TXN_ENDED] = BIT(RT_TXN_ACTIVE) | BIT(RT_TXN_PREPARING) | BIT(RT_TXN_ONE_PHASE) |
                     BIT(RT_TXN_COMMITTING) | BIT(RT_TXN_ABORTING) | BIT(RT_TXN_CLOSING),
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
        return; /* told already, or nobody asked */
    t->told = (uint8_t)what;
    t->news |= RT_TXN_ANSWERED;
}

/* The outcome is known. */
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

static void phase_two_over(struct rt_txn *t, int64_t now)
{
    if (t->state != RT_TXN_COMMITTING && t->state != RT_TXN_ABORTING)
        return;
    bool stuck_closes = RT_BUG(RT_BUG_TXN_CLOSES_STUCK) && t->count > 0 &&
                        t->branches[0].stuck == RT_STUCK_LOST;
    bool cancels_left = RT_BUG(RT_BUG_TXN_CLOSES_RESERVED) && t->state == RT_TXN_ABORTING &&
                        rt_reserve_any(t);
    if (!rt_tally_over(t) && !stuck_closes && !cancels_left)
        return;
    bool closes = !t->joined || RT_BUG(RT_BUG_TXN_CLOSES_OTHERS);
    if (!t->stands || !closes) {
        end(t); /* no row to close, or it is another's: a joined process knows only its own branches (X8) */
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
    b->due = (uint8_t)decision;
    if (b->order != RT_DECISION_NONE || b->retry.seq != 0)
        return; /* its vote is under way: order it then */
    b->either = t->outcome == RT_OUTCOME_EXPIRED;
    rt_branch_order(b, decision, now);
    /* A joined process leaves that to the others. What was registered and is done has ended; if it is forgotten, nobody
     * knows how. */
    bool over = t->over && !RT_BUG(RT_BUG_TXN_CANCELS_FORGOTTEN);
    if (b->service && (t->joined || over))
        b->state = RT_BRANCH_FINISHED;
    t->news |= b->stuck != RT_STUCK_NOT ? RT_TXN_STUCK : 0;
}

/* A branch that the standing decision does not list took part too late: it is rolled back. Without PARTS the list is
 * the one we asked for: all that are prepared. A joined process asks for none, and finishes only its own branches. */
static void commit_all(struct rt_txn *t, const struct rt_txn_part *parts, uint32_t n, int64_t now)
{
    assert(parts != NULL || !t->adopted);
    move(t, RT_TXN_COMMITTING);
    t->stands = true;
    for (uint32_t i = 0; !t->joined && i < n; i++)
        rt_txn_found(t, &parts[i]);
    for (uint32_t i = 0; i < t->count; i++) {
        struct rt_branch *b = &t->branches[i];
        bool is_list = parts != NULL || t->joined;
        bool part = is_list ? listed(parts, n, b->number) : b->state == RT_BRANCH_PREPARED;
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

/* It will not be committed: only the process that began it writes COMMIT. If that is another, it must learn of our
 * no. */
static void give_up(struct rt_txn *t, int64_t now)
{
    assert(!t->commit_sent || t->state == RT_TXN_DECIDING);
    bool certain = t->joined ? rt_tally_hopeless(t) : !t->commit_sent && !t->adopted;
    if (certain && t->outcome == RT_OUTCOME_OPEN)
        resolve(t, RT_OUTCOME_ABORTED);
    bool early = RT_BUG(RT_BUG_TXN_CANCELS_EARLY) && rt_reserve_any(t) && !t->joined;
    if (t->state == RT_TXN_ACTIVE && ((!t->sent && !t->shared && !t->adopted) || early)) {
        roll_back_all(t, now); /* nothing is prepared: nothing can be in doubt */
        return;
    }
    decide(t, RT_DECISION_ABORT, now);
}

/* It is committed without us: none of our branches was known to be registered. */
static bool is_late(const struct rt_txn *t, const struct rt_txn_answer *a)
{
    bool in = !t->joined || t->count == 0;
    for (uint32_t i = 0; i < t->count; i++)
        in = in || listed(a->parts, a->part_count, t->branches[i].number);
    return !in;
}

static void decided_commit(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    assert(t->outcome != RT_OUTCOME_ABORTED); /* told only if nobody could write COMMIT */
    if (t->outcome == RT_OUTCOME_OPEN)
        resolve(t, is_late(t, a) ? RT_OUTCOME_LATE : RT_OUTCOME_COMMITTED);
    commit_all(t, a->parts, a->part_count, now);
}

/* COMMIT was refused, and so will be every copy still on its way: the count only grows. */
static void others_joined(struct rt_txn *t, int64_t now)
{
    t->commit_sent = t->commit_lost = false;
    if (t->want == RT_DECISION_ABORT) { /* the deadline has passed meanwhile */
        give_up(t, now);
        return;
    }
    move(t, RT_TXN_LOOKING);
    rt_retry_soon(&t->journal, now);
}

/* It is known what stands, or that nothing ever will. */
static void stands_answered(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    bool commit = a->reply == RT_REPLY_STANDS && a->decision == RT_DECISION_COMMIT;
    assert(a->reply == RT_REPLY_STANDS || a->reply == RT_REPLY_BELOW);
    if (RT_BUG(RT_BUG_TXN_OWN_WISH) && a->reply == RT_REPLY_STANDS && !t->joined)
        commit = t->want == RT_DECISION_COMMIT;
    rt_retry_soon(&t->journal, now);
    t->over = a->reply == RT_REPLY_BELOW || a->done;
    if (commit) {
        decided_commit(t, a, now);
        return;
    }
    /* Below the floor a COMMIT may have stood, been done and been forgotten: what is not done is not forgotten (X9). */
    bool forgotten = a->reply == RT_REPLY_BELOW && (t->commit_lost || t->adopted || t->joined);
    if (RT_BUG(RT_BUG_TXN_EXPIRED_IS_ABORTED))
        forgotten = false;
    bool well = RT_BUG(RT_BUG_TXN_BELOW_IS_COMMITTED) && forgotten && t->joined;
    if (t->outcome == RT_OUTCOME_OPEN && well)
        resolve(t, RT_OUTCOME_COMMITTED);
    if (t->outcome == RT_OUTCOME_OPEN)
        resolve(t, forgotten ? RT_OUTCOME_EXPIRED : RT_OUTCOME_ABORTED);
    t->stands = a->reply == RT_REPLY_STANDS;
    for (uint32_t i = 0; !t->joined && !RT_BUG(RT_BUG_TXN_ABORT_NOT_READ) && i < a->part_count; i++)
        if (a->parts[i].service || a->parts[i].loose)
            rt_txn_found(t, &a->parts[i]);
    roll_back_all(t, now);
}

static void decide_answered(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
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
    stands_answered(t, a, now);
}

/* ---- In a joined process ------------------------------------------------ */

/* It was decided before a branch of ours could be registered. In a joined process nothing of ours is prepared or will
 * be, and services are left to the others. */
static void too_late(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    bool stands = a->reply == RT_REPLY_STANDS;
    assert(t->state == RT_TXN_ACTIVE);
    if (!t->joined) { /* somebody settled it: we know our branches, and learn the others */
        give_up(t, now);
        return;
    }
    enum rt_outcome aborted_or_late = a->decision == RT_DECISION_COMMIT ? RT_OUTCOME_LATE
                                                                        : RT_OUTCOME_ABORTED;
    resolve(t, stands ? aborted_or_late : RT_OUTCOME_EXPIRED);
    roll_back_all(t, now);
}

static void register_answered(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    if (t->state != RT_TXN_ACTIVE)
        return; /* given up meanwhile, and they have not begun */
    if (a->reply == RT_REPLY_STANDS || a->reply == RT_REPLY_BELOW) {
        too_late(t, a, now);
        return;
    }
    if (a->reply != RT_REPLY_OPEN) {
        t->news |= rt_retry_later(&t->journal, now) ? RT_TXN_ATTENTION : 0;
        return;
    }
    rt_retry_soon(&t->journal, now);
    for (uint32_t i = 0; i < t->count; i++) {
        struct rt_branch *b = &t->branches[i];
        t->registered += b->entering;
        if (b->entering && b->state == RT_BRANCH_JOINING) /* or RT_BUG_TXN_WORKS_UNREGISTERED */
            rt_branch_registered(b);
        b->entering = false;
    }
}

/* All is prepared: another process decides what becomes of it. */
static void wait_for_decision(struct rt_txn *t, int64_t now)
{
    move(t, RT_TXN_WAITING);
    t->pause = RT_TXN_LOOK_FIRST;
    rt_retry_soon(&t->journal, now);
    if (t->journal.seq == 0) /* always, except with RT_BUG_TXN_WORKS_UNREGISTERED */
        rt_retry_not_before(&t->journal, now + t->pause);
    if (t->votes)
        tell(t, RT_OUTCOME_PREPARED);
}

/* All said yes; for services, nobody else knows that. */
static void all_yes(struct rt_txn *t, int64_t now)
{
    assert(t->joined);
    if (!rt_reserve_any(t)) {
        wait_for_decision(t, now);
        return;
    }
    move(t, RT_TXN_VOUCHING);
    rt_retry_soon(&t->journal, now);
}

/* We looked in the journal for a decision. Silence means nothing: we promised. */
static void wait_answered(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    assert(t->state == RT_TXN_WAITING);
    if (a->reply == RT_REPLY_STANDS || a->reply == RT_REPLY_BELOW)
        stands_answered(t, a, now);
    else if (a->reply == RT_REPLY_OPEN) {
        rt_retry_soon(&t->journal, now);
        t->pause = t->pause * 2 < RT_TXN_LOOK_MOST ? t->pause * 2 : RT_TXN_LOOK_MOST;
        rt_retry_not_before(&t->journal, now + t->pause);
    } else
        t->news |= rt_retry_later(&t->journal, now) ? RT_TXN_ATTENTION : 0;
}

static void vouch_answered(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    if (t->state != RT_TXN_VOUCHING)
        return; /* it was given up meanwhile */
    if (a->reply == RT_REPLY_STANDS || a->reply == RT_REPLY_BELOW)
        stands_answered(t, a, now);
    else if (a->reply == RT_REPLY_OPEN)
        wait_for_decision(t, now);
    else
        t->news |= rt_retry_later(&t->journal, now) ? RT_TXN_ATTENTION : 0;
}

/* Nobody has decided, long after the deadline: anybody may, and so may we. */
static void waited_enough(struct rt_txn *t, int64_t now)
{
    assert(t->state == RT_TXN_WAITING);
    if (RT_BUG(RT_BUG_TXN_SILENCE_IS_ABORT)) {
        resolve(t, RT_OUTCOME_ABORTED);
        roll_back_all(t, now);
        return;
    }
    decide(t, RT_DECISION_ABORT, now);
}

/* ---- Votes -------------------------------------------------------------- */

/* Gives up at the first no; otherwise goes on once all have voted. */
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
    else if (t->joined)
        all_yes(t, now);
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

/* Its branch left no marker, and can no longer leave one. Markers are deleted only below the floor: above it there was
 * none. */
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

/* Nothing is decided; A lists all registered branches. Those we do not have are elsewhere. */
static void joined_answered(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    assert(t->state == RT_TXN_LOOKING);
    if (a->reply == RT_REPLY_LOST) {
        t->news |= rt_retry_later(&t->journal, now) ? RT_TXN_ATTENTION : 0;
        return;
    }
    rt_retry_soon(&t->journal, now);
    if (a->reply != RT_REPLY_OPEN) { /* somebody has decided: DECIDE tells what */
        decide(t, RT_DECISION_ABORT, now);
        return;
    }
    for (uint32_t i = 0; i < a->part_count; i++) {
        uint32_t before = t->count;
        rt_txn_found(t, &a->parts[i]);
        if (t->count == before)
            continue;
        t->branches[before].elsewhere = true;
        if (a->parts[i].service)
            rt_reserve_found(&t->branches[before], a->parts[i].vouched);
    }
    t->registered = a->registered;
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

void rt_txn_join(struct rt_txn *t, const struct rt_txn_id *id, int64_t deadline_ms,
                 int64_t deadline_at, int64_t settle_at, struct rt_branch *branches, uint32_t room)
{
    assert(settle_at >= deadline_at);
    rt_txn_begin(t, id, deadline_ms, deadline_at, branches, room);
    t->settle_at = settle_at;
    t->joined = t->shared = true;
}

struct rt_branch *rt_txn_add(struct rt_txn *t, uint32_t number, uint32_t resource, bool gated)
{
    assert(t->count < t->room && t->state == RT_TXN_ACTIVE && !t->adopted);
    struct rt_branch *b = &t->branches[t->count++];
    rt_branch_init(b, number, resource, gated);
    b->own = true;
    if (t->joined)
        b->state = RT_BRANCH_JOINING;
    return b;
}

/* A caller asks, and is answered by LIMIT_AT: once; in a joined transaction, once for its vote and once for its end. */
static void asks(struct rt_txn *t, bool waits, int64_t limit_at)
{
    assert(!t->adopted && limit_at != RT_TXN_NEVER);
    assert(t->limit_at == RT_TXN_NEVER || (t->votes && t->told != RT_OUTCOME_OPEN));
    t->limit_at = limit_at;
    t->waits = waits;
    t->votes = false;
    t->told = RT_OUTCOME_OPEN;
}

/* It moved on before the call came: its deadline passed, or it had voted. What is known is told. */
static void asks_later(struct rt_txn *t)
{
    bool finishing = t->waits && t->state == RT_TXN_COMMITTING;
    assert(t->state != RT_TXN_ACTIVE);
    if (t->outcome != RT_OUTCOME_OPEN && !finishing)
        tell(t, (enum rt_outcome)t->outcome);
}

static void vote(struct rt_txn *t, int64_t now)
{
    if (now >= t->deadline_at || rt_tally_failed(t)) {
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

void rt_txn_commit(struct rt_txn *t, bool waits, int64_t limit_at, int64_t now)
{
    asks(t, waits, limit_at);
    if (t->state == RT_TXN_ACTIVE)
        vote(t, now);
    else
        asks_later(t);
}

void rt_txn_vote(struct rt_txn *t, int64_t limit_at, int64_t now)
{
    assert(t->joined);
    asks(t, false, limit_at);
    t->votes = true;
    if (t->state == RT_TXN_ACTIVE)
        vote(t, now);
    else
        asks_later(t);
}

void rt_txn_abort(struct rt_txn *t, int64_t limit_at, int64_t now)
{
    asks(t, false, limit_at);
    if (t->state == RT_TXN_ACTIVE) {
        give_up(t, now);
        return;
    }
    if (t->state == RT_TXN_WAITING)
        decide(t, RT_DECISION_ABORT, now); /* anybody may; what stands is told */
    asks_later(t);
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
        if (t->branches[i].number == part->number) {
            t->branches[i].loose = t->branches[i].loose || part->loose;
            return;
        }
    assert(t->count < t->room);
    struct rt_branch *b = &t->branches[t->count++];
    rt_branch_init(b, part->number, part->resource, part->gated);
    b->service = part->service;
    b->loose = part->loose;
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
        out[n++] = (struct rt_txn_part){b->number, b->resource, b->gated, b->service, false, false};
    }
    return n;
}

bool rt_txn_todo(struct rt_txn *t, struct rt_txn_todo *todo, int64_t now)
{
    enum rt_txn_op op = rt_ask_journal_next(t);
    if (op != RT_TXN_BRANCH && t->journal.seq == 0 && rt_ask_journal_at(t) <= now) {
        rt_ask_journal(t, op, todo);
        if (RT_BUG(RT_BUG_TXN_NOT_DURABLE) && todo->decision == RT_DECISION_COMMIT)
            commit_all(t, NULL, 0, now);
        return true;
    }
    for (uint32_t i = 0; i < t->count; i++) {
        struct rt_branch *b = &t->branches[i];
        if (!rt_retry_may(&b->retry, now))
            continue;
        enum rt_branch_op what = rt_ask_branch_next(t, b);
        if (what == RT_BRANCH_NOTHING)
            continue;
        rt_ask_branch(t, b, what, todo);
        return true;
    }
    return false;
}

/* ---- Answers ------------------------------------------------------------ */

/* We looked in the journal for branches that their participants do not have, or that somebody may have finished. */
static void look_answered(struct rt_txn *t, const struct rt_txn_answer *a, int64_t now)
{
    if (t->state == RT_TXN_LOOKING) {
        joined_answered(t, a, now);
        return;
    }
    if (t->state == RT_TXN_WAITING) {
        wait_answered(t, a, now);
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
        bool was_stuck = b->stuck != RT_STUCK_NOT;
        rt_branch_checked(b, done, a->seq, now);
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
    else if (t->asked == RT_TXN_REGISTER)
        register_answered(t, a, now);
    else if (t->asked == RT_TXN_VOUCH)
        vouch_answered(t, a, now);
    else if (a->reply == RT_REPLY_DONE)
        end(t);
    else
        t->news |= rt_retry_later(&t->journal, now) ? RT_TXN_ATTENTION : 0;
}

/* A vote that comes after the decision is known: the vote tells the branch's state, the decision how it ends. The
 * branch was given up, so that is a rollback; but the decider may have found a joined process's branch prepared, and
 * then it is committed. */
static void vote_answered(struct rt_txn *t, struct rt_branch *b, enum rt_reply reply, int64_t now)
{
    rt_branch_voted(b, reply);
    if (b->state == RT_BRANCH_ACTIVE) /* it is asked again */
        t->news |= rt_retry_later(&b->retry, now) ? RT_TXN_ATTENTION : 0;
    if (t->state == RT_TXN_PREPARING)
        count_votes(t, now);
    else if (t->state == RT_TXN_ABORTING || t->state == RT_TXN_COMMITTING) {
        bool rolled = RT_BUG(RT_BUG_TXN_LATE_VOTE_ROLLED);
        order_one(t, b, rolled ? RT_DECISION_ABORT : (enum rt_decision)b->due, now);
        phase_two_over(t, now);
    }
}

static void order_answered(struct rt_txn *t, struct rt_branch *b, enum rt_reply reply, int64_t now)
{
    uint8_t stuck = b->stuck;
    assert(b->order != RT_DECISION_NONE);
    t->news |= rt_branch_answered(b, reply, now) ? RT_TXN_ATTENTION : 0;
    t->news |= b->stuck != RT_STUCK_NOT && b->stuck != stuck ? RT_TXN_STUCK : 0;
    b->checked = b->state == RT_BRANCH_CHECKING || b->look ? t->last_seq : b->checked;
    if (t->ordered && b->service && rt_branch_is_over(b))
        rt_reserve_look(t); /* that may have taken long */
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
                     t->state == RT_TXN_LOOKING || t->state == RT_TXN_VOUCHING;
    return undecided || (t->state == RT_TXN_DECIDING && t->want == RT_DECISION_COMMIT);
}

static bool has_limit(const struct rt_txn *t)
{
    return t->told == RT_OUTCOME_OPEN && t->limit_at != RT_TXN_NEVER;
}

/* Its caller waits no longer. It is told what stands, or what nobody can write any more; else UNKNOWN (X5). */
static void over_limit(struct rt_txn *t, int64_t now)
{
    if (t->state == RT_TXN_PREPARING || t->state == RT_TXN_LOOKING)
        give_up(t, now); /* this tells, if it is certain */
    bool known = t->outcome != RT_OUTCOME_OPEN;
    enum rt_outcome guess = RT_BUG(RT_BUG_TXN_UNKNOWN_IS_ABORTED) ? RT_OUTCOME_ABORTED
                                                                  : RT_OUTCOME_UNKNOWN;
    tell(t, known ? (enum rt_outcome)t->outcome : guess);
}

void rt_txn_tick(struct rt_txn *t, int64_t now)
{
    assert(!t->adopted || t->deadline_at == RT_TXN_NEVER);
    if (has_deadline(t) && now >= t->deadline_at)
        give_up(t, now); /* if a COMMIT is under way, whichever is first stands */
    if (t->state == RT_TXN_WAITING && now >= t->settle_at)
        waited_enough(t, now);
    if (has_limit(t) && now >= t->limit_at)
        over_limit(t, now);
}

void rt_txn_hurry(struct rt_txn *t, int64_t now)
{
    if (has_limit(t))
        over_limit(t, now);
    assert(!has_limit(t) || t->adopted);
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
    if (t->state == RT_TXN_WAITING)
        at = sooner(at, t->settle_at);
    if (has_limit(t))
        at = sooner(at, t->limit_at);
    if (t->journal.seq == 0 && rt_ask_journal_next(t) != RT_TXN_BRANCH)
        at = sooner(at, rt_ask_journal_at(t));
    for (uint32_t i = 0; i < t->count; i++) {
        struct rt_branch *b = &t->branches[i];
        if (b->retry.seq == 0 && rt_ask_branch_next(t, b) != RT_BRANCH_NOTHING)
            at = sooner(at, b->retry.at);
    }
    return at;
}
