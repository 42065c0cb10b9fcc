/* SPDX-License-Identifier: Apache-2.0 */
/* Shared holds, permits, downgrading, and lines that are of one kind. */
#include "suite.h"

#include <string.h>

static const struct rota_ask shared = {.mode = ROTA_SHARED};

static struct rota_ask permits(uint32_t take, uint32_t of)
{
    return (struct rota_ask){.mode = ROTA_PERMITS, .take = take, .of = of};
}

/* ---- Shared ------------------------------------------------------------- */

static void readers_hold_together(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *locks[3] = {conf_take(a, name, &shared), conf_take(b, name, &shared),
                                  conf_take(b, name, &shared)};
    assert_int_equal(conf_try(a, name, &(struct rota_ask){.owner = 7}, NULL), ROTA_BUSY);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(conf_try(i == 0 ? b : a, name, &(struct rota_ask){.owner = 7}, NULL),
                         ROTA_BUSY);
        conf_give(locks[i]);
    }
    struct rota_lock *writer = conf_take(a, name, NULL);
    assert_int_equal(conf_try(b, name, &shared, NULL), ROTA_BUSY);
    conf_give(writer);
}

/* A writer that waits keeps later readers out, and goes before them. */
static void writer_is_not_starved(void)
{
    struct rota *a = conf_open(), *b = conf_open(), *c = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *reader = conf_take(a, name, &shared);
    struct conf_wish *writer = conf_wish_start(b, name, NULL);
    conf_wait_line(a, name, 2, 1);
    assert_int_equal(conf_try(c, name, &shared, NULL), ROTA_BUSY);
    struct conf_wish *late = conf_wish_start(c, name, &shared);
    conf_wait_line(a, name, 3, 1);
    conf_give(reader);
    assert_int_equal(conf_wish_wait(writer), 0);
    assert_int_equal(atomic_load(&late->calls), 0);
    conf_give(atomic_load(&writer->lock));
    assert_int_equal(conf_wish_wait(late), 0);
    conf_give(atomic_load(&late->lock));
}

/* Readers of the holder's client that queued are all let in by its release. */
static void readers_under_an_exclusive_tenure(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *writer = conf_take(a, name, NULL);
    struct conf_wish *readers[3];
    assert_int_equal(conf_try(a, name, &(struct rota_ask){.mode = ROTA_SHARED, .owner = 7}, NULL),
                     ROTA_BUSY);
    for (size_t i = 0; i < 3; i++)
        readers[i] = conf_wish_start(a, name, &shared);
    conf_give(writer);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(conf_wish_wait(readers[i]), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(conf_try(b, name, NULL, NULL), ROTA_BUSY);
        conf_give(atomic_load(&readers[i]->lock));
    }
    assert_int_equal(conf_try(b, name, NULL, NULL), 0);
}

static void contend(const struct rota_ask *asks, size_t kinds, int often)
{
    unsigned rounds = (unsigned)conf_rounds(often);
    enum { CLIENTS = 3, ACTORS = 6 };
    const char *name = conf_name("x");
    struct rota *clients[CLIENTS] = {conf_open(), conf_open(), conf_open()};
    struct conf_load *loads = conf_alloc(ACTORS * sizeof *loads);
    struct conf_thread *threads[ACTORS];
    uint64_t writes = 0;
    conf_history_begin();
    for (size_t i = 0; i < ACTORS; i++) {
        loads[i] = (struct conf_load){
            .r = clients[i % CLIENTS], .name = name, .ask = asks[i % kinds], .rounds = rounds};
        writes += asks[i % kinds].mode == ROTA_EXCLUSIVE ? rounds : 0;
        threads[i] = conf_spawn(conf_load_run, &loads[i]);
    }
    for (size_t i = 0; i < ACTORS; i++) {
        conf_join(threads[i]);
        assert_int_equal(loads[i].rv, 0);
    }
    conf_history_check(name, writes);
}

static void readers_and_writers_contend(void)
{
    contend((struct rota_ask[]){shared, {.mode = ROTA_EXCLUSIVE}}, 2, 60);
}

/* ---- Permits ------------------------------------------------------------ */

static void permits_k_of_n(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask one = permits(1, 5), two = permits(2, 5), three = permits(3, 5);
    struct rota_lock *lock3 = conf_take(a, name, &three), *lock2 = conf_take(b, name, &two);
    assert_int_equal(conf_try(a, name, &one, NULL), ROTA_BUSY);
    assert_int_equal(conf_try(b, name, &one, NULL), ROTA_BUSY);
    conf_give(lock2);
    struct rota_lock *more = conf_take(a, name, &two); /* of one owner, and all its own */
    assert_int_equal(conf_try(b, name, &one, NULL), ROTA_BUSY);
    conf_give(lock3);
    conf_give(conf_take(b, name, &three));
    conf_give(more);
    conf_assert_line(a, name, 0, 0);
}

