/* SPDX-License-Identifier: Apache-2.0 */
/* The session: ZooKeeper's own, with a node whose end is its end.
 *
 *   open:  create +rota/SID (ephemeral, its data the label) ──▶ getData of it, watched
 *   renew: sync; with tickets also getEphemerals, now and then: what the servers know of them
 *
 * If the node changed, a ticket was broken. What if the reply is lost: an `open` is asked again, in whatever session
 * there is then. A renewal counts as soon as the servers certainly count from it (zk.h, touches): how far behind they
 * may be is its allowance. */
#include "engine/zookeeper/ops.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "engine/kit/belief.h"

#include <stdio.h>
#include <string.h>

#define LOOKED_AT_PER_BEAT 256
#define LINES_MOST (64u << 10)

struct beat {
    struct rt_work work; /* first */
    int64_t begun_at;
};

/* ---- Its end ---------------------------------------------------------------------------------- */

/* Whether T belongs to the current session, and ends with it. */
static bool is_of_it(const struct rt_zk *z, const struct rt_zk_ticket *t)
{
    return !t->id.durable && t->id.session == z->session.id;
}

static void forget(struct rt_zk *z)
{
    for (struct rt_zk_ticket *t = z->tickets, *next; t != NULL; t = next) {
        next = t->next;
        if (is_of_it(z, t))
            rt_zk_ticket_drop(z, t);
    }
    rt_zk_unwatch(&z->session.watch);
    z->session.id = 0;
    z->session.doubtful = z->session.parting = false;
    z->c.wanted_until = 0;
}

void rt_zk_expired(struct rt_zk *z)
{
    struct rt_event event = {.kind = RT_SESSION_LOST, .session = z->session.id};
    if (z->session.id == 0)
        return;
    forget(z);
    rt_conn_event(&z->base, &event);
}

static void parted(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    (void)a;
    (void)err;
    (void)reply;
    z->session.parted = true;
}

/* Does not end the session while tickets stand on it, nor without a connection: then the timeout ends it. */
bool rt_zk_parting(struct rt_conn *conn)
{
    struct rt_zk *z = (struct rt_zk *)(void *)conn;
    if (z->c.link.state != RT_DIAL_READY || z->c.session.id == 0 || z->session.parted)
        return false;
    for (const struct rt_zk_ticket *t = z->tickets; t != NULL; t = t->next)
        if (!t->id.durable)
            return false;
    if (z->session.parting)
        return true;
    z->session.parting = true;
    struct rt_zk_ask *a = rt_zk_ask_new(&z->c, RT_ZK_CLOSE, parted);
    a->session = z->c.session.id;
    return rt_zk_post(&z->c, a) == 0;
}

/* ---- What the servers know of our tickets ----------------------------------------------------- */

/* Marks the ticket at PATH as seen; a node of ours that nobody knows comes from a JOIN that was given up, or
 * is its twin. */
static void see_path(struct rt_zk *z, struct rt_text path)
{
    char name[RT_NAME_ROOM], node[RT_ZK_NODE_ROOM];
    size_t root = strlen(z->root);
    const char *at = path.at, *slash = path.size > root ? memrchr(at, '/', path.size) : NULL;
    struct rt_zk_id id;
    if (slash == NULL || memcmp(at, z->root, root) != 0 || slash <= at + root ||
        !rt_zk_name_read(z, (struct rt_text){at + root + 1, (size_t)(slash - at) - root - 1}, name))
        return;
    (void)snprintf(node, sizeof(node), "%.*s", (int)(at + path.size - slash - 1), slash + 1);
    rt_zk_node_read(z->dialect, node, &id);
    struct rt_zk_ticket *t = id.ours ? rt_zk_ticket_find(z, name, id.session, 0, id.nonce) : NULL;
    if (t != NULL && (t->misnamed || strcmp(t->node, node) == 0))
        t->seen = true;
    else if (id.ours && id.session == z->session.id) {
        z->session.doubtful = true; /* until it is gone */
        if (!rt_turns_busy(&z->turns, name))
            (void)rt_zk_post(&z->c, rt_zk_take_out(z, name, node, NULL));
    }
}

static void tell_missing(struct rt_zk *z, uint64_t asked)
{
    for (struct rt_zk_ticket *t = z->tickets, *next; t != NULL; t = next) {
        next = t->next;
        if (!t->seen && is_of_it(z, t) && t->serial <= asked && !t->misnamed &&
            t->number < RT_ZK_CALLED)
            rt_zk_ticket_lost(z, t);
    }
}

