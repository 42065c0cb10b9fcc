/* SPDX-License-Identifier: Apache-2.0 */
/* The hunt for deadlocks, over hand-drawn lines. */
#include "core/hunt.h"

#include "core/grant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A world of lines: the tickets of a line stand in it in the order of this table. */
struct drawn {
    const char *name;
    uint64_t number, session, owner;
    uint32_t mode, take, of;
    bool granted, detect;
};

static const struct drawn *world;
static size_t world_size;
static int questions;
static void (*between)(int question); /* lets a test change the world between two looks */

static struct rota_place place_of(const struct drawn *t)
{
    return (struct rota_place){
        .number = t->number,
        .session = t->session,
        .owner = t->owner,
        .mode = t->mode,
        .take = t->take,
        .of = t->of,
        .flags = (t->granted ? ROTA_PLACE_GRANTED : 0) | (t->detect ? ROTA_PLACE_DETECT : 0),
        .label = "",
        .value = "",
    };
}

static enum rt_hunt_verdict hunt(const char *name, uint64_t number)
{
    static struct rt_hunt h;
    const struct drawn *us = NULL;
    for (size_t i = 0; i < world_size; i++)
        if (strcmp(world[i].name, name) == 0 && world[i].number == number)
            us = &world[i];
    assert_non_null(us);
    rt_hunt_begin(&h, name, number, us->session, us->owner);
    questions = 0;
    for (;;) {
        const char *line = NULL;
        uint64_t session = 0;
        enum rt_hunt_step step = rt_hunt_next(&h, &line, &session);
        if (step == RT_HUNT_OVER)
            return h.verdict;
        assert_in_range(++questions, 1, 1000);
        if (between != NULL)
            between(questions);
        for (size_t i = 0; i < world_size; i++) {
            const struct drawn *t = &world[i];
            struct rota_place place = place_of(t);
            if (step == RT_HUNT_LINE ? strcmp(t->name, line) == 0 : t->session == session)
                rt_hunt_place(&h, t->name, &place);
        }
        rt_hunt_answered(&h);
    }
}

#define DRAW(...)                                          \
    do {                                                   \
        static const struct drawn drawn[] = {__VA_ARGS__}; \
        world = drawn;                                     \
        world_size = sizeof(drawn) / sizeof(drawn[0]);     \
        between = NULL;                                    \
    } while (0)

#define HOLDS(name, number, session, owner)                          \
    {                                                                \
        name, number, session, owner, RT_EXCLUSIVE, 0, 0, true, true \
    }
#define WAITS(name, number, session, owner)                           \
    {                                                                 \
        name, number, session, owner, RT_EXCLUSIVE, 0, 0, false, true \
    }

static void two_that_wait_for_each_other(void **state)
{
    (void)state;
    DRAW(HOLDS("a", 1, 10, 7), WAITS("a", 4, 20, 8), HOLDS("b", 2, 20, 8), WAITS("b", 3, 10, 7));
    assert_int_equal(hunt("b", 3), RT_HUNT_SOMEBODY_ELSE);
    assert_int_equal(hunt("a", 4), RT_HUNT_VICTIM);
}

static void equal_numbers_are_told_apart_by_name(void **state)
{
    (void)state;
    DRAW(HOLDS("a", 1, 10, 7), WAITS("a", 3, 20, 8), HOLDS("b", 1, 20, 8), WAITS("b", 3, 10, 7));
    assert_int_equal(hunt("a", 3), RT_HUNT_SOMEBODY_ELSE);
    assert_int_equal(hunt("b", 3), RT_HUNT_VICTIM);
}

static void a_plain_hold_may_be_another_s_by_now(void **state)
{
    (void)state;
    DRAW({"a", 1, 10, 7, RT_EXCLUSIVE, 0, 0, true, false}, WAITS("a", 4, 20, 8),
         HOLDS("b", 2, 20, 8), WAITS("b", 3, 10, 7));
    assert_int_equal(hunt("a", 4), RT_HUNT_NOTHING);
    assert_int_equal(hunt("b", 3), RT_HUNT_NOTHING);
}

