/* SPDX-License-Identifier: Apache-2.0 */
/* fork(): the child's clients are dead from the start, and what they must not keep open is closed. */
#include "client/client.h"

#include <assert.h>

/* Bumped in each child: a client made before says another number. */
static _Atomic uint32_t generation = 1;

static pthread_mutex_t clients_mu = PTHREAD_MUTEX_INITIALIZER;
static struct rota *clients;
static pthread_once_t once = PTHREAD_ONCE_INIT;

uint32_t rt_fork_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

bool rt_forked(const struct rota *r)
{
    return r->fork_generation != rt_fork_generation();
}

void rt_fork_hold(void)
{
    pthread_mutex_lock(&clients_mu);
}

void rt_fork_go_on(void)
{
    pthread_mutex_unlock(&clients_mu);
}

/* Runs between fork and whatever the child does: only what is async-signal-safe. */
static void in_child(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    for (struct rota *r = clients; r != NULL; r = r->next)
        if (r->d.conn != NULL && r->d.conn->engine->forked != NULL)
            r->d.conn->engine->forked(r->d.conn);
    clients = NULL;
    pthread_mutex_unlock(&clients_mu);
}

static void install(void)
{
    pthread_atfork(rt_fork_hold, rt_fork_go_on, in_child);
}

void rt_fork_add(struct rota *r)
{
    assert(r->d.conn == NULL); /* a fork from now on concerns it */
    pthread_once(&once, install);
    pthread_mutex_lock(&clients_mu);
    r->fork_generation = rt_fork_generation();
    r->prev = NULL;
    r->next = clients;
    if (r->next != NULL)
        r->next->prev = r;
    clients = r;
    pthread_mutex_unlock(&clients_mu);
}

void rt_fork_remove(struct rota *r)
{
    pthread_mutex_lock(&clients_mu);
    if (r->prev != NULL)
        r->prev->next = r->next;
    else
        clients = r->next;
    if (r->next != NULL)
        r->next->prev = r->prev;
    pthread_mutex_unlock(&clients_mu);
}
