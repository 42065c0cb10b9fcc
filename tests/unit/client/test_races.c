/* SPDX-License-Identifier: Apache-2.0 */
/* What several threads do to one client at once: handles, callbacks and memory outlive those they
 * must. Most of this shows only under a sanitizer. */
#include "base/alloc.h"
#include "client/client.h"
#include "lib/patience.h"

#include <pthread.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct rota *must_open(const char *url, uint32_t flags)
{
    struct rota_options opts = {.flags = flags};
    struct rota *r;
    if (rota_open(&r, url, &opts) != 0)
        fail_msg("%s: %s", url, rota_errmsg(NULL));
    return r;
}

/* ---- Sets ---------------------------------------------------------------- */

static uint32_t timers_of(struct rota *r)
{
    rt_client_lock(r);
    uint32_t count = r->loop.timers.reserved;
    rt_client_unlock(r);
    return count;
}

static void a_set_that_was_answered_hunts_no_more(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c"};
    struct rota_ask ask = {.flags = ROTA_DETECT};
    struct rota *r = must_open("mem:sets", 0);
    struct rota_lock *locks[3];

    uint32_t before = timers_of(r);
    assert_int_equal(rota_acquire_all(r, names, 3, &ask, locks), 0);
    assert_int_equal(timers_of(r), before);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rota_release(locks[i]), 0);
    ask.flags = ROTA_DETECT | ROTA_TRY;
    struct rota *other = must_open("mem:sets", 0);
    struct rota_lock *held;
    assert_int_equal(rota_acquire(other, "b", NULL, &held), 0);
    assert_int_equal(rota_acquire_all(r, names, 3, &ask, locks), ROTA_BUSY);
    assert_int_equal(timers_of(r), before);
    rota_close(other);
    rota_close(r);
}

struct taker {
    struct rota *r;
    unsigned rounds;
};

static void *take_sets(void *arg)
{
    static const char *const names[] = {"a", "b"};
    struct rota_ask ask = {.hold_ms = 1};
    struct taker *t = arg;
    struct rota_lock *locks[2];

    for (unsigned i = 0; i < t->rounds; i++) {
        int rv = rota_acquire_all(t->r, names, 2, &ask, locks);
        if (rv == ROTA_LOST)
            continue; /* its time was over before it woke */
        if (rv != 0) {
            fprintf(stderr, "%s\n", rota_errmsg(t->r));
            return t;
        }
        rota_release(locks[0]); /* 0, or LOST */
        rota_release(locks[1]);
    }
    return NULL;
}

/* The holder of a set may wake long after its hold_ms ended and others held the names. */
static void the_fences_of_a_set_are_compared_when_it_is_granted(void **state)
{
    (void)state;
    struct taker taker = {.r = must_open("mem:fences", 0), .rounds = 1500};
    pthread_t threads[16];
    void *failed;

    for (int i = 0; i < 16; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_sets, &taker), 0);
    for (int i = 0; i < 16; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    rota_close(taker.r);
}

/* A client remembers fences in a hash table with a seed of its own: of two names in one place only the last is
 * remembered. Returns a name that is not in the place of OTHER. */
static const char *name_elsewhere(const struct rota *r, const char *other)
{
    static const char *const names[] = {"a", "c", "d", "e", "f", "g"};
    uint64_t place = rt_names_hash(&r->d.names, other) % RT_FENCES;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (rt_names_hash(&r->d.names, names[i]) % RT_FENCES != place)
            return names[i];
    }
    fail_msg("six names, and all in one place of %d", RT_FENCES);
    return NULL;
}

