/* SPDX-License-Identifier: Apache-2.0 */
/* A journal made of tables: which steps an op takes, and what their rows mean. Three journals share it: the file
 * (SQLite), PostgreSQL, MySQL.
 * Each says the steps in its own SQL.
 *
 *   rota_txn_meta     k, n, v                                  layout (v), number (n), floor (n)
 *   rota_txn          id, stands, deadline, decided, done, registered, claimer, claimed, label, branches
 *   rota_txn_branch   id, number, body                         key (id, number): what REGISTER brought
 *   rota_txn_resource name, url, seen
 *
 * `stands` is enum rt_journal_stand: 1 OPEN, 2 COMMIT, 3 ABORT, and never changes from 2 or 3. `done` and `decided` are
 * times, 0: not yet. `branches` and `body` are laid out as in record.h. Times are milliseconds by the server's clock.
 *
 * An op is one flight, one transaction; FORGET first looks what time it is (WHO, NEWEST) and then sweeps, and a DECIDE
 * that finds a row needs more of them:
 *
 *   DECIDE ──▶ 0: GUARD, INSERT ── a row was made, or an OPEN one decided ──▶ told
 *                  │ nothing was done
 *                  └─▶ 1: STANDS ── decided, EXPIRED, or more registered than known ──▶ told
 *                         │ OPEN, and may be decided (below the floor, where INSERT does nothing; or just made)
 *                         └─▶ 2: SETTLE, STANDS ──▶ told
 *
 * What if a reply is lost, late or doubled: every step below may be repeated at any later time. STANDS finds a row that
 * INSERT made; what was forgotten since is below the floor, which INSERT and ROW check under GUARD. */
#ifndef RT_ROWS_H
#define RT_ROWS_H

#include "engine/sql/driver.h"
#include "engine/sql/sql.h"
#include "txn/journal/ask.h"

/* Steps: a journal has a struct rt_sql_saying for each, and the step is its slot (engine/sql/driver.h). sql NULL: that
 * journal has nothing to do there. */
enum rt_rows_step {
    /* () -> number, floor, now, layout. ABSENT: no tables. On servers it also makes sure that a COMMIT is durable. */
    RT_ROWS_WHO,
    /* (): the floor stays as it is until the end of the transaction; GUARD_ALONE: and we may change it. */
    RT_ROWS_GUARD,
    RT_ROWS_GUARD_ALONE,
    /* (id, stands, deadline, label, branches, registered, birth) count: 1 (MySQL: 2 too): that is the decision. Inserts
     * if birth is not below the floor; an OPEN row is decided if stands is ABORT or it has no more than
     * `registered`. */
    RT_ROWS_INSERT,
    /* (id, stands, branches, registered) only the second half of INSERT, wherever the floor is. */
    RT_ROWS_SETTLE,
    /* (id) -> floor, then from its row (all NULL: there is none) stands, done, deadline, decided, registered, claimer,
     * claimed, label, branches; and now. Always one row. */
    RT_ROWS_STANDS,
    RT_ROWS_ROW, /* (id, deadline, label, birth): makes an OPEN row if there is none, birth not below the floor */
    RT_ROWS_LOCK,      /* (id): nobody else changes it until the transaction ends */
    RT_ROWS_BRANCH,    /* (id, number, body): if it is OPEN, and has no branch of that number */
    RT_ROWS_COUNT,     /* (id): registered := how many branches, if it is OPEN */
    RT_ROWS_BRANCHES,  /* (id) -> body, by number */
    RT_ROWS_DONE,      /* (id): if it is decided and not done */
    RT_ROWS_DONE_MANY, /* (id, ...): the same for RT_ROWS_MANY ids; ids may repeat */
    /* (id) -> id: the last row below ID. Only where the journal has no clock of its own: it must not believe anybody's */
    RT_ROWS_NEWEST,
    RT_ROWS_RAISE,  /* (floor): unless it is as high already */
    RT_ROWS_SWEEP,  /* (id, limit): deletes done rows below ID. count: how many */
    RT_ROWS_STRAYS, /* (id): deletes branches below ID without a row */
    /* (id, decided, limit): takes the first rows at or above ID that are done and were decided before that: deletes
     * their branches; then the rows themselves. count: how many */
    RT_ROWS_NAMED_BRANCHES,
    RT_ROWS_NAMED,
    /* (before, deadline, id, limit) -> id, stands, deadline, decided, registered, claimer, claimed, label, branches:
     * not done, deadline <= before, (deadline, id) after those given, in that order */
    RT_ROWS_SCAN,
    RT_ROWS_ALL,   /* (id, limit) -> as SCAN, and done: after ID, in that order */
    RT_ROWS_CLAIM, /* (id, who, for_ms): if nobody else has it, and it is not done */
    RT_ROWS_RESOURCE,
    RT_ROWS_RESOURCES, /* () -> name, url, seen: by name */
    RT_ROWS_END,
};

_Static_assert((int)RT_ROWS_END <= RT_SQL_SLOTS, "so many may be");

#define RT_ROWS_LAYOUT_MAJOR 1
#define RT_ROWS_MANY 16

/* Whether it must fly alone: it takes the lock that the others' GUARD shares. */
bool rt_rows_alone(const struct rt_journal_ask *a);

/* Says one step, in WORDS. */
void rt_rows_say_cells(struct rt_sql_book *b, const struct rt_sql_saying *words,
                       enum rt_rows_step step, const struct rt_sql_cell *args, size_t count);
/* Says the steps of A's round, and sets A->first and A->steps. B may have failed after this. GUARD is said once in B,
 * before anything that writes. NUMBER: the journal's. */
void rt_rows_say(struct rt_journal_ask *a, struct rt_sql_book *b, const struct rt_sql_saying *words,
                 uint32_t number);

/* Its steps have landed. True: it is answered: A->in has the answer, and *ERR is 0 or what the rows said (ROTA_BUSY,
 * ROTA_LOST, ROTA_PROTOCOL: they are damaged; with errmsg in CONN). False: it flies again, in another round. */
bool rt_rows_hear(struct rt_journal_ask *a, const struct rt_sql_book *b, struct rt_conn *conn,
                  int *err);

/* After rt_rows_hear gave 0, and before its op is told: calls the op's each() with what is in B. */
int rt_rows_show(struct rt_journal_ask *a, const struct rt_sql_book *b, struct rt_conn *conn);

/* Reads what WHO answered, the only step of B. 0, or ROTA_UNSUPPORTED with errmsg: another version; ROTA_PROTOCOL: the
 * tables are not complete. */
int rt_rows_who(const struct rt_sql_book *b, struct rt_conn *conn, const char *at,
                uint32_t *number);

#endif
