/* SPDX-License-Identifier: Apache-2.0 */
/* Services: the application's functions that take part by try, confirm and cancel, found by name. */
#include "txn/manager/tcc.h"

#include "base/alloc.h"
#include "txn/core/reserve.h"
#include "txn/manager/pool.h"
#include "txn/point.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct rt_served { /* a name, and who serves it in this process; until the manager is closed */
    struct rt_served *next;
    struct rota_tcc calls;
    void *arg;
    char name[];
};

bool rt_tcc_is(unsigned mode)
{
    unsigned kind = mode & ~RT_MODE_ORDERED;
    return kind == RT_TCC_HTTP || kind == RT_TCC_CALL || kind == RT_SERVE;
}

int rt_tcc_keep(struct rota_branch *b, const void *bytes, size_t size)
{
    assert(b->bytes == NULL);
    if (size == 0)
        return 0;
    b->bytes = rt_alloc(size);
    if (b->bytes == NULL)
        return ROTA_NOMEM;
    memcpy(b->bytes, bytes, size);
    b->bytes_size = size;
    return 0;
}

static struct rt_served *find_served(const struct rota_txns *m, const char *name)
{
    struct rt_served *s = m->served;
    while (s != NULL && strcmp(s->name, name) != 0)
        s = s->next;
    return s;
}

/* ---- Calling the functions -------------------------------------------------------- */

static void fill_call(struct rota_call *call, const struct rt_name *name, enum rt_service_op op)
{
    memset(call, 0, sizeof(*call));
    rt_name_ticket(name, call->txn);
    call->branch = name->branch;
    call->op = (int32_t)op;
    call->deadline_ms = name->deadline_ms;
}

static enum rt_reply reply_of(enum rt_service_op op, int rv)
{
    bool tries = op == RT_SERVICE_TRY;
    switch (rv) {
    case 0:
        return tries ? RT_REPLY_YES : RT_REPLY_DONE;
    case ROTA_ABORTED:
        return tries ? RT_REPLY_NO : RT_REPLY_REFUSED;
    case ROTA_BUSY:
        return tries ? RT_REPLY_LOST : RT_REPLY_HELD;
    default:
        return RT_REPLY_LOST;
    }
}

static void say_reply(struct rt_service_call *c, int rv)
{
    static const char *const ops[] = {"", "try", "confirm", "cancel"};

    if (c->reply == RT_REPLY_REFUSED)
        snprintf(
            c->errmsg, sizeof(c->errmsg),
            "%s was refused: do it by hand and then 'rota txn resolve --done', or let the service accept it",
            ops[c->op]);
    else if (rv != 0)
        snprintf(c->errmsg, sizeof(c->errmsg), "its %s function said: %s", ops[c->op],
                 rota_strerror(rv));
}

/* On any thread, without the mutex. */
static int call_it(const struct rota_tcc *calls, void *arg, enum rt_service_op op,
                   const struct rt_name *name, const void *payload, size_t size)
{
    rota_tcc_fn *fn = op == RT_SERVICE_TRY       ? calls->try_fn
                      : op == RT_SERVICE_CONFIRM ? calls->confirm_fn
                                                 : calls->cancel_fn;
    struct rota_call call;

    fill_call(&call, name, op);
    return fn(arg, &call, payload, size);
}

/* On a thread of the pool. */
static void run(struct rt_service_call *c)
{
    const struct rota_branch *b = c->user;
    struct rota_txns *m = b->txn->m;

    pthread_mutex_lock(&m->mu);
    const struct rt_served *s = find_served(m, c->resource); /* it stays until the pool is closed */
    pthread_mutex_unlock(&m->mu);
    int rv = call_it(&s->calls, s->arg, c->op, &c->name, c->payload, c->size);
    c->reply = reply_of(c->op, rv);
    say_reply(c, rv);
}

/* On a carrier's thread. */
static void on_done(struct rt_service_call *c)
{
    const struct rota_branch *b = c->user;
    struct rota_txns *m = b->txn->m;

    if (c->op == RT_SERVICE_TRY)
        rt_point("tcc-tried");
    else if (c->op == RT_SERVICE_CONFIRM)
        rt_point("tcc-confirmed");
    else
        rt_point("tcc-cancelled");
    pthread_mutex_lock(&m->mu);
    c->next = m->service_back;
    m->service_back = c;
    bool wakes = m->asleep;
    m->asleep = false;
    pthread_mutex_unlock(&m->mu);
    if (wakes) /* without the mutex, which the keeper wants first; closing waits for this thread */
        rt_loop_wake(&m->loop);
}

