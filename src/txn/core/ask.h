/* SPDX-License-Identifier: Apache-2.0 */
/* What a transaction asks next: of the journal, and of each branch. A part of txn.c: only that calls it. */
#ifndef RT_ASK_H
#define RT_ASK_H

#include "txn/core/txn.h"

/* What the journal is to be asked once it may be; RT_TXN_BRANCH: nothing. */
enum rt_txn_op rt_ask_journal_next(const struct rt_txn *t);
/* The same of B's participant; RT_BRANCH_NOTHING: nothing. */
enum rt_branch_op rt_ask_branch_next(const struct rt_txn *t, struct rt_branch *b);

/* That leaves: TODO is filled, and its seq is waited for. */
void rt_ask_journal(struct rt_txn *t, enum rt_txn_op op, struct rt_txn_todo *todo);
void rt_ask_branch(struct rt_txn *t, struct rt_branch *b, enum rt_branch_op op,
                   struct rt_txn_todo *todo);

#endif