static void verified(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    z->session.verifying = false;
    if (z->session.again && z->session.id != 0)
        rt_zk_verify(z);
    if (err != 0 || reply->said != RT_ZK_OK || z->session.id == 0 || a->session != z->session.id) {
        z->session.doubtful = true;
        return;
    }
    for (struct rt_zk_ticket *t = z->tickets; t != NULL; t = t->next)
        t->seen = false;
    z->session.doubtful = false;
    for (size_t n = rt_jute_get_count(&reply->body, 4); n > 0 && !reply->body.bad; n--)
        see_path(z, rt_jute_get_bytes(&reply->body));
    z->session.doubtful = z->session.doubtful || reply->body.bad;
    if (!reply->body.bad)
        tell_missing(z, a->extra);
}

void rt_zk_verify(struct rt_zk *z)
{
    z->session.again = z->session.verifying;
    if (z->session.verifying)
        return;
    struct rt_zk_ask *a = rt_zk_path(&z->c, RT_ZK_EPHEMERALS, rt_zk_root(z), verified);
    a->session = z->session.id;
    z->session.verifying = rt_zk_send(&z->c, a, NULL, NULL, z->serial, NULL) == 0;
}

/* ---- Its node --------------------------------------------------------------------------------- */

static void watch_node(struct rt_zk *z);

static void node_fired(struct rt_zk *z, struct rt_zk_watch *w, enum rt_zk_event event, bool afresh)
{
    (void)w;
    (void)event; /* deleted: the session is over, and the connection will say so */
    (void)afresh;
    watch_node(z);
}

static void node_seen(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_stat stat;
    (void)a;
    (void)rt_zk_answered_node(err, reply, &stat);
    if (z->session.id != 0 && stat.version > z->session.version) {
        z->session.version = stat.version;
        rt_zk_verify(z);
    }
}

static void watch_node(struct rt_zk *z)
{
    const char *path = rt_zk_session_path(z, z->session.id);
    if (z->session.id == 0)
        return;
    if (rt_zk_watch(&z->c, &z->session.watch, RT_ZK_WATCH_DATA, path, node_fired, z) == 0)
        (void)rt_zk_post(&z->c, rt_zk_read(&z->c, RT_ZK_GET, path, true, node_seen));
}

static void add_line(struct rt_jute_out *lines, const char *name)
{
    if (lines->size + strlen(name) + 1 > LINES_MOST)
        return;
    rt_jute_raw(lines, "\n", 1);
    rt_jute_raw(lines, name, strlen(name));
}

static void lines_set(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_stat stat;
    (void)a;
    if (err != 0 || reply->said != RT_ZK_OK)
        return;
    rt_jute_get_stat(&reply->body, &stat);
    if (stat.version == z->session.version + 1) /* nobody else was in between */
        z->session.version = stat.version;
}

int rt_zk_show_lines(struct rt_zk *z, const struct rt_op *op)
{
    struct rt_jute_out lines = {0};
    struct rt_text label = rt_zk_label(z);
    rt_jute_raw(&lines, label.at, label.size);
    for (const struct rt_zk_ticket *t = z->tickets; t != NULL; t = t->next)
        if (t->id.detect)
            add_line(&lines, t->name);
    for (size_t i = 0; i < op->join.n; i++)
        add_line(&lines, op->join.joins[i].name);
    struct rt_zk_ask *a = rt_zk_set(&z->c, rt_zk_session_path(z, z->session.id),
                                    (struct rt_text){lines.at, lines.size}, lines_set);
    a->out.failed = a->out.failed || lines.failed;
    rt_jute_free(&lines);
    return rt_zk_post(&z->c, a);
}

/* By how much of the ttl the servers may be behind B: its allowance. Also when B opens a session, which may be
 * an old one. */
static int allow(struct rt_zk *z, const struct beat *b)
{
    const struct rt_zk_conn *c = &z->c;
    struct rt_op *op = b->work.op;
    int64_t ttl = c->ttl_ms * RT_MS, since = rt_loop_now(z->base.loop) - b->begun_at;
    int64_t late = b->begun_at + ttl - rt_zk_secured(c);
    if (RT_BUG(RT_BUG_TOUCH_TRUSTED))
        late = c->tick_ms * RT_MS;
    late = late > 0 ? late : 0;
    op->beat.ttl_ms = c->ttl_ms;
    op->beat.allowance_ms = (uint32_t)((late + RT_MS - 1) / RT_MS);
    return late + ttl / 12 + since < ttl
               ? 0
               : rt_words_fail(&z->base, ROTA_UNKNOWN,
                               "%.180s may not have passed on that the session lives", rt_zk_at(c));
}

/* ---- Opening ---------------------------------------------------------------------------------- */

static int send_open(struct rt_zk *z, struct beat *b);

static void prepare_open(struct rt_zk *z, struct rt_zk_ask *a)
{
    rt_zk_put_create(&z->c, &a->out, rt_zk_session_path(z, z->c.session.id), rt_zk_label(z),
                     RT_ZK_EPHEMERAL);
}

static void take_over(struct rt_zk *z, const struct beat *b)
{
    forget(z);
    z->session.id = b->work.op->beat.session = z->c.session.id;
    z->session.version = 0;
    z->base.ttl_ms = z->c.ttl_ms;
    z->c.wanted_until = b->begun_at + z->c.ttl_ms * RT_MS;
    watch_node(z);
}

