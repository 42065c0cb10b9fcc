/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of scripts on their way out, elements of replies on their way in. */
#include "engine/redis/ops.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Arguments -------------------------------------------------------------------------- */

void rt_redis_args_few(struct rt_redis_args *a)
{
    a->count = a->used = 0;
    a->heap = NULL;
    a->at = a->own_at;
    a->lengths = a->own_lengths;
    a->text = a->own_text;
    a->room = RT_REDIS_ARGS_OWN;
    a->text_room = RT_REDIS_TEXT_OWN;
}

int rt_redis_args_open(struct rt_redis_args *a, size_t count, size_t text)
{
    rt_redis_args_few(a);
    if (count <= a->room && text <= a->text_room)
        return 0;
    char *heap = rt_alloc(count * (sizeof(*a->at) + sizeof(*a->lengths)) + text);
    if (heap == NULL)
        return ROTA_NOMEM;
    a->heap = heap;
    a->at = (const char **)(void *)heap;
    a->lengths = (size_t *)(void *)(heap + count * sizeof(*a->at));
    a->text = heap + count * (sizeof(*a->at) + sizeof(*a->lengths));
    a->room = count;
    a->text_room = text;
    return 0;
}

void rt_redis_args_close(struct rt_redis_args *a)
{
    rt_free(a->heap);
    a->heap = NULL;
}

static void put(struct rt_redis_args *a, const char *text, size_t length)
{
    assert(a->count < a->room);
    a->at[a->count] = text;
    a->lengths[a->count++] = length;
}

void rt_redis_arg(struct rt_redis_args *a, const char *text)
{
    put(a, text, strlen(text));
}

void rt_redis_arg_number(struct rt_redis_args *a, uint64_t number)
{
    char digits[20];
    size_t n = rt_resp_digits(digits, number);
    assert(a->used + n <= a->text_room);
    const char *at = memcpy(a->text + a->used, digits, n);
    a->used += n;
    put(a, at, n);
}

void rt_redis_arg_sid(struct rt_redis_args *a, uint64_t session, bool durable)
{
    rt_redis_arg_text(a, durable ? "d%llu" : "%016llx", (unsigned long long)session);
}

void rt_redis_arg_text(struct rt_redis_args *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *at = a->text + a->used;
    int n = vsnprintf(at, a->text_room - a->used, format, args);
    va_end(args);
    assert(n >= 0 && (size_t)n < a->text_room - a->used);
    a->used += (size_t)n;
    put(a, at, (size_t)n);
}

struct rt_redis_request *rt_redis_ask(struct rt_redis_conn *c, struct rt_work *w,
                                      struct rt_redis_args *a, enum rt_redis_script script,
                                      uint32_t room, int64_t deadline, rt_redis_answer_fn *answer)
{
    struct rt_redis_request *rq = rt_redis_request_new(script, room, a->count, a->at, a->lengths);
    rt_redis_args_close(a);
    if (rq == NULL) {
        (void)rt_words_nomem(&c->base);
        return NULL;
    }
    rq->owner = w;
    rq->call.entry.pending = w != NULL ? &w->pending : NULL;
    rq->answer = answer;
    rq->call.entry.deadline = deadline;
    rt_redis_send(c, rq);
    return rq;
}

int rt_redis_work_ask(struct rt_redis_conn *c, struct rt_work *w, struct rt_redis_args *a,
                      enum rt_redis_script script, uint32_t room, int64_t deadline,
                      rt_redis_answer_fn *answer)
{
    return rt_redis_ask(c, w, a, script, room, deadline, answer) != NULL ? 0 : ROTA_NOMEM;
}

void rt_redis_begun(struct rt_redis_conn *c, struct rt_work *w, int rv)
{
    rt_work_note(&c->base, w, rv);
    if (w->pending == 0)
        rt_work_end(&c->base, w, 0);
}

/* ---- Replies ---------------------------------------------------------------------------- */

#define AHEAD 2 /* tag and status */
#define INT_MOST (INT64_C(1) << 53)

size_t rt_redis_count(const redisReply *reply)
{
    return reply->elements > AHEAD ? reply->elements - AHEAD : 0;
}

int64_t rt_redis_int(const redisReply *reply, size_t i)
{
    if (i >= rt_redis_count(reply) || reply->element[AHEAD + i]->type != REDIS_REPLY_INTEGER)
        return 0;
    /* No script of ours says more; whoever does must not make our sums overflow. */
    int64_t value = reply->element[AHEAD + i]->integer;
    if (value > INT_MOST || value < -INT_MOST)
        return value > 0 ? INT_MOST : -INT_MOST;
    return value;
}

const char *rt_redis_str(const redisReply *reply, size_t i)
{
    if (i >= rt_redis_count(reply) || reply->element[AHEAD + i]->type != REDIS_REPLY_STRING)
        return "";
    return reply->element[AHEAD + i]->str;
}

bool rt_redis_shaped(const redisReply *reply, size_t at, const char *shape)
{
    size_t count = rt_redis_count(reply), size = strlen(shape);
    if (count < at || (count - at) % size != 0)
        return false;
    for (size_t i = at; i < count; i++) {
        int type = reply->element[AHEAD + i]->type;
        if (type != (shape[(i - at) % size] == 'i' ? REDIS_REPLY_INTEGER : REDIS_REPLY_STRING))
            return false;
    }
    return true;
}

int rt_redis_odd(struct rt_redis_conn *c, struct rt_redis_request *rq)
{
    return rt_redis_fail(c, ROTA_UNKNOWN, "the server's answer to script %d makes no sense",
                         (int)rq->call.script);
}
