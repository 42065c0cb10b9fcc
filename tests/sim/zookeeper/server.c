/* SPDX-License-Identifier: Apache-2.0 */
/* A model ensemble in virtual time: what is on its way between the servers, their steps, sessions and leaders. */
#include "sim/zookeeper/server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define THINK_US 20
#define WALL_MS INT64_C(1700000000000)

struct zs_task { /* a message between a server and the leader */
    struct zs_task *next;
    int64_t at;
    uint32_t member;
    bool up;    /* to the leader; else from it */
    bool pings; /* from it: a ping */
    struct zs_request *request;
    size_t upto; /* from the leader: how many steps are agreed on */
    size_t n;
    uint64_t touches[]; /* to the leader, instead of a request */
};

/* ---- On its way ------------------------------------------------------------------------------- */

static int64_t think(struct zs_server *s)
{
    const struct sim_wire *w = &s->net.faults;
    uint32_t mean = sim_chance(&s->net.random, w->slow) ? w->slow_us : THINK_US;
    return 1000 + sim_spread_ns(&s->net.random, mean);
}

static void task_insert(struct zs_server *s, struct zs_task *t)
{
    struct zs_task **link = &s->tasks;
    while (*link != NULL && (*link)->at <= t->at)
        link = &(*link)->next;
    t->next = *link;
    *link = t;
}

/* After everything that goes the same way; a stopped server hears of it later. */
static void task_add(struct zs_server *s, struct zs_task *t)
{
    struct zs_member *m = &s->members[t->member];
    int64_t *last = t->up ? &m->up_at : &m->back_at;
    int64_t frozen = s->members[t->up ? s->leader : t->member].frozen_until;
    t->at = s->net.now + (t->member == s->leader ? 1000 : think(s));
    t->at = t->at < *last ? *last : t->at;
    t->at = t->at < frozen ? frozen : t->at;
    *last = t->at;
    task_insert(s, t);
}

static struct zs_task *task_new(uint32_t member, bool up, struct zs_request *r, size_t touches)
{
    struct zs_task *t = malloc(sizeof(*t) + touches * sizeof(uint64_t));
    assert(t != NULL);
    *t = (struct zs_task){.member = member, .up = up, .request = r, .n = touches};
    if (r != NULL)
        r->refs++;
    return t;
}

static void task_free(struct zs_task *t)
{
    if (t->request != NULL)
        zs_request_drop(t->request);
    free(t);
}

static void forget_tasks(struct zs_server *s)
{
    while (s->tasks != NULL) {
        struct zs_task *t = s->tasks;
        s->tasks = t->next;
        task_free(t);
    }
}

void zs_forward(struct zs_server *s, struct zs_request *r)
{
    task_add(s, task_new(r->member, true, r, 0));
}

static bool is_up(const struct zs_server *s, uint32_t member)
{
    const struct zs_member *m = &s->members[member];
    return m->down_until <= s->net.now && !m->deposed;
}

static void tell(struct zs_server *s, uint32_t member, struct zs_request *r, bool pings)
{
    struct zs_task *t = task_new(member, false, r, 0);
    t->pings = pings;
    t->upto = s->log_count;
    task_add(s, t);
}

/* ---- Steps ------------------------------------------------------------------------------------ */

int64_t zs_ms(const struct zs_server *s)
{
    return WALL_MS + s->net.now / RT_MS;
}

int64_t zs_last_zxid(const struct zs_server *s, size_t done)
{
    return done > 0 ? s->log[done - 1].zxid : 0;
}

struct zs_step *zs_step_new(struct zs_server *s)
{
    if (s->log_count == s->log_room) {
        s->log_room = s->log_room > 0 ? 2 * s->log_room : 64;
        s->log = realloc(s->log, s->log_room * sizeof(*s->log));
        assert(s->log != NULL);
    }
    struct zs_step *step = &s->log[s->log_count++];
    *step = (struct zs_step){
        .zxid = (int64_t)((uint64_t)s->epoch << 32 | ++s->counter),
        .ms = zs_ms(s),
    };
    return step;
}

void zs_step_drop(struct zs_server *s)
{
    assert(s->log_count > 0);
    zs_step_close(&s->log[--s->log_count]);
}

