/* SPDX-License-Identifier: Apache-2.0 */
/* Random histories: small ones that may be legal or not, large ones that certainly are. */
#ifndef RT_RANDOM_H
#define RT_RANDOM_H

#include "checker.h"

struct rt_random {
    uint64_t state;
};

uint64_t rt_random_next(struct rt_random *rnd);
uint32_t rt_random_below(struct rt_random *rnd, uint32_t n); /* 0 to n - 1 */

enum rt_random_model {
    RT_RANDOM_EXCLUSIVE, /* calls of one hold in any order of time */
    RT_RANDOM_REENTRY,
    RT_RANDOM_PASSING, /* for rt_check_options.passing */
    RT_RANDOM_RW,
    RT_RANDOM_PERMITS,
    RT_RANDOM_MODELS
};

/* A history of one lock with at most MAX records, RT_END among them. Returns how many. */
size_t rt_random_history(struct rt_random *rnd, enum rt_random_model model, struct rt_record *out,
                         size_t max);

/* HOLDS holds of one lock, one after the other, that nothing contradicts; for each (i) the enqueue, acquire,
 * renewal and release are at 4i to 4i+3, with gaps between all of them: whatever is moved into another hold
 * is a contradiction. Fences grow by 2. Times are in steps of 10; hold i begins at 100 * (i + 1). */
void rt_random_legal(struct rt_random *rnd, uint8_t mode, struct rt_record *out, size_t holds);

#endif
