/* SPDX-License-Identifier: Apache-2.0 */
/* The classic failures of locks, each once broken and once mended, on real servers. */
#ifndef RT_TRAPS_H
#define RT_TRAPS_H

#include "cli/cli.h"
#include "cli/traps/story.h"

/* Plays the trap; sets story->broken and story->mended to what it saw. */
typedef void rt_trap_fn(struct rt_story *story);

enum rt_trap_needs {
    RT_TRAP_NOTHING,
    RT_TRAP_REDIS,
    RT_TRAP_REDISES, /* which the trap starts, and kills, itself */
    RT_TRAP_MARIADB
};

struct rt_trap {
    const char *name;
    const char *about; /* one line */
    enum rt_trap_needs needs;
    rt_trap_fn *play;
};

extern const struct rt_trap rt_traps[]; /* ends with a NULL name */

/* Files and processes. */
rt_trap_fn rt_trap_lost_update, rt_trap_flock;
/* One Redis. */
rt_trap_fn rt_trap_setnx, rt_trap_foreign_del, rt_trap_two_steps, rt_trap_too_long, rt_trap_clock,
    rt_trap_herd, rt_trap_stale_writer;
/* Several. */
rt_trap_fn rt_trap_failover, rt_trap_redlock;
/* MariaDB. */
rt_trap_fn rt_trap_no_index, rt_trap_share_deadlock;

/* rota demo traps. */
int rt_traps_main(const struct rt_cli *cli, int argc, char **argv);

#endif
