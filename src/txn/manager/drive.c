/* SPDX-License-Identifier: Apache-2.0 */
/* One transaction: what its core wants asked is asked, what was answered is told to it, and whoever waits is told. */
#include "txn/manager/inside.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "txn/branch/talk.h"
#include "txn/point.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static struct rt_branch *core_of(struct rota_branch *b)
{
    assert(b->index < b->txn->core.count);
    return &b->txn->core.branches[b->index];
}

static int64_t now_of(struct rota_txn *t)
{
    return rt_loop_now(&t->m->loop);
}

static int64_t soon(struct rota_txn *t)
{
    return now_of(t) + t->m->opts.call_ms * RT_MS;
}

/* ---- What a person reads ------------------------------------------------------ */

/* The first reason counts: what follows from it says less. */
static void blame(struct rota_txn *t, const struct rota_branch *b, const char *line)
{
    if (t->line[0] != '\0')
        return;
    if (b != NULL)
        snprintf(t->line, sizeof(t->line), "%.50s: %.200s", b->name, line);
    else
        snprintf(t->line, sizeof(t->line), "%s", line);
}

static const char *stuck_line(const struct rt_branch *core)
{
    switch (core->stuck) {
    case RT_STUCK_NO_RESOURCE:
        return "this machine has no URL for it: add NAME = URL to ~/.config/rota/txn or /etc/rota/txn";
    case RT_STUCK_LOST:
        return "decided COMMIT, and the participant has neither the branch nor its marker: see rota txn show";
    case RT_STUCK_MIXED:
        return "decided ABORT, and the participant has committed it: see rota txn show";
    case RT_STUCK_REFUSED:
        return "the participant refuses the order: see rota txn show";
    default:
        return "it is asked again and again, and does not answer";
    }
}

static void call_attention(struct rota_txn *t)
{
    struct rota_txns *m = t->m;
    char id[RT_TXN_ID_TEXT];

    rt_txn_id_text(&t->core.id, id);
    for (uint32_t i = 0; i < t->core.count; i++) {
        const struct rt_branch *core = &t->core.branches[i];
        const struct rota_branch *b = t->branches[i];
        if (rt_branch_is_over(core) ||
            (core->stuck == RT_STUCK_NOT && core->retry.tries < RT_RETRY_ATTENTION))
            continue;
        const char *line = rt_drive_stuck(t, i);
        rt_txns_log(m, ROTA_LOG_WARN, "transaction %s, %s: %s", id, b->name, line);
        if (m->opts.attention != NULL)
            m->opts.attention(m->opts.attention_arg, id, b->name, line);
    }
    if (t->core.journal.tries >= RT_RETRY_ATTENTION)
        rt_txns_log(m, ROTA_LOG_WARN, "transaction %s: the journal does not answer: %s", id,
                    m->journal->base.errmsg);
}

/* ---- A connection of the application's ------------------------------------------ */

static void answer_branch(struct rota_branch *b, uint32_t seq, enum rt_reply reply)
{
    struct rt_txn_answer a = {.seq = seq, .reply = reply};
    rt_txn_answered(&b->txn->core, core_of(b), &a, now_of(b->txn));
}

static void op_ended(struct rota_branch *b)
{
    uint32_t seq = b->op_seq;

    if (b->begins != NULL) {
        b->op_seq = 0;
        rt_xa_begun(b);
        return;
    }

    b->op_seq = 0;
    if (b->watching)
        rt_watch_want(&b->watch, false, false);
    if (b->op.err != 0)
        snprintf(b->line, sizeof(b->line), "%s", b->seat->party->errmsg);
    bool vote = b->op.what == RT_PARTY_PREPARE || b->op.what == RT_PARTY_ONE_PHASE;
    if (vote && b->op.err != 0)
        blame(b->txn, b, b->line);
    if (b->op.what == RT_PARTY_COMMIT && RT_BUG(RT_BUG_MANAGER_LOST_IS_DONE))
        b->op.reply = RT_REPLY_DONE;
    answer_branch(b, seq, b->op.reply);
}

