/* SPDX-License-Identifier: Apache-2.0 */
/* The table of resources: names, URLs, errands taken, the end of all workers. */
#include "txn/manager/resource_inside.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "engines.h"
#include "net/fd.h"
#include "net/loop.h"
#include "txn/http/site.h"
#include "txn/journal/journal.h"

#include <rota.h>

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEADLINE (5000 * RT_RESOURCE_MS) /* for an errand without one */
#define BLIND_PATIENCE_MS 500            /* how long the end waits for a call that cannot be cut */

/* ---- Places ------------------------------------------------------------------- */

void rt_place_of(const struct rt_party *party, struct rt_place *out)
{
    *out = (struct rt_place){.identity = party->identity};
    memcpy(out->marks, party->marks, sizeof(out->marks));
}

size_t rt_place_write(const struct rt_place *place, uint8_t out[RT_PLACE_BYTES])
{
    size_t size = strnlen(place->marks, RT_PARTY_MARKS_MAX - 1);

    if (place->identity == 0 && size == 0)
        return 0;
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(place->identity >> (56 - 8 * i));
    memcpy(out + 8, place->marks, size);
    return 8 + size;
}

bool rt_place_read(const void *bytes, size_t size, struct rt_place *out)
{
    const uint8_t *at = bytes;

    *out = (struct rt_place){0};
    if (size == 0)
        return true;
    if (size < 8 || size - 8 >= RT_PARTY_MARKS_MAX || memchr(at + 8, 0, size - 8) != NULL)
        return false;
    for (int i = 0; i < 8; i++)
        out->identity = out->identity << 8 | at[i];
    memcpy(out->marks, at + 8, size - 8);
    return true;
}

/* ---- URLs ----------------------------------------------------------------------- */

static const struct rt_reach *const reaches[] = {
#if defined(ROTA_ENGINE_MYSQL) && ROTA_ENGINE_MYSQL
    &rt_reach_mysql,
#endif
#if defined(ROTA_ENGINE_POSTGRES) && ROTA_ENGINE_POSTGRES
    &rt_reach_postgres,
#endif
    NULL,
};

const struct rt_reach *rt_reach_of(const char *scheme)
{
    for (const struct rt_reach *const *d = reaches; *d != NULL; d++)
        for (const char *const *s = (*d)->schemes; *s != NULL; s++)
            if (strcmp(*s, scheme) == 0)
                return *d;
    return NULL;
}

void rt_spot_let_go(struct rt_spot *spot)
{
    if (spot == NULL || --spot->refs > 0)
        return;
    rt_url_fini(&spot->url);
    rt_free(spot);
}

static int spot_new(struct rt_spot **out, const char *text, char *errmsg, size_t size)
{
    struct rt_spot *spot = rt_alloc(sizeof(*spot));

    if (spot == NULL) {
        snprintf(errmsg, size, "out of memory");
        return ROTA_NOMEM;
    }
    spot->refs = 1;
    int rv = rt_url_parse(&spot->url, text, errmsg, size);
    if (rv != 0) {
        rt_free(spot);
        return rv;
    }
    spot->reach = rt_reach_of(spot->url.scheme);
    if (spot->reach == NULL) {
        snprintf(
            errmsg, size,
            "'%.40s' is not a database that can take part: use mysql://... or postgres://..., for a service "
            "https://...",
            spot->url.scheme);
        rv = ROTA_UNSUPPORTED;
    }
    if (rv == 0)
        rv = rt_url_check_params(&spot->url, spot->reach->params, errmsg, size);
    if (rv == 0)
        *out = spot;
    else
        rt_spot_let_go(spot);
    return rv;
}

/* ---- Names ------------------------------------------------------------------------ */

const char *rt_resource_name_fault(const char *name)
{
    size_t size = strlen(name);

    if (size == 0 || size > RT_JOURNAL_NAME_MAX)
        return "the name of a resource must have 1 to 255 bytes";
    if (!rt_utf8_is(name)) /* the journal would not have it */
        return "the name of a resource is not UTF-8";
    if (strncmp(name, RT_JOURNAL_OWN, sizeof(RT_JOURNAL_OWN) - 1) == 0 ||
        strcmp(name, RT_RESOURCE_HOOK) == 0)
        return "the name of a resource must not be " RT_RESOURCE_HOOK
               ", nor begin with " RT_JOURNAL_OWN;
    bool ok = !isspace((unsigned char)name[0]) && !isspace((unsigned char)name[size - 1]) &&
              name[0] != '#';
    for (; *name != '\0'; name++)
        ok = ok && !iscntrl((unsigned char)*name) && *name != '=';
    return ok ? NULL
              : "the name of a resource must have no '=', no '#' or blank before it, no blank after it and "
                "no control characters: a line NAME = URL could not say it";
}

