/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting and its ends: try, limit, cancel, interrupt, close. */
#include "suite.h"

#include <signal.h>
#include <unistd.h>

static void try_is_busy(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *lock = conf_take(a, name, NULL);
    assert_int_equal(conf_try(b, name, NULL, NULL), ROTA_BUSY);
    assert_true(rota_errmsg(b)[0] != '\0');
    conf_assert_line(b, name, 1, 1);
    conf_give(lock);
    assert_int_equal(conf_try(b, name, NULL, NULL), 0);
}

/* On `taken` by another client, and on `ours` by another thread of the same client. */
static void tries_leave_nothing(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *taken = conf_name("taken"), *ours = conf_name("ours");
    struct rota_ask nobody = {.owner = ROTA_OWNER_NONE};
    struct rota_lock *there = conf_take(a, taken, NULL), *here = conf_take(b, ours, &nobody);
    assert_int_equal(conf_try(b, taken, NULL, NULL), ROTA_BUSY);
    size_t files = conf_count_files(), lines = conf_count_lines(b, conf.prefix);
    assert_int_equal(lines, 2);
    for (int i = 0; i < conf_rounds(10000); i++) {
        if (conf_try(b, i % 4 == 0 ? ours : taken, &nobody, NULL) != ROTA_BUSY)
            fail_msg("try %d", i);
    }
    assert_int_equal(conf_count_files(), files);
    assert_int_equal(conf_count_lines(b, conf.prefix), lines);
    conf_assert_line(b, taken, 1, 1);
    conf_assert_line(b, ours, 1, 1);
    conf_give(there);
    conf_give(here);
    assert_int_equal(conf_count_lines(b, conf.prefix), 0);
}

static void limit_ends_the_waiting(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.limit_ms = 50};
    struct rota_lock *lock = conf_take(a, name, NULL), *out = NULL;
    int64_t begin = conf_now_ms();
    assert_int_equal(rota_acquire(b, name, &ask, &out), ROTA_TIMEOUT);
    assert_null(out);
    assert_true(conf_now_ms() - begin >= 49); /* never before its time */
    conf_left_line(b, name, 1, 1);
    /* The same between threads of one client, where the line is local. */
    ask.owner = ROTA_OWNER_NONE;
    assert_int_equal(rota_acquire(a, name, &ask, &out), ROTA_TIMEOUT);
    conf_assert_line(b, name, 1, 1);
    conf_give(lock);
    ask.limit_ms = CONF_PATIENCE_MS;
    conf_give(conf_take(b, name, &ask));
}

/* Waiters 0, 1, 2 stand behind the holder; 1 gives up. CLIENTS: one each, or all the same. */
static void cancel_the_middle(struct rota *clients[3])
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.owner = ROTA_OWNER_NONE};
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_wish *wishes[3];
    bool alone = clients[0] != clients[1];
    for (size_t i = 0; i < 3; i++) {
        wishes[i] = conf_wish_start(clients[i], name, &ask);
        conf_wait_line(a, name, alone ? i + 2 : 2, 1);
    }
    assert_int_equal(rota_cancel(clients[1], wishes[1]->id), 0);
    assert_int_equal(conf_wish_wait(wishes[1]), ROTA_CANCELED);
    conf_left_line(a, name, alone ? 3 : 2, 1);
    assert_int_equal(rota_cancel(clients[1], wishes[1]->id), ROTA_INVALID);
    assert_int_equal(atomic_load(&wishes[0]->calls) + atomic_load(&wishes[2]->calls), 0);
    conf_give(lock);
    assert_int_equal(conf_wish_wait(wishes[0]), 0);
    assert_int_equal(atomic_load(&wishes[2]->calls), 0);
    uint64_t first = rota_fence(atomic_load(&wishes[0]->lock));
    conf_give(atomic_load(&wishes[0]->lock));
    assert_int_equal(conf_wish_wait(wishes[2]), 0);
    assert_true(rota_fence(atomic_load(&wishes[2]->lock)) > first || !alone);
    conf_give(atomic_load(&wishes[2]->lock));
    conf_assert_line(a, name, 0, 0);
}

static void cancel_in_mid_queue(void)
{
    cancel_the_middle((struct rota *[3]){conf_open(), conf_open(), conf_open()});
}

static void cancel_in_mid_local_queue(void)
{
    struct rota *r = conf_open();
    cancel_the_middle((struct rota *[3]){r, r, r});
}

static void cancel_of_unknown_ask(void)
{
    struct rota *a = conf_open();
    struct conf_wish *wish = conf_wish_start(a, conf_name("x"), NULL);
    assert_int_equal(conf_wish_wait(wish), 0);
    assert_int_equal(rota_cancel(a, wish->id), ROTA_INVALID);
    assert_int_equal(rota_cancel(a, wish->id + 1000), ROTA_INVALID);
    conf_give(atomic_load(&wish->lock));
}

