/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run the application's functions. */
#include "txn/manager/pool.h"

#include "base/alloc.h"

#include <assert.h>
#include <pthread.h>
#include <rota_txn.h>
#include <signal.h>
#include <stdio.h>

struct rt_pool {
    pthread_mutex_t mu; /* guards all below; not held while a function runs or done() is called */
    pthread_cond_t work;
    void (*run)(struct rt_service_call *c);
    struct rt_service_call *first, **last;
    uint32_t waiting; /* calls */
    uint32_t idle, count;
    pthread_t threads[RT_POOL_THREADS];
    bool closing;
};

static struct rt_service_call *take(struct rt_pool *p)
{
    struct rt_service_call *c = p->first;

    assert(c != NULL && p->waiting > 0);
    p->first = c->next;
    if (p->first == NULL)
        p->last = &p->first;
    p->waiting--;
    c->next = NULL;
    return c;
}

static void *serve(void *arg)
{
    struct rt_pool *p = arg;

    pthread_mutex_lock(&p->mu);
    for (;;) {
        p->idle++;
        while (p->first == NULL && !p->closing)
            pthread_cond_wait(&p->work, &p->mu);
        p->idle--;
        if (p->first == NULL)
            break;
        struct rt_service_call *c = take(p);
        bool late = p->closing;
        pthread_mutex_unlock(&p->mu);
        c->reply = RT_REPLY_LOST;
        if (late)
            snprintf(c->errmsg, sizeof(c->errmsg), "the manager was closed before it was called");
        else
            p->run(c);
        c->done(c);
        pthread_mutex_lock(&p->mu);
    }
    pthread_mutex_unlock(&p->mu);
    return NULL;
}

struct rt_pool *rt_pool_open(void (*run)(struct rt_service_call *c))
{
    struct rt_pool *p = rt_alloc(sizeof(*p));

    if (p == NULL)
        return NULL;
    pthread_mutex_init(&p->mu, NULL);
    pthread_cond_init(&p->work, NULL);
    p->run = run;
    p->last = &p->first;
    return p;
}

static void add_thread(struct rt_pool *p)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the application's threads */
    if (pthread_create(&p->threads[p->count], NULL, serve, p) == 0)
        p->count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int rt_pool_ask(struct rt_pool *p, struct rt_service_call *c)
{
    pthread_mutex_lock(&p->mu);
    assert(!p->closing);
    if (p->waiting >= p->idle && p->count < RT_POOL_THREADS)
        add_thread(p);
    int rv = p->count > 0 ? 0 : ROTA_NOMEM;
    if (rv == 0) {
        c->next = NULL;
        *p->last = c;
        p->last = &c->next;
        p->waiting++;
        pthread_cond_signal(&p->work);
    }
    pthread_mutex_unlock(&p->mu);
    return rv;
}

void rt_pool_close(struct rt_pool *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->mu);
    p->closing = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->mu);
    for (uint32_t i = 0; i < p->count; i++)
        pthread_join(p->threads[i], NULL);
    assert(p->first == NULL);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->mu);
    rt_free(p);
}
