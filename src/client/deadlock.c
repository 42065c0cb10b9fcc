/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlocks: waiting asks with ROTA_DETECT look for a cycle they are in. */
#include "client/client.h"

int rt_hunter_new(struct rota *r, struct rt_more *more)
{
    (void)r;
    (void)more;
    return 0;
}

void rt_hunter_free(struct rota *r, struct rt_more *more)
{
    (void)r;
    (void)more;
}
