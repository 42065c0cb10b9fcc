/* SPDX-License-Identifier: Apache-2.0 */
/* The three etcd of the fault programme, and what may be left in them when everybody has gone: nothing. */
#ifndef RT_CLUSTER_H
#define RT_CLUSTER_H

#include "lib/etcd_server.h"
#include "stage.h"

#define CLUSTER_NODES 3
#define CLUSTER_ELECTION_MS 500 /* so leases last at least 1 s */
#define CLUSTER_LIMIT_MS 60000  /* for what must happen, on a slow machine too */

struct cluster {
    struct rt_etcds etcds;
    char *url;
};

void cluster_start(struct cluster *c);
void cluster_fini(struct cluster *c);

/* Ends the test unless there is one; BUT is not asked, as it is stopped (-1: all are asked). */
size_t cluster_leader(struct cluster *c, int but);

/* Whether its version may revoke living leases when a leader comes back that was paused for longer than
 * their ttl (etcd #15247, before 3.4.31 and 3.5.13). */
bool cluster_revokes_early(struct cluster *c);

/* A stage_left_fn over struct cluster: keys, leases and watchers, once their time is over. */
size_t cluster_left(void *cluster, char *text, size_t size);

#endif
