/* SPDX-License-Identifier: Apache-2.0 */
/* A client from the inside: one mutex, one loop, one desk, whoever waits, and the keeper.
 *
 * Every entry (a call, a turn of the loop) takes the mutex with rt_client_lock, does its part and
 * lets go with rt_client_leave, which sends and tells what follows from it and then, without the
 * mutex, wakes whomever it has to.
 *
 * Who turns the loop: a call that waits for the engine, if nobody else does ("driver"); else the
 * keeper. See drive.c. */
#ifndef RT_CLIENT_H
#define RT_CLIENT_H

#include "client/config.h"
#include "client/dispatch.h"
#include "engine/name.h"

#include <pthread.h>
#include <stdatomic.h>

#define RT_ERRMSG_SIZE 256

/* ---- Waiting calls ------------------------------------------------------ */

enum rt_wait_word {
    RT_WAIT_AWAKE,   /* runs or spins */
    RT_WAIT_ASLEEP,  /* in futex_wait on its word */
    RT_WAIT_POLLING, /* drives: in poll on the loop's descriptor */
    RT_WAIT_LOOK,    /* told to take the mutex and look */
    RT_WAIT_NEXT,    /* told that it is the next in its local line: spin */
    RT_WAIT_DONE,    /* decided; it is out of the list and its owner needs no mutex to go on */
};

struct rt_waiter {         /* on the stack of the waiting call */
    _Atomic uint32_t word; /* enum rt_wait_word */
    uint32_t epoch;        /* of rota_interrupt, when the call began */
    struct rt_waiter *next, *prev;
    struct rt_ask *ask; /* what it waits for; NULL: an operation */
    /* Ends the waiting early with ERR: done follows, now or soon. NULL: cannot be ended, or was. */
    void (*cancel)(struct rota *r, struct rt_waiter *w, int err);
    void *user;        /* for cancel */
    int64_t until;     /* its answer: what it was given is certainly ours until then */
    int64_t passed_at; /* metrics: when the hold it waited for was passed on to it; 0: it was not */
    int err;
    bool listed;
    bool set;                    /* for several asks: rt_set_answered */
    char errmsg[RT_ERRMSG_SIZE]; /* "" unless the engine had something to say */
};

/* Call it between rt_client_lock and whatever may decide W. */
void rt_wait_init(struct rota *r, struct rt_waiter *w, struct rt_ask *ask,
                  void (*cancel)(struct rota *r, struct rt_waiter *w, int err));

/* Waits until W is done; enters with the mutex, returns without it. */
void rt_wait(struct rota *r, struct rt_waiter *w);

/* W is decided; the mutex is held. */
void rt_wait_done(struct rota *r, struct rt_waiter *w, int err);

/* Whether waiting awake can pay: there is more than one processor. */
bool rt_wait_spins(void);

/* Tells W to look again. */
void rt_wait_look(struct rota *r, struct rt_waiter *w, enum rt_wait_word word);

/* ---- Callbacks ---------------------------------------------------------- */

struct rt_callback {
    struct rt_callback *next;
    bool queued;
    /* Releases the mutex while the user's function runs, and takes it again. */
    void (*run)(struct rota *r, struct rt_callback *cb);
};

/* Queues CB, unless it is queued, for the keeper or rota_process. */
void rt_callback_queue(struct rota *r, struct rt_callback *cb);
void rt_callback_drop(struct rota *r,
                      struct rt_callback *cb); /* out of the queue, if it is in it */
/* Runs those queued now, and those they queue, unless another thread does. The mutex is held. */
void rt_callback_run_all(struct rota *r);
/* Around a user's function: lets go of the mutex, and takes it again. */
const struct rota *rt_callback_begin(struct rota *r);
void rt_callback_end(struct rota *r, const struct rota *before);
/* Whether the calling thread is inside a callback of R. */
bool rt_callback_inside(const struct rota *r);
/* Whether this is inside a quick one: what R sends then waits for the end of the row (callback.c). With the mutex. */
bool rt_callback_sends_later(struct rota *r);

/* ---- Locks -------------------------------------------------------------- */

