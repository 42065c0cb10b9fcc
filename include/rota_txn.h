/* SPDX-License-Identifier: Apache-2.0 */
/* Rota: distributed transactions for C. This header is the reference of librota_txn.
 *
 * Several databases change together or not at all, whichever process dies and whenever it dies. A transaction has an id,
 * a deadline and branches: work at named resources, on connections that the application owns. It is committed exactly
 * when the journal says so; the manager's keeper finishes what was decided, and recovery, in any process, finishes what
 * dead processes left.
 *
 *     struct rota_txns *m;
 *     rota_txns_open(&m, NULL, NULL);
 *     struct rota_txn *t;
 *     rota_txn_begin(m, NULL, &t);
 *     rota_xa_mysql(t, "shop", my, NULL);       XA START: what follows on MY is the branch
 *     rota_xa_postgres(t, "ledger", pg, NULL);  BEGIN
 *     ... ordinary statements on both ...
 *     int err = rota_txn_commit(t);             0: both, ROTA_ABORTED: neither
 */
#ifndef ROTA_TXN_H
#define ROTA_TXN_H

#include <rota.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The rules of rota.h hold: returns are 0 or a negative ROTA_* error and outputs are untouched on error; what is passed
 * in is copied; free functions accept NULL; callbacks run on the keeper's thread, where calls that wait say
 * ROTA_INVALID; after fork() the child's handles are dead (ROTA_FORKED); structs grow at their end.
 *
 * A manager may be used by any number of threads at once; a transaction by one at a time. */

/* Connections of MariaDB, PostgreSQL and SQLite, as their own headers name them: none of those is needed here. */
struct st_mysql;
struct pg_conn;
struct sqlite3;

struct rota_txns;   /* a manager: a journal and named resources */
struct rota_txn;    /* a transaction that this process began or joined */
struct rota_branch; /* its part at one resource; it ends with its transaction */

/* ---- Managers ------------------------------------------------------------- */

#define ROTA_TXN_STRICT 0x1u  /* refuse a journal whose server may lose a decision in a crash */
#define ROTA_TXN_RECOVER 0x2u /* also finish what dead processes left behind */

/* Something has failed ten times in a row, or a person is needed: ID, the resource, one line with the way out.
 * Once per cause, and every minute for a resource that has no URL here. Runs on the keeper's thread. */
typedef void rota_attention_fn(void *arg, const char *id, const char *resource, const char *line);

struct rota_txns_options { /* zero means the default for each field */
    uint32_t flags;        /* ROTA_TXN_STRICT, ROTA_TXN_RECOVER */
    uint32_t timeout_ms;   /* 60000: the deadline of a transaction, 1 s to 24 h */
    uint32_t call_ms; /* 5000: the most that one request to the journal or a participant may take */
    uint32_t recover_ms; /* 2000: between two passes of recovery */
    /* 7 days: how long outcomes are kept. At least twice the longest timeout of all who use the journal: what is older
     * when it commits is refused */
    uint32_t keep_ms;
    uint32_t reserved; /* 0 */
    const char
        *resources; /* a file of resources, in place of ~/.config/rota/txn and /etc/rota/txn */
    rota_log_fn *log;
    void *log_arg;
    rota_attention_fn *attention;
    void *attention_arg;
};

/* Opens a manager on the journal that URL names: "file:", "file:/some/folder", "postgres://...", "mysql://...",
 * "etcd://...", or a name from the configuration. NULL or empty: $ROTA_JOURNAL, else the embedded file in its default
 * folder. Creates the journal if there is none. Takes at most call_ms. Give *OUT back with rota_txns_close. */
int rota_txns_open_sized(struct rota_txns **out, const char *url,
                         const struct rota_txns_options *opts, size_t size);
static inline int rota_txns_open(struct rota_txns **out, const char *url,
                                 const struct rota_txns_options *opts)
{
    return rota_txns_open_sized(out, url, opts, sizeof(struct rota_txns_options));
}

/* Aborts transactions that are still open. What is decided and not finished after at most call_ms is left to whoever
 * recovers: calls that wait in other threads return what is known (ROTA_UNKNOWN, ROTA_CLOSED), every function that is
 * still to be called is called with that, and connections that are still on loan are cut. A function that ends a
 * transaction meanwhile is told ROTA_CLOSED: it was aborted. Not from inside a callback. Once it has begun, no other
 * thread may begin a call. */
