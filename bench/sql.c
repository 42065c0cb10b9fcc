/* SPDX-License-Identifier: Apache-2.0 */
/* Rota on PostgreSQL and MariaDB, beside what one would write by hand on the same server. */
#include "sql.h"

#include <poll.h>
#include <pthread.h>
#include <rota.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 15
#define PAIRS_MOST 400
#define AT_ONCE 16
#define CROWD_S 0.7
#define TURNS 25 /* hand-overs of a round */
#define TURN_ROUNDS 7
#define WAITERS 100
#define IDLE_S 10.0 /* the ttl: three renewals each */
#define SETTLE_MS 3
#define SETTLED_MS 5000 /* by then all have renewed their sessions and waited for a bell once */

static const struct sql_way *running; /* NULL: none */

static const struct sql_way *started(const struct sql_way *way)
{
    if (running != way) {
        bench_sql_stop();
        way->start();
        running = way;
    }
    return way;
}

void bench_sql_stop(void)
{
    if (running != NULL)
        running->stop();
    running = NULL;
}

static struct rota *open_client(const struct sql_way *way, const struct rota_options *opts)
{
    const struct rt_bench place = {.url = way->url(), .prefix = ""};
    struct rota *r = NULL;
    bench_done(rt_bench_open(&place, &r, opts));
    return r;
}

static const char *text(const struct sql_way *way, const char *what)
{
    static char texts[8][96];
    static unsigned next;
    char *out = texts[next++ % 8];
    snprintf(out, sizeof texts[0], "%s: %s", way->name, what);
    return out;
}

/* ---- Pairs --------------------------------------------------------------- */

typedef void pair_fn(struct hand *h, const char *name);

static double median_us(struct hand *h, pair_fn *pair, struct rota *r, int n)
{
    static double us[PAIRS_MOST];
    for (int i = 0; i < n; i++) {
        int64_t from = rt_bench_ns();
        double one = 0;
        if (pair != NULL)
            pair(h, "pair");
        else
            bench_done(rt_bench_pairs(r, "pair", NULL, 1, &one));
        us[i] = (double)(rt_bench_ns() - from) / 1000;
    }
    return rt_bench_median(us, (size_t)n);
}

static void bench_pairs(const struct bench *b, const struct sql_way *way)
{
    struct rota *r = open_client(way, NULL);
    struct hand *h = way->dial();
    struct beside row = {.n = 0}, own = {.n = 0}, update = {.n = 0};
    int n = (int)(200 * b->scale) + 1;
    (void)median_us(h, way->row_pair, NULL, n); /* warms up */
    (void)median_us(NULL, NULL, r, n);
    for (int i = 0; i < ROUNDS; i++) {
        double theirs = median_us(h, way->row_pair, NULL, n), ours = median_us(NULL, NULL, r, n);
        beside_add(&row, ours, theirs);
        beside_add(&own, ours, median_us(h, way->own_pair, NULL, n));
        beside_add(&update, ours, median_us(h, way->update_pair, NULL, n));
    }
    beside_say(b, &row,
               &(struct beside_text){text(way, "pair"), text(way, "bare INSERT + DELETE pair"),
                                     text(way, "pair / INSERT + DELETE"), "us", way->pair_goal,
                                     false});
    bench_say(b, text(way, way->own), rt_bench_median(own.theirs, own.n), "us");
    bench_say(b, text(way, "SELECT FOR UPDATE, COMMIT"), rt_bench_median(update.theirs, update.n),
              "us");
    way->hang_up(h);
    rota_close(r);
}

/* ---- Many at once -------------------------------------------------------- */

struct crowd {
    const struct sql_way *way;
    struct hand *hands[AT_ONCE];
    _Atomic int next;
};

static int bare_turn(void *arg)
{
    static _Thread_local int mine = -1;
    struct crowd *c = arg;
    char name[16];
    if (mine < 0)
        mine = atomic_fetch_add(&c->next, 1) % AT_ONCE;
    snprintf(name, sizeof name, "n%d", mine);
    c->way->row_pair(c->hands[mine], name);
    return 0;
}

