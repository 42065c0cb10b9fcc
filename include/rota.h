/* SPDX-License-Identifier: Apache-2.0 */
/* Rota: distributed locks for C. This header is the reference of librota. */
#ifndef ROTA_H
#define ROTA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rules that hold for every call below
 *
 * - Returns are 0 or a negative ROTA_* error; outputs are untouched on error.
 * - Strings and structs passed in are copied before the call returns.
 * - Free functions accept NULL.
 * - A client may be used by any number of threads at once.
 * - Callbacks run exactly once per cause, never from inside the call that
 *   started the work: on the client's keeper thread, or inside rota_process()
 *   for a client opened with ROTA_NO_KEEPER. Inside a callback, calls that wait
 *   return ROTA_INVALID; the _async ones and those marked "no I/O" are fine.
 * - After fork() the child's handles are dead: every call says ROTA_FORKED and
 *   puts nothing on any wire. The parent is not disturbed.
 * - Structs grow at their end. Their size travels with each call: through the
 *   inline functions here, or by hand through the _sized symbols.
 */

/* ---- Errors ------------------------------------------------------------- */

#define ROTA_ERRORS(X)                                                    \
    X(INVALID, -1, "invalid argument")                                    \
    X(NOMEM, -2, "out of memory")                                         \
    X(BUSY, -3, "held by somebody else")                                  \
    X(TIMEOUT, -4, "not granted in time")                                 \
    X(LOST, -5, "the hold is not ours any more")                          \
    X(UNREACHABLE, -6, "the engine cannot be reached")                    \
    X(UNKNOWN, -7, "the outcome could not be confirmed")                  \
    X(PROTOCOL, -8, "the engine answered something unexpected")           \
    X(AUTH, -9, "the engine refused the credentials or the rights")       \
    X(UNSUPPORTED, -10, "this engine or dialect cannot do that")          \
    X(CANCELED, -11, "canceled")                                          \
    X(DEADLOCK, -12, "waiting would never end: a cycle of waiters")       \
    X(UNSAFE, -13, "the engine cannot promise what strict mode asks for") \
    X(CLOSED, -14, "the client is closing")                               \
    X(FORKED, -15, "this handle belongs to the parent process")           \
    X(INTERNAL, -16, "internal error")                                    \
    X(ABORTED, -17, "the transaction was rolled back")                    \
    X(MIXED, -18, "committed in one place and rolled back in another")    \
    X(UNFINISHED, -19, "committed, and not finished everywhere yet")

enum rota_error {
#define ROTA_ERROR_ENUM(name, value, text) ROTA_##name = value,
    ROTA_ERRORS(ROTA_ERROR_ENUM)
#undef ROTA_ERROR_ENUM
};

struct rota;      /* a client: one engine, one session */
struct rota_lock; /* a hold */

/* A fixed sentence for ERR; "success" for 0, "unknown error" for others. */
const char *rota_strerror(int err);

/* The message of the calling thread's last failing call on R: one line that says what is wrong and what
 * to do, and never contains a secret. With R NULL: that of this thread's last rota_open or rota_ddl.
 * Valid until the thread's next failing call; "" if there was none. */
const char *rota_errmsg(const struct rota *r);

const char *rota_version(void);

/* ---- Clients ------------------------------------------------------------ */

#define ROTA_STRICT 0x1u    /* refuse engines that can break I1 or I2 in a crash */
#define ROTA_NO_KEEPER 0x2u /* no thread of ours: drive the client with rota_process */
#define ROTA_METRICS 0x4u   /* count and measure, for rota_metrics */
#define ROTA_NEVER UINT32_MAX

#define ROTA_LOG_ERROR 1
#define ROTA_LOG_WARN 2
#define ROTA_LOG_INFO 3
#define ROTA_LOG_TRACE 4 /* every transition; on with ROTA_TRACE=1 in the environment */

/* One finished line without a newline. May run on any thread; must not call
 * back into the client. */
typedef void rota_log_fn(void *arg, int level, const char *line);

struct rota_options {    /* zero means the default for each field */
    const char *label;   /* who we are to others; default host/pid/program */
    uint32_t ttl_ms;     /* 10000; 1 s to 1 h; the engine may round it */
    uint32_t call_ms;    /* 5000: the most that open, release, close, inspect, ROTA_TRY may take */
    uint32_t pass_limit; /* 16: how often a tenure is passed on locally ... */
    uint32_t pass_ms;    /* 10: ... and for how long, once another process waits;
                               ROTA_NEVER in either: strict order between processes */
    uint32_t flags;      /* ROTA_STRICT, ROTA_NO_KEEPER, ROTA_METRICS */
    uint32_t reserved;   /* 0 */
    rota_log_fn *log;
    void *log_arg;
};

