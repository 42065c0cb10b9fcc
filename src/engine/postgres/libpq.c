/* SPDX-License-Identifier: Apache-2.0 */
/* libpq, loaded at the first URL that needs it. */
#include "engine/postgres/libpq.h"

#include <dlfcn.h>
#include <pthread.h>
#include <rota.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LIBPQ "libpq.so.5"

_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "dlsym gives functions as objects");

struct rt_libpq rt_pq;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;

static bool find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);

    memcpy(to, &symbol, sizeof(symbol));
    return symbol != NULL;
}

/* Without success it is tried again the next time: there may only have been no descriptor left. *HAVE: the library is
 * there, if perhaps too old (pipelines came with 14). */
static bool load(bool *have)
{
    void *pq = dlopen(LIBPQ, RTLD_NOW | RTLD_LOCAL);

    *have = pq != NULL;
#define FIND(name) &&find(pq, #name, &rt_pq.name)
    return pq != NULL RT_LIBPQ(FIND);
}

int rt_libpq_load(char *errmsg, size_t size)
{
    bool have = false;

    pthread_mutex_lock(&mu);
    loaded = loaded || load(&have);
    pthread_mutex_unlock(&mu);
    if (loaded)
        return 0;
    snprintf(errmsg, size,
             "PostgreSQL needs %s of version 14 or later%s: install it (Debian: libpq5)", LIBPQ,
             have ? ", and the one here is older" : "");
    return ROTA_UNSUPPORTED;
}
