/* SPDX-License-Identifier: Apache-2.0 */
/* Redis for the suite: a topic is a stream. */
#include "lib/redis_server.h"
#include "post.h"

#include <stdio.h>
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

const struct post POST = {
    .kind = &rt_broker_redis,
    .has_passwords = true,
    .start = start,
    .run = run,
    .fini = fini,
    .url = url,
    .route = route,
    .source = source,
};
