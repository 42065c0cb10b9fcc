/* SPDX-License-Identifier: Apache-2.0 */
/* A wrapper that is a bad network between client and engine.
 *
 * Each op becomes a flight, a deep copy that goes its own way:
 *
 *   submit --> WAITING --its turn, not cut--> SENT --inner done--> OVER, its reply a parcel
 *                 |                                                 ^    (unless that is lost)
 *                 `-- request lost, or canceled -------------------'
 *
 * The client's op is given back once: by the parcel, or by the give-up time with
 * ROTA_UNKNOWN; the flight goes on without it. Replies and events are parcels in one queue
 * (events in a second one if they may overtake), whose times never go back, so what was
 * sent in order arrives in order. */
#include "engine/fault/fault.h"

#include "base/alloc.h"
#include "engine/fault/copy.h"
#include "net/loop.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define GIVE_UP_DEFAULT_MS 5000
#define OP_KINDS (RT_OP_CHECK + 1)

enum stage { WAITING, SENT, OVER };

struct parcel { /* a reply or an event on its way to the client */
    struct parcel *next;
    int64_t at;
    struct flight *flight; /* NULL: an event */
    struct rt_event event;
    void *block;
};

struct flight {
    struct flight *next; /* in order of submission */
    struct fault_conn *fc;
    struct rt_op *op; /* the client's; NULL once given back */
    struct rt_op copy;
    void *block;
    enum rt_fault fault;
    enum stage stage;
    bool queued; /* its reply is on its way */
    bool redo;   /* is to take effect a second time ... */
    bool again;  /* ... which nobody listens to */
    int64_t send_at, give_up_at, delay;
    struct parcel reply;
    int err; /* answered, and why */
    char errmsg[256];
};

struct queue {
    struct parcel *first, **end;
    int64_t last_at;
};

struct fault_conn {
    struct rt_wrap wrap;
    struct rt_fault_config config;
    uint64_t random;
    uint32_t seen[OP_KINDS]; /* ops so far, for the script */
    uint32_t cut;
    struct flight *flights;
    int64_t last_send_at;
    struct queue down, events;
    struct rt_timer_call timer;
    bool pumping;
};

static struct fault_conn *fault(struct rt_conn *conn)
{
    return (struct fault_conn *)(void *)conn;
}

/* ---- Chance ------------------------------------------------------------- */