void zs_step_done(struct zs_server *s, int32_t by)
{
    s->version++;
    for (uint32_t i = 0; i < s->member_count; i++)
        if (is_up(s, i))
            tell(s, i, NULL, false);
    if (s->after != NULL)
        s->after(s, &s->log[s->log_count - 1], by);
}

static void fire(struct zs_server *s, uint32_t member, struct zs_step *step,
                 const struct zs_change *change)
{
    char parent[1024];
    static const enum rt_zk_event events[] = {[RT_ZK_CREATE] = RT_ZK_CREATED,
                                              [RT_ZK_DELETE] = RT_ZK_DELETED,
                                              [RT_ZK_SET] = RT_ZK_CHANGED};
    if (change->call == RT_ZK_CHECK)
        return;
    zs_fire(s, member, step, change, events[change->call], change->path);
    zs_parent(change->path, parent, sizeof(parent));
    if (change->call != RT_ZK_SET)
        zs_fire(s, member, step, change, RT_ZK_CHILD, parent);
}

/* The session is over: whoever asked for that is still answered. */
static void hang_up(struct zs_server *s, uint32_t member, uint64_t session)
{
    for (struct sim_conn *b = s->net.conns; b != NULL; b = b->next) {
        const struct zs_conn *c = zs_conn_of(b);
        if (b->served && c->member == member && c->session == session &&
            (c->first == NULL || c->first->call != RT_ZK_CLOSE))
            sim_conn_break(b);
    }
}

static void catch_up(struct zs_server *s, uint32_t member, size_t upto)
{
    struct zs_member *m = &s->members[member];
    for (; m->done < upto; m->done++) {
        struct zs_step *step = &s->log[m->done];
        for (size_t i = 0; i < step->count; i++) {
            if (step->changes[i].call != RT_ZK_CHECK)
                zs_tree_do(&m->tree, step, &step->changes[i]);
            fire(s, member, step, &step->changes[i]);
        }
        if (step->closes != 0)
            hang_up(s, member, step->closes);
    }
}

/* ---- Sessions --------------------------------------------------------------------------------- */

struct zs_session *zs_session_find(const struct zs_server *s, uint64_t id)
{
    for (size_t i = 0; i < s->session_count; i++)
        if (s->sessions[i].id == id)
            return &s->sessions[i];
    return NULL;
}

/* By the leader's clock, at the next end of a tick. */
void zs_touch_leader(struct zs_server *s, struct zs_session *session)
{
    int64_t tick = s->tick_ms * RT_MS, now = s->net.now;
    int64_t clock = now + now / 1000000 * s->clock_ppm + s->phase;
    int64_t ends = ((clock + session->timeout_ms * RT_MS) / tick + 1) * tick;
    int64_t left = ends - clock;
    int64_t at = now + left - left / 1000000 * s->clock_ppm;
    if (at > session->expires)
        session->expires = at;
}

void zs_touch(struct zs_server *s, uint32_t member, uint64_t id)
{
    struct zs_member *m = &s->members[member];
    struct zs_session *session = zs_session_find(s, id);
    if (m->deposed)
        return;
    if (member == s->leader && s->leaderless_until == 0 && session != NULL)
        zs_touch_leader(s, session);
    if (member == s->leader)
        return;
    for (size_t i = 0; i < m->touch_count; i++)
        if (m->touches[i] == id)
            return;
    if (m->touch_count < ZS_TOUCHES)
        m->touches[m->touch_count++] = id;
}

static void send_touches(struct zs_server *s, uint32_t member)
{
    struct zs_member *m = &s->members[member];
    struct zs_task *t = task_new(member, true, NULL, m->touch_count);
    memcpy(t->touches, m->touches, m->touch_count * sizeof(uint64_t));
    m->touch_count = 0;
    task_add(s, t);
}

static void end_session(struct zs_server *s, uint64_t id, int32_t by)
{
    struct zs_session *session = zs_session_find(s, id);
    struct zs_step *step = zs_step_new(s);
    assert(session != NULL);
    *session = s->sessions[--s->session_count];
    step->closes = id;
    for (size_t i = 0; i < s->head.count;) {
        struct zs_ask ask = {.call = RT_ZK_DELETE, .path = s->head.nodes[i].path, .version = -1};
        if (s->head.nodes[i].owner != id) {
            i++;
            continue;
        }
        int32_t said = zs_step_add(step, &s->head, id, &ask);
        assert(said == 0);
        (void)said;
    }
    zs_step_done(s, by);
}

