/* SPDX-License-Identifier: Apache-2.0 */
/* Promises of three-phase commit, durable at the participant's database.
 *
 * Rows are in the table rota_promise, one per transaction, each written by a statement of its own, which compares the epoch: a
 * row whose id is 0, with a number that each participant draws when it begins. So what a dead one has on its way comes to
 * nothing once its successor has begun, and two at one database do not mix: the first ends. What is over and not mixed is
 * taken away with the markers, when the journal has forgotten it (branch.h: FORGET with RT_PARTY_PROMISES). */
#ifndef RT_THREE_VAULT_H
#define RT_THREE_VAULT_H

#include "txn/manager/till.h"
#include "txn/phase/words.h"

struct rt_vault {
    const char *url;
    struct rt_till till; /* for rows; one thread at a time */
    int64_t epoch;
    bool open;
    bool deposed; /* another participant has begun its epoch: nothing can be written any more */
    char errmsg[256];
};

/* Connects, and makes the table. 0, or ROTA_* and errmsg. */
int rt_vault_open(struct rt_vault *v, const char *url);
void rt_vault_close(struct rt_vault *v);

/* Durable when it returns true. False: it may be, or not; errmsg says why. */
bool rt_vault_write(struct rt_vault *v, const struct rt_word *w, const struct rt_promise *row);
/* A row, and what was asked for it, as it was sent. */
typedef void rt_vault_row_fn(void *arg, const char *body, size_t size,
                             const struct rt_promise *row);
/* All that are not over, or are mixed; the one of ID, if there is one. False: errmsg says why. */
bool rt_vault_read(struct rt_vault *v, rt_vault_row_fn *each, void *arg);
bool rt_vault_find(struct rt_vault *v, const struct rt_txn_id *id, rt_vault_row_fn *each,
                   void *arg);

#endif
