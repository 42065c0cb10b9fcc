/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine without the client above it: pairs, contention, takeover, beside bare SQLite.
 *
 * bench_file_engine FOLDER [pairs|crowd|takeover|held] */
#include "base/alloc.h"
#include "engine/engine.h"
#include "engine/url.h"
#include "net/loop.h"

#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAIRS 20000
#define ROUNDS 5
#define CROWD 8
#define CROWD_PAIRS 1000
#define TAKEOVERS 50
#define HELD 100000

extern const struct rt_engine rt_engine_file;

struct user {
    struct rt_up up; /* first */
    struct rt_loop loop;
    struct rt_conn *conn;
    uint64_t session, nonce, granted;
    int done;
};

static double now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_file_engine: %s\n", what);
    exit(1);
}

static void on_done(struct rt_up *up, struct rt_op *op)
{
    struct user *u = (struct user *)(void *)up;
    u->done++;
    if (op->err != 0 && op->err != ROTA_BUSY)
        die(u->conn->errmsg);
}

static void on_event(struct rt_up *up, const struct rt_event *e)
{
    struct user *u = (struct user *)(void *)up;
    if (e->kind == RT_GRANTED)
        u->granted = e->number;
}

static void on_log(struct rt_up *up, int level, const char *line)
{
    (void)up;
    (void)level;
    if (getenv("ROTA_TRACE") != NULL)
        fprintf(stderr, "%s\n", line);
}

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
}

static void turn(struct user *u)
{
    if (u->loop.dirty)
        rt_loop_turn(&u->loop, no_other, NULL);
    rt_loop_arm(&u->loop);
    struct pollfd p = {.fd = rt_loop_fd(&u->loop), .events = POLLIN};
    (void)poll(&p, 1, 1000);
    rt_loop_tick(&u->loop);
    rt_loop_turn(&u->loop, no_other, NULL);
}

static void run(struct user *u, struct rt_op *op)
{
    int before = u->done;
    rt_engine_file.submit(u->conn, op);
    while (u->done == before)
        turn(u);
}

static void start(struct user *u, const char *folder)
{
    char text[512], errmsg[256];
    struct rt_url url;
    memset(u, 0, sizeof(*u));
    u->up = (struct rt_up){on_done, on_event, on_log};
    snprintf(text, sizeof(text), "file:%s", folder);
    if (rt_url_parse(&url, text, errmsg, sizeof(errmsg)) != 0)
        die(errmsg);
    if (rt_loop_init(&u->loop) != 0)
        die("no loop");
    u->conn = rt_alloc(rt_engine_file.conn_size);
    u->conn->engine = &rt_engine_file;
    u->conn->up = &u->up;
    u->conn->loop = &u->loop;
    u->conn->label = "bench";
    u->conn->call_ms = 5000;
    if (rt_engine_file.open(u->conn, &url) != 0)
        die(u->conn->errmsg);
    rt_url_fini(&url);
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
    op.beat.open = true;
    run(u, &op);
    u->session = op.beat.session;
}

static void stop(struct user *u)
{
    rt_engine_file.close(u->conn);
    rt_free(u->conn);
    rt_loop_fini(&u->loop);
}

static uint64_t join(struct user *u, const char *name)
{
    struct rt_join j = {.name = name, .session = u->session, .nonce = ++u->nonce};
    struct rt_op op = {.kind = RT_OP_JOIN, .deadline = RT_NEVER};
    op.join.joins = &j;
    op.join.n = 1;
    run(u, &op);
    while (!j.granted && u->granted != j.number)
        turn(u);
    return j.number;
}

static void leave(struct user *u, const char *name, uint64_t number)
{
    struct rt_op op = {.kind = RT_OP_LEAVE, .deadline = RT_NEVER};
    op.leave.name = name;
    op.leave.session = u->session;
    op.leave.number = number;
    run(u, &op);
}

/* ---- Pairs ------------------------------------------------------------------------- */

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL) != SQLITE_OK)
        die(sqlite3_errmsg(db));
    return s;
}

static void step(sqlite3_stmt *s)
{
    if (sqlite3_step(s) != SQLITE_DONE)
        die("step");
    sqlite3_reset(s);
}

