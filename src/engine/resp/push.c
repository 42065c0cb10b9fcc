/* SPDX-License-Identifier: Apache-2.0 */
/* Push links: which channels we listen to, subscribed anew after every reconnection. */
#include "engine/resp/link.h"

#include "base/alloc.h"
#include "engine/kit/hash.h"

#include <stdio.h>
#include <string.h>

#define BUCKETS 256
#define BATCH 64 /* channels of one SUBSCRIBE */

struct channel {
    struct channel *next;
    const struct rt_resp_node *node; /* where it was asked for; NULL: nowhere yet */
    const struct rt_resp_node *left; /* where it was given up ... */
    uint32_t leaving;                /* ... this often, and that is not confirmed yet */
    uint32_t place;
    bool over; /* nobody wants it; it stands here to know the confirmations as our own */
    char name[];
};

struct rt_resp_channels {
    struct channel *buckets[BUCKETS];
};

int rt_resp_push_open(struct rt_resp_conn *c)
{
    c->channels = rt_alloc(sizeof(*c->channels));
    return c->channels != NULL ? 0 : ROTA_NOMEM;
}

void rt_resp_push_close(struct rt_resp_conn *c)
{
    if (c->channels == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        while (c->channels->buckets[i] != NULL) {
            struct channel *ch = c->channels->buckets[i];
            c->channels->buckets[i] = ch->next;
            rt_free(ch);
        }
    rt_free(c->channels);
    c->channels = NULL;
}

static struct channel **find(const struct rt_resp_conn *c, const char *name)
{
    struct channel **at = &c->channels->buckets[rt_hash(name, strlen(name)) % BUCKETS];
    while (*at != NULL && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

static bool sharded(const struct rt_resp_conn *c)
{
    return c->cluster;
}

bool rt_resp_push_wanted(const struct rt_resp_conn *c, const struct rt_resp_node *node)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct channel *ch = c->channels->buckets[i]; ch != NULL; ch = ch->next)
            if (!ch->over && c->places[ch->place] == node)
                return true;
    return false;
}

static void forget(struct channel **at)
{
    struct channel *ch = *at;
    *at = ch->next;
    rt_free(ch);
}

/* ---- Sending ------------------------------------------------------------------------------------- */

static void owe(struct rt_resp_link *l, uint32_t more)
{
    struct rt_resp_conn *c = l->conn;
    int64_t now = rt_loop_now(c->base->loop);
    if (l->owed == 0)
        l->owed_since = now;
    l->owed += more;
    int64_t at = now + rt_dial_patience(c->base);
    if (l->timer.timer.slot == 0 || l->timer.timer.at > at)
        rt_timers_start(&c->base->loop->timers, &l->timer.timer, at);
}

/* VERB with N channels; a stream that does not take it is about to end. */
static void ask(struct rt_resp_link *l, const char *verb, struct channel *const *list, size_t n)
{
    struct rt_resp_conn *c = l->conn;
    c->out_size = 0;
    bool good = rt_resp_command(c, 1 + n) && rt_resp_word(c, verb, strlen(verb));
    for (size_t i = 0; good && i < n; i++)
        good = rt_resp_word(c, list[i]->name, strlen(list[i]->name));
    int rv = good ? rt_stream_write(&l->stream, c->out, c->out_size) : ROTA_NOMEM;
    if (rv == 0)
        owe(l, (uint32_t)n);
    else if (rv == ROTA_NOMEM)
        owe(l, 1); /* found missing by the timer, which cuts the link */
    c->out_size = 0;
}

static void subscribe(struct rt_resp_link *l, struct channel *const *list, size_t n)
{
    /* In a cluster one SSUBSCRIBE may name channels of one slot only. */
    size_t at_once = sharded(l->conn) ? 1 : n;
    for (size_t i = 0; i < n; i += at_once)
        ask(l, sharded(l->conn) ? "SSUBSCRIBE" : "SUBSCRIBE", list + i, at_once);
}

/* CHANNEL, which is wanted from now on; NULL: no memory. */
static struct channel *add(struct rt_resp_conn *c, uint32_t place, const char *channel)
{
    struct channel **at = find(c, channel);
    size_t size = strlen(channel) + 1;
    if (*at == NULL) {
        *at = rt_alloc(sizeof(**at) + size);
        if (*at == NULL)
            return NULL;
        memcpy((*at)->name, channel, size);
    }
    (*at)->place = place;
    (*at)->over = false;
    return *at;
}

int rt_resp_subscribe(struct rt_resp_conn *c, uint32_t place, const char *channel)
{
    struct channel *ch = *find(c, channel);
    if (ch != NULL && !ch->over)
        return 0;
    ch = add(c, place, channel);
    if (ch == NULL)
        return ROTA_NOMEM;
    struct rt_resp_node *node = c->places != NULL ? c->places[place] : NULL;
    if (c->places == NULL)
        rt_resp_want(c); /* subscribed when the places are known */
    if (node == NULL)
        return 0;
    if (node->push.state == RT_DIAL_READY) {
        ch->node = node;
        subscribe(&node->push, &ch, 1);
    } else {
        rt_resp_link_want(&node->push);
    }
    return 0;
}

void rt_resp_unsubscribe(struct rt_resp_conn *c, uint32_t place, const char *channel)
{
    struct channel **at = find(c, channel);
    struct channel *ch = *at;
    if (ch == NULL || ch->over)
        return;
    struct rt_resp_node *node = c->places != NULL ? c->places[place] : NULL;
    if (node != NULL && ch->node == node && node->push.state == RT_DIAL_READY) {
        ask(&node->push, sharded(c) ? "SUNSUBSCRIBE" : "UNSUBSCRIBE", &ch, 1);
        ch->leaving = ch->left == node ? ch->leaving + 1 : 1;
        ch->left = node;
    }
    ch->node = NULL;
    ch->over = true;
    if (ch->leaving == 0)
        forget(at);
}

void rt_resp_push_catch_up(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    struct channel *batch[BATCH];
    size_t n = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct channel *ch = c->channels->buckets[i]; ch != NULL; ch = ch->next) {
            if (ch->over || c->places[ch->place] != l->node || ch->node == l->node)
                continue;
            ch->node = l->node;
            batch[n++] = ch;
            if (n == BATCH) {
                subscribe(l, batch, n);
                n = 0;
            }
        }
    if (n > 0)
        subscribe(l, batch, n);
}

