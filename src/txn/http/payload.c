/* SPDX-License-Identifier: Apache-2.0 */
/* A branch over HTTP as bytes. */
#include "txn/http/payload.h"

#include "txn/http/address.h"
#include "txn/journal/journal.h"

#include <rota.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define VERSION 1
#define TEXTS 4
#define HEAD (1 + 2 * TEXTS + 4)

_Static_assert(RT_HTTP_PAYLOAD_MAX + RT_JOURNAL_NAME_MAX + 64 < RT_JOURNAL_BYTES_MAX,
               "a branch fits into an op");

static const char *text_of(const struct rt_http_payload *p, size_t i)
{
    return i < 3 ? p->urls[i] : p->type;
}

static int check_type(const char *type, char *errmsg, size_t size)
{
    size_t n = strlen(type);
    bool good = n <= RT_HTTP_TYPE_MAX && (n == 0 || (type[0] != ' ' && type[n - 1] != ' '));

    for (; good && *type != '\0'; type++)
        good = *type >= ' ' && *type <= '~';
    if (good)
        return 0;
    snprintf(errmsg, size,
             "a content type has at most %d bytes, all of them visible: write it like "
             "application/json",
             RT_HTTP_TYPE_MAX);
    return ROTA_INVALID;
}

int rt_http_payload_check(const struct rt_http_payload *p, size_t *bytes, char *errmsg, size_t size)
{
    struct rt_http_address address;
    size_t n = HEAD;

    assert(p->body != NULL || p->size == 0);
    for (size_t i = 0; i < 3; i++)
        if (p->urls[i][0] != '\0' && rt_http_address_read(&address, p->urls[i], errmsg, size) != 0)
            return ROTA_INVALID;
    if (check_type(p->type, errmsg, size) != 0)
        return ROTA_INVALID;
    for (size_t i = 0; i < TEXTS; i++)
        n += strlen(text_of(p, i)) + 1;
    if (p->size > RT_HTTP_PAYLOAD_MAX || n + p->size > RT_HTTP_PAYLOAD_MAX) {
        snprintf(
            errmsg, size,
            "the body of a service's calls and their URLs have %zu bytes, but at most %d are kept: "
            "send a key, and leave the rest where the service finds it",
            n + p->size, RT_HTTP_PAYLOAD_MAX);
        return ROTA_INVALID;
    }
    *bytes = n + p->size;
    return 0;
}

static uint8_t *put(uint8_t *at, size_t value, int bytes)
{
    for (int i = bytes; i-- > 0;)
        *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

void rt_http_payload_write(const struct rt_http_payload *p, void *out)
{
    uint8_t *at = put(out, VERSION, 1);

    for (size_t i = 0; i < TEXTS; i++)
        at = put(at, strlen(text_of(p, i)), 2);
    at = put(at, p->size, 4);
    for (size_t i = 0; i < TEXTS; i++) {
        size_t n = strlen(text_of(p, i)) + 1;
        memcpy(at, text_of(p, i), n);
        at += n;
    }
    if (p->size > 0)
        memcpy(at, p->body, p->size);
}

static size_t get(const uint8_t *at, int bytes)
{
    size_t value = 0;

    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* The text of SIZE bytes at *AT, which moves past the text's 0; NULL: there is no such text. */
static const char *get_text(const uint8_t **at, const uint8_t *end, size_t size)
{
    const uint8_t *text = *at;

    if ((size_t)(end - text) < size + 1 || memchr(text, 0, size + 1) != text + size)
        return NULL;
    *at += size + 1;
    return (const char *)text;
}

bool rt_http_payload_read(const void *bytes, size_t size, struct rt_http_payload *out)
{
    const uint8_t *head = bytes, *at, *end;
    const char *texts[TEXTS];
    char errmsg[RT_SERVICE_LINE];
    size_t whole;

    if (size < HEAD || head[0] != VERSION)
        return false;
    at = head + HEAD;
    end = head + size;
    for (size_t i = 0; i < TEXTS; i++) {
        texts[i] = get_text(&at, end, get(head + 1 + 2 * i, 2));
        if (texts[i] == NULL)
            return false;
    }
    struct rt_http_payload p = {.urls = {texts[0], texts[1], texts[2]},
                                .type = texts[3],
                                .body = at,
                                .size = get(head + 1 + 2 * TEXTS, 4)};
    if ((size_t)(end - at) != p.size ||
        rt_http_payload_check(&p, &whole, errmsg, sizeof(errmsg)) != 0)
        return false;
    assert(whole == size);
    *out = p;
    return true;
}
