/* SPDX-License-Identifier: Apache-2.0 */
/* What a service is asked: the inside of struct rota_call. */
#ifndef RT_CALL_H
#define RT_CALL_H

#include "txn/core/name.h"

#include <rota_txn.h>

/* "try", "confirm", "cancel", as in the header Rota-Op; NULL: OP is not an operation. */
const char *rt_call_op_name(int32_t op);

/* OP on the branch that NAME names: what a service's function is called with. */
void rt_call_of(struct rota_call *out, const struct rt_name *name, enum rota_op op);

/* 0: CALL is as rota_call_read or rt_call_of fills it, and *OUT is its name. Else ROTA_INVALID, and
 * rota_txn_errmsg(NULL) says why. */
int rt_call_check(const struct rota_call *call, struct rt_name *out);

#endif
