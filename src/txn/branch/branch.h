/* SPDX-License-Identifier: Apache-2.0 */
/* The contract between transactions and a participant: a database that holds a part of one (a branch).
 *
 * A participant is a const struct rt_party_kind. A struct rt_party is one connection to it, which belongs to whoever
 * opened it: the application's, on which a branch begins, works and prepares; or a keeper's, which finishes what other
 * connections left. A struct rt_part is what its user remembers about a branch.
 *
 * What a participant has of a branch, and what moves it:
 *
 *            BEGIN            PREPARE: yes                  COMMIT
 *   NOTHING ───────▶ ACTIVE ──────────────▶ PREPARED ──────────────────▶ COMMITTED (its marker is there)
 *      ▲               │ │                  durable        ROLLBACK
 *      │   no, failed, │ │ ONE_PHASE         │ │ ─────────────────────▶ NOTHING
 *      └─ROLLBACK, the ┘ └───────────────────┼─┼──────────────────────▶ COMMITTED
 *        connection ends                     │ │ ASK with a fence, before any of it: it can never prepare or commit
 *
 * The **marker** is a row (id, branch) that the branch itself writes, last, in the table rota_mark of the database it
 * is in: it is there exactly when the branch is committed. A **fence** is a row in its place, written by somebody who
 * asked: the branch's own insert then fails, and with it the branch.
 *
 * Rules for all participants
 *
 * - One thread at a time, one op at a time on a connection. Nothing else is done on it meanwhile. Only rt_party_do
 *   waits, the synchronous twin of start, wait and go; both run the same steps.
 * - An answer counts by what it says, not by the absence of an error: a PREPARE TRANSACTION that is answered ROLLBACK
 *   is a no.
 * - Replies are those of the core (core/branch.h). RT_REPLY_LOST, and nothing else, means that the answer was lost or
 *   is late (op->deadline): the op may have taken effect, or may yet. The connection is useless then: a late one is
 *   cut, for its answer would be taken for the next one's. Every other reply is definite.
 * - With RT_REPLY_NO, RT_REPLY_REFUSED and RT_REPLY_LOST op->err is a ROTA_* that says what kind of trouble it is, and
 *   party->errmsg describes it in one line, with the way out.
 * - errmsg never contains a password, or anything from the application's rows.
 *
 * Client libraries are the application's: they are found when the first connection is opened, never linked. */
#ifndef RT_TXN_BRANCH_H
#define RT_TXN_BRANCH_H

#include "txn/core/branch.h"
#include "txn/core/name.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_party;
struct rt_party_kind;

#define RT_PARTY_MARKS_MAX 320 /* bytes of the marker table's name, quoted, with its NUL */

/* ---- A branch ------------------------------------------------------------- */

/* Its user fills in the name, and zeroes the rest. `by` is the connection that began it, while that is known to work;
 * NULL: a keeper has to finish it. Whoever closes that party clears it. */
struct rt_part {
    struct rt_name name;
    struct rt_party *by;
    uint64_t connection; /* MariaDB: that connection's number, from the xid; 0: not known */
    bool prepared;       /* it may be prepared */
    bool failed;         /* FAIL: it votes no */
    bool clear;          /* GATE: it was seen prepared, and then without its connection */
    bool watched;        /* MariaDB, BEGIN with RT_PARTY_READS: `writes` is set */
    uint64_t writes;     /* ... what its connection had written by then */
    uint8_t seen;        /* the participant's, during an op */
    /* The statement that the application leaves to the vote: said with it, in one packet if the connection takes
     * several statements in one, else before it. NULL: none. Whoever sets it owns it, and has asked for room
     * (rt_party_room). */
    const char *last;
    uint64_t
        changed; /* answered, with YES and DONE: rows that `last` changed (SELECT: that it found) */
};

/* ---- Operations ----------------------------------------------------------- */

