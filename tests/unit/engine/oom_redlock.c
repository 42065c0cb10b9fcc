/* SPDX-License-Identifier: Apache-2.0 */
/* The five Redis of test_oom.c, for Redlock. Their counters stay. */
#include "lib/redis_server.h"
#include "oom.h"

#include <stdlib.h>

static struct rt_redis_redlock *five;
static char *url;

const char *oom_start(void)
{
    five = rt_redis_redlock_new(NULL, false, 0);
    url = rt_redis_redlock_url(five, "max_ttl=0");
    return url;
}

void oom_stop(void)
{
    free(url);
    rt_redis_redlock_free(five);
}

size_t oom_left(void)
{
    size_t left = 0;
    for (int i = 0; i < RT_REDLOCK_FIVE; i++)
        left += (size_t)rt_redis_integer(
            &five->node[i], "EVAL %s 0",
            "return redis.call('DBSIZE') - redis.call('EXISTS', 'rota:f')");
    return left;
}

/* One allocation failed: one node was not told. */
bool oom_settle(void)
{
    size_t left = oom_left();
    for (int i = 0; i < RT_REDLOCK_FIVE && left == 1; i++)
        rt_redis_must(
            &five->node[i], "EVAL %s 0",
            "for _, key in ipairs(redis.call('KEYS', 'oom*')) do redis.call('DEL', key) end");
    return left <= 1;
}
