/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions: begin, join, commit, abort. */
#include "txn/manager/inside.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

int64_t rt_txns_wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Callers --------------------------------------------------------------------- */

void rt_caller_waits(struct rt_caller *call)
{
    memset(call, 0, sizeof(*call));
    sem_init(&call->sem, 0, 0);
    call->answered = &call->sem;
}

struct rt_caller *rt_caller_new(rota_txn_fn *fn, void *arg)
{
    struct rt_caller *call = rt_alloc(sizeof(*call));

    if (call == NULL)
        return NULL;
    call->fn = fn;
    call->arg = arg;
    call->mine = true;
    return call;
}

void rt_caller_free(struct rt_caller *call)
{
    assert(call->mine);
    rt_free(call);
}

/* ---- Begin ------------------------------------------------------------------------ */

int rt_txns_options(const struct rota_txns *m, void *out, size_t room, const void *opts,
                    size_t size)
{
    memset(out, 0, room);
    if (opts != NULL)
        memcpy(out, opts, size < room ? size : room);
    for (size_t i = room; opts != NULL && i < size; i++)
        if (((const char *)opts)[i] != 0)
            return rt_txns_fail(
                m, ROTA_INVALID,
                "the options have fields this library does not know: it is older than "
                "the program");
    return 0;
}

static int take_options(struct rota_txns *m, const struct rota_txn_options *opts, size_t size,
                        struct rota_txn_options *out)
{
    int err = rt_txns_options(m, out, sizeof(*out), opts, size);

    if (err != 0)
        return err;
    if ((out->flags & ~(ROTA_TXN_WAIT | ROTA_TXN_ORDERED)) != 0)
        return rt_txns_fail(m, ROTA_INVALID, "unknown flags %#x in the options", out->flags);
    if (out->timeout_ms == 0)
        out->timeout_ms = m->opts.timeout_ms;
    if (out->timeout_ms < RT_TIMEOUT_LEAST || out->timeout_ms > RT_TIMEOUT_MOST)
        return rt_txns_fail(m, ROTA_INVALID, "a timeout of %u ms: use 1 second to 24 hours",
                            out->timeout_ms);
    if (out->label != NULL && strlen(out->label) > RT_JOURNAL_LABEL_MAX)
        return rt_txns_fail(m, ROTA_INVALID, "the label is longer than %d bytes: shorten it",
                            RT_JOURNAL_LABEL_MAX);
    if (out->label != NULL && !rt_utf8_is(out->label)) /* no journal would have it */
        return rt_txns_fail(m, ROTA_INVALID, "the label is not UTF-8: write it in UTF-8");
    return 0;
}

void rt_txns_random(void *out, size_t size)
{
    size_t got = 0;
    while (got < size) {
        ssize_t n = getrandom((char *)out + got, size - got, 0);
        got += n > 0 ? (size_t)n : 0;
    }
}

static void write_handle(struct rota_txn *t)
{
    rt_name_ticket(&(struct rt_name){.id = t->core.id, .deadline_ms = t->core.deadline_ms},
                   t->text);
}

static void name_it(struct rota_txn *t, uint32_t timeout_ms)
{
    struct rota_txns *m = t->m;
    int64_t birth = rt_txns_wall_ms(), deadline = birth + timeout_ms;
    uint64_t random = 0;
    struct rt_branch *branches = t->core.branches;
    uint32_t room = t->core.room;

    rt_txns_random(&random, 6);
    struct rt_txn_id id = rt_txn_id_make(m->number, birth, random & ~RT_TXN_ID_SERVE);
    rt_txn_begin(&t->core, &id, deadline, rt_loop_clock() + timeout_ms * RT_MS, branches, room);
    write_handle(t);
}

