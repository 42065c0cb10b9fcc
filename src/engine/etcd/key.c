/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values in etcd, written and read; a foreign or broken one is read too. */
#include "engine/etcd/key.h"

#include "core/grant.h"

#include <stdio.h>
#include <string.h>

static const char magic[] = "rota1 ";
#define MAGIC_SIZE (sizeof(magic) - 1)
#define FAMILY_SIZE (MAGIC_SIZE - 2) /* "rota": the layout's number follows */

/* ---- Keys ------------------------------------------------------------------------------------- */

static size_t printed(int n)
{
    return n > 0 && n < (int)RT_ETCD_KEY_MAX ? (size_t)n : 0;
}

size_t rt_etcd_key(char *out, const char *name, uint64_t session, bool durable, uint64_t nonce)
{
    return printed(snprintf(out, RT_ETCD_KEY_MAX, "%s/%s%llx-%llx", name, durable ? "p" : "",
                            (unsigned long long)session, (unsigned long long)nonce));
}

size_t rt_etcd_key_spot(char *out, const char *name, uint64_t session, uint64_t spot)
{
    return printed(snprintf(out, RT_ETCD_KEY_MAX, "%s/%llx-s%llx", name,
                            (unsigned long long)session, (unsigned long long)spot));
}

size_t rt_etcd_line_begin(char *out, const char *name)
{
    return printed(snprintf(out, RT_ETCD_KEY_MAX, "%s/", name));
}

size_t rt_etcd_line_end(char *out, const char *name)
{
    return printed(snprintf(out, RT_ETCD_KEY_MAX, "%s%c", name, '/' + 1));
}

/* Up to 16 digits as we write them; *AT is moved past them. False: none, or padded, or too many. */
static bool read_hex(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    const uint8_t *p = *at;
    uint64_t number = 0;
    for (; p < end; p++) {
        unsigned digit;
        if (*p >= '0' && *p <= '9')
            digit = (unsigned)(*p - '0');
        else if (*p >= 'a' && *p <= 'f')
            digit = (unsigned)(*p - 'a') + 10;
        else
            break;
        if (p - *at == 16)
            return false;
        number = number << 4 | digit;
    }
    if (p == *at || (**at == '0' && p - *at > 1))
        return false;
    *at = p;
    *out = number;
    return true;
}

static void read_id(const uint8_t *at, const uint8_t *end, struct rt_etcd_id *id)
{
    struct rt_etcd_id got = {0};
    *id = got;
    /* 'p' is no digit of a lease. 'd' would be: etcd's leases begin with it where the id of a member does. */
    if (at < end && *at == 'p' && memchr(at, '-', (size_t)(end - at)) != NULL) {
        got.durable = true;
        at++;
    }
    if (!read_hex(&at, end, &got.session))
        return;
    if (at == end) {
        *id = got; /* foreign: a lease alone */
        return;
    }
    if (*at++ != '-')
        return;
    bool spot = at < end && *at == 's' && !got.durable;
    at += spot;
    if (!read_hex(&at, end, spot ? &got.spot : &got.nonce) || at != end ||
        (got.nonce == 0 && got.spot == 0))
        return;
    got.ours = true;
    *id = got;
}

bool rt_etcd_key_read(const uint8_t *key, size_t n, size_t *name_size, struct rt_etcd_id *id)
{
    const uint8_t *slash = n > 0 ? memrchr(key, '/', n) : NULL;
    if (slash == NULL)
        return false;
    *name_size = (size_t)(slash - key);
    read_id(slash + 1, key + n, id);
    return true;
}

/* ---- Values ------------------------------------------------------------------------------------ */

struct text {
    const uint8_t *at, *end;
    bool bad;
};

/* A decimal number and the space behind it. */
static uint64_t take_number(struct text *t)
{
    uint64_t number = 0;
    const uint8_t *begin = t->at;
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        unsigned digit = (unsigned)(*t->at - '0');
        if (number > (UINT64_MAX - digit) / 10) {
            t->bad = true;
            return 0;
        }
        number = number * 10 + digit;
    }
    if (t->at == begin || t->at == t->end || *t->at != ' ') {
        t->bad = true;
        return 0;
    }
    t->at++;
    return number;
}

