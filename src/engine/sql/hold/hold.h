/* SPDX-License-Identifier: Apache-2.0 */
/* The SQL dialects whose locks live with a connection: getlock, advisory, forupdate, table.
 *
 *   hold.c    the engine: opening, incoming ops, time, closing
 *   seat.c    a connection that asks for a lock, waits for it, holds it: one lock each
 *   ask.c     what is asked of seats: JOIN, LEAVE, CHANGE, renewals
 *   ticket.c  tickets, what flies for them, their end; set.c: sets that try
 *   land.c    what becomes of a ticket by what its seat heard
 *   number.c  what the lanes do for it: numbers, rows that are missing
 *   beat.c    the session, which only this client knows
 *   show.c    INSPECT, LIST, OBSERVE, BREAK, CHECK: on the lanes of sql.h, which hold nothing
 *   words.c   what is said, in each dialect's SQL; spell.c: what a lock is called there
 *
 * A lock is the server's, and ends with the connection that has it. So each has a connection of its own, a *seat*: its
 * end is the loss of that lock and of no other, told at once; and to break a lock is to end a connection. Whoever waits
 * is in the server's queue. A ticket:
 *
 *   JOIN ──▶ QUEUED ── a seat is ready ──▶ TRYING ── busy, and it may wait: JOIN is answered ──▶ WAITING
 *              ▲                             │ granted                                              │ granted
 *              └── the connection broke ─────┴──────▶ NUMBERING ◀───────────────────────────────────┘
 *                                                        │ its fence is committed; its time counts from after the last BEAT
 *                                                        ▼
 *                     connection gone: TICKET_LOST ◀── HELD ── LEAVE ──▶ LEAVING ──▶ gone; the seat is free
 *
 * The fence is a second statement, which commits by itself (table rota_hold), while the lock is held: so fences follow the order
 * of grants. Where the lock is a transaction, the lanes say it.
 *
 * How a dead client is noticed: the server ends a seat that was idle for a ttl (wait_timeout, idle_session_timeout,
 * idle_in_transaction_session_timeout, which we set), and every BEAT says something on each. The server counts from the end of
 * our last statement, we from before we sent it. A seat that waits is not idle; if it is granted a lock and nobody is
 * there to hear it, its connection is found broken, or idles.
 *
 * What if a reply is lost (the connection broke, or is silent and cut): to TRY and WAIT: whatever was granted ends with
 * the connection, which is also ended from a lane (KILL, pg_terminate_backend) where we cut it; the lock is asked for
 * anew. To a number: the same; numbers may be skipped. To LEAVE: UNKNOWN, and it is over either way. To a renewal:
 * TICKET_LOST, and the connection stays for as long as the holder was promised the lock. Late: a seat says one thing at
 * a time, and nothing after its connection's end. Doubled: answers that nobody asked for end the connection. */
#ifndef RT_HOLD_H
#define RT_HOLD_H

#include "engine/kit/view.h"
#include "engine/kit/work.h"
#include "engine/name.h"
#include "engine/sql/sql.h"

struct rt_sqlhold_conn;
struct rt_sqlhold_seat;
struct rt_sqlhold_ticket;
struct rt_sqlhold_set;
struct rt_sqlhold_ask;

/* ---- spell.c: what a lock is called; pure ------------------------------------------------------------------------- */

/* How incumbents turn a name into a PostgreSQL key (?keys=). */
enum rt_sqlhold_keys {
    RT_HOLD_HASHTEXTEXTENDED, /* by the server: hashtextextended(name, 0) */
    RT_HOLD_HASHTEXT,         /* by the server: hashtext(name) */
    RT_HOLD_SHA1LE,  /* the first 8 bytes of SHA-1, little endian: DistributedLock's long names */
    RT_HOLD_CRC32,   /* the CRC-32 of the name */
    RT_HOLD_RAILS,   /* a pair: CRC-32 without its sign, and 0: with_advisory_lock */
    RT_HOLD_RAW64,   /* the name is the number */
    RT_HOLD_RAWPAIR, /* the name is "A,B" */
};
/* False: no kind has that name. */
bool rt_sqlhold_keys_find(const char *name, enum rt_sqlhold_keys *out);
#define RT_HOLD_KEYS_NAMES "hashtextextended, hashtext, sha1le, crc32, rails, raw64, rawpair"
static inline bool rt_sqlhold_keys_pair(enum rt_sqlhold_keys k)
{
    return k == RT_HOLD_RAILS || k == RT_HOLD_RAWPAIR;
}
/* The key of NAME as one number; the first of a pair is the upper half. 0 if the server computes it. False: NAME has no
 * key (a raw one that is not a number, or OpenSSL is missing). */
