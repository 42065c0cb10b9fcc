/* SPDX-License-Identifier: Apache-2.0 */
/* rota-txn serve beside DTM: the same client (DTM's own in Go), the same transactions, the same two services that do
 * nothing; journal and store are on the same MariaDB. */
#include "tcc.h"

#include "peer.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 3
#define ROUND_S 2.0

static void compare(const struct bench *b, struct peer *p, const char *kind, int clients)
{
    char ours[128], theirs[128], ratio[128];
    struct beside than = {.n = 0};
    double seconds = ROUND_S * b->scale;
    for (int i = -1; i < ROUNDS; i++) { /* the first one warms up */
        double they = peer_ask(p, "%s %s %s %d %g", kind, tcc_at[0], tcc_at[1], clients, seconds);
        double we = peer_ask(p, "%s-rota %s %s %d %g", kind, tcc_at[0], tcc_at[1], clients,
                             seconds);
        if (i >= 0)
            beside_add(&than, we, they);
    }
    snprintf(ours, sizeof ours, "%s of two, %d: rota-txn serve", kind, clients);
    snprintf(theirs, sizeof theirs, "%s of two, %d: DTM", kind, clients);
    snprintf(ratio, sizeof ratio, "%s of two, %d: rota-txn serve / DTM", kind, clients);
    beside_say(b, &than, &(struct beside_text){ours, theirs, ratio, "/s", 0, true});
}

void bench_txn_serve(const struct bench *b)
{
    static const int clients[] = {1, 16, 64};
    struct peer p = {0};
    char endpoint[BENCH_URL];
    txn_start();
    txn_endpoint(b, endpoint, sizeof endpoint);
    setenv("ROTA_JOURNAL", txn_mysql_url(), 1); /* the peer starts rota-txn serve */
    if (!peer_start(&p, "dtm-peer", endpoint)) {
        bench_skipped(b, "DTM");
        return;
    }
    tcc_start();
    for (size_t i = 0; i < sizeof clients / sizeof clients[0]; i++) {
        compare(b, &p, "saga", clients[i]);
        compare(b, &p, "tcc", clients[i]);
    }
    peer_stop(&p);
    tcc_stop();
    unsetenv("ROTA_JOURNAL");
}
