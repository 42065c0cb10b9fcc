/* SPDX-License-Identifier: Apache-2.0 */
/* The commands on sorted sets. */
#include "sim/redis/call.h"

struct zadd {
    bool nx, xx, gt, lt, ch;
};

static size_t zadd_flags(struct rs_call *c, struct zadd *f)
{
    size_t i = 2;
    for (; i < c->argc; i++) {
        struct rs_text a = c->argv[i];
        if (rs_word_is(a, "NX"))
            f->nx = true;
        else if (rs_word_is(a, "XX"))
            f->xx = true;
        else if (rs_word_is(a, "GT"))
            f->gt = true;
        else if (rs_word_is(a, "LT"))
            f->lt = true;
        else if (rs_word_is(a, "CH"))
            f->ch = true;
        else
            break;
    }
    return i;
}

static void zadd_one(struct rs_call *c, const struct zadd *f, struct rs_text member, double score,
                     int64_t *added, int64_t *changed)
{
    struct rs_key *key = rs_store_find(&c->m->store, c->argv[1]);
    const struct rs_entry *e = rs_call_entry(key, member);
    if ((e == NULL && f->xx) || (e != NULL && f->nx))
        return;
    if (e != NULL &&
        (score == e->score || (f->gt && score < e->score) || (f->lt && score > e->score)))
        return;
    *changed += e != NULL;
    *added += e == NULL;
    rs_zset_set(rs_call_made(c, RS_ZSET), member, score);
}

static void do_zadd(struct rs_call *c)
{
    struct zadd f = {0};
    struct rs_key *key;
    int64_t added = 0, changed = 0;
    double score;
    size_t first = zadd_flags(c, &f);
    if (first >= c->argc || (c->argc - first) % 2 != 0) {
        rs_reply_error(c->reply, RS_SYNTAX);
        return;
    }
    for (size_t i = first; i < c->argc; i += 2)
        if (!rs_to_double(c->argv[i], &score)) {
            rs_reply_error(c->reply, RS_NOT_FLOAT);
            return;
        }
    if (!rs_call_key(c, RS_ZSET, &key))
        return;
    for (size_t i = first; i < c->argc; i += 2) {
        (void)rs_to_double(c->argv[i], &score);
        zadd_one(c, &f, c->argv[i + 1], score, &added, &changed);
    }
    rs_reply_integer(c->reply, f.ch ? added + changed : added);
}

static void do_zrem(struct rs_call *c)
{
    rs_call_remove(c, RS_ZSET);
}

static void do_zcard(struct rs_call *c)
{
    rs_call_count(c, RS_ZSET);
}

static void reply_score(struct rs_call *c, const struct rs_entry *e)
{
    if (e == NULL)
        rs_reply_null(c->reply);
    else
        rs_reply_double(c->reply, e->score);
}

static void do_zscore(struct rs_call *c)
{
    struct rs_key *key;
    if (rs_call_key(c, RS_ZSET, &key))
        reply_score(c, rs_call_entry(key, c->argv[2]));
}

static void do_zmscore(struct rs_call *c)
{
    struct rs_key *key;
    if (!rs_call_key(c, RS_ZSET, &key))
        return;
    rs_reply_array(c->reply, c->argc - 2);
    for (size_t i = 2; i < c->argc; i++)
        reply_score(c, rs_call_entry(key, c->argv[i]));
}

static void do_zrank(struct rs_call *c)
{
    struct rs_key *key;
    if (!rs_call_key(c, RS_ZSET, &key))
        return;
    const struct rs_entry *e = rs_call_entry(key, c->argv[2]);
    if (e == NULL)
        rs_reply_null(c->reply);
    else
        rs_reply_integer(c->reply, e - key->entries);
}

