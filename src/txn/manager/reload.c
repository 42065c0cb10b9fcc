/* SPDX-License-Identifier: Apache-2.0 */
/* The list of resources changes while a manager is at work. */
#include "txn/manager/inside.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

struct changed { /* a name to be asked again, once the table's lock is released */
    struct changed *next;
    char name[RT_JOURNAL_NAME_MAX + 1];
};

struct reload {
    struct changed *first;
    char *line;
    size_t size;
};

static void on_news(void *arg, const char *name, enum rt_resource_news news)
{
    static const char *const words[] = {
        [RT_RESOURCE_NEW] = "is new",
        [RT_RESOURCE_CHANGED] = "has another URL",
        [RT_RESOURCE_GONE] = "is no longer named, and stays until the end",
    };
    struct reload *r = arg;
    size_t n = strlen(r->line);
    struct changed *c = news != RT_RESOURCE_GONE ? rt_alloc(sizeof(*c)) : NULL;

    snprintf(r->line + n, r->size - n, "%s%.60s %s", n > 0 ? ", " : "", name, words[news]);
    if (c == NULL) /* gone; or no memory: it is asked at its next try */
        return;
    snprintf(c->name, sizeof(c->name), "%s", name);
    c->next = r->first;
    r->first = c;
}

/* The resource of T's branch I has another URL; R: it is a database. */
static void ask_again(struct rota_txn *t, uint32_t i, const struct rt_resource *r)
{
    struct rt_branch *core = &t->core.branches[i];

    if (core->service)
        rt_branch_moved(core, core->resource, rt_loop_clock());
    else if (r != NULL)
        rt_branch_moved(core, rt_resource_index(r), rt_loop_clock());
    rt_txns_due(t);
}

void rt_txns_moved(struct rota_txns *m, const char *name)
{
    const struct rt_resource *r = rt_resources_find(m->resources, name);

    pthread_mutex_lock(&m->mu);
    for (struct rota_txn *t = m->txns; t != NULL; t = t->next)
        for (uint32_t i = 0; t->life != RT_LIFE_HELD && i < t->core.count; i++)
            if (strcmp(t->branches[i]->name, name) == 0)
                ask_again(t, i, r);
    rt_known_changed(m, name);
    pthread_mutex_unlock(&m->mu);
}

int rt_txns_reload(struct rota_txns *m, const char *path, char *line, size_t size)
{
    struct reload r = {.line = line, .size = size};
    char why[RT_TXN_LINE];

    line[0] = '\0';
    int rv = rt_resources_reload(m->resources, path, on_news, &r, why, sizeof(why));
    if (rv != 0)
        snprintf(line, size, "%s", why);
    if (r.first != NULL) {
        pthread_mutex_lock(&m->mu);
        rt_recovery_soon(m);
        pthread_mutex_unlock(&m->mu);
    }
    while (r.first != NULL) {
        struct changed *c = r.first;
        r.first = c->next;
        rt_txns_moved(m, c->name);
        rt_free(c);
    }
    return rv;
}
