/* SPDX-License-Identifier: Apache-2.0 */
/* The bank on one journal:
 *
 *   bank file|postgres|mysql|etcd [WORD]    all scenes; WORD: those at crash points (points), the others (scenes), or
 *                                           those whose name has it; with BANK_SHOW=1 what its processes logged */
#include "scenes.h"

#include "bank.h"

#include "lib/proc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *journal;

static int up(void **state)
{
    (void)state;
    world_start(journal);
    return 0;
}

int scene_begin(void **state)
{
    (void)state;
    hands_end();
    houses_reuse();
    world_timeout(0);
    world_call(0);
    world_keep(0);
    world_through(MARIADB, 0);
    world_through(POSTGRES, 0);
    return 0;
}

/* With BANK_SHOW: shows what roles logged. */
static void show_log(void)
{
    char line[500];
    FILE *log = getenv("BANK_SHOW") != NULL ? fopen(getenv("BANK_LOG"), "re") : NULL;

    while (log != NULL && fgets(line, sizeof(line), log) != NULL)
        fputs(line, stderr);
    if (log != NULL)
        fclose(log);
}

static int down(void **state)
{
    (void)state;
    hands_end();
    show_log();
    world_end();
    return 0;
}

static size_t gather(struct CMUnitTest *out, size_t n, const struct CMUnitTest *from, size_t count,
                     const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (word == NULL || strstr(from[i].name, word) != NULL)
            out[n++] = from[i];
    return n;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest all[40];
    const char *word = argc > 2 ? argv[2] : NULL;

    if (argc < 2)
        return 64;
    signal(SIGPIPE, SIG_IGN);
    if (strcmp(argv[1], "teller") == 0)
        return bank_teller(argc, argv);
    if (strcmp(argv[1], "joiner") == 0)
        return bank_joiner(argc, argv);
    if (strcmp(argv[1], "recover") == 0)
        return bank_recoverer(argc, argv);
    journal = argv[1];
    bool points = word != NULL && strcmp(word, "points") == 0;
    bool scenes = word != NULL && strcmp(word, "scenes") == 0;
    word = points || scenes ? NULL : word;
    size_t n = points ? 0 : gather(all, 0, other_scenes, other_scene_count, word);
    n = scenes ? n : gather(all, n, point_scenes, point_scene_count, word);
    rt_watchdog(getenv("ROTA_TORTURE") != NULL ? 7200 : 1500, "the bank hangs");
    return _cmocka_run_group_tests("bank", all, n, up, down);
}