static void on_ready(struct rt_watch *w, bool readable, bool writable)
{
    struct rota_branch *b = w->user;
    short events = (short)((readable ? POLLIN : 0) | (writable ? POLLOUT : 0));

    if (b->op_seq == 0)
        return;
    struct rota_txn *t = b->txn;
    if (rt_party_go(b->seat->party, events))
        op_ended(b);
    rt_txns_due(t);
}

static void watch(struct rota_branch *b)
{
    struct rt_party_wait wait = rt_party_wait(b->seat->party);

    if (!b->watching && !b->closing) { /* when that has closed, T is due again */
        memset(&b->watch, 0, sizeof(b->watch));
        b->watch.user = b;
        b->watching = rt_watch_start(&b->txn->m->loop, &b->watch, wait.fd, on_ready) == 0;
    }
    if (b->watching) /* without: its deadline ends it */
        rt_watch_want(&b->watch, (wait.events & (POLLIN | POLLPRI)) != 0,
                      (wait.events & POLLOUT) != 0);
}

static void on_closed(struct rt_watch *w)
{
    struct rota_branch *b = w->user;
    struct rota_txn *t = b->txn;

    b->closing = false;
    if (b->orphan)
        rt_entry_free_branch(b);
    rt_txns_due(t);
}

static void unwatch(struct rota_branch *b)
{
    if (!b->watching)
        return;
    b->watching = false;
    b->closing = true;
    rt_watch_stop(&b->watch, on_closed);
}

void rt_drive_give_back(struct rota_branch *b)
{
    assert(b->op_seq == 0);
    unwatch(b);
}

/* The connection is its owner's again. What is prepared on it is finished by another one, which cannot before this one
 * has ended: so it is cut. */
static void give_back(struct rota_branch *b)
{
    struct rt_branch *core = core_of(b);
    struct rt_seat *seat = b->seat;
    struct rt_talk *talk = seat->party->talk;

    assert(b->op_seq == 0);
    unwatch(b);
    if (!rt_branch_is_over(core) && b->part.prepared && core->own && talk->kind->fd(talk) >= 0)
        shutdown(talk->kind->fd(talk), SHUT_RDWR);
    if (!rt_branch_is_over(core))
        core->own = false;
    b->part.by = NULL;
    b->seat = NULL;
    rt_seat_leave(b->txn->m, seat);
}

void rt_drive_own(struct rota_branch *b, enum rt_party_what what, uint32_t seq)
{
    bool stays = b->txn->core.joined && what == RT_PARTY_PREPARE; /* who began it asks for it */

    b->op = (struct rt_party_op){.what = what, .part = &b->part, .deadline = soon(b->txn)};
    b->op.flags = stays ? RT_PARTY_WRITES : 0;
    b->op_seq = seq;
    if (rt_party_start(b->seat->party, &b->op))
        op_ended(b);
    else
        watch(b);
}

/* ---- A connection of our own ------------------------------------------------------ */

void rt_drive_back(struct rt_asker *a, struct rt_errand *e)
{
    struct rota_branch *b = (struct rota_branch *)(void *)a;
    uint32_t seq = b->errand_seq;

    assert(seq != 0);
    b->errand_seq = 0;
    if (e->op.err != 0)
        snprintf(b->line, sizeof(b->line), "%s", e->errmsg);
    if (core_of(b)->state == RT_BRANCH_PREPARING && e->op.reply == RT_REPLY_ABSENT)
        blame(b->txn, b, "it was joined there, and is not prepared");
    answer_branch(b, seq, e->op.reply);
    rt_txns_due(b->txn);
}