bool rt_sqlhold_key(enum rt_sqlhold_keys keys, const char *name, int64_t *key);

#define RT_HOLD_SPELLED 200 /* 64 characters of at most 3 bytes, and room */
/* NAME as GET_LOCK takes it, at most 64 bytes: a longer one is cut, and a hash keeps it distinct. */
void rt_sqlhold_lock_name(const char *name, char out[RT_HOLD_SPELLED]);
/* The table of NAME: PREFIX and the name, in lower case letters, digits and _, at most 60 bytes; any other name also
 * gets its hash. Without a PREFIX: NAME as it is, if rt_sqlhold_no_table_name does not object. */
void rt_sqlhold_table_name(const char *prefix, const char *name, char out[RT_HOLD_SPELLED]);

/* Why no table of a user's own can be called NAME; NULL: one can. */
const char *rt_sqlhold_no_table_name(enum rt_sql_tongue tongue, const char *name);
/* NAME between QUOTEs, each one in it doubled. */
void rt_sqlhold_quote(char quote, const char *name, char out[2 * RT_HOLD_SPELLED]);

/* ---- words.c: what is said ---------------------------------------------------------------------------------------- */

enum rt_sqlhold_say { /* slots of RT_SQL_SAYING */
                      RT_HOLD_SAY_TRY, /* -> 1: it is ours now; else 0, or no row. Then the number, if this numbers it */
                      RT_HOLD_SAY_TRY_SHARED,
                      RT_HOLD_SAY_WAIT, /* -> 1 */
                      RT_HOLD_SAY_WAIT_SHARED,
                      RT_HOLD_SAY_FENCE, /* -> (number): numbers it */
                      RT_HOLD_SAY_FENCE_SHARED,
                      RT_HOLD_SAY_FENCE_SHARED_ROW,
                      RT_HOLD_SAY_NUMBER, /* -> number, where FENCE answers none */
                      RT_HOLD_SAY_NUMBER_SHARED,
                      RT_HOLD_SAY_VERIFY, /* -> 1: it is still ours */
                      RT_HOLD_SAY_GIVE,   /* -> 1: it was ours */
                      RT_HOLD_SAY_GIVE_SHARED,
                      RT_HOLD_SAY_DOWNGRADE, /* -> 1 */
                      RT_HOLD_SAY_EXISTS,    /* -> 1: there is something to lock by that name */
                      RT_HOLD_SAY_ENSURE,    /* makes it */
                      RT_HOLD_SAY_CLEAR,     /* it is no longer held, for observers */
                      RT_HOLD_SAY_CLEAR_SHARED,
                      RT_HOLD_SAY_BREAK, /* records that it is broken, if it is held */
                      RT_HOLD_SAY_BROKEN, /* -> 1: that is recorded there, and nobody has got it since */
                      RT_HOLD_SAY_LOOK, /* -> connection, its start, mode, number, session, owner, since_us (ago, NULL: not known), label */
                      RT_HOLD_SAY_PROBE, /* -> as LOOK, if none of ours holds: a session that the server does not name */
                      RT_HOLD_SAY_LIST, /* (name: a prefix) -> name, granted */
                      RT_HOLD_SAY_KILL, /* (number: the connection, owner: its start) -> 1: it was there. NULL: KILL NUMBER is said */
                      RT_HOLD_SAY_TIDY, /* deletes rows of names that nobody has locked for a day */
                      RT_HOLD_SAY_PING,
                      RT_HOLD_SAY_DOCTOR, /* -> promise, verdict, detail, remedy */
                      RT_HOLD_SAY_WHO, /* -> the server's end of this connection, when it began */
                      RT_HOLD_SAYS,    /* from here on: said now and then, without arguments */
                      RT_HOLD_SAY_BEGIN = RT_HOLD_SAYS, /* a transaction */
                      RT_HOLD_SAY_COMMIT,
                      RT_HOLD_SAY_LAYOUT, /* -> the layout's version */
                      RT_HOLD_SAY_THERE,  /* fails if the table of rows is not there */
                      RT_HOLD_SAY_SHAPE, /* -> why that table must not be used (""), how long a name may be (0: any), whether
                                            in bytes */
                      RT_HOLD_SAY_ROLLBACK,
                      RT_HOLD_SAY_SETTINGS, /* of a seat */
                      RT_HOLD_SAY_MAKE,
                      RT_HOLD_SAY_MAKE2,
                      RT_HOLD_ALL,
                      RT_HOLD_LOCK,   /* of the ticket's own table */
                      RT_HOLD_NOWAIT, /* ... without waiting */
                      RT_HOLD_NEW,    /* makes it */
                      RT_HOLD_END,    /* of a list */
};
_Static_assert(RT_HOLD_SAYS <= RT_SQL_SLOTS, "a slot for each");

