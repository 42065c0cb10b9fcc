/* SPDX-License-Identifier: Apache-2.0 */
/* The machine: functions that override libc's. When no world of file is on, they call libc's. */
#undef _FORTIFY_SOURCE /* its functions are inline */
#include "sim/file/machine.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FDS_MAX 4096
#define BUSY_STEP_NS \
    (5 * RT_MS) /* per look at CLOCK_MONOTONIC: whoever waits for the database does not wait long */
#define RING_HEAD 24 /* of a datagram: magic, kind, session, number */

static struct sf_world *world;
static pid_t pid_of_fd[FDS_MAX];

void sf_machine_on(struct sf_world *w)
{
    world = w;
}

/* libc's own, into the pointer at REAL. */
static void find(void *real, const char *name)
{
    void *p = dlsym(RTLD_NEXT, name);
    memcpy(real, &p, sizeof(p));
}

/* ---- Clocks ------------------------------------------------------------- */

static void set_time(struct timespec *ts, int64_t ns)
{
    ts->tv_sec = ns / INT64_C(1000000000);
    ts->tv_nsec = ns % INT64_C(1000000000);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    static int (*real)(clockid_t, struct timespec *);
    if (world != NULL && id == CLOCK_REALTIME) {
        set_time(ts, world->wall_ms * RT_MS + world->sim->now);
        return 0;
    }
    if (world != NULL && id == CLOCK_MONOTONIC) {
        world->mono_ns += BUSY_STEP_NS;
        set_time(ts, world->mono_ns);
        return 0;
    }
    if (real == NULL)
        find(&real, "clock_gettime");
    return real(id, ts);
}

/* Whoever sleeps lets others run. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    if (world == NULL)
        return clock_nanosleep(CLOCK_REALTIME, 0, wanted, left);
    if (world->sim->current != NULL)
        sf_preempt(world, world->sim->current);
    return 0;
}

/* ---- Processes ---------------------------------------------------------- */

static bool played(void)
{
    return world != NULL && !world->visited && world->sim->current != NULL;
}

pid_t getpid(void)
{
    static pid_t (*real)(void);
    if (played())
        return world->pids[world->sim->current->process];
    if (real == NULL)
        find(&real, "getpid");
    return real();
}

bool sf_machine_gone(const struct sf_world *w, pid_t pid)
{
    for (size_t i = 0; i < SIM_PROCESSES_MAX; i++)
        if (w->pids[i] == pid)
            return false;
    return true;
}

pid_t sf_machine_pid(int fd)
{
    return fd >= 0 && fd < FDS_MAX ? pid_of_fd[fd] : 0;
}

static int open_pidfd(pid_t pid)
{
    if (sf_machine_gone(world, pid)) {
        errno = ESRCH;
        return -1;
    }
    int fd = eventfd(0, EFD_CLOEXEC);
    if (fd >= 0 && fd < FDS_MAX)
        pid_of_fd[fd] = pid;
    return fd;
}

