/* SPDX-License-Identifier: Apache-2.0 */
/* Observations: the last state of a line is kept and told; states in between are left out. */
#include "client/observe.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define TEXT_ROOM 1024

struct rt_observer {
    struct rt_observer *next, *prev;
    struct rt_callback callback;
    struct rt_timer_call limit; /* latches */
    struct rota *r;
    rota_front_fn *fn; /* NULL: somebody waits for the count */
    void *arg;
    uint64_t id;
    struct rt_waiter *waiter;
    size_t until_count;
    uint64_t highest; /* fences never go back */
    uint64_t fence;
    bool running, stopped;
    char value[TEXT_ROOM], label[TEXT_ROOM / 4];
    char name[]; /* as spelled */
};

static void link_observer(struct rota *r, struct rt_observer *o)
{
    assert(rt_client_mine(r));
    o->next = r->observers;
    if (o->next != NULL)
        o->next->prev = o;
    r->observers = o;
}

static void unlink_observer(struct rota *r, struct rt_observer *o)
{
    assert(rt_client_mine(r));
    if (o->prev != NULL)
        o->prev->next = o->next;
    else
        r->observers = o->next;
    if (o->next != NULL)
        o->next->prev = o->prev;
}

/* A late event may name an observation that is gone: cookies are compared, never followed. */
static struct rt_observer *find_observer(struct rota *r, const struct rt_event *event)
{
    struct rt_observer *o = r->observers;

    while (o != NULL && (o != event->cookie || strcmp(o->name, event->name) != 0))
        o = o->next;
    return o;
}

/* A line that is no latch, or one of another count, never opens as this one would. */
static const char *kind_fault(const struct rt_observer *o, const struct rt_event *event)
{
    if (event->count == 0)
        return NULL;
    if (event->mode != RT_COUNT)
        return "this name is no latch: others hold it or wait for it";
    return event->of != o->until_count ? "this is a latch of another count" : NULL;
}

static void counted(struct rota *r, struct rt_observer *o, const struct rt_event *event)
{
    assert(rt_client_mine(r));
    struct rt_waiter *w = o->waiter;
    const char *fault = kind_fault(o, event);

    if (w == NULL || (fault == NULL && event->count < o->until_count))
        return;
    o->waiter = NULL;
    if (fault != NULL) {
        r->d.err = ROTA_INVALID;
        snprintf(r->d.errmsg, sizeof(r->d.errmsg), "%s", fault);
    }
    rt_wait_done(r, w, fault != NULL ? ROTA_INVALID : 0);
}

void rt_observer_changed(struct rota *r, const struct rt_event *event)
{
    assert(rt_client_mine(r));
    struct rt_observer *o = find_observer(r, event);

    if (o == NULL || o->stopped)
        return;
    if (o->fn == NULL) {
        counted(r, o, event);
        return;
    }
    if (event->front.fence != 0 && event->front.fence < o->highest)
        return;
    if (event->front.fence > o->highest)
        o->highest = event->front.fence;
    o->fence = event->front.fence;
    snprintf(o->value, sizeof(o->value), "%s", event->front.value ? event->front.value : "");
    snprintf(o->label, sizeof(o->label), "%s", event->front.label ? event->front.label : "");
    rt_callback_queue(r, &o->callback);
}

static void tell_front(struct rota *r, struct rt_callback *cb)
{
    struct rt_observer *o = (struct rt_observer *)(void *)((char *)cb -
                                                           offsetof(struct rt_observer, callback));
    char value[TEXT_ROOM], label[TEXT_ROOM / 4];
    struct rota_front front = {.fence = o->fence, .value = value, .label = label};

    if (o->stopped)
        return;
    memcpy(value, o->value, sizeof(value));
    memcpy(label, o->label, sizeof(label));
    o->running = true;
    const struct rota *before = rt_callback_begin(r);
    o->fn(o->arg, &front);
    rt_callback_end(r, before);
    o->running = false;
    if (o->stopped && o->waiter != NULL) {
        struct rt_waiter *w = o->waiter; /* rota_unobserve */
        o->waiter = NULL;
        rt_wait_done(r, w, 0);
    }
}

static struct rt_observer *new_observer(struct rota *r, const char *name)
{
    char spelled[RT_NAME_ROOM];
    size_t size = rt_name_spell(&r->spelling, name, spelled) + 1;
    struct rt_observer *o = rt_alloc(sizeof(*o) + size);

    if (o == NULL)
        return NULL;
    memcpy(o->name, spelled, size);
    o->r = r;
    o->callback.run = tell_front;
    return o;
}

/* Starts or stops O on the engine; enters with the mutex, returns without. */
static int observe(struct rota *r, struct rt_observer *o, bool stop)
{
    struct rt_call call;

    rt_call_init(r, &call, RT_OP_OBSERVE);
    call.rq.op.observe.name = o->name;
    call.rq.op.observe.cookie = o;
    call.rq.op.observe.stop = stop;
    return rt_call_insist(r, &call);
}

