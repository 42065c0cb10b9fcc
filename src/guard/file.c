/* SPDX-License-Identifier: Apache-2.0 */
/* The guard of a file: whole or not at all, and never by an older fence than came before.
 *
 *   FILE            what is guarded, replaced by rename(2)
 *   FILE.fence      the highest fence, 20 digits and a newline; its flock(2) is held from reading it to the end.
 *                   Written in place, so that everybody locks the same inode
 *   FILE.fence.new  the next FILE, under that lock: one at a time, so the next writer reuses what a crash left
 *
 * The fence is on disk before FILE is replaced: a crash in between leaves it ahead of the data, which is safe. */
#include "base/alloc.h"
#include "client/client.h"

#include <rota_guard.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGITS 20
#define REOPENS_MAX \
    100 /* if somebody removes FILE.fence again and again, it can be no guard here */

struct guard {
    const char *shown; /* as the caller named it */
    char *path;        /* links resolved; libc's */
    char *side, *fresh;
    const char *name; /* these three in the folder */
    int dir, lock;
    struct stat was; /* FILE before; st_nlink 0: there was none */
    uint64_t seen;
};

static int fail(const struct guard *g, const char *what)
{
    int error = errno;

    rt_fail(NULL, ROTA_UNREACHABLE, "cannot %s %s: %s", what, g->shown, strerror(error));
    switch (error) {
    case ENOMEM:
        return ROTA_NOMEM;
    case EACCES:
    case EPERM:
    case EROFS:
        return ROTA_AUTH;
    case EINVAL:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOENT:
    case ENOTDIR:
        return ROTA_INVALID;
    default:
        return ROTA_UNREACHABLE;
    }
}

static char *joined(const char *a, const char *b)
{
    size_t size = strlen(a) + strlen(b) + 1;
    char *both = rt_alloc(size);

    if (both != NULL)
        snprintf(both, size, "%s%s", a, b);
    return both;
}

/* ---- Names and the folder ------------------------------------------------ */

/* Follows links, so that all names of one file lead to one guard. */
static int resolve(struct guard *g)
{
    struct stat st;

    if (lstat(g->shown, &st) == 0) {
        g->path = realpath(g->shown, NULL);
        if (g->path == NULL || stat(g->path, &g->was) != 0)
            return fail(g, "find");
        if (S_ISREG(g->was.st_mode))
            return 0;
        return rt_fail(NULL, ROTA_INVALID, "%s is no file", g->shown);
    }
    if (errno != ENOENT)
        return fail(g, "find");
    g->path = strdup(g->shown);
    return g->path != NULL ? 0 : fail(g, "find");
}