enum rt_sqlhold_what { /* flights of a seat */
                       RT_HOLD_TRY,
                       RT_HOLD_WAIT,
                       RT_HOLD_NUMBERS, /* and verifies: its time counts anew */
                       RT_HOLD_VERIFY,
                       RT_HOLD_GIVE,
                       RT_HOLD_DOWNGRADE,
                       RT_HOLD_MAKES, /* its table */
                       RT_HOLD_WHATS,
};

#define RT_HOLD_STEPS 6
struct rt_sqlhold_way { /* a dialect on a database */
    const char *dialect;
    enum rt_sql_tongue tongue;
    uint32_t caps;
    const char *unsafe; /* why strict refuses it */
    bool here;          /* the seat itself can number what it holds */
    bool by_landing;    /* if TRY or WAIT lands, it is granted; if not, it is busy */
    bool tables;        /* each name has a table of its own */
    bool rows;          /* ... a row */
    bool keyed;         /* ... a number (?keys=) */
    const char *sql
        [RT_HOLD_ALL]; /* by say; NULL: not said. {now}, {table}, {column}, {key}, {args}, {sub} */
    uint8_t flights[RT_HOLD_WHATS][2][RT_HOLD_STEPS]; /* [..][1]: shared. Ends with RT_HOLD_END */
};
/* A list that ends with NULL. */
extern const struct rt_sqlhold_way *const rt_sqlhold_ways[];

/* Prepares what c->way says; 0 or an error with errmsg. */
int rt_sqlhold_words_open(struct rt_sqlhold_conn *c);
void rt_sqlhold_words_close(struct rt_sqlhold_conn *c);
/* What a saying is about; fields it does not need may be NULL or 0. */
struct rt_sqlhold_about {
    const char *name;
    const struct rt_sqlhold_ticket *ticket; /* NULL: none of ours */
    uint64_t holder, session, owner, number;
};
void rt_sqlhold_say(struct rt_sqlhold_conn *c, struct rt_sql_book *b, enum rt_sqlhold_say say,
                    const struct rt_sqlhold_about *about);
/* Sets what T is called on the server. 0, or ROTA_INVALID with errmsg: no lock can have that name. */
int rt_sqlhold_spell(struct rt_sqlhold_conn *c, struct rt_sqlhold_ticket *t);
/* 0, or ROTA_INVALID with errmsg: the table that ?table= names must not be used. */
int rt_sqlhold_unfit(struct rt_sqlhold_conn *c);
/* The DDL for people. */
const char *rt_sqlhold_ddl(const struct rt_conn *conn);

/* ---- Tickets ------------------------------------------------------------------------------------------------------- */

enum rt_sqlhold_state {
    RT_HOLD_QUEUED,
    RT_HOLD_TRYING,
    RT_HOLD_WAITING,
    RT_HOLD_NUMBERING,
    RT_HOLD_HELD,
    RT_HOLD_LEAVING,
};

