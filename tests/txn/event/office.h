/* SPDX-License-Identifier: Apache-2.0 */
/* A database of events under test: writers, stores, and what is in the table. */
#ifndef TEST_OFFICE_H
#define TEST_OFFICE_H

#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "txn/branch/site.h"
#include "txn/event/store.h"

#include <rota_txn.h>

struct office {
    const struct site *site;
    int (*put)(void *conn, const struct rota_event *e);
    int (*make)(void *conn);
    int (*take)(void *conn, const char *consumer, const char *event_id);
    int (*processed)(void *conn, const char *map, const char *event_id);
    const char *begin;      /* how a writer begins */
    const char *orders;     /* DDL of an event table that was there before */
    const char *aged;       /* an expression: an hour ago */
    const char *short_wait; /* waits only briefly for a lock */
    const char *text;       /* of the payload, to be compared */
    /* The server's plan for SQL: one line per row, cells separated by blanks. */
    void (*explain)(void *conn, const char *sql, char *out, size_t size);
    const char *
        by_index[2]; /* words in it that show that a claim, a look for stale ones, uses its index */
    const char *not_so[2]; /* and those that show it does not */
    /* For each query of the command (open ones, new ones of a key, counts, rates): words, each followed by '|', that
     * its plan must have, and those it must not have. */
    const char *plans[8];
    bool rows_lock; /* claims are row locks, and several can hold some */
};

extern const struct office office_mysql, office_postgres, office_sqlite;
#define HERE (&OFFICE)
#define ORDERS                                                                          \
    "table=tbl_order_event,id=id,topic='orders',type=order_type,state=process,payload=" \
    "content,created=create_time,updated=update_time"

void *office_conn(void);
void office_close(void *conn);
void office_sql(void *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
void office_admin(const char *format, ...) __attribute__((format(printf, 1, 2)));
long long office_number(const char *format, ...) __attribute__((format(printf, 1, 2)));
void office_empty(void); /* no events, no troubles */

/* One event, committed. */
void office_put(const char *key, const char *payload);
/* The id of the row with that payload. */
int64_t office_row(const char *payload);
/* How many rows are in STATE. */
long long office_count(const char *state);

/* MAP NULL: rota_event. Ends the test on an error. */
struct rt_store *office_store(const char *map, const struct rt_store_options *o);
struct rt_store *office_store_at(uint16_t port, const char *map, const struct rt_store_options *o);

/* A claim, without marks, and how many rows came. */
struct claim {
    const struct rt_store_row *rows;
    size_t count;
};
struct claim claim(struct rt_store *s, uint32_t limit);
/* The same, repeated until N rows come. */
struct claim claim_until(struct rt_store *s, size_t n);
/* Marks all rows of C, and claims no more. */
void mark_all(struct rt_store *s, const struct claim *c, enum rt_store_what what,
              const char *reason);
void let_go(struct rt_store *s);
/* The row with that payload; NULL: it was not claimed. */
const struct rt_store_row *find_row(const struct claim *c, const char *payload);

extern const struct CMUnitTest cases_turns[], cases_faults[], cases_shapes[], cases_books[],
    cases_views[], cases_page[], cases_command[], cases_branch[];
extern const size_t cases_turns_count, cases_faults_count, cases_shapes_count, cases_books_count,
    cases_views_count, cases_page_count, cases_command_count, cases_branch_count;

#endif
