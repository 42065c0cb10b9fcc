/* SPDX-License-Identifier: Apache-2.0 */
/* The lock that everybody writes by hand on Redis: SET NX PX, and a script that compares and deletes. */
#include "redis.h"

#include <stdio.h>

static const char compare_and_delete[] =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

void simple_open(struct simple *simple, redisContext *c)
{
    simple->c = c;
    redisReply *reply = redis_do(c, "SCRIPT LOAD %s", compare_and_delete);
    snprintf(simple->hash, sizeof simple->hash, "%s", reply->str);
    freeReplyObject(reply);
}

bool simple_try(struct simple *simple, const char *name, const char *token)
{
    redisReply *reply = redis_do(simple->c, "SET %s %s NX PX 10000", name, token);
    bool ours = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return ours;
}

void simple_leave(struct simple *simple, const char *name, const char *token)
{
    freeReplyObject(redis_do(simple->c, "EVALSHA %s 1 %s %s", simple->hash, name, token));
}
