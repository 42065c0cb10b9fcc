/* SPDX-License-Identifier: Apache-2.0 */
/* The lock engine on SQL databases: what its files share. driver.h is the way to the server, and says what
 * the server keeps.
 *
 *   sql.c      the engines postgres: and mysql:, submit and cancel, opening and closing
 *   ask.c      what is under way: an op, or a look of our own; waits, boards a flight, is answered
 *   lane.c     a connection and its flights: dialed, greeted, loaded, landed
 *   book.c     what a flight says and hears
 *   join.c leave.c beat.c look.c    the ops
 *   sweep.c    what others left is taken away
 *   wait.c     tickets of ours that wait, or want to hear: woken, or looked for
 *   hear.c     what the server pushes: listened to, and told in its proper order
 *   bell.c     how they are woken where the server pushes nothing
 *   observe.c  OBSERVE
 *
 * An op is one flight, or two where the first finds that the short way will not do. (LEAVE: a ticket that has waited
 * begins with PASS. Three where PASS will not do either: the line is watched, or the next one shares, or is dead.)
 *
 *   JOIN ── plain ──▶ TAKE ── a number ──▶ granted                 LEAVE ──▶ GIVE ── it was so ──▶ left
 *     │                 └── not so ──┐                                        └── not so ──▶ PASS ──▶ handed to the next
 *     └── anything else ─────────────┴──▶ LOCK ... JOIN ... ANSWER                            └── not so ──▶ LOCK ... LEAVE ...
 *
 * What if the answer is lost: nothing is known of a flight until it has landed. Ops that change something end with
 * ROTA_UNKNOWN; asked again, the line's lock makes them wait for whatever still runs on the old connection, and they
 * find by (session, nonce) what that did. BEAT looks for a JOIN that arrives later than its LEAVE (doubts). */
#ifndef RT_SQL_H
#define RT_SQL_H

#include "engine/kit/arena.h"
#include "engine/kit/ledger.h"
#include "engine/kit/view.h"
#include "engine/kit/words.h"
#include "engine/sql/driver.h"

#include <stdatomic.h>

struct rt_sql_conn;
struct rt_sql_ask;

/* ---- book.c: what a flight says and hears ------------------------------------------------------------------- */

struct rt_sql_row {
    const struct rt_sql_cell *cells;
    size_t step, count;
};

struct rt_sql_book { /* zeroed before the first use */
    struct rt_sql_step *steps;
    uint64_t *changed; /* of each step */
    struct rt_sql_row *rows;
    size_t step_count, step_room, changed_room, row_count, row_room;
    struct rt_arena arena; /* of the texts and cells of both */
    bool failed;           /* no memory: it must not fly */
};

static inline struct rt_sql_cell rt_sql_number(uint64_t number)
{
    return (struct rt_sql_cell){.number = (int64_t)number};
}

struct rt_sql_cell rt_sql_text(const char *text); /* NULL: null */

/* One more step; its cells and texts are copied. */
void rt_sql_say_cells(struct rt_sql_book *b, enum rt_sql_step_kind kind,
                      const struct rt_sql_cell *args, size_t count);
#define rt_sql_say(book, kind, ...)                                             \
    rt_sql_say_cells((book), (kind), (const struct rt_sql_cell[]){__VA_ARGS__}, \
                     sizeof((const struct rt_sql_cell[]){__VA_ARGS__}) /        \
                         sizeof(struct rt_sql_cell))

/* The same for a dialect's own statement. */
void rt_sql_say_own_cells(struct rt_sql_book *b, const struct rt_sql_saying *saying,
                          const struct rt_sql_cell *args, size_t count);
#define rt_sql_say_own(book, saying, ...)                                             \
    rt_sql_say_own_cells((book), (saying), (const struct rt_sql_cell[]){__VA_ARGS__}, \
                         sizeof((const struct rt_sql_cell[]){__VA_ARGS__}) /          \
                             sizeof(struct rt_sql_cell))

