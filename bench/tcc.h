/* SPDX-License-Identifier: Apache-2.0 */
/* Orders over two services that do nothing, by Rota and by others. */
#ifndef BENCH_TCC_H
#define BENCH_TCC_H

#include "txn.h"

#include <rota_txn.h>

#define TCC_SERVICES 2

enum { TCC_TRY, TCC_CONFIRM, TCC_CANCEL, TCC_OPS };

extern const char *const tcc_ops[TCC_OPS];
extern char tcc_at[TCC_SERVICES]
                  [64]; /* of each service over HTTP: its URL, without "/try" and so on */

/* Ends the program unless OK, with what M says (NULL: what could not be opened). */
void tcc_must(bool ok, const char *what, struct rota_txns *m);
/* One order: both tries at once, then committed; it is over when both have confirmed. ASK begins the try of service I:
 * 0 or ROTA_*. */
typedef int tcc_ask(struct rota_txn *t, int i, rota_txn_fn *fn, void *arg);
void tcc_order(struct rota_txns *m, tcc_ask *ask);
tcc_ask tcc_ask_http;

/* The two services over HTTP: tcc_at. */
void tcc_start(void);
void tcc_stop(void);

/* Beside DTM on the same MariaDB, and Seata (tcc_peers.c). */
void tcc_peers(const struct bench *b);

#endif
