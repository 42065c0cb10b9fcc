/* SPDX-License-Identifier: Apache-2.0 */
/* Finds librabbitmq. */
#include "txn/relay/librabbitmq.h"

#include <rota.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "librabbitmq.so.4"

_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "dlsym gives functions as objects");

struct rt_librabbitmq rt_amqp;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;

static bool find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);

    memcpy(to, &symbol, sizeof(symbol));
    return symbol != NULL;
}

/* Without success it is tried again the next time. */
static bool load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool all = library != NULL;
#define FIND(name) all = all && find(library, "amqp_" #name, &rt_amqp.name);
    RT_LIBRABBITMQ(FIND)
#undef FIND
    return all;
}

int rt_librabbitmq_load(char *errmsg, size_t size)
{
    pthread_mutex_lock(&mu);
    loaded = loaded || load();
    bool is_loaded = loaded;
    pthread_mutex_unlock(&mu);
    if (is_loaded)
        return 0;
    snprintf(errmsg, size, "RabbitMQ needs %s: install it (Debian: librabbitmq4)", LIBRARY);
    return ROTA_UNSUPPORTED;
}
