/* SPDX-License-Identifier: Apache-2.0 */
/* A wrapper that tells what goes to and comes from an engine, one line each, through up->log
 * at ROTA_LOG_TRACE. Lines are stable: golden tests compare them.
 *
 *     0.000 > BEAT open
 *     0.000 < BEAT session=1 ttl=10000: ok
 *     0.000 > JOIN stock session=1 nonce=7 exclusive arm
 *     1.250 < JOIN stock number=3 waits: ok
 *    12.500 ! GRANTED stock session=1 number=3
 *
 * The time is in ms since the wrapper was put on, by the loop's clock. */
#ifndef RT_TRACE_H
#define RT_TRACE_H

#include "engine/wrap.h"

/* Puts a trace around *CONN (see engine/wrap.h). ROTA_NOMEM. */
int rt_trace_wrap(struct rt_conn **conn);

#endif
