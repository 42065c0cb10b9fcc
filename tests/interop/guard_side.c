/* SPDX-License-Identifier: Apache-2.0 */
/* The guard for languages that cannot map a page: guard-side SIDE FOLDER, a child in the group of who asks, so that a kill
 * ends both.
 *
 * One request a line, one line each back:
 *
 *   inside NUMBER   enters, works, leaves: "1" go on, or "0" it is time to stop
 *   say TEXT        into the log: "1" */
#include "guard.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void inside(uint64_t number)
{
    uint64_t count = guard_enter(number, "");
    /* Short, and now and then long enough for a kill to find a holder. */
    usleep(rand() % 16 == 0 ? 20000 : (useconds_t)(rand() % 500));
    guard_leave(number, count);
}

int main(int argc, char **argv)
{
    char line[1024];
    if (argc != 3) {
        fputs("usage: guard-side SIDE FOLDER\n", stderr);
        return 64;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    srand((unsigned)getpid());
    guard_open(argv[1], argv[2]);
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "inside ", 7) == 0)
            inside(strtoull(line + 7, NULL, 10));
        else if (strncmp(line, "say ", 4) == 0)
            guard_say("%s", line + 4);
        printf("%d\n", guard_stopped() ? 0 : 1);
        fflush(stdout);
    }
    return 0;
}
