/* SPDX-License-Identifier: Apache-2.0 */
/* Many asks in flight at once on one client, whatever its engine, answered on its keeper's thread. */
#include "cli/bench/measure.h"

#include "cli/connect.h"
#include "cli/out.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

struct flight {
    struct rota *r;
    const char *prefix;
    int names, at_once, pairs;
    atomic_int err; /* the first; then nobody asks again */
    atomic_int flying;
    sem_t landed;
};

struct seat {
    struct flight *flight;
    int next; /* the number of its next pair */
};

static void fly(struct seat *seat);

/* A pair of SEAT has ended, with ERR. */
static void flown(void *arg, int err)
{
    struct seat *seat = arg;
    struct flight *f = seat->flight;
    int none = 0;

    if (err != 0)
        atomic_compare_exchange_strong(&f->err, &none, err);
    seat->next += f->at_once;
    if (seat->next < f->pairs && atomic_load(&f->err) == 0 && !rt_bench_stopped())
        fly(seat);
    else if (atomic_fetch_sub(&f->flying, 1) == 1)
        sem_post(&f->landed);
}

static void granted(void *arg, int err, struct rota_lock *lock)
{
    if (err == 0)
        err = rota_release_async(lock, flown, arg);
    if (err != 0)
        flown(arg, err);
}

static void fly(struct seat *seat)
{
    struct flight *f = seat->flight;
    char name[256];

    snprintf(name, sizeof(name), "%s%d", f->prefix, seat->next % f->names);
    int err = rota_acquire_async(f->r, name, NULL, granted, seat, NULL);
    if (err != 0)
        flown(seat, err);
}

int rt_bench_flight(struct rota *r, const char *prefix, const struct rt_bench_flight *how,
                    double *per_second)
{
    struct flight f = {.r = r,
                       .prefix = prefix,
                       .names = how->names,
                       .at_once = how->at_once,
                       .pairs = how->pairs};

    if (f.at_once > f.pairs)
        f.at_once = f.pairs;
    struct seat *seats = calloc((size_t)f.at_once, sizeof(*seats));

    if (seats == NULL) {
        rt_out_error("out of memory");
        return RT_EXIT_INTERNAL;
    }
    sem_init(&f.landed, 0, 0);
    atomic_store(&f.flying, f.at_once);
    int64_t from = rt_bench_ns();
    for (int i = 0; i < f.at_once; i++) {
        seats[i] = (struct seat){&f, i};
        fly(&seats[i]);
    }
    while (sem_wait(&f.landed) != 0) /* a signal; the pairs under way still end */
        ;
    *per_second = f.pairs / ((double)(rt_bench_ns() - from) / 1e9);
    sem_destroy(&f.landed);
    free(seats);
    int err = atomic_load(&f.err);
    if (rt_bench_stopped())
        return rt_bench_stop_code();
    return err != 0 ? rt_connect_report(r, err, "") : RT_EXIT_OK;
}
