/* SPDX-License-Identifier: Apache-2.0 */
/* The help of the commands that look, and of once and elect, each a screen at most. */
#include "cli/cli.h"

const char rt_help_once[] =
    "Usage: rota once [OPTION]... KEY [OPTION]... [--] COMMAND [ARG]...\n"
    "Of all who come with KEY, on all machines of the engine, one runs COMMAND.\n"
    "\n"
    "      --for TIME     KEY is free again that long after the winner came: 30s, 5m,\n"
    "                     24h, 7d; longer than COMMAND takes. Without it: never\n"
    "      --keep-failed  KEY stays taken even if COMMAND fails\n"
    "  -E CODE            exit with CODE instead of 0 if it was done before\n" RT_HELP_ENGINE "\n"
    "If COMMAND fails (exit code not 0) KEY is free again, so that it can be retried.\n"
    "If rota is killed (-9), or the machine dies, KEY stays taken: nobody knows\n"
    "how far COMMAND got. 'rota show KEY' and 'rota break KEY --fence N' free it.\n"
    "Keys and locks share one set of names. COMMAND gets ROTA_NAME and ROTA_FENCE.\n"
    "\n"
    "Exit: that of COMMAND for the winner; 0 (or -E) for all others; 75 KEY is in use\n"
    "as a lock; 69 engine not reachable; 64 wrong usage; 126, 127 COMMAND cannot run.\n"
    "\n"
    "  rota once --for 20h nightly -- ./job.sh      from cron on each of ten machines\n"
    "  rota once report-$(date +%F) -- ./report.sh  a key per day\n";

const char rt_help_elect[] =
    "Usage: rota elect [OPTION]... NAME [OPTION]... [--] COMMAND [ARG]...\n"
    "Waits until it is the leader of NAME, runs COMMAND as the leader, and resigns.\n"
    "\n"
    "      --value TEXT  what observers are told, as an address, up to 1023 bytes;\n"
    "                    without it host/process/command\n"
    "      --ttl TIME    how long it outlives a lost machine: 1s to 1h (10s)\n" RT_HELP_ENGINE "\n"
    "COMMAND gets ROTA_NAME and ROTA_FENCE, which grows with each leader. If the\n"
    "leadership is lost, it gets SIGTERM, then SIGKILL. 'rota watch NAME' observes.\n"
    "\n"
    "Exit: that of COMMAND, 128+n if signal n ended it; 76 lost meanwhile; 69 engine\n"
    "not reachable; 64 wrong usage; 126, 127 COMMAND cannot run; 130 interrupted.\n"
    "\n"
    "  rota elect --value 10.0.0.7:80 web -- ./serve\n";

const char rt_help_ls[] =
    "Usage: rota ls [--json] [PREFIX]\n"
    "Lists the locks that are held or waited for, whose name begins with PREFIX:\n"
    "how many hold and wait, how long the first has held, and who it is.\n"
    "\n"
    "      --json  one JSON object; docs/json.md has its shape\n" RT_HELP_ENGINE "\n"
    "Exit: 0, also if there is none; 69 engine not reachable; 64 wrong usage.\n";

const char rt_help_show[] =
    "Usage: rota show [--json] NAME\n"
    "Shows who stands in the line for NAME, the front first.\n"
    "\n"
    "  PLACE, STATE  holds or waits\n"
    "  FENCE         the ticket's number; that of an exclusive hold is its fence\n"
    "  SINCE         how long it has held, or waited\n"
    "  LEFT          when it ends if nothing more is heard of it; -: with its process\n"
    "  THREAD        the thread in that process, or the owner it chose\n"
    "  LABEL, VALUE  who it is, as host/process/program, and what it proclaimed\n"
    "\n"
    "      --json  one JSON object; docs/json.md has its shape\n" RT_HELP_ENGINE "\n"
    "Exit: 0, also if nobody is there; 69 engine not reachable; 64 wrong usage.\n";

const char rt_help_why[] =
    "Usage: rota why [--json] NAME\n"
    "Says who holds NAME and since when, what ends it, who waits in which place,\n"
    "and whether they wait for each other in a circle (a deadlock).\n"
    "\n"
    "      --json  one JSON object; docs/json.md has its shape\n" RT_HELP_ENGINE "\n"
    "A circle is seen where one thread or owner holds and waits; not through\n"
    "commands that call each other, such as 'rota run a -- rota run b ...'.\n"
    "\n"
    "Exit: 0, free or held; 69 engine not reachable; 64 wrong usage.\n";

const char rt_help_watch[] =
    "Usage: rota watch [-1] [--json] NAME\n"
    "Prints who is at the front of NAME, and again when that changes: fence, label,\n"
    "value, how many wait. Fences never go back; states in between may be left out.\n"
    "\n"
    "  -1          print the present state and end\n"
    "      --json  one JSON object per line; docs/json.md has its shape\n" RT_HELP_ENGINE "\n"
    "Exit: 0 with -1 or when nobody reads it any more; 130 interrupted; 69 engine not\n"
    "reachable; 64 wrong usage.\n";

const char rt_help_break[] =
    "Usage: rota break [--json] NAME --fence N\n"
    "Takes the ticket with fence N out of the line for NAME, whoever has it: a holder\n"
    "is told that it lost, and 'rota run' ends its command. Never anybody else: if\n"
    "that ticket went meanwhile, nothing happens.\n"
    "\n"
    "      --fence N  as 'rota show NAME' shows it\n"
    "      --json     one JSON object; docs/json.md has its shape\n" RT_HELP_ENGINE "\n"
    "A holder that does not look, or hangs, may go on for a moment: only a resource\n"
    "that checks fences keeps it out.\n"
    "\n"
    "Exit: 0 it was taken out; 75 it is not there (any more); 69 engine unreachable;\n"
    "64 wrong usage.\n";

const char rt_help_doctor[] =
    "Usage: rota doctor [--json]  or: rota doctor --ddl [--json]\n"
    "Asks the engine which promises it keeps as it is set up here: for each 'kept',\n"
    "'limited' or 'broken', with the setting that decides, and what to do.\n"
    "\n"
    "      --ddl   print the tables that the engine needs instead, for a person to\n"
    "              create where its user may not; the server is not asked\n"
    "      --json  one JSON object; docs/json.md has its shape\n" RT_HELP_ENGINE "\n"
    "Exit: 0 if none is broken, else 1; 69 engine not reachable; 64 wrong usage.\n";
