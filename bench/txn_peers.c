/* SPDX-License-Identifier: Apache-2.0 */
/* The same transfers in Seata's XA mode and in DTM's, on the same databases. */
#include "txn.h"

#include "peer.h"

#include <stdio.h>

#define ROUNDS 3
#define ROUND_S 3.0

static void bench_peer(const struct bench *b, const char *program, const char *name,
                       const struct txn_pair *pair)
{
    static struct txn_crowd c; /* it is large */
    struct beside s = {.n = 0};
    struct peer p = {0};
    char endpoint[BENCH_URL], ours[128], theirs[128], ratio[128], ask[64];
    double seconds = ROUND_S * b->scale;
    txn_endpoint(b, endpoint, sizeof endpoint);
    if (!peer_start(&p, program, endpoint)) {
        bench_skipped(b, name);
        return;
    }
    snprintf(ask, sizeof ask, "xa %s %s %d", pair->mysql[0] ? "mysql" : "postgres",
             pair->mysql[1] ? "mysql" : "postgres", TXN_CLIENTS);
    txn_crowd_open(&c, pair);
    (void)txn_crowd(&c, &txn_rota, TXN_CLIENTS, 0.3 * seconds);
    (void)peer_ask(&p, "%s %g", ask, seconds); /* warms up */
    for (int i = 0; i < ROUNDS; i++) {
        double they = peer_ask(&p, "%s %g", ask, seconds);
        beside_add(&s, txn_crowd(&c, &txn_rota, TXN_CLIENTS, seconds), they);
    }
    txn_crowd_close(&c);
    peer_stop(&p);
    snprintf(ours, sizeof ours, "%s, 16: Rota", pair->name);
    snprintf(theirs, sizeof theirs, "%s, 16: %s", pair->name, name);
    snprintf(ratio, sizeof ratio, "%s, 16: Rota / %s", pair->name, name);
    beside_say(b, &s, &(struct beside_text){ours, theirs, ratio, "/s", 4, true});
}

void bench_txn_peers(const struct bench *b)
{
    txn_start();
    txn_rota_open(b);
    for (size_t i = 0; i < 2; i++) { /* one database each; both at once show nothing more */
        bench_peer(b, "seata-peer", "Seata's XA", &txn_pairs[i]);
        bench_peer(b, "dtm-peer", "DTM's XA", &txn_pairs[i]);
    }
}
