/* SPDX-License-Identifier: Apache-2.0 */
/* Between the lock engine on SQL databases (sql.h) and a server: numbered steps in, rows out.
 *
 *   engine ──▶ flight: steps, each a number and its arguments ──▶ driver ══▶ one transaction, one write
 *   engine ◀── rows and counts, step by step; then landed ◀────── driver ◀══
 *   engine ◀── notices, whenever they come ◀───────────────────── driver ◀══ (PostgreSQL)
 *
 * A driver (postgres/, mysql/, the simulator's) knows how to connect, how a step is said in its SQL, and what its
 * server's errors mean. It decides nothing. A step may be one statement, several, or none: its rows are those of the
 * last statement that has any, its count that of the last that changes anything, unless said otherwise.
 *
 * One flight at a time is in the air on a link. All of it is sent before any answer is awaited, and it is one
 * transaction: all of it happens, or nothing. But in a flight of only TAKEs and GIVEs each may fail by itself, and
 * is then answered with "no" (no row, count 0): whoever asked goes the long way, which finds out. And RENEW, BURY,
 * IDLE, SWEEP, SWEPT and WATCH, which can safely be done twice, may have been done although their flight failed, if
 * nothing else in it writes.
 *
 * Serialised as engines are. No up-call comes from inside a function of the driver: all come from a turn of the loop.
 * Inside them every function of the driver is legal. */
#ifndef RT_SQL_DRIVER_H
#define RT_SQL_DRIVER_H

#include "engine/engine.h"
#include "engine/kit/dial.h"
#include "net/loop.h"

#include <time.h>

/* ---- What the server keeps --------------------------------------------------------------------------------
 *
 *   rota_meta    k, v                                  layout = 1.0, server = where the tables are used, and since when,
 *                                                      sweeper = until when, whose session (0: nobody's), where it is
 *   rota_session id, expires, label                    no row, or expires <= now: it is dead
 *   rota_line    name, fence, session, nonce, owner, flags, since, bell, count, waiting, watched
 *   rota_ticket  name, number, session, nonce, owner, mode, take, of_, weight, granted, durable, flags, since,
 *                at_least, until, bell, value, label   key (name, number); found by session; by until where it is not 0
 *
 * A line is *folded* when its `session` is not null: one plain exclusive ticket, whose number is `fence`, and count is
 * 0. Otherwise its tickets are rows; `count` of them, `waiting` of those not granted. `fence` is the last number
 * given. A number is greatest(fence + 1, now). `watched`: until then somebody observes the line, and whatever changes
 * it must tell.
 *
 * Times are microseconds since 1970 by the server's clock; at_least is in microseconds too. `now` is that clock at the
 * *beginning of the statement, before it sees any row* (statement_timestamp(), NOW(6)): a renewal that was answered
 * before a session's end is then seen by whoever judges that end, however long the judge's statement was held up.
 * `weight`: 2^62 for an exclusive ticket, 1 for a shared one, `take` for permits, 0 for those that are counted. Ids,
 * nonces and owners are 64 bits, kept signed. A `bell` names whom to wake: PostgreSQL notifies the channel rota_<bell
 * as 16 hex digits>. flags: RT_SQL_ARMED, RT_SQL_DETECT. The session id of a durable ticket is its caller's; rows with
 * `durable` need no living session. */
#define RT_SQL_ARMED 0x1
#define RT_SQL_DETECT 0x2

enum rt_sql_step_kind {
    /* Before the tables are known; never prepared. */
    RT_SQL_FACTS, /* () -> version, text of it, writable (0: a replica, or read-only), id of the server's end of this
                      connection, why it cannot be trusted ("" : nothing is known; one clear line, for strict), why it
                      cannot be used at all ("": it can), which server it is (a text, different on another server and
                      after a replica was promoted: what is there may be older than what we were told), now, by how much
                      our clock was ahead of it when this left (negative: the server's is ahead) */
    RT_SQL_LAYOUT, /* () -> the layout's version as text, what HERE said last (NULL: nothing); ABSENT: no tables */
    RT_SQL_HERE, /* (text): on which server the tables are used from now on, and since when by its clock */
    RT_SQL_MAKE, /* (): makes the tables; harmless if they exist */

