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

void guard_open(const char *folder)
{
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

uint64_t guard_enter(uint64_t fence, const char *value)
{
    int64_t t = now_ns();
    uint64_t me = guard_me(), other = 0;
    if (!atomic_compare_exchange_strong(&page->owner, &other, me)) {
        guard_say("V rota %" PRIu64 " %" PRIu64 " %" PRIu64, me, fence, other);
        atomic_store(&page->owner, me);
    }
    uint64_t count = atomic_load(&page->counter);
    guard_say("E rota %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRIu64 " %s", me, fence, t, count,
              value);
    return count;
}

void guard_leave(uint64_t fence, uint64_t count)
{
    uint64_t me = guard_me(), other = me;
    atomic_store(&page->counter, count + 1);
    atomic_fetch_add(&page->grants, 1);
    if (!atomic_compare_exchange_strong(&page->owner, &other, 0))
        guard_say("V rota %" PRIu64 " %" PRIu64 " %" PRIu64, me, fence, other);
    guard_say("L rota %" PRIu64 " %" PRIu64 " %" PRId64, me, fence, now_ns());
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
    guard_say("M rota %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, guard_me(), fence,
              mark, a, b);
}

void guard_saw(uint64_t mark)
{
    atomic_store(&page->seen[1], mark);
}
