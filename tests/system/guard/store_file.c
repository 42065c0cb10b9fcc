/* SPDX-License-Identifier: Apache-2.0 */
/* The counter in a file; the lock is in a Redis, since locks of file: outlast a stop. */
#include "lib/proc.h"
#include "lib/redis_server.h"
#include "scene.h"

#include <fcntl.h>
#include <limits.h>
#include <rota_guard.h>
#include <unistd.h>

static struct rt_redis node;
static char path[PATH_MAX], next[PATH_MAX + 32];

static char *start(void)
{
    snprintf(path, sizeof(path), "%s/count", rt_memdir());
    rt_redis_start(&node, NULL);
    return rt_redis_url(&node, 0);
}

static void reset(void)
{
    char side[PATH_MAX + 8];

    snprintf(side, sizeof(side), "%s.fence", path);
    unlink(path);
    unlink(side);
}

static void fini(void)
{
    rt_redis_fini(&node);
}

static void *open_db(void)
{
    snprintf(next, sizeof(next), "%s.%d", path, (int)getpid());
    return path;
}

static void close_db(void *db)
{
    (void)db;
}

static int look(void *db, uint64_t fence, uint64_t *value)
{
    int err = fence != 0 ? rota_guard_file(db, fence, NULL, 0) : 0;
    char text[32] = "";

    if (err != 0)
        return err;
    int fd = open(db, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
        err = ROTA_UNREACHABLE;
    if (fd >= 0)
        close(fd);
    *value = strtoull(text, NULL, 10);
    return err;
}

/* As careful programs write files, except for the fence. */
static int write_plainly(const char *text)
{
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return done && rename(next, path) == 0 ? 0 : ROTA_UNREACHABLE;
}

static int write_db(void *db, uint64_t fence, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return fence != 0 ? rota_guard_file(db, fence, text, strlen(text)) : write_plainly(text);
}

const struct guard_store guard_store = {.name = "file",
                                        .start = start,
                                        .reset = reset,
                                        .fini = fini,
                                        .open = open_db,
                                        .close = close_db,
                                        .look = look,
                                        .write = write_db};
