/* SPDX-License-Identifier: Apache-2.0 */
/* One transaction: asks what its core wants asked, tells it the answers, and tells whoever waits. */
#include "txn/manager/tcc.h"

#include "base/bug.h"
#include "txn/point.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct rt_branch *rt_drive_core(struct rota_branch *b)
{
    assert(b->index < b->txn->core.count);
    return &b->txn->core.branches[b->index];
}

static int64_t now_of(struct rota_txn *t)
{
    return rt_loop_now(&t->m->loop);
}

int64_t rt_drive_soon(const struct rota_txn *t)
{
    return rt_loop_now(&t->m->loop) + t->m->opts.call_ms * RT_MS;
}

/* ---- What a person reads ------------------------------------------------------ */

/* The first reason counts: its consequences say less. */
void rt_drive_blame(struct rota_txn *t, const struct rota_branch *b, const char *line)
{
    if (t->line != NULL)
        return;
    if (b != NULL)
        rt_entry_say(&t->line, "%.50s: %.200s", b->name, line);
    else
        rt_entry_say(&t->line, "%s", line);
}

static const char *stuck_line(const struct rt_branch *core)
{
    switch (core->stuck) {
    case RT_STUCK_NO_RESOURCE:
        return "this machine has no URL for it: add NAME = URL to ~/.config/rota/txn or /etc/rota/txn";
    case RT_STUCK_LOST:
        return "decided COMMIT, but the participant has neither the branch nor its marker: see rota txn show";
    case RT_STUCK_MIXED:
        return "decided ABORT, but the participant has committed it: see rota txn show";
    case RT_STUCK_CONFIRM_REFUSED:
        return "decided COMMIT, but the service refuses to confirm: fix it there, or do it by hand and rota txn resolve --done";
    case RT_STUCK_CANCEL_REFUSED:
        return "decided ABORT, but the service refuses to cancel: fix it there, or do it by hand and rota txn resolve --done";
    case RT_STUCK_REFUSED:
        return "the participant refuses to finish it: see rota txn show";
    default:
        return "it has been asked many times and does not answer";
    }
}

static void call_attention(struct rota_txn *t)
{
    for (uint32_t i = 0; i < t->core.count; i++) {
        const struct rt_branch *core = &t->core.branches[i];
        bool tried = core->retry.tries >= RT_RETRY_ATTENTION;
        if (!rt_branch_is_over(core) && (core->stuck != RT_STUCK_NOT || tried))
            rt_txns_notice(t->m, &t->core.id, t->branches[i]->name, rt_drive_stuck(t, i));
    }
    if (t->core.journal.tries >= RT_RETRY_ATTENTION)
        rt_txns_notice(t->m, &t->core.id, "journal", t->m->journal->base.errmsg);
}

void rt_drive_answer(struct rota_branch *b, uint32_t seq, enum rt_reply reply)
{
    struct rt_txn_answer a = {.seq = seq, .reply = reply};
    rt_txn_answered(&b->txn->core, rt_drive_core(b), &a, now_of(b->txn));
}

/* ---- A connection of our own ------------------------------------------------------ */

/* A right, a setting or a URL is wrong: we ask again, but that mends nothing. */
static bool needs_person(const struct rt_errand *e)
{
    return e->op.reply == RT_REPLY_REFUSED &&
           (e->op.err == ROTA_AUTH || e->op.err == ROTA_UNSUPPORTED || e->op.err == ROTA_INVALID);
}

/* At once, not only with the tenth try: whoever looks why it is not finished finds this. */
static void log_refusal(const struct rota_branch *b, const char *line)
{
    char id[RT_TXN_ID_TEXT];

    rt_txn_id_text(&b->txn->core.id, id);
    rt_txns_log(b->txn->m, ROTA_LOG_WARN, "transaction %s, %s", id,
                line); /* the line begins with the resource */
}

void rt_drive_back(struct rt_asker *a, struct rt_errand *e)
{
    struct rota_branch *b = (struct rota_branch *)(void *)a;
    uint32_t seq = b->errand_seq;

    assert(seq != 0);
    b->errand_seq = 0;
    if (needs_person(e) && (b->line == NULL || strcmp(b->line, e->errmsg) != 0))
        log_refusal(b, e->errmsg);
    if (e->op.err != 0)
        rt_entry_say(&b->line, "%s", e->errmsg);
    if (rt_drive_core(b)->state == RT_BRANCH_PREPARING && e->op.reply == RT_REPLY_ABSENT)
        rt_drive_blame(b->txn, b, "it was joined there, but is not prepared");
    rt_drive_answer(b, seq, e->op.reply);
    rt_txns_due(b->txn);
}

