/* SPDX-License-Identifier: Apache-2.0 */
/* The ops side as a whole: ops come in, those of one name one after the other; beginning and end. */
#include "engine/etcd/ops.h"

#include "base/alloc.h"
#include "engine/kit/hash.h"
#include "engine/url.h"

#include <assert.h>
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

/* ---- One after the other ------------------------------------------------------------------------ */

/* etcd serves the calls of a connection side by side, and ops of a name take effect in their order: so
 * each waits for those before it. */

static const char *name_of(const struct rt_op *op, size_t i)
{
    switch (op->kind) {
    case RT_OP_JOIN:
    case RT_OP_JOIN_ALL:
        return op->join.joins[i].name;
    case RT_OP_CHANGE:
        return op->change.name;
    case RT_OP_LEAVE:
        return op->leave.name;
    case RT_OP_BREAK:
        return op->brk.name;
    case RT_OP_INSPECT:
        return op->inspect.name;
    default:
        return NULL;
    }
}

static size_t names_of(const struct rt_op *op)
{
    if (op->kind == RT_OP_JOIN || op->kind == RT_OP_JOIN_ALL)
        return op->join.n;
    return name_of(op, 0) != NULL ? 1 : 0;
}

static struct rt_etcd_turn *turn_of(const struct rt_work *w)
{
    return w->more;
}

static void stand_behind(struct rt_etcd_side *s, struct rt_work *w, const char *name)
{
    struct rt_etcd_turn *turn = turn_of(w);
    struct rt_etcd_stand *stand = &turn->stand[turn->stands];
    *stand = (struct rt_etcd_stand){
        .work = w, .name = name, .bucket = rt_hash(name, strlen(name)) % RT_ETCD_LANES};
    bool ahead = false;
    struct rt_etcd_stand **at = &s->lanes[stand->bucket];
    for (; *at != NULL; at = &(*at)->next) {
        if (strcmp((*at)->name, name) != 0)
            continue;
        if ((*at)->work == w)
            return; /* a set that names it twice: it will be told */
        ahead = true;
    }
    *at = stand;
    turn->stands++;
    turn->ahead += ahead;
}

static void stand_out(struct rt_etcd_side *s, struct rt_etcd_stand *stand)
{
    bool first = true;
    struct rt_etcd_stand **at = &s->lanes[stand->bucket];
    for (; *at != stand; at = &(*at)->next)
        first = first && strcmp((*at)->name, stand->name) != 0;
    *at = stand->next;
    for (struct rt_etcd_stand *next = stand->next; first && next != NULL; next = next->next) {
        if (strcmp(next->name, stand->name) != 0)
            continue;
        struct rt_etcd_turn *turn = turn_of(next->work);
        if (--turn->ahead == 0) {
            turn->ready = NULL;
            *s->ready_tail = next->work;
            s->ready_tail = &turn->ready;
        }
        return;
    }
}

/* ---- Works -------------------------------------------------------------------------------------- */

static void begin_now(struct rt_etcd_conn *c, struct rt_work *w)
{
    int rv;
    turn_of(w)->begun = true;
    if (rt_loop_now(rt_etcd_base(c)->loop) >= w->op->deadline)
        rv = rt_etcd_fail(c, ROTA_UNREACHABLE, "etcd: no answer in time");
    else
        rv = turn_of(w)->kind->begin(c, w);
    if (rv != 0)
        rt_etcd_work_end(c, w, rv);
}

static void begin_ready(struct rt_etcd_conn *c)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    if (s->starting)
        return;
    s->starting = true;
    while (s->ready != NULL) {
        struct rt_work *w = s->ready;
        s->ready = turn_of(w)->ready;
        if (s->ready == NULL)
            s->ready_tail = &s->ready;
        begin_now(c, w);
    }
    s->starting = false;
}