void rt_sql_book_hear(struct rt_sql_book *b, size_t step, const struct rt_sql_cell *cells,
                      size_t count);
void rt_sql_book_clear(struct rt_sql_book *b); /* for the next flight */
void rt_sql_book_free(struct rt_sql_book *b);

/* The cell as a number; null, or no number: 0. */
static inline int64_t rt_sql_int(const struct rt_sql_row *row, size_t i)
{
    return i < row->count && !row->cells[i].null && row->cells[i].text == NULL
               ? row->cells[i].number
               : 0;
}
static inline bool rt_sql_null(const struct rt_sql_row *row, size_t i)
{
    return i >= row->count || row->cells[i].null;
}
/* The cell as a NUL-terminated text that lives as long as the book; null: "". */
const char *rt_sql_str(const struct rt_sql_row *row, size_t i);

/* ---- ask.c: what is under way --------------------------------------------------------------------------------- */

struct rt_sql_plan {
    bool alone; /* flies while nothing else does: what it hears is true of all that was answered */
    bool reads;
    /* Says its steps, as its stage wants it. */
    void (*say)(struct rt_sql_ask *a, struct rt_sql_book *b);
    /* It has landed: ends the op. False: it flies once more, in another stage. */
    bool (*heard)(struct rt_sql_ask *a, const struct rt_sql_book *b);
    /* It ends without an answer, and its op with it: ERR, errmsg is set. May be NULL. */
    void (*failed)(struct rt_sql_ask *a, int err);
    /* It was refused, and nothing was done. True: it flies once more, in another stage. May be NULL. */
    bool (*refused)(struct rt_sql_ask *a);
    /* It shares its flight with others of its name: it goes over to the stage that is the last whatever the server says. */
    void (*share)(struct rt_sql_ask *a);
    bool leaves; /* of those that share, these come first: what joins finds them gone */
    void (*freed)(struct rt_sql_ask *a); /* its last word. May be NULL */
};

struct rt_sql_ask {
    struct rt_entry entry; /* first; `op` NULL: our own, or it has ended */
    struct rt_sql_conn *c;
    struct rt_sql_ask *next, **link; /* of those that fly alone */
    const struct rt_sql_plan *plan;
    const char *name;       /* of its line, as long as the ask; NULL: of none, or of several */
    struct rt_sql_lane *on; /* it waits there for a bell; NULL: it flies on the lane of its name */
    int64_t slow;           /* how much longer than usual the server may take for it, in ns */
    void *about;            /* the plan's */
    uint64_t tag;           /* ... and this */
    size_t first, steps;    /* in the book */
    uint32_t stage;         /* 0 at first */
    bool ears;              /* from this flight's end on, pushes must be heard */
    bool single;            /* a flight with others was refused: it flies by itself */
    bool shares;            /* it may fly with others of its name that may, too */
    bool closed;            /* aboard: no other of its name may board any more */
    bool follows;           /* in its flight: the one before it is of its name, too ... */
    struct rt_sql_ask *behind; /* ... and so is this one, which comes next; NULL: none is */
};

/* Begins an ask; NAME is copied for asks of our own; an op has its own. NULL: no memory, OP has ended. */
struct rt_sql_ask *rt_sql_ask(struct rt_sql_conn *c, const struct rt_sql_plan *plan,
                              struct rt_op *op, const char *name, void *about);
/* The same in two steps, for callers that fill in more. */
struct rt_sql_ask *rt_sql_ask_new(struct rt_sql_conn *c, const struct rt_sql_plan *plan,
                                  struct rt_op *op, const char *name, void *about);
void rt_sql_ask_go(struct rt_sql_ask *a);
/* Its flight has landed; or it is refused for good, and nothing was done. */
void rt_sql_ask_heard(struct rt_sql_ask *a, const struct rt_sql_book *b);
void rt_sql_ask_refused(struct rt_sql_ask *a, int err, const char *why);

