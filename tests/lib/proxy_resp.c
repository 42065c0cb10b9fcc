/* SPDX-License-Identifier: Apache-2.0 */
/* Framings of the fault proxy: raw bytes, and Redis' RESP2 scanned as it comes. */
#include "proxy_framing.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* ---- Raw ---------------------------------------------------------------- */

static ptrdiff_t raw_next(void *state, enum rt_proxy_dir dir, const char *data, size_t len,
                          struct rt_proxy_message *msg)
{
    (void)state;
    (void)dir;
    (void)data;
    msg->kind = RT_MESSAGE_BYTES;
    return (ptrdiff_t)len;
}

const struct rt_proxy_framing rt_proxy_raw = {.name = "raw", .next = raw_next};

/* ---- RESP --------------------------------------------------------------- */

#define WORD_MAX 64
#define BULK_MAX (512LL * 1024 * 1024) /* Redis' own limit (proto-max-bulk-len) */
#define ARRAY_MAX (1024LL * 1024)

/* A message is complete when nothing is left to come: one at first, each array adds its
 * elements, each element is one less. So no stack is needed. */
struct scanner {
    size_t at; /* where the element not yet complete begins */
    long long left;
};

struct resp_state {
    struct scanner scan[2];
    bool subscribed; /* has ever asked: arrays may be pushes */
};

static bool one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

/* Reads the number after the type byte at LINE; false: no number. */
static bool line_number(const char *line, const char *end, long long *out)
{
    bool minus = line + 1 < end && line[1] == '-';
    long long n = 0;
    const char *c = line + 1 + minus;

    if (c == end || end - c > 12)
        return false;
    for (; c < end; c++) {
        if (*c < '0' || *c > '9')
            return false;
        n = n * 10 + (*c - '0');
    }
    *out = minus ? -n : n;
    return true;
}

/* Takes one element; 1: taken, 0: not complete, -1: not RESP. */
static int scan_element(struct scanner *s, const char *data, size_t len)
{
    const char *line = data + s->at;
    const char *end = memchr(line, '\r', len - s->at);
    long long n = 0;
    size_t size;

    if (end == NULL || end + 1 == data + len)
        return len - s->at > 0 && !one_of(line[0], "*$+-:>%~#_,(=!") ? -1 : 0;
    if (end[1] != '\n')
        return -1;
    size = (size_t)(end - line) + 2;
    if (one_of(line[0], "*>~%")) {
        if (!line_number(line, end, &n) || n > ARRAY_MAX)
            return -1;
        s->left += n < 0 ? 0 : line[0] == '%' ? 2 * n : n;
    } else if (one_of(line[0], "$=!")) {
        if (!line_number(line, end, &n) || n > BULK_MAX)
            return -1;
        if (n >= 0)
            size += (size_t)n + 2;
        if (len - s->at < size)
            return 0;
    } else if (!one_of(line[0], "+-:#_,(")) {
        return -1;
    }
    s->at += size;
    s->left--;
    return 1;
}

/* The length of the first message, 0, -1. */
static ptrdiff_t scan(struct scanner *s, const char *data, size_t len)
{
    ptrdiff_t size;

    if (s->at == 0)
        s->left = 1;
    while (s->left > 0) {
        int rv = s->at < len ? scan_element(s, data, len) : 0;

        if (rv <= 0)
            return rv;
    }
    size = (ptrdiff_t)s->at;
    s->at = 0;
    return size;
}

struct words {
    char *out;
    size_t len, count;
};

static void add_word(struct words *w, const char *word, size_t len)
{
    if (len > WORD_MAX)
        len = WORD_MAX;
    if (w->len + len + 2 > RT_WORDS_MAX)
        return;
    if (w->count++ > 0)
        w->out[w->len++] = ' ';
    for (size_t i = 0; i < len; i++)
        w->out[w->len++] = word[i] > ' ' || (word[i] == ' ' && len > 1) ? word[i] : '.';
    w->out[w->len] = '\0';
}

/* The words of a complete message: its strings as they are, other elements with their type byte; arrays
 * by what is in them. Returns how many elements there were. */
static size_t take_words(const char *data, size_t len, char *out)
{
    struct words w = {.out = out};
    size_t at = 0;

    out[0] = '\0';
    while (at < len && w.len + WORD_MAX < RT_WORDS_MAX) {
        const char *line = data + at;
        const char *end = memchr(line, '\r', len - at);
        size_t size = (size_t)(end - line) + 2;
        long long n = 0;

        if (one_of(line[0], "$=!") && line_number(line, end, &n) && n >= 0) {
            add_word(&w, line + size, (size_t)n);
            size += (size_t)n + 2;
        } else if (!one_of(line[0], "*>~%")) {
            add_word(&w, line, size - 2);
        }
        at += size;
    }
    return w.count;
}

static bool begins(const char *words, const char *what)
{
    size_t len = strlen(what);

    return strncasecmp(words, what, len) == 0 && (words[len] == ' ' || words[len] == '\0');
}

static bool is_subscription(const char *words)
{
    static const char *const names[] = {"subscribe",   "psubscribe",   "ssubscribe",
                                        "unsubscribe", "punsubscribe", "sunsubscribe"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (begins(words, names[i]))
            return true;
    }
    return false;
}

static void tell_request(struct resp_state *st, const char *data, size_t len,
                         struct rt_proxy_message *msg)
{
    long long n = 1;

    msg->kind = RT_MESSAGE_REQUEST;
    msg->confirmations = 0;
    if (!is_subscription(msg->words))
        return;
    (void)line_number(data, memchr(data, '\r', len), &n); /* was scanned: is there */
    /* "Unsubscribe from all" is confirmed as often as there were channels: one counts, more pass as pushes. */
    msg->confirmations = n > 2 ? (uint32_t)n - 1 : 1;
    st->subscribed = true;
}

static void tell_answer(const struct resp_state *st, const char *data, struct rt_proxy_message *msg)
{
    bool array = data[0] == '*' || data[0] == '>';

    msg->kind = data[0] == '>' ? RT_MESSAGE_PUSH : RT_MESSAGE_REPLY;
    if (!array || !st->subscribed)
        return;
    if (is_subscription(msg->words))
        msg->kind = RT_MESSAGE_CONFIRM;
    else if (begins(msg->words, "message") || begins(msg->words, "smessage") ||
             begins(msg->words, "pmessage"))
        msg->kind = RT_MESSAGE_PUSH;
}

static ptrdiff_t resp_next(void *state, enum rt_proxy_dir dir, const char *data, size_t len,
                           struct rt_proxy_message *msg)
{
    struct resp_state *st = state;
    ptrdiff_t size;

    if (dir == RT_PROXY_UP && len > 0 && data[0] != '*') /* inline commands: for people, not us */
        return -1;
    size = scan(&st->scan[dir], data, len);
    if (size <= 0)
        return size;
    take_words(data, (size_t)size, msg->words);
    if (dir == RT_PROXY_UP)
        tell_request(st, data, (size_t)size, msg);
    else
        tell_answer(st, data, msg);
    return size;
}

const struct rt_proxy_framing rt_proxy_resp = {
    .name = "resp", .state_size = sizeof(struct resp_state), .next = resp_next};