void zs_server_end(struct zs_server *s, uint64_t id)
{
    if (zs_session_find(s, id) != NULL)
        end_session(s, id, RT_ZK_CLOSE);
}

static const struct zs_session *next_over(const struct zs_server *s)
{
    const struct zs_session *first = NULL;
    for (size_t i = 0; i < s->session_count; i++)
        if (first == NULL || s->sessions[i].expires < first->expires)
            first = &s->sessions[i];
    return first;
}

/* ---- Members and leaders ---------------------------------------------------------------------- */

static void break_member(struct zs_server *s, uint32_t member)
{
    for (struct sim_conn *b = s->net.conns; b != NULL; b = b->next)
        if (b->served && zs_conn_of(b)->member == member)
            sim_conn_break(b);
}

/* What is on its way between MEMBER and the leader is lost, except for some of the first things that
 * MEMBER had sent. */
static void cut_off(struct zs_server *s, uint32_t member)
{
    struct zs_task *gone = NULL, **last = &gone;
    for (struct zs_task **at = &s->tasks; *at != NULL;) {
        struct zs_task *t = *at;
        if (t->member != member) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->next = NULL;
        *last = t;
        last = &t->next;
    }
    bool arrives = true;
    while (gone != NULL) {
        struct zs_task *t = gone;
        gone = t->next;
        arrives = arrives && sim_chance(&s->net.random, 500);
        if (t->up && arrives && t->request != NULL)
            zs_lead(s, t->request);
        task_free(t);
    }
    s->members[member].touch_count = 0;
}

/* It has what all have agreed on, and nobody is connected to it. */
static void begin_anew(struct zs_server *s, uint32_t member)
{
    struct zs_member *m = &s->members[member];
    break_member(s, member);
    m->touch_count = 0;
    catch_up(s, member, s->log_count);
}

static bool may_lead(const struct zs_server *s, uint32_t member)
{
    const struct zs_member *m = &s->members[member];
    return m->down_until <= s->net.now && m->frozen_until <= s->net.now && !m->deposed;
}

static void elect(struct zs_server *s)
{
    uint32_t tries = 0;
    s->leaderless_until = 0;
    s->epoch++;
    s->counter = 0;
    do
        s->leader = (s->leader + 1) % s->member_count;
    while (!may_lead(s, s->leader) && ++tries < s->member_count);
    s->members[s->leader].down_until = s->members[s->leader].frozen_until = 0;
    s->members[s->leader].stale_until = 0;
    s->members[s->leader].deposed = false;
    for (uint32_t i = 0; i < s->member_count; i++)
        if (is_up(s, i))
            begin_anew(s, i);
    for (size_t i = 0; i < s->session_count; i++) {
        s->sessions[i].owner = ZS_NOBODY;
        s->sessions[i].expires = 0;
        zs_touch_leader(s, &s->sessions[i]);
    }
    s->ping_at = s->net.now + s->tick_ms * RT_MS / 2;
}

static void thaw(struct zs_server *s, uint32_t member)
{
    struct zs_member *m = &s->members[member];
    m->frozen_until = 0;
    if (m->deposed) /* in half a tick it will see that nobody follows it */
        m->stale_until = s->net.now + 1 + sim_spread_ns(&s->net.random, s->tick_ms * 250);
    for (struct sim_conn *b = s->net.conns; b != NULL; b = b->next)
        if (b->served && zs_conn_of(b)->member == member)
            zs_conn_resume(zs_conn_of(b));
}

static void give_way(struct zs_server *s, uint32_t member)
{
    s->members[member].deposed = false;
    s->members[member].stale_until = 0;
    begin_anew(s, member);
}

static void come_up(struct zs_server *s, uint32_t member)
{
    s->members[member].down_until = 0;
    begin_anew(s, member);
}

static void ping_all(struct zs_server *s)
{
    for (uint32_t i = 0; i < s->member_count; i++)
        if (i != s->leader && is_up(s, i))
            tell(s, i, NULL, true);
    s->ping_at = s->net.now + s->tick_ms * RT_MS / 2;
}

