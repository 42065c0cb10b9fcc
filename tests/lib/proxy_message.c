/* SPDX-License-Identifier: Apache-2.0 */
/* What the fault proxy does to messages: finds them, counts them, applies faults to them. */
#include "proxy_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Segments ----------------------------------------------------------- */

static void push_segment(struct rt_pipe *pipe, const char *data, size_t len, int64_t due_ns,
                         uint32_t held_by, uint32_t answers)
{
    struct rt_segment *seg = calloc(1, sizeof(*seg) + len);

    if (seg == NULL)
        rt_proxy_die("calloc");
    memcpy(seg->data, data, len);
    seg->len = len;
    seg->held_by = held_by;
    seg->answers = answers;
    seg->due_ns = due_ns > pipe->last_due_ns ? due_ns : pipe->last_due_ns;
    pipe->last_due_ns = seg->due_ns;
    if (pipe->tail != NULL)
        pipe->tail->next = seg;
    else
        pipe->head = seg;
    pipe->tail = seg;
    pipe->queued += len;
}

void rt_pipe_drop_all(struct rt_pipe *pipe)
{
    while (pipe->head != NULL) {
        struct rt_segment *seg = pipe->head;

        pipe->head = seg->next;
        free(seg);
    }
    pipe->tail = NULL;
    pipe->queued = 0;
}

static int64_t due(struct rt_proxy *p, enum rt_proxy_dir dir, int64_t now_ns)
{
    uint64_t us = p->delay_us[dir];

    if (p->jitter_us[dir] > 0)
        us += rt_random_below(&p->random, p->jitter_us[dir]);
    return now_ns + (int64_t)us * 1000;
}

/* ---- Faults ------------------------------------------------------------- */

/* Counts the message in; true if it is this fault's turn. */
static bool fault_matches(struct rt_proxy *p, struct rt_fault_state *f, enum rt_fault_on on,
                          const char *words)
{
    uint64_t nth = f->fault.nth > 0 ? f->fault.nth : 1;
    uint64_t times = f->fault.times > 0 ? f->fault.times : 1;

    if (!f->active || f->fault.on != on || (f->match != NULL && strstr(words, f->match) == NULL))
        return false;
    if (f->fault.chance != 0 && rt_random_below(&p->random, 100) >= f->fault.chance)
        return false;
    f->seen++;
    return f->seen >= nth && f->seen - nth < times;
}

/* The number of the fault that gets the message; 0: none. The oldest of several, but all count it. */
static uint32_t find_fault(struct rt_proxy *p, enum rt_fault_on on, const char *words)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < p->fault_count; i++) {
        struct rt_fault_state *f = &p->faults[i];
        bool look = f->fault.what == RT_FAULT_LOOK;

        if (!fault_matches(p, f, on, words) || (found != 0 && !look))
            continue;
        f->hits++;
        if (!look)
            found = i + 1;
    }
    return found;
}

static enum rt_fault_do fate_of(const struct rt_proxy *p, uint32_t fault)
{
    return fault == 0 ? RT_FAULT_LOOK : p->faults[fault - 1].fault.what;
}

/* ---- Messages ----------------------------------------------------------- */

struct message { /* on its way through one pipe */
    struct rt_pipe *pipe;
    const char *data;
    size_t len;
    int64_t now_ns, due_ns;
    uint32_t fault;
    uint32_t answers;
    bool swallow;
    bool alone;
};

static struct rt_pipe *opposite(const struct rt_pipe *pipe)
{
    return &pipe->conn->pipe[pipe->dir == RT_PROXY_UP ? RT_PROXY_DOWN : RT_PROXY_UP];
}

