/* SPDX-License-Identifier: Apache-2.0 */
/* The reference engine: a connection to a world, how it does ops and hears of others.
 *
 *   submit --> [world mutex: sweep, do the op, leave events in inboxes] --> done, own events
 *   another's submit --> rings our bell (an eventfd of our loop) --> own events
 *   timer at the next end of anything, while we wait or observe --> sweep --> own events
 *
 * Events go up without the mutex, one by one, so a callback may take its time. */
#include "engine/mem/mem.h"

#include "base/alloc.h"
#include "engine/mem/world.h"
#include "engine/url.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TTL_DEFAULT_MS 10000

struct rt_mem_bell { /* outlives its connection until the loop lets go of the watch */
    struct rt_watch watch;
    int fd;
};

static struct rt_mem_conn *mem(struct rt_conn *conn)
{
    assert(conn->engine == &rt_engine_mem);
    return (struct rt_mem_conn *)(void *)conn;
}

void rt_mem_ring(struct rt_mem_conn *mc)
{
    if (mc->rung)
        return;
    mc->rung = true;
    if (mc->bell != NULL && mc->world->actor != mc) {
        uint64_t one = 1;
        ssize_t n = write(mc->bell->fd, &one, sizeof(one));
        (void)n; /* EAGAIN: it rings already */
    }
}

/* ---- Observations ------------------------------------------------------- */

struct rt_mem_watch *rt_mem_watch_new(struct rt_mem_conn *mc, const char *name, void *cookie)
{
    struct rt_mem_watch *watch = rt_view_new(&mc->world->watches, sizeof(*watch), name, cookie);
    if (watch == NULL)
        return NULL;
    watch->line = rt_mem_line_get(mc->world, name);
    if (watch->line == NULL) {
        rt_view_free(&watch->view);
        return NULL;
    }
    watch->line->pins++;
    watch->conn = mc;
    mc->interest++;
    return watch;
}

void rt_mem_watch_free(struct rt_mem_world *world, struct rt_mem_watch *watch)
{
    watch->conn->interest--;
    watch->line->pins--;
    rt_mem_line_tidy(world, watch->line);
    rt_view_free(&watch->view);
}

/* False: it is as it was told last. */
static bool watch_event(struct rt_mem_watch *w, struct rt_event *event)
{
    struct rt_view_state state = {.count = rt_mem_line_shown(w->conn->world, w->line)};
    const struct rt_mem_ticket *front = rt_mem_line_front(w->line);
    if (front != NULL) {
        state.mode = front->mode;
        state.of = w->line->of;
    }
    if (front != NULL && front->flags & RT_MEM_GRANTED) {
        state.fence = front->number;
        rt_view_value(&state, rt_mem_ticket_value(front), strlen(rt_mem_ticket_value(front)));
        rt_view_label(&state, rt_mem_ticket_label(front), strlen(rt_mem_ticket_label(front)));
    }
    return rt_view_news(&w->view, &state, event);
}

/* ---- Inboxes ------------------------------------------------------------ */

/* In a late world the grant brings the number, and names the ticket by what its client knows. */
static void grant_event(const struct rt_mem_ticket *t, struct rt_event *event)
{
    uint64_t name = rt_mem_ticket_name(t);
    event->kind = RT_GRANTED;
    if (name == 0)
        return;
    event->number = name;
    event->fence = t->number;
    event->nonce = t->nonce;
}

/* What T, in an inbox, has to tell first; false if that was answered meanwhile. */
static bool ticket_event(struct rt_mem_ticket *t, struct rt_event *event)
{
    *event = (struct rt_event){
        .session = rt_mem_ticket_session(t), .number = t->number, .name = t->line->name};
    if (t->pending & RT_MEM_TELL_GRANTED && t->pending & RT_MEM_TELL_WANTED) {
        grant_event(t, event);
        t->pending = RT_MEM_TELL_WANTED; /* stays in the inbox */
        return true;
    }
    bool any = t->pending != 0;
    rt_mem_ticket_told(t);
    if (t->pending & RT_MEM_TELL_LOST)
        event->kind = RT_TICKET_LOST;
    else if (t->pending & RT_MEM_TELL_GRANTED)
        grant_event(t, event);
    else
        event->kind = RT_WANTED;
    t->pending = 0;
    return any;
}

static bool watches_event(struct rt_mem_conn *mc, struct rt_event *event, struct rt_mem_line **line)
{
    for (struct rt_view *v = mc->world->watches; v != NULL; v = v->next) {
        struct rt_mem_watch *w = rt_mem_watch_of(v);
        if (w->conn != mc || !w->dirty)
            continue;
        w->dirty = false;
        *line = w->line;
        if (watch_event(w, event))
            return true;
    }
    return false;
}

