/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command on a ZooKeeper of its own: with-zookeeper one|three|digest|tls|tls-three -- COMMAND ... @URL@ ... */
#include "lib/with.h"
#include "zookeeper_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE                                                                                           \
    "usage: with-zookeeper one|three|digest|tls|tls-three [QUERY] -- COMMAND...   (@URL@ is replaced, " \
    "with &QUERY behind it)\n"

static struct rt_zks servers;
static char *url;

/* digest: a user who makes everything; tls: certificates on both sides. */
static bool start(const char *topology)
{
    static const struct {
        const char *name;
        size_t nodes;
        bool tls, user;
    } known[] = {{"one", 1, false, false},
                 {"three", 3, false, false},
                 {"digest", 1, false, true},
                 {"tls", 1, true, false},
                 {"tls-three", 3, true, true}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct rt_zks_options opts = {
            .tls = known[i].tls, .tls_clients = known[i].tls, .user = known[i].user};
        if (strcmp(topology, known[i].name) != 0)
            continue;
        rt_zks_start(&servers, known[i].nodes, &opts);
        url = rt_zks_url(&servers, NULL);
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    int at = argc > 3 && strcmp(argv[2], "--") != 0 ? 3 : 2, code = 64;
    if (argc <= at + 1 || strcmp(argv[at], "--") != 0) {
        fputs(USAGE, stderr);
        return 64;
    }
    rt_with_pass_signals();
    if (start(argv[1])) {
        if (at == 3) {
            char *whole = NULL;
            if (asprintf(&whole, "%s&%s", url, argv[2]) < 0)
                return 1;
            free(url);
            url = whole;
        }
        code = rt_with_run(url, argv + at + 1);
    } else {
        fputs(USAGE, stderr);
    }
    rt_zks_fini(&servers);
    free(url);
    return code;
}
