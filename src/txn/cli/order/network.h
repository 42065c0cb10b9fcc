/* SPDX-License-Identifier: Apache-2.0 */
/* The network between coordinators and services: a proxy that doubles calls, loses them and their answers, and brings a try
 * after its cancel. */
#ifndef RT_NETWORK_H
#define RT_NETWORK_H

#include "txn/cli/order/stage.h"

enum {
    RT_NETWORK_DOUBLES,
    RT_NETWORK_LOSES,
    RT_NETWORK_DELAYS
}; /* in the first, second, third order */

/* For rt_stage_start, once the services listen: /NAME/OP leads to the service's own. Runs until it is killed. */
int rt_network_run(const struct rt_stage *s, void *arg);

#endif
