/* SPDX-License-Identifier: Apache-2.0 */
/* The contract between Rota and an engine: where lines are kept.
 *
 * An engine is a const struct rt_engine; a connection is a struct that begins
 * with a struct rt_conn. Its user hands it tagged operations and is told
 * of their end and of events through struct rt_up. engine/mem is the reference:
 * where this text leaves a doubt, engine/mem decides.
 *
 * Rules for all engines
 *
 * - One thread at a time: the caller serialises open, submit, cancel, close and
 *   the loop's callbacks. No call blocks on the network or on another client;
 *   work that cannot be done at once is continued from the loop.
 * - An op is lent at submit and given back by rt_up.done, exactly once, possibly
 *   before submit returns. Its strings stay valid until then.
 * - done and event may be called from inside submit, cancel and loop callbacks,
 *   never from open or close. They never call back into the engine: what follows
 *   from them is submitted later. So an engine need not be re-entrant.
 * - Ops on one name take effect in the order of submission. A BEAT is in order with the ops on every
 *   name: what it names and brings (`tickets`, events) is as if it had come after all that was submitted
 *   before it. Ops on different names may overtake each other.
 * - Errors are of two kinds. Definite: the op had no effect. ROTA_UNKNOWN: the
 *   request may or may not have taken effect, now or later; every op below says
 *   how to ask again. An engine never turns a lost reply into any other error.
 * - An op not begun when its `deadline` passes ends with ROTA_UNREACHABLE
 *   (definite); one under way then ends with ROTA_UNKNOWN. One that waits only
 *   for other ops of its connection may wait on while the server answers those.
 * - conn->errmsg says in one line why an op failed; it is read inside done.
 */
#ifndef RT_ENGINE_H
#define RT_ENGINE_H

#include "core/grant.h" /* enum rt_mode, the rule of who holds */

#include <rota.h>
#include <stdbool.h>
#include <stdint.h>

struct rt_loop;
struct rt_url;
struct rt_op;
struct rt_event;
struct rt_engine;

/* ---- The user's side ---------------------------------------------------- */

struct rt_up {
    void (*done)(struct rt_up *up, struct rt_op *op);
    void (*event)(struct rt_up *up, const struct rt_event *event);
    void (*log)(struct rt_up *up, int level, const char *line); /* may be NULL */
    /* Calls each() for every ticket of the present session whose JOIN was answered and whose end
     * was not: what the user believes at this moment. For engines that compare it with what the
     * server knows, after lost pushes or a fail-over. EACH must not call up. May be NULL. */
    void (*held)(struct rt_up *up,
                 void (*each)(void *arg, const char *name, uint64_t number, bool granted),
                 void *arg);
};

#define RT_LABEL_MAX 255 /* bytes: longer labels are cut, they are for people */

struct rt_conn {
    const struct rt_engine *engine;
    struct rt_up *up;
    struct rt_loop *loop; /* clock, timers, descriptors */
    const char *label;    /* who we are to others; outlives the connection */
    uint32_t ttl_ms;      /* asked for; the engine stores what it really gives */
    uint32_t call_ms;
    char errmsg[256];
    char unsafe[160];         /* without ROTA_CAP_STRICT: why, and what to change; "": by nature */
    _Atomic uint64_t retries; /* asks repeated by waiters that contend anew: without a line */
};

/* ---- Tickets ------------------------------------------------------------ */

#define RT_JOIN_TRY 0x1u     /* granted at once, or ROTA_BUSY and nothing left behind */
#define RT_JOIN_DURABLE 0x2u /* `session` is a durable session's id: no heartbeat keeps it */
#define RT_JOIN_ARM 0x4u     /* send WANTED (see RT_CHANGE_ARM) */
#define RT_JOIN_DETECT 0x8u  /* shown by INSPECT as ROTA_PLACE_DETECT */

