/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command on a Redis of its own: with-redis TOPOLOGY [--proxy delays] -- COMMAND ... @URL@ ... */
#include "lib/with.h"
#include "redis_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE                                                                                       \
    "usage: with-redis one|always|everysec|unix|tls|sentinel|cluster\n"                             \
    "                  |redlock|redlock-always|redlock-tls\n"                                       \
    "                  [--proxy delays[=MAX_US]] [--seed N] [--rules ACL] [--query dialect=NAME]\n" \
    "                  -- COMMAND...   (@URL@ is replaced)\n"

#define DELAY_MAX_US 2000

static struct {
    const char *topology;
    const char *rules;
    const char *query; /* is appended to the URL */
    uint32_t delay_us; /* 0: no proxy */
    uint64_t seed;
    char **command;
} args;

static struct {
    struct rt_redis node;
    struct rt_proxy *proxy;
    struct rt_redis_sentinels *sentinels;
    struct rt_redis_cluster *cluster;
    struct rt_redis_redlock *redlock;
    char *url;
} running;

/* ---- Topologies --------------------------------------------------------- */

static void start_proxy(const char *listen, const char *host)
{
    struct rt_proxy_options opts = {.listen = listen,
                                    .host = host,
                                    .port = running.node.server.port,
                                    .framing = running.node.tls ? NULL : &rt_proxy_resp,
                                    .seed = args.seed};

    running.proxy = rt_proxy_start(&opts);
    rt_proxy_chaos(running.proxy, args.delay_us);
}

static void start_one(void)
{
    struct rt_redis_options opts = {0};

    if (strcmp(args.topology, "always") == 0)
        opts.keep = RT_REDIS_ALWAYS;
    if (strcmp(args.topology, "everysec") == 0)
        opts.keep = RT_REDIS_EVERYSEC;
    if (strcmp(args.topology, "tls") == 0) {
        opts.tls = true;
        opts.user = "rota";
        opts.user_password = "of-the-limited-user";
        opts.user_rules = args.rules;
    }
    rt_redis_start(&running.node, &opts);
    if (args.delay_us > 0)
        start_proxy(NULL, NULL);
    running.url = rt_redis_url(&running.node, running.proxy ? rt_proxy_port(running.proxy) : 0);
}

static void start_unix(void)
{
    char path[sizeof(running.node.socket) + 8];

    rt_redis_start(&running.node, NULL);
    snprintf(path, sizeof(path), "%s.p", running.node.socket);
    if (args.delay_us > 0)
        start_proxy(path, running.node.socket);
    running.url = rt_redis_unix_url(&running.node, running.proxy != NULL ? path : NULL);
}

/* Nobody dies here, and a busy machine must not make a primary look dead. */
static const struct rt_redis_options patient = {.patient = true};

static void start_sentinels(void)
{
    running.sentinels = rt_redis_sentinels_new(&patient, args.delay_us > 0, args.seed);
    for (int i = 0; i < 3 && args.delay_us > 0; i++)
        rt_proxy_chaos(running.sentinels->proxy[i], args.delay_us);
    running.url = rt_redis_sentinels_url(running.sentinels);
}

static void start_cluster(void)
{
    running.cluster = rt_redis_cluster_new(&patient, args.delay_us > 0, args.seed);
    for (int i = 0; i < 6 && args.delay_us > 0; i++)
        rt_proxy_chaos(running.cluster->proxy[i], args.delay_us);
    running.url = rt_redis_cluster_url(running.cluster);
}

static void start_redlock(void)
{
    struct rt_redis_options opts = {0};

    if (strcmp(args.topology, "redlock-always") == 0)
        opts.keep = RT_REDIS_ALWAYS;
    if (strcmp(args.topology, "redlock-tls") == 0)
        opts = (struct rt_redis_options){.tls = true,
                                         .user = "rota",
                                         .user_password = "of-the-limited-user",
                                         .user_rules = args.rules != NULL ? args.rules
                                                                          : RT_REDLOCK_RULES};
    running.redlock = rt_redis_redlock_new(&opts, args.delay_us > 0, args.seed);
    for (int i = 0; i < RT_REDLOCK_FIVE && args.delay_us > 0; i++)
        rt_proxy_chaos(running.redlock->proxy[i], args.delay_us);
    running.url = rt_redis_redlock_url(running.redlock, "max_ttl=0"); /* they were just started */
}

static bool start(void)
{
    if (strcmp(args.topology, "unix") == 0)
        start_unix();
    else if (strcmp(args.topology, "sentinel") == 0)
        start_sentinels();
    else if (strcmp(args.topology, "cluster") == 0)
        start_cluster();
    else if (strncmp(args.topology, "redlock", 7) == 0)
        start_redlock();
    else if (strcmp(args.topology, "one") == 0 || strcmp(args.topology, "always") == 0 ||
             strcmp(args.topology, "everysec") == 0 || strcmp(args.topology, "tls") == 0)
        start_one();
    return running.url != NULL;
}

static void stop(void)
{
    rt_proxy_stop(running.proxy);
    rt_redis_sentinels_free(running.sentinels);
    rt_redis_cluster_free(running.cluster);
    rt_redis_redlock_free(running.redlock);
    rt_redis_fini(&running.node);
    free(running.url);
}

static void add_query(void)
{
    char *whole = NULL;

    if (args.query == NULL)
        return;
    if (asprintf(&whole, "%s%c%s", running.url, strchr(running.url, '?') != NULL ? '&' : '?',
                 args.query) < 0)
        abort();
    free(running.url);
    running.url = whole;
}

/* ---- The command -------------------------------------------------------- */

static bool parse(int argc, char **argv)
{
    int i = 2;

    if (argc < 2)
        return false;
    args.topology = argv[1];
    for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
        if (strcmp(argv[i], "--proxy") == 0 && strncmp(argv[i + 1], "delays", 6) == 0)
            args.delay_us = argv[i + 1][6] == '=' ? (uint32_t)strtoul(argv[i + 1] + 7, NULL, 10)
                                                  : DELAY_MAX_US;
        else if (strcmp(argv[i], "--seed") == 0)
            args.seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--rules") == 0)
            args.rules = argv[i + 1];
        else if (strcmp(argv[i], "--query") == 0)
            args.query = argv[i + 1];
        else
            return false;
    }
    args.command = argv + i + 1;
    return i + 1 < argc && strcmp(argv[i], "--") == 0;
}

int main(int argc, char **argv)
{
    int code = 64;

    if (!parse(argc, argv)) {
        fputs(USAGE, stderr);
        return 64;
    }
    rt_with_pass_signals();
    if (start()) {
        add_query();
        code = rt_with_run(running.url, args.command);
    } else {
        fputs(USAGE, stderr);
    }
    stop();
    return code;
}
