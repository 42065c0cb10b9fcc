/* SPDX-License-Identifier: Apache-2.0 */
/* Forced writes of a transaction over two databases: 2 at each, and the journal's, which many share. */
#include "txn.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FORCED_S 2.0
#define FORCED_MOST 5.05 /* 2n + 1; servers and SQLite also write now and then by themselves */

/* ---- Ours: the C library's, counted. SQLite calls these ------------------------ */

static _Atomic long forced;

int fdatasync(int fd)
{
    atomic_fetch_add(&forced, 1);
    return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    atomic_fetch_add(&forced, 1);
    return (int)syscall(SYS_fsync, fd);
}

/* ---- The servers', by their own counters ----------------------------------------- */

static double servers_forced(void)
{
    return txn_number(true, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE "
                            "VARIABLE_NAME = 'INNODB_DATA_FSYNCS'") +
           txn_number(false, "select wal_sync from pg_stat_wal");
}

/* PostgreSQL's processes report what they did now and then, and when they end: so it counts from before they exist
 * until they are gone. */
static void say(const struct bench *b, const struct txn_pair *pair, int clients)
{
    static struct txn_crowd c; /* it is large */
    char text[128];
    double servers = servers_forced(), transfers = 0;
    long ours = atomic_load(&forced);
    txn_crowd_open(&c, pair);
    (void)txn_crowd(&c, &txn_rota, clients, FORCED_S * b->scale);
    for (int i = 0; i < clients; i++)
        transfers += (double)c.clients[i].n;
    txn_crowd_close(&c);
    txn_settle();
    double journal = (double)(atomic_load(&forced) - ours) / transfers;
    servers = (servers_forced() - servers) / transfers;
    snprintf(text, sizeof text, "%s, %d: forced writes of the servers", pair->name, clients);
    bench_say(b, text, servers, "each");
    snprintf(text, sizeof text, "%s, %d: forced writes of the journal", pair->name, clients);
    bench_say(b, text, journal, "each");
    snprintf(text, sizeof text, "%s, %d: forced writes", pair->name, clients);
    bench_goal(b, text, servers + journal, "each", false, FORCED_MOST);
}

void bench_txn_forced(const struct bench *b)
{
    txn_start();
    txn_rota_open(b);
    for (size_t i = 0; i < sizeof txn_pairs / sizeof txn_pairs[0]; i++) {
        say(b, &txn_pairs[i], 1);
        say(b, &txn_pairs[i], TXN_CLIENTS);
    }
}
