/* SPDX-License-Identifier: Apache-2.0 */
/* Managers: opening, what the command and tests ask, closing. */
#include "txn/manager/tcc.h"

#include "base/alloc.h"
#include "client/config.h"
#include "net/fd.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL_MS 5000
#define TIMEOUT_MS 60000
#define RECOVER_MS 2000
#define KEEP_MS (UINT32_C(7) * 24 * 3600 * 1000)
#define CLOSING_TURNS 4 /* watches end in the turn after they were stopped */

/* ---- Options ---------------------------------------------------------------------- */

static int take_options(struct rota_txns_options *o, const struct rota_txns_options *opts,
                        size_t size)
{
    int err = rt_txns_options(NULL, o, sizeof(*o), opts, size);

    if (err != 0)
        return err;
    if ((o->flags & ~(ROTA_TXN_STRICT | ROTA_TXN_RECOVER)) != 0 || o->reserved != 0)
        return rt_txns_fail(NULL, ROTA_INVALID, "unknown flags %#x in the options", o->flags);
    o->call_ms = o->call_ms != 0 ? o->call_ms : CALL_MS;
    o->timeout_ms = o->timeout_ms != 0 ? o->timeout_ms : TIMEOUT_MS;
    o->recover_ms = o->recover_ms != 0 ? o->recover_ms : RECOVER_MS;
    o->keep_ms = o->keep_ms != 0 ? o->keep_ms : KEEP_MS;
    if (o->timeout_ms < RT_TIMEOUT_LEAST || o->timeout_ms > RT_TIMEOUT_MOST)
        return rt_txns_fail(NULL, ROTA_INVALID, "a timeout of %u ms: use 1 second to 24 hours",
                            o->timeout_ms);
    if (o->keep_ms / 2 < o->timeout_ms)
        return rt_txns_fail(
            NULL, ROTA_INVALID,
            "outcomes must be kept for at least twice the timeout: keep_ms %u, timeout_ms %u",
            o->keep_ms, o->timeout_ms);
    return 0;
}

/* What URL stands for, in *OUT, which the caller frees. */
static int find_url(const char *url, char **out, char *line)
{
    if (url == NULL || url[0] == '\0')
        url = getenv("ROTA_JOURNAL");
    if (url == NULL || url[0] == '\0')
        url = "file:";
    if (strchr(url, ':') == NULL)
        return rt_config_find(url, out, line, RT_TXN_LINE);
    *out = rt_strdup(url);
    return *out != NULL ? 0 : ROTA_NOMEM;
}

/* ---- What the journal and the resources tell ----------------------------------------- */

static void on_done(struct rt_journal_up *up, struct rt_journal_op *op)
{
    struct rt_asker *a = op->user;

    (void)up;
    a->told(a, op);
}

static struct rota_txns *of_up(struct rt_journal_up *up)
{
    return (struct rota_txns *)(void *)((char *)up - offsetof(struct rota_txns, up));
}

static void on_log(struct rt_journal_up *up, int level, const char *line)
{
    rt_txns_log(of_up(up), level, "journal: %s", line);
}

/* On a worker's thread. */
static void on_back(void *arg, struct rt_resource *r)
{
    struct rota_txns *m = arg;

    pthread_mutex_lock(&m->mu);
    for (struct rota_txn *t = m->txns; t != NULL; t = t->next)
        if (t->life == RT_LIFE_ALONE) {
            rt_txn_back(&t->core, rt_resource_index(r), rt_loop_clock());
            rt_txns_due(t);
        }
    pthread_mutex_unlock(&m->mu);
}

static void on_down(void *arg, struct rt_resource *r, int err, const char *line)
{
    (void)err;
    rt_txns_log(arg, ROTA_LOG_WARN, "resource %s: %s", rt_resource_name(r), line);
}

static void on_warn(void *arg, const char *line)
{
    rt_txns_log(arg, ROTA_LOG_WARN, "%s", line);
}

/* ---- Asking, for the command ----------------------------------------------------------- */

struct asked {
    struct rt_asker asker; /* first */
    struct rt_caller call;
    struct rt_errand errand;
};

static void call_told(struct rt_asker *a, struct rt_journal_op *op)
{
    struct rt_caller *call = &((struct asked *)(void *)a)->call;
    struct rt_caller **at = &a->m->asking;

    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    rt_txns_answer(a->m, call, op->err, a->m->journal->base.errmsg);
}

static void call_back(struct rt_asker *a, struct rt_errand *e)
{
    rt_txns_answer(a->m, &((struct asked *)(void *)a)->call, e->op.err, e->errmsg);
}

