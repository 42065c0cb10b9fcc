/* SPDX-License-Identifier: Apache-2.0 */
/* A wrapper that is a bad network between client and engine: seeded, the same every time.
 *
 *   client -> [requests, in order] -> inner engine -> [replies and events, in order] -> client
 *
 * Requests keep their order, as do replies; a lost one leaves a gap. What is lost ends its op
 * with ROTA_UNKNOWN at the op's deadline or after give_up_ms, whichever is sooner. A request
 * that was only late still takes effect behind its submitter's back. Timers only: it works in
 * virtual time. */
#ifndef RT_FAULT_H
#define RT_FAULT_H

#include "engine/wrap.h"

enum rt_fault {
    RT_FAULT_NONE,
    RT_FAULT_REQUEST_LATE,    /* takes effect after a delay */
    RT_FAULT_REQUEST_LOST,    /* takes no effect */
    RT_FAULT_REQUEST_DOUBLED, /* takes effect twice; the first reply is told */
    RT_FAULT_REPLY_LATE,      /* takes effect at once, told after a delay */
    RT_FAULT_REPLY_LOST,      /* takes effect, never told */
    RT_FAULT_KINDS,
};

/* The NTH (1: first) op of KIND suffers FAULT, whatever the rates say. */
struct rt_fault_script {
    enum rt_op_kind kind;
    uint32_t nth;
    enum rt_fault fault;
    uint32_t delay_ms; /* of the late ones */
};

struct rt_fault_config {
    uint64_t seed;
    uint16_t rate[RT_FAULT_KINDS]; /* per mille of the ops, by enum rt_fault; at most one each */
    uint16_t event_late, event_lost, event_doubled; /* per mille of the events */
    uint32_t delay_min_ms, delay_max_ms;            /* of what is late */
    uint32_t give_up_ms;                            /* 0: the connection's call_ms */
    bool events_overtake;                           /* events do not wait for late replies */
    const struct rt_fault_script *script;           /* outlives the connection */
    size_t script_count;
};

/* Puts a bad network around *CONN (see engine/wrap.h). CONFIG is copied. ROTA_NOMEM. */
int rt_fault_wrap(struct rt_conn **conn, const struct rt_fault_config *config);

/* From now on these rates and delays; seed and script go on as they were. NULL: a perfect
 * network, for a liveness phase (what is under way still arrives as it was going to). */
void rt_fault_rates(struct rt_conn *conn, const struct rt_fault_config *config);

#define RT_FAULT_UP 0x1u   /* requests do not get through */
#define RT_FAULT_DOWN 0x2u /* replies and events do not */

/* Cuts these ways and joins the others: 0 heals. What was on its way waits for the healing, and
 * then arrives in order, also where its op has ended with ROTA_UNKNOWN meanwhile. */
void rt_fault_cut(struct rt_conn *conn, uint32_t ways);

/* A reset of the connection: all requests, replies and events under way are lost; ops under
 * way end with ROTA_UNKNOWN, now. */
void rt_fault_reset(struct rt_conn *conn);

#endif
