/* SPDX-License-Identifier: Apache-2.0 */
/* The contract between transactions and a journal: where decisions are kept.
 *
 * A journal is a const struct rt_journal_kind; an open one is a struct that begins with a struct rt_journal. Its user
 * hands it tagged operations and is told of their end through struct rt_journal_up.
 *
 * What a journal knows of a transaction:
 *
 *            REGISTER                DECIDE                    DONE               FORGET
 *   ABSENT ────────────▶ OPEN ─────────────────▶ DECIDED ──────────────▶ DONE ─────────────▶ EXPIRED
 *     │                  more of it: OPEN        COMMIT or ABORT,        kept for whoever asks
 *     │                                          forever
 *     ├────────── DECIDE ───────────────────────────▲
 *     └────────── FORGET: its birth is below the floor ───────────────────────────────────────▶ EXPIRED
 *
 * ABSENT and EXPIRED are both "no row": the floor tells them apart. A row is made only for an id whose birth is not
 * below the floor, and deleted only when it is DONE and below the floor; and the floor never sinks. So what was
 * forgotten cannot be decided anew, however late a request arrives. An existing row may be decided, wherever the floor
 * is.
 *
 * A **named** id (txn/id.h) has no birth: it is never below the floor, and never EXPIRED. Its row is deleted when it is
 * DONE and was decided before FORGET's before_ms. After that its name means a new transaction: whoever chooses names
 * must not reuse one for as long as outcomes are kept.
 *
 * A transaction is committed exactly when a row says (id, COMMIT). The first decision wins, and whoever decides after
 * that is told the one that stands. None of that depends on a clock, a claim or a lock.
 *
 * Rules for all journals
 *
 * - One thread at a time: the caller serialises open, submit, close and the loop's callbacks. No call waits for the
 *   network, for another client or for a disk (close may wait for the write under way); what cannot be done at once
 *   continues from the loop.
 * - An op is lent at submit and given back by `done`, exactly once, always from a turn of the loop. What it points to
 *   stays valid until then; its answers are valid during `done`. Inside `done`, submit is legal and close is not.
 * - Ops may overtake each other, except those on one id, which take effect in the order of submission.
 * - Ops submitted while others are under way share one flight, one transaction of the server (of the file), and one
 *   forced write: group commit. No op waits for company, except that a DONE may, for some ms.
 * - Every op may be done twice without harm. So after a lost connection a journal itself asks again, until the op's
 *   deadline, and so learns what the lost reply said. Errors are of two kinds. Definite: the op had no effect.
 *   ROTA_UNKNOWN: it may have had one, or may yet have; each op below says how to ask again. No journal turns a lost
 *   reply into any other error. An op not begun when its deadline passes ends with ROTA_UNREACHABLE (definite).
 * - When an op ends with 0, what it says is on stable storage, except for the lazy ops (DONE, CLAIM), which a crash of
 *   the server or the machine may undo as if they had never been asked.
 * - base.errmsg says in one line why an op failed; it is read inside `done`.
 * - A journal that cannot be trusted any more (a failed fsync, a damaged file) stops: ops under way end with
 *   ROTA_UNKNOWN, later ones with ROTA_PROTOCOL (definite), until it is closed and opened anew. It never retries a
 *   failed fsync.
 *
 * Times are milliseconds since 1970. */
#ifndef RT_JOURNAL_H
#define RT_JOURNAL_H

#include "engine/engine.h"
#include "txn/id.h"

struct rt_journal_op;
struct rt_journal_kind;

/* ---- The user's side ---------------------------------------------------- */

struct rt_journal_up {
    void (*done)(struct rt_journal_up *up, struct rt_journal_op *op);
    void (*log)(struct rt_journal_up *up, int level, const char *line); /* may be NULL */
};

struct rt_journal {
    struct rt_conn base; /* loop, times, errmsg, unsafe; `engine` is NULL, `up` the journal's own */
    const struct rt_journal_kind *kind;
    struct rt_journal_up *up;
};

