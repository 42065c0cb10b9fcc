/* SPDX-License-Identifier: Apache-2.0 */
/* What a client counts and measures, and how it is told. */
#include "client/metrics.h"
#include "core/reentry.h"

#include "base/alloc.h"

#include <assert.h>
#include <math.h>
#include <time.h>

#define ERRORS (-ROTA_INTERNAL + 1)
#define OPS (RT_OP_CHECK + 1)

enum { RELEASE_DONE, RELEASE_LOST, RELEASE_UNKNOWN, RELEASE_RESULTS };

typedef _Atomic uint64_t counter;

struct rt_metrics { /* written by whoever has the mutex, but `handover`; read by anybody */
    counter asks, acquires, passes, reentries, relocks, wakes;
    counter refusals[ERRORS]; /* by -err */
    counter losses, overdue;
    counter releases[RELEASE_RESULTS];
    counter beats_sent, beats_answered, beats_failed;
    counter op_errors[OPS];
    struct rt_hist wait, hold, handover, lag;
    struct rt_hist ops[OPS];
};

struct rt_metrics *rt_metrics_new(void)
{
    return rt_alloc(sizeof(struct rt_metrics));
}

void rt_metrics_free(struct rt_metrics *m)
{
    rt_free(m);
}

static void bump(counter *c)
{
    atomic_fetch_add_explicit(c, 1, memory_order_relaxed);
}

