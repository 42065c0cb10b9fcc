/* SPDX-License-Identifier: Apache-2.0 */
/* A record of the journal in etcd, written and read. */
#include "txn/journal/etcd/entry.h"

#include "txn/journal/record.h"

#include <assert.h>
#include <string.h>

static uint8_t *add(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    return at + bytes;
}

static uint64_t take(const uint8_t **at, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v = v << 8 | *(*at)++;
    return v;
}

static uint8_t *add_bytes(uint8_t *at, const void *bytes, size_t size)
{
    if (size > 0)
        memcpy(at, bytes, size);
    return at + size;
}

size_t rt_entry_size(const struct rt_entry_record *r)
{
    return RT_ENTRY_HEAD + r->label_size + r->branches_size + r->registered_size;
}

size_t rt_entry_write(const struct rt_entry_record *r, bool whole, uint8_t *out)
{
    size_t size = rt_entry_size(r) - (whole ? 0 : r->registered_size);
    uint8_t *at = out;
    if (out == NULL)
        return size;
    at = add(at, 1, 1);
    at = add(at, r->stands, 1);
    at = add(at, r->done, 1);
    at = add(at, r->label_size, 1);
    at = add(at, r->registered, 4);
    at = add(at, r->branches_size, 4);
    at = add(at, (uint64_t)r->deadline_ms, 8);
    at = add(at, (uint64_t)r->decided_ms, 8);
    at = add(at, r->claimer, 8);
    at = add(at, (uint64_t)r->claimed_ms, 8);
    assert(at == out + RT_ENTRY_HEAD);
    at = add_bytes(at, r->label, r->label_size);
    at = add_bytes(at, r->branches, r->branches_size);
    if (whole)
        at = add_bytes(at, r->registered_bytes, r->registered_size);
    assert(at == out + size);
    return size;
}

bool rt_entry_read(const uint8_t *bytes, size_t size, struct rt_entry_record *r)
{
    const uint8_t *at = bytes;
    if (size < RT_ENTRY_HEAD || take(&at, 1) != 1)
        return false;
    *r = (struct rt_entry_record){.stands = (enum rt_journal_stand)take(&at, 1)};
    uint64_t done = take(&at, 1);
    r->label_size = take(&at, 1);
    r->registered = (uint32_t)take(&at, 4);
    r->branches_size = take(&at, 4);
    r->deadline_ms = (int64_t)take(&at, 8);
    r->decided_ms = (int64_t)take(&at, 8);
    r->claimer = take(&at, 8);
    r->claimed_ms = (int64_t)take(&at, 8);
    r->done = done == 1;
    size_t left = size - RT_ENTRY_HEAD;
    if (r->stands < RT_JOURNAL_OPEN || r->stands > RT_JOURNAL_ABORT || done > 1 ||
        r->label_size > left || r->branches_size > left - r->label_size || r->deadline_ms < 0 ||
        r->deadline_ms > RT_TXN_BIRTH_MAX)
        return false;
    r->label = (const char *)at;
    r->branches = at + r->label_size;
    r->registered_bytes = r->branches + r->branches_size;
    r->registered_size = left - r->label_size - r->branches_size;
    return true;
}

bool rt_entry_has(const uint8_t *bytes, size_t size, uint32_t number)
{
    struct rt_journal_branch branch;
    size_t at = 0;
    while (rt_record_read(bytes, size, &at, &branch))
        if (branch.number == number)
            return true;
    return false;
}
