/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the command share: global options, exit codes, the table of subcommands. */
#ifndef RT_CLI_H
#define RT_CLI_H

#include <rota.h>
#include <stdbool.h>

/* Exit codes, as in sysexits(3) and as shells use them; the README lists them. */
enum rt_exit {
    RT_EXIT_OK = 0,
    RT_EXIT_FAILED = 1,
    RT_EXIT_USAGE = 64,
    RT_EXIT_UNREACHABLE = 69,
    RT_EXIT_INTERNAL = 70,
    RT_EXIT_IOERR = 74, /* a file could not be written */
    RT_EXIT_BUSY = 75,  /* not granted in time */
    RT_EXIT_LOST = 76,  /* lost while the command ran */
    RT_EXIT_CANNOT_RUN = 126,
    RT_EXIT_NOT_FOUND = 127,
    RT_EXIT_SIGNAL = 128, /* + n: ended by signal n */
};

/* --system: the machine's locks, for root and the members of the folder's group. */
#define RT_CLI_SYSTEM "file:/var/lib/rota?mode=0660"

struct rt_cli {
    const char *on; /* --on URL|NAME; NULL: $ROTA_URL, else the embedded engine */
};

/* ARGV[0] is the subcommand's name. Returns the exit code. */
typedef int rt_command_fn(const struct rt_cli *cli, int argc, char **argv);

struct rt_command {
    const char *name;
    const char *summary; /* for the list of rota --help */
    const char *help;    /* a screen */
    rt_command_fn *main;
};

extern const struct rt_command rt_commands[]; /* ends with a NULL name */
const struct rt_command *rt_command_find(const char *name);

rt_command_fn rt_run_main;
rt_command_fn rt_once_main;
rt_command_fn rt_elect_main;
rt_command_fn rt_ls_main;
rt_command_fn rt_show_main;
rt_command_fn rt_why_main;
rt_command_fn rt_watch_main;
rt_command_fn rt_break_main;
rt_command_fn rt_guard_main;
rt_command_fn rt_doctor_main;
rt_command_fn rt_metrics_main;
rt_command_fn rt_bench_main;
rt_command_fn rt_top_main;
rt_command_fn rt_demo_main;
rt_command_fn rt_txn_main;
rt_command_fn rt_relay_main;
rt_command_fn rt_help_main;

/* A line in the help of every command that opens an engine. */
#define RT_HELP_ENGINE "      --on URL|NAME, --system  another engine: see 'rota --help'\n"

/* Prints the help of the whole command, or of the subcommand COMMAND, on stdout. */
int rt_help_print(const struct rt_command *command);

extern const char rt_help_run[];
extern const char rt_help_once[];
extern const char rt_help_elect[];
extern const char rt_help_ls[];
extern const char rt_help_show[];
extern const char rt_help_why[];
extern const char rt_help_watch[];
extern const char rt_help_break[];
extern const char rt_help_guard[];
extern const char rt_help_doctor[];
extern const char rt_help_metrics[];
extern const char rt_help_bench[];
extern const char rt_help_top[];
extern const char rt_help_demo[];
extern const char rt_help_txn[];
extern const char rt_help_relay[];
extern const char rt_help_help[];

#endif
