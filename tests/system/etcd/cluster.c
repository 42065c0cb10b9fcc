/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the three etcd, finds their leader, counts what is left in them. */
#include "cluster.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)
#define LEFT_EVERY_US 100000
#define LEFT_ROUNDS 150 /* 15 s: longer than any ttl here, which a new leader begins anew */

struct cluster cluster;

static void cluster_start(void)
{
    struct rt_etcds_options opts = {
        .extra = {"--heartbeat-interval=50", "--election-timeout=" STRING(CLUSTER_ELECTION_MS)}};

    rt_etcds_start(&cluster.etcds, CLUSTER_NODES, &opts);
    cluster.url = rt_etcds_url(&cluster.etcds, NULL);
}

static void cluster_fini(void)
{
    free(cluster.url);
    rt_etcds_fini(&cluster.etcds);
}

int cluster_setup(void **state)
{
    (void)state;
    cluster_start();
    return 0;
}

int cluster_teardown(void **state)
{
    (void)state;
    cluster_fini();
    return 0;
}

void cluster_way(struct cluster_way *way, uint64_t seed)
{
    uint16_t ports[CLUSTER_NODES];

    for (size_t i = 0; i < CLUSTER_NODES; i++) {
        struct rt_proxy_options opts = {
            .framing = &rt_proxy_h2, .port = cluster.etcds.node[i].server.port, .seed = seed + i};

        way->proxy[i] = rt_proxy_start(&opts);
        ports[i] = rt_proxy_port(way->proxy[i]);
    }
    way->url = rt_etcds_url(&cluster.etcds, ports);
}

void cluster_way_fini(struct cluster_way *way)
{
    for (size_t i = 0; i < CLUSTER_NODES; i++)
        rt_proxy_stop(way->proxy[i]);
    free(way->url);
}

size_t cluster_leader(int but)
{
    int leader = rt_etcds_leader_but(&cluster.etcds, but, CLUSTER_LIMIT_MS);

    assert_true(leader >= 0);
    return (size_t)leader;
}

/* ---- What is left ----------------------------------------------------------------- */

static size_t count_all(char *text, size_t size)
{
    long keys = rt_etcds_keys(&cluster.etcds, "");
    long leases = rt_etcds_leases(&cluster.etcds);
    double watchers = 0;

    for (size_t i = 0; i < CLUSTER_NODES; i++)
        watchers += rt_etcds_metric(&cluster.etcds, i, RT_ETCDS_WATCHERS);
    snprintf(text, size, " %ld keys, %ld leases, %.0f watchers", keys, leases, watchers);
    return (size_t)keys + (size_t)leases + (size_t)watchers;
}

static void tell_keys(void)
{
    static const char *const get[] = {"get", "--prefix", "", NULL};
    char out[4096] = "";

    if (rt_etcds_ctl(&cluster.etcds, -1, out, sizeof(out), get) == 0)
        fprintf(stderr, "  keys left behind:\n%s\n", out);
}

static size_t all_left(void *unused, char *text, size_t size)
{
    size_t left = count_all(text, size);

    (void)unused;
    for (int i = 0; i < LEFT_ROUNDS && left > 0; i++) {
        struct timespec pause = {.tv_nsec = LEFT_EVERY_US * 1000L};

        nanosleep(&pause, NULL);
        left = count_all(text, size);
    }
    if (left > 0)
        tell_keys();
    return left;
}

void cluster_finish(struct stage *st, bool may_lose)
{
    size_t found = stage_finish(st, all_left, NULL);

    if (!may_lose) {
        assert_int_equal(stage_lost(st), 0);
        assert_int_equal(stage_errors(st, ROTA_LOST), 0);
    }
    assert_int_equal(found, 0);
    stage_free(st);
}
