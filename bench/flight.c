/* SPDX-License-Identifier: Apache-2.0 */
/* Many asks in flight at once on one client, whatever its engine, answered on its keeper's thread. */
#include "bench.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

struct flight {
    struct rota *r;
    _Atomic int begun, over;
    int pairs;
    sem_t landed;
    struct seat {
        struct flight *flight;
        char name[16];
    } seats[BENCH_FLIGHT];
};

static void ask(struct seat *seat);

static void flown(void *arg, int err)
{
    struct seat *seat = arg;
    struct flight *f = seat->flight;
    bench_done(err);
    if (atomic_fetch_add(&f->begun, 1) < f->pairs)
        ask(seat);
    if (atomic_fetch_add(&f->over, 1) + 1 == f->pairs)
        sem_post(&f->landed);
}

static void granted(void *arg, int err, struct rota_lock *lock)
{
    bench_done(err);
    bench_done(rota_release_async(lock, flown, arg));
}

static void ask(struct seat *seat)
{
    bench_done(rota_acquire_async(seat->flight->r, seat->name, NULL, granted, seat, NULL));
}

double bench_flight(struct rota *r, int at_once, int pairs)
{
    static struct flight f;
    f.r = r;
    f.pairs = pairs;
    sem_init(&f.landed, 0, 0);
    atomic_store(&f.over, 0);
    atomic_store(&f.begun, at_once);
    int64_t from = rt_bench_ns();
    for (int i = 0; i < at_once; i++) {
        f.seats[i].flight = &f;
        snprintf(f.seats[i].name, sizeof f.seats[i].name, "n%d", i);
        ask(&f.seats[i]);
    }
    while (sem_wait(&f.landed) != 0)
        ;
    return pairs / ((double)(rt_bench_ns() - from) / 1e9);
}
