/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: made, put into RESP, entered into the ledger. */
#include "engine/resp/link.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define DIGITS 24

/* ---- RESP ----------------------------------------------------------------------------------- */

size_t rt_resp_digits(char *out, uint64_t number)
{
    char reversed[DIGITS];
    size_t n = 0;
    do {
        reversed[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    for (size_t i = 0; i < n; i++)
        out[i] = reversed[n - 1 - i];
    return n;
}

static char *header(char *at, char type, uint64_t number)
{
    *at++ = type;
    at += rt_resp_digits(at, number);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

bool rt_resp_command(struct rt_resp_conn *c, size_t words)
{
    if (!rt_grow(&c->out, &c->out_room, c->out_size + DIGITS + 3, 1))
        return false;
    c->out_size = (size_t)(header(c->out + c->out_size, '*', words) - c->out);
    return true;
}

bool rt_resp_word(struct rt_resp_conn *c, const char *word, size_t size)
{
    if (!rt_grow(&c->out, &c->out_room, c->out_size + DIGITS + 5 + size, 1))
        return false;
    char *at = header(c->out + c->out_size, '$', size);
    if (size > 0)
        memcpy(at, word, size);
    at += size;
    *at++ = '\r';
    *at++ = '\n';
    c->out_size = (size_t)(at - c->out);
    return true;
}

bool rt_resp_words(struct rt_resp_conn *c, const char *const *words, size_t n)
{
    bool good = rt_resp_command(c, n);
    for (size_t i = 0; good && i < n; i++)
        good = rt_resp_word(c, words[i], strlen(words[i]));
    return good;
}

bool rt_resp_number(struct rt_resp_conn *c, uint64_t number)
{
    char text[DIGITS];
    return rt_resp_word(c, text, rt_resp_digits(text, number));
}

/* ---- Making and freeing --------------------------------------------------------------------- */

struct rt_resp_request *rt_resp_request_new(size_t size, int script, uint32_t place, size_t argc,
                                            const char *const *args, const size_t *lengths)
{
    size_t words_at = (size + sizeof(char *) - 1) / sizeof(char *) * sizeof(char *);
    size_t text_at = words_at + argc * (sizeof(char *) + sizeof(size_t)), all = text_at;
    for (size_t i = 0; i < argc; i++)
        all += lengths[i] + 1;

    struct rt_resp_request *rq = rt_alloc(all);
    if (rq == NULL)
        return NULL;
    rq->script = script;
    rq->place = place;
    rq->argc = argc;
    rq->args = (const char **)(void *)((char *)rq + words_at);
    rq->lengths = (size_t *)(rq->args + argc);
    char *text = (char *)rq + text_at;
    for (size_t i = 0; i < argc; i++) {
        rq->args[i] = text;
        rq->lengths[i] = lengths[i];
        if (lengths[i] > 0)
            memcpy(text, args[i], lengths[i]);
        text += lengths[i] + 1; /* rt_alloc has put the 0 there */
    }
    return rq;
}

struct rt_resp_request *rt_resp_request_bare(uint8_t what, uint32_t which)
{
    struct rt_resp_request *rq = rt_alloc(sizeof(*rq));
    if (rq == NULL)
        return NULL;
    rq->what = what;
    rq->which = which;
    return rq;
}

void rt_resp_request_free(struct rt_resp_request *rq)
{
    rt_free(rq->error);
    rt_free(rq);
}

void rt_resp_answer(struct rt_resp_conn *c, struct rt_resp_request *rq, int err, int status,
                    const redisReply *reply)
{
    if (!rt_resp_is_open(rq))
        return;
    rt_ledger_out(&rq->entry);
    c->on->answer(c, rq, err, status, reply);
}

/* ---- The ledger ------------------------------------------------------------------------------- */

static struct rt_resp_conn *of_ledger(struct rt_ledger *l)
{
    return (struct rt_resp_conn *)(void *)((char *)l - offsetof(struct rt_resp_conn, ledger));
}

static int on_send(struct rt_ledger *l, struct rt_entry *e, const void **via)
{
    struct rt_resp_conn *c = of_ledger(l);
    struct rt_resp_request *rq = (struct rt_resp_request *)(void *)e;
    struct rt_resp_node *node = c->places[rq->place];
    if (node == NULL || !rt_resp_link_usable(&node->work)) {
        rt_resp_want_place(c, rq->place);
        return ROTA_UNREACHABLE;
    }
    *via = &node->work;
    return rt_resp_link_send(&node->work, rq);
}

/* In flight its place stays, to swallow the reply, unless its link is gone. */
static void on_ended(struct rt_ledger *l, struct rt_entry *e, int err, const char *why)
{
    struct rt_resp_conn *c = of_ledger(l);
    struct rt_resp_request *rq = (struct rt_resp_request *)(void *)e;
    char at[RT_DIAL_AT + 8] = "";
    if (e->flying)
        snprintf(at, sizeof(at), "redis %s", rt_resp_at(e->via));
    (void)rt_ledger_say(l, e, err, why, "redis", at, c->last_trouble);
    if (!c->closing)
        c->on->answer(c, rq, err, 0, NULL);
    if (why != NULL || !e->flying)
        rt_resp_request_free(rq);
}

void rt_resp_ledger_open(struct rt_resp_conn *c)
{
    static const struct rt_ledger_user user = {.send = on_send, .ended = on_ended};
    rt_ledger_init(&c->ledger, c->base, &user);
}

static void free_one(struct rt_ledger *l, struct rt_entry *e)
{
    (void)l;
    rt_resp_request_free((struct rt_resp_request *)(void *)e);
}

void rt_resp_ledger_close(struct rt_resp_conn *c)
{
    rt_ledger_fini(&c->ledger, free_one);
}

void rt_resp_send(struct rt_resp_conn *c, struct rt_resp_request *rq)
{
    assert(c->places != NULL && rq->place < c->place_count);
    (void)rt_ledger_add(&c->ledger, &rq->entry);
}
