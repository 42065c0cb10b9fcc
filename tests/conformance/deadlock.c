/* SPDX-License-Identifier: Apache-2.0 */
/* ROTA_DETECT: of a ring of waiters exactly one is refused, and the others go on. */
#include "suite.h"

#include <stdio.h>

#define RING_MAX 4

/* Holds its own name and asks for the next one's. */
struct member {
    struct rota *r;
    const char *own, *next;
    uint64_t owner;
    struct rota_lock *lock;
    atomic_int *refused, *granted;
    pthread_barrier_t *start;
    int rv;
};

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct rota_ask ask = {.flags = ROTA_DETECT, .owner = m->owner};
    struct rota_lock *next = NULL;
    m->rv = rota_acquire(m->r, m->own, &ask, &m->lock);
    pthread_barrier_wait(m->start);
    if (m->rv != 0)
        return NULL;
    m->rv = rota_acquire(m->r, m->next, &ask, &next);
    if (m->rv == 0) {
        atomic_fetch_add(m->granted, 1);
        m->rv = rota_release(next);
    } else if (m->rv == ROTA_DEADLOCK) {
        atomic_fetch_add(m->refused, 1);
        m->rv = 0;
    }
    int rv = rota_release(m->lock);
    if (m->rv == 0)
        m->rv = rv;
    return NULL;
}

static void ring(size_t n, bool one_client)
{
    char text[RING_MAX][8];
    struct member *members = conf_alloc(RING_MAX * sizeof *members);
    atomic_int *counts = conf_alloc(2 * sizeof *counts);
    pthread_barrier_t *start = conf_alloc(sizeof *start);
    struct conf_thread *threads[RING_MAX];
    struct rota *only = one_client ? conf_open() : NULL;
    pthread_barrier_init(start, NULL, (unsigned)n);
    for (size_t i = 0; i < n; i++)
        snprintf(text[i], sizeof text[i], "%zu", i);
    for (size_t i = 0; i < n; i++) {
        members[i] = (struct member){.r = only != NULL ? only : conf_open(),
                                     .own = conf_name(text[i]),
                                     .next = conf_name(text[(i + 1) % n]),
                                     .owner = i + 1,
                                     .refused = &counts[0],
                                     .granted = &counts[1],
                                     .start = start};
    }
    for (size_t i = 0; i < n; i++)
        threads[i] = conf_spawn(member_main, &members[i]);
    for (size_t i = 0; i < n; i++) {
        conf_join(threads[i]);
        assert_int_equal(members[i].rv, 0);
    }
    pthread_barrier_destroy(start);
    assert_int_equal(atomic_load(&counts[0]), 1);
    assert_int_equal(atomic_load(&counts[1]), (int)n - 1);
}

static void ring_of_two(void)
{
    ring(2, false);
}

static void ring_of_three(void)
{
    ring(3, false);
}

static void ring_of_two_threads(void)
{
    ring(2, true);
}

static void ring_of_four_threads(void)
{
    ring(4, true);
}

static void ring_of_processes(void)
{
    struct conf_agent *agents[2] = {conf_agent_new(), conf_agent_new()};
    const char *names[2] = {conf_name("a"), conf_name("b")};
    int rv[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(conf_agent_ask(agents[i], NULL, "acquire %s flags=2", names[i]), 0);
    for (size_t i = 0; i < 2; i++)
        conf_agent_send(agents[i], "acquire %s flags=2", names[1 - i]);
    /* One is refused; it lets go, and the other is granted: their replies come in either order, so
     * both are told to release beforehand. */
    for (size_t i = 0; i < 2; i++)
        conf_agent_send(agents[i], "release %s", names[i]);
    for (size_t i = 0; i < 2; i++) {
        rv[i] = conf_agent_reply(agents[i], NULL);
        assert_int_equal(conf_agent_reply(agents[i], NULL), 0);
    }
    assert_true((rv[0] == 0 && rv[1] == ROTA_DEADLOCK) || (rv[1] == 0 && rv[0] == ROTA_DEADLOCK));
    for (size_t i = 0; i < 2; i++)
        conf_agent_end(agents[i]);
}

/* A chain of waiters is no ring: nobody is refused. */
static void chain_is_no_deadlock(void)
{
    struct rota *a = conf_open(), *b = conf_open(), *c = conf_open();
    const char *x = conf_name("x"), *y = conf_name("y");
    struct rota_ask detect = {.flags = ROTA_DETECT};
    struct rota_lock *lock_x = conf_take(a, x, &detect), *lock_y = conf_take(b, y, &detect);
    struct conf_task *first = conf_task_start(b, x, &detect); /* b waits for a */
    conf_wait_line(a, x, 2, 1);
    struct conf_task *second = conf_task_start(c, y, &detect); /* c waits for b */
    struct conf_task *third = conf_task_start(c, x, &detect);  /* and for a */
    conf_wait_line(a, x, 3, 1);
    conf_wait_line(a, y, 2, 1);
    conf_give(lock_x);
    conf_give(conf_task_lock(first));
    conf_give(lock_y);
    conf_give(conf_task_lock(second));
    conf_give(conf_task_lock(third));
}

/* A limit ends a wait in a ring that nobody is to detect. */
static void ring_without_detect_waits(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *x = conf_name("x"), *y = conf_name("y");
    struct rota_ask soon = {.limit_ms = 60};
    struct rota_lock *lock_x = conf_take(a, x, NULL), *lock_y = conf_take(b, y, NULL), *out = NULL;
    struct conf_task *task = conf_task_start(a, y, NULL);
    conf_wait_line(b, y, 2, 1);
    assert_int_equal(rota_acquire(b, x, &soon, &out), ROTA_TIMEOUT);
    conf_give(lock_y);
    conf_give(conf_task_lock(task));
    conf_give(lock_x);
}

const struct conf_case conf_deadlock[] = {
    CONF_CASE(ring_of_two, ROTA_CAP_ORDER, 0),
    CONF_CASE(ring_of_three, ROTA_CAP_ORDER, 0),
    CONF_CASE(ring_of_two_threads, ROTA_CAP_ORDER, 0),
    CONF_CASE(ring_of_four_threads, ROTA_CAP_ORDER, 0),
    CONF_CASE(ring_of_processes, ROTA_CAP_ORDER, CONF_PROCESSES),
    CONF_CASE(chain_is_no_deadlock, ROTA_CAP_ORDER, 0),
    CONF_CASE(ring_without_detect_waits, 0, 0),
    CONF_END,
};
