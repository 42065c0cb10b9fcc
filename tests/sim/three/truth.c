/* SPDX-License-Identifier: Apache-2.0 */
/* What is durable: the journal, rows and branches; and the invariants that are asserted on them. */
#include "sim/three/three.h"

#include "base/bug.h"

#include <assert.h>

static bool is_strict(const struct th_world *w)
{
    return w->rules != TH_COMMIT;
}

/* ---- A branch at its database ------------------------------------------------ */

static void end_branch(struct th_world *w, uint32_t fact, uint32_t part, enum th_db how)
{
    struct th_fact *f = &w->facts[fact];
    struct th_part *p = &f->parts[part];
    if (p->db == TH_PREPARED && !w->healing) {
        uint64_t ms = (uint64_t)((w->now - p->prepared_at) / TH_MS);
        th_counts.held++;
        th_counts.held_ms += ms;
        th_counts.held_most_ms = ms > th_counts.held_most_ms ? ms : th_counts.held_most_ms;
    }
    p->db = (uint8_t)how;
    TH_TRACE(w, "t%u at p%u: %s", fact, part + 1,
             how == TH_COMMITTED ? "COMMITTED" : "rolled back");
    if (is_strict(w) && how == TH_COMMITTED && f->stands != RT_DECISION_COMMIT)
        th_violated("H3", "t%u commits at p%u, and COMMIT does not stand", fact, part + 1);
    if (is_strict(w) && how == TH_ROLLED && p->answered && f->stands == RT_DECISION_COMMIT)
        th_violated("H3", "t%u is rolled back at p%u, and COMMIT stands", fact, part + 1);
}

static enum rt_reply order(struct th_world *w, uint32_t fact, uint32_t part, bool commit)
{
    struct th_part *p = &w->facts[fact].parts[part];
    if (p->db == TH_COMMITTED)
        return RT_REPLY_COMMITTED;
    if (p->db == TH_ROLLED || (p->db == TH_NOTHING && commit))
        return RT_REPLY_ABSENT;
    end_branch(w, fact, part, commit ? TH_COMMITTED : TH_ROLLED); /* a fence if nothing is there */
    return RT_REPLY_DONE;
}

static enum rt_reply work(struct th_world *w, uint32_t fact, uint32_t part)
{
    struct th_part *p = &w->facts[fact].parts[part];
    if (p->db != TH_NOTHING || th_strikes(w, w->plan.failed))
        return RT_REPLY_NO;
    p->db = TH_PREPARED;
    p->prepared_at = w->now;
    TH_TRACE(w, "t%u is prepared at p%u", fact, part + 1);
    return RT_REPLY_YES;
}

static enum rt_reply look(const struct th_part *p)
{
    return p->db == TH_PREPARED    ? RT_REPLY_PREPARED
           : p->db == TH_COMMITTED ? RT_REPLY_COMMITTED
                                   : RT_REPLY_ABSENT;
}

void th_effect(struct th_world *w, const struct th_event *e)
{
    uint32_t part = e->to - 1u;
    struct th_part *p = &w->facts[e->fact].parts[part];
    struct th_event did = *e;
    did.kind = TH_EV_DID;
    did.at = w->now + th_delay(w);
    did.reply = RT_REPLY_DONE;
    switch ((enum rt_participant_op)e->op) {
    case RT_PARTICIPANT_WRITE:
        if (e->gen != w->nodes[e->to].gen)
            return; /* of an earlier life: the epoch has changed */
        p->row = e->row;
        p->been |= UINT32_C(1) << e->row.stand.stance;
        break;
    case RT_PARTICIPANT_WORK:
        did.reply = (uint8_t)work(w, e->fact, part);
        break;
    case RT_PARTICIPANT_LOOK:
        did.reply = (uint8_t)look(p);
        break;
    default:
        did.reply = (uint8_t)order(w, e->fact, part, e->op == RT_PARTICIPANT_COMMIT);
    }
    if (th_strikes(w, w->plan.lost / 2)) {
        did.reply = RT_REPLY_LOST;
        did.at += w->plan.call_ms * TH_MS;
    }
    th_post(w, &did);
}

/* ---- The journal ------------------------------------------------------------- */

static enum rt_decision insert(struct th_world *w, uint32_t fact, enum rt_decision decision)
{
    struct th_fact *f = &w->facts[fact];
    if (f->stands == RT_DECISION_NONE) {
        f->stands = (uint8_t)decision;
        TH_TRACE(w, "the journal has t%u: %s", fact,
                 decision == RT_DECISION_COMMIT ? "COMMIT" : "ABORT");
    }
    return (enum rt_decision)f->stands;
}

