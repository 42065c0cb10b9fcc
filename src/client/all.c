/* SPDX-License-Identifier: Apache-2.0 */
/* Several names as one ask. */
#include "client/client.h"

#include "base/alloc.h"
#include "client/metrics.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MOST 128

/* What the caller waits for; the set itself is the dispatcher's, and may outlive this. */
struct group {
    struct rt_set *set;
    size_t n, prepared;
    struct rota_lock *locks[NAMES_MOST];
};

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(struct rota *r, const char *const *names, size_t n)
{
    const char *sorted[NAMES_MOST];

    if (names == NULL || n == 0 || n > NAMES_MOST)
        return rt_fail(r, ROTA_INVALID, "1 to %d names can be locked at once", NAMES_MOST);
    for (size_t i = 0; i < n; i++) {
        int rv = rt_name_check(r, names[i]);
        if (rv != 0)
            return rv;
        sorted[i] = names[i];
    }
    qsort(sorted, n, sizeof(sorted[0]), compare);
    for (size_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return rt_fail(r, ROTA_INVALID, "the name '%.60s' is there twice: name each once",
                           sorted[i]);
    return 0;
}

static int prepare(struct rota *r, struct group *g, const char *const *names,
                   const struct rt_wish *wish)
{
    struct rt_batch *batch = rt_dispatch_batch(g->n, (wish->ask.flags & ROTA_TRY) != 0);

    if (batch == NULL)
        return ROTA_NOMEM;
    g->set = &batch->set;
    for (size_t i = 0; i < g->n; i++) {
        int rv = rt_ask_prepare(r, names[i], wish, &g->locks[i]);
        if (rv != 0)
            return rv;
        g->prepared++;
        struct rt_ask *ask = &g->locks[i]->ask;
        ask->terms->set = g->set;
        ask->ticket->flags |= RT_TICKET_SET;
        g->set->asks[i] = ask;
    }
    return 0;
}

static void cancel_set(struct rota *r, struct rt_waiter *w, int err)
{
    struct group *g = w->user;

    (void)rt_desk_cancel(&r->d.desk, &g->locks[0]->ask, err, rt_loop_now(&r->loop));
}

static bool fences_went_back(struct rota *r, const struct group *g)
{
    bool unsafe = false;

    for (size_t i = 0; i < g->n; i++)
        if (g->locks[i]->ask.mode == RT_EXCLUSIVE && rt_lock_unsafe(r, g->locks[i]))
            unsafe = true;
    return unsafe;
}

/* The set's one answer, in the step that decides it: before its caller is awake others may hold the
 * names again, and rota_close may have taken the handles away. */
void rt_set_answered(struct rota *r, struct rt_waiter *w, int err)
{
    assert(rt_client_mine(r));
    struct group *g = w->user;
    bool unsafe = err == 0 && fences_went_back(r, g);

    if (err == 0) /* of one session, and asked for with the same words */
        w->until = rt_desk_until(&r->d.desk, &g->locks[0]->ask);
    for (size_t i = 0; i < g->n && err != 0; i++)
        rt_lock_explain(r, g->locks[i]);
    for (size_t i = 0; i < g->n; i++) {
        rt_metrics_answered(r, g->locks[i], unsafe ? ROTA_UNSAFE : err);
        rt_hunter_free(r, rt_more_of(g->locks[i]));
        if (err != 0)
            rt_handle_free(r, g->locks[i]);
        else if (unsafe)
            rt_lock_let_go(r, g->locks[i]);
        else
            rt_more_trim(r, g->locks[i]);
    }
    rt_wait_done(r, w, unsafe ? ROTA_UNSAFE : err);
}

static int ask_all(struct rota *r, struct group *g)
{
    struct rt_waiter w;
    uint64_t serial = r->serial;

    rt_wait_init(r, &w, &g->locks[0]->ask, cancel_set);
    w.set = true;
    w.user = g;
    g->locks[0]->waiter = &w;
    for (size_t i = 0; i < g->n; i++)
        rt_metrics_asked(r, g->locks[i]);
    rt_desk_ask_all(&r->d.desk, g->set, rt_loop_now(&r->loop));
    int err = rt_lock_wait(r, g->locks, g->n, &w);
    return rt_fail_waiter(serial, err, w.errmsg);
}

static int acquire_all(struct rota *r, struct group *g, const char *const *names,
                       const struct rt_wish *wish)
{
    int rv = rt_client_begin(r);

    if (rv != 0)
        return rv;
    rv = prepare(r, g, names, wish);
    if (rv == 0)
        return ask_all(r, g);
    for (size_t i = 0; i < g->prepared; i++)
        rt_ask_discard(r, g->locks[i]);
    rt_free(g->set); /* the desk has never heard of it */
    rt_client_leave(r);
    return rt_fail(r, rv, NULL);
}

int rota_acquire_all_sized(struct rota *r, const char *const *names, size_t n,
                           const struct rota_ask *ask, size_t size, struct rota_lock **out)
{
    struct rt_wish wish;
    int rv = rt_client_check(r, true);

    if (rv == 0 && out == NULL)
        rv = rt_fail(r, ROTA_INVALID, "there is no place for the locks");
    if (rv == 0)
        rv = check_names(r, names, n);
    if (rv == 0)
        rv = rt_wish_init(r, &wish, ask, size);
    if (rv != 0)
        return rv;
    if (wish.mode == RT_PERMITS)
        return rt_fail(r, ROTA_INVALID,
                       "several names can be locked exclusively or shared, "
                       "permits only one by one");
    if ((wish.ask.flags & ROTA_REJOIN) != 0)
        return rt_fail(r, ROTA_INVALID, "ROTA_REJOIN is for one name: ask again for all of them");
    wish.in_set = true;
    struct group *g = rt_alloc(sizeof(*g));
    if (g == NULL)
        return rt_fail(r, ROTA_NOMEM, NULL);
    g->n = n;
    rv = acquire_all(r, g, names, &wish);
    if (rv == 0)
        memcpy(out, g->locks, n * sizeof(struct rota_lock *));
    rt_free(g);
    return rv;
}
