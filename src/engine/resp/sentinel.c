/* SPDX-License-Identifier: Apache-2.0 */
/* Sentinel: where the primary is, asked when it is lost and heard of when it changes.
 *
 * The hosts of the URL are sentinels. One is asked at a time; the connection then listens for
 * +switch-master, so that a primary which nobody but us still believes in is left as soon as the
 * sentinels have another. When the primary is lost, the next sentinel is asked. */
#include "engine/resp/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rt_resp_sentinel_open(struct rt_resp_conn *c)
{
    c->watcher = rt_resp_node_new(c, c->ring.ends[0].host, c->ring.ends[0].port);
    if (c->watcher == NULL)
        return ROTA_NOMEM;
    c->nodes = c->watcher->next; /* it has no place: not one of them */
    c->watcher->next = NULL;
    c->watcher->work.kind = RT_RESP_SENTINEL;
    return 0;
}

static void try_next(struct rt_resp_conn *c)
{
    const struct rt_dial_end *end = rt_dial_next(&c->ring);
    rt_resp_node_move(c, c->watcher, end->host, end->port);
}

void rt_resp_sentinel_ask(struct rt_resp_conn *c, int64_t not_before)
{
    struct rt_resp_link *l = &c->watcher->work;
    if (l->state == RT_DIAL_READY) /* it listens and can be asked nothing more */
        rt_resp_link_cut(l, "the primary was lost: the next sentinel is asked");
    if (l->pause.until < not_before)
        l->pause.until = not_before;
    rt_resp_link_want(l);
}

void rt_resp_sentinel_lost(struct rt_resp_link *l)
{
    try_next(l->conn);
    rt_resp_link_want(l);
}

void rt_resp_sentinel_up(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    const char *ask[] = {"SENTINEL", "get-master-addr-by-name", c->sentinel};
    static const char *const listen[] = {"SUBSCRIBE", "+switch-master"};
    int rv = 0;
    if (l->ask_auth) /* only those who asked for it get our password */
        rv = rt_resp_greet_auth(l);
    l->asked_auth = l->ask_auth;
    l->ask_auth = false;
    if (rv == 0)
        rv = rt_resp_link_say(l, RT_RESP_GREET, RT_RESP_GREET_SENTINEL, ask, 3);
    if (rv == 0)
        rv = rt_resp_link_say(l, RT_RESP_GREET, RT_RESP_GREET_SENTINEL, listen, 2);
    if (rv == ROTA_NOMEM)
        rt_resp_link_cut(l, "out of memory");
}

/* The primary is at HOST:PORT. */
static void found(struct rt_resp_conn *c, const char *host, const char *port_text)
{
    struct rt_resp_node *n = c->nodes;
    unsigned long port = strtoul(port_text, NULL, 10);
    if (port == 0 || port > UINT16_MAX || host[0] == '\0' || strlen(host) >= sizeof(n->host))
        return;
    if (strcmp(n->host, host) != 0 || n->port != port) {
        rt_resp_log(c, ROTA_LOG_INFO, "redis: the primary %s is %s:%lu", c->sentinel, host, port);
        rt_resp_node_leave(n, "it is not the primary any more");
        rt_resp_node_move(c, n, host, (uint16_t)port);
        n->work.pause.until = 0;
    }
    rt_resp_link_want(&n->work);
}

static void unknown(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    if (++c->sentinels_without < c->ring.count) {
        rt_resp_link_cut(l, "the sentinel %s knows no primary named %.60s", rt_resp_at(l),
                         c->sentinel);
        return;
    }
    c->sentinels_without = 0;
    try_next(c);
    rt_resp_fatal(l, ROTA_INVALID,
                  "no sentinel knows a primary named %.60s: correct ?sentinel=", c->sentinel);
}

static void sentinel_error(struct rt_resp_link *l, const char *error)
{
    struct rt_resp_conn *c = l->conn;
    char text[256];
    if (strncmp(error, "NOAUTH", 6) == 0 && !l->asked_auth &&
        (c->password != NULL || c->user != NULL)) {
        rt_resp_link_cut(l, "the sentinel %s asks for a password", rt_resp_at(l));
        l->ask_auth = true; /* the next one too: they are alike */
        return;
    }
    int err = rt_resp_explain(l, error, text, sizeof(text));
    if (strstr(error, "unknown command") != NULL)
        rt_resp_fatal(l, ROTA_INVALID, "redis %s is no Sentinel: leave ?sentinel= out",
                      rt_resp_at(l));
    else if (err == ROTA_AUTH)
        rt_resp_fatal(l, err, "sentinel: %s", text);
    else
        rt_resp_link_cut(l, "sentinel: %s", text);
}

/* An address, a confirmation, or news: told apart by their form. */
bool rt_resp_sentinel_reply(struct rt_resp_link *l, const redisReply *r)
{
    struct rt_resp_conn *c = l->conn;
    if (l->head != NULL) {
        rt_resp_request_free(rt_resp_link_pop(l));
        l->next = l->head;
    }
    if (r->type == REDIS_REPLY_ERROR) {
        sentinel_error(l, r->str);
        return true;
    }
    if (r->type == REDIS_REPLY_STATUS)
        return true; /* of AUTH */
    if (r->type == REDIS_REPLY_NIL || (r->type == REDIS_REPLY_ARRAY && r->elements == 0)) {
        unknown(l);
        return true;
    }
    if (r->type != REDIS_REPLY_ARRAY || r->elements < 2 ||
        r->element[0]->type != REDIS_REPLY_STRING || r->element[1]->type != REDIS_REPLY_STRING)
        return false;
    if (r->elements == 2) {
        c->sentinels_without = 0;
        found(c, r->element[0]->str, r->element[1]->str);
        return true;
    }
    if (strcmp(r->element[0]->str, "subscribe") == 0) {
        rt_resp_link_ready(l);
        return true;
    }
    if (r->elements != 3 || r->element[2]->type != REDIS_REPLY_STRING)
        return false;
    char name[128], host[256], port[16]; /* NAME OLD-IP OLD-PORT NEW-IP NEW-PORT */
    if (sscanf(r->element[2]->str, "%127s %*s %*s %255s %15s", name, host, port) == 3 &&
        strcmp(name, c->sentinel) == 0)
        found(c, host, port);
    return true;
}