void rota_txns_close(struct rota_txns *m);

/* The message of the calling thread's last failing call on M: one line that says what is wrong and what to do, and never
 * contains a secret. With M NULL: that of this thread's last call that takes no manager: rota_txns_open, rota_call_read,
 * rota_fence_*, rota_event_*, rota_participant_run. Valid until the thread's next failing call; "" if there was none. */
const char *rota_txn_errmsg(const struct rota_txns *m);

/* Names a resource and the URL at which the keeper reaches it, as a line of the file of resources does: the keeper
 * finishes there what its own process could not, after a lost connection or a crash. A service over HTTP is
 * https://HOST/PATH/, with ?ca=, ?cert=, ?key= and ?token_file= as rota-txn(1) says. No I/O. */
int rota_txns_resource(struct rota_txns *m, const char *name, const char *url);

/* ---- Transactions --------------------------------------------------------- */

/* Commit returns 0 when every branch is finished, not only our own; ROTA_UNFINISHED if that takes longer than the
 * deadline and call_ms. */
#define ROTA_TXN_WAIT 0x1u
/* Services confirm one after the other, in the order in which they were called, and cancel in the reverse order. */
#define ROTA_TXN_ORDERED 0x2u

struct rota_txn_options { /* zero means the default for each field */
    uint32_t timeout_ms;  /* the manager's: after it, the transaction is aborted */
    uint32_t flags;       /* ROTA_TXN_WAIT, ROTA_TXN_ORDERED */
    const char *label;    /* what it is, for people: at most 255 bytes */
};

/* Begins a transaction: no I/O. It ends with rota_txn_commit or rota_txn_abort. */
int rota_txn_begin_sized(struct rota_txns *m, const struct rota_txn_options *opts, size_t size,
                         struct rota_txn **out);
static inline int rota_txn_begin(struct rota_txns *m, const struct rota_txn_options *opts,
                                 struct rota_txn **out)
{
    return rota_txn_begin_sized(m, opts, sizeof(struct rota_txn_options), out);
}

/* Its id: for a header, an environment variable (ROTA_TXN), rota_txn_join, rota_txn_outcome and the command. Valid as
 * long as T. Whoever has been given it may join, so from then on T is never committed in one phase. */
const char *rota_txn_id(struct rota_txn *t);

/* Adds branches to another process's transaction, whose id is ID (NULL: $ROTA_TXN). That process decides:
 * rota_txn_vote says that the work here is done. */
int rota_txn_join(struct rota_txns *m, const char *id, struct rota_txn **out);

/* For a joined transaction: prepares its branches. 0: they will end as decided, whatever dies; now tell the process that
 * began it. ROTA_ABORTED: nothing of it stays, and the transaction will not be committed. T goes on either way, and
 * rota_txn_commit ends it. */
int rota_txn_vote(struct rota_txn *t);

/* Commits, and consumes T with its branches.
 *   0             committed, durable. The connections are free.
 *   ROTA_ABORTED  rolled back: a branch voted no, or the deadline passed; rota_txn_errmsg says which. The connections
 *                 are free, except one that was lost, or on which it could not be rolled back: that one is cut.
 *   ROTA_UNKNOWN  the journal did not answer in time. The keeper keeps asking; rota_txn_outcome tells how it ended. Close
 *                 the connections: what is prepared on them is finished by another one. Or, with a single branch and
 *                 an id that was given to nobody: the database did not answer COMMIT, and it alone knows.
 *   ROTA_UNFINISHED  only with ROTA_TXN_WAIT: committed, durable, as with 0; but a branch is not finished yet (a service
 *                 does not confirm, a database is away): rota_txn_errmsg says which. The keeper goes on, or recovery
 *                 does; rota_txn_outcome tells how far it is. It must not be done again.
 * For a joined transaction: votes, if that was not done, and waits for the decision of the process that began it. */
int rota_txn_commit(struct rota_txn *t);
/* Rolls back, and consumes T. 0: nothing of it stays, or will. ROTA_UNKNOWN as above. */
int rota_txn_abort(struct rota_txn *t);

