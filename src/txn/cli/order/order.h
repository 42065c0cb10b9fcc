/* SPDX-License-Identifier: Apache-2.0 */
/* rota demo order: an order, its stock and its payment are three services; what the parts of the play share.
 *
 *   player ── forks ──▶ order, stock, payment    each a process, with an HTTP server and an SQLite of its own
 *     ▲                 the network               a proxy before them, if calls are to be lost
 *     │                 a coordinator             for each order; it may be killed
 *     │                 a recovery                if it was
 *     └──── events: all of them report what they do through one pipe, in the order in which it happened */
#ifndef RT_ORDER_H
#define RT_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct rt_args;

enum rt_order_service { RT_ORDER_ORDER, RT_ORDER_STOCK, RT_ORDER_PAYMENT, RT_ORDER_SERVICES };
extern const char *const rt_order_names[RT_ORDER_SERVICES];
extern const int rt_order_before[RT_ORDER_SERVICES]; /* what each has when the play begins */

enum rt_order_fail {
    RT_ORDER_NOTHING,
    RT_ORDER_NO_STOCK,
    RT_ORDER_NO_PAYMENT,
    RT_ORDER_COORDINATOR,
    RT_ORDER_NETWORK,
    RT_ORDER_FAILS
};
extern const char *const rt_order_fails[RT_ORDER_FAILS]; /* as --fail takes them; the first: "" */

enum rt_order_death { RT_ORDER_LIVES, RT_ORDER_DIES_UNDECIDED, RT_ORDER_DIES_DECIDED };

struct rt_order {
    const char *title;
    int amounts[RT_ORDER_SERVICES]; /* what each service must take */
    enum rt_order_death death;      /* of its coordinator */
    bool commits;                   /* how it must end */
    /* As it was played. */
    char id[48];
    bool recovered; /* somebody else finished it */
    bool committed; /* as the journal says */
    bool finished;  /* ... at every service */
};

/* The command. ARGV[0] is its name; returns an exit code. */
int rt_order_demo(struct rt_args *args, int argc, char **argv);

#endif
