/* SPDX-License-Identifier: Apache-2.0 */
/* A real Redis, or a cluster, for all cases of a unit program. */
#ifndef TEST_ONE_REDIS_H
#define TEST_ONE_REDIS_H

#include "lib/redis_server.h"

extern struct rt_redis one_redis;
extern char *one_redis_url;
extern struct rt_redis_cluster *one_redis_cluster;

/* cmocka's setup and teardown of a group. */
int one_redis_start(void **state);
int one_redis_stop(void **state);
int one_redis_cluster_start(void **state); /* and one_redis_url leads there */
int one_redis_cluster_stop(void **state);

#endif
