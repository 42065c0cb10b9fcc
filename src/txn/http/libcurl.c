/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libcurl: the OpenSSL flavour, else the GnuTLS one. */
#include "txn/http/libcurl.h"

#include "base/library.h"

#include <rota.h>

#include <stdio.h>

struct rt_libcurl rt_curl;

static bool find_all(void *handle)
{
    bool all = true;
#define FIND(result, name, arguments) \
    all = all && rt_library_find(handle, "curl_" #name, &rt_curl.name);
    RT_LIBCURL(FIND)
#undef FIND
    return all;
}

/* curl_global_init counts its calls, so a program that uses libcurl itself is not disturbed; ours is never undone. */
static bool load(void *arg)
{
    (void)arg;
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *handle = NULL;

    for (size_t i = 0; handle == NULL && i < sizeof(names) / sizeof(names[0]); i++)
        handle = rt_library_open(names[i]);
    return find_all(handle) && rt_curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

int rt_libcurl_load(char *errmsg, size_t size)
{
    static struct rt_library library = RT_LIBRARY_INIT;

    if (rt_library_have(&library, load, NULL))
        return 0;
    snprintf(errmsg, size, "services over HTTP need libcurl.so.4: install it (Debian: libcurl4)");
    return ROTA_UNSUPPORTED;
}
