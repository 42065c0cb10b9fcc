/* SPDX-License-Identifier: Apache-2.0 */
/* A program with librota_txn whose memory the test searches: dumped MARK open|work|closed.
 *
 * The journal is the one that the user's configuration calls "books", the resources are those of the user's file: so no
 * password comes through its arguments or environment. It says "ready" and waits for a signal to end it. */
#include "txn/manager/manager.h"

#include <rota_txn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void each(void *arg, const struct rt_party_seen *seen)
{
    (void)arg;
    (void)seen;
}

/* A keeper's connection to it is there afterwards. */
static int list(struct rota_txns *m, const char *resource)
{
    struct rt_party_op op = {.what = RT_PARTY_LIST, .list = {.journal = rt_txns_number(m)}};

    op.list.each = each;
    return rt_txns_errand(m, resource, &op);
}

int main(int argc, char **argv)
{
    struct rota_txns *m = NULL;

    if (argc != 3)
        return 64;
    char *mark = strdup(argv[1]); /* what a dump must have */
    int err = mark == NULL ? ROTA_NOMEM : rota_txns_open(&m, "books", NULL);
    if (err == 0 && strcmp(argv[2], "open") != 0)
        err = list(m, "shop");
    if (err == 0 && strcmp(argv[2], "open") != 0)
        err = list(m, "ledger");
    if (err != 0) {
        fprintf(stderr, "%d: %s\n", err, rota_txn_errmsg(m));
        return 1;
    }
    if (strcmp(argv[2], "closed") == 0)
        rota_txns_close(m);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
