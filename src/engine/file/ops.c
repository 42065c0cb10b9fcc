/* SPDX-License-Identifier: Apache-2.0 */
/* Operations, each a transaction: BEAT, JOIN, CHANGE, LEAVE, BREAK. */
#include "core/grant.h"
#include "engine/file/file.h"

#include <string.h>

#define SWEEP_PAGES 64 /* 4096 tickets probed at most, 3 us each, before a try says busy */
#define BREAK_MAX 4096 /* tickets a reset takes out: as many as a latch may have */

static int end_tx(struct rt_file_conn *c, int rv)
{
    if (rv == 0)
        return rt_file_commit(c);
    rt_file_rollback(c);
    return rv;
}

int rt_file_check_name(struct rt_file_conn *c, const char *name)
{
    int rv = rt_check_name(&c->base, name);
    if (rv == 0 && strlen(name) > RT_FILE_NAME_MAX)
        rv = rt_words_fail(&c->base, ROTA_INVALID, "a name is too long");
    return rv;
}

/* ---- BEAT ------------------------------------------------------------------- */

static int op_beat(struct rt_file_conn *c, struct rt_op *op)
{
    op->beat.ttl_ms = 0;
    op->beat.allowance_ms = 0;
    bool there = false;
    if (op->beat.open) {
        int rv = c->session_spare ? rt_file_session_check(c, &there) : 0;
        if (rv == 0 && !there)
            rv = rt_file_session_open(c);
        if (rv == 0) {
            c->session_spare = false;
            op->beat.session = c->session;
        }
        return rv;
    }
    if (c->session == 0 || op->beat.session != c->session)
        return ROTA_LOST;
    int rv = rt_file_session_check(c, &there);
    if (rv == 0 && !there) {
        rt_file_say(c, "the session was swept: was something in %s/s deleted?", c->shown);
        return ROTA_LOST;
    }
    return rv;
}

/* ---- JOIN ------------------------------------------------------------------- */

static int check_joins(struct rt_file_conn *c, const struct rt_op *op)
{
    int rv = rt_check_joins(&c->base, op);
    for (size_t i = 0; i < op->join.n && rv == 0; i++)
        rv = rt_file_check_name(c, op->join.joins[i].name);
    return rv != 0 ? rv : rt_check_session(&c->base, op, c->session);
}

/* Whether all tickets of a set are there from an earlier try, or none. One that has ended since,
 * put back alone, would stand in a different order from the rest: sets could wait for each other. */
static int check_whole(struct rt_file_conn *c, const struct rt_op *op)
{
    struct rt_file_row row;
    size_t there = 0;
    for (size_t i = 0; i < op->join.n; i++) {
        const struct rt_join *j = &op->join.joins[i];
        bool found = false;
        int rv = rt_file_row_get(c, RT_FILE_TICKET_BY_NONCE, j->name, 2,
                                 (int64_t[]){(int64_t)j->nonce, (int64_t)j->session}, &row, &found);
        if (rv != 0)
            return rv;
        there += found;
    }
    if (there == 0 || there == op->join.n)
        return 0;
    return rt_words_set_ended(&c->base);
}

static int join_in_tx(struct rt_file_conn *c, struct rt_op *op, bool try_only)
{
    bool there = true;
    int rv = op->join.n > 1 ? check_whole(c, op) : 0;
    for (size_t i = 0; i < op->join.n && rv == 0; i++) {
        struct rt_join *j = &op->join.joins[i];
        if ((j->flags & RT_JOIN_DURABLE) == 0)
            rv = rt_file_session_check(c, &there);
        if (rv == 0 && !there)
            rv = ROTA_LOST;
        if (rv == 0)
            rv = rt_file_line_join(c, j, try_only);
    }
    return rv;
}

#define UNSURE 2 /* besides 0, errors and RT_FILE_AGAIN: dead parties must be swept first */

/* A barrier is not opened before we looked whether those that stand at it live: a count read
 * outside the transaction would not see two that come at once. */
static int sure(const struct rt_op *op, bool swept, int rv)
{
    bool opens = op->join.n == 1 && op->join.joins[0].mode == RT_GATHER &&
                 op->join.joins[0].granted;
    return rv == 0 && opens && !swept ? UNSURE : rv;
}

static int join_once(struct rt_file_conn *c, struct rt_op *op, bool try_only, bool swept)
{
    int rv = c->numbers_ok ? 0 : rt_file_reserve(c);
    if (rv == 0)
        rv = rt_file_begin(c);
    if (rv != 0)
        return rv;
    rv = end_tx(c, sure(op, swept, join_in_tx(c, op, try_only)));
    if (rv == RT_FILE_AGAIN && !c->numbers_ok) { /* the counter came to its end just now */
        rv = rt_file_reserve(c);
        if (rv == 0)
            rv = rt_file_begin(c);
        if (rv == 0)
            rv = end_tx(c, sure(op, swept, join_in_tx(c, op, try_only)));
    }
    for (size_t i = 0; rv == 0 && i < op->join.n; i++)
        if (op->join.joins[i].granted && op->join.joins[i].session == c->session)
            rt_file_wait_held(c, 1);
    return rv;
}

