/* SPDX-License-Identifier: Apache-2.0 */
/* A manager from the inside: one mutex, one loop, one keeper thread that turns it.
 *
 * A caller takes the mutex, changes a transaction, hands it to the keeper (rt_txns_due) and waits. Only the keeper asks
 * journals and participants: the journal on its loop, a connection of the application's by watching its descriptor, a
 * resource that needs a connection of our own through its worker (resource.h). The keeper polls and runs callbacks
 * without the mutex.
 *
 *   call ──▶ due ──▶ drive.c: rt_txn_todo ─┬─▶ journal ────────▶ done ─┐
 *                       ▲                  ├─▶ own connection ─▶ ready ─┼─▶ rt_txn_answered
 *                       │                  └─▶ worker's errand ▶ back ──┘        │
 *                       └────────────────────────────────────────────────────────┘ news: whoever waits is told
 *
 * A connection of the application's is touched only between vote, commit or abort and the answer to it: it is lent.
 *
 * The keeper holds the mutex while it drives. So a thread that begins a transaction, adds a branch that begins at once,
 * or ends the transaction does without it: what it needs has a lock of its own, `front`, held for a few instructions
 * only. Until it is handed over, the transaction belongs to its thread alone; others may look at its branches with
 * `front`. One that the keeper deals with earlier (`kept`: joined, with services, with branches that begin without
 * waiting) uses the mutex. */
#ifndef RT_INSIDE_H
#define RT_INSIDE_H

#include "net/loop.h"
#include "txn/core/sweep.h"
#include "txn/core/txn.h"
#include "txn/manager/manager.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#define RT_TXN_LINE 256       /* bytes of a message */
#define RT_TIMEOUT_LEAST 1000 /* ms */
#define RT_TIMEOUT_MOST (24 * 3600 * 1000)
#define RT_TXN_UNKNOWN_RESOURCE \
    (UINT32_MAX - 1) /* its URL is not known here; its own connection finishes it */

enum rt_branch_mode { /* of rt_journal_branch */
                      RT_XA_MYSQL = 1,
                      RT_XA_POSTGRES = 2,
                      RT_TCC_HTTP = 3,
                      RT_TCC_CALL = 4,
                      RT_THREE_MYSQL = 5,
                      RT_THREE_POSTGRES = 6,
                      RT_SERVE = 7,
                      RT_VOUCHER = 8, /* no branch: numbers of services whose tries said yes */
};

/* Whoever asks the journal or a worker: `user` of an op or an errand points to it. Told on the keeper's thread, with
 * the mutex. */
struct rt_asker {
    struct rota_txns *m;
    void (*told)(struct rt_asker *a, struct rt_journal_op *op);
    void (*back)(struct rt_asker *a, struct rt_errand *e);
};

/* Whoever waits for an answer: on the stack of the call, or with a function. */
struct rt_caller {
    sem_t *answered; /* NULL: fn */
    rota_txn_fn *fn;
    void *arg;
    int err;
    char line[RT_TXN_LINE];
    struct rt_caller *next;
    sem_t sem;
    bool mine; /* with a function: freed after the call */
};

#define RT_IDS 4096  /* chains, by the random part of an id */
#define RT_SEATS 256 /* chains, by the address of the connection */

struct rt_notice { /* for the user's attention function, which is called without the mutex */
    struct rt_notice *next;
    char id[RT_TXN_ID_TEXT]; /* "": of no transaction */
    char resource[RT_JOURNAL_NAME_MAX + 1];
    char line[RT_TXN_LINE];
};

struct rt_seat { /* a connection of the application's that is attached: seat.c */
    struct rt_seat *next;
    struct rt_party *party;
    uint64_t cookie;              /* of its socket: another means another connection */
    bool busy;                    /* a branch is on it */
    struct rota_branch *branch;   /* ... this, while it is lent: lent.c */
    const struct rt_known *known; /* the resource of its last branch */
    int polled;                   /* the descriptor that the keeper's epoll knows; -1: none */
    uint32_t armed;               /* the events awaited there; 0: none */
    bool gone;                    /* out of the table: freed when it is no longer busy */
};

struct rt_bond { /* of a branch at a database */
    struct rt_part part;
    struct rt_party_op op; /* on the seat */
    struct rt_errand errand;
    uint8_t payload[RT_PLACE_BYTES]; /* where its marker is, as the journal keeps it */
    size_t payload_size;
    char *last;        /* part.last, ours */
    uint64_t *changed; /* where the caller wants part.changed; NULL: nowhere */
};

