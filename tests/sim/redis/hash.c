/* SPDX-License-Identifier: Apache-2.0 */
/* The commands on hashes. */
#include "sim/redis/call.h"

#include <stdio.h>

static void do_hset(struct rs_call *c)
{
    struct rs_key *key;
    int64_t n = 0;
    if (!rs_call_key(c, RS_HASH, &key))
        return;
    if (c->argc % 2 != 0) {
        rs_reply_error(c->reply, "ERR wrong number of arguments for 'hset' command");
        return;
    }
    key = rs_call_made(c, RS_HASH);
    for (size_t i = 2; i < c->argc; i += 2)
        n += rs_hash_set(key, c->argv[i], c->argv[i + 1]);
    rs_reply_integer(c->reply, n);
}

static void do_hsetnx(struct rs_call *c)
{
    struct rs_key *key;
    if (!rs_call_key(c, RS_HASH, &key))
        return;
    bool there = rs_call_entry(key, c->argv[2]) != NULL;
    if (!there)
        rs_hash_set(rs_call_made(c, RS_HASH), c->argv[2], c->argv[3]);
    rs_reply_integer(c->reply, !there);
}

static void reply_value(struct rs_call *c, const struct rs_entry *e)
{
    if (e == NULL)
        rs_reply_null(c->reply);
    else
        rs_reply_bulk(c->reply, e->value);
}

static void do_hget(struct rs_call *c)
{
    struct rs_key *key;
    if (rs_call_key(c, RS_HASH, &key))
        reply_value(c, rs_call_entry(key, c->argv[2]));
}

static void do_hmget(struct rs_call *c)
{
    struct rs_key *key;
    if (!rs_call_key(c, RS_HASH, &key))
        return;
    rs_reply_array(c->reply, c->argc - 2);
    for (size_t i = 2; i < c->argc; i++)
        reply_value(c, rs_call_entry(key, c->argv[i]));
}

static void do_hexists(struct rs_call *c)
{
    struct rs_key *key;
    if (rs_call_key(c, RS_HASH, &key))
        rs_reply_integer(c->reply, rs_call_entry(key, c->argv[2]) != NULL);
}

static void do_hdel(struct rs_call *c)
{
    rs_call_remove(c, RS_HASH);
}

static void do_hlen(struct rs_call *c)
{
    rs_call_count(c, RS_HASH);
}

static void do_hincrby(struct rs_call *c)
{
    struct rs_key *key;
    int64_t by, value = 0;
    char text[32];
    if (!rs_call_key(c, RS_HASH, &key))
        return;
    const struct rs_entry *e = rs_call_entry(key, c->argv[2]);
    if (!rs_to_integer(c->argv[3], &by)) {
        rs_reply_error(c->reply, RS_NOT_INTEGER);
        return;
    }
    if (e != NULL && !rs_to_integer(e->value, &value)) {
        rs_reply_error(c->reply, "ERR hash value is not an integer");
        return;
    }
    int n = snprintf(text, sizeof(text), "%lld", (long long)(value + by));
    rs_hash_set(rs_call_made(c, RS_HASH), c->argv[2], (struct rs_text){text, (size_t)n});
    rs_reply_integer(c->reply, value + by);
}

static void reply_hash(struct rs_call *c, bool fields, bool values)
{
    struct rs_key *key;
    if (!rs_call_key(c, RS_HASH, &key))
        return;
    size_t n = key != NULL ? key->count : 0;
    rs_reply_array(c->reply, n * (size_t)(fields + values));
    for (size_t i = 0; i < n; i++) {
        if (fields)
            rs_reply_bulk(c->reply, key->entries[i].name);
        if (values)
            rs_reply_bulk(c->reply, key->entries[i].value);
    }
}

static void do_hgetall(struct rs_call *c)
{
    reply_hash(c, true, true);
}

static void do_hkeys(struct rs_call *c)
{
    reply_hash(c, true, false);
}

static void do_hvals(struct rs_call *c)
{
    reply_hash(c, false, true);
}

/* Returns the first ones: nobody who asks for random fields may depend on which. */
static void do_hrandfield(struct rs_call *c)
{
    struct rs_key *key;
    int64_t count;
    bool values = c->argc == 4 && rs_word_is(c->argv[3], "WITHVALUES");
    if (!rs_to_integer(c->argv[2], &count) || count < 0 || (c->argc == 4 && !values)) {
        rs_reply_error(c->reply, RS_SYNTAX);
        return;
    }
    if (!rs_call_key(c, RS_HASH, &key))
        return;
    size_t n = key != NULL ? key->count : 0;
    n = n > (size_t)count ? (size_t)count : n;
    rs_reply_array(c->reply, values ? 2 * n : n);
    for (size_t i = 0; i < n; i++) {
        rs_reply_bulk(c->reply, key->entries[i].name);
        if (values)
            rs_reply_bulk(c->reply, key->entries[i].value);
    }
}

static void do_hscan(struct rs_call *c)
{
    rs_call_scan(c, RS_HASH);
}

const struct rs_command rs_hash_commands[] = {
    {"HSET", do_hset, 4, 0, true, true},         {"HSETNX", do_hsetnx, 4, 4, true, true},
    {"HGET", do_hget, 3, 3, false, false},       {"HMGET", do_hmget, 3, 0, false, false},
    {"HEXISTS", do_hexists, 3, 3, false, false}, {"HDEL", do_hdel, 3, 0, true, false},
    {"HLEN", do_hlen, 2, 2, false, false},       {"HINCRBY", do_hincrby, 4, 4, true, true},
    {"HGETALL", do_hgetall, 2, 2, false, false}, {"HKEYS", do_hkeys, 2, 2, false, false},
    {"HVALS", do_hvals, 2, 2, false, false},     {"HRANDFIELD", do_hrandfield, 3, 4, false, false},
    {"HSCAN", do_hscan, 3, 0, false, false},     {NULL, NULL, 0, 0, false, false},
};