static void one_that_waits_for_itself(void **state)
{
    (void)state;
    DRAW({"a", 1, 10, 7, RT_SHARED, 0, 0, true, true}, WAITS("a", 2, 10, 7));
    assert_int_equal(hunt("a", 2), RT_HUNT_VICTIM);
}

static void threads_of_one_session(void **state)
{
    (void)state;
    DRAW(HOLDS("a", 1, 10, 1), WAITS("a", 4, 10, 2), HOLDS("b", 2, 10, 2), WAITS("b", 3, 10, 1));
    assert_int_equal(hunt("a", 4), RT_HUNT_VICTIM);
    assert_int_equal(hunt("b", 3), RT_HUNT_SOMEBODY_ELSE);
}

static void a_ring_of_forty(void **state)
{
    (void)state;
    enum { N = 40 };
    static struct drawn ring[2 * N];
    static char names[N][8];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof(names[i]), "n%d", i);
        ring[2 * i] = (struct drawn){names[i], 1,   (uint64_t)i + 1, 5, RT_EXCLUSIVE, 0, 0,
                                     true,     true};
        ring[2 * i + 1] = (struct drawn){names[i], (uint64_t)i + 2, (uint64_t)((i + 1) % N) + 1,
                                         5,        RT_EXCLUSIVE,    0,
                                         0,        false,           true};
    }
    world = ring;
    world_size = 2 * N;
    between = NULL;
    int victims = 0;
    for (int i = 0; i < N; i++) {
        enum rt_hunt_verdict verdict = hunt(names[i], (uint64_t)i + 2);
        assert_int_not_equal(verdict, RT_HUNT_NOTHING);
        victims += verdict == RT_HUNT_VICTIM;
    }
    assert_int_equal(victims, 1);
}

static void no_cycle_no_verdict(void **state)
{
    (void)state;
    DRAW(HOLDS("a", 1, 10, 7), WAITS("a", 2, 20, 8), HOLDS("b", 1, 30, 9), WAITS("b", 2, 10, 7));
    assert_int_equal(hunt("a", 2), RT_HUNT_NOTHING);
    assert_int_equal(hunt("b", 2), RT_HUNT_NOTHING);
}

static void who_asks_without_detect_is_no_part_of_it(void **state)
{
    (void)state;
    DRAW(HOLDS("a", 1, 10, 7), WAITS("a", 4, 20, 8), HOLDS("b", 2, 20, 8),
         {"b", 3, 10, 7, RT_EXCLUSIVE, 0, 0, false, false});
    assert_int_equal(hunt("a", 4), RT_HUNT_NOTHING);
}

static void nobody_and_the_durable_are_no_part_of_it(void **state)
{
    (void)state;
    DRAW(HOLDS("a", 1, 10, 0), WAITS("a", 4, 20, 8), HOLDS("b", 2, 20, 8), WAITS("b", 3, 10, 0));
    assert_int_equal(hunt("a", 4), RT_HUNT_NOTHING);
    DRAW(HOLDS("a", 1, 0, 8), WAITS("a", 4, 20, 8));
    assert_int_equal(hunt("a", 4), RT_HUNT_NOTHING);
}

static void readers_do_not_wait_for_readers(void **state)
{
    (void)state;
    DRAW({"a", 1, 10, 7, RT_SHARED, 0, 0, true, true},
         {"a", 4, 20, 8, RT_SHARED, 0, 0, false, true}, HOLDS("b", 2, 20, 8), WAITS("b", 3, 10, 7));
    assert_int_equal(hunt("a", 4), RT_HUNT_NOTHING);
}

static void a_reader_waits_for_the_writer_ahead(void **state)
{
    (void)state;
    /* 20 reads behind the writer 30, who waits for the reader 10, who waits for 20's b. */
    DRAW({"a", 1, 10, 7, RT_SHARED, 0, 0, true, true}, WAITS("a", 2, 30, 9),
         {"a", 5, 20, 8, RT_SHARED, 0, 0, false, true}, HOLDS("b", 3, 20, 8), WAITS("b", 4, 10, 7));
    assert_int_equal(hunt("a", 5), RT_HUNT_VICTIM);
    assert_int_equal(hunt("b", 4), RT_HUNT_SOMEBODY_ELSE);
}

