/* SPDX-License-Identifier: Apache-2.0 */
/* Lines inside a transaction: a ticket comes, goes, is granted; who must be rung afterwards. */
#include "base/bug.h"
#include "base/sum.h"
#include "core/grant.h"
#include "engine/file/file.h"

#include <string.h>

#define GRANT_CHUNK 32 /* rows granted before they are written: a place on the stack */
#define EXPIRE_MAX 256 /* ended tickets taken out of one line per transaction */

/* ---- Rows -------------------------------------------------------------------- */

void rt_file_row_read(sqlite3_stmt *s, struct rt_file_row *row)
{
    *row = (struct rt_file_row){
        .number = (uint64_t)sqlite3_column_int64(s, 0),
        .flags = (uint32_t)sqlite3_column_int64(s, 1),
        .session = (uint64_t)sqlite3_column_int64(s, 2),
        .nonce = (uint64_t)sqlite3_column_int64(s, 3),
        .owner = (uint64_t)sqlite3_column_int64(s, 4),
        .bell = (uint64_t)sqlite3_column_int64(s, 5),
        .since = sqlite3_column_int64(s, 6),
        .until = sqlite3_column_int64(s, 7),
        .at_least = sqlite3_column_int64(s, 8),
        .mode = (uint32_t)sqlite3_column_int64(s, 9),
        .take = (uint32_t)sqlite3_column_int64(s, 10),
        .of = (uint32_t)sqlite3_column_int64(s, 11),
    };
}

static sqlite3_stmt *bound(struct rt_file_conn *c, enum rt_file_stmt which, const char *name,
                           int count, const int64_t *args)
{
    sqlite3_stmt *s = rt_file_stmt(c, which);
    if (s == NULL)
        return NULL;
    (void)sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    for (int i = 0; i < count; i++)
        (void)sqlite3_bind_int64(s, i + 2, args[i]);
    return s;
}

int rt_file_row_get(struct rt_file_conn *c, enum rt_file_stmt which, const char *name, int count,
                    const int64_t *args, struct rt_file_row *row, bool *found)
{
    sqlite3_stmt *s = bound(c, which, name, count, args);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    int rc = sqlite3_step(s);
    *found = rc == SQLITE_ROW;
    if (*found)
        rt_file_row_read(s, row);
    int rv = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
    (void)sqlite3_reset(s);
    return rv;
}

int rt_file_line_run(struct rt_file_conn *c, enum rt_file_stmt which, const char *name, int count,
                     const int64_t *args)
{
    sqlite3_stmt *s = bound(c, which, name, count, args);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    int rc = sqlite3_step(s);
    int rv = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
    (void)sqlite3_reset(s);
    return rv;
}

int rt_file_line_int(struct rt_file_conn *c, enum rt_file_stmt which, const char *name, int count,
                     const int64_t *args, int64_t *value)
{
    sqlite3_stmt *s = bound(c, which, name, count, args);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        *value = sqlite3_column_int64(s, 0);
    int rv = rc == SQLITE_ROW ? 0 : rt_file_db_error(c, rc);
    (void)sqlite3_reset(s);
    return rv;
}

int rt_file_line_set(struct rt_file_conn *c, const char *name, const struct rt_file_row *row)
{
    return rt_file_line_run(c, RT_FILE_TICKET_SET, name, 7,
                            (int64_t[]){(int64_t)row->number, row->flags, (int64_t)row->session,
                                        (int64_t)row->nonce, row->since, row->until, row->mode});
}

int rt_file_line_last(struct rt_file_conn *c, const char *name, struct rt_file_row *row,
                      bool *found)
{
    return rt_file_row_get(c, RT_FILE_LINE_LAST, name, 0, NULL, row, found);
}

/* ---- Rings -------------------------------------------------------------------- */

