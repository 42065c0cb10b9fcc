/* SPDX-License-Identifier: Apache-2.0 */
#include "apart.h"

#include <assert.h>
#include <stddef.h>

static void await(sem_t *sem)
{
    while (sem_wait(sem) != 0)
        ; /* a signal */
}

static void *run(void *arg)
{
    struct apart *a = arg;
    for (;;) {
        await(&a->asked);
        if (a->fn == NULL)
            return NULL;
        a->fn(a->arg);
        sem_post(&a->done);
    }
}

bool apart_start(struct apart *a)
{
    sem_init(&a->asked, 0, 0);
    sem_init(&a->done, 0, 0);
    return pthread_create(&a->thread, NULL, run, a) == 0;
}

void apart_do(struct apart *a, apart_fn *fn, void *arg)
{
    assert(fn != NULL);
    a->fn = fn;
    a->arg = arg;
    sem_post(&a->asked);
    await(&a->done);
}

void apart_stop(struct apart *a)
{
    a->fn = NULL;
    sem_post(&a->asked);
    pthread_join(a->thread, NULL);
    sem_destroy(&a->asked);
    sem_destroy(&a->done);
}
