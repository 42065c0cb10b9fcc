/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a server: at every moment its wall clock is ahead by as many microseconds as the first 8 bytes
 * of the file $ROTA_CLOCK_SHIFT say (behind, if negative). (libfaketime and jemalloc do not go together.) */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;

__attribute__((constructor)) static void find_shift(void)
{
    const char *path = getenv("ROTA_CLOCK_SHIFT");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof(*shift), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (at != MAP_FAILED)
        shift = at;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    long rv = syscall(SYS_gettimeofday, tv, zone);
    if (rv != 0 || shift == NULL)
        return (int)rv;
    int64_t us = (int64_t)tv->tv_sec * 1000000 + tv->tv_usec + *shift;
    tv->tv_sec = us / 1000000;
    tv->tv_usec = us % 1000000;
    return 0;
}

static void move(struct timespec *ts, int64_t us)
{
    int64_t ns = (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec + us * 1000;
    ts->tv_sec = ns / 1000000000;
    ts->tv_nsec = ns % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    long rv = syscall(SYS_clock_gettime, clock, ts);
    if (rv == 0 && shift != NULL && clock == CLOCK_REALTIME)
        move(ts, *shift);
    return (int)rv;
}

time_t time(time_t *out)
{
    struct timespec ts = {0};
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    if (out != NULL)
        *out = ts.tv_sec;
    return ts.tv_sec;
}

/* Whoever waits until a time of that clock waits by the kernel's. */
int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec kernels = *until;
    if (real == NULL) {
        void *found = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
        if (found == NULL)
            found = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
        *(void **)&real = found;
    }
    if (shift != NULL)
        move(&kernels, -*shift);
    return real(cond, mutex, &kernels);
}
