/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a record: judge it, put it if nothing has changed since, else judge anew. The picture is in etcd.c. */
#include "txn/journal/etcd/etcd.h"

#include "base/alloc.h"
#include "txn/journal/etcd/entry.h"
#include "txn/journal/record.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One record of an ask under way; DONE has several. */
struct task {
    struct rt_jetcd *j;
    struct rt_journal_ask *a;
    struct rt_txn_id id;
    struct rt_entry_record now; /* what is to be put */
    uint8_t *bytes;             /* its memory */
};

static void task_free(struct task *t)
{
    rt_free(t->bytes);
    rt_free(t);
}

/* The last of an ask's tasks ends the ask, with the first error. */
static void task_end(struct task *t, int err)
{
    struct rt_journal_ask *a = t->a;
    struct rt_jetcd *j = t->j;
    task_free(t);
    if (err != 0 && a->first == 0) /* the last message is the one that is told */
        a->first = (size_t)-err;
    if (--a->steps == 0)
        rt_jetcd_end(j, a, -(int)a->first);
}

/* What the record of T's id is to become; R is what is there now (ABSENT: none) and FLOOR the floor. True: T->now is to
 * be put. False: it is answered, *ERR. */
static bool judge_decide(struct task *t, const struct rt_entry_record *r, int64_t floor)
{
    struct rt_journal_op *in = &t->a->in;
    bool commit = in->decide.decision == RT_JOURNAL_COMMIT;
    in->decide.stands = r->stands;
    if (r->stands == RT_JOURNAL_ABSENT && rt_txn_id_birth(&t->id) < floor)
        in->decide.stands = RT_JOURNAL_EXPIRED;
    in->decide.floor_ms = floor;
    bool may = in->decide.stands == RT_JOURNAL_ABSENT ||
               (r->stands == RT_JOURNAL_OPEN &&
                (!commit || r->registered <= in->decide.registered));
    if (!may) {
        in->decide.registered = r->registered;
        return false;
    }
    t->now = *r;
    if (r->stands == RT_JOURNAL_ABSENT) {
        t->now.deadline_ms = in->decide.deadline_ms;
        t->now.label = in->decide.label;
        t->now.label_size = strlen(in->decide.label);
    }
    t->now.stands = in->decide.decision;
    t->now.decided_ms = rt_jetcd_wall_ms();
    t->now.branches = t->a->bytes;
    t->now.branches_size = t->a->size;
    in->decide.stands = in->decide.decision; /* if it succeeds */
    return true;
}

/* Writes to T->bytes the registered branches of R, then those of A that are not among them. */
static int add_registered(struct task *t, const struct rt_entry_record *r)
{
    struct rt_journal_branch branch;
    size_t at = 0, from = 0, size = r->registered_size;
    uint8_t *all = rt_alloc(r->registered_size + t->a->size + 1);
    if (all == NULL)
        return rt_words_nomem(&t->j->base.base);
    if (size > 0)
        memcpy(all, r->registered_bytes, size);
    for (; rt_record_read(t->a->bytes, t->a->size, &at, &branch); from = at) {
        if (rt_entry_has(r->registered_bytes, r->registered_size, branch.number))
            continue;
        memcpy(all + size, t->a->bytes + from, at - from);
        size += at - from;
        t->now.registered++;
    }
    rt_free(t->bytes);
    t->bytes = all;
    t->now.registered_bytes = all;
    t->now.registered_size = size;
    return 0;
}

static bool judge_register(struct task *t, const struct rt_entry_record *r, int64_t floor, int *err)
{
    struct rt_journal_op *in = &t->a->in;
    in->reg.stands = r->stands;
    if (r->stands == RT_JOURNAL_ABSENT && rt_txn_id_birth(&t->id) < floor)
        in->reg.stands = RT_JOURNAL_EXPIRED;
    in->reg.floor_ms = floor;
    if (in->reg.stands != RT_JOURNAL_ABSENT && in->reg.stands != RT_JOURNAL_OPEN)
        return false;
    uint32_t before = r->registered;
    t->now = *r;
    if (r->stands == RT_JOURNAL_ABSENT) {
        t->now.deadline_ms = in->reg.deadline_ms;
        t->now.label = in->reg.label;
        t->now.label_size = strlen(in->reg.label);
    }
    t->now.stands = RT_JOURNAL_OPEN;
    *err = add_registered(t, r);
    if (*err == 0 && t->now.registered_size > RT_ENTRY_REGISTERED_MAX)
        *err = rt_words_fail(
            &t->j->base.base, ROTA_INVALID,
            "a journal in etcd keeps %d KB of a transaction's registered branches and their "
            "payloads, and this has more: send less, or a reference to it",
            RT_ENTRY_REGISTERED_MAX / 1024);
    in->reg.stands = RT_JOURNAL_OPEN;
    return *err == 0 && (r->stands == RT_JOURNAL_ABSENT || t->now.registered > before);
}