static void who_is_behind_does_not_matter(void **state)
{
    (void)state;
    DRAW(HOLDS("a", 1, 30, 9), WAITS("a", 2, 20, 8), WAITS("a", 3, 10, 7), HOLDS("b", 4, 20, 8),
         WAITS("b", 5, 40, 1));
    assert_int_equal(hunt("a", 2), RT_HUNT_NOTHING);
}

static void permits_that_leave_room_do_not_block(void **state)
{
    (void)state;
    /* 1 of 3 is held by 10, 2 of 3 by 30: 20 waits for 1, and either of them can give it. */
    DRAW({"a", 1, 10, 7, RT_PERMITS, 1, 3, true, true},
         {"a", 2, 30, 9, RT_PERMITS, 2, 3, true, true},
         {"a", 4, 20, 8, RT_PERMITS, 1, 3, false, true}, HOLDS("b", 3, 20, 8),
         WAITS("b", 5, 10, 7));
    assert_int_equal(hunt("a", 4), RT_HUNT_NOTHING);
    /* 3 of 3 cannot be had without 10. */
    DRAW({"a", 1, 10, 7, RT_PERMITS, 1, 3, true, true},
         {"a", 4, 20, 8, RT_PERMITS, 3, 3, false, true}, HOLDS("b", 3, 20, 8),
         WAITS("b", 5, 10, 7));
    assert_int_equal(hunt("b", 5), RT_HUNT_VICTIM);
}

static struct drawn moving[4];

static void let_go_in_the_second_round(int question)
{
    if (question == 4)
        moving[0].number = 9; /* a was let go and taken again between two looks */
}

static void edges_of_different_moments_are_no_cycle(void **state)
{
    (void)state;
    const struct drawn start[4] = {HOLDS("a", 1, 10, 7), WAITS("a", 4, 20, 8), HOLDS("b", 2, 20, 8),
                                   WAITS("b", 3, 10, 7)};
    memcpy(moving, start, sizeof(start));
    world = moving;
    world_size = 4;
    between = let_go_in_the_second_round;
    assert_int_equal(hunt("a", 4), RT_HUNT_NOTHING);
    assert_true(questions > 4);
}

static void our_own_in_the_second_round(int question)
{
    if (question == 4)
        moving[2].number = 9; /* b was let go by us, and taken again */
}

static void our_own_hold_must_be_the_same_too(void **state)
{
    (void)state;
    const struct drawn start[4] = {HOLDS("a", 1, 10, 7), WAITS("a", 4, 20, 8), HOLDS("b", 2, 20, 8),
                                   WAITS("b", 3, 10, 7)};
    memcpy(moving, start, sizeof(start));
    world = moving;
    world_size = 4;
    between = our_own_in_the_second_round;
    assert_int_equal(hunt("a", 4), RT_HUNT_NOTHING);
    assert_int_equal(questions, 6);
}

static void granted_meanwhile(int question)
{
    if (question == 2)
        moving[1].granted = true;
}

static void a_grant_ends_the_hunt(void **state)
{
    (void)state;
    const struct drawn start[4] = {HOLDS("a", 1, 10, 7), WAITS("a", 4, 20, 8), HOLDS("b", 2, 20, 8),
                                   WAITS("b", 3, 10, 7)};
    memcpy(moving, start, sizeof(start));
    world = moving;
    world_size = 4;
    between = granted_meanwhile;
    assert_int_equal(hunt("a", 4), RT_HUNT_NOTHING);
}

static void a_large_web_is_left_alone(void **state)
{
    (void)state;
    enum { N = 200 };
    static struct drawn web[2 * N];
    static char names[N][8];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof(names[i]), "n%d", i);
        web[2 * i] = (struct drawn){names[i], 1,   (uint64_t)i + 1, 5, RT_EXCLUSIVE, 0, 0,
                                    true,     true};
        web[2 * i + 1] = (struct drawn){names[i], (uint64_t)i + 2, (uint64_t)((i + 1) % N) + 1,
                                        5,        RT_EXCLUSIVE,    0,
                                        0,        false,           true};
    }
    world = web;
    world_size = 2 * N;
    between = NULL;
    assert_int_equal(hunt("n0", 2), RT_HUNT_NOTHING);
    assert_in_range(questions, 1, 4 * RT_HUNT_NODES);
}

