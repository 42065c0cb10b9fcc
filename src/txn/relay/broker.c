/* SPDX-License-Identifier: Apache-2.0 */
#include "txn/relay/broker.h"

#include <string.h>
#include <time.h>

int64_t rt_relay_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static const struct rt_broker_kind *const kinds[] = {
#ifdef RT_HAVE_RABBITMQ
    &rt_broker_rabbitmq,
#endif
#ifdef RT_HAVE_NATS
    &rt_broker_nats,
#endif
#ifdef RT_HAVE_REDIS
    &rt_broker_redis,
#endif
    NULL,
};

const struct rt_broker_kind *rt_broker_find(const char *scheme)
{
    for (size_t i = 0; kinds[i] != NULL; i++)
        for (const char *const *s = kinds[i]->schemes; *s != NULL; s++)
            if (strcmp(*s, scheme) == 0)
                return kinds[i];
    return NULL;
}