    /* Sessions. */
    RT_SQL_OPEN,  /* (id, ttl_us, label) -> expires. No row: that id exists already */
    RT_SQL_RENEW, /* (id, ttl_us) -> expires := least(greatest(expires, now + ttl_us), now + 3 * ttl_us): a delayed one
                      does not take back what a later one gave, but one after the clock was set back does. No row: it is
                      dead */
    RT_SQL_END,   /* (id): takes it away unless it has tickets among the rows */
    RT_SQL_MINE, /* (session) -> name, number, nonce, granted, wanted: its tickets among the rows, except durable ones.
                      wanted: granted, armed, and somebody waits */
    RT_SQL_FOLDED, /* (name, session) -> number, nonce: if the line is folded with it */
    RT_SQL_DEAD, /* (limit) -> name: lines in which tickets of the dead, or ended ones, stand as rows */
    RT_SQL_BURY, /* (limit): takes away dead sessions without rows */
    /* Idle lines: one client at a time walks through all of them by their names (sweep.c). */
    RT_SQL_IDLE, /* (after, age_us, most) -> name: of the first MOST lines behind AFTER, by name, takes away those without
                      tickets (or folded with a dead one) whose `since`, `fence` and `watched` are older; a line stays
                      if a new one would be numbered below it. name: of the last that it looked at; no row: none is
                      behind AFTER */
    RT_SQL_STRAYS, /* (limit) -> name: as DEAD, for tickets whose session has no row, which DEAD does not find */
    RT_SQL_SWEEPER, /* () -> left_us: how long the walk is somebody's, or rests; 0: no longer. No row: it never was */
    RT_SQL_SWEEP, /* (who, for_us) -> after: it is WHO's for so long, and goes on there. No row: it is somebody else's.
                       for_us is never as much as two hours: what ends later than that was written before the clock was
                       set back, and is over */
    RT_SQL_SWEPT, /* (who, next, for_us, after): count 1: it was WHO's, and is NEXT's for so long (0: nobody's; it rests).
                       Of AFTER at least the first 200 bytes are kept, or characters */

    /* One statement, the line stays folded. */
    RT_SQL_TAKE, /* (name, session, nonce, owner, flags, bell, expires) -> number: the line had no ticket and is not
                      watched, and the session lives: folded from now on. No row, or REFUSED: not so, nothing was done.
                      expires: what this server answered to OPEN or RENEW; 0: not known. The session's row is not read:
                      another table costs as much as the rest */
    RT_SQL_GIVE, /* (name, session, number, nonce): count 1: it was so folded, unwatched, and is now free */
    RT_SQL_VERIFY, /* (name, session, number) -> 1: it is folded with that, and the session lives */

    /* The rest changes a line under its lock. LOCK comes first in a flight, and the names of a flight come
     * in their order. */
    RT_SQL_LOCK, /* (name): locks the line, which is made if missing */
    RT_SQL_UNFOLD, /* (name): a folded ticket becomes a row (granted, mode 0, weight 2^62), or goes if it is dead */
    RT_SQL_PURGE, /* (name): takes away tickets whose session is dead and durable ones that have ended. A granted one
                      with at_least > 0 and least(since, now) + at_least > now becomes durable instead, until then
                      (since > now: the clock was set back): session, nonce, owner and bell are 0, the label is that of
                      its session */
    RT_SQL_SETTLE, /* (name): grants by core/grant.h's rule, since := now; tells each one granted: G */
    RT_SQL_TELL, /* (name): tells observers, on the channel rota_o<16 hex digits of rt_hash(name)> if it is watched */
    RT_SQL_GATE, /* (name, session, nonce, mode, of, weight, try, durable): counts this flight's tickets that may join,
                      as JOIN with gate 0 would judge */
    RT_SQL_JOIN, /* (name, session, nonce, owner, mode, take, of, weight, flags, at_least_us, until_us, durable, try,
                      value, label, bell, gate): puts a ticket at the end, granted if it fits (waiting = 0, and the
                      weights ahead leave room; a barrier's: it makes `of`; a counted one always), unless: (session,
                      nonce) is there, the kind differs, the session is dead and not durable, it is a try and does not
                      fit. gate not 0: GATE must have counted so many, or nothing is done. until_us: 0, or counted from
                      now. The number becomes the line's fence. A barrier's ticket is never granted by this: SETTLE,
                      which follows, opens the barrier for all of them when the last is there */
    RT_SQL_WANT, /* (name): tells armed granted tickets that somebody waits, W, if exactly one does */
    RT_SQL_ANSWER, /* (name, session, nonce) -> lives (1: the session, 0: not), number (NULL: no such ticket), granted,
                      wanted, mode, of_ and label of the front (NULL: nobody there), left_us, bell: see LOOK */
    RT_SQL_LEAVE, /* (name, session, number, nonce, keep) -> granted: takes it out. number 0: by nonce; nonce 0: any.
                      keep: a granted one with at_least becomes durable until that is over, as in PURGE */
    RT_SQL_PASS, /* (name, session, number, nonce): LOCK, and the short way to LEAVE for an exclusive ticket that alone
                      holds and owes nothing: the next one, if any, must be exclusive and alive, and is granted and
                      told, G. Otherwise: count 0 or REFUSED, and nothing was done */
    RT_SQL_CHANGE, /* (name, session, number, downgrade, set_value, value, flags): of a granted ticket; flags are added.
                      downgrade: exclusive becomes shared, weight 1; permits stay as they are */
    RT_SQL_STATE,  /* (name, session, number) -> granted, mode, wanted */
    RT_SQL_BREAK, /* (name, number, mode): takes it out, count: how many; tells its bell: L. number 0: all durable ones
                      of that mode */
    RT_SQL_WATCH, /* (name, ttl_us): watched := greatest(watched, now + ttl_us); makes a missing line */