/* A session is asked about once, whatever it holds. */
static void who_holds_twice_is_asked_once(void **state)
{
    (void)state;
    DRAW({"a", 1, 10, 7, RT_SHARED, 0, 0, true, true}, {"a", 2, 10, 7, RT_SHARED, 0, 0, true, true},
         {"a", 3, 10, 6, RT_SHARED, 0, 0, true, true}, WAITS("a", 4, 20, 8));
    assert_int_equal(hunt("a", 4), RT_HUNT_NOTHING);
    assert_int_equal(questions, 3); /* the line, and two owners */
}

/* Names that no longer fit are left out, and the hunt ends like any other. */
static void long_names_are_left_alone_too(void **state)
{
    (void)state;
    enum { N = RT_HUNT_TEXT / 1000 + 2 };
    static struct drawn web[2 * N];
    static char names[N][1001];
    for (int i = 0; i < N; i++) {
        memset(names[i], 'a' + i, 1000);
        uint64_t holder = (uint64_t)i + 1, waiter = (uint64_t)((i + 1) % N) + 1;
        web[2 * i] = (struct drawn)HOLDS(names[i], 1, holder, 5);
        web[2 * i + 1] = (struct drawn)WAITS(names[i], (uint64_t)i + 2, waiter, 5);
    }
    world = web;
    world_size = 2 * N;
    between = NULL;
    assert_int_equal(hunt(names[0], 2), RT_HUNT_NOTHING);
    static struct rt_hunt h;
    static char endless[RT_HUNT_TEXT + 1];
    const char *name;
    uint64_t session;
    memset(endless, 'x', RT_HUNT_TEXT);
    rt_hunt_begin(&h, endless, 1, 2, 3);
    assert_int_equal(rt_hunt_next(&h, &name, &session), RT_HUNT_OVER);
    assert_int_equal(h.verdict, RT_HUNT_NOTHING);
}

static void a_failed_question_ends_it(void **state)
{
    (void)state;
    static struct rt_hunt h;
    const char *name;
    uint64_t session;
    rt_hunt_begin(&h, "a", 1, 2, 3);
    assert_int_equal(rt_hunt_next(&h, &name, &session), RT_HUNT_LINE);
    assert_string_equal(name, "a");
    rt_hunt_fail(&h);
    assert_int_equal(rt_hunt_next(&h, &name, &session), RT_HUNT_OVER);
    assert_int_equal(h.verdict, RT_HUNT_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_that_wait_for_each_other),
        cmocka_unit_test(equal_numbers_are_told_apart_by_name),
        cmocka_unit_test(a_plain_hold_may_be_another_s_by_now),
        cmocka_unit_test(one_that_waits_for_itself),
        cmocka_unit_test(threads_of_one_session),
        cmocka_unit_test(a_ring_of_forty),
        cmocka_unit_test(no_cycle_no_verdict),
        cmocka_unit_test(who_asks_without_detect_is_no_part_of_it),
        cmocka_unit_test(nobody_and_the_durable_are_no_part_of_it),
        cmocka_unit_test(readers_do_not_wait_for_readers),
        cmocka_unit_test(a_reader_waits_for_the_writer_ahead),
        cmocka_unit_test(who_is_behind_does_not_matter),
        cmocka_unit_test(permits_that_leave_room_do_not_block),
        cmocka_unit_test(edges_of_different_moments_are_no_cycle),
        cmocka_unit_test(our_own_hold_must_be_the_same_too),
        cmocka_unit_test(a_grant_ends_the_hunt),
        cmocka_unit_test(who_holds_twice_is_asked_once),
        cmocka_unit_test(long_names_are_left_alone_too),
        cmocka_unit_test(a_large_web_is_left_alone),
        cmocka_unit_test(a_failed_question_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
