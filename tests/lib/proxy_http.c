/* SPDX-License-Identifier: Apache-2.0 */
/* How the fault proxy finds messages of HTTP/1.1 (without TLS): a head, and a body as long as the head says. */
#include "proxy_framing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEAD_MOST 65536
#define BODY_MOST (8u << 20)

/* The length of the head with the empty line after it; 0: it is incomplete, -1: it is not one. */
static ptrdiff_t head_at(const char *data, size_t len)
{
    const char *end = memmem(data, len, "\r\n\r\n", 4);

    if (end == NULL)
        return len > HEAD_MOST ? -1 : 0;
    return end + 4 - data;
}

/* Whether NAME begins the line that ends before END. */
static bool begins(const char *line, const char *end, const char *name)
{
    return (size_t)(end - line) >= strlen(name) && strncasecmp(line, name, strlen(name)) == 0;
}

/* What Content-Length says, 0 without one; -1: the body's length is given another way. */
static ptrdiff_t body_of(const char *head, size_t len)
{
    static const char length[] = "Content-Length:", coding[] = "Transfer-Encoding:";
    unsigned long body = 0;

    for (const char *line = head, *end = head + len; line < end;) {
        const char *next = memmem(line, (size_t)(end - line), "\r\n", 2);
        if (begins(line, end, coding))
            return -1;
        if (begins(line, end, length))
            body = strtoul(line + sizeof(length) - 1, NULL, 10);
        line = next != NULL ? next + 2 : end;
    }
    return body <= BODY_MOST ? (ptrdiff_t)body : -1;
}

static void add_words(struct rt_proxy_message *msg, const char *text, size_t size)
{
    size_t used = strlen(msg->words);

    snprintf(msg->words + used, sizeof(msg->words) - used, "%.*s ", (int)(size < 100 ? size : 100),
             text);
    for (char *c = msg->words + used; *c != '\0'; c++)
        *c = *c >= ' ' ? *c : '.';
}

static ptrdiff_t http_next(void *state, enum rt_proxy_dir dir, const char *data, size_t len,
                           struct rt_proxy_message *msg)
{
    ptrdiff_t head = head_at(data, len);

    (void)state;
    msg->kind = RT_MESSAGE_BYTES;
    msg->words[0] = '\0';
    if (head <= 0)
        return head;
    bool goes_on = dir == RT_PROXY_DOWN && strncmp(data, "HTTP/1.1 100", 12) == 0;
    ptrdiff_t body = goes_on ? 0 : body_of(data, (size_t)head);
    if (body < 0)
        return -1;
    if ((size_t)(head + body) > len)
        return 0;
    const char *rest = memmem(data, (size_t)head, " HTTP/1.", 8);
    if (dir == RT_PROXY_UP && rest == NULL)
        return -1;
    if (dir == RT_PROXY_UP) {
        add_words(msg, data, (size_t)(rest - data));
        add_words(msg, data + head, (size_t)body);
    } else {
        add_words(msg, data + sizeof("HTTP/1.1"), 3);
    }
    if (!goes_on)
        msg->kind = dir == RT_PROXY_UP ? RT_MESSAGE_REQUEST : RT_MESSAGE_REPLY;
    return head + body;
}

const struct rt_proxy_framing rt_proxy_http = {.name = "http", .next = http_next};
