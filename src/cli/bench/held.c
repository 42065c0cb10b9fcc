/* SPDX-License-Identifier: Apache-2.0 */
/* Very many held locks in one client: what each costs, and whether the next is slower. */
#include "cli/bench/measure.h"

#include "base/alloc.h"
#include "cli/connect.h"
#include "cli/out.h"

#include <stdatomic.h>
#include <stdlib.h>

/* ---- Counting our own allocations --------------------------------------- */

static atomic_long live_bytes;

/* The size is stored in front of the block: what was asked for, not what malloc rounded it up to. */
union header {
    size_t size;
    max_align_t align;
};

static void *count_realloc(void *p, size_t size)
{
    union header *h = p != NULL ? (union header *)p - 1 : NULL;
    long before = h != NULL ? (long)h->size : 0;
    union header *fresh = realloc(h, sizeof(*h) + size);

    if (fresh == NULL)
        return NULL;
    fresh->size = size;
    atomic_fetch_add(&live_bytes, (long)size - before);
    return fresh + 1;
}

static void *count_calloc(size_t n, size_t size)
{
    union header *h = calloc(1, sizeof(*h) + n * size);

    if (h == NULL)
        return NULL;
    h->size = n * size;
    atomic_fetch_add(&live_bytes, (long)h->size);
    return h + 1;
}

static void count_free(void *p)
{
    if (p == NULL)
        return;
    union header *h = (union header *)p - 1;
    atomic_fetch_sub(&live_bytes, (long)h->size);
    free(h);
}

void rt_bench_count_bytes(bool begin)
{
    static const struct rt_allocator counting = {count_calloc, count_realloc, count_free};

    rt_alloc_set(begin ? &counting : NULL);
}

long rt_bench_live_bytes(void)
{
    return atomic_load(&live_bytes);
}

/* ---- The locks ---------------------------------------------------------- */

struct held {
    const struct rt_bench *b;
    struct rota *r;
    struct rota_lock **locks;
    int n, taken, bins;
};

/* Takes as many locks as one bin has; *US: each, on average. */
static int take_bin(struct held *h, double *us)
{
    int size = h->n / h->bins;
    int64_t from = rt_bench_ns();

    for (int i = 0; i < size && !rt_bench_stopped(); i++) {
        char name[256];
        snprintf(name, sizeof(name), "%sheld-%d", h->b->prefix, h->taken);
        int err = rota_acquire(h->r, name, NULL, &h->locks[h->taken]);
        if (err != 0)
            return rt_connect_report(h->r, err, "");
        h->taken++;
    }
    *us = (double)(rt_bench_ns() - from) / 1000 / size;
    return rt_bench_stopped() ? rt_bench_stop_code() : RT_EXIT_OK;
}

static int take_all(struct held *h, double *us, double *bytes)
{
    long before = rt_bench_live_bytes();
    int code = RT_EXIT_OK;

    for (int bin = 0; bin < h->bins && code == RT_EXIT_OK; bin++) {
        code = take_bin(h, &us[bin]);
        rt_bench_progress(h->b, (double)(bin + 1) / (2 * h->bins));
    }
    *bytes = (double)(rt_bench_live_bytes() - before) / (h->taken > 0 ? h->taken : 1);
    return code;
}

static int release_all(struct held *h)
{
    int code = RT_EXIT_OK;

    for (int i = 0; i < h->taken; i++) {
        int err = rota_release(h->locks[i]);
        if (err != 0 && code == RT_EXIT_OK)
            code = rt_connect_report(h->r, err, "");
        if (i % (h->n / h->bins) == 0)
            rt_bench_progress(h->b, 0.5 + (double)i / h->n / 2);
    }
    return code;
}

int rt_bench_held(const struct rt_bench *b, int n, int bins, double *us, double *bytes)
{
    struct held h = {.b = b, .n = n < bins ? bins : n, .bins = bins};

    h.locks = calloc((size_t)h.n, sizeof(struct rota_lock *));
    if (h.locks == NULL) {
        rt_out_error("out of memory");
        return RT_EXIT_INTERNAL;
    }
    rt_bench_count_bytes(true);
    int code = rt_bench_open(b, &h.r, NULL);
    if (code == RT_EXIT_OK) {
        code = take_all(&h, us, bytes);
        int released = release_all(&h);
        code = code == RT_EXIT_OK ? released : code;
        rota_close(h.r);
    }
    rt_bench_count_bytes(false);
    free(h.locks);
    return code;
}