/* Ends A's op, if it still has one. */
void rt_sql_done(struct rt_sql_ask *a, int err);
/* The Nth row in the answers to A's steps of KIND, or NULL; how many rows those steps changed. */
const struct rt_sql_row *rt_sql_row(const struct rt_sql_ask *a, const struct rt_sql_book *b,
                                    enum rt_sql_step_kind kind, size_t n);
/* The row after AFTER (NULL: the first) in the answer to A's Kth step, or NULL; how many rows that step changed. */
const struct rt_sql_row *rt_sql_row_of(const struct rt_sql_ask *a, const struct rt_sql_book *b,
                                       size_t k, const struct rt_sql_row *after);
uint64_t rt_sql_changed_by(const struct rt_sql_ask *a, const struct rt_sql_book *b, size_t k);
/* The one after ROW (NULL: the first), or NULL. */
const struct rt_sql_row *rt_sql_next(const struct rt_sql_ask *a, const struct rt_sql_book *b,
                                     enum rt_sql_step_kind kind, const struct rt_sql_row *after);
/* Whether A has said a step of KIND. */
bool rt_sql_said(const struct rt_sql_ask *a, const struct rt_sql_book *b,
                 enum rt_sql_step_kind kind);
uint64_t rt_sql_changed(const struct rt_sql_ask *a, const struct rt_sql_book *b,
                        enum rt_sql_step_kind kind);
/* "That does not answer us": what was asked may have been done. */
int rt_sql_odd(struct rt_sql_conn *c);

void rt_sql_ask_init(struct rt_sql_conn *c);
void rt_sql_ask_fini(struct rt_sql_conn *c);

/* ---- lane.c: a connection and its flights ------------------------------------------------------------------------ */

#define RT_SQL_LOAD 64  /* asks of a flight ... */
#define RT_SQL_SHARE 8  /* ... and of one name: each looks at the whole line while it is locked */
#define RT_SQL_LANES 2  /* that work ... */
#define RT_SQL_WAITS 16 /* ... and behind them those that wait for bells, at most */
#define RT_SQL_LINKS (RT_SQL_LANES + RT_SQL_WAITS)

struct rt_sql_lane {
    struct rt_sql_conn *c;
    struct rt_sql_link *link; /* NULL: none; it is freed when it has closed */
    enum rt_dial_state state;
    uint32_t greeting; /* which of its flights */
    int64_t clock;     /* the server's, as it said in FACTS, in us, ... */
    int64_t ours;      /* ... and our own when that left */
    int64_t left_at;   /* when the flight left */
    bool calm;         /* nothing flies until the server's clock has come far enough ... */
    bool compared;     /* ... which is known for this connection */
    struct rt_dial_pause pause;
    struct rt_timer_call timer; /* dials again; cuts what is silent */
    struct rt_defer depart;
    struct rt_sql_ask *load[RT_SQL_LOAD]; /* aboard; NULL: it has ended meanwhile */
    size_t loaded;
    bool flying;
    bool taken;                /* somebody waits here for a bell, or has ... */
    struct rt_sql_ask *waiter; /* ... and still does; NULL: the server has to find out */
    bool single;               /* the one aboard wants no company */
    bool listens;              /* our ear is heard */
    bool will_listen;
    bool failed;       /* it could not leave: no memory */
    uint32_t refusals; /* in a row */
    char said[256];    /* the last trouble it told; "": none since it was well */
    int64_t server;    /* its end of this connection, as the server names it */
    int64_t ready_at;
    struct rt_sql_book book;
};

const char *rt_sql_lane_at(const struct rt_sql_conn *c); /* whom we ask: "host:port" */
void rt_sql_lane_init(struct rt_sql_lane *lane, struct rt_sql_conn *c);
void rt_sql_lane_close(struct rt_sql_lane *lane);
/* LANE waits for bells, and nobody wants its flight any more: the flight ends without a word. */
void rt_sql_lane_abandon(struct rt_sql_lane *lane);
void rt_sql_lane_soon(
    struct rt_sql_lane *lane); /* dials from the first turn, which may never come (ddl) */