static bool judge_claim(struct task *t, const struct rt_entry_record *r, int *err)
{
    struct rt_journal_op *in = &t->a->in;
    int64_t now = rt_jetcd_wall_ms();
    bool back = in->claim.for_ms == 0, ours = r->claimer == in->claim.who;
    if (r->stands == RT_JOURNAL_ABSENT || r->done) {
        *err = rt_words_fail(&t->j->base.base, ROTA_LOST,
                             "there is no such transaction to claim, or it is done");
        return false;
    }
    in->claim.until_ms = r->claimed_ms;
    if (back && !ours)
        return false;
    if (!ours && r->claimer != 0 && r->claimed_ms > now) {
        in->claim.who = r->claimer;
        *err = rt_words_fail(&t->j->base.base, ROTA_BUSY, "recovery %016" PRIx64 " has claimed it",
                             r->claimer);
        return false;
    }
    t->now = *r;
    t->now.claimer = back ? 0 : in->claim.who;
    t->now.claimed_ms = back ? 0 : now + in->claim.for_ms;
    in->claim.until_ms = t->now.claimed_ms;
    return true;
}

static bool judge(struct task *t, const struct rt_entry_record *r, int64_t floor, int *err)
{
    *err = 0;
    switch (t->a->in.kind) {
    case RT_JOURNAL_DECIDE:
        return judge_decide(t, r, floor);
    case RT_JOURNAL_REGISTER:
        return judge_register(t, r, floor, err);
    case RT_JOURNAL_CLAIM:
        return judge_claim(t, r, err);
    default:
        assert(t->a->in.kind == RT_JOURNAL_DONE);
        t->now = *r;
        t->now.done = true;
        return (r->stands == RT_JOURNAL_COMMIT || r->stands == RT_JOURNAL_ABORT) && !r->done;
    }
}

static void on_looked(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err, const void *reply);

static int look(struct task *t)
{
    struct rt_jetcd_message m;
    struct rt_jetcd_key meta, floor, row;
    rt_jetcd_key(&meta, t->j, "meta");
    rt_jetcd_key(&floor, t->j, "floor");
    rt_jetcd_key_of(&row, t->j, &t->id);
    rt_jetcd_message(&m);
    rt_jetcd_say_look(&m, rt_jetcd_then, &meta, &floor, &row);
    return rt_jetcd_send_message(t->j, &m, t->a->in.deadline, on_looked, t);
}

/* Puts T->now in place of what was there at its revision; 0: nothing was. */
static int put_record(struct task *t)
{
    struct rt_jetcd_message m;
    struct rt_jetcd_key meta, floor, row, open;
    char least[16];
    ProtobufCBinaryData value;
    size_t room = rt_entry_size(&t->now);
    uint8_t *bytes = rt_alloc(room);
    if (bytes == NULL)
        return rt_words_nomem(&t->j->base.base);
    rt_jetcd_key(&meta, t->j, "meta");
    rt_jetcd_key(&floor, t->j, "floor");
    rt_jetcd_key_of(&row, t->j, &t->id);
    rt_jetcd_key_open(&open, t->j, &t->id, t->now.deadline_ms);
    snprintf(least, sizeof(least), "%012" PRIx64, (uint64_t)rt_txn_id_birth(&t->id));
    rt_jetcd_message(&m);
    rt_jetcd_if_value(&m, rt_jetcd_data(&meta), RT_ETCD__COMPARE__RESULT__EQUAL, t->j->meta);
    if (t->now.revision != 0) {
        rt_jetcd_if_changed_at(&m, rt_jetcd_data(&row), t->now.revision);
    } else {
        rt_jetcd_if_created(&m, rt_jetcd_data(&row), 0);
        /* "not above": etcd compares bytes by < and > only */
        strcat(least, "~");
        rt_jetcd_if_value(&m, rt_jetcd_data(&floor), RT_ETCD__COMPARE__RESULT__LESS, least);
    }
    value = (ProtobufCBinaryData){rt_entry_write(&t->now, true, bytes), bytes};
    rt_jetcd_put(&m, rt_jetcd_then(&m), rt_jetcd_data(&row), value);
    if (t->now.done)
        rt_jetcd_delete(&m, rt_jetcd_then(&m), rt_jetcd_data(&open));
    else
        rt_jetcd_put(&m, rt_jetcd_then(&m), rt_jetcd_data(&open),
                     (ProtobufCBinaryData){rt_entry_write(&t->now, false, NULL), bytes});
    rt_jetcd_say_look(&m, rt_jetcd_otherwise, &meta, &floor, &row);
    int rv = rt_jetcd_send_message(t->j, &m, t->a->in.deadline, on_looked, t);
    rt_free(bytes);
    return rv;
}

