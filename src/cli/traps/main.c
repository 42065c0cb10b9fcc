/* SPDX-License-Identifier: Apache-2.0 */
/* rota demo traps: the classic failures, each once broken and once mended. */
#include "cli/options.h"
#include "cli/out.h"
#include "cli/scratch.h"
#include "cli/traps/traps.h"
#include "engines.h"

#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct rt_trap rt_traps[] = {
    {"lost-update", "two look at a stock, and both write what they computed", RT_TRAP_NOTHING,
     rt_trap_lost_update},
    {"setnx", "SETNX without EXPIRE, and a crash", RT_TRAP_REDIS, rt_trap_setnx},
    {"foreign-del", "a lock that is freed by somebody else's DEL", RT_TRAP_REDIS,
     rt_trap_foreign_del},
    {"two-steps", "compare and delete that are not one step", RT_TRAP_REDIS, rt_trap_two_steps},
    {"too-long", "work that takes longer than the lock lives", RT_TRAP_REDIS, rt_trap_too_long},
    {"clock", "a lock that ends by a clock of its clients", RT_TRAP_REDIS, rt_trap_clock},
    {"stale-writer", "a holder that was paused writes too late", RT_TRAP_REDIS,
     rt_trap_stale_writer},
    {"herd", "one release wakes all who wait", RT_TRAP_REDIS, rt_trap_herd},
    {"failover", "a failover that forgets a lock", RT_TRAP_REDISES, rt_trap_failover},
    {"redlock", "a majority of which one forgot", RT_TRAP_REDISES, rt_trap_redlock},
    {"no-index", "SELECT ... FOR UPDATE without an index", RT_TRAP_MARIADB, rt_trap_no_index},
    {"share-deadlock", "a shared lock, and then an UPDATE", RT_TRAP_MARIADB,
     rt_trap_share_deadlock},
    {"flock", "flock, and a daemon that inherits its descriptor", RT_TRAP_NOTHING, rt_trap_flock},
    {NULL, NULL, RT_TRAP_NOTHING, NULL},
};

struct traps {
    bool json, list, shown;
    const char *name; /* NULL: all */
    struct rt_scratch scratch;
    struct rt_house house;
    json_t *all;
    unsigned seen, failed, left_out;
};

enum { OPT_JSON = 256, OPT_LIST };

static volatile sig_atomic_t caught;

static void on_signal(int signo)
{
    caught = signo;
}

static const struct rt_trap *find(const char *name)
{
    for (const struct rt_trap *t = rt_traps; t->name != NULL; t++)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

static int parse(struct traps *traps, int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, OPT_JSON},
        {"list", no_argument, NULL, OPT_LIST},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    optind = 0; /* glibc: begin anew, with another argv */
    while ((c = rt_options_next(argc, argv, "+:h", options)) != -1) {
        if (c == OPT_JSON) {
            traps->json = true;
        } else if (c == OPT_LIST) {
            traps->list = true;
        } else if (c == 'h') {
            traps->shown = true;
            return rt_help_print(rt_command_find("demo"));
        } else {
            return rt_options_complain("demo", argv, c);
        }
    }
    if (optind < argc)
        traps->name = argv[optind++];
    if (optind < argc)
        return rt_out_usage("demo", "unexpected argument '%s'", argv[optind]);
    if (traps->name != NULL && find(traps->name) == NULL)
        return rt_out_usage("demo", "there is no trap '%s': 'rota demo traps --list' lists them",
                            traps->name);
    return RT_EXIT_OK;
}

static int list(void)
{
    for (const struct rt_trap *t = rt_traps; t->name != NULL; t++)
        printf("%-15s %s\n", t->name, t->about);
    return rt_out_flush();
}

/* ---- Playing ------------------------------------------------------------ */

/* A program that T needs and that is not installed. NULL: all are there. */
static const char *lacks(const struct rt_trap *t)
{
    static const char *const redis[] = {"redis-server", "redis-cli", NULL};
    static const char *const mariadb[] = {"mariadbd", "mariadb-install-db", "mariadb", NULL};
    static const char *const none[] = {NULL};
    const char *const *needed = t->needs == RT_TRAP_NOTHING   ? none
                                : t->needs == RT_TRAP_MARIADB ? mariadb
                                                              : redis;

    if (needed == redis && !ROTA_ENGINE_REDIS)
        return "the engine redis:";
    for (; *needed != NULL; needed++)
        if (!rt_house_has(*needed))
            return *needed;
    return NULL;
}

