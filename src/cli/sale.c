/* SPDX-License-Identifier: Apache-2.0 */
/* One flash sale: many processes sell one stock at once, with or without a lock.
 *
 * Nobody waits by sleeping: a buyer closes `ready` when it is at the counter, the parent closes `go` to open the doors,
 * and `done` ends when the last buyer has gone. */
#include "cli/sale.h"

#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/out.h"
#include "cli/shop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 100      /* how often to update progress and check signals */
#define ACQUIRE_MS 30000 /* then a buyer gives up: the engine is stuck */

struct buyer { /* shared with its process */
    _Atomic uint64_t sold;
    double longest_ms; /* that it waited */
    uint64_t retries;
    int exit;
    char message[512];
};

struct hall {
    struct rt_sale *sale;
    struct rt_shop shop;
    struct buyer *buyers; /* mapped, [sale->buyers] */
    pid_t pids[RT_SALE_BUYERS_MAX];
    uint32_t started;
    int ready[2], go[2], done[2];
};

static volatile sig_atomic_t caught_signal;

static void on_signal(int signo)
{
    caught_signal = signo;
}

void rt_sale_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* then writing fails, and what was made is removed */
}

static double now_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- A buyer's process -------------------------------------------------- */

static int fail(struct buyer *self, int exit_code, const char *message)
{
    self->exit = exit_code;
    snprintf(self->message, sizeof(self->message), "%s", message);
    return exit_code;
}

static int buy_locked(const struct hall *hall, struct buyer *self, struct rota *r, bool *sold)
{
    const struct rota_ask ask = {.limit_ms = ACQUIRE_MS};
    struct rota_lock *lock;

    double begin = now_seconds();
    int err = rota_acquire(r, hall->sale->name, &ask, &lock);
    if (err != 0)
        return fail(self, rt_connect_exit(err), rota_errmsg(r));
    double waited_ms = (now_seconds() - begin) * 1000;
    self->longest_ms = waited_ms > self->longest_ms ? waited_ms : self->longest_ms;
    int failed = rt_shop_sell(&hall->shop, lock, sold);
    err = rota_release(lock);
    if (failed != 0)
        return fail(self, RT_EXIT_FAILED, strerror(failed));
    if (err != 0)
        return fail(self, rt_connect_exit(err), rota_errmsg(r));
    return RT_EXIT_OK;
}

static int buy_unlocked(const struct hall *hall, struct buyer *self, bool *sold)
{
    int failed = rt_shop_sell(&hall->shop, NULL, sold);

    return failed == 0 ? RT_EXIT_OK : fail(self, RT_EXIT_FAILED, strerror(failed));
}

/* Buys until nothing is left. Without a lock late writers would put stock back for ever, so nobody buys more than there
 * ever was. */
static int shop_around(const struct hall *hall, struct buyer *self, struct rota *r)
{
    bool sold = true;

    while (sold && self->sold < hall->sale->stock) {
        int code = r != NULL ? buy_locked(hall, self, r, &sold) : buy_unlocked(hall, self, &sold);
        if (code != RT_EXIT_OK)
            return code;
        if (sold)
            self->sold++;
    }
    return RT_EXIT_OK;
}

static void note_retries(void *arg, const struct rota_metric *metric)
{
    struct buyer *self = arg;

    if (strcmp(metric->name, "rota_retries_total") == 0)
        self->retries = (uint64_t)metric->value;
}

static int be_buyer(struct hall *hall, struct buyer *self)
{
    const struct rota_options options = {.flags = ROTA_METRICS};
    struct rota *r = NULL;
    char byte;
    int code = RT_EXIT_OK;

    close(hall->ready[0]);
    close(hall->go[1]); /* or it would never end */
    close(hall->done[0]);
    if (hall->sale->url != NULL) {
        int err = rota_open(&r, hall->sale->url, &options);
        if (err != 0)
            code = fail(self, rt_connect_exit(err), rota_errmsg(NULL));
    }
    close(hall->ready[1]);
    while (read(hall->go[0], &byte, 1) < 0 && errno == EINTR)
        ;
    if (code == RT_EXIT_OK)
        code = shop_around(hall, self, r);
    if (r != NULL)
        (void)rota_metrics(r, note_retries, self);
    rota_close(r);
    return code;
}

static pid_t start_buyer(struct hall *hall, struct buyer *self)
{
    pid_t parent = getpid();

    self->exit = RT_EXIT_INTERNAL; /* in case it dies without a word */
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(RT_EXIT_FAILED);
    self->exit = be_buyer(hall, self);
    _exit(self->exit);
}

/* ---- The parent --------------------------------------------------------- */