#define RT_HOLD_BUCKETS 256
struct rt_sqlhold_ticket {
    struct rt_sqlhold_ticket *next, **link; /* in its bucket */
    struct rt_sqlhold_conn *c;
    struct rt_sqlhold_seat *seat; /* NULL: none yet */
    struct rt_sqlhold_ask *ask;   /* that moves it on; NULL: it holds, or is told */
    struct rt_sqlhold_ticket *ahead,
        *behind; /* of a set, by name: one begins when the one ahead holds, or is gone */
    struct rt_sqlhold_set *set; /* one that tries and is unanswered; NULL */
    size_t index;               /* in its JOIN_ALL */
    enum rt_sqlhold_state state;
    uint64_t session, nonce, owner;
    uint64_t number; /* HELD: its fence; before: its name */
    uint64_t fence;  /* NUMBERING: its number to be */
    uint64_t round;  /* counts what the lanes were asked for */
    int64_t key;
    uint32_t mode;
    bool try;
    char spelled[RT_HOLD_SPELLED];
    struct rt_sql_saying once[3]; /* LOCK, NOWAIT, NEW */
    char texts[3][2 * RT_HOLD_SPELLED + 120];
    char name[];
};

/* ---- seat.c -------------------------------------------------------------------------------------------------------- */

#define RT_HOLD_SEATS 1000 /* ?waits=, at most */
struct rt_sqlhold_seat {
    struct rt_sqlhold_conn *c;
    struct rt_sql_link *link; /* NULL: none */
    enum rt_dial_state state;
    struct rt_sqlhold_ticket *ticket; /* NULL: it is free */
    struct rt_sqlhold_ask *ask;       /* whose flight is in the air; NULL: nobody's any more */
    uint32_t greeting;
    bool flying, failed;
    bool dirty; /* a transaction has failed: ROLLBACK comes first */
    bool cleaning;
    bool may_hold;        /* something of it may be locked */
    uint64_t id, started; /* the server's end, and since when it exists */
    uint64_t epoch;       /* of the lanes */
    int64_t patient_until, idle_since;
    int64_t
        keep_until; /* its holder was told it is lost, but was promised it until then; 0: none was */
    struct rt_dial_pause pause;
    struct rt_sql_book book;
};

/* A seat for T, perhaps still dialing; NULL: all are taken. */
struct rt_sqlhold_seat *rt_sqlhold_seat_for(struct rt_sqlhold_conn *c, struct rt_sqlhold_ticket *t);
/* S is ready and nothing flies on it: A's flight leaves. 0 or ROTA_NOMEM. */
int rt_sqlhold_seat_fly(struct rt_sqlhold_seat *s, struct rt_sqlhold_ask *a);
bool rt_sqlhold_seat_ready(struct rt_sqlhold_seat *s); /* else it is dialed */
/* Its ticket is gone, and it holds nothing. */
void rt_sqlhold_seat_free(struct rt_sqlhold_seat *s);
/* Ends its connection here and at the server, whatever it is doing. OP (may be NULL) ends with that. */
void rt_sqlhold_seat_end(struct rt_sqlhold_seat *s, struct rt_op *op);
void rt_sqlhold_seat_close(struct rt_sqlhold_seat *s); /* its memory goes */
/* Its connection is no longer any good; its ticket is asked for anew, or lost. */
void rt_sqlhold_seat_cut(struct rt_sqlhold_seat *s, const char *why);
/* Does what is due by now; returns when the next is. */
int64_t rt_sqlhold_seats_tick(struct rt_sqlhold_conn *c, int64_t now);
void rt_sqlhold_seats_relinked(struct rt_sqlhold_conn *c);

/* What a flight said. */
struct rt_sqlhold_heard {
    bool yes, answered, exists;
    uint64_t number;
};

/* ---- ticket.c, set.c, land.c, ask.c --------------------------------------------------------------------------------- */

struct rt_sqlhold_ask {
    struct rt_entry entry; /* first */
    struct rt_sqlhold_conn *c;
    struct rt_sqlhold_ticket *ticket; /* NULL: gone */
    enum rt_sqlhold_what what;
    uint64_t beats;          /* that had left when this did */
    struct rt_work *work;    /* of a BEAT */
    uint64_t holder, number; /* GIVE: of what, once its ticket is gone */
    bool fencing;            /* the lanes number it, or make what it is to lock */
};