static void bench_at_once(const struct bench *b, const struct sql_way *way)
{
    struct rota *r = open_client(way, NULL);
    struct crowd c = {.way = way};
    struct beside s = {.n = 0};
    for (int i = 0; i < AT_ONCE; i++)
        c.hands[i] = way->dial();
    (void)bench_flight(r, AT_ONCE, 10 * AT_ONCE);
    for (int i = 0; i < 7; i++) {
        double theirs = 0;
        bench_done(rt_bench_crowd(AT_ONCE, CROWD_S * b->scale, bare_turn, &c, &theirs));
        beside_add(&s,
                   bench_flight(r, AT_ONCE,
                                (int)(theirs * CROWD_S * b->scale) / AT_ONCE * AT_ONCE + AT_ONCE),
                   theirs);
    }
    beside_say(b, &s,
               &(struct beside_text){text(way, "16 at once, one client"),
                                     text(way, "INSERT + DELETE on 16 connections"),
                                     text(way, "16 at once / 16 connections"), "/s",
                                     way->flight_goal, true});
    for (int i = 0; i < AT_ONCE; i++)
        way->hang_up(c.hands[i]);
    rota_close(r);
}

/* ---- Hand-over ----------------------------------------------------------- */

struct turn { /* one holds, the other waits; then they change places: holders have waited before */
    const struct by_hand *by;
    struct hand *holder, *waiter; /* by hand; or ... */
    struct rota *a, *b;           /* ... by Rota: A holds LOCK */
    struct rota_lock *lock, *next;
    _Atomic int64_t woken_at;
    _Atomic bool waits;
};

static void *wait_for_turn(void *arg)
{
    struct turn *t = arg;
    atomic_store(&t->waits, true);
    if (t->waiter != NULL)
        t->by->wait(t->waiter);
    else
        bench_done(rota_acquire(t->b, "turn", NULL, &t->next));
    atomic_store(&t->woken_at, rt_bench_ns());
    return NULL;
}

static size_t places(struct rota *r, const char *name)
{
    struct rota_line *line = NULL;
    bench_done(rota_inspect(r, name, &line));
    size_t count = line->count;
    rota_line_free(line);
    return count;
}

/* Waits until the other waits, and everybody sleeps. */
static void settle(struct turn *t)
{
    while (!atomic_load(&t->waits))
        poll(NULL, 0, 1);
    while (t->a != NULL && places(t->a, "turn") < 2)
        poll(NULL, 0, 1);
    poll(NULL, 0, SETTLE_MS);
}

static void change_places(struct turn *t)
{
    struct rota *a = t->a;
    struct hand *holder = t->holder;
    t->a = t->b;
    t->b = a;
    t->lock = t->next;
    t->holder = t->waiter;
    t->waiter = holder;
}

static double turn_us(struct turn *t)
{
    pthread_t thread;
    atomic_store(&t->waits, false);
    if (t->holder != NULL)
        t->by->ready(t->holder, t->waiter);
    else if (t->lock == NULL)
        bench_done(rota_acquire(t->a, "turn", NULL, &t->lock));
    pthread_create(&thread, NULL, wait_for_turn, t);
    settle(t);
    int64_t from = rt_bench_ns();
    if (t->holder != NULL)
        t->by->ring(t->holder);
    else
        bench_done(rota_release(t->lock));
    pthread_join(thread, NULL);
    change_places(t);
    return (double)(atomic_load(&t->woken_at) - from) / 1000;
}

static double turns_us(struct turn *t, int n)
{
    double us[TURNS];
    for (int i = 0; i < n; i++)
        us[i] = turn_us(t);
    return rt_bench_median(us, (size_t)n);
}

enum { WOKEN, HELD, SAME, WAYS };

static void bench_turns(const struct bench *b, const struct sql_way *way)
{
    static const char *const texts[WAYS][2] = {
        {"hand-over by hand", "hand-over / by hand"},
        {"by hand, who is woken takes its row", "hand-over / by hand with its row"},
        {"the same statements by hand", "hand-over / the same statements"}};
    const struct by_hand *const by[WAYS] = {&way->woken, &way->held, &way->same};
    struct turn hand = {.holder = way->dial(), .waiter = way->dial()};
    struct turn ours = {.a = open_client(way, NULL), .b = open_client(way, NULL)};
    struct beside s[WAYS] = {{.n = 0}};
    int n = (int)(TURNS * b->scale);
    n = n < 3 ? 3 : n;
    for (int i = -1; i < TURN_ROUNDS; i++) { /* the first warms up */
        double us = turns_us(&ours, i < 0 ? 3 : n);
        for (int k = 0; k < WAYS; k++) {
            hand.by = by[k];
            double theirs = hand.by->ring != NULL ? turns_us(&hand, i < 0 ? 3 : n) : 0;
            if (i >= 0 && theirs > 0)
                beside_add(&s[k], us, theirs);
        }
    }
    for (int k = 0; k < WAYS; k++)
        if (s[k].n > 0)
            beside_say(b, &s[k],
                       &(struct beside_text){k == 0 ? text(way, "hand-over") : NULL,
                                             text(way, texts[k][0]), text(way, texts[k][1]), "us",
                                             k == 0 ? way->handover_goal : 0, false});
    way->hang_up(hand.holder);
    way->hang_up(hand.waiter);
    bench_done(rota_release(ours.lock));
    rota_close(ours.a);
    rota_close(ours.b);
}

