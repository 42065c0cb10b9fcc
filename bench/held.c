/* SPDX-License-Identifier: Apache-2.0 */
/* Very many held locks in one client: what each costs, and whether the next is slower. */
#include "bench.h"

#include "base/alloc.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define BINS 10

/* ---- Counting our own allocations --------------------------------------- */

static atomic_long live_bytes;

/* The size stands in front of the block: what was asked for, not what malloc rounded it to. */
union header {
    size_t size;
    max_align_t align;
};

static void *count_realloc(void *p, size_t size)
{
    union header *h = p != NULL ? (union header *)p - 1 : NULL;
    long before = h != NULL ? (long)h->size : 0;
    union header *fresh = realloc(h, sizeof *h + size);
    if (fresh == NULL)
        return NULL;
    fresh->size = size;
    atomic_fetch_add(&live_bytes, (long)size - before);
    return fresh + 1;
}

static void *count_calloc(size_t n, size_t size)
{
    union header *h = calloc(1, sizeof *h + n * size);
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

static const struct rt_allocator counting = {count_calloc, count_realloc, count_free};

/* ---- The locks ---------------------------------------------------------- */

static void hold_many(const struct bench *b, const char *scheme, int n)
{
    struct rota *r = bench_open(b, scheme, "held", NULL);
    struct rota_lock **locks = calloc((size_t)n, sizeof *locks);
    double us[BINS];
    char name[64], what[128];
    long before = atomic_load(&live_bytes);
    for (int bin = 0; bin < BINS; bin++) {
        int64_t from = bench_ns();
        for (int i = bin * (n / BINS); i < (bin + 1) * (n / BINS); i++) {
            snprintf(name, sizeof name, "lock-%d", i);
            bench_must(rota_acquire(r, name, NULL, &locks[i]), r, "acquire");
        }
        us[bin] = (double)(bench_ns() - from) / 1000 / (n / BINS);
        snprintf(what, sizeof what, "%s: acquire, with %d to %d held", scheme, bin * (n / BINS),
                 (bin + 1) * (n / BINS));
        bench_say(b, what, us[bin], "us");
    }
    double each = (double)(atomic_load(&live_bytes) - before) / n;
    snprintf(what, sizeof what, "%s: our bytes for each of %d held locks", scheme, n);
    bench_goal(b, what, each, "B", false, 400);
    /* The middle of three on each side: one bin may have met a checkpoint or a neighbour. */
    snprintf(what, sizeof what, "%s: the last three tenths / the first three", scheme);
    bench_goal(b, what, bench_median(us + BINS - 3, 3) / bench_median(us, 3), "x", false, 1.5);
    for (int i = 0; i < n / BINS * BINS; i++)
        bench_must(rota_release(locks[i]), r, "release");
    free(locks);
    rota_close(r);
}

void bench_held(const struct bench *b)
{
    int n = (int)(100000 * b->scale);
    rt_alloc_set(&counting);
    hold_many(b, "mem", n);
    hold_many(b, "file", n);
    rt_alloc_set(NULL);
}
