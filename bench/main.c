/* SPDX-License-Identifier: Apache-2.0 */
/* rota-bench: the figures behind the promises, on this machine. */
#include "bench.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int missed;

static const struct {
    const char *name;
    void (*run)(const struct bench *b);
    const char *what;
} benches[] = {
    {"pair", bench_pair, "uncontended pairs: file, mem, linger; against SQLite and flock"},
    {"threads", bench_threads, "32 threads on one lock: passing on, against a hand-written mutex"},
    {"handover", bench_handover, "from one process to another"},
    {"takeover", bench_takeover, "after the holder was killed"},
    {"held", bench_held, "100,000 held locks: memory and speed"},
};

int64_t bench_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(double *values, size_t n, double q)
{
    qsort(values, n, sizeof *values, by_value);
    size_t i = (size_t)(q * (double)n);
    return values[i < n ? i : n - 1];
}

double bench_median(double *values, size_t n)
{
    return bench_quantile(values, n, 0.5);
}

void bench_say(const struct bench *b, const char *what, double value, const char *unit)
{
    if (b->json)
        printf("{\"what\":\"%s\",\"value\":%.4g,\"unit\":\"%s\"}\n", what, value, unit);
    else
        printf("  %-58s %10.4g %s\n", what, value, unit);
    fflush(stdout);
}

void bench_goal(const struct bench *b, const char *what, double value, const char *unit,
                bool at_least, double goal)
{
    bool met = at_least ? value >= goal : value <= goal;
    missed += !met;
    const char *sign = at_least ? ">=" : "<=";
    if (b->json)
        printf("{\"what\":\"%s\",\"value\":%.4g,\"unit\":\"%s\",\"goal\":\"%s %g\",\"met\":%s}\n",
               what, value, unit, sign, goal, met ? "true" : "false");
    else
        printf("  %-58s %10.4g %-6s goal %s %g: %s\n", what, value, unit, sign, goal,
               met ? "met" : "MISSED");
    fflush(stdout);
}

int bench_missed(void)
{
    return missed;
}

void bench_must(int err, const struct rota *r, const char *what)
{
    if (err == 0)
        return;
    fprintf(stderr, "rota-bench: %s: %s (%s)\n", what, rota_errmsg(r), rota_strerror(err));
    exit(1);
}

struct rota *bench_open(const struct bench *b, const char *scheme, const char *name,
                        const struct rota_options *opts)
{
    char url[PATH_MAX];
    if (strcmp(scheme, "file") == 0)
        snprintf(url, sizeof url, "file:%s/%s", b->folder, name);
    else
        snprintf(url, sizeof url, "%s:%s", scheme, name);
    struct rota *r = NULL;
    bench_must(rota_open(&r, url, opts), NULL, url);
    return r;
}

static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    if (dir == NULL) {
        unlink(path);
        return;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char child[PATH_MAX];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        remove_folder(child);
    }
    closedir(dir);
    rmdir(path);
}

static int usage(FILE *out)
{
    fprintf(out, "usage: rota-bench [--json] [--quick] [BENCH...]\n\n");
    for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++)
        fprintf(out, "  %-10s %s\n", benches[i].name, benches[i].what);
    return out == stderr ? 64 : 0;
}

static bool wanted(const char *name, int argc, char **argv)
{
    bool any = false;
    for (int i = 1; i < argc; i++) {
        any |= argv[i][0] != '-';
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return !any;
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    char folder[PATH_MAX];
    struct bench b = {.folder = folder, .scale = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            b.json = true;
        else if (strcmp(argv[i], "--quick") == 0)
            b.scale = 0.1;
        else if (strcmp(argv[i], "--help") == 0)
            return usage(stdout);
        else if (argv[i][0] == '-')
            return usage(stderr);
    }
    snprintf(folder, sizeof folder, "%s/rota-bench-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 69;
    }
    for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++) {
        if (!wanted(benches[i].name, argc, argv))
            continue;
        if (!b.json)
            printf("%s: %s\n", benches[i].name, benches[i].what);
        benches[i].run(&b);
    }
    remove_folder(folder);
    if (missed > 0 && !b.json)
        printf("%d goal%s missed\n", missed, missed == 1 ? "" : "s");
    return missed > 0 ? 1 : 0;
}
