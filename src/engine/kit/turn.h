/* SPDX-License-Identifier: Apache-2.0 */
/* Ops of a name take turns: each begins when those submitted before it have ended. Ops of no name (BEAT, LIST, OBSERVE,
 * CHECK) begin at once.
 *
 *   rt_turns_submit ──▶ [behind others of its names] ──▶ `begin` ──▶ rt_turn_end ──▶ done, and the next begins
 *
 * The time of one that has time (rt_work_has_time) does not run while it waits for others that are answered. */
#ifndef RT_TURN_H
#define RT_TURN_H

#include "engine/kit/work.h"

#define RT_TURN_LANES 256

struct rt_turn_kind { /* what an op of a kind is to its engine */
    size_t size,
        each; /* bytes of its work, which begins with struct rt_work; and of each name in it */
    /* 0: it is under way, or has ended; else it ends with that. ENGINE is the engine's own. */
    int (*begin)(void *engine, struct rt_work *w);
    void (*cancel)(void *engine,
                   struct rt_work *w); /* once it was begun; NULL: as `cancel` of the turns */
    void (*free)(struct rt_conn *conn, struct rt_work *w); /* NULL: it keeps nothing */
};

struct rt_turn_user {
    const struct rt_turn_kind *const *kinds;        /* by enum rt_op_kind */
    void (*cancel)(void *engine, struct rt_op *op); /* its requests */
    void (*ended)(void *engine, struct rt_work *w); /* W is about to end with w->err; or NULL */
    const char *who;                                /* "etcd", for what is told */
};

struct rt_stand;
struct rt_turns { /* embedded in its user's struct */
    const struct rt_turn_user *user;
    void *engine;
    struct rt_conn *conn;
    struct rt_work *works;
    struct rt_work *ready, **ready_tail; /* to be begun, from where works end */
    bool starting;
    int64_t heard_at;                      /* when one ended last that the server had answered */
    struct rt_stand *lanes[RT_TURN_LANES]; /* by hash of the name, in order */
};

void rt_turns_init(struct rt_turns *t, struct rt_conn *conn, void *engine,
                   const struct rt_turn_user *user);
void rt_turns_close(struct rt_turns *t); /* frees all, without a word */
void rt_turns_submit(struct rt_turns *t, struct rt_op *op);
void rt_turns_cancel(struct rt_turns *t, struct rt_op *op);
/* Ends W, whose requests have all been answered. */
void rt_turn_end(struct rt_turns *t, struct rt_work *w, int err);
/* How many different names W's op has. */
size_t rt_turn_names(const struct rt_work *w);
/* Whether a JOIN of this ticket is under way, or about to be. */
bool rt_turns_joining(const struct rt_turns *t, const char *name, uint64_t nonce);
bool rt_turns_busy(const struct rt_turns *t, const char *name); /* any op of that name is */

#endif
