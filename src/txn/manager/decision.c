/* SPDX-License-Identifier: Apache-2.0 */
/* What a transaction asks the journal, and how the core is told what stands there. */
#include "txn/manager/tcc.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "txn/journal/record.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

static int64_t now_of(struct rota_txn *t)
{
    return rt_loop_now(&t->m->loop);
}

static void submit(struct rota_txn *t, uint32_t seq)
{
    t->op.user = &t->asker;
    t->op_seq = seq;
    rt_journal_submit(t->m->journal, &t->op);
    rt_finish_send(t->m); /* it rides along */
}

/* A service's payload is in the row that registered it. */
static struct rt_journal_branch listed(const struct rota_txn *t, const struct rota_branch *b,
                                       uint32_t i)
{
    bool service = t->core.branches[i].service;
    unsigned order = service && t->core.ordered ? RT_MODE_ORDERED : 0;

    return (struct rt_journal_branch){.number = t->core.branches[i].number,
                                      .mode = (uint16_t)((unsigned)b->mode | order),
                                      .resource = b->name,
                                      .payload = service ? NULL : b->bond->payload,
                                      .size = service ? 0 : b->bond->payload_size};
}

/* A COMMIT whose list is longer than the journal keeps can never be written. ABORT is asked for instead, as anybody
 * may, and its caller is told why. */
static bool fits(struct rota_txn *t, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += rt_record_size(&t->list[i]);
    if (bytes > RT_JOURNAL_BYTES_MAX)
        rt_drive_blame(
            t, NULL,
            "the journal keeps 64 KB of the names of a transaction's branches, and these have more: use "
            "fewer branches, or shorter names");
    return bytes <= RT_JOURNAL_BYTES_MAX;
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
        if (t->core.branches[i].state != RT_BRANCH_PREPARED) /* as in rt_txn_parts */
            continue;
        t->list[n++] = listed(t, b, i);
    }
    if (!fits(t, n)) {
        t->op.decide.decision = RT_JOURNAL_ABORT;
        n = 0;
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
    return mode == RT_XA_MYSQL || mode == RT_THREE_MYSQL;
}

/* Of three-phase commit, the registered branches are those that may commit on their own: nobody lists them once they
 * have. */
static bool loose(const struct rt_journal_branch *b)
{
    bool three = b->mode == RT_THREE_MYSQL || b->mode == RT_THREE_POSTGRES;
    return three && b->registered && !RT_BUG(RT_BUG_THREE_ABORT_NOT_READ);
}

static void take_payload(struct rota_branch *b, const struct rt_journal_branch *from)
{
    struct rt_bond *bond = b->bond;

    bond->payload_size = from->size <= sizeof(bond->payload) ? from->size : 0;
    if (bond->payload_size > 0) /* there may be none, and no bytes */
        memcpy(bond->payload, from->payload, bond->payload_size);
}

/* Recovery found B at a participant; but a server lists what is prepared in all of its databases, and each of them may
 * be a resource. The journal knows which resource it belongs to, and where its marker is. */
static void correct(struct rota_txn *t, const struct rt_journal_branch *from, uint32_t resource)
{
    for (uint32_t i = 0; t->core.adopted && i < t->core.count; i++) {
        struct rota_branch *b = t->branches[i];
        if (t->core.branches[i].number != from->number || b->bond == NULL)
            continue;
        char *name = rt_strdup(from->resource);
        if (name == NULL) {
            t->no_memory = true;
            return;
        }
        rt_free(b->name);
        b->name = name;
        b->resource = NULL;
        take_payload(b, from);
        t->core.branches[i].resource = resource;
    }
}

/* One branch of a record: a known one stays; a new one gets its place after the others, where rt_txn_found will put
 * it. */