/* Many are open at a time, so it only has what all of them need; what some need is allocated for those. */
struct rota_branch {
    struct rt_asker asker; /* first */
    struct rota_txn *txn;
    uint32_t index; /* of its rt_branch */
    enum rt_branch_mode mode;
    struct rt_bond *bond;     /* NULL: a service */
    struct rt_seat *seat;     /* NULL: not ours, or given back */
    bool added;               /* its transaction has it */
    struct rt_caller *begins; /* xa.c: the asynchronous caller that it answers once begun */
    int64_t begin_by;         /* it must be registered by then */
    struct rota_branch **out, *next_begin;
    uint32_t op_seq;     /* of the bond's op; 0: none is under way */
    uint32_t errand_seq; /* the same for its errand */
    struct rt_resource *resource;
    uint32_t number; /* a service: as in its rt_branch */
    void *bytes;     /* ... its payload */
    size_t bytes_size;
    uint32_t ask_seq; /* ... of the call under way; 0: none is */
    bool waits;       /* ... its branch is not known to be registered */
    bool by_caller;   /* ... its try runs in its caller's thread */
    char *answer; /* where the body of its try's answer goes while a caller waits; NULL: nowhere */
    size_t answer_room;
    char *name; /* of the resource */
    char *line; /* the last failure its participant reported: rt_entry_say */
};

enum rt_txn_life {
    RT_LIFE_HELD,  /* the application has it, and its connections */
    RT_LIFE_LENT,  /* vote, commit or abort is under way */
    RT_LIFE_ALONE, /* nobody waits for it any more */
};

struct rota_txn {
    struct rt_txn core; /* first */
    struct rota_txns *m;
    struct rota_txn *next, *prev; /* all of m */
    struct rota_txn *next_same;   /* of m->by_id */
    bool named;                   /* it is in by_id */
    struct rota_txn *next_born, *next_handed;
    bool kept;  /* the keeper knows of it while its application holds it */
    int ending; /* handed: how it is to end */
    struct rt_caller *handed_by;
    struct rota_txn *next_due;
    bool due;
    enum rt_txn_life life;
    struct rt_timer_call timer;
    uint32_t last_number;          /* of a branch of ours */
    struct rota_branch *begins;    /* branches that begin without a waiting caller */
    uint32_t pending;              /* tries that somebody waits for */
    uint32_t voucher;              /* our voucher's number; 0: not drawn yet */
    struct rota_branch **branches; /* as core.branches */
    struct rt_caller *call;
    int64_t
        free_by; /* told: what lent connections have not finished by then is left to the keeper */
    struct rt_asker asker;
    struct rt_journal_op op;
    uint32_t op_seq; /* 0: none is under way */
    struct rt_journal_branch *list;
    struct { /* READ: what stands */
        enum rt_journal_stand stands;
        uint32_t registered;
        bool done;
    } found;
    struct rt_txn_part *parts;
    uint32_t *vouched;          /* VOUCH: numbers, as the journal keeps them */
    uint32_t part_count, fresh; /* fresh: branches after core.count, told by READ */
    bool no_memory;             /* READ: none for its parts */
    bool aborts;                /* its caller wants ABORT: ABORTED is success */
    bool votes;                 /* ... a vote: the connections stay lent after it */
    bool abandoned;             /* by rota_txns_close: nobody wants it any more */
    uint32_t flags;             /* ROTA_TXN_* of its options */
    char *label;
    char text[RT_NAME_TICKET];
    char *line; /* why it will not be committed: rt_entry_say; NULL: nothing is known against it */
    char *refusal; /* what the journal said that does not take it: rt_entry_say; NULL: nothing */
};

struct rt_http_calls;
struct rt_pool;
struct rt_served;
struct rt_service_call;
struct rt_recovery;
struct rt_known;
struct rt_finish;
struct rt_sweeper;