int rt_txns_ask(struct rota_txns *m, struct rt_journal_op *op)
{
    struct asked asked = {.asker = {.m = m, .told = call_told}};

    int rv = rt_txns_enter(m, "asking the journal");
    if (rv != 0)
        return rv;
    rt_caller_waits(&asked.call);
    op->user = &asked.asker;
    pthread_mutex_lock(&m->mu);
    op->next = m->asks;
    m->asks = op;
    asked.call.next = m->asking;
    m->asking = &asked.call;
    rt_txns_wake(m);
    return rt_txns_wait(m, &asked.call);
}

int rt_txns_errand(struct rota_txns *m, const char *name, struct rt_party_op *op)
{
    return rt_txns_errand_at(m, name, NULL, op);
}

int rt_txns_errand_at(struct rota_txns *m, const char *name, const struct rt_place *place,
                      struct rt_party_op *op)
{
    struct asked *asked;

    int rv = rt_txns_enter(m, "asking a resource");
    if (rv != 0)
        return rv;
    struct rt_resource *r = rt_resources_find(m->resources, name);
    if (r == NULL)
        return rt_txns_fail(m, ROTA_UNSUPPORTED,
                            "no URL is known here for resource %.60s: add '%.60s = URL' to "
                            "~/.config/rota/txn",
                            name, name);
    asked = rt_alloc(sizeof(*asked));
    if (asked == NULL)
        return rt_txns_fail(m, ROTA_NOMEM, "out of memory");
    asked->asker = (struct rt_asker){.m = m, .back = call_back};
    rt_caller_waits(&asked->call);
    asked->errand.op = *op;
    if (op->part != NULL)
        asked->errand.part = *op->part;
    if (place != NULL)
        asked->errand.place = *place;
    asked->errand.user = &asked->asker;
    pthread_mutex_lock(&m->mu);
    rv = rt_txns_send(m, r, &asked->errand);
    if (rv == 0) {
        rv = rt_txns_wait(m, &asked->call);
        struct rt_part *part = op->part;
        *op = asked->errand.op;
        op->part = part;
        if (part != NULL)
            *part = asked->errand.part;
    } else {
        pthread_mutex_unlock(&m->mu);
        sem_destroy(&asked->call.sem);
        rt_txns_fail(m, rv, "%s", rota_strerror(rv));
    }
    rt_free(asked);
    return rv;
}

uint32_t rt_txns_number(const struct rota_txns *m)
{
    return m->number;
}

struct rt_resources *rt_txns_resources(struct rota_txns *m)
{
    return m->resources;
}

/* ---- Life -------------------------------------------------------------------------------- */

static int identify(struct rota_txns *m)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_IDENTIFY};

    int rv = rt_txns_ask(m, &op);
    if (rv != 0)
        return rt_txns_fail(NULL, rv, "%s", rota_txn_errmsg(m));
    m->number = op.identify.number;
    m->floor_ms = op.identify.floor_ms;
    if ((m->opts.flags & ROTA_TXN_STRICT) != 0 && m->journal->base.unsafe[0] != '\0')
        return rt_txns_fail(NULL, ROTA_UNSAFE, "strict: %s", m->journal->base.unsafe);
    return 0;
}

static int open_resources(struct rota_txns *m, char *line)
{
    struct rt_resources_hooks hooks = {.arg = m, .back = on_back, .down = on_down, .warn = on_warn};

    snprintf(line, RT_TXN_LINE, "out of memory");
    int rv = rt_resources_open(&m->resources, &hooks);
    if (rv == 0)
        rv = rt_resources_load(m->resources, m->opts.resources, line, RT_TXN_LINE);
    return rv;
}

static void stop_keeper(struct rota_txns *m)
{
    if (!m->running)
        return;
    pthread_mutex_lock(&m->mu);
    m->stop = true;
    rt_txns_wake(m);
    pthread_mutex_unlock(&m->mu);
    pthread_join(m->keeper, NULL);
    m->running = false;
}

/* Errands answered after the keeper had ended: nobody looks at them. */
static void drop_all(struct rota_txns *m)
{
    m->back = NULL;
    m->due = NULL;
    while (m->txns != NULL) {
        struct rota_txn *t = m->txns;
        t->due = false;
        t->op_seq = t->fresh = 0;
        t->call = NULL;
        for (uint32_t i = 0; i < t->core.count; i++) {
            struct rota_branch *b = t->branches[i];
            b->errand_seq = b->ask_seq = 0;
        }
        rt_entry_free(t);
    }
    rt_entry_fini(m);
}

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
}