void rt_sql_lane_want(struct rt_sql_lane *lane); /* dials unless it is up, or on its way */
struct rt_sql_lane *rt_sql_lane_of(struct rt_sql_conn *c, const char *name);
/* Boards A: 0, or ROTA_UNREACHABLE: not now. */
int rt_sql_lane_board(struct rt_sql_lane *lane, struct rt_sql_ask *a);
void rt_sql_lane_leave(struct rt_sql_lane *lane, struct rt_sql_ask *a); /* A has ended */
void rt_sql_lane_cut(struct rt_sql_lane *lane, const char *why); /* the link is no good any more */

/* ---- wait.c: tickets of ours that wait, or want to hear -------------------------------------------------------- */

#define RT_SQL_BUCKETS 256
#define RT_SQL_POLL_MS 20 /* where nothing is told and no bell rings, how often all are looked at */

struct rt_sql_ticket { /* in a bucket of the table */
    struct rt_sql_ticket *next, **link;
    struct rt_sql_ticket *ahead, *behind; /* a ring of ours that wait in its line, by number */
    struct rt_sql_ticket *next_first;     /* of the first of a ring: the first of another line */
    uint64_t session, number, nonce;
    int64_t look_at;
    int64_t ends_at;        /* when what it waits for may have ended by time */
    uint64_t bell;          /* of the one ahead; 0: none */
    struct rt_sql_ask *ask; /* a look under way, or a wait for the bell; or NULL */
    bool shares;            /* others may be granted with it: they wait for its bell */
    bool permits;           /* any holder of some may let it in */
    bool spins;             /* the bell rings for nothing */
    bool waits;             /* else it is granted */
    bool waited;            /* it stands as a row, and most likely others behind it */
    bool armed;
    bool wanted;  /* as it was told last, by looks */
    bool leaving; /* a LEAVE is: it is not looked for */
    char name[];
};

/* Its JOIN was answered: it waits (LEFT_US: see LOOK; -1: never), or holds and is armed. */
void rt_sql_wait_add(struct rt_sql_conn *c, const struct rt_join *join, int64_t left_us,
                     uint64_t bell);
void rt_sql_wait_arm(struct rt_sql_conn *c, const char *name, uint64_t session, uint64_t number);
struct rt_sql_ticket *rt_sql_wait_find(struct rt_sql_conn *c, const char *name, uint64_t number);
void rt_sql_wait_left(struct rt_sql_conn *c, const char *name,
                      uint64_t number); /* it is out of its line */
/* Its LEAVE failed: it is looked for again. */
void rt_sql_wait_stays(struct rt_sql_conn *c, struct rt_sql_ticket *t);
/* The server may be another, or an earlier state of itself, in which they do not stand as rows. */
void rt_sql_wait_uncertain(struct rt_sql_conn *c);
/* Forgets all tickets of the session (0: of all sessions). */
void rt_sql_wait_forget(struct rt_sql_conn *c, uint64_t session);
/* It is granted, and told unless that was done before. */
void rt_sql_wait_granted(struct rt_sql_conn *c, struct rt_sql_ticket *t);
void rt_sql_wait_lost(struct rt_sql_conn *c, struct rt_sql_ticket *t);
/* Purges and settles the line: a dead ticket stands there. */
void rt_sql_tend(struct rt_sql_conn *c, const char *name);
/* The steps that come first and last whenever a line is changed under its lock. */
void rt_sql_say_unfold(struct rt_sql_book *b, const char *name); /* LOCK too */
void rt_sql_say_settle(struct rt_sql_book *b, const char *name);
void rt_sql_wait_init(struct rt_sql_conn *c);
void rt_sql_wait_fini(struct rt_sql_conn *c);