/* ---- Carriers --------------------------------------------------------------------------- */

static int send_call(struct rota_branch *b, struct rt_service_call *c)
{
    struct rota_txns *m = b->txn->m;

    if (b->mode == RT_TCC_HTTP)
        return rt_tcc_http_send(m, c);
    if (b->mode != RT_TCC_CALL)
        return ROTA_UNSUPPORTED;
    if (m->pool == NULL)
        m->pool = rt_pool_open(run);
    return m->pool != NULL ? rt_pool_ask(m->pool, c) : ROTA_NOMEM;
}

/* OP of B leaves, with SEQ. ROTA_*: it did not. */
static int leave_for(struct rota_branch *b, enum rt_service_op op, uint32_t seq)
{
    struct rota_txn *t = b->txn;
    struct rt_service_call *c = rt_alloc(sizeof(*c));

    if (c == NULL)
        return ROTA_NOMEM;
    c->op = op;
    c->name = (struct rt_name){t->core.id, rt_drive_core(b)->number, t->core.deadline_ms};
    c->payload = b->bytes;
    c->size = b->bytes_size;
    c->resource = b->name;
    c->deadline = rt_drive_soon(t);
    c->done = on_done;
    c->user = b;
    int rv = send_call(b, c);
    if (rv != 0) {
        rt_free(c);
        return rv;
    }
    b->ask_seq = seq;
    t->m->asked_calls++;
    return 0;
}

void rt_tcc_ask(struct rota_branch *b, enum rt_branch_op op, uint32_t seq)
{
    bool commit = op == RT_BRANCH_COMMIT;
    bool nobody = b->mode == RT_TCC_CALL && find_served(b->txn->m, b->name) == NULL;

    assert(b->ask_seq == 0 && (commit || op == RT_BRANCH_ROLLBACK));
    int rv = nobody ? ROTA_UNSUPPORTED
                    : leave_for(b, commit ? RT_SERVICE_CONFIRM : RT_SERVICE_CANCEL, seq);
    if (rv == 0)
        return;
    if (rv == ROTA_UNSUPPORTED)
        rt_entry_say(
            &b->line,
            "%.80s is not served in this process: call rota_tcc_serve here, or recover in one that serves it",
            b->name);
    rt_drive_answer(b, seq, rv == ROTA_UNSUPPORTED ? RT_REPLY_ABSENT : RT_REPLY_LOST);
}

/* ---- Tries ------------------------------------------------------------------------------- */

/* Tells whoever waits for its try. */
static void tell(struct rota_branch *b, int err, const char *line)
{
    struct rt_caller *call = b->begins;

    assert(b->txn->pending > 0);
    b->begins = NULL;
    b->txn->pending--;
    if (err != 0)
        rt_drive_blame(b->txn, b, line);
    rt_txns_answer(b->txn->m, call, err, line);
}

static void try_answered(struct rota_branch *b, uint32_t seq, const struct rt_service_call *c)
{
    bool yes = c->reply == RT_REPLY_YES, no = c->reply == RT_REPLY_NO;

    rt_drive_answer(b, seq, yes || no ? c->reply : RT_REPLY_LOST);
    if (b->begins == NULL)
        return;
    if (b->answer != NULL && c->body != NULL) /* the waiter still has the room for it */
        snprintf(b->answer, b->answer_room, "%s", c->body);
    tell(b, yes ? 0 : no ? ROTA_ABORTED : ROTA_UNKNOWN, c->errmsg);
}

static void back(struct rt_service_call *c)
{
    struct rota_branch *b = c->user;
    uint32_t seq = b->ask_seq;

    assert(seq != 0);
    b->ask_seq = 0;
    b->txn->m->asked_calls--;
    if (c->errmsg[0] != '\0')
        rt_entry_say(&b->line, "%s", c->errmsg);
    if (c->op == RT_SERVICE_TRY)
        try_answered(b, seq, c);
    else
        rt_drive_answer(b, seq, c->reply);
    rt_txns_due(b->txn);
}

