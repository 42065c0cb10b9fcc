/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: a file with an OFD lock. The lock alone says who lives: the kernel drops it with
 * the last descriptor, whatever way the process ends. */
#include "engine/file/file.h"
#include "net/fd.h"

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

/* When the process PID began, in ticks since boot; 0 if it cannot be seen. Field 22 of
 * /proc/PID/stat, counted from behind the command's last parenthesis. */
static int64_t process_start(pid_t pid)
{
    char path[48], text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    char *p = strrchr(text, ')');
    for (int field = 2; p != NULL && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p != NULL ? (int64_t)strtoll(p + 1, NULL, 10) : 0;
}

bool rt_file_session_dead(const struct rt_file_conn *c, uint64_t session)
{
    char name[FILE_NAME_SIZE];
    file_name(name, session, "");
    int fd = openat(c->sdir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT; /* locked before its row was made, unlinked after its end */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    bool dead = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
    (void)close(fd);
    return dead;
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
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_SESSION_GET);
    pid_t pid = 0;
    int64_t start = 0;
    if (s == NULL)
        return -1;
    (void)sqlite3_bind_int64(s, 1, (int64_t)session);
    if (sqlite3_step(s) == SQLITE_ROW) {
        pid = (pid_t)sqlite3_column_int64(s, 0);
        start = sqlite3_column_int64(s, 1);
    }
    (void)sqlite3_reset(s);
    if (pid <= 0 || start == 0 || pid == getpid())
        return -1;
    int fd = rt_fd_lift((int)syscall(SYS_pidfd_open, pid, 0));
    if (fd >= 0 && process_start(pid) != start) { /* another namespace's, or a later one's */
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* ---- Our own ----------------------------------------------------------------- */

/* A new file, locked; whoever sweeps stray files locks them before it unlinks them. */
static int make_file(struct rt_file_conn *c, uint64_t *session)
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
            c->session_fd = fd;
            *session = id;
            return 0;
        }
        (void)close(fd);
    }
    rt_file_say(c, "cannot make a session in %s/s: %s", c->folder, strerror(errno));
    return errno == EACCES || errno == EROFS ? ROTA_AUTH : ROTA_UNREACHABLE;
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
    int rv = make_file(c, &session);
    if (rv != 0)
        return rv;
    rv = rt_file_bell_open(c, session); /* before the row: nobody rings in vain */
    if (rv == 0)
        rv = add_row(c, session);
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

void rt_file_session_lost(struct rt_file_conn *c)
{
    uint64_t session = c->session;
    if (session == 0)
        return;
    rt_file_wait_forget(c, session);
    rt_file_bell_close(c);
    rt_file_session_unlink(c, session);
    (void)close(c->session_fd);
    c->session_fd = -1;
    c->session = 0;
    rt_conn_event(&c->base, &(struct rt_event){.kind = RT_SESSION_LOST, .session = session});
}

void rt_file_session_end(struct rt_file_conn *c)
{
    uint64_t session = c->session;
    if (session == 0)
        return;
    rt_file_wait_forget(c, session);
    rt_file_bell_close(c);
    (void)close(c->session_fd);
    c->session_fd = -1;
    c->session = 0;
    /* A child that was given the descriptor keeps the session. */
    bool more = rt_file_session_dead(c, session);
    for (int i = 0; more && i < END_STEPS; i++)
        if (rt_file_sweep_session(c, session, NULL, &more) != 0)
            break;
}