#define RT_PENDING_AWAY 0x1u
#define RT_PENDING_BACK 0x2u
#define RT_PENDING_GRANT 0x4u
#define RT_PENDING_LOST 0x8u
#define RT_PENDING_RELEASED 0x10u

/* What a lock may need beyond the plain; there only while it is needed. */
struct rt_more {
    struct rt_terms terms; /* first: ask.terms points here */
    struct rt_more *next_free;
    struct rt_callback callback;
    rota_lost_fn *on_lost;
    void *lost_arg; /* of on_wait too */
    rota_wait_fn *on_wait;
    rota_grant_fn *on_grant;
    rota_done_fn *on_released;
    void *arg;   /* of on_grant, then of on_released */
    uint64_t id; /* for rota_cancel; 0: none */
    struct rt_hunter *hunter;
    char *errmsg; /* what the engine said about a failure; NULL: nothing, or no memory for it */
    int64_t asked_at, granted_at, passed_at; /* for metrics.c; 0: not noted */
    uint8_t pending;                         /* RT_PENDING_*: callbacks to come */
    bool running;    /* a callback runs with this lock: not to be freed under it */
    bool doomed;     /* free it when the callback ends */
    bool releases;   /* let go of it when the callback ends: another thread released it meanwhile */
    bool loss_noted; /* for metrics.c */
    bool unsafe;     /* granted with a fence that went back: to be told so, and let go */
};

struct rota_lock {
    struct rt_ask ask; /* first */
    struct rota *client;
    struct rt_waiter *waiter; /* NULL: nobody waits for its news */
};

static inline struct rota_lock *rt_lock_of(struct rt_ask *ask)
{
    return (struct rota_lock *)(void *)ask;
}

static inline struct rt_more *rt_more_of(const struct rota_lock *lock)
{
    return (struct rt_more *)(void *)lock->ask.terms;
}

/* ---- The client --------------------------------------------------------- */

enum rt_keeper_state {
    RT_KEEPER_NONE,
    RT_KEEPER_RUNNING, /* has the mutex, or runs callbacks */
    RT_KEEPER_POLLING, /* polls the loop's descriptor and its own */
    RT_KEEPER_PARKED,  /* leaves the loop to callers */
};

struct rt_keeper {
    pthread_t thread;
    enum rt_keeper_state state;
    int kick_fd;           /* makes it leave its poll */
    _Atomic uint32_t word; /* it is parked on this: changes when it is wanted */
    uint64_t drives_seen;
    bool stop;
    bool busy;    /* runs a user's function */
    bool patient; /* parked without limit: whoever stops driving wakes it */
};

struct rt_deputy { /* see deputy.c */
    pthread_t thread;
    _Atomic uint32_t word; /* it sleeps on this */
    uint64_t begun;        /* how many callbacks began */
    bool started, sleeps, stop;
};

struct rt_quick { /* see callback.c */
    int64_t began_at;
    uint32_t row;    /* how many in a row were quick */
    uint32_t unsent; /* how often sending was put off */
};

#define RT_WAKES_MAX 16 /* more are woken at once, under the mutex */

enum rt_id_kind { RT_ID_ASK, RT_ID_OBSERVER };

struct rt_slot { /* of rt_ids */
    void *object;
    enum rt_id_kind kind;
    uint32_t generation;
    uint32_t next_free;
};

struct rt_ids { /* numbers for what a user may name later: asks, observations */
    struct rt_slot *slots;
    uint32_t size, free; /* free: index + 1; 0: none */
};

struct rt_observer;

/* The largest fences seen, for the names used last; a name's hash gives its place. */
#define RT_FENCES 256
struct rt_fence_seen {
    uint64_t hash, fence;
};

struct rota {
    pthread_mutex_t mu;       /* guards everything below but atomics and what never changes */
    _Atomic uintptr_t holder; /* the thread that has it, for asserts; 0: none */
    struct rt_loop loop;
    struct rt_dispatch d;
    struct rt_spelling spelling; /* never changes; nor do label to flags */
    char *label;
    char *shown_url; /* redacted */
    uint32_t call_ms, flags;
    uint32_t fork_generation;
    uint64_t serial;
    rota_log_fn *log;
    void *log_arg;

