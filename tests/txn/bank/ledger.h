/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger of the banks over services: accounts on MariaDB, PostgreSQL and SQLite, each behind its fence; transfers
 * between two of them, what was told of each, and what must be true when everything has healed.
 *
 * What goes is taken from the balance by try, what comes is added to it by confirm; the rest is on hold until then.
 * Each call that does something leaves a row in `effects`: so what was done twice shows. */
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
    int tid, account, amount; /* amount: negative: it goes */
};

struct transfer {
    int tid, from, to; /* places */
    struct order goes, comes;
};

enum told { NOTHING, COMMITTED, ABORTED, UNKNOWN };

extern struct ledger { /* all processes' */
    _Atomic int told[TRANSFERS];
    _Atomic unsigned from[TRANSFERS], to[TRANSFERS]; /* 1 + place */
    _Atomic int transfers;
    _Atomic long late_tries, empty_cancels; /* as the fences said */
} * ledger;

void ledger_open(void); /* starts the databases, with all accounts */
void ledger_close(void);

/* The next one, between two places (FROM < 0: any), drawn by SEED. POOR: the second place will refuse. */
struct transfer transfer_new(int from, bool poor, unsigned *seed);
/* TRIED is what its tries came to: commits T, or aborts it, and notes what was told. */
void transfer_end(const struct transfer *of, struct rota_txn *t, int tried);

/* One call at PLACE, as the page of services says: 0, ROTA_ABORTED (refused), or ask again. SAID, if not NULL, is told
 * the answer as soon as it stands: after COMMIT. */
int place_serve(int place, void *conn, const struct rota_call *call, const struct order *o,
                void (*said)(void *arg, int rv), void *arg);

/* PLAY, with the deadline TIMEOUT_MS of its transaction, must come to kill -9, by its crash point WHAT. If the deadline
 * was there first, as on a busy machine, it returns 0, and is played with a later one. */
void must_die(int (*play)(void *arg, uint32_t timeout_ms), void *arg, const char *what);

/* Waits until nothing in the journal is undone. */
void ledger_heal(struct rota_txns *m);
/* Two days later: each place takes away rows of its fence. */
void ledger_clean_fences(struct rota_txns *m, void *const conns[PLACES]);

/* Sums, nothing on hold, nothing tried for ever, each effect once; each transfer at both places or at none, as was
 * told. */
void ledger_check(void);
long long effects_of(int tid, int place, enum rota_op op);
long rounds(long least); /* of a scene: $FACTOR times as many */

#endif