/* Nothing is closed that has ended in two ways: H5 of a coordinator, H8 of recovery. */
static void finish(struct th_world *w, uint32_t fact, const char *rule)
{
    struct th_fact *f = &w->facts[fact];
    bool commit = f->stands == RT_DECISION_COMMIT;
    for (uint32_t i = 0; i < w->plan.parts; i++) {
        if (f->parts[i].db == TH_PREPARED)
            th_violated("H6", "t%u is closed, and prepared at p%u", fact, i + 1);
        if (commit ? f->parts[i].db != TH_COMMITTED : f->parts[i].db == TH_COMMITTED)
            th_violated(rule, "t%u is closed, and p%u has ended otherwise", fact, i + 1);
    }
    f->done = true;
}

void th_journal(struct th_world *w, const struct th_event *e)
{
    struct th_event answer = *e;
    if (w->journal_down_until > w->now)
        return;
    answer.kind = TH_EV_WROTE;
    answer.lost = false;
    answer.reply = RT_REPLY_STANDS;
    if (e->op == RT_COORDINATOR_DECIDE)
        answer.decision = (uint8_t)insert(w, e->fact, (enum rt_decision)e->decision);
    else if (e->op == RT_COORDINATOR_REGISTER) {
        struct th_fact *f = &w->facts[e->fact];
        f->registered = f->registered || f->stands == RT_DECISION_NONE;
        answer.decision = f->stands;
        answer.reply = f->stands == RT_DECISION_NONE ? RT_REPLY_OPEN : RT_REPLY_STANDS;
    } else {
        finish(w, e->fact, "H5");
        answer.reply = RT_REPLY_DONE;
    }
    answer.at = w->now + th_delay(w);
    if (!th_strikes(w, w->plan.lost))
        th_post(w, &answer);
}

/* ---- Recovery: it lists what is prepared and reads what is registered, decides ABORT where nothing stands, ends it as
 * decided, and closes it, or calls a person ---------------------------------------------------------------------- */

/* Recovery has to deal with this branch: it is prepared, or the journal lists it. */
static bool is_known(const struct th_fact *f, uint32_t part)
{
    bool reads = f->registered && !RT_BUG(RT_BUG_THREE_ABORT_NOT_READ);
    return f->parts[part].db == TH_PREPARED || f->stands == RT_DECISION_COMMIT || reads;
}

/* As in MariaDB: whoever prepared it has it, until it dies or lets go. */
static bool is_held(const struct th_world *w, uint32_t fact, uint32_t part)
{
    const struct th_node *n = &w->nodes[part + 1];
    return n->alive && n->takes[fact].used && !n->takes[fact].looked;
}

static void recover_one(struct th_world *w, uint32_t fact)
{
    struct th_fact *f = &w->facts[fact];
    bool any = false;
    for (uint32_t k = 0; k < w->plan.parts; k++)
        any = any || is_known(f, k);
    bool late = TH_WALL + w->now / TH_MS >= f->deadline_ms;
    if (f->stands == RT_DECISION_NONE && any && late)
        (void)insert(w, fact, RT_DECISION_ABORT);
    if (f->stands == RT_DECISION_NONE)
        return;
    struct th_event e = {.kind = TH_EV_SETTLE, .fact = (uint8_t)fact};
    e.at = w->now + th_delay(w);
    th_post(w, &e);
}

void th_recover(struct th_world *w)
{
    for (uint32_t i = 0; i < w->begun; i++)
        if (!w->facts[i].done && w->journal_down_until <= w->now)
            recover_one(w, i);
}

/* How it ended there; HELD: another pass will ask again. A participant that has not prepared yet never
 * will: a fence. */
static enum rt_reply settle_part(struct th_world *w, uint32_t fact, uint32_t part)
{
    const struct th_fact *f = &w->facts[fact];
    struct th_part *p = &w->facts[fact].parts[part];
    bool commit = f->stands == RT_DECISION_COMMIT;
    if (p->db == TH_PREPARED && is_held(w, fact, part))
        return RT_REPLY_HELD;
    if (p->db == TH_NOTHING && !commit && RT_BUG(RT_BUG_THREE_NOT_FENCED))
        return RT_REPLY_ABSENT;
    th_counts.settled += p->db == TH_PREPARED;
    TH_TRACE(w, "recovery ends t%u at p%u", fact, part + 1);
    return order(w, fact, part, commit);
}

