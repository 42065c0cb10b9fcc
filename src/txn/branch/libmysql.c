/* SPDX-License-Identifier: Apache-2.0 */
/* Finds MariaDB's client library: that of the application, else the system's. */
#include "txn/branch/libmysql.h"

#include <dlfcn.h>
#include <pthread.h>
#include <rota.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LIBMARIADB "libmariadb.so.3"

_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "dlsym gives functions as objects");

struct rt_libmysql rt_my;

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
#define FIND(result, name, arguments) all = all && find(library, #name, &rt_my.name);
    RT_LIBMYSQL(FIND)
#undef FIND
    return all;
}

/* Without success it is tried again the next time. *OTHER: the program has a client library, but not this one. */
static bool load(bool *other)
{
    *other = false;
    if (dlsym(RTLD_DEFAULT, "mysql_real_query") != NULL) { /* the one that made the connection */
        *other = !find_all(RTLD_DEFAULT);
        return !*other;
    }
    void *library = dlopen(LIBMARIADB, RTLD_NOW | RTLD_LOCAL);
    return library != NULL && find_all(library);
}

int rt_libmysql_load(char *errmsg, size_t size)
{
    bool other = false;

    pthread_mutex_lock(&mu);
    loaded = loaded || load(&other);
    pthread_mutex_unlock(&mu);
    if (loaded)
        return 0;
    snprintf(errmsg, size,
             other ? "the program's MySQL client library is not MariaDB's: link it with %s"
                   : "MariaDB needs %s: install it (Debian: libmariadb3)",
             LIBMARIADB);
    return ROTA_UNSUPPORTED;
}