/* Its sender gets what the layers below its protocol would have answered. */
static void tell_dropped(const struct message *m)
{
    struct rt_conn *c = m->pipe->conn;
    struct rt_pipe *back = opposite(m->pipe);
    const char *out = NULL;
    size_t n = 0;

    if (c->mute || m->pipe->silent || c->proxy->lose[m->pipe->dir] || m->pipe->bytes_only)
        return; /* nothing gets through, or it is not this protocol */
    if (c->proxy->framing->dropped != NULL)
        n = c->proxy->framing->dropped(c->framing, m->pipe->dir, m->data, m->len, &out);
    if (n > 0 && !back->silent && !c->proxy->lose[back->dir])
        push_segment(back, out, n, m->now_ns, 0, 0);
}

/* Sends it on as its fault wants. */
static void send_on(const struct message *m)
{
    struct rt_pipe *pipe = m->pipe;
    struct rt_conn *c = pipe->conn;
    enum rt_fault_do fate = fate_of(c->proxy, m->fault);
    uint32_t delay_us = m->fault == 0 ? 0 : c->proxy->faults[m->fault - 1].fault.delay_us;
    int64_t due_ns = m->due_ns;
    uint32_t held_by = 0;
    const char *data = m->data;
    size_t len = m->len;

    if (fate == RT_FAULT_CUT || fate == RT_FAULT_RESET) {
        rt_conn_end(c, fate == RT_FAULT_CUT ? RT_PROXY_CUT : RT_PROXY_RESET);
        return;
    }
    if (fate == RT_FAULT_SILENCE)
        pipe->silent = true;
    if (m->swallow || pipe->silent || fate == RT_FAULT_DROP || c->mute) {
        c->outstanding -= m->answers;
        tell_dropped(m);
        return;
    }
    if (fate == RT_FAULT_DELAY) {
        due_ns = m->now_ns + (int64_t)delay_us * 1000;
        held_by = delay_us == 0 ? m->fault : 0;
    }
    if (fate == RT_FAULT_DOUBLE && pipe->dir == RT_PROXY_DOWN && c->proxy->framing->twice != NULL)
        len = c->proxy->framing->twice(c->framing, m->data, m->len, &data);
    push_segment(pipe, data, len, due_ns, held_by, m->answers);
    if (fate == RT_FAULT_DOUBLE && data == m->data && !m->alone)
        push_segment(pipe, data, len, due_ns, 0, 0);
}

static void tell(const struct message *m, enum rt_message_kind kind, uint64_t number,
                 const char *words)
{
    struct rt_proxy *p = m->pipe->conn->proxy;
    struct rt_proxy_event event = {
        .connection = m->pipe->conn->number,
        .dir = m->pipe->dir,
        .kind = kind,
        .number = number,
        .bytes = m->len,
        .words = words,
        .fate = m->swallow || m->pipe->silent || p->lose[m->pipe->dir] ? RT_FAULT_DROP
                                                                       : fate_of(p, m->fault),
    };

    if (p->trace != NULL)
        p->trace(p->trace_arg, &event);
}

static struct rt_unanswered *add_unanswered(struct rt_conn *c, const struct rt_proxy_message *msg,
                                            uint32_t fault, bool swallow)
{
    struct rt_unanswered *u = calloc(1, sizeof(*u));

    if (u == NULL)
        rt_proxy_die("calloc");
    u->confirmations = msg->confirmations;
    u->channel = msg->channel;
    u->fault = fault;
    u->swallow = swallow;
    *c->newest = u;
    c->newest = &u->next;
    return u;
}

/* What points to the oldest of the channel; it points to NULL: none. */
static struct rt_unanswered **oldest_of(struct rt_conn *c, uint64_t channel)
{
    struct rt_unanswered **at = &c->oldest;

    while (*at != NULL && (*at)->channel != channel)
        at = &(*at)->next;
    return at;
}

static void drop_unanswered(struct rt_conn *c, struct rt_unanswered **at)
{
    struct rt_unanswered *u = *at;

    *at = u->next;
    if (u->next == NULL)
        c->newest = at;
    free(u->twin);
    free(u);
}

