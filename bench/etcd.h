/* SPDX-License-Identifier: Apache-2.0 */
/* The benches on etcd: a node of their own, and what Go's clients do on it. */
#ifndef BENCH_ETCD_H
#define BENCH_ETCD_H

#include "bench.h"
#include "lib/etcd_server.h"
#include "peer.h"

/* ---- The node (etcd.c) ------------------------- */

struct etcd {
    struct rt_etcds node;
    struct peer go[2]; /* pid 0: there is no Go */
    const char *url;
};

struct rota *etcd_open(const struct etcd *e, const struct rota_options *opts);
/* Messages that the node has received from all its clients so far. */
double etcd_messages(struct etcd *e);

double etcd_cpu_us(const struct etcd *e); /* of the node, so far */

/* What went over our connections to the node so far; for Go's, its command `wire` says. */
struct wire {
    double sent, received, segments_out, segments_in;
};
struct wire wire_ours(const struct etcd *e);
struct wire wire_theirs(struct peer *p);

/* ---- The benches ----------------------------------------------------------- */

void etcd_bench_pair(const struct bench *b, struct etcd *e); /* etcd_pair.c */
void etcd_bench_flight(const struct bench *b, struct etcd *e);
void etcd_bench_mutex(const struct bench *b, struct etcd *e);
void etcd_bench_handover(const struct bench *b, struct etcd *e); /* etcd_line.c */
void etcd_bench_threads(const struct bench *b, struct etcd *e);
void etcd_bench_waiters(const struct bench *b, struct etcd *e);
void etcd_bench_held(const struct bench *b, struct etcd *e); /* etcd_hold.c */
void etcd_bench_takeover(const struct bench *b, struct etcd *e);

#endif