struct rota_txns {
    pthread_mutex_t mu;    /* guards all below that ever changes */
    pthread_mutex_t front; /* taken alone or with `mu` held; no lock is taken under it */
    struct rota_txn *born; /* begun, not in `txns` yet. With front, like the next four */
    struct rota_txn *handed, **handed_tail; /* to be committed or aborted */
    uint32_t places;                        /* timers reserved for those that begin */
    struct rt_loop loop;
    struct rt_journal_up up;
    struct rt_journal *journal;
    struct rt_resources *resources;
    uint64_t serial;
    uint32_t number;
    int64_t floor_ms;
    struct rota_txns_options opts;
    uint32_t fork_generation;
    pthread_t keeper;
    bool running, stop;
    bool closing; /* with front, too */
    bool
        left; /* the keeper has told all it had to tell, and takes no more requests. With front, too */
    struct rota_txn *txns, *due, **due_tail;
    struct rota_txn *aside;               /* abandoned, and over */
    struct rota_txn *by_id[RT_IDS];       /* begun or adopted here */
    struct rt_journal_op *asks;           /* of rt_txns_ask, to be submitted */
    struct rt_errand *back;               /* answered errands, not yet looked at */
    struct rt_service_call *service_back; /* the same for services */
    struct rt_served *served;
    struct rt_pool *pool;
    struct rt_http_calls *http;
    uint32_t asked_calls; /* calls of services under way */
    uint32_t trying;      /* callers running a try */
    pthread_cond_t tried; /* `trying` went down */
    struct rt_notice *notices;
    struct rt_caller *answered;      /* to be told by the keeper, without the mutex */
    struct rt_caller *asking;        /* wait for the journal: rt_txns_ask */
    struct rt_seat *seats[RT_SEATS]; /* with front */
    uint32_t seat_count;             /* with front */
    int lent_fd;                     /* epoll: connections that are lent */
    struct rt_watch lent_watch;
    atomic_bool asleep; /* the keeper polls, and nobody has woken it yet */
    uint32_t errands;   /* under way */
    struct rt_recovery *recovery;
    struct rt_known *known;
    struct rt_sweeper *sweeper;
    struct rt_finish *finish, *finishing; /* DONE: being gathered, and asked */
    struct rt_timer_call finish_timer;
    struct rt_timer_call timer; /* closing: when its time is over */
    struct rt_caller *closer;   /* waits until nothing of ours is left */
    int64_t close_by;
    struct rota_txns *next; /* all of this process: fork.c */
};

/* ---- errors.c ---------------------------------------------------------------- */

/* Sets the message of the calling thread's call on M; M NULL: rota_txns_open. Returns ERR. */
__attribute__((format(printf, 3, 4))) int rt_txns_fail(const struct rota_txns *m, int err,
                                                       const char *format, ...);
/* The same for the manager with that SERIAL, which may be gone. */
int rt_txns_fail_late(uint64_t serial, int err, const char *line);
__attribute__((format(printf, 3, 4))) void rt_txns_log(struct rota_txns *m, int level,
                                                       const char *format, ...);

/* ---- fork.c ------------------------------------------------------------------- */

void rt_txns_fork_add(struct rota_txns *m);
void rt_txns_fork_remove(struct rota_txns *m);
bool rt_txns_forked(const struct rota_txns *m);
/* 0, or why a call that waits cannot begin: FORKED, INVALID inside a callback. */
int rt_txns_enter(struct rota_txns *m, const char *call);

/* ---- keeper.c ----------------------------------------------------------------- */

int rt_txns_start(struct rota_txns *m);
/* From any thread, with the mutex: T is driven in the keeper's next round. */
void rt_txns_due(struct rota_txn *t);
void rt_txns_wake(struct rota_txns *m);         /* from any thread */
bool rt_txns_inside(const struct rota_txns *m); /* the calling thread is M's keeper */
/* CALL is over with ERR: its waiter wakes soon, or its function is called. By the keeper, with the mutex. */
void rt_txns_answer(struct rota_txns *m, struct rt_caller *call, int err, const char *line);
/* A person is needed: logged, and told soon. ID NULL: it concerns no transaction. With the mutex. */
void rt_txns_notice(struct rota_txns *m, const struct rt_txn_id *id, const char *resource,
                    const char *line);
/* Sends R the errand E, whose user is an asker: its back() is called. With the mutex. Not 0: it was not taken. */
int rt_txns_send(struct rota_txns *m, struct rt_resource *r, struct rt_errand *e);
/* Waits for CALL, of the manager with that SERIAL. */
int rt_txns_await(uint64_t serial, struct rt_caller *call);
/* The same; enters with the mutex, returns without it. */
int rt_txns_wait(struct rota_txns *m, struct rt_caller *call);