static void a_set_whose_fence_went_back_says_so(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:back", 0);
    struct rota_lock *lock, *locks[2];

    assert_int_equal(rota_acquire(r, "b", NULL, &lock), 0);
    assert_string_equal(lock->ask.line->name, "b");
    rt_client_lock(r); /* as if a larger one had been seen */
    r->fences[rt_names_hash(&r->d.names, "b") % RT_FENCES].fence += 1000;
    rt_client_unlock(r);
    const char *const names[] = {name_elsewhere(r, "b"), "b"};
    assert_int_equal(rota_release(lock), 0);
    assert_int_equal(rota_acquire_all(r, names, 2, NULL, locks), ROTA_UNSAFE);
    assert_non_null(strstr(rota_errmsg(r), "fence went back"));
    struct rota *other = must_open("mem:back", 0); /* nothing stays behind */
    struct rota_ask soon = {.limit_ms = 5000};
    assert_int_equal(rota_acquire_all(other, names, 2, &soon, locks), 0);
    rota_close(other);
    rota_close(r);
}

/* ---- Closing --------------------------------------------------------------- */

/* An engine in front of another: it never answers a CHANGE or a JOIN_ALL, and cannot INSPECT. */
struct stuck {
    struct rt_conn conn; /* first */
    struct rt_conn *inner;
};

static struct rt_conn *inner_of(const struct rt_conn *conn)
{
    return ((const struct stuck *)(const void *)conn)->inner;
}

static _Atomic int tries; /* of an INSPECT, which is refused for now */

static void stuck_submit(struct rt_conn *conn, struct rt_op *op)
{
    if (op->kind == RT_OP_INSPECT) {
        atomic_fetch_add(&tries, 1);
        rt_conn_done(conn, op, ROTA_UNREACHABLE);
    } else if (op->kind != RT_OP_CHANGE && op->kind != RT_OP_JOIN_ALL)
        inner_of(conn)->engine->submit(inner_of(conn), op);
}

static void stuck_cancel(struct rt_conn *conn, struct rt_op *op)
{
    if (op->kind != RT_OP_CHANGE)
        inner_of(conn)->engine->cancel(inner_of(conn), op);
}

static void stuck_close(struct rt_conn *conn)
{
    inner_of(conn)->engine->close(inner_of(conn));
    rt_free(inner_of(conn));
}

static uint32_t stuck_caps(const struct rt_conn *conn)
{
    return inner_of(conn)->engine->caps(inner_of(conn));
}

static int forgotten; /* in a child: how often it was told to forget the connection */

static void stuck_forked(struct rt_conn *conn)
{
    (void)conn;
    forgotten++;
}

static const struct rt_engine stuck_engine = {
    .submit = stuck_submit,
    .cancel = stuck_cancel,
    .close = stuck_close,
    .caps = stuck_caps,
    .forked = stuck_forked,
};

static void make_stuck(struct rota *r)
{
    struct stuck *stuck = rt_alloc(sizeof(*stuck));

    assert_non_null(stuck);
    rt_client_lock(r);
    stuck->conn = *r->d.conn;
    stuck->conn.engine = &stuck_engine;
    stuck->inner = r->d.conn;
    r->d.conn = &stuck->conn;
    rt_client_unlock(r);
}

static void *check_lock(void *arg)
{
    return (void *)(intptr_t)rota_check(arg);
}

static void note_err(void *arg, int err)
{
    *(int *)arg = err;
}

#define MANY 600 /* more than are kept for the next call: the rest is really freed */

static void closing_under_a_check(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:closing", 0);
    struct rota_lock *locks[MANY];
    char name[16];
    int told = 0;
    void *err;
    pthread_t thread;

    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(rota_acquire(r, name, NULL, &locks[i]), 0);
    }
    make_stuck(r);
    for (int i = 0; i < MANY; i++) /* whichever is freed last */
        assert_int_equal(rota_check_async(locks[i], note_err, &told), 0);
    assert_int_equal(pthread_create(&thread, NULL, check_lock, locks[0]), 0);
    while (atomic_load(&r->inside) == 0)
        usleep(50);
    rota_close(r);
    pthread_join(thread, &err);
    assert_int_equal((intptr_t)err, ROTA_CLOSED);
    assert_int_equal(told, ROTA_CLOSED);
}