/* The same without waiting: FN is called once, with what the call would have returned. Until then the connections are
 * on loan: nothing may be done on them. */
typedef void rota_txn_fn(void *arg, int err);
int rota_txn_vote_async(struct rota_txn *t, rota_txn_fn *fn, void *arg);
int rota_txn_commit_async(struct rota_txn *t, rota_txn_fn *fn, void *arg);
int rota_txn_abort_async(struct rota_txn *t, rota_txn_fn *fn, void *arg);

/* ---- Outcomes --------------------------------------------------------------- */

enum rota_stand {
    ROTA_STAND_OPEN =
        0, /* nothing is decided: it is under way, or was never heard of and may yet be */
    ROTA_STAND_COMMITTED, /* decided; `unfinished` branches have not heard of it yet */
    ROTA_STAND_ABORTED,
    ROTA_STAND_EXPIRED, /* too old: it was finished and forgotten, or never decided */
    ROTA_STAND_STUCK, /* decided as `decision` says, and a branch cannot be finished without a person: `why` */
};

struct rota_outcome {
    int32_t stand;       /* enum rota_stand */
    int32_t decision;    /* ROTA_STAND_OPEN, _COMMITTED, _ABORTED */
    uint32_t branches;   /* that the journal knows of */
    uint32_t unfinished; /* 0: all of them are finished; else how many may not be */
    int64_t deadline_ms; /* since 1970; 0: not known */
    int64_t decided_ms;  /* the same, by the journal's clock */
    char why[200];       /* STUCK: one line with the way out; else "" */
};

/* How the transaction ID stands. ROTA_INVALID: that is not an id, or it is one of another journal. */
int rota_txn_outcome_sized(struct rota_txns *m, const char *id, struct rota_outcome *out,
                           size_t size);
static inline int rota_txn_outcome(struct rota_txns *m, const char *id, struct rota_outcome *out)
{
    return rota_txn_outcome_sized(m, id, out, sizeof(struct rota_outcome));
}
/* The same, but a transaction that is open is aborted now: the answer is never OPEN. */
int rota_txn_settle_sized(struct rota_txns *m, const char *id, struct rota_outcome *out,
                          size_t size);
static inline int rota_txn_settle(struct rota_txns *m, const char *id, struct rota_outcome *out)
{
    return rota_txn_settle_sized(m, id, out, sizeof(struct rota_outcome));
}

/* ---- Branches: two-phase commit at databases -------------------------------- */

/* Begins the branch on the caller's connection (XA START; BEGIN), which must not be in a transaction: every statement on
 * it belongs to the branch until T ends. The application must not end the transaction itself. RESOURCE is the database's
 * name, by which recovery finds it: the same for all processes, of 1 to 255 bytes, and such as a line of
 * the file of resources can name: no `=`, no `#` before it, no blank at either end. The first branch on a connection looks
 * at the server's settings and creates the table rota_mark if there is none. OUT may be NULL.
 * ROTA_UNSUPPORTED: no two-phase commit here; ROTA_AUTH: rights; ROTA_INVALID: the connection is in a transaction, or
 * has been lost; ROTA_ABORTED: the deadline has passed. On error nothing has begun there, and T can go on without it;
 * but a joined transaction will be aborted if the branch was registered before. */
int rota_xa_mysql(struct rota_txn *t, const char *resource, struct st_mysql *my,
                  struct rota_branch **out);
int rota_xa_postgres(struct rota_txn *t, const char *resource, struct pg_conn *pg,
                     struct rota_branch **out);
/* The same without waiting; *OUT (may be NULL) is set when FN is called with 0. */
int rota_xa_mysql_async(struct rota_txn *t, const char *resource, struct st_mysql *my,
                        struct rota_branch **out, rota_txn_fn *fn, void *arg);
int rota_xa_postgres_async(struct rota_txn *t, const char *resource, struct pg_conn *pg,
                           struct rota_branch **out, rota_txn_fn *fn, void *arg);

