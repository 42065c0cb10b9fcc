/* SPDX-License-Identifier: Apache-2.0 */
/* Checking ops, copying them, keeping them in the ledger, and telling them. */
#include "txn/journal/ask.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "engine/kit/words.h"
#include "txn/journal/points.h"
#include "txn/journal/record.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- Checking --------------------------------------------------------------------------------------- */

static int check_branch(struct rt_conn *conn, const struct rt_journal_branch *b)
{
    size_t name = b->resource != NULL ? strnlen(b->resource, RT_JOURNAL_NAME_MAX + 1) : 0;
    if (name == 0 || name > RT_JOURNAL_NAME_MAX)
        return rt_words_fail(conn, ROTA_INVALID, "branch %u: the name of its resource has %s",
                             (unsigned)b->number, name == 0 ? "no bytes" : "more than 255 bytes");
    if (b->size > RT_JOURNAL_BYTES_MAX || (b->size > 0 && b->payload == NULL))
        return rt_words_fail(conn, ROTA_INVALID,
                             "branch %u: its payload has %zu bytes, the limit is %d",
                             (unsigned)b->number, b->size, RT_JOURNAL_BYTES_MAX);
    return 0;
}

static int check_branches(struct rt_conn *conn, const struct rt_journal_branch *list, size_t count,
                          size_t *bytes)
{
    if (count > RT_JOURNAL_BRANCHES_MAX || (count > 0 && list == NULL))
        return rt_words_fail(conn, ROTA_INVALID, "%zu branches at once: the limit is %d", count,
                             RT_JOURNAL_BRANCHES_MAX);
    for (size_t i = 0; i < count; i++) {
        int rv = check_branch(conn, &list[i]);
        if (rv != 0)
            return rv;
        *bytes += rt_record_size(&list[i]);
        if (*bytes > RT_JOURNAL_BYTES_MAX)
            return rt_words_fail(conn, ROTA_INVALID, "the branches have more than %d bytes",
                                 RT_JOURNAL_BYTES_MAX);
    }
    return 0;
}

static int check_time(struct rt_conn *conn, int64_t ms, const char *what)
{
    if (ms >= 0 && ms <= RT_TXN_BIRTH_MAX)
        return 0;
    return rt_words_fail(conn, ROTA_INVALID, "%s is not a time in milliseconds: %lld", what,
                         (long long)ms);
}

static int check_label(struct rt_conn *conn, const char *label)
{
    if (label == NULL || rt_utf8_is(label))
        return 0;
    return rt_words_fail(conn, ROTA_INVALID, "the label is not UTF-8");
}

static int check_count(struct rt_conn *conn, size_t count)
{
    if (count >= 1 && count <= RT_JOURNAL_PAGE_MAX)
        return 0;
    return rt_words_fail(conn, ROTA_INVALID, "a page has 1 to %d entries, not %zu",
                         RT_JOURNAL_PAGE_MAX, count);
}

static int check_decide(struct rt_conn *conn, const struct rt_journal_op *op, size_t *bytes)
{
    if (op->decide.decision != RT_JOURNAL_COMMIT && op->decide.decision != RT_JOURNAL_ABORT)
        return rt_words_fail(conn, ROTA_INVALID, "a decision is COMMIT or ABORT");
    int rv = check_time(conn, op->decide.deadline_ms, "the deadline");
    if (rv == 0)
        rv = check_label(conn, op->decide.label);
    return rv != 0 ? rv : check_branches(conn, op->decide.branches, op->decide.count, bytes);
}

static int check_register(struct rt_conn *conn, const struct rt_journal_op *op, size_t *bytes)
{
    int rv = check_time(conn, op->reg.deadline_ms, "the deadline");
    if (rv == 0)
        rv = check_label(conn, op->reg.label);
    return rv != 0 ? rv : check_branches(conn, op->reg.branches, op->reg.count, bytes);
}

