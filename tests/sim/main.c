/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator's command: runs schedules by seed; a failing one is run again with its trace.
 *
 *   sim [KIND] [--from SEED | --from new] [--seeds N] [--corpus FILE]   the corpus first, then N seeds
 *   sim [KIND] --seed SEED [--trace]                                    one, with all of its trace
 *   sim [KIND] --for S ...                                              as many seeds as fit into S seconds
 *   sim [KIND] --seed SEED --digest                                     a hash of what the seed decides, without the run:
 *                                                                       another one means another schedule
 *
 * KIND is --txn: the core of transactions, over a simulated journal and resources; or --redis, --cluster, --redlock,
 * --token, --also, --etcd, --postgres, --mysql or --zookeeper: over that engine and a model of its server, not over
 * mem; --file: over that engine, a real database and a simulated machine; --three, --three-commit, --three-strict:
 * three-phase commit (three/kind.c); --relay: the outbox; --late: over mem that numbers tickets when it grants them.
 * --from new: from a freshly drawn seed, which is printed first. --rejoin: half of the asks outlast outages
 * (ROTA_REJOIN); --observe: threads also look on; --crowd: 200 locks, or a line of a hundred. Without these options
 * seeds mean what they did before. */
#include "base/alloc.h"
#include "engines.h"
#if ROTA_ENGINE_FILE
#include "sim/file/machine.h"
#endif
#include "sim/redis/machine.h"
#include "sim/sim.h"
#include "sim/world.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define TAIL 40

static const char *program;
static uint64_t seed; /* the one that runs */
static bool tracing, tail, digesting;
static const struct sim_kind *kind = &sim_mem;
static char ring[TAIL][512];
static size_t ring_count;
static long live; /* allocations not given back */

/* ---- How it ends -------------------------------------------------------- */

void sim_out(const char *line)
{
    if (tail)
        snprintf(ring[ring_count++ % TAIL], sizeof(ring[0]), "%s", line);
    else
        puts(line);
}

void sim_out_tail(void)
{
    for (size_t i = ring_count > TAIL ? ring_count - TAIL : 0; i < ring_count; i++)
        puts(ring[i % TAIL]);
    ring_count = 0;
    tail = false;
}

void sim_drawn(const void *plan, size_t size)
{
    const unsigned char *p = plan;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    if (!digesting)
        return;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    printf("%016llx\n", (unsigned long long)hash);
    fflush(stdout);
#if ROTA_ENGINE_FILE
    sf_world_clear();
#endif
    _exit(0);
}

/* A quiet run that failed is repeated by a fresh program, which remembers the last lines. */
static void run_again(void)
{
    char text[32], flag[16];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
    snprintf(flag, sizeof(flag), "--%s", kind->name);
    const char *const argv[] = {program,
                                "--seed",
                                text,
                                "--tail",
                                flag,
                                sim_rejoin > 0 ? "--rejoin" : flag,
                                sim_crowd ? "--crowd" : flag,
                                sim_observe > 0 ? "--observe" : NULL,
                                NULL};
    execv("/proc/self/exe", (char *const *)(const void *)argv);
}

static const char *flags(void)
{
    static char text[40];
    snprintf(text, sizeof(text), "%s%s%s", sim_rejoin > 0 ? " --rejoin" : "",
             sim_observe > 0 ? " --observe" : "", sim_crowd ? " --crowd" : "");
    return text;
}

_Noreturn void sim_end(const char *why)
{
    if (!tracing)
        run_again();
    sim_out_tail();
    printf("\nseed %llu: %s\nagain: %s --%s%s --seed %llu --trace\n", (unsigned long long)seed, why,
           program, kind->name, flags(), (unsigned long long)seed);
    fflush(stdout);
#if ROTA_ENGINE_FILE
    sf_world_clear();
#endif
    _exit(1);
}

static void on_signal(int number)
{
    signal(number, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sim_end(number == SIGABRT   ? "an assertion failed"
            : number == SIGPROF ? "no end in sight"
                                : "a bad memory access");
}

/* ---- Memory ------------------------------------------------------------- */

uint32_t sim_starving, sim_rejoin, sim_observe;
bool sim_crowd;
struct sim_random sim_hunger;
static struct sim_random sim_dice; /* for getrandom */

static bool starves(void)
{
    return sim_starving > 0 && sim_chance(&sim_hunger, sim_starving);
}

static void *count_calloc(size_t n, size_t size)
{
    if (starves())
        return NULL;
    live++;
    return calloc(n, size);
}

static void *count_realloc(void *p, size_t size)
{
    if (starves())
        return NULL;
    live += p == NULL;
    return realloc(p, size);
}

static void count_free(void *p)
{
    live -= p != NULL;
    free(p);
}

static const struct rt_allocator counting = {count_calloc, count_realloc, count_free};

/* ---- Chance ------------------------------------------------------------- */

/* Overrides libc's: what the library takes for random comes from the seed. */
ssize_t getrandom(void *buffer, size_t n, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)buffer)[i] = (unsigned char)sim_next(&sim_dice);
    return (ssize_t)n;
}

/* ---- Runs --------------------------------------------------------------- */

/* In processor time, whatever else the machine does: the longest schedule known (Redlock, 74,000 steps) takes 7 s, and
 * 40 under the address sanitizer. 0: no limit. */
static void limit_time(long seconds)
{
    struct itimerval limit = {.it_value = {.tv_sec = seconds}};
    (void)setitimer(ITIMER_PROF, &limit, NULL);
}

