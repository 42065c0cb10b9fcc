/* SPDX-License-Identifier: Apache-2.0 */
/* The benches of transactions: one MariaDB and one PostgreSQL of ours, two databases in each, and transfers between
 * accounts in two of them. */
#ifndef BENCH_TXN_H
#define BENCH_TXN_H

#include "apart.h"
#include "bench.h"

#include <libpq-fe.h>
#include <mysql.h>

#define TXN_CLIENTS 16
#define TXN_ACCOUNTS \
    1000 /* per client, so that nobody waits for a row; peers/txn knows this number, too */

/* ---- Servers (txn_servers.c); functions end the program on any error ------- */

struct txn_branch { /* a connection to a database */
    MYSQL *my;      /* one of the two */
    PGconn *pg;
    const char *database; /* "left", "right" */
};

struct txn_pair {
    const char *name;
    bool mysql[2];
};

extern const struct txn_pair txn_pairs[3];

void txn_start(void); /* also if they run already */
struct txn_branch txn_dial(bool mysql, int side);
void txn_hang_up(struct txn_branch *b);
/* One statement, answered; txn_send and txn_hear are its halves. */
void txn_say(struct txn_branch *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void txn_send(struct txn_branch *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void txn_hear(struct txn_branch *b);
void txn_settle(void); /* until PostgreSQL has seen that all connections are gone */
double txn_number(bool mysql, const char *sql); /* asked as a user who may see everything */
void txn_endpoint(const struct bench *b, char *out, size_t size); /* for peers */
const char *txn_postgres_url(void);
const char *txn_mysql_url(void);
double txn_servers_cpu_us(void); /* so far; of those still connected */

/* ---- Transfers --------------------------------------------------------------- */

struct txn_client {
    struct txn_branch side[2];
    struct apart keeper, writer; /* of txn_hand_apart */
    int number;
    unsigned seed, count;
    double *us; /* of each transfer; NULL: not noted */
    size_t n, room;
};

struct txn_way; /* how a transfer is made atomic */
struct txn_crowd {
    const struct txn_way *way;
    struct txn_client clients[TXN_CLIENTS];
    _Atomic int next;
};

struct txn_way {
    const char *name;
    void (*transfer)(struct txn_client *c);
};

/* txn_hand.c */
extern const struct txn_way txn_hand_logged, txn_hand_marked, txn_hand_apart, txn_hand_bare;
extern const struct txn_way txn_rota, txn_rota_last; /* txn_rota.c */

void txn_hand_open(const struct bench *b);      /* the log by hand: a file of SQLite's */
void txn_hand_note(int client, unsigned count); /* a durable row; one write for all waiters */
void txn_hand_close(void);                      /* also if it is not open */
void txn_rota_open(const struct bench *b);      /* a manager on a journal in a file */
void txn_rota_close(void);

/* The application's statement; the first side pays the other. */
void txn_payment(struct txn_client *c, int side, char *out, size_t size);
void txn_pay(struct txn_client *c, int side);

/* Transfers per second of CLIENTS clients. */
double txn_crowd(struct txn_crowd *c, const struct txn_way *way, int clients, double seconds);
void txn_crowd_open(struct txn_crowd *c, const struct txn_pair *pair);
void txn_crowd_close(struct txn_crowd *c);

#endif
