/* SPDX-License-Identifier: Apache-2.0 */
/* The benches on ZooKeeper: a server of their own, what the bare requests cost there with the same codec, and what
 * Curator and kazoo do on it. */
#ifndef BENCH_ZOOKEEPER_H
#define BENCH_ZOOKEEPER_H

#include "bench.h"
#include "lib/zookeeper_server.h"
#include "peer.h"

struct zookeeper {
    struct rt_zks node;
    struct peer curator[2], kazoo; /* pid 0: there is none */
    const char *url;
};

struct rota *zookeeper_open(const struct zookeeper *z, const struct rota_options *opts);

/* ---- Bare requests, by the engine's own codec over a socket (zookeeper_bare.c); they end the program on any error -------- */

struct zk_bare;
struct zk_bare *zk_bare_open(uint16_t port);
void zk_bare_close(struct zk_bare *b);
/* N times create, list, delete, each answered before the next; the median of one, in us. */
double zk_bare_pairs_us(struct zk_bare *b, int n);
/* The same, AT_ONCE at a time, on as many lines: create and list in one flight, then delete. Pairs per second. */
double zk_bare_flight(struct zk_bare *b, int at_once, int pairs);
/* A deletes what B watches, N times: the median time from there to B's list, in us. */
double zk_bare_handover_us(struct zk_bare *a, struct zk_bare *b, int n);

/* ---- The benches (zookeeper.c) -------- */

void zookeeper_bench_pair(const struct bench *b, struct zookeeper *z);
void zookeeper_bench_flight(const struct bench *b, struct zookeeper *z);
void zookeeper_bench_handover(const struct bench *b, struct zookeeper *z);
void zookeeper_bench_peers(const struct bench *b, struct zookeeper *z);
void zookeeper_bench_herd(const struct bench *b, struct zookeeper *z);

#endif
