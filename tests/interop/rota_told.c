/* SPDX-License-Identifier: Apache-2.0 */
/* rota-side told: what to do comes line by line on its input, and is said when it is done: lock, read, unlock. Re-entry: the
 * last lock is given back first. */
#include "side.h"

#include <stdio.h>
#include <string.h>

#define DEEP 8

static struct rota_lock *held[DEEP];
static int depth;

static void take(struct rota *client, const char *name, bool shared)
{
    const struct rota_ask ask = {.mode = shared ? ROTA_SHARED : ROTA_EXCLUSIVE};
    if (depth == DEEP)
        side_die("lock", ROTA_INVALID);
    int err = rota_acquire(client, name, &ask, &held[depth]);
    if (err != 0)
        side_die("acquire", err);
    depth++;
}

static void give_back(void)
{
    int err = depth > 0 ? rota_release(held[--depth]) : ROTA_INVALID;
    if (err != 0)
        side_die("release", err);
}

void side_told(struct rota *client, const char *name)
{
    char line[64];
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        bool back = strcmp(line, "unlock\n") == 0;
        if (back)
            give_back();
        else
            take(client, name, strcmp(line, "read\n") == 0);
        printf(back ? "unlocked\n" : "locked\n");
        fflush(stdout);
    }
}