static uint64_t get(counter *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

/* Not the loop's, which stands still while an engine works on the calling thread. */
static int64_t clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

void rt_hist_add(struct rt_hist *hist, int64_t ns)
{
    uint64_t least = ns > 0 ? (uint64_t)ns : 0;
    uint64_t us = (least + 999) / 1000;
    int bucket = us <= 1 ? 0 : 64 - __builtin_clzll(us - 1); /* the smallest with us <= 2^bucket */

    if (bucket > RT_HIST_BOUNDS)
        bucket = RT_HIST_BOUNDS;
    bump(&hist->buckets[bucket]);
    atomic_fetch_add_explicit(&hist->sum_ns, least, memory_order_relaxed);
}

/* ---- Asks and holds ----------------------------------------------------- */

void rt_metrics_note_asked(struct rota *r, struct rota_lock *lock)
{
    bump(&r->d.metrics->asks);
    rt_more_of(lock)->asked_at = clock_ns();
}

void rt_metrics_count_ask(struct rota *r, struct rota_lock *lock)
{
    struct rt_metrics *m = r->d.metrics;
    const struct rt_line *line = lock->ask.line;
    bool lingered = line->lingering;

    rt_metrics_note_asked(r, lock);
    rt_desk_ask(&r->d.desk, &lock->ask, rt_loop_now(&r->loop));
    if (lock->ask.state != RT_ASK_HELD)
        return; /* the engine decides, or somebody here */
    if (lingered && !line->lingering)
        bump(&m->relocks);
    else if (rt_reentry_is(&lock->ask))
        bump(&m->reentries);
}

void rt_metrics_count_answer(struct rota *r, struct rota_lock *lock, int err)
{
    struct rt_metrics *m = r->d.metrics;
    struct rt_more *more = rt_more_of(lock);

    if (err != 0) {
        assert(-err < ERRORS);
        bump(&m->refusals[-err]);
        return;
    }
    bump(&m->acquires);
    more->granted_at = clock_ns();
    rt_hist_add(&m->wait, more->granted_at - more->asked_at);
}

static void end_hold(struct rt_metrics *m, struct rt_more *more)
{
    if (more->granted_at == 0)
        return; /* its end was noted already, or its owner never got it */
    rt_hist_add(&m->hold, clock_ns() - more->granted_at);
    more->granted_at = 0;
}

void rt_metrics_count_loss(struct rota *r, struct rota_lock *lock)
{
    struct rt_metrics *m = r->d.metrics;
    struct rt_more *more = rt_more_of(lock);

    bump(lock->ask.lost == ROTA_TIMEOUT ? &m->overdue : &m->losses);
    more->loss_noted = true;
    end_hold(m, more);
}

/* X was passed on: to one writer, or to several readers. */
static void note_pass(struct rt_metrics *m, const struct rt_line *line)
{
    int64_t now = clock_ns();

    bump(&m->passes);
    for (struct rt_ask *h = line->holders; h != NULL; h = h->next) {
        struct rota_lock *lock = rt_lock_of(h);
        if (h->state != RT_ASK_HELD || h->ticket != &line->x)
            continue;
        if (lock->waiter != NULL)
            lock->waiter->passed_at = now;
        else
            rt_more_of(lock)->passed_at = now;
    }
}

void rt_metrics_count_release(struct rota *r, struct rota_lock *lock)
{
    const struct rt_ask *ask = &lock->ask;
    const struct rt_line *line = ask->line;
    bool last_of_x = ask->state == RT_ASK_HELD && ask->ticket == &line->x && line->x.holds == 1;

    end_hold(r->d.metrics, rt_more_of(lock));
    rt_desk_release(&r->d.desk, &lock->ask, rt_loop_now(&r->loop));
    if (last_of_x && ask->state == RT_ASK_DONE && line->x.state == RT_TICKET_HELD &&
        line->x.holds > 0)
        note_pass(r->d.metrics, line);
}

void rt_metrics_count_released(struct rota *r, struct rota_lock *lock)
{
    struct rt_metrics *m = r->d.metrics;
    int err = lock->ask.err;

    bump(&m->releases[err == 0 ? RELEASE_DONE : err == ROTA_LOST ? RELEASE_LOST : RELEASE_UNKNOWN]);
    if (err == ROTA_LOST && !rt_more_of(lock)->loss_noted)
        bump(&m->losses);
}

void rt_metrics_handed(struct rota *r, int64_t passed_at)
{
    rt_hist_add(&r->d.metrics->handover, clock_ns() - passed_at);
}

void rt_metrics_count_wakes(struct rota *r, uint32_t n)
{
    atomic_fetch_add_explicit(&r->d.metrics->wakes, n, memory_order_relaxed);
}

/* ---- Operations: for dispatch.c ------------------------------------------ */

void rt_metrics_op_sent(struct rt_dispatch *d, struct rt_request *rq)
{
    struct rt_metrics *m = d->metrics;
    int64_t lag = rt_desk_lag(&d->desk);

    rq->sent_at = clock_ns();
    if (rq->op.kind != RT_OP_BEAT || rq->op.beat.open)
        return;
    bump(&m->beats_sent);
    if (lag >= 0)
        rt_hist_add(&m->lag, lag);
}

void rt_metrics_op_done(struct rt_dispatch *d, const struct rt_request *rq)
{
    struct rt_metrics *m = d->metrics;
    const struct rt_op *op = &rq->op;

    rt_hist_add(&m->ops[op->kind], clock_ns() - rq->sent_at);
    if (op->err != 0 && op->err != ROTA_BUSY) /* BUSY is an answer */
        bump(&m->op_errors[op->kind]);
    if (op->kind == RT_OP_BEAT && !op->beat.open)
        bump(op->err == 0 ? &m->beats_answered : &m->beats_failed);
}

static uint64_t hist_count(struct rt_hist *hist)
{
    uint64_t count = 0;

    for (int i = 0; i < RT_HIST_BUCKETS; i++)
        count += get(&hist->buckets[i]);
    return count;
}

/* ---- Telling ------------------------------------------------------------ */

struct teller {
    rota_metric_fn *fn;
    void *arg;
};

static void tell(const struct teller *t, uint32_t type, const char *name, const char *labels,
                 const char *help, uint64_t value)
{
    const struct rota_metric metric = {
        .name = name, .help = help, .labels = labels, .type = type, .value = (double)value};

    t->fn(t->arg, &metric);
}

static void tell_hist(const struct teller *t, const char *name, const char *labels,
                      const char *help, struct rt_hist *hist)
{
    double bounds[RT_HIST_BUCKETS];
    uint64_t counts[RT_HIST_BUCKETS], count = 0;

    for (int i = 0; i < RT_HIST_BUCKETS; i++) {
        count += get(&hist->buckets[i]);
        counts[i] = count;
        bounds[i] = i < RT_HIST_BOUNDS ? (double)(UINT64_C(1) << i) / 1e6 : (double)INFINITY;
    }
    const struct rota_metric metric = {
        .name = name,
        .help = help,
        .labels = labels,
        .type = ROTA_HISTOGRAM,
        .buckets = RT_HIST_BUCKETS,
        .value = (double)get(&hist->sum_ns) / 1e9,
        .count = count,
        .bounds = bounds,
        .counts = counts,
    };
    t->fn(t->arg, &metric);
}

static void tell_refusals(const struct teller *t, struct rt_metrics *m)
{
    static const struct {
        int err;
        bool always; /* told even while it is 0 */
        const char *labels;
    } reasons[] = {
        {ROTA_BUSY, true, "reason=\"busy\""},
        {ROTA_TIMEOUT, true, "reason=\"timeout\""},
        {ROTA_CANCELED, true, "reason=\"canceled\""},
        {ROTA_DEADLOCK, true, "reason=\"deadlock\""},
        {ROTA_LOST, true, "reason=\"lost\""},
        {ROTA_UNREACHABLE, true, "reason=\"unreachable\""},
        {ROTA_INVALID, false, "reason=\"invalid\""},
        {ROTA_NOMEM, false, "reason=\"nomem\""},
        {ROTA_UNKNOWN, false, "reason=\"unknown\""},
        {ROTA_PROTOCOL, false, "reason=\"protocol\""},
        {ROTA_AUTH, false, "reason=\"auth\""},
        {ROTA_UNSUPPORTED, false, "reason=\"unsupported\""},
        {ROTA_UNSAFE, false, "reason=\"unsafe\""},
        {ROTA_CLOSED, false, "reason=\"closed\""},
        {ROTA_INTERNAL, false, "reason=\"internal\""},
    };

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        uint64_t count = get(&m->refusals[-reasons[i].err]);
        if (count != 0 || reasons[i].always)
            tell(t, ROTA_COUNTER, "rota_refusals_total", reasons[i].labels,
                 "Asks that were not granted.", count);
    }
}

