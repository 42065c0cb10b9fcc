/* SPDX-License-Identifier: Apache-2.0 */
/* How long an engine waits before it dials again. */
#ifndef RT_BACK_OFF_H
#define RT_BACK_OFF_H

#include <stdint.h>

#define RT_BACK_OFF_FIRST_MS 10u
#define RT_BACK_OFF_LAST_MS 500u

/* After a pause of LAST_MS (0: none yet) in vain. Twice as long each time, but never more than a twentieth of the
 * ttl: a server that is back is found while whoever holds there still has time to renew. */
static inline uint32_t rt_back_off_next(uint32_t last_ms, uint32_t ttl_ms)
{
    uint32_t most = ttl_ms / 20 < RT_BACK_OFF_LAST_MS ? ttl_ms / 20 : RT_BACK_OFF_LAST_MS;
    uint32_t ms = last_ms == 0 ? RT_BACK_OFF_FIRST_MS : last_ms * 2;

    if (ms > most)
        ms = most;
    return ms > RT_BACK_OFF_FIRST_MS ? ms : RT_BACK_OFF_FIRST_MS;
}

#endif