static void small_ask_does_not_overtake(void)
{
    struct rota *a = conf_open(), *b = conf_open(), *c = conf_open();
    const char *name = conf_name("x");
    struct rota_ask one = permits(1, 5), three = permits(3, 5), four = permits(4, 5);
    struct rota_lock *lock = conf_take(a, name, &three);
    struct conf_wish *large = conf_wish_start(b, name, &four);
    conf_wait_line(a, name, 2, 1);
    assert_int_equal(conf_try(c, name, &one, NULL), ROTA_BUSY);
    assert_int_equal(conf_try(a, name, &one, NULL),
                     ROTA_BUSY); /* not in the holder's client either */
    struct conf_wish *small = conf_wish_start(c, name, &one);
    conf_wait_line(a, name, 3, 1);
    conf_give(lock);
    assert_int_equal(conf_wish_wait(large), 0);
    assert_int_equal(conf_wish_wait(small), 0); /* 4 + 1 fit */
    conf_assert_line(a, name, 2, 2);
    conf_give(atomic_load(&large->lock));
    conf_give(atomic_load(&small->lock));
}

/* The large ask gives up: the one it kept back comes in. */
static void small_ask_enters_when_large_gives_up(void)
{
    struct rota *a = conf_open(), *b = conf_open(), *c = conf_open();
    const char *name = conf_name("x");
    struct rota_ask one = permits(1, 5), three = permits(3, 5), four = permits(4, 5);
    struct rota_lock *lock = conf_take(a, name, &three);
    struct conf_wish *large = conf_wish_start(b, name, &four);
    conf_wait_line(a, name, 2, 1);
    struct conf_wish *small = conf_wish_start(c, name, &one);
    conf_wait_line(a, name, 3, 1);
    assert_int_equal(rota_cancel(b, large->id), 0);
    assert_int_equal(conf_wish_wait(large), ROTA_CANCELED);
    assert_int_equal(conf_wish_wait(small), 0);
    conf_give(atomic_load(&small->lock));
    conf_give(lock);
}

static void permits_must_make_sense(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct rota_ask asks[] = {permits(6, 5),
                              permits(0, 5),
                              permits(1, 0),
                              permits(0, 0),
                              {.take = 1, .of = 2},
                              {.mode = ROTA_SHARED, .take = 1, .of = 2},
                              {.mode = 3, .take = 1, .of = 2},
                              {.mode = 99},
                              {.flags = 0x80000000u}};
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
        if (conf_try(a, name, &asks[i], NULL) != ROTA_INVALID)
            fail_msg("ask %zu is not refused", i);
    }
    conf_assert_line(a, name, 0, 0);
}

static void permits_of_another_n(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_ask five = permits(1, 5), seven = permits(1, 7);
    struct rota_lock *lock = conf_take(a, name, &five);
    struct rota *clients[] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(conf_try(clients[i], name, &seven, NULL), ROTA_INVALID);
        assert_non_null(strstr(rota_errmsg(clients[i]), "5"));
        assert_non_null(strstr(rota_errmsg(clients[i]), "7"));
        struct rota_lock *out = NULL;
        assert_int_equal(rota_acquire(clients[i], name, &seven, &out), ROTA_INVALID);
    }
    conf_assert_line(a, name, 1, 1);
    conf_give(lock);
    conf_give(conf_take(b, name, &seven)); /* an empty line has no kind */
}

static void permits_contend(void)
{
    contend((struct rota_ask[]){permits(1, 3), permits(2, 3), permits(3, 3)}, 3, 40);
}

/* ---- Kinds -------------------------------------------------------------- */

static void assert_kind_refused(struct rota *r, const char *name, const struct rota_ask *ask)
{
    struct rota_lock *out = NULL;
    assert_int_equal(conf_try(r, name, ask, NULL), ROTA_INVALID);
    assert_int_equal(rota_acquire(r, name, ask, &out), ROTA_INVALID);
    assert_true(rota_errmsg(r)[0] != '\0');
    conf_assert_line(r, name, 1, 1);
}

static void kinds_do_not_mix(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *lock_name = conf_name("lock"), *permit_name = conf_name("permit");
    struct rota_ask one = permits(1, 2), other = {.owner = 7};
    struct rota_ask reader = {.mode = ROTA_SHARED, .owner = 7};
    struct rota_lock *lock = conf_take(a, lock_name, NULL);
    struct rota_lock *permit = conf_take(a, permit_name, &one);
    struct rota *clients[] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        assert_kind_refused(clients[i], lock_name, &one);
        assert_kind_refused(clients[i], permit_name, &other);
        assert_kind_refused(clients[i], permit_name, &reader);
    }
    conf_give(lock);
    conf_give(permit);
}

static void kinds_do_not_mix_with_counts(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *latch = conf_name("latch"), *lock_name = conf_name("lock");
    assert_int_equal(rota_latch_down(a, latch, 3, NULL), 0);
    assert_kind_refused(b, latch, NULL);
    assert_int_equal(rota_latch_down(b, latch, 4, NULL), ROTA_INVALID);
    assert_int_equal(rota_barrier(b, latch, 3, 50), ROTA_INVALID);
    assert_int_equal(rota_latch_reset(a, latch), 0);
    struct rota_lock *lock = conf_take(a, lock_name, NULL);
    assert_int_equal(rota_latch_down(b, lock_name, 3, NULL), ROTA_INVALID);
    assert_int_equal(rota_barrier(b, lock_name, 3, 50), ROTA_INVALID);
    conf_assert_line(b, lock_name, 1, 1);
    conf_give(lock);
}