/* ---- What is kept --------------------------------------------------------- */

enum rt_journal_stand { /* how a transaction stands, as shown in the picture above */
                        RT_JOURNAL_ABSENT, /* nothing is known of it */
                        RT_JOURNAL_OPEN,   /* branches are registered, nothing is decided */
                        RT_JOURNAL_COMMIT,
                        RT_JOURNAL_ABORT,
                        RT_JOURNAL_EXPIRED, /* no row, and its birth is below the floor: it can no longer be decided */
};

#define RT_JOURNAL_NAME_MAX 255 /* bytes of a resource's name; at least 1 */
#define RT_JOURNAL_OWN \
    "rota:" /* no resource's name begins so; rows there that do are notes (cli/notes.h) */
#define RT_JOURNAL_LABEL_MAX 255     /* bytes, of UTF-8; longer ones are cut: for people only */
#define RT_JOURNAL_URL_MAX 2048      /* bytes of a resource's redacted URL */
#define RT_JOURNAL_BRANCHES_MAX 1000 /* of one op */
#define RT_JOURNAL_BYTES_MAX 65536   /* of all branches of one op, as stored */
#define RT_JOURNAL_PAGE_MAX 256      /* of SCAN, FORGET, DONE */

/* Deadlines from here on are rota-txn serve's: this value plus the time it was begun. What to do with those rows, and
 * when, is in their plans (txn/serve): nobody else decides or finishes them on its own. (The year 4199) */
#define RT_JOURNAL_SERVED (INT64_C(1) << 46)

struct rt_journal_branch {
    uint32_t number; /* unique in its transaction: whoever adds it draws it */
    uint16_t mode;   /* core's: the journal only stores it */
    /* read: it came by REGISTER (it may also be in the decision, and is then reported twice) */
    bool registered;
    const char *resource; /* NUL-terminated */
    const void *payload;  /* what the mode needs to finish it; may be NULL with size 0 */
    size_t size;
};

struct rt_journal_record { /* of READ and SCAN; all valid only during the call */
    struct rt_txn_id id;
    enum rt_journal_stand stands; /* SCAN: never ABSENT, never EXPIRED */
    bool done;
    int64_t deadline_ms;
    int64_t decided_ms;  /* by the server's clock; 0: it is not decided */
    uint32_t registered; /* how many branches were registered */
    uint64_t claimer;    /* who claimed it last; 0: nobody */
    int64_t claimed_ms;  /* until when, by the server's clock */
    const char *label;   /* "": none */
    /* READ: those of the decision, then registered ones in any order. SCAN: those of the decision only; READ it to get
     * the others. */
    const struct rt_journal_branch *branches;
    size_t branch_count;
};

/* ---- Operations ----------------------------------------------------------- */

