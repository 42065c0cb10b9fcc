/* SPDX-License-Identifier: Apache-2.0 */
/* A contender: one client, some threads, each in turn asks, looks, writes, gives back. */
#include "stage_int.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_EVERY_US 2000
#define TOLD_WITHIN_US \
    5000 /* a thread that sees the end by itself gives the callback this long to say so */
/* lib/starved.h: a thread of this process that slept 5 ms came back this much later. */
#define STARVED_NS INT64_C(15000000)
#define PULSE_US 5000
#define TELL_PART 20 /* as in core/session.c */

struct process {
    struct stage_shared *shared;
    struct rt_history *history;
    struct rt_resource *resources[STAGE_LOCKS_MAX];
    struct rota *rota;
    uint32_t index;
    bool ending;
    struct rt_starved starved;
};

struct contender {
    struct process *process;
    struct rt_actor actor;
    struct rt_random random;
    struct stage_thread *seen;
    const struct stage_plan *plan;
};

/* What a hold knows of its own end; written by its thread and read by the callback. */
struct vigil {
    struct process *process;
    int64_t until; /* rota_remaining_ms counts to there: TELL_PART of the ttl before the deadline */
    bool blind;    /* not looked at yet, checked or given back just now: nobody knows `until` */
};

static void count(uint64_t *counter)
{
    __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

static bool running(const struct process *p)
{
    return __atomic_load_n(&p->shared->phase, __ATOMIC_ACQUIRE) == STAGE_RUN;
}

static bool chance(struct contender *c, uint32_t permille)
{
    return rt_random_below(&c->random, 1000) < permille;
}

/* ---- Errors -------------------------------------------------------------- */

/* The errors that a fault may lead to; any other is a finding. */
static bool explained(int err)
{
    return err == ROTA_BUSY || err == ROTA_TIMEOUT || err == ROTA_LOST || err == ROTA_UNREACHABLE ||
           err == ROTA_UNKNOWN;
}

static void note_error(struct contender *c, const char *call, int err)
{
    struct stage_shared *sh = c->process->shared;

    count(&sh->errors[-err]);
    if (err == ROTA_UNKNOWN)
        c->actor.client = rt_history_client(c->actor.history);
    if (explained(err))
        return;
    if (__atomic_fetch_add(&sh->odd, 1, __ATOMIC_RELAXED) == 0)
        snprintf(sh->odd_text, sizeof(sh->odd_text), "%s: %s: %s", call, rota_strerror(err),
                 rota_errmsg(c->actor.rota));
}

/* ---- Losses -------------------------------------------------------------- */

static void *pulse(void *arg)
{
    struct process *p = arg;

    while (!__atomic_load_n(&p->ending, __ATOMIC_ACQUIRE)) {
        stage_sleep_us(PULSE_US);
        rt_starved_pulse(&p->starved, rt_history_now());
    }
    return NULL;
}

static void on_lost(struct rota_lock *lock, int reason, void *arg)
{
    struct vigil *v = arg;
    struct stage_shared *sh = v->process->shared;
    int64_t now = rt_history_now();
    int64_t left = rota_remaining_ms(lock);
    int64_t deadline = __atomic_load_n(&v->until, __ATOMIC_ACQUIRE) +
                       sh->plan.ttl_ms * INT64_C(1000000) / TELL_PART;

    (void)reason;
    if (__atomic_load_n(&v->blind, __ATOMIC_ACQUIRE))
        return;
    if (left > 0 || now <= deadline)
        count(&sh->told_before);
    else if (rt_starved_excuses(&v->process->starved, now, now - deadline,
                                sh->plan.ttl_ms * INT64_C(1000000)))
        count(&sh->told_starved);
    else {
        count(&sh->told_after);
        fprintf(stderr, "  process %u: told %lld us after the deadline\n", v->process->index,
                (long long)(now - deadline) / 1000);
    }
}

/* ---- Holding ------------------------------------------------------------- */

/* A look that says "ours" is a promise until then. Where the engine may forget, it is a belief. */
static bool look(struct contender *c, const struct rt_held *held, struct vigil *v)
{
    struct rt_record what = held->like;
    struct rt_record *record;
    int64_t now, left;

    what.kind = (c->plan->flags & STAGE_LOSSY) != 0 ? RT_BELIEF : RT_RENEW;
    what.look = 1;
    record = rt_history_begin(c->actor.history, &what);
    now = rt_history_now();
    left = rota_remaining_ms(held->lock);
    record->deadline = left > INT64_MAX / 4000000 ? 0 : now + left * 1000000;
    rt_history_end(record, left > 0 ? RT_OK : RT_FAIL);
    if (left > 0)
        __atomic_store_n(&v->until, record->deadline == 0 ? INT64_MAX / 2 : record->deadline,
                         __ATOMIC_RELEASE);
    return left > 0;
}

static void write_once(struct contender *c, const struct rt_held *held, uint32_t lock)
{
    if (held->like.mode == ROTA_EXCLUSIVE &&
        !rt_recorded_increment(&c->actor, held, c->process->resources[lock]))
        count(&c->process->shared->refused);
}

static void check(struct contender *c, const struct rt_held *held, struct vigil *v)
{
    struct rt_record what = held->like;
    struct rt_record *record;
    int64_t now;
    int err;

    what.kind = (c->plan->flags & STAGE_LOSSY) != 0 ? RT_BELIEF : RT_RENEW;
    record = rt_history_begin(c->actor.history, &what);
    __atomic_store_n(&v->blind, true, __ATOMIC_RELEASE);
    err = rota_check(held->lock);
    now = rt_history_now();
    if (err == 0)
        record->deadline = now; /* it was ours when it was answered: more was not said */
    rt_history_end(record, err == 0 ? RT_OK : RT_FAIL);
    if (err != 0 && err != ROTA_UNKNOWN)
        note_error(c, "rota_check", err);
}

static void hold(struct contender *c, const struct rt_held *held, uint32_t lock, struct vigil *v)
{
    int64_t until = rt_history_now();
    bool checks = (c->plan->flags & STAGE_SPICE) != 0 && chance(c, c->plan->spice_permille);
    bool ours;

    if (chance(c, c->plan->long_permille))
        until += (int64_t)rt_random_below(&c->random, c->plan->long_ms + 1) * 1000000;
    for (;;) {
        ours = look(c, held, v);
        if (ours || v->until != 0) /* else it was lost before the first look */
            __atomic_store_n(&v->blind, false, __ATOMIC_RELEASE);
        if (!ours)
            break;
        write_once(c, held, lock);
        if (checks)
            check(c, held, v);
        checks = false; /* it may wait long, and nobody looks meanwhile */
        if (rt_history_now() >= until || !running(c->process))
            break;
        stage_sleep_us(LOOK_EVERY_US);
    }
    if (!ours)
        stage_sleep_us(TOLD_WITHIN_US);
    /* What only the fence can stop: somebody who writes although it was told. */
    if (!ours && (c->plan->flags & (STAGE_LOSSY | STAGE_STOPS)) != 0)
        write_once(c, held, lock);
}

static void give_back(struct contender *c, struct rt_held *held)
{
    int err = rt_recorded_release(&c->actor, held);

    if (err != 0)
        note_error(c, "rota_release", err);
}

/* ---- Turns --------------------------------------------------------------- */

static void doing(struct contender *c, enum stage_doing what)
{
    __atomic_store_n(&c->seen->doing, what, __ATOMIC_RELAXED);
}

static void choose(struct contender *c, uint32_t *lock, struct rota_ask *ask)
{
    const struct stage_plan *plan = c->plan;
    uint32_t kinds = plan->locks + ((plan->flags & STAGE_PERMITS) != 0);

    *lock = rt_random_below(&c->random, kinds);
    if (*lock == plan->locks) {
        ask->mode = ROTA_PERMITS;
        ask->take = 1 + rt_random_below(&c->random, 2);
        ask->of = 3;
    } else if ((plan->flags & STAGE_SHARED) != 0 && chance(c, 250)) {
        ask->mode = ROTA_SHARED;
    }
    if ((plan->flags & STAGE_TRY) != 0 && chance(c, 200))
        ask->flags |= ROTA_TRY;
    else if ((plan->flags & STAGE_GIVE_UP) != 0 && chance(c, 200))
        ask->limit_ms = 1 + rt_random_below(&c->random, 20);
    __atomic_store_n(&c->seen->lock, *lock, __ATOMIC_RELAXED);
}

static void turn(struct contender *c)
{
    struct vigil v = {.process = c->process, .blind = true};
    struct rota_ask ask = {.owner = c->actor.owner, .on_lost = on_lost, .arg = &v};
    struct rt_held held;
    char name[32];
    uint32_t lock;
    int err;

    choose(c, &lock, &ask);
    stage_lock_name(lock, name, sizeof(name));
    doing(c, STAGE_ASKS);
    err = rt_recorded_acquire(&c->actor, name, &ask, &held);
    if (err != 0) {
        note_error(c, "rota_acquire", err);
        if (err != ROTA_BUSY && err != ROTA_TIMEOUT)
            stage_sleep_us(1000);
        return;
    }
    doing(c, STAGE_HOLDS);
    count(&c->process->shared->granted);
    hold(c, &held, lock, &v);
    doing(c, STAGE_RELEASES);
    __atomic_store_n(&v.blind, true, __ATOMIC_RELEASE);
    give_back(c, &held);
}

/* All of the exclusive locks in one step. */
static void take_all(struct contender *c)
{
    char texts[STAGE_LOCKS_MAX][32];
    const char *names[STAGE_LOCKS_MAX];
    struct rt_record *records[STAGE_LOCKS_MAX];
    struct rota_lock *locks[STAGE_LOCKS_MAX] = {NULL};
    struct rt_held held[STAGE_LOCKS_MAX];
    struct rota_ask ask = {.owner = c->actor.owner, .limit_ms = 3000};
    int err;

    for (uint32_t i = 0; i < c->plan->locks; i++) {
        stage_lock_name(i, texts[i], sizeof(texts[i]));
        names[i] = texts[i];
        records[i] = rt_recorded_begin(&c->actor, names[i], &ask);
    }
    err = rota_acquire_all(c->actor.rota, names, c->plan->locks, &ask, locks);
    for (uint32_t i = 0; i < c->plan->locks; i++)
        rt_recorded_granted(records[i], err, locks[i], &held[i]);
    if (err != 0) {
        note_error(c, "rota_acquire_all", err);
        return;
    }
    for (uint32_t i = 0; i < c->plan->locks; i++)
        give_back(c, &held[i]);
}

static void ignore_front(void *arg, const struct rota_front *front)
{
    (void)arg;
    (void)front;
}

static int observe(struct contender *c, const char *name)
{
    uint64_t id;
    int err = rota_observe(c->actor.rota, name, ignore_front, NULL, &id);

    if (err == 0)
        stage_sleep_us(1000 + rt_random_below(&c->random, 5000));
    return err == 0 ? rota_unobserve(c->actor.rota, id) : err;
}

/* Leads for a moment, on a line of its own. */
static int lead(struct contender *c)
{
    struct rota_ask ask = {.owner = c->actor.owner, .flags = ROTA_TRY};
    struct rota_lock *lock = NULL;
    int err = rota_elect(c->actor.rota, "chair", "comes", &ask, &lock), freed;

    if (err != 0)
        return err;
    err = rota_proclaim(lock, "leads");
    freed = rota_release(lock);
    return err != 0 ? err : freed;
}

/* A client of its own for one turn: connections and sessions come and go. */
static void visit(struct contender *c)
{
    const struct stage_plan *plan = c->plan;
    struct rota_options opts = {.ttl_ms = plan->ttl_ms, .call_ms = plan->call_ms};
    struct contender guest = *c;
    int err = rota_open(&guest.actor.rota, c->process->shared->url[c->process->index], &opts);

    if (err != 0) {
        guest.actor.rota = NULL;
        /* Before an engine is sure who answers, doubled or late replies may look like another kind of
         * server: a definite error. */
        note_error(&guest, "rota_open", err == ROTA_PROTOCOL ? ROTA_UNREACHABLE : err);
        return;
    }
    guest.actor.client = guest.actor.owner = rt_history_client(c->actor.history);
    turn(&guest);
    rota_close(guest.actor.rota);
    c->random = guest.random;
}

/* What else the programme has to see: reads, leaders, sets. Other tests judge their answers. */
static void spice(struct contender *c)
{
    struct rota_line *line = NULL;
    size_t lines = 0;
    char name[32];
    int err = 0;

    doing(c, STAGE_SPICES);
    stage_lock_name(0, name, sizeof(name));
    switch (rt_random_below(&c->random, 6)) {
    case 0:
        err = rota_inspect(c->actor.rota, name, &line);
        if (err == 0)
            rota_line_free(line);
        break;
    case 1:
        err = rota_list(c->actor.rota, "", &line, &lines);
        if (err == 0)
            rota_list_free(line, lines);
        break;
    case 2:
        err = observe(c, name);
        break;
    case 3:
        err = lead(c);
        break;
    case 4:
        visit(c);
        return;
    default:
        take_all(c);
        return;
    }
    if (err != 0 && err != ROTA_UNKNOWN)
        note_error(c, "a look around", err);
}

static void *contend_thread(void *arg)
{
    struct contender *c = arg;
    struct stage_shared *sh = c->process->shared;

    while (running(c->process)) {
        if ((c->plan->flags & STAGE_SPICE) != 0 && chance(c, c->plan->spice_permille))
            spice(c);
        else
            turn(c);
        doing(c, STAGE_IDLE);
        if (__atomic_add_fetch(&c->seen->turns, 1, __ATOMIC_ACQ_REL) == 1)
            rt_shared_add(&sh->had_turn, 1);
        if (c->plan->pause_us != 0)
            stage_sleep_us(rt_random_below(&c->random, c->plan->pause_us));
    }
    return NULL;
}

/* ---- The process --------------------------------------------------------- */

static int process_open(struct process *p)
{
    const struct stage_shared *sh = p->shared;
    struct rota_options opts = {.ttl_ms = sh->plan.ttl_ms, .call_ms = sh->plan.call_ms};
    char path[PATH_MAX];
    int err = ROTA_UNREACHABLE;

    if (rt_history_open(&p->history, sh->folder, STAGE_RECORDS) != 0)
        return 1;
    for (uint32_t i = 0; i < sh->plan.locks; i++) {
        stage_resource_path(sh, i, path, sizeof(path));
        if (rt_resource_open(&p->resources[i], path, STAGE_RECORDS) != 0)
            return 1;
    }
    /* Started in the middle of a fault it may have to try for a while. */
    for (int tries = 0; tries < 20 && err != 0; tries++)
        err = rota_open(&p->rota, sh->url[p->index], &opts);
    if (err != 0)
        fprintf(stderr, "contender: %s: %s\n", rota_strerror(err), rota_errmsg(NULL));
    return err == 0 ? 0 : 1;
}

static void contender_init(struct contender *c, struct process *p, uint32_t thread)
{
    uint64_t client = rt_history_client(p->history);
    uint64_t seed = p->shared->seed ^ (uint64_t)p->index << 40 ^ (uint64_t)thread << 32 ^
                    (uint64_t)p->shared->incarnation[p->index] << 16;

    *c = (struct contender){
        .process = p,
        .actor = {.history = p->history, .rota = p->rota, .client = client, .owner = client},
        .random = {.state = seed},
        .seen = &p->shared->threads[p->index][thread],
        .plan = &p->shared->plan};
}

int stage_contend(int index, void *arg)
{
    struct process p = {.shared = arg, .index = (uint32_t)index};
    struct contender contenders[STAGE_THREADS_MAX];
    pthread_t threads[STAGE_THREADS_MAX], pulse_thread;
    uint32_t n = p.shared->plan.threads;

    if (process_open(&p) != 0)
        return 1;
    /* Each thread holds once at a time. */
    rt_starved_init(&p.starved, PULSE_US * INT64_C(1000), STARVED_NS, n, rt_history_now());
    if (pthread_create(&pulse_thread, NULL, pulse, &p) != 0)
        return 1;
    for (uint32_t i = 0; i < n; i++) {
        contender_init(&contenders[i], &p, i);
        if (pthread_create(&threads[i], NULL, contend_thread, &contenders[i]) != 0)
            return 1;
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    rota_close(p.rota);
    __atomic_store_n(&p.ending, true, __ATOMIC_RELEASE);
    pthread_join(pulse_thread, NULL);
    rt_history_close(p.history);
    for (uint32_t i = 0; i < p.shared->plan.locks; i++)
        rt_resource_close(p.resources[i]);
    return 0;
}
