/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to lock that an engine has: its own line, and the dialects of others. */
#ifndef RT_STRATEGIES_H
#define RT_STRATEGIES_H

#include <stdbool.h>
#include <stddef.h>

#define RT_STRATEGIES_MOST 16

struct rt_strategy {
    const char *dialect; /* NULL: the engine's own */
    bool unsafe;         /* here to be seen, not to be used */
};

/* All that the engine of URL has, its own first; if URL names a dialect, only that one. Returns how many. */
size_t rt_strategies_of(const char *url, struct rt_strategy out[RT_STRATEGIES_MOST]);

/* URL with the dialect of STRATEGY. False: longer than SIZE. */
bool rt_strategies_url(const struct rt_strategy *strategy, const char *url, char *out, size_t size);

#endif
