/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command on a MariaDB of its own: with-mysql one|unix|tls|limited|replicated -- COMMAND ... @URL@ ...;
 * --query dialect=NAME is appended to the URL */
#include "engine/sql/driver.h"
#include "lib/with.h"
#include "mysql_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE \
    "usage: with-mysql one|unix|tls|limited|replicated [--query TEXT] -- COMMAND...   (@URL@ is replaced)\n"

static struct rt_mariadb server, replica;
static char *url;

/* limited: an account that may only read and write the tables; tls: the same, with certificates on both sides. */
static bool start(const char *topology)
{
    static const char *const known[] = {"one", "unix", "tls", "limited", "replicated"};
    struct rt_mariadb_options opts = {0};
    bool good = false;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        good = good || strcmp(topology, known[i]) == 0;
    if (!good)
        return false;
    opts.tls = opts.tls_clients = strcmp(topology, "tls") == 0;
    opts.log = strcmp(topology, "replicated") == 0;
    if (opts.tls || strcmp(topology, "limited") == 0)
        opts.ddl = rt_mysql_driver.ddl;
    setenv("MYSQL_PWD", RT_MARIADB_PASSWORD,
           1); /* for those that do not read the file named in the URL */
    rt_mariadb_start(&server, &opts);
    if (opts.log)
        rt_mariadb_start(&replica, &(struct rt_mariadb_options){.primary = &server});
    url = strcmp(topology, "unix") == 0 ? rt_mariadb_unix_url(&server, NULL)
                                        : rt_mariadb_url(&server, 0);
    return true;
}

static bool add_query(const char *query)
{
    char *all = NULL;
    if (asprintf(&all, "%s%c%s", url, strchr(url, '?') != NULL ? '&' : '?', query) < 0)
        return false;
    free(url);
    url = all;
    return true;
}

int main(int argc, char **argv)
{
    int code = 64;
    int at = argc > 4 && strcmp(argv[2], "--query") == 0 ? 4 : 2;
    if (argc < at + 2 || strcmp(argv[at], "--") != 0) {
        fputs(USAGE, stderr);
        return 64;
    }
    rt_with_pass_signals();
    if (start(argv[1]) && (at == 2 || add_query(argv[3])))
        code = rt_with_run(url, argv + at + 1);
    else
        fputs(USAGE, stderr);
    rt_mariadb_fini(&replica);
    rt_mariadb_fini(&server);
    free(url);
    return code;
}
