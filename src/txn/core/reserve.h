/* SPDX-License-Identifier: Apache-2.0 */
/* Branches that are services: a try reserves, and the decision confirms or cancels what was reserved.
 *
 * A service cannot be asked what it did with a call, and nobody can list what is reserved there. So its branch stands
 * in the journal before its try leaves (X11), whoever decides ABORT reads there whom to cancel, and a call whose answer
 * was lost is made again; the service's fence makes that harmless. A transaction with a service is never committed in
 * one phase, and others know it: the service is told its id.
 *
 * Whoever began it, or recovery, confirms and cancels. A process that joined does not, not even its own services; but
 * only it knows how its tries were answered, so that is written down with its vote (VOUCH). */
#ifndef RT_RESERVE_H
#define RT_RESERVE_H

#include "txn/core/txn.h"

/* Adds a service as the next branch, to be registered. Its try must not leave before its state is RT_BRANCH_ACTIVE; if
 * the transaction leaves ACTIVE before that, it never does. There must be room; only before vote, commit and abort. */
struct rt_branch *rt_reserve_add(struct rt_txn *t, uint32_t number, uint32_t resource);

/* Its try leaves now; both the branch and its transaction must be ACTIVE. The answer (YES, NO, else LOST) comes by
 * rt_txn_answered with the returned seq. A branch that has no yes when vote or commit is asked for counts as a no. */
uint32_t rt_reserve_try(struct rt_txn *t, struct rt_branch *b);

/* A branch found in the journal: it is reserved or not, as VOUCHED by the process that tried it. Part of txn.c. */
void rt_reserve_found(struct rt_branch *b, bool vouched);
/* Whether all services of T that B has to wait for are over. Part of ask.c. */
bool rt_reserve_is_next(const struct rt_txn *t, const struct rt_branch *b);
/* Those that wait for their turn have it after a look at the journal. Part of txn.c. */
void rt_reserve_look(struct rt_txn *t);
/* Whether any of T's branches is a service. */
bool rt_reserve_any(const struct rt_txn *t);
/* Whoever serves B is there: it is called at once. */
void rt_reserve_back(struct rt_branch *b, int64_t now);

#endif
