/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader does: sessions made and resumed, steps judged and agreed on. */
#include "sim/zookeeper/server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_TICKS 2
#define MOST_TICKS 20
#define EXPIRED (-112)
#define MOVED (-118)
#define UNDONE (-2) /* in a multi: after the one that failed */
#define PARTS_MAX 64

/* ---- Sessions --------------------------------------------------------------------------------- */

static void say_session(struct zs_request *r, const struct zs_session *session)
{
    static const uint8_t none[16];
    rt_jute_int(&r->reply, 0);
    rt_jute_int(&r->reply, session != NULL ? (int32_t)session->timeout_ms : 0);
    rt_jute_long(&r->reply, session != NULL ? (int64_t)session->id : 0);
    rt_jute_bytes(&r->reply, session != NULL ? session->password : none, sizeof(none));
    rt_jute_bool(&r->reply, false);
}

static struct zs_session *make_session(struct zs_server *s, uint32_t member, int32_t timeout)
{
    if (s->session_count == s->session_room) {
        s->session_room = s->session_room > 0 ? 2 * s->session_room : 16;
        s->sessions = realloc(s->sessions, s->session_room * sizeof(*s->sessions));
        assert(s->sessions != NULL);
    }
    struct zs_session *session = &s->sessions[s->session_count++];
    int32_t least = LEAST_TICKS * (int32_t)s->tick_ms, most = MOST_TICKS * (int32_t)s->tick_ms;
    *session = (struct zs_session){.owner = member};
    session->id = (uint64_t)(member + 1) << 56 | (sim_next(&s->net.random) >> 8);
    session->timeout_ms = (uint32_t)(timeout < least ? least : timeout > most ? most : timeout);
    for (size_t i = 0; i < sizeof(session->password); i++)
        session->password[i] = (uint8_t)(session->id >> i * 4);
    zs_touch_leader(s, session);
    (void)zs_step_new(s);
    zs_step_done(s, 0);
    return session;
}

static void take_up(struct zs_server *s, struct zs_request *r)
{
    struct rt_jute_in in = {r->bytes, r->n, false};
    (void)rt_jute_get_int(&in);
    (void)rt_jute_get_long(&in);
    int32_t timeout = rt_jute_get_int(&in);
    uint64_t id = (uint64_t)rt_jute_get_long(&in);
    struct rt_text password = rt_jute_get_bytes(&in);
    struct zs_session *session = id != 0 ? zs_session_find(s, id) : NULL;
    if (id == 0) {
        session = make_session(s, r->member, timeout);
    } else if (session != NULL) {
        assert(password.size == 16 && memcmp(password.at, session->password, 16) == 0);
        zs_touch_leader(s, session);
        session->owner = r->member;
    }
    r->session = session != NULL ? session->id : 0;
    say_session(r, session);
}

/* 0, or why R is not done for its session. */
static int32_t check_session(struct zs_server *s, const struct zs_request *r)
{
    struct zs_session *session = zs_session_find(s, r->session);
    if (session == NULL)
        return EXPIRED;
    if (session->owner == ZS_NOBODY)
        session->owner = r->member;
    return session->owner == r->member ? 0 : MOVED;
}

/* ---- Steps ------------------------------------------------------------------------------------ */

/* As it stands in a request, or in a part of a multi. PATH is kept by the caller. */
static struct zs_ask read_ask(struct rt_jute_in *in, int32_t call, char path[1024])
{
    struct zs_ask ask = {.call = (enum rt_zk_call)call, .version = -1};
    struct rt_text text = rt_jute_get_bytes(in);
    assert(text.size > 0 && text.size < 1024);
    memcpy(path, text.at, text.size);
    path[text.size] = '\0';
    ask.path = path;
    if (call == RT_ZK_CREATE || call == RT_ZK_CREATE2 || call == RT_ZK_CONTAINER) {
        ask.call = RT_ZK_CREATE;
        ask.data = rt_jute_get_bytes(in);
        for (int32_t n = rt_jute_get_int(in); n > 0; n--) {
            (void)rt_jute_get_int(in);
            (void)rt_jute_get_bytes(in);
            (void)rt_jute_get_bytes(in);
        }
        ask.flags = rt_jute_get_int(in);
        return ask;
    }
    if (call == RT_ZK_SET)
        ask.data = rt_jute_get_bytes(in);
    ask.version = rt_jute_get_int(in);
    return ask;
}