enum rt_party_what {
    /* Who is there: settings, rights, the marker table, which is made if there is none. The first op on every
     * connection, outside of a transaction. DONE, with party->marks and party->identity. NO: err UNSUPPORTED (no
     * two-phase commit here: it is off, or known not to work), AUTH, INVALID (a transaction is open; no database is
     * chosen; RT_PARTY_KNOWN: there is no such table). Lost: attach again, on another connection. A keeper may attach
     * again, to another table that it has put into party->marks; after a NO it restores the old name. */
    RT_PARTY_ATTACH,
    /* The branch begins on the application's connection. DONE; NO: nothing has begun (INVALID: the connection is in a
     * transaction, or an answer on it was not read). Lost: it ends with the connection; nothing to ask. */
    RT_PARTY_BEGIN,
    /* No request: a statement failed, the branch votes no. DONE. */
    RT_PARTY_FAIL,
    /* YES: durable, with its marker. READONLY: it changed nothing, and has ended. NO: it is rolled back, the
     * connection is free. A branch that failed, that wrote to something that cannot be rolled back, or whose last
     * statement failed says no; so does one whose `last` fails or ends the transaction. Lost: it may be prepared; it is
     * not asked again but counts as a no, and is rolled back in case it is there. */
    RT_PARTY_PREPARE,
    /* The only branch commits, with its marker. DONE; NO: it is rolled back. Lost: ASK with a fence. */
    RT_PARTY_ONE_PHASE,
    /* By the connection that prepared (part->by), or by a keeper's: the takeover. DONE: it is done now; after a
     * takeover, the marker was read. ABSENT: there is no such prepared branch, or MariaDB has lost it (errmsg says
     * which): ASK, never assume. HELD: the connection that prepared still has it, or GATE has not said CLEAR. REFUSED:
     * missing rights, another user's branch. Lost: give the order again, by another connection. */
    RT_PARTY_COMMIT,
    /* The same; a branch that has not prepared is rolled back only by its own connection. */
    RT_PARTY_ROLLBACK,
    /* A keeper asks: PREPARED; COMMITTED (the marker is there); ABSENT: neither. RT_PARTY_FENCE: ABSENT also promises
     * that it never will be either; HELD: it is at work, ask again. Lost: ask again. */
    RT_PARTY_ASK,
    /* A keeper asks about one or several: are the connections that prepared gone? Each part whose connection is gone
     * gets `clear`; CLEAR: all are. HELD: not all, or that cannot be told now: InnoDB looks anew only after 100 ms in
     * which nobody asked, so ask for many at once, and no sooner. ABSENT: none of them is prepared. Lost: ask again. */
    RT_PARTY_GATE,
    /* A keeper lists everything that is prepared, with each(): branches with our journal's number, those of other
     * journals, and foreign ones (`ours` false). DONE. Lost: ask again; what was told before does not count. */
    RT_PARTY_LIST,
    /* A keeper deletes markers of ids of JOURNAL that were born before `before_ms`, except those in `keep`; on MariaDB
     * in all databases of the server, for the branches may have been in any. DONE; with `more`, ask again. Lost: ask
     * again. */
    RT_PARTY_FORGET,
    /* A keeper asks something for people: settings, who waits for whom. SQL is one statement that only reads; row() is
     * called for each of its rows. DONE; REFUSED: AUTH, INVALID. Lost: ask again; what was told before does not
     * count. */
    RT_PARTY_LOOK,
};

enum { /* op->flags */
       /* ASK. */
       RT_PARTY_FENCE = 1,
       /* PREPARE: it is known to have written, so we do not ask whether it is read-only. */
       RT_PARTY_WRITES = 2,
       /* BEGIN: it will probably only read. On MariaDB, finding out costs a question (1 ms), which is then asked. */
       RT_PARTY_READS = 4,
       /* For tests: COMMIT and ROLLBACK without GATE, and OK is believed, as others do it. Loses commits on MariaDB. */
       RT_PARTY_UNGATED = 8,
       /* COMMIT and ROLLBACK by the connection that prepared: nobody else has used it since. MariaDB is not asked
        * whether it was reset meanwhile. */
       RT_PARTY_LENT = 16,
       /* ATTACH: party->marks is where somebody's markers are: the table is not made. */
       RT_PARTY_KNOWN = 16,
       /* ATTACH of a keeper: without a table of markers, for ops that need none: LIST, GATE, ROLLBACK, and COMMIT on a
        * database without a gate. */
       RT_PARTY_UNMARKED = 32,
       /* FORGET: not markers, but rows of a service's fence (txn/fence), in the table rota_fence of the connection's
        * database. If there is none: DONE. */
       RT_PARTY_FENCES = 64,
       /* FORGET: the same for promises of three-phase commit (txn/phase), in the table rota_promise. Promises that have
        * not ended, are not sure of the decision, or are mixed stay. */
       RT_PARTY_PROMISES = 128,
};

struct rt_party_seen { /* from LIST, valid during the call */
    bool ours;         /* NAME is set */
    struct rt_name name;
    uint64_t connection;
    const char *text;    /* what the participant calls it, for people */
    const char *finish;  /* the statement with which a person would roll it back */
    int64_t prepared_ms; /* since 1970; 0: it does not say */
};