static int begin_it(struct rota_txns *m, const struct rota_txn_options *o, struct rota_txn **out)
{
    char *label = NULL;

    if (o->label != NULL && (label = rt_strdup(o->label)) == NULL)
        return ROTA_NOMEM;
    struct rota_txn *t = rt_entry_make(m);
    if (t == NULL) {
        rt_free(label);
        return ROTA_NOMEM;
    }
    t->label = label;
    t->flags = o->flags;
    name_it(t, o->timeout_ms);
    pthread_mutex_lock(&m->front);
    bool closing = m->closing;
    if (!closing) {
        t->next_born = m->born;
        m->born = t;
    }
    pthread_mutex_unlock(&m->front);
    if (closing)
        rt_entry_unmake(t);
    else
        *out = t;
    return closing ? ROTA_CLOSED : 0;
}

int rota_txn_begin_sized(struct rota_txns *m, const struct rota_txn_options *opts, size_t size,
                         struct rota_txn **out)
{
    struct rota_txn_options o;

    if (m == NULL || out == NULL)
        return rt_txns_fail(m, ROTA_INVALID,
                            "rota_txn_begin needs a manager and a place for the transaction");
    if (rt_txns_forked(m))
        return rt_txns_fail(m, ROTA_FORKED,
                            "this manager belongs to the parent process: open another");
    int rv = take_options(m, opts, size, &o);
    if (rv != 0)
        return rv;
    struct rota_txn *t = NULL;
    rv = begin_it(m, &o, &t);
    if (rv != 0)
        return rt_txns_fail(m, rv, "%s", rota_strerror(rv));
    *out = t;
    return 0;
}

const char *rota_txn_id(struct rota_txn *t)
{
    if (rt_txns_forked(
            t->m)) /* its mutex may be held forever; all that can be done with T is to read this */
        return t->text;
    pthread_mutex_lock(&t->m->mu);
    t->core.shared = true;
    pthread_mutex_unlock(&t->m->mu);
    return t->text;
}

/* ---- Join --------------------------------------------------------------------------- */

#define SLACK_MS 1000 /* clocks differ by less than this */

static void on_record(void *arg, const struct rt_journal_record *record)
{
    *(int64_t *)arg = record->deadline_ms;
}

/* An id came without its deadline: the journal may have that. */
static int find_deadline(struct rota_txns *m, const struct rt_txn_id *id, int64_t *deadline_ms)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_READ};

    op.read.id = *id;
    op.read.each = on_record;
    op.read.arg = deadline_ms;
    int rv = rt_txns_ask(m, &op);
    if (rv == 0 && *deadline_ms == 0)
        rv = rt_txns_fail(
            m, ROTA_INVALID,
            "the journal has no deadline for that transaction: give the id as rota_txn_id "
            "returns it, with the deadline at its end");
    return rv;
}

static void join_it(struct rota_txn *t, const struct rt_txn_id *id, int64_t deadline_ms)
{
    int64_t left = (deadline_ms - rt_txns_wall_ms()) * RT_MS, at = rt_loop_clock() + left;
    struct rt_branch *branches = t->core.branches;

    rt_txn_join(&t->core, id, deadline_ms, at, at + SLACK_MS * RT_MS, branches, t->core.room);
    write_handle(t);
}

int rota_txn_join(struct rota_txns *m, const char *id, struct rota_txn **out)
{
    struct rt_txn_id parsed;
    int64_t deadline_ms;

    int rv = rt_txns_enter(m, "rota_txn_join");
    if (rv != 0)
        return rv;
    if (out == NULL)
        return rt_txns_fail(m, ROTA_INVALID, "rota_txn_join needs a place for the transaction");
    if (id == NULL && (id = getenv("ROTA_TXN")) == NULL)
        return rt_txns_fail(m, ROTA_INVALID, "rota_txn_join needs an id, or one in $ROTA_TXN");
    rv = rt_txns_read_id(m, id, &parsed, &deadline_ms);
    if (rv == 0 && deadline_ms == 0)
        rv = find_deadline(m, &parsed, &deadline_ms);
    if (rv != 0)
        return rv;
    if (deadline_ms <= rt_txns_wall_ms())
        return rt_txns_fail(m, ROTA_ABORTED, "the deadline of the transaction has passed");
    pthread_mutex_lock(&m->mu);
    struct rota_txn *t = m->closing ? NULL : rt_entry_new(m);
    rv = m->closing ? ROTA_CLOSED : t == NULL ? ROTA_NOMEM : 0;
    if (rv == 0) {
        t->kept = true;
        join_it(t, &parsed, deadline_ms);
        *out = t;
    }
    pthread_mutex_unlock(&m->mu);
    return rv == 0 ? 0 : rt_txns_fail(m, rv, "%s", rota_strerror(rv));
}

