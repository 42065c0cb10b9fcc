/* SPDX-License-Identifier: Apache-2.0 */
/* libpq, loaded for the first URL that needs it. */
#include "engine/postgres/libpq.h"

#include "base/library.h"

#include <rota.h>
#include <stdio.h>

#define LIBPQ "libpq.so.5"

struct rt_libpq rt_pq;

/* *HAVE, a bool: the library is there, though perhaps too old (pipelines came with 14). */
static bool load(void *have)
{
    void *pq = rt_library_open(LIBPQ);

    *(bool *)have = pq != NULL;
#define FIND(name) &&rt_library_find(pq, #name, &rt_pq.name)
    return true RT_LIBPQ(FIND);
}

int rt_libpq_load(char *errmsg, size_t size)
{
    static struct rt_library library = RT_LIBRARY_INIT;
    bool have = false;

    if (rt_library_have(&library, load, &have))
        return 0;
    snprintf(errmsg, size,
             "PostgreSQL needs %s of version 14 or later%s: install it (Debian: libpq5)", LIBPQ,
             have ? ", and the one here is older" : "");
    return ROTA_UNSUPPORTED;
}