/* ---- Downgrading -------------------------------------------------------- */

/* A row's lock cannot be weakened on any database: dialect forupdate says so, and keeps what it has. */
static bool downgrade_is_refused(void)
{
    if (strstr(conf.url, "dialect=forupdate") == NULL)
        return false;
    struct rota *r = conf_open();
    struct rota_lock *lock = conf_take(r, conf_name("x"), NULL);
    assert_int_equal(rota_downgrade(lock), ROTA_UNSUPPORTED);
    assert_int_equal(rota_check(lock), 0);
    conf_give(lock);
    return true;
}

/* A hold by re-entry does not share what its owner believes to have alone. */
static void downgrade_of_an_inner_hold(void)
{
    if (downgrade_is_refused())
        return;
    struct rota *r = conf_open();
    const char *name = conf_name("x");
    const struct rota_ask owner = {.owner = 7}, reader = {.owner = 7, .mode = ROTA_SHARED};
    struct rota_lock *outer = conf_take(r, name, &owner), *inner = conf_take(r, name, &owner);
    struct rota_lock *look = conf_take(r, name, &reader);
    uint64_t highest = 0;
    assert_int_equal(rota_downgrade(look), 0); /* it is shared already */
    assert_int_equal(rota_downgrade(inner), ROTA_INVALID);
    assert_int_equal(rota_guard(outer, &highest), 0);
    conf_give(inner);
    assert_int_equal(rota_downgrade(outer), 0);
    conf_give(look);
    conf_give(outer);
}

static void downgrade_lets_readers_in(void)
{
    if (downgrade_is_refused())
        return;
    struct rota *a = conf_open(), *b = conf_open(), *c = conf_open();
    const char *name = conf_name("x");
    uint64_t highest = 0;
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_wish *reader = conf_wish_start(b, name, &shared);
    conf_wait_line(a, name, 2, 1);
    assert_int_equal(rota_downgrade(lock), 0);
    assert_int_equal(conf_wish_wait(reader), 0);
    assert_int_equal(rota_guard(lock, &highest), ROTA_INVALID);
    assert_int_equal(rota_check(lock), 0);
    assert_int_equal(conf_try(c, name, &shared, NULL), 0);
    assert_int_equal(conf_try(c, name, NULL, NULL), ROTA_BUSY);
    conf_give(atomic_load(&reader->lock));
    assert_int_equal(conf_try(c, name, NULL, NULL), ROTA_BUSY); /* never let go */
    conf_give(lock);
    assert_int_equal(conf_try(c, name, NULL, NULL), 0);
}

static void downgrade_lets_local_readers_in(void)
{
    if (downgrade_is_refused())
        return;
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *lock = conf_take(a, name, NULL);
    struct conf_wish *reader = conf_wish_start(a, name, &shared);
    assert_int_equal(rota_downgrade(lock), 0);
    assert_int_equal(conf_wish_wait(reader), 0);
    conf_give(lock);
    assert_int_equal(conf_try(b, name, NULL, NULL), ROTA_BUSY);
    conf_give(atomic_load(&reader->lock));
    assert_int_equal(conf_try(b, name, NULL, NULL), 0);
}

const struct conf_case conf_modes[] = {
    CONF_CASE(readers_hold_together, ROTA_CAP_SHARED, 0),
    CONF_CASE(writer_is_not_starved, ROTA_CAP_SHARED | ROTA_CAP_ORDER, 0),
    CONF_CASE(readers_under_an_exclusive_tenure, ROTA_CAP_SHARED, 0),
    CONF_CASE(readers_and_writers_contend, ROTA_CAP_SHARED, 0),
    CONF_CASE(permits_k_of_n, ROTA_CAP_PERMITS, 0),
    CONF_CASE(small_ask_does_not_overtake, ROTA_CAP_PERMITS | ROTA_CAP_ORDER, 0),
    CONF_CASE(small_ask_enters_when_large_gives_up, ROTA_CAP_PERMITS | ROTA_CAP_ORDER, 0),
    CONF_CASE(permits_must_make_sense, ROTA_CAP_PERMITS | ROTA_CAP_SHARED, 0),
    CONF_CASE(permits_of_another_n, ROTA_CAP_PERMITS, 0),
    CONF_CASE(permits_contend, ROTA_CAP_PERMITS, 0),
    CONF_CASE(kinds_do_not_mix, ROTA_CAP_PERMITS | ROTA_CAP_SHARED, 0),
    CONF_CASE(kinds_do_not_mix_with_counts, ROTA_CAP_DURABLE, 0),
    CONF_CASE(downgrade_of_an_inner_hold, ROTA_CAP_SHARED, 0),
    CONF_CASE(downgrade_lets_readers_in, ROTA_CAP_SHARED, 0),
    CONF_CASE(downgrade_lets_local_readers_in, ROTA_CAP_SHARED, 0),
    CONF_END,
};
