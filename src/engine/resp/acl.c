/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a restart keeps what scripts wrote.
 *
 * On loading its append-only file Redis asks again, for each script's writes, whether they are allowed, as
 * the user default, whoever wrote them; and drops all of them if not (redis#14541). That user may be off, but
 * must have the rights. So its rights are asked for, and what they say of our writes is worked out here. */
#include "engine/resp/link.h"

#include <string.h>

/* What scripts write with. */
static const struct {
    const char *name;
    const char *categories; /* besides @all and @write, which have them all */
} writes[] = {
    {"hset", "@hash @fast"},         {"hsetnx", "@hash @fast"},    {"hdel", "@hash @fast"},
    {"hincrby", "@hash @fast"},      {"zadd", "@sortedset @fast"}, {"zrem", "@sortedset @fast"},
    {"zpopmin", "@sortedset @fast"}, {"del", "@keyspace @slow"},
};
#define WRITES (sizeof(writes) / sizeof(writes[0]))

static bool is_word(const char *word, size_t size, const char *text)
{
    return strlen(text) == size && strncmp(word, text, size) == 0;
}

/* Whether WORD (SIZE bytes, without its sign) speaks of the I-th. */
static bool speaks_of(const char *word, size_t size, size_t i)
{
    if (is_word(word, size, "@all") || is_word(word, size, "@write") ||
        is_word(word, size, writes[i].name))
        return true;
    for (const char *at = writes[i].categories; word[0] == '@' && *at != '\0';) {
        size_t n = strcspn(at, " ");
        if (n == size && strncmp(at, word, n) == 0)
            return true;
        at += n + (at[n] == ' ');
    }
    return false;
}

/* RULES as ACL GETUSER says them, the later ones going before: "+@all -@dangerous". */
static bool may_command(const char *rules)
{
    bool may[WRITES] = {false};
    for (const char *at = rules; *at != '\0';) {
        size_t size = strcspn(at, " ");
        for (size_t i = 0; size > 1 && i < WRITES; i++)
            if (speaks_of(at + 1, size - 1, i))
                may[i] = at[0] == '+';
        at += size + (at[size] == ' ');
    }
    bool all = true;
    for (size_t i = 0; i < WRITES; i++)
        all = all && may[i];
    return all;
}

/* Before Redis 7 a list of patterns, since then one text of words. */
static bool may_keys(const redisReply *keys)
{
    static const char *const good[] = {"~*", "~rota:*", "%RW~*", "%RW~rota:*", "*", "rota:*"};
    bool may = false;
    if (keys->type == REDIS_REPLY_ARRAY)
        for (size_t i = 0; i < keys->elements; i++)
            may = may || may_keys(keys->element[i]);
    for (const char *at = keys->type == REDIS_REPLY_STRING ? keys->str : ""; *at != '\0';) {
        size_t size = strcspn(at, " ");
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
            may = may || is_word(at, size, good[i]);
        at += size + (at[size] == ' ');
    }
    return may;
}

enum rt_resp_replay rt_resp_acl_replay(const redisReply *reply)
{
    bool commands = false, keys = false;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return RT_RESP_REPLAY_UNKNOWN;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *key = reply->element[i], *value = reply->element[i + 1];
        if (key->type != REDIS_REPLY_STRING)
            return RT_RESP_REPLAY_UNKNOWN;
        if (strcmp(key->str, "commands") == 0)
            commands = value->type == REDIS_REPLY_STRING && may_command(value->str);
        else if (strcmp(key->str, "keys") == 0)
            keys = may_keys(value);
    }
    return commands && keys ? RT_RESP_REPLAY_KEPT : RT_RESP_REPLAY_DROPPED;
}
