/* SPDX-License-Identifier: Apache-2.0 */
/* The etcd of test_oom.c. */
#include "lib/etcd_server.h"
#include "oom.h"

#include <stdlib.h>

static struct rt_etcds etcds;
static char *url;

const char *oom_start(void)
{
    rt_etcds_start(&etcds, 1, NULL);
    url = rt_etcds_url(&etcds, NULL);
    return url;
}

void oom_stop(void)
{
    free(url);
    rt_etcds_fini(&etcds);
}

size_t oom_left(void)
{
    return (size_t)rt_etcds_keys(&etcds, "") + (size_t)rt_etcds_leases(&etcds);
}

bool oom_settle(void)
{
    return true; /* the server takes all of it back */
}
