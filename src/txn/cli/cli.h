/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of rota-txn share: its options, the table of commands. Exit codes are those of rota. */
#ifndef RT_TXN_CLI_H
#define RT_TXN_CLI_H

#include "cli/cli.h"

#include <stdbool.h>

struct rt_args;

struct rt_job { /* a command of rota-txn */
    const char *name;
    const char *summary;
    const char *help;
    int (*main)(struct rt_args *args, int argc,
                char **argv); /* ARGV[0] is its name; returns an exit code */
};

extern const struct rt_job rt_jobs[]; /* ends with a NULL name */
const struct rt_job *rt_job_find(const char *name);
int rt_job_help(const struct rt_job *job); /* NULL: for all */

extern const char rt_job_help_ls[], rt_job_help_show[], rt_job_help_outcome[], rt_job_help_settle[],
    rt_job_help_indoubt[], rt_job_help_resolve[], rt_job_help_recover[], rt_job_help_serve[],
    rt_job_help_three[], rt_job_help_participant[], rt_job_help_gc[], rt_job_help_doctor[],
    rt_job_help_events[], rt_job_help_demo[];
int rt_job_ls(struct rt_args *args, int argc, char **argv);
int rt_job_show(struct rt_args *args, int argc, char **argv);
int rt_job_outcome(struct rt_args *args, int argc, char **argv);
int rt_job_settle(struct rt_args *args, int argc, char **argv);
int rt_job_indoubt(struct rt_args *args, int argc, char **argv);
int rt_job_resolve(struct rt_args *args, int argc, char **argv);
int rt_job_recover(struct rt_args *args, int argc, char **argv);
int rt_job_serve(struct rt_args *args, int argc, char **argv);
int rt_job_gc(struct rt_args *args, int argc, char **argv);
int rt_job_three(struct rt_args *args, int argc, char **argv);
int rt_job_participant(struct rt_args *args, int argc, char **argv);
int rt_job_events(struct rt_args *args, int argc, char **argv);
int rt_job_doctor(struct rt_args *args, int argc, char **argv);
int rt_job_demo(struct rt_args *args, int argc, char **argv); /* rota demo bank, rota demo order */

/* Lines in the help of every command. */
#define RT_JOB_HELP                                                           \
    "      --journal URL     default: $ROTA_JOURNAL, else this user's file\n" \
    "      --resources FILE  instead of ~/.config/rota/txn and /etc/rota/txn\n"

#endif