/* SQL is the branch's last statement: it is not run now but with the vote, by rota_txn_commit (or rota_txn_vote), which
 * saves a round trip, and at all branches at once. It leaves in one packet with PREPARE on PostgreSQL, and on a MariaDB
 * connection that takes several statements in one (CLIENT_MULTI_STATEMENTS); elsewhere right before it. SQL is what you
 * would give to PQexec or mysql_query, with values quoted by PQescapeLiteral or mysql_real_escape_string; rows that it
 * returns are dropped. *CHANGED (may be NULL; must stay until T has ended) is how many rows it changed, or found, if the
 * branch voted yes; UINT64_MAX: its answer was lost, or is not there yet. If the statement fails, the branch votes no: T is
 * aborted, and rota_txn_errmsg has what the server said. The same goes for a statement that ends the transaction and, on
 * PostgreSQL, for one that rolls back to a savepoint, or wants data from the client (COPY). It never runs if T is aborted
 * before. No I/O. One per branch, before vote, commit and abort; on MariaDB no longer than the server's max_allowed_packet
 * (else ROTA_INVALID, and T can go on). Nothing else may be sent on the connection after it. */
int rota_branch_last(struct rota_branch *b, const char *sql, uint64_t *changed);

/* A statement of the branch failed, or the application changed its mind: the branch votes no, and T will be aborted. No I/O.
 * ROTA_INVALID: vote, commit or abort has begun. */
int rota_branch_fail(struct rota_branch *b);

/* ---- Services: what they are asked, and the fence --------------------------- */

/* A service takes part by three operations: try reserves, confirm makes what was reserved real, cancel gives it back.
 * Each may come doubled, late or out of order, and a cancel may come without its try. */
enum rota_op { ROTA_OP_TRY = 1, ROTA_OP_CONFIRM, ROTA_OP_CANCEL };

struct rota_call {       /* it does not grow: there is no more to say about a call */
    char txn[48];        /* what rota_txn_id says where it was begun: for rota_txn_join */
    uint32_t branch;     /* from 1 on */
    int32_t op;          /* enum rota_op */
    int64_t deadline_ms; /* since 1970: after it the transaction is aborted, if it is not decided */
};

/* From the values of the headers Rota-Txn, Rota-Branch, Rota-Op (try, confirm, cancel) and Rota-Deadline. ROTA_INVALID:
 * one of them is missing (NULL), is not exactly as Rota writes it, or does not fit the others; rota_txn_errmsg(NULL)
 * says which: answer 400. */
int rota_call_read(struct rota_call *out, const char *txn, const char *branch, const char *op,
                   const char *deadline);

/* What to do with a call, as the fence says. Whatever it is: end the transaction, then answer. */
enum rota_fenced {
    ROTA_FENCE_DO = 1, /* for the first time: do it, commit, answer 200 */
    ROTA_FENCE_DONE,   /* it was done before: do nothing, answer 200 */
    ROTA_FENCE_EMPTY, /* a cancel whose try never came: do nothing, commit, so that it is refused; answer 200 */
    ROTA_FENCE_LATE,    /* a try after its cancel, or long after its deadline: answer 409 */
    ROTA_FENCE_EARLY,   /* a confirm without its try: roll back, answer 409 */
    ROTA_FENCE_CROSSED, /* a confirm after its cancel, or a cancel after its confirm: answer 409 */
};

/* In the caller's own open transaction, before its work: notes CALL in the table rota_fence of that database, and says
 * in *VERDICT what to do. The row and the work are committed together, or neither is: a call whose transaction was
 * rolled back has not happened. Waits for another call of the same branch that is under way, or prepared, as long as
 * the database waits for locks; set that to a few seconds. READ COMMITTED is best; with the other levels ROTA_BUSY comes
 * more often. SQLite: BEGIN IMMEDIATE, and a connection of libsqlite3.so, not of a copy in the program. On error roll
 * back; rota_txn_errmsg(NULL) has the line.
 * ROTA_INVALID: there is no transaction, it has failed or may only read, or CALL is not a call; ROTA_BUSY: a lock wait
 * ran out, a deadlock, a transaction that is too old to see the other's: answer 425; ROTA_UNREACHABLE: the connection was
 * lost: answer 425; ROTA_UNSUPPORTED: the table is missing, or is a different one; ROTA_AUTH: rights. */
int rota_fence_mysql(struct st_mysql *my, const struct rota_call *call, enum rota_fenced *verdict);
int rota_fence_postgres(struct pg_conn *pg, const struct rota_call *call,
                        enum rota_fenced *verdict);