    _Atomic uint32_t interrupts; /* how often rota_interrupt was called */
    uint32_t interrupts_seen;
    _Atomic uint32_t spin_ns; /* how long the next in a local line waits awake: wait.c */
    _Atomic uint32_t inside;  /* waiting calls, and RT_INSIDE_CLOSING */
    bool closing;

    struct rt_waiter *waiters;
    struct rt_waiter *driver;
    struct rt_waiter *heir;   /* told to drive on, and has not looked yet: drive.c */
    bool driver_polls;        /* and sees nothing but the loop's descriptor */
    struct rt_waiter *closer; /* waits until all tickets have left */
    struct rt_keeper keeper;
    struct rt_deputy deputy;
    struct rt_quick quick;
    int outer_fd;             /* ROTA_NO_KEEPER: rota_fd; else -1 */
    _Atomic uint32_t flushed; /* changes when all callbacks have run; closing waits on it */
    uint64_t drives;          /* how often a call began to drive */

    _Atomic uint32_t *wakes[RT_WAKES_MAX]; /* to be woken when the mutex is free */
    uint32_t wake_count;
    bool wake_loop, wake_kick;

    struct rt_callback *callbacks, *callbacks_tail;
    bool telling;           /* a thread runs them: one at a time */
    struct rota_lock *gone; /* held when rota_close took them: calls under way may still look */
    struct rota_lock *free_locks;
    struct rt_more *free_more;
    uint32_t free_lock_count, free_more_count;
    struct rt_ids ids;
    struct rt_observer *observers;
    struct rt_fence_seen fences[RT_FENCES];
    struct rt_hunting *hunting; /* NULL until somebody asks with ROTA_DETECT */

    struct rota *next, *prev; /* all clients of the process: fork.c */
};

#define RT_INSIDE_CLOSING 0x80000000u

static inline struct rota *rt_client_of(struct rt_dispatch *d)
{
    return (struct rota *)(void *)((char *)d - offsetof(struct rota, d));
}

/* Which thread this is: a register, where the compiler can read it, since every assert below asks. */
static inline uintptr_t rt_client_thread(void)
{
#if defined(__has_builtin)
#if __has_builtin(__builtin_thread_pointer)
    return (uintptr_t)__builtin_thread_pointer();
#else
    return (uintptr_t)pthread_self();
#endif
#else
    return (uintptr_t)pthread_self();
#endif
}

/* Whether the calling thread has the mutex: what most functions below rely on. */
static inline bool rt_client_mine(const struct rota *r)
{
    return atomic_load_explicit(&r->holder, memory_order_relaxed) == rt_client_thread();
}

/* The calling thread has R from now on: it took the mutex, or nobody else can reach R any more. */
static inline void rt_client_seize(struct rota *r)
{
    atomic_store_explicit(&r->holder, rt_client_thread(), memory_order_relaxed);
}

/* Whether a call may go on: 0, ROTA_INVALID (R is NULL), ROTA_FORKED. With WAITS also
 * ROTA_INVALID inside a callback. Sets the message. */
int rt_client_check(const struct rota *r, bool waits);

/* rt_client_lock, unless the client is closing: ROTA_CLOSED. */
int rt_client_begin(struct rota *r);
/* Around what comes back to R after waiting: rota_close frees R only when everybody is out. */
void rt_client_hold(struct rota *r);
void rt_client_drop(struct rota *r);

void rt_client_lock(struct rota *r);  /* takes the mutex, reads the clock */
void rt_client_leave(struct rota *r); /* sends, tells, arms the timer; lets go; wakes */
void rt_client_leave_settled(
    struct rota *r);                   /* the same, nothing was done since rt_client_settle */
void rt_client_unlock(struct rota *r); /* only lets go and wakes */
void rt_client_settle(struct rota *r); /* only sends and tells */
void rt_client_turn(struct rota *r);   /* one turn of the loop and what follows from it */

/* For the end of opening and of closing: give back the engine, everything else, the struct itself. */
void rt_client_disconnect(struct rota *r);
void rt_client_fini(struct rota *r);
void rt_client_free(struct rota *r);

extern const struct rt_dispatch_hooks rt_client_hooks;

/* ---- drive.c: who turns the loop ---------------------------------------- */

