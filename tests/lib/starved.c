/* SPDX-License-Identifier: Apache-2.0 */
/* How long this process was kept from running. */
#include "starved.h"

#include <assert.h>

void rt_starved_init(struct rt_starved *s, int64_t pulse_ns, int64_t least_ns, uint32_t each,
                     int64_t now)
{
    assert(each > 0);
    *s = (struct rt_starved){
        .pulse_ns = pulse_ns, .least_ns = least_ns, .each = each, .pulse_at = now};
    pthread_mutex_init(&s->mutex, NULL);
}

/* The gap that has lasted since the last pulse; noted again, it is the same gap. */
static void note(struct rt_starved *s, int64_t now)
{
    uint32_t last = (s->count + RT_STARVED_GAPS - 1) % RT_STARVED_GAPS;

    if (now - s->pulse_at <= s->pulse_ns + s->least_ns)
        return;
    if (s->count == 0 || s->gaps[last].from != s->pulse_at + s->pulse_ns) {
        last = s->count++ % RT_STARVED_GAPS;
        s->gaps[last].from = s->pulse_at + s->pulse_ns;
        s->gaps[last].excused = 0;
    }
    s->gaps[last].to = now;
}

void rt_starved_pulse(struct rt_starved *s, int64_t now)
{
    pthread_mutex_lock(&s->mutex);
    note(s, now);
    s->pulse_at = now;
    pthread_mutex_unlock(&s->mutex);
}

bool rt_starved_excuses(struct rt_starved *s, int64_t now, int64_t late_ns, int64_t lately_ns)
{
    int64_t sum = s->least_ns;
    uint32_t *free_place = NULL;

    pthread_mutex_lock(&s->mutex);
    note(s, now);
    for (uint32_t i = 0; i < s->count && i < RT_STARVED_GAPS; i++) {
        if (s->gaps[i].to <= now - lately_ns)
            continue;
        sum += s->gaps[i].to - s->gaps[i].from;
        if (s->gaps[i].excused < s->each)
            free_place = &s->gaps[i].excused;
    }
    bool excused = free_place != NULL && late_ns <= sum;
    if (excused)
        ++*free_place;
    pthread_mutex_unlock(&s->mutex);
    return excused;
}