/* Opens a client on the engine that URL names: "file:", "file:/some/folder",
 * "mem:name", or a name from ~/.config/rota/config, /etc/rota/config. An empty or NULL URL means
 * $ROTA_URL, else the embedded engine in its default folder. OPTS may be NULL.
 * Takes at most call_ms. Give *OUT back with rota_close. */
int rota_open_sized(struct rota **out, const char *url, const struct rota_options *opts,
                    size_t size);
static inline int rota_open(struct rota **out, const char *url, const struct rota_options *opts)
{
    return rota_open_sized(out, url, opts, sizeof(struct rota_options));
}

/* Ends the session: gives back what it holds, makes waiting calls in other threads return ROTA_CLOSED, and
 * runs pending callbacks first. Locks that were not released are gone, and their handles with them. Takes at
 * most call_ms. Not from inside a callback. Once it has begun, no other thread may begin a call. */
void rota_close(struct rota *r);

/* What this engine, dialect and topology can do. No I/O. */
#define ROTA_CAP_FENCE 0x1u /* exclusive grants carry a fence */
#define ROTA_CAP_ORDER 0x2u /* granted in order of arrival: elections and ROTA_DETECT work */
#define ROTA_CAP_SHARED 0x4u
#define ROTA_CAP_PERMITS 0x8u
#define ROTA_CAP_WANTED 0x10u       /* holders are told that somebody waits: linger_ms works */
#define ROTA_CAP_DURABLE 0x20u      /* once, latch, barrier, at_least_ms */
#define ROTA_CAP_TTL 0x40u          /* sessions end by a time to live; else with the process */
#define ROTA_CAP_SHARED_HOSTS 0x80u /* programs on other machines take part */
#define ROTA_CAP_STRICT 0x100u      /* ROTA_STRICT would open */
uint32_t rota_caps(const struct rota *r);

/* The time to live that the engine really gave; 0: sessions live as long as their
 * process. No I/O. */
uint32_t rota_ttl_ms(const struct rota *r);

/* A descriptor (O_CLOEXEC, the caller's to close) that keeps R's session, once it has one: if this
 * process ends without rota_close, its holds last until every copy of the descriptor is closed. For a
 * guardian that first ends what the holds protect. UNSUPPORTED where sessions end by a time to live;
 * LOST: there is no session. */
int rota_keep_fd(struct rota *r, int *fd);

/* Makes all waiting calls of R return ROTA_CANCELED, now. Async-signal-safe. */
void rota_interrupt(struct rota *r);

/* ---- Locks -------------------------------------------------------------- */

enum rota_mode { ROTA_EXCLUSIVE = 0, ROTA_SHARED = 1, ROTA_PERMITS = 2 };

#define ROTA_TRY 0x1u /* do not wait: ROTA_BUSY */
/* Look for deadlocks while waiting: ROTA_DEADLOCK. A cycle is found when all its locks,
 * the held ones too, were asked for with this flag; exactly one ask is refused. */
#define ROTA_DETECT 0x2u
/* An outage does not end the wait: an ask that stood in line, and lost its place with the session, goes
 * back to the end of the line as soon as the engine is there, until its limit. Not with ROTA_TRY. */
#define ROTA_REJOIN 0x4u
#define ROTA_OWNER_NONE UINT64_MAX /* nobody re-enters this hold */

/* The hold is not ours any more, or will not be in a moment; REASON is
 * ROTA_LOST (session or ticket gone, or broken by somebody) or ROTA_TIMEOUT
 * (its hold_ms is over). LOCK still has to be released. */
typedef void rota_lost_fn(struct rota_lock *lock, int reason, void *arg);

/* With ROTA_REJOIN: ERR says why the ask has no place in line now (rota_errmsg says more; it keeps
 * waiting), then 0: it stands in line again. Once each per outage. */
typedef void rota_wait_fn(void *arg, int err);