void rt_resource_free(struct rt_resource *r)
{
    if (r == NULL)
        return;
    rt_spot_let_go(r->spot);
    if (r->wake >= 0)
        close(r->wake);
    pthread_cond_destroy(&r->seen);
    pthread_mutex_destroy(&r->mu);
    rt_free(r->name);
    rt_free(r);
}

static struct rt_resource *resource_new(struct rt_resources *t, const char *name)
{
    struct rt_resource *r = rt_alloc(sizeof(*r));
    pthread_condattr_t attr;

    if (r == NULL)
        return NULL;
    pthread_mutex_init(&r->mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->seen, &attr);
    pthread_condattr_destroy(&attr);
    r->table = t;
    r->wake = -1;
    r->up = true;
    r->nearest = INT64_MAX;
    for (int i = 0; i < RT_QUEUES; i++)
        r->queues[i].last = &r->queues[i].first;
    r->name = rt_strdup(name);
    if (r->name == NULL) {
        rt_resource_free(r);
        return NULL;
    }
    return r;
}

static void append(struct rt_resources *t, struct rt_resource *r)
{
    r->index = t->count++;
    atomic_store_explicit(t->last, r, memory_order_release);
    t->last = &r->next;
}

static void ring(struct rt_resource *r)
{
    uint64_t one = 1;
    ssize_t n = r->wake >= 0 ? write(r->wake, &one, sizeof(one)) : 0;

    (void)n; /* a full counter rings, too */
}

/* Another URL: whatever was wrong with the last one no longer counts. */
static void replace(struct rt_resource *r, struct rt_spot *spot)
{
    pthread_mutex_lock(&r->mu);
    rt_spot_let_go(r->spot);
    r->spot = spot;
    r->version++;
    ring(r);
    pthread_mutex_unlock(&r->mu);
}

int rt_resources_put(struct rt_resources *t, const char *name, const char *url, unsigned load,
                     bool *has_password, char *errmsg, size_t size)
{
    struct rt_spot *spot;

    const char *fault = rt_resource_name_fault(name);
    if (fault == NULL && !rt_utf8_is(url)) /* the journal would not have it, or another one */
        fault = "the URL of a resource is not UTF-8: write other bytes as %XX";
    if (fault != NULL) {
        snprintf(errmsg, size, "%s", fault);
        return ROTA_INVALID;
    }
    if (rt_http_site_is(url))
        return rt_resources_put_site(t, name, url, load, errmsg, size);
    int rv = spot_new(&spot, url, errmsg, size);
    if (rv != 0)
        return rv;
    if (has_password != NULL)
        *has_password = *has_password || spot->url.password[0] != '\0';
    pthread_mutex_lock(&t->mu);
    struct rt_resource *r = rt_resources_find(t, name);
    unsigned site_load = 0;
    bool is_site = rt_resources_has_site(t, name, &site_load);
    if ((r != NULL && load != 0 && r->load == load) ||
        (is_site && load != 0 && site_load == load)) {
        snprintf(errmsg, size, "'%.60s' is named twice: keep one", name);
        rv = ROTA_INVALID;
    } else if (is_site && load == 0) {
        snprintf(errmsg, size, "'%.60s' is a service already: take another name", name);
        rv = ROTA_INVALID;
    } else if (is_site) { /* the first stays */
    } else if (r != NULL && load == 0) {
        replace(r, spot);
        spot = NULL;
    } else if (r == NULL && (r = resource_new(t, name)) != NULL) {
        r->spot = spot;
        r->load = load;
        append(t, r);
        spot = NULL;
    } else if (r == NULL) {
        snprintf(errmsg, size, "out of memory");
        rv = ROTA_NOMEM;
    }
    pthread_mutex_unlock(&t->mu);
    rt_spot_let_go(spot);
    return rv;
}

int rt_resources_add(struct rt_resources *t, const char *name, const char *url, char *errmsg,
                     size_t size)
{
    assert(name != NULL && url != NULL);
    return rt_resources_put(t, name, url, 0, NULL, errmsg, size);
}

