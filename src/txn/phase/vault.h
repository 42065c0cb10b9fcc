/* SPDX-License-Identifier: Apache-2.0 */
/* Promises of three-phase commit, durable at the participant's database.
 *
 * Rows are in the table rota_promise, one per transaction, each written by a statement of its own, which compares the
 * epoch: a row whose id is 0, with a number that each participant draws when it begins. So whatever a dead participant
 * still has on its way comes to nothing once its successor has begun, and two at one database do not mix: the first
 * ends. Rows that are over and not mixed are deleted with the markers, when the journal has forgotten the transaction
 * (branch.h: FORGET with RT_PARTY_PROMISES). */
#ifndef RT_THREE_VAULT_H
#define RT_THREE_VAULT_H

#include "txn/manager/till.h"
#include "txn/phase/words.h"

struct rt_vault {
    const char *url;
    struct rt_till till; /* for rows; one thread at a time */
    int64_t epoch;
    bool open;
    bool deposed; /* another participant has begun its epoch: nothing more can be written */
    char errmsg[256];
};

/* Connects, makes the table, and takes over from whoever has it open. 0, or ROTA_* and errmsg. */
int rt_vault_open(struct rt_vault *v, const char *url);
void rt_vault_close(struct rt_vault *v);

/* Durable when it returns true. False: perhaps, perhaps not; errmsg says why. */
bool rt_vault_write(struct rt_vault *v, const struct rt_word *w, const struct rt_promise *row);
/* A row, and the request that made it, as it was sent. */
typedef void rt_vault_row_fn(void *arg, const char *body, size_t size,
                             const struct rt_promise *row);
/* Reads all that are not over, or are mixed; the one of ID, if there is one. False: errmsg says why. */
bool rt_vault_read(struct rt_vault *v, rt_vault_row_fn *each, void *arg);
bool rt_vault_find(struct rt_vault *v, const struct rt_txn_id *id, rt_vault_row_fn *each,
                   void *arg);

#endif