static void pairs(const char *folder)
{
    char path[512];
    sqlite3 *db = NULL;
    struct user u;
    snprintf(path, sizeof(path), "%s/bare.db", folder);
    start(&u, folder);
    if (sqlite3_open(path, &db) != SQLITE_OK)
        die("cannot open the bare database");
    sqlite3_exec(db,
                 "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;"
                 "CREATE TABLE IF NOT EXISTS t(name TEXT PRIMARY KEY, owner INT) WITHOUT ROWID",
                 NULL, NULL, NULL);
    sqlite3_stmt *in = prepare(db, "INSERT INTO t VALUES('lock',1)");
    sqlite3_stmt *out = prepare(db, "DELETE FROM t WHERE name='lock'");
    for (int r = 0; r < ROUNDS; r++) {
        double t = now_us();
        for (int i = 0; i < PAIRS; i++) {
            step(in);
            step(out);
        }
        double bare = (now_us() - t) / PAIRS;
        t = now_us();
        for (int i = 0; i < PAIRS; i++)
            leave(&u, "lock", join(&u, "lock"));
        double ours = (now_us() - t) / PAIRS;
        printf("bare %.1f us, ours %.1f us, ratio %.2f\n", bare, ours, ours / bare);
    }
    sqlite3_finalize(in);
    sqlite3_finalize(out);
    sqlite3_close(db);
    stop(&u);
}

/* ---- Many at one lock ----------------------------------------------------------------- */

static void crowd(const char *folder)
{
    double t = now_us();
    for (int i = 0; i < CROWD; i++) {
        if (fork() == 0) {
            struct user u;
            start(&u, folder);
            for (int k = 0; k < CROWD_PAIRS; k++)
                leave(&u, "hot", join(&u, "hot"));
            stop(&u);
            _exit(0);
        }
    }
    for (int i = 0; i < CROWD; i++) {
        int status = 0;
        wait(&status);
        if (status != 0)
            die("a process of the crowd failed");
    }
    t = now_us() - t;
    printf("%d processes on one lock: %.0f pairs/s, %.1f us each\n", CROWD,
           CROWD * CROWD_PAIRS / t * 1e6, t / (CROWD * CROWD_PAIRS));
}

/* ---- Takeover after kill -9 -------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void takeover(const char *folder)
{
    double took[TAKEOVERS];
    struct user u;
    start(&u, folder);
    for (int i = 0; i < TAKEOVERS; i++) {
        int ready[2];
        char byte;
        if (pipe(ready) != 0)
            die("pipe");
        pid_t pid = fork();
        if (pid == 0) {
            struct user h;
            start(&h, folder);
            join(&h, "held");
            if (write(ready[1], "y", 1) != 1)
                die("write");
            for (;;)
                pause();
        }
        if (read(ready[0], &byte, 1) != 1)
            die("read");
        struct rt_join j = {.name = "held", .session = u.session, .nonce = ++u.nonce};
        struct rt_op op = {.kind = RT_OP_JOIN, .deadline = RT_NEVER};
        op.join.joins = &j;
        op.join.n = 1;
        run(&u, &op);
        double t = now_us();
        kill(pid, SIGKILL);
        while (u.granted != j.number)
            turn(&u);
        took[i] = now_us() - t;
        waitpid(pid, NULL, 0);
        close(ready[0]);
        close(ready[1]);
        leave(&u, "held", j.number);
    }
    qsort(took, TAKEOVERS, sizeof(took[0]), by_size);
    printf("takeover after kill -9: p50 %.2f ms, worst of %d %.2f ms\n", took[TAKEOVERS / 2] / 1e3,
           TAKEOVERS, took[TAKEOVERS - 1] / 1e3);
    stop(&u);
}

/* ---- Many held --------------------------------------------------------------------------- */

static void held(const char *folder)
{
    struct user u;
    char name[32];
    start(&u, folder);
    double t = now_us();
    for (int i = 1; i <= HELD; i++) {
        snprintf(name, sizeof(name), "held-%d", i);
        join(&u, name);
        if (i % (HELD / 5) == 0) {
            printf("up to %d held: %.1f us per join\n", i, (now_us() - t) / (HELD / 5));
            t = now_us();
        }
    }
    stop(&u);
    printf("closing with %d held: %.0f ms\n", HELD, (now_us() - t) / 1e3);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("usage: bench_file_engine FOLDER [pairs|crowd|takeover|held]");
    const char *what = argc > 2 ? argv[2] : "";
    if (*what == '\0' || strcmp(what, "pairs") == 0)
        pairs(argv[1]);
    if (*what == '\0' || strcmp(what, "crowd") == 0)
        crowd(argv[1]);
    if (*what == '\0' || strcmp(what, "takeover") == 0)
        takeover(argv[1]);
    if (*what == '\0' || strcmp(what, "held") == 0)
        held(argv[1]);
    return 0;
}
