/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libmicrohttpd. */
#include "txn/http/libmicrohttpd.h"

#include <rota.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libmicrohttpd.so.12"

_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "dlsym gives functions as objects");

struct rt_libmicrohttpd rt_mhd;

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
#define FIND(result, name, arguments) all = all && find(library, "MHD_" #name, &rt_mhd.name);
    RT_LIBMICROHTTPD(FIND)
#undef FIND
    return all;
}

int rt_libmicrohttpd_load(char *errmsg, size_t size)
{
    pthread_mutex_lock(&mu);
    loaded = loaded || load();
    bool is_loaded = loaded;
    pthread_mutex_unlock(&mu);
    if (is_loaded)
        return 0;
    snprintf(errmsg, size, "to serve HTTP needs %s: install it (Debian: libmicrohttpd12)", LIBRARY);
    return ROTA_UNSUPPORTED;
}