/* The next thing to tell, and the line that its name belongs to (pinned), if any. */
static bool next_event(struct rt_mem_conn *mc, struct rt_event *event, struct rt_mem_line **line)
{
    *line = NULL;
    for (struct rt_mem_session **at = &mc->sessions, *s; (s = *at) != NULL; at = &s->next) {
        while (s->inbox.next != &s->inbox) {
            struct rt_mem_ticket *t = rt_mem_ticket_of(s->inbox.next);
            *line = t->line;
            if (ticket_event(t, event))
                return true;
        }
        if (s->over) {
            *event = (struct rt_event){.kind = RT_SESSION_LOST, .session = s->id};
            *at = s->next;
            *line = NULL;
            rt_free(s);
            return true;
        }
    }
    while (mc->durable_inbox.next != &mc->durable_inbox) {
        struct rt_mem_ticket *t = rt_mem_durable_of(mc->durable_inbox.next);
        *line = t->line;
        if (ticket_event(t, event))
            return true;
    }
    return watches_event(mc, event, line);
}

/* The timer: a dead holder delays us by no more than its ttl (I6). */
static void rearm(struct rt_mem_conn *mc, int64_t at)
{
    rt_timers_at(&mc->conn.loop->timers, &mc->timer.timer, at);
}

static bool deliver(struct rt_mem_conn *mc)
{
    struct rt_mem_world *world = mc->world;
    struct rt_event event;
    struct rt_mem_line *line;
    bool any = false;
    pthread_mutex_lock(&world->mutex);
    while (next_event(mc, &event, &line)) {
        any = true;
        if (line != NULL)
            line->pins++;
        pthread_mutex_unlock(&world->mutex);
        rt_conn_event(&mc->conn, &event);
        pthread_mutex_lock(&world->mutex);
        if (line != NULL) {
            line->pins--;
            rt_mem_line_tidy(world, line);
        }
    }
    mc->rung = false;
    int64_t at = mc->interest > 0 ? rt_mem_next_end(world) : RT_NEVER;
    pthread_mutex_unlock(&world->mutex);
    rearm(mc, at);
    return any;
}

bool rt_mem_pending(const struct rt_conn *conn)
{
    assert(conn->engine == &rt_engine_mem);
    const struct rt_mem_conn *mc = (const struct rt_mem_conn *)(const void *)conn;
    pthread_mutex_lock(&mc->world->mutex);
    bool rung = mc->rung;
    pthread_mutex_unlock(&mc->world->mutex);
    return rung;
}

bool rt_mem_deliver(struct rt_conn *conn)
{
    return deliver(mem(conn));
}

/* Locks the world for this client's work, at the present time, without what is over. */
static void world_enter(struct rt_mem_conn *mc)
{
    int64_t now = rt_loop_tick(mc->conn.loop);
    pthread_mutex_lock(&mc->world->mutex);
    mc->world->actor = mc;
    if (now > mc->world->now)
        mc->world->now = now;
    rt_mem_sweep(mc->world);
}

static void world_leave(struct rt_mem_conn *mc)
{
    mc->world->actor = NULL;
    pthread_mutex_unlock(&mc->world->mutex);
}

static void on_timer(struct rt_timer_call *call, int64_t now)
{
    (void)now;
    struct rt_mem_conn *mc = (struct rt_mem_conn *)(void *)((char *)call -
                                                            offsetof(struct rt_mem_conn, timer));
    world_enter(mc);
    world_leave(mc);
    deliver(mc);
}

/* ---- The engine --------------------------------------------------------- */

static void bell_answer(struct rt_watch *w, bool readable, bool writable)
{
    (void)readable;
    (void)writable;
    struct rt_mem_conn *mc = w->user;
    uint64_t count;
    ssize_t n = read(mc->bell->fd, &count, sizeof(count));
    (void)n; /* EAGAIN: nothing rang, looking is harmless */
    deliver(mc);
}

static void bell_closed(struct rt_watch *w)
{
    rt_free((struct rt_mem_bell *)(void *)w); /* its first member */
}

static int bell_open(struct rt_mem_conn *mc)
{
    struct rt_mem_bell *bell = rt_alloc(sizeof(*bell));
    if (bell == NULL)
        return ROTA_NOMEM;
    int rv = ROTA_INTERNAL;
    bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell->fd < 0)
        goto free_bell;
    bell->watch.user = mc;
    rv = rt_watch_start(mc->conn.loop, &bell->watch, bell->fd, bell_answer);
    if (rv != 0)
        goto close_fd;
    rt_watch_want(&bell->watch, true, false);
    mc->bell = bell;
    return 0;

