/* SPDX-License-Identifier: Apache-2.0 */
/* The table of names: a hash table that grows by doubling. */
#include "client/names.h"

#include "base/alloc.h"
#include "core/grant.h"

#include <assert.h>
#include <string.h>

#define FIRST_SIZE 16
#define LOAD 2 /* lines per bucket before it grows: memory per held lock counts */

void rt_names_init(struct rt_names *names, uint64_t seed)
{
    *names = (struct rt_names){.seed = seed};
}

static void free_line(struct rt_line *line)
{
    rt_free(line->s);
    rt_free(line);
}

void rt_names_fini(struct rt_names *names)
{
    for (size_t i = 0; i < names->size; i++) {
        struct rt_line *line = names->buckets[i], *next;
        for (; line != NULL; line = next) {
            next = line->hash_next;
            free_line(line);
        }
    }
    rt_free(names->buckets);
    *names = (struct rt_names){.seed = names->seed};
}

/* Multiply and fold, eight bytes at a time: names are short and this runs on every call. */
static uint64_t hash_all(const struct rt_names *names, const char *text, size_t size)
{
    uint64_t h = names->seed ^ size;

    while (size > 0) {
        uint64_t word = 0;
        size_t step = size < sizeof(word) ? size : sizeof(word);
        memcpy(&word, text, step);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
        text += step;
        size -= step;
    }
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

uint64_t rt_names_hash(const struct rt_names *names, const char *spelled)
{
    return hash_all(names, spelled, strlen(spelled));
}

static uint32_t hash_of(const struct rt_names *names, const char *text, size_t size)
{
    return (uint32_t)hash_all(names, text, size) & ~RT_NAMES_MARK;
}

static struct rt_line *find(const struct rt_names *names, const char *spelled, uint32_t hash)
{
    if (names->size == 0)
        return NULL;
    struct rt_line *line = names->buckets[hash & (names->size - 1)];
    while (line != NULL &&
           ((line->hash & ~RT_NAMES_MARK) != hash || strcmp(line->name, spelled) != 0))
        line = line->hash_next;
    return line;
}

struct rt_line *rt_names_find(const struct rt_names *names, const char *spelled)
{
    return find(names, spelled, hash_of(names, spelled, strlen(spelled)));
}

static void put(struct rt_names *names, struct rt_line *line)
{
    assert(names->size > 0);
    struct rt_line **bucket = &names->buckets[line->hash & (names->size - 1)];
    line->hash_next = *bucket;
    *bucket = line;
}

/* Twice as wide. Failure costs only longer chains, unless there is no table at all. */
static bool grow(struct rt_names *names)
{
    size_t old_size = names->size;
    size_t size = old_size == 0 ? FIRST_SIZE : 2 * old_size;
    struct rt_line **old = names->buckets;
    struct rt_line **buckets = rt_alloc(size * sizeof(struct rt_line *));
    if (buckets == NULL)
        return old_size > 0;
    names->buckets = buckets;
    names->size = size;
    for (size_t i = 0; i < old_size; i++) {
        struct rt_line *line = old[i], *next;
        for (; line != NULL; line = next) {
            next = line->hash_next;
            put(names, line);
        }
    }
    rt_free(old);
    return true;
}

struct rt_line *rt_names_get(struct rt_names *names, const char *spelled, const char *extra)
{
    size_t size = strlen(spelled);
    uint32_t hash = hash_of(names, spelled, size);
    struct rt_line *line = find(names, spelled, hash);

    if (line != NULL)
        return line;
    if (names->count >= LOAD * names->size && !grow(names))
        return NULL;
    size_t extra_size = extra != NULL ? strlen(extra) + 1 : 0;
    line = rt_alloc(offsetof(struct rt_line, name) + size + 1 + extra_size);
    if (line == NULL)
        return NULL;
    rt_line_init(line);
    line->hash = hash;
    memcpy(line->name, spelled, size + 1);
    if (extra_size > 0)
        memcpy(line->name + size + 1, extra, extra_size);
    put(names, line);
    names->count++;
    return line;
}

const char *rt_names_extra(const struct rt_line *line)
{
    return line->name + strlen(line->name) + 1;
}

void rt_names_drop(struct rt_names *names, struct rt_line *line)
{
    assert(rt_line_idle(line));
    struct rt_line **at = &names->buckets[line->hash & (names->size - 1)];
    while (*at != line)
        at = &(*at)->hash_next;
    *at = line->hash_next;
    names->count--;
    free_line(line);
}

struct rt_ticket *rt_names_shared(struct rt_line *line)
{
    if (line->s == NULL) {
        line->s = rt_alloc(sizeof(*line->s));
        if (line->s != NULL)
            rt_ticket_init(line->s, line, RT_SHARED, 0, 0, 0);
    }
    return line->s;
}
