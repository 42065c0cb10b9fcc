/* SPDX-License-Identifier: Apache-2.0 */
/* The reference engine, mem:NAME. All clients of one process that open the same NAME meet in
 * one world, which is there as long as one of them is. On a virtual loop nothing wakes a
 * client by itself: whoever moves the clock asks here. */
#ifndef RT_MEM_H
#define RT_MEM_H

#include "engine/engine.h"

#include <stddef.h>

extern const struct rt_engine rt_engine_mem;

/* Whether others have left something for CONN: events, or a reason to look at its timer.
 * CONN is the mem connection itself, not a wrapper around it. */
bool rt_mem_pending(const struct rt_conn *conn);

/* Delivers what was left for CONN, and sets its timer anew. Returns whether an event went up.
 * Real loops do this by themselves. */
bool rt_mem_deliver(struct rt_conn *conn);

#endif