struct rota_ask {         /* all zero: exclusive, no limit, kept alive until released */
    uint32_t mode;        /* enum rota_mode */
    uint32_t take, of;    /* ROTA_PERMITS: take k of n */
    uint32_t flags;       /* ROTA_TRY, ROTA_DETECT, ROTA_REJOIN */
    uint64_t limit_ms;    /* 0: wait without limit */
    uint64_t hold_ms;     /* 0: kept alive; else the hold ends by itself, at the latest with
                               the session */
    uint64_t at_least_ms; /* the name stays taken at least this long, even after release */
    uint64_t linger_ms;   /* keep the tenure this long after release unless somebody else waits
                             for it (ROTA_TRY does not wait) */
    uint64_t owner;       /* who may re-enter: 0 = the calling thread (sync) or nobody (async);
                               own values 1 to 2^62; ROTA_OWNER_NONE */
    rota_lost_fn *on_lost;
    void *arg;             /* of on_lost and on_wait */
    rota_wait_fn *on_wait; /* only with ROTA_REJOIN */
};

/* Waits until NAME is ours. ASK may be NULL. A name is 1 to 255 bytes of UTF-8
 * without control characters. Give *OUT back with rota_release.
 * UNREACHABLE: also if the limit ends while the engine is away, or refuses, and has not let
 * us into the line yet; errmsg says why.
 * UNKNOWN: a ROTA_TRY was not answered within call_ms; if it was granted, the grant is given back.
 * BUSY, TIMEOUT, CANCELED, DEADLOCK: nothing is held and nothing stays behind, but on
 * a server the ticket's departure may still be on its way (the ttl ends it at the latest).
 * LOST: our session ended while we waited, or before this call could return; the place in line is gone,
 * ask again. With ROTA_REJOIN, LOST means only the latter, and UNREACHABLE comes only if the ask never got
 * into the line, or by its limit; anything that is not an outage (AUTH, INVALID, ...) ends it as ever. */
int rota_acquire_sized(struct rota *r, const char *name, const struct rota_ask *ask, size_t size,
                       struct rota_lock **out);
static inline int rota_acquire(struct rota *r, const char *name, const struct rota_ask *ask,
                               struct rota_lock **out)
{
    return rota_acquire_sized(r, name, ask, sizeof(struct rota_ask), out);
}

/* All of NAMES[0..N) or none, without deadlock between callers of this function.
 * 1 to 128 different names; exclusive or shared; not ROTA_REJOIN. OUT[i] belongs to NAMES[i]. */
int rota_acquire_all_sized(struct rota *r, const char *const *names, size_t n,
                           const struct rota_ask *ask, size_t size, struct rota_lock **out);
static inline int rota_acquire_all(struct rota *r, const char *const *names, size_t n,
                                   const struct rota_ask *ask, struct rota_lock **out)
{
    return rota_acquire_all_sized(r, names, n, ask, sizeof(struct rota_ask), out);
}

/* Gives LOCK back, from any thread; always consumes the handle, as fclose does. A callback of LOCK that
 * runs in another thread is over before this returns; inside a callback it does not wait, like
 * rota_release_async. 0: released. LOST: it was not ours any more. UNKNOWN: not confirmed within call_ms; it
 * ends with the ttl at the latest. NULL: 0. A client has at most 1,000 requests under way; for those that wait
 * behind them, call_ms begins when they are sent (ROTA_TRY, too). */
int rota_release(struct rota_lock *lock);

/* The fence of an exclusive hold: larger than that of every earlier tenure of this name; the same for
 * re-entries, and while threads of one client pass the tenure on or take it again while it lingers. For
 * shared holds and permits, a name for the log. 0: this dialect has none. No I/O. */
uint64_t rota_fence(const struct rota_lock *lock);

/* How long the hold is certainly still ours; <= 0 once it may be lost; INT64_MAX
 * when only our own end can end it. Conservative, no I/O. */
int64_t rota_remaining_ms(const struct rota_lock *lock);

/* Asks the engine now: 0 if it is ours, else LOST, UNREACHABLE or UNKNOWN. */
int rota_check(struct rota_lock *lock);

/* Exclusive becomes shared without letting go; others that share may come in. A shared hold
 * stays as it is. INVALID while its owner has other exclusive holds of the name. */
int rota_downgrade(struct rota_lock *lock);

const char *rota_name(const struct rota_lock *lock); /* valid as long as the lock */

/* For the resource that a lock protects: accepts LOCK if its fence is at least
 * *HIGHEST, and then raises *HIGHEST to it; else LOST. INVALID for shared holds and
 * permits, whose numbers do not fence; UNSUPPORTED without fences. No I/O. */
