/* SPDX-License-Identifier: Apache-2.0 */
/* The deputy: turns the loop while the keeper is inside a user's function that takes long, so that
 * heartbeats do not depend on how quick callbacks are.
 *
 * It is started with the first callback, looks every LOOK_NS as long as there are any, and sleeps
 * otherwise. The keeper runs short callbacks without waking anybody. */
#include "client/client.h"

#include <assert.h>
#include <poll.h>

#define LOOK_NS (50 * RT_MS) /* a callback that takes longer is worth a deputy; well under a beat */

/* Sleeps until there are callbacks again, or only for a while; enters and returns with the mutex. */
static void deputy_sleep(struct rota *r, bool quiet)
{
    struct rt_deputy *d = &r->deputy;
    uint32_t word = atomic_load(&d->word);

    d->sleeps = quiet;
    rt_client_leave(r);
    rt_futex_wait(&d->word, word, quiet ? -1 : LOOK_NS);
    rt_client_lock(r);
    d->sleeps = false;
}

static void deputy_poll(struct rota *r)
{
    struct pollfd pfd = {.fd = rt_loop_fd(&r->loop), .events = POLLIN};

    if (r->loop.dirty)
        rt_client_turn(r);
    rt_client_leave(r);
    poll(&pfd, 1, (int)(LOOK_NS / RT_MS));
    rt_client_lock(r);
    if (r->driver == NULL && pfd.revents != 0)
        rt_client_turn(r);
}

static void *deputy_main(void *arg)
{
    struct rota *r = arg;
    struct rt_deputy *d = &r->deputy;
    uint64_t seen = 0;

    rt_client_lock(r);
    while (!d->stop) {
        bool quiet = !r->keeper.busy && d->begun == seen;
        seen = d->begun;
        deputy_sleep(r, quiet);
        while (!d->stop && r->keeper.busy && d->begun == seen)
            deputy_poll(r); /* the same function as before the sleep: it takes long */
    }
    rt_client_unlock(r);
    return NULL;
}

static void wake(struct rota *r)
{
    assert(rt_client_mine(r));
    atomic_fetch_add(&r->deputy.word, 1);
    rt_futex_wake(&r->deputy.word);
}

void rt_deputy_watch(struct rota *r)
{
    assert(rt_client_mine(r));
    struct rt_deputy *d = &r->deputy;

    d->begun++;
    if (d->started && d->sleeps) {
        wake(r);
    } else if (!d->started && r->keeper.state != RT_KEEPER_NONE && !d->stop) {
        /* Signals are blocked here already. Without a thread it goes on as if callbacks were short. */
        d->started = pthread_create(&d->thread, NULL, deputy_main, r) == 0;
        if (d->started)
            pthread_setname_np(d->thread, "rota-deputy");
    }
}

void rt_deputy_stop(struct rota *r)
{
    assert(!rt_client_mine(r)); /* it takes it to end */
    rt_client_lock(r);
    r->deputy.stop = true;
    wake(r);
    bool started = r->deputy.started;
    rt_client_unlock(r);
    if (started)
        pthread_join(r->deputy.thread, NULL);
}