/* ---- Ends --------------------------------------------------------------------------- */

enum ending { VOTE, COMMIT, ABORT };

/* Its caller is answered a while after its deadline: it may still be decided until then. */
static int64_t limit_of(const struct rota_txn *t, int64_t now)
{
    int64_t from = t->core.deadline_at > now ? t->core.deadline_at : now;
    return from + t->m->opts.call_ms * RT_MS;
}

static void hand_over(struct rota_txn *t, enum ending what, struct rt_caller *call)
{
    struct rota_txns *m = t->m;
    int64_t now = rt_loop_clock();

    assert(t->life != RT_LIFE_ALONE && t->call == NULL);
    t->call = call;
    t->life = RT_LIFE_LENT;
    t->aborts = what == ABORT;
    t->votes = what == VOTE;
    for (uint32_t i = 0; i < t->core.count; i++) {
        const struct rota_branch *b = t->branches[i];
        if (b->bond == NULL || !b->bond->part.failed)
            continue;
        t->core.branches[i].failed = true;
        rt_drive_blame(t, b, "one of its statements or events failed, or the application said so");
    }
    if (what == VOTE)
        rt_txn_vote(&t->core, limit_of(t, now), now);
    else if (what == COMMIT)
        rt_txn_commit(&t->core, (t->flags & ROTA_TXN_WAIT) != 0, limit_of(t, now), now);
    else
        rt_txn_abort(&t->core, now + m->opts.call_ms * RT_MS, now);
    rt_txns_due(t);
}

void rt_calls_take(struct rota_txns *m)
{
    pthread_mutex_lock(&m->front);
    struct rota_txn *born = m->born, *handed = m->handed;
    m->born = m->handed = NULL;
    m->handed_tail = &m->handed;
    pthread_mutex_unlock(&m->front);
    for (; born != NULL; born = born->next_born) {
        rt_entry_link(born);
        rt_entry_named(born);
    }
    for (struct rota_txn *next; handed != NULL; handed = next) {
        next = handed->next_handed;
        hand_over(handed, (enum ending)handed->ending, handed->handed_by);
    }
}

/* Closing has taken T: its application can no longer end it. With the mutex. */
static bool is_left(const struct rota_txn *t)
{
    return t->m->left || t->abandoned;
}

static bool hand_kept(struct rota_txn *t, enum ending what, struct rt_caller *call)
{
    struct rota_txns *m = t->m;

    pthread_mutex_lock(&m->mu);
    bool left = is_left(t);
    if (!left)
        hand_over(t, what, call);
    pthread_mutex_unlock(&m->mu);
    return !left;
}

/* The keeper has not seen it yet: no need for its mutex. */
static bool hand_fresh(struct rota_txn *t, enum ending what, struct rt_caller *call)
{
    struct rota_txns *m = t->m;

    t->ending = (int)what;
    t->handed_by = call;
    t->next_handed = NULL;
    pthread_mutex_lock(&m->front);
    bool closing = m->closing; /* what was handed before is not abandoned */
    if (!closing) {
        *m->handed_tail = t;
        m->handed_tail = &t->next_handed;
        rt_txns_wake(
            m); /* before unlocking: after that M may be closed, T and its caller's answer gone */
    }
    pthread_mutex_unlock(&m->front);
    return !closing;
}

/* T is the keeper's from now on. Else CLOSED. */
static int hand(struct rota_txn *t, enum ending what, struct rt_caller *call)
{
    uint64_t serial = t->m->serial; /* after an error M may be closed by another thread */
    bool taken = t->kept ? hand_kept(t, what, call) : hand_fresh(t, what, call);

    return taken ? 0 : rt_txns_fail_late(serial, ROTA_CLOSED, "the manager is being closed");
}