    /* These only look. What is dead or has ended is left out, except what still owes its line time, which is shown as
     * PURGE would make it. */
    RT_SQL_LOOK, /* (name, session, number) -> granted, left_us, bell. left_us: how long until what it waits for may end
                       by time: that of all granted ones if nobody waits ahead of it, else that of the one ahead; at
                       least 0, NULL: never. Dead ones ahead count as 0; also 0 if nobody is ahead (for a barrier NULL):
                       rows were removed by hand. bell: of the one ahead; 0 if that is one of several that hold permits:
                       any of them may let it in. No row: no such ticket */
    RT_SQL_LOOK_AHEAD, /* (name, session, number) -> as LOOK, but left_us is always that of the one ahead: at half the
                       price, for whoever waits for that one's bell and takes no permits. No statement where there are
                       no bells */
    RT_SQL_FRONT, /* (name) -> number, granted, count, mode, of_, value, label of the front, left_us: until the soonest
                       end in the line (NULL: never). No row: nobody is there */
    RT_SQL_INSPECT, /* (name, session) -> name, number, session (0: durable), owner, mode, take, of_, granted, durable,
                       flags, since_us (ago), left_us (NULL: never), value, label. name NULL: of the session, by name */
    RT_SQL_LIST, /* (prefix) -> name, count, granted: by name, as bytes */
    RT_SQL_DOCTOR, /* () -> promise, verdict, detail, remedy: rows for CHECK; every row has all four */

    /* What to listen to; no statement where the server cannot tell. */
    RT_SQL_LISTEN,        /* (bell): from this transaction's end on; rota_<16 hex digits> */
    RT_SQL_UNLISTEN,      /* (bell) */
    RT_SQL_LISTEN_LINE,   /* (name): rota_o<16 hex digits of rt_hash(name)> */
    RT_SQL_UNLISTEN_LINE, /* (name) */

    /* Bells, where the server pushes nothing: a named lock that its owner holds as long as nobody needs to look. No other
     * step depends on them. */
    RT_SQL_BELL_TAKE, /* (bell): this connection holds it; nobody else knows it yet. Taking it twice counts as once */
    RT_SQL_BELL_RING, /* (bell): let go after the COMMIT of this flight, wherever in it this stands */
    RT_SQL_BELL_WAIT, /* (bell, ms): waits until it is free, at most MS; holds nothing afterwards */

    /* What a dialect says in its own words: struct rt_sql_saying. */
    RT_SQL_SAYING,
    RT_SQL_STEPS,
};

/* A statement of a dialect. It lives as long as its links and is made once, because each link that needs
 * it prepares it. */
#define RT_SQL_SLOTS 32
#define RT_SQL_ONCE RT_SQL_SLOTS /* `slot` of one that is never prepared, and takes no arguments */
struct rt_sql_saying {
    /* one, without a semicolon; its arguments are $N (PostgreSQL) or ?N (MariaDB) */
    const char *sql;
    const char *types; /* of each argument: i a number, t a text, b bytes */
    uint8_t slot;      /* of a connection's statements: which this is */
    bool rows;         /* it answers rows; else how many it changed */
    bool reads;        /* it changes nothing */
    /* PostgreSQL only, may be NULL: the same for several steps at once, each argument an array of theirs (none
     * is null), in their order. It answers the first argument of each step that changed a row, and no two steps
     * have the same. Consecutive steps that say this are combined so; each hears of its change as if it had
     * been said alone. */
    const char *many;
};

/* ---- Flights -------------------------------------------------------------------------------------------------- */

struct rt_sql_cell {  /* an argument, or a column of a row */
    const char *text; /* SIZE bytes, no NUL, UTF-8 except in a value; NULL: a number, or null */
    size_t size;
    int64_t number;
    bool null;
};

#define RT_SQL_ARGS 17 /* of a step, at most */

struct rt_sql_step {
    enum rt_sql_step_kind kind;
    uint32_t count; /* of args */
    const struct rt_sql_cell *args;
    const struct rt_sql_saying *saying; /* RT_SQL_SAYING: what; else NULL */
};

struct rt_sql_flight {
    const struct rt_sql_step *steps; /* they and their args live until it lands */
    size_t count;                    /* >= 1 */
};

/* How a flight ended. Except for LANDED and CUT, the server said why, and nothing of it was done (but see
 * above for what can safely be done twice). */