/* A place in a line: asked for by JOIN, answered in the same struct.
 *
 * An engine without ROTA_CAP_ORDER may answer a waiting JOIN with a number that only names it (1, 2, 3, ... per
 * session, never a fence); GRANTED then brings the fence, and the name is forgotten: whoever uses it gets ROTA_LOST.
 *
 * The line's kind is taken from the tickets in it: lock (exclusive and shared mix),
 * permits of n, latch of n, barrier of n; a join of another kind or another n is
 * ROTA_INVALID and errmsg names both. `nonce` (not 0) makes the join idempotent:
 * if a ticket of the same (name, session, nonce) is in the line, that ticket is
 * answered as it stands now and nothing is added. Numbers grow strictly per line
 * in the order of the line; the number of an exclusive ticket is its fence. A ticket is
 * granted when rt_grant (core/grant.h) says so, and stays granted until it ends.
 * A ticket that ends less than its at_least_ms after its grant keeps the line taken
 * until then, as a durable ticket, however it ends. There are two exceptions: BREAK,
 * and a LEAVE of a ticket of whose grant nobody was told. When its session ends, a ticket
 * ends as if somebody had been told, because an engine cannot know that nobody was; one
 * that can (etcd: what it has not told yet) keeps nothing. */
struct rt_join {
    const char *name; /* as spelled on the engine */
    uint64_t session; /* from BEAT; with RT_JOIN_DURABLE any value of the caller's */
    uint64_t nonce;
    uint64_t owner;      /* for others to see */
    const char *value;   /* for observers, at most ROTA_VALUE_MAX bytes; NULL: none */
    int64_t at_least_ms; /* 0: none */
    int64_t until_ms;    /* durable: ends this long after the join, by server time; 0: never */
    uint32_t mode, take, of;
    uint32_t flags;
    /* answered, when the op ends with 0 */
    uint64_t number;
    bool granted;
    bool wanted; /* granted, and somebody waits behind it; only with RT_JOIN_ARM */
};

/* ---- Operations --------------------------------------------------------- */

enum rt_op_kind {
    /* Opens a leased session (`open`), or renews the one named. ttl_ms answered: what the
     * engine really gave, 0 for sessions that live as long as their process. `allowance_ms`:
     * what to subtract besides the usual drift; it may differ from answer to answer, and applies to
     * this one. An opened session replaces any earlier one of the connection. `tickets` are all
     * tickets that the session holds or waits with, for engines that must renew each. ROTA_LOST: the
     * session is gone. Asked again: harmless (an `open` whose reply was lost leaves a session that dies
     * by its ttl). A BEAT catches up on lost pushes: after it GRANTED and WANTED are sent again where
     * they still hold and the client has not spoken of them since (by CHANGE), CHANGED where a line
     * differs from what was told last, TICKET_LOST for every one of `tickets` that is gone, and GRANTED
     * for granted ones that are not among them: a JOIN may arrive after its client gave it up, and
     * whoever does not know the ticket gives it back. */
    RT_OP_BEAT,
    /* One ticket. ROTA_LOST: the session is gone; ROTA_BUSY: with RT_JOIN_TRY. Asked again:
     * the same nonce finds the ticket. */
    RT_OP_JOIN,
    /* All of joins[0..n) in one step, or, with RT_JOIN_TRY in the first, all granted at once or
     * none. Sets that overlap stand in the same order in all their lines. Asked again: as JOIN;
     * ROTA_LOST and no effect if some tickets of the earlier try are there and others have ended. */
    RT_OP_JOIN_ALL,
    /* Changes or verifies a ticket of ours: see RT_CHANGE_*. ROTA_LOST: (session, number) is
     * not in the line or not granted. `wanted` answered. Asked again: harmless. */
    RT_OP_CHANGE,
    /* Takes our ticket out of the line and grants the next. Named by (session, number, nonce), where a
     * nonce of 0 matches any; or, where number is 0, by (session, nonce): see rt_names_ticket. The number
     * alone may name a later ticket of the same session: a replica that was promoted without the last
     * writes, and whose clock is behind, gives the same numbers again. `untold`: it never held for anybody,
     * so it keeps nothing for its at_least_ms; a LEAVE by nonce is always so. ROTA_LOST: no such ticket.
     * Asked again after a lost reply, ROTA_LOST says only that it is gone now. */
    RT_OP_LEAVE,
    /* Reports the line's front and count by CHANGED: its state once, shortly before or after the answer,
     * and from then on only states that differ from the one told last (kit/view), until an OBSERVE with
     * `stop` names the same cookie; an OBSERVE that is not answered by then ends with ROTA_CANCELED.
     * Asked again under the same cookie: the state is told once more.
     *
     * OBSERVE, INSPECT, LIST and CHECK only look. They never end with ROTA_LOST or ROTA_BUSY: where there
     * is nothing they tell nothing, and end with 0. Errors: ROTA_INVALID (a name that no line can have:
     * "a line needs a name", "a name is too long"), ROTA_UNREACHABLE (not answered by the deadline;
     * errmsg names who was asked), ROTA_CANCELED, ROTA_NOMEM, and what a server refuses for good:
     * ROTA_AUTH, ROTA_UNSUPPORTED, ROTA_PROTOCOL. ROTA_UNKNOWN, where an engine cannot tell whether
     * its question arrived, means no more than ROTA_UNREACHABLE. After an error, what each() was told
     * does not count. What CHECK itself finds wrong is a verdict, and it ends with 0. */
    RT_OP_OBSERVE,
    /* Calls each() for every ticket of the line or, with name NULL, of `session`. since_ms -1: not known. */
    RT_OP_INSPECT,
    RT_OP_LIST, /* calls each() for every line whose name begins with prefix, by name */
    /* Takes the ticket `number` out of its line, whoever it belongs to; its session gets TICKET_LOST.
     * number 0: all durable tickets of that mode (RT_COUNT: resets a latch). ROTA_LOST: none
     * there. Asked again: as LEAVE. */
    RT_OP_BREAK,
    RT_OP_CHECK, /* calls each() for every verdict of the doctor */
};

