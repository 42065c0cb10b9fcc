/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on their way over a link, in their order, and replies in their place.
 *
 * RESP has no request ids. A script's reply begins with its request's tag; a reply that is not in its
 * place cuts the link. An error has no tag: it is believed when the next tagged reply is in its
 * place, and where nothing follows it, an ECHO is sent to be that. */
#include "engine/resp/link.h"

#include "base/alloc.h"
#include "base/bug.h"

#include <string.h>

#define ERROR_KEPT 400 /* bytes of an error reply */

/* ---- The FIFO --------------------------------------------------------------------------------- */

static void append(struct rt_resp_link *l, struct rt_resp_request *rq)
{
    rq->next = NULL;
    rq->sent_at = rt_loop_now(l->conn->base->loop);
    *l->tail = rq;
    l->tail = &rq->next;
    if (l->next == NULL)
        l->next = rq;
    if (l->timer.timer.slot == 0) /* lazily: it looks what is owed when it fires */
        rt_timers_start(&l->conn->base->loop->timers, &l->timer.timer,
                        rq->sent_at + rt_resp_link_patience(l));
}

struct rt_resp_request *rt_resp_link_pop(struct rt_resp_link *l)
{
    struct rt_resp_request *rq = l->head;
    l->head = rq->next;
    if (l->head == NULL)
        l->tail = &l->head;
    rq->next = NULL;
    return rq;
}

/* What c->out has leaves with the next flush. */
static int write_out(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    int rv = rt_stream_write(&l->stream, c->out, c->out_size);
    c->out_size = 0;
    return rv;
}

int rt_resp_link_put(struct rt_resp_link *l, struct rt_resp_request *rq)
{
    int rv = rq != NULL ? write_out(l) : ROTA_NOMEM;
    l->conn->out_size = 0;
    if (rv == 0)
        append(l, rq);
    else if (rq != NULL)
        rt_resp_request_free(rq);
    return rv;
}

int rt_resp_link_say(struct rt_resp_link *l, enum rt_resp_what what, uint32_t which,
                     const char *const *words, size_t n)
{
    bool good = rt_resp_words(l->conn, words, n);
    return rt_resp_link_put(l, good ? rt_resp_request_bare((uint8_t)what, which) : NULL);
}

int rt_resp_link_echo(struct rt_resp_link *l, bool greeting)
{
    struct rt_resp_conn *c = l->conn;
    struct rt_resp_request *rq = rt_resp_request_bare(RT_RESP_ECHO, greeting);
    if (rq == NULL)
        return ROTA_NOMEM;
    rq->tag = ++c->next_tag;
    if (!rt_resp_command(c, 2) || !rt_resp_word(c, "ECHO", 4) || !rt_resp_number(c, rq->tag)) {
        c->out_size = 0;
        rt_resp_request_free(rq);
        return ROTA_NOMEM;
    }
    return rt_resp_link_put(l, rq);
}

/* ---- Script calls -------------------------------------------------------------------------------- */

static bool format_call(struct rt_resp_conn *c, const struct rt_resp_request *rq)
{
    struct rt_resp_text t = c->on->text(c, rq->script);
    const char *key = c->on->key(c, rq);
    bool good = rt_resp_command(c, 5 + rq->argc) &&
                rt_resp_word(c, rq->eval ? "EVAL" : "EVALSHA", rq->eval ? 4 : 7) &&
                rt_resp_word(c, rq->eval ? t.text : t.sha1, rq->eval ? t.length : 40) &&
                rt_resp_word(c, "1", 1) && rt_resp_word(c, key, strlen(key)) &&
                rt_resp_number(c, rq->tag);
    for (size_t i = 0; good && i < rq->argc; i++)
        good = rt_resp_word(c, rq->args[i], rq->lengths[i]);
    return good;
}

/* Redis 7 writes to its clients in the reverse order of their first output of a round. With a PONG of
 * ours there before the script speaks to the next in line, that one is woken before we are: on a
 * busy machine that is half of a hand-over. Where the order is different it costs a few bytes. */
static bool speak_last(struct rt_resp_link *l, struct rt_resp_request *rq)
{
    static const char *const words[] = {"PING"};
    bool last = rq->speaks_last;
    rq->speaks_last = false;
    return !last || rt_resp_link_say(l, RT_RESP_ASIDE, 0, words, 1) == 0;
}

/* 0 or why not; RQ is the caller's then. */
static int send_call(struct rt_resp_link *l, struct rt_resp_request *rq)
{
    struct rt_resp_conn *c = l->conn;
    int rv = ROTA_NOMEM;
    c->out_size = 0;
    if (!speak_last(l, rq))
        return ROTA_UNREACHABLE;
    rq->tag = ++c->next_tag;
    if (format_call(c, rq))
        rv = write_out(l);
    c->out_size = 0;
    if (rv == 0)
        append(l, rq);
    return rv;
}

