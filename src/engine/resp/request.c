/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: made, put into RESP, kept until a link is ready, ended at their deadline. */
#include "engine/resp/link.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define OUT_FIRST 1024
#define DIGITS 24

/* ---- RESP ----------------------------------------------------------------------------------- */

static bool room_for(struct rt_resp_conn *c, size_t more)
{
    size_t room = c->out_room != 0 ? c->out_room : OUT_FIRST;
    if (c->out_size + more <= c->out_room)
        return true;
    while (room < c->out_size + more)
        room *= 2;
    char *out = rt_realloc(c->out, room);
    if (out == NULL)
        return false;
    c->out = out;
    c->out_room = room;
    return true;
}

/* NUMBER in decimal; returns how many digits. */
static size_t digits(char *out, uint64_t number)
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
    at += digits(at, number);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

bool rt_resp_command(struct rt_resp_conn *c, size_t words)
{
    if (!room_for(c, DIGITS + 3))
        return false;
    c->out_size = (size_t)(header(c->out + c->out_size, '*', words) - c->out);
    return true;
}

bool rt_resp_word(struct rt_resp_conn *c, const char *word, size_t size)
{
    if (!room_for(c, DIGITS + 5 + size))
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
    return rt_resp_word(c, text, digits(text, number));
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
    if (rq->answered || rq->what != RT_RESP_CALL || c->closing)
        return;
    rq->answered = true;
    c->on->answer(c, rq, err, status, reply);
}

/* ---- The queue -------------------------------------------------------------------------------- */

static void deadline_at(struct rt_resp_conn *c, int64_t at)
{
    struct rt_timer *t = &c->deadline_timer.timer;
    if (at != RT_NEVER && (t->slot == 0 || t->at > at))
        rt_timers_start(&c->base->loop->timers, t, at);
}

void rt_resp_enqueue(struct rt_resp_conn *c, struct rt_resp_request *rq)
{
    struct rt_resp_request **at = &c->queue;
    if (c->queue_last != NULL && c->queue_last->order < rq->order)
        at = &c->queue_last->next; /* the usual */
    while (*at != NULL && (*at)->order < rq->order)
        at = &(*at)->next;
    rq->next = *at;
    *at = rq;
    if (rq->next == NULL)
        c->queue_last = rq;
}

static bool try_send(struct rt_resp_conn *c, struct rt_resp_request *rq)
{
    struct rt_resp_node *node = c->places[rq->place];
    if (rq->err != 0 || node == NULL || !rt_resp_link_usable(&node->work))
        return false;
    return rt_resp_link_send(&node->work, rq);
}

void rt_resp_resend(struct rt_resp_conn *c, struct rt_resp_request *rq)
{
    if (try_send(c, rq))
        return;
    rt_resp_enqueue(c, rq);
    if (rq->err != 0)
        deadline_at(c, rt_loop_now(c->base->loop));
    rt_resp_want_place(c, rq->place);
}

void rt_resp_send(struct rt_resp_conn *c, struct rt_resp_request *rq)
{
    assert(c->places != NULL && rq->place < c->place_count);
    rq->order = ++c->next_order;
    if (rq->deadline == 0)
        rq->deadline = rt_loop_now(c->base->loop) + c->base->call_ms * RT_MS;
    deadline_at(c, rq->deadline);
    rt_resp_resend(c, rq);
}

static void flush_some(struct rt_resp_conn *c, bool first_only)
{
    struct rt_resp_request *waiting = c->queue;
    c->queue = c->queue_last = NULL;
    while (waiting != NULL) {
        struct rt_resp_request *rq = waiting;
        waiting = rq->next;
        rq->next = NULL;
        bool turn = !first_only || rq->first;
        if (turn && try_send(c, rq))
            continue;
        rt_resp_enqueue(c, rq);
        rt_resp_want_place(c, rq->place);
    }
}

void rt_resp_flush(struct rt_resp_conn *c)
{
    flush_some(c, true);
    flush_some(c, false);
}

void rt_resp_request_abandon(struct rt_resp_conn *c, struct rt_resp_request *rq, int err)
{
    if (rq->answered)
        return;
    rq->err = err;
    deadline_at(c, rt_loop_now(c->base->loop));
}

