/* SPDX-License-Identifier: Apache-2.0 */
/* The outbox on the caller's own connection: the three databases, as the fence talks to them. */
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

/* Whether CONN can be used, IN a transaction or not. 0, or an error and its line. */
int rt_event_ready(const struct rt_event_local *db, const void *conn, enum rt_fence_in in);
/* Says Q. 0, or an error and its line, with ADVICE. */
int rt_event_say(const struct rt_event_local *db, void *conn, struct rt_stmt *q,
                 struct rt_said *said, const char *advice);
/* MariaDB: the statement that follows, up to rt_event_end, fails if there is no transaction. */
void rt_event_begin(struct rt_stmt *q);
void rt_event_end(struct rt_stmt *q);

/* The type of MAP's COLUMN, as the server writes it, in SAID's first cell. 0, or an error and its line: it is not
 * there. */
int rt_event_type(const struct rt_event_local *db, void *conn, const struct rt_event_map *map,
                  enum rt_event_column column, struct rt_said *said);

/* MAP, or the default. 0, or an error and its line. */
int rt_event_map_of(struct rt_event_map *out, const char *map);

/* The statements that make the tables; NULL ends them. WITH: rota_event and rota_inbox too. */
const char *const *rt_event_ddl(enum rt_dialect dialect, bool with);
/* Counts the tables that are there: one cell, RT_EVENT_TABLES_* if none is missing. */
const char *rt_event_there(enum rt_dialect dialect, bool with, unsigned *want);

/* Writes E into Q: an INSERT. TYPE: that of the payload's column, where it matters (NULL: bytes). ABSENT: a row that
 * already has this event_id is left as it is. */
void rt_event_insert(struct rt_stmt *q, const struct rt_event_map *map, const struct rota_event *e,
                     const char *type, bool absent);
/* 0, or an error and its line: E is not an event that MAP can hold. */
int rt_event_check(const struct rt_event_map *map, const struct rota_event *e);

/* Writes the event GIVEN (SIZE bytes of it) on CONN, which is in a transaction. 0, or an error and its line. *SENT: the
 * database was asked, so the open transaction may be broken. */
int rt_event_put(const struct rt_event_local *db, void *conn, const struct rota_event *given,
                 size_t size, bool *sent);

/* Writes into Q that the rows named by the N IDS are processed; ids that are not the table's are passed over. False:
 * none of them is the table's. FORM: of the column event_id. */
bool rt_event_process(struct rt_stmt *q, const struct rt_event_map *map, const char *const *ids,
                      size_t n, enum rt_event_form form);
/* Writes a condition into Q: the rows that IDS name. False: there are none. */
bool rt_event_which(struct rt_stmt *q, const struct rt_event_map *map, const char *const *ids,
                    size_t n, enum rt_event_form form);

#endif