int rota_fence_sqlite(struct sqlite3 *db, const struct rota_call *call, enum rota_fenced *verdict);

/* Creates the table rota_fence if there is none. Outside of a transaction (else ROTA_INVALID): MariaDB would commit it.
 * ROTA_AUTH: rota_txn_errmsg(NULL) has the statement for somebody who may run it. */
int rota_fence_make_mysql(struct st_mysql *my);
int rota_fence_make_postgres(struct pg_conn *pg);
int rota_fence_make_sqlite(struct sqlite3 *db);

/* Deletes the rows of M's transactions that the journal calls done or expired and whose deadline passed a day ago: a try
 * that comes now is refused without them. Outside of a transaction; a hundred transactions at once, until there are no
 * more. What is tried, and neither confirmed nor cancelled, stays, whatever the journal says: somebody has reserved it.
 * *COUNT (may be NULL): the rows that were deleted. rota_txn_errmsg(m) has the line. */
int rota_fence_clean_mysql(struct rota_txns *m, struct st_mysql *my, uint64_t *count);
int rota_fence_clean_postgres(struct rota_txns *m, struct pg_conn *pg, uint64_t *count);
int rota_fence_clean_sqlite(struct rota_txns *m, struct sqlite3 *db, uint64_t *count);

/* ---- Branches: services by try, confirm and cancel --------------------------- */

/* What a service of this process does. Each function is called with what rota_tcc_call was given, may be called again at
 * any time and out of order (after a crash in another process that serves the same name), and answers:
 *   0             try: it is reserved; confirm, cancel: it is done, or was before
 *   ROTA_ABORTED  try: it will not be; confirm, cancel: refused for good, a person is called (STUCK)
 *   ROTA_BUSY     it is under way elsewhere: asked again after a second; a try counts as failed
 *   all else      nobody knows: a try counts as failed and is cancelled, the others are asked again
 * rota_fence_* in the function's own local transaction makes doubled, late and empty calls harmless. Try runs in the thread
 * that calls rota_tcc_call, the others on a few of the manager's threads, where calls of this library may wait. */
typedef int rota_tcc_fn(void *arg, const struct rota_call *call, const void *payload, size_t size);
struct rota_tcc {
    rota_tcc_fn *try_fn, *confirm_fn, *cancel_fn;
};

/* Serves NAME from now on, until M is closed: what was left behind for it is confirmed or cancelled at once. Every process
 * that begins or recovers transactions with it must serve it; if nobody does, a person is told, and it waits. */
int rota_tcc_serve_sized(struct rota_txns *m, const char *name, const struct rota_tcc *calls,
                         size_t size, void *arg);
static inline int rota_tcc_serve(struct rota_txns *m, const char *name,
                                 const struct rota_tcc *calls, void *arg)
{
    return rota_tcc_serve_sized(m, name, calls, sizeof(struct rota_tcc), arg);
}

/* T's next branch is the service NAME: it is written down in the journal with its payload (at most 32 KB), and then
 * tried. 0: it is reserved, and will be confirmed or cancelled as decided, whatever dies. Else T will be aborted, and
 * what may be reserved is cancelled: ROTA_ABORTED: the try said no, or the deadline has passed, or T was settled;
 * ROTA_UNREACHABLE: the journal did not answer, it was not tried; ROTA_UNKNOWN: the try failed. ROTA_UNSUPPORTED: nobody
 * serves NAME here, and T can go on without it. */
int rota_tcc_call(struct rota_txn *t, const char *name, const void *payload, size_t size);
/* The same without waiting: the try runs on one of the manager's threads. Several at once are written down together.
 * Commit and abort come when all have been called back. */
int rota_tcc_call_async(struct rota_txn *t, const char *name, const void *payload, size_t size,
                        rota_txn_fn *fn, void *arg);

/* A service over HTTP: three addresses to which BODY is posted, with the headers Rota-Txn, Rota-Branch, Rota-Op and
 * Rota-Deadline (docs/transactions/tcc.md). It answers 2xx: done; 409: refused, for good; 425: under way. After any other
 * answer, or none, it is asked again, except for a try, which counts as failed and is cancelled. All of this is kept in the
 * journal, at most 32 KB: no secret belongs there. */
