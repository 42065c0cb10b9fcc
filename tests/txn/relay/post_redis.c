/* SPDX-License-Identifier: Apache-2.0 */
/* Redis for the suite: a topic is a stream. */
#include "lib/redis_server.h"
#include "post.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rt_redis server;

static struct rt_server *start(void)
{
    static const struct rt_redis_options opts = {.keep = RT_REDIS_ALWAYS, .password = "guest"};

    rt_redis_start(&server, &opts);
    return &server.server;
}

static void run(void)
{
    rt_redis_run(&server);
}

static void fini(void)
{
    rt_redis_fini(&server);
}

static void url(char *out, size_t size, const char *user_at, const char *params)
{
    snprintf(out, size, "redis://%s127.0.0.1:%u%s",
             user_at[0] != '\0' ? "default:s3cret@" : "default:guest@", server.server.port, params);
}

static void route(const char *topic)
{
    (void)topic; /* a stream is made by the first message */
}

static void source(char *out, size_t size, const char *topic)
{
    snprintf(out, size, "%s", topic);
}

static void fill(bool full)
{
    freeReplyObject(rt_redis_do(&server, "CONFIG SET maxmemory %d", full ? 1 : 0));
}

static long long tries(void)
{
    redisReply *reply = rt_redis_do(&server, "INFO commandstats");
    const char *at = strstr(reply->str, "cmdstat_evalsha:calls=");
    long long n = at != NULL ? strtoll(strchr(at, '=') + 1, NULL, 10) : 0;

    freeReplyObject(reply);
    return n;
}

static void publish_zero(const char *topic)
{
    static const char id[] = "a\0b";

    freeReplyObject(rt_redis_do(&server, "XADD %s * id %b body 1", topic, id, sizeof(id) - 1));
}

const struct post POST = {
    .kind = &rt_broker_redis,
    .has_passwords = true,
    .bad_topics = (const char *const[]){"", NULL},
    .start = start,
    .run = run,
    .fini = fini,
    .url = url,
    .route = route,
    .source = source,
    .fill = fill,
    .tries = tries,
    .publish_zero = publish_zero,
};
