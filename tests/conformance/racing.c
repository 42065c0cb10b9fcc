/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of a wait that race with its grant: neither a leaked hold nor a lost one. */
#include "suite.h"

#define RACES 200

/* Not to let something happen, but to shift the moment: too late in every other round. */
static void spin(int64_t delay_ns)
{
    int64_t end = rt_history_now() + delay_ns;
    while (rt_history_now() < end)
        ;
}

struct releaser {
    pthread_barrier_t start, end;
    struct rota_lock *lock; /* NULL ends it */
    int64_t delay_ns;
    int rv;
};

static void *releaser_main(void *arg)
{
    struct releaser *releaser = arg;
    for (;;) {
        pthread_barrier_wait(&releaser->start);
        if (releaser->lock == NULL)
            return NULL;
        spin(releaser->delay_ns);
        releaser->rv = rota_release(releaser->lock);
        pthread_barrier_wait(&releaser->end);
    }
}

struct racer {
    struct rota *a, *b;
    const char *name;
    struct releaser *releaser;
    int64_t delay_ns; /* of whoever goes second; below 0: of the other */
};

static void aim(struct racer *racer, bool later)
{
    int64_t step = (racer->delay_ns < 0 ? -racer->delay_ns : racer->delay_ns) / 8 + 500;
    racer->delay_ns += later ? step : -step;
    racer->releaser->delay_ns = -racer->delay_ns; /* nothing, if below 0 */
}

/* How the waiter gives up while the holder releases. True if it was granted all the same. */
typedef bool race_fn(struct racer *racer);

static bool race_cancel(struct racer *racer)
{
    struct rota_ask ask = {.owner = ROTA_OWNER_NONE};
    struct conf_wish *wish = conf_wish_start(racer->b, racer->name, &ask);
    if (racer->a != racer->b)
        conf_wait_line(racer->a, racer->name, 2, 1);
    pthread_barrier_wait(&racer->releaser->start);
    spin(racer->delay_ns);
    int rv = rota_cancel(racer->b, wish->id);
    assert_true(rv == 0 || rv == ROTA_INVALID);
    int err = conf_wish_wait(wish);
    assert_true(err == 0 || err == ROTA_CANCELED);
    if (err == ROTA_CANCELED)
        assert_int_equal(rv, 0);
    pthread_barrier_wait(&racer->releaser->end);
    if (err == 0)
        conf_give(atomic_load(&wish->lock));
    aim(racer, err != 0);
    return err == 0;
}

static bool race_limit(struct racer *racer)
{
    struct rota_ask ask = {.limit_ms = 1, .owner = ROTA_OWNER_NONE};
    struct conf_task *task = conf_task_start(racer->b, racer->name, &ask);
    pthread_barrier_wait(&racer->releaser->start);
    int err = conf_task_join(task);
    assert_true(err == 0 || err == ROTA_TIMEOUT);
    pthread_barrier_wait(&racer->releaser->end);
    if (err == 0)
        conf_give(task->lock);
    aim(racer, err != 0); /* only the release can be moved */
    return err == 0;
}

static bool race_interrupt(struct racer *racer)
{
    struct rota_ask ask = {.owner = ROTA_OWNER_NONE};
    struct conf_task *task = conf_task_start(racer->b, racer->name, &ask);
    if (racer->a != racer->b)
        conf_wait_line(racer->a, racer->name, 2, 1);
    pthread_barrier_wait(&racer->releaser->start);
    spin(racer->delay_ns);
    rota_interrupt(racer->b);
    int err = conf_task_join(task);
    assert_true(err == 0 || err == ROTA_CANCELED);
    pthread_barrier_wait(&racer->releaser->end);
    if (err == 0)
        conf_give(task->lock);
    aim(racer, err != 0);
    return err == 0;
}

static void race(race_fn *fn, bool one_client)
{
    int rounds = conf_rounds(RACES);
    struct racer racer = {.a = conf_open(), .name = conf_name("x")};
    struct rota *third = conf_open();
    struct releaser *releaser = conf_alloc(sizeof *releaser);
    racer.releaser = releaser;
    racer.b = one_client ? racer.a : conf_open();
    pthread_barrier_init(&releaser->start, NULL, 2);
    pthread_barrier_init(&releaser->end, NULL, 2);
    struct conf_thread *thread = conf_spawn(releaser_main, releaser);
    int granted = 0;
    for (int i = 0; i < rounds; i++) {
        releaser->lock = conf_take(racer.a, racer.name, NULL);
        granted += fn(&racer);
        assert_int_equal(releaser->rv, 0);
        /* Whoever won, nothing is held and nobody waits: not leaked (its client's beats would keep
         * it), not lost. */
        if ((conf.caps & ROTA_CAP_SHARED_HOSTS) == 0)
            assert_int_equal(conf_try(third, racer.name, NULL, NULL), 0);
        else /* what was given up may still be on its way, also its JOIN */
            CONF_UNTIL(conf_try(third, racer.name, NULL, NULL) == 0);
    }
    releaser->lock = NULL;
    pthread_barrier_wait(&releaser->start);
    conf_join(thread);
    print_message("granted %d, given up %d\n", granted, rounds - granted);
    conf_left_line(third, racer.name, 0, 0);
}

static void cancel_at_the_grant(void)
{
    race(race_cancel, false);
}

static void cancel_at_the_local_grant(void)
{
    race(race_cancel, true);
}

static void limit_at_the_grant(void)
{
    race(race_limit, false);
    race(race_limit, true);
}

static void interrupt_at_the_grant(void)
{
    race(race_interrupt, false);
}

const struct conf_case conf_racing[] = {
    CONF_CASE(cancel_at_the_grant, 0, 0),
    CONF_CASE(cancel_at_the_local_grant, 0, 0),
    CONF_CASE(limit_at_the_grant, 0, 0),
    CONF_CASE(interrupt_at_the_grant, 0, 0),
    CONF_END,
};
