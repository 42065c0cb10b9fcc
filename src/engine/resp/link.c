/* SPDX-License-Identifier: Apache-2.0 */
/* Links: one connection to a server each; dialed, greeted, cut, dialed again. */
#include "engine/resp/link.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"link", "push link", "link for WAIT", "sentinel"};

static void on_closed(struct rt_stream *s);

static struct rt_resp_link *of_stream(struct rt_stream *s)
{
    return (struct rt_resp_link *)(void *)s;
}

const char *rt_resp_at(const struct rt_resp_link *l)
{
    return l->node->at;
}

bool rt_resp_link_usable(const struct rt_resp_link *l)
{
    return l->state == RT_DIAL_READY && !l->sick && l->conn->checked;
}

/* How many hosts of the URL may be the right one: while that is looked for, each gets its share of the time. */
static size_t candidates(const struct rt_resp_link *l)
{
    const struct rt_resp_conn *c = l->conn;
    bool seeks = l->kind == RT_RESP_SENTINEL ||
                 (l->kind == RT_RESP_WORK && c->places == NULL && c->sentinel == NULL);
    return seeks && c->ring.count > 1 ? c->ring.count : 1;
}

int64_t rt_resp_link_patience(const struct rt_resp_link *l)
{
    int64_t patience = rt_dial_patience(l->conn->base);
    int64_t part = rt_dial_connect_ms(l->conn->base, candidates(l)) * RT_MS;
    return candidates(l) > 1 && l->state != RT_DIAL_READY && part < patience ? part : patience;
}

/* ---- Hearing ------------------------------------------------------------------------------------- */

static bool dispatch(struct rt_resp_link *l, const redisReply *reply)
{
    if (l->kind == RT_RESP_PUSH)
        return rt_resp_push_reply(l, reply);
    if (l->kind == RT_RESP_SENTINEL)
        return rt_resp_sentinel_reply(l, reply);
    return rt_resp_link_reply(l, reply);
}

static void not_understood(struct rt_resp_link *l, const char *why)
{
    if (l->conn->places == NULL && l->state == RT_DIAL_GREETING && l->kind == RT_RESP_WORK)
        rt_resp_fatal(l, ROTA_PROTOCOL, "%s: %s: is that a Redis server?", rt_resp_at(l), why);
    else
        rt_resp_link_cut(l, "redis %s: %s", rt_resp_at(l), why);
}

/* Nothing was heard since we greeted it without TLS: it may speak nothing else. */
static bool may_be_tls(const struct rt_resp_link *l)
{
    return !l->conn->secure && l->conn->unix_path == NULL && l->kind == RT_RESP_WORK &&
           l->state == RT_DIAL_GREETING && l->head != NULL && l->next == l->head;
}

static void on_data(struct rt_stream *s, const char *bytes, size_t n)
{
    struct rt_resp_link *l = of_stream(s);
    redisReply *reply;
    const char *why;
    if (n >= 2 && bytes[0] == 0x15 && bytes[1] == 3 && may_be_tls(l)) { /* an alert */
        rt_resp_fatal(l, ROTA_PROTOCOL, "%s speaks TLS: write %ss://", rt_resp_at(l),
                      l->conn->on->name);
        return;
    }
    if (redisReaderFeed(l->reader, bytes, n) != REDIS_OK) {
        rt_resp_link_cut(l, "out of memory");
        return;
    }
    while (l->state != RT_DIAL_DOWN) {
        int rv = rt_resp_reader_next(l, &reply, &why);
        if (rv == ROTA_NOMEM)
            rt_resp_link_cut(l, "out of memory");
        else if (rv != 0)
            not_understood(l, why);
        if (rv != 0)
            return;
        if (reply == NULL)
            break;
        if (!dispatch(l, reply) && l->state != RT_DIAL_DOWN) {
            not_understood(l, "it answered something else than it was asked");
            return;
        }
    }
    if (l->state == RT_DIAL_DOWN || l->next != NULL)
        return;
    if (l->unsure) { /* and nothing follows that could make it sure */
        if (rt_resp_link_echo(l, false) == ROTA_NOMEM)
            rt_resp_link_cut(l, "out of memory");
    } else if (l->sick) {
        char trouble[sizeof(l->conn->last_trouble)];
        memcpy(trouble, l->conn->last_trouble, sizeof(trouble));
        rt_resp_link_cut(l, "%s", trouble);
    }
}

/* ---- Up and down ---------------------------------------------------------------------------------------- */

