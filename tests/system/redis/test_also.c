/* SPDX-License-Identifier: Apache-2.0 */
/* ?also=token on a real Redis: two clients of Rota and two foreign ones, which SET NX PX and delete what is theirs, on
 * one name. Never two inside; Rota's in the order in which they came; all have their turns. Longer, and with kills:
 * make interop. */
#include "lib/redis_server.h"

#include <pthread.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS 30
#define REST_US \
    20000 /* one that asks again at once would have it most of the time, as with any two that keep asking */
#define ASK_US 3000

static const char name[] = "moving";
static const char give_back[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

static struct {
    struct rt_redis node;
    char url[200];
    atomic_int inside, met, grants, out_of_order, failed;
    uint64_t last; /* the fence of Rota's last grant: whoever is inside writes it */
} stage;

/* ---- Both sides ------------------------------------------------------------- */

static void enter(uint64_t fence)
{
    if (atomic_fetch_add(&stage.inside, 1) != 0)
        atomic_fetch_add(&stage.met, 1);
    if (fence != 0 && fence <= stage.last)
        atomic_fetch_add(&stage.out_of_order, 1);
    if (fence != 0)
        stage.last = fence;
    usleep((useconds_t)(rand() % 500));
    atomic_fetch_sub(&stage.inside, 1);
    atomic_fetch_add(&stage.grants, 1);
}

static void *rota_side(void *arg)
{
    struct rota *r = NULL;
    struct rota_lock *lock;
    (void)arg;
    if (rota_open(&r, stage.url, NULL) != 0) {
        atomic_fetch_add(&stage.failed, 1);
        return NULL;
    }
    for (int i = 0; i < ROUNDS; i++) {
        if (rota_acquire(r, name, NULL, &lock) != 0) {
            atomic_fetch_add(&stage.failed, 1);
            break;
        }
        enter(rota_fence(lock));
        atomic_fetch_add(&stage.failed, rota_release(lock) != 0);
        usleep((useconds_t)(rand() % REST_US));
    }
    rota_close(r);
    return NULL;
}

/* Waits until its SET is answered with OK. */
static bool take(redisContext *redis, const char *token)
{
    for (;;) {
        redisReply *reply = redisCommand(redis, "SET %s %s NX PX 60000", name, token);
        if (reply == NULL)
            return false;
        bool ok = reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        if (ok)
            return true;
        usleep((useconds_t)(rand() % ASK_US));
    }
}

static void *foreign_side(void *arg)
{
    redisContext *redis = redisConnectUnix(stage.node.socket);
    char token[48];
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(token, sizeof(token), "foreign-%s-%d", (const char *)arg, i);
        if (!take(redis, token)) {
            atomic_fetch_add(&stage.failed, 1);
            break;
        }
        enter(0);
        redisReply *reply = redisCommand(redis, "EVAL %s 1 %s %s", give_back, name, token);
        atomic_fetch_add(&stage.failed, reply == NULL || reply->integer != 1);
        freeReplyObject(reply);
        usleep((useconds_t)(rand() % REST_US));
    }
    redisFree(redis);
    return NULL;
}

static void test_two_and_two(void **state)
{
    pthread_t threads[4];
    (void)state;
    pthread_create(&threads[0], NULL, rota_side, NULL);
    pthread_create(&threads[1], NULL, rota_side, NULL);
    pthread_create(&threads[2], NULL, foreign_side, "a");
    pthread_create(&threads[3], NULL, foreign_side, "b");
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&stage.failed), 0);
    assert_int_equal(atomic_load(&stage.met), 0);
    assert_int_equal(atomic_load(&stage.out_of_order), 0);
    assert_int_equal(atomic_load(&stage.grants), 4 * ROUNDS);
    assert_int_equal(rt_redis_integer(&stage.node, "EXISTS %s", name), 0);
}

/* ---- Who holds -------------------------------------------------------------- */

static void test_the_foreign_holder_is_named(void **state)
{
    struct rota *r = NULL;
    struct rota_line *line = NULL;
    struct rota_ask try = {.flags = ROTA_TRY};
    struct rota_lock *lock = NULL;
    (void)state;
    assert_int_equal(rota_open(&r, stage.url, NULL), 0);
    rt_redis_must(&stage.node, "SET %s 0123456789abcdef0123456789abcdef NX PX 60000", name);
    assert_int_equal(rota_acquire(r, name, &try, &lock), ROTA_BUSY);
    assert_int_equal(rota_inspect(r, name, &line), 0);
    assert_int_equal(line->count, 1);
    assert_int_equal(line->granted, 1);
    assert_true(line->places[0].label[0] != '\0' && line->places[0].session == 0);
    rota_line_free(line);
    rt_redis_must(&stage.node, "DEL %s", name);
    assert_int_equal(rota_acquire(r, name, &try, &lock), 0);
    rt_redis_must(&stage.node, "DEL %s", name); /* by somebody's hand */
    assert_int_equal(rota_check(lock), ROTA_LOST);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    /* A key of another kind is no lock: the error says so, and the line is left. */
    rt_redis_must(&stage.node, "HSET %s field value", name);
    assert_int_equal(rota_acquire(r, name, &try, &lock), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(r), "also=token"));
    rt_redis_must(&stage.node, "DEL %s", name);
    assert_int_equal(rota_acquire(r, name, &try, &lock), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
}

static int begin(void **state)
{
    (void)state;
    rt_redis_start(&stage.node, NULL);
    snprintf(stage.url, sizeof(stage.url), "redis://127.0.0.1:%u/?also=token",
             (unsigned)stage.node.server.port);
    return 0;
}

static int end(void **state)
{
    (void)state;
    rt_redis_fini(&stage.node);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_and_two),
        cmocka_unit_test(test_the_foreign_holder_is_named),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
