/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator of an order, and the recovery of what one left: each a process. */
#ifndef RT_BUYER_H
#define RT_BUYER_H

#include "txn/cli/order/stage.h"

/* For rt_stage_start; ARG: the struct rt_order. They end when every service has heard how it ended; else by an error, told. */
int rt_buyer_order(const struct rt_stage *s, void *arg);   /* or when it dies, as the order says */
int rt_buyer_recover(const struct rt_stage *s, void *arg); /* that order's */

#endif
