/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that does one thing at a time for another, which waits: what it costs to leave a disk or a network to
 * somebody else, so that one that hangs keeps nobody waiting longer than it wants to. */
#ifndef BENCH_APART_H
#define BENCH_APART_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

typedef void apart_fn(void *arg);

struct apart {
    pthread_t thread;
    sem_t asked, done;
    apart_fn *fn; /* NULL: it ends */
    void *arg;
};

bool apart_start(struct apart *a);
void apart_do(struct apart *a, apart_fn *fn, void *arg); /* returns when FN has returned */
void apart_stop(struct apart *a);

#endif
