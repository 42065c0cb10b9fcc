/* SPDX-License-Identifier: Apache-2.0 */
/* How cost grows with the crowd: many clients, and long lines. */
#include "cli/bench/scale.h"

#include "cli/connect.h"
#include "cli/out.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define NAME_ROOM 256
#define LINE_CLIENTS 50
#define TURNS 200

/* ---- The clients --------------------------------------------------------- */

struct crowd {
    const struct rt_scale *scale;
    struct member {
        struct crowd *crowd;
        struct rota *r;
        atomic_long grants;
    } * members;
    int n;                /* as many as the server takes */
    char name[NAME_ROOM]; /* what all want */
    atomic_bool over;
    atomic_int failed; /* own locks lost, asks that ended with an error before it was over */
};

static void fail(struct crowd *c)
{
    atomic_fetch_add(&c->failed, !atomic_load(&c->over));
}

static void own_lost(struct rota_lock *lock, int reason, void *arg)
{
    (void)lock;
    (void)reason;
    fail(arg);
}

/* One more client, with a lock of its own. 1: the server takes no more. */
static int join(struct crowd *c, struct member *m)
{
    const struct rota_options never = {.pass_limit = ROTA_NEVER};
    const struct rota_ask ask = {.on_lost = own_lost, .arg = c};
    const struct rt_bench *b = c->scale->measure;
    struct rota_lock *lock;
    char name[NAME_ROOM];

    m->crowd = c;
    if (rota_open(&m->r, b->url, &never) != 0)
        return 1;
    c->n++;
    snprintf(name, sizeof(name), "%sown-%d", b->prefix, c->n);
    int err = rota_acquire(m->r, name, &ask, &lock);
    return err != 0 ? rt_connect_report(m->r, err, "") : RT_EXIT_OK;
}

/* Up to N clients, each with a lock of its own. */
static int gather(struct crowd *c, const struct rt_scale *s, int n)
{
    int code = RT_EXIT_OK;

    *c = (struct crowd){.scale = s, .members = calloc((size_t)n, sizeof(*c->members))};
    if (c->members == NULL) {
        rt_out_error("out of memory");
        return RT_EXIT_INTERNAL;
    }
    snprintf(c->name, sizeof(c->name), "%swanted-%d", s->measure->prefix, n);
    rt_bench_many_files();
    while (c->n < n && code == RT_EXIT_OK && !rt_bench_stopped())
        code = join(c, &c->members[c->n]);
    if (code == 1 && c->n < 2) {
        rt_out_error("cannot open two clients: %s", rota_errmsg(NULL));
        return RT_EXIT_UNREACHABLE;
    }
    code = code == 1 ? RT_EXIT_OK : code;
    return rt_bench_stopped() ? rt_bench_stop_code() : code;
}

static void part(struct crowd *c)
{
    atomic_store(&c->over, true);
    for (int i = 0; i < c->n; i++)
        rota_close(c->members[i].r);
    free(c->members);
}

/* ---- All want the same --------------------------------------------------- */

static void ask(struct member *m);

static void ask_again(void *arg, int err)
{
    struct member *m = arg;

    if (err != 0)
        fail(m->crowd);
    else if (!atomic_load(&m->crowd->over))
        ask(m);
}

static void turn_came(void *arg, int err, struct rota_lock *lock)
{
    struct member *m = arg;

    if (err == 0) {
        atomic_fetch_add(&m->grants, !atomic_load(&m->crowd->over));
        err = rota_release_async(lock, ask_again, m);
    }
    if (err != 0)
        fail(m->crowd);
}

static void ask(struct member *m)
{
    if (rota_acquire_async(m->r, m->crowd->name, NULL, turn_came, m, NULL) != 0)
        fail(m->crowd);
}

static int contend(struct crowd *c)
{
    const struct rt_scale *s = c->scale;
    long sum = 0, least = 0, most = 0;

    int64_t from = rt_bench_ns();
    for (int i = 0; i < c->n; i++)
        ask(&c->members[i]);
    rt_bench_pause(s->part_s);
    double took = (double)(rt_bench_ns() - from) / 1e9;
    for (int i = 0; i < c->n; i++) {
        long grants = atomic_load(&c->members[i].grants);
        sum += grants;
        least = i == 0 || grants < least ? grants : least;
        most = grants > most ? grants : most;
    }
    rt_scale_add(s, "clients", c->n, "all want one lock, pairs", (double)sum / took, "/s");
    rt_scale_add(s, "clients", c->n, "... the client with the fewest", (double)least, "grants");
    rt_scale_add(s, "clients", c->n, "... the client with the most", (double)most, "grants");
    return rt_bench_stopped() ? rt_bench_stop_code() : RT_EXIT_OK;
}

static int clients_at(const struct rt_scale *s, int n, int *failed)
{
    struct crowd c;

    int code = gather(&c, s, n);
    if (code == RT_EXIT_OK)
        code = rt_scale_rest(s, "clients", c.n, "at rest");
    if (code == RT_EXIT_OK)
        code = contend(&c);
    *failed = atomic_load(&c.failed) + n - c.n;
    if (code == RT_EXIT_OK)
        rt_scale_add(s, "clients", c.n, "refused or lost", *failed, "locks, clients");
    part(&c);
    return code;
}

