/* SPDX-License-Identifier: Apache-2.0 */
/* Ops of a name, one after the other. */
#include "engine/kit/turn.h"

#include "engine/kit/hash.h"
#include "engine/kit/words.h"
#include "net/loop.h"

#include <assert.h>
#include <rota.h>
#include <string.h>

struct rt_stand { /* in the lane of a name */
    struct rt_stand *next;
    struct rt_work *work;
    const char *name;
    size_t bucket;
};

struct turn { /* behind its work */
    const struct rt_turn_kind *kind;
    struct rt_work *ready; /* the next of those */
    size_t ahead;          /* how many of its names others stand before */
    size_t stands;
    bool begun;
    struct rt_stand stand[];
};

static struct turn *turn_of(const struct rt_work *w)
{
    return w->more;
}

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

static void stand_behind(struct rt_turns *t, struct rt_work *w, const char *name)
{
    struct turn *turn = turn_of(w);
    struct rt_stand *stand = &turn->stand[turn->stands];
    *stand = (struct rt_stand){
        .work = w, .name = name, .bucket = rt_hash(name, strlen(name)) % RT_TURN_LANES};
    bool ahead = false;
    struct rt_stand **at = &t->lanes[stand->bucket];
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

static void stand_out(struct rt_turns *t, struct rt_stand *stand)
{
    bool first = true;
    struct rt_stand **at = &t->lanes[stand->bucket];
    for (; *at != stand; at = &(*at)->next)
        first = first && strcmp((*at)->name, stand->name) != 0;
    *at = stand->next;
    for (struct rt_stand *next = stand->next; first && next != NULL; next = next->next) {
        if (strcmp(next->name, stand->name) != 0)
            continue;
        struct turn *turn = turn_of(next->work);
        if (--turn->ahead == 0) {
            turn->ready = NULL;
            *t->ready_tail = next->work;
            t->ready_tail = &turn->ready;
        }
        return;
    }
}

/* Whether W, whose turn it is, is out of time. */
static bool is_over(const struct rt_turns *t, struct rt_work *w)
{
    int64_t now = rt_loop_now(t->conn->loop), call = t->conn->call_ms * RT_MS;
    if (now < w->op->deadline)
        return false;
    if (t->heard_at == 0 || t->heard_at + call <= now || !rt_work_has_time(w->op))
        return true;
    w->op->deadline = now + call;
    return false;
}

static void begin_now(struct rt_turns *t, struct rt_work *w)
{
    int rv;
    turn_of(w)->begun = true;
    if (is_over(t, w))
        rv = rt_words_fail(t->conn, ROTA_UNREACHABLE, "%s: no answer in time", t->user->who);
    else
        rv = turn_of(w)->kind->begin(t->engine, w);
    if (rv != 0)
        rt_turn_end(t, w, rv);
}

static void begin_ready(struct rt_turns *t)
{
    if (t->starting)
        return;
    t->starting = true;
    while (t->ready != NULL) {
        struct rt_work *w = t->ready;
        t->ready = turn_of(w)->ready;
        if (t->ready == NULL)
            t->ready_tail = &t->ready;
        begin_now(t, w);
    }
    t->starting = false;
}

void rt_turns_submit(struct rt_turns *t, struct rt_op *op)
{
    const struct rt_turn_kind *kind = t->user->kinds[op->kind];
    size_t names = names_of(op), at = (kind->size + names * kind->each + 15) & ~(size_t)15;
    size_t size = at + sizeof(struct turn) + names * sizeof(struct rt_stand);
    struct rt_work *w = rt_work_new(&t->works, t->conn, size, op);
    if (w == NULL) {
        rt_conn_done(t->conn, op, ROTA_NOMEM);
        return;
    }
    struct turn *turn = w->more = (char *)w + at;
    turn->kind = kind;
    w->free = kind->free;
    for (size_t i = 0; i < names; i++)
        if (name_of(op, i) != NULL)
            stand_behind(t, w, name_of(op, i));
    if (turn->ahead == 0)
        begin_now(t, w);
}

void rt_turn_end(struct rt_turns *t, struct rt_work *w, int err)
{
    struct turn *turn = turn_of(w);
    assert(w->pending == 0);
    rt_work_note(t->conn, w, err);
    if (w->err != ROTA_UNREACHABLE && w->err != ROTA_UNKNOWN)
        t->heard_at = rt_loop_now(t->conn->loop);
    if (t->user->ended != NULL)
        t->user->ended(t->engine, w);
    for (size_t i = 0; i < turn->stands; i++)
        stand_out(t, &turn->stand[i]);
    rt_work_end(t->conn, w, 0);
    begin_ready(t);
}

void rt_turns_cancel(struct rt_turns *t, struct rt_op *op)
{
    struct rt_work *w = t->works;
    while (w != NULL && w->op != op)
        w = w->next;
    if (w == NULL)
        return;
    const struct turn *turn = turn_of(w);
    if (!turn->begun && turn->ahead > 0)
        rt_turn_end(t, w, rt_words_fail(t->conn, ROTA_CANCELED, "canceled"));
    else if (turn->kind->cancel != NULL)
        turn->kind->cancel(t->engine, w);
    else
        t->user->cancel(t->engine, op);
}

size_t rt_turn_names(const struct rt_work *w)
{
    return turn_of(w)->stands;
}

bool rt_turns_joining(const struct rt_turns *t, const char *name, uint64_t nonce)
{
    for (const struct rt_work *w = t->works; w != NULL; w = w->next) {
        const struct rt_op *op = w->op;
        if (op == NULL || (op->kind != RT_OP_JOIN && op->kind != RT_OP_JOIN_ALL))
            continue;
        for (size_t i = 0; i < op->join.n; i++)
            if (op->join.joins[i].nonce == nonce && op->join.joins[i].name != NULL &&
                strcmp(op->join.joins[i].name, name) == 0)
                return true;
    }
    return false;
}

bool rt_turns_busy(const struct rt_turns *t, const char *name)
{
    const struct rt_stand *at = t->lanes[rt_hash(name, strlen(name)) % RT_TURN_LANES];
    while (at != NULL && strcmp(at->name, name) != 0)
        at = at->next;
    return at != NULL;
}

void rt_turns_init(struct rt_turns *t, struct rt_conn *conn, void *engine,
                   const struct rt_turn_user *user)
{
    t->user = user;
    t->engine = engine;
    t->conn = conn;
    t->ready_tail = &t->ready;
}

void rt_turns_close(struct rt_turns *t)
{
    rt_work_close(&t->works, t->conn);
}
