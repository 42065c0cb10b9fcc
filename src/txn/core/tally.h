/* SPDX-License-Identifier: Apache-2.0 */
/* What the branches of a transaction say together. Part of txn.c: nothing else calls it. */
#ifndef RT_TALLY_H
#define RT_TALLY_H

#include "txn/core/txn.h"

/* All of them have ended. */
bool rt_tally_over(const struct rt_txn *t);
/* One of them votes no before it is asked: it failed, it is not known to be registered, or its try was not answered
 * yes. */
bool rt_tally_failed(const struct rt_txn *t);
/* Joined: nobody can write COMMIT any more, for whoever did would need to find prepared a branch that is registered and
 * never will be. A branch that may be prepared may also have been found so. */
bool rt_tally_hopeless(const struct rt_txn *t);

#endif