static void do_zincrby(struct rs_call *c)
{
    struct rs_key *key;
    double by;
    if (!rs_to_double(c->argv[2], &by)) {
        rs_reply_error(c->reply, RS_NOT_FLOAT);
        return;
    }
    if (!rs_call_key(c, RS_ZSET, &key))
        return;
    const struct rs_entry *e = rs_call_entry(key, c->argv[3]);
    double score = by + (e != NULL ? e->score : 0);
    rs_zset_set(rs_call_made(c, RS_ZSET), c->argv[3], score);
    rs_reply_double(c->reply, score);
}

static void do_zscan(struct rs_call *c)
{
    rs_call_scan(c, RS_ZSET);
}

/* Which entries: [begin, end) of the array. */
struct range {
    size_t begin, end;
    int64_t offset, limit; /* limit -1: all */
    bool by_score, reverse, with_scores;
};

struct bound {
    double at;
    bool open;
};

static bool to_bound(struct rs_text text, struct bound *b)
{
    b->open = text.n > 0 && text.at[0] == '(';
    if (b->open)
        text = (struct rs_text){text.at + 1, text.n - 1};
    return rs_to_double(text, &b->at);
}

static bool find_scores(struct rs_call *c, const struct rs_key *key, struct rs_text least,
                        struct rs_text most, struct range *r)
{
    struct bound from, to;
    if (!to_bound(least, &from) || !to_bound(most, &to)) {
        rs_reply_error(c->reply, "ERR min or max is not a float");
        return false;
    }
    size_t n = key != NULL ? key->count : 0;
    for (r->begin = 0; r->begin < n; r->begin++)
        if (key->entries[r->begin].score > from.at ||
            (!from.open && key->entries[r->begin].score == from.at))
            break;
    for (r->end = r->begin; r->end < n; r->end++)
        if (key->entries[r->end].score > to.at || (to.open && key->entries[r->end].score == to.at))
            break;
    return true;
}

static bool find_ranks(struct rs_call *c, const struct rs_key *key, struct range *r)
{
    int64_t from, to, n = key != NULL ? (int64_t)key->count : 0;
    if (!rs_to_integer(c->argv[2], &from) || !rs_to_integer(c->argv[3], &to)) {
        rs_reply_error(c->reply, RS_NOT_INTEGER);
        return false;
    }
    from = from < 0 ? from + n : from;
    to = to < 0 ? to + n : to;
    from = from < 0 ? 0 : from;
    to = to >= n ? n - 1 : to;
    r->begin = r->end = 0;
    if (from > to || from >= n)
        return true;
    r->begin = (size_t)(r->reverse ? n - 1 - to : from);
    r->end = (size_t)(r->reverse ? n - from : to + 1);
    return true;
}

static bool range_flags(struct rs_call *c, struct range *r)
{
    for (size_t i = 4; i < c->argc; i++) {
        if (rs_word_is(c->argv[i], "BYSCORE")) {
            r->by_score = true;
        } else if (rs_word_is(c->argv[i], "REV")) {
            r->reverse = true;
        } else if (rs_word_is(c->argv[i], "WITHSCORES")) {
            r->with_scores = true;
        } else if (rs_word_is(c->argv[i], "LIMIT") && i + 2 < c->argc &&
                   rs_to_integer(c->argv[i + 1], &r->offset) &&
                   rs_to_integer(c->argv[i + 2], &r->limit)) {
            i += 2;
        } else {
            rs_reply_error(c->reply, RS_SYNTAX);
            return false;
        }
    }
    return true;
}

static void reply_range(struct rs_call *c, const struct rs_key *key, const struct range *r)
{
    size_t n = r->end - r->begin, skipped = r->offset < 0 ? n : (size_t)r->offset;
    skipped = skipped > n ? n : skipped;
    n -= skipped;
    if (r->limit >= 0 && n > (size_t)r->limit)
        n = (size_t)r->limit;
    rs_reply_array(c->reply, r->with_scores ? 2 * n : n);
    for (size_t i = 0; i < n; i++) {
        size_t at = r->reverse ? r->end - 1 - skipped - i : r->begin + skipped + i;
        rs_reply_bulk(c->reply, key->entries[at].name);
        if (r->with_scores)
            rs_reply_double(c->reply, key->entries[at].score);
    }
}

