/* SPDX-License-Identifier: Apache-2.0 */
/* The ops side as a whole: submission, ops of one name one after the other; opening and closing. */
#include "engine/etcd/ops.h"

#include "base/alloc.h"
#include "engine/url.h"

#include <time.h>

#define SIDE_TIMERS 1

/* ---- Small things ----------------------------------------------------------------------------- */

int64_t rt_etcd_wall_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t rt_etcd_seconds(int64_t ms)
{
    int64_t s = ms / 1000 + (ms % 1000 != 0);
    return s > 0 ? s : 1;
}

void rt_etcd_label(struct rt_etcd_conn *c, struct rt_etcd_card *card)
{
    const char *label = rt_etcd_base(c)->label;
    if (label == NULL)
        label = "";
    card->label = (const uint8_t *)label;
    card->label_size = strnlen(label, RT_LABEL_MAX);
}

/* ?names=raw: a session would stand in its own line. */
static bool is_of_sessions(const char *name)
{
    static const char own[] = RT_ETCD_SESSIONS;
    size_t n = strlen(own) - 1;
    const char *at = name;
    while ((at = strchr(at, own[0])) != NULL && strncmp(at, own, n) != 0)
        at++;
    return at != NULL && (at[n] == '\0' || at[n] == '/');
}

const char *rt_etcd_prefix(struct rt_etcd_conn *c)
{
    return rt_etcd_s(c)->prefix;
}

int rt_etcd_check_name(struct rt_etcd_conn *c, const char *name)
{
    int rv = rt_check_name(rt_etcd_base(c), name);
    if (rv != 0)
        return rv;
    if (is_of_sessions(name))
        return rt_etcd_fail(c, ROTA_INVALID, "the name %.100s is that of the sessions on etcd",
                            name);
    return 0;
}

/* ---- Works -------------------------------------------------------------------------------------- */

/* etcd serves the calls of a connection side by side, but the ops of a name must take effect in order:
 * so each waits for those before it (kit/turn). */

static void on_ended(void *engine, struct rt_work *w)
{
    if (w->err == ROTA_UNKNOWN && w->op->kind != RT_OP_BEAT)
        rt_etcd_s(engine)->session.doubtful = true;
}

static void on_cancel(void *engine, struct rt_op *op)
{
    (void)rt_etcd_ask_cancel(engine, op);
}

void rt_etcd_work_end(struct rt_etcd_conn *c, struct rt_work *w, int err)
{
    rt_turn_end(&rt_etcd_s(c)->turns, w, err);
}

int rt_etcd_work_txn(struct rt_etcd_conn *c, struct rt_work *w, struct rt_etcd_txn *t,
                     rt_etcd_answer_fn *answer, void *owner)
{
    return rt_etcd_txn_send(c, t, answer, w->op, owner, &w->pending);
}

int rt_etcd_work_look(struct rt_etcd_conn *c, struct rt_work *w, const char *name, uint64_t number,
                      rt_etcd_answer_fn *answer, void *owner)
{
    struct rt_etcd_txn t;
    rt_etcd_txn_open(c, &t, 0, 1, 0);
    RtEtcd__RangeRequest *range = rt_etcd_get_line(&t, RT_ETCD_THEN, name);
    range->min_create_revision = range->max_create_revision = (int64_t)number;
    return rt_etcd_work_txn(c, w, &t, answer, owner);
}

int rt_etcd_work_ask(struct rt_etcd_conn *c, struct rt_work *w, enum rt_etcd_call call,
                     const void *message, rt_etcd_answer_fn *answer, void *owner, uint64_t extra)
{
    struct rt_etcd_ask *a = rt_etcd_ask_new(c, call, message, answer);
    return rt_etcd_ask_for(c, a, w->op, owner, extra, &w->pending);
}

bool rt_etcd_joining(struct rt_etcd_conn *c, const char *name, uint64_t nonce)
{
    return rt_turns_joining(&rt_etcd_s(c)->turns, name, nonce);
}

static const struct rt_turn_kind *const kinds[] = {
    [RT_OP_BEAT] = &rt_etcd_beat,       [RT_OP_JOIN] = &rt_etcd_join,
    [RT_OP_JOIN_ALL] = &rt_etcd_join,   [RT_OP_CHANGE] = &rt_etcd_change,
    [RT_OP_LEAVE] = &rt_etcd_leave,     [RT_OP_OBSERVE] = &rt_etcd_observe,
    [RT_OP_INSPECT] = &rt_etcd_inspect, [RT_OP_LIST] = &rt_etcd_list,
    [RT_OP_BREAK] = &rt_etcd_break,     [RT_OP_CHECK] = &rt_etcd_check,
};
static const struct rt_turn_user turn_user = {kinds, on_cancel, on_ended, "etcd"};