static int open_folder(struct guard *g)
{
    int rv = resolve(g);
    if (rv != 0)
        return rv;
    char *slash = strrchr(g->path, '/');
    g->name = slash != NULL ? slash + 1 : g->path;
    if (g->name[0] == '\0')
        return rt_fail(NULL, ROTA_INVALID, "%s is no file", g->shown);
    g->side = joined(g->name, ".fence");
    g->fresh = joined(g->name, ".fence.new");
    if (g->side == NULL || g->fresh == NULL)
        return rt_fail(NULL, ROTA_NOMEM, NULL);
    if (slash == NULL)
        g->dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    else if (slash == g->path)
        g->dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    else {
        *slash = '\0'; /* NAME stands behind it */
        g->dir = open(g->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    return g->dir >= 0 ? 0 : fail(g, "open the folder of");
}

/* ---- FILE.fence ---------------------------------------------------------- */

static int open_side(struct guard *g)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

    g->lock = openat(g->dir, g->side, flags | O_CREAT | O_EXCL, 0666);
    if (g->lock >= 0 && g->was.st_nlink > 0) /* whoever may write one may write the other */
        (void)fchmod(g->lock, g->was.st_mode & 0666);
    if (g->lock < 0 && errno == EEXIST)
        g->lock = openat(g->dir, g->side, flags);
    if (g->lock >= 0 || errno == ENOENT) /* removed since we looked: still_there says so */
        return 0;
    return fail(g, "open the fence of");
}

static int await_lock(struct guard *g)
{
    while (g->lock >= 0 && flock(g->lock, LOCK_EX) != 0)
        if (errno != EINTR)
            return fail(g, "lock the fence of");
    return 0;
}

/* Whether the file we locked is the one that others find under that name. */
static bool still_there(const struct guard *g)
{
    struct stat mine, there;

    return fstat(g->lock, &mine) == 0 &&
           fstatat(g->dir, g->side, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

static int lock_side(struct guard *g)
{
    for (int i = 0; i < REOPENS_MAX; i++) {
        int rv = open_side(g);
        if (rv == 0)
            rv = await_lock(g);
        if (rv != 0 || still_there(g))
            return rv;
        if (g->lock >= 0)
            close(g->lock);
        g->lock = -1;
    }
    return rt_fail(NULL, ROTA_UNREACHABLE, "%s.fence is removed again and again", g->shown);
}

static int no_fence(const struct guard *g)
{
    return rt_fail(NULL, ROTA_INVALID, "%s.fence has no fence in it: mend it or move it away",
                   g->shown);
}

static int read_seen(struct guard *g)
{
    char text[DIGITS + 2];
    ssize_t size = pread(g->lock, text, sizeof(text), 0);

    if (size < 0)
        return fail(g, "read the fence of");
    if (size == 0) /* just made, or its maker died before writing */
        return 0;
    if (size != DIGITS + 1 || text[DIGITS] != '\n')
        return no_fence(g);
    for (int i = 0; i < DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9' || g->seen > INT64_MAX / 10)
            return no_fence(g);
        g->seen = g->seen * 10 + (uint64_t)(text[i] - '0');
    }
    return 0;
}

/* One write of a few bytes at the beginning of a block: all there, or not at all. */
static int note(struct guard *g, uint64_t fence)
{
    char text[DIGITS + 2];

    assert(fence > g->seen);
    snprintf(text, sizeof(text), "%0*llu\n", DIGITS, (unsigned long long)fence);
    ssize_t size = pwrite(g->lock, text, DIGITS + 1, 0);
    if (size != DIGITS + 1) {
        int error = size < 0 ? errno : ENOSPC;
        if (size > 0 && g->seen == 0)
            (void)ftruncate(g->lock, 0);
        errno = error;
        return fail(g, "note the fence of");
    }
    if (fsync(g->lock) != 0 || (g->seen == 0 && fsync(g->dir) != 0))
        return fail(g, "note the fence of");
    return 0;
}

/* ---- FILE ---------------------------------------------------------------- */

static bool write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return false;
        }
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

/* Whoever could read FILE can read the next one, and nobody else. */
static bool inherit(const struct guard *g, int fd)
{
    struct stat st;

    if (g->was.st_nlink == 0)
        return true;
    if (fstat(fd, &st) != 0)
        return false;
    if (st.st_uid != g->was.st_uid || st.st_gid != g->was.st_gid)
        (void)fchown(fd, g->was.st_uid, g->was.st_gid); /* root may */
    return fchmod(fd, g->was.st_mode & 0777) == 0;
}

static int write_fresh(const struct guard *g, const void *bytes, size_t size)
{
    if (unlinkat(g->dir, g->fresh, 0) != 0 && errno != ENOENT)
        return fail(g, "write");
    int fd = openat(g->dir, g->fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                    g->was.st_nlink > 0 ? 0600 : 0666);
    if (fd < 0)
        return fail(g, "write");
    bool done = write_all(fd, bytes, size) && inherit(g, fd) && fsync(fd) == 0;
    int error = errno;
    if (close(fd) != 0 && done) {
        done = false;
        error = errno;
    }
    if (done && renameat(g->dir, g->fresh, g->dir, g->name) == 0)
        return 0;
    errno = done ? errno : error;
    int rv = fail(g, "write");
    (void)unlinkat(g->dir, g->fresh, 0);
    return rv;
}

static int replace(struct guard *g, const void *bytes, size_t size)
{
    int rv = write_fresh(g, bytes, size);
    if (rv != 0)
        return rv;
    if (fsync(g->dir) != 0) {
        (void)fail(g, "make sure of");
        return ROTA_UNKNOWN;
    }
    return 0;
}

/* ---- The call ------------------------------------------------------------ */

static int guarded(struct guard *g, uint64_t fence, const void *bytes, size_t size)
{
    int rv = open_folder(g);
    if (rv == 0)
        rv = lock_side(g);
    if (rv == 0)
        rv = read_seen(g);
    if (rv != 0)
        return rv;
    if (fstatat(g->dir, g->name, &g->was, AT_SYMLINK_NOFOLLOW) != 0)
        g->was.st_nlink = 0; /* as it is now, inside */
    if (fence < g->seen)
        return rt_fail(NULL, ROTA_LOST, "%s: fence %llu was here already, ours is %llu", g->shown,
                       (unsigned long long)g->seen, (unsigned long long)fence);
    if (fence > g->seen)
        rv = note(g, fence);
    return rv == 0 && bytes != NULL ? replace(g, bytes, size) : rv;
}

int rota_guard_file(const char *path, uint64_t fence, const void *bytes, size_t size)
{
    struct guard g = {.shown = path, .dir = -1, .lock = -1};

    if (path == NULL || path[0] == '\0')
        return rt_fail(NULL, ROTA_INVALID, "the path is missing");
    if (fence == 0 || fence > INT64_MAX)
        return rt_fail(NULL, ROTA_INVALID, "%llu is no fence", (unsigned long long)fence);
    int rv = guarded(&g, fence, bytes, size);
    if (g.lock >= 0)
        close(g.lock); /* and unlocks */
    if (g.dir >= 0)
        close(g.dir);
    rt_free(g.side);
    rt_free(g.fresh);
    free(g.path);
    return rv;
}