/* ---- calls.c -------------------------------------------------------------------- */

int64_t rt_txns_wall_ms(void);
/* Fills OUT, of ROOM bytes, from a program's options, whose struct may be older or newer (NULL: zero). 0 or
 * ROTA_INVALID. */
int rt_txns_options(const struct rota_txns *m, void *out, size_t room, const void *opts,
                    size_t size);
void rt_txns_random(void *out, size_t size);
void rt_caller_waits(struct rt_caller *call);                /* ... in rt_txns_wait */
struct rt_caller *rt_caller_new(rota_txn_fn *fn, void *arg); /* NULL: no memory */
void rt_caller_free(struct rt_caller *call);
/* Moves what has begun and been handed over since into the manager's lists. With the mutex. */
void rt_calls_take(struct rota_txns *m);

/* ---- entry.c ------------------------------------------------------------- */

/* A transaction that is in no list yet, without the mutex. NULL: no memory. */
struct rota_txn *rt_entry_make(struct rota_txns *m);
void rt_entry_unmake(struct rota_txn *t); /* undoes that */
void rt_entry_link(struct rota_txn *t);
/* Both at once. With the mutex. */
struct rota_txn *rt_entry_new(struct rota_txns *m);
void rt_entry_free(struct rota_txn *t); /* its connections were given back before */
/* The same for an abandoned one; but its memory stays until rt_entry_fini, for the application may use it until its
 * last function has been called. */
void rt_entry_lay_aside(struct rota_txn *t);
void rt_entry_fini(struct rota_txns *m);
/* T has its id now, and can be found by it; not for a joined one. */
void rt_entry_named(struct rota_txn *t);
/* Finds one begun or adopted here. A joined one ends only its own branches, so recovery may be needed beside it. */
struct rota_txn *rt_entry_find(struct rota_txns *m, const struct rt_txn_id *id);
/* Makes room for MORE branches: 0 or NOMEM. */
int rt_entry_room(struct rota_txn *t, uint32_t more);
/* A branch that is not on a lent connection, at the end of core.branches: filled in after rt_txn_found. NAME is copied.
 * NULL: no memory. */
struct rota_branch *rt_entry_branch(struct rota_txn *t, const char *name, enum rt_branch_mode mode);
void rt_entry_free_branch(struct rota_branch *b);
/* Sets *LINE, of a transaction or a branch; without memory it says so. Never NULL afterwards. */
__attribute__((format(printf, 2, 3))) void rt_entry_say(char **line, const char *format, ...);
/* The number of T's next branch. In a joined transaction it is drawn at random: others join, too. */
uint32_t rt_entry_number(struct rota_txn *t);

/* ---- drive.c --------------------------------------------------------------------- */

/* Does everything that T needs now: the keeper only. T may be freed. */
void rt_drive_go(struct rota_txn *t);
void rt_drive_back(struct rt_asker *a, struct rt_errand *e); /* of a rota_branch */
/* Tells the core that SEQ of B was answered. */
void rt_drive_answer(struct rota_branch *b, uint32_t seq, enum rt_reply reply);
struct rt_branch *rt_drive_core(struct rota_branch *b);
int64_t rt_drive_soon(const struct rota_txn *t); /* call_ms from now */
/* Notes why T will not be committed: the first reason counts. B: whose reason (NULL: the journal's). */
void rt_drive_blame(struct rota_txn *t, const struct rota_branch *b, const char *line);
/* Why its Ith branch cannot be finished, and what a person can do. */
const char *rt_drive_stuck(const struct rota_txn *t, uint32_t i);
/* T no longer belongs to its application: it is aborted, and nobody waits for it. With the mutex. */
void rt_drive_abandon(struct rota_txn *t);
/* The keeper no longer runs: lent connections are cut, and nothing is watched. Turn the loop before T is freed. */
void rt_drive_drop(struct rota_txn *t);
/* The keeper goes: T's connections are given back, and whoever waits is told what is known. */
void rt_drive_leave(struct rota_txn *t);

/* ---- lent.c ---------------------------------------------------------------------- */

/* Asks WHAT on B's own connection, with SEQ. When it ends, rt_xa_begun is called if B is beginning; else the core is
 * told. */
