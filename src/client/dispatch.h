/* SPDX-License-Identifier: Apache-2.0 */
/* Between a desk and an engine: what the desk wants done becomes operations, what the engine says
 * goes back to the desk. No threads and no waiting in here: the client runs one under its mutex,
 * the simulator runs hundreds.
 *
 *     desk ── todo ──▶ request ── submit ──▶ engine
 *     desk ◀─ answers ── request ◀── done ─── engine
 *     desk ◀─ granted, wanted, lost ◀─ event ─ engine
 *
 * Its user calls the desk or a timer or the loop, and then rt_dispatch_drain, which sends,
 * tells and frees until nothing is left to do. */
#ifndef RT_DISPATCH_H
#define RT_DISPATCH_H

#include "client/names.h"
#include "core/desk.h"
#include "engine/engine.h"
#include "net/loop.h"

struct rt_dispatch;
struct rt_metrics;
struct rt_request;

typedef void rt_request_fn(struct rt_dispatch *d, struct rt_request *rq);

/* An operation under way. Those of the desk are the dispatcher's; a user's own are embedded in
 * the user's structs and sent by rt_dispatch_send. */
struct rt_request {
    struct rt_op op;
    rt_request_fn *done;            /* exactly once, with op.err; must not call the engine */
    struct rt_request *next, *prev; /* under way, or spare */
    struct rt_ticket *ticket;       /* the dispatcher's own, from here on */
    struct rt_batch *batch;
    uint64_t id;
    int64_t sent_at; /* for the metrics */
    struct rt_join join;
};

/* A solo ticket with what its JOIN needs: the ask may be gone before the answer. From
 * rt_dispatch_solo; its ticket is what ask->ticket points to. Freed by the dispatcher. */
struct rt_solo {
    struct rt_ticket ticket;
    uint64_t owner;
    int64_t at_least_ms;
    uint32_t join_flags; /* RT_JOIN_DETECT */
    bool has_value;
    char value[];
};

/* A set with room for its JOIN_ALL. From rt_dispatch_batch; freed by the dispatcher once the desk
 * was asked with it. */
struct rt_batch {
    struct rt_set set;         /* first; asks are to be filled in */
    struct rt_join *joins;     /* room for set.n */
    struct rt_joined *answers; /* room for set.n */
};

struct rt_dispatch_hooks {
    /* Something for ASK's owner: look at ask->news, which is cleared before the next step. */
    void (*news)(struct rt_dispatch *d, struct rt_ask *ask, unsigned news);
    /* An observed line changed, or the link did. */
    void (*event)(struct rt_dispatch *d, const struct rt_event *event);
    void (*log)(struct rt_dispatch *d, int level, const char *line);
    /* LINE is about to be freed; may be NULL. */
    void (*forget)(struct rt_dispatch *d, struct rt_line *line);
    /* ASK held, or had lost, when the desk was closed: its owner's to free now. */
    void (*gone)(struct rt_dispatch *d, struct rt_ask *ask);
};

struct rt_dispatch {
    struct rt_desk desk;
    struct rt_names names;
    struct rt_up up; /* the connection's */
    struct rt_conn *conn;
    struct rt_loop *loop;
    const struct rt_dispatch_hooks *hooks;
    struct rt_metrics *metrics; /* NULL: nobody counts */
    struct rt_request first;    /* the one that is always there: a LEAVE never lacks memory */
    struct rt_request *spare;   /* idle requests */
    size_t spare_count;
    struct rt_request *flying;        /* under way, the users' too */
    struct rt_stray *strays;          /* tickets nobody here knows: to be given back ... */
    struct rt_stray *strays_left;     /* ... and those that could not be: again, in a while */
    struct rt_timer_call stray_timer; /* runs while there are such */
    uint64_t *tickets;                /* of the BEAT under way */
    size_t tickets_room;
    uint64_t last_left; /* for the planted bug 3 ... */
    uint32_t told;      /* ... and 8 */
    bool again;         /* set by a hook that used the desk: drain once more */
    int err;            /* of the last failed operation since the user took its mutex ... */
    char errmsg[256];   /* ... and what the engine said */
    int said;           /* err, as it stands in errmsg, however old ... */
    int64_t said_at;    /* ... and since when */
};

/* Before the connection is opened, with conn->up = &d->up. Reserves its timers in LOOP.
 * ROTA_NOMEM. */
int rt_dispatch_init(struct rt_dispatch *d, struct rt_loop *loop, const struct rt_desk_options *o,
                     const struct rt_dispatch_hooks *hooks);
/* After the connection was closed: ends what was under way with ROTA_UNKNOWN and tells the news
 * that follow, but sends nothing. */
void rt_dispatch_abort(struct rt_dispatch *d);
/* After that: frees lines, tickets and requests. */
void rt_dispatch_fini(struct rt_dispatch *d);

/* A solo ticket on LINE; VALUE may be NULL. NULL: out of memory. */
struct rt_solo *rt_dispatch_solo(struct rt_line *line, uint32_t mode, uint32_t take, uint32_t of,
                                 const char *value);

/* A set of N asks. NULL: out of memory. */
struct rt_batch *rt_dispatch_batch(size_t n, bool try);

/* Sends, tells and frees until there is nothing left to do at this moment. */
void rt_dispatch_drain(struct rt_dispatch *d);

/* Sends a request of the user's: op filled in but for user, next; done set. */
void rt_dispatch_send(struct rt_dispatch *d, struct rt_request *rq);

/* For rt_loop_turn: a timer of the desk. ARG is the dispatcher. */
void rt_dispatch_timer(void *arg, struct rt_timer *t, int64_t now);

/* metrics.c: RQ goes to the engine, and is answered; only with metrics. */
void rt_metrics_op_sent(struct rt_dispatch *d, struct rt_request *rq);
void rt_metrics_op_done(struct rt_dispatch *d, const struct rt_request *rq);

/* Begins to close the desk and all lines: drain until rt_desk_quiet. */
void rt_dispatch_close(struct rt_dispatch *d);

#endif