/* A dead holder makes nobody busy, a dead party completes no barrier. */
static int sweep_lines(struct rt_file_conn *c, struct rt_op *op, bool *swept)
{
    int rv = 0;
    *swept = false;
    for (size_t i = 0; i < op->join.n && rv == 0; i++) {
        struct rt_file_cursor at = {.from = c->try_from};
        rv = rt_file_sweep_line(c, op->join.joins[i].name, SWEEP_PAGES, &at);
        if (rv == 0 && c->try_from != 0 && at.ended) { /* it began in the middle */
            *swept = *swept || at.swept;
            rv = rt_file_sweep_line(c, op->join.joins[i].name, SWEEP_PAGES, &at);
        }
        c->try_from = at.from;
        *swept = *swept || at.swept;
    }
    return rv;
}

static void say_holder(struct rt_file_conn *c, const char *name)
{
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_LINE_FRONT);
    if (s == NULL)
        return;
    (void)sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    if (sqlite3_step(s) == SQLITE_ROW && sqlite3_column_text(s, 3) != NULL)
        (void)rt_words_busy(&c->base, name, (const char *)sqlite3_column_text(s, 3),
                            (size_t)sqlite3_column_bytes(s, 3));
    (void)sqlite3_reset(s);
}

static int op_join(struct rt_file_conn *c, struct rt_op *op)
{
    bool try_only = false, swept = false;
    int rv = check_joins(c, op);
    if (rv != 0)
        return rv;
    try_only = (op->join.joins[0].flags & RT_JOIN_TRY) != 0;
    rv = join_once(c, op, try_only, false);
    if (rv != ROTA_BUSY && rv != UNSURE)
        return rv;
    bool again = rv == UNSURE;
    rv = sweep_lines(c, op, &swept);
    if (rv == 0)
        rv = swept || again ? join_once(c, op, try_only, true) : ROTA_BUSY;
    if (rv == ROTA_BUSY && op->join.n == 1)
        say_holder(c, op->join.joins[0].name);
    return rv;
}

/* ---- CHANGE, LEAVE, BREAK ----------------------------------------------------- */

static int get_ours(struct rt_file_conn *c, const char *name, uint64_t session, uint64_t number,
                    struct rt_file_row *row)
{
    bool found = false;
    int64_t arg = (int64_t)number;
    int rv = rt_file_row_get(c, RT_FILE_TICKET_GET, name, 1, &arg, row, &found);
    return rv != 0 ? rv : found && row->session == session ? 0 : ROTA_LOST;
}

static int set_value(struct rt_file_conn *c, const char *name, uint64_t number, const char *value)
{
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_TICKET_VALUE);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    if (value != NULL)
        (void)sqlite3_bind_text(s, 3, value, -1, SQLITE_STATIC);
    int rv = rt_file_line_run(c, RT_FILE_TICKET_VALUE, name, 1, (int64_t[]){(int64_t)number});
    (void)sqlite3_bind_null(s, 3);
    return rv;
}

static int change_in_tx(struct rt_file_conn *c, struct rt_op *op, struct rt_file_row *row)
{
    const char *name = op->change.name;
    bool observed = false;
    int rv = 0;
    if ((op->change.what & RT_CHANGE_VALUE) != 0)
        rv = set_value(c, name, row->number, op->change.value);
    if ((op->change.what & RT_CHANGE_ARM) != 0)
        row->flags |= RT_FILE_ARMED;
    if ((op->change.what & RT_CHANGE_DOWNGRADE) != 0)
        row->mode = RT_SHARED;
    if (rv == 0)
        rv = rt_file_line_set(c, name, row);
    if (rv == 0 && (op->change.what & RT_CHANGE_DOWNGRADE) != 0)
        rv = rt_file_line_settle(c, name, 0);
    if (rv == 0)
        rv = rt_file_observed(c, &observed);
    if (rv == 0 && observed)
        rv = rt_file_line_changed(c, name);
    return rv;
}

