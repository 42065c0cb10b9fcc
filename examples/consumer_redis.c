/* SPDX-License-Identifier: Apache-2.0 */
/* consumer.c on a stream of Redis: a consumer group, and what a dead member had (XAUTOCLAIM). */
#include "consumer.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IDLE_MS "30000" /* a member that has not answered for this long is dead */

static redisContext *redis;
static redisReply *entry; /* the one under way: [place, [field, value, ...]] */
static const char *stream, *place;
static char me[32];

static redisReply *sound(redisReply *reply)
{
    if (reply != NULL && reply->type != REDIS_REPLY_ERROR)
        return reply;
    fprintf(stderr, "Redis: %s\n", reply != NULL ? reply->str : redis->errstr);
    freeReplyObject(reply);
    return NULL;
}

static int done(redisReply *reply)
{
    reply = sound(reply);
    freeReplyObject(reply);
    return reply != NULL ? 0 : -1;
}

int broker_open(const char *host, int port, const char *source)
{
    const char *password = getenv("BROKER_PASSWORD");

    stream = source;
    snprintf(me, sizeof(me), "mailer-%ld", (long)getpid());
    redis = redisConnect(host, port);
    if (redis == NULL || redis->err != 0)
        return -1;
    if (password != NULL && done(redisCommand(redis, "AUTH %s", password)) != 0)
        return -1;
    /* Creates the group if it is missing; if it already exists, that is not an error. */
    freeReplyObject(redisCommand(redis, "XGROUP CREATE %s " GROUP " 0 MKSTREAM", stream));
    return 0;
}

/* The first of ENTRIES becomes the event. */
static int take(const redisReply *entries, struct event *e)
{
    const redisReply *first = entries->element[0], *fields = first->element[1];

    place = first->element[0]->str;
    *e = (struct event){.id = "", .body = ""};
    for (size_t i = 0; i + 1 < fields->elements; i += 2) {
        const redisReply *value = fields->element[i + 1];
        if (strcmp(fields->element[i]->str, "id") == 0)
            e->id = value->str;
        else if (strcmp(fields->element[i]->str, "body") == 0)
            e->body = value->str, e->size = value->len;
    }
    return 0;
}

int broker_next(struct event *e)
{
    for (;;) {
        freeReplyObject(entry);
        entry = sound(
            redisCommand(redis, "XAUTOCLAIM %s " GROUP " %s " IDLE_MS " 0 COUNT 1", stream, me));
        if (entry == NULL)
            return -1;
        if (entry->element[1]->elements > 0)
            return take(entry->element[1], e);
        freeReplyObject(entry);
        entry = sound(redisCommand(
            redis, "XREADGROUP GROUP " GROUP " %s COUNT 1 BLOCK 1000 STREAMS %s >", me, stream));
        if (entry == NULL)
            return -1;
        if (entry->type == REDIS_REPLY_ARRAY)
            return take(entry->element[0]->element[1], e);
    }
}

int broker_ack(void)
{
    return done(redisCommand(redis, "XACK %s " GROUP " %s", stream, place));
}

int broker_back(void)
{
    return 0; /* somebody claims it once it has been idle that long */
}

void broker_close(void)
{
    freeReplyObject(entry);
    redisFree(redis);
}
