/* SPDX-License-Identifier: Apache-2.0 */
/* Looks through the keys of nodes for what nobody should need any more. */
#include "keys.h"

#include <stdio.h>
#include <string.h>

/* "rota:{7}" or "rota:{7}@3": the key of a room itself. */
static bool is_room(const char *key)
{
    const char *end = strchr(key, '}');

    if (strncmp(key, "rota:{", 6) != 0 || end == NULL)
        return false;
    return end[1] == '\0' || (end[1] == '@' && strchr(end, ':') == NULL);
}

/* Whether nothing stands in the room's index but the two marks that no name can be. */
static bool is_empty_room(struct rt_redis *node, const char *key)
{
    redisReply *reply = rt_redis_do(node, "HKEYS %s", key);
    bool empty = reply != NULL && reply->type == REDIS_REPLY_ARRAY;

    for (size_t i = 0; empty && i < reply->elements; i++) {
        const redisReply *member = reply->element[i];

        empty = member->len == 1 && (member->str[0] == '\1' || member->str[0] == '\2');
    }
    freeReplyObject(reply);
    return empty;
}

static bool may_stay(struct rt_redis *node, const char *key)
{
    return strcmp(key, "rota:{0}:meta") == 0 || (is_room(key) && is_empty_room(node, key));
}

static size_t node_left(struct rt_redis *node, char *text, size_t size)
{
    redisReply *reply = rt_redis_do(node, "KEYS *");
    size_t left = 0, used = strlen(text);

    for (size_t i = 0; reply != NULL && i < reply->elements; i++) {
        const char *key = reply->element[i]->str;
        int n;

        if (may_stay(node, key))
            continue;
        left++;
        n = snprintf(text + used, size - used, " %s", key);
        used = n > 0 && (size_t)n < size - used ? used + (size_t)n : used;
    }
    freeReplyObject(reply);
    return left;
}

size_t redis_keys_left(void *arg, char *text, size_t size)
{
    const struct redis_nodes *nodes = arg;
    size_t left = 0;

    text[0] = '\0';
    for (size_t i = 0; i < nodes->count; i++) {
        struct rt_redis *node = &nodes->first[i];

        if (node->server.pid != 0 &&
            strcmp(rt_redis_info(node, "replication", "role"), "master") == 0)
            left += node_left(node, text, size);
    }
    return left;
}

size_t redis_key_count(struct rt_redis *node)
{
    return (size_t)rt_redis_integer(node, "DBSIZE");
}