static int op_change(struct rt_file_conn *c, struct rt_op *op)
{
    struct rt_file_row row, last;
    bool found = false, writes = op->change.what != 0;
    int rv = rt_file_check_name(c, op->change.name);
    if (rv == 0 && (op->change.what & RT_CHANGE_VALUE) != 0)
        rv = rt_check_value(&c->base, op->change.name, op->change.value);
    if (rv == 0 && writes)
        rv = rt_file_begin(c);
    if (rv != 0)
        return rv;
    rv = get_ours(c, op->change.name, op->change.session, op->change.number, &row);
    if (rv == 0 && (row.flags & RT_FILE_GRANTED) == 0)
        rv = ROTA_LOST;
    if (rv == 0 && (op->change.what & RT_CHANGE_DOWNGRADE) != 0 && row.mode > RT_SHARED)
        rv = rt_words_not_exclusive(&c->base, op->change.name);
    if (rv == 0 && writes)
        rv = change_in_tx(c, op, &row);
    if (rv == 0)
        rv = rt_file_line_last(c, op->change.name, &last, &found);
    op->change.wanted = rv == 0 && found && (row.flags & RT_FILE_ARMED) != 0 &&
                        (last.flags & RT_FILE_GRANTED) == 0;
    return writes ? end_tx(c, rv) : rv;
}

static int op_leave(struct rt_file_conn *c, struct rt_op *op)
{
    struct rt_file_row row = {0};
    bool found = true;
    int rv = rt_file_check_name(c, op->leave.name);
    if (rv == 0)
        rv = rt_file_begin(c);
    if (rv != 0)
        return rv;
    if (op->leave.number != 0) {
        rv = get_ours(c, op->leave.name, op->leave.session, op->leave.number, &row);
        found = rt_leave_names(op, row.number, row.nonce);
    } else {
        rv = rt_file_row_get(c, RT_FILE_TICKET_BY_NONCE, op->leave.name, 2,
                             (int64_t[]){(int64_t)op->leave.nonce, (int64_t)op->leave.session},
                             &row, &found);
    }
    if (rv == 0 && !found)
        rv = ROTA_LOST;
    if (!rt_leave_keeps(op))
        row.at_least = 0;
    if (rv == 0)
        rv = rt_file_line_remove(c, op->leave.name, &row, false);
    op->leave.granted = (row.flags & RT_FILE_GRANTED) != 0;
    rv = end_tx(c, rv);
    if (rv == 0)
        rt_file_wait_end(c, row.number);
    if (rv == 0 && row.session == c->session && (row.flags & RT_FILE_GRANTED) != 0)
        rt_file_wait_held(c, -1);
    return rv;
}

static int break_in_tx(struct rt_file_conn *c, struct rt_op *op)
{
    struct rt_file_row row;
    int64_t mode = op->brk.mode, number = (int64_t)op->brk.number;
    bool found = false, some = false;
    int limit = op->brk.number != 0 ? 1 : BREAK_MAX;
    for (int i = 0; i < limit; i++) {
        int rv = op->brk.number != 0 ? rt_file_row_get(c, RT_FILE_TICKET_GET, op->brk.name, 1,
                                                       &number, &row, &found)
                                     : rt_file_row_get(c, RT_FILE_LINE_DURABLE, op->brk.name, 1,
                                                       &mode, &row, &found);
        if (rv == 0 && found)
            rv = rt_file_line_remove(c, op->brk.name, &row, true);
        if (rv != 0)
            return rv;
        if (!found)
            break;
        some = true;
    }
    return some ? 0 : ROTA_LOST;
}

static int op_break(struct rt_file_conn *c, struct rt_op *op)
{
    int rv = rt_file_check_name(c, op->brk.name);
    if (rv == 0)
        rv = rt_file_begin(c);
    return rv != 0 ? rv : end_tx(c, break_in_tx(c, op));
}

/* A session keeps others out of a folder whose files are gone (torn.c). Without one, look first. */
static int right_folder(struct rt_file_conn *c)
{
    bool right = c->db != NULL && (c->session != 0 || rt_file_db_linked(c));
    return right ? 0 : rt_file_reopen(c);
}

int rt_file_op_run(struct rt_file_conn *c, struct rt_op *op)
{
    int rv = right_folder(c);
    if (rv != 0)
        return rv;
    switch (op->kind) {
    case RT_OP_BEAT:
        return op_beat(c, op);
    case RT_OP_JOIN:
    case RT_OP_JOIN_ALL:
        return op_join(c, op);
    case RT_OP_CHANGE:
        return op_change(c, op);
    case RT_OP_LEAVE:
        return op_leave(c, op);
    case RT_OP_OBSERVE:
        return rt_file_observe(c, op);
    case RT_OP_INSPECT:
        return rt_file_inspect(c, op);
    case RT_OP_LIST:
        return rt_file_list(c, op);
    case RT_OP_BREAK:
        return op_break(c, op);
    case RT_OP_CHECK:
        return rt_file_check(c, op);
    }
    return ROTA_INVALID;
}
