/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions over two databases, beside the same statements by hand on the same servers. */
#include "txn.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS 7
#define ROUND_S 1.0
#define SAMPLES 200000 /* of latencies, per client */

/* ---- Clients ------------------------------------------------------------------- */

void txn_payment(struct txn_client *c, int side, char *out, size_t size)
{
    if (side == 0)
        c->seed = c->seed * 1103515245 + 12345;
    snprintf(out, size, "UPDATE account SET balance = balance + (%d) WHERE id = %u",
             side == 0 ? -1 : 1,
             (unsigned)c->number * TXN_ACCOUNTS + (c->seed >> 16) % TXN_ACCOUNTS);
}

void txn_pay(struct txn_client *c, int side)
{
    char sql[128];
    txn_payment(c, side, sql, sizeof sql);
    txn_say(&c->side[side], "%s", sql);
}

void txn_crowd_open(struct txn_crowd *c, const struct txn_pair *pair)
{
    memset(c, 0, sizeof *c);
    for (int i = 0; i < TXN_CLIENTS; i++) {
        static unsigned fresh; /* ids by hand are new after each opening */
        struct txn_client *one = &c->clients[i];
        *one = (struct txn_client){.number = i, .seed = (unsigned)i, .count = fresh++ << 20};
        for (int side = 0; side < 2; side++)
            one->side[side] = txn_dial(pair->mysql[side], side);
        if (!apart_start(&one->keeper) || !apart_start(&one->writer))
            bench_done(1);
        one->room = SAMPLES;
        one->us = calloc(one->room, sizeof *one->us);
    }
}

void txn_crowd_close(struct txn_crowd *c)
{
    for (int i = 0; i < TXN_CLIENTS; i++) {
        for (int side = 0; side < 2; side++)
            txn_hang_up(&c->clients[i].side[side]);
        apart_stop(&c->clients[i].keeper);
        apart_stop(&c->clients[i].writer);
        free(c->clients[i].us);
    }
}

static int turn(void *arg)
{
    static _Thread_local int mine = -1;
    struct txn_crowd *c = arg;
    if (mine < 0)
        mine = atomic_fetch_add(&c->next, 1);
    assert(mine < TXN_CLIENTS);
    struct txn_client *one = &c->clients[mine];
    one->count++;
    int64_t from = rt_bench_ns();
    c->way->transfer(one);
    if (one->n < one->room)
        one->us[one->n++] = (double)(rt_bench_ns() - from) / 1000;
    return 0;
}

double txn_crowd(struct txn_crowd *c, const struct txn_way *way, int clients, double seconds)
{
    double per_second = 0;
    c->way = way;
    atomic_store(&c->next, 0);
    for (int i = 0; i < TXN_CLIENTS; i++)
        c->clients[i].n = 0;
    bench_done(rt_bench_crowd(clients, seconds, turn, c, &per_second));
    return per_second;
}

/* ---- Transfers per second -------------------------------------------------------- */

enum { ROTA, LOGGED, MARKED, APART, BARE, LAST, WAYS };

static const struct txn_way *const ways[WAYS] = {
    &txn_rota, &txn_hand_logged, &txn_hand_marked, &txn_hand_apart, &txn_hand_bare, &txn_rota_last};

static const char *text(const struct txn_pair *pair, int clients, const char *what)
{
    static char texts[8][128];
    static unsigned next;
    char *out = texts[next++ % 8];
    snprintf(out, sizeof texts[0], "%s, %d: %s", pair->name, clients, what);
    return out;
}

struct latency {
    double *us;
    size_t n, room;
};

static void gather(struct latency *l, const struct txn_crowd *c)
{
    for (int i = 0; i < TXN_CLIENTS; i++)
        for (size_t k = 0; k < c->clients[i].n && l->n < l->room; k++)
            l->us[l->n++] = c->clients[i].us[k];
}

static void say_latency(const struct bench *b, struct latency *l, const char *p50, const char *p99)
{
    bench_say(b, p50, rt_bench_quantile(l->us, l->n, 0.5), "us");
    bench_say(b, p99, rt_bench_quantile(l->us, l->n, 0.99), "us");
}

/* What a transfer costs in processor time: of this process, and of the servers. */
struct cost {
    double ours, servers, transfers;
};

/* Looking at the servers costs us time, too: that is not included. */
static void cost_begin(struct cost *c)
{
    c->servers -= txn_servers_cpu_us();
    c->ours -= rt_bench_cpu_us();
}

static void cost_end(struct cost *c)
{
    c->ours += rt_bench_cpu_us();
    c->servers += txn_servers_cpu_us();
}

