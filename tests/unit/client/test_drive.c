/* SPDX-License-Identifier: Apache-2.0 */
/* Who turns the loop: whoever stops hands it over to somebody, whatever becomes of the heir. */
#include "client/client.h"
#include "lib/patience.h"

#include <poll.h>
#include <pthread.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define HUNG_AFTER_S \
    60 /* a waiter that nobody drives for waits for ever: the alarm ends the test */

static struct rota *must_open(const char *url, uint32_t flags)
{
    struct rota_options opts = {.flags = flags};
    struct rota *r;
    if (rota_open(&r, url, &opts) != 0)
        fail_msg("%s: %s", url, rota_errmsg(NULL));
    return r;
}

/* ---- By hand ------------------------------------------------------------- */

/* W as a call that sleeps in rt_wait. */
static void put_asleep(struct rota *r, struct rt_waiter *w)
{
    rt_wait_init(r, w, NULL, NULL);
    atomic_store(&w->word, RT_WAIT_ASLEEP);
    w->listed = true;
    w->next = r->waiters;
    if (w->next != NULL)
        w->next->prev = w;
    r->waiters = w;
}

static void an_heir_that_is_decided_before_it_looks_names_the_next(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:heir", ROTA_NO_KEEPER);
    struct rt_waiter first, second, third;

    rt_client_lock(r);
    put_asleep(r, &third);
    put_asleep(r, &second);
    put_asleep(r, &first);
    rt_drive_pass(r);
    assert_int_equal(atomic_load(&first.word), RT_WAIT_LOOK);
    assert_int_equal(atomic_load(&second.word), RT_WAIT_ASLEEP);
    rt_wait_done(r, &first, 0);
    assert_int_equal(atomic_load(&second.word), RT_WAIT_LOOK);
    assert_int_equal(atomic_load(&third.word), RT_WAIT_ASLEEP);
    rt_wait_done(r, &third, 0); /* not the heir: nothing follows */
    rt_wait_done(r, &second, 0);
    assert_null(r->waiters);
    rt_client_unlock(r);
    rota_close(r);
}

/* ---- The race that lost it ----------------------------------------------- */

struct waiter {
    pthread_t thread;
    struct rota *r;
    const char *name;
    struct rota_ask ask;
};

static void *wait_and_release(void *arg)
{
    struct waiter *w = arg;
    struct rota_lock *lock = NULL;
    int rv = rota_acquire(w->r, w->name, &w->ask, &lock);
    if (rv == 0)
        rv = rota_release(lock);
    return rv == 0 ? NULL : w;
}

static bool sleeps(struct rota *r, unsigned count)
{
    unsigned seen = 0;
    rt_client_lock(r);
    for (const struct rt_waiter *w = r->waiters; w != NULL; w = w->next)
        seen++;
    rt_client_unlock(r);
    return seen >= count;
}

static void start(struct waiter *w, unsigned count)
{
    assert_int_equal(pthread_create(&w->thread, NULL, wait_and_release, w), 0);
    while (!sleeps(w->r, count))
        usleep(50);
}

struct releaser {
    struct rota_lock *lock;
    _Atomic int go;
    unsigned delay;
};

static void *release_later(void *arg)
{
    struct releaser *rel = arg;
    while (atomic_load(&rel->go) == 0)
        continue;
    for (unsigned i = 0; i < rel->delay; i++)
        (void)atomic_load(&rel->go);
    return rota_release(rel->lock) == 0 ? NULL : rel;
}

/* The caller of `far` drives the loop until the other client lets go; `near`, its heir, is decided at
 * about that moment by a release of the same client; then somebody has to drive for `last`. */
static void hand_over(struct rota *r, struct rota *other, unsigned delay, uint32_t permits)
{
    struct rota_ask near_ask = {.owner = ROTA_OWNER_NONE};
    struct rota_lock *far_held, *last_held;
    struct releaser rel = {.delay = delay};
    void *failed;

    if (permits != 0)
        near_ask = (struct rota_ask){
            .mode = ROTA_PERMITS, .take = permits, .of = permits, .owner = ROTA_OWNER_NONE};
    assert_int_equal(rota_acquire(other, "far", NULL, &far_held), 0);
    assert_int_equal(rota_acquire(other, "last", NULL, &last_held), 0);
    assert_int_equal(rota_acquire(r, "near", &near_ask, &rel.lock), 0);
    struct waiter far = {.r = r, .name = "far"}, last = {.r = r, .name = "last"};
    struct waiter near = {.r = r, .name = "near", .ask = near_ask};
    start(&far, 1);
    start(&last, 2);
    start(&near, 3);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release_later, &rel), 0);
    atomic_store(&rel.go, 1);
    assert_int_equal(rota_release(far_held), 0);
    pthread_join(thread, &failed);
    assert_null(failed);
    pthread_join(far.thread, &failed);
    assert_null(failed);
    pthread_join(near.thread, &failed);
    assert_null(failed);
    assert_int_equal(rota_release(last_held), 0);
    pthread_join(last.thread, &failed);
    assert_null(failed);
}

