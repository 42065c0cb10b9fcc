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
    RT_EXIT_BUSY = 75, /* not granted in time */
    RT_EXIT_LOST = 76, /* lost while the command ran */
    RT_EXIT_CANNOT_RUN = 126,
    RT_EXIT_NOT_FOUND = 127,
    RT_EXIT_SIGNAL = 128, /* + n: ended by signal n */
};

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
rt_command_fn rt_demo_main;
rt_command_fn rt_help_main;

/* Prints the help of the whole command, or of the subcommand COMMAND, on stdout. */
int rt_help_show(const struct rt_command *command);

extern const char rt_help_run[];
extern const char rt_help_demo[];
extern const char rt_help_help[];

#endif