int rt_scale_clients(const struct rt_scale *s)
{
    static const int sizes[] = {10, 100, 1000, 0};

    return rt_scale_sizes(s, sizes, clients_at);
}

/* ---- A long line --------------------------------------------------------- */

struct line {
    struct crowd crowd;
    struct waiter {
        struct line *line;
        struct rota_lock *lock;
    } * waiters;
    int n;
    _Atomic(struct waiter *) holder;
    _Atomic int64_t granted_at;
    sem_t turn; /* somebody was granted, or failed */
};

static void came(void *arg, int err, struct rota_lock *lock)
{
    struct waiter *w = arg;
    struct line *l = w->line;

    w->lock = lock;
    if (err != 0)
        fail(&l->crowd);
    atomic_store(&l->granted_at, rt_bench_ns());
    atomic_store(&l->holder, err == 0 ? w : NULL);
    sem_post(&l->turn);
}

/* Waits until COUNT tickets are in the line; false: not in time, or not any more. */
static bool all_stand(struct line *l, struct rota *r, size_t count)
{
    int64_t from = rt_bench_ns(), now = from;
    size_t seen = 0;

    while (now < from + RT_SCALE_STEP_S * INT64_C(1000000000) && !rt_bench_stopped() &&
           atomic_load(&l->crowd.failed) == 0) {
        struct rota_line *line;
        if (rota_inspect(r, l->crowd.name, &line) == 0) {
            seen = line->count;
            rota_line_free(line);
        }
        if (seen >= count)
            return true;
        now = rt_bench_ns();
        poll(NULL, 0, (int)((now - from) / 20000000) + 1); /* looks must not be what is measured */
    }
    return false;
}

/* The holder lets go; *US: until the next is told that it holds. */
static bool hand_over(struct line *l, struct rota_lock *lock, double *us)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += RT_SCALE_STEP_S;
    int64_t from = rt_bench_ns();
    if (rota_release(lock) != 0)
        return false;
    while (sem_timedwait(&l->turn, &end) != 0)
        if (errno != EINTR || rt_bench_stopped())
            return false;
    *us = (double)(atomic_load(&l->granted_at) - from) / 1000;
    return atomic_load(&l->holder) != NULL;
}

static void serve(struct line *l, struct rota_lock *lock)
{
    const struct rt_scale *s = l->crowd.scale;
    double us[TURNS];
    size_t n = 0, most = l->n < TURNS ? (size_t)l->n : TURNS;

    while (n < most && hand_over(l, lock, &us[n])) {
        n++;
        lock = atomic_load(&l->holder)->lock;
    }
    if (n < most) {
        fail(&l->crowd);
        return;
    }
    rt_scale_add(s, "line", l->n, "hand-over, median", rt_bench_median(us, n), "us");
    rt_scale_add(s, "line", l->n, "hand-over, 99 of 100", rt_bench_quantile(us, n, 0.99), "us");
}

/* R holds LOCK: the line forms behind it, rests, and is served. */
static int form_and_serve(struct line *l, struct rota *r, struct rota_lock *lock)
{
    struct crowd *c = &l->crowd;
    int code = RT_EXIT_OK;

    int64_t from = rt_bench_ns();
    for (int i = 0; i < l->n; i++) {
        l->waiters[i].line = l;
        if (rota_acquire_async(c->members[i % c->n].r, c->name, NULL, came, &l->waiters[i], NULL) !=
            0)
            fail(c);
    }
    if (all_stand(l, r, (size_t)l->n + 1)) {
        rt_scale_add(c->scale, "line", l->n, "until all stand",
                     (double)(rt_bench_ns() - from) / 1e6, "ms");
        code = rt_scale_rest(c->scale, "line", l->n, "while all wait");
        if (code == RT_EXIT_OK)
            serve(l, lock);
    } else {
        fail(c);
    }
    return rt_bench_stopped() ? rt_bench_stop_code() : code;
}

static int line_at(const struct rt_scale *s, int n, int *failed)
{
    struct line l = {.n = n, .waiters = calloc((size_t)n, sizeof(*l.waiters))};
    struct rota_lock *lock = NULL;

    if (l.waiters == NULL) {
        rt_out_error("out of memory");
        return RT_EXIT_INTERNAL;
    }
    sem_init(&l.turn, 0, 0);
    int code = gather(&l.crowd, s, LINE_CLIENTS);
    if (code == RT_EXIT_OK) {
        struct rota *r = l.crowd.members[0].r;
        int err = rota_acquire(r, l.crowd.name, NULL, &lock);
        code = err != 0 ? rt_connect_report(r, err, "") : form_and_serve(&l, r, lock);
    }
    *failed = atomic_load(&l.crowd.failed);
    if (code == RT_EXIT_OK)
        rt_scale_add(s, "line", n, "refused or lost", *failed, "locks, waiters");
    part(&l.crowd);
    sem_destroy(&l.turn);
    free(l.waiters);
    return code;
}

int rt_scale_line(const struct rt_scale *s)
{
    static const int sizes[] = {100, 1000, 5000, 0};
    struct rota *r;

    int code = rt_bench_open(s->measure, &r, NULL);
    if (code != RT_EXIT_OK)
        return code;
    bool visible = (rota_caps(r) & ROTA_CAP_ORDER) != 0;
    rota_close(r);
    return visible ? rt_scale_sizes(s, sizes, line_at) : RT_EXIT_OK;
}