static void ask_errand(struct rota_branch *b, enum rt_party_what what, bool fence, uint32_t seq)
{
    struct rota_txn *t = b->txn;
    struct rt_errand *e = &b->bond->errand;

    if (b->resource == NULL)
        b->resource = rt_resources_find(t->m->resources, b->name);
    if (b->resource == NULL) {
        rt_entry_say(
            &b->line,
            "no URL is known here for resource %.60s: add '%.60s = URL' to ~/.config/rota/txn",
            b->name, b->name);
        if (rt_drive_core(b)->state == RT_BRANCH_PREPARING)
            rt_drive_blame(t, NULL, b->line); /* a joined process may be prepared there, or not */
        rt_drive_answer(b, seq, RT_REPLY_REFUSED);
        return;
    }
    const struct rt_part before = e->part; /* what GATE saw, and on which connection */
    e->part = b->bond->part;
    e->part.by = NULL;
    e->part.clear = before.clear;
    if (b->bond->part.connection ==
        0) /* nobody listed it: it was joined, or the journal names it */
        e->part.connection = before.connection;
    e->op = (struct rt_party_op){.what = what, .deadline = rt_drive_soon(t)};
    e->op.flags = fence ? RT_PARTY_FENCE : 0;
    (void)rt_place_read(b->bond->payload, b->bond->payload_size, &e->place);
    b->errand_seq = seq;
    if (rt_txns_send(t->m, b->resource, e) == 0)
        return;
    b->errand_seq = 0;
    rt_drive_answer(b, seq, RT_REPLY_LOST);
}

static enum rt_party_what what_of(enum rt_branch_op op)
{
    static const enum rt_party_what what[] = {
        [RT_BRANCH_PREPARE] = RT_PARTY_PREPARE, [RT_BRANCH_ONE_PHASE] = RT_PARTY_ONE_PHASE,
        [RT_BRANCH_COMMIT] = RT_PARTY_COMMIT,   [RT_BRANCH_ROLLBACK] = RT_PARTY_ROLLBACK,
        [RT_BRANCH_ASK] = RT_PARTY_ASK,         [RT_BRANCH_GATED] = RT_PARTY_GATE,
    };
    return what[op];
}

static void ask_branch(struct rota_txn *t, const struct rt_txn_todo *todo)
{
    struct rota_branch *b = t->branches[todo->branch - t->core.branches];
    bool votes = todo->op == RT_BRANCH_PREPARE || todo->op == RT_BRANCH_ONE_PHASE;
    bool orders = todo->op == RT_BRANCH_COMMIT || todo->op == RT_BRANCH_ROLLBACK;

    assert(b->op_seq == 0 && b->errand_seq == 0);
    if (todo->branch->service) {
        rt_tcc_ask(b, todo->op, todo->seq);
        return;
    }
    /* It voted no, and that rolled it back: there is nothing left to ask about. */
    bool over = b->seat != NULL && b->bond->part.by == NULL && !b->bond->part.prepared;
    if (todo->op == RT_BRANCH_ROLLBACK && todo->own && over)
        rt_drive_answer(b, todo->seq, RT_REPLY_DONE);
    else if (b->seat != NULL && (votes || (orders && todo->own)))
        rt_lent_ask(b, what_of(todo->op), todo->seq);
    else if (votes) /* its connection was given back: it was never prepared */
        rt_drive_answer(b, todo->seq, RT_REPLY_NO);
    else
        ask_errand(b, what_of(todo->op), todo->fence, todo->seq);
}

/* ---- Whoever waits -------------------------------------------------------------------- */

/* A lent connection that is still needed: its order is to come, or is under way. */
static bool lent_for(const struct rota_branch *b, const struct rt_branch *core)
{
    if (b->seat == NULL)
        return false;
    if (b->op_seq != 0)
        return true;
    bool answered = core->order != RT_DECISION_NONE &&
                    (core->state != RT_BRANCH_ORDERED || core->stuck != RT_STUCK_NOT);
    return core->own && !rt_branch_is_over(core) && !answered;
}

/* Its caller waits for all branches, and longer than it wanted to. NULL: all are over, or it does not wait. */
static const struct rota_branch *unfinished(const struct rota_txn *t)
{
    for (uint32_t i = 0; t->core.waits && i < t->core.count; i++)
        if (!rt_branch_is_over(&t->core.branches[i]))
            return t->branches[i];
    return NULL;
}

