/* SPDX-License-Identifier: Apache-2.0 */
/* The three ZooKeepers: started, their leader, what is left in them. */
#include "ensemble.h"

#include <stdio.h>

struct rt_zks ensemble;

static void start(void)
{
    rt_zks_start(&ensemble, TRIO_SERVERS, NULL);
}

static void fini(void)
{
    rt_zks_fini(&ensemble);
}

static struct rt_server *server(size_t i)
{
    return &ensemble.node[i].server;
}

static void run(size_t i)
{
    rt_zks_run(&ensemble, i);
}

static int leader(int but, unsigned limit_ms)
{
    return rt_zks_leader_but(&ensemble, but, limit_ms);
}

static char *url(const uint16_t *ports)
{
    return rt_zks_url(&ensemble, ports);
}

static size_t left(char *text, size_t size)
{
    long nodes = rt_zks_count(&ensemble, trio_leader(-1), "zk_ephemerals_count"), watches = 0;

    for (size_t i = 0; i < TRIO_SERVERS; i++)
        watches += rt_zks_count(&ensemble, i, "zk_watch_count");
    (void)snprintf(text, size, " %ld ephemeral nodes, %ld watches", nodes, watches);
    return (size_t)nodes + (size_t)watches;
}

static const struct treat_kind kinds[] = {
    {"acquire, try, share", "create2 /rota", false},
    {"acquire all", "multi create", false},
    {"release", "delete /rota", false},
    {"list", "getChildren", false},
    {"watch", "getData /rota", false},
    {"value, touch", "setData", false},
    {"heartbeat", "sync", false},
    {"tickets", "getEphemerals", false},
    {"events", "deleted", true},
};

const struct trio trio = {.engine = "zookeeper",
                          .framing = &rt_proxy_zookeeper,
                          .start = start,
                          .fini = fini,
                          .server = server,
                          .run = run,
                          .leader = leader,
                          .url = url,
                          .left = left,
                          .election_ms = 2000, /* syncLimit */
                          .ttl_ms = 15000,
                          .kills = 3,
                          .pauses = 1,
                          .beat = "sync",
                          .event = "deleted",
                          .replies_processes = 4,
                          .replies_ttl_ms = 1500,
                          .kinds = kinds,
                          .kind_count = sizeof(kinds) / sizeof(kinds[0]),
                          .in_order = true};