static void put_result(struct zs_server *s, struct rt_jute_out *o, int32_t call,
                       const struct zs_change *change)
{
    if (call == RT_ZK_CREATE || call == RT_ZK_CREATE2 || call == RT_ZK_CONTAINER)
        rt_jute_text(o, change->path);
    if (call == RT_ZK_CREATE2 || call == RT_ZK_CONTAINER || call == RT_ZK_SET)
        zs_put_stat(o, zs_tree_find(&s->head, change->path));
}

static void do_one(struct zs_server *s, struct zs_request *r, struct rt_jute_in *in)
{
    char path[1024];
    struct zs_ask ask = read_ask(in, r->call, path);
    struct zs_step *step = zs_step_new(s);
    assert(!in->bad); /* the engine writes no nonsense */
    r->zxid = step->zxid;
    r->said = zs_step_add(step, &s->head, r->session, &ask);
    if (r->said != 0) {
        zs_step_drop(s);
        return;
    }
    put_result(s, &r->reply, r->call, &step->changes[0]);
    zs_step_done(s, r->call);
}

static void put_part(struct rt_jute_out *o, int32_t call, bool last, int32_t said)
{
    rt_jute_int(o, call);
    rt_jute_bool(o, last);
    rt_jute_int(o, said);
}

static void do_multi(struct zs_server *s, struct zs_request *r, struct rt_jute_in *in)
{
    char path[1024];
    int32_t calls[PARTS_MAX], said = 0;
    size_t n = 0, failed = 0;
    struct zs_tree before = {0};
    struct zs_step *step = zs_step_new(s);
    zs_tree_copy(&before, &s->head);
    r->zxid = step->zxid;
    for (;; n++) {
        int32_t call = rt_jute_get_int(in);
        bool last = rt_jute_get_bool(in);
        (void)rt_jute_get_int(in);
        assert(!in->bad && n < PARTS_MAX);
        if (last)
            break;
        calls[n] = call;
        struct zs_ask ask = read_ask(in, call, path);
        if (said == 0 && (said = zs_step_add(step, &s->head, r->session, &ask)) != 0)
            failed = n;
    }
    for (size_t i = 0; i < n && said == 0; i++) {
        put_part(&r->reply, calls[i], false, 0);
        /* A node that a later part deletes no longer has a stat: nobody asks for that. */
        if (calls[i] == RT_ZK_CREATE)
            rt_jute_text(&r->reply, step->changes[i].path);
        else if (calls[i] == RT_ZK_SET) {
            const struct zs_node *node = zs_tree_find(&s->head, step->changes[i].path);
            zs_put_stat(&r->reply, node != NULL ? node : &s->head.nodes[0]);
        }
    }
    for (size_t i = 0; i < n && said != 0; i++) {
        int32_t one = i < failed ? 0 : i == failed ? said : UNDONE;
        put_part(&r->reply, -1, false, one);
        rt_jute_int(&r->reply, one);
    }
    put_part(&r->reply, -1, true, -1);
    if (said != 0) {
        zs_step_drop(s);
        zs_tree_close(&s->head);
        s->head = before;
        return;
    }
    zs_tree_close(&before);
    zs_step_done(s, r->call);
}

void zs_lead(struct zs_server *s, struct zs_request *r)
{
    struct rt_jute_in in = {r->bytes, r->n, false};
    r->zxid = zs_last_zxid(s, s->log_count);
    if (r->call == 0) {
        take_up(s, r);
        return;
    }
    if (r->call == RT_ZK_SYNC) { /* also of a session that has moved */
        struct rt_text path = rt_jute_get_bytes(&in);
        rt_jute_bytes(&r->reply, path.at, path.size);
        return;
    }
    r->said = check_session(s, r);
    if (r->said != 0)
        return;
    if (r->call == RT_ZK_CLOSE)
        zs_server_end(s, r->session);
    else if (r->call == RT_ZK_MULTI)
        do_multi(s, r, &in);
    else
        do_one(s, r, &in);
}
