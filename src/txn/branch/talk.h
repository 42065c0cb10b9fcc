/* SPDX-License-Identifier: Apache-2.0 */
/* One statement at a time on a connection of the application's client library, without waiting.
 *
 *   rt_talk_say ─▶ the kind's send ─▶ wait for fd, events ─▶ advance ... ─▶ true: `said` is what came back */
#ifndef RT_TALK_H
#define RT_TALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_SAID_CELLS 7
#define RT_SAID_CELL 320 /* bytes, with the NUL; longer ones are cut */

#define RT_SAID_LAST 8 /* results remembered in detail */

struct rt_said_one { /* a result */
    uint64_t affected;
    uint32_t warnings; /* MariaDB */
    bool ends;         /* PostgreSQL: it ended a transaction, by its tag */
};

struct rt_said {
    bool lost;   /* no answer, or the connection has ended: it may have been done all the same */
    bool failed; /* an error was answered, or the library refused to send (then nothing was done) */
    unsigned code;     /* MariaDB's number */
    char state[6];     /* SQLSTATE */
    char text[200];    /* what it said, one line */
    char tag[40];      /* PostgreSQL: the last command's tag, "" without one */
    uint64_t affected; /* rows changed, by the last statement that counts them */
    uint64_t rows;     /* how many came */
    uint64_t warnings; /* MariaDB: of all statements in it */
    char cell[RT_SAID_CELLS][RT_SAID_CELL]; /* of the first row; NULL is "" */
    bool null[RT_SAID_CELLS];
    uint32_t results; /* that came without error; the last are in one[number % RT_SAID_LAST] */
    uint32_t ends;    /* of all results: how many have `ends` */
    struct rt_said_one one[RT_SAID_LAST];
};

struct rt_talk;

struct rt_talk_kind {
    int (*load)(char *errmsg, size_t size); /* the client library */
    /* 0, or with a line: INVALID: this connection cannot be used now at all; UNREACHABLE: it has ended. */
    int (*usable)(struct rt_talk *t, char *errmsg, size_t size);
    bool (*send)(struct rt_talk *t);                  /* true: it has ended */
    bool (*advance)(struct rt_talk *t, short events); /* the same */
    int (*fd)(struct rt_talk *t);
};

struct rt_talk {
    const struct rt_talk_kind *kind;
    void *conn;
    char *sql; /* the statement under way */
    size_t room, size;
    short events;  /* waited for */
    int64_t until; /* by the library's own time limit; INT64_MAX: none */
    int stage;     /* the kind's */
    bool ready;    /* the same: the library is set up for nonblocking calls */
    void *result;  /* the kind's */
    struct rt_said said;
    /* Each row, as texts (NULL: a null); NULL: nobody wants them. */
    void (*row)(void *arg, int cells, char *const *values);
    void *row_arg;
    /* Called instead with each result that has rows: the client library's own (MYSQL_RES, PGresult), which it must
     * free. */
    void (*whole)(void *arg, void *result);
    void *whole_arg;
};

/* Appends to the next statement. False: no memory. */
__attribute__((format(printf, 2, 3))) bool rt_talk_add(struct rt_talk *t, const char *format, ...);

/* Says T's statement, and waits for the answer, at most until DEADLINE (CLOCK_BOOTTIME, ns; INT64_MAX: no limit): then
 * the connection is cut, and the answer is lost. */
void rt_talk_wait(struct rt_talk *t, int64_t deadline);

/* For kinds: what was answered. */
void rt_talk_row(struct rt_talk *t, int cells, char *const *values);
/* The next result is complete. */
void rt_talk_result(struct rt_talk *t, uint64_t affected, uint32_t warnings, bool ends);
/* The Nth result from the end, 0 the last; an empty one if there were not that many. N < RT_SAID_LAST. */
struct rt_said_one rt_talk_from_end(const struct rt_talk *t, uint32_t n);
void rt_talk_line(char *out, size_t size, const char *text); /* the first line of TEXT, cut */

extern const struct rt_talk_kind rt_talk_mysql, rt_talk_postgres;

#endif