/* Judges what is there: puts the record, or tells the answer. */
static void go_on(struct task *t, const struct rt_entry_record *r, int64_t floor)
{
    int err;
    bool puts = judge(t, r, floor, &err);
    if (puts)
        err = put_record(t);
    if (!puts || err != 0)
        task_end(t, err);
}

static void on_looked(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err, const void *reply)
{
    struct task *t = ask->owner;
    const RtEtcd__TxnResponse *r = reply;
    struct rt_entry_record record = {.label = ""};
    int64_t floor = 0;
    (void)c;
    if (err != 0) {
        task_end(t, err);
        return;
    }
    bool looked = r->n_responses == 3;
    if (!looked) { /* it was put */
        task_end(t, 0);
        return;
    }
    const RtEtcd__KeyValue *row = rt_jetcd_only(r, 2);
    err = rt_jetcd_check_meta(t->j, rt_jetcd_only(r, 0));
    if (err == 0)
        err = rt_jetcd_floor_of(t->j, rt_jetcd_only(r, 1), &floor);
    if (err == 0 && row != NULL && !rt_entry_read(row->value.data, row->value.len, &record))
        err = rt_jetcd_damaged(t->j);
    if (err != 0) {
        task_end(t, err);
        return;
    }
    record.revision = row != NULL ? row->mod_revision : 0;
    go_on(t, &record, floor);
}

static struct task *task_new(struct rt_jetcd *j, struct rt_journal_ask *a,
                             const struct rt_txn_id *id)
{
    struct task *t = rt_alloc(sizeof(*t));
    if (t == NULL)
        return NULL;
    t->j = j;
    t->a = a;
    t->id = *id;
    a->steps++;
    return t;
}

/* An op that makes a record mostly finds none there, so it does not look first. */
int rt_jetcd_records(struct rt_jetcd *j, struct rt_journal_ask *a)
{
    static const struct rt_entry_record none = {.label = ""};
    bool makes = a->in.kind == RT_JOURNAL_DECIDE || a->in.kind == RT_JOURNAL_REGISTER;
    size_t count = a->in.kind == RT_JOURNAL_DONE ? a->in.finish.count : 1;
    int rv = 0;
    a->first = a->steps = 0;
    for (size_t i = 0; rv == 0 && i < count; i++) {
        struct task *t = task_new(
            j, a, a->in.kind == RT_JOURNAL_DONE ? &a->in.finish.ids[i] : rt_journal_ask_id(a));
        int err = 0;
        if (t == NULL)
            return a->steps > 0 ? 0 : rt_words_nomem(&j->base.base);
        rv = !makes ? look(t) : judge(t, &none, 0, &err) ? put_record(t) : err;
        if (rv != 0) {
            a->steps--;
            task_free(t);
        }
    }
    if (rv != 0 && a->steps > 0)
        a->first = (size_t)-rv;
    return a->steps > 0 ? 0 : rv;
}

/* Only their requests know the tasks. */
void rt_jetcd_records_close(struct rt_jetcd *j)
{
    const struct rt_ledger *l = &j->conn.link.ledger;
    const struct rt_entry *heads[] = {&l->waiting, &l->flying};
    for (size_t i = 0; i < 2; i++)
        for (const struct rt_entry *e = heads[i]->next; e != heads[i]; e = e->next) {
            const struct rt_etcd_ask *ask = (const struct rt_etcd_ask *)(const void *)e;
            if (ask->answer == on_looked)
                task_free(ask->owner);
        }
}
