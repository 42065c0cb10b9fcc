/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous twins, callbacks (I9), and clients driven by their program's own loop. */
#include "suite.h"

#include <poll.h>

struct done {
    atomic_int calls, err;
};

static void on_done(void *arg, int err)
{
    struct done *done = arg;
    atomic_store(&done->err, err);
    atomic_fetch_add(&done->calls, 1);
}

static int done_wait(struct done *done)
{
    CONF_UNTIL(atomic_load(&done->calls) > 0);
    assert_int_equal(atomic_load(&done->calls), 1);
    return atomic_load(&done->err);
}

static void async_twins(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct done *checked = conf_alloc(sizeof *checked), *released = conf_alloc(sizeof *released);
    struct conf_wish *wish = conf_wish_start(a, name, NULL);
    assert_int_equal(conf_wish_wait(wish), 0);
    struct rota_lock *lock = atomic_load(&wish->lock);
    assert_true(rota_fence(lock) > 0 || (conf.caps & ROTA_CAP_FENCE) == 0);
    assert_int_equal(conf_try(b, name, NULL, NULL), ROTA_BUSY);
    assert_int_equal(rota_check_async(lock, on_done, checked), 0);
    assert_int_equal(done_wait(checked), 0);
    assert_int_equal(rota_release_async(lock, on_done, released), 0);
    assert_int_equal(done_wait(released), 0);
    assert_int_equal(conf_try(b, name, NULL, NULL), 0);
    assert_int_equal(atomic_load(&wish->calls), 1);
}

static void async_release_without_callback(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    assert_int_equal(rota_release_async(conf_take(a, name, NULL), NULL, NULL), 0);
    conf_give(conf_take(b, name, NULL));
    assert_int_equal(rota_release_async(NULL, NULL, NULL), 0);
}

static void async_refusals(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct done *done = conf_alloc(2 * sizeof *done);
    struct rota_ask try = {.flags = ROTA_TRY}, soon = {.limit_ms = 30};
    struct rota_lock *lock = conf_take(a, name, NULL);
    assert_int_equal(conf_wish_wait(conf_wish_start(b, name, &try)), ROTA_BUSY);
    assert_int_equal(conf_wish_wait(conf_wish_start(b, name, &soon)), ROTA_TIMEOUT);
    conf_left_line(b, name, 1, 1);
    assert_int_equal(rota_break(b, name, rota_fence(lock)), 0);
    assert_int_equal(rota_check_async(lock, on_done, &done[0]), 0);
    assert_int_equal(done_wait(&done[0]), ROTA_LOST);
    assert_int_equal(rota_release_async(lock, on_done, &done[1]), 0);
    assert_int_equal(done_wait(&done[1]), ROTA_LOST);
}

/* ---- Inside callbacks --------------------------------------------------- */

struct insider {
    struct rota *r;
    const char *name;
    pthread_t starter;
    int said[8];
    bool same_thread;
    atomic_int rounds; /* left; then done */
    atomic_bool done;
};

static void on_insider_grant(void *arg, int err, struct rota_lock *lock)
{
    struct insider *in = arg;
    struct rota_lock *out = NULL;
    struct rota_line *line = NULL;
    size_t count;
    in->same_thread = pthread_equal(pthread_self(), in->starter) != 0;
    in->said[0] = err;
    in->said[1] = rota_acquire(in->r, in->name, NULL, &out);
    in->said[2] = rota_check(lock);
    in->said[3] = rota_inspect(in->r, in->name, &line);
    in->said[4] = rota_list(in->r, NULL, &line, &count);
    in->said[5] = rota_once(in->r, in->name, 1, NULL);
    in->said[6] = rota_remaining_ms(lock) > 0 ? 0 : -1; /* no I/O: fine */
    in->said[7] = rota_release_async(lock, NULL, NULL);
    atomic_store(&in->done, true);
}

static void sync_calls_inside_callbacks(void)
{
    struct rota *a = conf_open();
    struct insider *in = conf_alloc(sizeof *in);
    *in = (struct insider){.r = a, .name = conf_name("x"), .starter = pthread_self()};
    assert_int_equal(rota_acquire_async(a, in->name, NULL, on_insider_grant, in, NULL), 0);
    CONF_UNTIL(atomic_load(&in->done));
    assert_false(in->same_thread);
    for (size_t i = 1; i < 6; i++)
        assert_int_equal(in->said[i], ROTA_INVALID);
    assert_int_equal(in->said[0], 0);
    assert_int_equal(in->said[6], 0);
    assert_int_equal(in->said[7], 0);
    conf_give(conf_take(a, in->name, NULL));
}

static void on_chained_grant(void *arg, int err, struct rota_lock *lock)
{
    struct insider *in = arg;
    in->said[0] |= err | rota_release_async(lock, NULL, NULL);
    if (atomic_fetch_sub(&in->rounds, 1) > 1 && in->said[0] == 0)
        in->said[0] |= rota_acquire_async(in->r, in->name, NULL, on_chained_grant, in, NULL);
    else
        atomic_store(&in->done, true);
}

static void asks_inside_callbacks(void)
{
    struct rota *a = conf_open();
    struct insider *in = conf_alloc(sizeof *in);
    in->r = a;
    in->name = conf_name("x");
    atomic_store(&in->rounds, 100);
    assert_int_equal(rota_acquire_async(a, in->name, NULL, on_chained_grant, in, NULL), 0);
    CONF_UNTIL(atomic_load(&in->done));
    assert_int_equal(in->said[0], 0);
    assert_int_equal(atomic_load(&in->rounds), 0);
    conf_wait_line(conf_open(), in->name, 0, 0);
}

