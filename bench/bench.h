/* SPDX-License-Identifier: Apache-2.0 */
/* Benches: measured in rounds that alternate with what they are compared to, and reported as ratios, because the
 * machines are noisy. A missed goal is reported, never hidden. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/bench/measure.h"

struct bench {
    const char *folder; /* temporary; removed at the end */
    double scale;       /* 1 usually; smaller: quick and rough */
    bool json;
};

/* One line of the report. GOAL 0: none; else VALUE must be at most (or, AT_LEAST, at least) GOAL. */
void bench_say(const struct bench *b, const char *what, double value, const char *unit);
void bench_goal(const struct bench *b, const char *what, double value, const char *unit,
                bool at_least, double goal);
int bench_missed(void);

/* Opens a client on "file:FOLDER/NAME" or "mem:NAME"; ends the program if it cannot. */
#define BENCH_URL 4200
/* The same for what rota bench also measures; its URL is kept in URL. */
struct rt_bench bench_place(const struct bench *b, const char *scheme, const char *name, char *url);
/* Ends the program unless CODE, from one of those, is 0: they have said why. */
void bench_done(int code);
struct rota *bench_open(const struct bench *b, const char *scheme, const char *name,
                        const struct rota_options *opts);

/* Pairs per second of R with this many asks in flight on as many names. */
#define BENCH_FLIGHT 64
double bench_flight(struct rota *r, int at_once, int pairs);

/* Pairs per second of THREADS threads of R, each on a lock of its own (threads.c). */
double bench_distinct(struct rota *r, int threads, double seconds);

/* ---- Rounds that alternate with what they are compared to (beside.c) ---- */

#define BESIDE_MOST 32

struct beside {
    double ours[BESIDE_MOST], theirs[BESIDE_MOST], ratio[BESIDE_MOST];
    size_t n;
};

struct beside_text {
    const char *ours, *theirs, *ratio, *unit; /* ours NULL: already reported */
    double goal;                              /* of the ratio, ours / theirs; 0: none */
    bool at_least;
};

/* THEIRS 0: there is nobody to compare with. */
void beside_add(struct beside *s, double ours, double theirs);
void beside_say(const struct bench *b, struct beside *s, const struct beside_text *text);
/* WHO, with whom we compare, is not here. */
void bench_skipped(const struct bench *b, const char *who);

void bench_pair(const struct bench *b);     /* pairs against SQLite and flock, fsyncs, keeper */
void bench_threads(const struct bench *b);  /* 32 threads on one lock */
void bench_takeover(const struct bench *b); /* a holder killed -9 */
void bench_deadlock(const struct bench *b); /* a ring of three processes */
void bench_held(const struct bench *b);     /* 100,000 held locks */
void bench_handover(const struct bench *b); /* between two processes */

/* On a redis-server of ours, the same for all of them (redis.c). */
void bench_redis_pair(const struct bench *b);
void bench_redis_flight(const struct bench *b);
void bench_redis_cost(const struct bench *b);
void bench_redis_dialects(const struct bench *b);
void bench_redis_peers(const struct bench *b);
void bench_redis_fsync(const struct bench *b);
void bench_redis_handover(const struct bench *b);
void bench_redis_waiters(const struct bench *b);
void bench_redis_linger(const struct bench *b);
void bench_redis_threads(const struct bench *b);
void bench_redis_held(const struct bench *b);
void bench_redis_takeover(const struct bench *b);
void bench_redis_stop(void); /* also if it was not started */

/* On five redis-servers of ours (redlock.c). */
void bench_redlock_pair(const struct bench *b);
void bench_redlock_flight(const struct bench *b);
void bench_redlock_peers(const struct bench *b);
void bench_redlock_stop(void); /* also if they were not started */

/* On an etcd of ours, against Go's clients if there is Go (etcd.c). */
void bench_etcd_pair(const struct bench *b);
void bench_etcd_flight(const struct bench *b);
void bench_etcd_mutex(const struct bench *b);
void bench_etcd_handover(const struct bench *b);
void bench_etcd_threads(const struct bench *b);
void bench_etcd_waiters(const struct bench *b);
void bench_etcd_held(const struct bench *b);
void bench_etcd_takeover(const struct bench *b);
void bench_etcd_stop(void); /* also if it was not started */

/* On a ZooKeeper of ours, against the bare requests by the same codec, and Curator and kazoo if installed
 * (zookeeper.c). */
void bench_zookeeper_pair(const struct bench *b);
void bench_zookeeper_flight(const struct bench *b);
void bench_zookeeper_handover(const struct bench *b);
void bench_zookeeper_peers(const struct bench *b);
void bench_zookeeper_herd(const struct bench *b);
void bench_zookeeper_stop(void); /* also if it was not started */

/* On a PostgreSQL and a MariaDB of ours, durable as they come, against bare statements (sql.c). */
void bench_postgres_pair(const struct bench *b);
void bench_postgres_flight(const struct bench *b);
void bench_postgres_handover(const struct bench *b);
void bench_postgres_threads(const struct bench *b);
void bench_postgres_waiters(const struct bench *b);
void bench_postgres_dialects(const struct bench *b);
void bench_mysql_dialects(const struct bench *b);
void bench_mysql_pair(const struct bench *b);
void bench_mysql_flight(const struct bench *b);
void bench_mysql_handover(const struct bench *b);
void bench_mysql_threads(const struct bench *b);
void bench_mysql_waiters(const struct bench *b);
void bench_sql_stop(void); /* also if none was started */

/* Transactions over both, against the same statements by hand, and Seata's and DTM's XA if installed (txn.c). */
void bench_txn_transfer(const struct bench *b);
void bench_txn_forced(const struct bench *b);
void bench_txn_decide(const struct bench *b);
void bench_txn_peers(const struct bench *b);
void bench_txn_tcc(const struct bench *b);   /* services over HTTP: tcc.c */
void bench_txn_serve(const struct bench *b); /* rota-txn serve: serve.c */
void bench_txn_stop(void);                   /* also if nothing was started */

/* The outbox: from a PostgreSQL and a MariaDB of ours to RabbitMQ, NATS and Redis (outbox*.c). */
void bench_outbox_speed(const struct bench *b);
void bench_outbox_cost(const struct bench *b);
void bench_outbox_lag(const struct bench *b);
void bench_outbox_growth(const struct bench *b);
void bench_outbox_stop(void); /* also if nothing was started */

/* How cost grows: docs/scale.md; each on a server of its own, durable (scale_servers.c). */
void bench_scale_file(const struct bench *b);
void bench_scale_redis(const struct bench *b);
void bench_scale_postgres(const struct bench *b);
void bench_scale_mysql(const struct bench *b);
void bench_scale_etcd(const struct bench *b);
void bench_scale_zookeeper(const struct bench *b);
void bench_scale_txn(const struct bench *b); /* txn_decide.c */

#endif