/* ---- Time ------------------------------------------------------------------------------------- */

static void sooner(int64_t *at, int64_t other)
{
    if (other < *at)
        *at = other;
}

/* Servers that come up or go on, leaders that are found. */
static int64_t next_change(const struct zs_server *s)
{
    int64_t at = s->leaderless_until != 0 ? s->leaderless_until : RT_NEVER;
    for (uint32_t i = 0; i < s->member_count; i++) {
        const struct zs_member *m = &s->members[i];
        if (m->down_until != 0)
            sooner(&at, m->down_until);
        if (m->frozen_until != 0)
            sooner(&at, m->frozen_until);
        if (m->stale_until != 0)
            sooner(&at, m->stale_until);
    }
    return at;
}

static bool leads(const struct zs_server *s)
{
    return s->leaderless_until == 0 && s->members[s->leader].frozen_until == 0;
}

static int64_t next_expiry(const struct zs_server *s)
{
    const struct zs_session *session = leads(s) ? next_over(s) : NULL;
    return session != NULL ? session->expires : RT_NEVER;
}

static int64_t next_own(const struct zs_server *s)
{
    int64_t at = next_change(s);
    sooner(&at, next_expiry(s));
    if (leads(s) && s->member_count > 1)
        sooner(&at, s->ping_at);
    if (s->tasks != NULL)
        sooner(&at, s->tasks->at);
    return at;
}

int64_t zs_server_next(const struct zs_server *s)
{
    int64_t at = next_own(s);
    sooner(&at, sim_net_next(&s->net));
    return at;
}

static void run_task(struct zs_server *s)
{
    struct zs_task *t = s->tasks;
    s->tasks = t->next;
    if (t->up && t->request != NULL) {
        zs_lead(s, t->request);
        if (is_up(s, t->member))
            tell(s, t->member, t->request, false);
    } else if (t->up) {
        for (size_t i = 0; i < t->n; i++) {
            struct zs_session *session = zs_session_find(s, t->touches[i]);
            if (session != NULL)
                zs_touch_leader(s, session);
        }
    } else {
        catch_up(s, t->member, t->upto);
        if (t->request != NULL)
            zs_answered(t->request);
        if (t->pings)
            send_touches(s, t->member);
    }
    task_free(t);
}

static void change(struct zs_server *s)
{
    int64_t now = s->net.now;
    if (s->leaderless_until != 0 && s->leaderless_until <= now) {
        elect(s);
        return;
    }
    for (uint32_t i = 0; i < s->member_count; i++) {
        struct zs_member *m = &s->members[i];
        if (m->down_until != 0 && m->down_until <= now)
            come_up(s, i);
        if (m->stale_until != 0 && m->stale_until <= now)
            give_way(s, i);
        if (m->frozen_until != 0 && m->frozen_until <= now)
            thaw(s, i);
    }
}

/* One thing whose time is now. A leader that goes on ends sessions before it hears of anybody. */
static void step(struct zs_server *s)
{
    int64_t now = s->net.now;
    if (next_change(s) <= now)
        change(s);
    else if (next_expiry(s) <= now)
        end_session(s, next_over(s)->id, 0);
    else if (s->tasks != NULL && s->tasks->at <= now)
        run_task(s);
    else
        ping_all(s);
}

void zs_server_run(struct zs_server *s, int64_t now)
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

/* ---- What befalls it -------------------------------------------------------------------------- */

void zs_server_freeze(struct zs_server *s, uint32_t member, int64_t until)
{
    struct zs_task *all = s->tasks, **last = &all;
    if (member == s->leader && s->members[member].frozen_until == 0)
        s->ping_due = s->ping_at;
    s->members[member].frozen_until = until;
    while (*last != NULL) { /* what it would hear meanwhile */
        struct zs_task *t = *last;
        if (t->at < until && (t->up ? s->leader : t->member) == member)
            t->at = until;
        last = &t->next;
    }
    s->tasks = NULL;
    while (all != NULL) {
        struct zs_task *t = all;
        all = t->next;
        task_insert(s, t);
    }
    for (uint32_t i = 0; i < s->member_count; i++) { /* what is sent later arrives later */
        struct zs_member *m = &s->members[i];
        if (member == s->leader && m->up_at < until)
            m->up_at = until;
        if (i == member && m->back_at < until)
            m->back_at = until;
    }
    if (member == s->leader && s->ping_at < until) /* overdue then */
        s->ping_at = until +
                     (sim_chance(&s->net.random, 500) ? 0 : sim_spread_ns(&s->net.random, 500));
}

