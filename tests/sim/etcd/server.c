/* SPDX-License-Identifier: Apache-2.0 */
/* A model etcd in virtual time: its connections, what happens when, its members and leaders. */
#include "sim/etcd/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THINK_US 20
#define EXTEND_NS (1000 * RT_MS) /* what a new leader adds to leases: an election time-out */
#define NOTICE_US 250000         /* mean: it looks for ended leases twice a second */

/* ---- What will happen --------------------------------------------------- */

struct es_task *es_task_new(struct es_server *s, struct grpc_call *rpc, uint32_t member,
                            const void *bytes, size_t n,
                            void (*run)(struct es_server *s, struct es_task *t))
{
    struct es_task *t = malloc(sizeof(*t) + n);
    (void)s;
    assert(t != NULL);
    *t = (struct es_task){.run = run, .rpc = rpc, .member = member, .n = n};
    if (n > 0)
        memcpy(t->bytes, bytes, n);
    if (rpc != NULL)
        grpc_call_keep(rpc);
    return t;
}

static void task_free(struct es_task *t)
{
    if (t->rpc != NULL)
        grpc_call_drop(t->rpc);
    free(t);
}

void es_task_add(struct es_server *s, struct es_task *t, int64_t at)
{
    struct es_task **link = &s->tasks;
    t->at = at;
    while (*link != NULL && (*link)->at <= at)
        link = &(*link)->next;
    t->next = *link;
    *link = t;
}

void es_later(struct es_server *s, struct es_task *t, int64_t at)
{
    t->put_back = true;
    es_task_add(s, t, at > s->net.now ? at : s->net.now + 1);
}

int64_t es_think(struct es_server *s)
{
    const struct sim_wire *w = &s->net.faults;
    uint32_t mean = sim_chance(&s->net.random, w->slow) ? w->slow_us : THINK_US;
    return 1000 + sim_spread_ns(&s->net.random, mean);
}

struct es_conn *es_conn_of(const struct grpc_call *rpc)
{
    return rpc->server != NULL ? rpc->server->arg : NULL;
}

bool es_frozen(struct es_server *s, struct es_task *t)
{
    int64_t until = s->members[t->member].frozen_until;
    if (until <= s->net.now)
        return false;
    es_later(s, t, until + es_think(s));
    return true;
}

/* ---- Saying ------------------------------------------------------------- */

static void say_now(struct es_server *s, struct es_task *t)
{
    if (es_frozen(s, t))
        return;
    if (!t->ends) {
        grpc_call_send(t->rpc, t->bytes, t->n);
        return;
    }
    char status[12];
    snprintf(status, sizeof(status), "%u", t->status);
    grpc_call_end(t->rpc, status, t->text);
}

void es_say(struct es_server *s, struct grpc_call *rpc, uint32_t member, int64_t at,
            const void *message)
{
    size_t n = protobuf_c_message_get_packed_size(message);
    struct es_task *t = es_task_new(s, rpc, member, NULL, 0, say_now);
    t = realloc(t, sizeof(*t) + n);
    assert(t != NULL);
    t->n = protobuf_c_message_pack(message, t->bytes);
    es_task_add(s, t, at);
}

void es_say_end(struct es_server *s, struct grpc_call *rpc, uint32_t member, int64_t at,
                uint32_t status, const char *text)
{
    struct es_task *t = es_task_new(s, rpc, member, NULL, 0, say_now);
    t->ends = true;
    t->status = status;
    t->text = text;
    es_task_add(s, t, at);
}

RtEtcd__Header *es_member_header(struct es_server *s, struct rt_arena *arena, uint32_t member,
                                 int64_t revision)
{
    RtEtcd__Header *h = es_header(arena, revision);
    h->cluster_id = 77;
    h->member_id = member + 1;
    h->raft_term = s->term;
    return h;
}

/* ---- Connections -------------------------------------------------------- */

static struct es_conn *conn_of(struct sim_conn *c)
{
    return (struct es_conn *)(void *)c;
}

static void on_message(struct grpc_call *rpc, const uint8_t *bytes, size_t n)
{
    if (strcmp(rpc->path, ES_WATCH_PATH) == 0)
        es_watch(rpc, bytes, n);
    else if (strcmp(rpc->path, ES_KEEP_PATH) == 0)
        es_keep_alive(rpc, bytes, n);
    else
        es_call(rpc, bytes, n);
}

