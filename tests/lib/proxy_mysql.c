/* SPDX-License-Identifier: Apache-2.0 */
/* How the fault proxy finds commands in MariaDB's and MySQL's protocol (without TLS and compression). */
#include "proxy_framing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD 4
#define STATEMENTS 64          /* that are prepared on a connection: more pass without a name */
#define WITHOUT_EOF (1u << 24) /* CLIENT_DEPRECATE_EOF */
#define MORE 0x8               /* SERVER_MORE_RESULTS_EXISTS */

enum { COM_QUIT = 1, COM_QUERY = 3, COM_PREPARE = 22, COM_EXECUTE = 23, COM_CLOSE = 25 };

struct statement {
    uint32_t id;
    char words[RT_WORDS_MAX];
};

struct mysql_state {
    bool let_in, said_who, no_eof;
    uint8_t command; /* the last one: the next leaves when it is answered */
    char preparing[RT_WORDS_MAX];
    struct statement statements[STATEMENTS];
    size_t statement_count;
};

struct packet {
    const uint8_t *at, *end;
};

static uint32_t get(const uint8_t *at, size_t n)
{
    uint32_t value = 0;
    for (size_t i = n; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

/* The packet at *AT of DATA; *AT moves past it; false: it is incomplete. */
static bool packet_at(const char *data, size_t len, size_t *at, struct packet *p)
{
    if (len - *at < HEAD)
        return false;
    const uint8_t *u = (const uint8_t *)data + *at;
    size_t size = get(u, 3);
    if (len - *at - HEAD < size)
        return false;
    *p = (struct packet){u + HEAD, u + HEAD + size};
    *at += HEAD + size;
    return true;
}

static uint8_t first_of(const struct packet *p)
{
    return p->at < p->end ? p->at[0] : 0;
}

/* ---- What clients say ------------------------------------------------------------------------------ */

static void copy_words(char *out, const char *from, size_t n)
{
    size_t used = strlen(out);
    for (size_t i = 0; i < n && used + 1 < RT_WORDS_MAX; i++)
        out[used++] = from[i] >= ' ' ? from[i] : '.';
    out[used] = '\0';
}

/* Adds one word followed by a blank, unless it is there already. */
static void add_word(char *out, const char *word, size_t n)
{
    char what[80];
    snprintf(what, sizeof(what), "%.*s ", (int)(n < 64 ? n : 64), word);
    if (strstr(out, what) == NULL)
        copy_words(out, what, strlen(what));
}

/* The end of the statement that begins at AT: a semicolon outside of quotes, or END. */
static const char *statement_end(const char *at, const char *end)
{
    for (bool quoted = false; at < end && (quoted || *at != ';'); at++)
        quoted = quoted != (*at == '\'');
    return at;
}

static bool begins(const char *at, const char *end, const char *with)
{
    return (size_t)(end - at) > strlen(with) && memcmp(at, with, strlen(with)) == 0;
}

/* "XA PREPARE", "XA COMMIT": also within a compound statement. */
static void xa_words(char *out, const char *at, const char *end)
{
    while (at < end && *at == ' ')
        at++;
    if (!begins(at, end, "XA "))
        return;
    const char *blank = memchr(at + 3, ' ', (size_t)(end - at - 3));
    add_word(out, at, (size_t)((blank != NULL ? blank : end) - at));
}

/* Of each statement its first word; its name, if it has one; of XA two words. */
static void query_words(char *out, const char *text, size_t n)
{
    for (const char *at = text, *all = text + n, *end; at < all; at = end + 1) {
        end = statement_end(at, all);
        xa_words(out, at, end);
        if (begins(at, end, "EXECUTE ") || begins(at, end, "PREPARE "))
            at += strlen("EXECUTE ");
        const char *blank = memchr(at, ' ', (size_t)(end - at));
        add_word(out, at, (size_t)((blank != NULL ? blank : end) - at));
    }
}

static const char *prepared_words(const struct mysql_state *st, uint32_t id)
{
    for (size_t i = 0; i < st->statement_count; i++)
        if (st->statements[i].id == id)
            return st->statements[i].words;
    return "";
}

static void command_words(struct mysql_state *st, const struct packet *p, char *out)
{
    const char *text = (const char *)p->at + 1;
    size_t n = (size_t)(p->end - p->at) - 1;
    out[0] = '\0';
    if (st->command == COM_QUERY) {
        query_words(out, text, n);
    } else if (st->command == COM_PREPARE) {
        st->preparing[0] = '\0';
        copy_words(st->preparing, text, n);
        copy_words(out, "prepare ", 8);
        copy_words(out, text, n);
    } else if (st->command == COM_EXECUTE && n >= 4) {
        const char *words = prepared_words(st, get(p->at + 1, 4));
        copy_words(out, "execute ", 8);
        copy_words(out, words, strlen(words));
    }
}

static ptrdiff_t next_up(struct mysql_state *st, const char *data, size_t len,
                         struct rt_proxy_message *msg)
{
    size_t at = 0;
    struct packet p;
    if (!packet_at(data, len, &at, &p))
        return 0;
    if (!st->let_in) {
        if (!st->said_who && p.end - p.at >= 4)
            st->no_eof = get(p.at, 4) & WITHOUT_EOF;
        st->said_who = true;
        return (ptrdiff_t)at;
    }
    st->command = first_of(&p);
    if (st->command == COM_QUIT || st->command == COM_CLOSE)
        return (ptrdiff_t)at; /* unanswered */
    msg->kind = RT_MESSAGE_REQUEST;
    command_words(st, &p, msg->words);
    return (ptrdiff_t)at;
}

/* ---- What the server says -------------------------------------------------------------------------- */

static size_t skip_length(const uint8_t *at)
{
    return *at < 0xfb ? 1 : *at == 0xfc ? 3 : *at == 0xfd ? 4 : 9;
}

/* Whether another result follows an OK. */
static bool ok_has_more(const struct packet *p)
{
    const uint8_t *at = p->at + 1;
    for (int i = 0; i < 2 && at < p->end; i++)
        at += skip_length(at);
    return p->end - at >= 2 && (at[0] & MORE) != 0;
}

static bool skip_packets(const char *data, size_t len, size_t *at, size_t n)
{
    struct packet p;
    bool whole = true;
    while (whole && n-- > 0)
        whole = packet_at(data, len, at, &p);
    return whole;
}

/* Skips the rows after their definitions. False: they are incomplete. */
static bool skip_rows(const struct mysql_state *st, const char *data, size_t len, size_t *at,
                      bool *more)
{
    struct packet p;
    do {
        if (!packet_at(data, len, at, &p))
            return false;
    } while (first_of(&p) != 0xfe && first_of(&p) != 0xff);
    if (first_of(&p) == 0xfe)
        *more = st->no_eof ? ok_has_more(&p) : p.end - p.at == 5 && (p.at[3] & MORE) != 0;
    return true;
}

/* Skips what follows the head of the answer to a PREPARE: as many packets as it says. */
static bool skip_prepared(struct mysql_state *st, const char *data, size_t len, size_t *at,
                          const struct packet *head)
{
    if (head->end - head->at < 9)
        return true;
    size_t columns = get(head->at + 5, 2), marks = get(head->at + 7, 2);
    size_t ends = st->no_eof ? 0 : (columns > 0) + (size_t)(marks > 0);
    if (!skip_packets(data, len, at, columns + marks + ends))
        return false;
    if (st->statement_count < STATEMENTS) {
        struct statement *s = &st->statements[st->statement_count++];
        s->id = get(head->at + 1, 4);
        memcpy(s->words, st->preparing, sizeof(s->words));
    }
    return true;
}

/* All results of a command. */
static ptrdiff_t answer(struct mysql_state *st, const char *data, size_t len)
{
    bool more = true;
    size_t at = 0;
    while (more) {
        struct packet p;
        if (!packet_at(data, len, &at, &p))
            return 0;
        more = false;
        if (first_of(&p) == 0xff)
            break;
        if (st->command == COM_PREPARE) {
            if (!skip_prepared(st, data, len, &at, &p))
                return 0;
        } else if (first_of(&p) == 0) {
            more = ok_has_more(&p);
        } else if (!skip_packets(data, len, &at, first_of(&p) + (st->no_eof ? 0u : 1u)) ||
                   !skip_rows(st, data, len, &at, &more)) {
            return 0;
        }
    }
    return (ptrdiff_t)at;
}

static ptrdiff_t next_down(struct mysql_state *st, const char *data, size_t len,
                           struct rt_proxy_message *msg)
{
    size_t at = 0;
    struct packet p;
    if (!packet_at(data, len, &at, &p))
        return 0;
    if (!st->let_in) {
        st->let_in = st->said_who && first_of(&p) == 0;
        return (ptrdiff_t)at;
    }
    ptrdiff_t n = answer(st, data, len);
    msg->kind = RT_MESSAGE_REPLY;
    snprintf(msg->words, sizeof(msg->words), "%02x ", first_of(&p));
    return n;
}

static ptrdiff_t mysql_next(void *state, enum rt_proxy_dir dir, const char *data, size_t len,
                            struct rt_proxy_message *msg)
{
    msg->kind = RT_MESSAGE_BYTES;
    msg->words[0] = '\0';
    return dir == RT_PROXY_UP ? next_up(state, data, len, msg) : next_down(state, data, len, msg);
}

const struct rt_proxy_framing rt_proxy_mysql = {
    .name = "mysql", .state_size = sizeof(struct mysql_state), .next = mysql_next};