static void on_up(struct rt_stream *s)
{
    struct rt_resp_link *l = of_stream(s);
    if (rt_resp_reader_open(l) != 0) {
        rt_resp_link_cut(l, "out of memory");
        return;
    }
    l->state = RT_DIAL_GREETING;
    if (l->kind == RT_RESP_PUSH)
        rt_resp_push_up(l);
    else if (l->kind == RT_RESP_SENTINEL)
        rt_resp_sentinel_up(l);
    else
        rt_resp_greet_begin(l);
}

static void tell_link(struct rt_resp_link *l, bool up)
{
    if (l->kind == RT_RESP_WORK)
        if (l->conn->on->link != NULL)
            l->conn->on->link(l->conn, up);
}

static void drop_flying(struct rt_resp_link *l, const char *why)
{
    struct rt_resp_request *all = l->head;
    l->head = l->next = NULL;
    l->tail = &l->head;
    while (all != NULL) {
        struct rt_resp_request *rq = all;
        all = rq->next;
        if (!rt_resp_is_open(rq)) {
            rt_resp_request_free(rq);
            continue;
        }
        rt_free(rq->error); /* it was not believed, and is not the answer to its next try */
        rq->error = NULL;
    }
    rt_ledger_lost(&l->conn->ledger, l, why);
}

/* Told once, not each time that it fails in the same way until it was well, whatever other links say between; nor if
 * another has just said the same. A sentinel that was left is no trouble: the next is asked. */
static void note_trouble(struct rt_resp_link *l, const char *why, bool was_ready)
{
    struct rt_resp_conn *c = l->conn;
    bool sentinel = l->kind == RT_RESP_SENTINEL;
    bool named = strstr(why, rt_resp_at(l)) != NULL; /* whom it is about stands there once */
    if (strcmp(why, l->said) != 0 && (was_ready || strcmp(why, c->last_trouble) != 0))
        rt_resp_log(c, sentinel && was_ready ? ROTA_LOG_TRACE : rt_dial_level(&c->outage),
                    "redis: %s%s%s: %s", kinds[l->kind], named ? "" : " to ",
                    named ? "" : rt_resp_at(l), why);
    snprintf(l->said, sizeof(l->said), "%s", why);
    if (why != c->last_trouble && !(sentinel && was_ready))
        snprintf(c->last_trouble, sizeof(c->last_trouble), "%s", why);
}

/* The connection's end, whatever comes after it. RETIRED: by us, which is no trouble to tell of. */
static void let_go(struct rt_resp_link *l, const char *why, bool retired)
{
    struct rt_resp_conn *c = l->conn;
    bool was_ready = l->state == RT_DIAL_READY;
    if (l->state == RT_DIAL_DOWN) {
        rt_timers_stop(&c->base->loop->timers, &l->timer.timer);
        return;
    }
    l->state = RT_DIAL_DOWN;
    l->sick = l->loading = l->unsure = false;
    rt_timers_stop(&c->base->loop->timers, &l->timer.timer);
    if (l->stream.state != RT_STREAM_IDLE) {
        rt_stream_close(&l->stream, on_closed);
        l->closing = true;
    }
    rt_resp_reader_close(l);
    rt_resp_greet_end(l);
    if (c->closing) {
        drop_flying(l, why);
        return;
    }
    if (!retired)
        note_trouble(l, why, was_ready);
    rt_dial_later(&l->pause, c->base, &c->jitter);
    if (was_ready)
        tell_link(l, false);
    drop_flying(l, why);
}

void rt_resp_link_cut(struct rt_resp_link *l, const char *format, ...)
{
    char why[256];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    let_go(l, why, false);
    if (l->kind == RT_RESP_PUSH)
        rt_resp_push_lost(l);
    else if (l->kind == RT_RESP_WAIT)
        rt_resp_wait_lost(l);
    else if (l->kind == RT_RESP_SENTINEL)
        rt_resp_sentinel_lost(l);
    else
        rt_resp_node_lost(l);
}