static void ask_errand(struct rota_branch *b, enum rt_party_what what, bool fence, uint32_t seq)
{
    struct rota_txn *t = b->txn;
    struct rt_errand *e = b->errand;

    if (b->resource == NULL)
        b->resource = rt_resources_find(t->m->resources, b->name);
    if (b->resource == NULL) {
        snprintf(
            b->line, sizeof(b->line),
            "no URL is known here of the resource %.60s: add '%.60s = URL' to ~/.config/rota/txn",
            b->name, b->name);
        answer_branch(b, seq, RT_REPLY_REFUSED);
        return;
    }
    bool clear = e->part.clear;
    e->part = b->part;
    e->part.by = NULL;
    e->part.clear = clear;
    e->op = (struct rt_party_op){.what = what, .deadline = soon(t)};
    e->op.flags = fence ? RT_PARTY_FENCE : 0;
    (void)rt_place_read(b->payload, b->payload_size, &e->place);
    b->errand_seq = seq;
    if (rt_txns_send(t->m, b->resource, e) == 0)
        return;
    b->errand_seq = 0;
    answer_branch(b, seq, RT_REPLY_LOST);
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
    if (b->seat != NULL && (votes || (orders && todo->own)))
        rt_drive_own(b, what_of(todo->op), todo->seq);
    else if (votes) /* its connection was given back: it was never prepared */
        answer_branch(b, todo->seq, RT_REPLY_NO);
    else
        ask_errand(b, what_of(todo->op), todo->fence, todo->seq);
}

/* ---- The journal -------------------------------------------------------------------- */

static void submit(struct rota_txn *t, uint32_t seq)
{
    t->op.user = &t->asker;
    t->op_seq = seq;
    rt_journal_submit(t->m->journal, &t->op);
}

static void ask_decide(struct rota_txn *t, const struct rt_txn_todo *todo)
{
    bool commit = todo->decision == RT_DECISION_COMMIT;
    size_t n = 0;

    t->op = (struct rt_journal_op){.kind = RT_JOURNAL_DECIDE};
    t->op.decide.id = t->core.id;
    t->op.decide.decision = commit ? RT_JOURNAL_COMMIT : RT_JOURNAL_ABORT;
    t->op.decide.deadline_ms = t->core.deadline_ms;
    t->op.decide.label = t->label;
    t->op.decide.registered = todo->registered;
    for (uint32_t i = 0; commit && i < t->core.count; i++) {
        const struct rota_branch *b = t->branches[i];
        if (t->core.branches[i].state != RT_BRANCH_PREPARED) /* as rt_txn_parts has it */
            continue;
        t->list[n++] = (struct rt_journal_branch){.number = t->core.branches[i].number,
                                                  .mode = (uint16_t)b->mode,
                                                  .resource = b->name,
                                                  .payload = b->payload,
                                                  .size = b->payload_size};
    }
    t->op.decide.branches = t->list;
    t->op.decide.count = n;
    submit(t, todo->seq);
    if (commit && RT_BUG(RT_BUG_MANAGER_NOT_DURABLE)) {
        struct rt_txn_answer a = {.seq = todo->seq, .reply = RT_REPLY_STANDS};
        a.decision = RT_DECISION_COMMIT;
        rt_txn_answered(&t->core, NULL, &a, now_of(t));
    }
}

static bool has_number(const struct rota_txn *t, uint32_t number)
{
    for (uint32_t i = 0; i < t->core.count; i++)
        if (t->core.branches[i].number == number)
            return true;
    for (uint32_t i = 0; i < t->part_count; i++)
        if (t->parts[i].number == number)
            return true;
    return false;
}

static bool gated(enum rt_branch_mode mode)
{
    return mode == RT_XA_MYSQL;
}

/* One branch of a record: what is there of it already stays, a new one gets its place behind the others, where
 * rt_txn_found will put it. */
static void note_branch(struct rota_txn *t, const struct rt_journal_branch *from)
{
    if (has_number(t, from->number))
        for (uint32_t i = 0; i < t->part_count; i++)
            if (t->parts[i].number == from->number)
                return;
    if (!has_number(t, from->number) && !t->core.joined) {
        uint32_t at = t->core.count + t->fresh;
        struct rota_branch *b = rt_entry_branch(t, from->resource, (enum rt_branch_mode)from->mode);
        if (b == NULL) {
            t->no_memory = true;
            return;
        }
        b->index = at;
        b->part.name = (struct rt_name){t->core.id, from->number, t->core.deadline_ms};
        b->payload_size = from->size <= sizeof(b->payload) ? from->size : 0;
        memcpy(b->payload, from->payload, b->payload_size);
        t->branches[at] = b;
        t->fresh++;
    }
    const struct rt_resource *r = rt_resources_find(t->m->resources, from->resource);
    uint32_t resource = r != NULL ? rt_resource_index(r) : RT_BRANCH_NO_RESOURCE;
    t->parts[t->part_count++] = (struct rt_txn_part){from->number, resource,
                                                     gated((enum rt_branch_mode)from->mode)};
}