static int check_resource(struct rt_conn *conn, const struct rt_journal_op *op)
{
    const char *name = op->resource.name, *url = op->resource.url;
    size_t size = name != NULL ? strnlen(name, RT_JOURNAL_NAME_MAX + 1) : 0;
    if (size == 0 || size > RT_JOURNAL_NAME_MAX)
        return rt_words_fail(conn, ROTA_INVALID, "the name of a resource must have 1 to %d bytes",
                             RT_JOURNAL_NAME_MAX);
    if (!rt_utf8_is(name))
        return rt_words_fail(conn, ROTA_INVALID, "the name of a resource is not UTF-8");
    if (url == NULL || strnlen(url, RT_JOURNAL_URL_MAX + 1) > RT_JOURNAL_URL_MAX)
        return rt_words_fail(conn, ROTA_INVALID, "the URL of a resource can have up to %d bytes",
                             RT_JOURNAL_URL_MAX);
    if (!rt_utf8_is(url))
        return rt_words_fail(conn, ROTA_INVALID, "the URL of a resource is not UTF-8");
    return 0;
}

/* *BYTES: how many its branches take. */
static int check(struct rt_conn *conn, const struct rt_journal_op *op, size_t *bytes)
{
    int rv;
    switch (op->kind) {
    case RT_JOURNAL_IDENTIFY:
    case RT_JOURNAL_READ:
    case RT_JOURNAL_RESOURCES:
        return 0;
    case RT_JOURNAL_REGISTER:
        return check_register(conn, op, bytes);
    case RT_JOURNAL_DECIDE:
        return check_decide(conn, op, bytes);
    case RT_JOURNAL_DONE:
        return check_count(conn, op->finish.ids != NULL ? op->finish.count : 0);
    case RT_JOURNAL_FORGET:
        rv = check_time(conn, op->forget.before_ms, "the floor");
        return rv != 0 ? rv : check_time(conn, op->forget.keep_ms, "what is kept");
    case RT_JOURNAL_SCAN:
        rv = check_count(conn, op->scan.limit);
        return rv != 0 ? rv : check_time(conn, op->scan.after_deadline_ms, "the cursor");
    case RT_JOURNAL_CLAIM:
        return op->claim.who != 0
                   ? 0
                   : rt_words_fail(conn, ROTA_INVALID, "a claim needs to say whose it is");
    case RT_JOURNAL_RESOURCE:
        return check_resource(conn, op);
    case RT_JOURNAL_OPS:
        break;
    }
    return rt_words_fail(conn, ROTA_INVALID, "no such operation: %d", (int)op->kind);
}

/* ---- Copying ----------------------------------------------------------------------------------------- */

/* Copies SIZE bytes to the room after the struct, at *AT. */
static void *copy(uint8_t **at, const void *from, size_t size)
{
    uint8_t *to = *at;
    if (size > 0)
        memcpy(to, from, size);
    *at += size;
    return to;
}

/* A NUL-terminated text of at most MOST bytes; NULL becomes "". A database would refuse bytes that are not UTF-8. */
static const char *copy_text(uint8_t **at, const char *text, size_t most)
{
    char *to = rt_utf8_clean(text != NULL ? text : "", (char *)*at, most + 1);
    *at += strlen(to) + 1;
    return to;
}

static void copy_branches(struct rt_journal_ask *a, uint8_t **at,
                          const struct rt_journal_branch *list, size_t count)
{
    a->bytes = *at;
    for (size_t i = 0; i < count; i++) {
        rt_record_write(&list[i], *at);
        *at += rt_record_size(&list[i]);
    }
    a->size = (size_t)(*at - a->bytes);
}

