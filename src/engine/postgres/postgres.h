/* SPDX-License-Identifier: Apache-2.0 */
/* Inside postgres/: the driver on libpq, as engine/sql/driver.h says.
 *
 *   open.c     what the URL, the environment and a service file say
 *   dial.c     IDLE ──▶ LOOKING (a name) ──▶ DIALING ──▶ GREETING (settings) ──▶ UP; each address in turn
 *   link.c     the life of a link: watch, timer, up-calls, the end
 *   statements.c  which statement a step is
 *   flight.c   steps into statements and answers into rows
 *   many.c     several steps into one statement
 *   say.c      what errors mean */
#ifndef RT_POSTGRES_H
#define RT_POSTGRES_H

#include "engine/postgres/libpq.h"
#include "engine/sql/driver.h"
#include "net/dial.h"

#define RT_POSTGRES_WHY 320

/* ---- What the URL says (open.c) ----------------------------------------------------------------- */

#define RT_POSTGRES_PARAMS 32

struct rt_postgres { /* of a client */
    struct rt_conn *conn;
    const char *keys[RT_POSTGRES_PARAMS + 1];
    char *values[RT_POSTGRES_PARAMS + 1]; /* copies */
    char *password; /* the one among them that is a secret (base/secret.h); NULL */
    size_t count;
    char *search_path;   /* NULL: the user's own */
    char *schema;        /* as a literal; NULL */
    bool ssl_said;       /* sslmode was chosen by somebody */
    bool ca_said;        /* and so was whom to trust */
    char sslmode[16];    /* as libpq has it */
    bool pooler;         /* one that pools by session may be in between */
    uint32_t connect_ms; /* by ?connect_timeout=; 0 */
};

extern const char *const rt_postgres_params[];
int rt_postgres_open(struct rt_conn *conn, const struct rt_url *url, struct rt_dial_ring *ring,
                     void **self);
void rt_postgres_close(void *self);

/* For HOST over TCP: the mode that we choose, and whom to trust then. NULL: libpq's default. */
const char *rt_postgres_sslmode(const struct rt_postgres *p, const char *host);
const char *rt_postgres_ca(const struct rt_postgres *p, const char *chosen);

/* ---- Links (link.c) ------------------------------------------------------------------------------ */

enum rt_postgres_state {
    RT_POSTGRES_IDLE, /* not dialed yet, or its end is told */
    RT_POSTGRES_LOOKING,
    RT_POSTGRES_DIALING,
    RT_POSTGRES_GREETING,
    RT_POSTGRES_UP,
    RT_POSTGRES_ENDED,   /* to be told from the next turn */
    RT_POSTGRES_CLOSING, /* dropped: `closed` is due. Base and SELF may be gone */
};

struct
    rt_postgres_socket { /* libpq may replace its own while connecting; a watch goes when its loop lets it */
    struct rt_watch watch; /* first */
    struct rt_postgres_link *link;
};

/* An answer that is due, in order of arrival; the last is the Sync's. */
struct rt_postgres_due {
    uint32_t step;
    uint8_t kind;  /* enum rt_sql_step_kind; RT_SQL_STEPS: the greeting */
    bool prepare;  /* not the step itself */
    uint32_t many; /* so many steps, from this on, are one statement; 0: only this */
    const struct rt_sql_saying *saying; /* RT_SQL_SAYING */
};

struct rt_postgres_link {
    struct rt_sql_link base; /* first */
    struct rt_loop *loop;
    uint32_t state; /* enum rt_postgres_state */
    uint32_t life;  /* raised by its end: after an up-call, tells whether it goes on */
    PGconn *pg;
    struct rt_postgres_socket *socket;
    int fd; /* libpq's, 0: none */
    struct rt_timer_call timer;
    bool reserved; /* the timer has its place */
    struct rt_parting parting;
    void (*closed)(struct rt_sql_link *l);

    /* Connecting. */
    const struct rt_dial_end *end; /* its host may also be "": libpq's own folder */
    struct rt_dial *dial;          /* addresses of a name; NULL: a unix socket */
    int64_t until, deadline;
    uint32_t connect_ms;
    const char *chosen; /* the sslmode that nobody asked for */

    /* A flight. */
    struct rt_postgres_due *due;
    size_t due_count, due_room, due_next;
    bool flying, wants_write, null_seen;
    uint64_t prepared; /* a bit per step */
    uint32_t own;      /* ... and per slot, ... */
    uint32_t own_many; /* ... also for what is said for many */
    const struct rt_sql_step *steps;
    char *arrays;
    size_t arrays_room;
    enum rt_sql_end fate;
    size_t failed; /* the step */