int rt_keeper_start(struct rota *r);
void rt_keeper_stop(struct rota *r); /* joins it; without the mutex */
/* Something for the keeper: callbacks, or work nobody waits for. The mutex is held. */
void rt_keeper_want(struct rota *r);
/* If nobody drives, whoever can is told to. The mutex is held. */
void rt_drive_pass(struct rota *r);
/* W will not drive: if it was told to, somebody else is. The mutex is held. */
void rt_drive_decline(struct rota *r, const struct rt_waiter *w);
/* The keeper begins a callback; the mutex is held. */
void rt_deputy_watch(struct rota *r);
void rt_deputy_stop(struct rota *r); /* joins it; without the mutex */
bool rt_may_drive(const struct rota *r, const struct rt_waiter *w);
/* Drives until W is told something; enters and returns with the mutex. */
void rt_drive(struct rota *r, struct rt_waiter *w);
void rt_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns); /* <0: none */
void rt_futex_wake(_Atomic uint32_t *word);

/* ---- Handles: handle.c -------------------------------------------------- */

struct rota_lock *rt_handle_new(struct rota *r);
void rt_handle_free(struct rota *r, struct rota_lock *lock);         /* its rt_more too */
struct rt_more *rt_more_new(struct rota *r, struct rota_lock *lock); /* reserves its timer */
void rt_more_free(struct rota *r, struct rt_more *more);
void rt_more_trim(struct rota *r, struct rota_lock *lock); /* frees it if nothing needs it */
void rt_handle_fini(struct rota *r);
/* Keeps what the engine said about ERR until its callback is told; rt_more_free frees it. */
void rt_more_explain(struct rota *r, struct rt_more *more, int err);
void rt_lock_callback(struct rota *r, struct rt_callback *cb);

static inline struct rota_lock *rt_lock_of_next(const struct rota_lock *lock)
{
    return lock->ask.next != NULL ? rt_lock_of(lock->ask.next) : NULL;
}

/* 0: out of memory. */
uint64_t rt_ids_add(struct rt_ids *ids, enum rt_id_kind kind, void *object);
void *rt_ids_find(const struct rt_ids *ids, enum rt_id_kind kind, uint64_t id); /* NULL: none */
void rt_ids_remove(struct rt_ids *ids, uint64_t id);

/* Notes the fence of a grant; true: a larger one was seen before on this line, so the engine has
 * forgotten something (DESIGN 2), which is logged and said to whoever is told ROTA_UNSAFE next. */
bool rt_lock_unsafe(struct rota *r, const struct rota_lock *lock);
/* Says why LOCK was refused, if only the desk knows, to whoever is told next. */
void rt_lock_explain(struct rota *r, const struct rota_lock *lock);
/* News of a set: W waits for it, asked by all.c. */
void rt_set_answered(struct rota *r, struct rt_waiter *w, int err);

/* ---- Asking: acquire.c -------------------------------------------------- */

/* struct rota_ask, and what goes beyond it. */
struct rt_wish {
    struct rota_ask ask; /* defaults filled in */
    uint32_t mode;       /* enum rt_mode */
    const char *value;   /* elections */
    bool async;
    bool in_set;
};

int rt_name_check(const struct rota *r, const char *name);
int rt_value_check(const struct rota *r, const char *value);
/* Fills in a CHANGE of LOCK, which is HELD. */
void rt_lock_change_op(struct rota *r, const struct rota_lock *lock, struct rt_op *op,
                       uint32_t what, const char *value);
/* The engine has answered that op, sent when the ticket's number was NUMBER: the desk learns it in the same step,
 * so that no call sees a hold that is known to be lost. Returns what the caller is told. */
int rt_lock_changed(struct rota *r, struct rota_lock *lock, uint64_t number,
                    const struct rt_op *op);
/* Begins to give LOCK back, or leaves that to the end of a callback that has it in another thread. */
void rt_lock_release(struct rota *r, struct rota_lock *lock);
/* Gives back a hold whose owner never got it; the news of that frees the handle. */
void rt_lock_let_go(struct rota *r, struct rota_lock *lock);
/* Waits for LOCKS, which were asked for with W, and looks once more on the way out: a thread that stood still after
 * its answer came is not told that it holds. Enters with the mutex, returns without it. 0, or why none of LOCKS is
 * the caller's. */
