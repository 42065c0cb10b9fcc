/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn, rota relay: hand over to the commands rota-txn and rota-relay, as git does, so that rota itself contains
 * nothing about transactions. */
#include "cli/cli.h"
#include "cli/out.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PACKAGE "rota-txn" /* Debian's: it has both */

const char rt_help_txn[] =
    "Usage: rota txn COMMAND ...\n"
    "Transactions across several databases: which are open, what is in doubt, who\n"
    "blocks whom; recovers what dead processes left. It is the command rota-txn(1):\n"
    "'rota txn --help' lists its commands.\n";

const char rt_help_relay[] =
    "Usage: rota relay --from DATABASE --to BROKER [OPTION]...\n"
    "Publishes the events in a table, each once its transaction has committed. It is\n"
    "the command rota-relay(1): 'rota relay --help' lists its options.\n";

/* PROGRAM beside this very program, wherever that was installed; false: the path is too long. */
static bool find_beside(const char *program, char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);

    if (n <= 0)
        return false;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash + 1 - path) + strlen(program) + 1 > size)
        return false;
    memcpy(slash + 1, program, strlen(program) + 1);
    return true;
}

static int hand_over(const char *word, const char *program, char **argv)
{
    char path[PATH_MAX];

    if (find_beside(program, path, sizeof(path)))
        execv(path, argv);
    execvp(program, argv);
    if (errno != ENOENT) {
        rt_out_error("cannot run %s: %s", program, strerror(errno));
        return RT_EXIT_CANNOT_RUN;
    }
    rt_out_error(
        "'rota %s' needs the command %s, which is not installed: 'make' builds it beside rota, "
        "and Debian's package " PACKAGE " has it",
        word, program);
    return RT_EXIT_NOT_FOUND;
}

int rt_txn_main(const struct rt_cli *cli, int argc, char **argv)
{
    (void)argc;
    if (cli->on != NULL)
        return rt_out_usage("txn", "transactions have a journal, not an engine: --journal URL");
    return hand_over("txn", "rota-txn", argv);
}

int rt_relay_main(const struct rt_cli *cli, int argc, char **argv)
{
    (void)argc;
    if (cli->on != NULL)
        return rt_out_usage("relay",
                            "a relay has a database and a broker, not an engine: --from, --to");
    return hand_over("relay", "rota-relay", argv);
}