/* ---- Sets that nobody answers ---------------------------------------------- */

#define HUNG_AFTER_S 60

static void *take_both(void *arg)
{
    static const char *const names[] = {"a", "b"};
    struct rota_lock *locks[2];
    return (void *)(intptr_t)rota_acquire_all(arg, names, 2, NULL, locks);
}

/* Its memory stays until it is answered, or the client closed: for the sanitizers. */
static void a_set_does_not_wait_for_an_engine_that_stands_still(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b"};
    struct rota_options opts = {.call_ms = 100};
    struct rota_ask soon = {.limit_ms = 20}, try = {.flags = ROTA_TRY};
    struct rota_lock *locks[2];
    struct rota *r;
    pthread_t thread;
    void *err;

    alarm(rt_patient_ms(HUNG_AFTER_S));
    assert_int_equal(rota_open(&r, "mem:still", &opts), 0);
    assert_int_equal(rota_acquire(r, "a", NULL, locks), 0); /* there is a session */
    assert_int_equal(rota_release(locks[0]), 0);
    make_stuck(r);
    assert_int_equal(rota_acquire_all(r, names, 2, &soon, locks), ROTA_TIMEOUT);
    assert_int_equal(rota_acquire_all(r, names, 2, &try, locks), ROTA_UNKNOWN);
    assert_int_equal(pthread_create(&thread, NULL, take_both, r), 0);
    while (atomic_load(&r->inside) == 0)
        usleep(50);
    rota_interrupt(r);
    pthread_join(thread, &err);
    assert_int_equal((intptr_t)err, ROTA_CANCELED);
    rota_close(r);
    alarm(0);
}

static _Atomic int fork_status = -1;

static bool is_closing(struct rota *r)
{
    rt_client_lock(r);
    bool closing = r->closing;
    rt_client_unlock(r);
    return closing;
}

static void fork_while_closing(void *arg, int err, struct rota_lock *lock)
{
    struct rota *r = arg;
    int status;

    (void)err, (void)lock;
    while (!is_closing(r))
        usleep(50);
    pid_t pid = fork();
    if (pid == 0)
        _exit(forgotten);
    if (waitpid(pid, &status, 0) == pid)
        atomic_store(&fork_status, status);
}

