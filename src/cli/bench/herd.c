/* SPDX-License-Identifier: Apache-2.0 */
/* Very many clients that wait for one lock: how many of them hear anything when it is released. */
#include "cli/bench/measure.h"

#include "cli/connect.h"
#include "cli/out.h"

#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FDS_MOST 65536
#define TTL_MS 600000 /* hardly any heartbeat interferes */
#define RELEASES 3
#define QUIET_MS 200 /* nothing came for this long: everything has come */
#define SETTLE_MS 60000

struct herd {
    struct member {
        struct herd *herd;
        struct rota *client;
    } members[RT_BENCH_HERD_MOST];
    int n;
    char name[256];
    _Atomic(struct rota_lock *) held;
    struct member *_Atomic holder;
    uint64_t before[FDS_MOST], now[FDS_MOST]; /* received by each connection */
};

/* What each of our connections has received so far; returns the sum. */
static uint64_t look(uint64_t *received)
{
    uint64_t sum = 0;
    DIR *dir = opendir("/proc/self/fd");

    memset(received, 0, FDS_MOST * sizeof(*received));
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        long fd = strtol(entry->d_name, NULL, 10); /* "." gives 0, which is none */
        struct tcp_info info = {0};
        socklen_t size = sizeof(info);
        if (fd <= 0 || fd >= FDS_MOST ||
            getsockopt((int)fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
            continue;
        received[fd] = info.tcpi_bytes_received;
        sum += info.tcpi_bytes_received;
    }
    if (dir != NULL)
        closedir(dir);
    return sum;
}

/* Waits until nothing has come for a while; h->now is what came. */
static void settle(struct herd *h)
{
    int64_t end = rt_bench_ns() + SETTLE_MS * INT64_C(1000000);
    uint64_t sum = look(h->now), before = sum + 1;

    while (sum != before && rt_bench_ns() < end && !rt_bench_stopped()) {
        before = sum;
        poll(NULL, 0, QUIET_MS);
        sum = look(h->now);
    }
}

static void granted(void *arg, int err, struct rota_lock *lock)
{
    struct member *m = arg;

    if (err != 0)
        return;
    atomic_store(&m->herd->holder, m);
    atomic_store(&m->herd->held, lock);
}

static int ask(struct member *m)
{
    int err = rota_acquire_async(m->client, m->herd->name, NULL, granted, m, NULL);

    return err != 0 ? rt_connect_report(m->client, err, "") : RT_EXIT_OK;
}

/* The holder lets go; once the next one holds and all is quiet, counts how many connections heard something. Then it
 * asks again, so as many wait as before. */
static int release_once(struct herd *h, double *woken)
{
    struct rota_lock *lock = atomic_exchange(&h->held, NULL);
    struct member *m = atomic_load(&h->holder);
    int64_t end = rt_bench_ns() + SETTLE_MS * INT64_C(1000000);

    settle(h);
    memcpy(h->before, h->now, sizeof(h->before));
    int err = rota_release(lock);
    if (err != 0)
        return rt_connect_report(m->client, err, "");
    while (atomic_load(&h->held) == NULL && rt_bench_ns() < end && !rt_bench_stopped())
        poll(NULL, 0, 1);
    settle(h);
    *woken = -1; /* the one that let go was answered */
    for (size_t i = 0; i < FDS_MOST; i++)
        *woken += h->now[i] != h->before[i];
    return atomic_load(&h->held) != NULL ? ask(m) : RT_EXIT_INTERNAL;
}

/* One holder, and up to N waiters, as many as the server takes. */
static int gather(const struct rt_bench *b, struct herd *h, int n)
{
    const struct rota_options opts = {.ttl_ms = TTL_MS};
    int code = RT_EXIT_OK;

    snprintf(h->name, sizeof(h->name), "%sherd", b->prefix);
    while (h->n <= n && code == RT_EXIT_OK && !rt_bench_stopped()) {
        struct member *m = &h->members[h->n];
        m->herd = h;
        if (rota_open(&m->client, b->url, &opts) != 0)
            break;
        h->n++;
        code = ask(m);
        while (h->n == 1 && code == RT_EXIT_OK && atomic_load(&h->held) == NULL &&
               !rt_bench_stopped())
            poll(NULL, 0, 1);
        rt_bench_progress(b, (double)h->n / (n + 1));
    }
    if (code == RT_EXIT_OK && h->n < 2 && !rt_bench_stopped()) {
        rt_out_error("cannot open two clients: %s", rota_errmsg(NULL));
        code = RT_EXIT_INTERNAL;
    }
    return code;
}

int rt_bench_herd(const struct rt_bench *b, int *n, double *woken)
{
    static struct herd h; /* static: it is large */
    int most = *n < RT_BENCH_HERD_MOST ? *n : RT_BENCH_HERD_MOST - 1;

    memset(&h, 0, sizeof(h));
    rt_bench_many_files();
    int code = gather(b, &h, most);
    *n = h.n - 1;
    *woken = *n;
    for (int i = 0; i < RELEASES && code == RT_EXIT_OK && !rt_bench_stopped(); i++) {
        double heard = *woken;
        code = release_once(&h, &heard);
        *woken = heard < *woken ? heard : *woken; /* less noise from heartbeats */
    }
    for (int i = 0; i < h.n; i++)
        rota_close(h.members[i].client);
    return rt_bench_stopped() ? rt_bench_stop_code() : code;
}
