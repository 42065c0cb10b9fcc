/* SPDX-License-Identifier: Apache-2.0 */
/* What else may happen: two recoveries at once, a coordinator that sleeps, answers that are lost, two deaths at
 * once. */
#include "scenes.h"

#include "bank.h"

#include "lib/patience.h"
#include "lib/proxy.h"
#include "txn/journal/journal.h"
#include "txn/journal/rows/rows.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SOON_MS 3000
#define LONG_MS 60000
#define PATIENT_MS 20000 /* for one request, and to finish what was decided before a process ends */

static const struct entry *entry_of(long tid)
{
    size_t count = 0;
    const struct entry *book = book_read(&count);

    assert_true((size_t)tid < count && book[tid].shape != NULL);
    return &book[tid];
}

/* ---- Plain business: every shape, and nobody dies ---------------------------------------- */

static void nobody_dies(void **state)
{
    int house = house_new();

    (void)state;
    world_timeout(0);
    for (size_t i = 0; shape_at(i) != NULL; i++) {
        const struct shape *s = shape_at(i);
        long tid = tid_new();
        struct hand teller, joiner = {.pid = 0};
        if (s->joined)
            joined_start(house, tid, NULL, NULL, &teller, &joiner);
        else
            teller = teller_start(house, s->name, tid, 1, NULL);
        assert_int_equal(hand_wait(&teller), 0);
        assert_int_equal(hand_wait(&joiner), 0);
        if (entry_of(tid)->told != (s->fails ? TOLD_ABORTED : TOLD_COMMITTED))
            fail_msg("%s: told %d", s->name, (int)entry_of(tid)->told);
        assert_true(!s->joined || entry_of(tid)->joiner == TOLD_COMMITTED);
    }
    assert_true(house_clean(house, NULL, 0)); /* nothing is left to recover */
    bank_check(false);
}

/* ---- Two recoveries at once ----------------------------------------------------------------- */

static void two_recoveries_at_once(void **state)
{
    static const char *const points[] = {"prepare-answered:2:kill", "decide-answered:kill",
                                         "commit-answered:kill", "prepare-sent:kill"};
    int house = house_new();

    (void)state;
    world_timeout(SOON_MS);
    for (int i = 0; i < 8; i++) {
        struct hand h = teller_start(house, i % 2 == 0 ? "two" : "three", tid_new(), 1,
                                     points[i % 4]);
        (void)hand_wait(&h);
    }
    struct hand a = recoverer_start(house, NULL), b = recoverer_start(house, NULL);
    while (!house_clean(house, NULL, 0)) {
        assert_false(hand_has_ended(&a) || hand_has_ended(&b));
        poll(NULL, 0, 10);
    }
    hand_leave(&a);
    hand_leave(&b);
    bank_check(false);
}

/* ---- Stopped past its deadline ------------------------------------------------------------------ */

static bool is_rolled_back(void *arg)
{
    return house_prepared(*(int *)arg, VAULT) == 0; /* MariaDB's waits for its connection */
}

/* A teller in HOUSE that is stopped at POINT; its deadline is MS after it began, or later: a busy machine needs
 * longer. */
static struct hand stopped_at(int house, const char *point, uint32_t ms, long *tid)
{
    struct hand h = {.pid = 0};

    for (; h.pid == 0; ms *= 4) {
        assert_true(ms < LIMIT_MS);
        world_timeout(ms);
        *tid = tid_new();
        h = teller_start(house, "two", *tid, 1, point);
        (void)hand_wait_stopped_or_ended(&h);
    }
    return h;
}

/* The same in a house of its own, which others can use: where the journal is a file, its writer may be stopped with the
 * file locked (points.c), and all would wait in vain. */
static struct hand sleeps_at(const char *point, uint32_t ms, int *house, long *tid)
{
    struct hand h;

    for (int tries = 0;; tries++) {
        assert_true(tries < 5);
        *house = house_new();
        h = stopped_at(*house, point, ms, tid);
        if (house_is_free(*house))
            return h;
        hand_kill(&h);
        (void)house_heal(*house);
    }
}

/* The coordinator has all votes and sleeps; others settle it. It wakes and asks for COMMIT: it must be told ABORTED. */
static void sleep_past_the_deadline(const char *point)
{
    long tid = 0;
    int house = 0;
    struct hand sleeper = sleeps_at(point, SOON_MS, &house, &tid);
    struct hand r = recoverer_start(house, NULL);
    must_become(is_rolled_back, &house, "what the sleeper prepared is rolled back");
    hand_cont(&sleeper);
    assert_int_equal(hand_wait(&sleeper), 0);
    assert_int_equal(entry_of(tid)->told, TOLD_ABORTED);
    assert_int_equal(house_stands(house, entry_of(tid)->id), RT_JOURNAL_ABORT);
    hand_leave(&r);
    (void)house_heal(house);
}

