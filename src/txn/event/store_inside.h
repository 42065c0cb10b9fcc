/* SPDX-License-Identifier: Apache-2.0 */
/* Inside store.h: a store, what each kind of database provides, what was answered.
 *
 *   store.c      opening, connecting again, saying a statement
 *   layout.c     whether the table is as the map says
 *   claim.c      a turn
 *   books.c      processed, clean-up, and the rows that the command asks for
 *   counts.c     how many, how old, how fast
 *   inbox.c      what a consumer has taken
 *   store_mysql.c, store_postgres.c, store_sqlite.c */
#ifndef RT_STORE_INSIDE_H
#define RT_STORE_INSIDE_H

#include "engine/url.h"
#include "txn/branch/talk.h"
#include "txn/event/local.h"
#include "txn/event/store.h"
#include "txn/manager/resource_inside.h"

#define RT_STORE_RESULTS 4 /* that have rows, in one answer */
#define RT_STORE_LINE 400
#define RT_STORE_REASON 500

struct rt_cell {
    const char *text; /* NULL: null; a zero byte follows */
    size_t size;
};

struct rt_result { /* rows of one SELECT */
    void *raw; /* the client library's object, which holds the cells; NULL: they are on the heap */
    size_t rows, cols;
    struct rt_cell *cells; /* row by row */
};

struct rt_store_kind {
    enum rt_dialect dialect;
    const struct rt_fence_kind *fence; /* what its errors mean */
    /* Connects, and sets what a session needs. 0, or an error and one line. */
    int (*connect)(struct rt_store *s, char *errmsg, size_t size);
    void (*hang_up)(struct rt_store *s);
    /* Says s->q: s->said, s->results. */
    void (*say)(struct rt_store *s);
    void (*release)(struct rt_result *r);
    /* As rt_store_wait; nothing is open. */
    int (*wait)(struct rt_store *s, int64_t ms, int wake_fd);
};
extern const struct rt_store_kind rt_store_mysql, rt_store_postgres, rt_store_sqlite;

struct rt_store {
    const struct rt_store_kind *kind;
    const struct rt_reach *reach; /* NULL: SQLite */
    struct rt_url url;
    struct rt_event_map map;
    struct rt_store_options o;
    void *conn; /* NULL: it was lost */
    bool open;  /* a transaction */
    bool notifies;
    enum rt_event_form form; /* of event_id */
    bool bytea;              /* PostgreSQL: the payload is bytes */
    bool loose;              /* PostgreSQL: the key's collation takes different keys for one */
    bool utc; /* MariaDB: the session's zone is UTC; else the server's, for a DATETIME of the map */
    /* MariaDB's indexes: for claims, for stale rows, for the rows of a key, by id; "": none */
    char index[4][RT_EVENT_WORD];
    char owner[33];      /* SQLite: who has the lease */
    int64_t after;       /* new rows up to this id are not claimed */
    int64_t stale_at;    /* when to look for stale ones again: CLOCK_BOOTTIME, ns */
    uint64_t said_count; /* round trips, for tests */

    struct rt_stmt q;
    struct rt_said said;
    struct rt_result results[RT_STORE_RESULTS];
    size_t result_count;
    bool
        no_value; /* the last failure: a text was no value for its column (SQLSTATE 22..., 42883) */

    struct rt_store_row *rows;
    struct rt_store_item *items;
    size_t row_room, row_count, item_room;
    char (*ids)[RT_EVENT_ID]; /* of rows and items */
    size_t id_room;
    char errmsg[RT_STORE_LINE];
};

__attribute__((format(printf, 3, 4))) int rt_store_fail(struct rt_store *s, int err,
                                                        const char *format, ...);
/* Begins a statement: connects again, if need be. */
int rt_store_begin(struct rt_store *s);
/* Says s->q. An error rolls back, or hangs up. */
int rt_store_say(struct rt_store *s);
/* The same for a line of SQL. */
int rt_store_say_text(struct rt_store *s, const char *sql);
/* Ends an open transaction, so that a statement can follow on its own. */
int rt_store_settle(struct rt_store *s);
const struct rt_cell *rt_store_cell(const struct rt_store *s, size_t result, size_t row,
                                    size_t col);
int64_t rt_store_number(const struct rt_cell *cell, int64_t fallback);
/* For kinds: one more result with so many cells. NULL: no memory, or too many. */
struct rt_result *rt_store_result(struct rt_store *s, size_t rows, size_t cols);
/* For kinds with a talk: says s->q through it. TAKE gets each result. */
void rt_store_talk(struct rt_store *s, void (*take)(void *arg, void *result));
int rt_store_poll(int64_t ms, int wake_fd, int fd); /* 1: one is ready; 0: the time is up */

/* By s->map: a row's id in messages, kept in s->ids[I]. */
const char *rt_store_event_id(struct rt_store *s, size_t i, const struct rt_cell *cell, int64_t id);
bool rt_store_make_room(struct rt_store *s, size_t rows, size_t items);

/* Pieces of statements; the table's alias is e. */
void rt_store_add_index(struct rt_store *s, int which); /* MariaDB: order by the index */
void rt_store_add_table(struct rt_store *s);            /* " FROM table e" */
void rt_store_add_event_id(struct rt_store *s);         /* as text, or NULL */
void rt_store_add_age(struct rt_store *s, enum rt_event_column column); /* ms, or NULL */
void rt_store_add_source(struct rt_store *s); /* "source = 'table' AND event" */

/* Checks that the table is as the map says, and makes what is missing. */
int rt_store_check(struct rt_store *s);
int rt_store_check_inbox(struct rt_store *s); /* likewise for rota_inbox */

bool rt_store_has(const struct rt_store *s, enum rt_event_column column); /* the map, a column */

#endif