struct rota_tcc_http {
    const char
        *resource; /* the service by its name in the file of resources; NULL: the URLs say where */
    /* http:// or https://, or a path below the service's own URL (/try). NULL: there is nothing to do */
    const char *try_url, *confirm_url, *cancel_url;
    const char *content_type; /* NULL: none */
    const void *body;         /* NULL: none */
    size_t size;
};

/* T's next branch is such a service, as with rota_tcc_call, with the same errors; ROTA_UNSUPPORTED: no such service is known
 * here, or there is no libcurl. ANSWER (ROOM bytes; NULL: none) gets the answer to the try, as a string, at most 64 KB. */
int rota_tcc_http_sized(struct rota_txn *t, const struct rota_tcc_http *what, size_t size,
                        char *answer, size_t room);
static inline int rota_tcc_http(struct rota_txn *t, const struct rota_tcc_http *what, char *answer,
                                size_t room)
{
    return rota_tcc_http_sized(t, what, sizeof(struct rota_tcc_http), answer, room);
}
/* The same without waiting; ANSWER must stay until FN is called. Several at once are written down together, and tried at
 * once. */
int rota_tcc_http_async_sized(struct rota_txn *t, const struct rota_tcc_http *what, size_t size,
                              char *answer, size_t room, rota_txn_fn *fn, void *arg);
static inline int rota_tcc_http_async(struct rota_txn *t, const struct rota_tcc_http *what,
                                      char *answer, size_t room, rota_txn_fn *fn, void *arg)
{
    return rota_tcc_http_async_sized(t, what, sizeof(struct rota_tcc_http), answer, room, fn, arg);
}

/* ---- Events: the outbox -------------------------------------------------------- */

/* An event is a row in the service's own database, written in the same transaction as the change it tells of: both are
 * there, or neither is. rota-relay(1) publishes it, with this id each time; a consumer takes it once, in the transaction of
 * its own work, and says that it is processed. docs/transactions/outbox.md has the same in plain SQL. */
struct rota_event {
    const char *topic; /* where it goes: 1 to 255 bytes */
    const char *key;   /* events of one key keep their order; NULL: no order */
    const char *type;  /* NULL: none */
    const void *payload;
    size_t size;
    const char *event_id; /* a UUID; NULL: the database draws one */
    const char
        *map; /* an event table of the application's, as rota-relay's --map; NULL: rota_event */
};

/* In the caller's open transaction: writes E. On error roll back; rota_txn_errmsg(NULL) has the line. Errors as those of
 * rota_fence_*; ROTA_INVALID also: that event_id exists already, or E is not an event, or its map is not a map. */
int rota_event_put_mysql_sized(struct st_mysql *my, const struct rota_event *e, size_t size);
int rota_event_put_postgres_sized(struct pg_conn *pg, const struct rota_event *e, size_t size);
int rota_event_put_sqlite_sized(struct sqlite3 *db, const struct rota_event *e, size_t size);
static inline int rota_event_put_mysql(struct st_mysql *my, const struct rota_event *e)
{
    return rota_event_put_mysql_sized(my, e, sizeof(struct rota_event));
}
static inline int rota_event_put_postgres(struct pg_conn *pg, const struct rota_event *e)
{
    return rota_event_put_postgres_sized(pg, e, sizeof(struct rota_event));
}
static inline int rota_event_put_sqlite(struct sqlite3 *db, const struct rota_event *e)
{
    return rota_event_put_sqlite_sized(db, e, sizeof(struct rota_event));
}

/* In a Rota transaction: writes E on the connection of T's branch at RESOURCE, which has begun (rota_xa_*), as a statement of
 * that branch: it is seen if T is committed, and otherwise never existed. Waits for the database, so not inside a callback; a
 * program that must not wait writes the row itself: it is an ordinary statement. T will be aborted after an error of the
 * database: those of rota_event_put_*, or ROTA_UNREACHABLE: the connection is lost. After these, nothing was done, and T can go
 * on: ROTA_INVALID: E is not an event, T has no branch there, or it is on loan; ROTA_UNSUPPORTED: it is a service, which writes
 * its events in its own database. rota_txn_errmsg of the manager has the line. */
int rota_event_put_sized(struct rota_txn *t, const char *resource, const struct rota_event *e,
                         size_t size);