struct rt_party_op {
    enum rt_party_what what;
    uint32_t flags;
    struct rt_part *part; /* GATE: COUNT of them */
    size_t count;         /* GATE; 0 is 1 */
    int64_t deadline;     /* CLOCK_BOOTTIME, ns; 0: none */
    union {
        struct {
            uint32_t journal;
            void (*each)(void *arg, const struct rt_party_seen *seen);
            void *arg;
        } list;
        struct {
            uint32_t journal;
            int64_t before_ms;
            const struct rt_txn_id *keep;
            size_t keep_count;
            uint64_t count; /* answered: how many went */
            bool more;      /* answered */
        } forget;
        struct {
            const char *sql;
            void (*row)(void *arg, int cells, char *const *values); /* NULL: a null */
            void *arg;
        } look;
    };
    enum rt_reply reply; /* answered */
    int err;             /* answered: ROTA_*, or 0 */
};

/* ---- A connection ---------------------------------------------------------- */

struct rt_party {
    const struct rt_party_kind *kind;
    void *conn;          /* MYSQL *, PGconn *: its opener's */
    bool keeper;         /* it is ours alone: may take over, never begins */
    bool attached, dead; /* dead: an answer was lost on it */
    char marks[RT_PARTY_MARKS_MAX];
    /* ATTACH: the identity of the database that holds the table of markers: it survives restarts, and no two databases
     * have the same. 0: not known */
    uint64_t identity;
    char errmsg[256];
    struct rt_party_op *op; /* the one under way */
    int step, begun;        /* of the op; statements said */
    struct rt_talk *talk;
    uint64_t number; /* MariaDB: its connection's, by the server; handle: by the client library */
    uint64_t handle;
    int trouble;     /* what went wrong first, kept during cleanup: ROTA_* */
    bool several;    /* MariaDB: its connection takes several statements in one packet */
    uint64_t packet; /* ... and packets of this many bytes: max_allowed_packet; 0: not known */
    bool hit;        /* the participant's, during an op */
    char role[64];   /* PostgreSQL: the role in which its branch began */
    bool wrote;      /* the participant's: the last branch on it changed something */
    bool forces;     /* the statement under way: party.h */
    uint64_t nonce;  /* the same */
};

struct rt_party_kind {
    const char *name;  /* "xa-mysql" */
    const char *title; /* "MariaDB": for people */
    bool gated;        /* another connection could lose its commit: core/branch.h */
    const char *ddl;   /* the marker table, for people with the right; %s: its name */
    /* For identity.c: the text around the digits of an id; around the table's name, to read it (one cell, the kinds
     * separated by commas); around its name and the rows, to insert them if there are none, whatever state the session
     * is in. */
    const char *hex[2], *identity_read[2], *identity_make[2];
    const struct rt_talk_kind *talk;
    /* The next step of party->op: says the next statement and returns false, or sets reply and err and returns true.
     * What the last statement was answered is in party->talk->said. Never called for a lost answer: the op has ended
     * then. */
    bool (*step)(struct rt_party *p);
};

/* CONN is a MYSQL * (rt_xa_mysql) or PGconn * (rt_xa_postgres), connected; it is only borrowed. MARKS names the table
 * of markers, as written in a statement; NULL: rota_mark, where the connection finds it. Says nothing to the server. On
 * failure (UNSUPPORTED: the client library, NOMEM, INVALID) ERRMSG has one line, and *OUT is unchanged. */
int rt_party_open(struct rt_party **out, const struct rt_party_kind *kind, void *conn, bool keeper,
                  const char *marks, char *errmsg, size_t size);
/* Leaves the connection as it is. Not to be called while an op is under way, unless the connection is given up. NULL is
 * legal. */
void rt_party_close(struct rt_party *p);

/* Makes room for a vote with a `last` of SIZE bytes, with its NUL: 0; NOMEM; INVALID: the server would cut the
 * connection. errmsg says why. */
int rt_party_room(struct rt_party *p, size_t size);

/* OP is lent until it ends. True: it has ended already. */
bool rt_party_start(struct rt_party *p, struct rt_party_op *op);
/* What to wait for before go: EVENTS of poll(2) on FD, and no longer than UNTIL (CLOCK_BOOTTIME, ns; INT64_MAX: no
 * limit). */
struct rt_party_wait {
    int fd;
    short events;
    int64_t until;
};
struct rt_party_wait rt_party_wait(const struct rt_party *p);
/* Goes on; EVENTS as poll returned them, 0: the time is over. True: the op has ended. */
bool rt_party_go(struct rt_party *p, short events);

/* Synchronous: all three of the above, until it has ended. */
enum rt_reply rt_party_do(struct rt_party *p, struct rt_party_op *op);

/* ---- Participants ----------------------------------------------------------- */

extern const struct rt_party_kind rt_xa_mysql;    /* MariaDB: xa_mysql.c */
extern const struct rt_party_kind rt_xa_postgres; /* PostgreSQL: xa_postgres.c */

#endif
