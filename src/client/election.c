/* SPDX-License-Identifier: Apache-2.0 */
/* Elections: locks whose front carries a value; observe.c has the other side. */
#include "client/client.h"

#include <string.h>

int rt_value_check(const struct rota *r, const char *value)
{
    if (value != NULL && strlen(value) <= ROTA_VALUE_MAX)
        return 0;
    return rt_fail(r, ROTA_INVALID, "a value has at most %d bytes", ROTA_VALUE_MAX);
}

int rt_elect_wish(struct rota *r, struct rt_wish *wish, const char *name, const char *value,
                  const struct rota_ask *ask, size_t size)
{
    int rv = rt_name_check(r, name);

    if (rv == 0)
        rv = rt_value_check(r, value);
    if (rv == 0)
        rv = rt_wish_init(r, wish, ask, size);
    if (rv == 0 && (rota_caps(r) & ROTA_CAP_ORDER) == 0)
        rv = rt_fail(r, ROTA_UNSUPPORTED,
                     "elections are not possible on %s: there is no order of arrival",
                     r->shown_url);
    if (rv == 0 && wish->mode != RT_EXCLUSIVE)
        rv = rt_fail(r, ROTA_INVALID, "a leadership is exclusive: leave the mode 0");
    if (rv == 0)
        wish->value = value;
    return rv;
}

int rota_elect_sized(struct rota *r, const char *name, const char *value,
                     const struct rota_ask *ask, size_t size, struct rota_lock **out)
{
    struct rt_wish wish;
    int rv = rt_client_check(r, true);

    if (rv == 0 && out == NULL)
        rv = rt_fail(r, ROTA_INVALID, "there is no place for the lock");
    if (rv == 0)
        rv = rt_elect_wish(r, &wish, name, value, ask, size);
    return rv != 0 ? rv : rt_acquire(r, name, &wish, out);
}
