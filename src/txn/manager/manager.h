/* SPDX-License-Identifier: Apache-2.0 */
/* A manager from the inside: for the command and for tests. Calls that ask wait; never use them in a callback.
 *
 * On error rota_txn_errmsg says why. */
#ifndef RT_MANAGER_H
#define RT_MANAGER_H

#include "txn/journal/journal.h"
#include "txn/manager/resource.h"

#include <rota_txn.h>

/* Asks the journal; op->deadline 0: call_ms. Its each() runs on the keeper's thread, while the caller waits. Returns
 * op->err. */
int rt_txns_ask(struct rota_txns *m, struct rt_journal_op *op);

/* Asks the resource NAME on a keeper's connection; ATTACH happens by itself. Returns op->err; the answer is op->reply.
 * ROTA_UNSUPPORTED: no such resource is known here. */
int rt_txns_errand(struct rota_txns *m, const char *name, struct rt_party_op *op);
/* The same for a branch whose marker is at PLACE; NULL: not known. */
int rt_txns_errand_at(struct rota_txns *m, const char *name, const struct rt_place *place,
                      struct rt_party_op *op);

/* Reads the files of resources once more (PATH: as in the options): rt_resources_reload. What waits for a name that has
 * another URL now is asked at once, and recovery looks around. LINE says what has changed, "" if nothing has; on failure
 * why nothing was. */
int rt_txns_reload(struct rota_txns *m, const char *path, char *line, size_t size);

/* The number of the journal: ids that begin with another are not ours. */
uint32_t rt_txns_number(const struct rota_txns *m);

/* The resources known here; only to look at. */
struct rt_resources *rt_txns_resources(struct rota_txns *m);

#endif
