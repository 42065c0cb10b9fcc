/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libcurl: OpenSSL's flavour, else that of GnuTLS. */
#include "txn/http/libcurl.h"

#include <rota.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "dlsym gives functions as objects");

struct rt_libcurl rt_curl;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;

static bool find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);

    memcpy(to, &symbol, sizeof(symbol));
    return symbol != NULL;
}

static bool find_all(void *library)
{
    bool all = true;
#define FIND(result, name, arguments) all = all && find(library, "curl_" #name, &rt_curl.name);
    RT_LIBCURL(FIND)
#undef FIND
    return all;
}

/* Without success it is tried again the next time. curl_global_init counts, so that a program that uses libcurl itself
 * is not disturbed; nothing takes ours back. */
static bool load(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *library = NULL;

    for (size_t i = 0; library == NULL && i < sizeof(names) / sizeof(names[0]); i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library != NULL && find_all(library) &&
           rt_curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

int rt_libcurl_load(char *errmsg, size_t size)
{
    pthread_mutex_lock(&mu);
    loaded = loaded || load();
    bool is_loaded = loaded;
    pthread_mutex_unlock(&mu);
    if (is_loaded)
        return 0;
    snprintf(errmsg, size, "services over HTTP need libcurl.so.4: install it (Debian: libcurl4)");
    return ROTA_UNSUPPORTED;
}
