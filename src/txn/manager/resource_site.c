/* SPDX-License-Identifier: Apache-2.0 */
/* Resources that are services over HTTP: names and settings only, for their calls are made elsewhere (txn/http). */
#include "txn/manager/resource_inside.h"

#include "base/alloc.h"
#include "txn/http/site.h"

#include <rota.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct rt_service_name {
    struct rt_service_name *next;
    struct rt_http_site *site;
    unsigned load; /* which file named it; 0: none */
    char name[];
};

static struct rt_service_name *find(const struct rt_resources *t, const char *name)
{
    struct rt_service_name *s = t->services;

    while (s != NULL && strcmp(s->name, name) != 0)
        s = s->next;
    return s;
}

static struct rt_service_name *append(struct rt_resources *t, const char *name)
{
    size_t size = strlen(name) + 1;
    struct rt_service_name *s = rt_alloc(sizeof(*s) + size);

    if (s == NULL)
        return NULL;
    memcpy(s->name, name, size);
    s->next = t->services;
    t->services = s;
    return s;
}

/* Under the mutex. *SITE is taken; or it is still the caller's, and unchanged. */
static int put(struct rt_resources *t, const char *name, struct rt_http_site **site, unsigned load,
               char *errmsg, size_t size)
{
    struct rt_service_name *s = find(t, name);
    const struct rt_resource *r = rt_resources_find(t, name);

    if (load != 0 && ((s != NULL && s->load == load) || (r != NULL && r->load == load))) {
        snprintf(errmsg, size, "'%.60s' is named twice: keep one", name);
        return ROTA_INVALID;
    }
    if (r != NULL && load == 0) {
        snprintf(errmsg, size, "'%.60s' is a database already: take another name", name);
        return ROTA_INVALID;
    }
    if (r != NULL || (s != NULL && load != 0)) /* the first stays */
        return 0;
    if (s == NULL && (s = append(t, name)) == NULL) {
        snprintf(errmsg, size, "out of memory");
        return ROTA_NOMEM;
    }
    rt_http_site_let_go(s->site);
    s->site = *site;
    s->load = load;
    *site = NULL;
    return 0;
}

int rt_resources_put_site(struct rt_resources *t, const char *name, const char *url, unsigned load,
                          char *errmsg, size_t size)
{
    struct rt_http_site *site;
    int rv = rt_http_site_new(&site, url, errmsg, size);

    if (rv != 0)
        return rv;
    pthread_mutex_lock(&t->mu);
    rv = put(t, name, &site, load, errmsg, size);
    pthread_mutex_unlock(&t->mu);
    rt_http_site_let_go(site);
    return rv;
}

bool rt_resources_has_site(const struct rt_resources *t, const char *name, unsigned *load)
{
    const struct rt_service_name *s = find(t, name);

    if (s != NULL)
        *load = s->load;
    return s != NULL;
}

struct rt_http_site *rt_resources_site(struct rt_resources *t, const char *name)
{
    pthread_mutex_lock(&t->mu);
    const struct rt_service_name *s = find(t, name);
    struct rt_http_site *site = s != NULL ? rt_http_site_hold(s->site) : NULL;
    pthread_mutex_unlock(&t->mu);
    return site;
}

bool rt_resources_knows(struct rt_resources *t, const char *name)
{
    if (rt_resources_find(t, name) != NULL)
        return true;
    struct rt_http_site *site = rt_resources_site(t, name);
    rt_http_site_let_go(site);
    return site != NULL;
}

/* ---- Another list of them ---------------------------------------------------- */

void rt_renewal_check_sites(struct rt_renewal *n)
{
    for (const struct rt_service_name *s = n->fresh->services; s != NULL && n->err == 0;
         s = s->next)
        if (rt_resources_find(n->t, s->name) != NULL) {
            snprintf(n->errmsg, n->size,
                     "'%.60s' was a database, and is a service now: restart, or take another name",
                     s->name);
            n->err = ROTA_INVALID;
        }
}

static void take_one(struct rt_renewal *n, struct rt_service_name *from)
{
    struct rt_service_name *s = find(n->t, from->name);
    bool is_new = s == NULL;

    if (!is_new && (s->load == 0 || strcmp(s->site->redacted, from->site->redacted) == 0))
        return;
    if (is_new && (s = append(n->t, from->name)) == NULL) {
        snprintf(n->errmsg, n->size, "out of memory");
        n->err = ROTA_NOMEM;
        return;
    }
    if (!is_new)
        rt_http_site_let_go(s->site);
    s->site = from->site;
    s->load = from->load;
    from->site = NULL;
    n->each(n->arg, s->name, is_new ? RT_RESOURCE_NEW : RT_RESOURCE_CHANGED);
}

void rt_renewal_take_sites(struct rt_renewal *n)
{
    for (const struct rt_service_name *s = n->t->services; s != NULL; s = s->next)
        if (s->load != 0 && find(n->fresh, s->name) == NULL)
            n->each(n->arg, s->name, RT_RESOURCE_GONE);
    for (struct rt_service_name *s = n->fresh->services; s != NULL && n->err == 0; s = s->next)
        take_one(n, s);
}

void rt_resources_free_sites(struct rt_resources *t)
{
    while (t->services != NULL) {
        struct rt_service_name *s = t->services;
        t->services = s->next;
        rt_http_site_let_go(s->site);
        rt_free(s);
    }
}