static void a_sleeper_is_told_what_stands(void **state)
{
    (void)state;
    sleep_past_the_deadline("decide-asked:stop");
    sleep_past_the_deadline("prepare-answered:2:stop");
    bank_check(false);
}

static bool were_ten(void *arg)
{
    return point_hits("recover-listed") >= *(long *)arg + 10;
}

/* Before its deadline nobody touches it, however long it takes. */
static void a_slow_one_is_left_alone(void **state)
{
    int house = 0;
    long tid = 0;

    (void)state;
    struct hand slow = sleeps_at("decide-asked:stop", LONG_MS, &house, &tid);
    long before = point_hits("recover-listed");
    struct hand r = recoverer_start(house, NULL);
    must_become(were_ten, &before, "recovery has looked ten times");
    hand_cont(&slow);
    assert_int_equal(hand_wait(&slow), 0);
    assert_int_equal(entry_of(tid)->told, TOLD_COMMITTED);
    hand_leave(&r);
    assert_true(house_clean(house, NULL, 0));
    bank_check(false);
}

/* Somebody has the file locked: what cannot be decided is not committed, and its caller is not told that it was. */
static void the_journal_does_not_answer(void **state)
{
    int house = house_new();
    long tid = 0;

    (void)state;
    if (strcmp(world_journal(), "file") != 0)
        skip();
    struct hand locks = stopped_at(house, "decide-begun:stop", SOON_MS, &tid);
    tid = tid_new();
    world_timeout(2 * SOON_MS); /* it must come as far as its decision */
    world_call(SOON_MS);
    struct hand waits = teller_start(house, "two", tid, 1, "commit-sent:kill");
    world_call(0);
    int code = hand_wait(&waits);
    hand_kill(&locks);
    (void)house_heal(house);
    bank_check(false);
    assert_int_equal(code, 0); /* it gave no order */
    assert_int_not_equal(entry_of(tid)->told, TOLD_COMMITTED);
}

/* ---- Lost answers --------------------------------------------------------------------------------- */

struct loss {
    enum victim at;
    enum rt_fault_on on;
    const char *match, *shape;
    enum told told; /* TOLD_NOTHING: it may be either */
};

static void lose(const struct loss *l)
{
    struct rt_proxy_options opts = {.port = world_port(l->at),
                                    .framing = l->at == MARIADB ? &rt_proxy_mysql
                                                                : &rt_proxy_postgres};
    const struct rt_fault fault = {.on = l->on, .what = RT_FAULT_CUT, .match = l->match};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    int house = house_new();
    long tid = tid_new();

    world_timeout(0);
    world_call(PATIENT_MS);
    uint32_t number = rt_proxy_fault(proxy, &fault);
    world_through(l->at, rt_proxy_port(proxy));
    struct hand h = teller_start(house, l->shape, tid, 1, NULL);
    assert_int_equal(hand_wait(&h), 0);
    world_through(l->at, 0);
    if (rt_proxy_fault_hits(proxy, number) != 1)
        fail_msg("the answer to %s was not lost", l->match);
    rt_proxy_stop(proxy);
    enum told told = entry_of(tid)->told;
    if (l->told != TOLD_NOTHING && told != l->told)
        fail_msg("the answer to %s was lost: told %d", l->match, (int)told);
    if (!house_clean(house, NULL, 0)) /* its own keeper must have done it */
        fail_msg("the answer to %s was lost: something is left behind", l->match);
}

