/* SPDX-License-Identifier: Apache-2.0 */
/* A bare hiredis connection that sends the engine's own scripts, as the engine sends them. */
#include "redis.h"

#include "engine/redis/script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM "rota:{0}"
#define ARGS_MOST 24

/* EVALSHA of SCRIPT; ARGV from [2] on, up to a NULL. */
static void append(struct bare *bare, enum rt_redis_script script, const char *const *more)
{
    char tag[24];
    const char *args[ARGS_MOST] = {"EVALSHA", rt_redis_script_text(script, false)->sha1, "1", ROOM,
                                   tag};
    size_t lengths[ARGS_MOST];
    int n = 5;
    snprintf(tag, sizeof tag, "%" PRIu64, ++bare->tag);
    for (; *more != NULL; more++)
        args[n++] = *more;
    for (int i = 0; i < n; i++)
        lengths[i] = strlen(args[i]);
    redisAppendCommandArgv(bare->c, n, args, lengths);
}

/* The next reply: a plain one, or one with status 0. */
static redisReply *answer(struct bare *bare)
{
    void *got = NULL;
    redisGetReply(bare->c, &got);
    redisReply *reply = redis_must(bare->c, got);
    if (reply->type != REDIS_REPLY_STRING &&
        (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
         reply->element[1]->integer != 0)) {
        fprintf(stderr, "rota-bench: a script answered something unexpected\n");
        exit(1);
    }
    return reply;
}

static void load(struct bare *bare, enum rt_redis_script script)
{
    freeReplyObject(redis_do(bare->c, "SCRIPT LOAD %s", rt_redis_script_text(script, false)->text));
}

void bare_open(struct bare *bare, redisContext *c)
{
    static unsigned count;
    *bare = (struct bare){.c = c, .nonce = UINT64_C(0x123456789abc0000)};
    snprintf(bare->sid, sizeof bare->sid, "bad%09x%04x", (unsigned)getpid(), ++count & 0xffff);
    load(bare, RT_REDIS_SCRIPT_OPEN);
    load(bare, RT_REDIS_SCRIPT_JOIN);
    load(bare, RT_REDIS_SCRIPT_LEAVE);
    /* An hour: a bare loop has no heartbeat. */
    append(bare, RT_REDIS_SCRIPT_OPEN, (const char *[]){bare->sid, "3600000", "bare", NULL});
    freeReplyObject(answer(bare));
}

void bare_append_join(struct bare *bare, const char *name)
{
    char field[300], member[128];
    snprintf(field, sizeof field, "%" PRIu64 " %s", ++bare->nonce, name);
    snprintf(member, sizeof member, "%s %" PRIu64 " 0 0 0 - 1 0", bare->sid, bare->nonce);
    append(bare, RT_REDIS_SCRIPT_JOIN, (const char *[]){"-", bare->sid, name, field, member, NULL});
}

uint64_t bare_joined(struct bare *bare)
{
    redisReply *reply = answer(bare);
    const char *number = reply->type == REDIS_REPLY_STRING ? strchr(reply->str, ' ') : NULL;
    uint64_t value = number != NULL ? strtoull(number, NULL, 10) : 0;
    bench_done(value == 0);
    freeReplyObject(reply);
    return value;
}

void bare_listen(const struct bare *bare, redisContext *told)
{
    freeReplyObject(redis_do(told, "SUBSCRIBE " ROOM ":p:%b", bare->sid, (size_t)12));
}

uint64_t bare_wait(struct bare *bare, redisContext *told)
{
    redisReply *reply = answer(bare);
    bool granted = reply->type == REDIS_REPLY_STRING;
    uint64_t value = granted ? strtoull(strchr(reply->str, ' '), NULL, 10)
                             : (uint64_t)reply->element[4]->integer;
    freeReplyObject(reply);
    if (!granted) { /* it can only be this one push */
        void *message = NULL;
        bench_done(redisGetReply(told, &message) != REDIS_OK);
        freeReplyObject(message);
    }
    return value;
}

void bare_append_leave(struct bare *bare, const char *name, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    append(bare, RT_REDIS_SCRIPT_LEAVE, (const char *[]){name, bare->sid, text, NULL});
}

void bare_append_ping(struct bare *bare)
{
    redisAppendCommand(bare->c, "PING");
}

void bare_ponged(struct bare *bare)
{
    void *got = NULL;
    redisGetReply(bare->c, &got);
    freeReplyObject(redis_must(bare->c, got));
}

void bare_left(struct bare *bare)
{
    freeReplyObject(answer(bare));
}

void bare_pair(struct bare *bare, const char *name)
{
    bare_append_join(bare, name);
    uint64_t number = bare_joined(bare);
    bare_append_leave(bare, name, number);
    bare_left(bare);
}

void bare_close(struct bare *bare)
{
    redisFree(bare->c);
}
