/* SPDX-License-Identifier: Apache-2.0 */
/* Ops of several requests: how many of them are under way, the gravest of their errors, one end.
 *
 *   rt_work_new ──▶ requests (their entries count themselves in `pending`) ──▶ rt_work_end ──▶ gone
 *                                 an end before the last was answered: the others are left to end ──▲ */
#ifndef RT_WORK_H
#define RT_WORK_H

#include "engine/engine.h"

struct rt_work { /* first in the engine's struct */
    struct rt_work *next, **link;
    struct rt_op *op; /* NULL: it has ended, or there was none */
    void (*free)(struct rt_conn *conn, struct rt_work *w); /* what its owner keeps; NULL: nothing */
    void *more;                                            /* the engine's, of every work */
    uint32_t pending; /* requests that will be answered, and whatever else is waited for */
    int err;          /* what was noted, and its words */
    char errmsg[256];
};

/* SIZE zeroed bytes that begin with a work, in *LIST. NULL: no memory, and errmsg is set. */
void *rt_work_new(struct rt_work **list, struct rt_conn *conn, size_t size, struct rt_op *op);

/* Notes ERR (0: nothing) with the present errmsg: LOST is graver than UNKNOWN, and UNKNOWN than the rest; of equals the
 * first stays. */
void rt_work_note(struct rt_conn *conn, struct rt_work *w, int err);

/* Notes ERR and ends the op, if it has not ended, with what was noted; W is freed if nothing is pending. */
void rt_work_end(struct rt_conn *conn, struct rt_work *w, int err);

/* Frees W if its op has ended and nothing is pending. */
void rt_work_settle(struct rt_conn *conn, struct rt_work *w);

/* Whether OP may take as long as it needs while the engine is there: a JOIN that waits, and a LEAVE, whose caller is
 * not kept waiting for it (core/patience). */
bool rt_work_has_time(const struct rt_op *op);

void rt_work_close(struct rt_work **list, struct rt_conn *conn); /* frees all, without a word */

#endif