/* In its bucket, without an ask; NULL: no memory. */
struct rt_sqlhold_ticket *rt_sqlhold_ticket_new(struct rt_sqlhold_conn *c, const struct rt_join *j);
/* Asks about it that are under way end without it, its seat becomes free, and the one behind it in its set begins. */
void rt_sqlhold_ticket_free(struct rt_sqlhold_ticket *t);
void rt_sqlhold_begin_ticket(struct rt_sqlhold_ticket *t); /* its ask flies as soon as it can */
/* Not in the ledger yet; NULL: no memory. */
struct rt_sqlhold_ask *rt_sqlhold_ask_new(struct rt_sqlhold_ticket *t, enum rt_sqlhold_what what,
                                          struct rt_op *op);
void rt_sqlhold_ask_out(
    struct rt_sqlhold_ask *a); /* nothing refers to it any more; it is the caller's */

/* OP's tickets, in LIST, are a set; 0 or ROTA_NOMEM. */
int rt_sqlhold_set_new(struct rt_sqlhold_conn *c, struct rt_op *op,
                       struct rt_sqlhold_ticket **list);
/* Nothing of the set stays. BUSY: the name that was busy, to say who holds it. */
void rt_sqlhold_set_failed(struct rt_sqlhold_set *set, int err, const char *busy);
void rt_sqlhold_set_granted(struct rt_sqlhold_ticket *t); /* of its set */
void rt_sqlhold_sets_close(struct rt_sqlhold_conn *c);

/* From seat.c: A's flight has landed; END is LANDED, AGAIN (busy) or ABSENT; for MAKES anything but CUT, and
 * WHY says more. */
void rt_sqlhold_landed(struct rt_sqlhold_ask *a, enum rt_sql_end end,
                       const struct rt_sqlhold_heard *h, const char *why);
/* S's connection is about to be lost: its holder, if any, is told before anybody else can get the lock. */
void rt_sqlhold_tell_lost(struct rt_sqlhold_ticket *t);
/* S's connection is gone; called before what flew there is told. */
void rt_sqlhold_unseated(struct rt_sqlhold_seat *s);

struct rt_sqlhold_ticket *rt_sqlhold_find(struct rt_sqlhold_conn *c, const char *name,
                                          uint64_t session, uint64_t number, uint64_t nonce);
/* Gives T up, whatever its state; OP (may be NULL) ends when that is done. */
void rt_sqlhold_withdraw(struct rt_sqlhold_ticket *t, struct rt_op *op);
/* Ends the session, if there is one, and all that it has or asks for. */
void rt_sqlhold_end_session(struct rt_sqlhold_conn *c);
void rt_sqlhold_each(struct rt_sqlhold_conn *c,
                     void (*each)(struct rt_sqlhold_ticket *t, void *arg), void *arg);
/* Says something on T's seat for W, a BEAT. */
void rt_sqlhold_touch(struct rt_sqlhold_ticket *t, struct rt_work *w);
/* A flies once more, as WHAT. */
void rt_sqlhold_fly_as(struct rt_sqlhold_ask *a, enum rt_sqlhold_what what);
/* Its ticket is numbered: told, once its time counts from after the last BEAT. */
void rt_sqlhold_finish(struct rt_sqlhold_ask *a);
/* number.c: A's ticket gets its number from a lane, and is verified; or its row is made, and it flies again. */
void rt_sqlhold_number(struct rt_sqlhold_ask *a);
void rt_sqlhold_ensure(struct rt_sqlhold_ask *a);
/* A's table is a user's own, and not there. */
void rt_sqlhold_no_table(struct rt_sqlhold_ask *a);
/* What A is to lock is not there, and cannot be made. */
void rt_sqlhold_not_made(struct rt_sqlhold_ask *a, int err, const char *why);
bool rt_sqlhold_cancel_set(struct rt_sqlhold_conn *c,
                           const struct rt_op *op); /* whether OP was one */
void rt_sqlhold_asks_open(struct rt_sqlhold_conn *c);
void rt_sqlhold_asks_close(struct rt_sqlhold_conn *c);

void rt_sqlhold_begin_join(struct rt_sqlhold_conn *c, struct rt_op *op);
void rt_sqlhold_begin_leave(struct rt_sqlhold_conn *c, struct rt_op *op);
void rt_sqlhold_begin_change(struct rt_sqlhold_conn *c, struct rt_op *op);