void rt_conn_forget_unanswered(struct rt_conn *c)
{
    while (c->oldest != NULL)
        drop_unanswered(c, &c->oldest);
}

/* Answers will not come on any channel of this stream: nobody waits for them. */
static void forget_stream(struct rt_conn *c, uint64_t channel)
{
    struct rt_unanswered **at = &c->oldest;

    while (*at != NULL) {
        if ((uint32_t)(*at)->channel != (uint32_t)channel) {
            at = &(*at)->next;
            continue;
        }
        c->outstanding -= !(*at)->swallow;
        drop_unanswered(c, at);
    }
}

/* The request that M has answered goes up once more, and the client does not hear of it. */
static void send_twin(const struct message *m, const struct rt_unanswered *u)
{
    struct rt_conn *c = m->pipe->conn;
    struct rt_proxy_message again = {.kind = RT_MESSAGE_REQUEST};
    const char *out = NULL;
    size_t n = c->proxy->framing->twin(c->framing, u->twin, u->twin_size, &out, &again.channel);

    push_segment(opposite(m->pipe), out, n, m->now_ns, 0, 0);
    add_unanswered(c, &again, 0, true);
}

static void double_request(struct message *m, const struct rt_proxy_message *msg,
                           struct rt_unanswered *u)
{
    if (!msg->alone) {
        add_unanswered(m->pipe->conn, msg, 0, true);
        return;
    }
    m->alone = true;
    u->twin = malloc(m->len);
    if (u->twin == NULL)
        rt_proxy_die("malloc");
    memcpy(u->twin, m->data, m->len);
    u->twin_size = m->len;
}

static void on_request(struct message *m, const struct rt_proxy_message *msg)
{
    struct rt_conn *c = m->pipe->conn;
    struct rt_proxy *p = c->proxy;
    struct rt_proxy_counts *all = &p->counts[0], *own = &p->counts[c->number];
    uint32_t for_reply;
    enum rt_fault_do fate;

    all->requests++;
    own->requests++;
    all->flights += c->outstanding == 0;
    own->flights += c->outstanding == 0;
    c->outstanding++;
    m->fault = find_fault(p, RT_FAULT_REQUEST, msg->words);
    for_reply = find_fault(p, RT_FAULT_REPLY, msg->words);
    fate = fate_of(p, m->fault);
    tell(m, RT_MESSAGE_REQUEST, own->requests, msg->words);
    if (p->lose[m->pipe->dir]) {
        m->swallow = true; /* unanswered for ever: the connection is reset when healed */
    } else if (fate == RT_FAULT_DROP || fate == RT_FAULT_SILENCE || m->pipe->silent) {
        m->answers = 1; /* the server will not answer it: do not wait for that */
    } else {
        struct rt_unanswered *u = add_unanswered(c, msg, for_reply, false);

        if (fate == RT_FAULT_DOUBLE)
            double_request(m, msg, u);
    }
    send_on(m);
}

/* A reply, or a part of one, to the oldest unanswered request of its channel, if there is one. */
static void on_reply(struct message *m, const struct rt_proxy_message *msg)
{
    struct rt_conn *c = m->pipe->conn;
    struct rt_unanswered **at = oldest_of(c, msg->channel), *u = *at;
    bool last = u != NULL && (msg->kind == RT_MESSAGE_REPLY || --u->confirmations == 0);
    uint64_t number = c->proxy->counts[c->number].replies + 1;

    if (u != NULL) {
        m->fault = u->fault;
        m->swallow = m->swallow || u->swallow;
        m->answers = last && !u->swallow;
    }
    if (last && u->twin != NULL)
        send_twin(m, u);
    if (last)
        drop_unanswered(c, oldest_of(c, msg->channel));
    if (last || u == NULL) {
        c->proxy->counts[0].replies++;
        c->proxy->counts[c->number].replies++;
    }
    tell(m, RT_MESSAGE_REPLY, number, msg->words);
    send_on(m);
}