void rt_sql_wait_look_all(struct rt_sql_conn *c); /* now */
/* LANE could not be connected: the ticket that waits there for a bell is looked at instead. */
void rt_sql_wait_refused(struct rt_sql_conn *c, struct rt_sql_lane *lane);
/* Tells the user an event of a ticket. */
void rt_sql_tell(struct rt_sql_conn *c, enum rt_event_kind kind, uint64_t session, uint64_t number,
                 const char *name);

/* ---- hear.c ------------------------------------------------------------------------------------------------------ */

/* The lane that hears is ready again: looks for what was pushed meanwhile. */
void rt_sql_hear_linked(struct rt_sql_conn *c);
/* The session was renewed: what should listen and does not (its time ran out before a server in trouble took it) is
 * asked again. */
void rt_sql_hear_renewed(struct rt_sql_conn *c);
void rt_sql_unlisten(struct rt_sql_conn *c);
/* Something was pushed; LATER: answers on their way come first, then rt_sql_told is called. */
void rt_sql_notice(struct rt_sql_conn *c, bool later, const char *channel, const char *text);
void rt_sql_told(struct rt_sql_conn *c);
void rt_sql_hear_init(struct rt_sql_conn *c);
void rt_sql_hear_fini(struct rt_sql_conn *c);

/* ---- bell.c ------------------------------------------------------------------------------------------------------ */

/* The bell of the ticket of NONCE in NAME, by which it is woken, or wakes others; says what is needed for it in BOOK,
 * ahead of the ticket, in a flight of LANE. 0: none. It keeps the bell until that is rung, or idle. */
uint64_t rt_sql_bell_take(struct rt_sql_conn *c, struct rt_sql_book *book,
                          const struct rt_sql_lane *lane, const char *name, uint64_t nonce);
/* The ticket has gone, or is none, and nobody waits for its bell: the next one in NAME takes it. All of ours: the session
 * has ended. */
void rt_sql_bell_idle(struct rt_sql_conn *c, const char *name, uint64_t nonce);
void rt_sql_bells_idle(struct rt_sql_conn *c);
/* Rings it with a flight of the line's own lane, if that lane holds it. When the flight has landed, rt_sql_bell_rung is
 * due, which rings it if another lane holds it. NONCE 0, here and below: those of all our tickets in NAME. */
void rt_sql_bell_ring(struct rt_sql_conn *c, struct rt_sql_book *book, const char *name,
                      uint64_t nonce);
void rt_sql_bell_rung(struct rt_sql_conn *c, const char *name, uint64_t nonce);
/* A flight of LANE has landed: what it took is held, what it rang is free. Or it has not: what it was to ring is kept. */
void rt_sql_bells_landed(struct rt_sql_conn *c, const struct rt_sql_lane *lane);
void rt_sql_bells_kept(struct rt_sql_conn *c, const struct rt_sql_lane *lane);
/* The ticket has its number; the nonce of the one that has NUMBER, 0: it is not known. */
void rt_sql_bell_number(struct rt_sql_conn *c, const char *name, uint64_t nonce, uint64_t number);
uint64_t rt_sql_bell_nonce(struct rt_sql_conn *c, const char *name, uint64_t number);
/* Rings it with a flight of its own. */
void rt_sql_bell_ring_now(struct rt_sql_conn *c, const char *name, uint64_t nonce);
/* LANE has lost its connection: what it held has rung. NULL: all are forgotten. */
void rt_sql_bells_lost(struct rt_sql_conn *c, const struct rt_sql_lane *lane);

/* ---- observe.c ------------------------------------------------------------------------------------------------- */

void rt_sql_begin_observe(struct rt_sql_conn *c, struct rt_op *op);
bool rt_sql_observe_cancel(struct rt_sql_conn *c, struct rt_op *op); /* whether OP was one */
/* Something in the line (NULL: in any, on a new connection) may have changed: looks at it. */
void rt_sql_observe_look(struct rt_sql_conn *c, const char *name);
void rt_sql_observe_init(struct rt_sql_conn *c);
void rt_sql_observe_fini(struct rt_sql_conn *c);

/* ---- The other ops: each begins one ------------------------------------------------------------------------------ */

