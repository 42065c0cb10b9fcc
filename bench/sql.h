/* SPDX-License-Identifier: Apache-2.0 */
/* The benches on SQL databases: a server of their own, and what its own client does by hand there. */
#ifndef BENCH_SQL_H
#define BENCH_SQL_H

#include "bench.h"

struct hand; /* a bare connection, its statements prepared */

struct by_hand { /* a hand-over by hand; all NULL: none */
    void (*ready)(struct hand *holder, struct hand *waiter); /* one holds; not timed */
    void (*wait)(struct hand *h);                            /* the other waits */
    void (*ring)(struct hand *h); /* the first lets go, durably, and wakes it */
};

struct sql_way { /* a server and its client library; functions end the program on any error */
    const char *name, *own; /* "postgres"; "advisory lock": its own kind of lock */
    void (*start)(void);    /* durable, in a folder on disk */
    void (*stop)(void);
    const char *(*url)(void);
    pid_t (*pid)(void); /* of the server */
    void (*down)(void); /* kill -9 */
    void (*up)(void);   /* again; returns when it serves */
    long (*kept)(void); /* rows of lines */
    struct hand *(*dial)(void);
    void (*hang_up)(struct hand *h);
    void (*say)(struct hand *h, const char *sql); /* one statement, as it stands */
    void (*row_pair)(struct hand *h,
                     const char *name); /* INSERT and DELETE of a row, each durable */
    void (*own_pair)(struct hand *h, const char *name); /* the server's own lock and unlock */
    void (*update_pair)(struct hand *h,
                        const char *name); /* BEGIN, SELECT ... FOR UPDATE; COMMIT */
    struct by_hand woken;                  /* lets go and wakes: then nobody holds anything */
    struct by_hand held;                   /* ... and whoever is woken takes it by its own row */
    struct by_hand same;                   /* the statements with which Rota hands over */
    double pair_goal, flight_goal, handover_goal;
};

extern const struct sql_way sql_postgres, sql_mysql;

void sql_bench_dialects(const struct bench *b, const struct sql_way *way); /* sql_dialect.c */

#endif