void rt_lent_ask(struct rota_branch *b, enum rt_party_what what, uint32_t seq);
/* Ends its op if its time is over; returns when that will be, or RT_NEVER. B may be gone. */
int64_t rt_lent_clock(struct rota_branch *b);
/* Nobody watches it any more. */
void rt_lent_unwatch(struct rota_branch *b);
/* Starts what watches them: 0 or ROTA_*. Stop it before the loop's last turns. */
int rt_lent_start(struct rota_txns *m);
void rt_lent_stop(struct rota_txns *m);
/* The connection is its owner's again. */
void rt_lent_give_back(struct rota_branch *b);

/* ---- decision.c ------------------------------------------------------------------ */

void rt_decision_ask(struct rota_txn *t, const struct rt_txn_todo *todo); /* not a branch's */
void rt_decision_told(struct rt_asker *a, struct rt_journal_op *op);      /* of a rota_txn */
void rt_decision_finished(struct rota_txn *t, int err);                   /* how T's DONE ended */

/* ---- finish.c -------------------------------------------------------------------- */

/* T's DONE leaves soon, together with others; then rt_decision_finished. False: no memory, nothing is done. */
bool rt_finish_add(struct rota_txn *t);
void rt_finish_send(struct rota_txns *m); /* what was gathered leaves now */
/* After the journal was closed. */
void rt_finish_fini(struct rota_txns *m);

/* ---- xa.c ------------------------------------------------------------------------ */

/* B begins on the keeper's thread: takes the next step if nothing is under way; an op of it has ended. B may be
 * gone. */
void rt_xa_go_on(struct rota_branch *b);
void rt_xa_begun(struct rota_branch *b);
/* A branch begins on CONN, an application's connection of KIND: the core of rota_xa_*. */
int rt_xa_begin(struct rota_txn *t, const char *resource, enum rt_branch_mode mode,
                const struct rt_party_kind *kind, void *conn, struct rota_branch **out);

/* ---- seat.c ---------------------------------------------------------------------- */

/* The seat of CONN, busy from now on; a new one is not attached yet. NULL: *ERR and LINE say why. With the mutex. */
struct rt_seat *rt_seat_take(struct rota_txns *m, const struct rt_party_kind *kind, void *conn,
                             int *err, char *line);
void rt_seat_leave(struct rota_txns *m, struct rt_seat *s);
/* Cuts the connection, unless it has become another one meanwhile. */
void rt_seat_cut(struct rt_seat *s);
void rt_seat_fini(struct rota_txns *m);

/* ---- known.c ---------------------------------------------------------------------- */

/* A branch uses NAME, known here as R (NULL: not known). With the mutex. NULL: no memory; its next use tells the
 * journal. */
const struct rt_known *rt_known_use(struct rota_txns *m, const char *name, struct rt_resource *r,
                                    enum rt_branch_mode mode);
/* NAME has another URL: its next use tells the journal. With the mutex. */
void rt_known_changed(struct rota_txns *m, const char *name);
/* K is NAME's, and there is nothing to tell the journal. Without the mutex; K may be NULL. */
bool rt_known_is(const struct rt_known *k, const char *name);
void rt_known_fini(struct rota_txns *m); /* the journal is closed */

/* ---- outcome.c -------------------------------------------------------------------- */

/* TEXT is 32 hexadecimal digits, or as rota_txn_id gives it: then *DEADLINE_MS is its deadline, else 0. */
int rt_txns_read_id(struct rota_txns *m, const char *text, struct rt_txn_id *id,
                    int64_t *deadline_ms);

/* ---- recovery.c ------------------------------------------------------------------- */

/* With ROTA_TXN_RECOVER. 0 or NOMEM. */
int rt_recovery_start(struct rota_txns *m);
void rt_recovery_soon(struct rota_txns *m); /* the next pass begins now. With the mutex */
void rt_recovery_fini(struct rota_txns *m); /* nothing is under way any more */

/* ---- reload.c ---------------------------------------------------------------------- */

/* The resource NAME is known now, or has another URL: what waits for it is asked at once. */
void rt_txns_moved(struct rota_txns *m, const char *name);

/* ---- sweeper.c --------------------------------------------------------------------- */

/* The same; with the mutex. */
int rt_sweeper_start(struct rota_txns *m);
void rt_sweeper_fini(struct rota_txns *m);

#endif
