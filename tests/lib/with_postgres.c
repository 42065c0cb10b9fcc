/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command on a PostgreSQL of its own: with-postgres one|unix|tls|limited|durable|two-phase -- COMMAND ... @URL@ ...;
 * --query dialect=NAME is appended to the URL */
#include "engine/sql/driver.h"
#include "lib/with.h"
#include "postgres_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE \
    "usage: with-postgres one|unix|tls|limited|durable|two-phase [--query TEXT] -- COMMAND...   (@URL@ is replaced)\n"

static struct rt_pg server;
static char *url;

/* "limited": a user with a password and no right except to use the tables; "tls" is the same with certificates on
 * both sides. */
static bool start(const char *topology)
{
    static const struct {
        const char *name;
        bool by_unix;
        struct rt_pg_options opts;
    } known[] = {
        {"one", false, {0}},
        {"unix", true, {0}},
        {"tls", false, {.tls = true, .tls_clients = true, .user = true}},
        {"limited", false, {.user = true}},
        {"durable", false, {.durable = true}},
        {"two-phase", false, {.extra = {"max_prepared_transactions=64"}}},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(topology, known[i].name) != 0)
            continue;
        rt_pg_start(&server, &known[i].opts);
        if (known[i].opts.user)
            rt_pg_make_tables(&server, rt_postgres_driver.ddl);
        url = known[i].by_unix ? rt_pg_unix_url(&server) : rt_pg_url(&server, 0);
        return true;
    }
    return false;
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
    rt_pg_fini(&server);
    free(url);
    return code;
}
