/* SPDX-License-Identifier: Apache-2.0 */
/* A journal's crash points, by op: txn/point.h. Nothing but in a library that has them. */
#ifndef RT_JOURNAL_POINTS_H
#define RT_JOURNAL_POINTS_H

#include "txn/journal/journal.h"

/* It was asked for; it is under way, and nothing of it is durable; it is durable; whoever asked is told next. On a
 * server it is under way before it leaves, and durable when that was answered. */
void rt_journal_point_asked(const struct rt_journal_op *op);
void rt_journal_point_begun(const struct rt_journal_op *op);
void rt_journal_point_written(const struct rt_journal_op *op);
void rt_journal_point_answered(const struct rt_journal_op *op);

#endif