void rt_tcc_take(struct rota_txns *m)
{
    while (m->service_back != NULL) {
        struct rt_service_call *c = m->service_back;
        m->service_back = c->next;
        back(c);
        rt_free(c->body);
        rt_free(c);
    }
}

static void try_it(struct rota_branch *b)
{
    struct rota_txn *t = b->txn;
    struct rt_branch *core = rt_drive_core(b);

    b->waits = false;
    uint32_t seq = rt_reserve_try(&t->core, core);
    if (b->by_caller) { /* closing waits for it */
        b->ask_seq = seq;
        t->m->trying++;
        tell(b, 0, "");
        return;
    }
    rt_point("tcc-registered");
    int rv = leave_for(b, RT_SERVICE_TRY, seq);
    if (rv == 0)
        return;
    rt_drive_answer(b, seq, RT_REPLY_NO); /* it never left, and never will */
    tell(b, rv, rota_strerror(rv));
}

static void go_one(struct rota_branch *b)
{
    struct rota_txn *t = b->txn;
    int64_t now = rt_loop_now(&t->m->loop);
    uint8_t state = rt_drive_core(b)->state;
    int err = 0;
    const char *line = "";

    if (t->core.state != RT_TXN_ACTIVE || now >= t->core.deadline_at) {
        err = ROTA_ABORTED;
        line =
            t->line != NULL
                ? t->line
                : "the transaction was settled before, its deadline has passed, or its manager is closed";
    } else if (state == RT_BRANCH_JOINING && now >= b->begin_by) {
        err = ROTA_UNREACHABLE;
        line = "the journal did not answer: the branch is not known to be registered";
    } else if (state == RT_BRANCH_ACTIVE) {
        try_it(b);
    }
    if (err == 0)
        return;
    b->waits = false;
    tell(b, err, line);
}

void rt_tcc_go(struct rota_txn *t)
{
    for (uint32_t i = 0; t->pending > 0 && i < t->core.count; i++)
        if (t->branches[i]->waits)
            go_one(t->branches[i]);
}

int64_t rt_tcc_next(const struct rota_txn *t)
{
    int64_t next = RT_NEVER;

    for (uint32_t i = 0; t->pending > 0 && i < t->core.count; i++) {
        const struct rota_branch *b = t->branches[i];
        if (b->waits && b->begin_by < next)
            next = b->begin_by;
        if (b->waits && t->core.deadline_at < next)
            next = t->core.deadline_at;
        if (b->waits && t->core.journal.seq == 0 && t->core.journal.at < next)
            next = t->core.journal.at;
    }
    return next;
}

void rt_tcc_leave(struct rota_txn *t)
{
    for (uint32_t i = 0; t->pending > 0 && i < t->core.count; i++) {
        t->branches[i]->waits = false;
        if (t->branches[i]->begins != NULL)
            tell(t->branches[i], ROTA_ABORTED,
                 "the manager was closed before the try was answered");
    }
}

void rt_tcc_close(struct rota_txns *m)
{
    pthread_mutex_lock(&m->mu);
    while (m->trying > 0) /* the application's functions run, on its own threads */
        pthread_cond_wait(&m->tried, &m->mu);
    pthread_mutex_unlock(&m->mu);
    rt_pool_close(m->pool);
    m->pool = NULL;
    while (m->service_back != NULL) {
        struct rt_service_call *c = m->service_back;
        m->service_back = c->next;
        rt_free(c->body);
        rt_free(c);
    }
    while (m->served != NULL) {
        struct rt_served *s = m->served;
        m->served = s->next;
        rt_free(s);
    }
}

/* ---- Public calls ------------------------------------------------------------------------ */

static int check_name(const struct rota_txns *m, const char *name)
{
    size_t size = name != NULL ? strlen(name) : 0;

    if (size == 0 || size > RT_JOURNAL_NAME_MAX)
        return rt_txns_fail(m, ROTA_INVALID, "the name of a service must have 1 to %d bytes",
                            RT_JOURNAL_NAME_MAX);
    if (strncmp(name, RT_JOURNAL_OWN, sizeof(RT_JOURNAL_OWN) - 1) == 0)
        return rt_txns_fail(m, ROTA_INVALID,
                            "the name of a service must not begin with '" RT_JOURNAL_OWN "'");
    return 0;
}