/* Three threads of one client: on another's lock, on one of its own, on permits. */
static void interrupt_ends_all_waiting(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x"), *own = conf_name("own");
    struct rota_ask nobody = {.owner = ROTA_OWNER_NONE};
    struct rota_lock *lock = conf_take(a, name, NULL), *mine = conf_take(b, own, &nobody);
    struct conf_task *tasks[3];
    for (size_t i = 0; i < 3; i++)
        tasks[i] = conf_task_start(b, i == 2 ? own : name, &nobody);
    conf_wait_line(a, name, 2, 1);
    /* An interrupt is for calls that wait now; we cannot see when the last one does. */
    for (size_t i = 0; i < 3; i++) {
        CONF_UNTIL((rota_interrupt(b), atomic_load(&tasks[i]->done)));
        assert_int_equal(conf_task_join(tasks[i]), ROTA_CANCELED);
        assert_null(tasks[i]->lock);
    }
    conf_left_line(a, name, 1, 1);
    conf_left_line(a, own, 1, 1);
    assert_int_equal(rota_check(mine), 0);
    conf_give(lock);
    conf_give(mine);
    conf_give(conf_take(b, name, NULL)); /* and the client goes on working */
}

static struct rota *signalled;

static void on_signal(int number)
{
    (void)number;
    rota_interrupt(signalled);
}

static void interrupt_from_a_signal(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *lock = conf_take(a, name, NULL);
    signalled = conf_open();
    struct sigaction action = {.sa_handler = on_signal}, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    struct conf_task *task = conf_task_start(signalled, name, NULL);
    conf_wait_line(a, name, 2, 1);
    CONF_UNTIL((kill(getpid(), SIGUSR1), atomic_load(&task->done)));
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    assert_int_equal(conf_task_join(task), ROTA_CANCELED);
    conf_left_line(a, name, 1, 1);
    conf_give(lock);
}

/* Every waiter has a line of its own, so that all can be seen waiting. */
static void close_with_waiters(void)
{
    static const char *const tails[] = {"a", "b", "c", "d"};
    struct rota *a = conf_open(), *b = conf_open();
    struct rota_lock *locks[4];
    struct conf_task *tasks[4];
    struct conf_wish *wish = NULL;
    for (size_t i = 0; i < 4; i++) {
        locks[i] = conf_take(a, conf_name(tails[i]), NULL);
        if (i < 3)
            tasks[i] = conf_task_start(b, conf_name(tails[i]), NULL);
        else
            wish = conf_wish_start(b, conf_name(tails[i]), NULL);
        conf_wait_line(a, conf_name(tails[i]), 2, 1);
        conf_wait_asks(i + 1);
    }
    conf_take(b, conf_name("held"), NULL); /* gone with the client, its handle too */
    conf_close(b);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(conf_task_join(tasks[i]), ROTA_CLOSED);
    assert_int_equal(atomic_load(&wish->calls), 1); /* pending callbacks ran first */
    assert_int_equal(atomic_load(&wish->err), ROTA_CLOSED);
    for (size_t i = 0; i < 4; i++) {
        conf_assert_line(a, conf_name(tails[i]), 1, 1);
        conf_give(locks[i]);
    }
    assert_int_equal(conf_try(a, conf_name("held"), NULL, NULL), 0);
}

/* Several waiters of one client in one line: permits, as each has a ticket of its own. */
static void close_with_waiters_in_one_line(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask ask = {.mode = ROTA_PERMITS, .take = 2, .of = 2};
    struct rota_lock *lock = conf_take(a, name, &ask);
    struct conf_task *tasks[4];
    for (size_t i = 0; i < 4; i++)
        tasks[i] = conf_task_start(b, name, &ask);
    conf_wait_line(a, name, 5, 1);
    conf_close(b);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(conf_task_join(tasks[i]), ROTA_CLOSED);
    conf_assert_line(a, name, 1, 1);
    conf_give(lock);
}

/* ---- ROTA_REJOIN -------------------------------------------------------- */

struct standing { /* what a waiter was told of its place */
    _Atomic int lost, back;
};

static void on_wait(void *arg, int err)
{
    struct standing *s = arg;
    atomic_fetch_add(err != 0 ? &s->lost : &s->back, 1);
}

static void break_place(struct rota *r, const char *name, size_t place)
{
    struct rota_line *line;
    assert_int_equal(rota_inspect(r, name, &line), 0);
    assert_true(place < line->count);
    assert_int_equal(rota_break(r, name, line->places[place].number), 0);
    rota_line_free(line);
}

/* Two waiters behind the holder; the place of the first is taken away: it goes to the end. */
static void go_back(const struct rota_ask *ask)
{
    struct rota *a = conf_open(), *b = conf_open(), *c = conf_open();
    const char *name = conf_name("x");
    struct standing *s = conf_alloc(sizeof(*s));
    struct rota_ask stays = *ask, plain = *ask;
    stays.flags |= ROTA_REJOIN;
    stays.on_wait = on_wait;
    stays.arg = s;
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_wish *first = conf_wish_start(b, name, &stays);
    conf_wait_line(a, name, 2, 1);
    struct conf_wish *second = conf_wish_start(c, name, &plain);
    conf_wait_line(a, name, 3, 1);
    break_place(a, name, 1);
    CONF_UNTIL(atomic_load(&s->back) == 1);
    assert_int_equal(atomic_load(&s->lost), 1);
    conf_assert_line(a, name, 3, 1);
    conf_give(lock);
    assert_int_equal(conf_wish_wait(second), 0);
    assert_int_equal(atomic_load(&first->calls), 0);
    conf_give(atomic_load(&second->lock));
    assert_int_equal(conf_wish_wait(first), 0);
    conf_give(atomic_load(&first->lock));
    conf_assert_line(a, name, 0, 0);
    assert_int_equal(atomic_load(&s->lost) + atomic_load(&s->back), 2);
}