static void opened(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct beat *b = a->owner;
    struct rt_zk_stat stat;
    if (err == 0 && reply->said == RT_ZK_NO_NODE && a->extra == 0) {
        err = rt_zk_make_way(z, rt_zk_session_path(z, z->c.session.id));
        if (err == 0)
            err = send_open(z, b);
        if (err == 0)
            return;
    } else if (err == 0 && reply->said == RT_ZK_NO_NODE) {
        err = rt_zk_no_way(z, rt_zk_session_path(z, z->c.session.id));
    }
    (void)rt_zk_answered_node(err, reply, &stat);
    if (stat.ctime != 0)
        rt_zk_clock(z, stat.ctime);
    if (err == 0)
        err = allow(z, b);
    if (err == 0)
        take_over(z, b);
    rt_zk_end(z, &b->work, err);
}

static int send_open(struct rt_zk *z, struct beat *b)
{
    struct rt_zk_ask *a = rt_zk_ask_new(&z->c, RT_ZK_CREATE2, opened);
    uint64_t tries = b->work.err == 0 && b->begun_at != 0;
    a->prepare = prepare_open;
    a->entry.again = true;
    b->begun_at = rt_loop_now(z->base.loop);
    return rt_zk_work_send(z, &b->work, a, tries);
}

/* ---- Renewing --------------------------------------------------------------------------------- */

static bool is_missing(void *arg, const char *name, uint64_t number)
{
    struct rt_zk *z = arg;
    if (rt_zk_ticket_find(z, name, z->session.id, number, 0) != NULL)
        return false;
    const struct rt_zk_ticket *t = number >= RT_ZK_CALLED ? z->tickets : NULL;
    while (t != NULL && t->called != number) /* then its grant was not heard */
        t = t->next;
    return t == NULL;
}

/* Repeats what was told and may not have been heard; and one of the waiting tickets looks for itself, in case an
 * event was lost. */
static void catch_up(struct rt_zk *z)
{
    struct rt_zk_ticket *oldest = NULL;
    rt_belief_tell_lost(&z->base, z->session.id, is_missing, z);
    for (struct rt_zk_ticket *t = z->tickets; t != NULL; t = t->next) {
        if (t->leaving)
            continue;
        if (t->told)
            rt_zk_tell(z, RT_GRANTED, t);
        if (t->granted && t->wanted)
            rt_zk_tell(z, RT_WANTED, t);
        if ((!t->granted || (t->armed && !t->wanted)) &&
            (oldest == NULL || t->looked < oldest->looked))
            oldest = t;
        if (t->blind)
            rt_zk_wait_look(z, t);
    }
    if (oldest != NULL)
        rt_zk_wait_look(z, oldest);
}

static void renewed(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_conn *c = &z->c;
    struct beat *b = a->owner;
    struct rt_op *op = b->work.op;
    (void)reply;
    if (err == 0 && op->beat.session != z->session.id)
        err = rt_words_no_session(&z->base, op->beat.session);
    if (err == 0) {
        rt_zk_touched(c, a);
        err = allow(z, b);
    }
    rt_zk_end(z, &b->work, err == ROTA_UNREACHABLE ? ROTA_UNKNOWN : err);
    if (err != 0)
        return;
    catch_up(z);
    rt_observe_look_all(&z->observers);
}

static int begin_beat(void *engine, struct rt_work *w)
{
    struct rt_zk *z = engine;
    struct beat *b = (struct beat *)(void *)w;
    const struct rt_op *op = w->op;
    if (op->beat.open) {
        if (z->session.id != 0) {
            forget(z); /* the earlier one is left to die */
            rt_zk_anew(&z->c);
        }
        return send_open(z, b);
    }
    if (op->beat.session == 0 || op->beat.session != z->session.id)
        return rt_words_no_session(&z->base, op->beat.session);
    b->begun_at = rt_loop_now(z->base.loop);
    z->c.wanted_until = b->begun_at + z->c.ttl_ms * RT_MS;
    struct rt_zk_ask *a = rt_zk_path(&z->c, RT_ZK_SYNC, "/", renewed);
    a->session = z->session.id;
    if (rt_zk_wire(&z->c) != NULL)
        rt_zk_wire(&z->c)->touched_at = b->begun_at;
    int rv = rt_zk_work_send(z, w, a, 0);
    z->session.unseen += LOOKED_AT_PER_BEAT;
    if (rv == 0 && (z->session.doubtful ||
                    (op->beat.ticket_count > 0 && z->session.unseen >= op->beat.ticket_count))) {
        z->session.unseen = 0;
        rt_zk_verify(z); /* in the same flight */
    }
    return rv;
}

const struct rt_turn_kind rt_zk_beat = {.size = sizeof(struct beat), .begin = begin_beat};
