/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: a file with an OFD lock. The lock alone says who lives: the kernel drops it with
 * the last descriptor, whatever way the process ends. */
#include "base/bug.h"
#include "engine/file/file.h"
#include "net/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ID_TRIES 8   /* of 2^63 ids: the second is never needed */
#define END_STEPS 16 /* transactions at close; what is left, others sweep */
#define FILE_NAME_SIZE 32

static void file_name(char *out, uint64_t session, const char *suffix)
{
    (void)snprintf(out, FILE_NAME_SIZE, "%016" PRIx64 "%s", session, suffix);
}

struct process {
    int64_t start; /* in ticks since boot; 0: not seen */
    bool gone;     /* there is none, or what is left waits for its parent */
};

static const char *skip(const char *p, int fields)
{
    for (int i = 0; p != NULL && i < fields; i++)
        p = strchr(p + 1, ' ');
    return p;
}

/* Of /proc/PID/stat, counted from behind the command's last parenthesis: field 3 is the state, 20
 * the number of threads (the first may have ended before the others), 22 the start. */
static struct process process_see(pid_t pid)
{
    char path[48], text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    int err = errno;
    if (fd >= 0)
        (void)close(fd);
    if (n <= 0)
        return (struct process){.gone = n < 0 && (err == ENOENT || err == ESRCH)};
    text[n] = '\0';
    const char *state = skip(strrchr(text, ')'), 1), *threads = skip(state, 17);
    const char *start = skip(threads, 2);
    if (start == NULL)
        return (struct process){0};
    bool zombie = state[1] == 'Z' || state[1] == 'X';
    return (struct process){.start = (int64_t)strtoll(start + 1, NULL, 10),
                            .gone = zombie && strtol(threads + 1, NULL, 10) <= 1};
}

static int64_t process_start(pid_t pid)
{
    return process_see(pid).start;
}

enum lock { LOCK_FREE, LOCK_HELD, LOCK_NO_FILE };

static enum lock file_lock(const struct rt_file_conn *c, uint64_t session)
{
    char name[FILE_NAME_SIZE];
    file_name(name, session, "");
    int fd = openat(c->sdir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? LOCK_NO_FILE : LOCK_HELD; /* if in doubt it lives */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    bool is_free = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
    (void)close(fd);
    return is_free ? LOCK_FREE : LOCK_HELD;
}

/* Who opened SESSION: SQLITE_ROW, SQLITE_DONE if there is no such row, or another code. */
static int get_process(struct rt_file_conn *c, uint64_t session, pid_t *pid, int64_t *start)
{
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_SESSION_GET);
    if (s == NULL)
        return SQLITE_NOMEM;
    (void)sqlite3_bind_int64(s, 1, (int64_t)session);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        *pid = (pid_t)sqlite3_column_int64(s, 0);
        *start = sqlite3_column_int64(s, 1);
    }
    (void)sqlite3_reset(s);
    return rc;
}

/* The file lasts as long as the row: somebody deleted it. While the process lives, it holds what
 * it holds (I1); it learns of it within a second and gives up by itself. */
static bool lives_without_file(struct rt_file_conn *c, uint64_t session)
{
    pid_t pid = 0;
    int64_t start = 0;
    int rc = get_process(c, session, &pid, &start);
    if (rc != SQLITE_ROW || pid <= 0)
        return rc != SQLITE_ROW && rc != SQLITE_DONE; /* if in doubt it lives */
    struct process now = process_see(pid);
    return !now.gone && (now.start == 0 || now.start == start);
}

bool rt_file_session_dead(struct rt_file_conn *c, uint64_t session)
{
    enum lock lock = file_lock(c, session);
    return lock == LOCK_FREE || (lock == LOCK_NO_FILE && (RT_BUG(RT_BUG_NO_FILE_IS_DEAD) ||
                                                          !lives_without_file(c, session)));
}

