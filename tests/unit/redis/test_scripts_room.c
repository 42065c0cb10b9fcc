/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis scripts in a room that a session comes to by a JOIN, as it does in a cluster, and leaves by an END. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>

#include "twin.h"

#include <stdio.h>
#include <stdlib.h>

static struct rt_redis node;

#define COMER "000000000fee0001"

/* What the server says of the session's end, from now on; -1: it is not there. */
static int64_t left_us(struct twin *t)
{
    redisReply *r = redisCommand(t->work, "HGET %s %b", TWIN_ROOM, "\3" COMER, (size_t)17);
    int64_t left = r->type == REDIS_REPLY_STRING ? atoll(r->str) - twin_now_us(t) : -1;
    freeReplyObject(r);
    r = redisCommand(t->work, "ZSCORE %s:e %s", TWIN_ROOM, COMER);
    assert_int_equal(left, r->type == REDIS_REPLY_STRING ? atoll(r->str) - twin_now_us(t) : -1);
    freeReplyObject(r);
    return left;
}

/* JOINs the line NAME by NONCE with FLAGS; returns the status. */
static long long come(struct twin *t, const char *flags, const char *nonce, const char *name)
{
    char field[64], member[96];
    snprintf(field, sizeof(field), "%s %s", nonce, name);
    snprintf(member, sizeof(member), "%s %s 0 0 0 - 0 0", COMER, nonce);
    const char *args[] = {flags, COMER, "1005", "comer", name, field, member,
                          "0",   "0",   "0",    "0",     "0",  ""};
    redisReply *r = twin_script(t, RT_REDIS_SCRIPT_JOIN, sizeof(args) / sizeof(args[0]), args);
    long long status = r->element[1]->integer;
    freeReplyObject(r);
    return status;
}

static void end_comer(struct twin *t, const char *name, const char *nonce)
{
    const char *leave[] = {name, COMER, "0", nonce}, *end[] = {COMER};
    freeReplyObject(twin_script(t, RT_REDIS_SCRIPT_LEAVE, 4, leave));
    freeReplyObject(twin_script(t, RT_REDIS_SCRIPT_END, 1, end));
    assert_int_equal(left_us(t), -1);
}

/* The client counts from before the JOIN with `c` that was answered: so each one renews the session, whether it
 * made the session, finds it with its ticket, or finds what an END that was lost has left. */
static void test_join_begins_anew(void **state)
{
    struct twin *t = calloc(1, sizeof(*t));
    (void)state;
    assert_non_null(t);
    twin_init(t, &node, 1, true, false, TWIN_EPOCH_US);
    assert_int_equal(come(t, "c", "7", "a"), RT_REDIS_OK); /* its answer is lost */
    assert_int_equal(left_us(t), 1005000);
    twin_advance(t, 900);
    assert_int_equal(come(t, "c", "7", "a"), RT_REDIS_OK); /* asked again */
    assert_int_equal(left_us(t), 1005000);
    twin_advance(t, 900);
    assert_int_equal(come(t, "c", "8", "b"),
                     RT_REDIS_OK); /* another, sent before that was answered */
    assert_int_equal(left_us(t), 1005000);
    twin_advance(t, 900);
    assert_int_equal(come(t, "-", "7", "a"), RT_REDIS_OK); /* who stands there beats */
    assert_int_equal(left_us(t), 105000);
    twin_advance(t, 110);
    assert_int_equal(come(t, "c", "7", "a"), RT_REDIS_LOST); /* who is dead stays so */
    assert_int_equal(come(t, "c", "9", "c"), RT_REDIS_LOST);
    twin_sweep(t);
    assert_int_equal(left_us(t), -1);
    assert_int_equal(come(t, "c", "9", "c"), RT_REDIS_OK);
    end_comer(t, "c", "9");
    twin_fini(t);
    free(t);
}

static int start(void **state)
{
    (void)state;
    rt_redis_start(&node, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rt_redis_fini(&node);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join_begins_anew),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