int rota_guard(const struct rota_lock *lock, uint64_t *highest);

/* ---- Asynchronous twins ------------------------------------------------- */

typedef void rota_grant_fn(void *arg, int err, struct rota_lock *lock); /* lock NULL unless err 0 */
typedef void rota_done_fn(void *arg, int err); /* in both: if err, rota_errmsg says more */

/* As rota_acquire, but reports by FN. If the return is not 0, FN is not called. *ID
 * (may be NULL) names the ask for rota_cancel. */
int rota_acquire_async_sized(struct rota *r, const char *name, const struct rota_ask *ask,
                             size_t size, rota_grant_fn *fn, void *arg, uint64_t *id);
static inline int rota_acquire_async(struct rota *r, const char *name, const struct rota_ask *ask,
                                     rota_grant_fn *fn, void *arg, uint64_t *id)
{
    return rota_acquire_async_sized(r, name, ask, sizeof(struct rota_ask), fn, arg, id);
}

/* Ends a pending ask: its callback gets ROTA_CANCELED, or the grant if that came
 * first. INVALID: there is no such ask any more. */
int rota_cancel(struct rota *r, uint64_t id);

/* As their twins. FN may be NULL for release. Release consumes the handle at once;
 * the others only borrow it until FN runs. */
int rota_release_async(struct rota_lock *lock, rota_done_fn *fn, void *arg);
int rota_check_async(struct rota_lock *lock, rota_done_fn *fn, void *arg);

/* For programs with their own loop: wait until rota_fd is readable or
 * rota_timeout_ms (-1: no limit) is over, then call rota_process, which never
 * blocks and runs callbacks. Only needed with ROTA_NO_KEEPER. */
int rota_fd(const struct rota *r);
int rota_timeout_ms(struct rota *r);
int rota_process(struct rota *r);

/* ---- Elections ---------------------------------------------------------- */

/* Who is at the front of a line. FENCE 0: nobody. Fences never go back. */
struct rota_front {
    uint64_t fence;
    const char *value; /* what the leader proclaimed; "" if nothing */
    const char *label;
};
typedef void rota_front_fn(void *arg, const struct rota_front *front);

#define ROTA_VALUE_MAX 1023
/* As rota_acquire, with a VALUE of at most ROTA_VALUE_MAX bytes for observers: the
 * hold is the leadership. */
int rota_elect_sized(struct rota *r, const char *name, const char *value,
                     const struct rota_ask *ask, size_t size, struct rota_lock **out);
static inline int rota_elect(struct rota *r, const char *name, const char *value,
                             const struct rota_ask *ask, struct rota_lock **out)
{
    return rota_elect_sized(r, name, value, ask, sizeof(struct rota_ask), out);
}
int rota_elect_async_sized(struct rota *r, const char *name, const char *value,
                           const struct rota_ask *ask, size_t size, rota_grant_fn *fn, void *arg,
                           uint64_t *id);
static inline int rota_elect_async(struct rota *r, const char *name, const char *value,
                                   const struct rota_ask *ask, rota_grant_fn *fn, void *arg,
                                   uint64_t *id)
{
    return rota_elect_async_sized(r, name, value, ask, sizeof(struct rota_ask), fn, arg, id);
}
/* Changes the value of what rota_elect took; other holds have none: INVALID. */
int rota_proclaim(struct rota_lock *lock, const char *value);

/* FN is told the present front of NAME, and after each change the latest state; states
 * in between may be left out. This ends when rota_unobserve(*ID) has returned. */
int rota_observe(struct rota *r, const char *name, rota_front_fn *fn, void *arg, uint64_t *id);
int rota_unobserve(struct rota *r, uint64_t id);

/* ---- Once, latches, barriers -------------------------------------------- */

/* 0 for exactly one caller per KEY, BUSY for all others, for FOR_MS (0: for ever),
 * whatever happens to the winner. *FENCE (may be NULL) lets the winner undo its
 * claim with rota_break, e.g. after a failure. */
int rota_once(struct rota *r, const char *key, uint64_t for_ms, uint64_t *fence);

/* A latch of OF counts opens when it has been counted down OF times and stays open
 * until reset. PARTY (may be NULL) counts once, however often it is sent. */
