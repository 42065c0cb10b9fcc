/* SPDX-License-Identifier: Apache-2.0 */
/* The guarded page and the log, from C: see guard.h. */
#include "guard.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static struct guard_page *page;
static int log_fd;
static char side[16];

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

uint64_t guard_me(void)
{
    return (uint64_t)getpgrp();
}

static int open_in(const char *folder, const char *file, int flags)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

void guard_open(const char *who, const char *folder)
{
    snprintf(side, sizeof side, "%s", who);
    int fd = open_in(folder, "guard", O_RDWR);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    log_fd = open_in(folder, "log", O_WRONLY | O_APPEND);
}

int guard_stopped(void)
{
    return atomic_load(&page->stop) != 0;
}

/* One write: whole in the file, or not there. */
void guard_say(const char *format, ...)
{
    char line[2048];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line - 1)
        abort();
    line[n] = '\n';
    if (write(log_fd, line, (size_t)n + 1) != n + 1)
        abort();
}

static void say_met(uint64_t fence, uint64_t other)
{
    guard_say("V %s %" PRIu64 " %" PRIu64 " %" PRIu64, side, guard_me(), fence, other);
}

static void say_left(uint64_t fence)
{
    guard_say("L %s %" PRIu64 " %" PRIu64 " %" PRId64, side, guard_me(), fence, now_ns());
}

uint64_t guard_enter(uint64_t fence, const char *value)
{
    int64_t t = now_ns();
    uint64_t me = guard_me(), other = 0;
    if (!atomic_compare_exchange_strong(&page->owner, &other, me)) {
        say_met(fence, other);
        atomic_store(&page->owner, me);
    }
    uint64_t count = atomic_load(&page->counter);
    guard_say("E %s %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRIu64 " %s", side, me, fence, t, count,
              value);
    return count;
}

void guard_leave(uint64_t fence, uint64_t count)
{
    uint64_t me = guard_me(), other = me;
    atomic_store(&page->counter, count + 1);
    atomic_fetch_add(&page->grants, 1);
    if (!atomic_compare_exchange_strong(&page->owner, &other, 0))
        say_met(fence, other);
    say_left(fence);
}

uint64_t guard_enter_shared(uint64_t fence)
{
    int64_t t = now_ns();
    uint64_t other = atomic_load(&page->owner), count = atomic_load(&page->counter);
    if (other != 0)
        say_met(fence, other);
    guard_say("R %s %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRIu64, side, guard_me(), fence, t,
              count);
    return count;
}

void guard_leave_shared(uint64_t fence, uint64_t count)
{
    uint64_t other = atomic_load(&page->owner);
    if (other != 0 || atomic_load(&page->counter) != count)
        say_met(fence, other);
    atomic_fetch_add(&page->grants, 1);
    say_left(fence);
}

void guard_await_seen(uint64_t fence, uint64_t mark)
{
    uint64_t a = 0, b = 0;
    for (int ms = 0; ms < 10000; ms++) {
        a = atomic_load(&page->seen[0]);
        b = atomic_load(&page->seen[1]);
        if (a >= mark && b >= mark)
            return;
        usleep(1000);
    }
    guard_say("M %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, side, guard_me(),
              fence, mark, a, b);
}

void guard_saw(uint64_t mark)
{
    atomic_store(&page->seen[1], mark);
}
