/* SPDX-License-Identifier: Apache-2.0 */
/* What a participant of three-phase commit does at its database: rows of promises, work that is prepared, and its end.
 *
 * Rows are in the table rota_promise, one per transaction, each written by a statement of its own, which compares the epoch: a
 * row whose id is 0, with a number that each participant draws when it begins. So what a dead one has on its way comes to
 * nothing once its successor has begun, and two at one database do not mix: the first ends. Work is a branch as
 * branch/ makes them, under the same names, with the same marker: so `rota-txn recover`, which lists what is prepared, ends
 * it as the journal says where the participant does not come back, and the participant finds that out (LOOK). */
#ifndef RT_THREE_VAULT_H
#define RT_THREE_VAULT_H

#include "txn/branch/branch.h"
#include "txn/cli/bank/till.h"
#include "txn/cli/three/words.h"

struct rt_vault {
    const char *url;
    struct rt_till till; /* for rows; one thread at a time */
    int64_t epoch;
    bool open;
    bool deposed; /* another participant has begun its epoch: nothing can be written any more */
    char errmsg[256];
};

struct rt_deed { /* of one transaction; all zero: nothing was begun here */
    struct rt_till till;
    struct rt_party *party;
    struct rt_part part;
    bool open;
};

/* Connects, and makes the table. 0, or ROTA_* and errmsg. */
int rt_vault_open(struct rt_vault *v, const char *url);
void rt_vault_close(struct rt_vault *v);

/* Durable when it returns true. False: it may be, or not; errmsg says why. */
bool rt_vault_write(struct rt_vault *v, const struct rt_word *w, const struct rt_promise *row);
/* Calls each() for every row, with what was asked for it (as it was sent). False: errmsg says why. */
bool rt_vault_read(struct rt_vault *v,
                   void (*each)(void *arg, const char *body, size_t size,
                                const struct rt_promise *row),
                   void *arg);

/* Each on a connection of its own: of any thread, of one transaction one at a time. ERRMSG has 256 bytes. */
enum rt_reply rt_deed_do(struct rt_deed *k, const char *url, const struct rt_word *w, char *errmsg);
/* COMMIT, ROLLBACK (RT_PARTY_*): on the connection that prepared, or by takeover. */
enum rt_reply rt_deed_end(struct rt_deed *k, const char *url, const struct rt_word *w,
                          enum rt_party_what what, char *errmsg);
/* Lets go of the connection that prepared, and looks. */
enum rt_reply rt_deed_look(struct rt_deed *k, const char *url, const struct rt_word *w,
                           char *errmsg);
void rt_deed_drop(struct rt_deed *k); /* the connection ends; what is prepared stays */

#endif