/* No flight of its own for AUTH: if that is refused, so is the rest. */
void rt_resp_push_up(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    c->out_size = 0;
    bool good = rt_resp_auth_words(c);
    l->owed = 0;
    l->state = RT_DIAL_READY;
    if (good && c->out_size > 0) {
        good = rt_stream_write(&l->stream, c->out, c->out_size) != ROTA_NOMEM;
        explicit_bzero(c->out, c->out_size);
        owe(l, 1);
    }
    c->out_size = 0;
    if (good)
        rt_resp_push_catch_up(l);
    else
        rt_resp_link_cut(l, "out of memory");
}

/* ---- Hearing ---------------------------------------------------------------------------------------- */

static void paid(struct rt_resp_link *l)
{
    if (l->owed > 0)
        l->owed--;
    l->owed_since = rt_loop_now(l->conn->base->loop);
}

static bool is_word(const redisReply *r, const char *word)
{
    return (r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_STATUS) &&
           strcmp(r->str, word) == 0;
}

/* A subscription has ended: by our wish, or, where we did not give it up, because its slot has moved. */
static void unsubscribed(struct rt_resp_link *l, const redisReply *channel)
{
    struct channel **at = channel->type == REDIS_REPLY_STRING ? find(l->conn, channel->str) : NULL;
    struct channel *ch = at != NULL ? *at : NULL;
    if (ch != NULL && ch->leaving > 0 && ch->left == l->node) {
        paid(l);
        if (--ch->leaving == 0 && ch->over)
            forget(at);
    } else if (ch != NULL && ch->node == l->node) {
        ch->node = NULL;
        rt_resp_cluster_refresh(l->conn);
    } else {
        paid(l);
    }
}

