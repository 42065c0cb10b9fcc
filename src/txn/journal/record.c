/* SPDX-License-Identifier: Apache-2.0 */
/* Branches as bytes. */
#include "txn/journal/record.h"

#include <assert.h>
#include <string.h>

static void put(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

static uint64_t get(const uint8_t *at, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v = v << 8 | at[i];
    return v;
}

size_t rt_record_size(const struct rt_journal_branch *branch)
{
    return RT_RECORD_HEAD + strlen(branch->resource) + 1 + branch->size;
}

void rt_record_write(const struct rt_journal_branch *branch, uint8_t *out)
{
    size_t name = strlen(branch->resource) + 1;
    assert(name <= RT_JOURNAL_NAME_MAX + 1 && branch->size <= RT_JOURNAL_BYTES_MAX);
    put(out, branch->number, 4);
    put(out + 4, branch->mode, 2);
    put(out + 6, name, 2);
    put(out + 8, branch->size, 4);
    memcpy(out + RT_RECORD_HEAD, branch->resource, name);
    if (branch->size > 0)
        memcpy(out + RT_RECORD_HEAD + name, branch->payload, branch->size);
}

bool rt_record_read(const uint8_t *bytes, size_t size, size_t *at, struct rt_journal_branch *out)
{
    if (*at > size || size - *at < RT_RECORD_HEAD)
        return false;
    const uint8_t *head = bytes + *at, *name = head + RT_RECORD_HEAD;
    size_t left = size - *at - RT_RECORD_HEAD, named = get(head + 6, 2), payload = get(head + 8, 4);
    if (named < 2 || named > left || payload > left - named || name[named - 1] != 0 ||
        memchr(name, 0, named - 1) != NULL)
        return false;
    *out = (struct rt_journal_branch){.number = (uint32_t)get(head, 4),
                                      .mode = (uint16_t)get(head + 4, 2),
                                      .resource = (const char *)name,
                                      .payload = payload > 0 ? name + named : NULL,
                                      .size = payload};
    *at += RT_RECORD_HEAD + named + payload;
    return true;
}

static size_t count_all(const uint8_t *bytes, size_t size, bool *whole)
{
    struct rt_journal_branch branch;
    size_t at = 0, count = 0;
    while (rt_record_read(bytes, size, &at, &branch))
        count++;
    *whole = at == size;
    return count;
}

/* The capacity of a list of COUNT: it doubles, so that branches that come one by one cost at most twice their room. */
static size_t room_of(size_t count)
{
    size_t room = 1;
    while (room < count)
        room *= 2;
    return count > 0 ? room : 0;
}

int rt_record_gather(struct rt_arena *arena, const uint8_t *bytes, size_t size, bool registered,
                     const struct rt_journal_branch **list, size_t *count)
{
    bool whole;
    size_t more = count_all(bytes, size, &whole), at = 0;
    if (!whole)
        return ROTA_PROTOCOL;
    if (more == 0)
        return 0;
    struct rt_journal_branch *all; /* we may write to it */
    memcpy((void *)&all, (const void *)list, sizeof(all));
    if (room_of(*count) < *count + more) {
        all = rt_arena_get(arena, room_of(*count + more) * sizeof(*all));
        if (all == NULL)
            return ROTA_NOMEM;
        if (*count > 0)
            memcpy(all, *list, *count * sizeof(*all));
    }
    for (size_t i = *count; i < *count + more; i++) {
        (void)rt_record_read(bytes, size, &at, &all[i]);
        all[i].registered = registered;
    }
    *list = all;
    *count += more;
    return 0;
}
