/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped history files: writing from many threads, merging after the run. */
#include "history.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x31303041544f52) /* "ROTA001" */
#define SUFFIX ".history"

struct header {
    uint64_t magic;
    uint64_t capacity;
    uint64_t used; /* claimed, by atomic addition; the last ones may not be published */
    uint64_t process;
};

struct rt_history {
    struct header *header;
    struct rt_record *records;
    uint64_t *next_client; /* in a file that all processes of the folder map */
    size_t size;
    uint32_t process;
};

int64_t rt_history_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* FNV-1a: two names of one test are not expected to collide in 64 bits. */
uint64_t rt_history_name(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

static int map_file(const char *path, int flags, size_t size, void **out)
{
    int rv = 0;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)size) != 0) {
        rv = -errno;
        goto close_fd;
    }
    *out = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*out == MAP_FAILED)
        rv = -errno;
close_fd:
    close(fd);
    return rv;
}

/* Pids are reused, so the name also has a count. */
static int map_new_file(struct rt_history *h, const char *folder)
{
    char path[4096];
    void *p = NULL;
    int rv = -EEXIST;

    for (int i = 0; rv == -EEXIST; i++) {
        snprintf(path, sizeof(path), "%s/%u-%d" SUFFIX, folder, h->process, i);
        rv = map_file(path, O_EXCL, h->size, &p);
    }
    if (rv != 0)
        return rv;
    h->header = p;
    h->records = (struct rt_record *)(h->header + 1);
    return 0;
}

int rt_history_open(struct rt_history **out, const char *folder, size_t capacity)
{
    char path[4096];
    void *p = NULL;
    struct rt_history *h = calloc(1, sizeof(*h));
    int rv;

    if (h == NULL)
        return -ENOMEM;
    h->process = (uint32_t)getpid();
    h->size = sizeof(struct header) + capacity * sizeof(struct rt_record);
    snprintf(path, sizeof(path), "%s/clients", folder);
    rv = map_file(path, 0, sizeof(uint64_t), &p);
    if (rv != 0)
        goto free_history;
    h->next_client = p;
    rv = map_new_file(h, folder);
    if (rv != 0)
        goto unmap_clients;
    h->header->capacity = capacity;
    h->header->process = h->process;
    __atomic_store_n(&h->header->magic, MAGIC, __ATOMIC_RELEASE);
    *out = h;
    return 0;
unmap_clients:
    munmap(h->next_client, sizeof(uint64_t));
free_history:
    free(h);
    return rv;
}

void rt_history_close(struct rt_history *h)
{
    if (h == NULL)
        return;
    munmap(h->next_client, sizeof(uint64_t));
    munmap(h->header, h->size);
    free(h);
}

uint64_t rt_history_client(struct rt_history *h)
{
    return __atomic_add_fetch(h->next_client, 1, __ATOMIC_RELAXED);
}

struct rt_record *rt_history_begin(struct rt_history *h, const struct rt_record *what)
{
    int64_t now = rt_history_now();
    uint64_t i = __atomic_fetch_add(&h->header->used, 1, __ATOMIC_RELAXED);
    struct rt_record *r;

    assert(what->kind != 0);
    if (i >= h->header->capacity) {
        fprintf(stderr, "history: more than %zu records; open it with more room\n",
                (size_t)h->header->capacity);
        abort();
    }
    r = &h->records[i];
    *r = *what;
    r->kind = 0;
    r->result = RT_INFO;
    r->answered = 0;
    r->t_inv = now;
    r->t_ret = 0;
    if (r->process == 0)
        r->process = h->process;
    /* The kind last: a record without one was cut short before its call began. */
    __atomic_store_n(&r->kind, what->kind, __ATOMIC_RELEASE);
    return r;
}

void rt_history_end(struct rt_record *r, enum rt_record_result result)
{
    r->t_ret = rt_history_now();
    if (r->t_ret == r->t_inv)
        r->t_ret++; /* a clock coarser than the call: intervals are never empty */
    r->answered = 1;
    __atomic_store_n(&r->result, (uint8_t)result, __ATOMIC_RELEASE);
}

/* ---- Merging ------------------------------------------------------------ */

struct merge {
    struct rt_record *records;
    size_t count, room;
};

static int merge_reserve(struct merge *m, size_t more)
{
    struct rt_record *p;
    size_t room = m->room;

    if (m->count + more <= room)
        return 0;
    while (room < m->count + more)
        room = room == 0 ? 1024 : room * 2;
    p = realloc(m->records, room * sizeof(*p));
    if (p == NULL)
        return -ENOMEM;
    m->records = p;
    m->room = room;
    return 0;
}

static int merge_mapped(struct merge *m, const struct header *header, size_t size)
{
    const struct rt_record *records = (const struct rt_record *)(header + 1);
    size_t used;
    int rv;

    if (size < sizeof(*header) || header->magic != MAGIC)
        return 0; /* its process was killed while it made the file */
    used = header->used < header->capacity ? header->used : header->capacity;
    if (size < sizeof(*header) + used * sizeof(*records))
        return -EINVAL;
    rv = merge_reserve(m, used);
    for (size_t i = 0; rv == 0 && i < used; i++) {
        if (records[i].kind == 0)
            continue;
        m->records[m->count] = records[i];
        if (records[i].result == RT_INFO)
            m->records[m->count].t_ret = INT64_MAX;
        m->count++;
    }
    return rv;
}

static int merge_file(struct merge *m, const char *path)
{
    struct stat st;
    void *p;
    int rv = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) != 0) {
        rv = -errno;
        goto close_fd;
    }
    if (st.st_size == 0)
        goto close_fd;
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        rv = -errno;
        goto close_fd;
    }
    rv = merge_mapped(m, p, (size_t)st.st_size);
    munmap(p, (size_t)st.st_size);
close_fd:
    close(fd);
    return rv;
}

static int by_inv(const void *a, const void *b)
{
    const struct rt_record *x = a, *y = b;

    return (x->t_inv > y->t_inv) - (x->t_inv < y->t_inv);
}

static bool is_history(const char *name)
{
    size_t n = strlen(name), s = strlen(SUFFIX);

    return n > s && strcmp(name + n - s, SUFFIX) == 0;
}

int rt_history_load(const char *folder, struct rt_record **out, size_t *count)
{
    struct merge m = {0};
    struct dirent *entry;
    char path[4096];
    int rv = merge_reserve(&m, 1); /* so that *out is never NULL */
    DIR *dir = opendir(folder);

    if (dir == NULL)
        rv = -errno;
    while (rv == 0 && (entry = readdir(dir)) != NULL) {
        if (!is_history(entry->d_name))
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        rv = merge_file(&m, path);
    }
    if (dir != NULL)
        closedir(dir);
    if (rv != 0) {
        free(m.records);
        return rv;
    }
    qsort(m.records, m.count, sizeof(*m.records), by_inv);
    *out = m.records;
    *count = m.count;
    return 0;
}
