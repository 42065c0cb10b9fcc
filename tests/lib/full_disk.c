/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a server: while the first byte of the file $ROTA_FULL_DISK is not 0, none of its files grows, as on a
 * full disk. What was written before may be overwritten, and its log goes on. */
#undef _FILE_OFFSET_BITS /* each function is here under both its names */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const volatile int64_t *full;

__attribute__((constructor)) static void find_full(void)
{
    const char *path = getenv("ROTA_FULL_DISK");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof(*full), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (at != MAP_FAILED)
        full = at;
}

/* FROM -1: where the file stands. */
static bool is_refused(int fd, off_t from, size_t size)
{
    struct stat st;
    if (full == NULL || *full == 0 || fd <= STDERR_FILENO || fstat(fd, &st) != 0 ||
        !S_ISREG(st.st_mode))
        return false;
    if (from < 0)
        from = fcntl(fd, F_GETFL) & O_APPEND ? st.st_size : lseek(fd, 0, SEEK_CUR);
    if (from + (off_t)size <= st.st_size)
        return false;
    errno = ENOSPC;
    return true;
}

static size_t size_of(const struct iovec *parts, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += parts[i].iov_len;
    return size;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    return is_refused(fd, -1, size) ? -1 : syscall(SYS_write, fd, bytes, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return is_refused(fd, -1, size_of(parts, count)) ? -1 : syscall(SYS_writev, fd, parts, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    return is_refused(fd, at, size) ? -1 : syscall(SYS_pwrite64, fd, bytes, size, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    return is_refused(fd, at, size_of(parts, count))
               ? -1
               : syscall(SYS_pwritev, fd, parts, count, at, 0L);
}

int fallocate(int fd, int mode, off_t from, off_t size)
{
    return is_refused(fd, from, (size_t)size) ? -1
                                              : (int)syscall(SYS_fallocate, fd, mode, from, size);
}

int posix_fallocate(int fd, off_t from, off_t size)
{
    int rv = fallocate(fd, 0, from, size);
    return rv == 0 ? 0 : errno;
}

/* The same, under the names that programs for large files know. */
ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t at) __attribute__((alias("pwrite")));
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at)
    __attribute__((alias("pwritev")));
int fallocate64(int fd, int mode, off_t from, off_t size) __attribute__((alias("fallocate")));
int posix_fallocate64(int fd, off_t from, off_t size) __attribute__((alias("posix_fallocate")));