static void nobody_is_left_without_a_driver(void **state)
{
    (void)state;
    unsigned seed = 1;

    alarm(rt_patient_ms(HUNG_AFTER_S));
    for (unsigned i = 0; i < 2; i++) {
        struct rota *r = must_open("mem:handover", i == 0 ? ROTA_NO_KEEPER : 0);
        struct rota *other = must_open("mem:handover", 0);
        for (unsigned k = 0; k < 150; k++)
            hand_over(r, other, (unsigned)rand_r(&seed) % 8000, k % 2 == 0 ? 3 : 0);
        rota_close(other);
        rota_close(r);
    }
    alarm(0);
}

/* ---- Many names, many ways ------------------------------------------------ */

struct mixer {
    struct rota *r;
    unsigned seed, rounds;
};

static int mix_once(struct mixer *m)
{
    static const char *const names[] = {"a", "b", "c"};
    unsigned draw = (unsigned)rand_r(&m->seed);
    struct rota_ask ask = {.mode = draw % 8 == 0 ? ROTA_SHARED : ROTA_EXCLUSIVE,
                           .limit_ms = draw % 5 == 0 ? 1 : 0,
                           .linger_ms = draw % 7 == 0 ? 5 : 0};
    struct rota_lock *lock;
    int rv = rota_acquire(m->r, names[draw / 64 % 3], &ask, &lock);
    if (rv == ROTA_TIMEOUT && ask.limit_ms != 0)
        return 0;
    if (rv == 0 && draw % 3 == 0)
        usleep(draw / 256 % 200);
    if (rv == 0 && draw % 2 == 0)
        return rota_release_async(lock, NULL, NULL);
    return rv == 0 ? rota_release(lock) : rv;
}

static void *mix(void *arg)
{
    struct mixer *m = arg;
    for (unsigned k = 0; k < m->rounds; k++) {
        int rv = mix_once(m);
        if (rv != 0) {
            fprintf(stderr, "%s: %s\n", rota_strerror(rv), rota_errmsg(m->r));
            return m;
        }
    }
    return NULL;
}

struct processor {
    struct rota *r;
    _Atomic int stop;
};

/* The program's own loop. */
static void *process(void *arg)
{
    struct processor *p = arg;

    while (atomic_load(&p->stop) == 0) {
        struct pollfd pfd = {.fd = rota_fd(p->r), .events = POLLIN};
        int ms = rota_timeout_ms(p->r);
        poll(&pfd, 1, ms < 0 || ms > 5 ? 5 : ms);
        rota_process(p->r);
    }
    return NULL;
}

static void mix_all(uint32_t flags)
{
    struct rota *r[2] = {must_open("mem:mixed", flags), must_open("mem:mixed", 0)};
    struct processor processor = {.r = r[0]};
    struct mixer mixers[8];
    pthread_t threads[8], processing;
    void *failed;

    /* Without a keeper what nobody waits for needs the program: releases, the end of lingering. */
    if (flags == ROTA_NO_KEEPER)
        assert_int_equal(pthread_create(&processing, NULL, process, &processor), 0);
    for (unsigned i = 0; i < 8; i++) {
        mixers[i] = (struct mixer){.r = r[i % 4 == 3], .seed = i + 1, .rounds = 400};
        assert_int_equal(pthread_create(&threads[i], NULL, mix, &mixers[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    atomic_store(&processor.stop, 1);
    if (flags == ROTA_NO_KEEPER)
        pthread_join(processing, NULL);
    rota_close(r[0]);
    rota_close(r[1]);
}

static void waiters_of_every_kind_get_on(void **state)
{
    (void)state;
    alarm(rt_patient_ms(HUNG_AFTER_S));
    mix_all(0);
    mix_all(ROTA_NO_KEEPER);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_heir_that_is_decided_before_it_looks_names_the_next),
        cmocka_unit_test(nobody_is_left_without_a_driver),
        cmocka_unit_test(waiters_of_every_kind_get_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