static void on_push(struct message *m, const struct rt_proxy_message *msg)
{
    struct rt_conn *c = m->pipe->conn;

    c->proxy->counts[0].pushes++;
    m->fault = find_fault(c->proxy, RT_FAULT_PUSH, msg->words);
    tell(m, RT_MESSAGE_PUSH, ++c->proxy->counts[c->number].pushes, msg->words);
    send_on(m);
}

static void on_message(struct message *m, const struct rt_proxy_message *msg)
{
    struct rt_conn *c = m->pipe->conn;
    bool confirms = msg->kind == RT_MESSAGE_CONFIRM && c->oldest != NULL &&
                    c->oldest->confirmations > 0;

    if (msg->kind == RT_MESSAGE_REQUEST) {
        on_request(m, msg);
    } else if (msg->kind == RT_MESSAGE_REPLY || confirms) {
        on_reply(m, msg);
    } else if (msg->kind == RT_MESSAGE_PUSH || msg->kind == RT_MESSAGE_CONFIRM) {
        on_push(m, msg);
    } else {
        tell(m, RT_MESSAGE_BYTES, c->proxy->counts[c->number].chunks[m->pipe->dir], msg->words);
        send_on(m);
    }
    if (msg->ends && !c->dead)
        forget_stream(c, msg->channel);
}

/* ---- Bytes -------------------------------------------------------------- */

static void add_part(struct rt_pipe *pipe, const char *data, size_t len)
{
    if (pipe->part_len + len > pipe->part_cap) {
        pipe->part_cap = (pipe->part_len + len) * 2;
        pipe->part = realloc(pipe->part, pipe->part_cap);
        if (pipe->part == NULL)
            rt_proxy_die("realloc");
    }
    memcpy(pipe->part + pipe->part_len, data, len);
    pipe->part_len += len;
}

void rt_pipe_take(struct rt_pipe *pipe, const char *data, size_t len, int64_t now_ns)
{
    struct rt_conn *c = pipe->conn;
    struct rt_proxy *p = c->proxy;
    int64_t due_ns = due(p, pipe->dir, now_ns);
    size_t at = 0;

    assert(len > 0);
    add_part(pipe, data, len);
    while ((at < pipe->part_len || pipe->more) && !c->dead) {
        struct rt_proxy_message msg = {.kind = RT_MESSAGE_BYTES};
        const struct rt_proxy_framing *f = pipe->bytes_only ? &rt_proxy_raw : p->framing;
        struct message m = {.pipe = pipe,
                            .data = pipe->part + at,
                            .now_ns = now_ns,
                            .due_ns = due_ns,
                            .swallow = p->lose[pipe->dir]};
        ptrdiff_t n = f->next(c->framing, pipe->dir, m.data, pipe->part_len - at, &msg);

        if (n == 0 && !pipe->more)
            break;
        if (n < 0) {
            pipe->bytes_only = true;
            continue;
        }
        at += pipe->more ? 0 : (size_t)n;
        pipe->more = msg.more;
        m.data = msg.bytes != NULL ? msg.bytes : m.data;
        m.len = msg.bytes != NULL ? msg.size : (size_t)n;
        if (msg.kind != RT_MESSAGE_NOTHING)
            on_message(&m, &msg);
    }
    pipe->part_len -= at;
    memmove(pipe->part, pipe->part + at, pipe->part_len);
}

void rt_pipe_flush_part(struct rt_pipe *pipe, int64_t now_ns)
{
    struct message m = {.pipe = pipe,
                        .data = pipe->part,
                        .len = pipe->part_len,
                        .now_ns = now_ns,
                        .due_ns = due(pipe->conn->proxy, pipe->dir, now_ns),
                        .swallow = pipe->conn->proxy->lose[pipe->dir]};

    if (m.len > 0)
        send_on(&m);
    pipe->part_len = 0;
}
