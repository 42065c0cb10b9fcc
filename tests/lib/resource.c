/* SPDX-License-Identifier: Apache-2.0 */
/* The guarded counter: a mapped log behind a mutex that outlives its holder. */
#include "resource.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
    pthread_mutex_t mutex;
    uint64_t count; /* the commit point of a write */
    struct rt_resource_entry log[];
};

struct rt_resource {
    struct file *file;
    size_t size, capacity;
};

static int mutex_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attr;
    int rv = pthread_mutexattr_init(&attr);

    if (rv != 0)
        return -rv;
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    rv = pthread_mutex_init(mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    return -rv;
}

/* The first to come makes it; flock keeps the others out until the mutex is there. */
static int map_resource(struct rt_resource *res, int fd)
{
    struct stat st;
    void *p;

    if (flock(fd, LOCK_EX) != 0 || fstat(fd, &st) != 0)
        return -errno;
    if (st.st_size == 0 && ftruncate(fd, (off_t)res->size) != 0)
        return -errno;
    p = mmap(NULL, res->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -errno;
    res->file = p;
    return st.st_size == 0 ? mutex_init(&res->file->mutex) : 0;
}

int rt_resource_open(struct rt_resource **out, const char *path, size_t capacity)
{
    int rv = 0;
    int fd;
    struct rt_resource *res = calloc(1, sizeof(*res));

    if (res == NULL)
        return -ENOMEM;
    res->capacity = capacity;
    res->size = sizeof(struct file) + capacity * sizeof(struct rt_resource_entry);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        rv = -errno;
        goto free_resource;
    }
    rv = map_resource(res, fd);
    flock(fd, LOCK_UN); /* closing is not enough: the mapping keeps the open file, and its lock */
    close(fd);
    if (rv != 0)
        goto free_resource;
    *out = res;
    return 0;
free_resource:
    free(res);
    return rv;
}

void rt_resource_close(struct rt_resource *res)
{
    if (res == NULL)
        return;
    munmap(res->file, res->size);
    free(res);
}

static void lock(struct file *file)
{
    int rv = pthread_mutex_lock(&file->mutex);

    if (rv == EOWNERDEAD) /* killed inside: before count was raised nothing had happened */
        rv = pthread_mutex_consistent(&file->mutex);
    assert(rv == 0);
}

uint64_t rt_resource_read(const struct rt_resource *res)
{
    uint64_t count = __atomic_load_n(&res->file->count, __ATOMIC_ACQUIRE);

    return count == 0 ? 0 : res->file->log[count - 1].value;
}

bool rt_resource_write(struct rt_resource *res, uint64_t fence, uint64_t client, uint64_t value,
                       uint64_t *seq)
{
    struct file *file = res->file;
    struct rt_resource_entry last = {0};
    bool accepted;

    lock(file);
    if (file->count >= res->capacity) {
        fprintf(stderr, "resource: more than %zu writes; open it with more room\n", res->capacity);
        abort();
    }
    if (file->count > 0)
        last = file->log[file->count - 1];
    accepted = fence >= last.highest;
    file->log[file->count] = (struct rt_resource_entry){
        .fence = fence,
        .client = client,
        .accepted = accepted,
        .value = accepted ? value : last.value,
        .highest = accepted ? fence : last.highest,
    };
    *seq = file->count + 1;
    __atomic_store_n(&file->count, file->count + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&file->mutex);
    return accepted;
}

const struct rt_resource_entry *rt_resource_log(const struct rt_resource *res, size_t *count)
{
    *count = __atomic_load_n(&res->file->count, __ATOMIC_ACQUIRE);
    return res->file->log;
}
