/* SPDX-License-Identifier: Apache-2.0 */
/* A moment and a time after it, neither of which has to be sane: clocks may stand before 1970, servers say anything. */
#ifndef RT_SUM_H
#define RT_SUM_H

#include <stdint.h>

/* FROM + SPAN, or the nearest value that fits. */
static inline int64_t rt_sum(int64_t from, int64_t span)
{
    int64_t sum;

    if (__builtin_add_overflow(from, span, &sum))
        return from < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

#endif
