/* SPDX-License-Identifier: Apache-2.0 */
/* The greeting: a session made or resumed, who we are, and whether the server is standalone. Who we are is not
 * said before there is a session: servers with netty answer that at once, ahead of the session that is still
 * being agreed on.
 *
 *   ConnectRequest ──▶ session ── [addauth] getData(/zookeeper/config) ──▶ [yes] config ──▶ ready
 *                        └── over: `expired`, and dialed anew */
#include "engine/zookeeper/zk.h"

#include <stdio.h>
#include <string.h>

#define XID_AUTH (-4)
#define XID_CONFIG 0 /* ours begin with 1 */
#define AUTH_FAILED (-115)

/* The timeout to ask for, so that a user can rely on TTL: a touch is secured that much later (zk.h), and touches are
 * a sixth apart. */
static uint32_t longer(const struct rt_zk_conn *c, uint32_t ttl)
{
    return ttl + c->tick_ms / 2 + ttl / 3 + 100;
}

void rt_zk_greet(struct rt_zk_conn *c)
{
    struct rt_jute_out o = {0};
    uint32_t ttl = c->base->ttl_ms;
    uint32_t timeout = c->session.id != 0 ? c->session.timeout_ms : longer(c, ttl);
    rt_jute_int(&o, 0); /* its size */
    rt_jute_int(&o, 0); /* the version of the protocol */
    rt_jute_long(&o, c->zxid);
    rt_jute_int(&o, (int32_t)timeout);
    rt_jute_long(&o, (int64_t)c->session.id);
    rt_jute_bytes(&o, c->session.password, sizeof(c->session.password));
    rt_jute_bool(&o, false); /* a server without a quorum is of no use */
    (void)rt_zk_say(c, &o);
}

static void say_auth(struct rt_zk_conn *c)
{
    char both[2200];
    struct rt_jute_out o = {0};
    int n = snprintf(both, sizeof(both), "%s:%s", c->link.user, c->link.password);
    rt_zk_begin(&o, XID_AUTH, RT_ZK_AUTH);
    rt_jute_int(&o, 0);
    rt_jute_text(&o, "digest");
    rt_jute_bytes(&o, both, (size_t)n);
    (void)rt_zk_say(c, &o);
    explicit_bzero(both, sizeof(both));
}

static void say_rest(struct rt_zk_conn *c)
{
    struct rt_jute_out o = {0};
    if (c->link.user != NULL)
        say_auth(c);
    rt_zk_begin(&o, XID_CONFIG, RT_ZK_GET);
    rt_jute_text(&o, "/zookeeper/config");
    rt_jute_bool(&o, false);
    (void)rt_zk_say(c, &o);
}

/* How much of N ms a user may rely on: what was asked for, if that leaves room for the delay that D1 costs. */
static uint32_t usable(const struct rt_zk_conn *c, uint32_t n)
{
    uint32_t asked = c->base->ttl_ms, most = n > c->tick_ms ? (n - c->tick_ms / 2) / 4 * 3 : 0;
    if (most > asked && n > longer(c, asked))
        return most; /* more than was asked for: the server has a minimum */
    return n < asked ? n : asked;
}

static void read_connect(struct rt_zk_conn *c, struct rt_jute_in *in)
{
    (void)rt_jute_get_int(in);
    int32_t timeout = rt_jute_get_int(in);
    uint64_t id = (uint64_t)rt_jute_get_long(in);
    struct rt_text password = rt_jute_get_bytes(in);
    bool had = c->session.id != 0;
    if (in->bad || password.size != sizeof(c->session.password)) {
        rt_link_refuse(&c->link, ROTA_PROTOCOL, RT_ZK_NONE);
        return;
    }
    if (timeout <= 0 || id == 0 || (had && id != c->session.id)) {
        c->session.id = 0;
        c->link.failures = 0;
        if (had)
            c->on->expired(c->rider);
        rt_zk_cut(c, "%.180s: the session is over", rt_zk_at(c));
        return;
    }
    rt_zk_wire(c)->connected = true;
    rt_zk_wire(c)->authenticated = c->link.user == NULL;
    c->session.id = id;
    c->session.timeout_ms = (uint32_t)timeout;
    memcpy(c->session.password, password.at, password.size);
    c->ttl_ms = usable(c, (uint32_t)timeout);
    c->secured_at = rt_zk_wire(c)->dialed_at; /* the leader was asked */
    say_rest(c);
}

static void read_auth(struct rt_zk_conn *c, int32_t said)
{
    if (said != 0)
        rt_link_fail(&c->link, ROTA_AUTH, "%.120s does not take the user '%.60s'", rt_zk_at(c),
                     c->link.user);
    else
        rt_zk_wire(c)->authenticated = true;
}

/* Standalone: there is a config, and nobody in it. If it may not be read, the server is taken for a follower. */
static void read_config(struct rt_zk_conn *c, int32_t said, struct rt_jute_in *in)
{
    struct rt_text config = rt_jute_get_bytes(in);
    c->lone = said == 0 && !in->bad && memmem(config.at, config.size, "server.", 7) == NULL;
    rt_zk_greeted(c);
}

void rt_zk_greeting(struct rt_zk_conn *c, struct rt_jute_in *in)
{
    if (!rt_zk_wire(c)->connected) {
        read_connect(c, in);
        return;
    }
    int32_t xid = rt_jute_get_int(in);
    (void)rt_jute_get_long(in); /* zxid */
    int32_t said = rt_jute_get_int(in);
    if (!in->bad && (xid == XID_AUTH || said == AUTH_FAILED))
        read_auth(c, said);
    else if (!in->bad && xid == XID_CONFIG && rt_zk_wire(c)->authenticated)
        read_config(c, said, in);
    else if (!in->bad && xid == -1)
        rt_zk_notice(c, in);
    else
        rt_zk_cut(c, "%.180s: that is no greeting of ZooKeeper", rt_zk_at(c));
}