void zs_server_lose_leader(struct zs_server *s, int64_t until, int64_t frozen_until)
{
    uint32_t old = s->leader;
    for (uint32_t i = 0; i < s->member_count; i++) {
        cut_off(s, i);
        s->members[i].up_at = s->members[i].back_at = 0;
        if (i != old || frozen_until == 0)
            break_member(s, i);
    }
    forget_tasks(s); /* what was last agreed on is heard of when there is another */
    s->leaderless_until = until;
    if (frozen_until != 0) {
        s->members[old].frozen_until = frozen_until;
        s->members[old].deposed = true;
    } else if (s->member_count > 1) {
        s->members[old].down_until = until + sim_spread_ns(&s->net.random, 1000 * s->tick_ms);
    }
}

void zs_server_take_down(struct zs_server *s, uint32_t member, int64_t until)
{
    assert(member != s->leader);
    s->members[member].down_until = until;
    cut_off(s, member);
    break_member(s, member);
    s->members[member].up_at = s->members[member].back_at = 0;
}

void zs_server_fall_behind(struct zs_server *s, uint32_t member, bool up, int64_t until)
{
    int64_t *last = up ? &s->members[member].up_at : &s->members[member].back_at;
    *last = *last < until ? until : *last;
    s->behind_until = s->behind_until < until ? until : s->behind_until;
}

void zs_server_reap(struct zs_server *s)
{
    for (size_t i = 0; i < s->head.count;) {
        const struct zs_node *node = &s->head.nodes[i];
        struct zs_ask ask = {.call = RT_ZK_DELETE, .path = node->path, .version = -1};
        if (!node->container || node->children > 0 || node->creates == 0) {
            i++;
            continue;
        }
        int32_t said = zs_step_add(zs_step_new(s), &s->head, 0, &ask);
        assert(said == 0);
        (void)said;
        zs_step_done(s, RT_ZK_DELETE);
    }
}

void zs_server_heal(struct zs_server *s)
{
    s->net.faults = (struct sim_wire){0};
    for (struct zs_task *t = s->tasks; t != NULL; t = t->next) /* in their order */
        t->at = s->net.now;
    if (s->members[s->leader].frozen_until != 0 &&
        s->ping_at > s->ping_due) /* its stop ends early */
        s->ping_at = s->ping_due > s->net.now ? s->ping_due : s->net.now;
    s->behind_until = s->behind_until < s->net.now ? s->behind_until : s->net.now;
    if (s->leaderless_until != 0)
        s->leaderless_until = s->net.now;
    for (uint32_t i = 0; i < s->member_count; i++) {
        struct zs_member *m = &s->members[i];
        m->down_until = m->down_until != 0 ? s->net.now : 0;
        m->frozen_until = m->frozen_until != 0 ? s->net.now : 0;
        m->stale_until = m->stale_until != 0 ? s->net.now : 0;
        m->up_at = m->back_at = s->net.now;
    }
}

void zs_server_open(struct zs_server *s, uint64_t seed, uint32_t members, uint32_t tick_ms)
{
    memset(s, 0, sizeof(*s));
    sim_net_open(&s->net, &zs_host, seed);
    s->member_count = members;
    s->tick_ms = tick_ms;
    s->epoch = 1;
    s->phase = (int64_t)(sim_next(&s->net.random) % ((uint64_t)tick_ms * RT_MS));
    s->ping_at = tick_ms * RT_MS / 2;
    s->leader = sim_below(&s->net.random, members);
    zs_tree_open(&s->head);
    for (uint32_t i = 0; i < members; i++)
        zs_tree_open(&s->members[i].tree);
}

void zs_server_close(struct zs_server *s)
{
    sim_net_close(&s->net);
    forget_tasks(s);
    while (s->log_count > 0)
        zs_step_drop(s);
    free(s->log);
    free(s->sessions);
    zs_tree_close(&s->head);
    for (uint32_t i = 0; i < s->member_count; i++)
        zs_tree_close(&s->members[i].tree);
}
