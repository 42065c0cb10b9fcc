/* SPDX-License-Identifier: Apache-2.0 */
/* The command that rota relay consume runs for an event: with /bin/sh -c, in a process group of its own, with the
 * payload on its standard input and with ROTA_EVENT_ID, _TOPIC, _KEY, _TYPE (not set: there is none), _ATTEMPT, and
 * ROTA_CONSUMER in its environment.
 *
 * When we are killed, a guardian (cli/guardian.h) kills the whole group. It has copies of our connections, so a broker
 * that gives a message to somebody else when its connection ends does so when the group has gone, and not before. */
#ifndef RT_ERRAND_H
#define RT_ERRAND_H

#include "txn/relay/broker.h"

enum rt_errand_end {
    RT_ERRAND_DONE,   /* it ended with 0 */
    RT_ERRAND_FAILED, /* with something else, by a signal, or could not be started */
    RT_ERRAND_LATE,   /* it was ended after its time */
    RT_ERRAND_CUT,    /* it was ended on request */
};

struct rt_errand {
    const char *text;
    const char *consumer;
    uint32_t limit_ms; /* 0: it may take any time */
    bool aside;        /* its output goes to our standard error: ours is JSON */
    /* Called several times a second while it runs; false: it must be ended. */
    bool (*beat)(void *arg);
    void *arg;
};

/* WHY has a few words for FAILED and LATE: "exit status 3". */
enum rt_errand_end rt_errand_run(const struct rt_errand *c, const struct rt_message *m,
                                 uint32_t attempt, char *why, size_t size);

#endif
