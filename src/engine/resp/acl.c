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

/* RULES as ACL GETUSER says them, where later ones prevail: "+@all -@dangerous". */
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

/* Whether the pattern (SIZE bytes) fits all keys of ours, whatever follows "rota:": its words up to the first star fit
 * the beginning of that, and nothing but stars stands behind. Patterns with brackets are not trusted. */
static bool covers(const char *pattern, size_t size)
{
    static const char ours[] = "rota:";
    size_t n = 0;
    while (n < size && n < sizeof(ours) - 1 && (pattern[n] == ours[n] || pattern[n] == '?'))
        n++;
    if (n == size || pattern[n] != '*')
        return false;
    while (n < size && pattern[n] == '*')
        n++;
    return n == size;
}

enum { READS = 0x1, WRITES_KEYS = 0x2, BOTH = READS | WRITES_KEYS };

/* What a WORD of ACL GETUSER permits on all of our keys: "~rota:*", "%RW~rota*"; before Redis 7 without the tilde. */
static int may_with(const char *word, size_t size)
{
    int what = BOTH;
    const char *tilde = memchr(word, '~', size);
    if (word[0] == '%' && tilde != NULL) {
        size_t flags = (size_t)(tilde - word);
        what = memchr(word, 'R', flags) != NULL ? READS : 0;
        what |= memchr(word, 'W', flags) != NULL ? WRITES_KEYS : 0;
    }
    size_t ahead = tilde != NULL && (word[0] == '%' || tilde == word) ? (size_t)(tilde + 1 - word)
                                                                      : 0;
    return covers(word + ahead, size - ahead) ? what : 0;
}

/* Before Redis 7 a list of patterns, since then one text of words. */
static int may_keys(const redisReply *keys)
{
    int may = 0;
    if (keys->type == REDIS_REPLY_ARRAY)
        for (size_t i = 0; i < keys->elements; i++)
            may |= may_keys(keys->element[i]);
    for (const char *at = keys->type == REDIS_REPLY_STRING ? keys->str : ""; *at != '\0';) {
        size_t size = strcspn(at, " ");
        may |= may_with(at, size);
        at += size + (at[size] == ' ');
    }
    return may;
}

/* Whether RIGHTS, a list of names and values, permit all of our writes, or one of its selectors (since Redis 7) does,
 * each of which is such a list. Negative: it is no such list. */
static int may_all(const redisReply *rights)
{
    bool commands = false, selected = false;
    int keys = 0;
    if (rights->type != REDIS_REPLY_ARRAY || rights->elements == 0)
        return -1;
    for (size_t i = 0; i + 1 < rights->elements; i += 2) {
        const redisReply *key = rights->element[i], *value = rights->element[i + 1];
        if (key->type != REDIS_REPLY_STRING)
            return -1;
        if (strcmp(key->str, "commands") == 0)
            commands = value->type == REDIS_REPLY_STRING && may_command(value->str);
        else if (strcmp(key->str, "keys") == 0)
            keys = may_keys(value);
        else if (strcmp(key->str, "selectors") == 0 && value->type == REDIS_REPLY_ARRAY)
            for (size_t k = 0; k < value->elements; k++)
                selected = selected || may_all(value->element[k]) > 0;
    }
    return selected || (commands && keys == BOTH);
}

enum rt_resp_replay rt_resp_acl_replay(const redisReply *reply)
{
    int may = may_all(reply);
    if (may < 0)
        return RT_RESP_REPLAY_UNKNOWN;
    return may > 0 ? RT_RESP_REPLAY_KEPT : RT_RESP_REPLAY_DROPPED;
}
