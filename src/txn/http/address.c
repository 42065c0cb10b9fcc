/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of services, read strictly. */
#include "txn/http/address.h"

#include <rota.h>

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static int fault(char *errmsg, size_t size, const char *what)
{
    snprintf(errmsg, size, "%s", what);
    return ROTA_INVALID;
}

/* What may stand in a URL as it is sent (RFC 3986), except the fragment. URLs are read at each call, so this does not
 * search a string for each byte. */
static bool is_plain(const char *text)
{
    static const bool barred[128] = {
        ['"'] = true, ['<'] = true, ['>'] = true, ['\\'] = true, ['^'] = true,
        ['`'] = true, ['{'] = true, ['|'] = true, ['}'] = true,  ['#'] = true};

    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~' || barred[(unsigned char)*text])
            return false;
    return true;
}

static bool is_host(const char *host, size_t size, bool brackets)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)host[i];
        if (brackets ? !isxdigit(c) && c != ':' && c != '.'
                     : !isalnum(c) && strchr("-._", c) == NULL)
            return false;
    }
    return size > 0 && size <= 255;
}

static bool read_port(const char *text, size_t size, uint16_t *port)
{
    uint32_t value = 0;

    for (size_t i = 0; i < size; i++) {
        if (!isdigit((unsigned char)text[i]) || size > 5)
            return false;
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    *port = (uint16_t)value;
    return value > 0 && value <= 65535;
}

static bool is_loopback(const struct rt_http_address *a)
{
    static const char *const names[] = {"localhost", "::1"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (a->host_size == strlen(names[i]) && memcmp(a->host, names[i], a->host_size) == 0)
            return true;
    return a->host_size > 4 && memcmp(a->host, "127.", 4) == 0 &&
           strspn(a->host, "0123456789.") >= a->host_size;
}

/* HOST, HOST:PORT, [V6] or [V6]:PORT; SIZE bytes. */
static int read_authority(struct rt_http_address *a, const char *text, size_t size, char *errmsg,
                          size_t room)
{
    bool brackets = size > 0 && text[0] == '[';
    const char *end = brackets ? memchr(text, ']', size) : memchr(text, ':', size);
    const char *rest = end == NULL ? text + size : end + (brackets ? 1 : 0);

    if (memchr(text, '@', size) != NULL)
        return fault(
            errmsg, room,
            "the URL has a user or a password in it, which the journal would keep: name the "
            "service in the file of resources, with ?token_file=");
    if (brackets && end == NULL)
        return fault(errmsg, room,
                     "the URL has a [ without its ]: write it like http://[::1]:8080/");
    a->host = brackets ? text + 1 : text;
    a->host_size = (size_t)((end == NULL ? text + size : end) - a->host);
    if (!is_host(a->host, a->host_size, brackets))
        return fault(errmsg, room,
                     "the URL has no host, or an invalid one: write it like "
                     "https://stock.example/try");
    a->port = a->secure ? 443 : 80;
    if (rest == text + size)
        return 0;
    if (*rest != ':' || !read_port(rest + 1, (size_t)(text + size - rest) - 1, &a->port))
        return fault(errmsg, room, "the URL has a port that is no number from 1 to 65535");
    return 0;
}

int rt_http_address_read(struct rt_http_address *out, const char *text, char *errmsg, size_t size)
{
    struct rt_http_address a = {.is_path = text[0] == '/'};
    size_t scheme = strncmp(text, "https://", 8) == 0  ? 8
                    : strncmp(text, "http://", 7) == 0 ? 7
                                                       : 0;

    assert(size > 0);
    if (strlen(text) > RT_HTTP_URL_MAX)
        return fault(errmsg, size, "the URL is longer than 2048 bytes: shorten it");
    if (!is_plain(text))
        return fault(errmsg, size,
                     "the URL has a byte that must be escaped (%XX), or a fragment (#)");
    if (a.is_path && text[1] == '/')
        return fault(errmsg, size, "a path begins with one slash, not with two");
    if (!a.is_path && scheme == 0)
        return fault(errmsg, size,
                     "the URL begins neither with http:// nor with https:// nor with / "
                     "(the path of a service that has a name)");
    if (!a.is_path) {
        size_t authority = strcspn(text + scheme, "/?");
        a.secure = scheme == 8;
        a.origin = scheme + authority;
        int rv = read_authority(&a, text + scheme, authority, errmsg, size);
        if (rv != 0)
            return rv;
        a.is_local = is_loopback(&a);
    }
    *out = a;
    return 0;
}
