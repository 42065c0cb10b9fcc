/* SPDX-License-Identifier: Apache-2.0 */
/* The fence of a service, in its own database: one row for each branch, and one statement for each call.
 *
 *                 try                confirm
 *   (no row) ─────────────▶ TRIED ─────────────▶ CONFIRMED
 *      │                      │      cancel
 *      │ cancel, confirm      └────────────────▶ CANCELLED
 *      └──────────▶ VOID: whoever tries now is late
 *
 * The statement is an INSERT, or an UPDATE if the row is there; it answers what the row said before (`was`, 0: there
 * was none). So nobody looks first: whoever comes while another's call is under way, or prepared, waits for it, and
 * sees how it ended. Row and work are in the caller's transaction: both are there, or neither.
 *
 * A deleted row must not be needed any more: `clean` deletes it when the journal says that the transaction is over and
 * its deadline passed a day ago, and a try is refused an hour after its deadline, whatever the table says. So clocks
 * may be wrong by 23 hours. A row that is still TRIED is somebody's reservation, and is never deleted. */
#ifndef RT_FENCE_H
#define RT_FENCE_H

#include "txn/branch/talk.h"

#include <rota_txn.h>

#define RT_FENCE_TABLE "rota_fence"
#define RT_FENCE_LATE_MS INT64_C(3600000)   /* this long after its deadline a try is refused */
#define RT_FENCE_CLEAN_MS INT64_C(86400000) /* this long after its deadline a row may go */
#define RT_FENCE_PAGE 100                   /* transactions cleaned at once */
#define RT_FENCE_SQL 8192                   /* bytes of the longest statement */

enum rt_fence_state { /* of a row */
                      RT_FENCE_NONE = 0,
                      RT_FENCE_TRIED = 1,
                      RT_FENCE_CONFIRMED = 2,
                      RT_FENCE_CANCELLED = 3,
                      RT_FENCE_VOID = 4,
};

enum rt_fence_in { RT_FENCE_INSIDE, RT_FENCE_OUTSIDE }; /* a transaction of the caller's */

struct rt_fence_kind {
    const char *title; /* "MariaDB" */
    const char *make;  /* "rota_fence_make_mysql" */
    const char *ddl;
    const char *
        there; /* answers a NULL: there is no table yet. NULL: CREATE TABLE silently finds that out */
    const char *
        found; /* fails, or answers a row with text in it, if the table is useless; NULL: no check */
    bool odku; /* MariaDB's way to write the statement */
    /* ROTA_INVALID with a line: CONN cannot be used now, or is not as IN says; ROTA_UNSUPPORTED: no client library. */
    int (*ready)(void *conn, enum rt_fence_in in, char *errmsg, size_t size);
    /* Says SQL and waits for the answer. ROW (may be NULL) is called for each row. */
    void (*say)(void *conn, char *sql, struct rt_said *said,
                void (*row)(void *arg, int cells, char *const *values), void *arg);
    int (*error)(const struct rt_said *said); /* ROTA_* for a failed one */
};

extern const struct rt_fence_kind rt_fence_mysql, rt_fence_postgres, rt_fence_sqlite;

/* Says SQL through a talk, and waits. */
void rt_fence_talk(const struct rt_talk_kind *kind, void *conn, char *sql, struct rt_said *said,
                   void (*row)(void *arg, int cells, char *const *values), void *arg);

/* What a call with OP means, if its row said WAS. */
enum rota_fenced rt_fence_judge(int32_t op, enum rt_fence_state was);

#endif