static void note_branch(struct rota_txn *t, const struct rt_journal_branch *from)
{
    enum rt_branch_mode mode = (enum rt_branch_mode)(from->mode & ~RT_MODE_ORDERED);
    bool service = rt_tcc_is(mode);

    if (has_number(t, from->number))
        for (uint32_t i = 0; i < t->part_count; i++)
            if (t->parts[i].number == from->number)
                return;
    if (service && t->core.adopted)
        t->core.ordered = t->core.ordered || (from->mode & RT_MODE_ORDERED) != 0;
    if (!has_number(t, from->number) && !t->core.joined) {
        uint32_t at = t->core.count + t->fresh;
        struct rota_branch *b = rt_entry_branch(t, from->resource, mode);
        if (b == NULL) {
            t->no_memory = true;
            return;
        }
        b->index = at;
        b->number = from->number;
        if (!service) {
            b->bond->part.name = (struct rt_name){t->core.id, from->number, t->core.deadline_ms};
            take_payload(b, from);
        }
        t->branches[at] = b;
        t->fresh++;
    }
    const struct rt_resource *r = rt_resources_find(t->m->resources, from->resource);
    uint32_t resource = service     ? RT_TXN_UNKNOWN_RESOURCE
                        : r != NULL ? rt_resource_index(r)
                                    : RT_BRANCH_NO_RESOURCE;
    if (!service)
        correct(t, from, resource);
    t->parts[t->part_count++] = (struct rt_txn_part){
        .number = from->number, .resource = resource, .gated = gated(mode), .service = service};
    t->parts[t->part_count - 1].loose = loose(from);
}

/* What else the journal has: payloads of services, and who vouches for them. */
static void note_beside(struct rota_txn *t, const struct rt_journal_branch *from)
{
    for (uint32_t i = 0; rt_tcc_is(from->mode) && i < t->core.count + t->fresh; i++) {
        struct rota_branch *b = t->branches[i];
        if (rt_tcc_is(b->mode) && b->number == from->number && b->bytes == NULL &&
            rt_tcc_keep(b, from->payload, from->size) != 0)
            t->no_memory = true;
    }
    for (size_t k = 0; from->mode == RT_VOUCHER && k + 4 <= from->size; k += 4) {
        uint32_t number;
        memcpy(&number, (const char *)from->payload + k, sizeof(number));
        for (uint32_t i = 0; i < t->part_count; i++)
            t->parts[i].vouched = t->parts[i].vouched || t->parts[i].number == ntohl(number);
    }
}

/* READ tells what stands. */
static void on_record(void *arg, const struct rt_journal_record *record)
{
    struct rota_txn *t = arg;

    t->found.stands = record->stands;
    t->found.registered = record->registered;
    t->found.done = record->done;
    t->part_count = 0;
    if (record->deadline_ms != 0 && t->core.adopted)
        t->core.deadline_ms = record->deadline_ms;
    if (rt_entry_room(t, (uint32_t)record->branch_count) != 0) {
        t->no_memory = true;
        return;
    }
    bool open = record->stands == RT_JOURNAL_OPEN, abort = record->stands == RT_JOURNAL_ABORT;
    for (size_t i = 0; i < record->branch_count; i++) {
        const struct rt_journal_branch *b = &record->branches[i];
        bool takes = open || !b->registered || (abort && (rt_tcc_is(b->mode) || loose(b)));
        if (takes && b->mode != RT_VOUCHER && !t->no_memory)
            note_branch(t, b);
    }
    for (size_t i = 0; i < record->branch_count; i++)
        if (record->branches[i].registered && !t->no_memory)
            note_beside(t, &record->branches[i]);
}

static void ask_read(struct rota_txn *t, uint32_t seq)
{
    t->op = (struct rt_journal_op){.kind = RT_JOURNAL_READ};
    t->op.read.id = t->core.id;
    t->op.read.each = on_record;
    t->op.read.arg = t;
    memset(&t->found, 0, sizeof(t->found)); /* ABSENT */
    t->no_memory = false;
    t->part_count = t->fresh = 0;
    submit(t, seq);
}

static void ask_done(struct rota_txn *t, uint32_t seq)
{
    t->op_seq = seq;
    if (rt_finish_add(t))
        return;
    t->op = (struct rt_journal_op){.kind = RT_JOURNAL_DONE};
    t->op.finish.ids = &t->core.id;
    t->op.finish.count = 1;
    submit(t, seq);
}

#define REGISTER_BYTES 60000 /* of one REGISTER: the others wait for the next */

