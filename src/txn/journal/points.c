/* SPDX-License-Identifier: Apache-2.0 */
#include "txn/journal/points.h"

#include "txn/point.h"

void rt_journal_point_asked(const struct rt_journal_op *op)
{
    switch (op->kind) {
    case RT_JOURNAL_DECIDE:
        if (op->decide.decision == RT_JOURNAL_COMMIT)
            rt_point("decide-asked");
        else
            rt_point("abort-asked");
        return;
    case RT_JOURNAL_REGISTER:
        rt_point("register-asked");
        return;
    case RT_JOURNAL_DONE:
        rt_point("done-asked");
        return;
    case RT_JOURNAL_FORGET:
        rt_point("forget-asked");
        return;
    default:
        return;
    }
}

void rt_journal_point_begun(const struct rt_journal_op *op)
{
    switch (op->kind) {
    case RT_JOURNAL_DECIDE:
        if (op->decide.decision == RT_JOURNAL_COMMIT)
            rt_point("decide-begun");
        else
            rt_point("abort-begun");
        return;
    case RT_JOURNAL_REGISTER:
        rt_point("register-begun");
        return;
    case RT_JOURNAL_DONE:
        rt_point("done-begun");
        return;
    case RT_JOURNAL_FORGET:
        rt_point("forget-begun");
        return;
    default:
        return;
    }
}

void rt_journal_point_written(const struct rt_journal_op *op)
{
    switch (op->kind) {
    case RT_JOURNAL_DECIDE:
        if (op->decide.decision == RT_JOURNAL_COMMIT)
            rt_point("decide-written");
        else
            rt_point("abort-written");
        return;
    case RT_JOURNAL_REGISTER:
        rt_point("register-written");
        return;
    case RT_JOURNAL_DONE:
        rt_point("done-written");
        return;
    case RT_JOURNAL_FORGET:
        rt_point("forget-written");
        return;
    default:
        return;
    }
}

void rt_journal_point_answered(const struct rt_journal_op *op)
{
    switch (op->kind) {
    case RT_JOURNAL_DECIDE:
        if (op->decide.decision == RT_JOURNAL_COMMIT)
            rt_point("decide-answered");
        else
            rt_point("abort-answered");
        return;
    case RT_JOURNAL_REGISTER:
        rt_point("register-answered");
        return;
    case RT_JOURNAL_DONE:
        rt_point("done-answered");
        return;
    case RT_JOURNAL_FORGET:
        rt_point("forget-answered");
        return;
    default:
        return;
    }
}
