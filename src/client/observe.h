/* SPDX-License-Identifier: Apache-2.0 */
/* Observations of lines: fronts for callbacks, counts for latches. */
#ifndef RT_OBSERVE_H
#define RT_OBSERVE_H

#include "client/client.h"

/* Waits until NAME's line has OF tickets; LIMIT_MS 0: no limit. */
int rt_observe_count(struct rota *r, const char *name, uint32_t of, uint64_t limit_ms);

#endif
