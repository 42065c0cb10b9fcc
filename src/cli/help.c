/* SPDX-License-Identifier: Apache-2.0 */
/* The help texts, each a screen at most, and rota help. */
#include "cli/cli.h"
#include "cli/out.h"

#include <stdio.h>
#include <string.h>

static const char help_head[] =
    "Usage: rota [--on URL|NAME | --system] COMMAND ...\n"
    "Locks between processes and machines: rota run nightly -- ./job.sh\n";

static const char help_tail[] =
    "  --on URL|NAME  the engine: redis://host, or a name from ~/.config/rota/config;\n"
    "                 without it $ROTA_URL, else this user's own folder (no server)\n"
    "  --system       the folder that root shares with a group: file:/var/lib/rota\n"
    "  -h, --help     'rota COMMAND --help' for a command; -V, --version\n"
    "Exit: 64 wrong usage, 69 engine not reachable, 75 not granted in time, 76 lost.\n";

const char rt_help_run[] =
    "Usage: rota run [OPTION]... NAME [--] COMMAND [ARG]...  or: NAME -c 'SHELL LINE'\n"
    "Waits for the lock NAME, runs COMMAND while holding it, and gives it back.\n"
    "\n"
    "  -n, --nonblock       do not wait: exit 75 if somebody else holds it\n"
    "  -w, --wait SECONDS   wait that long at most, then exit 75; 0.5, 30, 5m, 1h\n"
    "  -E CODE              exit with CODE instead of 75 (--conflict-exit-code)\n"
    "  -s, --shared         share it with others that ask with -s (-x, -e: do not)\n"
    "      --take K --of N  take K of N permits: at most N in use at once\n"
    "      --ttl TIME       how long the lock outlives a lost machine: 1s to 1h (10s)\n"
    "      --at-least TIME  keep the name taken this long, even if COMMAND ends\n"
    "      --on-lost HOW    term: SIGTERM, then SIGKILL (default); kill; ignore\n"
    "      --metrics FILE   write wait, hold, beats, losses there, for Prometheus\n"
    "      --verbose        say how long it took, or who holds it\n" RT_HELP_ENGINE "\n"
    "COMMAND gets stdin, a process group of its own, and in its environment ROTA_NAME\n"
    "and ROTA_FENCE, a number that only grows. If rota is killed, COMMAND is ended.\n"
    "\n"
    "Exit: that of COMMAND, 128+n if signal n ended it; 75 (or -E) not in time;\n"
    "76 lost while it ran; 69 engine unreachable; 64 wrong usage; 126 COMMAND cannot\n"
    "be run, 127 not found; 130 interrupted while waiting.\n"
    "\n"
    "  rota run -n backup -- rsync -a /a /b   skip it if it runs already\n"
    "  rota run --take 1 --of 3 gpu -- train  at most three at once\n";

const char rt_help_demo[] =
    "Usage: rota demo [--buyers N] [--stock S] [--json] [--svg FILE]\n"
    "  or:  rota demo traps [--json] [--list] [TRAP]\n"
    "  or:  rota demo bank|order|outbox [OPTION]...   (transactions; --help)\n"
    "A flash sale: N processes sell a stock of S, kept in a file, all at once. First\n"
    "without a lock: it oversells. Then with one: it sells exactly S; and so in each\n"
    "dialect that the engine has.\n"
    "\n"
    "      --buyers N  processes, 2 to 64 (8)\n"
    "      --stock S   items, 1 to 10000 (100)\n"
    "      --json      one JSON object instead of the table\n"
    "      --svg FILE  a picture of it, too\n" RT_HELP_ENGINE "\n"
    "Without --on and $ROTA_URL the engine is embedded, in a temporary folder.\n"
    "\n"
    "traps: the classic failures of locks, each once broken and once mended, told\n"
    "command by command: SETNX and a crash, a DEL of somebody else's lock, a failover\n"
    "that forgets. It starts the servers itself (redis-server, mariadbd) and leaves\n"
    "out what is not installed. --list lists them; with TRAP only that one.\n"
    "\n"
    "Exit: 0 if the sale with the lock was exact, or each trap was seen both broken\n"
    "and mended; else 1.\n";

const char rt_help_help[] = "Usage: rota help [COMMAND]\n"
                            "Shows help for COMMAND, or the list of commands.\n";

int rt_help_print(const struct rt_command *command)
{
    if (command != NULL) {
        fputs(command->help, stdout);
        return rt_out_flush();
    }
    fputs(help_head, stdout);
    for (const struct rt_command *c = rt_commands; c->name != NULL; c++)
        printf("  %-7s  %s\n", c->name, c->summary);
    fputs(help_tail, stdout);
    return rt_out_flush();
}

int rt_help_main(const struct rt_cli *cli, int argc, char **argv)
{
    (void)cli;
    if (argc > 2)
        return rt_out_usage(NULL, "help takes one command");
    if (argc < 2)
        return rt_help_print(NULL);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return rt_help_print(rt_command_find("help"));
    const struct rt_command *command = rt_command_find(argv[1]);
    if (command == NULL)
        return rt_out_usage(NULL, "unknown command '%s'", argv[1]);
    return rt_help_print(command);
}
