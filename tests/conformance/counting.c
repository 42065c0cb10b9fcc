/* SPDX-License-Identifier: Apache-2.0 */
/* Latches and barriers: lines that are counted. */
#include "suite.h"

struct latch_task {
    struct rota *r;
    const char *name;
    uint32_t of;
    atomic_bool open;
    int rv;
};

static void *latch_main(void *arg)
{
    struct latch_task *task = arg;
    task->rv = rota_latch_wait(task->r, task->name, task->of, 0);
    atomic_store(&task->open, true);
    return NULL;
}

static void latch_opens_at_its_count(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    struct latch_task *tasks = conf_alloc(3 * sizeof *tasks);
    struct conf_thread *threads[3];
    const char *name = conf_name("latch");
    for (size_t i = 0; i < 3; i++) {
        tasks[i] = (struct latch_task){.r = i == 0 ? a : b, .name = name, .of = 3};
        threads[i] = conf_spawn(latch_main, &tasks[i]);
    }
    assert_int_equal(rota_latch_down(a, name, 3, NULL), 0);
    assert_int_equal(rota_latch_down(b, name, 3, NULL), 0);
    assert_int_equal(rota_latch_wait(a, name, 3, 40), ROTA_TIMEOUT);
    for (size_t i = 0; i < 3; i++)
        assert_false(atomic_load(&tasks[i].open));
    assert_int_equal(rota_latch_down(a, name, 3, NULL), 0);
    for (size_t i = 0; i < 3; i++) {
        conf_join(threads[i]);
        assert_int_equal(tasks[i].rv, 0);
    }
    assert_int_equal(rota_latch_wait(b, name, 3, 0), 0); /* stays open */
    assert_int_equal(rota_latch_wait(conf_open(), name, 3, 0), 0);
    assert_int_equal(rota_latch_reset(a, name), 0);
}

static void latch_counts_a_party_once(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("latch");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rota_latch_down(a, name, 2, "one"), 0);
        assert_int_equal(rota_latch_down(b, name, 2, "one"), 0);
    }
    assert_int_equal(rota_latch_wait(a, name, 2, 30), ROTA_TIMEOUT);
    assert_int_equal(rota_latch_down(b, name, 2, "two"), 0);
    assert_int_equal(rota_latch_wait(a, name, 2, 0), 0);
    assert_int_equal(rota_latch_reset(b, name), 0);
}

static void latch_is_reset(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("latch");
    for (int round = 0; round < 3; round++) {
        assert_int_equal(rota_latch_wait(b, name, 1, 10), ROTA_TIMEOUT);
        assert_int_equal(rota_latch_down(a, name, 1, "one"), 0);
        assert_int_equal(rota_latch_wait(b, name, 1, 0), 0);
        assert_int_equal(rota_latch_reset(a, name), 0);
    }
    int rv = rota_latch_reset(a, name); /* nothing to reset */
    assert_true(rv == 0 || rv == ROTA_LOST);
    conf_assert_line(a, name, 0, 0);
}

static void latch_must_make_sense(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("latch");
    assert_int_equal(rota_latch_down(a, name, 0, NULL), ROTA_INVALID);
    assert_int_equal(rota_latch_wait(a, name, 0, 10), ROTA_INVALID);
    assert_int_equal(rota_barrier(a, name, 0, 10), ROTA_INVALID);
    conf_assert_line(a, name, 0, 0);
}

static void latch_of_processes(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("latch");
    struct conf_agent *agents[2] = {conf_agent_new(), conf_agent_new()};
    conf_agent_send(agents[0], "wait %s 2 0", name);
    assert_int_equal(conf_agent_ask(agents[1], NULL, "down %s 2", name), 0);
    assert_int_equal(rota_latch_down(a, name, 2, NULL), 0);
    assert_int_equal(conf_agent_reply(agents[0], NULL), 0);
    assert_int_equal(rota_latch_reset(a, name), 0);
    conf_agent_end(agents[0]);
    conf_agent_end(agents[1]);
}