static uint64_t refused(struct rt_metrics *m)
{
    uint64_t sum = 0;

    for (int i = 0; i < ERRORS; i++)
        sum += get(&m->refusals[i]);
    return sum;
}

/* What is so now: asks less answers, grants less ends. All four change under the mutex only. */
static void read_now(struct rota *r, uint64_t *waiting, uint64_t *holding)
{
    struct rt_metrics *m = r->d.metrics;

    pthread_mutex_lock(&r->mu);
    *waiting = get(&m->asks) - get(&m->acquires) - refused(m);
    *holding = get(&m->acquires) - hist_count(&m->hold);
    pthread_mutex_unlock(&r->mu);
}

static void tell_asks(const struct teller *t, struct rota *r)
{
    struct rt_metrics *m = r->d.metrics;
    uint64_t waiting, holding;

    read_now(r, &waiting, &holding);
    tell(t, ROTA_GAUGE, "rota_waiting", "", "Asks that wait now.", waiting);
    tell(t, ROTA_GAUGE, "rota_holding", "", "Holds now, re-entries among them.", holding);
    tell(t, ROTA_COUNTER, "rota_acquires_total", "", "Locks granted to this client's callers.",
         get(&m->acquires));
    tell_refusals(t, m);
    tell(t, ROTA_COUNTER, "rota_reentries_total", "", "Acquires by an owner that held it already.",
         get(&m->reentries));
    tell(t, ROTA_COUNTER, "rota_relocks_total", "", "Acquires of a lingering hold, without I/O.",
         get(&m->relocks));
    tell(t, ROTA_COUNTER, "rota_passes_total", "", "Holds passed on inside the process.",
         get(&m->passes));
    tell(t, ROTA_COUNTER, "rota_retries_total", "", "Asks again by waiters who contend anew.",
         r->d.conn != NULL ? get(&r->d.conn->retries) : 0);
}