int rt_lock_wait(struct rota *r, struct rota_lock *const *locks, size_t n, struct rt_waiter *w);
/* The same look at a hold that its owner has. Takes only its SESSION: the handle may be gone. With the mutex. */
bool rt_session_is_over(struct rota *r, uint64_t session);
void rt_lock_released(struct rota *r, struct rota_lock *lock); /* it is over, err says how */
void rt_lock_hush(struct rota *r, struct rota_lock *lock);     /* drops pending on_lost, on_wait */
int rt_elect_wish(struct rota *r, struct rt_wish *wish, const char *name, const char *value,
                  const struct rota_ask *ask, size_t size);
int rt_wish_init(struct rota *r, struct rt_wish *wish, const struct rota_ask *ask, size_t size);

/* Makes a handle with everything it needs, ready for the desk; the mutex is held. */
int rt_ask_prepare(struct rota *r, const char *name, const struct rt_wish *wish,
                   struct rota_lock **out);
/* Takes back what was prepared and never asked. */
void rt_ask_discard(struct rota *r, struct rota_lock *lock);
int rt_acquire(struct rota *r, const char *name, const struct rt_wish *wish,
               struct rota_lock **out);

/* ---- Operations: call.c ------------------------------------------------- */

struct rt_call {          /* an operation that a call waits for */
    struct rt_request rq; /* first */
    struct rt_waiter w;
    int ended;                             /* why it was canceled; 0: it was not */
    void (*restart)(struct rt_call *call); /* before each sending; may be NULL */
};

void rt_call_init(struct rota *r, struct rt_call *call, enum rt_op_kind kind);
/* Sends it and waits, again after UNKNOWN or UNREACHABLE until call_ms is over; enters with the mutex, returns
 * without it. */
int rt_call_insist(struct rota *r, struct rt_call *call);

/* A BREAK of (NAME, NUMBER), without checks of its arguments. */
int rt_break(struct rota *r, const char *name, uint64_t number, uint32_t mode);
/* A durable JOIN; fills in its name. */
int rt_join_durable(struct rota *r, const char *name, struct rt_join *join);
uint64_t rt_random_id(void); /* 1 to 2^63 - 1 */

/* For RT_OP_INSPECT: does nothing. */
void rt_inspect_nobody(void *arg, const char *name, const struct rota_place *place);

/* ---- Observers, deadlocks: observe.c, deadlock.c ------------------------- */

void rt_observer_changed(struct rota *r, const struct rt_event *event);
void rt_observer_fini(struct rota *r);
int rt_hunter_new(struct rota *r, struct rt_more *more);   /* ROTA_NOMEM */
void rt_hunter_free(struct rota *r, struct rt_more *more); /* also if it has none */
void rt_hunting_fini(struct rota *r);
bool rt_hunt_go_on(struct rota *r); /* one step of the hunt; true: there is more to do now */

/* ---- Errors and log: errors.c, log.c ------------------------------------ */

/* Keeps the message for rota_errmsg(R) of this thread; returns ERR. FORMAT NULL: the fixed one. */
int rt_fail(const struct rota *r, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int rt_fail_waiter(uint64_t serial, int err, const char *text);
/* What the engine said, since the mutex was taken, about what is told as ERR; NULL: nothing. */
const char *rt_engine_said(const struct rota *r, int err);
void rt_log(struct rota *r, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rt_log_line(struct rota *r, int level, const char *line);
void rt_log_stderr(void *arg, int level, const char *line);

/* ---- fork.c ------------------------------------------------------------- */

/* Adds R to the clients that a fork concerns, before it has a connection, and until it has none. */
void rt_fork_add(struct rota *r);
void rt_fork_remove(struct rota *r);
void rt_fork_hold(void); /* whoever forks waits ... */
void rt_fork_go_on(void);
uint32_t rt_fork_generation(void);
bool rt_forked(const struct rota *r);

/* This thread's number as an owner; never 0. */
uint64_t rt_thread_owner(void);
void rt_random(void *out, size_t size);

#endif
