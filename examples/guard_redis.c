/* SPDX-License-Identifier: Apache-2.0 */
/* A stock in Redis: reading and writing are your own commands, which the guard runs in one step with the check of the
 * fence. */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <rota_guard.h>

/* In a cluster {} keeps the guard beside what it guards. */
static const char guard[] = "{stock:7}:fence", key[] = "stock:7";

static int sell_one(redisContext *db, uint64_t fence)
{
    const char *get[] = {"GET", key}, *set[] = {"SET", key, NULL};
    redisReply *reply = NULL;
    char text[32];

    int err = rota_guard_redis(db, guard, fence, 2, get, NULL, &reply); /* reads, and claims */
    if (err != 0)
        return err;
    long stock = reply->type == REDIS_REPLY_STRING ? strtol(reply->str, NULL, 10) : 10;
    freeReplyObject(reply);
    snprintf(text, sizeof(text), "%ld", stock - 1);
    set[2] = text;
    return rota_guard_redis(db, guard, fence, 3, set, NULL, NULL);
}

/* A tenure in which nothing is done: imagine that its holder sleeps and wakes up too late. */
static uint64_t sleeping_fence(struct rota *r)
{
    struct rota_lock *lock;
    uint64_t fence = 0;

    if (rota_acquire(r, "stock 7", NULL, &lock) == 0) {
        fence = rota_fence(lock);
        rota_release(lock);
    }
    return fence;
}

int main(void)
{
    const char *host = getenv("REDIS_HOST"), *port = getenv("REDIS_PORT");
    redisContext *db = redisConnect(host != NULL ? host : "127.0.0.1",
                                    port != NULL ? (int)strtol(port, NULL, 10) : 6379);
    struct rota *r;
    struct rota_lock *lock;

    if (db == NULL || db->err != 0 || rota_open(&r, NULL, NULL) != 0) {
        fprintf(stderr, "%s\n", db != NULL && db->err != 0 ? db->errstr : rota_errmsg(NULL));
        return 1;
    }
    uint64_t fence = 0, before = sleeping_fence(r);
    int err = rota_acquire(r, "stock 7", NULL, &lock);
    if (err == 0) {
        fence = rota_fence(lock);
        err = sell_one(db, fence);
        rota_release(lock);
    }
    int late = sell_one(db, before);
    printf("fence %" PRIu64 ": %s; the one before: %s\n", fence, rota_strerror(err),
           rota_strerror(late));
    rota_close(r);
    redisFree(db);
    return err != 0 || late != ROTA_LOST;
}
