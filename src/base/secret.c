/* SPDX-License-Identifier: Apache-2.0 */
/* Whole pages of the heap, which are left out of core dumps while a secret is in them. */
#include "base/secret.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct head { /* at the beginning of the first page */
    void *raw;
    size_t size; /* of all pages */
    char text[];
};

char *rt_secret_dup(const char *text)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), length = strlen(text) + 1;
    size_t size = (sizeof(struct head) + length + page - 1) / page * page;
    char *raw = rt_alloc(size + page);

    if (raw == NULL)
        return NULL;
    struct head *h = (struct head *)(void *)(raw + (page - (uintptr_t)raw % page) % page);
    (void)madvise(h, size, MADV_DONTDUMP); /* an old kernel: then it is wiped, at least */
    h->raw = raw;
    h->size = size;
    memcpy(h->text, text, length);
    return h->text;
}

void rt_secret_free(char *secret)
{
    if (secret == NULL)
        return;
    struct head *h = (struct head *)(void *)(secret - offsetof(struct head, text));
    void *raw = h->raw;
    size_t size = h->size;
    assert(size >= sizeof(*h));
    explicit_bzero(h, size);
    (void)madvise(h, size, MADV_DODUMP); /* what comes there next may be looked at */
    rt_free(raw);
}

FILE *rt_secret_open(const char *path, char buffer[RT_SECRET_BUFFER])
{
    FILE *file = fopen(path, "re");

    if (file != NULL)
        (void)setvbuf(file, buffer, _IOFBF, RT_SECRET_BUFFER);
    return file;
}
