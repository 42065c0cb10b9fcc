/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator of an order, and the recovery of what a dead one left: each a process. */
#ifndef RT_BUYER_H
#define RT_BUYER_H

#include "txn/cli/order/stage.h"

/* For rt_stage_start; ARG: the struct rt_order. They end when every service has heard how it ended; else with a
 * reported error. */
int rt_buyer_order(const struct rt_stage *s, void *arg);   /* or it dies, as the order says */
int rt_buyer_recover(const struct rt_stage *s, void *arg); /* that order's */

#endif