/* One pass over a transaction that recovery adopted, at all participants it knows of. */
void th_settle(struct th_world *w, const struct th_event *e)
{
    struct th_fact *f = &w->facts[e->fact];
    bool over = true, mixed = false, commit = f->stands == RT_DECISION_COMMIT;
    for (uint32_t k = 0; k < w->plan.parts; k++) {
        if (!is_known(f, k))
            continue;
        enum rt_reply reply = settle_part(w, e->fact, k);
        over = over && (commit ? f->parts[k].db == TH_COMMITTED : reply != RT_REPLY_HELD);
        mixed = mixed || (!commit && f->parts[k].db == TH_COMMITTED);
    }
    if (mixed && !f->called) {
        f->called = true;
        th_counts.told_by_recovery++;
        TH_TRACE(w, "recovery calls a person for t%u", e->fact);
    }
    if (!over || mixed || f->done || w->journal_down_until > w->now)
        return;
    finish(w, e->fact, "H8");
    th_counts.closed_by_recovery++;
}

/* ---- What is said, and what it must be --------------------------------------- */

void th_answers(struct th_world *w, uint32_t fact, uint32_t part, const struct rt_stand *stand,
                bool peer)
{
    struct th_part *p = &w->facts[fact].parts[part];
    /* It may not know yet that the next stance was written. */
    if (stand->stance != RT_STANCE_NONE && (p->been >> stand->stance & 1) == 0)
        th_violated("H4", "p%u answers %u for t%u, and its row says %u", part + 1, stand->stance,
                    fact, p->row.stand.stance);
    if (stand->stance == RT_STANCE_PRECOMMITTED && p->db == TH_NOTHING)
        th_violated("H4", "p%u answers PRECOMMITTED for t%u, and nothing is prepared", part + 1,
                    fact);
    bool ack = stand->stance == RT_STANCE_PRECOMMITTED || stand->stance == RT_STANCE_COMMITTED;
    p->answered = p->answered || (ack && !peer);
}

void th_decides(const struct th_world *w, uint32_t fact)
{
    for (uint32_t i = 0; i < w->plan.parts; i++)
        if (!w->facts[fact].parts[i].answered)
            th_violated("H2", "COMMIT is asked for t%u, and p%u has not answered", fact, i + 1);
}

void th_told(struct th_world *w, uint32_t fact, enum rt_stance told)
{
    struct th_fact *f = &w->facts[fact];
    if ((told == RT_STANCE_COMMITTED) != (f->stands == RT_DECISION_COMMIT))
        th_violated("H7", "the caller of t%u is told %d, and %u stands", fact, told, f->stands);
    if (f->told != RT_STANCE_NONE)
        return;
    f->told = (uint8_t)told;
    th_counts.committed += told == RT_STANCE_COMMITTED;
    th_counts.aborted += told == RT_STANCE_ABORTED;
}

/* Whether the outcome is mixed: a participant that ended against the decision has told so, durably (H5). */
static bool is_mixed(const struct th_world *w, uint32_t fact)
{
    const struct th_fact *f = &w->facts[fact];
    bool mixed = false;
    for (uint32_t i = 0; i < w->plan.parts; i++) {
        const struct th_part *p = &f->parts[i];
        bool commit = p->db == TH_COMMITTED;
        if (commit == (f->stands == RT_DECISION_COMMIT) ||
            (!commit && f->stands == RT_DECISION_NONE))
            continue;
        mixed = true;
        if (!p->row.stand.mixed)
            th_violated("H5", "p%u has ended t%u against the decision, and does not tell", i + 1,
                        fact);
        th_counts.told_by_parts++;
    }
    return mixed;
}

void th_check_end(struct th_world *w)
{
    for (uint32_t i = 0; i < w->begun; i++) {
        const struct th_fact *f = &w->facts[i];
        bool mixed = is_mixed(w, i);
        if (mixed && is_strict(w))
            th_violated("H3", "t%u has ended in two ways", i);
        if (mixed && f->done)
            th_violated("H8", "t%u has ended in two ways, and is closed", i);
        th_counts.mixed += mixed;
        th_counts.untold += f->told == RT_STANCE_NONE;
        for (uint32_t k = 0; k < w->plan.parts; k++)
            if (f->parts[k].row.stand.mixed && is_strict(w))
                th_violated("H3", "p%u tells t%u as mixed", k + 1, i);
    }
}
