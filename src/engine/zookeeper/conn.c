/* SPDX-License-Identifier: Apache-2.0 */
/* What is ZooKeeper's own in a connection: opening it from a URL, cutting messages out of the stream, touches. */
#include "engine/zookeeper/zk.h"

#include "base/bug.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGE_MAX (64u << 20) /* from a server: a line of a million tickets */
#define TICK_MOST_MS 2000

static struct rt_zk_wire *of(struct rt_wire *w)
{
    return (struct rt_zk_wire *)(void *)w;
}

static struct rt_zk_conn *of_link(struct rt_link *k)
{
    return (struct rt_zk_conn *)(void *)((char *)k - offsetof(struct rt_zk_conn, link));
}

static int64_t now_of(const struct rt_zk_conn *c)
{
    return rt_loop_now(c->base->loop);
}

/* ---- Hearing ---------------------------------------------------------------------------------- */

/* The size of the message at AT, or 0: there is none yet. ODD: there never will be. */
static size_t message_at(const struct rt_jute_out *heard, size_t at, bool *odd)
{
    struct rt_jute_in in = {heard->at + at, heard->size - at, false};
    if (in.left < 4)
        return 0;
    int32_t n = rt_jute_get_int(&in);
    *odd = n <= 0 || (uint32_t)n > MESSAGE_MAX;
    return *odd || in.left < (size_t)n ? 0 : (size_t)n;
}

static void on_data(struct rt_wire *w, const char *bytes, size_t n)
{
    struct rt_jute_out *heard = &of(w)->heard;
    size_t at = 0, size;
    bool odd = false;
    rt_jute_raw(heard, bytes, n);
    if (heard->failed) {
        rt_link_cut(w->link, "out of memory");
        return;
    }
    while (w->link != NULL && (size = message_at(heard, at, &odd)) > 0) {
        struct rt_jute_in in = {heard->at + at + 4, size, false};
        at += 4 + size;
        if (w->link->state == RT_DIAL_READY)
            rt_zk_heard(of_link(w->link), &in);
        else
            rt_zk_greeting(of_link(w->link), &in);
    }
    if (w->link == NULL)
        return;
    heard->size -= at;
    memmove(heard->at, heard->at + at, heard->size);
    if (odd && of(w)->connected)
        rt_link_cut(w->link, "%.180s: that is no message of ZooKeeper", rt_link_at(w->link));
    else if (odd)
        rt_link_refuse(w->link, ROTA_PROTOCOL, RT_ZK_NONE);
}

/* ---- Up and down ------------------------------------------------------------------------------ */

static void on_up(struct rt_wire *w)
{
    of(w)->dialed_at = w->heard_at;
    rt_zk_greet(of_link(w->link));
}

void rt_zk_greeted(struct rt_zk_conn *c)
{
    if (rt_zk_watches_say(c) != 0) {
        rt_zk_cut(c, "out of memory");
        return;
    }
    rt_link_greeted(&c->link);
    c->link_count++;
    rt_zk_wire(c)->touched_at = now_of(c);
    rt_link_timer(&c->link, now_of(c) + rt_dial_patience(c->base) / 2);
    rt_words_log(c->base, ROTA_LOG_INFO, "zookeeper: connected to %s, session %llx", rt_zk_at(c),
                 (unsigned long long)c->session.id);
    c->on->linked(c->rider);
    rt_ledger_flush(&c->link.ledger);
}

static void on_lost(struct rt_link *k, bool was_ready, const char *why)
{
    struct rt_zk_conn *c = of_link(k);
    c->touch_count = 0;
    c->touching = c->anew = false;
    if (was_ready)
        c->on->lost(c->rider);
    rt_ledger_lost(&k->ledger, NULL, why);
}

static void on_failed(struct rt_link *k, int err, const char *why)
{
    rt_ledger_refuse(&k->ledger, err, why);
}

static void on_freed(struct rt_wire *w)
{
    rt_jute_free(&of(w)->heard);
}

void rt_zk_anew(struct rt_zk_conn *c)
{
    c->session.id = 0;
    c->anew = c->link.state != RT_DIAL_DOWN;
    if (c->anew)
        rt_link_timer(&c->link, now_of(c)); /* from a turn of its own */
}

/* ---- Touches, and silence --------------------------------------------------------------------- */

int64_t rt_zk_secured(const struct rt_zk_conn *c)
{
    return c->secured_at + c->session.timeout_ms * RT_MS;
}

void rt_zk_touched(struct rt_zk_conn *c, const struct rt_zk_ask *a)
{
    int64_t sent = a->entry.sent_at, half = c->tick_ms * RT_MS / 2;
    size_t n = 0;
    for (size_t i = 0; i < c->touch_count; i++) {
        struct rt_zk_touch *t = &c->touches[i];
        bool enough = RT_BUG(RT_BUG_ONE_SYNC_IS_ENOUGH) && t->heard_at + 2 * half <= sent;
        if (enough || (t->pinged_at != 0 && t->pinged_at + half / 2 <= sent)) {
            c->secured_at = t->sent_at > c->secured_at ? t->sent_at : c->secured_at;
            continue;
        }
        if (t->pinged_at == 0 && t->heard_at + half <= sent)
            t->pinged_at = now_of(c);
        c->touches[n++] = *t;
    }
    c->touch_count = n;
    bool at_once = c->lone || RT_BUG(RT_BUG_TOUCH_SECURED_AT_ONCE);
    if (at_once && sent > c->secured_at)
        c->secured_at = sent;
    if (!c->lone && n < RT_ZK_TOUCHES) {
        c->touches[n] = (struct rt_zk_touch){.sent_at = sent, .heard_at = now_of(c)};
        c->touch_count++;
    }
}