/* READ tells what stands. */
static void on_record(void *arg, const struct rt_journal_record *record)
{
    struct rota_txn *t = arg;

    t->found = *record;
    t->part_count = 0;
    if (record->deadline_ms != 0 && t->core.adopted)
        t->core.deadline_ms = record->deadline_ms;
    if (rt_entry_room(t, (uint32_t)record->branch_count) != 0) {
        t->no_memory = true;
        return;
    }
    bool all = record->stands == RT_JOURNAL_OPEN;
    for (size_t i = 0; i < record->branch_count; i++)
        if (all || !record->branches[i].registered)
            note_branch(t, &record->branches[i]);
}

static void ask_read(struct rota_txn *t, uint32_t seq)
{
    t->op = (struct rt_journal_op){.kind = RT_JOURNAL_READ};
    t->op.read.id = t->core.id;
    t->op.read.each = on_record;
    t->op.read.arg = t;
    t->found = (struct rt_journal_record){.stands = RT_JOURNAL_ABSENT};
    t->no_memory = false;
    t->part_count = t->fresh = 0;
    submit(t, seq);
}

static void ask_done(struct rota_txn *t, uint32_t seq)
{
    t->op = (struct rt_journal_op){.kind = RT_JOURNAL_DONE};
    t->op.finish.ids = &t->core.id;
    t->op.finish.count = 1;
    submit(t, seq);
}

static void ask_register(struct rota_txn *t, const struct rt_txn_todo *todo)
{
    const struct rota_branch *b = t->branches[todo->branch - t->core.branches];

    t->op = (struct rt_journal_op){.kind = RT_JOURNAL_REGISTER};
    t->list[0] = (struct rt_journal_branch){.number = todo->branch->number,
                                            .mode = (uint16_t)b->mode,
                                            .resource = b->name,
                                            .payload = b->payload,
                                            .size = b->payload_size};
    t->op.reg.id = t->core.id;
    t->op.reg.deadline_ms = t->core.deadline_ms;
    t->op.reg.branches = t->list;
    t->op.reg.count = 1;
    submit(t, todo->seq);
}

static void ask_journal(struct rota_txn *t, const struct rt_txn_todo *todo)
{
    assert(t->op_seq == 0);
    if (todo->to == RT_TXN_DECIDE)
        ask_decide(t, todo);
    else if (todo->to == RT_TXN_REGISTER)
        ask_register(t, todo);
    else if (todo->to == RT_TXN_LOOK)
        ask_read(t, todo->seq);
    else
        ask_done(t, todo->seq);
}

static void drop_fresh(struct rota_txn *t)
{
    for (uint32_t i = 0; i < t->fresh; i++)
        rt_entry_free_branch(t->branches[t->core.count + i]);
    t->fresh = 0;
}

/* What STANDS says, as the core understands it. */
static void fill_stand(struct rota_txn *t, struct rt_txn_answer *a, enum rt_journal_stand stands)
{
    switch (stands) {
    case RT_JOURNAL_COMMIT:
    case RT_JOURNAL_ABORT:
        a->reply = RT_REPLY_STANDS;
        a->decision = stands == RT_JOURNAL_COMMIT ? RT_DECISION_COMMIT : RT_DECISION_ABORT;
        break;
    case RT_JOURNAL_EXPIRED:
        a->reply = RT_REPLY_BELOW;
        break;
    default:
        a->reply = RT_REPLY_OPEN;
    }
    if (stands == RT_JOURNAL_EXPIRED)
        blame(t, NULL, "it is older than what the journal keeps");
}