struct rt_resource *rt_resources_find(struct rt_resources *t, const char *name)
{
    struct rt_resource *r = atomic_load_explicit(&t->first, memory_order_acquire);

    while (r != NULL && strcmp(r->name, name) != 0)
        r = atomic_load_explicit(&r->next, memory_order_acquire);
    return r;
}

void rt_resources_each(struct rt_resources *t, void (*each)(void *arg, struct rt_resource *r),
                       void *arg)
{
    struct rt_resource *r = atomic_load_explicit(&t->first, memory_order_acquire);

    for (; r != NULL; r = atomic_load_explicit(&r->next, memory_order_acquire))
        each(arg, r);
}

/* ---- Another list of them ------------------------------------------------------------- */

void rt_renewal_check(struct rt_renewal *n)
{
    unsigned load;

    for (const struct rt_resource *r = n->fresh->first; r != NULL && n->err == 0; r = r->next)
        if (rt_resources_has_site(n->t, r->name, &load)) {
            snprintf(n->errmsg, n->size,
                     "'%.60s' was a service, and is a database now: restart, or take another name",
                     r->name);
            n->err = ROTA_INVALID;
        }
}

/* Whether FRESH says anything else. With the mutex of both. */
static bool is_other(const struct rt_spot *old, const struct rt_spot *fresh)
{
    return strcmp(old->url.redacted, fresh->url.redacted) != 0 ||
           strcmp(old->url.password, fresh->url.password) != 0;
}

static void take_one(struct rt_renewal *n, struct rt_resource *from)
{
    struct rt_resource *r = rt_resources_find(n->t, from->name);
    bool is_new = r == NULL;

    if (!is_new && (r->load == 0 || !is_other(r->spot, from->spot)))
        return;
    if (is_new && (r = resource_new(n->t, from->name)) == NULL) {
        snprintf(n->errmsg, n->size, "out of memory");
        n->err = ROTA_NOMEM;
        return;
    }
    if (is_new) {
        r->spot = from->spot;
        r->load = from->load;
        append(n->t, r);
    } else {
        replace(r, from->spot);
    }
    from->spot = NULL;
    n->each(n->arg, r->name, is_new ? RT_RESOURCE_NEW : RT_RESOURCE_CHANGED);
}

void rt_renewal_take(struct rt_renewal *n)
{
    for (const struct rt_resource *r = n->t->first; r != NULL; r = r->next)
        if (r->load != 0 && rt_resources_find(n->fresh, r->name) == NULL)
            n->each(n->arg, r->name, RT_RESOURCE_GONE);
    for (struct rt_resource *r = n->fresh->first; r != NULL && n->err == 0; r = r->next)
        take_one(n, r);
}

/* ---- A resource --------------------------------------------------------------------- */

const char *rt_resource_name(const struct rt_resource *r)
{
    return r->name;
}

uint32_t rt_resource_index(const struct rt_resource *r)
{
    return r->index;
}

const struct rt_party_kind *rt_resource_kind(struct rt_resource *r)
{
    pthread_mutex_lock(&r->mu);
    const struct rt_party_kind *kind = r->spot->reach->kind;
    pthread_mutex_unlock(&r->mu);
    return kind;
}

void rt_resource_url(struct rt_resource *r, char *out, size_t size)
{
    pthread_mutex_lock(&r->mu);
    snprintf(out, size, "%s", r->spot->url.redacted);
    pthread_mutex_unlock(&r->mu);
}

bool rt_resource_is_up(struct rt_resource *r)
{
    return r->up;
}

void *rt_resource_user(const struct rt_resource *r)
{
    return r->user;
}

void rt_resource_set_user(struct rt_resource *r, void *user)
{
    r->user = user;
}

/* ---- Errands -------------------------------------------------------------------------- */

static bool is_of_no_branch(enum rt_party_what what)
{
    return what == RT_PARTY_LIST || what == RT_PARTY_FORGET || what == RT_PARTY_LOOK;
}

static int queue_of(enum rt_party_what what)
{
    return what == RT_PARTY_GATE ? RT_GATES : is_of_no_branch(what) ? RT_LAST : RT_FIRST;
}

