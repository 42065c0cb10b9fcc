/* SPDX-License-Identifier: Apache-2.0 */
/* The three etcd: started, their leader, what is left in them. */
#include "cluster.h"

#include <stdio.h>

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)
#define ELECTION_MS 500 /* so leases last at least 1 s */

struct rt_etcds cluster;

static void start(void)
{
    struct rt_etcds_options opts = {
        .extra = {"--heartbeat-interval=50", "--election-timeout=" STRING(ELECTION_MS)}};

    rt_etcds_start(&cluster, TRIO_SERVERS, &opts);
}

static void fini(void)
{
    rt_etcds_fini(&cluster);
}

static struct rt_server *server(size_t i)
{
    return &cluster.node[i].server;
}

static void run(size_t i)
{
    rt_etcds_run(&cluster, i);
}

static int leader(int but, unsigned limit_ms)
{
    return rt_etcds_leader_but(&cluster, but, limit_ms);
}

static char *url(const uint16_t *ports)
{
    return rt_etcds_url(&cluster, ports);
}

static size_t left(char *text, size_t size)
{
    long keys = rt_etcds_keys(&cluster, "");
    long leases = rt_etcds_leases(&cluster);
    double watchers = 0;

    for (size_t i = 0; i < TRIO_SERVERS; i++)
        watchers += rt_etcds_metric(&cluster, i, RT_ETCDS_WATCHERS);
    snprintf(text, size, " %ld keys, %ld leases, %.0f watchers", keys, leases, watchers);
    return (size_t)keys + (size_t)leases + (size_t)watchers;
}

static void show_left(void)
{
    static const char *const get[] = {"get", "--prefix", "", NULL};
    char out[4096] = "";

    if (rt_etcds_ctl(&cluster, -1, out, sizeof(out), get) == 0)
        fprintf(stderr, "  keys left behind:\n%s\n", out);
}

static const struct treat_kind kinds[] = {
    {"acquire, try, share", "KV/Txn put,range #", false},
    {"acquire all", "KV/Txn put,put", false},
    {"release", "KV/Txn delete", false},
    {"look", "KV/Txn range,range #", false},
    {"look at a line, check", "KV/Txn range #", false},
    {"value", "KV/Txn range,put #", false},
    {"inspect, list", "KV/Range", false},
    {"session's key", "KV/Put", false},
    {"lease granted", "Lease/LeaseGrant", false},
    {"lease revoked", "Lease/LeaseRevoke", false},
    {"keep-alive", "Lease/LeaseKeepAlive", false},
    {"keys of the lease", "Lease/LeaseTimeToLive", false},
    {"watch created", "Watch/Watch create", false},
    {"watch canceled", "Watch/Watch cancel", false},
    {"greeting", "Maintenance/Status", false},
    {"events", "Watch/Watch events", true},
};

/* A leader was paused so long that the leases it knew of are over when it comes back: another has led meanwhile and
 * kept them alive, and yet it ends them (etcd #15247; since 3.4.34, 3.5.16 and in 3.6 again, as by #18428 a leader
 * whose clock has just ticked no longer makes sure that it leads). The best one can get: whoever held is told, and the
 * fence stops what it had under way. Hence `forgets`. */
const struct trio trio = {.engine = "etcd",
                          .framing = &rt_proxy_h2,
                          .start = start,
                          .fini = fini,
                          .server = server,
                          .run = run,
                          .leader = leader,
                          .url = url,
                          .left = left,
                          .show_left = show_left,
                          .election_ms = ELECTION_MS,
                          .ttl_ms = 10000,
                          .kills = 5,
                          .pauses = 2,
                          .forgets = true,
                          .beat = "LeaseKeepAlive",
                          .event = "Watch/Watch events",
                          .replies_processes = 6,
                          .replies_ttl_ms = 1000,
                          .kinds = kinds,
                          .kind_count = sizeof(kinds) / sizeof(kinds[0])};