enum rt_journal_op_kind {
    /* Which journal this is: number, floor, now. Makes the tables (the file, the keys) if there are none, as every op
     * does. Asked again: harmless. */
    RT_JOURNAL_IDENTIFY,
    /* Adds branches, durably, before anything is done at their resources: branches that nobody would find otherwise
     * (tcc, at, those of processes that joined). With none it is a begin record. `stands` OPEN: they are there. COMMIT,
     * ABORT or EXPIRED: too late, nothing was added. The deadline and label of an id's first REGISTER stay. Asked
     * again: a branch whose number is already there is left as it is, so the answer is the same. */
    RT_JOURNAL_REGISTER,
    /* Insert-if-absent of (id, COMMIT + branches, or ABORT). `stands` is what stands from then on: what was asked, or
     * what was there first, or EXPIRED. OPEN: nothing was decided, for it was a COMMIT and more branches are registered
     * than `registered`, which is updated; the asker did not know all of them, so it READs and decides again. ABORT
     * needs no count. Asked again: tells what stands. A request that arrives late (the asker was told ROTA_UNKNOWN and
     * has gone) decides only if nobody else has, and never below the floor: to end the doubt, decide ABORT and see what
     * stands. */
    RT_JOURNAL_DECIDE,
    /* Calls each() with one record, also for ABSENT and EXPIRED. Asked again: harmless. */
    RT_JOURNAL_READ,
    /* These ids are finished at all their participants; lazy. Those without a row or a decision are left alone. Asked
     * again: harmless. */
    RT_JOURNAL_DONE,
    /* Raises the floor (never lowers it), on stable storage; then deletes up to a page of rows that are DONE and below
     * it, and of named ones that are DONE and were decided before it. `more`: there may be others; ask again. What is
     * not DONE stays, however old. Asked again: harmless.
     * The floor rises to `before_ms`, but no higher than `keep_ms` before what the journal itself knows of the time,
     * whatever the asker's clock says: so nobody whose clock is ahead can forbid what others begin. A server that has a
     * clock knows the time by that; the others (the file, etcd) by the newest birth among their rows, and by our clock
     * if that is earlier; without a row their floor stays where it is. Named ones, which no floor forbids, go by our
     * clock there. */
    RT_JOURNAL_FORGET,
    /* Calls each() for up to `limit` records that are not DONE and whose deadline is at or before `before_ms`,
     * ordered by (deadline, id), after the cursor; all zero: from the beginning. The cursor moves past the last one
     * reported. `more`: the page was full. Whatever comes and goes meanwhile, what stays is reported. Asked again after
     * an error: from the old cursor; what each() was told before that does not count.
     * `all`: includes those that are DONE, ordered by id, after the cursor's id; `before_ms` and the cursor's deadline
     * do not count. */
    RT_JOURNAL_SCAN,
    /* For recoveries that would do the same work: `who` (not 0) has this one for `for_ms` from now, by the server's
     * clock; lazy. ROTA_BUSY: another has it, see `who` and `until_ms`; ROTA_LOST: no such row, or it is DONE. Its
     * holder may ask again to extend it. for_ms 0 gives it back. No safety rests on it. */
    RT_JOURNAL_CLAIM,
    /* A resource is in use from now on: its name, and its URL without secrets, so that recovery elsewhere knows what it
     * lacks. The last URL of a name counts. Asked again: harmless. */
    RT_JOURNAL_RESOURCE,
    RT_JOURNAL_RESOURCES, /* calls each() for all of them, by name. Asked again: as with SCAN */
    RT_JOURNAL_OPS,
};

