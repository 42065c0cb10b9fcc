/* SPDX-License-Identifier: Apache-2.0 */
/* How cost grows, on servers of ours. */
#include "scale.h"

#include "cli/bench/scale.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART_S 5

static void say(const struct bench *b, const char *name, const struct rt_figure *f)
{
    char what[160];
    snprintf(what, sizeof what, "%s: %s %s", name, f->bench, f->what);
    bench_say(b, what, f->value, f->unit);
}

static void table(const struct bench *b, const struct scale_place *at, rt_scale_fn *fn, int most)
{
    static struct rt_figures figures; /* static: it is large */
    static int number;
    char prefix[32];
    figures.count = 0;
    snprintf(prefix, sizeof prefix, "scale-%d-", number++);
    const struct rt_bench place = {.url = at->url, .prefix = prefix, .server = at->server};
    const struct rt_scale scale = {.measure = &place,
                                   .figures = &figures,
                                   .most = (int)(most * b->scale),
                                   .part_s = b->scale < 1 ? 1 : PART_S};
    bench_done(fn(&scale));
    for (size_t i = 0; i < figures.count; i++)
        say(b, at->name, &figures.all[i]);
}

/* ---- An outage of half the ttl ------------------------------------------- */

#define CLIENTS 200
#define LOCKS 20 /* of each */
#define TTL_MS 10000
#define DOWN_S 5.0
#define AFTER_S 12.0 /* by then all have been renewed, or are lost */

static atomic_int lost, warnings;

static void on_lost(struct rota_lock *lock, int reason, void *arg)
{
    (void)lock;
    (void)reason;
    (void)arg;
    atomic_fetch_add(&lost, 1);
}

static void on_log(void *arg, int level, const char *line)
{
    (void)arg;
    (void)line;
    atomic_fetch_add(&warnings, level <= ROTA_LOG_WARN);
}

static struct rota *client(const struct scale_place *at, int number)
{
    const struct rota_options opts = {.ttl_ms = TTL_MS, .log = on_log};
    const struct rota_ask ask = {.on_lost = on_lost};
    const struct rt_bench place = {.url = at->url, .prefix = ""};
    struct rota *r = NULL;
    bench_done(rt_bench_open(&place, &r, &opts));
    for (int i = 0; i < LOCKS; i++) {
        struct rota_lock *lock;
        char name[64];
        snprintf(name, sizeof name, "outage-%d-%d", number, i);
        bench_done(rota_acquire(r, name, &ask, &lock));
    }
    return r;
}

static void outage(const struct bench *b, const struct scale_place *at)
{
    static struct rota *clients[CLIENTS];
    int n = b->scale < 1 ? CLIENTS / 10 : CLIENTS;
    char what[96];
    if (at->down == NULL)
        return;
    for (int i = 0; i < n; i++)
        clients[i] = client(at, i);
    atomic_store(&lost, 0);
    atomic_store(&warnings, 0);
    int64_t from = rt_bench_ns();
    at->down();
    rt_bench_pause(DOWN_S);
    at->up();
    double down = (double)(rt_bench_ns() - from) / 1e9;
    rt_bench_pause(AFTER_S);
    snprintf(what, sizeof what, "%s: outage %d clients: the server was down for", at->name, n);
    bench_say(b, what, down, "s");
    snprintf(what, sizeof what, "%s: outage %d clients: lost of %d", at->name, n, n * LOCKS);
    bench_say(b, what, atomic_load(&lost), "locks");
    snprintf(what, sizeof what, "%s: outage %d clients: warnings", at->name, n);
    bench_say(b, what, atomic_load(&warnings), "lines");
    for (int i = 0; i < n; i++)
        rota_close(clients[i]);
}

/* ---- The bare server beside it ------------------------------------------- */

static void bare(const struct bench *b, const struct scale_place *at)
{
    static const int locks[] = {100, 1000, 10000, 100000}, crowds[] = {10, 100};
    char what[96];
    for (size_t i = 0; at->locks_s != NULL && i < sizeof locks / sizeof locks[0]; i++) {
        int n = locks[i];
        if (n > 100000 * b->scale)
            break;
        snprintf(what, sizeof what, "%s: locks %d: the same by hand on the bare server", at->name,
                 n);
        bench_say(b, what, at->locks_s(n), "s");
    }
    for (size_t i = 0; at->contended != NULL && i < sizeof crowds / sizeof crowds[0]; i++) {
        double rate = at->contended(crowds[i], b->scale < 1 ? 1 : PART_S);
        snprintf(what, sizeof what, "%s: clients %d: the same by hand on one row", at->name,
                 crowds[i]);
        bench_say(b, what, rate, "/s");
    }
}

/* What names that were used leave behind. */
static void kept(const struct bench *b, const struct scale_place *at)
{
    char what[96];
    snprintf(what, sizeof what, "%s: names: keys, rows or nodes that stay", at->name);
    if (at->kept != NULL)
        bench_say(b, what, (double)at->kept(), "");
}

void scale_run(const struct bench *b, const struct scale_place *at)
{
    table(b, at, rt_scale_locks, 100000);
    table(b, at, rt_scale_clients, 1000);
    table(b, at, rt_scale_line, 5000);
    table(b, at, rt_scale_names, 100000);
    kept(b, at);
    bare(b, at);
    outage(b, at);
}
