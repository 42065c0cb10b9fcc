/* SPDX-License-Identifier: Apache-2.0 */
/* The outbox on a connection of the caller's: the three databases, as the fence talks to them. */
#ifndef RT_EVENT_LOCAL_H
#define RT_EVENT_LOCAL_H

#include "txn/event/stmt.h"
#include "txn/fence/fence.h"

struct rt_event_local {
    const struct rt_fence_kind *kind; /* NULL: this library was built without it */
    enum rt_dialect dialect;
    const char *title, *make;
};

extern const struct rt_event_local rt_event_mysql, rt_event_postgres, rt_event_sqlite;

/* CONN can be used, IN a transaction or not. 0, or an error and its line. */
int rt_event_ready(const struct rt_event_local *db, const void *conn, enum rt_fence_in in);
/* Says Q. 0, or an error and its line, with ADVICE. */
int rt_event_say(const struct rt_event_local *db, void *conn, struct rt_stmt *q,
                 struct rt_said *said, const char *advice);
/* MariaDB: the statement that follows, up to rt_event_end, fails if there is no transaction. */
void rt_event_begin(struct rt_stmt *q);
void rt_event_end(struct rt_stmt *q);

/* MAP, or the default. 0, or an error and its line. */
int rt_event_map_of(struct rt_event_map *out, const char *map);

/* The statements that make the tables; NULL ends them. WITH: rota_event and rota_inbox too. */
const char *const *rt_event_ddl(enum rt_dialect dialect, bool with);
/* Counts the tables that are there: one cell, RT_EVENT_TABLES_* if none is missing. */
const char *rt_event_there(enum rt_dialect dialect, bool with, unsigned *want);

/* Writes E into Q: an INSERT. TYPE: of the payload's column, where it matters (NULL: bytes). ABSENT: one whose event_id is there already is left as it is. */
void rt_event_insert(struct rt_stmt *q, const struct rt_event_map *map, const struct rota_event *e,
                     const char *type, bool absent);
/* 0, or an error and its line: E is no event that MAP can have. */
int rt_event_check(const struct rt_event_map *map, const struct rota_event *e);

/* Writes the event GIVEN (SIZE bytes of it) on CONN, which is in a transaction. 0, or an error and its line. *SENT: the database
 * was asked, so what is open there may be broken. */
int rt_event_put(const struct rt_event_local *db, void *conn, const struct rota_event *given,
                 size_t size, bool *sent);

/* Writes into Q: the rows that IDS (N of them, those that are none of the table's passed over) name are processed. False: none
 * of them is. UUID: the column event_id is of the type uuid. */
bool rt_event_process(struct rt_stmt *q, const struct rt_event_map *map, const char *const *ids,
                      size_t n, bool uuid);
/* Writes into Q a condition: the rows that IDS name. False: there is none. */
bool rt_event_which(struct rt_stmt *q, const struct rt_event_map *map, const char *const *ids,
                    size_t n, bool uuid);

#endif