bool rt_file_session_alarm(struct rt_file_conn *c)
{
    bool some = false;
    int fd = openat(c->sdir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL) {
        char *end = NULL;
        uint64_t session = strtoull(e->d_name, &end, 16);
        if (strlen(e->d_name) != 16 || *end != '\0' || file_lock(c, session) != LOCK_HELD)
            continue;
        rt_file_bell_alarm(c, session);
        some = true;
    }
    if (d != NULL)
        (void)closedir(d);
    else if (fd >= 0)
        (void)close(fd);
    return some || d == NULL; /* if in doubt one lives */
}

int rt_file_session_publish(const struct rt_file_conn *c, uint64_t session, const char *name)
{
    char file[FILE_NAME_SIZE];
    file_name(file, session, "");
    int rv = linkat(c->sdir, file, c->dir, name, 0);
    int err = errno;
    (void)unlinkat(c->sdir, file, 0);
    errno = err;
    return rv;
}

void rt_file_session_unlink(const struct rt_file_conn *c, uint64_t session)
{
    char name[FILE_NAME_SIZE];
    file_name(name, session, ".sock");
    (void)unlinkat(c->sdir, name, 0);
    file_name(name, session, "");
    (void)unlinkat(c->sdir, name, 0);
}

int rt_file_session_pidfd(struct rt_file_conn *c, uint64_t session)
{
    pid_t pid = 0;
    int64_t start = 0;
    if (get_process(c, session, &pid, &start) != SQLITE_ROW || pid <= 0 || start == 0 ||
        pid == getpid())
        return -1;
    int fd = rt_fd_lift((int)syscall(SYS_pidfd_open, pid, 0));
    if (fd >= 0 && process_start(pid) != start) { /* another namespace's, or a later one's */
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* ---- Our own ----------------------------------------------------------------- */

int rt_file_session_make(struct rt_file_conn *c, uint64_t *session, int *out)
{
    char name[FILE_NAME_SIZE];
    for (int i = 0; i < ID_TRIES; i++) {
        uint64_t id = 0;
        if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
            break;
        id = (id >> 1) | 1; /* SQLite's integers are signed; not 0 */
        file_name(name, id, "");
        int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
        /* Not where the program's own dup2 would close it, and end the session, unnoticed. */
        int fd = rt_fd_lift(openat(c->sdir, name, flags, c->mode));
        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0)
            break;
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        struct stat st;
        if ((c->mode & 0060) != 0)
            (void)fchmod(fd, c->mode);
        if (fcntl(fd, F_OFD_SETLK, &lock) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0) {
            *out = fd;
            *session = id;
            return 0;
        }
        (void)close(fd);
    }
    int err = errno;
    if (!rt_file_say_files(c, err))
        rt_file_say(c, "cannot make a session in %s/s: %s", c->shown, strerror(err));
    return err == EACCES || err == EROFS ? ROTA_AUTH : ROTA_UNREACHABLE;
}

static int add_row(struct rt_file_conn *c, uint64_t session)
{
    int rv = rt_file_begin(c);
    if (rv != 0)
        return rv;
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_SESSION_ADD);
    if (s == NULL) {
        rv = rt_file_db_error(c, sqlite3_errcode(c->db));
    } else {
        const char *label = c->base.label != NULL ? c->base.label : "";
        (void)sqlite3_bind_text(s, 5, label, -1, SQLITE_TRANSIENT);
        rv = rt_file_run(
            c, RT_FILE_SESSION_ADD, 4,
            (int64_t[]){(int64_t)session, getpid(), process_start(getpid()), rt_file_wall_ms()});
    }
    c->session = session;
    if (rv == 0)
        rv = rt_file_observe_again(c);
    if (rv == 0)
        rv = rt_file_commit(c);
    if (rv != 0) {
        c->session = 0;
        rt_file_rollback(c);
    }
    return rv;
}