static void tell_ends(const struct teller *t, struct rt_metrics *m)
{
    static const char *const results[RELEASE_RESULTS] = {"result=\"released\"", "result=\"lost\"",
                                                         "result=\"unknown\""};

    for (int i = 0; i < RELEASE_RESULTS; i++)
        tell(t, ROTA_COUNTER, "rota_releases_total", results[i], "Releases, by how they ended.",
             get(&m->releases[i]));
    tell(t, ROTA_COUNTER, "rota_losses_total", "reason=\"lost\"",
         "Holds that ended before their release.", get(&m->losses));
    tell(t, ROTA_COUNTER, "rota_losses_total", "reason=\"hold_ms\"",
         "Holds that ended before their release.", get(&m->overdue));
}

static void tell_beats(const struct teller *t, struct rt_metrics *m)
{
    tell(t, ROTA_COUNTER, "rota_heartbeats_total", "state=\"sent\"", "Renewals of the session.",
         get(&m->beats_sent));
    tell(t, ROTA_COUNTER, "rota_heartbeats_total", "state=\"answered\"", "Renewals of the session.",
         get(&m->beats_answered));
    tell(t, ROTA_COUNTER, "rota_heartbeats_total", "state=\"failed\"", "Renewals of the session.",
         get(&m->beats_failed));
    tell(t, ROTA_COUNTER, "rota_wakeups_total", "", "Threads woken, the keeper among them.",
         get(&m->wakes));
}

static void tell_ops(const struct teller *t, struct rt_metrics *m)
{
    static const char *const labels[OPS] = {
        [RT_OP_BEAT] = "op=\"beat\"",         [RT_OP_JOIN] = "op=\"join\"",
        [RT_OP_JOIN_ALL] = "op=\"join_all\"", [RT_OP_CHANGE] = "op=\"change\"",
        [RT_OP_LEAVE] = "op=\"leave\"",       [RT_OP_OBSERVE] = "op=\"observe\"",
        [RT_OP_INSPECT] = "op=\"inspect\"",   [RT_OP_LIST] = "op=\"list\"",
        [RT_OP_BREAK] = "op=\"break\"",       [RT_OP_CHECK] = "op=\"check\"",
    };

    for (int i = 0; i < OPS; i++)
        if (hist_count(&m->ops[i]) != 0) /* those that were ever used */
            tell(t, ROTA_COUNTER, "rota_op_errors_total", labels[i],
                 "Operations of the engine that failed.", get(&m->op_errors[i]));
    for (int i = 0; i < OPS; i++)
        if (hist_count(&m->ops[i]) != 0)
            tell_hist(t, "rota_op_seconds", labels[i],
                      "Operations of the engine, from the sending to the answer.", &m->ops[i]);
}

int rota_metrics(struct rota *r, rota_metric_fn *fn, void *arg)
{
    const struct teller t = {fn, arg};
    int rv = rt_client_check(r, false);

    if (rv != 0)
        return rv;
    if (fn == NULL)
        return rt_fail(r, ROTA_INVALID, "rota_metrics needs a function to call");
    struct rt_metrics *m = r->d.metrics;
    if (m == NULL)
        return rt_fail(r, ROTA_UNSUPPORTED,
                       "this client counts nothing: open it with ROTA_METRICS");
    tell_asks(&t, r);
    tell_ends(&t, m);
    tell_beats(&t, m);
    tell_hist(&t, "rota_wait_seconds", "", "From asking to the grant.", &m->wait);
    tell_hist(&t, "rota_hold_seconds", "", "From the grant to the release or the loss.", &m->hold);
    tell_hist(&t, "rota_handover_seconds", "",
              "From the release by one caller until the next one in this process runs.",
              &m->handover);
    tell_hist(&t, "rota_heartbeat_lag_seconds", "", "How late renewals were sent.", &m->lag);
    tell_ops(&t, m);
    return 0;
}
