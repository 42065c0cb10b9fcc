/* SPDX-License-Identifier: Apache-2.0 */
/* What a lock is called on the server: PostgreSQL keys as incumbents derive them from names, and names
 * that fit. Pure. */
#include "engine/sql/hold/hold.h"

#include "engine/kit/hash.h"
#include "net/openssl.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK_MOST 64  /* bytes: MySQL's limit; MariaDB takes more */
#define TABLE_MOST 60 /* of 63 and 64 */
#define HASHED 17     /* a mark and 16 digits */

static const char *const names[] = {
    [RT_HOLD_HASHTEXTEXTENDED] = "hashtextextended",
    [RT_HOLD_HASHTEXT] = "hashtext",
    [RT_HOLD_SHA1LE] = "sha1le",
    [RT_HOLD_CRC32] = "crc32",
    [RT_HOLD_RAILS] = "rails",
    [RT_HOLD_RAW64] = "raw64",
    [RT_HOLD_RAWPAIR] = "rawpair",
};

bool rt_sqlhold_keys_find(const char *name, enum rt_sqlhold_keys *out)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0) {
            *out = (enum rt_sqlhold_keys)i;
            return true;
        }
    return false;
}

/* The CRC-32 of zip and Ethernet. */
static uint32_t crc32_of(const char *text)
{
    uint32_t crc = UINT32_MAX;
    for (; *text != '\0'; text++) {
        crc ^= (uint8_t)*text;
        for (int i = 0; i < 8; i++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static bool sha1le_of(const char *text, int64_t *key)
{
    uint8_t out[EVP_MAX_MD_SIZE];
    uint64_t v = 0;
    if (rt_openssl_load(NULL, 0) != 0 ||
        EVP_Digest(text, strlen(text), out, NULL, EVP_sha1(), NULL) != 1)
        return false;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | out[i];
    *key = (int64_t)v;
    return true;
}

static bool number_of(const char *text, const char **end, int64_t *out)
{
    char *stop;
    errno = 0;
    *out = strtoll(text, &stop, 10);
    *end = stop;
    return stop != text && errno == 0 && (*text == '-' || (*text >= '0' && *text <= '9'));
}

static int64_t pair(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a << 32 | ((uint64_t)b & UINT32_MAX));
}

static bool pair_of(const char *text, int64_t *key)
{
    const char *end;
    int64_t a, b;
    if (!number_of(text, &end, &a) || *end != ',' || !number_of(end + 1, &end, &b) ||
        *end != '\0' || a != (int32_t)a || b != (int32_t)b)
        return false;
    *key = pair(a, b);
    return true;
}

bool rt_sqlhold_key(enum rt_sqlhold_keys keys, const char *name, int64_t *key)
{
    const char *end;
    *key = 0;
    switch (keys) {
    case RT_HOLD_HASHTEXTEXTENDED:
    case RT_HOLD_HASHTEXT:
        return true;
    case RT_HOLD_SHA1LE:
        return sha1le_of(name, key);
    case RT_HOLD_CRC32:
        *key = crc32_of(name);
        return true;
    case RT_HOLD_RAILS:
        *key = pair(crc32_of(name) & INT32_MAX, 0);
        return true;
    case RT_HOLD_RAW64:
        return number_of(name, &end, key) && *end == '\0';
    case RT_HOLD_RAWPAIR:
        return pair_of(name, key);
    }
    return false;
}

void rt_sqlhold_lock_name(const char *name, char out[RT_HOLD_SPELLED])
{
    size_t size = strlen(name);
    if (size <= LOCK_MOST)
        snprintf(out, RT_HOLD_SPELLED, "%s", name);
    else
        snprintf(out, RT_HOLD_SPELLED, "%.*s:%016" PRIx64, LOCK_MOST - HASHED, name,
                 rt_hash(name, size));
}

const char *rt_sqlhold_no_table_name(enum rt_sql_tongue tongue, const char *name)
{
    size_t size = strlen(name), chars = 0;
    bool wide = false;
    for (const char *at = name; *at != '\0'; at++) {
        chars += ((unsigned char)*at & 0xc0) != 0x80;
        wide = wide || (unsigned char)*at >= 0xf0;
    }
    if (size == 0)
        return "it is empty";
    if (strcmp(name, "rota_hold") == 0)
        return "it is Rota's own";
    if (tongue == RT_SQL_POSTGRES)
        return size > 63 ? "it is longer than 63 bytes" : NULL;
    return chars > 64              ? "it is longer than 64 characters"
           : name[size - 1] == ' ' ? "it ends with a space"
           : wide                  ? "it has characters beyond U+FFFF"
                                   : NULL;
}

void rt_sqlhold_quote(char quote, const char *name, char out[2 * RT_HOLD_SPELLED])
{
    size_t n = 0;
    assert(strlen(name) < RT_HOLD_SPELLED - 2);
    out[n++] = quote;
    for (; *name != '\0'; name++) {
        if (*name == quote)
            out[n++] = quote;
        out[n++] = *name;
    }
    out[n++] = quote;
    out[n] = '\0';
}

void rt_sqlhold_table_name(const char *prefix, const char *name, char out[RT_HOLD_SPELLED])
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    size_t used = (size_t)snprintf(out, RT_HOLD_SPELLED, "%.40s", prefix);
    if (used == 0) { /* the name is a user's own table, as it is */
        (void)snprintf(out, RT_HOLD_SPELLED, "%s", name);
        return;
    }
    size_t first = used, size = strlen(name);
    bool plain = used + size <= TABLE_MOST && strspn(name, good) == size;
    size_t most = plain ? TABLE_MOST : TABLE_MOST - HASHED;
    assert(used < most);
    for (const char *at = name; *at != '\0' && used < most; at++)
        out[used++] = strchr(good, *at) != NULL ? *at : '_';
    out[used] = '\0';
    if (!plain) /* a plain name might end with such a hash, but never has its mark */
        snprintf(out + used, RT_HOLD_SPELLED - used, "$%016" PRIx64, rt_hash(name, size));
    assert(strlen(out) <= TABLE_MOST && strlen(out) >= first);
}
