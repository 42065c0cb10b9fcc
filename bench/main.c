/* SPDX-License-Identifier: Apache-2.0 */
/* rota-bench: the figures behind the promises, on this machine. */
#include "bench.h"

#include "cli/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int missed;
static struct rt_scratch scratch; /* static: it is large */
static pid_t measurer;

#define SCALE "locks, clients, waiters and names by the thousand on "

static const struct {
    const char *name;
    void (*run)(const struct bench *b); /* NULL: not in this build; WHAT says why */
    const char *what;
} benches[] = {
    {"pair", bench_pair, "uncontended pairs: file, mem, linger; against SQLite and flock"},
    {"threads", bench_threads, "32 threads on one lock: passing on, against a hand-written mutex"},
    {"handover", bench_handover, "from one process to another"},
    {"takeover", bench_takeover, "after the holder was killed"},
    {"deadlock", bench_deadlock, "three processes that wait for each other"},
    {"held", bench_held, "100,000 held locks: memory and speed"},
    {"scale-file", bench_scale_file, SCALE "file"},
    {"scale-etcd", bench_scale_etcd, SCALE "etcd; an outage"},
#ifdef BENCH_REDIS_SERVER
    {"scale-redis", bench_scale_redis, SCALE "Redis, beside bare SETs; an outage"},
#endif
#ifdef BENCH_ZOOKEEPER
    {"scale-zookeeper", bench_scale_zookeeper, SCALE "ZooKeeper; an outage"},
#endif
#ifdef BENCH_SQL
    {"scale-postgres", bench_scale_postgres, SCALE "PostgreSQL, beside a bare hot row; an outage"},
    {"scale-mysql", bench_scale_mysql, SCALE "MariaDB, beside a bare hot row; an outage"},
    {"scale-txn", bench_scale_txn,
     "100,000 finished transactions: journals in a file and on PostgreSQL"},
#endif
    {"redis-pair", bench_redis_pair,
     "pairs on Redis, TCP and unix socket: against bare hiredis, same scripts"},
    {"redis-flight", bench_redis_flight,
     "64 asks in flight on Redis: against bare hiredis, same scripts"},
    {"redis-cost", bench_redis_cost, "what a pair costs the server: against SET NX PX"},
    {"redis-dialects", bench_redis_dialects,
     "pairs of the dialects on Redis: against SET NX PX and compare-and-delete by bare hiredis"},
    {"redis-peers", bench_redis_peers,
     "dialects on Redis, 1 and 32 threads on locks of their own, hand-over: against redsync and Redisson"},
    {"redis-fsync", bench_redis_fsync, "pairs with appendfsync always"},
    {"redis-handover", bench_redis_handover, "from one process to another on Redis: against BLPOP"},
    {"redis-waiters", bench_redis_waiters,
     "100 processes in line on Redis: against BLPOP and a herd"},
    {"redis-linger", bench_redis_linger, "one thread that locks again and again on Redis"},
    {"redis-threads", bench_redis_threads, "32 threads on one lock on Redis: passing on"},
    {"redis-held", bench_redis_held, "10,000 held locks on Redis: heartbeats and memory"},
    {"redis-takeover", bench_redis_takeover, "on Redis, after the holder was killed"},
    {"redlock-pair", bench_redlock_pair,
     "pairs on Redlock's five nodes: against SET NX and DEL on all at once by bare hiredis"},
    {"redlock-flight", bench_redlock_flight, "32 asks in flight on Redlock's five nodes"},
    {"redlock-peers", bench_redlock_peers, "32 on Redlock's five nodes: against node-redlock"},
    {"etcd-pair", bench_etcd_pair, "pairs on etcd: against Go's bare Txn and delete"},
    {"etcd-flight", bench_etcd_flight, "64 asks in flight on etcd: against Go's, bare"},
    {"etcd-mutex", bench_etcd_mutex, "distinct locks on etcd, 1 and 32: against Go's Mutex"},
    {"etcd-handover", bench_etcd_handover, "from one process to another on etcd: against Go's"},
    {"etcd-threads", bench_etcd_threads, "32 threads on one lock on etcd: against Go's"},
    {"etcd-waiters", bench_etcd_waiters, "100 processes in line on etcd: against Go's"},
    {"etcd-held", bench_etcd_held, "1 and 10,000 held locks on etcd: heartbeats and memory"},
    {"etcd-takeover", bench_etcd_takeover, "on etcd, after the holder was killed"},
#ifdef BENCH_ZOOKEEPER
    {"zookeeper-pair", bench_zookeeper_pair,
     "pairs on ZooKeeper: against bare create, list, delete by the same codec"},
    {"zookeeper-flight", bench_zookeeper_flight,
     "64 asks in flight on ZooKeeper: against the bare requests, 64 at once"},
    {"zookeeper-handover", bench_zookeeper_handover,
     "from one process to another on ZooKeeper: against bare event + list, and Curator"},
    {"zookeeper-peers", bench_zookeeper_peers,
     "32 threads on ZooKeeper, on 32 locks and on one: against Curator and kazoo"},
    {"zookeeper-herd", bench_zookeeper_herd,
     "1,000 who wait on ZooKeeper: those that a release wakes; and with ?dialect=simple"},
#else
    {"zookeeper", NULL,
     "ZooKeeper or Java is not installed, or it was built with -Dtests=disabled"},
#endif
#ifdef BENCH_SQL
    {"postgres-pair", bench_postgres_pair,
     "pairs on PostgreSQL: against INSERT and DELETE, advisory locks, FOR UPDATE"},
    {"postgres-flight", bench_postgres_flight,
     "16 at once on PostgreSQL: against 16 connections with INSERT and DELETE"},
    {"postgres-handover", bench_postgres_handover,
     "from one client to another on PostgreSQL: against DELETE and NOTIFY by hand"},
    {"postgres-threads", bench_postgres_threads, "32 threads on one lock on PostgreSQL"},
    {"postgres-waiters", bench_postgres_waiters, "100 who wait on PostgreSQL: what they cost"},
    {"postgres-dialects", bench_postgres_dialects,
     "pairs of the dialects on PostgreSQL: against their statements by hand"},
    {"mysql-dialects", bench_mysql_dialects,
     "pairs of the dialects on MariaDB: against their statements by hand"},
    {"mysql-pair", bench_mysql_pair,
     "pairs on MariaDB: against INSERT and DELETE, GET_LOCK, FOR UPDATE"},
    {"mysql-flight", bench_mysql_flight,
     "16 at once on MariaDB: against 16 connections with INSERT and DELETE"},
    {"mysql-handover", bench_mysql_handover,
     "from one client to another on MariaDB: against the same bell by hand"},
    {"mysql-threads", bench_mysql_threads, "32 threads on one lock on MariaDB"},
    {"mysql-waiters", bench_mysql_waiters, "100 who wait on MariaDB: what they cost"},
    {"txn-transfer", bench_txn_transfer,
     "transactions over two databases, 1 and 16 clients: against two-phase commit by hand"},
    {"txn-forced", bench_txn_forced, "forced writes of a transaction over two databases"},
    {"txn-decide", bench_txn_decide,
     "64 who decide at once: journals in a file and on PostgreSQL, against bare INSERTs"},
    {"txn-peers", bench_txn_peers,
     "transactions over two databases, 16 clients: against Seata's XA and DTM's"},
#ifdef BENCH_HTTP
    {"txn-tcc", bench_txn_tcc,
     "two services over HTTP, 1, 16 and 64 clients: against the same calls by hand and a durable row, DTM and Seata"},
    {"txn-serve", bench_txn_serve,
     "DTM's client with sagas and tccs of two services, 1, 16 and 64 clients: on rota-txn serve, against DTM"},
#else
    {"txn-http", NULL, "it was built without libcurl or libmicrohttpd"},
#endif
#ifdef BENCH_OUTBOX
    {"outbox-speed", bench_outbox_speed,
     "events of a table to brokers, and round trips to the database: against a bare publisher with the same batch"},
    {"outbox-cost", bench_outbox_cost,
     "processor time of an event in the relay, the database and the broker: beside a bare publisher's"},
    {"outbox-lag", bench_outbox_lag,
     "how long events wait, one at a time and under load: against one publish"},
    {"outbox-growth", bench_outbox_growth,
     "a table of events from 0 to 1,000,000 rows: claims, looks; clean-up while somebody writes"},
#else
    {"outbox", NULL,
     "the server of a broker is not installed, or it was built without Redis as one"},
#endif
#else
#define NO_SQL "PostgreSQL or MariaDB is not installed, or it was built with -Dtests=disabled"
    {"postgres", NULL, NO_SQL},
    {"mysql", NULL, NO_SQL},
    {"txn", NULL, NO_SQL},
    {"outbox", NULL, NO_SQL},
#endif
};

