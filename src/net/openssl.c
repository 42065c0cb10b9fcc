/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSL, loaded when the first TLS settings are made. */
#include "net/openssl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <rota.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
/* The version whose headers we were compiled with: later ones of the same name are compatible. */
#define LIBSSL "libssl.so." TEXT(OPENSSL_SHLIB_VERSION)
#define LIBCRYPTO "libcrypto.so." TEXT(OPENSSL_SHLIB_VERSION)

_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "dlsym gives functions as objects");

struct rt_openssl rt_openssl;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;

static bool find(void *library, const char *name, void *to)
{
    void *symbol = library != NULL ? dlsym(library, name) : NULL;

    memcpy(to, &symbol, sizeof(symbol));
    return symbol != NULL;
}

/* Without success it is tried again the next time: there may only have been no descriptor left. */
static bool load(void)
{
    void *crypto = dlopen(LIBCRYPTO, RTLD_NOW | RTLD_LOCAL);
    void *ssl = crypto != NULL ? dlopen(LIBSSL, RTLD_NOW | RTLD_LOCAL) : NULL;

#define FIND_SSL(name) &&find(ssl, #name, &rt_openssl.name##_)
#define FIND_CRYPTO(name) &&find(crypto, #name, &rt_openssl.name##_)
    return true RT_OPENSSL_SSL(FIND_SSL) RT_OPENSSL_CRYPTO(FIND_CRYPTO);
}

int rt_openssl_load(char *errmsg, size_t size)
{
    pthread_mutex_lock(&mu);
    loaded = loaded || load();
    pthread_mutex_unlock(&mu);
    if (loaded)
        return 0;
    snprintf(errmsg, size, "TLS needs OpenSSL %s or later: install %s (Debian: libssl3)",
             TEXT(OPENSSL_VERSION_MAJOR) ".0", LIBSSL);
    return ROTA_UNSUPPORTED;
}