static int open_house(struct traps *traps, const struct rt_trap *t)
{
    switch (t->needs) {
    case RT_TRAP_REDIS:
        return rt_house_redis(&traps->house, 0, false);
    case RT_TRAP_MARIADB:
        return rt_house_mariadb(&traps->house);
    case RT_TRAP_NOTHING:
    case RT_TRAP_REDISES:
        break;
    }
    return RT_EXIT_OK;
}

static void note(struct traps *traps, const struct rt_trap *t, const struct rt_story *story)
{
    bool seen = story->broken && story->mended && !story->over;

    traps->seen += seen;
    traps->failed += !seen;
    if (!traps->json)
        printf("  %s%s%s\n\n", rt_out_color(stdout, seen ? RT_OUT_GREEN : RT_OUT_RED),
               seen            ? "seen broken, seen mended"
               : story->broken ? "seen broken, NOT seen mended"
               : story->mended ? "NOT seen broken, seen mended"
                               : "NOT seen broken, NOT seen mended",
               rt_out_color(stdout, RT_OUT_PLAIN));
    else if (traps->all != NULL)
        json_array_append_new(traps->all,
                              json_pack("{s:s, s:s, s:b, s:b, s:O}", "name", t->name, "about",
                                        t->about, "broken", story->broken, "mended", story->mended,
                                        "lines", story->lines));
}

static int play(struct traps *traps, const struct rt_trap *t)
{
    struct rt_story story = {.house = &traps->house, .quiet = traps->json, .lines = json_array()};
    const char *missing = lacks(t);

    if (!traps->json)
        printf("%s%s%s: %s\n", rt_out_color(stdout, RT_OUT_BOLD), t->name,
               rt_out_color(stdout, RT_OUT_PLAIN), t->about);
    if (missing != NULL) {
        traps->left_out++;
        if (traps->name != NULL)
            rt_out_error("%s is not installed, which this trap needs", missing);
        else if (!traps->json)
            printf("  left out: %s is not installed\n\n", missing);
        json_decref(story.lines);
        return traps->name != NULL ? RT_EXIT_UNREACHABLE : RT_EXIT_OK;
    }
    int code = open_house(traps, t);
    if (code == RT_EXIT_OK) {
        t->play(&story);
        rt_story_end(&story);
        if (caught == 0)
            note(traps, t, &story);
    }
    json_decref(story.lines);
    return caught != 0 ? RT_EXIT_SIGNAL + (int)caught : code;
}

static int play_all(struct traps *traps)
{
    int code = RT_EXIT_OK;

    for (const struct rt_trap *t = rt_traps; t->name != NULL && code == RT_EXIT_OK; t++)
        if (traps->name == NULL || strcmp(t->name, traps->name) == 0)
            code = play(traps, t);
    if (code != RT_EXIT_OK)
        return code;
    if (traps->json) {
        json_t *all = json_pack("{s:i, s:i, s:i, s:O}", "seen", (int)traps->seen, "failed",
                                (int)traps->failed, "left_out", (int)traps->left_out, "traps",
                                traps->all);
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(all);
    } else if (traps->name == NULL) {
        printf("%u seen broken and mended, %u not, %u left out\n", traps->seen, traps->failed,
               traps->left_out);
    }
    if (rt_out_flush() != RT_EXIT_OK || traps->failed > 0)
        return RT_EXIT_FAILED;
    return RT_EXIT_OK;
}

/* ---- Before and after --------------------------------------------------- */

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Settings meant for the user's own servers mean nothing to ours, but would be sent to them. */
static void forget_others(void)
{
    static const char *const names[] = {"ROTA_PASSWORD", "ROTA_TRACE", "REDISCLI_AUTH",
                                        "MYSQL_PWD"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

/* For the shells that run rota: this very program. */
static bool name_ourselves(void)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (n <= 0)
        return false;
    path[n] = '\0';
    return setenv("ROTA_SELF", path, 1) == 0;
}

int rt_traps_main(const struct rt_cli *cli, int argc, char **argv)
{
    static struct traps traps; /* static: its paths and seats are large */

    int code = parse(&traps, argc, argv);
    if (code != RT_EXIT_OK || traps.shown)
        return code;
    if (cli->on != NULL)
        return rt_out_usage("demo", "traps starts its own servers: leave --on and --system out");
    if (traps.list)
        return list();
    catch_signals();
    forget_others();
    code = name_ourselves() ? rt_scratch_make(&traps.scratch, "traps") : RT_EXIT_INTERNAL;
    if (code == RT_EXIT_OK) {
        traps.house.folder = traps.scratch.folder;
        traps.all = json_array();
        code = play_all(&traps);
        json_decref(traps.all);
    }
    rt_house_close(&traps.house);
    rt_scratch_remove(&traps.scratch);
    return code;
}