static bool refused(struct rt_resp_link *l, const redisReply *reply)
{
    char text[256];
    int err = rt_resp_explain(l, reply->str, text, sizeof(text));
    /* The work link has told, or will never hear of it: rights on channels. */
    if (err == ROTA_AUTH && strcmp(text, l->said) != 0)
        rt_resp_log(l->conn, ROTA_LOG_ERROR, "%s: grants come late without pushes", text);
    enum rt_resp_class class = rt_resp_classify(reply->str);
    l->pause.ms = class == RT_RESP_FINAL ? 250 : l->pause.ms;
    rt_resp_link_cut(l, "%s", text);
    if (class == RT_RESP_MOVED)
        rt_resp_cluster_refresh(l->conn);
    return true;
}

static bool confirmed(struct rt_resp_link *l, const redisReply *channel)
{
    if (channel->type != REDIS_REPLY_STRING)
        return false;
    paid(l);
    l->pause.ms = 0;
    l->said[0] = '\0'; /* it is well */
    struct channel *ch = *find(l->conn, channel->str);
    bool again = ch != NULL && ch->leaving > 0 && ch->left == l->node; /* a later one counts */
    if (ch != NULL && ch->node == l->node && !again)
        if (l->conn->on->pushed != NULL)
            l->conn->on->pushed(l->conn, l->node, ch->name, NULL, 0);
    return true;
}

bool rt_resp_push_reply(struct rt_resp_link *l, const redisReply *r)
{
    l->heard = true;
    if (r->type == REDIS_REPLY_ERROR)
        return refused(l, r);
    if (r->type == REDIS_REPLY_STATUS) { /* of AUTH, or of PING without a subscription */
        paid(l);
        return true;
    }
    if (r->type != REDIS_REPLY_ARRAY || r->elements < 2)
        return false;
    const redisReply *kind = r->element[0], *channel = r->element[1];
    if (is_word(kind, "pong")) {
        paid(l);
        return true;
    }
    if (r->elements != 3)
        return false;
    if (is_word(kind, "message") || is_word(kind, "smessage")) {
        const redisReply *message = r->element[2];
        if (channel->type != REDIS_REPLY_STRING || message->type != REDIS_REPLY_STRING)
            return false;
        if (l->conn->on->pushed != NULL)
            l->conn->on->pushed(l->conn, l->node, channel->str, message->str, message->len);
        return true;
    }
    if (is_word(kind, "subscribe") || is_word(kind, "ssubscribe"))
        return confirmed(l, channel);
    if (!is_word(kind, "unsubscribe") && !is_word(kind, "sunsubscribe"))
        return false;
    unsubscribed(l, channel);
    return true;
}

void rt_resp_push_lost(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    if (c->closing)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct channel **at = &c->channels->buckets[i]; *at != NULL;) {
            struct channel *ch = *at;
            if (ch->node == l->node)
                ch->node = NULL;
            if (ch->left == l->node)
                ch->leaving = 0;
            if (ch->over && ch->leaving == 0)
                forget(at);
            else
                at = &ch->next;
        }
    l->wanted = !l->node->gone && c->places != NULL && rt_resp_push_wanted(c, l->node);
    if (l->wanted)
        rt_resp_link_want(l);
}

/* ---- Whether the other end is still there --------------------------------------------------------------- */

void rt_resp_push_tick(struct rt_resp_link *l, int64_t now)
{
    struct rt_resp_conn *c = l->conn;
    int64_t period = c->base->ttl_ms * RT_MS / 3;
    if (l->state != RT_DIAL_READY)
        return;
    if (l->owed > 0 && now - l->owed_since >= rt_dial_patience(c->base)) {
        rt_resp_link_cut(l, "redis %s does not answer on the push link", rt_resp_at(l));
        return;
    }
    /* A half-open connection must not keep a waiter waiting for long. If nobody waits, nothing is sent. */
    if (l->owed == 0 && !l->heard && c->on->listens != NULL && c->on->listens(c, l->node)) {
        ask(l, "PING", NULL, 0);
        owe(l, 1);
    }
    l->heard = false;
    int64_t at = l->owed > 0 ? l->owed_since + rt_dial_patience(c->base) : now + period;
    rt_timers_start(&c->base->loop->timers, &l->timer.timer, at);
}
