/* SPDX-License-Identifier: Apache-2.0 */
/* The fault proxy's commands and counters, called from the test's threads. */
#include "proxy.h"

#include "proxy_int.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void lock(struct rt_proxy *p)
{
    pthread_mutex_lock(&p->mutex);
}

static void unlock_and_wake(struct rt_proxy *p)
{
    uint64_t one = 1;

    if (write(p->wake, &one, sizeof(one)) != (ssize_t)sizeof(one))
        rt_proxy_die("eventfd");
    pthread_mutex_unlock(&p->mutex);
}

static bool means(enum rt_proxy_dir dir, int i)
{
    return dir == RT_PROXY_BOTH || (int)dir == i;
}

/* ---- All that passes ---------------------------------------------------- */

void rt_proxy_delay(struct rt_proxy *p, enum rt_proxy_dir dir, uint32_t delay_us,
                    uint32_t jitter_us)
{
    lock(p);
    for (int i = 0; i < 2; i++) {
        if (means(dir, i)) {
            p->delay_us[i] = delay_us;
            p->jitter_us[i] = jitter_us;
        }
    }
    unlock_and_wake(p);
}

void rt_proxy_chaos(struct rt_proxy *p, uint32_t max_us)
{
    rt_proxy_delay(p, RT_PROXY_BOTH, 0, max_us);
}

void rt_proxy_split(struct rt_proxy *p, enum rt_proxy_dir dir, uint32_t max_bytes)
{
    lock(p);
    for (int i = 0; i < 2; i++)
        p->split[i] = means(dir, i) ? max_bytes : p->split[i];
    unlock_and_wake(p);
}

void rt_proxy_hold(struct rt_proxy *p, enum rt_proxy_dir dir)
{
    lock(p);
    for (int i = 0; i < 2; i++)
        p->hold[i] = p->hold[i] || means(dir, i);
    unlock_and_wake(p);
}

/* FAULT 0: whatever fault keeps it. */
static void let_go(struct rt_proxy *p, int i, uint32_t fault)
{
    for (struct rt_conn *c = p->conns; c != NULL; c = c->next) {
        for (struct rt_segment *s = c->pipe[i].head; s != NULL; s = s->next) {
            if (fault == 0 || s->held_by == fault)
                s->held_by = 0;
        }
    }
}

void rt_proxy_release(struct rt_proxy *p, enum rt_proxy_dir dir)
{
    lock(p);
    for (int i = 0; i < 2; i++) {
        if (means(dir, i)) {
            p->hold[i] = false;
            let_go(p, i, 0);
        }
    }
    unlock_and_wake(p);
}

void rt_proxy_lose(struct rt_proxy *p, enum rt_proxy_dir dir)
{
    lock(p);
    for (int i = 0; i < 2; i++)
        p->lose[i] = p->lose[i] || means(dir, i);
    unlock_and_wake(p);
}

void rt_proxy_heal(struct rt_proxy *p)
{
    lock(p);
    p->lose[RT_PROXY_UP] = p->lose[RT_PROXY_DOWN] = false;
    for (struct rt_conn *c = p->conns; c != NULL; c = c->next) {
        if (c->torn)
            rt_conn_end(c, RT_PROXY_RESET);
    }
    unlock_and_wake(p);
}

void rt_proxy_end(struct rt_proxy *p, enum rt_proxy_end how, uint64_t number)
{
    lock(p);
    for (struct rt_conn *c = p->conns; c != NULL; c = c->next) {
        if (number == 0 || c->number == number)
            rt_conn_end(c, how);
    }
    unlock_and_wake(p);
}

void rt_proxy_end_after(struct rt_proxy *p, enum rt_proxy_dir dir, uint64_t bytes,
                        enum rt_proxy_end how)
{
    assert(dir != RT_PROXY_BOTH && bytes > 0);
    lock(p);
    p->ending[dir] = true;
    p->end_left[dir] = bytes;
    p->end_how[dir] = how;
    unlock_and_wake(p);
}

/* ---- Single messages ---------------------------------------------------- */