void rt_sql_begin_join(struct rt_sql_conn *c, struct rt_op *op); /* JOIN, JOIN_ALL */
void rt_sql_begin_leave(struct rt_sql_conn *c, struct rt_op *op);
void rt_sql_begin_change(struct rt_sql_conn *c, struct rt_op *op);
void rt_sql_begin_break(struct rt_sql_conn *c, struct rt_op *op);
void rt_sql_begin_beat(struct rt_sql_conn *c, struct rt_op *op);
void rt_sql_begin_look(struct rt_sql_conn *c, struct rt_op *op); /* INSPECT, LIST, CHECK */

/* beat.c: the server is not the same as before: what it has of our session is looked at before anything else is asked,
 * because it may know less, and give numbers again that we know. */
void rt_sql_elsewhere(struct rt_sql_conn *c);
/* After a cut: asks until when the session lives, for TAKE, before anything else. */
void rt_sql_learn(struct rt_sql_conn *c);
/* A JOIN of NAME that nobody waits for may still arrive. */
void rt_sql_doubt(struct rt_sql_conn *c, const char *name);
void rt_sql_forget_doubts(struct rt_sql_conn *c);
bool rt_sql_parting(struct rt_conn *conn);

/* ---- sweep.c ------------------------------------------------------------------------------------------------------ */

struct rt_sql_sweep {           /* the walk through idle lines */
    struct rt_timer_call timer; /* the next step */
    int64_t ask_at;             /* whose it is; 0: that was never asked, nor planned */
    uint64_t who;               /* the session of ours whose it is; 0: of none */
    char *after;                /* a step ended with that line; NULL: it begins */
    bool asked;                 /* an ask about it is under way */
    bool starved;               /* the last one never had its turn */
};

/* The session was renewed: what others left is looked for now and then, after everything that waits. */
void rt_sql_sweep(struct rt_sql_conn *c);
void rt_sql_sweep_init(struct rt_sql_conn *c);
void rt_sql_sweep_fini(struct rt_sql_conn *c);

/* ---- sql.c -------------------------------------------------------------------------------------------------------- */

struct rt_sql_facts {
    bool known;
    int64_t version;
    char text[64]; /* the version, for people */
    char unsafe[160];
    char who[80];  /* which server */
    int64_t ahead; /* its clock, in us, minus our loop's: never too little */
};

struct rt_sql_doubt; /* beat.c */

/* A dialect that uses these lanes and asks: what it says where the line says LAYOUT and MAKE. Its ops are
 * its own plans. */
struct rt_sql_rider {
    /* Looks at its tables. ABSENT: they or their columns are not there. */
    void (*say_layout)(struct rt_sql_conn *c, struct rt_sql_book *b);
    /* Takes the answer. False: the tables must not be used, and WHY says why in one line. */
    bool (*take_layout)(struct rt_sql_conn *c, const struct rt_sql_book *b, char *why, size_t size);
    void (*say_make)(struct rt_sql_conn *c, struct rt_sql_book *b);
    /* The first lane is ready, for the first time or again. */
    void (*linked)(struct rt_sql_conn *c);
    const char *tables; /* what they are called, for messages */
    const char *doctor; /* the command that prints what makes them; NULL: rota doctor */
};

