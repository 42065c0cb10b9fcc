/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a participant in three-phase commit: statements that are prepared at its database, and their end.
 *
 * It is a branch as branch/ makes them, under the same names, with the same marker. So recovery, which lists what is
 * prepared, ends it as the journal says if the participant does not come back, and the participant finds that out
 * (LOOK). */
#ifndef RT_DEED_H
#define RT_DEED_H

#include "txn/branch/branch.h"
#include "txn/manager/till.h"
#include "txn/phase/words.h"

struct rt_deed { /* for one transaction; all zero: nothing was begun here */
    struct rt_till till;
    struct rt_party *party;
    struct rt_part part;
    bool open;
};

/* Each on a connection of its own: from any thread, one at a time per transaction. ERRMSG has 256 bytes. */
enum rt_reply rt_deed_do(struct rt_deed *k, const char *url, const struct rt_word *w, char *errmsg);
/* COMMIT, ROLLBACK (RT_PARTY_*): on the connection that prepared it, or by takeover. */
enum rt_reply rt_deed_end(struct rt_deed *k, const char *url, const struct rt_word *w,
                          enum rt_party_what what, char *errmsg);
/* Closes the connection that prepared it, and looks. */
enum rt_reply rt_deed_look(struct rt_deed *k, const char *url, const struct rt_word *w,
                           char *errmsg);
void rt_deed_drop(struct rt_deed *k); /* the connection ends; what is prepared stays */

#endif