static int start_worker(struct rt_resource *r)
{
    sigset_t all, old;

    if (r->has_thread && !r->left)
        return 0;
    if (r->has_thread)
        pthread_join(r->thread, NULL); /* it said so in its last step */
    r->has_thread = r->left = false;
    if (r->wake < 0)
        r->wake = rt_fd_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (r->wake < 0)
        return ROTA_NOMEM;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the program's signals are not for our thread */
    r->has_thread = pthread_create(&r->thread, NULL, rt_worker_main, r) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r->has_thread)
        pthread_setname_np(r->thread, "rota-resource");
    return r->has_thread ? 0 : ROTA_NOMEM;
}

int rt_resource_ask(struct rt_resource *r, struct rt_errand *e)
{
    struct rt_queue *q = &r->queues[queue_of(e->op.what)];
    int64_t now = rt_loop_clock();

    assert(e->done != NULL);
    pthread_mutex_lock(&r->mu);
    int rv = r->closing ? ROTA_CANCELED : start_worker(r);
    if (rv == 0) {
        e->next = NULL;
        e->op.part = is_of_no_branch(e->op.what) ? NULL : &e->part;
        e->op.count = 0;
        e->op.reply = RT_REPLY_LOST;
        e->op.err = 0;
        e->op.deadline = e->op.deadline != 0 ? e->op.deadline : now + DEADLINE;
        e->unsent = true;
        e->seen = (struct rt_place){0};
        e->errmsg[0] = '\0';
        *q->last = e;
        q->last = &e->next;
        r->nearest = e->op.deadline < r->nearest ? e->op.deadline : r->nearest;
        r->asked_at = now;
        ring(r);
    }
    pthread_mutex_unlock(&r->mu);
    return rv;
}

/* ---- The table's life -------------------------------------------------------------------- */

int rt_resources_open(struct rt_resources **out, const struct rt_resources_hooks *hooks)
{
    struct rt_resources *t = rt_alloc(sizeof(*t));

    if (t == NULL)
        return ROTA_NOMEM;
    if (hooks != NULL)
        t->hooks = *hooks;
    pthread_mutex_init(&t->mu, NULL);
    t->last = &t->first;
    *out = t;
    return 0;
}

static void begin_end(void *arg, struct rt_resource *r)
{
    (void)arg;
    pthread_mutex_lock(&r->mu);
    r->closing = true;
    ring(r);
    pthread_mutex_unlock(&r->mu);
}

/* For a worker stuck in a call that does not end. */
static bool abandon(struct rt_resource *r)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += BLIND_PATIENCE_MS * RT_RESOURCE_MS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (r->has_thread && !r->left && r->blind &&
           pthread_cond_timedwait(&r->seen, &r->mu, &until) != ETIMEDOUT) {
    }
    r->abandoned = r->has_thread && !r->left && r->blind;
    return r->abandoned;
}

static struct rt_errand *take_all(struct rt_resource *r)
{
    struct rt_errand *all = NULL, **last = &all;

    for (int i = 0; i < RT_QUEUES; i++) {
        *last = r->queues[i].first;
        if (r->queues[i].first != NULL)
            last = r->queues[i].last;
        r->queues[i].first = NULL;
        r->queues[i].last = &r->queues[i].first;
    }
    return all;
}

static void finish_end(struct rt_resource *r)
{
    pthread_mutex_lock(&r->mu);
    bool abandoned = abandon(r);
    struct rt_errand *all = abandoned ? take_all(r) : NULL;
    pthread_t thread = r->thread;
    bool has_thread = r->has_thread;
    pthread_mutex_unlock(&r->mu); /* from here on an abandoned one may be gone */

    if (abandoned)
        pthread_detach(thread);
    else if (has_thread)
        pthread_join(thread, NULL);
    if (!abandoned) /* the worker has left some if it had just left itself */
        all = take_all(r);
    while (all != NULL) {
        struct rt_errand *e = all;
        all = e->next;
        rt_worker_drop(e, ROTA_CANCELED, "the manager was closed");
    }
    if (!abandoned)
        rt_resource_free(r);
}

void rt_resources_close(struct rt_resources *t)
{
    if (t == NULL)
        return;
    rt_resources_free_sites(t);
    rt_resources_each(t, begin_end, NULL);
    struct rt_resource *r = t->first;
    while (r != NULL) {
        struct rt_resource *next = r->next;
        finish_end(r);
        r = next;
    }
    pthread_mutex_destroy(&t->mu);
    rt_free(t->on_attention);
    rt_free(t);
}
