/* SPDX-License-Identifier: Apache-2.0 */
/* A real Redis for all cases of a unit program. */
#include "one_redis.h"

#include <stdlib.h>

struct rt_redis one_redis;
char *one_redis_url;
struct rt_redis_cluster *one_redis_cluster;

int one_redis_start(void **state)
{
    (void)state;
    rt_redis_start(&one_redis, NULL);
    one_redis_url = rt_redis_url(&one_redis, 0);
    return 0;
}

int one_redis_stop(void **state)
{
    (void)state;
    free(one_redis_url);
    rt_redis_fini(&one_redis);
    return 0;
}

int one_redis_cluster_start(void **state)
{
    (void)state;
    static const struct rt_redis_options opts = {.patient = true};
    one_redis_cluster = rt_redis_cluster_new(&opts, false, 1);
    one_redis_url = rt_redis_cluster_url(one_redis_cluster);
    return 0;
}

int one_redis_cluster_stop(void **state)
{
    (void)state;
    free(one_redis_url);
    rt_redis_cluster_free(one_redis_cluster);
    return 0;
}
