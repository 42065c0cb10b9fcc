/* SPDX-License-Identifier: Apache-2.0 */
/* The journal in a SQL database: tables as rows.h has them, on the lanes of the lock engine (engine/sql), which it
 * rides on as a dialect does: connections, greeting, flights, what is asked again are theirs.
 *
 *   op ──▶ an ask (ask.h) ──▶ an ask of the lanes, by its id ──▶ boards a flight with up to 63 others: GUARD, their
 *   steps, COMMIT op ◀── told ◀──────────── heard; another round flies again ◀┘
 *
 * Until the number of the journal is known, by the first greeting, ops wait here, and a pilot (WHO) finds out why if
 * that does not come.
 *
 * One flight is one transaction at READ COMMITTED, its rows locked in the order of ids. GUARD comes before any row
 * is locked and is shared by all but FORGET: so an INSERT sees the floor as it is until its COMMIT. A flight that
 * deadlocks all the same, or waits too long, is asked again. */
#ifndef RT_JOURNAL_SQL_H
#define RT_JOURNAL_SQL_H

#include "txn/journal/rows/rows.h"

/* What both databases say, each in its own SQL: X(step, text, types of its arguments, it answers rows, it changes nothing) */
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
    /* what makes the tables, one after the other; sql NULL ends them */
    const struct rt_sql_saying *make;
};

struct rt_jsql {
    struct rt_journal base; /* first */
    struct rt_journal_desk desk;
    struct rt_up up; /* of the lanes */
    const struct rt_jsql_dialect *dialect;
    struct rt_sql_saying layout; /* WHO, but never prepared: the tables may not be there */
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
