/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of engine/sql/driver.h in PostgreSQL's words: those are in sql/. */
#ifndef RT_POSTGRES_STATEMENTS_H
#define RT_POSTGRES_STATEMENTS_H

#include "engine/sql/driver.h"

enum rt_postgres_out { /* what the engine hears of a statement's answer */
                       RT_POSTGRES_NOTHING,
                       RT_POSTGRES_ROWS,
                       RT_POSTGRES_CHANGED, /* how many rows it changed */
                       RT_POSTGRES_COUNT,   /* the same, said by the first column of its only row */
};

struct rt_postgres_statement {
    const char *sql; /* NULL: written when it is sent (LISTEN takes no parameters), or none */
    /* Of each parameter: i bigint, t text, b bytea; those that the driver adds: c the channel of the line that is the first one, w what time it is here, in microseconds, p the server's process
     * as it was told to us, -1: no matter. */
    const char *types;
    enum rt_postgres_out out;
    bool once; /* not worth a name: never prepared */
};

extern const struct rt_postgres_statement rt_postgres_statements[RT_SQL_STEPS];

/* Texts of sql/. The ddl's statements end with ";\n" each. */
extern const char rt_postgres_sql_ddl[], rt_postgres_sql_doctor_more[];

#define RT_POSTGRES_CHANNEL 40
/* OUT: RT_POSTGRES_CHANNEL bytes. Hex digits only: safe in a statement's text. */
void rt_postgres_bell(char *out, int64_t bell);
void rt_postgres_line(char *out, const char *name, size_t size);

#endif