static uint64_t count_sold(const struct hall *hall)
{
    uint64_t sold = 0;

    for (uint32_t i = 0; i < hall->sale->buyers; i++)
        sold += hall->buyers[i].sold;
    return sold;
}

/* Waits until all buyers have closed their end of FD, or a signal comes. */
static void await(const struct hall *hall, int fd, double begin)
{
    struct pollfd end = {.fd = fd, .events = POLLIN};
    bool shown = false;

    while (caught_signal == 0 && poll(&end, 1, LOOK_MS) <= 0) {
        if (now_seconds() - begin < 1 || !isatty(STDERR_FILENO))
            continue;
        shown = true;
        fprintf(stderr, "\r%s: %" PRIu64 " sold ...", hall->sale->title, count_sold(hall));
    }
    if (shown)
        fprintf(stderr, "\r\033[K");
}

static int collect(struct hall *hall)
{
    int code = RT_EXIT_OK;

    for (uint32_t i = 0; i < hall->started; i++) {
        if (caught_signal != 0)
            kill(hall->pids[i], SIGKILL);
        while (waitpid(hall->pids[i], NULL, 0) < 0 && errno == EINTR)
            ;
        if (hall->buyers[i].exit != RT_EXIT_OK && code == RT_EXIT_OK && caught_signal == 0) {
            const char *message = hall->buyers[i].message;
            code = hall->buyers[i].exit;
            rt_out_error("%s", message[0] != '\0' ? message : "a buyer ended by itself");
        }
    }
    return caught_signal != 0 ? RT_EXIT_SIGNAL + (int)caught_signal : code;
}

static void sum_up(struct hall *hall)
{
    struct rt_sale *sale = hall->sale;

    sale->sold = count_sold(hall);
    sale->least = UINT64_MAX;
    sale->most = 0;
    for (uint32_t i = 0; i < sale->buyers; i++) {
        double longest = hall->buyers[i].longest_ms;
        sale->longest_ms = longest > sale->longest_ms ? longest : sale->longest_ms;
        sale->retries += hall->buyers[i].retries;
        uint64_t sold = hall->buyers[i].sold;
        sale->least = sold < sale->least ? sold : sale->least;
        sale->most = sold > sale->most ? sold : sale->most;
    }
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0)
            close(pair[i]);
        pair[i] = -1;
    }
}

static void close_end(int *fd)
{
    close(*fd);
    *fd = -1;
}

static int open_hall(struct hall *hall)
{
    size_t size = hall->sale->buyers * sizeof(struct buyer);
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        return errno;
    hall->buyers = shared;
    if (pipe2(hall->ready, O_CLOEXEC) != 0 || pipe2(hall->go, O_CLOEXEC) != 0 ||
        pipe2(hall->done, O_CLOEXEC) != 0)
        return errno;
    return rt_shop_open(&hall->shop, hall->sale->path, hall->sale->stock);
}

static void close_hall(struct hall *hall)
{
    if (hall->shop.fd >= 0)
        rt_shop_close(&hall->shop);
    close_pair(hall->done);
    close_pair(hall->go);
    close_pair(hall->ready);
    if (hall->buyers != NULL)
        munmap(hall->buyers, hall->sale->buyers * sizeof(struct buyer));
}

/* Lets all buyers in, opens the doors, waits until the last has gone. 0 or errno. */
static int open_doors(struct hall *hall)
{
    struct rt_sale *sale = hall->sale;
    int err = 0;

    fflush(NULL);
    for (; hall->started < sale->buyers && err == 0; hall->started += err == 0) {
        pid_t pid = start_buyer(hall, &hall->buyers[hall->started]);
        err = pid < 0 ? errno : 0;
        hall->pids[hall->started] = pid;
    }
    close_end(&hall->ready[1]);
    close_end(&hall->done[1]);
    await(hall, hall->ready[0], now_seconds());
    double begin = now_seconds();
    close_end(&hall->go[1]);
    await(hall, hall->done[0], begin);
    sale->seconds = now_seconds() - begin;
    return err;
}

int rt_sale_hold(struct rt_sale *sale)
{
    struct hall hall = {
        .sale = sale, .shop.fd = -1, .ready = {-1, -1}, .go = {-1, -1}, .done = {-1, -1}};
    int code = RT_EXIT_OK;

    int err = open_hall(&hall);
    if (err == 0) {
        err = open_doors(&hall);
        code = collect(&hall);
        sum_up(&hall);
    }
    if (err == 0)
        err = rt_shop_left(&hall.shop, &sale->left);
    close_hall(&hall);
    if (err == 0 || code != RT_EXIT_OK)
        return code;
    rt_out_error("the sale cannot be held at %s: %s", sale->path, strerror(err));
    return RT_EXIT_FAILED;
}
