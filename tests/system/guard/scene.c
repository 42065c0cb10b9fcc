/* SPDX-License-Identifier: Apache-2.0 */
/* With a guard 0 of N acknowledged updates are lost; without one some are, and the test says how many. See scene.h. */
#include "scene.h"

#include "lib/patience.h"
#include "lib/proc.h"
#include "lib/random.h"

#include <inttypes.h>
#include <rota_guard.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define CLIENTS 5
#define TTL_MS 2000
#define NEXT 20 /* updates of others, at most, before a stopped one resumes */

enum guarded { NOTHING, WRITES, ALL };

struct scene { /* shared by all processes */
    enum guarded guarded;
    uint32_t stop;
    uint32_t acked, refused, unknown; /* writes */
    uint32_t lost;                    /* turns that ended with the lock's loss */
    uint32_t arrivals;                /* at the gate, of all */
    struct {
        uint32_t wanted;  /* how often it must wait at the gate, between look and write ... */
        uint32_t arrived; /* ... how often it got there ... */
        uint32_t go;      /* ... how often it may go on */
        uint32_t wrote;   /* writes, whatever became of them */
    } client[CLIENTS];
};

static char *url;

/* ---- A client ------------------------------------------------------------ */

static void pass_gate(struct scene *s, int me)
{
    if (__atomic_load_n(&s->client[me].wanted, __ATOMIC_ACQUIRE) == s->client[me].arrived)
        return;
    uint32_t turn = rt_shared_add(&s->client[me].arrived, 1);
    rt_shared_add(&s->arrivals, 1);
    rt_shared_wait(&s->client[me].go, turn);
}

/* False: an error that nothing here explains. */
static bool judge(struct scene *s, int err, const char *what)
{
    switch (err) {
    case 0:
    case ROTA_BUSY: /* the database gave up the transaction: it was not done */
        return true;
    case ROTA_LOST:
        rt_shared_add(&s->refused, 1);
        return true;
    case ROTA_UNKNOWN:
        rt_shared_add(&s->unknown, 1);
        return true;
    default:
        fprintf(stderr, "%s: %s: %s\n", what, rota_strerror(err), rota_errmsg(NULL));
        return false;
    }
}

static bool work(struct scene *s, int me, void *db, uint64_t fence)
{
    uint64_t value = 0;
    int err = guard_store.look(db, s->guarded == ALL ? fence : 0, &value);

    if (err != 0)
        return judge(s, err, "look");
    pass_gate(s, me);
    /* Here it no longer knows whether it holds. No look at the lock could assure it for long enough. */
    err = guard_store.write(db, s->guarded != NOTHING ? fence : 0, value + 1);
    rt_shared_add(&s->client[me].wrote, 1);
    if (err == 0)
        rt_shared_add(&s->acked, 1);
    return judge(s, err, "write");
}

static int take_turns(struct scene *s, int me, struct rota *r, void *db)
{
    struct rota_lock *lock;

    while (__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE) == 0) {
        int err = rota_acquire(r, "counter", NULL, &lock);
        if (err == ROTA_LOST ||
            err == ROTA_UNREACHABLE) /* it was stopped for long while it waited */
            continue;
        if (err != 0) {
            fprintf(stderr, "acquire: %s\n", rota_errmsg(r));
            return 1;
        }
        bool fine = work(s, me, db, rota_fence(lock));
        err = rota_release(lock);
        if (err != 0)
            rt_shared_add(&s->lost, 1);
        if (!fine)
            return 1;
    }
    return 0;
}

static int client(int me, void *arg)
{
    const struct rota_options options = {.ttl_ms = TTL_MS};
    struct rota *r;

    if (rota_open(&r, url, &options) != 0) {
        fprintf(stderr, "open: %s\n", rota_errmsg(NULL));
        return 1;
    }
    void *db = guard_store.open();
    int code = take_turns(arg, me, r, db);
    guard_store.close(db);
    rota_close(r);
    return code;
}

/* ---- The pauses ---------------------------------------------------------- */

static void call_to_gate(struct scene *s, int me)
{
    __atomic_add_fetch(&s->client[me].wanted, 1, __ATOMIC_ACQ_REL);
}

static void let_go(struct scene *s, int me)
{
    rt_shared_add(&s->client[me].go, 1);
}

/* ME, stopped, goes on when others have written. */
static void go_on_late(struct scene *s, int me, pid_t pid, struct rt_random *random)
{
    uint32_t acked = __atomic_load_n(&s->acked, __ATOMIC_ACQUIRE);

    rt_shared_wait(&s->acked, acked + 1 + rt_random_below(random, NEXT));
    let_go(s, me);
    rt_proc_cont(pid);
}

/* ME, stopped, goes on and writes while the next holder stands between its own look and write. Nobody has written since:
 * unless that look was a guarded step, ME's write is accepted, and then overwritten. */
