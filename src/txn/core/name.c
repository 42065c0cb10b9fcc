/* SPDX-License-Identifier: Apache-2.0 */
/* The name by which a participant keeps a branch: its text. */
#include "txn/core/name.h"

#include <assert.h>

static void put(char *out, uint64_t value, size_t digits)
{
    assert(digits < 16 && value >> (4 * digits) == 0); /* it fits */
    for (size_t i = 0; i < digits; i++)
        out[i] = "0123456789abcdef"[value >> 4 * (digits - 1 - i) & 15];
}

/* Only what put() writes, so a name has just one text: no capital letters. The NUL is no digit. */
static bool get(const char *text, size_t digits, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = text[i] >= 'A' && text[i] <= 'F' ? -1 : rt_txn_id_digit(text[i]);
        if (digit < 0)
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *out = value;
    return true;
}

void rt_name_text(const struct rt_name *name, char out[RT_NAME_TEXT])
{
    assert(name->deadline_ms >= 0 && name->deadline_ms <= RT_TXN_BIRTH_MAX);
    rt_txn_id_text(&name->id, out);
    out[32] = '-';
    put(out + 33, name->branch, 8);
    out[41] = '-';
    put(out + 42, (uint64_t)name->deadline_ms, 12);
    out[54] = '\0';
}

static bool get_id(const char *text, struct rt_txn_id *out)
{
    for (size_t i = 0; i < RT_TXN_ID_SIZE; i++) {
        uint64_t byte;
        if (!get(text + 2 * i, 2, &byte))
            return false;
        out->at[i] = (uint8_t)byte;
    }
    return true;
}

bool rt_name_parse(const char *text, struct rt_name *out)
{
    struct rt_txn_id id;
    uint64_t branch, deadline;
    if (!get_id(text, &id) || text[32] != '-' || !get(text + 33, 8, &branch) || text[41] != '-' ||
        !get(text + 42, 12, &deadline) || deadline > RT_TXN_BIRTH_MAX || text[54] != '\0')
        return false;
    *out = (struct rt_name){id, (uint32_t)branch, (int64_t)deadline};
    return true;
}

void rt_name_ticket(const struct rt_name *name, char out[RT_NAME_TICKET])
{
    assert(name->deadline_ms >= 0 && name->deadline_ms <= RT_TXN_BIRTH_MAX);
    rt_txn_id_text(&name->id, out);
    out[32] = '-';
    put(out + 33, (uint64_t)name->deadline_ms, 12);
    out[45] = '\0';
}

bool rt_name_ticket_parse(const char *text, struct rt_name *out)
{
    struct rt_txn_id id;
    uint64_t deadline;
    if (!get_id(text, &id) || text[32] != '-' || !get(text + 33, 12, &deadline) ||
        deadline > RT_TXN_BIRTH_MAX || text[45] != '\0')
        return false;
    *out = (struct rt_name){id, 0, (int64_t)deadline};
    return true;
}
