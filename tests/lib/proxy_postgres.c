/* SPDX-License-Identifier: Apache-2.0 */
/* How the fault proxy finds flights in PostgreSQL's protocol (version 3, without TLS). */
#include "proxy_framing.h"

#include <stdio.h>
#include <string.h>

#define HEAD 5 /* a letter, and the size of what follows, itself included */
#define SSL_REQUEST 80877103
#define GSS_REQUEST 80877104
#define AUTH_OK 0
#define AUTH_SASL_FINAL 12 /* AUTH_OK follows */

struct postgres_state {
    bool begun;         /* the client has said who it is: from then on messages have letters */
    bool asked_for_tls; /* which is answered by one letter without a size */
};

static uint32_t get32(const char *at)
{
    const uint8_t *u = (const uint8_t *)at;
    return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

/* The size of the message that begins at DATA; 0: it is incomplete, -1: it is not one. */
static ptrdiff_t message_at(const char *data, size_t len)
{
    if (len < HEAD)
        return 0;
    uint32_t size = get32(data + 1);
    if (size < 4 || size > 1u << 24)
        return -1;
    return size + 1 <= len ? (ptrdiff_t)size + 1 : 0;
}

/* Adds one word followed by a blank, unless it is there already. */
static void add_word(struct rt_proxy_message *msg, const char *word, size_t n)
{
    char what[80];
    size_t used = strlen(msg->words), size = strnlen(word, n < 64 ? n : 64);
    snprintf(what, sizeof(what), "%.*s ", (int)size, word);
    for (char *c = what; *c != '\0'; c++)
        *c = *c >= ' ' ? *c : '.';
    if (strstr(msg->words, what) == NULL && used + size + 2 <= sizeof(msg->words))
        snprintf(msg->words + used, sizeof(msg->words) - used, "%s", what);
}

/* Bind and Parse by the statement's name; a statement without one by its beginning. */
static void tell_words(const char *at, size_t size, struct rt_proxy_message *msg)
{
    static const char prepare[] = "PREPARE TRANSACTION";
    const char *body = at + HEAD, *end = at + size;
    size_t first = strnlen(body, (size_t)(end - body)); /* Bind: portal; Parse: statement */
    const char *second = body + first + 1 < end ? body + first + 1 : end;
    if (at[0] == 'B' && second < end && second[0] != '\0')
        add_word(msg, second, (size_t)(end - second));
    else if (at[0] == 'P' && first == 0)
        add_word(msg, second, (size_t)(end - second));
    else if (at[0] == 'Q')
        add_word(msg, body, first);
    if (at[0] == 'Q' && memmem(body, first, prepare, strlen(prepare)) != NULL)
        add_word(msg, prepare, strlen(prepare)); /* wherever in it that is */
}

/* ---- What clients say ------------------------------------------------------------------------------ */

static ptrdiff_t begin(struct postgres_state *st, const char *data, size_t len,
                       struct rt_proxy_message *msg)
{
    if (len < 8)
        return 0;
    uint32_t size = get32(data), code = get32(data + 4);
    if (size < 8 || size > 10000)
        return -1;
    if (size > len)
        return 0;
    msg->kind = RT_MESSAGE_REQUEST;
    st->asked_for_tls = code == SSL_REQUEST || code == GSS_REQUEST;
    st->begun = !st->asked_for_tls;
    snprintf(msg->words, sizeof(msg->words), "%s", st->begun ? "startup " : "tls ");
    return (ptrdiff_t)size;
}

/* A flight: all up to a Sync, or a plain query. */
static ptrdiff_t next_up(struct postgres_state *st, const char *data, size_t len,
                         struct rt_proxy_message *msg)
{
    if (!st->begun)
        return begin(st, data, len, msg);
    for (size_t at = 0;;) {
        ptrdiff_t n = message_at(data + at, len - at);
        if (n <= 0)
            return n;
        char letter = data[at];
        tell_words(data + at, (size_t)n, msg);
        at += (size_t)n;
        if (letter == 'X')
            return (ptrdiff_t)at;
        if (letter == 'p')
            snprintf(msg->words, sizeof(msg->words), "password ");
        if (letter == 'S' || letter == 'Q' || letter == 'p') {
            msg->kind = RT_MESSAGE_REQUEST;
            return (ptrdiff_t)at;
        }
    }
}

/* ---- What the server says -------------------------------------------------------------------------- */

static bool ends_reply(const char *at)
{
    uint32_t code = at[0] == 'R' ? get32(at + HEAD) : AUTH_OK;
    return at[0] == 'Z' || (code != AUTH_OK && code != AUTH_SASL_FINAL);
}

/* The answer to a flight is everything up to "ready for the next", with what is told meanwhile; a notification
 * outside it is a push. */
static ptrdiff_t next_down(struct postgres_state *st, const char *data, size_t len,
                           struct rt_proxy_message *msg)
{
    if (st->asked_for_tls) {
        st->asked_for_tls = false;
        msg->kind = RT_MESSAGE_REPLY;
        return 1;
    }
    for (size_t at = 0;;) {
        ptrdiff_t n = message_at(data + at, len - at);
        if (n <= 0)
            return n;
        char letter = data[at];
        if (at == 0 && letter == 'A') {
            size_t first = strnlen(data + HEAD + 4, (size_t)n - HEAD - 4); /* after who sent it */
            msg->kind = RT_MESSAGE_PUSH;
            add_word(msg, data + HEAD + 4, first);
            if (HEAD + 4 + first + 1 < (size_t)n)
                add_word(msg, data + HEAD + 4 + first + 1, (size_t)n - HEAD - 4 - first - 1);
        }
        if (at == 0 && (letter == 'A' || letter == 'S' || letter == 'N'))
            return n; /* the latter two pass as bytes */
        bool whole = n >= HEAD + 4 || letter != 'R';
        if (!whole)
            return -1;
        at += (size_t)n;
        if (ends_reply(data + at - (size_t)n)) {
            msg->kind = RT_MESSAGE_REPLY;
            snprintf(msg->words, sizeof(msg->words), "%c ", data[0]);
            return (ptrdiff_t)at;
        }
    }
}

static ptrdiff_t postgres_next(void *state, enum rt_proxy_dir dir, const char *data, size_t len,
                               struct rt_proxy_message *msg)
{
    msg->kind = RT_MESSAGE_BYTES;
    msg->words[0] = '\0';
    return dir == RT_PROXY_UP ? next_up(state, data, len, msg) : next_down(state, data, len, msg);
}

const struct rt_proxy_framing rt_proxy_postgres = {
    .name = "postgres", .state_size = sizeof(struct postgres_state), .next = postgres_next};