    int err; /* ENDED: why */
    char why[RT_POSTGRES_WHY];
    char notice[RT_POSTGRES_WHY]; /* what the server said before it closed; "" */
};

_Static_assert(RT_SQL_STEPS <= 64 && RT_SQL_SLOTS <= 32, "a bit for each");

static inline struct rt_postgres_link *rt_postgres_of(struct rt_sql_link *l)
{
    return (struct rt_postgres_link *)(void *)l;
}

static inline const struct rt_postgres *rt_postgres_self(const struct rt_postgres_link *l)
{
    return l->base.driver;
}

/* L ends: told from the next turn, with ERR and what L->why says (one line, without the server's name). */
void rt_postgres_end(struct rt_postgres_link *l, int err);
__attribute__((format(printf, 3, 4))) void rt_postgres_fail(struct rt_postgres_link *l, int err,
                                                            const char *format, ...);
/* Watches libpq's current socket. False: L has ended. */
bool rt_postgres_watch(struct rt_postgres_link *l, bool readable, bool writable);
void rt_postgres_alarm(struct rt_postgres_link *l, int64_t at); /* RT_NEVER: none */
void rt_postgres_fire(struct rt_timer_call *call, int64_t now);
void rt_postgres_finish(
    struct rt_postgres_link *l); /* lets go of libpq's connection and its watch */

/* ---- Connecting (dial.c) -------------------------------------------------------------------------- */

int rt_postgres_dial(struct rt_sql_link *base, const struct rt_dial_end *end, uint32_t connect_ms);
void rt_postgres_poll(struct rt_postgres_link *l);     /* DIALING: its socket is ready */
void rt_postgres_too_late(struct rt_postgres_link *l); /* its deadline is over */

/* ---- Statements (statements.c): the steps of engine/sql/driver.h in PostgreSQL's words, which are in sql/ ------ */

enum rt_postgres_out { /* what the engine hears of a statement's answer */
                       RT_POSTGRES_NOTHING,
                       RT_POSTGRES_ROWS,
                       RT_POSTGRES_CHANGED, /* how many rows it changed */
                       RT_POSTGRES_COUNT,   /* the same, from the first column of its only row */
};

struct rt_postgres_statement {
    const char *sql; /* NULL: written when it is sent (LISTEN takes no parameters), or none */
    /* For each parameter: i bigint, t text, b bytea; those that the driver adds: c the channel of the line that the
     * first parameter names, w the time here, in microseconds, p the server's process as told to us, -1: no matter. */
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

/* ---- Flights (flight.c) ---------------------------------------------------------------------------- */

int rt_postgres_send(struct rt_sql_link *base, const struct rt_sql_flight *f);
void rt_postgres_greet(struct rt_postgres_link *l); /* connected: settings first */
void rt_postgres_read(struct rt_postgres_link *l);  /* something came */
void rt_postgres_write(struct rt_postgres_link *l); /* there is room */

struct rt_postgres_args {
    Oid types[RT_SQL_ARGS];
    const char *values[RT_SQL_ARGS];
    int lengths[RT_SQL_ARGS], formats[RT_SQL_ARGS];
    int64_t numbers[RT_SQL_ARGS];
    char channel[RT_POSTGRES_CHANNEL];
    int count;
};

/* ---- Several steps, one statement (many.c) ------------------------------------------------------------ */

/* How many steps of F from FROM on are one statement; 1: the step is said as it is. */
size_t rt_postgres_run(const struct rt_sql_flight *f, size_t from);
/* Puts their arguments as arrays into A; valid until the next call. False: no memory; they may still be said
 * one by one. */
bool rt_postgres_put_many(struct rt_postgres_link *l, const struct rt_sql_step *steps, size_t count,
                          struct rt_postgres_args *a);
/* The answer: tells each of D's steps that changed a row. */
void rt_postgres_tell_many(struct rt_postgres_link *l, const struct rt_postgres_due *d,
                           const PGresult *r);

/* ---- Errors (say.c) -------------------------------------------------------------------------------- */

enum rt_sql_end rt_postgres_meaning(const char *sqlstate);
/* Reads what PQerrorMessage says of a connection that could not be made: its SQLSTATE, "" if there is none, and its
 * gist in one line. Returns the error. */
int rt_postgres_refusal(const char *message, char *gist, size_t size);
void rt_postgres_one_line(char *out, size_t size,
                          const char *text); /* its first line, without spaces at the ends */

#endif