static void range(struct rs_call *c, struct range r)
{
    struct rs_key *key;
    r.limit = -1;
    if (!range_flags(c, &r) || !rs_call_key(c, RS_ZSET, &key))
        return;
    bool swapped = r.by_score && r.reverse;
    if (r.by_score ? find_scores(c, key, c->argv[swapped ? 3 : 2], c->argv[swapped ? 2 : 3], &r)
                   : find_ranks(c, key, &r))
        reply_range(c, key, &r);
}

static void do_zrange(struct rs_call *c)
{
    range(c, (struct range){0});
}

static void do_zrangebyscore(struct rs_call *c)
{
    range(c, (struct range){.by_score = true});
}

static void do_zrevrange(struct rs_call *c)
{
    range(c, (struct range){.reverse = true});
}

static void do_zcount(struct rs_call *c)
{
    struct rs_key *key;
    struct range r;
    if (rs_call_key(c, RS_ZSET, &key) && find_scores(c, key, c->argv[2], c->argv[3], &r))
        rs_reply_integer(c->reply, (int64_t)(r.end - r.begin));
}

static void remove_range(struct rs_call *c, bool by_score)
{
    struct rs_key *key;
    struct range r = {0};
    if (!rs_call_key(c, RS_ZSET, &key))
        return;
    if (!(by_score ? find_scores(c, key, c->argv[2], c->argv[3], &r) : find_ranks(c, key, &r)))
        return;
    for (size_t i = r.begin; i < r.end; i++)
        rs_key_remove(key, &key->entries[r.begin]);
    if (key != NULL)
        rs_store_trim(&c->m->store, key);
    rs_reply_integer(c->reply, (int64_t)(r.end - r.begin));
}

static void do_zremrangebyscore(struct rs_call *c)
{
    remove_range(c, true);
}

static void do_zremrangebyrank(struct rs_call *c)
{
    remove_range(c, false);
}

static void do_zpopmin(struct rs_call *c)
{
    struct rs_key *key;
    struct range r = {.with_scores = true, .limit = -1, .end = 1};
    if (!rs_call_key(c, RS_ZSET, &key))
        return;
    if (key == NULL || key->count == 0)
        r.end = 0;
    reply_range(c, key, &r);
    if (r.end == 0)
        return;
    rs_key_remove(key, &key->entries[0]);
    rs_store_trim(&c->m->store, key);
}

const struct rs_command rs_zset_commands[] = {
    {"ZADD", do_zadd, 4, 0, true, true},
    {"ZREM", do_zrem, 3, 0, true, false},
    {"ZPOPMIN", do_zpopmin, 2, 2, true, false},
    {"ZCARD", do_zcard, 2, 2, false, false},
    {"ZSCORE", do_zscore, 3, 3, false, false},
    {"ZMSCORE", do_zmscore, 3, 0, false, false},
    {"ZRANK", do_zrank, 3, 3, false, false},
    {"ZINCRBY", do_zincrby, 4, 4, true, true},
    {"ZSCAN", do_zscan, 3, 0, false, false},
    {"ZRANGE", do_zrange, 4, 0, false, false},
    {"ZRANGEBYSCORE", do_zrangebyscore, 4, 0, false, false},
    {"ZREVRANGE", do_zrevrange, 4, 0, false, false},
    {"ZCOUNT", do_zcount, 4, 4, false, false},
    {"ZREMRANGEBYSCORE", do_zremrangebyscore, 4, 4, true, false},
    {"ZREMRANGEBYRANK", do_zremrangebyrank, 4, 4, true, false},
    {NULL, NULL, 0, 0, false, false},
};