static void on_gone(struct grpc_call *rpc)
{
    if (strcmp(rpc->path, ES_WATCH_PATH) == 0)
        es_watch_gone(rpc);
}

static void on_write(struct grpc_server *h, const uint8_t *bytes, size_t n)
{
    struct es_conn *c = h->arg;
    int64_t until = c->server->members[c->member].frozen_until;
    if (until > c->base.net->now)
        sim_conn_hold(&c->base, until - c->base.net->now);
    sim_conn_send(&c->base, bytes, n);
}

static const struct grpc_server_user h2_user = {
    .message = on_message, .gone = on_gone, .write = on_write};

static bool on_accept(struct sim_conn *base, const char *host)
{
    struct es_conn *c = conn_of(base);
    struct es_server *s = (struct es_server *)(void *)base->net; /* its first member */
    c->server = s;
    c->member = (uint32_t)(host[strlen(host) - 1] - '1') % ES_MEMBERS; /* 10.0.0.1 is the first */
    if (s->members[c->member].down_until > s->net.now)
        return false;
    grpc_server_open(&c->h2, &h2_user, c);
    return true;
}

static void on_data(struct sim_conn *base, const char *bytes, size_t n)
{
    struct es_conn *c = conn_of(base);
    bool good = grpc_server_feed(&c->h2, bytes, n);
    assert(good); /* the engine writes no nonsense */
    (void)good;
    if (c->doomed)
        sim_conn_break(base);
}

static void on_forget(struct sim_conn *base)
{
    grpc_server_close(&conn_of(base)->h2);
}

static const struct sim_host host = {sizeof(struct es_conn), on_accept, on_data, on_forget};

static void break_member(struct es_server *s, uint32_t member)
{
    for (struct sim_conn *c = s->net.conns; c != NULL; c = c->next)
        if (c->served && conn_of(c)->member == member)
            sim_conn_break(c);
}

/* ---- Leases ------------------------------------------------------------- */

void es_lease_begin(struct es_server *s, struct es_lease *lease, int64_t extra_ns)
{
    int64_t ns = lease->ttl_s * 1000 * RT_MS;
    lease->ends = s->net.now + ns - ns / 1000000 * s->clock_ppm + extra_ns;
    lease->revoke_at = lease->ends + sim_spread_ns(&s->net.random, NOTICE_US);
    if (s->expiry_late_ms > 0)
        lease->revoke_at += sim_spread_ns(&s->net.random, s->expiry_late_ms * 500);
}

void es_server_revoke(struct es_server *s, int64_t id)
{
    const struct es_lease *lease = es_store_lease(&s->store, id);
    if (lease == NULL)
        return;
    uint32_t at = s->revoked_count++ % ES_REVOKED_MAX;
    s->revoked[at].id = id;
    s->revoked[at].ttl_s = lease->ttl_s;
    (void)es_store_revoke(&s->store, id);
    es_applied(s);
    if (s->after != NULL)
        s->after(s, "a lease ends", &id, NULL);
}

static struct es_lease *next_over(const struct es_server *s)
{
    struct es_lease *first = NULL;
    for (size_t i = 0; i < s->store.lease_count; i++)
        if (first == NULL || s->store.leases[i].revoke_at < first->revoke_at)
            first = &s->store.leases[i];
    return first;
}

/* ---- Members and leaders ------------------------------------------------ */

void es_applied(struct es_server *s)
{
    s->version++;
    for (uint32_t i = 0; i < ES_MEMBERS; i++) {
        struct es_member *m = &s->members[i];
        if (m->behind_until > s->net.now || m->frozen_until > s->net.now)
            continue;
        m->behind_until = m->frozen_until = 0;
        m->applied = s->store.revision;
        es_watch_notify(s, i);
    }
}

static void elect(struct es_server *s)
{
    s->leaderless_until = 0;
    s->term++;
    do {
        s->leader = (s->leader + 1) % ES_MEMBERS;
    } while (s->members[s->leader].frozen_until > s->net.now &&
             sim_chance(&s->net.random, 900)); /* all may be: then one runs on */
    for (size_t i = 0; i < s->store.lease_count; i++)
        es_lease_begin(s, &s->store.leases[i], EXTEND_NS);
}