/* With its turn behind it. NULL: no memory. */
static struct rt_work *work_new(struct rt_etcd_side *s, const struct rt_etcd_kind *kind,
                                struct rt_op *op)
{
    size_t names = names_of(op), at = (kind->size + names * kind->each + 15) & ~(size_t)15;
    size_t size = at + sizeof(struct rt_etcd_turn) + names * sizeof(struct rt_etcd_stand);
    struct rt_work *w = rt_work_new(&s->works, rt_etcd_base(s->c), size, op);
    if (w == NULL)
        return NULL;
    struct rt_etcd_turn *turn = w->more = (char *)w + at;
    turn->kind = kind;
    w->free = kind->free;
    for (size_t i = 0; i < names; i++)
        if (name_of(op, i) != NULL)
            stand_behind(s, w, name_of(op, i));
    return w;
}

void rt_etcd_work_end(struct rt_etcd_conn *c, struct rt_work *w, int err)
{
    struct rt_etcd_turn *turn = turn_of(w);
    assert(w->pending == 0);
    rt_work_note(rt_etcd_base(c), w, err);
    if (w->err == ROTA_UNKNOWN && w->op->kind != RT_OP_BEAT)
        rt_etcd_s(c)->session.doubtful = true;
    for (size_t i = 0; i < turn->stands; i++)
        stand_out(rt_etcd_s(c), &turn->stand[i]);
    rt_work_end(rt_etcd_base(c), w, 0);
    begin_ready(c);
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
    for (const struct rt_work *w = rt_etcd_s(c)->works; w != NULL; w = w->next) {
        const struct rt_op *op = w->op;
        if (op->kind != RT_OP_JOIN && op->kind != RT_OP_JOIN_ALL)
            continue;
        for (size_t i = 0; i < op->join.n; i++)
            if (op->join.joins[i].nonce == nonce && op->join.joins[i].name != NULL &&
                strcmp(op->join.joins[i].name, name) == 0)
                return true;
    }
    return false;
}

/* ---- Submitting and cancelling ------------------------------------------------------------------- */

void rt_etcd_submit(struct rt_conn *conn, struct rt_op *op)
{
    static const struct rt_etcd_kind *const kinds[] = {
        [RT_OP_BEAT] = &rt_etcd_beat,       [RT_OP_JOIN] = &rt_etcd_join,
        [RT_OP_JOIN_ALL] = &rt_etcd_join,   [RT_OP_CHANGE] = &rt_etcd_change,
        [RT_OP_LEAVE] = &rt_etcd_leave,     [RT_OP_OBSERVE] = &rt_etcd_observe,
        [RT_OP_INSPECT] = &rt_etcd_inspect, [RT_OP_LIST] = &rt_etcd_list,
        [RT_OP_BREAK] = &rt_etcd_break,     [RT_OP_CHECK] = &rt_etcd_check,
    };
    struct rt_etcd_conn *c = rt_etcd_of(conn);
    assert((unsigned)op->kind < sizeof(kinds) / sizeof(kinds[0]));
    struct rt_work *w = work_new(rt_etcd_s(c), kinds[op->kind], op);
    if (w == NULL)
        rt_conn_done(conn, op, ROTA_NOMEM);
    else if (turn_of(w)->ahead == 0)
        begin_now(c, w);
}

void rt_etcd_cancel(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_etcd_conn *c = rt_etcd_of(conn);
    struct rt_work *w = rt_etcd_s(c)->works;
    while (w != NULL && w->op != op)
        w = w->next;
    if (w == NULL)
        return;
    const struct rt_etcd_turn *turn = turn_of(w);
    if (!turn->begun && turn->ahead > 0)
        rt_etcd_work_end(c, w, rt_etcd_fail(c, ROTA_CANCELED, "canceled"));
    else if (turn->kind->cancel != NULL)
        turn->kind->cancel(c, w);
    else
        (void)rt_etcd_ask_cancel(c, op);
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
    s->ready_tail = &s->ready;
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
    for (const struct rt_work *w = s->works; w != NULL; w = w->next)
        if (w->op->kind == RT_OP_BEAT && w->op->beat.open)
            return true;
    return false;
}

/* etcd drops what it has not begun when the connection goes: so the end is waited for, as is whatever
 * else must be done. Not without a connection: then the ttl ends it. */
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
    rt_work_close(&s->works, rt_etcd_base(c));
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
    rt_view_close(&s->views);
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
