/* SPDX-License-Identifier: Apache-2.0 */
/* Several names at once: all of them or none, and never a deadlock. */
#include "suite.h"

#include <stdio.h>

#define NAMES 6
#define ROUNDS 25
#define MOST 128

static void set_is_held_whole(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *names[3] = {conf_name("c"), conf_name("a"), conf_name("b")};
    struct rota_lock *locks[3] = {NULL};
    assert_int_equal(rota_acquire_all(a, names, 3, NULL, locks), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(rota_name(locks[i]), names[i]);
        assert_true(rota_fence(locks[i]) > 0 || (conf.caps & ROTA_CAP_FENCE) == 0);
        assert_int_equal(conf_try(b, names[i], NULL, NULL), ROTA_BUSY);
    }
    conf_give(locks[1]); /* each is a hold of its own */
    assert_int_equal(conf_try(b, names[1], NULL, NULL), 0);
    assert_int_equal(conf_try(b, names[0], NULL, NULL), ROTA_BUSY);
    conf_give(locks[0]);
    conf_give(locks[2]);
}

/* As many as there may be. */
static void set_of_many_is_held_whole(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *names[MOST];
    struct rota_lock *locks[MOST] = {NULL};
    for (size_t i = 0; i < MOST; i++) {
        char tail[16];
        snprintf(tail, sizeof(tail), "n%zu", i);
        names[i] = conf_name(tail);
    }
    assert_int_equal(rota_acquire_all(a, names, MOST, NULL, locks), 0);
    assert_int_equal(conf_try(b, names[0], NULL, NULL), ROTA_BUSY);
    assert_int_equal(conf_try(b, names[MOST - 1], NULL, NULL), ROTA_BUSY);
    for (size_t i = 0; i < MOST; i++) {
        assert_string_equal(rota_name(locks[i]), names[i]);
        conf_give(locks[i]);
    }
}

static void set_is_refused_whole(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *names[3] = {conf_name("a"), conf_name("b"), conf_name("c")};
    struct rota_lock *lock = conf_take(a, names[1], NULL), *locks[3] = {NULL};
    struct rota_ask try = {.flags = ROTA_TRY}, soon = {.limit_ms = 50};
    assert_int_equal(rota_acquire_all(b, names, 3, &try, locks), ROTA_BUSY);
    assert_int_equal(rota_acquire_all(b, names, 3, &soon, locks), ROTA_TIMEOUT);
    for (size_t i = 0; i < 3; i++)
        assert_null(locks[i]);
    /* Asked by the one that gave up: its JOIN_ALL may still be under way, and another client's look would not
     * see it yet. */
    for (size_t i = 0; i < 3; i++)
        conf_left_line(b, names[i], i == 1, i == 1);
    assert_int_equal(conf_count_lines(b, conf.prefix), 1);
    conf_give(lock);
    assert_int_equal(rota_acquire_all(b, names, 3, &try, locks), 0);
    for (size_t i = 0; i < 3; i++)
        conf_give(locks[i]);
}

static void set_of_readers(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *names[2] = {conf_name("a"), conf_name("b")};
    struct rota_ask shared = {.mode = ROTA_SHARED};
    struct rota_lock *first[2], *second[2];
    assert_int_equal(rota_acquire_all(a, names, 2, &shared, first), 0);
    assert_int_equal(rota_acquire_all(b, names, 2, &shared, second), 0);
    for (size_t i = 0; i < 2; i++) {
        conf_give(first[i]);
        assert_int_equal(conf_try(a, names[i], NULL, NULL), ROTA_BUSY);
        conf_give(second[i]);
    }
}

static void set_must_make_sense(void)
{
    struct rota *a = conf_open();
    char texts[129][32];
    const char *names[129] = {NULL}, *twice[3] = {conf_name("a"), conf_name("b"), conf_name("a")};
    struct rota_lock *locks[129] = {NULL};
    struct rota_ask permits = {.mode = ROTA_PERMITS, .take = 1, .of = 2};
    for (size_t i = 0; i < 129; i++) {
        snprintf(texts[i], sizeof texts[i], "%zu", i);
        names[i] = conf_name(texts[i]);
    }
    assert_int_equal(rota_acquire_all(a, twice, 3, NULL, locks), ROTA_INVALID);
    assert_int_equal(rota_acquire_all(a, names, 0, NULL, locks), ROTA_INVALID);
    assert_int_equal(rota_acquire_all(a, names, 129, NULL, locks), ROTA_INVALID);
    assert_int_equal(rota_acquire_all(a, names, 2, &permits, locks),
                     (conf.caps & ROTA_CAP_PERMITS) != 0 ? ROTA_INVALID : ROTA_UNSUPPORTED);
    const char *good = names[1];
    names[1] = "";
    assert_int_equal(rota_acquire_all(a, names, 2, NULL, locks), ROTA_INVALID);
    names[1] = good;
    assert_int_equal(conf_count_lines(a, conf.prefix), 0);
    assert_int_equal(rota_acquire_all(a, names, 128, NULL, locks), 0);
    for (size_t i = 0; i < 128; i++)
        conf_give(locks[i]);
}