struct rt_sql_conn {
    struct rt_conn base; /* first */
    const struct rt_sql_driver *driver;
    const struct rt_sql_rider *rider; /* NULL: the line */
    void *self;                       /* the driver's */
    struct rt_dial_ring ring;
    struct rt_ledger ledger;
    struct rt_sql_lane lanes[RT_SQL_LINKS];
    uint32_t waits; /* ?waits=: how many may wait for bells */
    struct rt_sql_facts facts;
    struct rt_sql_ask *alones; /* asks under way that fly alone */
    uint64_t jitter;
    uint64_t highest; /* number that we were told */
    int64_t floor;    /* of the server's clock: nothing is asked earlier, or fences could go back */
    uint64_t session, ear;
    int64_t expires;          /* of the session, as the server said; 0: the server may be another */
    uint64_t cuts, beat_cuts; /* how often that happened; at the last BEAT */
    struct rt_sql_ticket *tickets[RT_SQL_BUCKETS];
    struct rt_sql_ticket *firsts[RT_SQL_BUCKETS]; /* of each line, the first that waits */
    size_t ticket_count;
    struct rt_timer_call wait_timer, view_timer;
    struct rt_view *views;
    struct rt_sql_doubt *doubts;
    int64_t doubt_all_until;   /* no memory for one: until then everything is looked at */
    struct rt_sql_bell *bells; /* that we hold, the latest first */
    size_t bell_count;
    struct rt_sql_push *pushes, **pushes_end; /* that came before the answers they follow */
    bool closing;
    int64_t no_links_until; /* links to wait on cannot be had */
    bool outage;            /* a connection was lost, and that was told */
    bool elsewhere;         /* the server is another one: all that it has of ours is looked at */
    size_t look_from;       /* in what is believed: where the next BEAT goes on */
    int64_t hear_until;     /* listening goes on until then at least */
    struct rt_sql_sweep sweep;
    uint32_t beats;               /* that were answered */
    char label[RT_LABEL_MAX + 1]; /* base.label, as the server accepts it: UTF-8 */
    uint64_t links;               /* how often the first lane became ready */
    enum { RT_SQL_STAYS, RT_SQL_PARTS, RT_SQL_PARTED } parting;
    atomic_bool strict; /* base.unsafe is "": caps are read by any thread */
    char trouble[256];  /* why nothing flies; "": flights leave */
};

static inline struct rt_sql_conn *rt_sql_of(struct rt_conn *conn)
{
    return (struct rt_sql_conn *)(void *)conn;
}

/* What an engine on a driver is made of; its OPENS calls rt_sql_open. If the URL names a dialect other than the line,
 * CONN becomes another engine there (dialect/table.h). */
int rt_sql_open(struct rt_conn *conn, const struct rt_url *url, const struct rt_sql_driver *driver);
/* The lanes and asks of CONN, for RIDER (NULL: the line), which outlives them. */
int rt_sql_open_lanes(struct rt_conn *conn, const struct rt_url *url,
                      const struct rt_sql_driver *driver, const struct rt_sql_rider *rider);
void rt_sql_close(struct rt_conn *conn);
void rt_sql_submit(struct rt_conn *conn, struct rt_op *op);
void rt_sql_cancel(struct rt_conn *conn, struct rt_op *op);
uint32_t rt_sql_caps(const struct rt_conn *conn);
const char *rt_sql_trouble(const struct rt_conn *conn);
void rt_sql_forked(struct rt_conn *conn);
const char *rt_sql_ddl(const struct rt_conn *conn);
#define RT_SQL_ENGINE(opens, its_schemes, its_params)                                            \
    {                                                                                            \
        .schemes = (its_schemes), .params = (its_params), .conn_size = sizeof(union rt_sql_any), \
        .open = (opens), .parting = rt_sql_parting, .close = rt_sql_close,                       \
        .submit = rt_sql_submit, .cancel = rt_sql_cancel, .caps = rt_sql_caps,                   \
        .trouble = rt_sql_trouble, .forked = rt_sql_forked, .ddl = rt_sql_ddl,                   \
    }

/* The lane is ready; or it was lost, or (not WAS_READY) could not be connected. What happens to the first lane happens to
 * the whole connection. */
void rt_sql_linked(struct rt_sql_conn *c, struct rt_sql_lane *lane);
void rt_sql_unlinked(struct rt_sql_conn *c, struct rt_sql_lane *lane, bool was_ready);
/* What the server has of our session may differ from what it has said. */
void rt_sql_uncertain(struct rt_sql_conn *c);

#define rt_sql_fail(c, ...) rt_words_fail(&(c)->base, __VA_ARGS__)

#endif
