/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of MariaDB and MySQL: what its files share. sql/driver.h is the contract it fulfils.
 *
 *   open.c    what the URL and ~/.my.cnf say
 *   link.c    a connection: dialed, up, down, dropped
 *   greet.c   the server's greeting, TLS, who we are, the session's settings
 *   auth.c    what a password is turned into
 *   packet.c  packets and what is in them
 *   flight.c  a flight said
 *   hear.c    its answers heard
 *   text.c    which statements a step is; they are in sql/
 *   error.c   what errors mean
 *
 * One command at a time is on its way, and its answers come in order; anything else that comes ends the connection.
 *
 *   IDLE ──▶ DIALING ──▶ HELLO ──▶ (SECURING) ──▶ AUTH ──▶ SETTING ──▶ READY ◀──▶ PREPARING, FLYING, UNDOING
 *
 * A step of one statement that flies by itself is COM_STMT_EXECUTE, and a transaction of its own. Anything more is one
 * COM_QUERY, "BEGIN; EXECUTE rota7 USING ...; EXECUTE ...; COMMIT": the server stops at the first statement that fails,
 * and then ROLLBACK is sent. Where all that is written is loose (a heartbeat), there is no BEGIN and no COMMIT: they
 * would be half of its statements. (Pipelined packets, the obvious way, go on after a failure, up to and including the
 * COMMIT: then half of a flight is done, or after a deadlock its second half without the first.)
 *
 * But several TAKEs and GIVEs, each of which stands by itself, are packets in one write: a third of the time. One that
 * failed, or was undone with its transaction, is answered with "no": then the long way is tried, and finds out. */
#ifndef RT_MYSQL_H
#define RT_MYSQL_H

#include "engine/sql/driver.h"
#include "net/stream.h"

/* ---- Packets (packet.c) ---------------------------------------------------------------------------------------- */

#define RT_MYSQL_PACKET_MAX \
    0xffffffu /* bytes: such a packet continues in the next, which we neither send nor take */

struct rt_mysql_bytes { /* zeroed before the first use */
    uint8_t *at;
    size_t size, room;
    bool failed; /* no memory: what was added is incomplete */
};
void rt_mysql_add(struct rt_mysql_bytes *b, const void *bytes, size_t n);
void rt_mysql_add_text(struct rt_mysql_bytes *b, const char *text); /* without its end */
void rt_mysql_add_int(struct rt_mysql_bytes *b, uint64_t value, size_t bytes);
void rt_mysql_add_length(struct rt_mysql_bytes *b, uint64_t value); /* as MySQL writes lengths */
void rt_mysql_bytes_free(struct rt_mysql_bytes *b); /* wiped: a password may have been there */

/* Reads on in a packet. What is missing reads as 0 or "", and sets `bad`. */
struct rt_mysql_cursor {
    const uint8_t *at, *end;
    bool bad;
};
uint64_t rt_mysql_int(struct rt_mysql_cursor *c, size_t bytes);
uint64_t rt_mysql_length(struct rt_mysql_cursor *c); /* UINT64_MAX: NULL */
const uint8_t *rt_mysql_take(struct rt_mysql_cursor *c, uint64_t n);
const char *rt_mysql_string(struct rt_mysql_cursor *c); /* up to a 0, or the packet's end */

/* The next whole packet in the N bytes at BYTES: its body in *BODY, its place in its command in *SEQ. Returns how many
 * bytes it has with its header; 0: it is not complete yet; SIZE_MAX: it is too long. */
size_t rt_mysql_packet(const uint8_t *bytes, size_t n, struct rt_mysql_cursor *body, uint8_t *seq);

struct rt_mysql_ok {
    uint64_t affected, insert_id;
    uint16_t status;
};
#define RT_MYSQL_INSIDE 0x0001u /* status: a transaction */
#define RT_MYSQL_MORE 0x0008u   /* status: another result follows */
bool rt_mysql_ok(struct rt_mysql_cursor c, struct rt_mysql_ok *ok); /* also the OK that ends rows */

#define RT_MYSQL_COLUMNS 16
struct rt_mysql_columns {
    size_t count, seen;
    uint8_t types[RT_MYSQL_COLUMNS];
};
/* The next column's definition; false: it is not one, or there are too many. */
bool rt_mysql_column(struct rt_mysql_cursor c, struct rt_mysql_columns *columns);
/* A row, of COM_STMT_EXECUTE if BINARY. False: it does not fit its columns. */
bool rt_mysql_row(struct rt_mysql_cursor c, const struct rt_mysql_columns *columns, bool binary,
                  struct rt_sql_cell *cells);

/* ---- Passwords (auth.c) ------------------------------------------------------------------------------------------ */

