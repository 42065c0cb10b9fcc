/* SPDX-License-Identifier: Apache-2.0 */
/* A statement, written piece by piece, in one of three dialects.
 *
 * Values are written so that neither the connection's character set nor its rules for quotes and backslashes matter:
 * anything not plain goes as hexadecimal digits. */
#ifndef RT_EVENT_STMT_H
#define RT_EVENT_STMT_H

#include "txn/event/event.h"

enum rt_dialect { RT_STMT_MYSQL, RT_STMT_POSTGRES, RT_STMT_SQLITE };

struct rt_stmt {
    enum rt_dialect dialect;
    char *text; /* heap; NULL before the first piece */
    size_t size, room;
    bool failed; /* no memory: nothing more is added */
};

void rt_stmt_fini(struct rt_stmt *q);
void rt_stmt_clear(struct rt_stmt *q); /* for the next statement */

__attribute__((format(printf, 2, 3))) void rt_stmt_add(struct rt_stmt *q, const char *format, ...);
void rt_stmt_name(struct rt_stmt *q, const char *name);  /* quoted */
void rt_stmt_table(struct rt_stmt *q, const char *name); /* the same for schema.table */
void rt_stmt_text(struct rt_stmt *q, const char *text);  /* a literal; NULL: NULL */
void rt_stmt_bytes(struct rt_stmt *q, const void *data, size_t size);
/* The same as rt_stmt_text, to be compared with a column of any collation. (PostgreSQL's convert_from has the collation
 * of its second argument, "C", and PostgreSQL refuses to compare that with another; JSON has none.) */
void rt_stmt_sought(struct rt_stmt *q, const char *text);

/* From MAP: a column of the table ALIAS (NULL: none), or its constant, or NULL. */
void rt_stmt_column(struct rt_stmt *q, const struct rt_event_map *map, enum rt_event_column column,
                    const char *alias);
/* The state's value. */
void rt_stmt_state(struct rt_stmt *q, const struct rt_event_map *map, enum rt_event_state state);

/* Expressions: the time now, as dates are kept; so many ms before it; and in ms since 1970. */
const char *rt_stmt_now(enum rt_dialect dialect);
void rt_stmt_before(struct rt_stmt *q, int64_t ms);
const char *rt_stmt_now_ms(enum rt_dialect dialect);

#endif
