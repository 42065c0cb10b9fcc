/* SPDX-License-Identifier: Apache-2.0 */
/* A journal's crash points, by op: txn/point.h. They do nothing except in a library built with them. */
#ifndef RT_JOURNAL_POINTS_H
#define RT_JOURNAL_POINTS_H

#include "txn/journal/journal.h"

/* In order: it was asked for; it is under way, and nothing of it is durable; it is durable; the asker is told next. On
 * a server it counts as under way just before it leaves, and as durable once it is answered. */
void rt_journal_point_asked(const struct rt_journal_op *op);
void rt_journal_point_begun(const struct rt_journal_op *op);
void rt_journal_point_written(const struct rt_journal_op *op);
void rt_journal_point_answered(const struct rt_journal_op *op);

#endif
