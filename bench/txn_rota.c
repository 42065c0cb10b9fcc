/* SPDX-License-Identifier: Apache-2.0 */
/* The same transfers by Rota: counted when phase two is over. */
#include "txn.h"

#include <rota_txn.h>
#include <stdio.h>
#include <stdlib.h>

static struct rota_txns *manager;

__attribute__((noreturn)) static void die(int err)
{
    fprintf(stderr, "rota-bench: transaction: error %d: %s\n", err, rota_txn_errmsg(manager));
    exit(1);
}

static void must(int err)
{
    if (err != 0)
        die(err);
}

void txn_rota_open(const struct bench *b)
{
    char url[BENCH_URL];
    snprintf(url, sizeof url, "file:%s/journal", b->folder);
    if (manager == NULL)
        must(rota_txns_open(&manager, url, NULL));
}

void txn_rota_close(void)
{
    if (manager != NULL)
        rota_txns_close(manager);
    manager = NULL;
}

static void go(struct txn_client *c, bool last)
{
    const struct rota_txn_options opts = {.flags = ROTA_TXN_WAIT};
    struct rota_txn *t = NULL;
    struct rota_branch *branch[2] = {NULL, NULL};
    char sql[128];
    must(rota_txn_begin(manager, &opts, &t));
    for (int i = 0; i < 2; i++) {
        struct txn_branch *b = &c->side[i];
        char resource[32];
        snprintf(resource, sizeof resource, "%s-%s", b->my != NULL ? "mysql" : "postgres",
                 b->database);
        must(b->my != NULL ? rota_xa_mysql(t, resource, b->my, &branch[i])
                           : rota_xa_postgres(t, resource, b->pg, &branch[i]));
    }
    for (int i = 0; i < 2; i++) {
        if (!last) {
            txn_pay(c, i);
            continue;
        }
        txn_payment(c, i, sql, sizeof sql);
        must(rota_branch_last(branch[i], sql, NULL));
    }
    must(rota_txn_commit(t));
}

static void transfer(struct txn_client *c)
{
    go(c, false);
}

/* The payment leaves with the vote. */
static void transfer_last(struct txn_client *c)
{
    go(c, true);
}

const struct txn_way txn_rota = {"Rota", transfer};
const struct txn_way txn_rota_last = {"Rota, with last statements", transfer_last};
