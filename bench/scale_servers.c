/* SPDX-License-Identifier: Apache-2.0 */
/* The servers on which it is measured how cost grows: durable, each for its own bench only. */
#include "lib/etcd_server.h"
#include "scale.h"

#include <stdio.h>
#include <stdlib.h>

void bench_scale_file(const struct bench *b)
{
    char url[BENCH_URL];
    struct rt_bench place = bench_place(b, "file", "scale", url);
    scale_run(b, &(struct scale_place){.name = "file", .url = place.url});
}

/* ---- etcd ---------------------------------------------------------------- */

static struct rt_etcds etcd;

static void etcd_down(void)
{
    rt_server_kill(&etcd.node[0].server);
}

static void etcd_up(void)
{
    rt_etcds_run(&etcd, 0);
}

static long etcd_kept(void)
{
    return rt_etcds_keys(&etcd, "");
}

void bench_scale_etcd(const struct bench *b)
{
    rt_etcds_start(&etcd, 1, NULL);
    char *url = rt_etcds_url(&etcd, NULL);
    scale_run(b, &(struct scale_place){.name = "etcd",
                                       .url = url,
                                       .server = etcd.node[0].server.pid,
                                       .down = etcd_down,
                                       .up = etcd_up,
                                       .kept = etcd_kept});
    free(url);
    rt_etcds_fini(&etcd);
}

/* ---- ZooKeeper ----------------------------------------------------------- */

#ifdef BENCH_ZOOKEEPER
#include "lib/zookeeper_server.h"

static struct rt_zks zookeeper;

static void zookeeper_down(void)
{
    rt_server_kill(&zookeeper.node[0].server);
}

static void zookeeper_up(void)
{
    rt_zks_run(&zookeeper, 0);
}

static long zookeeper_kept(void)
{
    return rt_zks_count(&zookeeper, 0, "zk_znode_count");
}

void bench_scale_zookeeper(const struct bench *b)
{
    rt_zks_start(&zookeeper, 1, NULL);
    char *url = rt_zks_url(&zookeeper, NULL);
    scale_run(b, &(struct scale_place){.name = "zookeeper",
                                       .url = url,
                                       .server = zookeeper.node[0].server.pid,
                                       .down = zookeeper_down,
                                       .up = zookeeper_up,
                                       .kept = zookeeper_kept});
    free(url);
    rt_zks_fini(&zookeeper);
}
#endif

/* ---- Redis --------------------------------------------------------------- */

#ifdef BENCH_REDIS_SERVER
#include "lib/redis_server.h"
#include "redis.h"

static struct rt_redis redis;

static void redis_down(void)
{
    rt_redis_kill(&redis);
}

static void redis_up(void)
{
    rt_redis_run(&redis);
}

static long redis_kept(void)
{
    return (long)rt_redis_integer(&redis, "DBSIZE");
}

/* N keys as a client without Rota makes locks, all sent before the first answer is read. */
static double redis_locks_s(int n)
{
    redisContext *c = redisConnect("127.0.0.1", redis.server.port);
    int64_t from = rt_bench_ns();
    for (int i = 0; i < n; i++)
        redisAppendCommand(c, "SET bare-%d x NX PX 600000", i);
    for (int i = 0; i < n; i++) {
        redisReply *reply = NULL;
        (void)redisGetReply(c, (void **)&reply);
        freeReplyObject(redis_must(c, reply));
    }
    double took = (double)(rt_bench_ns() - from) / 1e9;
    for (int i = 0; i < n; i++)
        freeReplyObject(redis_do(c, "DEL bare-%d", i));
    redisFree(c);
    return took;
}

void bench_scale_redis(const struct bench *b)
{
    rt_redis_start(&redis, &(struct rt_redis_options){.keep = RT_REDIS_ALWAYS});
    char *url = rt_redis_url(&redis, 0);
    scale_run(b, &(struct scale_place){.name = "redis",
                                       .url = url,
                                       .server = redis.server.pid,
                                       .down = redis_down,
                                       .up = redis_up,
                                       .kept = redis_kept,
                                       .locks_s = redis_locks_s});
    free(url);
    rt_redis_fini(&redis);
}
#endif

/* ---- PostgreSQL and MariaDB ---------------------------------------------- */

#ifdef BENCH_SQL
#include "sql.h"

#include <stdatomic.h>

static const struct sql_way *way;
static struct hand *hands[100];
static atomic_int next_hand;

static int update_turn(void *arg)
{
    static _Thread_local struct hand *mine;
    (void)arg;
    if (mine == NULL)
        mine = hands[atomic_fetch_add(&next_hand, 1)];
    way->update_pair(mine, "row");
    return 0;
}

/* The hot row: N connections with BEGIN, SELECT ... FOR UPDATE, COMMIT. */
static double sql_contended(int n, double seconds)
{
    double rate = 0;
    atomic_store(&next_hand, 0);
    for (int i = 0; i < n; i++)
        hands[i] = way->dial();
    bench_done(rt_bench_crowd(n, seconds, update_turn, NULL, &rate));
    for (int i = 0; i < n; i++)
        way->hang_up(hands[i]);
    return rate;
}

static void on_sql(const struct bench *b, const struct sql_way *which)
{
    way = which;
    bench_sql_stop(); /* another bench's, on the same variables */
    way->start();
    scale_run(b, &(struct scale_place){.name = way->name,
                                       .url = way->url(),
                                       .server = way->pid(),
                                       .down = way->down,
                                       .up = way->up,
                                       .kept = way->kept,
                                       .contended = sql_contended});
    way->stop();
}

void bench_scale_postgres(const struct bench *b)
{
    on_sql(b, &sql_postgres);
}

void bench_scale_mysql(const struct bench *b)
{
    on_sql(b, &sql_mysql);
}
#endif
