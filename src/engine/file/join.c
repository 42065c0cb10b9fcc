/* SPDX-License-Identifier: Apache-2.0 */
/* Joining a line, inside a transaction. */
#include "base/bug.h"
#include "base/sum.h"
#include "core/grant.h"
#include "engine/file/file.h"

static bool waits(const struct rt_file_row *row)
{
    return (row->flags & RT_FILE_GRANTED) == 0;
}

/* The weights of permits held; nobody waits. */
static int fits_permits(struct rt_file_conn *c, const struct rt_join *j, bool *granted)
{
    struct rt_grant rule;
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_LINE_WALK);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    (void)sqlite3_bind_text(s, 1, j->name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(s, 2, 0);
    int rc;
    rt_grant_init(&rule, 0);
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        struct rt_file_row row;
        rt_file_row_read(s, &row);
        (void)rt_grant_next(&rule, row.mode, row.take, row.of, true);
    }
    (void)sqlite3_reset(s);
    *granted = rt_grant_next(&rule, j->mode, j->take, j->of, false) == RT_GRANT_HOLDS;
    return rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
}

/* Whether the ticket is granted at the end of a line whose last is LAST (NULL: an empty one).
 * For a lock only the last counts: it waits, or excludes, or shares with all before it. */
static int fits(struct rt_file_conn *c, const struct rt_join *j, const struct rt_file_row *last,
                bool *granted)
{
    struct rt_grant rule;
    *granted = false;
    if (j->mode == RT_GATHER)
        return 0; /* decided for all at once, when it stands there */
    if (last != NULL && waits(last) && !RT_BUG(RT_BUG_OVERTAKES))
        return 0;
    if (last != NULL && j->mode == RT_PERMITS)
        return fits_permits(c, j, granted);
    rt_grant_init(&rule, 0);
    if (last != NULL)
        (void)rt_grant_next(&rule, last->mode, last->take, last->of, true);
    *granted = rt_grant_next(&rule, j->mode, j->take, j->of, false) == RT_GRANT_HOLDS;
    return 0;
}

static int add(struct rt_file_conn *c, struct rt_join *j, bool granted, uint64_t number)
{
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_TICKET_ADD);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    bool durable = (j->flags & RT_JOIN_DURABLE) != 0;
    int64_t now = rt_file_wall_ms();
    uint32_t flags = (granted ? RT_FILE_GRANTED : 0) | (durable ? RT_FILE_DURABLE : 0) |
                     ((j->flags & RT_JOIN_ARM) != 0 ? RT_FILE_ARMED : 0) |
                     ((j->flags & RT_JOIN_DETECT) != 0 ? RT_FILE_DETECT : 0);
    (void)sqlite3_bind_text(s, 1, j->name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(s, 2, (int64_t)number);
    (void)sqlite3_bind_int64(s, 3, flags);
    (void)sqlite3_bind_int64(s, 4, (int64_t)j->session);
    (void)sqlite3_bind_int64(s, 5, (int64_t)j->nonce);
    (void)sqlite3_bind_int64(s, 6, (int64_t)j->owner);
    (void)sqlite3_bind_int64(s, 7, durable ? (int64_t)c->session : 0);
    (void)sqlite3_bind_int64(s, 8, now);
    (void)sqlite3_bind_int64(s, 9, durable && j->until_ms > 0 ? rt_sum(now, j->until_ms) : 0);
    (void)sqlite3_bind_int64(s, 10, j->at_least_ms);
    (void)sqlite3_bind_int64(s, 11, j->mode);
    (void)sqlite3_bind_int64(s, 12, j->take);
    (void)sqlite3_bind_int64(s, 13, j->of);
    if (j->value != NULL)
        (void)sqlite3_bind_text(s, 14, j->value, -1, SQLITE_STATIC);
    if (durable && c->base.label != NULL) /* it has no session to ask */
        (void)sqlite3_bind_text(s, 15, c->base.label, -1, SQLITE_STATIC);
    int rc = sqlite3_step(s);
    int rv = rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
    (void)sqlite3_reset(s);
    (void)sqlite3_bind_null(s, 14);
    (void)sqlite3_bind_null(s, 15);
    return rv;
}

/* The ticket stands already: answered as it is now. The end of an earlier try may not have been told, and then nobody
 * was rung: the holder is told again that this one waits. */
static int answer(struct rt_file_conn *c, struct rt_join *j, const struct rt_file_row *row,
                  const struct rt_file_row *last)
{
    j->number = row->number;
    j->granted = !waits(row);
    j->wanted = j->granted && (j->flags & RT_JOIN_ARM) != 0 && waits(last);
    if (j->granted)
        return 0;
    int rv = rt_file_line_want(c, j->name);
    if (rv != 0 || rt_file_wait_find(c, row->number) != NULL)
        return rv;
    return rt_file_wait_new(c, j, row->number, NULL);
}

static int join_new(struct rt_file_conn *c, struct rt_join *j, const struct rt_file_row *last,
                    bool try_only)
{
    bool granted = false, observed = false, found = false;
    uint64_t number = 0;
    int rv = fits(c, j, last, &granted);
    if (rv == 0 && try_only && !granted && j->mode != RT_GATHER)
        return ROTA_BUSY;
    if (rv == 0)
        rv = rt_file_number(c, &number, &observed);
    if (rv == 0)
        rv = add(c, j, granted, number);
    if (rv == 0 && j->mode == RT_GATHER) {
        struct rt_file_row row = {0};
        int64_t arg = (int64_t)number;
        rv = rt_file_line_settle(c, j->name, 0);
        if (rv == 0)
            rv = rt_file_row_get(c, RT_FILE_TICKET_GET, j->name, 1, &arg, &row, &found);
        granted = found && !waits(&row);
        if (rv == 0 && try_only && !granted)
            return ROTA_BUSY;
    }
    if (rv == 0 && !granted)
        rv = rt_file_wait_new(c, j, number, last);
    /* Later waiters need not say it again; a ticket armed later is told by the answer. */
    if (rv == 0 && !granted && last != NULL && !waits(last))
        rv = rt_file_line_want(c, j->name);
    if (rv == 0 && observed)
        rv = rt_file_line_changed(c, j->name);
    j->number = number;
    j->granted = granted;
    j->wanted = false;
    return rv;
}

int rt_file_line_join(struct rt_file_conn *c, struct rt_join *j, bool try_only)
{
    struct rt_file_row last, mine;
    bool some = false, found = false;
    int rv = rt_file_line_last(c, j->name, &last, &some);
    /* All that ended, in however many steps: a join that is refused because of one of them takes none of them out. */
    for (bool expired = some; rv == 0 && expired;) {
        expired = false;
        rv = rt_file_line_expire(c, j->name, &expired);
        if (rv == 0 && expired)
            rv = rt_file_line_last(c, j->name, &last, &some);
    }
    if (rv != 0 || !some)
        return rv != 0 ? rv : join_new(c, j, NULL, try_only);
    rv = rt_file_row_get(c, RT_FILE_TICKET_BY_NONCE, j->name, 2,
                         (int64_t[]){(int64_t)j->nonce, (int64_t)j->session}, &mine, &found);
    if (rv != 0)
        return rv;
    if (found)
        return answer(c, j, &mine, &last);
    if (!rt_grant_same_kind(j->mode, j->of, last.mode, last.of))
        return rt_words_other_kind(&c->base, j, last.mode, last.of);
    return join_new(c, j, &last, try_only);
}