static void ask_register(struct rota_txn *t, const struct rt_txn_todo *todo)
{
    size_t n = 0, bytes = 0;

    t->op = (struct rt_journal_op){.kind = RT_JOURNAL_REGISTER};
    for (uint32_t i = 0; i < t->core.count; i++) {
        const struct rota_branch *b = t->branches[i];
        struct rt_branch *core = &t->core.branches[i];
        bytes += core->entering ? b->bytes_size + strlen(b->name) + 64 : 0;
        core->entering = core->entering && (n == 0 || bytes <= REGISTER_BYTES);
        if (!core->entering)
            continue;
        t->list[n] = listed(t, b, i);
        if (core->service) {
            t->list[n].payload = b->bytes;
            t->list[n].size = b->bytes_size;
        }
        n++;
    }
    assert(n > 0);
    if (RT_BUG(RT_BUG_MANAGER_UNREGISTERED)) {
        struct rt_txn_answer a = {.seq = todo->seq, .reply = RT_REPLY_OPEN};
        rt_txn_answered(&t->core, NULL, &a, now_of(t));
        return;
    }
    t->op.reg.label = t->label;
    t->op.reg.id = t->core.id;
    t->op.reg.deadline_ms = t->core.deadline_ms;
    t->op.reg.branches = t->list;
    t->op.reg.count = n;
    submit(t, todo->seq);
}

/* The numbers of our services, four bytes each, registered as one more branch. */
static void ask_vouch(struct rota_txn *t, uint32_t seq)
{
    uint32_t n = 0;

    t->op = (struct rt_journal_op){.kind = RT_JOURNAL_REGISTER};
    while (t->voucher == 0)
        rt_txns_random(&t->voucher, sizeof(t->voucher));
    t->voucher |= RT_TXN_JOINED;
    uint32_t *numbers = rt_realloc(t->vouched, t->core.count * sizeof(*numbers));
    if (numbers == NULL) {
        struct rt_txn_answer lost = {.seq = seq, .reply = RT_REPLY_LOST};
        rt_txn_answered(&t->core, NULL, &lost, now_of(t));
        return;
    }
    t->vouched = numbers;
    for (uint32_t i = 0; i < t->core.count; i++)
        if (t->core.branches[i].service)
            numbers[n++] = htonl(t->core.branches[i].number);
    t->list[0] = (struct rt_journal_branch){.number = t->voucher,
                                            .mode = RT_VOUCHER,
                                            .resource = "vote",
                                            .payload = numbers,
                                            .size = n * sizeof(*numbers)};
    t->op.reg.id = t->core.id;
    t->op.reg.deadline_ms = t->core.deadline_ms;
    t->op.reg.branches = t->list;
    t->op.reg.count = 1;
    submit(t, seq);
}

void rt_decision_ask(struct rota_txn *t, const struct rt_txn_todo *todo)
{
    assert(t->op_seq == 0);
    if (todo->to == RT_TXN_DECIDE)
        ask_decide(t, todo);
    else if (todo->to == RT_TXN_REGISTER)
        ask_register(t, todo);
    else if (todo->to == RT_TXN_VOUCH)
        ask_vouch(t, todo->seq);
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

/* It is below the floor, which is at FLOOR_MS; 0: that is not known. */
static void blame_floor(struct rota_txn *t, int64_t floor_ms)
{
    if (floor_ms > rt_txns_wall_ms())
        rt_drive_blame(
            t, NULL,
            "the journal's floor is ahead of this clock: this clock is behind, or a machine whose clock was "
            "ahead has forgotten what is yet to come; rota txn doctor says what to do");
    else
        rt_drive_blame(
            t, NULL,
            "it is older than what the journal keeps: keep_ms (gc --keep) of all who use this "
            "journal must be twice the longest timeout");
}

/* What STANDS says, as the core understands it. */
static void fill_stand(struct rota_txn *t, struct rt_txn_answer *a, enum rt_journal_stand stands,
                       int64_t floor_ms)
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
        blame_floor(t, floor_ms);
}

