/* SPDX-License-Identifier: Apache-2.0 */
/* The ZooKeeper of test_oom.c. Its lines stay for a while, empty: test_oom.c looks at them. */
#include "lib/zookeeper_server.h"
#include "oom.h"

#include <stdlib.h>

static struct rt_zks zks;
static char *url;

const char *oom_start(void)
{
    rt_zks_start(&zks, 1, NULL);
    url = rt_zks_url(&zks, NULL);
    return url;
}

void oom_stop(void)
{
    free(url);
    rt_zks_fini(&zks);
}

size_t oom_left(void)
{
    return (size_t)rt_zks_count(&zks, 0, "zk_ephemerals_count");
}

bool oom_settle(void)
{
    return true; /* the server takes all of it back */
}
