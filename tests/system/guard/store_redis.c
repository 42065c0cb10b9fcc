/* SPDX-License-Identifier: Apache-2.0 */
/* The counter in Redis, which also has the lock. */
#include "lib/redis_server.h"
#include "scene.h"

#include <rota_guard.h>

static struct rt_redis node;

static char *start(void)
{
    rt_redis_start(&node, NULL);
    return rt_redis_url(&node, 0);
}

static void reset(void)
{
    rt_redis_must(&node, "DEL count {count}:fence");
}

static void fini(void)
{
    rt_redis_fini(&node);
}

static void *open_db(void)
{
    redisContext *db = redisConnect("127.0.0.1", node.server.port);

    if (db == NULL || db->err != 0)
        abort();
    return db;
}

static void close_db(void *db)
{
    redisFree(db);
}

static int run(redisContext *db, uint64_t fence, int argc, const char **argv, redisReply **reply)
{
    if (fence != 0)
        return rota_guard_redis(db, "{count}:fence", fence, argc, argv, NULL, reply);
    *reply = redisCommandArgv(db, argc, argv, NULL);
    return *reply != NULL && (*reply)->type != REDIS_REPLY_ERROR ? 0 : ROTA_UNREACHABLE;
}

static int look(void *db, uint64_t fence, uint64_t *value)
{
    redisReply *reply = NULL;
    int err = run(db, fence, 2, (const char *[]){"GET", "count"}, &reply);

    if (err != 0)
        return err;
    *value = reply->type == REDIS_REPLY_STRING ? strtoull(reply->str, NULL, 10) : 0;
    freeReplyObject(reply);
    return 0;
}

static int write_db(void *db, uint64_t fence, uint64_t value)
{
    redisReply *reply = NULL;
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    int err = run(db, fence, 3, (const char *[]){"SET", "count", text}, &reply);
    if (err == 0)
        freeReplyObject(reply);
    return err;
}

const struct guard_store guard_store = {.name = "redis",
                                        .start = start,
                                        .reset = reset,
                                        .fini = fini,
                                        .open = open_db,
                                        .close = close_db,
                                        .look = look,
                                        .write = write_db};