int rt_resp_link_send(struct rt_resp_link *l, struct rt_resp_request *rq)
{
    int rv = send_call(l, rq);
    return rv == 0 || rv == ROTA_NOMEM ? rv : ROTA_UNREACHABLE;
}

/* The server has forgotten its scripts: it gets them all, besides the one that was asked for. */
static void load_scripts(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    bool good = true;
    if (l->loading)
        return;
    l->loading = true;
    for (int i = 0; good && i < c->on->scripts; i++) {
        struct rt_resp_text t = c->on->text(c, i);
        good = rt_resp_command(c, 3) && rt_resp_word(c, "SCRIPT", 6) &&
               rt_resp_word(c, "LOAD", 4) && rt_resp_word(c, t.text, t.length);
        struct rt_resp_request *rq = good ? rt_resp_request_bare(RT_RESP_ASIDE,
                                                                 i + 1 == c->on->scripts)
                                          : NULL;
        good = rt_resp_link_put(l, rq) == 0;
    }
    if (!good)
        l->loading = false;
}

/* ---- Believed replies -------------------------------------------------------------------------------- */

/* An error that is believed: it had no effect. Goes to where its place is by now. */
static void again(struct rt_resp_conn *c, struct rt_resp_request *rq)
{
    rt_free(rq->error);
    rq->error = NULL;
    (void)rt_ledger_resend(&c->ledger, &rq->entry);
}

static void fell_sick(struct rt_resp_link *l, const char *error)
{
    struct rt_resp_conn *c = l->conn;
    if (!l->sick)
        (void)rt_resp_explain(l, error, c->last_trouble, sizeof(c->last_trouble));
    l->sick = true;
}

static bool may_have_done(const struct rt_resp_link *l, const struct rt_resp_request *rq)
{
    return rq->traced && rt_resp_half_done(l->conn, rq->error);
}

static void call_failed(struct rt_resp_link *l, struct rt_resp_request *rq)
{
    struct rt_resp_conn *c = l->conn;
    enum rt_resp_class class = rt_resp_classify(rq->error);
    if (!rt_resp_is_open(rq)) { /* nobody waits for it: must not be done any more */
        rt_resp_request_free(rq);
    } else if (class == RT_RESP_NOSCRIPT && !rq->eval) {
        rq->eval = true;
        again(c, rq);
        load_scripts(l);
    } else if (class == RT_RESP_MOVED && c->cluster) {
        rt_resp_cluster_moved(l, rq);
        again(c, rq);
    } else if (class == RT_RESP_SICK && !may_have_done(l, rq)) {
        fell_sick(l, rq->error);
        again(c, rq);
    } else {
        int err = rt_resp_explain(l, rq->error, c->base->errmsg, sizeof(c->base->errmsg));
        if (may_have_done(l, rq)) {
            rq->refusal = class == RT_RESP_FINAL ? err : 0;
            err = ROTA_UNKNOWN;
        }
        rt_resp_answer(c, rq, err, 0, NULL);
        rt_resp_request_free(rq);
    }
}

static void meta_failed(struct rt_resp_link *l, struct rt_resp_request *rq)
{
    if (rt_resp_classify(rq->error) == RT_RESP_NOSCRIPT && !rq->eval) {
        rt_free(rq->error);
        rq->error = NULL;
        rq->eval = true;
        int rv = send_call(l, rq);
        if (rv == 0)
            load_scripts(l);
        else
            rt_resp_request_free(rq);
        if (rv == ROTA_NOMEM)
            rt_resp_link_cut(l, "out of memory");
        return;
    }
    char *error = rq->error;
    rq->error = NULL;
    rt_resp_request_free(rq);
    rt_resp_greet_meta(l, NULL, error);
    rt_free(error);
}

static void wait_failed(struct rt_resp_link *l, struct rt_resp_request *rq)
{
    char why[256];
    int err = rt_resp_explain(l, rq->error, why, sizeof(why));
    bool sick = rt_resp_classify(rq->error) != RT_RESP_FINAL;
    rt_resp_request_free(rq);
    if (sick)
        rt_resp_link_cut(l, "%s", why);
    else
        rt_resp_wait_refused(l, err, why);
}

