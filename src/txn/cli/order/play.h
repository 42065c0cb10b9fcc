/* SPDX-License-Identifier: Apache-2.0 */
/* The play: which orders there are, who serves, who dies. */
#ifndef RT_PLAY_H
#define RT_PLAY_H

#include "txn/cli/order/order.h"

struct rt_play {
    enum rt_order_fail fail;
    bool json;
    const char *folder; /* all of it is there */
};

/* For rt_watched_run; ARG: a struct rt_play. Returns an exit code: RT_EXIT_FAILED if a sum is wrong. */
int rt_play_run(void *arg);

#endif
