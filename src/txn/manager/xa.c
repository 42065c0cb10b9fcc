/* SPDX-License-Identifier: Apache-2.0 */
/* Branches on the application's connections: two-phase commit at MariaDB and PostgreSQL. */
#include "txn/manager/inside.h"

#include "base/alloc.h"
#include "engines.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static int check(struct rota_txn *t, const char *resource, const struct rt_party_kind *kind,
                 const void *conn)
{
    if (t == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "a branch needs a transaction");
    if (rt_txns_forked(t->m))
        return rt_txns_fail(t->m, ROTA_FORKED, "this transaction belongs to the parent process");
    if (kind == NULL)
        return rt_txns_fail(t->m, ROTA_UNSUPPORTED, "this library was built without PostgreSQL");
    if (conn == NULL)
        return rt_txns_fail(t->m, ROTA_INVALID, "a branch needs a connection");
    const char *fault = rt_resource_name_fault(resource != NULL ? resource : "");
    if (fault != NULL)
        return rt_txns_fail(t->m, ROTA_INVALID, "%s", fault);
    if (rt_loop_clock() >= t->core.deadline_at)
        return rt_txns_fail(t->m, ROTA_ABORTED, "the deadline of the transaction has passed");
    return 0;
}

/* With the mutex, if T is kept. B is in no list yet. */
static int prepare_branch(struct rota_txn *t, const char *resource, enum rt_branch_mode mode,
                          const struct rt_party_kind *kind, void *conn, struct rota_branch **out,
                          char *line)
{
    int err = 0;

    snprintf(line, RT_TXN_LINE, "out of memory");
    if (t->core.count >= RT_JOURNAL_BRANCHES_MAX) {
        snprintf(line, RT_TXN_LINE, "a transaction can have at most %d branches",
                 RT_JOURNAL_BRANCHES_MAX);
        return ROTA_INVALID;
    }
    pthread_mutex_lock(&t->m->front);
    err = rt_entry_room(t, t->last_number + 1 - t->core.count); /* others may be beginning */
    pthread_mutex_unlock(&t->m->front);
    if (err != 0)
        return err;
    struct rota_branch *b = rt_entry_branch(t, resource, mode);
    if (b == NULL)
        return ROTA_NOMEM;
    b->seat = rt_seat_take(t->m, kind, conn, &err, line);
    if (b->seat == NULL) {
        rt_entry_free_branch(b);
        return err;
    }
    b->bond->part.name = (struct rt_name){t->core.id, rt_entry_number(t), t->core.deadline_ms};
    *out = b;
    return 0;
}

/* On the caller's thread, on the caller's connection: attached once, then the branch begins. */
static int begin_there(struct rota_txns *m, struct rota_branch *b, char *line)
{
    struct rt_party *p = b->seat->party;
    struct rt_party_op op = {.what = RT_PARTY_ATTACH};
    enum rt_reply reply = RT_REPLY_DONE;

    op.deadline = rt_loop_clock() + m->opts.call_ms * RT_MS;
    if (!p->attached)
        reply = rt_party_do(p, &op);
    if (reply == RT_REPLY_DONE) {
        op = (struct rt_party_op){
            .what = RT_PARTY_BEGIN, .part = &b->bond->part, .deadline = op.deadline};
        reply = rt_party_do(p, &op);
    }
    if (reply == RT_REPLY_DONE)
        return 0;
    snprintf(line, RT_TXN_LINE, "%s", p->errmsg);
    return op.err != 0 ? op.err : ROTA_PROTOCOL;
}

/* Tells the journal of its resource, unless it knows. */
static void make_known(struct rota_txn *t, struct rota_branch *b)
{
    struct rt_seat *seat = b->seat;

    if (rt_known_is(seat->known, b->name))
        return;
    if (!t->kept)
        pthread_mutex_lock(&t->m->mu);
    seat->known = rt_known_use(t->m, b->name, b->resource, b->mode);
    if (!t->kept)
        pthread_mutex_unlock(&t->m->mu);
}