int rt_file_line_changed(struct rt_file_conn *c, const char *name)
{
    sqlite3_stmt *s = bound(c, RT_FILE_OBSERVER_LINE, name, 0, NULL);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    int rc, rv = 0;
    while (rv == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        struct rt_file_ring ring = {.to = (uint64_t)sqlite3_column_int64(s, 0),
                                    .kind = RT_FILE_RING_CHANGED};
        rv = rt_file_rings_add(&c->rings, ring, name);
    }
    if (rv == 0 && rc != SQLITE_DONE)
        rv = rt_file_db_error(c, rc);
    (void)sqlite3_reset(s);
    return rv;
}

int rt_file_line_want(struct rt_file_conn *c, const char *name)
{
    sqlite3_stmt *s = bound(c, RT_FILE_LINE_WALK, name, 1, (int64_t[]){0});
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    int rc, rv = 0;
    struct rt_file_row row;
    while (rv == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        rt_file_row_read(s, &row);
        if ((row.flags & RT_FILE_GRANTED) == 0) {
            rc = SQLITE_DONE;
            break;
        }
        if ((row.flags & RT_FILE_ARMED) != 0)
            rv = rt_file_ring_add(c, RT_FILE_RING_WANTED, &row, name);
    }
    if (rv == 0 && rc != SQLITE_DONE)
        rv = rt_file_db_error(c, rc);
    (void)sqlite3_reset(s);
    return rv;
}

/* I8: besides those granted at most one more is rung, the one whose watch is out of date. That is
 * the one behind a ticket that went; for permits also the first that waits, which must watch all
 * that hold. Grants are a prefix of the line, so it is never both. */
static int ring_one_more(struct rt_file_conn *c, const char *name, uint64_t gone,
                         const struct rt_file_row *granted, const struct rt_file_row *waits)
{
    struct rt_file_row behind;
    bool found = false;
    int64_t number = (int64_t)gone;
    int rv = rt_file_row_get(c, RT_FILE_LINE_BEHIND, name, 1, &number, &behind, &found);
    if (rv != 0 || !found)
        return rv;
    if ((behind.flags & RT_FILE_GRANTED) == 0)
        return rt_file_ring_add(c, RT_FILE_RING_LOOK, &behind, name);
    if (granted != NULL && waits != NULL && waits->mode == RT_PERMITS)
        return rt_file_ring_add(c, RT_FILE_RING_LOOK, waits, name);
    return 0;
}

/* ---- Granting ------------------------------------------------------------------ */

struct walk {
    struct rt_grant rule;
    uint64_t at; /* number of the last row seen */
    struct rt_file_row fresh[GRANT_CHUNK];
    int count;
    bool ended, waiting;
    struct rt_file_row waits; /* where it ended, if `waiting` */
};

/* Goes on until the chunk is full or the walk ends. */
static int walk_rows(struct rt_file_conn *c, const char *name, struct walk *w)
{
    sqlite3_stmt *s = bound(c, RT_FILE_LINE_WALK, name, 1, (int64_t[]){(int64_t)w->at});
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    int rc = SQLITE_ROW;
    while (w->count < GRANT_CHUNK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        struct rt_file_row row;
        rt_file_row_read(s, &row);
        bool holds = (row.flags & RT_FILE_GRANTED) != 0;
        if (rt_grant_next(&w->rule, row.mode, row.take, row.of, holds) == RT_GRANT_WAITS) {
            w->waits = row;
            w->waiting = true;
            rc = SQLITE_DONE;
            break;
        }
        w->at = row.number;
        if (!holds)
            w->fresh[w->count++] = row;
    }
    (void)sqlite3_reset(s);
    w->ended = rc != SQLITE_ROW;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
}

static int grant_rows(struct rt_file_conn *c, const char *name, struct walk *w)
{
    int64_t now = rt_file_wall_ms();
    for (int i = 0; i < w->count; i++) {
        struct rt_file_row *row = &w->fresh[i];
        row->flags |= RT_FILE_GRANTED;
        row->since = now;
        int rv = rt_file_line_set(c, name, row);
        if (rv == 0)
            rv = rt_file_ring_add(c, RT_FILE_RING_GRANTED, row, name);
        if (rv != 0)
            return rv;
    }
    w->count = 0;
    return 0;
}

