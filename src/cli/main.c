/* SPDX-License-Identifier: Apache-2.0 */
/* The command rota: global options, and the table of subcommands. */
#include "cli/child.h"
#include "cli/cli.h"

#include "cli/options.h"
#include "cli/out.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EARLY_MOST 8

const struct rt_command rt_commands[] = {
    {"run", "run a command while holding a lock", rt_help_run, rt_run_main},
    {"once", "run a command once per key, whoever comes", rt_help_once, rt_once_main},
    {"elect", "run a command as the leader", rt_help_elect, rt_elect_main},
    {"ls", "list the locks in use", rt_help_ls, rt_ls_main},
    {"show", "show the line of a lock", rt_help_show, rt_show_main},
    {"why", "say who holds a lock, who waits, and why", rt_help_why, rt_why_main},
    {"watch", "print each change of a lock", rt_help_watch, rt_watch_main},
    {"break", "take a lock away, by its fence", rt_help_break, rt_break_main},
    {"guard", "let the resource refuse who comes too late", rt_help_guard, rt_guard_main},
    {"doctor", "check what the engine promises", rt_help_doctor, rt_doctor_main},
    {"top", "watch the locks in use, live", rt_help_top, rt_top_main},
    {"bench", "measure an engine", rt_help_bench, rt_bench_main},
    {"metrics", "print metrics of an engine, for Prometheus", rt_help_metrics, rt_metrics_main},
    {"demo", "see a sale oversell without a lock, and not with one", rt_help_demo, rt_demo_main},
    {"txn", "transactions over several databases", rt_help_txn, rt_txn_main},
    {"relay", "publish the events of a database's table", rt_help_relay, rt_relay_main},
    {"help", "show help for a command", rt_help_help, rt_help_main},
    {NULL, NULL, NULL, NULL},
};

const struct rt_command *rt_command_find(const char *name)
{
    for (const struct rt_command *c = rt_commands; c->name != NULL; c++) {
        if (strcmp(c->name, name) == 0)
            return c;
    }
    return NULL;
}

static int show_version(void)
{
    printf("rota %s\n", rota_version());
    return rt_out_flush();
}

static int dispatch(const struct rt_cli *cli, int argc, char **argv)
{
    if (argc == 0)
        return rt_out_usage(NULL, "no command given");
    const struct rt_command *command = rt_command_find(argv[0]);
    if (command == NULL)
        return rt_out_usage(NULL, "unknown command '%s'", argv[0]);
    return command->main(cli, argc, argv);
}

/* Runs COMMAND with the OPTIONS that stood before it, and its words. They live as long as the program. */
static int dispatch_with(const struct rt_cli *cli, char **options, int count, int argc, char **argv)
{
    if (argc == 0 || count == 0)
        return dispatch(cli, argc, argv);
    char **words = calloc((size_t)(argc + count) + 1, sizeof(*words));
    if (words == NULL) {
        rt_out_error("out of memory");
        return RT_EXIT_INTERNAL;
    }
    words[0] = argv[0];
    memcpy(words + 1, options, (size_t)count * sizeof(*words));
    memcpy(words + 1 + count, argv + 1, (size_t)(argc - 1) * sizeof(*words));
    int code = dispatch(cli, argc + count, words);
    free((void *)words);
    return code;
}

/* Nothing we open may land on a standard descriptor that was closed when we began: an error message would go there.
 * These can only be used the wrong way round, and are closed again in COMMAND: all is as if they were closed. */
static void occupy_standard(void)
{
    int fd;

    do
        fd = open("/dev/null",
                  (fcntl(STDIN_FILENO, F_GETFD) < 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* SQLite maps a file of the embedded engine: somebody who truncates it in the middle of a transaction ends us, but not
 * without a word. */
static void on_bus_error(int signo)
{
    static const char text[] =
        "rota: bus error: was a file of the embedded engine truncated while in use?\n";

    (void)signo;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(RT_EXIT_UNREACHABLE);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"ttl", required_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    static char json[] = "--json", ttl[] = "--ttl";
    struct rt_cli cli = {NULL};
    char *early[EARLY_MOST]; /* options of the command that stand before it */
    int c, count = 0;

    occupy_standard();
    rt_child_ignore_file_size();
    signal(SIGBUS, on_bus_error);
    opterr = 0;
    rt_options_begin(&cli);
    while ((c = rt_options_next(argc, argv, "+:hV", options)) != -1) {
        if (count + 2 > EARLY_MOST)
            return rt_out_usage(NULL, "so many options: let them follow the command");
        switch (c) {
        case 'j':
            early[count++] = json;
            break;
        case 't':
            early[count++] = ttl;
            early[count++] = optarg;
            break;
        case 'h':
            return rt_help_print(NULL);
        case 'V':
            return show_version();
        default:
            return rt_options_complain(NULL, argv, c);
        }
    }
    return dispatch_with(&cli, early, count, argc - optind, argv + optind);
}
