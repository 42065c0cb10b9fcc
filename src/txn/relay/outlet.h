/* SPDX-License-Identifier: Apache-2.0 */
/* A connection on which a consumer publishes a message now and then: receipts, and what is dead. It is opened when
 * needed, and again after trouble. */
#ifndef RT_OUTLET_H
#define RT_OUTLET_H

#include "txn/relay/broker.h"

struct rt_outlet { /* closed if zeroed but for the first two */
    const struct rt_broker_kind *kind;
    const struct rt_url *url;
    struct rt_broker *broker;
};

/* 0: the broker has confirmed it; else an error and one line. */
int rt_outlet_send(struct rt_outlet *o, const struct rt_message *m, char *errmsg, size_t size);
void rt_outlet_close(struct rt_outlet *o);

#endif
