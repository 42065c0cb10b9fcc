/* SPDX-License-Identifier: Apache-2.0 */
/* Resources that this manager has used: the journal is told of each once, so that recovery elsewhere knows what it
 * lacks. */
#include "txn/manager/inside.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct rt_known {
    struct rt_asker asker; /* first */
    struct rt_known *next;
    struct rt_journal_op op;
    atomic_bool told; /* or being told */
    bool under_way;   /* the journal has it */
    char url[RT_JOURNAL_URL_MAX];
    char name[RT_JOURNAL_NAME_MAX + 1];
};

static void told(struct rt_asker *a, struct rt_journal_op *op)
{
    struct rt_known *k = (struct rt_known *)(void *)a;

    k->under_way = false;
    k->told = op->err == 0; /* else at its next use */
}

static void tell(struct rota_txns *m, struct rt_known *k, struct rt_resource *r,
                 enum rt_branch_mode mode)
{
    assert(!k->under_way);
    if (r != NULL)
        rt_resource_url(r, k->url, sizeof(k->url));
    else /* others know its URL, or nobody does yet */
        snprintf(k->url, sizeof(k->url), "%s",
                 mode == RT_XA_MYSQL || mode == RT_THREE_MYSQL ? "mysql:" : "postgres:");
    k->op = (struct rt_journal_op){.kind = RT_JOURNAL_RESOURCE, .user = &k->asker};
    k->op.resource.name = k->name;
    k->op.resource.url = k->url;
    k->told = k->under_way = true;
    k->op.next = m->asks;
    m->asks = &k->op;
    rt_txns_wake(m);
}

bool rt_known_is(const struct rt_known *k, const char *name)
{
    return k != NULL && atomic_load(&k->told) && strcmp(k->name, name) == 0;
}

const struct rt_known *rt_known_use(struct rota_txns *m, const char *name, struct rt_resource *r,
                                    enum rt_branch_mode mode)
{
    struct rt_known *k = m->known;

    while (k != NULL && strcmp(k->name, name) != 0)
        k = k->next;
    if (k == NULL) {
        k = rt_alloc(sizeof(*k));
        if (k == NULL)
            return NULL; /* with its next use */
        k->asker = (struct rt_asker){.m = m, .told = told};
        snprintf(k->name, sizeof(k->name), "%s", name);
        k->next = m->known;
        m->known = k;
    }
    if (!k->told)
        tell(m, k, r, mode);
    return k;
}

void rt_known_changed(struct rota_txns *m, const char *name)
{
    for (struct rt_known *k = m->known; k != NULL; k = k->next)
        if (strcmp(k->name, name) == 0 && !k->under_way)
            k->told = false;
}

void rt_known_fini(struct rota_txns *m)
{
    while (m->known != NULL) {
        struct rt_known *k = m->known;
        m->known = k->next;
        rt_free(k);
    }
}