void bench_say(const struct bench *b, const char *what, double value, const char *unit)
{
    if (b->json)
        printf("{\"what\":\"%s\",\"value\":%.7g,\"unit\":\"%s\"}\n", what, value, unit);
    else
        printf("  %-58s %10.4g %s\n", what, value, unit);
    fflush(stdout);
}

void bench_goal(const struct bench *b, const char *what, double value, const char *unit,
                bool at_least, double goal)
{
    bool met = at_least ? value >= goal : value <= goal;
    missed += !met;
    const char *sign = at_least ? ">=" : "<=";
    if (b->json)
        printf("{\"what\":\"%s\",\"value\":%.4g,\"unit\":\"%s\",\"goal\":\"%s %g\",\"met\":%s}\n",
               what, value, unit, sign, goal, met ? "true" : "false");
    else
        printf("  %-58s %10.4g %-6s goal %s %g: %s\n", what, value, unit, sign, goal,
               met ? "met" : "MISSED");
    fflush(stdout);
}

int bench_missed(void)
{
    return missed;
}

void bench_done(int code)
{
    if (code != 0)
        exit(1);
}

double bench_flight(struct rota *r, int at_once, int pairs)
{
    const struct rt_bench_flight how = {.names = at_once, .at_once = at_once, .pairs = pairs};
    double per_second = 0;
    bench_done(rt_bench_flight(r, "n", &how, &per_second));
    return per_second;
}

