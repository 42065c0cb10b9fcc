/* SPDX-License-Identifier: Apache-2.0 */
/* The three etcd of the fault programme, and what may be left in them when everybody has gone: nothing. */
#ifndef RT_CLUSTER_H
#define RT_CLUSTER_H

#include "lib/etcd_server.h"
#include "lib/proxy.h"
#include "stage.h"

#define CLUSTER_NODES 3
#define CLUSTER_ELECTION_MS 500 /* so leases last at least 1 s */
#define CLUSTER_LIMIT_MS 60000  /* for what must happen, on a slow machine too */

struct cluster {
    struct rt_etcds etcds;
    char *url;
};

/* The one of this test program, for all its cases: cmocka's setup and teardown of the group. */
extern struct cluster cluster;
int cluster_setup(void **state);
int cluster_teardown(void **state);

/* A way to the cluster with a proxy before each member. After all stages were made: proxies have threads. */
struct cluster_way {
    struct rt_proxy *proxy[CLUSTER_NODES];
    char *url;
};
void cluster_way(struct cluster_way *way, uint64_t seed);
void cluster_way_fini(struct cluster_way *way);

/* Ends the test unless there is one; BUT is not asked, as it is stopped (-1: all are asked). */
size_t cluster_leader(int but);

/* Finishes and frees the stage: no findings, no key, no lease and no watcher left once their time is over,
 * and, unless MAY_LOSE, all that was held is held still and who waited waits still. */
void cluster_finish(struct stage *st, bool may_lose);

#endif
