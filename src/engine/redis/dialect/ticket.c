/* SPDX-License-Identifier: Apache-2.0 */
/* What owners are called in each dialect. */
#include "engine/redis/dialect/dialect.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Who is who ------------------------------------------------------------------------------- */

static long long wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void rt_dia_id(const struct rt_dia_conn *c, uint64_t nonce, char out[RT_DIA_ID_SIZE])
{
    if (c->dialect->stamps)
        (void)snprintf(out, RT_DIA_ID_SIZE, "%lld", wall_ms());
    else if (c->dialect->uuid) /* a thread's number is an int64 */
        (void)snprintf(out, RT_DIA_ID_SIZE, "%s:%lld", c->uuid, (long long)(nonce & INT64_MAX));
    else
        (void)snprintf(out, RT_DIA_ID_SIZE, "%016llx%016llx", (unsigned long long)c->spin.session,
                       (unsigned long long)nonce);
}

bool rt_dia_is_mine(const struct rt_dia_conn *c, const char *id)
{
    char own[RT_DIA_ID_SIZE];
    rt_dia_id(c, 0, own);
    if (c->dialect->stamps)
        return false;
    return c->spin.session != 0 &&
           strncmp(id, own, c->dialect->uuid ? RT_DIA_UUID_SIZE - 1 : 16) == 0;
}

/* The digits of a UUID that are the session's: all of the first 18 but version and variant. */
uint64_t rt_dia_session_of(const struct rt_dia_conn *c, const char *id)
{
    char digits[17];
    size_t n = 0;
    if (!c->dialect->uuid) {
        (void)snprintf(digits, sizeof(digits), "%.16s", id);
        return strlen(id) == 32 ? strtoull(digits, NULL, 16) : 0;
    }
    for (size_t i = 0, digit = 0; id[i] != '\0' && n < 16; i++) {
        if (id[i] == '-')
            continue;
        if (digit != 12 && digit != 16)
            digits[n++] = id[i];
        digit++;
    }
    digits[n] = '\0';
    return n == 16 ? strtoull(digits, NULL, 16) : 0;
}

static bool is_made_of(const char *text, size_t size, const char *more)
{
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)text[i]) && strchr(more, text[i]) == NULL)
            return false;
    return true;
}

static bool is_hex(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!isxdigit((unsigned char)text[i]))
            return false;
    return true;
}

static bool is_uuid(const char *text)
{
    static const uint8_t dashes[] = {8, 13, 18, 23};
    for (size_t i = 0; i < sizeof(dashes); i++)
        if (text[dashes[i]] != '-')
            return false;
    return is_made_of(text, 36, "-");
}

/* By the shape of their tokens, which each writes in its own way. */
static const char *maker(const char *token)
{
    size_t size = strlen(token);
    if (size == 32 && is_hex(token, size))
        return token[12] == '1' && strchr("89ab", token[16]) != NULL
                   ? "redis-py"
                   : "node-redlock, or another with 32 digits";
    if (size == 36 && is_uuid(token))
        return "Spring, or another with a UUID";
    if (size == 24 && strcmp(token + 22, "==") == 0 && is_made_of(token, 22, "+/"))
        return "redsync";
    if (size >= 22 && strncmp(token, "ADDED:", 6) != 0 && is_made_of(token, 22, "-_"))
        return "redislock";
    return strncmp(token, "ADDED:", 6) == 0 ? "ShedLock" : "a foreign client";
}

void rt_dia_whose(const struct rt_dia_conn *c, const char *id, char *out, size_t size)
{
    char seen[100];
    size_t n = 0;
    for (; id[n] != '\0' && n + 1 < sizeof(seen); n++)
        seen[n] = isprint((unsigned char)id[n]) ? id[n] : '?';
    seen[n] = '\0';
    if (c->dialect->uuid && strlen(id) > 37 && is_uuid(id))
        (void)snprintf(out, size, "Redisson %.36s, thread %s", seen, seen + 37);
    else
        (void)snprintf(out, size, "%s (%s)", c->dialect->uuid ? "a foreign client" : maker(id),
                       seen);
}

bool rt_dia_text_read(const char *text, struct rota_place *place, struct rt_text *label,
                      struct rt_text *value)
{
    char *end;
    place->owner = strtoull(text, &end, 10);
    if (end == text || end[0] != ' ' || end[1] == '\0' || end[2] != ' ')
        return false;
    if (end[1] == 'd')
        place->flags |= ROTA_PLACE_DETECT;
    const char *at = end + 3;
    size_t size = strtoul(at, &end, 10);
    if (end == at || *end != ' ' || strlen(end + 1) < size)
        return false;
    *label = (struct rt_text){end + 1, size};
    *value = (struct rt_text){end + 1 + size, strlen(end + 1 + size)};
    return true;
}