static void fill(struct rt_journal_ask *a, const struct rt_journal_op *op)
{
    uint8_t *at = (uint8_t *)(a + 1);
    a->in = *op;
    switch (op->kind) {
    case RT_JOURNAL_DONE:
        a->in.finish.ids = copy(&at, op->finish.ids, op->finish.count * sizeof(*op->finish.ids));
        break;
    case RT_JOURNAL_REGISTER:
        copy_branches(a, &at, op->reg.branches, op->reg.count);
        a->in.reg.branches = NULL;
        a->in.reg.label = copy_text(&at, op->reg.label, RT_JOURNAL_LABEL_MAX);
        break;
    case RT_JOURNAL_DECIDE:
        copy_branches(a, &at, op->decide.branches, op->decide.count);
        a->in.decide.branches = NULL;
        a->in.decide.label = copy_text(&at, op->decide.label, RT_JOURNAL_LABEL_MAX);
        break;
    case RT_JOURNAL_RESOURCE:
        a->in.resource.name = copy_text(&at, op->resource.name, RT_JOURNAL_NAME_MAX);
        a->in.resource.url = copy_text(&at, op->resource.url, RT_JOURNAL_URL_MAX);
        break;
    default:
        break;
    }
}

static size_t room_for(const struct rt_journal_op *op, size_t bytes)
{
    switch (op->kind) {
    case RT_JOURNAL_DONE:
        return op->finish.count * sizeof(*op->finish.ids);
    case RT_JOURNAL_REGISTER:
    case RT_JOURNAL_DECIDE:
        return bytes + RT_JOURNAL_LABEL_MAX + 1;
    case RT_JOURNAL_RESOURCE:
        return RT_JOURNAL_NAME_MAX + RT_JOURNAL_URL_MAX + 2;
    default:
        return 0;
    }
}

/* ---- Forgetting -------------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void rt_journal_ask_clamp(struct rt_journal_ask *a, int64_t now_ms, int64_t newest_ms)
{
    int64_t now = now_ms - a->in.forget.keep_ms, newest = newest_ms - a->in.forget.keep_ms;

    a->in.forget.before_ms = least(a->in.forget.before_ms, now > 0 ? now : 0);
    a->in.forget.floor_ms = least(a->in.forget.before_ms, newest > 0 ? newest : 0);
}

/* ---- Submitting --------------------------------------------------------------------------------------- */

bool rt_journal_ask_reads(const struct rt_journal_ask *a)
{
    return a->in.kind == RT_JOURNAL_IDENTIFY || a->in.kind == RT_JOURNAL_READ ||
           a->in.kind == RT_JOURNAL_SCAN || a->in.kind == RT_JOURNAL_RESOURCES;
}

bool rt_journal_ask_durable(const struct rt_journal_ask *a)
{
    return !rt_journal_ask_reads(a) && a->in.kind != RT_JOURNAL_DONE &&
           a->in.kind != RT_JOURNAL_CLAIM;
}

const struct rt_txn_id *rt_journal_ask_id(const struct rt_journal_ask *a)
{
    switch (a->in.kind) {
    case RT_JOURNAL_REGISTER:
        return &a->in.reg.id;
    case RT_JOURNAL_DECIDE:
        return &a->in.decide.id;
    case RT_JOURNAL_READ:
        return &a->in.read.id;
    case RT_JOURNAL_CLAIM:
        return &a->in.claim.id;
    case RT_JOURNAL_DONE:
        return a->in.finish.count == 1 ? a->in.finish.ids : NULL;
    default:
        return NULL;
    }
}

static int foreign(struct rt_journal_desk *d, const struct rt_txn_id *id)
{
    char text[RT_TXN_ID_TEXT];
    if (rt_txn_id_journal(id) == d->number)
        return 0;
    rt_txn_id_text(id, text);
    return rt_words_fail(&d->j->base, ROTA_INVALID,
                         "%s belongs to another journal: the ids of this one begin with %08x", text,
                         (unsigned)d->number);
}

int rt_journal_ask_foreign(struct rt_journal_desk *d, const struct rt_journal_ask *a)
{
    const struct rt_txn_id *id = rt_journal_ask_id(a);
    assert(d->number != 0);
    if (a->in.kind != RT_JOURNAL_DONE)
        return id != NULL ? foreign(d, id) : 0;
    for (size_t i = 0; i < a->in.finish.count; i++)
        if (foreign(d, &a->in.finish.ids[i]) != 0)
            return ROTA_INVALID;
    return 0;
}