/* Many asks at once, some of them canceled: each is answered once. */
static void every_ask_is_answered_once(void)
{
    enum { ASKS = 100 };
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_wish *wishes[ASKS];
    for (size_t i = 0; i < ASKS; i++)
        wishes[i] = conf_wish_start(a, name, NULL);
    for (size_t i = 0; i < ASKS; i += 3)
        assert_int_equal(rota_cancel(a, wishes[i]->id), 0);
    conf_give(lock);
    for (size_t i = 0; i < ASKS; i++) {
        assert_int_equal(conf_wish_wait(wishes[i]), i % 3 == 0 ? ROTA_CANCELED : 0);
        if (i % 3 != 0)
            conf_give(atomic_load(&wishes[i]->lock));
    }
    for (size_t i = 0; i < ASKS; i++)
        assert_int_equal(atomic_load(&wishes[i]->calls), 1);
}

/* ---- A loop of the program's own ---------------------------------------- */

/* One turn of a loop over both clients. */
static void turn(struct rota *a, struct rota *b)
{
    struct pollfd fds[2] = {{.fd = rota_fd(a), .events = POLLIN}, {.fd = -1}};
    int timeout = rota_timeout_ms(a);
    if (b != NULL) {
        int other = rota_timeout_ms(b);
        fds[1] = (struct pollfd){.fd = rota_fd(b), .events = POLLIN};
        timeout = timeout < 0 || (other >= 0 && other < timeout) ? other : timeout;
    }
    timeout = timeout < 0 || timeout > 100 ? 100 : timeout; /* so that CONF_UNTIL can give up */
    assert_true(poll(fds, 2, timeout) >= 0);
    assert_int_equal(rota_process(a), 0);
    if (b != NULL)
        assert_int_equal(rota_process(b), 0);
}

static const struct rota_options no_keeper = {.flags = ROTA_NO_KEEPER};

static void no_keeper_runs_by_process(void)
{
    struct rota *a = conf_open_with(&no_keeper), *b = conf_open_with(&no_keeper);
    const char *name = conf_name("x");
    struct rota_ask soon = {.limit_ms = 40};
    struct done *released = conf_alloc(sizeof *released);
    assert_true(rota_fd(a) >= 0 && rota_fd(a) != rota_fd(b));
    struct conf_wish *first = conf_wish_start(a, name, NULL);
    CONF_UNTIL((turn(a, NULL), atomic_load(&first->calls) > 0));
    assert_int_equal(conf_wish_wait(first), 0);
    struct conf_wish *late = conf_wish_start(b, name, &soon);
    CONF_UNTIL((turn(a, b), atomic_load(&late->calls) > 0));
    assert_int_equal(conf_wish_wait(late), ROTA_TIMEOUT); /* a timer, by rota_timeout_ms */
    struct conf_wish *second = conf_wish_start(b, name, NULL);
    turn(a, b);
    assert_int_equal(rota_release_async(atomic_load(&first->lock), on_done, released), 0);
    assert_int_equal(atomic_load(&released->calls), 0);
    CONF_UNTIL((turn(a, b), atomic_load(&second->calls) > 0 && atomic_load(&released->calls) > 0));
    assert_int_equal(conf_wish_wait(second), 0);
    assert_int_equal(atomic_load(&released->err), 0);
    conf_give(atomic_load(&second->lock)); /* synchronous calls drive the loop themselves */
    assert_int_equal(rota_process(a), 0);
}

static void on_lost(struct rota_lock *lock, int reason, void *arg)
{
    (void)lock;
    on_done(arg, reason);
}

/* Callbacks of such a client run inside rota_process and nowhere else. */
static void no_keeper_tells_only_in_process(void)
{
    struct rota *a = conf_open_with(&no_keeper), *b = conf_open();
    const char *name = conf_name("x");
    struct done *lost = conf_alloc(sizeof *lost);
    struct rota_ask ask = {.on_lost = on_lost, .arg = lost};
    struct rota_lock *lock = conf_take(a, name, &ask);
    assert_int_equal(rota_break(b, name, rota_fence(lock)), 0);
    assert_int_equal(conf_try(a, conf_name("y"), NULL, NULL), 0); /* drives the loop */
    assert_int_equal(rota_check(lock), ROTA_LOST);
    assert_int_equal(atomic_load(&lost->calls), 0);
    CONF_UNTIL((turn(a, NULL), atomic_load(&lost->calls) > 0));
    assert_int_equal(atomic_load(&lost->err), ROTA_LOST);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    assert_int_equal(rota_process(a), 0);
    assert_int_equal(atomic_load(&lost->calls), 1);
}

static void no_keeper_waits_synchronously(void)
{
    struct rota *a = conf_open(), *b = conf_open_with(&no_keeper);
    const char *name = conf_name("x");
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_task *task = conf_task_start(b, name, NULL);
    conf_wait_line(a, name, 2, 1);
    conf_give(lock);
    conf_give(conf_task_lock(task));
}

const struct conf_case conf_async[] = {
    CONF_CASE(async_twins, 0, 0),
    CONF_CASE(async_release_without_callback, 0, 0),
    CONF_CASE(async_refusals, ROTA_CAP_FENCE, 0),
    CONF_CASE(sync_calls_inside_callbacks, 0, 0),
    CONF_CASE(asks_inside_callbacks, 0, 0),
    CONF_CASE(every_ask_is_answered_once, 0, 0),
    CONF_CASE(no_keeper_runs_by_process, 0, 0),
    CONF_CASE(no_keeper_tells_only_in_process, ROTA_CAP_FENCE, 0),
    CONF_CASE(no_keeper_waits_synchronously, 0, 0),
    CONF_END,
};