static void decide_done(struct rota_txn *t, uint32_t seq)
{
    bool wanted_abort = t->op.decide.decision == RT_JOURNAL_ABORT;
    enum rt_journal_stand stands = t->op.decide.stands;

    if (stands == RT_JOURNAL_COMMIT && wanted_abort && (t->core.adopted || t->core.joined)) {
        ask_read(t, seq); /* somebody else's: which branches has it? */
        return;
    }
    struct rt_txn_answer a = {.seq = seq};
    fill_stand(t, &a, stands);
    if (a.reply == RT_REPLY_STANDS && a.decision == RT_DECISION_ABORT && !wanted_abort)
        blame(t, NULL,
              "somebody else decided ABORT: its deadline has passed, or a person settled it");
    rt_txn_answered(&t->core, NULL, &a, now_of(t));
}

static void read_done(struct rota_txn *t, uint32_t seq)
{
    struct rt_txn_answer a = {.seq = seq, .done = t->found.done};

    if (t->no_memory) {
        drop_fresh(t);
        rt_txn_answered(&t->core, NULL, &a, now_of(t)); /* LOST: asked again */
        return;
    }
    fill_stand(t, &a, t->found.stands);
    bool takes = a.reply == RT_REPLY_OPEN
                     ? t->core.state == RT_TXN_LOOKING
                     : t->core.state == RT_TXN_DECIDING || t->core.state == RT_TXN_WAITING;
    if (takes) {
        a.parts = t->parts;
        a.part_count = t->part_count;
    }
    uint32_t before = t->core.count;
    rt_txn_answered(&t->core, NULL, &a, now_of(t));
    t->fresh -= t->core.count - before < t->fresh ? t->core.count - before : t->fresh;
    drop_fresh(t);
}

void rt_drive_told(struct rt_asker *a, struct rt_journal_op *op)
{
    struct rota_txn *t = (struct rota_txn *)(void *)((char *)a - offsetof(struct rota_txn, asker));
    uint32_t seq = t->op_seq;

    assert(op == &t->op && seq != 0);
    t->op_seq = 0;
    if (op->err != 0) {
        struct rt_txn_answer lost = {.seq = seq, .reply = RT_REPLY_LOST};
        drop_fresh(t);
        rt_txn_answered(&t->core, NULL, &lost, now_of(t));
    } else if (t->op.kind == RT_JOURNAL_DECIDE) {
        decide_done(t, seq);
    } else if (t->op.kind == RT_JOURNAL_READ) {
        read_done(t, seq);
    } else if (t->op.kind == RT_JOURNAL_REGISTER) {
        struct rt_txn_answer stands = {.seq = seq};
        fill_stand(t, &stands, t->op.reg.stands);
        rt_txn_answered(&t->core, NULL, &stands, now_of(t));
    } else {
        struct rt_txn_answer done = {.seq = seq, .reply = RT_REPLY_DONE};
        rt_txn_answered(&t->core, NULL, &done, now_of(t));
    }
    rt_txns_due(t);
}

/* ---- Whoever waits -------------------------------------------------------------------- */

/* A lent connection that is not done with: its order is to come, or is under way. */
static bool lent_for(const struct rota_branch *b, const struct rt_branch *core)
{
    if (b->seat == NULL)
        return false;
    if (b->op_seq != 0)
        return true;
    bool tried = core->order != RT_DECISION_NONE && core->retry.tries > 0;
    return core->own && !rt_branch_is_over(core) && !tried;
}

static int err_of(const struct rota_txn *t)
{
    switch (t->core.told) {
    case RT_OUTCOME_COMMITTED:
        return 0;
    case RT_OUTCOME_ABORTED:
        return t->aborts ? 0 : ROTA_ABORTED;
    case RT_OUTCOME_LATE: /* nothing of ours stays */
        return ROTA_ABORTED;
    default:
        return RT_BUG(RT_BUG_MANAGER_UNKNOWN_IS_COMMITTED) ? 0 : ROTA_UNKNOWN;
    }
}