static void a_lost_place_is_taken_anew(void)
{
    go_back(&(struct rota_ask){.owner = ROTA_OWNER_NONE});
}

/* With a ticket of its own. */
static void a_lost_place_of_its_own_is_taken_anew(void)
{
    go_back(&(struct rota_ask){.flags = ROTA_DETECT, .owner = 1});
}

/* A call that waits in its thread; the keeper tells it. */
static void a_lost_place_of_a_waiting_call(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct standing *s = conf_alloc(sizeof(*s));
    struct rota_ask ask = {.flags = ROTA_REJOIN, .arg = s, .on_wait = on_wait};
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_task *task = conf_task_start(b, name, &ask);
    conf_wait_line(a, name, 2, 1);
    for (int i = 1; i <= 3; i++) { /* each time anew */
        break_place(a, name, 1);
        CONF_UNTIL(atomic_load(&s->lost) == i && atomic_load(&s->back) == i);
    }
    conf_give(lock);
    assert_int_equal(conf_task_join(task), 0);
    conf_give(task->lock);
}

static void a_lost_place_is_told_otherwise(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *lock = conf_take(a, name, NULL), *out = NULL;
    struct conf_wish *wish = conf_wish_start(b, name, NULL);
    conf_wait_line(a, name, 2, 1);
    break_place(a, name, 1);
    assert_int_equal(conf_wish_wait(wish), ROTA_LOST);
    conf_give(lock);
    struct rota_ask ask = {.flags = ROTA_REJOIN | ROTA_TRY};
    assert_int_equal(rota_acquire(b, name, &ask, &out), ROTA_INVALID);
    ask = (struct rota_ask){.on_wait = on_wait};
    assert_int_equal(rota_acquire(b, name, &ask, &out), ROTA_INVALID);
    ask = (struct rota_ask){.flags = ROTA_REJOIN};
    assert_int_equal(rota_acquire_all(b, &name, 1, &ask, &out), ROTA_INVALID);
    conf_give(conf_take(b, name, &ask));
}

/* Whatever number it had while it waited: its fence is larger, others see it, and it goes by nothing else. */
static void who_waited_goes_by_its_fence(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_line *line = NULL;
    struct rota_lock *first = conf_take(a, name, NULL);
    uint64_t before = rota_fence(first);
    struct conf_wish *wish = conf_wish_start(b, name, NULL);
    conf_wait_line(a, name, 2, 1);
    conf_give(first);
    assert_int_equal(conf_wish_wait(wish), 0);
    struct rota_lock *lock = atomic_load(&wish->lock);
    uint64_t fence = rota_fence(lock);
    assert_true(fence > before);
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(rota_inspect(a, name, &line), 0);
    assert_true(line->count == 1 && line->places[0].number == fence);
    rota_line_free(line);
    assert_int_equal(rota_break(a, name, fence), 0);
    assert_int_equal(rota_check(lock), ROTA_LOST);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    lock = conf_take(b, name, NULL);
    assert_true(rota_fence(lock) > fence);
    conf_give(lock);
}

const struct conf_case conf_waiting[] = {
    CONF_CASE(who_waited_goes_by_its_fence, ROTA_CAP_FENCE, 0),
    CONF_CASE(try_is_busy, 0, 0),
    CONF_CASE(tries_leave_nothing, 0, 0),
    CONF_CASE(limit_ends_the_waiting, 0, 0),
    CONF_CASE(cancel_in_mid_queue, ROTA_CAP_ORDER, 0),
    CONF_CASE(cancel_in_mid_local_queue, 0, 0),
    CONF_CASE(cancel_of_unknown_ask, 0, 0),
    CONF_CASE(interrupt_ends_all_waiting, 0, 0),
    CONF_CASE(interrupt_from_a_signal, 0, 0),
    CONF_CASE(close_with_waiters, 0, 0),
    CONF_CASE(close_with_waiters_in_one_line, ROTA_CAP_PERMITS, 0),
    CONF_CASE(a_lost_place_is_taken_anew, ROTA_CAP_ORDER, 0),
    CONF_CASE(a_lost_place_of_its_own_is_taken_anew, ROTA_CAP_ORDER, 0),
    CONF_CASE(a_lost_place_of_a_waiting_call, ROTA_CAP_ORDER, 0),
    CONF_CASE(a_lost_place_is_told_otherwise, ROTA_CAP_ORDER, 0),
    CONF_END,
};