/* Only what Rota asks for by number. */
long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long a[6];
    va_list args;
    va_start(args, number);
    for (size_t i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (world != NULL && number == SYS_pidfd_open)
        return open_pidfd((pid_t)a[0]);
    if (real == NULL)
        find(&real, "syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* /proc/PID/stat: each process has another start, because its pid is another one. */
static int open_stat(pid_t pid)
{
    char text[256];
    if (sf_machine_gone(world, pid)) {
        errno = ENOENT;
        return -1;
    }
    int fd = memfd_create("stat", MFD_CLOEXEC);
    int n = snprintf(text, sizeof(text),
                     "%d (sim) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0 0\n", (int)pid,
                     (int)pid);
    if (fd >= 0 && (write(fd, text, (size_t)n) != n || lseek(fd, 0, SEEK_SET) != 0))
        abort();
    return fd;
}

static bool is_stat(const char *path, pid_t *pid)
{
    static const char begin[] = "/proc/", end[] = "/stat";
    if (world == NULL || strncmp(path, begin, sizeof(begin) - 1) != 0)
        return false;
    char *rest = NULL;
    *pid = (pid_t)strtol(path + sizeof(begin) - 1, &rest, 10);
    return *pid > 0 && strcmp(rest, end) == 0;
}

static int open_path(const char *path, int flags, mode_t mode)
{
    pid_t pid;
    if (is_stat(path, &pid))
        return open_stat(pid);
    return openat(AT_FDCWD, path, flags, mode);
}

/* Here, as everywhere in Rota, this is open64. */
int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_path(path, flags, mode);
}

/* ---- Rings -------------------------------------------------------------- */

static struct sim_client *client_by(int fd, bool sends)
{
    for (uint32_t i = 0; i < world->sim->plan.clients; i++) {
        struct sim_client *c = &world->sim->clients[i];
        const struct rt_file_conn *f = c->open ? sf_conn(c) : NULL;
        if (f != NULL && (sends ? f->send_fd == fd : f->bell != NULL && f->bell->fd == fd))
            return c;
    }
    return NULL;
}

/* The client that has the session, with its socket open: another one's socket stands there in vain. */
static struct sim_client *client_of_session(uint64_t session)
{
    for (uint32_t i = 0; i < world->sim->plan.clients; i++) {
        struct sim_client *c = &world->sim->clients[i];
        const struct rt_file_conn *f = c->open ? sf_conn(c) : NULL;
        if (f != NULL && f->session == session && f->bell != NULL && !c->dying)
            return c;
    }
    return NULL;
}

/* I8: a releasing client rings those that it grants and at most one more. */
static void count_ring(struct sim_client *from, const char *bytes)
{
    struct sf_player *p = &world->players[from->index];
    uint32_t kind;
    memcpy(&kind, bytes + sizeof(uint32_t), sizeof(kind));
    if (kind != RT_FILE_RING_GRANTED && kind != RT_FILE_RING_LOOK)
        return;
    if (--p->owed < 0)
        sim_violated(world->sim, "I8", "c%u rings more than it granted, and one for each that went",
                     from->index);
}

/* A waiter says it again with its next look. */
static void lose_ring(const char *bytes)
{
    uint32_t kind;
    memcpy(&kind, bytes + sizeof(uint32_t), sizeof(kind));
    if (kind == RT_FILE_RING_WANTED)
        world->wanted_lost_at = world->sim->now;
}

static void put_ring(struct sim_client *to, uint64_t session, const void *bytes, size_t size)
{
    struct sf_player *p = &world->players[to->index];
    const struct sim_wire *w = &world->sim->plan.wire;
    bool late = sim_chance(&world->random, w->late) && !world->sim->healing;
    if (p->ring_count == SF_RINGS_MAX)
        return;
    struct sf_ring *r = &p->rings[p->ring_count++];
    r->at = world->sim->now + (late ? sim_spread_ns(&world->random, w->late_us) : 0);
    r->to = session;
    r->size = size;
    memcpy(r->bytes, bytes, size);
}

static ssize_t ring(int fd, const void *bytes, size_t size, const char *path)
{
    struct sim *sim = world->sim;
    const char *base = strrchr(path, '/');
    uint64_t session = strtoull(base != NULL ? base + 1 : path, NULL, 16);
    struct sim_client *from = client_by(fd, true), *to = client_of_session(session);
    if (size > SF_RING_SIZE || size <= RING_HEAD)
        abort();
    if (from != NULL && sf_dies(world, from))
        to = NULL;
    if (to == NULL) {
        errno = ECONNREFUSED;
        return -1;
    }
    if (!sim->healing && sim_chance(&world->random, sim->plan.full)) {
        errno = EAGAIN;
        return -1;
    }
    if (from != NULL)
        count_ring(from, bytes);
    if (sim->healing || !sim_chance(&world->random, sim->plan.wire.push_lost))
        put_ring(to, session, bytes, size);
    else
        lose_ring(bytes);
    if (from != NULL)
        sf_preempt(world, from);
    return (ssize_t)size;
}

ssize_t sendto(int fd, const void *bytes, size_t size, int flags, __CONST_SOCKADDR_ARG to,
               socklen_t to_size)
{
    static ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    const struct sockaddr *address = to.__sockaddr__;
    if (world != NULL && address != NULL && address->sa_family == AF_UNIX)
        return ring(fd, bytes, size, ((const struct sockaddr_un *)(const void *)address)->sun_path);
    if (real == NULL)
        find(&real, "sendto");
    return real(fd, bytes, size, flags, address, to_size);
}

/* The first that has come for C's current session; what came for an earlier one is gone with it. */
static ssize_t hear(struct sim_client *c, void *bytes, size_t room)
{
    struct sf_player *p = &world->players[c->index];
    for (size_t i = 0; i < p->ring_count; i++) {
        struct sf_ring r = p->rings[i];
        if (r.at > world->sim->now || r.to != sf_conn(c)->session)
            continue;
        memmove(&p->rings[i], &p->rings[i + 1], (--p->ring_count - i) * sizeof(r));
        memcpy(bytes, r.bytes, r.size < room ? r.size : room);
        return (ssize_t)r.size;
    }
    errno = EAGAIN;
    return -1;
}

ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
    static ssize_t (*real)(int, void *, size_t, int);
    struct sim_client *c = world != NULL ? client_by(fd, false) : NULL;
    if (c != NULL)
        return hear(c, bytes, size);
    if (real == NULL)
        find(&real, "recv");
    return real(fd, bytes, size, flags);
}

/* ---- SQLite --------------------------------------------------------------- */

int sqlite3_open_v2(const char *path, sqlite3 **db, int flags, const char *vfs)
{
    static int (*real)(const char *, sqlite3 **, int, const char *);
    if (real == NULL)
        find(&real, "sqlite3_open_v2");
    int rc = real(path, db, flags, vfs);
    if (rc == SQLITE_OK && played())
        sf_opened(world->sim->current, *db);
    return rc;
}