static void run(uint64_t number)
{
    seed = number;
    sim_dice.state = ~number;
    limit_time(120);
    sim_run(number, kind, tracing);
    limit_time(0);
    if (live != 0)
        sim_end("I6 is violated: memory is not given back");
}

static uint64_t run_corpus(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[256];
    uint64_t count = 0;
    if (file == NULL) {
        fprintf(stderr, "sim: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        char *end;
        uint64_t number = strtoull(line, &end, 10);
        if (end == line)
            continue; /* a comment */
        run(number);
        count++;
    }
    fclose(file);
    return count;
}

static double seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void print_counts(void)
{
    if (kind->report != NULL) {
        kind->report();
        return;
    }
    const struct sim_counts *n = &sim_counts;
    const struct {
        const char *what;
        uint64_t count;
    } rows[] = {
        {"granted", n->granted},
        {"  of them passed on", n->passed},
        {"  of them re-entered", n->reentered},
        {"not granted", n->failed},
        {"back in line", n->rejoined},
        {"holds lost", n->lost},
        {"holds ended by hold_ms", n->timed_out},
        {"released", n->released},
        {"released, too late", n->released_lost},
        {"released, not confirmed", n->released_unknown},
        {"crashes", n->crashes},
        {"pauses", n->pauses},
        {"closes", n->closes},
        {"came astray", n->strays},
        {"served by the model", n->scripts},
        {"times it lost data", n->losses},
        {"times its clock jumped", n->jumps},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("  %-24s %10llu\n", rows[i].what, (unsigned long long)rows[i].count);
}

/* A seed that nobody has run, most likely: getrandom is ours here. */
static uint64_t draw(void)
{
    uint64_t drawn = 0;
    FILE *file = fopen("/dev/urandom", "re");
    if (file == NULL || fread(&drawn, sizeof(drawn), 1, file) != 1) {
        fprintf(stderr, "sim: /dev/urandom: %s\n", strerror(errno));
        exit(1);
    }
    fclose(file);
    return drawn % UINT64_C(1000000000000); /* so that a person can read it out */
}

static uint64_t first_seed(const char *text)
{
    if (strcmp(text, "new") != 0)
        return strtoull(text, NULL, 10);
    uint64_t from = draw();
    printf("seeds drawn: %s --%s%s --from %llu\n", program, kind->name, flags(),
           (unsigned long long)from);
    fflush(stdout); /* also if it ends badly */
    return from;
}

static void run_many(const char *first, uint64_t count, double for_s, const char *corpus)
{
    uint64_t from = first_seed(first);
    double started = seconds();
    uint64_t done = corpus != NULL ? run_corpus(corpus) : 0;
    for (uint64_t i = 0; for_s > 0 ? seconds() - started < for_s : i < count; i++, done++)
        run(from + i);
    double took = seconds() - started;
    print_counts();
    printf("%llu schedules, %llu steps, %.1f s, %.0f schedules/s: nothing is violated\n",
           (unsigned long long)done, (unsigned long long)sim_counts.steps, took,
           (double)done / took);
}

static void usage(void)
{
    fprintf(
        stderr,
        "usage: %s [--late | --redis | --cluster | --redlock | --token | --also | --etcd | --postgres | --mysql | --zookeeper | --file | --txn | --three | --three-commit | --three-strict | --relay] [--rejoin] [--observe] [--crowd] [--from SEED|new] [--seeds N | --for SECONDS] [--corpus FILE] | --seed SEED [--trace | --digest]\n",
        program);
    exit(64);
}

int main(int argc, char **argv)
{
    uint64_t count = 1000, one = 0;
    const char *from = "1", *corpus = NULL;
    double for_s = 0;
    bool single = false;
    program = argv[0];
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--trace") == 0 || strcmp(argv[i], "--tail") == 0) {
            tracing = true;
            tail = argv[i][3] == 'a';
            continue;
        }
        if (strcmp(argv[i], "--digest") == 0) {
            digesting = true;
            continue;
        }
        if (strcmp(argv[i], "--rejoin") == 0) {
            sim_rejoin = 500;
            continue;
        }
        if (strcmp(argv[i], "--crowd") == 0) {
            sim_crowd = true;
            continue;
        }
        if (strcmp(argv[i], "--observe") == 0) {
            sim_observe = 150;
            continue;
        }
        if (strncmp(argv[i], "--", 2) == 0 && sim_kind_find(argv[i] + 2) != NULL) {
            kind = sim_kind_find(argv[i] + 2);
            continue;
        }
        if (value == NULL)
            usage();
        if (strcmp(argv[i], "--from") == 0)
            from = value;
        else if (strcmp(argv[i], "--seeds") == 0)
            count = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--for") == 0)
            for_s = strtod(value, NULL);
        else if (strcmp(argv[i], "--corpus") == 0)
            corpus = value;
        else if (strcmp(argv[i], "--seed") == 0)
            one = strtoull(value, NULL, 10), single = true;
        else
            usage();
        i++;
    }
    signal(SIGABRT, on_signal);
    signal(SIGSEGV, on_signal);
    signal(SIGPROF, on_signal);
    rt_alloc_set(&counting);
    if (single) {
        run(one);
        printf("seed %llu: %llu steps, nothing is violated\n", (unsigned long long)one,
               (unsigned long long)sim_counts.steps);
        rs_script_forget_all();
        return 0;
    }
    run_many(from, count, for_s, corpus);
    rs_script_forget_all();
    return 0;
}
