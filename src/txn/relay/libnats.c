/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libnats. */
#include "txn/relay/libnats.h"
#include "base/library.h"

#include <rota.h>

#include <stdio.h>

#define LIBRARY "libnats.so.3.4"

struct rt_libnats rt_nats;

static bool load(void *arg)
{
    (void)arg;
    void *handle = rt_library_open(LIBRARY);
    bool all = true;
#define FIND(name) all = all && rt_library_find(handle, #name, &rt_nats.name);
    RT_LIBNATS(FIND)
#undef FIND
    return all;
}

int rt_libnats_load(char *errmsg, size_t size)
{
    static struct rt_library library = RT_LIBRARY_INIT;

    if (rt_library_have(&library, load, NULL))
        return 0;
    snprintf(errmsg, size, "NATS needs %s: install it (Debian: libnats3.4)", LIBRARY);
    return ROTA_UNSUPPORTED;
}
