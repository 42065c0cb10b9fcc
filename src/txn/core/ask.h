/* SPDX-License-Identifier: Apache-2.0 */
/* What a transaction asks next of the journal and of each branch. Part of txn.c: nothing else calls it. */
#ifndef RT_ASK_H
#define RT_ASK_H

#include "txn/core/txn.h"

/* What to ask the journal, once it may be asked; RT_TXN_BRANCH: nothing. */
enum rt_txn_op rt_ask_journal_next(const struct rt_txn *t);
/* When it may be asked: a branch that pauses has its look at the end of that. */
int64_t rt_ask_journal_at(const struct rt_txn *t);
/* The same for B's participant; RT_BRANCH_NOTHING: nothing. */
enum rt_branch_op rt_ask_branch_next(const struct rt_txn *t, struct rt_branch *b);

/* The request leaves: TODO is filled in, and an answer with its seq is awaited. */
void rt_ask_journal(struct rt_txn *t, enum rt_txn_op op, struct rt_txn_todo *todo);
void rt_ask_branch(struct rt_txn *t, struct rt_branch *b, enum rt_branch_op op,
                   struct rt_txn_todo *todo);

#endif
