/* SPDX-License-Identifier: Apache-2.0 */
/* Names of locks: what a caller may say, and how it is spelled on the engine. */
#include "engine/name.h"

#include "base/utf8.h"

#include <rota.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define HEX "0123456789ABCDEF"

static bool plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
}

static const char *text_fault(const char *text, size_t most)
{
    size_t size = 0;

    while (text[size] != '\0') {
        uint32_t value;
        size_t step = rt_utf8_next(text + size, &value);
        if (step == 0)
            return "is not UTF-8";
        if (value < 0x20 || (value >= 0x7f && value < 0xa0))
            return "has a control character in it";
        size += step;
        if (size > most)
            return "is longer than 255 bytes";
    }
    return NULL;
}

const char *rt_name_fault(const char *name)
{
    if (name == NULL)
        return "is missing";
    if (name[0] == '\0')
        return "is empty";
    return text_fault(name, RT_NAME_MAX);
}

static size_t spell(const char *text, bool raw, char *out)
{
    size_t used = 0;

    for (const unsigned char *s = (const unsigned char *)text; *s != '\0'; s++) {
        if (raw || plain(*s)) {
            out[used++] = (char)*s;
            continue;
        }
        out[used++] = '%';
        out[used++] = HEX[*s >> 4];
        out[used++] = HEX[*s & 15];
    }
    out[used] = '\0';
    return used;
}

int rt_spelling_init(struct rt_spelling *sp, const char *prefix, bool raw, char *errmsg,
                     size_t size)
{
    const char *fault = text_fault(prefix, RT_PREFIX_MAX);

    if (fault != NULL) {
        snprintf(errmsg, size, "the prefix in the URL %s: choose another", fault);
        return ROTA_INVALID;
    }
    sp->raw = raw;
    sp->prefix_size = spell(prefix, raw, sp->prefix);
    return 0;
}

size_t rt_name_spell(const struct rt_spelling *sp, const char *name, char *out)
{
    memcpy(out, sp->prefix, sp->prefix_size);
    return sp->prefix_size + spell(name, sp->raw, out + sp->prefix_size);
}

bool rt_name_escaped(const struct rt_spelling *sp, const char *spelled)
{
    return !sp->raw && strchr(spelled, '%') != NULL; /* '%' itself is always escaped */
}

const char *rt_name_spelled(const struct rt_spelling *sp, const char *name, char *out,
                            const char **extra)
{
    size_t size = 0;

    while (plain((unsigned char)name[size]))
        size++;
    bool as_it_is = sp->raw || name[size] == '\0';
    *extra = as_it_is ? NULL : name;
    if (as_it_is && sp->prefix_size == 0)
        return name;
    rt_name_spell(sp, name, out);
    return out;
}

static int hex_digit(char c)
{
    const char *at = c == '\0' ? NULL : strchr(HEX, c);
    return at == NULL ? -1 : (int)(at - HEX);
}

bool rt_name_read(const struct rt_spelling *sp, const char *spelled, char *out)
{
    size_t used = 0;

    if (strncmp(spelled, sp->prefix, sp->prefix_size) != 0)
        return false;
    const char *s = spelled + sp->prefix_size;
    while (*s != '\0' && used < RT_NAME_ROOM - 1) {
        if (sp->raw || plain((unsigned char)*s)) {
            out[used++] = *s++;
            continue;
        }
        int high = *s == '%' ? hex_digit(s[1]) : -1;
        int low = high < 0 ? -1 : hex_digit(s[2]);
        if (low < 0)
            return false;
        int byte = high * 16 + low;
        if (byte == 0 || plain((unsigned char)byte))
            return false;
        out[used++] = (char)byte;
        s += 3;
    }
    out[used] = '\0';
    return *s == '\0' && used > 0;
}
