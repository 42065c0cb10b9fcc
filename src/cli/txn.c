/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn: hands over to the command rota-txn, as git does, so that nothing of transactions is in rota itself. */
#include "cli/cli.h"
#include "cli/out.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "rota-txn"

const char rt_help_txn[] =
    "Usage: rota txn COMMAND ...\n"
    "Transactions over several databases: which are open, what is in doubt, who blocks\n"
    "whom; recovers what dead processes left. It is the command rota-txn(1):\n"
    "'rota txn --help' lists its commands.\n";

/* It beside this very program, wherever that was installed; false: the path is too long. */
static bool find_beside(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);

    if (n <= 0)
        return false;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash + 1 - path) + sizeof(PROGRAM) > size)
        return false;
    memcpy(slash + 1, PROGRAM, sizeof(PROGRAM));
    return true;
}

int rt_txn_main(const struct rt_cli *cli, int argc, char **argv)
{
    char path[PATH_MAX];

    (void)argc;
    if (cli->on != NULL)
        return rt_out_usage("txn", "transactions have a journal, not an engine: --journal URL");
    if (find_beside(path, sizeof(path)))
        execv(path, argv);
    execvp(PROGRAM, argv);
    if (errno != ENOENT) {
        rt_out_error("cannot run " PROGRAM ": %s", strerror(errno));
        return RT_EXIT_CANNOT_RUN;
    }
    rt_out_error("'rota txn' is the command " PROGRAM
                 ", which is not installed: Debian's package " PROGRAM " has it");
    return RT_EXIT_NOT_FOUND;
}
