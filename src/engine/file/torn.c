/* SPDX-License-Identifier: Apache-2.0 */
/* The files under the database, when somebody deletes or truncates them while programs use them.
 *
 * Whoever has a file open goes on in it, deleted or not; a latecomer would make a new one, and both would hold. So
 * nobody opens a database one of whose files is gone while a session lives: it rings at each, and each looks at its
 * files, is told that its session is lost, and leaves. Whoever stands still keeps the others out, with a message.
 *
 * A truncated shm is worse for whoever has it open: it is mapped, and the next access gets SIGBUS. It is only an
 * index of the WAL: once it is made long again, and empty, SQLite builds it anew. */
#include "engine/file/file.h"
#include "net/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* walformat.html: the index grows by this many bytes, and never shrinks while it is in use. */
#define SHM_MIN 32768
#define WRITER_TRIES 300 /* ms: a transaction takes some 10 us */

static const char *const names[RT_FILE_PARTS] = {"rota.db", "rota.db-wal", "rota.db-shm"};

void rt_file_torn_see(const struct rt_file_conn *c, struct rt_file_part parts[RT_FILE_PARTS])
{
    for (int i = 0; i < RT_FILE_PARTS; i++) {
        struct stat st;
        parts[i] = (struct rt_file_part){0};
        if (fstatat(c->dir, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
            parts[i] = (struct rt_file_part){
                .dev = st.st_dev, .ino = st.st_ino, .size = st.st_size, .there = true};
    }
}

static bool is_same(const struct rt_file_part *a, const struct rt_file_part *b)
{
    return a->dev == b->dev && a->ino == b->ino;
}

int rt_file_torn_check(struct rt_file_conn *c, const struct rt_file_part parts[RT_FILE_PARTS])
{
    c->torn = !parts[RT_FILE_PART_WAL].there || !parts[RT_FILE_PART_SHM].there;
    if (c->torn) /* within a process SQLite lends us the files that others have open */
        rt_file_fork_leave(c);
    c->torn = c->torn || parts[RT_FILE_PART_SHM].size < SHM_MIN;
    c->torn = c->torn && rt_file_session_alarm(c); /* nobody lives in a folder that is being made */
    return c->torn ? RT_FILE_AGAIN : 0;
}

int rt_file_torn_note(struct rt_file_conn *c, const struct rt_file_part before[RT_FILE_PARTS])
{
    rt_file_torn_see(c, c->parts);
    for (int i = 0; i < RT_FILE_PARTS; i++)
        if (!c->parts[i].there || (before[i].there && !is_same(&c->parts[i], &before[i])))
            return RT_FILE_AGAIN; /* meanwhile: which one SQLite has open cannot be known */
    /* O_PATH: to close it drops no lock (see db.c). */
    int fd = openat(c->dir, names[RT_FILE_PART_SHM], O_PATH | O_NOFOLLOW | O_CLOEXEC);
    c->shm_fd = rt_fd_lift(fd);
    if (c->shm_fd < 0)
        return rt_file_say_files(c, errno) ? ROTA_UNREACHABLE : RT_FILE_AGAIN;
    c->shm_size = c->parts[RT_FILE_PART_SHM].size;
    return 0;
}

bool rt_file_db_linked(const struct rt_file_conn *c)
{
    char path[PATH_MAX + 16];
    struct stat st;
    for (int i = 0; i < RT_FILE_PARTS; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", c->folder, names[i]);
        if (lstat(path, &st) != 0) {
            if (errno == ENOENT || errno == ENOTDIR)
                return false;
        } else if (st.st_dev != c->parts[i].dev || st.st_ino != c->parts[i].ino) {
            return false;
        }
    }
    return true;
}

/* A writer in the middle of a transaction would write the head of the index anew, and the index behind it would be
 * empty and believed. It ends, or dies. */
static void await_writer(const struct rt_file_conn *c)
{
    struct timespec nap = {.tv_nsec = RT_MS};
    for (int i = 0; i < WRITER_TRIES && rt_file_lock_owner(c) > 0; i++)
        (void)nanosleep(&nap, NULL);
}

/* Only one at a time: a second that came late would empty what the first one's transaction just wrote. */
static void mend(struct rt_file_conn *c)
{
    char path[32];
    struct stat st;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", c->shm_fd);
    while (flock(c->dir, LOCK_EX) != 0 && errno == EINTR)
        ;
    await_writer(c);
    if (fstat(c->shm_fd, &st) == 0 && st.st_size < c->shm_size) {
        /* What is left of it would be believed, although the rest is gone. */
        bool done = (st.st_size == 0 || truncate(path, 0) == 0) && truncate(path, c->shm_size) == 0;
        rt_file_log(c, ROTA_LOG_WARN, "file: %s/rota.db-shm was truncated: %s", c->shown,
                    done ? "made anew from the WAL" : "it cannot be mended; end all who use it");
    }
    (void)flock(c->dir, LOCK_UN);
}

void rt_file_torn_mend(struct rt_file_conn *c)
{
    struct stat st;
    if (c->shm_fd < 0 || c->in_tx || fstat(c->shm_fd, &st) != 0)
        return;
    if (st.st_size < c->shm_size)
        mend(c);
    else
        c->shm_size = st.st_size;
}