static void add_branch(struct rota_txn *t, struct rota_branch *b)
{
    const struct rt_party_kind *kind = b->seat->party->kind;
    struct rt_place place;

    rt_place_of(b->seat->party, &place);
    b->bond->payload_size = rt_place_write(&place, b->bond->payload);
    b->added = true;
    pthread_mutex_lock(&t->m->front);
    b->index = t->core.count;
    t->branches[b->index] = b;
    rt_txn_add(&t->core, b->bond->part.name.branch,
               b->resource != NULL ? rt_resource_index(b->resource) : RT_TXN_UNKNOWN_RESOURCE,
               kind->gated);
    pthread_mutex_unlock(&t->m->front);
    make_known(t, b);
}

/* ---- On the keeper's thread: without waiting, and of joined transactions ---------------- */

static void take_out(struct rota_branch *b)
{
    for (struct rota_branch **at = &b->txn->begins; *at != NULL; at = &(*at)->next_begin)
        if (*at == b) {
            *at = b->next_begin;
            return;
        }
}

static void begin_over(struct rota_branch *b, int err, const char *line)
{
    struct rota_txn *t = b->txn;
    struct rota_txns *m = t->m;
    struct rt_caller *call = b->begins;

    take_out(b);
    b->begins = NULL;
    rt_lent_unwatch(b);
    if (err == 0) {
        if (!b->added)
            add_branch(t, b);
        if (b->out != NULL)
            *b->out = b;
    } else {
        rt_seat_leave(m, b->seat);
        b->seat = NULL;
        b->bond->part.failed =
            true; /* if it is registered, whoever began T would wait for it in vain */
        if (!b->added)
            rt_entry_free_branch(b);
    }
    rt_txns_answer(m, call, err, line);
}

#define TOO_LATE \
    "the transaction was decided before, its deadline has passed, or its manager is closed"

/* Before it begins in a joined transaction: whether the journal has it. */
static bool may_begin(struct rota_branch *b)
{
    struct rota_txn *t = b->txn;

    if (t->core.state != RT_TXN_ACTIVE) {
        begin_over(b, ROTA_ABORTED, TOO_LATE);
        return false;
    }
    if (!t->core.joined)
        return true;
    if (!b->added) {
        add_branch(t, b);
        rt_txns_due(t); /* it is to be registered */
    }
    const struct rt_branch *core = &t->core.branches[b->index];
    bool late = rt_loop_now(&t->m->loop) >= b->begin_by;
    if (core->state == RT_BRANCH_JOINING && late)
        begin_over(b, ROTA_UNREACHABLE, "the journal did not answer: the branch is not registered");
    else
        return core->state == RT_BRANCH_ACTIVE;
    return false; /* B may be gone */
}

void rt_xa_go_on(struct rota_branch *b)
{
    assert(b->begins != NULL && b->op_seq == 0);
    if (!b->seat->party->attached)
        rt_lent_ask(b, RT_PARTY_ATTACH, 1);
    else if (may_begin(b))
        rt_lent_ask(b, RT_PARTY_BEGIN, 1);
}

void rt_xa_begun(struct rota_branch *b)
{
    char line[RT_TXN_LINE];

    assert(b->begins != NULL && b->op_seq == 0);
    if (b->bond->op.reply == RT_REPLY_DONE && b->bond->op.what == RT_PARTY_ATTACH) {
        rt_txns_due(b->txn);
        return;
    }
    bool too_late = !b->added && b->txn->core.state != RT_TXN_ACTIVE; /* abandoned meanwhile */
    if (b->bond->op.what == RT_PARTY_ROLLBACK) {
        if (b->bond->op.reply != RT_REPLY_DONE)
            rt_seat_cut(b->seat);
        begin_over(b, ROTA_ABORTED, TOO_LATE);
        return;
    }
    if (b->bond->op.reply == RT_REPLY_DONE && too_late) {
        rt_lent_ask(b, RT_PARTY_ROLLBACK, 1);
        return;
    }
    snprintf(line, sizeof(line), "%.50s: %.200s", b->name, b->seat->party->errmsg);
    int err = b->bond->op.err != 0 ? b->bond->op.err : ROTA_PROTOCOL;
    begin_over(b, b->bond->op.reply == RT_REPLY_DONE ? 0 : err, line);
}

