/* SPDX-License-Identifier: Apache-2.0 */
/* The benches on etcd: all on one node, which is started for the first of them, and Go's side with it. */
#include "etcd.h"

#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct etcd etcd;
static bool started;

static struct etcd *the_etcd(const struct bench *b)
{
    char endpoint[64];
    if (started)
        return &etcd;
    started = true;
    rt_etcds_start(&etcd.node, 1, NULL);
    etcd.url = rt_etcds_url(&etcd.node, NULL);
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u",
             (unsigned)etcd.node.node[0].server.port);
    bool both = peer_start(&etcd.go[0], "etcd-peer", endpoint) &&
                peer_start(&etcd.go[1], "etcd-peer", endpoint);
    if (!both && b->json)
        printf("{\"skipped\":\"comparisons with Go on etcd\"}\n");
    else if (!both)
        printf("  SKIPPED: there is no Go, or not its modules: nothing is compared on etcd\n");
    return &etcd;
}

void bench_etcd_stop(void)
{
    if (!started)
        return;
    started = false;
    for (int i = 0; i < 2; i++)
        peer_stop(&etcd.go[i]);
    rt_etcds_fini(&etcd.node);
}

struct rota *etcd_open(const struct etcd *e, const struct rota_options *opts)
{
    const struct rt_bench place = {.url = e->url, .prefix = ""};
    struct rota *r = NULL;
    bench_done(rt_bench_open(&place, &r, opts));
    return r;
}

double etcd_messages(struct etcd *e)
{
    return rt_etcds_metric(&e->node, 0, "grpc_server_msg_received_total");
}

double etcd_cpu_us(const struct etcd *e)
{
    return rt_bench_tree_cpu_us(e->node.node[0].server.pid);
}

/* ---- The wire ---------------------------------------------------------------- */

static bool leads_to(int fd, uint16_t port)
{
    struct sockaddr_in in = {0};
    socklen_t size = sizeof in;
    return getpeername(fd, (struct sockaddr *)&in, &size) == 0 && in.sin_family == AF_INET &&
           ntohs(in.sin_port) == port;
}

struct wire wire_ours(const struct etcd *e)
{
    struct wire all = {0};
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        int fd = (int)strtol(entry->d_name, NULL, 10); /* "." gives 0, which is none */
        struct tcp_info info = {0};
        socklen_t size = sizeof info;
        if (!leads_to(fd, e->node.node[0].server.port) ||
            getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
            continue;
        all.sent += (double)info.tcpi_bytes_acked;
        all.received += (double)info.tcpi_bytes_received;
        all.segments_out += info.tcpi_data_segs_out;
        all.segments_in += info.tcpi_data_segs_in;
    }
    if (dir != NULL)
        closedir(dir);
    return all;
}

struct wire wire_theirs(struct peer *p)
{
    double n[4];
    peer_tell(p, "wire");
    peer_hear(p, n, 4);
    return (struct wire){n[0], n[1], n[2], n[3]};
}

#define BENCH(name)                               \
    void bench_etcd_##name(const struct bench *b) \
    {                                             \
        etcd_bench_##name(b, the_etcd(b));        \
    }
BENCH(pair)
BENCH(flight)
BENCH(mutex)
BENCH(handover)
BENCH(threads)
BENCH(waiters)
BENCH(held)
BENCH(takeover)
