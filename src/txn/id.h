/* SPDX-License-Identifier: Apache-2.0 */
/* The id of a transaction: 16 bytes, {journal u32, birth in ms u48, random u48}, each big-endian, so the ids of one
 * journal sort by birth. People see 32 hexadecimal digits. The top bit of the random part says where the id came from:
 * 1: rota-txn serve's newGid; 0: a transaction begun through the library. So neither can be mistaken for the other
 * (rt_txn_id_by_library).
 *
 * A **named** id is made from a text that somebody else chose (DTM's gid): the top bit of its birth is set, and the 95
 * bits after it are from the text's SHA-256. So whoever has the text finds the row without a directory, and two who
 * have the same text have the same row. A named id has no birth and is never below the floor: it counts as born after
 * all others. */
#ifndef RT_TXN_ID_H
#define RT_TXN_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RT_TXN_ID_SIZE 16
#define RT_TXN_ID_TEXT 33                         /* bytes of its text, with the NUL */
#define RT_TXN_BIRTH_MAX ((INT64_C(1) << 47) - 1) /* ms since 1970: the year 6429 */
#define RT_TXN_NAME_MAX 128                       /* bytes of a named id's text; at least 1 */

struct rt_txn_id {
    uint8_t at[RT_TXN_ID_SIZE];
};

static inline uint64_t rt_txn_id_part(const struct rt_txn_id *id, size_t from, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v = v << 8 | id->at[from + i];
    return v;
}

static inline uint32_t rt_txn_id_journal(const struct rt_txn_id *id)
{
    return (uint32_t)rt_txn_id_part(id, 0, 4);
}

static inline bool rt_txn_id_is_named(const struct rt_txn_id *id)
{
    return (id->at[4] & 0x80) != 0;
}

/* RT_TXN_BIRTH_MAX for a named id: no floor is above that. */
static inline int64_t rt_txn_id_birth(const struct rt_txn_id *id)
{
    return rt_txn_id_is_named(id) ? RT_TXN_BIRTH_MAX : (int64_t)rt_txn_id_part(id, 4, 6);
}

/* BIRTH_MS is clamped to 0 to RT_TXN_BIRTH_MAX; of RANDOM only the low 48 bits are used. */
static inline struct rt_txn_id rt_txn_id_make(uint32_t journal, int64_t birth_ms, uint64_t random)
{
    struct rt_txn_id id;
    uint64_t birth = birth_ms < 0                  ? 0
                     : birth_ms > RT_TXN_BIRTH_MAX ? (uint64_t)RT_TXN_BIRTH_MAX
                                                   : (uint64_t)birth_ms;
    for (size_t i = 0; i < 4; i++)
        id.at[i] = (uint8_t)(journal >> (24 - 8 * i));
    for (size_t i = 0; i < 6; i++) {
        id.at[4 + i] = (uint8_t)(birth >> (40 - 8 * i));
        id.at[10 + i] = (uint8_t)(random >> (40 - 8 * i));
    }
    return id;
}

#define RT_TXN_ID_SERVE (UINT64_C(1) << 47) /* in RANDOM: made by newGid */

/* It is not named, and newGid did not make it. */
static inline bool rt_txn_id_by_library(const struct rt_txn_id *id)
{
    return !rt_txn_id_is_named(id) && (id->at[10] & 0x80) == 0;
}

/* The lowest named id of JOURNAL: all its named ids, and no others, are at or above it. */
static inline struct rt_txn_id rt_txn_id_first_named(uint32_t journal)
{
    struct rt_txn_id id = rt_txn_id_make(journal, 0, 0);
    id.at[4] = 0x80;
    return id;
}

/* The id in JOURNAL of the text NAME, which is SIZE bytes long. (named.c) */
struct rt_txn_id rt_txn_id_named(uint32_t journal, const void *name, size_t size);

static inline bool rt_txn_id_same(const struct rt_txn_id *a, const struct rt_txn_id *b)
{
    return memcmp(a->at, b->at, RT_TXN_ID_SIZE) == 0;
}

/* OUT: RT_TXN_ID_TEXT bytes. */
static inline void rt_txn_id_text(const struct rt_txn_id *id, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < RT_TXN_ID_SIZE; i++) {
        out[2 * i] = digits[id->at[i] >> 4];
        out[2 * i + 1] = digits[id->at[i] & 15];
    }
    out[2 * RT_TXN_ID_SIZE] = '\0';
}

static inline int rt_txn_id_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* False: TEXT is not 32 hexadecimal digits, and OUT is unchanged. */
static inline bool rt_txn_id_read(const char *text, struct rt_txn_id *out)
{
    struct rt_txn_id id;
    for (size_t i = 0; i < RT_TXN_ID_SIZE; i++) {
        int high = rt_txn_id_digit(text[2 * i]);
        int low = high >= 0 ? rt_txn_id_digit(text[2 * i + 1]) : -1;
        if (low < 0)
            return false;
        id.at[i] = (uint8_t)(high << 4 | low);
    }
    if (text[2 * RT_TXN_ID_SIZE] != '\0')
        return false;
    *out = id;
    return true;
}

#endif