/* Stops O on the engine and frees it; without the mutex. */
static void end_observer(struct rota *r, struct rt_observer *o)
{
    rt_client_lock(r);
    o->stopped = true;
    if (o->id != 0)
        rt_ids_remove(&r->ids, o->id);
    o->id = 0;
    rt_callback_drop(r, &o->callback);
    if (r->d.conn != NULL)
        (void)observe(r, o, true);
    else
        rt_client_unlock(r);
    rt_client_lock(r);
    unlink_observer(r, o);
    rt_client_leave(r);
    rt_free(o);
}

static int start_observer(struct rota *r, struct rt_observer *o)
{
    rt_client_hold(r);
    link_observer(r, o);
    int rv = observe(r, o, false);
    if (rv != 0)
        end_observer(r, o);
    rt_client_drop(r);
    return rv;
}

int rota_observe(struct rota *r, const char *name, rota_front_fn *fn, void *arg, uint64_t *id)
{
    int rv = rt_client_check(r, true);

    if (rv == 0)
        rv = rt_name_check(r, name);
    if (rv == 0 && (fn == NULL || id == NULL))
        rv = rt_fail(r, ROTA_INVALID, "rota_observe needs a function to call and a place for *ID");
    if (rv == 0)
        rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    struct rt_observer *o = new_observer(r, name);
    uint64_t new_id = o != NULL ? rt_ids_add(&r->ids, RT_ID_OBSERVER, o) : 0;
    if (new_id == 0) {
        rt_free(o);
        rt_client_leave(r);
        return rt_fail(r, ROTA_NOMEM, NULL);
    }
    o->fn = fn;
    o->arg = arg;
    o->id = new_id;
    rv = start_observer(r, o);
    if (rv == 0)
        *id = new_id;
    return rv;
}

/* Waits until the function does not run any more; enters with the mutex, returns without. */
static void wait_still(struct rota *r, struct rt_observer *o)
{
    struct rt_waiter w;

    if (!o->running) {
        rt_client_unlock(r);
        return;
    }
    rt_wait_init(r, &w, NULL, NULL);
    o->waiter = &w;
    rt_wait(r, &w);
}

int rota_unobserve(struct rota *r, uint64_t id)
{
    int rv = rt_client_check(r, true);

    if (rv == 0)
        rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    struct rt_observer *o = rt_ids_find(&r->ids, RT_ID_OBSERVER, id);
    if (o == NULL || o->stopped) {
        rt_client_unlock(r);
        return rt_fail(r, ROTA_INVALID, "there is no such observation any more");
    }
    rt_client_hold(r);
    o->stopped = true;
    wait_still(r, o);
    end_observer(r, o);
    rt_client_drop(r);
    return 0;
}

void rt_observer_fini(struct rota *r)
{
    while (r->observers != NULL) {
        struct rt_observer *o = r->observers;
        r->observers = o->next;
        rt_free(o);
    }
}

/* ---- Counts ------------------------------------------------------------- */

static void count_over(struct rt_timer_call *call, int64_t now)
{
    struct rt_observer *o = (struct rt_observer *)(void *)((char *)call -
                                                           offsetof(struct rt_observer, limit));
    struct rt_waiter *w = o->waiter;

    (void)now;
    o->waiter = NULL;
    if (w != NULL)
        rt_wait_done(o->r, w, ROTA_TIMEOUT);
}

static void cancel_count(struct rota *r, struct rt_waiter *w, int err)
{
    ((struct rt_observer *)w->user)->waiter = NULL;
    rt_wait_done(r, w, err);
}

static int wait_count(struct rota *r, struct rt_observer *o, struct rt_waiter *w, uint64_t limit_ms)
{
    int64_t limit = limit_ms > INT64_MAX / RT_MS / 4 ? INT64_MAX / 4 : (int64_t)limit_ms * RT_MS;
    int64_t limit_at = rt_loop_now(&r->loop) + limit;

    link_observer(r, o);
    int rv = observe(r, o, false);
    if (rv != 0)
        return rv;
    rt_client_lock(r);
    if (limit != 0 && o->waiter != NULL)
        rt_timers_start(&r->loop.timers, &o->limit.timer, limit_at);
    rt_wait(r, w);
    return w->err;
}

int rt_observe_count(struct rota *r, const char *name, uint32_t of, uint64_t limit_ms)
{
    struct rt_waiter w;

    int rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    struct rt_observer *o = new_observer(r, name);
    if (o == NULL || rt_loop_reserve(&r->loop, 1) != 0) {
        rt_free(o);
        rt_client_leave(r);
        return rt_fail(r, ROTA_NOMEM, NULL);
    }
    rt_client_hold(r);
    rt_wait_init(r, &w, NULL, cancel_count);
    w.user = o;
    o->waiter = &w;
    o->until_count = of;
    o->limit = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = count_over};
    rv = wait_count(r, o, &w, limit_ms);
    rt_client_lock(r);
    rt_timers_stop(&r->loop.timers, &o->limit.timer);
    rt_loop_unreserve(&r->loop, 1);
    uint64_t serial = r->serial;
    rt_client_leave(r);
    end_observer(r, o);
    rt_client_drop(r);
    return rt_fail_waiter(serial, rv, w.errmsg);
}