void rt_etcd_submit(struct rt_conn *conn, struct rt_op *op)
{
    rt_turns_submit(&rt_etcd_s(rt_etcd_of(conn))->turns, op);
}

void rt_etcd_cancel(struct rt_conn *conn, struct rt_op *op)
{
    rt_turns_cancel(&rt_etcd_s(rt_etcd_of(conn))->turns, op);
}

/* ---- Beginning and end ---------------------------------------------------------------------------- */

static int name_sessions(struct rt_etcd_conn *c, const struct rt_url *url)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    struct rt_spelling *sp = rt_alloc(sizeof(*sp));
    struct rt_conn *base = rt_etcd_base(c);
    if (sp == NULL)
        return rt_words_nomem(rt_etcd_base(c));
    bool raw = strcmp(rt_url_param(url, "names", ""), "raw") == 0;
    int rv = rt_spelling_init(sp, rt_url_param(url, "prefix", ""), raw, base->errmsg,
                              sizeof(base->errmsg));
    if (rv == 0) {
        memcpy(s->prefix, sp->prefix, sp->prefix_size);
        memcpy(s->sessions, sp->prefix, sp->prefix_size);
        memcpy(s->sessions + sp->prefix_size, RT_ETCD_SESSIONS, sizeof(RT_ETCD_SESSIONS));
        s->sessions_size = sp->prefix_size + sizeof(RT_ETCD_SESSIONS) - 1;
    }
    rt_free(sp);
    return rv;
}

int rt_etcd_side_open(struct rt_etcd_conn *c, const struct rt_url *url)
{
    struct rt_etcd_side *s = rt_alloc(sizeof(*s));
    if (s == NULL)
        return rt_words_nomem(rt_etcd_base(c));
    *rt_etcd_side(c) = s;
    s->c = c;
    rt_turns_init(&s->turns, rt_etcd_base(c), c, &turn_user);
    s->observers = (struct rt_observers){.user = &rt_etcd_observer_user, .turns = &s->turns};
    s->least_timer.timer.kind = RT_TIMER_CALL;
    s->least_timer.fire = rt_etcd_least_fire;
    s->arena = RT_ETCD_ARENA;
    int rv = name_sessions(c, url);
    if (rv == 0 && rt_etcd_table_open(s) != 0)
        rv = rt_words_nomem(rt_etcd_base(c));
    if (rv == 0 && rt_loop_reserve(rt_etcd_base(c)->loop, SIDE_TIMERS) != 0)
        rv = rt_words_nomem(rt_etcd_base(c));
    if (rv != 0) {
        rt_free(s->table);
        rt_free(s);
        *rt_etcd_side(c) = NULL;
    }
    return rv;
}

static bool is_opening(const struct rt_etcd_side *s)
{
    for (const struct rt_work *w = s->turns.works; w != NULL; w = w->next)
        if (w->op->kind == RT_OP_BEAT && w->op->beat.open)
            return true;
    return false;
}

/* When the connection goes, etcd drops what it has not begun: so we wait for the session's end, and for
 * whatever else must be done. Not without a connection: then the ttl ends the session. */
bool rt_etcd_parting(struct rt_conn *conn)
{
    struct rt_etcd_conn *c = rt_etcd_of(conn);
    if (!rt_etcd_ready(c))
        return false;
    rt_etcd_session_end(c);
    return rt_etcd_s(c)->chores != NULL || is_opening(rt_etcd_s(c)) ||
           rt_etcd_leasts_busy(rt_etcd_s(c));
}

void rt_etcd_side_close(struct rt_etcd_conn *c)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    struct rt_loop *loop = rt_etcd_base(c)->loop;
    if (s == NULL)
        return;
    rt_etcd_session_end(c); /* if nobody has waited for it */
    s->closing = true;
    rt_turns_close(&s->turns);
    while (s->doubts != NULL)
        rt_etcd_doubts_end(s, s->doubts->session, s->doubts->nonce);
    while (s->tickets != NULL) {
        struct rt_etcd_ticket *t = s->tickets;
        s->tickets = t->next;
        rt_free(t);
    }
    rt_free(s->table);
    rt_etcd_wait_close(s);
    rt_etcd_leasts_close(s);
    rt_etcd_chores_close(s);
    rt_observe_close(&s->observers);
    rt_etcd_line_fini(&s->line);
    rt_arena_fini(&s->arena);
    rt_timers_stop(&loop->timers, &s->least_timer.timer);
    rt_loop_unreserve(loop, SIDE_TIMERS);
    rt_free(s);
    *rt_etcd_side(c) = NULL;
}

void rt_etcd_linked(struct rt_etcd_conn *c)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    if (s != NULL && s->session.id != 0)
        rt_etcd_verify(c);
}
