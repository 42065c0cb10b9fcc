/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the contract, each one step in the world. */
#include "engine/mem/world.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "core/grant.h"
#include "engine/kit/check.h"
#include "engine/kit/words.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Sessions ----------------------------------------------------------- */

static int do_beat(struct rt_mem_conn *mc, struct rt_op *op)
{
    struct rt_mem_session *s;
    if (op->beat.open) {
        s = rt_mem_session_open(mc);
        if (s == NULL)
            return rt_words_nomem(&mc->conn);
        op->beat.session = s->id;
    } else {
        s = rt_mem_session_find(mc, op->beat.session);
        if (s == NULL)
            return rt_words_no_session(&mc->conn, op->beat.session);
        rt_mem_session_renew(mc->world, s, mc->conn.ttl_ms);
        rt_mem_session_announce(s, op->beat.tickets, op->beat.ticket_count);
    }
    op->beat.ttl_ms = mc->conn.ttl_ms;
    op->beat.allowance_ms = 0; /* one clock for all */
    return 0;
}

/* ---- Joining ------------------------------------------------------------ */

static struct rt_mem_ticket *find_number(struct rt_mem_line *line, uint64_t number)
{
    if (line == NULL)
        return NULL;
    struct rt_mem_ticket *t = rt_mem_line_front(line);
    for (uint32_t left = line->count; left > 0; left--, t = t->next)
        if (t->number == number)
            return t;
    return NULL;
}

static struct rt_mem_ticket *find_nonce(struct rt_mem_line *line, uint64_t session, uint64_t nonce)
{
    if (line == NULL)
        return NULL;
    struct rt_mem_ticket *t = rt_mem_line_front(line);
    for (uint32_t left = line->count; left > 0; left--, t = t->next)
        if (t->nonce == nonce && rt_mem_ticket_session(t) == session)
            return t;
    return NULL;
}

static int check_kind(struct rt_mem_conn *mc, const struct rt_mem_line *line,
                      const struct rt_join *join)
{
    const struct rt_mem_ticket *front = line != NULL ? rt_mem_line_front(line) : NULL;
    if (front == NULL || rt_grant_same_kind(front->mode, line->of, join->mode, join->of))
        return 0;
    return rt_words_other_kind(&mc->conn, join, front->mode, line->of);
}

/* Adds a ticket, fresh and waiting, or finds the one of an earlier try. */
static int join_add(struct rt_mem_conn *mc, struct rt_join *join)
{
    join->number = 0;
    struct rt_mem_session *session = NULL;
    if (!(join->flags & RT_JOIN_DURABLE)) {
        session = rt_mem_session_find(mc, join->session);
        if (session == NULL)
            return rt_words_no_session(&mc->conn, join->session);
    }
    struct rt_mem_line *line = rt_mem_line_find(mc->world, join->name);
    struct rt_mem_ticket *t = find_nonce(line, join->session, join->nonce);
    if (t == NULL) {
        int rv = check_kind(mc, line, join);
        if (rv != 0)
            return rv;
        line = rt_mem_line_get(mc->world, join->name);
        if (line == NULL)
            return rt_words_nomem(&mc->conn);
        t = rt_mem_ticket_add(mc, line, session, join);
        if (t == NULL) {
            rt_mem_line_tidy(mc->world, line);
            return rt_words_nomem(&mc->conn);
        }
    }
    join->number = t->number;
    return 0;
}

static struct rt_mem_ticket *joined(struct rt_mem_conn *mc, const struct rt_join *join)
{
    return find_number(rt_mem_line_find(mc->world, join->name), join->number);
}

/* Takes back what this op added. Nobody was told of anything yet. */
static void join_undo(struct rt_mem_conn *mc, struct rt_op *op)
{
    for (size_t i = 0; i < op->join.n && op->join.joins[i].number != 0; i++) {
        struct rt_mem_ticket *t = joined(mc, &op->join.joins[i]);
        if (t == NULL || !(t->flags & RT_MEM_FRESH))
            continue;
        struct rt_mem_line *line = t->line;
        rt_mem_ticket_drop(t);
        rt_mem_line_tidy(mc->world, line);
    }
}

static int join_try(struct rt_mem_conn *mc, struct rt_op *op)
{
    for (size_t i = 0; i < op->join.n; i++) {
        struct rt_mem_ticket *t = joined(mc, &op->join.joins[i]);
        if (!(t->flags & RT_MEM_FRESH) || rt_mem_would_grant(t))
            continue;
        struct rt_mem_ticket *front = rt_mem_line_front(t->line);
        const char *label = rt_mem_ticket_label(front);
        return rt_words_busy(&mc->conn, t->line->name, label, strlen(label));
    }
    return 0;
}