static void settle(struct rt_resp_link *l, struct rt_resp_request *rq, const redisReply *reply)
{
    if (rq->error != NULL && rq->what == RT_RESP_CALL) {
        call_failed(l, rq);
        return;
    }
    if (rq->error != NULL && rq->what == RT_RESP_META) {
        meta_failed(l, rq);
        return;
    }
    if (rq->error != NULL && rq->what == RT_RESP_REPLICAS) {
        wait_failed(l, rq);
        return;
    }
    uint8_t what = rq->what;
    bool marked = rq->which != 0; /* the last of its kind */
    if (what == RT_RESP_CALL)
        rt_resp_answer(l->conn, rq, 0,
                       reply->type == REDIS_REPLY_ARRAY ? (int)reply->element[1]->integer : 0,
                       reply);
    else if (what == RT_RESP_ASIDE && marked)
        l->loading = false;
    rt_resp_request_free(rq);
    if (what == RT_RESP_META)
        rt_resp_greet_meta(l, reply, NULL);
    else if (what == RT_RESP_ECHO && marked)
        rt_resp_greet_confirmed(l);
    else if (what == RT_RESP_REPLICAS)
        rt_resp_wait_reply(l, reply->integer);
}

/* UPTO's reply was in its place, so all before it were. */
static void confirm(struct rt_resp_link *l, struct rt_resp_request *upto, const redisReply *reply)
{
    struct rt_resp_request *rq;
    l->next = upto->next;
    l->unsure = false;
    do {
        rq = rt_resp_link_pop(l);
        settle(l, rq, rq == upto ? reply : NULL);
    } while (rq != upto && l->state != RT_DIAL_DOWN);
}

/* ---- Replies as they come -------------------------------------------------------------------------------- */

/* The first SIZE bytes of R, which may be NULL, are TAG. */
static bool begins_with_tag(const redisReply *r, size_t size, uint64_t tag)
{
    uint64_t value = 0;
    if (r == NULL || r->type != REDIS_REPLY_STRING || size == 0 || size > 20)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (r->str[i] < '0' || r->str[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(r->str[i] - '0');
    }
    return value == tag || RT_BUG(RT_BUG_TAG_NOT_CHECKED);
}

static bool is_tag(const redisReply *r, uint64_t tag)
{
    return begins_with_tag(r, r != NULL ? r->len : 0, tag);
}

/* {tag, status, ...}; or, from a plain join or leave, "TAG NUMBER" or "TAG": a table costs the server
 * as much as a call. */
static bool is_ours(const redisReply *r, uint64_t tag)
{
    if (r->type == REDIS_REPLY_STRING)
        return begins_with_tag(r, strcspn(r->str, " "), tag);
    if (r->type != REDIS_REPLY_ARRAY || r->elements < 2 || !is_tag(r->element[0], tag) ||
        r->element[1]->type != REDIS_REPLY_INTEGER)
        return false;
    for (size_t i = 2; i < r->elements; i++)
        if (r->element[i]->type != REDIS_REPLY_INTEGER && r->element[i]->type != REDIS_REPLY_STRING)
            return false;
    return true;
}

static bool take_error(struct rt_resp_link *l, struct rt_resp_request *rq, const redisReply *reply)
{
    if (rq->what == RT_RESP_ECHO) {
        /* Servers that refuse everything for now, or us altogether, refuse this too. */
        if (l->state == RT_DIAL_GREETING && rq->which != 0)
            (void)rt_resp_greet_reply(l, RT_RESP_GREET_ECHO, reply);
        else if (rt_resp_classify(reply->str) != RT_RESP_SICK)
            return false;
        confirm(l, rq, reply);
        return true;
    }
    l->next = rq->next;
    if (rq->what == RT_RESP_ASIDE)
        return true;
    if (rq->what == RT_RESP_GREET)
        return rt_resp_greet_reply(l, rq->which, reply);
    size_t size = reply->len < ERROR_KEPT ? reply->len : ERROR_KEPT;
    rq->error = rt_alloc(size + 1);
    if (rq->error == NULL) {
        rt_resp_link_cut(l, "out of memory");
        return true;
    }
    memcpy(rq->error, reply->str, size);
    l->unsure = true;
    return true;
}

bool rt_resp_link_reply(struct rt_resp_link *l, const redisReply *reply)
{
    struct rt_resp_request *rq = l->next;
    if (rq == NULL)
        return false;
    if (reply->type == REDIS_REPLY_ERROR)
        return take_error(l, rq, reply);
    switch (rq->what) {
    case RT_RESP_GREET:
        l->next = rq->next;
        return rt_resp_greet_reply(l, rq->which, reply);
    case RT_RESP_ASIDE:
        l->next = rq->next;
        return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
    case RT_RESP_ECHO:
        if (!is_tag(reply, rq->tag))
            return false;
        break;
    case RT_RESP_REPLICAS:
        if (reply->type != REDIS_REPLY_INTEGER)
            return false;
        break;
    default:
        if (!is_ours(reply, rq->tag))
            return false;
    }
    confirm(l, rq, reply);
    return true;
}