int rota_latch_down(struct rota *r, const char *name, uint32_t of, const char *party);
int rota_latch_wait(struct rota *r, const char *name, uint32_t of, uint64_t limit_ms);
int rota_latch_reset(struct rota *r, const char *name);

/* Returns when OF parties stand at the barrier; they all go together, and the
 * next OF make the next round. Whoever gets TIMEOUT was not counted: the engine
 * is asked about that, so it may come a flight (at most call_ms) after the limit;
 * UNKNOWN if there was no answer. */
int rota_barrier(struct rota *r, const char *name, uint32_t of, uint64_t limit_ms);

/* ---- Looking at lines --------------------------------------------------- */

#define ROTA_PLACE_GRANTED 0x1u /* holds */
#define ROTA_PLACE_DURABLE 0x2u /* needs no living session */
#define ROTA_PLACE_MINE 0x4u    /* this client's */
#define ROTA_PLACE_DETECT 0x8u  /* asks with ROTA_DETECT */
#define ROTA_PLACE_FOREIGN \
    0x10u /* another program's, by its library: it may not notice that it was broken */

struct rota_place {   /* one ticket */
    uint64_t number;  /* its fence, once granted exclusively */
    uint64_t session; /* who, as a number; 0 for durable ones */
    uint64_t owner;   /* thread or owner value in that process; 0: nobody */
    int64_t since_ms; /* how long it has held, or waited, by the engine's clock; -1: not known */
    int64_t left_ms;  /* how long its session still lives if it is not heard from; -1: no limit */
    uint32_t mode;    /* enum rota_mode, 3 latch, 4 barrier */
    uint32_t take, of;
    uint32_t flags; /* ROTA_PLACE_* */
    const char *label;
    const char *value;
};

struct rota_line {
    const char *name;
    size_t count;                    /* tickets in the line, the front first ... */
    size_t granted;                  /* ... this many of them hold */
    const struct rota_place *places; /* NULL from rota_list */
};

/* One line with its tickets; a line in which nobody stands has count 0. */
int rota_inspect(struct rota *r, const char *name, struct rota_line **out);
void rota_line_free(struct rota_line *line);

/* All lines whose name begins with PREFIX ("" or NULL: all), by name. */
int rota_list(struct rota *r, const char *prefix, struct rota_line **out, size_t *count);
void rota_list_free(struct rota_line *lines, size_t count);

/* Takes the ticket with this FENCE out of its line, whoever holds it: the holder
 * is told that it lost. LOST: no such ticket (any more). */
int rota_break(struct rota *r, const char *name, uint64_t fence);

/* A verdict per promise of this engine, as the doctor prints it. */
struct rota_verdict {
    const char *promise, *verdict /* "kept", "limited", "broken" */, *setting, *remedy;
};
typedef void rota_verdict_fn(void *arg, const struct rota_verdict *verdict);
int rota_doctor(struct rota *r, rota_verdict_fn *fn, void *arg);

/* The tables that the engine of URL needs, for a person to create where its user may not: passed to FN once,
 * as text for that engine's own shell. If it needs none, FN is not called, and 0 is returned. No server is asked. */
typedef void rota_ddl_fn(void *arg, const char *text);
int rota_ddl(const char *url, rota_ddl_fn *fn, void *arg);

/* ---- Metrics ------------------------------------------------------------ */

enum rota_metric_type { ROTA_COUNTER = 0, ROTA_GAUGE = 1, ROTA_HISTOGRAM = 2 };

struct rota_metric {        /* as Prometheus has them; rota(1) metrics lists all */
    const char *name;       /* rota_acquires_total, rota_wait_seconds, ... */
    const char *help;       /* one sentence, nothing to escape in it */
    const char *labels;     /* "", or ready to stand in braces: reason="busy" */
    uint32_t type;          /* enum rota_metric_type */
    uint32_t buckets;       /* histograms: how many bounds and counts */
    double value;           /* histograms: the sum, in seconds */
    uint64_t count;         /* histograms: of all values */
    const double *bounds;   /* in seconds, rising; the last is infinity */
    const uint64_t *counts; /* of the values up to that bound */
};
typedef void rota_metric_fn(void *arg, const struct rota_metric *metric);

/* Tells FN of everything R has counted since it was opened, on the calling thread; metrics of one
 * name come one after the other. No I/O. UNSUPPORTED: R was opened without ROTA_METRICS; then nothing
 * is counted, no clock is read for it, and no lock takes more memory. */
int rota_metrics(struct rota *r, rota_metric_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif
