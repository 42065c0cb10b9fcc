/* SPDX-License-Identifier: Apache-2.0 */
/* The contract between transactions and a participant: a database that keeps a part of one (a branch).
 *
 * A participant is a const struct rt_party_kind. A struct rt_party is one connection to it, which belongs to whoever
 * opened it: the application's, on which a branch begins, works and prepares; or a keeper's, which finishes what
 * other connections left. A struct rt_part is what its user remembers of a branch.
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
 * is in: it is there exactly when the branch is committed. A **fence** is a row in its place, by somebody who asked:
 * the branch's own then fails, and with it the branch.
 *
 * Rules for all participants
 *
 * - One thread at a time, one op at a time on a connection. Nothing else is done on it meanwhile. No call waits but
 *   rt_party_do, the synchronous twin of start, wait and go; both run the same steps.
 * - What a participant answers is believed by what it says, not by its being no error: PREPARE TRANSACTION that is
 *   answered ROLLBACK is a no.
 * - Replies are those of the core (core/branch.h). RT_REPLY_LOST, and nothing else, is said when the answer was lost or
 *   is late (op->deadline): the op may have taken effect, or may yet. The connection is of no use then: a late one is
 *   cut, for what comes behind it would be taken for another answer. Every other reply is definite.
 * - With RT_REPLY_NO, RT_REPLY_REFUSED and RT_REPLY_LOST op->err is a ROTA_* that says what kind of trouble it is, and
 *   party->errmsg says it in one line with the way out.
 * - Nobody's password, and nothing of the application's rows, is in errmsg.
 *
 * Client libraries are the application's: found when the first connection is opened, never linked. */
#ifndef RT_TXN_BRANCH_H
#define RT_TXN_BRANCH_H

#include "txn/core/branch.h"
#include "txn/core/name.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_party;
struct rt_party_kind;

#define RT_PARTY_MARKS_MAX 320 /* bytes of the marker table's name, quoted, with its end */

/* ---- A branch ------------------------------------------------------------- */

/* Filled with the name by its user, the rest zero. `by` is the connection that began it, while it is known to work;
 * NULL: a keeper has to finish it. Whoever closes that party clears it. */
struct rt_part {
    struct rt_name name;
    struct rt_party *by;
    uint64_t connection; /* MariaDB: the number of that connection, by the xid; 0: not known */
    bool prepared;       /* it may be */
    bool failed;         /* FAIL: it votes no */
    bool clear;          /* GATE: it was seen prepared, and after that without its connection */
    bool watched;        /* MariaDB, BEGIN with RT_PARTY_READS: what its connection had written */
    uint64_t writes;     /* ... then */
    uint8_t seen;        /* the participant's, during an op */
    /* What the application leaves to the vote: said with it, in one packet where the connection takes several statements
     * in one, else before it. NULL: nothing. Whoever sets it keeps it, and has asked for room (rt_party_room). */
    const char *last;
    uint64_t
        changed; /* answered, with YES and DONE: rows that it changed (SELECT: that it found) */
};

/* ---- Operations ----------------------------------------------------------- */

