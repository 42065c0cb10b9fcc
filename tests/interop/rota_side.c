/* SPDX-License-Identifier: Apache-2.0 */
/* Rota's side of the interop tests, through the public interface: rota-side KIND URL NAME FOLDER THINK_US
 *
 * KIND: lock; rw: readers and writers in turns, by chance; elect, with observers; lead: elect without; observe; told (rota_told.c):
 * FOLDER is not used, and THINK_US is the ttl in ms. */
#include "guard.h"
#include "side.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define TTL_MS 2000

static struct rota *client;
static const char *name;
static unsigned rounds;

_Noreturn void side_die(const char *what, int err)
{
    fprintf(stderr, "rota-side: %s: %s: %s\n", what, rota_strerror(err), rota_errmsg(client));
    exit(1);
}

/* Short, and now and then long enough for a kill to find a holder. */
static void work(void)
{
    usleep(rand() % 16 == 0 ? 20000 : (useconds_t)(rand() % 500));
}

/* A session that ended is told, and the next round has a new one; so is a server that did not answer for a while, on a busy
 * machine. Everything else ends the test. */
static void ended(const char *what, int err)
{
    guard_say("S rota %" PRIu64 " %s: %s", guard_me(), what, rota_strerror(err));
    if (err != ROTA_LOST && err != ROTA_UNREACHABLE && err != ROTA_UNKNOWN)
        side_die(what, err);
}

static void lock_once(void)
{
    struct rota_lock *lock;
    int err = rota_acquire(client, name, NULL, &lock);
    if (err != 0) {
        ended("acquire", err);
        return;
    }
    uint64_t count = guard_enter(rota_fence(lock), "");
    work();
    guard_leave(rota_fence(lock), count);
    err = rota_release(lock);
    if (err != 0)
        ended("release", err);
}

static void rw_once(void)
{
    const struct rota_ask ask = {.mode = rand() % 2 == 0 ? ROTA_SHARED : ROTA_EXCLUSIVE};
    bool shared = ask.mode == ROTA_SHARED;
    struct rota_lock *lock;
    int err = rota_acquire(client, name, &ask, &lock);
    if (err != 0) {
        ended("acquire", err);
        return;
    }
    uint64_t fence = rota_fence(lock);
    uint64_t count = shared ? guard_enter_shared(fence) : guard_enter(fence, "");
    work();
    if (shared)
        guard_leave_shared(fence, count);
    else
        guard_leave(fence, count);
    err = rota_release(lock);
    if (err != 0)
        ended("release", err);
}

static void lead_once(void)
{
    char value[64];
    struct rota_lock *lock;
    snprintf(value, sizeof value, "rota:%" PRIu64 ":%u", guard_me(), ++rounds);
    int err = rota_elect(client, name, value, NULL, &lock);
    if (err != 0) {
        ended("elect", err);
        return;
    }
    uint64_t count = guard_enter(rota_fence(lock), value);
    work();
    guard_leave(rota_fence(lock), count);
    err = rota_release(lock);
    if (err != 0)
        ended("release", err);
}

static void elect_once(void)
{
    char value[64];
    struct rota_lock *lock;
    snprintf(value, sizeof value - 1, "rota:%" PRIu64 ":%u", guard_me(), ++rounds);
    int err = rota_elect(client, name, value, NULL, &lock);
    if (err != 0) {
        ended("elect", err);
        return;
    }
    uint64_t fence = rota_fence(lock), count = guard_enter(fence, value);
    work();
    if (rounds % 8 == 0) {
        guard_await_seen(fence, fence * 2);
        strcat(value, "!");
        err = rota_proclaim(lock, value);
        if (err != 0)
            ended("proclaim", err);
        guard_await_seen(fence, fence * 2 + 1);
    }
    guard_leave(fence, count);
    err = rota_release(lock);
    if (err != 0)
        ended("release", err);
}

static void saw(void *arg, const struct rota_front *front)
{
    (void)arg;
    size_t n = strlen(front->value);
    if (front->fence == 0)
        return;
    guard_say("O rota %" PRIu64 " %s", front->fence, front->value);
    guard_saw(front->fence * 2 + (n > 0 && front->value[n - 1] == '!'));
}

/* To be killed when all is over. */
static void observe(void)
{
    uint64_t id;
    int err = rota_observe(client, name, saw, NULL, &id);
    if (err != 0)
        side_die("observe", err);
    for (;;)
        pause();
}

static void contend(const char *kind, long think_us)
{
    static const struct {
        const char *name;
        void (*round)(void);
    } kinds[] = {{"lock", lock_once}, {"rw", rw_once}, {"elect", elect_once}, {"lead", lead_once}};
    void (*round)(void) = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kind, kinds[i].name) == 0)
            round = kinds[i].round;
    if (round == NULL)
        side_die(kind, ROTA_INVALID);
    while (!guard_stopped()) {
        round();
        if (think_us > 0)
            usleep((useconds_t)(rand() % think_us));
    }
}

int main(int argc, char **argv)
{
    struct rota_options opts = {.ttl_ms = TTL_MS};
    if (argc != 6) {
        fputs("usage: rota-side lock|rw|elect|lead|observe|told URL NAME FOLDER THINK_US\n",
              stderr);
        return 64;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    srand((unsigned)getpid());
    bool told = strcmp(argv[1], "told") == 0;
    if (told)
        opts.ttl_ms = (uint32_t)strtoul(argv[5], NULL, 10);
    else
        guard_open("rota", argv[4]);
    name = argv[3];
    int err = rota_open(&client, argv[2], &opts);
    if (err != 0)
        side_die("open", err);
    if (strcmp(argv[1], "observe") == 0)
        observe();
    if (told)
        side_told(client, name);
    else
        contend(argv[1], strtol(argv[5], NULL, 10));
    rota_close(client);
    return 0;
}