static void answers_are_lost(void **state)
{
    static const struct loss all[] = {
        {MARIADB, RT_FAULT_REPLY, "XA PREPARE", "two", TOLD_ABORTED},
        {POSTGRES, RT_FAULT_REPLY, "PREPARE TRANSACTION", "two", TOLD_ABORTED},
        {MARIADB, RT_FAULT_REPLY, "XA COMMIT", "two", TOLD_COMMITTED},
        {POSTGRES, RT_FAULT_REPLY, "COMMIT PREPARED", "two", TOLD_COMMITTED},
        {MARIADB, RT_FAULT_REPLY, "XA COMMIT", "one", TOLD_COMMITTED},
        {POSTGRES, RT_FAULT_REPLY, "rota_mark VALUES", "one-pg", TOLD_COMMITTED},
        {MARIADB, RT_FAULT_REPLY, "XA ROLLBACK", "refuse", TOLD_ABORTED},
        {MARIADB, RT_FAULT_REQUEST, "XA PREPARE", "two", TOLD_ABORTED},
        {POSTGRES, RT_FAULT_REQUEST, "PREPARE TRANSACTION", "two", TOLD_ABORTED},
        {MARIADB, RT_FAULT_REQUEST, "XA COMMIT", "two", TOLD_COMMITTED},
        {POSTGRES, RT_FAULT_REQUEST, "COMMIT PREPARED", "two", TOLD_COMMITTED},
        {MARIADB, RT_FAULT_REQUEST, "XA COMMIT", "one", TOLD_ABORTED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        lose(&all[i]);
    bank_check(false);
}

/* The answer to DECIDE: the journal is asked again, and says what stands. */
static void an_answer_to_decide_is_lost(void **state)
{
    struct rt_proxy_options opts = {.port = world_port(POSTGRES), .framing = &rt_proxy_postgres};
    struct rt_fault fault = {.on = RT_FAULT_REPLY, .what = RT_FAULT_CUT};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    char url[200], insert[24];
    long tid = tid_new();

    (void)state;
    snprintf(url, sizeof(url), "postgres://postgres@127.0.0.1:%u/postgres",
             (unsigned)rt_proxy_port(proxy));
    int house = house_new_at(url);
    world_timeout(0);
    snprintf(insert, sizeof(insert), "rota_own%d ", (int)RT_ROWS_INSERT); /* as it is prepared */
    fault.match = insert;
    uint32_t number = rt_proxy_fault(proxy, &fault);
    struct hand h = teller_start(house, "two", tid, 1, NULL);
    assert_int_equal(hand_wait(&h), 0);
    assert_int_equal(rt_proxy_fault_hits(proxy, number), 1);
    assert_int_equal(entry_of(tid)->told, TOLD_COMMITTED);
    assert_true(house_clean(house, NULL, 0));
    bank_check(false);
    rt_proxy_stop(proxy);
}

/* ---- The coordinator, and the only one who heard COMMIT ------------------------------------------------ */

static bool one_has_heard(void *arg)
{
    int house = *(int *)arg;

    return house_prepared(house, TILL) + house_prepared(house, VAULT) == 1;
}

static bool none_has_not(void *arg)
{
    int house = *(int *)arg;

    return house_prepared(house, TILL) == 0 || house_prepared(house, VAULT) == 0;
}

static void who_heard_commit_dies_too(void **state)
{
    int house = house_new();
    long tid = tid_new();

    (void)state;
    world_timeout(0);
    struct hand h = teller_start(house, "two", tid, 1, "commit-sent:stop");
    hand_wait_stopped(&h);
    must_become(one_has_heard, &house, "one of both has heard COMMIT");
    enum victim heard = house_prepared(house, TILL) == 0 ? MARIADB : POSTGRES;
    hand_kill(&h);
    world_kill(heard);
    struct hand third = recoverer_start(house, NULL);
    if (heard == POSTGRES) { /* what the living one has is finished without the dead one */
        while (house_prepared(house, TILL) != 0)
            poll(NULL, 0, 10);
    }
    world_run(heard);
    must_become(none_has_not, &house, "both have heard COMMIT");
    (void)house_heal(house);
    hand_leave(&third);
    assert_int_equal(house_stands(house, entry_of(tid)->id), RT_JOURNAL_COMMIT);
    bank_check(true);
}

/* ---- Everybody at once ------------------------------------------------------------------------------------ */

static void tellers_are_killed_at_random(void **state)
{
    int count = rounds(12), house = house_new();
    struct hand tellers[4] = {{.pid = 0}};
    unsigned seed = (unsigned)rt_seed();

    (void)state;
    world_timeout(SOON_MS);
    print_message("ROTA_SEED=%u\n", seed);
    struct hand r = recoverer_start(house, NULL);
    for (int i = 0; i < count; i++) {
        struct hand *h = &tellers[i % 4];
        hand_kill(h);
        long tid = tid_new();
        for (int n = 1; n < 40; n++)
            (void)tid_new();
        *h = teller_start(house, "any", tid, 40, NULL);
        poll(NULL, 0, 20 + rand_r(&seed) % 200);
        if (i % 20 == 19) {
            enum victim v = rand_r(&seed) % 2 == 0 ? MARIADB : POSTGRES;
            world_kill(v);
            world_run(v);
        }
        if (i % 5 == 4) {
            hand_kill(&r);
            r = recoverer_start(house, NULL);
        }
    }
    for (int i = 0; i < 4; i++)
        if (tellers[i].pid != 0)
            (void)hand_wait(&tellers[i]);
    hand_kill(&r);
    (void)house_heal(house);
    bank_check(true);
}

const struct CMUnitTest other_scenes[] = {
    SCENE(nobody_dies),
    SCENE(two_recoveries_at_once),
    SCENE(a_sleeper_is_told_what_stands),
    SCENE(a_slow_one_is_left_alone),
    SCENE(the_journal_does_not_answer),
    SCENE(answers_are_lost),
    SCENE(an_answer_to_decide_is_lost),
    SCENE(who_heard_commit_dies_too),
    SCENE(tellers_are_killed_at_random),
};
const size_t other_scene_count = sizeof(other_scenes) / sizeof(other_scenes[0]);