void rt_resp_fatal(struct rt_resp_link *l, int err, const char *format, ...)
{
    struct rt_resp_conn *c = l->conn;
    char text[sizeof(c->fatal_text)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    l->wanted = c->outage = false; /* a refusal is another matter than the outage */
    l->pause.ms = RT_DIAL_REFUSED_MS;
    if (l->kind == RT_RESP_WAIT) { /* the others may still be good */
        let_go(l, text, false);
        rt_resp_wait_refused(l, err, text);
        return;
    }
    memcpy(c->fatal_text, text, sizeof(text));
    c->fatal = err;
    let_go(l, c->fatal_text, false);
    rt_ledger_refuse(&c->ledger, err, c->fatal_text);
    if (c->on->failed != NULL)
        c->on->failed(c);
}

static void on_down(struct rt_stream *s, int err, const char *why)
{
    struct rt_resp_link *l = of_stream(s);
    if ((err == ROTA_AUTH || err == ROTA_PROTOCOL) && l->kind == RT_RESP_WORK)
        rt_resp_fatal(l, err, "%s", why);
    else if (may_be_tls(l))
        rt_resp_link_cut(l, "%s: if it speaks TLS, write %ss://", why, l->conn->on->name);
    else
        rt_resp_link_cut(l, "%s", why);
}

/* ---- Dialing ---------------------------------------------------------------------------------------------- */

static const struct rt_stream_user stream_user = {on_up, on_data, on_down};

static void dial(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    struct rt_stream_target target = {.unix_path = c->unix_path,
                                      .host = c->unix_path == NULL ? l->node->host : NULL,
                                      .port = l->node->port,
                                      .tls = c->tls};
    if (l->kind == RT_RESP_WORK)
        c->fatal = 0;
    int rv = rt_stream_open(&l->stream, c->base->loop, &target, &stream_user,
                            rt_dial_connect_ms(c->base, candidates(l)));
    if (rv == 0) {
        l->state = RT_DIAL_DIALING;
        l->node->streams++;
        return;
    }
    snprintf(c->last_trouble, sizeof(c->last_trouble), "redis %.180s cannot be dialed: %s",
             rt_resp_at(l), rota_strerror(rv));
    rt_dial_later(&l->pause, c->base, &c->jitter);
    rt_timers_start(&c->base->loop->timers, &l->timer.timer, l->pause.until);
}

void rt_resp_link_want(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    l->wanted = true;
    if (l->state != RT_DIAL_DOWN || l->closing || c->closing)
        return;
    if (l->node->host[0] == '\0') { /* Sentinel: to be asked where it is */
        rt_resp_sentinel_ask(c, 0);
        return;
    }
    if (l->pause.until <= rt_loop_now(c->base->loop))
        dial(l);
    else if (l->timer.timer.slot == 0)
        rt_timers_start(&c->base->loop->timers, &l->timer.timer, l->pause.until);
}

static void on_closed(struct rt_stream *s)
{
    struct rt_resp_link *l = of_stream(s);
    l->closing = false;
    bool gone = l->node->gone;
    rt_resp_node_freed_stream(l->node);
    if (!gone && l->wanted)
        rt_resp_link_want(l);
}

/* Lazy: fires at the time of what may long have been answered, and looks. */
static void on_timer(struct rt_timer_call *call, int64_t now)
{
    struct rt_resp_link *l = (struct rt_resp_link *)((char *)call -
                                                     offsetof(struct rt_resp_link, timer));
    struct rt_resp_conn *c = l->conn;
    if (l->kind == RT_RESP_WAIT)
        rt_resp_wait_tick(l, now);
    if (l->state == RT_DIAL_DOWN) {
        if (l->wanted)
            rt_resp_link_want(l);
        return;
    }
    if (l->kind == RT_RESP_PUSH) {
        rt_resp_push_tick(l, now);
        return;
    }
    if (l->next == NULL)
        return;
    int64_t patience = rt_resp_link_patience(l), until = l->next->sent_at + patience;
    if (until > now)
        rt_timers_start(&c->base->loop->timers, &l->timer.timer, until);
    else
        rt_resp_link_cut(l, "redis %s did not answer within %lld ms", rt_resp_at(l),
                         (long long)(patience / RT_MS));
}

void rt_resp_link_ready(struct rt_resp_link *l)
{
    l->state = RT_DIAL_READY;
    l->pause.ms = 0;
    l->said[0] = '\0';
    l->conn->outage = false;
    rt_resp_log(l->conn, l->kind == RT_RESP_SENTINEL ? ROTA_LOG_TRACE : ROTA_LOG_INFO,
                "redis: %s to %s is up", kinds[l->kind], rt_resp_at(l));
    tell_link(l, true);
}

void rt_resp_link_init(struct rt_resp_link *l, struct rt_resp_conn *c, struct rt_resp_node *node,
                       enum rt_resp_link_kind kind)
{
    l->conn = c;
    l->node = node;
    l->kind = kind;
    l->tail = &l->head;
    l->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = on_timer};
}

void rt_resp_link_close(struct rt_resp_link *l)
{
    l->wanted = false;
    let_go(l, "not needed any more", true);
    if (l->kind == RT_RESP_WAIT)
        rt_resp_wait_lost(l);
    else if (l->kind == RT_RESP_PUSH)
        rt_resp_push_lost(l); /* its node may be gone, and another one at the same address */
}
