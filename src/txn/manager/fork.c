/* SPDX-License-Identifier: Apache-2.0 */
/* fork(): the child's managers are dead from the start, and whatever they must not keep open is closed. */
#include "txn/manager/inside.h"

#include <stdatomic.h>

static _Atomic uint32_t generation =
    1; /* bumped in each child: an older manager has another number */
static pthread_mutex_t managers_mu = PTHREAD_MUTEX_INITIALIZER;
static struct rota_txns *managers;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void hold(void)
{
    pthread_mutex_lock(&managers_mu);
}

static void let_go(void)
{
    pthread_mutex_unlock(&managers_mu);
}

/* Runs before anything else in the child: only async-signal-safe calls. */
static void in_child(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    for (struct rota_txns *m = managers; m != NULL; m = m->next)
        if (m->journal != NULL && m->journal->kind->forked != NULL)
            m->journal->kind->forked(m->journal);
    managers = NULL;
    pthread_mutex_unlock(&managers_mu);
}

static void install(void)
{
    pthread_atfork(hold, let_go, in_child);
}

void rt_txns_fork_add(struct rota_txns *m)
{
    pthread_once(&once, install);
    hold();
    m->fork_generation = atomic_load_explicit(&generation, memory_order_relaxed);
    m->next = managers;
    managers = m;
    let_go();
}

void rt_txns_fork_remove(struct rota_txns *m)
{
    hold();
    for (struct rota_txns **at = &managers; *at != NULL; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            break;
        }
    let_go();
}

bool rt_txns_forked(const struct rota_txns *m)
{
    return m->fork_generation != atomic_load_explicit(&generation, memory_order_relaxed);
}

int rt_txns_enter(struct rota_txns *m, const char *call)
{
    if (m == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "%s needs a manager", call);
    if (rt_txns_forked(m))
        return rt_txns_fail(m, ROTA_FORKED,
                            "this manager belongs to the parent process: open another");
    if (rt_txns_inside(m))
        return rt_txns_fail(m, ROTA_INVALID, "%s waits, and must not be called from a callback",
                            call);
    return 0;
}
