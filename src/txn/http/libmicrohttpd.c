/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libmicrohttpd. */
#include "txn/http/libmicrohttpd.h"
#include "base/library.h"

#include <rota.h>

#include <stdio.h>

#define LIBRARY "libmicrohttpd.so.12"

struct rt_libmicrohttpd rt_mhd;

static bool load(void *arg)
{
    (void)arg;
    void *handle = rt_library_open(LIBRARY);
    bool all = true;
#define FIND(result, name, arguments) \
    all = all && rt_library_find(handle, "MHD_" #name, &rt_mhd.name);
    RT_LIBMICROHTTPD(FIND)
#undef FIND
    return all;
}

int rt_libmicrohttpd_load(char *errmsg, size_t size)
{
    static struct rt_library library = RT_LIBRARY_INIT;

    if (rt_library_have(&library, load, NULL))
        return 0;
    snprintf(errmsg, size, "serving HTTP needs %s: install it (Debian: libmicrohttpd12)", LIBRARY);
    return ROTA_UNSUPPORTED;
}