/* NAME is served from now on: services that waited for that are called at once. */
static void wake_those(struct rota_txns *m, const char *name)
{
    for (struct rota_txn *t = m->txns; t != NULL; t = t->next)
        for (uint32_t i = 0; (t->kept || t->core.adopted) && i < t->core.count; i++)
            if (t->branches[i]->mode == RT_TCC_CALL && strcmp(t->branches[i]->name, name) == 0) {
                rt_reserve_back(&t->core.branches[i], rt_loop_clock());
                rt_txns_due(t);
            }
}

int rota_tcc_serve_sized(struct rota_txns *m, const char *name, const struct rota_tcc *calls,
                         size_t size, void *arg)
{
    struct rota_tcc copy = {0};

    if (m == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "rota_tcc_serve needs a manager");
    if (rt_txns_forked(m))
        return rt_txns_fail(m, ROTA_FORKED,
                            "this manager belongs to the parent process: open another");
    int rv = check_name(m, name);
    if (rv != 0)
        return rv;
    if (calls != NULL)
        memcpy(&copy, calls, size < sizeof(copy) ? size : sizeof(copy));
    if (copy.try_fn == NULL || copy.confirm_fn == NULL || copy.cancel_fn == NULL)
        return rt_txns_fail(m, ROTA_INVALID,
                            "a service needs three functions: try, confirm and cancel");
    struct rt_served *s = rt_alloc(sizeof(*s) + strlen(name) + 1);
    if (s == NULL)
        return rt_txns_fail(m, ROTA_NOMEM, "out of memory");
    s->calls = copy;
    s->arg = arg;
    memcpy(s->name, name, strlen(name) + 1);
    pthread_mutex_lock(&m->mu);
    bool twice = find_served(m, name) != NULL;
    if (!twice) {
        s->next = m->served;
        m->served = s;
        wake_those(m, name);
    }
    pthread_mutex_unlock(&m->mu);
    if (!twice)
        return 0;
    rt_free(s);
    return rt_txns_fail(m, ROTA_INVALID, "%.80s is served already", name);
}

int rt_tcc_check(struct rota_txn *t, const char *name, const void *payload, size_t size)
{
    if (t == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "a branch needs a transaction");
    if (rt_txns_forked(t->m))
        return rt_txns_fail(t->m, ROTA_FORKED, "this transaction belongs to the parent process");
    int rv = check_name(t->m, name);
    if (rv != 0)
        return rv;
    if (size > RT_SERVICE_BYTES || (size > 0 && payload == NULL))
        return rt_txns_fail(t->m, ROTA_INVALID, "a payload may have at most %d bytes",
                            RT_SERVICE_BYTES);
    if (rt_loop_clock() >= t->core.deadline_at)
        return rt_txns_fail(t->m, ROTA_ABORTED, "the deadline of the transaction has passed");
    return 0;
}

int rt_tcc_add(struct rota_txn *t, enum rt_branch_mode mode, const char *name, const void *bytes,
               size_t size, struct rt_caller *call, bool by_caller, struct rota_branch **out)
{
    if (t->m->left || t->m->closing)
        return ROTA_CLOSED;
    if (t->life != RT_LIFE_HELD || t->core.count >= RT_JOURNAL_BRANCHES_MAX)
        return ROTA_INVALID;
    if (t->core.state != RT_TXN_ACTIVE)
        return ROTA_ABORTED; /* it was settled */
    if (rt_entry_room(t, t->last_number + 1 > t->core.count ? t->last_number + 1 - t->core.count
                                                            : 1) != 0)
        return ROTA_NOMEM;
    struct rota_branch *b = rt_entry_branch(t, name, mode);
    if (b == NULL)
        return ROTA_NOMEM;
    if (rt_tcc_keep(b, bytes, size) != 0) {
        rt_entry_free_branch(b);
        return ROTA_NOMEM;
    }
    b->index = t->core.count;
    b->added = b->waits = true;
    b->by_caller = by_caller;
    b->begins = call;
    b->begin_by = rt_loop_clock() + t->m->opts.call_ms * RT_MS;
    t->branches[b->index] = b;
    t->core.ordered = (t->flags & ROTA_TXN_ORDERED) != 0;
    b->number = rt_entry_number(t);
    rt_reserve_add(&t->core, b->number, RT_TXN_UNKNOWN_RESOURCE);
    t->pending++;
    t->kept = true;
    rt_txns_due(t);
    *out = b;
    return 0;
}