int rt_file_session_open(struct rt_file_conn *c)
{
    uint64_t session = 0;
    rt_file_session_end(c);
    int rv = rt_file_db_linked(c) ? 0 : rt_file_reopen(c);
    if (rv == 0)
        rv = rt_file_session_make(c, &session, &c->session_fd);
    if (rv != 0)
        return rv;
    /* Once more: whoever came before the file was there did not wait for us. */
    rv = rt_file_db_linked(c) ? 0 : RT_FILE_AGAIN;
    if (rv == 0)
        rv = rt_file_bell_open(c, session); /* before the row: nobody rings in vain */
    if (rv == 0)
        rv = add_row(c, session);
    c->held = 0;
    if (rv == 0)
        return 0;
    rt_file_bell_close(c);
    rt_file_session_unlink(c, session);
    (void)close(c->session_fd);
    c->session_fd = -1;
    return rv;
}

int rt_file_session_check(struct rt_file_conn *c, bool *there)
{
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_SESSION_GET);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    (void)sqlite3_bind_int64(s, 1, (int64_t)c->session);
    int rc = sqlite3_step(s);
    (void)sqlite3_reset(s);
    *there = rc == SQLITE_ROW;
    c->session_gone = rc == SQLITE_DONE;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
}

bool rt_file_session_linked(const struct rt_file_conn *c)
{
    struct stat st;
    return (fstat(c->session_fd, &st) != 0 || st.st_nlink > 0) && rt_file_db_linked(c);
}

/* The row and its tickets stay, and its file, which is still open: FD. */
static uint64_t forget(struct rt_file_conn *c, int *fd)
{
    uint64_t session = c->session;
    rt_file_wait_forget(c, session);
    rt_file_bell_close(c);
    *fd = c->session_fd;
    c->session_fd = -1;
    c->session = 0;
    c->held = 0;
    return session;
}

/* If somebody deleted its file: one without a lock in its place. Without a file it would live as long as
 * this process, for all but us; and we may be kept from sweeping it, and forget it. */
static void leave_file(const struct rt_file_conn *c, uint64_t session)
{
    char name[FILE_NAME_SIZE];
    file_name(name, session, "");
    int fd = openat(c->sdir, name, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, c->mode);
    if (fd < 0)
        return;
    if ((c->mode & 0060) != 0)
        (void)fchmod(fd, c->mode);
    (void)close(fd);
}

void rt_file_session_lost(struct rt_file_conn *c)
{
    if (c->session == 0)
        return;
    int fd = -1;
    uint64_t session = forget(c, &fd);
    /* First it is told, then others are let in: from the loop, where no line is being looked at. */
    rt_conn_event(&c->base, &(struct rt_event){.kind = RT_SESSION_LOST, .session = session});
    leave_file(c, session);
    if (c->session == 0 && !rt_file_db_linked(c)) { /* nothing there is to be written any more */
        rt_file_db_close(c);
    } else {
        c->unfinished = session;
        rt_file_wait_poll_soon(c);
    }
    (void)close(fd);
}

void rt_file_session_verify(struct rt_file_conn *c)
{
    if (c->session != 0 && !rt_file_session_linked(c))
        rt_file_session_lost(c);
}

static void sweep_own(struct rt_file_conn *c, uint64_t session)
{
    bool more = true;
    for (int i = 0; more && i < END_STEPS; i++)
        if (rt_file_sweep_session(c, session, NULL, &more) != 0)
            break;
    if (more)
        leave_file(c, session);
}

void rt_file_session_end(struct rt_file_conn *c)
{
    if (c->unfinished != 0 && rt_file_db_linked(c)) /* perhaps our own, lost just now */
        sweep_own(c, c->unfinished);
    c->unfinished = 0;
    if (c->session == 0)
        return;
    int fd = -1;
    bool linked = rt_file_db_linked(c);
    uint64_t session = forget(c, &fd);
    if (!linked) /* nothing there is to be written any more */
        rt_file_db_close(c);
    (void)close(fd);
    if (file_lock(c, session) != LOCK_HELD) /* by a child that was given the descriptor */
        sweep_own(c, session);
}
