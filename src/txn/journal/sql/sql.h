/* SPDX-License-Identifier: Apache-2.0 */
/* The journal in a SQL database: tables as in rows.h, on the lanes of the lock engine (engine/sql), on which it rides
 * as a dialect does: connections, greeting, flights and retries are theirs.
 *
 *   op ──▶ an ask (ask.h) ──▶ an ask of the lanes, by its id ──▶ boards a flight with up to 63 others: GUARD,
 *   op ◀── told ◀──────────── heard; another round flies again ◀──── their steps, COMMIT
 *
 * Until the first greeting tells the journal's number, ops wait here; if no greeting comes, a pilot (WHO) finds out
 * why.
 *
 * One flight is one transaction at READ COMMITTED, its rows locked in the order of ids. GUARD comes before any row is
 * locked, and all but FORGET share it: so the floor that an INSERT sees stands until its COMMIT. A flight that
 * deadlocks all the same, or waits too long, is retried. */
#ifndef RT_JOURNAL_SQL_H
#define RT_JOURNAL_SQL_H

#include "txn/journal/rows/rows.h"

/* What both databases say, each in its own SQL: X(step, text, types of its arguments, answers rows, only reads) */
#define RT_JSQL_WORDS(X)                                      \
    X(WHO, who, "", true, true)                               \
    X(GUARD, guard, "", true, true)                           \
    X(GUARD_ALONE, guard_alone, "", true, false)              \
    X(INSERT, insert, "biitbii", false, false)                \
    X(SETTLE, settle, "bibi", false, false)                   \
    X(STANDS, stands, "b", true, true)                        \
    X(ROW, row, "biti", false, false)                         \
    X(LOCK, lock, "b", true, false)                           \
    X(BRANCH, branch, "bib", false, false)                    \
    X(COUNT, count, "b", false, false)                        \
    X(BRANCHES, branches, "b", true, true)                    \
    X(DONE, done, "b", false, false)                          \
    X(DONE_MANY, done_many, "bbbbbbbbbbbbbbbb", false, false) \
    X(RAISE, raise, "i", false, false)                        \
    X(SWEEP, sweep, "bi", false, false)                       \
    X(STRAYS, strays, "b", false, false)                      \
    X(NAMED_BRANCHES, named_branches, "bii", false, false)    \
    X(NAMED, named, "bii", false, false)                      \
    X(SCAN, scan, "iibi", true, true)                         \
    X(ALL, all, "bi", true, true)                             \
    X(CLAIM, claim, "bii", false, false)                      \
    X(RESOURCE, resource, "tt", false, false)                 \
    X(RESOURCES, resources, "", true, true)

struct rt_jsql_dialect {
    const struct rt_sql_driver *driver;
    const struct rt_sql_saying *words; /* by step */
    /* statements that make the tables, in order; sql NULL ends them */
    const struct rt_sql_saying *make;
};

struct rt_jsql {
    struct rt_journal base; /* first */
    struct rt_journal_desk desk;
    struct rt_up up; /* for the lanes */
    const struct rt_jsql_dialect *dialect;
    struct rt_sql_saying layout; /* WHO, but never prepared: there may be no tables */
    bool piloted;                /* a pilot is under way */
    struct rt_sql_conn conn;
};

int rt_jsql_open(struct rt_journal *base, const struct rt_url *url,
                 const struct rt_jsql_dialect *dialect);
void rt_jsql_close(struct rt_journal *base);
void rt_jsql_submit(struct rt_journal *base, struct rt_journal_op *op);
void rt_jsql_forked(struct rt_journal *base);

/* A kind whose OPENS calls rt_jsql_open. */
#define RT_JSQL_KIND(title, opens, its_schemes, its_params, its_ddl)                               \
    {                                                                                              \
        .name = (title), .schemes = (its_schemes), .params = (its_params),                         \
        .size = sizeof(struct rt_jsql), .ddl = (its_ddl), .open = (opens), .close = rt_jsql_close, \
        .submit = rt_jsql_submit, .forked = rt_jsql_forked,                                        \
    }

extern const struct rt_journal_kind rt_journal_postgres, rt_journal_mysql;

#endif