static void join_answer(struct rt_mem_conn *mc, struct rt_join *join)
{
    struct rt_mem_ticket *t = joined(mc, join);
    if (t->flags & RT_MEM_FRESH)
        rt_mem_settle(mc->world, t->line);
    t->flags &= (uint8_t)~RT_MEM_FRESH;
    join->number = t->number; /* a late world numbers when it grants */
    join->granted = t->flags & RT_MEM_GRANTED;
    join->wanted = join->granted && t->flags & RT_MEM_ARMED && t->line->waiting > 0;
}

/* Whether all tickets of the op are there from an earlier try, or none. One that has ended since,
 * put back alone, would stand in a different order from the rest (sets could wait for each other). */
static int check_whole(struct rt_mem_conn *mc, const struct rt_op *op)
{
    size_t found = 0;
    for (size_t i = 0; i < op->join.n; i++) {
        const struct rt_join *join = &op->join.joins[i];
        found += find_nonce(rt_mem_line_find(mc->world, join->name), join->session, join->nonce) !=
                 NULL;
    }
    if (found == 0 || found == op->join.n)
        return 0;
    return rt_words_set_ended(&mc->conn);
}

/* Three passes, so that all stand in their lines before anybody is granted, and none if
 * one cannot. */
static int do_join(struct rt_mem_conn *mc, struct rt_op *op)
{
    int rv = rt_check_joins(&mc->conn, op);
    if (rv == 0 && op->join.n > 1)
        rv = check_whole(mc, op);
    if (rv != 0)
        return rv;
    for (size_t i = 0; i < op->join.n && rv == 0; i++)
        rv = join_add(mc, &op->join.joins[i]);
    if (rv == 0 && op->join.joins[0].flags & RT_JOIN_TRY)
        rv = join_try(mc, op);
    if (rv != 0) {
        join_undo(mc, op);
        return rv;
    }
    for (size_t i = 0; i < op->join.n; i++)
        join_answer(mc, &op->join.joins[i]);
    return 0;
}

/* ---- Tickets of ours ---------------------------------------------------- */

static int set_value(struct rt_mem_conn *mc, struct rt_mem_ticket *t, const char *value)
{
    int rv = rt_check_value(&mc->conn, t->line->name, value);
    if (rv != 0)
        return rv;
    char *copy = value != NULL ? rt_strdup(value) : NULL;
    if (value != NULL && copy == NULL)
        return rt_words_nomem(&mc->conn);
    if (rt_mem_ticket_extend(mc, t) != 0) {
        rt_free(copy);
        return rt_words_nomem(&mc->conn);
    }
    rt_free(t->extra->value);
    t->extra->value = copy;
    return 0;
}

static int do_change(struct rt_mem_conn *mc, struct rt_op *op)
{
    struct rt_mem_line *line = rt_mem_line_find(mc->world, op->change.name);
    struct rt_mem_ticket *t = find_number(line, op->change.number);
    if (t == NULL || rt_mem_ticket_session(t) != op->change.session || !(t->flags & RT_MEM_GRANTED))
        return rt_words_no_ticket(&mc->conn, op->change.name);
    bool downgrade = op->change.what & RT_CHANGE_DOWNGRADE;
    if (downgrade && t->mode != RT_EXCLUSIVE && t->mode != RT_SHARED)
        return rt_words_not_exclusive(&mc->conn, op->change.name);
    if (op->change.what & RT_CHANGE_VALUE) {
        int rv = set_value(mc, t, op->change.value);
        if (rv != 0)
            return rv;
    }
    t->flags &= (uint8_t)~RT_MEM_WAITED; /* its client knows */
    if (t->extra != NULL)
        t->extra->name = 0;
    t->pending &= (uint8_t)~RT_MEM_TELL_GRANTED;
    if (op->change.what & RT_CHANGE_ARM)
        t->flags |= RT_MEM_ARMED | (line->waiting > 0 ? RT_MEM_TOLD : 0);
    if (downgrade)
        t->mode = RT_SHARED;
    if (op->change.what & (RT_CHANGE_DOWNGRADE | RT_CHANGE_VALUE))
        rt_mem_settle(mc->world, line);
    op->change.wanted = t->flags & RT_MEM_ARMED && line->waiting > 0;
    return 0;
}

