/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of the play: where they meet, and what they tell the player. */
#ifndef RT_STAGE_H
#define RT_STAGE_H

#include "txn/cli/order/order.h"

#include <limits.h>
#include <rota_txn.h>
#include <stdatomic.h>
#include <sys/types.h>

enum rt_event_kind {
    RT_EVENT_READY, /* a service, or the network (service -1), listens at port `number` */
    RT_EVENT_ERROR, /* the play cannot go on: `text` */
    RT_EVENT_BEGUN, /* a coordinator: the order has the id `txn` */
    RT_EVENT_CALL, /* a service has answered `op` of `txn`; `verdict` is its fence's; 0: it said no itself, it has `number` */
    RT_EVENT_SAYS, /* the coordinator, the network or recovery (`who`) says `text` */
    RT_EVENT_KILLED, /* the coordinator is gone: `text` */
    RT_EVENT_ENDED,  /* every service has heard of it; `op`: confirm: it was committed */
};

struct rt_event {
    enum rt_event_kind kind;
    int service;
    int op;      /* enum rota_op; 0: none */
    int verdict; /* enum rota_fenced */
    int number;
    char txn[48];
    char who[16];
    char text[200];
};

struct rt_shared { /* shared by all processes */
    _Atomic int
        victim; /* a coordinator that must die once its first confirm has been done; 0: none */
    _Atomic int order; /* which is played, from 0 on */
};

struct rt_stage {
    char folder[PATH_MAX];
    char journal[PATH_MAX + 32];   /* its URL */
    char resources[PATH_MAX + 32]; /* the file of them */
    int events[2];                 /* a pipe */
    struct rt_shared *shared;
    uint16_t ports[RT_ORDER_SERVICES];
};

/* False: errno says why. */
bool rt_stage_open(struct rt_stage *s, const char *folder);

/* The file of a service's database. Returns OUT. */
const char *rt_stage_database(const struct rt_stage *s, int service, char out[PATH_MAX + 32]);

/* Tells the player, at once and whole. From any thread of any process. */
void rt_stage_tell(const struct rt_stage *s, const struct rt_event *e);
/* RT_EVENT_SAYS; OP: the op that it is about; 0: none. */
void rt_stage_says(const struct rt_stage *s, const char *who, int op, const char *text);
/* RT_EVENT_ERROR; returns 1, for an exit. */
int rt_stage_fail(const struct rt_stage *s, const char *who, const char *why);

/* Starts a process that runs FN and exits with what it returns. It dies with the player. *LIFE is at its end when the
 * process has ended. -1: it cannot be started; errno. */
pid_t rt_stage_start(const struct rt_stage *s, int (*fn)(const struct rt_stage *s, void *arg),
                     void *arg, int *life);

/* The next event: 1. 0: there is none, and the process of LIFE has ended. -1: nothing has happened for a minute. */
int rt_stage_next(const struct rt_stage *s, int life, struct rt_event *out);

#endif
