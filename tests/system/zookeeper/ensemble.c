/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the three ZooKeepers, finds their leader, counts what is left in them. */
#include "ensemble.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define LEFT_EVERY_US 100000
#define LEFT_ROUNDS 200 /* 20 s: longer than any session here */

struct ensemble ensemble;

int ensemble_setup(void **state)
{
    (void)state;
    rt_zks_start(&ensemble.zks, ENSEMBLE_SERVERS, NULL);
    ensemble.url = rt_zks_url(&ensemble.zks, NULL);
    return 0;
}

int ensemble_teardown(void **state)
{
    (void)state;
    free(ensemble.url);
    rt_zks_fini(&ensemble.zks);
    return 0;
}

void ensemble_way(struct ensemble_way *way, uint64_t seed)
{
    uint16_t ports[ENSEMBLE_SERVERS];

    for (size_t i = 0; i < ENSEMBLE_SERVERS; i++) {
        struct rt_proxy_options opts = {.framing = &rt_proxy_zookeeper,
                                        .port = ensemble.zks.node[i].server.port,
                                        .seed = seed + i};

        way->proxy[i] = rt_proxy_start(&opts);
        ports[i] = rt_proxy_port(way->proxy[i]);
    }
    way->url = rt_zks_url(&ensemble.zks, ports);
}

void ensemble_way_fini(struct ensemble_way *way)
{
    for (size_t i = 0; i < ENSEMBLE_SERVERS; i++)
        rt_proxy_stop(way->proxy[i]);
    free(way->url);
}

size_t ensemble_leader(void)
{
    int leader = rt_zks_leader(&ensemble.zks, ENSEMBLE_LIMIT_MS);

    assert_true(leader >= 0);
    return (size_t)leader;
}

/* ---- What is left ----------------------------------------------------------------- */

static long count_of(size_t i, const char *name)
{
    char said[16384], line[80];

    rt_zks_say(&ensemble.zks, i, "mntr", said, sizeof(said));
    (void)snprintf(line, sizeof(line), "\n%s\t", name);
    const char *at = strstr(said, line);
    return at != NULL ? strtol(at + strlen(line), NULL, 10) : 0;
}

long ensemble_count(const char *name)
{
    long sum = 0;

    for (size_t i = 0; i < ENSEMBLE_SERVERS; i++)
        sum += count_of(i, name);
    return sum;
}

static size_t count_all(char *text, size_t size)
{
    long nodes = count_of(ensemble_leader(), "zk_ephemerals_count");
    long watches = ensemble_count("zk_watch_count");

    (void)snprintf(text, size, " %ld ephemeral nodes, %ld watches", nodes, watches);
    return (size_t)nodes + (size_t)watches;
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
    return left;
}

void ensemble_finish(struct stage *st, bool may_lose)
{
    size_t found = stage_finish(st, all_left, NULL);

    if (!may_lose) {
        assert_int_equal(stage_lost(st), 0);
        assert_int_equal(stage_errors(st, ROTA_LOST), 0);
    }
    assert_int_equal(found, 0);
    stage_free(st);
}