#define RT_CHANGE_DOWNGRADE 0x1u /* exclusive becomes shared; grants whoever that lets in */
#define RT_CHANGE_VALUE 0x2u     /* the value for observers */
#define RT_CHANGE_ARM 0x4u       /* from now on WANTED when somebody waits behind it */

struct rt_op {
    enum rt_op_kind kind;
    int err;            /* answered */
    int64_t deadline;   /* CLOCK_BOOTTIME, ns; INT64_MAX: none; put off if it has_time (kit/work) */
    void *user;         /* the submitter's; engines leave it alone */
    struct rt_op *next; /* the engine's while it has the op, else the submitter's */
    union {
        struct {
            bool open;
            uint64_t session; /* to renew; answered by open */
            const uint64_t *tickets;
            size_t ticket_count;
            uint32_t ttl_ms, allowance_ms; /* answered */
        } beat;
        struct {
            struct rt_join *joins;
            size_t n; /* RT_OP_JOIN: 1 */
        } join;
        struct {
            const char *name;
            uint64_t session, number;
            uint32_t what;
            const char *value;
            bool wanted; /* answered */
        } change;
        struct {
            const char *name;
            uint64_t session, number, nonce;
            bool untold;  /* nobody was told, or will be, that it was granted */
            bool granted; /* answered: it held; for a waiter that gave up a moment too late */
        } leave;
        struct {
            const char *name;
            void *cookie; /* names the observation in CHANGED */
            bool stop;
        } observe;
        struct {
            const char *name;
            uint64_t session;
            void (*each)(void *arg, const char *name, const struct rota_place *place);
            void *arg;
        } inspect;
        struct {
            const char *prefix;
            void (*each)(void *arg, const char *name, size_t count, size_t granted);
            void *arg;
        } list;
        struct {
            const char *name;
            uint64_t number;
            uint32_t mode;
        } brk;
        struct {
            rota_verdict_fn *each;
            void *arg;
        } check;
    };
};

/* ---- Events ------------------------------------------------------------- */

enum rt_event_kind {
    RT_GRANTED,      /* a waiting ticket of ours is granted now; may come twice, but never
                        before the answer to its JOIN */
    RT_WANTED,       /* somebody waits behind our granted, armed ticket; may come twice */
    RT_CHANGED,      /* an observed line: its latest state, unlike the one told last; states
                        between may be left out */
    RT_TICKET_LOST,  /* a ticket of ours is gone, not by our LEAVE */
    RT_SESSION_LOST, /* the session is gone, and all its tickets */
    RT_LINK,         /* the connection came (up) or went; for the log and the metrics */
};

struct rt_event {
    enum rt_event_kind kind;
    bool up;          /* LINK */
    uint64_t session; /* GRANTED, WANTED, TICKET_LOST, SESSION_LOST */
    uint64_t number;  /* GRANTED, WANTED, TICKET_LOST: numbers are unique within a session
                          together with the name */
    /* GRANTED: the ticket's number from now on, where the engine numbers when it grants (it lacks
     * ROTA_CAP_ORDER); until then `number` was only a name. 0: the number stays */
    uint64_t fence;
    /* GRANTED: the nonce of its JOIN, where the engine knows it (always with a fence); 0: it does not */
    uint64_t nonce;
    const char *name;        /* GRANTED, WANTED, TICKET_LOST, CHANGED; valid during the call */
    void *cookie;            /* CHANGED */
    struct rota_front front; /* CHANGED */
    size_t count;            /* CHANGED: tickets in the line ... */
    uint32_t mode, of;       /* ... and the kind of the first, if there is one */
};

