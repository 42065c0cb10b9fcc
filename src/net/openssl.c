/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSL, loaded when the first TLS settings are made. */
#include "net/openssl.h"

#include "base/library.h"

#include <rota.h>
#include <stdio.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
/* The version whose headers we were compiled with: later ones of the same name are compatible. */
#define LIBSSL "libssl.so." TEXT(OPENSSL_SHLIB_VERSION)
#define LIBCRYPTO "libcrypto.so." TEXT(OPENSSL_SHLIB_VERSION)

struct rt_openssl rt_openssl;

static bool load(void *arg)
{
    (void)arg;
    void *crypto = rt_library_open(LIBCRYPTO);
    void *ssl = crypto != NULL ? rt_library_open(LIBSSL) : NULL;

#define FIND_SSL(name) &&rt_library_find(ssl, #name, &rt_openssl.name##_)
#define FIND_CRYPTO(name) &&rt_library_find(crypto, #name, &rt_openssl.name##_)
    return true RT_OPENSSL_SSL(FIND_SSL) RT_OPENSSL_CRYPTO(FIND_CRYPTO);
}

int rt_openssl_load(char *errmsg, size_t size)
{
    static struct rt_library library = RT_LIBRARY_INIT;

    if (rt_library_have(&library, load, NULL))
        return 0;
    snprintf(errmsg, size, "TLS needs OpenSSL %s or later: install %s (Debian: libssl3)",
             TEXT(OPENSSL_VERSION_MAJOR) ".0", LIBSSL);
    return ROTA_UNSUPPORTED;
}