static void a_child_of_who_closes_keeps_no_session(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:forking", 0);

    make_stuck(r);
    assert_int_equal(rota_acquire_async(r, "a", NULL, fork_while_closing, r, NULL), 0);
    rota_close(r);
    int status = atomic_load(&fork_status);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

/* ---- Releasing ------------------------------------------------------------- */

struct loss {
    struct rota *r;
    struct rota_lock *lock;
    _Atomic int begun, released, over;
    char name[8]; /* as the function saw it at its end */
    int err;      /* of a release inside the function */
};

static bool somebody_waits(struct rota *r)
{
    rt_client_lock(r);
    bool waits = r->waiters != NULL;
    rt_client_unlock(r);
    return waits;
}

/* Goes on until the other thread is inside its release, or past it. */
static void slow_loss(struct rota_lock *lock, int reason, void *arg)
{
    struct loss *loss = arg;

    (void)reason;
    atomic_store(&loss->begun, 1);
    while (atomic_load(&loss->released) == 0 && !somebody_waits(loss->r))
        usleep(50);
    snprintf(loss->name, sizeof(loss->name), "%s", rota_name(lock));
    atomic_store(&loss->over, 1);
}

static void note_release(void *arg, int err)
{
    struct loss *loss = arg;

    loss->err = err;
    atomic_store(&loss->released, 1);
}

static void lose(struct loss *loss, rota_lost_fn *fn)
{
    struct rota_ask ask = {.hold_ms = 1, .on_lost = fn, .arg = loss};
    struct rota_lock *lock;

    assert_int_equal(rota_acquire(loss->r, "lost", &ask, &lock), 0);
    loss->lock = lock;
    while (atomic_load(&loss->begun) == 0)
        usleep(50);
}

static void a_release_waits_for_the_callback_of_its_lock(void **state)
{
    (void)state;
    struct loss loss = {.r = must_open("mem:losing", 0)};

    lose(&loss, slow_loss);
    assert_int_equal(rota_release(loss.lock), ROTA_LOST);
    assert_int_equal(atomic_load(&loss.over), 1);
    atomic_store(&loss.released, 1);
    assert_string_equal(loss.name, "lost");
    rota_close(loss.r);
}

static void short_loss(struct rota_lock *lock, int reason, void *arg)
{
    struct loss *loss = arg;

    (void)reason;
    atomic_store(&loss->begun, 1);
    for (int i = 0; i < 20; i++) {
        usleep(50);
        snprintf(loss->name, sizeof(loss->name), "%s", rota_name(lock));
    }
    atomic_store(&loss->over, atomic_load(&loss->released) == 0);
}

static void a_release_that_does_not_wait_is_done_after_the_callback(void **state)
{
    (void)state;
    struct loss loss = {.r = must_open("mem:losing", 0)};

    lose(&loss, short_loss);
    assert_int_equal(rota_release_async(loss.lock, note_release, &loss), 0);
    while (atomic_load(&loss.released) == 0)
        usleep(50);
    assert_int_equal(atomic_load(&loss.over), 1);
    assert_int_equal(loss.err, ROTA_LOST);
    assert_string_equal(loss.name, "lost");
    rota_close(loss.r);
}

static void release_inside(struct rota_lock *lock, int reason, void *arg)
{
    struct loss *loss = arg;

    (void)reason;
    loss->err = rota_release(lock);
    atomic_store(&loss->begun, 1);
}

static void grant_inside(void *arg, int err, struct rota_lock *lock)
{
    struct loss *loss = arg;

    loss->err = err != 0 ? err : rota_release(lock);
    atomic_store(&loss->begun, 1);
}

static void a_release_inside_a_callback_consumes_the_handle(void **state)
{
    (void)state;
    struct loss loss = {.r = must_open("mem:losing", 0)};
    struct rota *other = must_open("mem:losing", 0);
    struct rota_ask soon = {.limit_ms = 5000};
    struct rota_lock *lock;

    lose(&loss, release_inside);
    assert_int_equal(loss.err, 0);
    atomic_store(&loss.begun, 0);
    assert_int_equal(rota_acquire_async(loss.r, "granted", NULL, grant_inside, &loss, NULL), 0);
    while (atomic_load(&loss.begun) == 0)
        usleep(50);
    assert_int_equal(loss.err, 0);
    assert_int_equal(rota_acquire(other, "granted", &soon, &lock), 0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(other);
    rota_close(loss.r);
}

/* ---- Barriers ---------------------------------------------------------------- */

struct party {
    struct rota *r;
    pthread_barrier_t *start;
    useconds_t late;
};

static void *meet(void *arg)
{
    struct party *p = arg;

    pthread_barrier_wait(p->start);
    usleep(p->late);
    return (void *)(intptr_t)rota_barrier(p->r, "meet", 2, 2);
}

/* The second comes at about the moment when the first gives up. */
static void nobody_passes_a_barrier_alone(void **state)
{
    (void)state;
    struct party parties[2];
    pthread_barrier_t start;
    unsigned seed = 1;

    pthread_barrier_init(&start, NULL, 2);
    for (int i = 0; i < 2; i++)
        parties[i] = (struct party){.r = must_open("mem:barrier", 0), .start = &start};
    for (int k = 0; k < 300; k++) {
        pthread_t threads[2];
        void *errs[2];
        parties[1].late = 1500 + (useconds_t)rand_r(&seed) % 1000;
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, meet, &parties[i]), 0);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], &errs[i]);
        assert_int_equal((intptr_t)errs[0], (intptr_t)errs[1]);
        if (errs[0] != NULL)
            assert_int_equal((intptr_t)errs[0], ROTA_TIMEOUT);
    }
    rota_close(parties[0].r);
    rota_close(parties[1].r);
    pthread_barrier_destroy(&start);
}