uint32_t rt_proxy_fault(struct rt_proxy *p, const struct rt_fault *fault)
{
    struct rt_fault_state *f;
    uint32_t number;

    lock(p);
    assert(p->framing != &rt_proxy_raw && "single messages need a framing");
    p->faults = realloc(p->faults, (p->fault_count + 1) * sizeof(*f));
    if (p->faults == NULL)
        rt_proxy_die("realloc");
    f = &p->faults[p->fault_count];
    *f = (struct rt_fault_state){.fault = *fault};
    f->match = fault->match != NULL ? strdup(fault->match) : NULL;
    f->active = true;
    number = ++p->fault_count;
    unlock_and_wake(p);
    return number;
}

uint64_t rt_proxy_fault_hits(struct rt_proxy *p, uint32_t number)
{
    uint64_t hits;

    lock(p);
    assert(number >= 1 && number <= p->fault_count);
    hits = p->faults[number - 1].hits;
    pthread_mutex_unlock(&p->mutex);
    return hits;
}

void rt_proxy_fault_release(struct rt_proxy *p, uint32_t number)
{
    assert(number >= 1);
    lock(p);
    let_go(p, RT_PROXY_UP, number);
    let_go(p, RT_PROXY_DOWN, number);
    unlock_and_wake(p);
}

void rt_proxy_fault_end(struct rt_proxy *p, uint32_t number)
{
    lock(p);
    for (uint32_t i = 0; i < p->fault_count; i++) {
        if (number == 0 || number == i + 1)
            p->faults[i].active = false;
    }
    unlock_and_wake(p);
}

/* ---- Watching ----------------------------------------------------------- */

void rt_proxy_counts(struct rt_proxy *p, struct rt_proxy_counts *out)
{
    lock(p);
    *out = p->counts[0];
    pthread_mutex_unlock(&p->mutex);
}

bool rt_proxy_conn_counts(struct rt_proxy *p, uint64_t number, struct rt_proxy_counts *out)
{
    bool known;

    lock(p);
    known = number >= 1 && number <= p->counts[0].connections;
    if (known)
        *out = p->counts[number];
    pthread_mutex_unlock(&p->mutex);
    return known;
}

uint64_t rt_proxy_open_connections(struct rt_proxy *p)
{
    uint64_t n = 0;

    lock(p);
    for (const struct rt_conn *c = p->conns; c != NULL; c = c->next)
        n += !c->dead;
    pthread_mutex_unlock(&p->mutex);
    return n;
}

bool rt_proxy_await(struct rt_proxy *p, rt_proxy_until_fn *until, void *arg, unsigned limit_ms)
{
    int64_t at_ns = rt_proxy_now_ns() + (int64_t)limit_ms * 1000000;
    struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    bool done;
    int rv = 0;

    lock(p);
    while (!(done = until(arg, &p->counts[0])) && rv == 0)
        rv = pthread_cond_timedwait(&p->turned, &p->mutex, &at);
    pthread_mutex_unlock(&p->mutex);
    return done;
}

struct hits {
    const struct rt_proxy *proxy;
    uint32_t fault;
    uint64_t wanted;
};

static bool has_hit(void *arg, const struct rt_proxy_counts *counts)
{
    const struct hits *h = arg;

    (void)counts;
    return h->proxy->faults[h->fault - 1].hits >= h->wanted;
}

bool rt_proxy_await_hits(struct rt_proxy *p, uint32_t fault, uint64_t hits, unsigned limit_ms)
{
    struct hits h = {.proxy = p, .fault = fault, .wanted = hits};

    return rt_proxy_await(p, has_hit, &h, limit_ms);
}

void rt_proxy_trace(struct rt_proxy *p, rt_proxy_trace_fn *fn, void *arg)
{
    lock(p);
    p->trace = fn;
    p->trace_arg = arg;
    unlock_and_wake(p);
}

void rt_proxy_show(void *arg, const struct rt_proxy_event *e)
{
    static const char *const kinds[] = {"bytes", "request", "reply", "push"};

    (void)arg;
    fprintf(stderr, "%llu %s %llu%s: %s\n", (unsigned long long)e->connection, kinds[e->kind],
            (unsigned long long)e->number, e->fate == RT_FAULT_LOOK ? "" : " (fault)", e->words);
}