/* Members that catch up, leaders that are found. */
static int64_t next_change(const struct es_server *s)
{
    int64_t at = s->leaderless_until != 0 ? s->leaderless_until : RT_NEVER;
    for (uint32_t i = 0; i < ES_MEMBERS; i++) {
        const struct es_member *m = &s->members[i];
        int64_t until = m->behind_until > m->frozen_until ? m->behind_until : m->frozen_until;
        if (until != 0 && until < at)
            at = until;
    }
    return at;
}

static int64_t next_lease(const struct es_server *s)
{
    const struct es_lease *lease = s->leaderless_until == 0 ? next_over(s) : NULL;
    return lease != NULL ? lease->revoke_at : RT_NEVER;
}

static int64_t next_own(const struct es_server *s)
{
    int64_t at = next_change(s), lease = next_lease(s);
    if (s->tasks != NULL && s->tasks->at < at)
        at = s->tasks->at;
    return lease < at ? lease : at;
}

int64_t es_server_next(const struct es_server *s)
{
    int64_t at = next_own(s), net = sim_net_next(&s->net);
    return net < at ? net : at;
}

static void run_task(struct es_server *s)
{
    struct es_task *t = s->tasks;
    s->tasks = t->next;
    t->put_back = false;
    t->run(s, t);
    if (!t->put_back)
        task_free(t);
}

/* One thing whose time is now. */
static void step(struct es_server *s)
{
    int64_t now = s->net.now;
    if (s->leaderless_until != 0 && s->leaderless_until <= now)
        elect(s);
    else if (next_change(s) <= now)
        es_applied(s);
    else if (next_lease(s) <= now)
        es_server_revoke(s, next_over(s)->id);
    else
        run_task(s);
}

void es_server_run(struct es_server *s, int64_t now)
{
    for (;;) {
        int64_t own = next_own(s), net = sim_net_next(&s->net);
        if (own > now && net > now)
            break;
        if (net < own) {
            sim_net_step(&s->net);
            continue;
        }
        sim_net_advance(&s->net, own);
        step(s);
    }
    sim_net_advance(&s->net, now);
}

/* ---- What befalls it ---------------------------------------------------- */

void es_server_lose_leader(struct es_server *s, int64_t until, int64_t frozen_until)
{
    s->leaderless_until = until;
    s->members[s->leader].frozen_until = frozen_until > s->net.now ? frozen_until : 0;
    if (frozen_until == 0)
        break_member(s, s->leader);
}

void es_server_fall_behind(struct es_server *s, uint32_t member, int64_t until)
{
    struct es_member *m = &s->members[member];
    if (m->behind_until <= s->net.now) /* else it has promised answers for when it catches up */
        m->behind_until = until;
}

void es_server_take_down(struct es_server *s, uint32_t member, int64_t until)
{
    break_member(s, member);
    s->members[member].down_until = until;
    if (member == s->leader)
        s->leaderless_until = s->net.now + EXTEND_NS + es_think(s);
}

void es_server_heal(struct es_server *s)
{
    s->net.faults = (struct sim_wire){0};
    s->store.full = false;
    s->busy_until = 0;
    s->stale = s->expiry_late_ms = 0;
    for (uint32_t i = 0; i < ES_MEMBERS; i++) {
        struct es_member *m = &s->members[i];
        m->down_until = 0;
        m->behind_until = m->behind_until != 0 ? s->net.now : 0;
        m->frozen_until = m->frozen_until != 0 ? s->net.now : 0;
    }
}

void es_server_open(struct es_server *s, uint64_t seed)
{
    memset(s, 0, sizeof(*s));
    sim_net_open(&s->net, &host, seed);
    es_store_open(&s->store);
    s->term = 2;
    for (uint32_t i = 0; i < ES_MEMBERS; i++)
        s->members[i].applied = s->store.revision;
}

void es_server_close(struct es_server *s)
{
    sim_net_close(&s->net);
    while (s->tasks != NULL) {
        struct es_task *t = s->tasks;
        s->tasks = t->next;
        task_free(t);
    }
    es_store_close(&s->store);
}
