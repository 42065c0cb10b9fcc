/* SPDX-License-Identifier: Apache-2.0 */
/* Crash points: places in the code where a process may die; others must finish whatever it leaves behind.
 *
 * They stand on both sides of every write that must be durable before something else may happen
 * (reference/transactions.md, 3.2). Only a library built with -DROTA_POINTS has them: the bank's (tests/txn/bank).
 * Elsewhere rt_point does nothing.
 *
 *   ROTA_POINT=NAME[:K][:HOW]   when the process reaches NAME for the Kth time (1); up to four, separated by commas:
 *                               kill  it kills itself with SIGKILL (the default HOW)
 *                               stop  SIGSTOP: its parent sees that with waitpid, kills another process just then,
 *                                     and lets it continue
 *   ROTA_POINTS_SEEN=FILE       the name of each point the process reaches is appended there, one per line
 *
 * The names are in one table (point.c), which scripts/gate-points.sh checks against the calls; hitting a name that is
 * not in the table aborts the process. */
#ifndef RT_POINT_H
#define RT_POINT_H

#ifdef ROTA_POINTS
#define rt_point(name) rt_point_hit(name)
#else
#define rt_point(name) ((void)0)
#endif

void rt_point_hit(const char *name);

struct rt_point_name {
    const char *name;
    const char *journal; /* only with this one; NULL: with any */
};

/* The Ith point; NULL after the last. */
const struct rt_point_name *rt_point_name(unsigned i);

#endif