/* ---- Overlapping sets --------------------------------------------------- */

struct setter {
    struct rota *r;
    const char *const *names;
    unsigned seed;
    atomic_int *inside; /* per name: how many hold it */
    int rv;
    bool crowded;
};

/* Three different names out of NAMES, in any order. */
static void draw(unsigned *seed, size_t picks[3])
{
    for (size_t i = 0; i < 3; i++) {
        do {
            *seed = *seed * 1103515245u + 12345u;
            picks[i] = (*seed >> 16) % NAMES;
        } while ((i > 0 && picks[i] == picks[0]) || (i > 1 && picks[i] == picks[1]));
    }
}

static void *setter_main(void *arg)
{
    struct setter *s = arg;
    struct conf_load loads[3] = {{.r = NULL}};
    for (int round = 0; round < conf_rounds(ROUNDS) && s->rv == 0; round++) {
        size_t picks[3];
        draw(&s->seed, picks);
        for (size_t i = 0; i < 3; i++)
            loads[i].name = s->names[picks[i]];
        s->rv = conf_loads_take_all(s->r, loads, 3);
        for (size_t i = 0; i < 3 && s->rv == 0; i++)
            s->crowded |= atomic_fetch_add(&s->inside[picks[i]], 1) != 0;
        for (size_t i = 0; i < 3 && s->rv == 0; i++) {
            atomic_fetch_sub(&s->inside[picks[i]], 1);
            s->rv = conf_load_give(&loads[i]);
        }
    }
    return NULL;
}

static void contend(size_t clients)
{
    enum { ACTORS = 6 };
    char texts[NAMES][8];
    const char *names[NAMES];
    struct rota *opened[ACTORS];
    struct setter *setters = conf_alloc(ACTORS * sizeof *setters);
    struct conf_thread *threads[ACTORS];
    atomic_int *inside = conf_alloc(NAMES * sizeof *inside);
    conf_history_begin();
    for (size_t i = 0; i < NAMES; i++) {
        snprintf(texts[i], sizeof texts[i], "%zu", i);
        names[i] = conf_name(texts[i]);
    }
    for (size_t i = 0; i < clients; i++)
        opened[i] = conf_open();
    for (size_t i = 0; i < ACTORS; i++) {
        setters[i] = (struct setter){
            .r = opened[i % clients], .names = names, .seed = (unsigned)i + 1, .inside = inside};
        threads[i] = conf_spawn(setter_main, &setters[i]);
    }
    for (size_t i = 0; i < ACTORS; i++) {
        conf_join(threads[i]);
        assert_int_equal(setters[i].rv, 0);
        assert_false(setters[i].crowded);
    }
    conf_history_check(names[0], 0);
}

static void overlapping_sets_of_clients(void)
{
    contend(6);
}

static void overlapping_sets_of_threads(void)
{
    contend(1);
}

/* A set and plain asks for single names in it do not disturb each other. */
static void set_waits_with_single_asks(void)
{
    struct rota *a = conf_open(), *b = conf_open(), *c = conf_open();
    const char *names[2] = {conf_name("a"), conf_name("b")};
    struct rota_lock *lock = conf_take(a, names[0], NULL), *locks[2] = {NULL};
    struct conf_wish *wish = conf_wish_start(b, names[0], NULL);
    conf_wait_line(a, names[0], 2, 1);
    struct rota_ask soon = {.limit_ms = 30};
    assert_int_equal(rota_acquire_all(c, names, 2, &soon, locks), ROTA_TIMEOUT);
    conf_left_line(c, names[0], 2, 1);
    conf_left_line(c, names[1], 0, 0);
    conf_give(lock);
    assert_int_equal(conf_wish_wait(wish), 0);
    conf_give(atomic_load(&wish->lock));
    assert_int_equal(rota_acquire_all(c, names, 2, NULL, locks), 0);
    conf_give(locks[0]);
    conf_give(locks[1]);
}

const struct conf_case conf_sets[] = {
    CONF_CASE(set_is_held_whole, 0, 0),
    CONF_CASE(set_of_many_is_held_whole, 0, 0),
    CONF_CASE(set_is_refused_whole, 0, 0),
    CONF_CASE(set_of_readers, ROTA_CAP_SHARED, 0),
    CONF_CASE(set_must_make_sense, 0, 0),
    CONF_CASE(overlapping_sets_of_clients, 0, 0),
    CONF_CASE(overlapping_sets_of_threads, 0, 0),
    CONF_CASE(set_waits_with_single_asks, 0, 0),
    CONF_END,
};