#define RT_MYSQL_SALT 20
enum rt_mysql_plugin { RT_MYSQL_NATIVE, RT_MYSQL_SHA2, RT_MYSQL_UNKNOWN };
enum rt_mysql_plugin rt_mysql_plugin(const char *name);
const char *rt_mysql_plugin_name(enum rt_mysql_plugin plugin);
/* What to do about an account that uses the plugin NAME, which we do not speak: half a sentence. */
const char *rt_mysql_plugin_advice(const char *name);
/* Writes the answer to SALT into OUT (32 bytes) and returns its size; the answer to "" is empty.
 * -1: OpenSSL failed. */
int rt_mysql_scramble(enum rt_mysql_plugin plugin, const char *password, const uint8_t *salt,
                      uint8_t *out);
/* Writes PASSWORD into OUT, encrypted for whoever has the other half of the key PEM. False: it is no key,
 * or OpenSSL failed. */
bool rt_mysql_encrypt(struct rt_mysql_cursor pem, const char *password, const uint8_t *salt,
                      struct rt_mysql_bytes *out);

/* ---- Steps (text.c) ---------------------------------------------------------------------------------------------- */

#define RT_MYSQL_PARTS 4 /* statements of a step, at most */
#define RT_MYSQL_RECOUNT (RT_SQL_STEPS * RT_MYSQL_PARTS)
#define RT_MYSQL_OWN (RT_MYSQL_RECOUNT + 1) /* a dialect's: by their slots */
#define RT_MYSQL_FORMS (RT_MYSQL_OWN + RT_SQL_SLOTS)
#define RT_MYSQL_MARKS 48 /* question marks of a statement, at most */

struct rt_mysql_step {
    const char *sql[RT_MYSQL_PARTS]; /* ?N is the Nth argument */
    bool plain;    /* sent as it stands: before the tables are known, or only now and then */
    bool reads;    /* changes nothing */
    bool loose;    /* may be done twice, and without the rest of its flight */
    bool recounts; /* tickets come or go: the line's counts are corrected after it */
    bool by_id;    /* it answers by LAST_INSERT_ID: with a row if anything changed */
    bool gate;     /* needs @rota_gate */
    bool behind;   /* after the COMMIT, not before */
    bool single;   /* stands by itself */
};
const struct rt_mysql_step *rt_mysql_step(const struct rt_sql_step *s);
const char *rt_mysql_sql(size_t form); /* NULL: there is none; none of a dialect's */
/* The number by which a link knows the Kth statement of S. */
size_t rt_mysql_form(const struct rt_sql_step *s, size_t k);
extern const char rt_mysql_sql_ddl[];

/* Writes SQL with plain question marks, and which argument each stands for. Returns how many. */
size_t rt_mysql_marks(const char *sql, struct rt_mysql_bytes *out, uint8_t *args);

/* ---- Errors (error.c) -------------------------------------------------------------------------------------------- */

struct rt_mysql_error {
    unsigned code;
    char text[200]; /* one line */
};
void rt_mysql_error(struct rt_mysql_cursor c, struct rt_mysql_error *e);
enum rt_sql_end rt_mysql_end(unsigned code);
int rt_mysql_refusal(unsigned code); /* while connecting: ROTA_* */
/* The statement was ended from outside: whether a commit had begun is not certain. */
bool rt_mysql_killed(unsigned code);
/* The server ends this connection. */
bool rt_mysql_parting(unsigned code);

/* ---- What the URL says (open.c) ------------------------------------------------------------------------------------ */

struct rt_mysql {
    char *user, *password, *database;
    char *socket, *host; /* if the URL names no host, one of them, or both are NULL */
    uint16_t port;
    struct rt_tls *tls;
};

/* ---- Links (link.c) ------------------------------------------------------------------------------------------------- */

enum rt_mysql_state {
    RT_MYSQL_IDLE,
    RT_MYSQL_DIALING,
    RT_MYSQL_HELLO,    /* the server speaks first */
    RT_MYSQL_SECURING, /* TLS */
    RT_MYSQL_AUTH,
    RT_MYSQL_SETTING, /* the session's settings */
    RT_MYSQL_READY,
    RT_MYSQL_PREPARING, /* the one statement of a flight */
    RT_MYSQL_FLYING,
    RT_MYSQL_UNDOING, /* ROLLBACK, after a statement that failed */
    RT_MYSQL_DOWN,    /* told; the stream is there until it is dropped */
};

struct rt_mysql_part { /* a statement on its way */
    uint16_t step;     /* RT_MYSQL_NOBODY: of no step */
    uint16_t form;     /* that this PREPAREs by name on the server; RT_MYSQL_NOBODY: none */
    bool last;         /* of its step */
    /* Of one that stands by itself. */
    bool pending; /* done, unless the transaction fails */
    uint64_t affected, id;
};
#define RT_MYSQL_NOBODY UINT16_MAX