/* Hands it to the keeper, which answers CALL. */
static int begin_by_keeper(struct rota_txn *t, const char *resource, enum rt_branch_mode mode,
                           const struct rt_party_kind *kind, void *conn, struct rota_branch **out,
                           struct rt_caller *call, char *line)
{
    struct rota_branch *b;

    if (t->m->left || t->abandoned) {
        snprintf(line, RT_TXN_LINE, "the manager is being closed");
        return ROTA_CLOSED;
    }
    int rv = prepare_branch(t, resource, mode, kind, conn, &b, line);
    if (rv != 0)
        return rv;
    b->begins = call;
    b->out = out;
    b->begin_by = rt_loop_clock() + t->m->opts.call_ms * RT_MS;
    b->next_begin = t->begins;
    t->begins = b;
    t->kept = true;
    rt_txns_due(t);
    return 0;
}

static int begin_and_wait(struct rota_txn *t, const char *resource, enum rt_branch_mode mode,
                          const struct rt_party_kind *kind, void *conn, struct rota_branch **out)
{
    char line[RT_TXN_LINE];
    struct rt_caller call;
    struct rota_txns *m = t->m;

    rt_caller_waits(&call);
    pthread_mutex_lock(&m->mu);
    int rv = begin_by_keeper(t, resource, mode, kind, conn, out, &call, line);
    if (rv == 0)
        return rt_txns_wait(m, &call);
    pthread_mutex_unlock(&m->mu);
    sem_destroy(&call.sem);
    return rt_txns_fail(m, rv, "%s", line);
}

/* What the keeper knows is changed with the mutex held. */
static void hold(struct rota_txn *t)
{
    if (t->kept)
        pthread_mutex_lock(&t->m->mu);
}

static void let_go(struct rota_txn *t)
{
    if (t->kept)
        pthread_mutex_unlock(&t->m->mu);
}

int rt_xa_begin(struct rota_txn *t, const char *resource, enum rt_branch_mode mode,
                const struct rt_party_kind *kind, void *conn, struct rota_branch **out)
{
    char line[RT_TXN_LINE];
    struct rota_branch *b = NULL;

    int rv = check(t, resource, kind, conn);
    if (rv == 0)
        rv = rt_txns_enter(t->m, "a branch");
    if (rv != 0)
        return rv;
    struct rota_txns *m = t->m;
    if (t->core.joined)
        return begin_and_wait(t, resource, mode, kind, conn, out);
    hold(t);
    rv = prepare_branch(t, resource, mode, kind, conn, &b, line);
    let_go(t);
    if (rv != 0)
        return rt_txns_fail(m, rv, "%s", line);
    rv = begin_there(m, b, line);
    hold(t);
    if (rv == 0) {
        add_branch(t, b);
    } else {
        rt_seat_leave(m, b->seat);
        b->seat = NULL;
        rt_entry_free_branch(b);
    }
    let_go(t);
    if (rv != 0)
        return rt_txns_fail(m, rv, "%s: %s", resource, line);
    if (out != NULL)
        *out = b;
    return 0;
}