/* ---- beat.c, show.c ------------------------------------------------------------------------------------------------ */

void rt_sqlhold_begin_beat(struct rt_sqlhold_conn *c, struct rt_op *op);
/* Ends the session if its time is over; returns when it ends if nothing is heard. */
int64_t rt_sqlhold_session_tick(struct rt_sqlhold_conn *c, int64_t now);
/* A touch for W has ended. */
void rt_sqlhold_touched(struct rt_sqlhold_conn *c, struct rt_work *w, int err);

void rt_sqlhold_begin_look(struct rt_sqlhold_conn *c,
                           struct rt_op *op); /* INSPECT, LIST, CHECK, BREAK */
void rt_sqlhold_begin_observe(struct rt_sqlhold_conn *c, struct rt_op *op);
int64_t rt_sqlhold_views_tick(struct rt_sqlhold_conn *c, int64_t now);
/* OP, a try, ends with ROTA_BUSY, and says who holds. */
void rt_sqlhold_busy(struct rt_sqlhold_conn *c, struct rt_op *op, const char *name);
/* OP, a LEAVE of NUMBER, was not answered before the connection HOLDER broke: LOST if it is recorded that somebody has
 * broken it, else UNKNOWN. */
void rt_sqlhold_unanswered(struct rt_sqlhold_conn *c, struct rt_op *op, uint64_t number,
                           uint64_t holder);
/* Says SAY of T, which is gone, on the lanes, and ignores the outcome: for observers. */
void rt_sqlhold_note(const struct rt_sqlhold_ticket *t, enum rt_sqlhold_say say, uint64_t holder);
/* Ends connection ID, which began at STARTED; OP (may be NULL) ends with that. */
void rt_sqlhold_kill(struct rt_sqlhold_conn *c, uint64_t id, uint64_t started, struct rt_op *op);

/* ---- The connection ------------------------------------------------------------------------------------------------ */

struct rt_sqlhold_conn {
    struct rt_sql_conn sql; /* first */
    const struct rt_sqlhold_way *way;
    enum rt_sqlhold_keys keys;
    struct rt_sql_saying sayings[RT_HOLD_ALL];
    char *texts[RT_HOLD_ALL];
    char *ddl;
    char *prefix, *table, *column; /* of `table`; of `forupdate` */
    bool table_said, schema_said;
    char unfit[200];   /* why nobody but a doctor may use ?table=; "": anybody may */
    int64_t name_most; /* of its column: in characters, or bytes; 0: any */
    bool name_bytes;
    struct rt_ledger ledger; /* of what flies on seats */
    struct rt_sqlhold_seat **seats;
    size_t seat_count, seat_room; /* room: ?waits= */
    struct rt_sqlhold_ticket *tickets[RT_HOLD_BUCKETS];
    struct rt_sqlhold_set *sets;
    size_t ticket_count;
    struct rt_work *works;
    struct rt_view *views;
    struct rt_timer_call timer;
    struct rt_defer flush;
    uint64_t session, session_count;
    uint64_t names;  /* the last given */
    uint64_t beats;  /* that have left */
    int64_t ends_at; /* of the session */
    int64_t tidy_at;
    char said
        [256]; /* why no connection for a lock could be had, as last told; "": nothing since one could */
    bool closing;
};

static inline struct rt_sqlhold_conn *rt_sqlhold_of(struct rt_conn *conn)
{
    return (struct rt_sqlhold_conn *)(void *)conn;
}
static inline struct rt_conn *rt_sqlhold_base(struct rt_sqlhold_conn *c)
{
    return &c->sql.base;
}
#define rt_sqlhold_fail(c, ...) rt_words_fail(&(c)->sql.base, __VA_ARGS__)

void rt_sqlhold_by(struct rt_sqlhold_conn *c, int64_t at); /* the timer fires no later */
void rt_sqlhold_flush_soon(
    struct rt_sqlhold_conn *c); /* what waits for a seat is sent from the next turn */

extern const struct rt_engine rt_engine_sqlhold;
int rt_sqlhold_open(struct rt_conn *conn, const struct rt_url *url,
                    const struct rt_sql_driver *driver);

#endif
