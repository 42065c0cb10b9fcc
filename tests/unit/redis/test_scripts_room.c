/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis scripts in a room that a session enters by a JOIN, as it does in a cluster, and leaves by an END. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>

#include "one_redis.h"
#include "twin.h"

#include <stdio.h>
#include <stdlib.h>

#define COMER "000000000fee0001"

/* The session's end as the server has it, counted from now; -1: it is not there. */
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

/* Its ticket leaves, and then the session the room. */
static void go(struct twin *t, const char *name, const char *nonce)
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
    twin_init(t, &one_redis, 1, true, false, TWIN_EPOCH_US);
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
    assert_int_equal(come(t, "-", "7", "a"), RT_REDIS_OK); /* one in there beats */
    assert_int_equal(left_us(t), 105000);
    twin_advance(t, 110);
    assert_int_equal(come(t, "c", "7", "a"), RT_REDIS_LOST); /* who is dead stays so */
    assert_int_equal(come(t, "c", "9", "c"), RT_REDIS_LOST);
    twin_sweep(t);
    assert_int_equal(left_us(t), -1);
    assert_int_equal(come(t, "c", "9", "c"), RT_REDIS_OK);
    go(t, "c", "9");
    twin_fini(t);
    free(t);
}

/* The END that follows a heartbeat that found nothing; returns whether it took the session out. */
static bool end_after_beat(struct twin *t, const char *till)
{
    const char *args[] = {COMER, till};
    redisReply *r = twin_script(t, RT_REDIS_SCRIPT_END, 2, args);
    bool removed = r->element[2]->integer == 1;
    freeReplyObject(r);
    return removed;
}

/* An END on a connection that was cut may arrive when the session stands in the room again, and rests there without
 * a ticket: that is not the stay it meant. */
static void test_late_end_leaves_the_next_stay(void **state)
{
    struct twin *t = calloc(1, sizeof(*t));
    char till[2][24];
    (void)state;
    assert_non_null(t);
    twin_init(t, &one_redis, 1, true, false, TWIN_EPOCH_US);
    for (int i = 0; i < 2; i++) {
        const char *leave[] = {"a", COMER, "0", "7"}, *beat[] = {COMER, "1005", "64"};
        assert_int_equal(come(t, "c", "7", "a"), RT_REDIS_OK);
        freeReplyObject(twin_script(t, RT_REDIS_SCRIPT_LEAVE, 4, leave));
        redisReply *r = twin_script(t, RT_REDIS_SCRIPT_BEAT, 3, beat);
        snprintf(till[i], sizeof(till[i]), "%lld", r->element[2]->integer + 1005000);
        freeReplyObject(r);
        twin_advance(t, 100);
    }
    assert_false(end_after_beat(t, till[0]));
    assert_int_equal(left_us(t), 905000);
    assert_true(end_after_beat(t, till[1]));
    assert_int_equal(left_us(t), -1);
    twin_fini(t);
    free(t);
}

/* A server that has missed heartbeats, such as a promoted replica, is asked what it knows before anything else: that
 * renews the session there, which might not live until the next heartbeat. */
static void test_held_renews(void **state)
{
    struct twin *t = calloc(1, sizeof(*t));
    const char *held[] = {COMER, "0", "1005"};
    (void)state;
    assert_non_null(t);
    twin_init(t, &one_redis, 1, true, false, TWIN_EPOCH_US);
    assert_int_equal(come(t, "c", "7", "a"), RT_REDIS_OK);
    twin_advance(t, 900);
    redisReply *r = twin_script(t, RT_REDIS_SCRIPT_HELD, 3, held);
    assert_int_equal(r->element[1]->integer, RT_REDIS_OK);
    freeReplyObject(r);
    assert_int_equal(left_us(t), 1005000);
    twin_advance(t, 1010);
    r = twin_script(t, RT_REDIS_SCRIPT_HELD, 3, held);
    assert_int_equal(r->element[1]->integer, RT_REDIS_LOST); /* who is dead stays so */
    freeReplyObject(r);
    twin_sweep(t);
    twin_fini(t);
    free(t);
}

/* ---- Many dead -------------------------------------------------------------- */

#define DEAD 250
#define CORPSE "000000000dea0001"

static void leave_dead(struct twin *t, const char *name, const char *kind, const char *mode,
                       const char *take, const char *of)
{
    const char *open[] = {CORPSE, "1005", "corpse"};
    freeReplyObject(twin_script(t, RT_REDIS_SCRIPT_OPEN, 3, open));
    for (int i = 1; i <= DEAD; i++) {
        char field[64], member[96];
        snprintf(field, sizeof(field), "%d %s", i, name);
        snprintf(member, sizeof(member), "%s %d %s - 0 0", CORPSE, i, kind);
        const char *args[] = {"-",  CORPSE, "1005", "corpse", name, field, member,
                              mode, take,   of,     "0",      "0",  ""};
        redisReply *r = twin_script(t, RT_REDIS_SCRIPT_JOIN, sizeof(args) / sizeof(args[0]), args);
        assert_int_equal(r->element[1]->integer, RT_REDIS_OK);
        freeReplyObject(r);
    }
}

/* However many of another kind are in a line: when all are dead it is free. */
static void test_many_dead_of_another_kind(void **state)
{
    struct twin *t = calloc(1, sizeof(*t));
    (void)state;
    assert_non_null(t);
    twin_init(t, &one_redis, 1, true, false, TWIN_EPOCH_US);
    leave_dead(t, "a", "2 1 1000", "2", "1", "1000"); /* they hold */
    twin_advance(t, 1010);
    assert_int_equal(come(t, "c", "7", "a"), RT_REDIS_OK);
    go(t, "a", "7");
    twin_sweep(t);
    leave_dead(t, "a", "2 1000 1000", "2", "1000", "1000"); /* one holds, the others wait */
    twin_advance(t, 1010);
    assert_int_equal(come(t, "c", "8", "a"), RT_REDIS_OK);
    go(t, "a", "8");
    twin_sweep(t);
    leave_dead(t, "a", "1 0 0", "1", "0", "0"); /* readers: a try is no reason to call it busy */
    twin_advance(t, 1010);
    assert_int_equal(come(t, "tc", "9", "a"), RT_REDIS_OK);
    go(t, "a", "9");
    twin_sweep(t);
    twin_fini(t);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join_begins_anew),
        cmocka_unit_test(test_late_end_leaves_the_next_stay),
        cmocka_unit_test(test_held_renews),
        cmocka_unit_test(test_many_dead_of_another_kind),
    };
    return cmocka_run_group_tests(tests, one_redis_start, one_redis_stop);
}
