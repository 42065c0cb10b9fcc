/* SPDX-License-Identifier: Apache-2.0 */
/* How often lines are granted, as far as an observer can see. */
#include "cli/rates.h"

#include <stdlib.h>
#include <string.h>

#define LINES_MOST 64    /* a screen; each is a load on the engine */
#define LOOKS_WITHOUT 10 /* a busy lock may be free just when we look */

struct rt_rate {
    struct rt_rate *next;
    uint64_t id;
    uint64_t fence;  /* of the last front */
    uint64_t grants; /* since the last look; the first front does not count */
    unsigned seen;   /* in which look */
    bool started;
    char name[];
};

/* On the thread that looks, inside rota_process. */
static void on_front(void *arg, const struct rota_front *front)
{
    struct rt_rate *rate = arg;

    if (front->fence == 0 || front->fence == rate->fence)
        return;
    if (rate->started)
        rate->grants++;
    rate->fence = front->fence;
    rate->started = true;
}

void rt_rates_begin(struct rt_rates *rates, int64_t now)
{
    rates->since = rates->looked_at != 0 ? (double)(now - rates->looked_at) / 1e9 : 0;
    rates->looked_at = now;
    rates->looks++;
}

static struct rt_rate *find(const struct rt_rates *rates, const char *name)
{
    struct rt_rate *rate = rates->lines;

    while (rate != NULL && strcmp(rate->name, name) != 0)
        rate = rate->next;
    return rate;
}

static void observe(struct rt_rates *rates, const char *name)
{
    size_t size = strlen(name) + 1;

    if (rates->count >= LINES_MOST)
        return;
    struct rt_rate *rate = calloc(1, sizeof(*rate) + size);
    if (rate == NULL)
        return;
    memcpy(rate->name, name, size);
    if (rota_observe(rates->r, name, on_front, rate, &rate->id) != 0) {
        free(rate); /* this engine, or this moment, does not let us */
        return;
    }
    rate->seen = rates->looks;
    rate->next = rates->lines;
    rates->lines = rate;
    rates->count++;
}

double rt_rates_look(struct rt_rates *rates, const struct rota_line *line)
{
    struct rt_rate *rate = find(rates, line->name);

    if (rate == NULL) {
        observe(rates, line->name);
        return -1;
    }
    uint64_t grants = rate->grants;
    rate->grants = 0;
    rate->seen = rates->looks;
    return rates->since > 0 ? (double)grants / rates->since : -1;
}

double rt_rates_end(struct rt_rates *rates)
{
    uint64_t grants = 0;

    for (struct rt_rate **at = &rates->lines; *at != NULL;) {
        struct rt_rate *rate = *at;
        if (rates->looks - rate->seen < LOOKS_WITHOUT) {
            if (rate->seen != rates->looks) {
                grants += rate->grants;
                rate->grants = 0;
            }
            at = &rate->next;
            continue;
        }
        *at = rate->next;
        rates->count--;
        rota_unobserve(rates->r, rate->id);
        free(rate);
    }
    return rates->since > 0 ? (double)grants / rates->since : 0;
}

void rt_rates_free(struct rt_rates *rates)
{
    while (rates->lines != NULL) {
        struct rt_rate *rate = rates->lines;
        rates->lines = rate->next;
        free(rate);
    }
    rates->count = 0;
}