static int begin_later(struct rota_txn *t, const char *resource, enum rt_branch_mode mode,
                       const struct rt_party_kind *kind, void *conn, struct rota_branch **out,
                       rota_txn_fn *fn, void *arg)
{
    char line[RT_TXN_LINE];

    int rv = check(t, resource, kind, conn);
    if (rv != 0)
        return rv;
    if (fn == NULL)
        return rt_txns_fail(t->m, ROTA_INVALID,
                            "a branch that begins later needs a function to call");
    struct rt_caller *call = rt_caller_new(fn, arg);
    if (call == NULL)
        return rt_txns_fail(t->m, ROTA_NOMEM, "out of memory");
    struct rota_txns *m = t->m;
    pthread_mutex_lock(&m->mu);
    rv = begin_by_keeper(t, resource, mode, kind, conn, out, call, line);
    pthread_mutex_unlock(&m->mu);
    if (rv == 0)
        return 0;
    rt_caller_free(call);
    return rt_txns_fail(m, rv, "%s", line);
}

/* ---- Which databases --------------------------------------------------------------------- */

#if ROTA_ENGINE_POSTGRES
#define POSTGRES (&rt_xa_postgres)
#else
#define POSTGRES NULL /* this library was built without it */
#endif

int rota_xa_mysql(struct rota_txn *t, const char *resource, struct st_mysql *my,
                  struct rota_branch **out)
{
    return rt_xa_begin(t, resource, RT_XA_MYSQL, &rt_xa_mysql, my, out);
}

int rota_xa_postgres(struct rota_txn *t, const char *resource, struct pg_conn *pg,
                     struct rota_branch **out)
{
    return rt_xa_begin(t, resource, RT_XA_POSTGRES, POSTGRES, pg, out);
}

int rota_xa_mysql_async(struct rota_txn *t, const char *resource, struct st_mysql *my,
                        struct rota_branch **out, rota_txn_fn *fn, void *arg)
{
    return begin_later(t, resource, RT_XA_MYSQL, &rt_xa_mysql, my, out, fn, arg);
}

int rota_xa_postgres_async(struct rota_txn *t, const char *resource, struct pg_conn *pg,
                           struct rota_branch **out, rota_txn_fn *fn, void *arg)
{
    return begin_later(t, resource, RT_XA_POSTGRES, POSTGRES, pg, out, fn, arg);
}

/* The branch is the caller's own until its transaction is handed over. CALL: the function called, for the message. */
static int check_own(const struct rota_branch *b, const char *call)
{
    if (b == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "%s needs a branch", call);
    struct rota_txns *m = b->txn->m;
    if (rt_txns_forked(m))
        return rt_txns_fail(m, ROTA_FORKED, "this branch belongs to the parent process");
    if (b->txn->life != RT_LIFE_HELD)
        return rt_txns_fail(m, ROTA_INVALID, "%s is too late: vote, commit or abort has begun",
                            call);
    return 0;
}

int rota_branch_fail(struct rota_branch *b)
{
    int rv = check_own(b, "rota_branch_fail");
    if (rv == 0)
        b->bond->part.failed = true;
    return rv;
}

int rota_branch_last(struct rota_branch *b, const char *sql, uint64_t *changed)
{
    int rv = check_own(b, "rota_branch_last");
    if (rv != 0)
        return rv;
    struct rota_txns *m = b->txn->m;
    if (b->bond == NULL || b->seat == NULL)
        return rt_txns_fail(m, ROTA_INVALID, "the branch has no connection here");
    if (sql == NULL || sql[strspn(sql, " \t\r\n;")] == '\0')
        return rt_txns_fail(m, ROTA_INVALID, "rota_branch_last needs a statement");
    if (b->bond->last != NULL)
        return rt_txns_fail(m, ROTA_INVALID, "the branch has its last statement already");
    size_t size = strlen(sql) + 1;
    rv = rt_party_room(b->seat->party, size);
    if (rv != 0)
        return rt_txns_fail(m, rv, "%.50s: %s", b->name, b->seat->party->errmsg);
    char *copy = rt_alloc(size);
    if (copy == NULL)
        return rt_txns_fail(m, ROTA_NOMEM, "out of memory");
    b->bond->part.last = b->bond->last = memcpy(copy, sql, size);
    b->bond->changed = changed;
    if (changed != NULL)
        *changed = UINT64_MAX; /* until its answer is known */
    return 0;
}