static uint32_t take_small(struct text *t)
{
    uint64_t number = take_number(t);
    t->bad = t->bad || number > UINT32_MAX;
    return (uint32_t)number;
}

/* Letters; those of a later minor version mean nothing to us. */
static uint32_t take_flags(struct text *t)
{
    uint32_t flags = 0;
    for (; t->at < t->end && *t->at != ' '; t->at++) {
        if (*t->at == 'd')
            flags |= RT_ETCD_CARD_DETECT;
        else if (*t->at == 'l')
            flags |= RT_ETCD_CARD_LEFT;
    }
    if (t->at == t->end)
        t->bad = true;
    else
        t->at++;
    return flags;
}

static bool read_words(struct rt_etcd_card *card, struct text *t)
{
    card->mode = take_small(t);
    card->take = take_small(t);
    card->of = take_small(t);
    card->flags = take_flags(t);
    card->owner = take_number(t);
    card->bound = take_number(t);
    uint64_t since = take_number(t);
    card->nonce = take_number(t);
    uint64_t size = take_number(t);
    if (t->bad || since > INT64_MAX || size >= (size_t)(t->end - t->at) || t->at[size] != ' ' ||
        !rt_grant_valid(card->mode, card->take, card->of))
        return false;
    card->since_ms = (int64_t)since;
    card->label = t->at;
    card->label_size = (size_t)size;
    card->value = t->at + size + 1;
    card->value_size = (size_t)(t->end - card->value);
    return true;
}

/* "rotaN " with another N. */
static bool is_newer(const uint8_t *bytes, size_t n)
{
    return n >= MAGIC_SIZE && memcmp(bytes, magic, FAMILY_SIZE) == 0 && bytes[FAMILY_SIZE] >= '2' &&
           bytes[FAMILY_SIZE] <= '9' && bytes[FAMILY_SIZE + 1] == ' ';
}

void rt_etcd_card_read(struct rt_etcd_card *card, const uint8_t *bytes, size_t n)
{
    static const uint8_t none[1] = {0};
    *card = (struct rt_etcd_card){.label = none, .value = none};
    if (n >= MAGIC_SIZE && memcmp(bytes, magic, MAGIC_SIZE) == 0) {
        struct text t = {bytes + MAGIC_SIZE, bytes + n, false};
        if (read_words(card, &t))
            return;
        *card = (struct rt_etcd_card){.label = none, .value = none};
    }
    card->mode = RT_EXCLUSIVE;
    card->plain = true;
    card->newer = is_newer(bytes, n);
    if (n > 0)
        card->value = bytes;
    card->value_size = n;
}

static size_t add(char *out, size_t at, const uint8_t *bytes, size_t n, size_t most)
{
    n = n < most ? n : most;
    if (n > 0)
        memcpy(out + at, bytes, n);
    return at + n;
}

size_t rt_etcd_card_write(const struct rt_etcd_card *card, char *out)
{
    if (card->plain)
        return add(out, 0, card->value, card->value_size, ROTA_VALUE_MAX);
    size_t label = card->label_size < RT_LABEL_MAX ? card->label_size : RT_LABEL_MAX;
    int n = snprintf(out, RT_ETCD_CARD_MAX, "%s%u %u %u %s%s%s %llu %llu %lld %llu %zu ", magic,
                     card->mode, card->take, card->of, card->flags == 0 ? "-" : "",
                     card->flags & RT_ETCD_CARD_DETECT ? "d" : "",
                     card->flags & RT_ETCD_CARD_LEFT ? "l" : "", (unsigned long long)card->owner,
                     (unsigned long long)card->bound, (long long)card->since_ms,
                     (unsigned long long)card->nonce, label);
    size_t at = add(out, (size_t)n, card->label, card->label_size, RT_LABEL_MAX);
    out[at++] = ' ';
    return add(out, at, card->value, card->value_size, ROTA_VALUE_MAX);
}

bool rt_etcd_plain_fits(const char *value)
{
    if (strncmp(value, magic, FAMILY_SIZE) != 0)
        return true;
    /* Only a number and a space make it a card: a host may well be called rota2-example. */
    size_t digits = strspn(value + FAMILY_SIZE, "0123456789");
    return digits == 0 || value[FAMILY_SIZE + digits] != ' ';
}