enum rt_party_what {
    /* Who is there: settings, rights, the marker table, which is made if there is none. First on every connection,
     * outside of a transaction. DONE, with party->marks and party->identity. NO: err UNSUPPORTED (no two-phase commit
     * here: it is off, or known not to work), AUTH, INVALID (a transaction is open; no database is chosen;
     * RT_PARTY_KNOWN: there is no such table). Lost: attach again, on another connection. A keeper may attach again, to
     * another table that it has put into party->marks; after a NO it puts back what was there. */
    RT_PARTY_ATTACH,
    /* The branch begins on the application's connection. DONE; NO: nothing has begun (INVALID: the connection is in a
     * transaction, or an answer on it was not read). Lost: the connection's end ends it; nothing to ask. */
    RT_PARTY_BEGIN,
    /* No request: a statement failed, the branch votes no. DONE. */
    RT_PARTY_FAIL,
    /* YES: durable, with its marker. READONLY: it changed nothing, and has ended. NO: it is rolled back, the
     * connection is free. A branch that failed, that wrote to what cannot be rolled back, or whose last statement
     * failed says no; so does one whose `last` fails, or ended the transaction. Lost: it may be prepared; it is not asked again but counts as no, and is rolled back as what
     * may be there. */
    RT_PARTY_PREPARE,
    /* The only branch commits, with its marker. DONE; NO: it is rolled back. Lost: ASK with a fence. */
    RT_PARTY_ONE_PHASE,
    /* By the connection that prepared (part->by), or by a keeper's: the takeover. DONE: it is done now; of a takeover
     * that says so, the marker was read. ABSENT: there is no such prepared branch, or MariaDB has lost it (errmsg
     * says which): ASK, never assume. HELD: the connection that prepared has it still, or GATE has not said CLEAR.
     * REFUSED: rights, another user's. Lost: give the order again, by another connection. */
    RT_PARTY_COMMIT,
    /* The same; of one that has not prepared only by its own connection. */
    RT_PARTY_ROLLBACK,
    /* A keeper asks: PREPARED; COMMITTED (the marker is there); ABSENT: neither. RT_PARTY_FENCE: ABSENT also promises
     * that it never will be; HELD: it is at work, ask again. Lost: ask again. */
    RT_PARTY_ASK,
    /* A keeper asks, of one or several: are the connections that prepared gone? Each part that is gets `clear`;
     * CLEAR: all are. HELD: not all, or that cannot be told now: InnoDB looks anew only after 100 ms in which nobody
     * asked, so ask for many at once, and not sooner. ABSENT: none of them is prepared. Lost: ask again. */
    RT_PARTY_GATE,
    /* A keeper asks for all that is prepared, each() for each: with our journal's number, those of other journals, and
     * foreign ones (`ours` false). DONE. Lost: ask again; what was told before does not count. */
    RT_PARTY_LIST,
    /* A keeper takes away markers of ids of JOURNAL that were born before `before_ms`, but for those of `keep`. DONE,
     * with `more`: ask again. Lost: ask again. */
    RT_PARTY_FORGET,
    /* A keeper asks something for people: settings, who waits for whom. SQL is one statement that only reads, row() is
     * called for each row of it. DONE; REFUSED: AUTH, INVALID. Lost: ask again; what was told before does not count. */
    RT_PARTY_LOOK,
};

enum { /* op->flags */
       /* ASK. */
       RT_PARTY_FENCE = 1,
       /* PREPARE: it is known to have written, so it is not asked whether it is read-only. */
       RT_PARTY_WRITES = 2,
       /* BEGIN: it is likely to read only. MariaDB does not tell for nothing, and is asked then (1 ms). */
       RT_PARTY_READS = 4,
       /* COMMIT and ROLLBACK without GATE, and OK is believed: as others do, for tests. Loses commits on MariaDB. */
       RT_PARTY_UNGATED = 8,
       /* COMMIT and ROLLBACK by the connection that prepared: nobody else has had it since. MariaDB is not asked whether
        * it was reset meanwhile. */
       RT_PARTY_LENT = 16,
       /* ATTACH: party->marks is where somebody's markers are: it is not made. */
       RT_PARTY_KNOWN = 16,
       /* ATTACH of a keeper: without a table of markers, for what needs none: LIST, GATE, ROLLBACK, and COMMIT on a
        * database without a gate. */
       RT_PARTY_UNMARKED = 32,
       /* FORGET: not markers, but rows of the fence of a service (txn/fence), in the table rota_fence where the connection
        * leads. Without one: DONE. */
       RT_PARTY_FENCES = 64,
       /* FORGET: the same of promises of three-phase commit (txn/phase), in the table rota_promise. What has not ended, is not
        * sure of the decision, or is mixed stays. */
       RT_PARTY_PROMISES = 128,
};

