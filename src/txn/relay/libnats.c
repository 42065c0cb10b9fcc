/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libnats. */
#include "txn/relay/libnats.h"

#include <rota.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libnats.so.3.4"

_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "dlsym gives functions as objects");

struct rt_libnats rt_nats;

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
#define FIND(name) all = all && find(library, #name, &rt_nats.name);
    RT_LIBNATS(FIND)
#undef FIND
    return all;
}

int rt_libnats_load(char *errmsg, size_t size)
{
    pthread_mutex_lock(&mu);
    loaded = loaded || load();
    bool is_loaded = loaded;
    pthread_mutex_unlock(&mu);
    if (is_loaded)
        return 0;
    snprintf(errmsg, size, "NATS needs %s: install it (Debian: libnats3.4)", LIBRARY);
    return ROTA_UNSUPPORTED;
}