static void decide_done(struct rota_txn *t, uint32_t seq)
{
    bool wanted_abort = t->op.decide.decision == RT_JOURNAL_ABORT;
    enum rt_journal_stand stands = t->op.decide.stands;

    if (stands == RT_JOURNAL_COMMIT && wanted_abort && (t->core.adopted || t->core.joined)) {
        ask_read(t, seq); /* somebody else's: which branches does it list? */
        return;
    }
    /* Tries are found nowhere else: whom do we cancel? */
    if (stands == RT_JOURNAL_ABORT && !t->core.joined && (t->core.adopted || t->core.shared)) {
        ask_read(t, seq);
        return;
    }
    struct rt_txn_answer a = {.seq = seq};
    fill_stand(t, &a, stands, t->op.decide.floor_ms);
    if (a.reply == RT_REPLY_STANDS && a.decision == RT_DECISION_ABORT && !wanted_abort)
        rt_drive_blame(
            t, NULL,
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
    fill_stand(t, &a, t->found.stands, 0);
    bool takes = a.reply == RT_REPLY_OPEN
                     ? t->core.state == RT_TXN_LOOKING
                     : t->core.state == RT_TXN_DECIDING || t->core.state == RT_TXN_WAITING;
    a.registered = t->found.registered;
    if (takes) {
        a.parts = t->parts;
        a.part_count = t->part_count;
    }
    uint32_t before = t->core.count;
    rt_txn_answered(&t->core, NULL, &a, now_of(t));
    t->fresh -= t->core.count - before < t->fresh ? t->core.count - before : t->fresh;
    drop_fresh(t);
}

/* The journal will never have these branches (etcd: 512 KB of them), or this COMMIT. Nothing was written; the
 * transaction ends as if its time were over, and its caller is told why. ABORT needs no more than the id. */
static void never_written(struct rota_txn *t)
{
    rt_drive_blame(t, NULL, t->m->journal->base.errmsg);
    t->core.deadline_at = now_of(t);
    rt_free(t->label);
    t->label = NULL;
}

/* A right, a version or a server that cannot be trusted: it is asked again, but that mends nothing. Logged at once, and
 * said to whoever waits. */
static void note_refusal(struct rota_txn *t, int err)
{
    const char *line = t->m->journal->base.errmsg;
    char id[RT_TXN_ID_TEXT];

    if (err != ROTA_AUTH && err != ROTA_UNSUPPORTED && err != ROTA_PROTOCOL && err != ROTA_INVALID)
        return;
    if (t->refusal == NULL) {
        rt_txn_id_text(&t->core.id, id);
        rt_txns_log(t->m, ROTA_LOG_WARN, "transaction %s: the journal refuses it: %s", id, line);
    }
    rt_entry_say(&t->refusal, "the journal refuses it: %.160s; ask rota_txn_outcome how it ended",
                 line);
}

void rt_decision_told(struct rt_asker *a, struct rt_journal_op *op)
{
    struct rota_txn *t = (struct rota_txn *)(void *)((char *)a - offsetof(struct rota_txn, asker));
    uint32_t seq = t->op_seq;

    assert(op == &t->op && seq != 0);
    t->op_seq = 0;
    bool commits = op->kind == RT_JOURNAL_DECIDE && op->decide.decision == RT_JOURNAL_COMMIT;
    if (op->err == ROTA_INVALID && (commits || op->kind == RT_JOURNAL_REGISTER))
        never_written(t);
    if (op->err != 0) {
        struct rt_txn_answer lost = {.seq = seq, .reply = RT_REPLY_LOST};
        note_refusal(t, op->err);
        drop_fresh(t);
        rt_txn_answered(&t->core, NULL, &lost, now_of(t));
    } else if (t->op.kind == RT_JOURNAL_DECIDE) {
        decide_done(t, seq);
    } else if (t->op.kind == RT_JOURNAL_READ) {
        read_done(t, seq);
    } else if (t->op.kind == RT_JOURNAL_REGISTER) {
        struct rt_txn_answer stands = {.seq = seq};
        fill_stand(t, &stands, t->op.reg.stands, t->op.reg.floor_ms);
        rt_txn_answered(&t->core, NULL, &stands, now_of(t));
    } else {
        struct rt_txn_answer done = {.seq = seq, .reply = RT_REPLY_DONE};
        rt_txn_answered(&t->core, NULL, &done, now_of(t));
    }
    rt_txns_due(t);
}

void rt_decision_finished(struct rota_txn *t, int err)
{
    struct rt_txn_answer a = {.seq = t->op_seq, .reply = err == 0 ? RT_REPLY_DONE : RT_REPLY_LOST};

    t->op_seq = 0;
    rt_txn_answered(&t->core, NULL, &a, now_of(t));
    rt_txns_due(t);
}
