/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers and elections: asks of another kind. */
#include "client/client.h"

#include <string.h>

#define VALUE_MOST 1023

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

int rt_value_check(const struct rota *r, const char *value)
{
    if (value != NULL && strlen(value) <= VALUE_MOST)
        return 0;
    return rt_fail(r, ROTA_INVALID, "a value has at most %d bytes", VALUE_MOST);
}

int rota_elect_sized(struct rota *r, const char *name, const char *value,
                     const struct rota_ask *ask, size_t size, struct rota_lock **out)
{
    struct rt_wish wish;
    int rv = rt_client_check(r, true);

    if (rv == 0)
        rv = rt_name_check(r, name);
    if (rv == 0)
        rv = rt_value_check(r, value);
    if (rv == 0)
        rv = rt_wish_init(r, &wish, ask, size);
    if (rv == 0 && wish.mode != RT_EXCLUSIVE)
        rv = rt_fail(r, ROTA_INVALID, "a leadership is exclusive: leave the mode 0");
    if (rv != 0)
        return rv;
    wish.value = value;
    return rt_acquire(r, name, &wish, out);
}
