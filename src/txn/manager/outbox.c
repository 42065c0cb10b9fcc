/* SPDX-License-Identifier: Apache-2.0 */
/* Writing an event in a branch: on the application's connection, while the application has it. */
#include "txn/event/local.h"
#include "txn/manager/inside.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define OWN_ADVICE ": ROLLBACK" /* from event/local.c: for the application's own transactions */

/* The last branch of T at RESOURCE that has begun; NULL: there is none. The keeper adds branches. */
static struct rota_branch *find(struct rota_txn *t, const char *resource)
{
    struct rota_branch *found = NULL;

    pthread_mutex_lock(&t->m->front);
    for (uint32_t i = 0; i < t->core.count; i++)
        if (t->branches[i] != NULL && strcmp(t->branches[i]->name, resource) == 0)
            found = t->branches[i];
    pthread_mutex_unlock(&t->m->front);
    return found;
}

static int check(struct rota_txn *t, const char *resource, struct rota_branch **out)
{
    struct rota_branch *b = find(t, resource);

    if (b == NULL)
        return rt_txns_fail(t->m, ROTA_INVALID,
                            "the transaction has no branch at '%.80s': call rota_xa_mysql "
                            "or rota_xa_postgres first",
                            resource);
    if (b->bond == NULL)
        return rt_txns_fail(
            t->m, ROTA_UNSUPPORTED,
            "'%.80s' is a service: it writes its events itself, in its own database", resource);
    if (t->life != RT_LIFE_HELD)
        return rt_txns_fail(t->m, ROTA_INVALID,
                            "the connection at '%.80s' is lent: vote, commit or abort has begun",
                            resource);
    if (b->seat == NULL)
        return rt_txns_fail(t->m, ROTA_INVALID,
                            "the branch at '%.80s' has not begun, or its connection is lost",
                            resource);
    *out = b;
    return 0;
}

int rota_event_put_sized(struct rota_txn *t, const char *resource, const struct rota_event *e,
                         size_t size)
{
    struct rota_branch *b = NULL;
    char line[RT_TXN_LINE];
    bool sent;

    if (t == NULL || resource == NULL)
        return rt_txns_fail(t != NULL ? t->m : NULL, ROTA_INVALID,
                            "rota_event_put needs a transaction, and the name of a resource");
    int err = rt_txns_enter(t->m, "rota_event_put");
    if (err == 0)
        err = check(t, resource, &b);
    if (err != 0)
        return err;
    struct rt_party *party = b->seat->party;
    assert(party->kind == &rt_xa_mysql || b->mode == RT_XA_POSTGRES);
    err = rt_event_put(party->kind == &rt_xa_mysql ? &rt_event_mysql : &rt_event_postgres,
                       party->conn, e, size, &sent);
    if (err == 0)
        return 0;
    if (sent)
        b->bond->part.failed = true; /* it must not be committed without its event */
    snprintf(line, sizeof(line), "%s", rota_txn_errmsg(NULL));
    size_t size_said = strlen(line), advice = strlen(OWN_ADVICE);
    if (size_said >= advice && strcmp(line + size_said - advice, OWN_ADVICE) == 0)
        line[size_said - advice] = '\0';
    return rt_txns_fail(t->m, err, "%.80s: %.300s%s", resource, line,
                        sent ? ": call rota_txn_abort; a commit would say ABORTED" : "");
}
