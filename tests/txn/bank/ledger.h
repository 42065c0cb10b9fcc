/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger of the banks over services: accounts on MariaDB, PostgreSQL and SQLite, each behind its fence; transfers
 * between two of them, what was told of each, and what must be true when everything has healed.
 *
 * Try takes outgoing money from the balance, confirm adds incoming money to it; the rest is on hold until then.
 * Each call that does something leaves a row in `effects`, so anything done twice shows. */
#ifndef BANK_LEDGER_H
#define BANK_LEDGER_H

#include "txn/fence/desk.h"

#include <stdbool.h>

#define PLACES 3
#define ACCOUNTS 20
#define BALANCE 1000
#define TRANSFERS 8192 /* the most */
#define SOON_MS 3000
#define LIMIT_MS 120000

extern const struct desk *const places[PLACES];
extern const char *const place_names[PLACES];

struct order {                /* what a service is sent */
    int tid, account, amount; /* amount < 0: it goes */
};

struct transfer {
    int tid, from, to; /* places */
    struct order goes, comes;
};

enum told { NOTHING, COMMITTED, ABORTED, UNKNOWN };

extern struct ledger { /* shared by all */
    _Atomic int told[TRANSFERS];
    _Atomic unsigned from[TRANSFERS], to[TRANSFERS]; /* 1 + place */
    _Atomic int transfers;
    _Atomic long late_tries, empty_cancels; /* as the fences said */
} * ledger;

void ledger_open(void); /* starts the databases, with all accounts */
void ledger_close(void);

/* The next one, between two places (FROM < 0: any), drawn by SEED. POOR: the second place will refuse. */
struct transfer transfer_new(int from, bool poor, unsigned *seed);
/* TRIED is the result of its tries. Commits or aborts T accordingly, and notes what was told. */
void transfer_end(const struct transfer *of, struct rota_txn *t, int tried);

/* One call at PLACE, as the page of services says: 0, ROTA_ABORTED (refused), or ask again. SAID, if not NULL, gets the
 * answer as soon as it is final: after COMMIT. */
int place_serve(int place, void *conn, const struct rota_call *call, const struct order *o,
                void (*said)(void *arg, int rv), void *arg);

/* PLAY, whose transaction has the deadline TIMEOUT_MS, must die by kill -9 at its crash point WHAT. If the deadline
 * came first, as on a busy machine, PLAY returns 0, and is played again with a later one. */
void must_die(int (*play)(void *arg, uint32_t timeout_ms), void *arg, const char *what);

/* Waits until nothing in the journal is unfinished. */
void ledger_heal(struct rota_txns *m);
/* Two days later: each place removes rows of its fence. */
void ledger_clean_fences(struct rota_txns *m, void *const conns[PLACES]);

/* Sums are right, nothing is on hold, nothing stays tried for ever, each effect happened once; each transfer is at both
 * places or at none, as was told. */
void ledger_check(void);
long long effects_of(int tid, int place, enum rota_op op);
long rounds(long least); /* of a scene: $FACTOR times as many */

#endif
