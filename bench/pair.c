/* SPDX-License-Identifier: Apache-2.0 */
/* Uncontended pairs from one thread, in rounds that alternate with what the engine itself can do. */
#include "bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS 15

/* ---- The bare engine ---------------------------------------------------- */

struct bare {
    sqlite3 *db;
    sqlite3_stmt *insert, *delete;
};

static void sql_must(struct bare *bare, int rc, int want)
{
    if (rc == want)
        return;
    fprintf(stderr, "rota-bench: sqlite: %s\n", sqlite3_errmsg(bare->db));
    exit(1);
}

static void bare_open(struct bare *bare, const struct bench *b)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/bare.db", b->folder);
    sql_must(bare, sqlite3_open(path, &bare->db), SQLITE_OK);
    sql_must(bare,
             sqlite3_exec(bare->db,
                          "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                          "CREATE TABLE t(name TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID",
                          NULL, NULL, NULL),
             SQLITE_OK);
    sql_must(
        bare,
        sqlite3_prepare_v2(bare->db, "INSERT INTO t VALUES ('name', 1)", -1, &bare->insert, NULL),
        SQLITE_OK);
    sql_must(
        bare,
        sqlite3_prepare_v2(bare->db, "DELETE FROM t WHERE name='name'", -1, &bare->delete, NULL),
        SQLITE_OK);
}

static void bare_pair(struct bare *bare)
{
    sql_must(bare, sqlite3_step(bare->insert), SQLITE_DONE);
    sqlite3_reset(bare->insert);
    sql_must(bare, sqlite3_step(bare->delete), SQLITE_DONE);
    sqlite3_reset(bare->delete);
}

static void bare_close(struct bare *bare)
{
    sqlite3_finalize(bare->insert);
    sqlite3_finalize(bare->delete);
    sqlite3_close(bare->db);
}

/* ---- Ours --------------------------------------------------------------- */

static double pairs_us(struct rota *r, const struct rota_ask *ask, int n)
{
    double us = 0;
    bench_done(rt_bench_pairs(r, "name", ask, n, &us));
    return us;
}

static void against_sqlite(const struct bench *b, struct rota *r)
{
    struct bare bare = {NULL, NULL, NULL};
    double ours[ROUNDS], theirs[ROUNDS], ratio[ROUNDS];
    int n = (int)(2000 * b->scale) + 1;
    bare_open(&bare, b);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t from = rt_bench_ns();
        for (int k = 0; k < n; k++)
            bare_pair(&bare);
        theirs[i] = (double)(rt_bench_ns() - from) / n / 1000;
        ours[i] = pairs_us(r, NULL, n);
        ratio[i] = ours[i] / theirs[i];
    }
    bare_close(&bare);
    bench_say(b, "bare SQLite insert + delete pair", rt_bench_median(theirs, ROUNDS), "us");
    bench_say(b, "file: pair", rt_bench_median(ours, ROUNDS), "us");
    bench_goal(b, "file: pair / bare SQLite pair", rt_bench_median(ratio, ROUNDS), "x", false, 2.5);
}

static void against_flock(const struct bench *b, struct rota *r)
{
    const struct rota_ask ask = {.linger_ms = 10000};
    double ours[ROUNDS], theirs[ROUNDS], ratio[ROUNDS];
    int n = (int)(200000 * b->scale) + 1;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/flock", b->folder);
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t from = rt_bench_ns();
        for (int k = 0; k < n; k++) {
            flock(fd, LOCK_EX);
            flock(fd, LOCK_UN);
        }
        theirs[i] = (double)(rt_bench_ns() - from) / n / 1000;
        ours[i] = pairs_us(r, &ask, n);
        ratio[i] = ours[i] / theirs[i];
    }
    close(fd);
    bench_say(b, "bare flock pair", rt_bench_median(theirs, ROUNDS), "us");
    bench_say(b, "file: pair with linger_ms", rt_bench_median(ours, ROUNDS), "us");
    bench_goal(b, "file: pair with linger_ms / flock pair", rt_bench_median(ratio, ROUNDS), "x",
               false, 1);
}

/* ---- The keeper --------------------------------------------------------- */

static long switches_of(const char *tid)
{
    char path[PATH_MAX], line[256];
    long sum = 0, n;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", tid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %ld", &n) == 1)
            sum += n;
    fclose(f);
    return sum;
}

/* Of all threads but this one: those are the keepers of the open clients. */
static long keeper_switches(void)
{
    char self[32];
    long sum = 0;
    snprintf(self, sizeof self, "%ld", syscall(SYS_gettid));
    DIR *dir = opendir("/proc/self/task");
    if (dir == NULL)
        return 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.' && strcmp(e->d_name, self) != 0)
            sum += switches_of(e->d_name);
    closedir(dir);
    return sum;
}

static void keeper(const struct bench *b, struct rota *r, const char *what)
{
    const int pairs = 10000;
    pairs_us(r, NULL, 100);
    long before = keeper_switches();
    pairs_us(r, NULL, pairs);
    double n = (double)(keeper_switches() - before);
    bench_goal(b, what, n, "", false, 100);
}

void bench_pair(const struct bench *b)
{
    struct rota *file = bench_open(b, "file", "pair", NULL);
    keeper(b, file, "file: keeper's context switches in 10,000 pairs");
    against_sqlite(b, file);
    against_flock(b, file);
    rota_close(file);
    struct rota *mem = bench_open(b, "mem", "pair", NULL);
    bench_say(b, "mem: pair", pairs_us(mem, NULL, (int)(200000 * b->scale) + 1), "us");
    keeper(b, mem, "mem: keeper's context switches in 10,000 pairs");
    rota_close(mem);
}
