/* SPDX-License-Identifier: Apache-2.0 */
/* Crash points: places in the code where a process may die, and whatever it leaves behind must be finished by others.
 *
 * They stand on both sides of every write that must be durable before something else may happen
 * (reference/transactions.md, 3.2). Only a library that was built with -DROTA_POINTS has them: the bank's
 * (tests/txn/bank); elsewhere rt_point is nothing.
 *
 *   ROTA_POINT=NAME[:K][:HOW]   at the Kth time (1) that the process comes by NAME (up to four, by commas): HOW is
 *                               kill  it ends itself by SIGKILL (so it is without HOW)
 *                               stop  SIGSTOP: whoever started it sees that by waitpid, kills somebody else just then,
 *                                     and lets it go on
 *   ROTA_POINTS_SEEN=FILE       a line with its name for each point that it comes by is appended there
 *
 * Names are in one table (point.c), and scripts/gate-points.sh holds it against the calls; a name that is hit and not
 * in the table ends the process. */
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
    const char *journal; /* only with this one; NULL: with each */
};

/* The Ith point; NULL behind the last. */
const struct rt_point_name *rt_point_name(unsigned i);

#endif