/* It is registered: its try runs here, in the caller's thread. */
static int try_here(struct rota_txn *t, struct rota_branch *b, const struct rt_served *s)
{
    struct rota_txns *m = t->m;
    uint64_t serial = m->serial;

    pthread_mutex_lock(&m->mu);
    struct rt_name name = {t->core.id, rt_drive_core(b)->number, t->core.deadline_ms};
    pthread_mutex_unlock(&m->mu);
    rt_point("tcc-registered");
    int rv = call_it(&s->calls, s->arg, RT_SERVICE_TRY, &name, b->bytes, b->bytes_size);
    rt_point("tcc-tried");
    enum rt_reply reply = reply_of(RT_SERVICE_TRY, rv);
    pthread_mutex_lock(&m->mu);
    struct rt_txn_answer a = {.seq = b->ask_seq, .reply = reply};
    b->ask_seq = 0;
    rt_txn_answered(&t->core, rt_drive_core(b), &a, rt_loop_clock());
    if (reply != RT_REPLY_YES)
        rt_drive_blame(t, b, reply == RT_REPLY_NO ? "its try said no" : "its try failed");
    rt_txns_due(t);
    m->trying--;
    pthread_cond_broadcast(&m->tried);
    pthread_mutex_unlock(&m->mu);
    if (reply == RT_REPLY_YES)
        return 0;
    bool no = reply == RT_REPLY_NO;
    return rt_txns_fail_late(
        serial, no ? ROTA_ABORTED : ROTA_UNKNOWN,
        no ? "the service said no to the try"
           : "the try failed, but may have reserved something: commit will say ABORTED");
}

const char *rt_tcc_why_not(int rv)
{
    return rv == ROTA_INVALID ? "the transaction has ended, or has too many branches"
                              : rota_strerror(rv);
}

int rota_tcc_call(struct rota_txn *t, const char *name, const void *payload, size_t size)
{
    struct rt_caller call;
    struct rota_branch *b;

    int rv = rt_tcc_check(t, name, payload, size);
    if (rv == 0)
        rv = rt_txns_enter(t->m, "rota_tcc_call");
    if (rv != 0)
        return rv;
    struct rota_txns *m = t->m;
    pthread_mutex_lock(&m->mu);
    const struct rt_served *s = find_served(m, name);
    if (s == NULL) {
        pthread_mutex_unlock(&m->mu);
        return rt_txns_fail(m, ROTA_UNSUPPORTED,
                            "%.80s is not served here: call rota_tcc_serve first", name);
    }
    rt_caller_waits(&call);
    rv = rt_tcc_add(t, RT_TCC_CALL, name, payload, size, &call, true, &b);
    if (rv != 0) {
        pthread_mutex_unlock(&m->mu);
        sem_destroy(&call.sem);
        return rt_txns_fail(m, rv, "%s", rt_tcc_why_not(rv));
    }
    rv = rt_txns_wait(m, &call);
    return rv == 0 ? try_here(t, b, s) : rv;
}

int rota_tcc_call_async(struct rota_txn *t, const char *name, const void *payload, size_t size,
                        rota_txn_fn *fn, void *arg)
{
    struct rota_branch *b;

    int rv = rt_tcc_check(t, name, payload, size);
    if (rv != 0)
        return rv;
    if (fn == NULL)
        return rt_txns_fail(t->m, ROTA_INVALID, "rota_tcc_call_async needs a function to call");
    struct rt_caller *call = rt_caller_new(fn, arg);
    if (call == NULL)
        return rt_txns_fail(t->m, ROTA_NOMEM, "out of memory");
    struct rota_txns *m = t->m;
    pthread_mutex_lock(&m->mu);
    rv = find_served(m, name) == NULL
             ? ROTA_UNSUPPORTED
             : rt_tcc_add(t, RT_TCC_CALL, name, payload, size, call, false, &b);
    pthread_mutex_unlock(&m->mu);
    if (rv == 0)
        return 0;
    rt_caller_free(call);
    if (rv == ROTA_UNSUPPORTED)
        return rt_txns_fail(m, rv, "%.80s is not served here: call rota_tcc_serve first", name);
    return rt_txns_fail(m, rv, "%s", rt_tcc_why_not(rv));
}