enum rt_sql_end {
    RT_SQL_LANDED, /* all of it was done, and is committed */
    RT_SQL_AGAIN, /* deadlock, lock wait, serialisation, too many connections, shutting down: try again */
    RT_SQL_ABSENT,  /* a table, or a column of it, is not there */
    RT_SQL_DENIED,  /* no right to do that */
    RT_SQL_REPLICA, /* the server takes no writes: another one must be found */
    RT_SQL_FULL,    /* no space, no memory: try again later */
    RT_SQL_REFUSED, /* anything else */
    RT_SQL_CUT, /* the link went down with its end unknown: it may have been done, or may still be */
};

/* ---- Links ------------------------------------------------------------------------------------------------------ */

struct rt_sql_link; /* a connection, dialed once: the driver's struct begins with it */

struct rt_sql_user { /* the engine's side */
    /* Connected and let in; flights may leave. */
    void (*up)(struct rt_sql_link *l);
    /* The connection ended by itself, or could not be made, and must be dropped. Flights in the air have already ended
     * with CUT. ERR: ROTA_UNREACHABLE, ROTA_AUTH, ROTA_PROTOCOL, ROTA_UNSUPPORTED, ROTA_INVALID, ROTA_NOMEM. WHY: one
     * line that names the server, without secrets. */
    void (*down)(struct rt_sql_link *l, int err, const char *why);
    /* A row of the STEPth step of the flight; CELLS are valid during the call. Columns are those of the step: any
     * others are a fault of the driver. */
    void (*row)(struct rt_sql_link *l, size_t step, const struct rt_sql_cell *cells, size_t count);
    /* How many rows it changed. */
    void (*changed)(struct rt_sql_link *l, size_t step, uint64_t count);
    /* The flight is over. STEP: the one that failed, if any. WHY: what the server said, one line. */
    void (*landed)(struct rt_sql_link *l, enum rt_sql_end end, size_t step, const char *why);
    /* TEXT came on CHANNEL. "NUMBER KIND NAME" with KIND G, W or L on a bell's channel; on a line's
     * channel its name. */
    void (*notice)(struct rt_sql_link *l, const char *channel, const char *text);
};

struct rt_sql_link {
    struct rt_conn *base; /* loop, times, errmsg, label */
    const struct rt_sql_user *user;
    void *driver; /* rt_sql_driver.open's */
    void *owner;  /* the user's */
};

enum rt_sql_tongue { /* whose SQL a dialect's statements are written in */
                     RT_SQL_POSTGRES = 0x1,
                     RT_SQL_MYSQL = 0x2,
};

struct rt_sql_driver {
    const char *name; /* "PostgreSQL", for messages */
    enum rt_sql_tongue tongue;
    const char *const *schemes, *const *params;
    uint16_t port;
    size_t link_size;
    bool bells;      /* BELL_ steps do something */
    bool notifies;   /* notices come: whoever waits need not ask */
    uint32_t lanes;  /* links over which names are spread: 1 or 2 */
    const char *ddl; /* what MAKE does, for people: each statement ends with a semicolon */

    /* Takes what the URL says, once for all links, into *SELF; anything wrong in it sets errmsg. Nothing is
     * dialed. RING is empty: where the URL names no host but something else does (a socket, a service), RING gets
     * whom to dial. */
    int (*open)(struct rt_conn *conn, const struct rt_url *url, struct rt_dial_ring *ring,
                void **self);
    void (*close)(void *self);

    /* L is zeroed except for rt_sql_link. Begins to connect to END, which outlives it, within CONNECT_MS: `up`
     * or `down` follows, from a turn. 0, ROTA_NOMEM, or ROTA_INVALID and the like with errmsg, after which L
     * is as before. */
    int (*dial)(struct rt_sql_link *l, const struct rt_dial_end *end, uint32_t connect_ms);
    /* L is up and has no flight in the air. F itself is read before this returns. 0, or ROTA_NOMEM:
     * nothing was sent. */
    int (*send)(struct rt_sql_link *l, const struct rt_sql_flight *f);
    /* Ends the connection at once, whatever its state; CLOSED (may be NULL) runs from a later turn, after which L's
     * memory may go. No up-call comes after this returns: a flight in the air is dropped without a word. Base, SELF and
     * END may be gone before CLOSED runs: whoever closes drops all links, closes SELF and frees the rest. */
    void (*drop)(struct rt_sql_link *l, void (*closed)(struct rt_sql_link *l));
    /* In a child of fork(), async-signal-safe: lets go of the connection without touching it. */
    void (*forked)(struct rt_sql_link *l);
};

/* Our own clock, for FACTS and DOCTOR to compare. */
static inline int64_t rt_sql_wall_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

extern const struct rt_sql_driver rt_postgres_driver, rt_mysql_driver;

#endif
