/* SPDX-License-Identifier: Apache-2.0 */
/* What the guard and the lock in the caller's own transaction do on any SQL server. A program says how to ask its
 * server, and has cases of its own besides these. */
#ifndef GUARD_SQL_CASES_H
#define GUARD_SQL_CASES_H

#include <stdbool.h>
#include <stdint.h>

struct guard_sql {
    const char *makes[2]; /* the statements that make the tables of both */
    void *(*open)(void);  /* a working connection of the caller's */
    void (*close)(void *db);
    void (*run)(void *db, const char *sql); /* must succeed */
    int (*guard)(void *db, const char *resource, uint64_t fence);
    int (*lock)(void *db, const char *name, uint32_t wait_ms, uint64_t *fence);
    /* By somebody else: */
    void (*make)(const char *sql);      /* what one statement does */
    int64_t (*number)(const char *sql); /* what it answers */
    void (*cut)(void *db);              /* ends DB's connection from outside */
    const char *waits;                  /* how many wait for a row lock */
};

extern const struct guard_sql guard_sql; /* of this program */
extern void *guard_a, *guard_b;          /* two connections, open in each case */

int guard_sql_cases(void); /* the shared ones: how many failed */

/* Setup and teardown of a case: empty tables, and a table `stock` in which n is 7. */
#define GUARD_CASE(name) cmocka_unit_test_setup_teardown(name, guard_sql_begin, guard_sql_end)
int guard_sql_begin(void **state);
int guard_sql_end(void **state);

/* n := N, guarded, in a transaction of its own; returns what the guard says. */
int guard_sql_set(void *db, uint64_t fence, long n);
void guard_sql_stock_is(long n);
bool guard_sql_one_waits(void *arg); /* for rt_await */

#endif
