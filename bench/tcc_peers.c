/* SPDX-License-Identifier: Apache-2.0 */
/* The same orders by others: DTM's TCC, whose store is the MariaDB that also has Rota's journal, with the same two
 * services over HTTP; Seata's, whose actions are the program's own functions that do nothing, as Rota's are in that
 * case. */
#include "tcc.h"

#include "peer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 3
#define ROUND_S 2.0
#define CLIENTS 16

/* ---- Functions that do nothing ---------------------------------------------------------- */

static const char *const names[TCC_SERVICES] = {"stock", "money"};

static int say_yes(void *arg, const struct rota_call *call, const void *payload, size_t size)
{
    (void)arg;
    (void)call;
    (void)payload;
    (void)size;
    return 0;
}

static int ask_function(struct rota_txn *t, int i, rota_txn_fn *fn, void *arg)
{
    return rota_tcc_call_async(t, names[i], "", 0, fn, arg);
}

/* ---- Beside each other -------------------------------------------------------------------- */

struct side { /* Rota's */
    struct rota_txns *m;
    tcc_ask *ask;
};

static int turn(void *arg)
{
    const struct side *s = arg;
    tcc_order(s->m, s->ask);
    return 0;
}

static double rate_of(struct side *s, int clients, double seconds)
{
    double per_second = 0;
    bench_done(rt_bench_crowd(clients, seconds, turn, s, &per_second));
    return per_second;
}

static void compare(const struct bench *b, struct side *s, struct peer *p, const char *ask,
                    int clients, const char *where, const char *peer, double goal)
{
    char ours[128], theirs[128], ratio[160];
    struct beside than = {.n = 0};
    double seconds = ROUND_S * b->scale;
    (void)rate_of(s, clients, 0.3 * seconds);
    (void)peer_ask(p, "%s %d %g", ask, clients, seconds); /* warms up */
    for (int i = 0; i < ROUNDS; i++) {
        double they = peer_ask(p, "%s %d %g", ask, clients, seconds);
        beside_add(&than, rate_of(s, clients, seconds), they);
    }
    snprintf(ours, sizeof ours, "%s, %d: Rota", where, clients);
    snprintf(theirs, sizeof theirs, "%s, %d: %s", where, clients, peer);
    snprintf(ratio, sizeof ratio, "%s, %d: Rota / %s", where, clients, peer);
    beside_say(b, &than, &(struct beside_text){ours, theirs, ratio, "/s", goal, true});
}

static void beside_dtm(const struct bench *b, const char *endpoint)
{
    static const int clients[] = {1, CLIENTS, 64};
    struct side s = {.ask = tcc_ask_http};
    struct peer p = {0};
    char ask[160];
    if (!peer_start(&p, "dtm-peer", endpoint)) {
        bench_skipped(b, "DTM");
        return;
    }
    tcc_must(rota_txns_open(&s.m, txn_mysql_url(), NULL) == 0, "a manager on MariaDB", NULL);
    snprintf(ask, sizeof ask, "tcc %s %s", tcc_at[0], tcc_at[1]);
    for (size_t i = 0; i < sizeof clients / sizeof clients[0]; i++)
        compare(b, &s, &p, ask, clients[i], "two services, all on one MariaDB", "DTM's TCC", 4);
    rota_txns_close(s.m);
    peer_stop(&p);
}

/* The limit for any coordinator that records each order before its tries and its decision before it confirms: two
 * durable rows by hand, and nothing else. */
static int two_rows(void *arg)
{
    static _Thread_local unsigned count;
    static _Thread_local int mine;
    if (mine == 0)
        mine = atomic_fetch_add((_Atomic int *)arg, 1) + 2000;
    for (int i = 0; i < 2; i++)
        txn_hand_note(mine, count++);
    return 0;
}

static void bound(const struct bench *b)
{
    double per_second = 0, seconds = ROUND_S * b->scale;
    _Atomic int next = 1;
    char text[96];
    bench_done(rt_bench_crowd(CLIENTS, seconds, two_rows, &next, &per_second));
    snprintf(text, sizeof text, "two functions, %d: two durable rows by hand, no calls", CLIENTS);
    bench_say(b, text, per_second, "/s");
}

static void beside_seata(const struct bench *b, const char *endpoint)
{
    static const struct rota_tcc calls = {say_yes, say_yes, say_yes};
    struct side s = {.ask = ask_function};
    struct peer p = {0};
    char url[BENCH_URL];
    if (!peer_start(&p, "seata-peer", endpoint)) {
        bench_skipped(b, "Seata");
        return;
    }
    snprintf(url, sizeof url, "file:%s/tcc-functions", b->folder);
    tcc_must(rota_txns_open(&s.m, url, NULL) == 0, "a manager", NULL);
    for (int i = 0; i < TCC_SERVICES; i++)
        tcc_must(rota_tcc_serve(s.m, names[i], &calls, NULL) == 0, "a service", s.m);
    compare(b, &s, &p, "tcc", CLIENTS, "two functions", "Seata's TCC", 5);
    bound(b);
    rota_txns_close(s.m);
    peer_stop(&p);
}

void tcc_peers(const struct bench *b)
{
    char endpoint[BENCH_URL];
    txn_start();
    txn_endpoint(b, endpoint, sizeof endpoint);
    beside_dtm(b, endpoint);
    beside_seata(b, endpoint);
}
