/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers: asks that are granted together. */
#include "client/client.h"

int rota_barrier(struct rota *r, const char *name, uint32_t of, uint64_t limit_ms)
{
    struct rota_lock *lock;
    int rv = rt_client_check(r, true);

    if (rv == 0)
        rv = rt_name_check(r, name);
    if (rv == 0 && of == 0)
        rv = rt_fail(r, ROTA_INVALID, "a barrier has at least one party");
    if (rv != 0)
        return rv;
    struct rt_wish wish = {
        .ask = {.of = of, .limit_ms = limit_ms, .owner = ROTA_OWNER_NONE},
        .mode = RT_GATHER,
    };
    rv = rt_acquire(r, name, &wish, &lock);
    if (rv != 0)
        return rv;
    /* All of the round are granted by now: how the leaving ends changes nothing for us. */
    (void)rota_release(lock);
    return 0;
}