static struct rt_mem_ticket *find_ours(struct rt_mem_line *line, const struct rt_op *op)
{
    if (op->leave.number == 0)
        return find_nonce(line, op->leave.session, op->leave.nonce);
    struct rt_mem_ticket *t = find_number(line, op->leave.number);
    bool ours = t != NULL && rt_mem_ticket_session(t) == op->leave.session &&
                rt_leave_names(op, t->number, t->nonce);
    return ours ? t : NULL;
}

/* A client that gives back a broken ticket knows as much as it ever will. */
static void forget_broken(struct rt_mem_conn *mc, const struct rt_op *op)
{
    struct rt_mem_session *s = rt_mem_session_find(mc, op->leave.session);
    if (s == NULL || op->leave.number == 0) /* by its nonce: it was never told of one */
        return;
    for (struct rt_mem_link *l = s->lost.next; l != &s->lost; l = l->next) {
        struct rt_mem_ticket *t = rt_mem_ticket_of(l);
        if (t->number == op->leave.number || rt_mem_ticket_name(t) == op->leave.number) {
            rt_mem_ticket_forget(mc->world, t);
            return;
        }
    }
}

static int do_leave(struct rt_mem_conn *mc, struct rt_op *op)
{
    struct rt_mem_line *line = rt_mem_line_find(mc->world, op->leave.name);
    struct rt_mem_ticket *t = find_ours(line, op);
    if (t == NULL && RT_BUG(RT_BUG_RELEASE_WITHOUT_FENCE) && line != NULL && line->count > 0)
        t = rt_mem_line_front(line);
    if (t == NULL) {
        forget_broken(mc, op);
        return rt_words_no_ticket(&mc->conn, op->leave.name);
    }
    op->leave.granted = t->flags & RT_MEM_GRANTED;
    if (rt_leave_keeps(op))
        rt_mem_ticket_end(mc->world, t);
    else
        rt_mem_ticket_drop(t);
    rt_mem_settle(mc->world, line);
    return 0;
}

/* ---- Anybody's ---------------------------------------------------------- */

static struct rt_mem_ticket *find_durable(struct rt_mem_line *line, uint32_t mode)
{
    struct rt_mem_ticket *t = rt_mem_line_front(line);
    for (uint32_t left = line->count; left > 0; left--, t = t->next)
        if (t->session == NULL && t->mode == mode)
            return t;
    return NULL;
}

static int do_break(struct rt_mem_conn *mc, struct rt_op *op)
{
    struct rt_mem_line *line = rt_mem_line_find(mc->world, op->brk.name);
    bool found = false;
    struct rt_mem_ticket *t;
    if (op->brk.number != 0) {
        t = find_number(line, op->brk.number);
        if (t != NULL) {
            found = true;
            rt_mem_ticket_break(t);
        }
    } else if (line != NULL) {
        while ((t = find_durable(line, op->brk.mode)) != NULL) {
            found = true;
            rt_mem_ticket_drop(t);
        }
    }
    if (!found)
        return rt_words_no_such(&mc->conn, op->brk.name);
    rt_mem_settle(mc->world, line);
    return 0;
}

static int do_observe(struct rt_mem_conn *mc, struct rt_op *op)
{
    struct rt_mem_world *world = mc->world;
    struct rt_view *v = rt_view_find(world->watches, op->observe.cookie);
    while (v != NULL && rt_mem_watch_of(v)->conn != mc) /* another client's, of the same cookie */
        v = rt_view_find(v->next, op->observe.cookie);
    struct rt_mem_watch *watch = rt_mem_watch_of(v);
    if (op->observe.stop) {
        if (watch != NULL)
            rt_mem_watch_free(world, watch);
        return 0;
    }
    int rv = rt_check_name(&mc->conn, op->observe.name);
    if (rv != 0)
        return rv;
    if (watch == NULL) {
        watch = rt_mem_watch_new(mc, op->observe.name, op->observe.cookie);
        if (watch == NULL)
            return rt_words_nomem(&mc->conn);
    }
    watch->dirty = true;
    watch->view.told = false; /* asked again: told again */
    rt_mem_ring(mc);
    return 0;
}

/* ---- Looking ------------------------------------------------------------ */