static uint64_t draw(struct fault_conn *fc) /* splitmix64 */
{
    uint64_t z = (fc->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int64_t draw_delay(struct fault_conn *fc)
{
    uint64_t min = fc->config.delay_min_ms, max = fc->config.delay_max_ms;
    uint64_t span_us = max > min ? (max - min) * 1000 : 0;
    return (int64_t)(min * 1000 + draw(fc) % (span_us + 1)) * (RT_MS / 1000);
}

/* Always the same number of draws, so that a script does not shift what comes after. */
static void draw_fault(struct fault_conn *fc, struct flight *f)
{
    uint64_t dice = draw(fc) % 1000;
    f->delay = draw_delay(fc);
    f->fault = RT_FAULT_NONE;
    for (unsigned kind = 1; kind < RT_FAULT_KINDS; kind++) {
        if (dice < fc->config.rate[kind]) {
            f->fault = (enum rt_fault)kind;
            break;
        }
        dice -= fc->config.rate[kind];
    }
    uint32_t nth = ++fc->seen[f->copy.kind];
    for (size_t i = 0; i < fc->config.script_count; i++) {
        const struct rt_fault_script *s = &fc->config.script[i];
        if (s->kind == f->copy.kind && s->nth == nth) {
            f->fault = s->fault;
            f->delay = s->delay_ms * RT_MS;
        }
    }
}

/* ---- Flights ------------------------------------------------------------ */

static void give_back(struct fault_conn *fc, struct flight *f, int err, const char *why)
{
    struct rt_op *op = f->op;
    f->op = NULL;
    snprintf(fc->wrap.conn.errmsg, sizeof(fc->wrap.conn.errmsg), "%s", why);
    rt_conn_done(&fc->wrap.conn, op, err);
}

static void flights_tidy(struct fault_conn *fc)
{
    for (struct flight **at = &fc->flights, *f; (f = *at) != NULL;) {
        if (f->op != NULL || f->stage != OVER || f->queued || f->redo) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        rt_free(f->block);
        rt_free(f);
    }
}

static void relay_place(void *arg, const char *name, const struct rota_place *place)
{
    struct flight *f = arg;
    if (f->op != NULL && !f->again)
        f->op->inspect.each(f->op->inspect.arg, name, place);
}

static void relay_line(void *arg, const char *name, size_t count, size_t granted)
{
    struct flight *f = arg;
    if (f->op != NULL && !f->again)
        f->op->list.each(f->op->list.arg, name, count, granted);
}

static void relay_verdict(void *arg, const struct rota_verdict *verdict)
{
    struct flight *f = arg;
    if (f->op != NULL && !f->again)
        f->op->check.each(f->op->check.arg, verdict);
}

/* What calls back goes through the flight, which knows whether anybody still listens. */
static void relay(struct flight *f)
{
    if (f->copy.kind == RT_OP_INSPECT) {
        f->copy.inspect.each = relay_place;
        f->copy.inspect.arg = f;
    } else if (f->copy.kind == RT_OP_LIST) {
        f->copy.list.each = relay_line;
        f->copy.list.arg = f;
    } else if (f->copy.kind == RT_OP_CHECK) {
        f->copy.check.each = relay_verdict;
        f->copy.check.arg = f;
    }
}

static struct flight *flight_new(struct fault_conn *fc, struct rt_op *op)
{
    struct flight *f = rt_alloc(sizeof(*f));
    if (f == NULL)
        return NULL;
    if (rt_fault_copy_op(&f->copy, &f->block, op) != 0) {
        rt_free(f);
        return NULL;
    }
    f->fc = fc;
    f->op = op;
    f->copy.user = f;
    f->copy.deadline = INT64_MAX; /* the engine does not know how patient the client is */
    f->reply.flight = f;
    relay(f);
    return f;
}

/* ---- Towards the client ------------------------------------------------- */

static void enqueue(struct queue *q, struct parcel *p, int64_t at)
{
    q->last_at = at > q->last_at ? at : q->last_at;
    p->at = q->last_at;
    p->next = NULL;
    *q->end = p;
    q->end = &p->next;
}

static struct queue *event_queue(struct fault_conn *fc)
{
    return fc->config.events_overtake ? &fc->events : &fc->down;
}

static void parcel_arrive(struct fault_conn *fc, struct parcel *p)
{
    struct flight *f = p->flight;
    if (f == NULL) {
        rt_conn_event(&fc->wrap.conn, &p->event);
        rt_free(p->block);
        rt_free(p);
        return;
    }
    f->queued = false;
    if (f->op != NULL)
        give_back(fc, f, f->err, f->errmsg);
}

static bool queue_step(struct fault_conn *fc, struct queue *q, int64_t now)
{
    struct parcel *p = q->first;
    if (p == NULL || p->at > now || fc->cut & RT_FAULT_DOWN)
        return false;
    q->first = p->next;
    if (q->first == NULL)
        q->end = &q->first;
    parcel_arrive(fc, p);
    return true;
}

static void post_event(struct fault_conn *fc, const struct rt_event *event, int64_t at)
{
    struct parcel *p = rt_alloc(sizeof(*p));
    if (p == NULL)
        return; /* lost, as networks do */
    if (rt_fault_copy_event(&p->event, &p->block, event) != 0) {
        rt_free(p);
        return;
    }
    enqueue(event_queue(fc), p, at);
}

/* ---- Towards the engine ------------------------------------------------- */

static void submit_copy(struct fault_conn *fc, struct flight *f)
{
    f->stage = SENT;
    f->copy.err = 0;
    fc->wrap.inner->engine->submit(fc->wrap.inner, &f->copy);
}

static void depart(struct fault_conn *fc, struct flight *f)
{
    if (f->fault == RT_FAULT_REQUEST_LOST)
        f->stage = OVER;
    else
        submit_copy(fc, f);
}

/* The first that waits, in order: one that may not go yet holds up all behind it. */
static bool send_step(struct fault_conn *fc, int64_t now)
{
    for (struct flight *f = fc->flights; f != NULL; f = f->next) {
        if (f->redo) {
            f->redo = false;
            f->again = true;
            submit_copy(fc, f);
            return true;
        }
        if (f->stage == WAITING) {
            if (f->send_at > now || fc->cut & RT_FAULT_UP)
                return false;
            depart(fc, f);
            return true;
        }
    }
    return false;
}

static bool give_up_step(struct fault_conn *fc, int64_t now)
{
    for (struct flight *f = fc->flights; f != NULL; f = f->next) {
        if (f->op != NULL && f->give_up_at <= now) {
            give_back(fc, f, ROTA_UNKNOWN, "no answer in time");
            return true;
        }
    }
    return false;
}

static void sooner(int64_t *at, int64_t other)
{
    if (other < *at)
        *at = other;
}

static int64_t next_at(const struct fault_conn *fc)
{
    int64_t at = RT_NEVER;
    bool first = !(fc->cut & RT_FAULT_UP);
    for (const struct flight *f = fc->flights; f != NULL; f = f->next) {
        if (f->op != NULL)
            sooner(&at, f->give_up_at);
        if (f->redo)
            at = INT64_MIN;
        if (f->stage == WAITING && first) {
            sooner(&at, f->send_at);
            first = false;
        }
    }
    if (fc->cut & RT_FAULT_DOWN)
        return at;
    if (fc->down.first != NULL)
        sooner(&at, fc->down.first->at);
    if (fc->events.first != NULL)
        sooner(&at, fc->events.first->at);
    return at;
}

/* Does all that is due. Inside a callback of the inner engine nothing may be sent to it. */
static void pump(struct fault_conn *fc, bool may_send)
{
    struct rt_loop *loop = fc->wrap.conn.loop;
    int64_t now = rt_loop_now(loop);
    assert(!fc->pumping);
    fc->pumping = true;
    while (queue_step(fc, &fc->down, now) || queue_step(fc, &fc->events, now) ||
           (may_send && send_step(fc, now)) || give_up_step(fc, now))
        continue;
    fc->pumping = false;
    flights_tidy(fc);
    int64_t at = next_at(fc);
    if (at != RT_NEVER)
        rt_timers_start(&loop->timers, &fc->timer.timer, at > now ? at : now);
    else
        rt_timers_stop(&loop->timers, &fc->timer.timer);
}

static void on_timer(struct rt_timer_call *call, int64_t now)
{
    (void)now;
    struct fault_conn *fc = (struct fault_conn *)(void *)((char *)call -
                                                          offsetof(struct fault_conn, timer));
    pump(fc, true);
}

/* ---- From the inner engine ---------------------------------------------- */

static void done(struct rt_up *up, struct rt_op *copy)
{
    struct flight *f = copy->user;
    struct fault_conn *fc = fault(&rt_wrap_of_up(up)->conn);
    int64_t at = rt_loop_now(fc->wrap.conn.loop);
    f->stage = OVER;
    if (f->again)
        return;
    rt_wrap_follow(&fc->wrap);
    memcpy(f->errmsg, fc->wrap.conn.errmsg, sizeof(f->errmsg));
    f->redo = f->fault == RT_FAULT_REQUEST_DOUBLED;
    f->queued = f->fault != RT_FAULT_REPLY_LOST;
    f->err = copy->err;
    if (f->op != NULL)
        rt_fault_copy_answer(f->op, copy);
    if (f->queued)
        enqueue(&fc->down, &f->reply, f->fault == RT_FAULT_REPLY_LATE ? at + f->delay : at);
    if (!fc->pumping)
        pump(fc, false);
}

static void event_up(struct rt_up *up, const struct rt_event *event)
{
    struct fault_conn *fc = fault(&rt_wrap_of_up(up)->conn);
    int64_t now = rt_loop_now(fc->wrap.conn.loop);
    uint64_t dice = draw(fc) % 1000;
    int64_t delay = draw_delay(fc);
    if (dice < fc->config.event_lost && event->kind != RT_CHANGED)
        return; /* what is lost of a line's states is lost before kit/view, which tells differences */
    dice -= fc->config.event_lost;
    bool late = dice < fc->config.event_late;
    bool doubled = !late && dice - fc->config.event_late < fc->config.event_doubled;
    post_event(fc, event, late ? now + delay : now);
    if (doubled)
        post_event(fc, event, now + delay);
    if (!fc->pumping)
        pump(fc, false);
}

static void log_up(struct rt_up *up, int level, const char *line)
{
    struct rt_conn *conn = &rt_wrap_of_up(up)->conn;
    if (conn->up->log != NULL)
        conn->up->log(conn->up, level, line);
}

/* ---- The engine --------------------------------------------------------- */

static void fault_submit(struct rt_conn *conn, struct rt_op *op)
{
    struct fault_conn *fc = fault(conn);
    int64_t now = rt_loop_now(conn->loop);
    if (op->deadline <= now) {
        snprintf(conn->errmsg, sizeof(conn->errmsg), "the deadline had passed before the start");
        rt_conn_done(conn, op, ROTA_UNREACHABLE);
        return;
    }
    struct flight *f = flight_new(fc, op);
    if (f == NULL) {
        snprintf(conn->errmsg, sizeof(conn->errmsg), "out of memory");
        rt_conn_done(conn, op, ROTA_NOMEM);
        return;
    }
    draw_fault(fc, f);
    f->send_at = f->fault == RT_FAULT_REQUEST_LATE ? now + f->delay : now;
    if (f->send_at < fc->last_send_at)
        f->send_at = fc->last_send_at;
    fc->last_send_at = f->send_at;
    f->give_up_at = now + fc->config.give_up_ms * RT_MS;
    sooner(&f->give_up_at, op->deadline);
    struct flight **end = &fc->flights;
    while (*end != NULL)
        end = &(*end)->next;
    *end = f;
    pump(fc, true);
}

static void fault_cancel(struct rt_conn *conn, struct rt_op *op)
{
    struct fault_conn *fc = fault(conn);
    struct flight *f = fc->flights;
    while (f != NULL && f->op != op)
        f = f->next;
    if (f == NULL)
        return;
    if (f->stage == SENT) { /* the engine tells whether it was in time */
        f->fault = RT_FAULT_NONE;
        fc->wrap.inner->engine->cancel(fc->wrap.inner, &f->copy);
        return;
    }
    bool waited = f->stage == WAITING;
    if (waited)
        f->stage = OVER;
    give_back(fc, f, waited ? ROTA_CANCELED : ROTA_UNKNOWN, "canceled");
    flights_tidy(fc);
}

static void drop_parcels(struct queue *q)
{
    struct parcel *p;
    while ((p = q->first) != NULL) {
        q->first = p->next;
        if (p->flight != NULL) {
            p->flight->queued = false;
        } else {
            rt_free(p->block);
            rt_free(p);
        }
    }
    q->end = &q->first;
}

static int fault_open(struct rt_conn *conn, const struct rt_url *url)
{
    (void)conn;
    (void)url;
    return ROTA_INTERNAL; /* put on by rt_fault_wrap, never found by a URL */
}

static void fault_close(struct rt_conn *conn)
{
    struct fault_conn *fc = fault(conn);
    rt_wrap_close_inner(&fc->wrap);
    drop_parcels(&fc->down);
    drop_parcels(&fc->events);
    struct flight *f;
    while ((f = fc->flights) != NULL) {
        fc->flights = f->next;
        rt_free(f->block);
        rt_free(f);
    }
    rt_timers_stop(&conn->loop->timers, &fc->timer.timer);
    rt_loop_unreserve(conn->loop, 1);
}

static const char *const none[] = {NULL};

static const struct rt_engine fault_engine = {
    .schemes = none,
    .params = none,
    .conn_size = sizeof(struct fault_conn),
    .open = fault_open,
    .close = fault_close,
    .submit = fault_submit,
    .cancel = fault_cancel,
    .caps = rt_wrap_caps,
    .forked = rt_wrap_forked,
    .keep = rt_wrap_keep,
    .parting = rt_wrap_parting,
    .trouble = rt_wrap_trouble,
};

int rt_fault_wrap(struct rt_conn **conn, const struct rt_fault_config *config)
{
    struct rt_loop *loop = (*conn)->loop;
    int rv = rt_loop_reserve(loop, 1);
    if (rv != 0)
        return rv;
    rv = rt_wrap_put(conn, &fault_engine);
    if (rv != 0) {
        rt_loop_unreserve(loop, 1);
        return rv;
    }
    struct fault_conn *fc = fault(*conn);
    fc->wrap.up = (struct rt_up){
        .done = done, .event = event_up, .log = log_up, .held = rt_wrap_held};
    fc->config = *config;
    fc->random = config->seed;
    fc->timer.timer.kind = RT_TIMER_CALL;
    fc->timer.fire = on_timer;
    fc->down.end = &fc->down.first;
    fc->events.end = &fc->events.first;
    if (fc->config.give_up_ms == 0)
        fc->config.give_up_ms = (*conn)->call_ms != 0 ? (*conn)->call_ms : GIVE_UP_DEFAULT_MS;
    return 0;
}

/* ---- For whoever plays the network -------------------------------------- */

void rt_fault_rates(struct rt_conn *conn, const struct rt_fault_config *config)
{
    static const struct rt_fault_config perfect = {0};
    struct rt_fault_config *mine = &fault(conn)->config;
    const struct rt_fault_config *from = config != NULL ? config : &perfect;
    memcpy(mine->rate, from->rate, sizeof(mine->rate));
    mine->event_late = from->event_late;
    mine->event_lost = from->event_lost;
    mine->event_doubled = from->event_doubled;
    mine->delay_min_ms = from->delay_min_ms;
    mine->delay_max_ms = from->delay_max_ms;
}

void rt_fault_cut(struct rt_conn *conn, uint32_t ways)
{
    struct fault_conn *fc = fault(conn);
    fc->cut = ways;
    pump(fc, true);
}

void rt_fault_reset(struct rt_conn *conn)
{
    struct fault_conn *fc = fault(conn);
    drop_parcels(&fc->down);
    drop_parcels(&fc->events);
    for (struct flight *f = fc->flights; f != NULL; f = f->next) {
        if (f->stage == WAITING)
            f->stage = OVER;
        f->give_up_at = INT64_MIN;
    }
    pump(fc, true);
}