struct rt_mysql_link {
    struct rt_sql_link base; /* first */
    struct rt_stream stream;
    enum rt_mysql_state state;
    uint8_t seq; /* of the next packet */
    size_t head; /* where the packet in `out` begins */
    struct rt_mysql_bytes in, out;
    /* Dialing. */
    const char *at;   /* whom, for messages */
    int64_t deadline; /* of the greeting */
    void (*closed)(struct rt_sql_link *l);
    /* Greeting. */
    uint32_t caps;
    enum rt_mysql_plugin plugin;
    uint8_t salt[RT_MYSQL_SALT];
    bool mariadb; /* EXECUTE takes expressions */
    bool asked_key, no_eof, may_tls, secured;
    /* What the server knows. */
    const char *own[RT_SQL_SLOTS]; /* a dialect's statements, once they were said */
    uint32_t ids[RT_MYSQL_FORMS];  /* of COM_STMT_PREPARE; 0: not known */
    bool named[RT_MYSQL_FORMS];    /* PREPARE rota<form> */
    /* The flight. */
    struct rt_sql_step *steps;
    size_t step_count, step_room;
    struct rt_mysql_part *parts;
    size_t part_count, part_room, part; /* part: whose answer comes */
    size_t commit;                      /* which part is the COMMIT; SIZE_MAX: none */
    bool binary;
    enum { RT_MYSQL_HEAD, RT_MYSQL_DEFINITIONS, RT_MYSQL_ROWS } phase;
    struct rt_mysql_columns columns;
    size_t form;  /* PREPARING: which */
    size_t skip;  /* PREPARING: packets that tell nothing */
    bool singles; /* the parts stand by themselves */
    uint64_t changed;
    struct rt_mysql_error error;
    size_t failed; /* the step that ERROR is about */
};

static inline struct rt_mysql_link *rt_mysql_of(struct rt_sql_link *l)
{
    return (struct rt_mysql_link *)(void *)l;
}
static inline const struct rt_mysql *rt_mysql_self(const struct rt_mysql_link *l)
{
    return l->base.driver;
}

static inline const char *rt_mysql_text(const struct rt_mysql_link *l, size_t form)
{
    return form >= RT_MYSQL_OWN ? l->own[form - RT_MYSQL_OWN] : rt_mysql_sql(form);
}

/* Begins a packet in l->out. */
void rt_mysql_begin(struct rt_mysql_link *l);
/* Ends it and sends it: 0, or ROTA_NOMEM (also if it is too long): nothing was sent. */
int rt_mysql_send(struct rt_mysql_link *l);
#define RT_MYSQL_QUERY 3
/* Begins a command: seq starts anew. The second function adds it behind the first, to be sent with it. */
void rt_mysql_command(struct rt_mysql_link *l, uint8_t command);
void rt_mysql_next(struct rt_mysql_link *l, uint8_t command);
/* Ends the link: what flies is CUT, and the user is told. */
__attribute__((format(printf, 3, 4))) void rt_mysql_fail(struct rt_mysql_link *l, int err,
                                                         const char *format, ...);
void rt_mysql_fail_memory(struct rt_mysql_link *l);
void rt_mysql_fail_nonsense(struct rt_mysql_link *l);

/* A packet during the greeting; `up` is called when that is over. (greet.c) */
void rt_mysql_greet(struct rt_mysql_link *l, struct rt_mysql_cursor c);
void rt_mysql_secured(struct rt_mysql_link *l);
/* A packet of an answer. (hear.c) */
void rt_mysql_hear(struct rt_mysql_link *l, struct rt_mysql_cursor c);
int rt_mysql_fly(struct rt_sql_link *base, const struct rt_sql_flight *f);
/* Sends what flies by packets, once the server knows all its statements: 0 or ROTA_NOMEM. */
int rt_mysql_send_packets(struct rt_mysql_link *l);
bool rt_mysql_flies(const struct rt_mysql_link *l);
void rt_mysql_flight_free(struct rt_mysql_link *l);
/* The state is UNDOING and the undoing failed: the connection's end undoes it just as well. */
void rt_mysql_undone(struct rt_mysql_link *l);

/* open.c */
int rt_mysql_open(struct rt_conn *conn, const struct rt_url *url, struct rt_dial_ring *ring,
                  void **out);
void rt_mysql_close(void *arg);
/* Reads all that the URL and ~/.my.cnf say of where and who, except TLS, into SELF, which is zeroed; DATABASE: they
 * must name one. rt_mysql_close is due, even after an error. */
int rt_mysql_read_url(struct rt_mysql *self, struct rt_conn *conn, const struct rt_url *url,
                      struct rt_dial_ring *ring, bool database);

#endif