/* ---- Interrupts -------------------------------------------------------------- */

static void *inspect(void *arg)
{
    struct rota_line *line;

    return (void *)(intptr_t)rota_inspect(arg, "a", &line);
}

static void an_interrupt_between_two_tries_is_heard(void **state)
{
    (void)state;
    struct rota_options opts = {.call_ms = 60000};
    struct rota *r;
    pthread_t thread;
    void *err;

    assert_int_equal(rota_open(&r, "mem:trying", &opts), 0);
    make_stuck(r);
    assert_int_equal(pthread_create(&thread, NULL, inspect, r), 0);
    while (atomic_load(&tries) < 2)
        usleep(50);
    rota_interrupt(r);
    pthread_join(thread, &err);
    assert_int_equal((intptr_t)err, ROTA_CANCELED);
    rota_close(r);
}

/* ---- rota_process ------------------------------------------------------------ */

struct processing {
    struct rota *r;
    _Atomic int begun, running, both, over;
};

static void slow_grant(void *arg, int err, struct rota_lock *lock)
{
    struct processing *p = arg;

    (void)err;
    if (atomic_fetch_add(&p->running, 1) != 0)
        atomic_store(&p->both, 1);
    atomic_fetch_add(&p->begun, 1);
    (void)rota_release_async(lock, NULL, NULL);
    usleep(3000); /* time for the other thread to come along */
    atomic_fetch_add(&p->over, 1);
    atomic_fetch_sub(&p->running, 1);
}

static void *process(void *arg)
{
    struct processing *p = arg;
    int rv;

    do {
        rv = rota_process(p->r);
        usleep(50);
    } while (rv == 0 && atomic_load(&p->over) < 8);
    return NULL;
}

static void two_threads_process(void **state)
{
    (void)state;
    struct processing p = {.r = must_open("mem:process", ROTA_NO_KEEPER)};
    pthread_t threads[2];

    for (int i = 0; i < 8; i++)
        assert_int_equal(rota_acquire_async(p.r, "a", NULL, slow_grant, &p, NULL), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, process, &p), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    rota_close(p.r);
    assert_int_equal(atomic_load(&p.over), 8);
    assert_int_equal(atomic_load(&p.both), 0);
}

static void *process_once(void *arg)
{
    struct processing *p = arg;

    while (atomic_load(&p->begun) == 0)
        (void)rota_process(p->r);
    return NULL;
}

static void closing_waits_for_who_processes(void **state)
{
    (void)state;
    struct processing p = {.r = must_open("mem:process", ROTA_NO_KEEPER)};
    pthread_t thread;

    assert_int_equal(rota_acquire_async(p.r, "a", NULL, slow_grant, &p, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, process_once, &p), 0);
    while (atomic_load(&p.begun) == 0)
        usleep(50);
    rota_close(p.r);
    assert_int_equal(atomic_load(&p.over), 1);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_that_was_answered_hunts_no_more),
        cmocka_unit_test(the_fences_of_a_set_are_compared_when_it_is_granted),
        cmocka_unit_test(a_set_whose_fence_went_back_says_so),
        cmocka_unit_test(closing_under_a_check),
        cmocka_unit_test(a_set_does_not_wait_for_an_engine_that_stands_still),
        cmocka_unit_test(a_child_of_who_closes_keeps_no_session),
        cmocka_unit_test(a_release_waits_for_the_callback_of_its_lock),
        cmocka_unit_test(a_release_that_does_not_wait_is_done_after_the_callback),
        cmocka_unit_test(a_release_inside_a_callback_consumes_the_handle),
        cmocka_unit_test(nobody_passes_a_barrier_alone),
        cmocka_unit_test(an_interrupt_between_two_tries_is_heard),
        cmocka_unit_test(two_threads_process),
        cmocka_unit_test(closing_waits_for_who_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
