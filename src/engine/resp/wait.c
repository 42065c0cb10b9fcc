/* SPDX-License-Identifier: Apache-2.0 */
/* ?replicas=n: a grant is reported when n replicas have it.
 *
 * WAIT blocks its connection, so it has one of its own. It waits for what the server had written
 * when that connection's last command ran: a PING before it makes that everything until now. One WAIT
 * is under way at a time and serves all who asked before it was sent. */
#include "engine/resp/link.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

#define EARLY (2 * RT_MS) /* how much before our clock the server may end a WAIT */

struct rt_resp_waiter {
    struct rt_resp_waiter *next;
    void (*fn)(struct rt_resp_conn *c, void *arg, int err);
    void *arg;
    int64_t deadline;
    bool sent;
};

/* Tells all, or only those whose WAIT was answered and (ERR) whose time is over by NOW. WHY: of ERR, which is not 0
 * then, or NULL: there are too few replicas. */
static void end_some(struct rt_resp_link *l, bool all, int64_t now, int err, const char *why)
{
    struct rt_resp_conn *c = l->conn;
    struct rt_resp_waiter *over = NULL, **tail = &over;
    for (struct rt_resp_waiter **at = &l->waiters; *at != NULL;) {
        struct rt_resp_waiter *w = *at;
        if (!all && (!w->sent || (err != 0 && w->deadline > now))) {
            w->sent = false;
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = NULL;
        *tail = w;
        tail = &w->next;
    }
    while (over != NULL) {
        struct rt_resp_waiter *w = over;
        over = w->next;
        if (why != NULL)
            (void)rt_resp_fail(c, err, "%s", why);
        else if (err != 0)
            (void)rt_resp_fail(c, err, "redis %s has fewer than %u replicas that keep up",
                               rt_resp_at(l), c->replicas);
        if (!c->closing)
            w->fn(c, w->arg, err);
        rt_free(w);
    }
}

/* Sends PING and WAIT for all who wait, unless one is under way. */
static void ask(struct rt_resp_link *l)
{
    struct rt_resp_conn *c = l->conn;
    static const char *const ping[] = {"PING"};
    int64_t now = rt_loop_now(c->base->loop), until = RT_NEVER;
    if (l->state != RT_DIAL_READY || l->next != NULL || l->waiters == NULL)
        return;
    for (struct rt_resp_waiter *w = l->waiters; w != NULL; w = w->next) {
        w->sent = true;
        until = w->deadline < until ? w->deadline : until;
    }
    int64_t ms = (until - now) / RT_MS;
    ms = ms < 1 ? 1 : ms > INT32_MAX ? INT32_MAX : ms;
    char number[16], limit[16];
    const char *wait[] = {"WAIT", number, limit};
    snprintf(number, sizeof(number), "%u", c->replicas);
    snprintf(limit, sizeof(limit), "%d", (int)ms);
    int rv = rt_resp_link_say(l, RT_RESP_ASIDE, 0, ping, 1);
    struct rt_resp_request *rq = NULL;
    if (rv == 0 && rt_resp_words(c, wait, 3))
        rq = rt_resp_request_bare(RT_RESP_REPLICAS, 0);
    if (rv == 0)
        rv = rt_resp_link_put(l, rq);
    if (rv == 0)
        rq->sent_at += ms * RT_MS; /* it is owed from then on */
    if (rv == ROTA_NOMEM)          /* else nobody would ever be told */
        rt_resp_link_cut(l, "out of memory");
}

void rt_resp_wait_ready(struct rt_resp_link *l)
{
    rt_resp_link_ready(l);
    ask(l);
}

void rt_resp_wait_reply(struct rt_resp_link *l, long long replicas)
{
    int64_t now = rt_loop_now(l->conn->base->loop) + EARLY;
    bool enough = replicas >= l->conn->replicas;
    if (!enough && !l->scarce)
        rt_resp_log(l->conn, ROTA_LOG_WARN,
                    "redis: only %lld replicas of %s keep up, and grants wait for %u (?replicas=)",
                    replicas, rt_resp_at(l), l->conn->replicas);
    l->scarce = !enough;
    l->refused = false;
    end_some(l, false, now, enough ? 0 : ROTA_UNREACHABLE, NULL);
    ask(l);
}

void rt_resp_wait_refused(struct rt_resp_link *l, int err, const char *why)
{
    if (!l->refused) /* once, until it was answered */
        rt_resp_log(l->conn, ROTA_LOG_ERROR, "redis: WAIT was refused: %s", why);
    l->refused = true;
    end_some(l, true, 0, err, why);
}

static void doubt_all(struct rt_resp_link *l)
{
    char why[sizeof(l->conn->last_trouble)];
    memcpy(why, l->conn->last_trouble, sizeof(why));
    end_some(l, true, 0, ROTA_UNKNOWN, why);
}

void rt_resp_wait_drop(struct rt_resp_link *l)
{
    if (l->state != RT_DIAL_DOWN)
        rt_resp_link_cut(l, "it follows the link for work");
    else
        doubt_all(l);
}

/* What the server had may be gone with the connection: nobody is told yes over the next one. */
void rt_resp_wait_lost(struct rt_resp_link *l)
{
    doubt_all(l);
    if (!l->conn->closing && !l->node->gone)
        rt_resp_link_want(l);
}

/* Without a link: each at its own deadline. With one the reply to WAIT says when it is over. */
void rt_resp_wait_tick(struct rt_resp_link *l, int64_t now)
{
    int64_t next = RT_NEVER;
    char why[RT_DIAL_AT + 40];
    if (l->state == RT_DIAL_READY)
        return;
    for (struct rt_resp_waiter *w = l->waiters; w != NULL; w = w->next)
        w->sent = true; /* none is: so all are looked at */
    (void)snprintf(why, sizeof(why), "the link for WAIT to %s is not up", rt_resp_at(l));
    end_some(l, false, now, ROTA_UNREACHABLE, why);
    for (const struct rt_resp_waiter *w = l->waiters; w != NULL; w = w->next)
        next = w->deadline < next ? w->deadline : next;
    if (next != RT_NEVER &&
        (l->timer.timer.slot == 0 || l->timer.timer.at > next)) /* it may be to dial */
        rt_timers_start(&l->conn->base->loop->timers, &l->timer.timer, next);
}

void rt_resp_when_replicated(struct rt_resp_conn *c, uint32_t place, int64_t deadline,
                             void (*fn)(struct rt_resp_conn *c, void *arg, int err), void *arg)
{
    struct rt_resp_node *node = c->places[place];
    if (node != NULL && node->work.state != RT_DIAL_READY) {
        /* A push of a server that is lost, maybe for another: that one must not confirm it. */
        fn(c, arg, rt_resp_fail(c, ROTA_UNKNOWN, "the server that granted it is away"));
        return;
    }
    struct rt_resp_waiter *w = rt_alloc(sizeof(*w));
    if (node == NULL || w == NULL) {
        rt_free(w);
        fn(c, arg,
           rt_resp_fail(c, node == NULL ? ROTA_UNREACHABLE : ROTA_NOMEM,
                        node == NULL ? "the place has moved" : "out of memory"));
        return;
    }
    *w = (struct rt_resp_waiter){.fn = fn, .arg = arg, .deadline = deadline};
    struct rt_resp_waiter **tail = &node->wait.waiters;
    while (*tail != NULL)
        tail = &(*tail)->next;
    *tail = w;
    rt_resp_link_want(&node->wait);
    if (node->wait.state == RT_DIAL_READY)
        ask(&node->wait);
    else
        rt_resp_wait_tick(&node->wait, rt_loop_now(c->base->loop));
}