struct rt_party_seen { /* of LIST, valid during the call */
    bool ours;         /* NAME is read */
    struct rt_name name;
    uint64_t connection;
    const char *text;    /* what the participant calls it, for people */
    const char *finish;  /* what a person would say to roll it back */
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
            uint64_t count; /* answered: that went */
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
    void *conn;          /* MYSQL *, PGconn *: whoever opened it */
    bool keeper;         /* it is nobody's but ours: may take over, never begins */
    bool attached, dead; /* dead: an answer was lost on it */
    char marks[RT_PARTY_MARKS_MAX];
    /* ATTACH: of the database that the table of markers is in: it survives restarts, and no two have the same. 0: it is
     * not known */
    uint64_t identity;
    char errmsg[256];
    struct rt_party_op *op; /* the one under way */
    int step, begun;        /* of it; statements said */
    struct rt_talk *talk;
    uint64_t number; /* MariaDB: of its connection, by the server; handle: by the client library */
    uint64_t handle;
    int trouble;    /* what went wrong first, while it is cleaned up: ROTA_* */
    bool several;   /* MariaDB: its connection takes several statements in one packet */
    bool hit;       /* the participant's, during an op */
    bool wrote;     /* the participant's: the last branch on it changed something */
    bool forces;    /* the statement under way: party.h */
    uint64_t nonce; /* the same */
};

struct rt_party_kind {
    const char *name;  /* "xa-mysql" */
    const char *title; /* "MariaDB": for people */
    bool gated;        /* another connection could lose its commit: core/branch.h */
    const char *ddl;   /* the marker table, for people who may; %s: its name */
    /* For identity.c: around the digits of an id; around the table's name and what is read of it (one cell, the kinds
     * with commas between); around its name and the rows that are inserted, where there are none, whatever state the
     * session is in. */
    const char *hex[2], *identity_read[2], *identity_make[2];
    const struct rt_talk_kind *talk;
    /* The next step of party->op: says the next statement and returns false, or sets reply and err and returns true.
     * What the last one said is in party->talk->said. Lost answers are not told: the op has ended. */
    bool (*step)(struct rt_party *p);
};

/* CONN is a MYSQL * (rt_xa_mysql) or PGconn * (rt_xa_postgres), connected; it is only borrowed. MARKS names the table
 * of markers, as it is written in a statement; NULL: rota_mark, where the connection finds it. Says nothing to the
 * server. On failure (UNSUPPORTED: the client library, NOMEM, INVALID) ERRMSG has one line, *OUT is as before. */
int rt_party_open(struct rt_party **out, const struct rt_party_kind *kind, void *conn, bool keeper,
                  const char *marks, char *errmsg, size_t size);
/* Leaves the connection as it is. Not while an op is under way, unless the connection is given up. NULL is legal. */
void rt_party_close(struct rt_party *p);

/* Room for a vote with a `last` of SIZE bytes: 0 or NOMEM. */
int rt_party_room(struct rt_party *p, size_t size);

/* OP is lent until it ends. True: it has ended already. */
bool rt_party_start(struct rt_party *p, struct rt_party_op *op);
/* For what to wait before go: FD for EVENTS of poll(2), and no longer than UNTIL (CLOCK_BOOTTIME, ns; INT64_MAX: no
 * limit). */
struct rt_party_wait {
    int fd;
    short events;
    int64_t until;
};
struct rt_party_wait rt_party_wait(const struct rt_party *p);
/* Goes on; EVENTS as poll answered them, 0: the time is over. True: the op has ended. */
bool rt_party_go(struct rt_party *p, short events);

/* Synchronous: all of the three above, until it has ended. */
enum rt_reply rt_party_do(struct rt_party *p, struct rt_party_op *op);

/* ---- Participants ----------------------------------------------------------- */

extern const struct rt_party_kind rt_xa_mysql;    /* MariaDB: xa_mysql.c */
extern const struct rt_party_kind rt_xa_postgres; /* PostgreSQL: xa_postgres.c */

#endif