static int err_of(const struct rota_txn *t)
{
    switch (t->core.told) {
    case RT_OUTCOME_COMMITTED:
        return unfinished(t) != NULL ? ROTA_UNFINISHED : 0;
    case RT_OUTCOME_ABORTED:
        return t->aborts ? 0 : ROTA_ABORTED;
    case RT_OUTCOME_LATE: /* nothing of ours stays */
        return ROTA_ABORTED;
    default:
        return RT_BUG(RT_BUG_MANAGER_UNKNOWN_IS_COMMITTED) ? 0 : ROTA_UNKNOWN;
    }
}

static const char *line_of(struct rota_txn *t)
{
    const struct rota_branch *left = unfinished(t);

    if (t->core.told == RT_OUTCOME_COMMITTED && left != NULL)
        rt_entry_say(&t->line, "committed, but %.50s is not finished yet: %.150s", left->name,
                     left->line != NULL ? left->line : "it does not answer");
    if (t->core.told == RT_OUTCOME_COMMITTED)
        return left != NULL && t->line != NULL ? t->line : "";
    if (t->core.told == RT_OUTCOME_UNKNOWN && t->core.state == RT_TXN_ONE_PHASE)
        return "its only database did not answer COMMIT in time, and it alone knows how it ended: "
               "look there";
    if (t->core.told == RT_OUTCOME_UNKNOWN)
        return t->refusal != NULL
                   ? t->refusal
                   : "the journal did not answer in time: ask rota_txn_outcome how it ended";
    if (t->core.told == RT_OUTCOME_EXPIRED)
        return "it is older than what the journal keeps: nobody knows how it ended";
    if (t->core.told == RT_OUTCOME_LATE)
        return "it was committed before this branch was registered: nothing of this branch remains";
    return t->line != NULL ? t->line : "its deadline has passed";
}

/* The connections stay lent: the decision is carried out on them. */
static void answer_vote(struct rota_txn *t)
{
    struct rt_caller *call = t->call;
    bool yes = t->core.told == RT_OUTCOME_PREPARED || t->core.told == RT_OUTCOME_COMMITTED;

    t->votes = false;
    t->call = NULL;
    rt_txns_answer(t->m, call, yes ? 0 : err_of(t), line_of(t));
}

static void answer_caller(struct rota_txn *t)
{
    bool over = now_of(t) >= t->free_by, unknown = t->core.told == RT_OUTCOME_UNKNOWN;

    if (t->life != RT_LIFE_LENT || t->core.told == RT_OUTCOME_OPEN)
        return;
    if (t->votes) {
        answer_vote(t);
        return;
    }
    if (t->call == NULL && !t->abandoned)
        return; /* it has voted, and nobody has asked for its end yet */
    if (t->free_by == RT_NEVER)
        t->free_by = rt_drive_soon(t);
    for (uint32_t i = 0; i < t->core.count; i++)
        if (lent_for(t->branches[i], &t->core.branches[i]) &&
            (t->branches[i]->op_seq != 0 || !(over || unknown)))
            return;
    for (uint32_t i = 0; i < t->core.count; i++)
        if (t->branches[i]->seat != NULL)
            rt_lent_give_back(t->branches[i]);
    struct rt_caller *call = t->call;
    t->call = NULL;
    t->free_by = RT_NEVER;
    t->life = RT_LIFE_ALONE;
    rt_point("told");
    if (call != NULL)
        rt_txns_answer(t->m, call, err_of(t), line_of(t));
}

