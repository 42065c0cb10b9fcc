/* SPDX-License-Identifier: Apache-2.0 */
/* What may be asked of a line at all, before anything is sent: one answer for all engines.
 *
 * Each returns 0, or a definite error (ROTA_INVALID, ROTA_LOST) with errmsg that names the line. */
#ifndef RT_CHECK_H
#define RT_CHECK_H

#include "engine/engine.h"

int rt_check_name(struct rt_conn *conn,
                  const char *name); /* 1 byte to RT_NAME_ROOM, its end included */
int rt_check_value(struct rt_conn *conn, const char *name,
                   const char *value); /* VALUE may be NULL */

/* The joins of OP, JOIN or JOIN_ALL: names, nonces, modes, values, times; a set is of one session. */
int rt_check_joins(struct rt_conn *conn, const struct rt_op *op);

/* ... and their session is SESSION (0: there is none), unless they are durable: else ROTA_LOST. */
int rt_check_session(struct rt_conn *conn, const struct rt_op *op, uint64_t session);

#endif