struct rt_journal_op {
    enum rt_journal_op_kind kind;
    int err;                    /* answered */
    int64_t deadline;           /* CLOCK_BOOTTIME, ns; 0: call_ms from now; INT64_MAX: none */
    void *user;                 /* the submitter's; journals leave it alone */
    struct rt_journal_op *next; /* the journal's while it has the op, else the submitter's */
    void *work;                 /* the same */
    union {
        struct {
            uint32_t number; /* answered, not 0: the ids of this journal begin with it */
            int64_t floor_ms;
            /* the server's clock, a moment ago; ours where it has none to ask (etcd) */
            int64_t now_ms;
            char layout[16];
        } identify;
        struct {
            struct rt_txn_id id;
            int64_t deadline_ms;
            const char *label; /* NULL: none */
            const struct rt_journal_branch *branches;
            size_t count;
            enum rt_journal_stand stands; /* answered */
            int64_t floor_ms;             /* answered with EXPIRED */
        } reg;
        struct {
            struct rt_txn_id id;
            enum rt_journal_stand decision; /* COMMIT or ABORT */
            int64_t deadline_ms;            /* counts if there is no row yet */
            const char *label;
            const struct rt_journal_branch *branches; /* COMMIT: all of them. ABORT: may be none */
            size_t count;
            uint32_t registered; /* how many the asker knows of; answered: how many there are */
            enum rt_journal_stand stands; /* answered */
            int64_t floor_ms;             /* answered with EXPIRED */
        } decide;
        struct {
            struct rt_txn_id id;
            void (*each)(void *arg, const struct rt_journal_record *record);
            void *arg;
        } read;
        struct {
            const struct rt_txn_id *ids;
            size_t count; /* 1 to RT_JOURNAL_PAGE_MAX */
        } finish;
        struct {
            int64_t
                before_ms; /* RT_TXN_BIRTH_MAX: only keep_ms counts; answered: no later than the time less that */
            int64_t keep_ms;
            int64_t floor_ms; /* answered: the one that stands now */
            uint32_t count;   /* answered: rows deleted */
            bool more;
        } forget;
        struct {
            int64_t before_ms;
            uint32_t limit;            /* 1 to RT_JOURNAL_PAGE_MAX */
            int64_t after_deadline_ms; /* the cursor */
            struct rt_txn_id after;
            bool all;
            bool more; /* answered */
            void (*each)(void *arg, const struct rt_journal_record *record);
            void *arg;
        } scan;
        struct {
            struct rt_txn_id id;
            uint64_t who; /* answered with ROTA_BUSY */
            uint32_t for_ms;
            int64_t until_ms; /* answered */
        } claim;
        struct {
            const char *name, *url;
        } resource;
        struct {
            void (*each)(void *arg, const char *name, const char *url, int64_t seen_ms);
            void *arg;
        } resources;
    };
};

/* Errors of all ops. Definite: ROTA_INVALID (something is wrong with the op: an id of another journal, too many
 * branches, an empty name), ROTA_UNREACHABLE (no answer by the deadline, and nothing was sent; no space), ROTA_AUTH,
 * ROTA_UNSUPPORTED (a layout of another version; no tables, and no right to make them: errmsg says who can),
 * ROTA_PROTOCOL, ROTA_NOMEM, ROTA_CANCELED (it was closed). And ROTA_UNKNOWN, with which ops that only read never
 * end. */

/* ---- Journals --------------------------------------------------------------- */

struct rt_journal_kind {
    const char *name;           /* "file", for messages */
    const char *const *schemes; /* NULL-terminated, as in the URL */
    const char *const *params;  /* NULL-terminated: URL parameters beyond the common ones */
    size_t size;                /* whole struct, which begins with struct rt_journal */
    /* What it makes, for people who have the right to: statements without semicolons, NULL-terminated. NULL: nothing
     * that needs a special right. */
    const char *const *ddl;

    /* Prepares it; J is zeroed except for struct rt_journal. Does not wait for the network. Checks the URL, and
     * whatever can be checked at once (a folder, a file and its layout). On failure nothing is left over, and errmsg
     * says why. */
    int (*open)(struct rt_journal *j, const struct rt_url *url);
    /* Frees everything; ops still lent are dropped without done. What is under way may still take effect. */
    void (*close)(struct rt_journal *j);
    void (*submit)(struct rt_journal *j,
                   struct rt_journal_op *op); /* never fails: errors come by done */
    /* In a child of fork(): lets go of what belongs to the parent, without a word to any server. */
    void (*forked)(struct rt_journal *j);
};

/* The kind for URL's scheme; NULL: no kind has it, or it was not built in. */
const struct rt_journal_kind *rt_journal_find(const char *scheme);

/* Opens the journal that URL names: the part common to all kinds. LOOP, UP and URL's text remain the caller's; call_ms
 * 0: 5 s.
 * *OUT is the journal, or unchanged: then ERRMSG says in one line why not. */
int rt_journal_open(struct rt_journal **out, struct rt_loop *loop, struct rt_journal_up *up,
                    const char *url, uint32_t call_ms, char *errmsg, size_t size);
void rt_journal_close(struct rt_journal *j); /* NULL is legal */
void rt_journal_submit(struct rt_journal *j, struct rt_journal_op *op);

#endif