static inline int rota_event_put(struct rota_txn *t, const char *resource,
                                 const struct rota_event *e)
{
    return rota_event_put_sized(t, resource, e, sizeof(struct rota_event));
}

/* Creates the tables rota_event, rota_event_trouble and rota_inbox (SQLite: and rota_relay) if they are missing. Outside of
 * a transaction (else ROTA_INVALID). ROTA_AUTH: docs/transactions/outbox.md has the statements for somebody who may run them. */
int rota_event_make_mysql(struct st_mysql *my);
int rota_event_make_postgres(struct pg_conn *pg);
int rota_event_make_sqlite(struct sqlite3 *db);

/* On the consumer's side, in its open transaction, before its work: notes in the table rota_inbox that CONSUMER (its name, 1 to
 * 128 bytes) takes the event EVENT_ID (1 to 64 bytes). 0: for the first time: do the work, commit, acknowledge the message.
 * ROTA_BUSY: it was taken before: do nothing, end the transaction, acknowledge. Waits for another consumer that has it and has
 * not committed, as long as the database waits for locks. ROTA_ABORTED: that was too long, or a deadlock: roll back, and let the
 * message come again, as after all other errors. */
int rota_event_take_mysql(struct st_mysql *my, const char *consumer, const char *event_id);
int rota_event_take_postgres(struct pg_conn *pg, const char *consumer, const char *event_id);
int rota_event_take_sqlite(struct sqlite3 *db, const char *consumer, const char *event_id);

/* For a consumer that can reach the table of events: says that the event EVENT_ID is processed. In the transaction of its
 * work, or after it; saying it twice is legal, and so is an event that is no longer there. MAP: as in struct rota_event. May
 * wait for the relay, which holds the row while it publishes it. */
int rota_event_processed_mysql(struct st_mysql *my, const char *map, const char *event_id);
int rota_event_processed_postgres(struct pg_conn *pg, const char *map, const char *event_id);
int rota_event_processed_sqlite(struct sqlite3 *db, const char *map, const char *event_id);

/* ---- Three-phase commit ------------------------------------------------------ */

/* For participants that the journal cannot reach, and that must be able to end by themselves:
 * docs/transactions/three-phase.md says what it buys and what it does not. Two-phase commit, with a journal that does not
 * die, is the better choice where you can have it. */

#define ROTA_PARTICIPANT_INSECURE 0x1u /* without token and TLS even where others reach it */

struct rota_participant_options { /* zero means the default for each field */
    const char *listen;           /* ADDRESS:PORT; 127.0.0.1:0, any port */
    /* Whoever asks must send its first line, and it is sent to whomever this one asks: all who take part have the same one. It
     * is sent only over https or to this machine. */
    const char *token_file;
    const char *cert_file, *key_file; /* https, PEM; the key may be in the same file */
    const char *ca_file; /* who vouches for the others' certificates; the system's authorities */
    uint32_t flags;      /* ROTA_PARTICIPANT_INSECURE */
    int32_t stop_fd;     /* it ends when this can be read, or its other end is closed; 0: never */
    rota_log_fn *log;    /* as attention, called on any of its threads: it must be quick */
    void *log_arg;
    rota_attention_fn
        *attention; /* the outcome is mixed, or something has failed ten times: once per cause */
    void *attention_arg;
    void (*listens)(void *arg, uint16_t port); /* once, before it serves */
    void *listens_arg;
    const char *resource; /* the name of its database: asked under another, it refuses; NULL: any */
    /* Host names by which it is asked, separated by commas. By its address and as localhost it always is; requests for
     * another Host are refused (421). */
    const char *allow_hosts;
};

/* Takes part in three-phase commit at the database URL (mysql:, postgres:), until it is stopped: promises in the table
 * rota_promise, which it creates, work that is prepared there, timers; coordinators and other participants ask at its
 * address. What is open when it ends goes on when somebody runs it again. Blocks. One per database: ROTA_LOST: another has
 * taken over. A process may run any number of them, at different databases. rota_txn_errmsg(NULL) has the line. */
int rota_participant_run_sized(const char *url, const struct rota_participant_options *opts,
                               size_t size);
static inline int rota_participant_run(const char *url, const struct rota_participant_options *opts)
{
    return rota_participant_run_sized(url, opts, sizeof(struct rota_participant_options));
}