static void say_cost(const struct bench *b, const struct cost *c, const char *ours,
                     const char *servers)
{
    bench_say(b, ours, c->ours / c->transfers, "us");
    bench_say(b, servers, c->servers / c->transfers, "us");
}

static void bench_one(const struct bench *b, const struct txn_pair *pair, int clients)
{
    static struct txn_crowd c; /* it is large */
    struct beside than[WAYS] = {{.n = 0}}, last[2] = {{.n = 0}}, bound = {.n = 0};
    struct latency took[2];
    struct cost cost[WAYS] = {{0}};
    for (int i = 0; i < 2; i++)
        took[i] = (struct latency){calloc(4 * SAMPLES, sizeof(double)), 0, 4 * SAMPLES};
    txn_crowd_open(&c, pair);
    for (int i = 0; i < WAYS; i++) /* warms up */
        (void)txn_crowd(&c, ways[i], clients, 0.3 * ROUND_S * b->scale);
    for (int round = 0; round < ROUNDS; round++) {
        double rate[WAYS];
        for (int i = 0; i < WAYS; i++) {
            int way = (i + round) % WAYS;
            cost_begin(&cost[way]);
            rate[way] = txn_crowd(&c, ways[way], clients, ROUND_S * b->scale);
            cost_end(&cost[way]);
            for (int k = 0; k < clients; k++)
                cost[way].transfers += (double)c.clients[k].n;
            if (way == ROTA || way == LOGGED)
                gather(&took[way], &c);
        }
        for (int way = LOGGED; way < LAST; way++)
            beside_add(&than[way], rate[ROTA], rate[way]);
        beside_add(&bound, rate[APART], rate[LOGGED]);
        beside_add(&last[0], rate[LAST], rate[LOGGED]);
        beside_add(&last[1], rate[LAST], rate[BARE]);
    }
    txn_crowd_close(&c);
    beside_say(b, &than[LOGGED],
               &(struct beside_text){
                   text(pair, clients, "Rota"), text(pair, clients, txn_hand_logged.name),
                   text(pair, clients, "Rota / by hand with a log"), "/s", 0.9, true});
    beside_say(b, &than[BARE],
               &(struct beside_text){NULL, text(pair, clients, txn_hand_bare.name),
                                     text(pair, clients, "Rota / by hand without"), "/s", 0.65,
                                     true});
    beside_say(b, &than[MARKED],
               &(struct beside_text){NULL, text(pair, clients, txn_hand_marked.name),
                                     text(pair, clients, "Rota / by hand with both"), "/s", 0,
                                     true});
    beside_say(b, &bound,
               &(struct beside_text){text(pair, clients, txn_hand_apart.name), NULL,
                                     text(pair, clients, "the same / by hand with a log"), "/s", 0,
                                     true});
    beside_say(b, &last[0],
               &(struct beside_text){text(pair, clients, txn_rota_last.name), NULL,
                                     text(pair, clients, "the same / by hand with a log"), "/s",
                                     0.9, true});
    beside_say(b, &last[1],
               &(struct beside_text){NULL, NULL, text(pair, clients, "the same / by hand without"),
                                     "/s", 0.65, true});
    say_latency(b, &took[ROTA], text(pair, clients, "Rota, p50"), text(pair, clients, "Rota, p99"));
    say_latency(b, &took[LOGGED], text(pair, clients, "by hand with a log, p50"),
                text(pair, clients, "by hand with a log, p99"));
    say_cost(b, &cost[ROTA], text(pair, clients, "Rota, CPU of the client"),
             text(pair, clients, "Rota, CPU of the servers"));
    say_cost(b, &cost[LAST], text(pair, clients, "with last statements, CPU of the client"),
             text(pair, clients, "with last statements, CPU of the servers"));
    say_cost(b, &cost[LOGGED], text(pair, clients, "by hand with a log, CPU of the client"),
             text(pair, clients, "by hand with a log, CPU of the servers"));
    say_cost(b, &cost[MARKED], text(pair, clients, "by hand with both, CPU of the client"),
             text(pair, clients, "by hand with both, CPU of the servers"));
    for (int i = 0; i < 2; i++)
        free(took[i].us);
}

void bench_txn_transfer(const struct bench *b)
{
    txn_start();
    txn_hand_open(b);
    txn_rota_open(b);
    for (size_t i = 0; i < sizeof txn_pairs / sizeof txn_pairs[0]; i++) {
        bench_one(b, &txn_pairs[i], 1);
        bench_one(b, &txn_pairs[i], TXN_CLIENTS);
    }
}
