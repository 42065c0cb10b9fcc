/* SPDX-License-Identifier: Apache-2.0 */
/* Branches that are services: a try reserves, and what was reserved is confirmed or cancelled as is decided.
 *
 * What a service did with a call cannot be asked for, and nobody can list what is reserved there. So its branch stands in
 * the journal before its try leaves (X11), whoever decides ABORT reads there whom to cancel, and a call whose answer was
 * lost is made again; the service's fence makes that harmless. A transaction that has a service is never committed in one
 * phase, and is known to others: the service is told its id.
 *
 * Whoever began it, or recovery, confirms and cancels; who joined does not: its services are theirs. Nobody else can know
 * what its tries were answered, so with its vote that is written down (VOUCH). */
#ifndef RT_RESERVE_H
#define RT_RESERVE_H

#include "txn/core/txn.h"

/* Its next branch is a service: it is to be registered. Its try must not leave before its state is RT_BRANCH_ACTIVE, and
 * if the transaction leaves ACTIVE before that, it never does. There must be room; only before vote, commit and abort. */
struct rt_branch *rt_reserve_add(struct rt_txn *t, uint32_t number, uint32_t resource);

/* Its try leaves now; only of one that is ACTIVE, in a transaction that is. Its answer (YES, NO, else LOST) comes by
 * rt_txn_answered with the seq that is returned. A branch without a yes when vote or commit is asked for is a no. */
uint32_t rt_reserve_try(struct rt_txn *t, struct rt_branch *b);

/* RESERVED there or not, as whoever has it elsewhere has vouched: one that was found in the journal. A part of txn.c. */
void rt_reserve_found(struct rt_branch *b, bool vouched);
/* Whether all services of T that B has to wait for are over. A part of ask.c. */
bool rt_reserve_is_next(const struct rt_txn *t, const struct rt_branch *b);
/* Any of T's branches is a service. */
bool rt_reserve_any(const struct rt_txn *t);
/* Whoever serves B is there: it is called at once. */
void rt_reserve_back(struct rt_branch *b, int64_t now);

#endif
