/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of contenders and of their connections, whatever the engine. */
#include "scenes.h"

#include "lib/patience.h"
#include "stage_int.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define LIMIT_MS rt_patient_ms(20000)

/* ---- Contenders ------------------------------------------------------------------- */

/* One that holds just now; it may have stopped holding by the time the fault comes, which does no harm. */
static uint32_t a_holder(struct stage *st)
{
    for (uint32_t tries = 0; tries < 100000; tries++) {
        uint32_t p = stage_below(st, st->shared->plan.processes);

        if (stage_holds(st, p))
            return p;
    }
    return 0;
}

void scene_kill(struct stage *st, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t victim = i % 2 == 0 ? stage_below(st, st->shared->plan.processes) : a_holder(st);

        stage_mark(st);
        stage_kill(st, victim);
        stage_spawn(st, victim);
        stage_pause(st, 100 + stage_below(st, 400));
    }
}

void scene_stop(struct stage *st, uint32_t rounds)
{
    uint32_t processes = st->shared->plan.processes, ttl_ms = st->shared->plan.ttl_ms;

    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t holder = a_holder(st);
        uint32_t other = (holder + 1 + stage_below(st, processes - 1)) % processes;

        stage_mark(st);
        stage_stop(st, holder);
        stage_stop(st, other);
        stage_pause(st, ttl_ms + stage_below(st, ttl_ms / 2));
        stage_cont(st, other);
        stage_cont(st, holder);
        stage_pause(st, 100 + stage_below(st, 300));
    }
}

/* ---- Connections ------------------------------------------------------------------ */

static const struct {
    enum rt_proxy_dir dir;
    bool lose; /* what was sent in it is gone; else it arrives late */
} cuts[SCENE_CUTS] = {
    {RT_PROXY_UP, false}, {RT_PROXY_DOWN, false}, {RT_PROXY_BOTH, false},
    {RT_PROXY_UP, true},  {RT_PROXY_DOWN, true},  {RT_PROXY_BOTH, true},
};

static void cut_begin(struct rt_proxy *proxy, uint32_t kind)
{
    if (cuts[kind].lose)
        rt_proxy_lose(proxy, cuts[kind].dir);
    else
        rt_proxy_hold(proxy, cuts[kind].dir);
}

static void cut_end(struct rt_proxy *proxy, uint32_t kind)
{
    if (cuts[kind].lose)
        rt_proxy_heal(proxy);
    else
        rt_proxy_release(proxy, cuts[kind].dir);
    rt_proxy_delay(proxy, RT_PROXY_DOWN, 0, 0);
}

void scene_cut(struct stage *st, const struct scene_cut *cut, uint32_t kind)
{
    /* The deadline counts from before the heartbeat was sent, however late its answer. */
    uint32_t slow_us = stage_below(st, 4) * cut->slow_us / 3;

    for (size_t i = 0; i < cut->n; i++)
        rt_proxy_delay(cut->proxies[i], RT_PROXY_DOWN, slow_us, 0);
    stage_pause(st, 400);
    stage_mark(st);
    for (size_t i = 0; i < cut->n; i++)
        cut_begin(cut->proxies[i], kind);
    stage_pause(st, cut->least_ms + stage_below(st, cut->most_ms - cut->least_ms));
    for (size_t i = 0; i < cut->n; i++)
        cut_end(cut->proxies[i], kind);
    stage_pause(st, 100 + stage_below(st, 200));
}

void scene_cut_rounds(struct stage *st, const struct scene_cut *cut, uint32_t from)
{
    uint32_t rounds = stage_factor() > 1 ? SCENE_CUTS * stage_factor() : SCENE_CUTS / 2;

    for (uint32_t i = 0; i < rounds; i++)
        scene_cut(st, cut, (from + i) % SCENE_CUTS);
}

/* ---- A holder that is stopped ------------------------------------------------------ */

struct prize {        /* shared with the one that is stopped */
    uint64_t highest; /* of the resource */
    uint32_t step;    /* 1: it holds, 2: another does */
    uint32_t ttl_ms;
    char url[STAGE_URL_MAX];
};

enum { NOT_GRANTED = 1, STILL_REMAINING = 2, WRITE_ACCEPTED = 4, RELEASE_OK = 8 };

