/* SPDX-License-Identifier: Apache-2.0 */
/* Finds librabbitmq. */
#include "txn/relay/librabbitmq.h"
#include "base/library.h"

#include <rota.h>

#include <stdio.h>

#define LIBRARY "librabbitmq.so.4"

struct rt_librabbitmq rt_amqp;

static bool load(void *arg)
{
    (void)arg;
    void *handle = rt_library_open(LIBRARY);
    bool all = true;
#define FIND(name) all = all && rt_library_find(handle, "amqp_" #name, &rt_amqp.name);
    RT_LIBRABBITMQ(FIND)
#undef FIND
    return all;
}

int rt_librabbitmq_load(char *errmsg, size_t size)
{
    static struct rt_library library = RT_LIBRARY_INIT;

    if (rt_library_have(&library, load, NULL))
        return 0;
    snprintf(errmsg, size, "RabbitMQ needs %s: install it (Debian: librabbitmq4)", LIBRARY);
    return ROTA_UNSUPPORTED;
}