static const char *line_of(const struct rota_txn *t)
{
    if (t->core.told == RT_OUTCOME_COMMITTED)
        return "";
    if (t->core.told == RT_OUTCOME_UNKNOWN)
        return "the journal did not answer in time: ask rota_txn_outcome how it ended";
    if (t->core.told == RT_OUTCOME_EXPIRED)
        return "it is older than what the journal keeps: nobody knows how it ended";
    if (t->core.told == RT_OUTCOME_LATE)
        return "it was committed before this branch was registered: nothing of this branch stays";
    return t->line[0] != '\0' ? t->line : "its deadline has passed";
}

/* The connections stay lent: on them it ends as is decided. */
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
        return; /* it has voted, and its end is not asked for yet */
    if (t->free_by == RT_NEVER)
        t->free_by = soon(t);
    for (uint32_t i = 0; i < t->core.count; i++)
        if (lent_for(t->branches[i], &t->core.branches[i]) &&
            (t->branches[i]->op_seq != 0 || !(over || unknown)))
            return;
    for (uint32_t i = 0; i < t->core.count; i++)
        if (t->branches[i]->seat != NULL)
            give_back(t->branches[i]);
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
        busy = busy || b->op_seq != 0 || b->errand_seq != 0 || b->closing || b->seat != NULL;
    }
    return !busy;
}

/* One connection that is lent: its op is over, or goes on until what is returned. */
static int64_t look_at_clock(struct rota_branch *b)
{
    if (b->op_seq != 0 && rt_party_wait(b->seat->party).until <= now_of(b->txn) &&
        rt_party_go(b->seat->party, 0)) {
        op_ended(b);
        return now_of(b->txn); /* B may be gone */
    }
    if (b->op_seq == 0)
        return RT_NEVER;
    watch(b);
    return rt_party_wait(b->seat->party).until;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Ops on lent connections whose time is over; and when the next one's is. */
static int64_t look_at_clocks(struct rota_txn *t)
{
    int64_t next = t->free_by;

    for (uint32_t i = 0; i < t->core.count; i++)
        next = sooner(next, look_at_clock(t->branches[i]));
    for (struct rota_branch *b = t->begins, *after; b != NULL; b = after) {
        after = b->next_begin;
        next = sooner(next, look_at_clock(b));
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
            ask_journal(t, &todo);
}

/* Branches that are to begin on the keeper's thread: attached; of a joined transaction registered; begun. */
static void begin_some(struct rota_txn *t)
{
    for (struct rota_branch *b = t->begins, *after; b != NULL; b = after) {
        after = b->next_begin;
        if (b->op_seq == 0)
            rt_xa_go_on(b);
    }
}

/* Of one that its application holds: other connections than those that begin are not touched, and time does nothing
 * but to a branch that is to be registered. */
static void go_on_held(struct rota_txn *t)
{
    struct rt_txn_todo todo;

    while (t->core.joined && t->core.state == RT_TXN_ACTIVE &&
           rt_txn_todo(&t->core, &todo, now_of(t)))
        ask_journal(t, &todo);
    begin_some(t);
    int64_t next = look_at_clocks(t);
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
    (void)look_at_clocks(t);
    go_on(t);
    int64_t next = look_at_clocks(t);
    if ((rt_txn_news(&t->core) & (RT_TXN_ATTENTION | RT_TXN_STUCK)) != 0)
        call_attention(t);
    answer_caller(t);
    if (may_go(t)) {
        if (t->core.adopted)
            rt_point("recover-settled");
        rt_entry_free(t);
        return;
    }
    next = sooner(sooner(next, t->free_by), rt_txn_next(&t->core));
    rt_timers_at(&t->m->loop.timers, &t->timer.timer, next);
}

const char *rt_drive_stuck(const struct rota_txn *t, uint32_t i)
{
    return t->branches[i]->line[0] != '\0' ? t->branches[i]->line
                                           : stuck_line(&t->core.branches[i]);
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
        unwatch(b);
        rt_seat_leave(t->m, b->seat);
        b->seat = NULL;
        if (b->begins->mine)
            rt_caller_free(b->begins);
        b->begins = NULL;
        b->orphan = !b->added;
        if (b->orphan && !b->closing)
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
        give_back(b);
    }
}