struct rt_bench bench_place(const struct bench *b, const char *scheme, const char *name, char *url)
{
    if (strcmp(scheme, "file") == 0)
        snprintf(url, BENCH_URL, "file:%s/%s", b->folder, name);
    else
        snprintf(url, BENCH_URL, "%s:%s", scheme, name);
    return (struct rt_bench){.url = url, .prefix = ""};
}

struct rota *bench_open(const struct bench *b, const char *scheme, const char *name,
                        const struct rota_options *opts)
{
    char url[BENCH_URL];
    struct rt_bench place = bench_place(b, scheme, name, url);
    struct rota *r = NULL;
    bench_done(rt_bench_open(&place, &r, opts));
    return r;
}

static int usage(FILE *out)
{
    fprintf(out,
            "usage: rota-bench [--json] [--quick] [BENCH...]\n\n"
            "BENCH may be the first word of several: redis, redlock, etcd, zookeeper, postgres, "
            "mysql, txn, outbox, scale. Without words: all but scale.\n\n");
    for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++)
        fprintf(out, "  %-17s %s%s\n", benches[i].name,
                benches[i].run == NULL ? "not in this build: " : "", benches[i].what);
    return out == stderr ? 64 : 0;
}

static bool means(const char *word, const char *name)
{
    size_t n = strlen(word);
    return strncmp(word, name, n) == 0 && (name[n] == '\0' || name[n] == '-');
}

static bool wanted(const char *name, int argc, char **argv)
{
    bool any = false;
    for (int i = 1; i < argc; i++) {
        any |= argv[i][0] != '-';
        if (means(argv[i], name))
            return true;
    }
    return !any && !means("scale", name);
}

static bool is_there(const char *word)
{
    for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++)
        if (means(word, benches[i].name))
            return true;
    fprintf(stderr, "rota-bench: there is no bench '%s' in this build: see --help\n", word);
    return false;
}

/* Runs the Ith bench, or says why it cannot be run. */
static void run(const struct bench *b, size_t i)
{
    const char *skipped = benches[i].run == NULL ? "SKIPPED: " : "";

    if (!b->json)
        printf("%s: %s%s\n", benches[i].name, skipped, benches[i].what);
    else if (benches[i].run == NULL)
        printf("{\"skipped\":\"%s\",\"why\":\"%s\"}\n", benches[i].name, benches[i].what);
    if (benches[i].run != NULL)
        benches[i].run(b);
}

/* Also when a bench gave up; but not in child processes that some of them have. */
static void clear_up(void)
{
    if (getpid() != measurer)
        return;
    bench_redis_stop();
    bench_redlock_stop();
    bench_etcd_stop();
#ifdef BENCH_ZOOKEEPER
    bench_zookeeper_stop();
#endif
#ifdef BENCH_OUTBOX
    bench_outbox_stop();
#endif
#ifdef BENCH_SQL
    bench_sql_stop();
    bench_txn_stop();
#endif
    rt_scratch_remove(&scratch);
}

int main(int argc, char **argv)
{
    struct bench b = {.folder = scratch.folder, .scale = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            b.json = true;
        else if (strcmp(argv[i], "--quick") == 0)
            b.scale = 0.1;
        else if (strcmp(argv[i], "--help") == 0)
            return usage(stdout);
        else if (argv[i][0] == '-')
            return usage(stderr);
        else if (!is_there(argv[i]))
            return 64;
    }
    int code = rt_scratch_make(&scratch, "bench");
    if (code != 0)
        return code;
    measurer = getpid();
    atexit(clear_up);
    for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++)
        if (wanted(benches[i].name, argc, argv))
            run(&b, i);
    if (missed > 0 && !b.json)
        printf("%d goal%s missed\n", missed, missed == 1 ? "" : "s");
    return missed > 0 ? 1 : 0;
}