close_fd:
    close(bell->fd);
free_bell:
    rt_free(bell);
    return rv;
}

static int mem_open(struct rt_conn *conn, const struct rt_url *url)
{
    struct rt_mem_conn *mc = mem(conn);
    const char *name = url != NULL && url->path != NULL ? url->path : "";
    if (url != NULL && url->host_count > 0) {
        snprintf(conn->errmsg, sizeof(conn->errmsg), "mem: has no hosts: write mem:NAME");
        return ROTA_INVALID;
    }
    const char *fence = url != NULL ? rt_url_param(url, "fence", "join") : "join";
    bool late = strcmp(fence, "grant") == 0;
    if (!late && strcmp(fence, "join") != 0) {
        snprintf(conn->errmsg, sizeof(conn->errmsg), "fence=%.64s: it is join or grant", fence);
        return ROTA_INVALID;
    }
    if (conn->ttl_ms == 0)
        conn->ttl_ms = TTL_DEFAULT_MS;
    mc->timer.timer.kind = RT_TIMER_CALL;
    mc->timer.fire = on_timer;
    rt_mem_ring_init(&mc->durables);
    rt_mem_ring_init(&mc->durable_inbox);
    int rv = rt_loop_reserve(conn->loop, 1);
    if (rv != 0)
        goto fail;
    rv = ROTA_NOMEM;
    mc->world = rt_mem_world_get(name, conn->loop->virtual_time, late);
    if (mc->world == NULL)
        goto unreserve;
    rv = conn->loop->virtual_time ? 0 : bell_open(mc);
    if (rv != 0)
        goto put_world;
    return 0;

put_world:
    rt_mem_world_put(mc->world);
unreserve:
    rt_loop_unreserve(conn->loop, 1);
fail:
    snprintf(conn->errmsg, sizeof(conn->errmsg), "mem:%s: %s", name,
             rv == ROTA_NOMEM ? "out of memory" : "no eventfd to be had");
    return rv;
}

static void mem_close(struct rt_conn *conn)
{
    struct rt_mem_conn *mc = mem(conn);
    struct rt_mem_world *world = mc->world;
    world_enter(mc);
    for (struct rt_view *v = world->watches, *next; v != NULL; v = next) {
        next = v->next;
        if (rt_mem_watch_of(v)->conn == mc)
            rt_mem_watch_free(world, rt_mem_watch_of(v));
    }
    while (mc->sessions != NULL) {
        struct rt_mem_session *s = mc->sessions;
        mc->sessions = s->next;
        rt_mem_session_detach(world, s);
    }
    rt_mem_durables_detach(mc);
    world_leave(mc);
    rt_timers_stop(&conn->loop->timers, &mc->timer.timer);
    rt_loop_unreserve(conn->loop, 1);
    if (mc->bell != NULL) {
        rt_watch_stop(&mc->bell->watch, bell_closed);
        close(mc->bell->fd);
    }
    rt_mem_world_put(world);
}

static void mem_submit(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_mem_conn *mc = mem(conn);
    int err = ROTA_UNREACHABLE;
    world_enter(mc);
    if (op->deadline > mc->world->now)
        err = rt_mem_do(mc, op);
    else
        snprintf(conn->errmsg, sizeof(conn->errmsg), "the deadline had passed before the start");
    bool look = mc->rung || mc->interest > 0 || mc->timer.timer.slot != 0;
    world_leave(mc);
    rt_conn_done(conn, op, err);
    if (look)
        deliver(mc);
}

/* Every op ends inside submit: there is nothing to cancel. */
static void mem_cancel(struct rt_conn *conn, struct rt_op *op)
{
    (void)conn;
    (void)op;
}

static uint32_t mem_caps(const struct rt_conn *conn)
{
    const struct rt_mem_conn *mc = (const struct rt_mem_conn *)(const void *)conn;
    return ROTA_CAP_FENCE | (mc->world->late ? 0 : ROTA_CAP_ORDER) | ROTA_CAP_SHARED |
           ROTA_CAP_PERMITS | ROTA_CAP_WANTED | ROTA_CAP_DURABLE | ROTA_CAP_TTL;
}

static const char *const schemes[] = {"mem", NULL};
static const char *const params[] = {"fence", NULL};

const struct rt_engine rt_engine_mem = {
    .schemes = schemes,
    .params = params,
    .conn_size = sizeof(struct rt_mem_conn),
    .open = mem_open,
    .close = mem_close,
    .submit = mem_submit,
    .cancel = mem_cancel,
    .caps = mem_caps,
};
