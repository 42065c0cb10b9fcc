/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command on an etcd of its own: with-etcd one|three|user|tls [--etcd PROGRAM] -- COMMAND ... @URL@ ... */
#include "etcd_server.h"
#include "lib/with.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE                                                                                \
    "usage: with-etcd one|three|user|tls|tls-three [--etcd PROGRAM] -- COMMAND...   (@URL@ " \
    "is replaced)\n"

static struct rt_etcds etcds;
static char *url;

/* With "user": a user who may only touch names with a prefix; with "tls": certificates on both sides, too. */
static bool start(const char *topology)
{
    static const struct {
        const char *name;
        size_t nodes;
        bool tls, user;
    } known[] = {{"one", 1, false, false},
                 {"three", 3, false, false},
                 {"user", 1, false, true},
                 {"tls", 1, true, true},
                 {"tls-three", 3, true, true}};
    struct rt_etcds_options opts = {0};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(topology, known[i].name) != 0)
            continue;
        opts.tls = opts.tls_clients = known[i].tls;
        opts.user = known[i].user;
        rt_etcds_start(&etcds, known[i].nodes, &opts);
        url = rt_etcds_url(&etcds, NULL);
        if (etcds.root_password[0] != '\0') { /* for etcdctl */
            char root[sizeof(etcds.root_password) + 8];
            snprintf(root, sizeof(root), "root:%s", etcds.root_password);
            setenv("ETCDCTL_USER", root, 1);
        }
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    int at = 2, code = 64;
    if (argc > 4 && strcmp(argv[2], "--etcd") == 0) {
        setenv("ROTA_TEST_ETCD", argv[3], 1);
        at = 4;
    }
    if (argc <= at + 1 || strcmp(argv[at], "--") != 0) {
        fputs(USAGE, stderr);
        return 64;
    }
    rt_with_pass_signals();
    if (start(argv[1]))
        code = rt_with_run(url, argv + at + 1);
    else
        fputs(USAGE, stderr);
    rt_etcds_fini(&etcds);
    free(url);
    return code;
}
