/* SPDX-License-Identifier: Apache-2.0 */
/* The three ZooKeepers of the fault programme, and what may be left in them when everybody has gone: empty containers. */
#ifndef RT_ENSEMBLE_H
#define RT_ENSEMBLE_H

#include "lib/proxy.h"
#include "lib/zookeeper_server.h"
#include "stage.h"

#define ENSEMBLE_SERVERS 3
#define ENSEMBLE_LIMIT_MS 60000

struct ensemble {
    struct rt_zks zks;
    char *url;
};

/* The one of this test program, for all its cases: cmocka's setup and teardown of the group. */
extern struct ensemble ensemble;
int ensemble_setup(void **state);
int ensemble_teardown(void **state);

/* A way to the ensemble with a proxy before each server. After all stages were made: proxies have threads. */
struct ensemble_way {
    struct rt_proxy *proxy[ENSEMBLE_SERVERS];
    char *url;
};
void ensemble_way(struct ensemble_way *way, uint64_t seed);
void ensemble_way_fini(struct ensemble_way *way);

size_t ensemble_leader(void); /* ends the test unless there is one */
/* What all servers together count under NAME in `mntr`. */
long ensemble_count(const char *name);

/* Finishes and frees the stage: no findings, no ephemeral node and no watch left once their time is over, and, unless MAY_LOSE, all
 * that was held is held still and who waited waits still. */
void ensemble_finish(struct stage *st, bool may_lose);

#endif