static int may_end(struct rota_txn *t, const char *call)
{
    if (t == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "%s needs a transaction", call);
    if (rt_txns_forked(t->m))
        return rt_txns_fail(t->m, ROTA_FORKED, "this transaction belongs to the parent process");
    if (!t->kept)
        return 0; /* nobody else deals with it */
    pthread_mutex_lock(&t->m->mu);
    bool begins = t->begins != NULL || t->pending > 0, asked = t->call != NULL, left = is_left(t);
    pthread_mutex_unlock(&t->m->mu);
    if (left)
        return 0; /* told when it is handed over */
    if (asked)
        return rt_txns_fail(t->m, ROTA_INVALID, "its vote is under way: call %s after its callback",
                            call);
    if (begins)
        return rt_txns_fail(t->m, ROTA_INVALID, "a branch is beginning: call %s after its callback",
                            call);
    return 0;
}

static int end_and_wait(struct rota_txn *t, enum ending what, const char *name)
{
    struct rt_caller call;

    int rv = may_end(t, name);
    if (rv == 0)
        rv = rt_txns_enter(t->m, name);
    if (rv != 0)
        return rv;
    struct rota_txns *m = t->m;
    uint64_t serial = m->serial; /* after an error M may be closed by another thread */
    rt_caller_waits(&call);
    rv = hand(t, what, &call);
    if (rv != 0) {
        sem_destroy(&call.sem);
        return rv;
    }
    return rt_txns_await(serial, &call);
}

static int end_later(struct rota_txn *t, enum ending what, rota_txn_fn *fn, void *arg,
                     const char *name)
{
    int rv = may_end(t, name);
    if (rv != 0)
        return rv;
    struct rota_txns *m = t->m;
    if (fn == NULL)
        return rt_txns_fail(m, ROTA_INVALID, "%s needs a function to call", name);
    struct rt_caller *call = rt_caller_new(fn, arg);
    if (call == NULL)
        return rt_txns_fail(m, ROTA_NOMEM, "out of memory");
    rv = hand(t, what, call);
    if (rv != 0)
        rt_caller_free(call);
    return rv;
}

static int may_vote(struct rota_txn *t)
{
    if (t == NULL || rt_txns_forked(t->m))
        return 0; /* told below */
    pthread_mutex_lock(&t->m->mu);
    bool joined = t->core.joined, voted = t->life != RT_LIFE_HELD && !t->abandoned;
    pthread_mutex_unlock(&t->m->mu);
    if (!joined)
        return rt_txns_fail(t->m, ROTA_INVALID,
                            "rota_txn_vote is for a transaction that was joined: commit this one");
    if (voted)
        return rt_txns_fail(t->m, ROTA_INVALID,
                            "it has already voted: end it with rota_txn_commit");
    return 0;
}

int rota_txn_vote(struct rota_txn *t)
{
    int rv = may_vote(t);
    return rv == 0 ? end_and_wait(t, VOTE, "rota_txn_vote") : rv;
}

int rota_txn_vote_async(struct rota_txn *t, rota_txn_fn *fn, void *arg)
{
    int rv = may_vote(t);
    return rv == 0 ? end_later(t, VOTE, fn, arg, "rota_txn_vote_async") : rv;
}

int rota_txn_commit(struct rota_txn *t)
{
    return end_and_wait(t, COMMIT, "rota_txn_commit");
}

int rota_txn_abort(struct rota_txn *t)
{
    return t == NULL ? 0 : end_and_wait(t, ABORT, "rota_txn_abort");
}

int rota_txn_commit_async(struct rota_txn *t, rota_txn_fn *fn, void *arg)
{
    return end_later(t, COMMIT, fn, arg, "rota_txn_commit_async");
}

int rota_txn_abort_async(struct rota_txn *t, rota_txn_fn *fn, void *arg)
{
    return end_later(t, ABORT, fn, arg, "rota_txn_abort_async");
}