static bool may_go(const struct rota_txn *t)
{
    bool busy = t->core.state != RT_TXN_ENDED || t->life != RT_LIFE_ALONE || t->op_seq != 0 ||
                t->begins != NULL;
    for (uint32_t i = 0; i < t->core.count; i++) {
        const struct rota_branch *b = t->branches[i];
        busy = busy || b->op_seq != 0 || b->errand_seq != 0 || b->seat != NULL || b->ask_seq != 0;
    }
    return !busy;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Ends ops on lent connections whose time is over; returns when the next one's is. */
static int64_t look_at_clocks(struct rota_txn *t)
{
    int64_t next = t->free_by;

    for (uint32_t i = 0; i < t->core.count; i++)
        next = sooner(next, rt_lent_clock(t->branches[i]));
    for (struct rota_branch *b = t->begins, *after; b != NULL; b = after) {
        after = b->next_begin;
        next = sooner(next, rt_lent_clock(b));
    }
    return next;
}

static void go_on(struct rota_txn *t)
{
    struct rt_txn_todo todo;
    int64_t now = now_of(t);

    rt_txn_tick(&t->core, now);
    while (rt_txn_todo(&t->core, &todo, now))
        if (todo.to == RT_TXN_BRANCH)
            ask_branch(t, &todo);
        else
            rt_decision_ask(t, &todo);
}

/* Branches that are to begin on the keeper's thread: they are attached; if the transaction is joined, registered;
 * begun. */
static void begin_some(struct rota_txn *t)
{
    for (struct rota_branch *b = t->begins, *after; b != NULL; b = after) {
        after = b->next_begin;
        if (b->op_seq == 0)
            rt_xa_go_on(b);
    }
}

/* For one that its application holds: only connections that begin are touched, and time affects only a branch that is
 * to be registered. */
static void go_on_held(struct rota_txn *t)
{
    struct rt_txn_todo todo;

    while (t->core.state == RT_TXN_ACTIVE && rt_txn_todo(&t->core, &todo, now_of(t)))
        rt_decision_ask(t, &todo);
    begin_some(t);
    rt_tcc_go(t);
    int64_t next = sooner(look_at_clocks(t), rt_tcc_next(t));
    if (t->core.joined && t->core.state == RT_TXN_ACTIVE && t->core.journal.seq == 0 &&
        t->begins != NULL)
        next = sooner(next, rt_txn_next(&t->core));
    for (const struct rota_branch *b = t->begins; b != NULL; b = b->next_begin)
        next = sooner(next, b->begin_by);
    rt_timers_at(&t->m->loop.timers, &t->timer.timer, next);
}

void rt_drive_go(struct rota_txn *t)
{
    if (t->life == RT_LIFE_HELD) {
        go_on_held(t);
        return;
    }
    begin_some(t); /* only if it was abandoned meanwhile */
    rt_tcc_go(t);
    (void)look_at_clocks(t);
    if (t->begins == NULL) /* else its connection is busy until that ends or times out */
        go_on(t);
    int64_t next = look_at_clocks(t);
    if ((rt_txn_news(&t->core) & (RT_TXN_ATTENTION | RT_TXN_STUCK)) != 0)
        call_attention(t);
    answer_caller(t);
    if (may_go(t)) {
        if (t->core.adopted)
            rt_point("recover-settled");
        if (t->abandoned)
            rt_entry_lay_aside(t);
        else
            rt_entry_free(t);
        return;
    }
    next = sooner(next, t->free_by);
    if (t->begins == NULL)
        next = sooner(next, rt_txn_next(&t->core));
    rt_timers_at(&t->m->loop.timers, &t->timer.timer, next);
}

const char *rt_drive_stuck(const struct rota_txn *t, uint32_t i)
{
    const char *line = t->branches[i]->line;
    return line != NULL ? line : stuck_line(&t->core.branches[i]);
}

void rt_drive_abandon(struct rota_txn *t)
{
    int64_t now = rt_loop_clock();

    if (t->life != RT_LIFE_HELD)
        return;
    t->life = RT_LIFE_LENT;
    t->aborts = t->abandoned = true;
    rt_txn_abort(&t->core, now + t->m->opts.call_ms * RT_MS, now);
    rt_txns_due(t);
}

static void drop_begins(struct rota_txn *t)
{
    while (t->begins != NULL) {
        struct rota_branch *b = t->begins;
        t->begins = b->next_begin;
        b->seat->party->dead = true; /* its op is given up */
        b->op_seq = 0;
        rt_lent_unwatch(b);
        rt_seat_cut(b->seat);
        rt_seat_leave(t->m, b->seat);
        b->seat = NULL;
        struct rt_caller *call = b->begins;
        b->begins = NULL;
        rt_txns_answer(t->m, call, ROTA_ABORTED, "the manager was closed before the branch began");
        if (!b->added)
            rt_entry_free_branch(b);
    }
}

void rt_drive_drop(struct rota_txn *t)
{
    drop_begins(t);
    for (uint32_t i = 0; i < t->core.count; i++) {
        struct rota_branch *b = t->branches[i];
        if (b->seat == NULL)
            continue;
        if (b->op_seq != 0)
            b->seat->party->dead = true;
        b->op_seq = 0;
        rt_lent_give_back(b);
    }
}

void rt_drive_leave(struct rota_txn *t)
{
    struct rt_caller *call = t->call;

    if (call != NULL)
        rt_drive_blame(t, NULL, "the manager was closed before it was decided");
    rt_txn_hurry(&t->core, now_of(t));
    rt_tcc_leave(t);
    rt_drive_drop(t);
    if (call != NULL && t->votes) {
        answer_vote(t);
    } else if (call != NULL) {
        t->call = NULL;
        rt_txns_answer(t->m, call, err_of(t), line_of(t));
    }
}
