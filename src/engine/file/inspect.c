/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at lines: one with its tickets, or all by name. Dead holders are swept first. */
#include "engine/file/file.h"

#define ROW_COLUMNS 12
#define LINE_PAGES 64 /* 4096 tickets probed before a line is shown */

static void show(struct rt_file_conn *c, const struct rt_op *op, sqlite3_stmt *s, int64_t now)
{
    struct rt_file_row row;
    rt_file_row_read(s, &row);
    const unsigned char *name = sqlite3_column_text(s, ROW_COLUMNS);
    const unsigned char *value = sqlite3_column_text(s, ROW_COLUMNS + 1);
    const unsigned char *label = sqlite3_column_text(s, ROW_COLUMNS + 2);
    bool durable = (row.flags & RT_FILE_DURABLE) != 0;
    struct rota_place place = {
        .number = row.number,
        .session = durable ? 0 : row.session,
        .owner = row.owner,
        .since_ms = now > row.since ? now - row.since : 0,
        .left_ms = row.until > 0 ? row.until - now : -1,
        .mode = row.mode,
        .take = row.take,
        .of = row.of,
        .label = label != NULL ? (const char *)label : "",
        .value = value != NULL ? (const char *)value : "",
    };
    if ((row.flags & RT_FILE_GRANTED) != 0)
        place.flags |= ROTA_PLACE_GRANTED;
    if (durable)
        place.flags |= ROTA_PLACE_DURABLE;
    if (!durable && row.session == c->session)
        place.flags |= ROTA_PLACE_MINE;
    if ((row.flags & RT_FILE_DETECT) != 0)
        place.flags |= ROTA_PLACE_DETECT;
    op->inspect.each(op->inspect.arg, name != NULL ? (const char *)name : "", &place);
}

int rt_file_inspect(struct rt_file_conn *c, struct rt_op *op)
{
    struct rt_file_cursor at = {.all = true};
    const char *name = op->inspect.name;
    int rv = name != NULL ? rt_file_check_name(c, name) : 0;
    if (rv != 0)
        return rv;
    if (name != NULL) /* a dead holder is no holder; if it cannot be swept now, it is shown */
        (void)rt_file_sweep_line(c, name, LINE_PAGES, &at);
    sqlite3_stmt *s = rt_file_stmt(c,
                                   name != NULL ? RT_FILE_INSPECT_LINE : RT_FILE_INSPECT_SESSION);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    int64_t now = rt_file_wall_ms();
    if (name != NULL)
        (void)sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    else
        (void)sqlite3_bind_int64(s, 1, (int64_t)op->inspect.session);
    (void)sqlite3_bind_int64(s, 2, now);
    int rc = sqlite3_step(s);
    for (; rc == SQLITE_ROW; rc = sqlite3_step(s))
        show(c, op, s, now);
    (void)sqlite3_reset(s);
    return rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
}

int rt_file_list(struct rt_file_conn *c, struct rt_op *op)
{
    rt_file_sweep_some(c);
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_LIST);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    const char *prefix = op->list.prefix != NULL ? op->list.prefix : "";
    (void)sqlite3_bind_text(s, 1, prefix, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(s, 2, rt_file_wall_ms());
    int rc = sqlite3_step(s);
    for (; rc == SQLITE_ROW; rc = sqlite3_step(s)) {
        const unsigned char *name = sqlite3_column_text(s, 0);
        op->list.each(op->list.arg, name != NULL ? (const char *)name : "",
                      (size_t)sqlite3_column_int64(s, 1), (size_t)sqlite3_column_int64(s, 2));
    }
    (void)sqlite3_reset(s);
    return rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
}