/* ---- Threads ------------------------------------------------------------- */

static void bench_crowd(const struct bench *b, const struct sql_way *way)
{
    struct rota_options strict = {.pass_limit = ROTA_NEVER};
    struct rota *passing = open_client(way, NULL), *in_order = open_client(way, &strict);
    struct beside s = {.n = 0};
    for (int i = 0; i < 3; i++) {
        double with = 0, without = 0;
        bench_done(rt_bench_threads(passing, "crowd", 32, 0.5 * b->scale, &with));
        bench_done(rt_bench_threads(in_order, "crowd", 32, 0.5 * b->scale, &without));
        beside_add(&s, with, without);
    }
    beside_say(b, &s,
               &(struct beside_text){text(way, "32 threads on one lock"),
                                     text(way, "the same, without passing on"),
                                     text(way, "32 threads / without passing on"), "/s", 5, true});
    rota_close(passing);
    rota_close(in_order);
}

/* ---- Waiting ------------------------------------------------------------- */

static void waited(void *arg, int err, struct rota_lock *lock)
{
    (void)err; /* canceled at the end */
    (void)lock;
    atomic_fetch_add((_Atomic int *)arg, 1);
}

/* 100 clients wait in one line: what they and the server do meanwhile. */
static void bench_waiting(const struct bench *b, const struct sql_way *way)
{
    struct rota *holder = open_client(way, NULL), *clients[WAITERS];
    struct rota_lock *lock = NULL;
    _Atomic int over = 0;
    bench_done(rota_acquire(holder, "idle", NULL, &lock));
    double nobody = rt_bench_tree_cpu_us(way->pid());
    poll(NULL, 0, (int)(IDLE_S * 1000));
    bench_say(b, text(way, "the server while nobody waits, share of a core"),
              (rt_bench_tree_cpu_us(way->pid()) - nobody) / (IDLE_S * 1e6) * 100, "%");
    for (int i = 0; i < WAITERS; i++) {
        uint64_t id;
        clients[i] = open_client(way, NULL);
        bench_done(rota_acquire_async(clients[i], "idle", NULL, waited, &over, &id));
    }
    while (places(holder, "idle") < WAITERS + 1)
        poll(NULL, 0, 50);
    poll(NULL, 0, SETTLED_MS);
    double ours = rt_bench_cpu_us(), theirs = rt_bench_tree_cpu_us(way->pid());
    poll(NULL, 0, (int)(IDLE_S * 1000));
    ours = rt_bench_cpu_us() - ours;
    theirs = rt_bench_tree_cpu_us(way->pid()) - theirs;
    double spent = ours + theirs;
    bench_say(b, text(way, "of that the clients"), ours / (IDLE_S * 1e6) * 100, "%");
    bench_goal(b, text(way, "100 who wait, share of a core"), spent / (IDLE_S * 1e6) * 100, "%",
               false, 2);
    for (int i = 0; i < WAITERS; i++)
        rota_close(clients[i]);
    bench_done(rota_release(lock));
    rota_close(holder);
}

#define BENCH(scheme, name, run)                        \
    void bench_##scheme##_##name(const struct bench *b) \
    {                                                   \
        run(b, started(&sql_##scheme));                 \
    }
BENCH(postgres, pair, bench_pairs)
BENCH(postgres, flight, bench_at_once)
BENCH(postgres, handover, bench_turns)
BENCH(postgres, threads, bench_crowd)
BENCH(postgres, waiters, bench_waiting)
BENCH(postgres, dialects, sql_bench_dialects)
BENCH(mysql, dialects, sql_bench_dialects)
BENCH(mysql, pair, bench_pairs)
BENCH(mysql, flight, bench_at_once)
BENCH(mysql, handover, bench_turns)
BENCH(mysql, threads, bench_crowd)
BENCH(mysql, waiters, bench_waiting)
