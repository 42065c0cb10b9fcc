/* SPDX-License-Identifier: Apache-2.0 */
/* Finds MariaDB's client library: the application's, else the system's. */
#include "txn/branch/libmysql.h"

#include "base/library.h"

#include <rota.h>
#include <stdio.h>

#define LIBMARIADB "libmariadb.so.3"

struct rt_libmysql rt_my;

static bool find_all(void *handle)
{
    bool all = true;
#define FIND(result, name, arguments) all = all && rt_library_find(handle, #name, &rt_my.name);
    RT_LIBMYSQL(FIND)
#undef FIND
    return all;
}

/* *OTHER, a bool: the program has a client library, but not this one. */
static bool load(void *other)
{
    void *program = rt_library_open(NULL);
    void (*query)(void);

    if (rt_library_find(program, "mysql_real_query", &query)) { /* it made the connection */
        bool all = find_all(program);
        *(bool *)other = !all;
        return all;
    }
    return find_all(rt_library_open(LIBMARIADB));
}

int rt_libmysql_load(char *errmsg, size_t size)
{
    static struct rt_library library = RT_LIBRARY_INIT;
    bool other = false;

    if (rt_library_have(&library, load, &other))
        return 0;
    snprintf(errmsg, size,
             other ? "the program's MySQL client library is not MariaDB's: link it with %s"
                   : "MariaDB needs %s: install it (Debian: libmariadb3)",
             LIBMARIADB);
    return ROTA_UNSUPPORTED;
}