struct rota_three; /* a coordinator: a manager's journal, and an address */

#define ROTA_THREE_INSECURE 0x1u /* as for a participant */

struct rota_three_options { /* zero means the default for each field; as for a participant */
    const char *listen;
    const char *address; /* how participants reach it, if that differs: http://HOST:PORT */
    const char *token_file, *cert_file, *key_file, *ca_file;
    uint32_t flags; /* ROTA_THREE_INSECURE */
    const char *allow_hosts;
};

/* Listens, and answers participants from M's journal: about its own transactions, and about those whose coordinator has
 * died, if they were told the same address. It finishes those, too. Close it before M. */
int rota_three_open_sized(struct rota_txns *m, const struct rota_three_options *opts, size_t size,
                          struct rota_three **out);
static inline int rota_three_open(struct rota_txns *m, const struct rota_three_options *opts,
                                  struct rota_three **out)
{
    return rota_three_open_sized(m, opts, sizeof(struct rota_three_options), out);
}
uint16_t rota_three_port(const struct rota_three *c);
/* What is not finished is left to whichever is opened at the same address, and to recovery. No call may be under way. */
void rota_three_close(struct rota_three *c);

struct rota_three_part {           /* who takes part; it does not grow */
    const char *resource;          /* the name of its database, by which recovery finds it */
    const char *address;           /* http://HOST:PORT, or https */
    const char *const *statements; /* its work, in their order; at most some 30 KB */
    size_t count;
};

/* A participant that is ready and reaches nobody who knows the outcome commits, as in the textbook, and the outcome may be
 * mixed. Without this flag, it waits. */
#define ROTA_THREE_COMMIT 0x1u

struct rota_three_work {  /* zero means the default for each field */
    uint32_t flags;       /* ROTA_THREE_COMMIT */
    uint32_t promise_ms;  /* 5000: T1, how long promises are kept */
    uint32_t ready_ms;    /* 15000: T2, how long one that is ready waits before it asks */
    uint32_t patience_ms; /* how long to wait for preparing; a little less than half of T2 */
    uint32_t
        wait_ms; /* 30000: how long to wait for participants after the decision; UINT32_MAX: for ever */
    uint32_t reserved;                        /* 0 */
    void (*begun)(void *arg, const char *id); /* before anybody is asked */
    void *begun_arg;
    /* It is decided, durable, and participants are being told: ROTA_ABORTED, or 0. ARG is begun_arg. */
    void (*decided)(void *arg, const char *id, int outcome);
    /* 0: no limit; at least 10. After this time it is aborted if it is not decided, and the call returns: at once, or,
     * if the journal does not answer, call_ms of the manager later. */
    uint32_t for_ms;
    uint32_t reserved2; /* 0 */
};

/* Commits the statements of 1 to 16 participants by three-phase commit. Any number of threads at once.
 *   0             committed, durable; all have done it, or will
 *   ROTA_ABORTED  nothing of it stays, or will: one said no, or did not answer in time. Except what a statement has
 *                 committed itself (COMMIT, in PostgreSQL): that is noticed and is a no, but nobody can take it back
 *   ROTA_MIXED    decided, and one has ended differently: a person has to mend it (the manager's attention, rota txn ls
 *                 --attention). It stays open in the journal until somebody says that it is mended (rota txn resolve --done)
 *   ROTA_UNKNOWN  not decided yet: the journal, or with ROTA_THREE_COMMIT a participant, does not answer. C keeps asking
 *                 while it is open; rota_txn_outcome tells how it ended.
 * ROTA_INVALID, ROTA_NOMEM: nothing was begun. rota_txn_errmsg of the manager has the line. If it takes more than a second,
 * the manager's log says, as ROTA_LOG_INFO, who has not answered yet. */
int rota_three_commit_sized(struct rota_three *c, const struct rota_three_part *parts, size_t count,
                            const struct rota_three_work *how, size_t size);
static inline int rota_three_commit(struct rota_three *c, const struct rota_three_part *parts,
                                    size_t count, const struct rota_three_work *how)
{
    return rota_three_commit_sized(c, parts, count, how, sizeof(struct rota_three_work));
}

#ifdef __cplusplus
}
#endif

#endif