static void show(struct rt_mem_conn *mc, const struct rt_op *op, const struct rt_mem_ticket *t)
{
    struct rt_mem_session *s = t->session;
    int64_t end = s != NULL ? s->expires : t->extra->until;
    struct rota_place place = {
        .number = t->number,
        .session = s != NULL ? s->id : 0,
        .owner = t->owner,
        .since_ms = (mc->world->now - t->since) / RT_MS,
        .left_ms = end != RT_NEVER ? (end - mc->world->now) / RT_MS : -1,
        .mode = t->mode,
        .take = t->take,
        .of = t->line->of,
        .label = rt_mem_ticket_label(t),
        .value = rt_mem_ticket_value(t),
    };
    if (t->flags & RT_MEM_GRANTED)
        place.flags |= ROTA_PLACE_GRANTED;
    if (s == NULL)
        place.flags |= ROTA_PLACE_DURABLE;
    if (rt_mem_ticket_conn(t) == mc)
        place.flags |= ROTA_PLACE_MINE;
    if (t->flags & RT_MEM_DETECT)
        place.flags |= ROTA_PLACE_DETECT;
    op->inspect.each(op->inspect.arg, t->line->name, &place);
}

static void show_line(struct rt_mem_conn *mc, const struct rt_op *op, struct rt_mem_line *line)
{
    struct rt_mem_ticket *t = rt_mem_line_front(line);
    for (uint32_t left = line->count; left > 0; left--, t = t->next)
        if (rt_mem_ticket_shown(mc->world, t) &&
            (op->inspect.name != NULL || rt_mem_ticket_session(t) == op->inspect.session))
            show(mc, op, t);
}

static int do_inspect(struct rt_mem_conn *mc, struct rt_op *op)
{
    struct rt_mem_world *world = mc->world;
    if (op->inspect.name != NULL) {
        struct rt_mem_line *line = rt_mem_line_find(world, op->inspect.name);
        if (line != NULL)
            show_line(mc, op, line);
        return rt_check_name(&mc->conn, op->inspect.name);
    }
    for (size_t i = 0; i < world->table_size; i++)
        for (struct rt_mem_line *line = world->table[i]; line != NULL; line = line->next)
            show_line(mc, op, line);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct rt_mem_line *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int do_list(struct rt_mem_conn *mc, struct rt_op *op)
{
    struct rt_mem_world *world = mc->world;
    const char *prefix = op->list.prefix != NULL ? op->list.prefix : "";
    struct rt_mem_line **lines = rt_alloc((world->line_count + 1) * sizeof(struct rt_mem_line *));
    if (lines == NULL)
        return rt_words_nomem(&mc->conn);
    size_t n = 0;
    for (size_t i = 0; i < world->table_size; i++)
        for (struct rt_mem_line *line = world->table[i]; line != NULL; line = line->next)
            if (rt_mem_line_shown(world, line) > 0 &&
                strncmp(line->name, prefix, strlen(prefix)) == 0)
                lines[n++] = line;
    qsort(lines, n, sizeof(struct rt_mem_line *), by_name);
    for (size_t i = 0; i < n; i++)
        op->list.each(op->list.arg, lines[i]->name, rt_mem_line_shown(world, lines[i]),
                      lines[i]->count - lines[i]->waiting);
    rt_free(lines);
    return 0;
}

static int do_check(struct rt_mem_conn *mc, struct rt_op *op)
{
    bool late = mc->world->late;
    const struct rota_verdict verdicts[] = {
        {"one holder at a time (I1)", "kept", "one process", ""},
        {"fences only grow (I2)", "limited", "as long as the process lives",
         "use file: or a server where fences must outlive the process"},
        {"order of arrival (I7)", late ? "limited" : "kept",
         late ? "fence=grant: tickets are numbered when they are granted" : "",
         late ? "leave fence=grant out" : ""},
        {"durable tickets", "limited", "as long as a client is open on this world",
         "use file: or a server"},
    };
    for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
        op->check.each(op->check.arg, &verdicts[i]);
    return 0;
}

int rt_mem_do(struct rt_mem_conn *mc, struct rt_op *op)
{
    static int (*const table[])(struct rt_mem_conn *, struct rt_op *) = {
        [RT_OP_BEAT] = do_beat,       [RT_OP_JOIN] = do_join,   [RT_OP_JOIN_ALL] = do_join,
        [RT_OP_CHANGE] = do_change,   [RT_OP_LEAVE] = do_leave, [RT_OP_OBSERVE] = do_observe,
        [RT_OP_INSPECT] = do_inspect, [RT_OP_LIST] = do_list,   [RT_OP_BREAK] = do_break,
        [RT_OP_CHECK] = do_check,
    };
    assert((unsigned)op->kind < sizeof(table) / sizeof(table[0]));
    return table[op->kind](mc, op);
}