#define WAITS 3000

struct latch_looker {
    struct rota *r;
    const char *name;
    int wrong; /* what was neither open nor a timeout */
};

static void *latch_looker_main(void *arg)
{
    struct latch_looker *looker = arg;
    for (int i = 0; i < conf_rounds(WAITS) && looker->wrong == 0; i++) {
        int rv = rota_latch_wait(looker->r, looker->name, 2, 1);
        looker->wrong = rv == ROTA_TIMEOUT ? 0 : rv;
    }
    return NULL;
}

/* A latch that is counted, opened and reset all the time is a latch at every look. */
static void latch_that_comes_and_goes(void)
{
    struct rota *a = conf_open();
    struct latch_looker *looker = conf_alloc(sizeof *looker);
    *looker = (struct latch_looker){.r = conf_open(), .name = conf_name("latch")};
    struct conf_thread *thread = conf_spawn(latch_looker_main, looker);
    for (int i = 0; i < conf_rounds(300); i++) {
        assert_int_equal(rota_latch_down(a, looker->name, 2, NULL), 0);
        assert_int_equal(rota_latch_down(a, looker->name, 2, NULL), 0);
        assert_int_equal(rota_latch_reset(a, looker->name), 0);
    }
    /* Open for good, so that the remaining looks are quick. */
    assert_int_equal(rota_latch_down(a, looker->name, 2, NULL), 0);
    assert_int_equal(rota_latch_down(a, looker->name, 2, NULL), 0);
    conf_join(thread);
    assert_int_equal(looker->wrong, 0);
    assert_int_equal(rota_latch_reset(a, looker->name), 0);
}

/* ---- Barriers ----------------------------------------------------------- */

#define PARTIES 4
#define ROUNDS 6

struct party {
    struct rota *r;
    const char *name;
    atomic_int *arrived; /* per round */
    bool early;          /* went before all had come */
    int rv;
};

static void *party_main(void *arg)
{
    struct party *party = arg;
    for (int round = 0; round < ROUNDS && party->rv == 0; round++) {
        atomic_fetch_add(&party->arrived[round], 1);
        party->rv = rota_barrier(party->r, party->name, PARTIES, CONF_PATIENCE_MS);
        party->early |= party->rv == 0 && atomic_load(&party->arrived[round]) != PARTIES;
    }
    return NULL;
}

static void barrier_in_rounds(void)
{
    struct rota *clients[] = {conf_open(), conf_open(), conf_open()};
    struct party *parties = conf_alloc(PARTIES * sizeof *parties);
    atomic_int *arrived = conf_alloc(ROUNDS * sizeof *arrived);
    struct conf_thread *threads[PARTIES];
    for (size_t i = 0; i < PARTIES; i++) {
        parties[i] = (struct party){
            .r = clients[i % 3], .name = conf_name("barrier"), .arrived = arrived};
        threads[i] = conf_spawn(party_main, &parties[i]);
    }
    for (size_t i = 0; i < PARTIES; i++) {
        conf_join(threads[i]);
        assert_int_equal(parties[i].rv, 0);
        assert_false(parties[i].early);
    }
    for (size_t i = 0; i < ROUNDS; i++)
        assert_int_equal(atomic_load(&arrived[i]), PARTIES);
    conf_wait_line(clients[0], conf_name("barrier"), 0, 0);
}

/* Whoever gives up is not counted. */
static void barrier_without_all(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("barrier");
    assert_int_equal(rota_barrier(a, name, 2, 30), ROTA_TIMEOUT);
    conf_left_line(b, name, 0, 0);
    assert_int_equal(rota_barrier(b, name, 2, 30), ROTA_TIMEOUT);
    conf_left_line(a, name, 0, 0);
    assert_int_equal(rota_barrier(a, name, 1, CONF_PATIENCE_MS), 0);
    conf_wait_line(a, name, 0, 0);
}

/* Giving up may cross what the engine still looks at for it; nothing is lost by that. */
static void barrier_given_up_soon(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("barrier");
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(rota_barrier(a, name, 2, 1 + i % 8), ROTA_TIMEOUT);
    conf_left_line(a, name, 0, 0);
}