static void refuse(struct rt_journal_desk *d, struct rt_journal_op *op, int err)
{
    op->err = err;
    op->next = NULL;
    *d->tail = op;
    d->tail = &op->next;
    rt_timers_at(&d->j->base.loop->timers, &d->timer.timer, rt_loop_now(d->j->base.loop));
}

/* Finds the reason again, for errmsg must be that of the op being told. */
static void tell_refused(struct rt_timer_call *call, int64_t now)
{
    struct rt_journal_desk *d =
        (struct rt_journal_desk *)(void *)((char *)call - offsetof(struct rt_journal_desk, timer));
    struct rt_journal_op *op = d->refused;
    size_t bytes = 0;
    (void)now;
    if (op == NULL)
        return;
    d->refused = op->next;
    if (d->refused == NULL)
        d->tail = &d->refused;
    else
        rt_timers_at(&d->j->base.loop->timers, &d->timer.timer, now);
    if (op->err == ROTA_NOMEM)
        (void)rt_words_nomem(&d->j->base);
    else
        op->err = check(&d->j->base, op, &bytes);
    d->j->up->done(d->j->up, op);
}

void rt_journal_desk_submit(struct rt_journal_desk *d, struct rt_journal_op *op)
{
    size_t bytes = 0;
    int rv = check(&d->j->base, op, &bytes);
    struct rt_journal_ask *a = rv == 0 ? rt_alloc(sizeof(*a) + room_for(op, bytes)) : NULL;
    if (a == NULL) {
        refuse(d, op, rv != 0 ? rv : ROTA_NOMEM);
        return;
    }
    fill(a, op);
    a->op = op;
    a->entry.deadline = op->deadline;
    a->entry.again = true;
    a->entry.reads = rt_journal_ask_reads(a);
    (void)rt_ledger_add(&d->ledger, &a->entry);
}

/* ---- Telling ------------------------------------------------------------------------------------------- */

static void answer(struct rt_journal_op *op, const struct rt_journal_op *in)
{
    switch (op->kind) {
    case RT_JOURNAL_IDENTIFY:
        op->identify = in->identify;
        return;
    case RT_JOURNAL_REGISTER:
        op->reg.stands = in->reg.stands;
        op->reg.floor_ms = in->reg.floor_ms;
        return;
    case RT_JOURNAL_DECIDE:
        op->decide.stands = in->decide.stands;
        op->decide.registered = in->decide.registered;
        op->decide.floor_ms = in->decide.floor_ms;
        return;
    case RT_JOURNAL_FORGET:
        op->forget = in->forget;
        return;
    case RT_JOURNAL_SCAN:
        op->scan = in->scan;
        return;
    case RT_JOURNAL_CLAIM:
        op->claim = in->claim;
        return;
    default:
        return;
    }
}

void rt_journal_ask_tell(struct rt_journal_desk *d, struct rt_journal_ask *a, int err)
{
    struct rt_journal_op *op = a->op;
    assert(op != NULL && a->entry.next == NULL);
    a->op = NULL;
    op->err = err;
    if (err == 0 || err == ROTA_BUSY)
        answer(op, &a->in);
    rt_journal_point_answered(&a->in);
    d->j->up->done(d->j->up, op);
}

void rt_journal_ask_free(struct rt_journal_ask *a)
{
    rt_free(a);
}

/* ---- Life ------------------------------------------------------------------------------------------------ */

int rt_journal_desk_init(struct rt_journal_desk *d, struct rt_journal *j,
                         const struct rt_ledger_user *user)
{
    int rv = rt_loop_reserve(j->base.loop, 2);
    if (rv != 0)
        return rt_words_nomem(&j->base);
    d->j = j;
    d->tail = &d->refused;
    d->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = tell_refused};
    rt_ledger_init(&d->ledger, &j->base, user);
    return 0;
}

void rt_journal_desk_fini(struct rt_journal_desk *d,
                          void (*free)(struct rt_ledger *l, struct rt_entry *e))
{
    rt_timers_stop(&d->j->base.loop->timers, &d->timer.timer);
    rt_ledger_fini(&d->ledger, free);
    rt_loop_unreserve(d->j->base.loop, 2);
}