int rt_file_line_settle(struct rt_file_conn *c, const char *name, uint64_t gone)
{
    struct rt_file_row last;
    bool found = false, granted = false;
    int64_t waiting = 0;
    struct walk w;
    int rv = rt_file_line_last(c, name, &last, &found);
    if (rv != 0 || !found || (last.flags & RT_FILE_GRANTED) != 0)
        return rv; /* nobody waits: the plain pair ends here */
    if (last.mode == RT_GATHER)
        rv = rt_file_line_int(c, RT_FILE_LINE_WAITING, name, 0, NULL, &waiting);
    w.at = 0;
    w.count = 0;
    w.ended = w.waiting = false;
    rt_grant_init(&w.rule, (uint32_t)waiting);
    while (rv == 0 && !w.ended) {
        rv = walk_rows(c, name, &w);
        granted = granted || w.count > 0;
        if (rv == 0)
            rv = grant_rows(c, name, &w);
    }
    if (rv == 0 && gone != 0 && RT_BUG(RT_BUG_RINGS_THE_CROWD))
        rv = rt_file_ring_add(c, RT_FILE_RING_LOOK, &last, name);
    if (rv == 0 && gone != 0)
        rv = ring_one_more(c, name, gone, granted ? &w.waits : NULL, w.waiting ? &w.waits : NULL);
    return rv;
}

/* ---- Going ---------------------------------------------------------------------- */

int rt_file_line_remove(struct rt_file_conn *c, const char *name, const struct rt_file_row *row,
                        bool broken)
{
    bool observed = false;
    int64_t number = (int64_t)row->number;
    int64_t now = rt_file_wall_ms();
    int64_t since = row->since < now ? row->since : now; /* later: the clock was set back */
    int64_t until = rt_sum(since, row->at_least);
    int rv;
    if (!broken && (row->flags & RT_FILE_GRANTED) != 0 && row->at_least > 0 && until > now) {
        rv = rt_file_line_run(c, RT_FILE_TICKET_KEEP, name, 4,
                              (int64_t[]){number, RT_FILE_GRANTED | RT_FILE_DURABLE, since, until});
    } else {
        rv = rt_file_line_run(c, RT_FILE_TICKET_DROP, name, 1, &number);
    }
    if (rv == 0)
        rv = rt_file_line_settle(c, name, row->number);
    if (rv == 0 && broken)
        rv = rt_file_ring_add(c, RT_FILE_RING_LOST, row, name);
    if (rv == 0)
        rv = rt_file_observed(c, &observed);
    return rv == 0 && observed ? rt_file_line_changed(c, name) : rv;
}

/* Its stamps are from before the clock was set back: it lasts its whole length from now, not that
 * plus what the clock lost. */
static int begin_now(struct rt_file_conn *c, const char *name, struct rt_file_row *row, int64_t now)
{
    row->until -= row->since - now;
    row->since = now;
    return rt_file_line_set(c, name, row);
}

int rt_file_line_expire(struct rt_file_conn *c, const char *name, bool *some)
{
    struct rt_file_row row;
    bool found = true;
    int64_t now = rt_file_wall_ms();
    for (int i = 0; i < EXPIRE_MAX; i++) {
        int rv = rt_file_row_get(c, RT_FILE_LINE_EXPIRED, name, 1, &now, &row, &found);
        if (rv != 0 || !found)
            return rv;
        if (row.since > now) {
            rv = begin_now(c, name, &row, now);
        } else {
            row.at_least = 0;
            rv = rt_file_line_remove(c, name, &row, false);
        }
        if (rv != 0)
            return rv;
        *some = true;
    }
    return 0;
}
