/* SPDX-License-Identifier: Apache-2.0 */
/* A service under test: its database, its calls, what they did, and what they should do.
 *
 * Each call inserts one row into the table effects, so anything done twice shows. */
#ifndef TEST_DESK_H
#define TEST_DESK_H

#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "txn/branch/site.h"

#include <rota_txn.h>

struct desk {
    const struct site *site;
    int (*fence)(void *conn, const struct rota_call *call, enum rota_fenced *verdict);
    int (*make)(void *conn);
    int (*clean)(struct rota_txns *m, void *conn, uint64_t *count);
    const char *begin;     /* how a service that will write begins */
    const char *levels[4]; /* statements before BEGIN that choose an isolation level */
    const char *blocked;   /* how many connections wait for a lock; NULL: it cannot be seen */
    const char *prepare, *commit_prepared; /* NULL: it has no two-phase commit */
    const char *begin_prepared;
    const char *short_wait; /* waits only briefly for a lock */
    const char *read_only;  /* begins a transaction that may only read */
    bool reads_old; /* a transaction that has read may find its view too old to write: BUSY */
};

extern const struct desk desk_mysql, desk_postgres, desk_sqlite;
#define HERE (&DESK)

void *desk_open(void);
void desk_close(void *conn);
void desk_sql(void *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
long long desk_number(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A call of a new transaction, whose deadline is a minute ahead. */
struct rota_call call_new(enum rota_op op);
struct rota_call call_as(const struct rota_call *call, enum rota_op op); /* the same branch */
struct rota_call call_aged(enum rota_op op, int64_t ms); /* its deadline passed MS ago */

/* Calls the fence inside an open transaction; ends the test on an error. */
enum rota_fenced fenced(void *conn, const struct rota_call *call);
/* The effect of CALL: what it does if the fence says DO. */
void effect(void *conn, const struct rota_call *call);
/* A whole call: BEGIN, the fence, the effect, COMMIT. */
enum rota_fenced serve(void *conn, const struct rota_call *call);

long long effects(const struct rota_call *call, enum rota_op op); /* committed ones */
long long fence_rows(const struct rota_call *call);

/* ---- What should be: a branch, thought out anew --------------------------------------- */

struct model {
    bool tried, confirmed, cancelled, closed; /* closed: a cancel or confirm came without a try */
};
enum rota_fenced model_call(struct model *m, enum rota_op op);

extern const struct CMUnitTest cases_orders[], cases_both[], cases_bad[], cases_peers[],
    cases_clean[], cases_page[];
extern const size_t cases_orders_count, cases_both_count, cases_bad_count, cases_peers_count,
    cases_clean_count, cases_page_count;

#endif