/* ---- Engines ------------------------------------------------------------ */

struct rt_engine {
    const char *const *schemes; /* NULL-terminated, as in the URL */
    const char *const *params;  /* NULL-terminated: URL parameters beyond the common ones */
    size_t conn_size;           /* whole struct, which begins with struct rt_conn */

    /* Prepares the connection; CONN is zeroed except for the fields of struct rt_conn. Does not wait
     * for the network: what needs it is done from the loop before the first op. Checks the
     * URL, and what can be checked at once (a folder, a layout's version). On failure nothing
     * stays, and errmsg says why. */
    int (*open)(struct rt_conn *conn, const struct rt_url *url);

    /* The client wants to close and has no ticket left: the first call begins to end the session, where
     * that takes an answer; true: it has not come yet. Called after every turn until it says false, or
     * the client's patience ends. May be NULL. */
    bool (*parting)(struct rt_conn *conn);

    /* Gives everything back without waiting; ops and observations still lent are dropped without
     * done. The session is left to die by itself unless it has no tickets. */
    void (*close)(struct rt_conn *conn);

    /* Begins OP; never fails: errors come by done. */
    void (*submit)(struct rt_conn *conn, struct rt_op *op);

    /* Asks for OP's early end: done comes soon, with ROTA_CANCELED if it had no effect yet. */
    void (*cancel)(struct rt_conn *conn, struct rt_op *op);

    /* ROTA_CAP_*, as known now. */
    uint32_t (*caps)(const struct rt_conn *conn);

    /* Why submitted ops are not done at this moment: there is no link, or the server refuses and is
     * asked again. NULL: nothing is known to be wrong, they may be on their way. No I/O. May be NULL. */
    const char *(*trouble)(const struct rt_conn *conn);

    /* In a forked child: closes what the child must not keep open (session files). Async-signal-safe.
     * Also called after a close whose memory is still there. May be NULL. */
    void (*forked)(struct rt_conn *conn);

    /* A descriptor that keeps the session as long as any copy of it is open: rota_keep_fd. ROTA_LOST:
     * there is no session. May be NULL: sessions do not live by descriptors. */
    int (*keep)(struct rt_conn *conn, int *fd);

    /* The tables that the connection as opened needs, with its names and prefix, as a person would type them
     * into the server's own shell where our user may not: whole lines, harmless if the tables are there
     * already. Valid until close. Asked for after open and before anything else, on a loop that nobody turns:
     * no server hears of it. May be NULL: there are none. */
    const char *(*ddl)(const struct rt_conn *conn);
};

/* The engine for a URL's scheme, or NULL. engine/table.c has the list. */
const struct rt_engine *rt_engine_find(const char *scheme);
/* The engines of this build by the first of their schemes, for a message: "file:, mem:". */
void rt_engine_list(char *text, size_t size);

/* Whether NUMBER and NONCE name, within a session, the ticket with ITS_NUMBER and ITS_NONCE: by both, by its number
 * (NONCE 0), or by its nonce (NUMBER 0). */
static inline bool rt_names_ticket(uint64_t number, uint64_t nonce, uint64_t its_number,
                                   uint64_t its_nonce)
{
    if (number == 0)
        return nonce == its_nonce;
    return number == its_number && (nonce == 0 || nonce == its_nonce);
}

/* The same, for a LEAVE. */
static inline bool rt_leave_names(const struct rt_op *op, uint64_t its_number, uint64_t its_nonce)
{
    return rt_names_ticket(op->leave.number, op->leave.nonce, its_number, its_nonce);
}

/* Whether what a LEAVE takes out may keep its line taken, for at_least_ms. */
static inline bool rt_leave_keeps(const struct rt_op *op)
{
    return !op->leave.untold && op->leave.number != 0;
}

static inline void rt_conn_done(struct rt_conn *conn, struct rt_op *op, int err)
{
    op->err = err;
    conn->up->done(conn->up, op);
}

static inline void rt_conn_event(struct rt_conn *conn, const struct rt_event *event)
{
    conn->up->event(conn->up, event);
}

#endif