static int hold_and_be_stopped(int index, void *arg)
{
    struct prize *p = arg;
    struct rota_options options = {.ttl_ms = p->ttl_ms};
    struct rota_lock *lock = NULL;
    struct rota *r = NULL;
    int wrong = 0;

    (void)index;
    if (rota_open(&r, p->url, &options) != 0 || rota_acquire(r, "prize", NULL, &lock) != 0 ||
        rota_guard(lock, &p->highest) != 0)
        return NOT_GRANTED;
    rt_shared_add(&p->step, 1);
    rt_shared_wait(&p->step, 2); /* it is stopped here */
    wrong |= rota_remaining_ms(lock) > 0 ? STILL_REMAINING : 0;
    wrong |= rota_guard(lock, &p->highest) == 0 ? WRITE_ACCEPTED : 0;
    wrong |= rota_release(lock) == 0 ? RELEASE_OK : 0;
    rota_close(r);
    return wrong;
}

void scene_first_look(const char *url, uint32_t ttl_ms)
{
    struct prize *p = rt_shared_new(sizeof(*p));
    struct rota_options options = {.call_ms = LIMIT_MS}; /* the usual ttl: it keeps what it has */
    struct rota_lock *lock = NULL;
    struct rota *r = NULL;
    pid_t holder;

    rt_watchdog(120, "a stopped holder");
    p->ttl_ms = ttl_ms;
    snprintf(p->url, sizeof(p->url), "%s", url);
    holder = rt_proc_start(hold_and_be_stopped, 0, p);
    rt_shared_wait(&p->step, 1);
    rt_proc_stop(holder);
    assert_int_equal(rota_open(&r, url, &options), 0);
    assert_int_equal(rota_acquire(r, "prize", NULL, &lock), 0); /* when its time is over */
    assert_int_equal(rota_guard(lock, &p->highest), 0);
    rt_shared_add(&p->step, 1);
    rt_proc_cont(holder);
    assert_int_equal(rt_proc_wait(holder), 0);
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
    rt_shared_free(p, sizeof(*p));
}

/* ---- A holder that is cut off ------------------------------------------------------ */

static void note_told(struct rota_lock *lock, int reason, void *arg)
{
    (void)lock;
    (void)reason;
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
}

/* Two heartbeats have come, over whichever proxy: the first was answered, late. */
static void await_two_beats(const struct scene_told *t)
{
    struct rt_fault look = {
        .on = RT_FAULT_REPLY, .what = RT_FAULT_LOOK, .match = t->beat, .times = RT_FAULT_ALWAYS};
    uint32_t faults[8];
    uint64_t hits = 0;

    assert_true(t->n <= sizeof(faults) / sizeof(faults[0]));
    for (size_t i = 0; i < t->n; i++)
        faults[i] = rt_proxy_fault(t->proxies[i], &look);
    for (uint32_t ms = 0; hits < 2 && ms < LIMIT_MS; ms++) {
        hits = 0;
        for (size_t i = 0; i < t->n; i++)
            hits += rt_proxy_fault_hits(t->proxies[i], faults[i]);
        stage_sleep_us(1000);
    }
    assert_true(hits >= 2);
}

void scene_told_before(const struct scene_told *t)
{
    struct rota_options options = {.ttl_ms = t->ttl_ms};
    struct rota *holder = NULL, *next = NULL;
    struct rota_lock *held = NULL, *lock = NULL;
    int told = 0;
    struct rota_ask ask = {.on_lost = note_told, .arg = &told};

    assert_int_equal(rota_open(&holder, t->proxied, &options), 0);
    assert_int_equal(rota_open(&next, t->direct, &options), 0);
    assert_int_equal(rota_acquire(holder, "prize", &ask, &held), 0);
    for (size_t i = 0; i < t->n; i++)
        rt_proxy_delay(t->proxies[i], RT_PROXY_DOWN, t->late_us, 0);
    await_two_beats(t);
    for (size_t i = 0; i < t->n; i++)
        rt_proxy_lose(t->proxies[i], RT_PROXY_UP);
    assert_true(rota_remaining_ms(held) > 0);
    assert_int_equal(rota_acquire(next, "prize", NULL, &lock), 0);
    assert_true(__atomic_load_n(&told, __ATOMIC_ACQUIRE) != 0);
    assert_true(rota_remaining_ms(held) <= 0);
    assert_int_equal(rota_release(lock), 0);
    for (size_t i = 0; i < t->n; i++)
        cut_end(t->proxies[i], SCENE_CUTS - 1);
    assert_int_not_equal(rota_release(held), 0);
    rota_close(holder);
    rota_close(next);
}