static struct rt_resp_request *find_in(struct rt_resp_request *list,
                                       bool (*is)(const struct rt_resp_request *, const void *),
                                       const void *arg)
{
    while (list != NULL && (list->what != RT_RESP_CALL || list->answered || !is(list, arg)))
        list = list->next;
    return list;
}

struct rt_resp_request *rt_resp_request_find(struct rt_resp_conn *c,
                                             bool (*is)(const struct rt_resp_request *rq,
                                                        const void *arg),
                                             const void *arg)
{
    struct rt_resp_request *rq = find_in(c->queue, is, arg);
    for (struct rt_resp_node *n = c->nodes; rq == NULL && n != NULL; n = n->next)
        rq = find_in(n->work.head, is, arg);
    return rq;
}

/* ---- Deadlines ---------------------------------------------------------------------------------- */

static bool is_over(const struct rt_resp_request *rq, int64_t now)
{
    return rq->err != 0 || rq->deadline <= now;
}

static void end_waiting(struct rt_resp_conn *c, struct rt_resp_request *rq)
{
    int err = rq->err;
    if (err == 0) {
        const char *why = c->last_trouble[0] != '\0' ? c->last_trouble : "no answer yet";
        err = rt_resp_fail(c, ROTA_UNREACHABLE, "redis cannot be used now: %s", why);
    } else if (err == ROTA_NOMEM) {
        (void)rt_resp_fail(c, err, "out of memory");
    } else {
        (void)rt_resp_fail(c, err, "given up before it was sent");
    }
    rt_resp_answer(c, rq, err, 0, NULL);
    rt_resp_request_free(rq);
}

/* Takes out of the queue what is over, or with ALL everything. */
static struct rt_resp_request *take_waiting(struct rt_resp_conn *c, int64_t now, bool all)
{
    struct rt_resp_request *over = NULL, **tail = &over;
    c->queue_last = NULL;
    for (struct rt_resp_request **at = &c->queue; *at != NULL;) {
        struct rt_resp_request *rq = *at;
        if (all || is_over(rq, now)) {
            *at = rq->next;
            rq->next = NULL;
            *tail = rq;
            tail = &rq->next;
        } else {
            c->queue_last = rq;
            at = &rq->next;
        }
    }
    return over;
}

/* What is over of what was sent: its owner hears that nobody knows, its place stays. */
static void end_flying(struct rt_resp_conn *c, struct rt_resp_link *l, int64_t now)
{
    for (struct rt_resp_request *rq = l->head; rq != NULL; rq = rq->next)
        if (rq->what == RT_RESP_CALL && !rq->answered && is_over(rq, now)) {
            (void)rt_resp_fail(c, ROTA_UNKNOWN, "redis %s has not answered in time", rt_resp_at(l));
            rt_resp_answer(c, rq, ROTA_UNKNOWN, 0, NULL);
        }
}

static int64_t next_deadline(const struct rt_resp_conn *c)
{
    int64_t next = RT_NEVER;
    for (const struct rt_resp_request *rq = c->queue; rq != NULL; rq = rq->next)
        next = rq->deadline < next ? rq->deadline : next;
    for (const struct rt_resp_node *n = c->nodes; n != NULL; n = n->next)
        for (const struct rt_resp_request *rq = n->work.head; rq != NULL; rq = rq->next)
            if (rq->what == RT_RESP_CALL && !rq->answered && rq->deadline < next)
                next = rq->deadline;
    return next;
}

void rt_resp_deadline_fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_resp_conn *c = (struct rt_resp_conn *)((char *)call -
                                                     offsetof(struct rt_resp_conn, deadline_timer));
    struct rt_resp_request *over = take_waiting(c, now, false);
    while (over != NULL) {
        struct rt_resp_request *rq = over;
        over = rq->next;
        end_waiting(c, rq);
    }
    for (struct rt_resp_node *n = c->nodes; n != NULL; n = n->next)
        end_flying(c, &n->work, now);
    deadline_at(c, next_deadline(c));
}

void rt_resp_refuse(struct rt_resp_conn *c, int err, const char *text)
{
    struct rt_resp_request *all = take_waiting(c, 0, true);
    while (all != NULL) {
        struct rt_resp_request *rq = all;
        all = rq->next;
        (void)rt_resp_fail(c, err, "%s", text);
        rt_resp_answer(c, rq, err, 0, NULL);
        rt_resp_request_free(rq);
    }
}