static void touch_answered(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_conn *c = a->owner;
    (void)z;
    (void)reply;
    c->touching = false;
    if (err == 0)
        rt_zk_touched(c, a);
}

/* A sixth of the ttl apart; a standalone server needs them only when nobody beats. */
static int64_t touch_every(const struct rt_zk_conn *c)
{
    return c->ttl_ms * RT_MS / (c->lone ? 2 : 6);
}

static void touch(struct rt_zk_conn *c, int64_t now)
{
    if (c->touching || now - rt_zk_wire(c)->touched_at < touch_every(c))
        return;
    rt_zk_wire(c)->touched_at = now;
    struct rt_zk_ask *a = rt_zk_path(c, RT_ZK_SYNC, "/", touch_answered);
    c->touching = rt_zk_send(c, a, NULL, c, 0, NULL) == 0;
}

static void look_after(struct rt_zk_conn *c, int64_t now)
{
    const struct rt_entry *oldest = c->link.ledger.flying.next;
    int64_t stuck = rt_link_patience(&c->link);
    int64_t next = touch_every(c) / 2, half = rt_dial_patience(c->base) / 2;
    if (!RT_RING_EMPTY(&c->link.ledger.flying) && now - oldest->sent_at >= stuck &&
        now - c->link.wire->heard_at >= stuck) {
        rt_zk_cut(c, "%.180s did not answer within %lld ms", rt_zk_at(c),
                  (long long)(stuck / RT_MS));
        return;
    }
    rt_link_timer(&c->link, now + (next < half ? next : half));
    if (c->wanted_until == 0 || now < c->wanted_until) {
        touch(c, now);
    } else { /* else our touches would keep it, and all in it, alive */
        c->on->expired(c->rider);
        rt_zk_anew(c);
    }
}

static bool on_tick(struct rt_link *k, int64_t now)
{
    struct rt_zk_conn *c = of_link(k);
    if (c->anew)
        rt_zk_cut(c, "%.180s: another session is wanted", rt_zk_at(c));
    else if (k->state == RT_DIAL_READY)
        look_after(c, now);
    else
        return false;
    return true;
}

/* ---- Life ------------------------------------------------------------------------------------- */

/* A tick is 2 s by default; and by default the shortest session is two ticks. */
static int take_tick(struct rt_zk_conn *c, const struct rt_url *url)
{
    const char *text = rt_url_param(url, "tick_ms", NULL);
    char *end = NULL;
    unsigned long ms = text != NULL ? strtoul(text, &end, 10) : c->base->ttl_ms / 2;
    if (text != NULL && (*end != '\0' || text[0] < '0' || text[0] > '9' || ms < 1 || ms > 60000))
        return rt_zk_fail(c, ROTA_INVALID,
                          "?tick_ms= is the servers' tickTime: 1 to 60000 milliseconds");
    c->tick_ms = text == NULL && ms > TICK_MOST_MS ? TICK_MOST_MS : (uint32_t)ms;
    return 0;
}

static const struct rt_link_user link_user = {.who = "zookeeper",
                                              .secure = "zks",
                                              .silent = "there is no majority of its servers",
                                              .port = 2181,
                                              .secure_port = 2281,
                                              .wire_size = sizeof(struct rt_zk_wire),
                                              .up = on_up,
                                              .data = on_data,
                                              .tick = on_tick,
                                              .lost = on_lost,
                                              .failed = on_failed,
                                              .freed = on_freed};

int rt_zk_conn_open(struct rt_zk_conn *c, struct rt_conn *base, const struct rt_url *url,
                    const struct rt_zk_user *user, struct rt_zk *rider)
{
    c->base = base;
    c->on = user;
    c->rider = rider;
    if (strchr(url->user, ':') != NULL)
        return rt_zk_fail(c, ROTA_INVALID, "a user of ZooKeeper has no colon in its name");
    int rv = rt_link_open(&c->link, base, url, &link_user, &rt_zk_asks);
    if (rv != 0)
        return rv;
    c->ttl_ms = base->ttl_ms;
    c->link.ring.now = c->link.jitter % c->link.ring.count; /* spreads clients over the servers */
    rv = take_tick(c, url);
    if (rv != 0)
        rt_zk_conn_close(c);
    return rv;
}

void rt_zk_conn_close(struct rt_zk_conn *c)
{
    rt_link_close(&c->link, rt_zk_ask_free);
    rt_zk_watches_fini(c);
    explicit_bzero(c->session.password, sizeof(c->session.password));
}
