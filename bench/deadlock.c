/* SPDX-License-Identifier: Apache-2.0 */
/* Three processes each hold one lock and ask for the next one's: how long until one of them, and only one, is
 * refused. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 3
#define MOST 64

struct ring {
    uint32_t holding; /* how many have their first lock; a futex is not worth it here */
    int64_t asked_at; /* when the last of them asked */
    int64_t refused_at[PROCESSES];
    int err[PROCESSES];
};

static void take_part(const struct bench *b, struct ring *ring, int me)
{
    static const char *const names[PROCESSES] = {"a", "b", "c"};
    const struct rota_ask detect = {.flags = ROTA_DETECT};
    struct rota *r = bench_open(b, "file", "deadlock", NULL);
    struct rota_lock *mine = NULL, *next = NULL;
    if (rota_acquire(r, names[me], &detect, &mine) != 0)
        _exit(1);
    if (__atomic_add_fetch(&ring->holding, 1, __ATOMIC_SEQ_CST) == PROCESSES)
        ring->asked_at = rt_bench_ns();
    while (__atomic_load_n(&ring->holding, __ATOMIC_SEQ_CST) < PROCESSES)
        usleep(100);
    ring->err[me] = rota_acquire(r, names[(me + 1) % PROCESSES], &detect, &next);
    ring->refused_at[me] = rt_bench_ns();
    rota_release(next);
    rota_release(mine);
    rota_close(r);
    _exit(0);
}

/* Milliseconds until the refusal; counts the refused in *REFUSED. */
static double one_ring(const struct bench *b, struct ring *ring, int *refused)
{
    double ms = 0;
    *ring = (struct ring){0};
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0)
            take_part(b, ring, i);
    for (int i = 0; i < PROCESSES; i++)
        wait(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        if (ring->err[i] != ROTA_DEADLOCK)
            continue;
        ++*refused;
        ms = (double)(ring->refused_at[i] - ring->asked_at) / 1e6;
    }
    return ms;
}

void bench_deadlock(const struct bench *b)
{
    struct ring *ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double ms[MOST];
    int refused = 0;
    size_t n = (size_t)(20 * b->scale) + 1;
    for (size_t i = 0; i < n; i++)
        ms[i] = one_ring(b, ring, &refused);
    munmap(ring, sizeof(*ring));
    bench_say(b, "three processes in a ring: refused after, median", rt_bench_median(ms, n), "ms");
    bench_goal(b, "three processes in a ring: refused after, worst", rt_bench_quantile(ms, n, 1),
               "ms", false, 1000);
    bench_goal(b, "refused per ring, at most", (double)refused / (double)n, "", false, 1);
    bench_goal(b, "refused per ring, at least", (double)refused / (double)n, "", true, 1);
}
