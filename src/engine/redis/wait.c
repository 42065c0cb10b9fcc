/* SPDX-License-Identifier: Apache-2.0 */
/* ?replicas=n: a grant is reported when so many replicas have it. */
#include "engine/redis/link.h"

void rt_redis_when_replicated(struct rt_redis_conn *c, uint32_t room, int64_t deadline,
                              void (*fn)(struct rt_redis_conn *c, void *arg, int err), void *arg)
{
    (void)room;
    (void)deadline;
    fn(c, arg, ROTA_UNSUPPORTED);
}