static void barrier_of_processes(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("barrier");
    struct conf_agent *agents[2] = {conf_agent_new(), conf_agent_new()};
    struct conf_agent *dead = conf_agent_mortal();
    conf_agent_send(dead, "barrier %s 3 0", name);
    conf_wait_line(a, name, 1, 0);
    conf_agent_kill(dead);
    conf_wait_line(a, name, 0, 0); /* the dead are not counted */
    for (int round = 0; round < 3; round++) {
        conf_agent_send(agents[0], "barrier %s 3 0", name);
        conf_agent_send(agents[1], "barrier %s 3 0", name);
        assert_int_equal(rota_barrier(a, name, 3, CONF_PATIENCE_MS), 0);
        assert_int_equal(conf_agent_reply(agents[0], NULL), 0);
        assert_int_equal(conf_agent_reply(agents[1], NULL), 0);
    }
    conf_agent_end(agents[0]);
    conf_agent_end(agents[1]);
}

struct late_party {
    struct rota *r;
    const char *name;
    atomic_bool *go;
    int rv;
};

static void *late_main(void *arg)
{
    struct late_party *party = arg;
    while (!atomic_load(party->go))
        ;
    party->rv = rota_barrier(party->r, party->name, 3, 40);
    return NULL;
}

/* A killed party is no third one, however closely two others arrive together. */
static void barrier_with_a_dead_party(void)
{
    struct rota *clients[] = {conf_open(), conf_open()};
    int rounds = (conf.caps & ROTA_CAP_SHARED_HOSTS) == 0 ? 12
                                                          : 2; /* on a server each takes a ttl */
    for (int round = 0; round < rounds; round++) {
        struct late_party *parties = conf_alloc(2 * sizeof *parties);
        atomic_bool *go = conf_alloc(sizeof *go);
        struct conf_thread *threads[2];
        const char *name = conf_name("barrier");
        struct conf_agent *dead = conf_agent_mortal();
        conf_agent_send(dead, "barrier %s 3 0", name);
        conf_wait_line(clients[0], name, 1, 0);
        conf_agent_kill(dead);
        for (size_t i = 0; i < 2; i++) {
            parties[i] = (struct late_party){.r = clients[i], .name = name, .go = go};
            threads[i] = conf_spawn(late_main, &parties[i]);
        }
        atomic_store(go, true);
        for (size_t i = 0; i < 2; i++) {
            conf_join(threads[i]);
            /* With a time to live it may count until that is over. */
            if ((conf.caps & ROTA_CAP_TTL) == 0)
                assert_int_equal(parties[i].rv, ROTA_TIMEOUT);
        }
        conf_wait_line(clients[0], name, 0, 0);
    }
}

const struct conf_case conf_counting[] = {
    CONF_CASE(latch_opens_at_its_count, ROTA_CAP_DURABLE, 0),
    CONF_CASE(latch_counts_a_party_once, ROTA_CAP_DURABLE, 0),
    CONF_CASE(latch_is_reset, ROTA_CAP_DURABLE, 0),
    CONF_CASE(latch_must_make_sense, ROTA_CAP_DURABLE, 0),
    CONF_CASE(latch_of_processes, ROTA_CAP_DURABLE, CONF_PROCESSES),
    CONF_CASE(barrier_in_rounds, ROTA_CAP_DURABLE, 0),
    CONF_CASE(barrier_without_all, ROTA_CAP_DURABLE, 0),
    CONF_CASE(barrier_given_up_soon, ROTA_CAP_DURABLE, 0),
    CONF_CASE(barrier_of_processes, ROTA_CAP_DURABLE, CONF_PROCESSES),
    CONF_CASE(barrier_with_a_dead_party, ROTA_CAP_DURABLE, CONF_PROCESSES),
    CONF_CASE(latch_that_comes_and_goes, ROTA_CAP_DURABLE, 0),
    CONF_END,
};
