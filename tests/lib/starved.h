/* SPDX-License-Identifier: Apache-2.0 */
/* How long this process was kept from running: an excuse for what came too late, and no larger than that.
 *
 * A thread that does nothing but sleep for a moment, again and again, notes when it came back. The time by
 * which it overslept is a gap. Whatever was late by no more than the gaps of the last moments may have been
 * late for the same reason; and each gap excuses only as many as were under way then. Beyond that it is a
 * finding: a busy machine must not make every lateness legal. */
#ifndef RT_STARVED_H
#define RT_STARVED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define RT_STARVED_GAPS 64

struct rt_starved {
    pthread_mutex_t mutex;
    int64_t pulse_ns; /* how long it sleeps if nothing keeps it */
    int64_t least_ns; /* oversleeping by less is no gap */
    uint32_t each;    /* how many a gap excuses */
    int64_t pulse_at; /* when it last came back */
    struct {
        int64_t from, to; /* the overslept part ends with `to` */
        uint32_t excused;
    } gaps[RT_STARVED_GAPS]; /* the last ones */
    uint32_t count;
};

void rt_starved_init(struct rt_starved *s, int64_t pulse_ns, int64_t least_ns, uint32_t each,
                     int64_t now);
void rt_starved_pulse(struct rt_starved *s, int64_t now);

/* Whether what is told NOW may be LATE_NS late because of the gaps that ended in the LATELY_NS before;
 * if so, one of them has excused one more. */
bool rt_starved_excuses(struct rt_starved *s, int64_t now, int64_t late_ns, int64_t lately_ns);

#endif
