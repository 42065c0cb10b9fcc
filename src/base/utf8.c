/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <assert.h>
#include <string.h>

size_t rt_utf8_next(const char *text, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* less has a shorter form */
    const unsigned char *p = (const unsigned char *)text;
    size_t bytes = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

    if (bytes == 0 || p[0] > 0xf4)
        return 0;
    *code = bytes == 1 ? p[0] : p[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) { /* the final NUL ends it too */
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (p[i] & 0x3f);
    }
    if (*code < least[bytes] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
        return 0;
    return bytes;
}

bool rt_utf8_is(const char *text)
{
    uint32_t code;

    while (*text != '\0') {
        size_t bytes = rt_utf8_next(text, &code);
        if (bytes == 0)
            return false;
        text += bytes;
    }
    return true;
}

char *rt_utf8_clean(const char *text, char *out, size_t size)
{
    size_t used = 0;
    uint32_t code;

    assert(size > 0);
    while (*text != '\0') {
        size_t bytes = rt_utf8_next(text, &code);
        size_t room = bytes > 0 ? bytes : 1;
        if (used + room >= size)
            break;
        if (bytes > 0)
            memmove(out + used, text, bytes);
        else
            out[used] = '?';
        used += room;
        text += room;
    }
    out[used] = '\0';
    return out;
}
