/* SPDX-License-Identifier: Apache-2.0 */
#include "txn/relay/broker.h"

#include "engine/url.h"

#include <rota.h>
#include <stdio.h>
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

void rt_broker_see_id(char *id, size_t size)
{
    for (char *at; (at = memchr(id, '\0', size)) != NULL;)
        *at = '\1';
}

int rt_broker_read(const char *text, struct rt_url *url, const struct rt_broker_kind **kind,
                   char *errmsg, size_t size)
{
    char line[RT_BROKER_LINE];
    int err = rt_url_parse(url, text, line, sizeof(line));

    if (err != 0) {
        snprintf(errmsg, size, "the broker: %s", line);
        return err;
    }
    *kind = rt_broker_find(url->scheme);
    if (*kind == NULL) {
        snprintf(errmsg, size,
                 "the scheme %s is not a broker's: use amqp, amqps, nats, natss, redis or rediss",
                 url->scheme);
        err = ROTA_UNSUPPORTED;
    } else {
        err = rt_url_check_params(url, (*kind)->params, errmsg, size);
    }
    if (err != 0)
        rt_url_fini(url);
    return err;
}