/* The keeper no longer runs. */
static void fini(struct rota_txns *m)
{
    rt_tcc_close(m);
    rt_resources_close(m->resources);
    if (m->journal != NULL) {
        rt_txns_fork_remove(m);
        rt_journal_close(m->journal);
    }
    rt_finish_fini(m);
    rt_recovery_fini(m); /* the journal had their ops until now */
    rt_sweeper_fini(m);
    for (struct rota_txn *t = m->txns; t != NULL; t = t->next)
        rt_drive_drop(t);
    rt_lent_stop(m);
    for (int i = 0; i < CLOSING_TURNS; i++) {
        rt_loop_arm(&m->loop);
        rt_loop_turn(&m->loop, no_other, NULL);
    }
    drop_all(m);
    while (m->notices != NULL) {
        struct rt_notice *n = m->notices;
        m->notices = n->next;
        rt_free(n);
    }
    rt_known_fini(m);
    rt_seat_fini(m);
    rt_loop_fini(&m->loop);
    pthread_cond_destroy(&m->tried);
    pthread_mutex_destroy(&m->front);
    pthread_mutex_destroy(&m->mu);
}

static int start(struct rota_txns *m, const char *url)
{
    char line[RT_TXN_LINE] = "no descriptors left: raise ulimit -n";
    struct rt_fd_low low;

    int rv = rt_fd_keep(&low);
    if (rv != 0)
        return rt_txns_fail(NULL, rv, "%s", line);
    rv = rt_loop_init(&m->loop);
    if (rv == 0) {
        pthread_mutex_init(&m->mu, NULL);
        pthread_mutex_init(&m->front, NULL);
        m->handed_tail = &m->handed;
        pthread_cond_init(&m->tried, NULL);
        m->due_tail = &m->due;
        m->lent_fd = -1;
        m->up = (struct rt_journal_up){.done = on_done, .log = on_log};
        rv = rt_lent_start(m);
        if (rv == 0)
            rv = open_resources(m, line);
        if (rv == 0)
            rv = rt_journal_open(&m->journal, &m->loop, &m->up, url, m->opts.call_ms, line,
                                 sizeof(line));
        if (rv == 0)
            rt_txns_fork_add(m);
        if (rv == 0)
            rv = rt_txns_start(m);
        if (rv != 0)
            rt_txns_fail(NULL, rv, "%s", line);
        if (rv == 0)
            rv = identify(m);
        if (rv == 0 && (m->opts.flags & ROTA_TXN_RECOVER) != 0)
            rv = rt_recovery_start(m);
        if (rv != 0) {
            stop_keeper(m);
            fini(m);
        }
    } else {
        rt_txns_fail(NULL, rv, "%s", line);
    }
    rt_fd_leave(&low);
    return rv;
}

int rota_txns_open_sized(struct rota_txns **out, const char *url,
                         const struct rota_txns_options *opts, size_t size)
{
    static _Atomic uint64_t serials;
    struct rota_txns_options o = {0};
    char line[RT_TXN_LINE] = "out of memory", *found = NULL;

    if (out == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "rota_txns_open needs a place for the manager");
    int rv = take_options(&o, opts, size);
    if (rv != 0)
        return rv;
    rv = find_url(url, &found, line);
    if (rv != 0)
        return rt_txns_fail(NULL, rv, "%s", line);
    struct rota_txns *m = rt_alloc(sizeof(*m));
    if (m != NULL) {
        m->serial = atomic_fetch_add(&serials, 1) + 1;
        m->opts = o;
        rv = start(m, found);
    } else {
        rv = rt_txns_fail(NULL, ROTA_NOMEM, "out of memory");
    }
    rt_free_wiped(found, strlen(found) + 1);
    if (rv == 0)
        *out = m;
    else
        rt_free(m);
    return rv;
}

int rota_txns_resource(struct rota_txns *m, const char *name, const char *url)
{
    char line[RT_TXN_LINE] = "a resource needs a name and a URL";

    if (m == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "rota_txns_resource needs a manager");
    if (rt_txns_forked(m))
        return rt_txns_fail(m, ROTA_FORKED,
                            "this manager belongs to the parent process: open another");
    int rv = name == NULL || url == NULL
                 ? ROTA_INVALID
                 : rt_resources_add(m->resources, name, url, line, sizeof(line));
    if (rv != 0)
        return rt_txns_fail(m, rv, "%s", line);
    rt_txns_moved(m, name);
    return 0;
}

/* Held transactions are aborted; decided ones have call_ms to finish. */
static void wind_up(struct rota_txns *m)
{
    struct rt_caller call;

    rt_caller_waits(&call);
    pthread_mutex_lock(&m->mu);
    pthread_mutex_lock(&m->front);
    m->closing = true;
    pthread_mutex_unlock(&m->front);
    rt_calls_take(m);
    for (struct rota_txn *t = m->txns; t != NULL; t = t->next)
        rt_drive_abandon(t);
    m->closer = &call;
    m->close_by = rt_loop_clock() + m->opts.call_ms * RT_MS;
    rt_txns_wake(m);
    (void)rt_txns_wait(m, &call);
}

void rota_txns_close(struct rota_txns *m)
{
    if (m == NULL || rt_txns_forked(m))
        return; /* what the parent has stays the parent's */
    assert(!rt_txns_inside(m));
    wind_up(m);
    stop_keeper(m);
    fini(m);
    rt_free(m);
}