static void go_on_in_the_midst(struct scene *s, int me, pid_t pid)
{
    uint32_t arrivals = __atomic_load_n(&s->arrivals, __ATOMIC_ACQUIRE),
             wrote = s->client[me].wrote;

    for (int i = 0; i < CLIENTS; i++)
        if (i != me)
            call_to_gate(s, i);
    rt_shared_wait(&s->arrivals, arrivals + 1);
    let_go(s, me);
    rt_proc_cont(pid);
    rt_shared_wait(&s->client[me].wrote, wrote + 1);
    for (int i = 0; i < CLIENTS; i++)
        if (i != me)
            let_go(s, i);
    for (int i = 0; i < CLIENTS; i++) /* so that none heeds this call at the next gate */
        rt_shared_wait(&s->client[i].arrived, s->client[i].wanted);
}

/* One is stopped, with what it saw in mind, until another has taken its place. */
static void pause_one(struct scene *s, const pid_t *pids, struct rt_random *random, bool midst)
{
    int me = (int)rt_random_below(random, CLIENTS);

    call_to_gate(s, me);
    rt_shared_wait(&s->client[me].arrived, s->client[me].wanted);
    rt_proc_stop(pids[me]);
    if (midst)
        go_on_in_the_midst(s, me, pids[me]);
    else
        go_on_late(s, me, pids[me], random);
}

static uint64_t counter(void)
{
    void *db = guard_store.open();
    uint64_t value = 0;

    assert_int_equal(guard_store.look(db, 0, &value), 0);
    guard_store.close(db);
    return value;
}

/* How many acknowledged updates are not in the counter. */
static uint64_t play(struct scene *s, uint32_t updates, uint32_t pauses)
{
    static const char *const words[] = {"without the guard", "guarded writes only", "guarded"};
    struct rt_random random = {rt_seed()};
    pid_t pids[CLIENTS];

    guard_store.reset();
    for (int i = 0; i < CLIENTS; i++)
        pids[i] = rt_proc_start(client, i, s);
    for (uint32_t i = 0; i < pauses; i++) {
        rt_watchdog(300, "guard scene: hang");
        rt_shared_wait(&s->acked, (uint32_t)((uint64_t)updates * (i + 1) / (pauses + 1)));
        pause_one(s, pids, &random, i % 2 == 0);
    }
    rt_watchdog(300, "guard scene: hang");
    rt_shared_wait(&s->acked, updates);
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(rt_proc_wait(pids[i]), 0);
    uint64_t value = counter();
    uint64_t lost = value < s->acked ? s->acked - value : 0;
    fprintf(stderr,
            "%s, %s: %" PRIu32 " acknowledged updates, %" PRIu64 " lost; %" PRIu32
            " pauses, %" PRIu32 " late steps refused, %" PRIu32 " unknown, %" PRIu32
            " holds lost\n",
            guard_store.name, words[s->guarded], s->acked, lost, pauses, s->refused, s->unknown,
            s->lost);
    assert_in_range(value, 0, s->acked + s->unknown);
    return lost;
}

/* ---- The cases ----------------------------------------------------------- */

/* 2,000; 100,000 in make torture; $ROTA_UPDATES by hand, for pieces of it. */
static uint32_t updates_wanted(void)
{
    const char *factor = getenv("ROTA_TORTURE"), *own = getenv("ROTA_UPDATES");

    if (own != NULL)
        return (uint32_t)strtoul(own, NULL, 10);
    return factor != NULL && strtoul(factor, NULL, 10) > 1 ? 100000 : 2000;
}

static void append_report(const struct scene *s, uint32_t pauses, uint64_t lost)
{
    const char *path = getenv("ROTA_REPORT");
    FILE *f = path != NULL && path[0] != '\0' ? fopen(path, "ae") : NULL;

    if (f == NULL)
        return;
    fprintf(f, "guard on %s\t%u\t%u\t%u\t%u\t0\t0\t%u\t0\t0\t0\t0\t%" PRIu64 "\n", guard_store.name,
            s->acked, s->acked, pauses, s->lost, s->refused, lost);
    fclose(f);
}

static void with_the_guard_none_is_lost(void **state)
{
    struct scene *s = rt_shared_new(sizeof(*s));
    uint32_t updates = updates_wanted(), pauses = 4 + updates / 2777; /* of 100,000: 40 */

    (void)state;
    s->guarded = ALL;
    uint64_t lost = play(s, updates, pauses);
    append_report(s, pauses, lost);
    assert_int_equal(lost, 0);
    assert_true(s->refused >= pauses); /* each late write was */
    rt_shared_free(s, sizeof(*s));
}

static void without_it_some_are(void **state)
{
    struct scene *s = rt_shared_new(sizeof(*s));

    (void)state;
    assert_true(play(s, 200, 2) > 0);
    assert_int_equal(s->refused, 0);
    rt_shared_free(s, sizeof(*s));
}

/* Why the header says that a guarded step comes before the look. */
static void guarded_writes_alone_are_not_enough(void **state)
{
    struct scene *s = rt_shared_new(sizeof(*s));

    (void)state;
    s->guarded = WRITES;
    assert_true(play(s, 100, 1) > 0);
    rt_shared_free(s, sizeof(*s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_the_guard_none_is_lost),
        cmocka_unit_test(without_it_some_are),
        cmocka_unit_test(guarded_writes_alone_are_not_enough),
    };

    url = guard_store.start();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    guard_store.fini();
    free(url);
    return failed;
}
