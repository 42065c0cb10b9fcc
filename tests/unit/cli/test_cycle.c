/* SPDX-License-Identifier: Apache-2.0 */
/* How rota why finds a circle of waiters. */
#include "cli/cycle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16

/* A picture, drawn line by line. */
struct picture {
    struct rota_place places[MOST];
    struct rt_cycle_ticket tickets[MOST];
    struct rt_cycle_step steps[MOST];
    size_t count;
};

static struct rota_place *add(struct picture *p, const char *name, uint64_t who, bool granted)
{
    struct rota_place *place = &p->places[p->count];

    *place = (struct rota_place){
        .number = p->count + 1,
        .session = 100 + who,
        .owner = 1,
        .flags = granted ? ROTA_PLACE_GRANTED : 0,
    };
    p->tickets[p->count++] = (struct rt_cycle_ticket){name, place};
    return place;
}

static long find(struct picture *p, const char *name)
{
    return rt_cycle_find(p->tickets, p->count, name, p->steps);
}

/* Every step waits behind somebody ahead in its line, who waits in the next step. */
static void check_steps(const struct picture *p, long count)
{
    for (long i = 0; i < count; i++) {
        const struct rt_cycle_ticket *waits = &p->tickets[p->steps[i].waits];
        const struct rt_cycle_ticket *behind = &p->tickets[p->steps[i].behind];
        const struct rt_cycle_ticket *next = &p->tickets[p->steps[(i + 1) % count].waits];
        assert_int_equal(waits->place->flags & ROTA_PLACE_GRANTED, 0);
        assert_int_equal(next->place->flags & ROTA_PLACE_GRANTED, 0);
        assert_ptr_equal(waits->name, behind->name);
        assert_true(p->steps[i].behind < p->steps[i].waits);
        assert_int_equal(behind->place->session, next->place->session);
        assert_int_equal(behind->place->owner, next->place->owner);
    }
}

static void nobody(void **state)
{
    struct picture p = {.count = 0};

    (void)state;
    assert_int_equal(find(&p, "a"), 0);
}

static void a_chain_is_no_cycle(void **state)
{
    struct picture p = {.count = 0};

    (void)state;
    add(&p, "a", 1, true);
    add(&p, "a", 2, false);
    add(&p, "a", 3, false);
    add(&p, "b", 2, true);
    add(&p, "b", 4, false);
    assert_int_equal(find(&p, "a"), 0);
    assert_int_equal(find(&p, "b"), 0);
}

static void two_and_three(void **state)
{
    struct picture two = {.count = 0}, three = {.count = 0};

    (void)state;
    add(&two, "a", 1, true);
    add(&two, "a", 2, false);
    add(&two, "b", 2, true);
    add(&two, "b", 1, false);
    assert_int_equal(find(&two, "a"), 2);
    check_steps(&two, 2);
    assert_int_equal(find(&two, "b"), 2);
    check_steps(&two, 2);

    for (uint64_t i = 0; i < 3; i++) {
        static const char *const names[] = {"a", "b", "c"};
        add(&three, names[i], i, true);
        add(&three, names[i], (i + 2) % 3, false);
    }
    assert_int_equal(find(&three, "b"), 3);
    check_steps(&three, 3);
}

/* Threads of one process are not one. */
static void owners_are_told_apart(void **state)
{
    struct picture p = {.count = 0};

    (void)state;
    add(&p, "a", 1, true);
    add(&p, "a", 2, false);
    add(&p, "b", 2, true);
    add(&p, "b", 1, false)->owner = 2;
    assert_int_equal(find(&p, "a"), 0);
    p.places[0].owner = p.places[3].owner = 0; /* nobody in particular */
    assert_int_equal(find(&p, "a"), 0);
}

static void durable_tickets_wait_for_nothing(void **state)
{
    struct picture p = {.count = 0};

    (void)state;
    add(&p, "a", 1, true)->session = 0;
    add(&p, "a", 2, false);
    add(&p, "b", 2, true);
    add(&p, "b", 1, false)->session = 0;
    assert_int_equal(find(&p, "a"), 0);
}

static void sharing_is_no_obstacle(void **state)
{
    struct picture p = {.count = 0};

    (void)state;
    add(&p, "a", 1, true)->mode = ROTA_SHARED;
    add(&p, "a", 2, false)->mode = ROTA_SHARED;
    add(&p, "b", 2, true);
    add(&p, "b", 1, false);
    assert_int_equal(find(&p, "a"), 0);
    p.places[1].mode = ROTA_EXCLUSIVE;
    assert_int_equal(find(&p, "a"), 2);
}

/* A reader waits behind somebody who does not share, and so in the end for the first holder. */
static void through_a_waiter_ahead(void **state)
{
    struct picture p = {.count = 0};

    (void)state;
    add(&p, "a", 1, true)->mode = ROTA_SHARED;
    add(&p, "a", 3, false);
    add(&p, "a", 2, false)->mode = ROTA_SHARED;
    add(&p, "b", 2, true);
    add(&p, "b", 1, false);
    assert_int_equal(find(&p, "a"), 3);
    check_steps(&p, 3);
}

static void permits_count_if_one_alone_is_in_the_way(void **state)
{
    struct picture p = {.count = 0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rota_place *place = add(&p, "a", 1 + (uint64_t)i, i == 0);
        place->mode = ROTA_PERMITS;
        place->take = 2;
        place->of = 3;
    }
    add(&p, "b", 2, true);
    add(&p, "b", 1, false);
    assert_int_equal(find(&p, "a"), 2);
    p.places[0].take = 1;
    assert_int_equal(find(&p, "a"), 0);
}

static void waiting_for_oneself(void **state)
{
    struct picture p = {.count = 0};

    (void)state;
    add(&p, "a", 1, true)->mode = ROTA_SHARED;
    add(&p, "a", 1, false);
    assert_int_equal(find(&p, "a"), 1);
    check_steps(&p, 1);
}

/* "c" is held by one of the two; "d" has nothing to do with them. */
static void only_what_the_line_hangs_on(void **state)
{
    struct picture p = {.count = 0};

    (void)state;
    add(&p, "a", 1, true);
    add(&p, "a", 2, false);
    add(&p, "b", 2, true);
    add(&p, "b", 1, false);
    add(&p, "c", 1, true);
    add(&p, "d", 5, true);
    add(&p, "d", 6, false);
    assert_int_equal(find(&p, "c"), 2);
    check_steps(&p, 2);
    assert_int_equal(find(&p, "d"), 0);
    assert_int_equal(find(&p, "e"), 0);
}

static void certain_with_detection_only(void **state)
{
    struct picture p = {.count = 0};

    (void)state;
    add(&p, "a", 1, true)->flags |= ROTA_PLACE_DETECT;
    add(&p, "a", 2, false);
    add(&p, "b", 2, true);
    add(&p, "b", 1, false);
    assert_int_equal(find(&p, "a"), 2);
    assert_false(rt_cycle_certain(p.tickets, p.steps, 2));
    p.places[2].flags |= ROTA_PLACE_DETECT;
    assert_true(rt_cycle_certain(p.tickets, p.steps, 2));
}

static void too_many_are_left_alone(void **state)
{
    size_t count = RT_CYCLE_TICKETS + 1;
    struct rt_cycle_ticket *tickets = calloc(count, sizeof(*tickets));
    struct rt_cycle_step *steps = calloc(count, sizeof(*steps));
    struct rota_place place = {.session = 1, .owner = 1};

    (void)state;
    assert_non_null(tickets);
    assert_non_null(steps);
    for (size_t i = 0; i < count; i++)
        tickets[i] = (struct rt_cycle_ticket){"a", &place};
    assert_int_equal(rt_cycle_find(tickets, count, "a", steps), -1);
    free(steps);
    free(tickets);
}

/* ---- Against a plain definition, on drawn pictures ---------------------- */

static bool leads(const struct picture *p, size_t from, size_t to)
{
    const struct rota_place *w = p->tickets[from].place;

    if ((w->flags & ROTA_PLACE_GRANTED) != 0 ||
        (p->tickets[to].place->flags & ROTA_PLACE_GRANTED) != 0)
        return false;
    for (size_t i = 0; i < from; i++) {
        const struct rota_place *ahead = p->tickets[i].place;
        bool granted = (ahead->flags & ROTA_PLACE_GRANTED) != 0;
        if (p->tickets[i].name != p->tickets[from].name)
            continue;
        if (!granted && i == to)
            return true;
        if (granted && (ahead->mode != ROTA_SHARED || w->mode != ROTA_SHARED) &&
            ahead->session == p->tickets[to].place->session)
            return true;
    }
    return false;
}

/* Whether a ticket that the line "a" hangs on can reach itself. */
static bool has_cycle(const struct picture *p)
{
    bool reach[MOST][MOST];
    size_t n = p->count;

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            reach[i][j] = leads(p, i, j);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                reach[i][j] = reach[i][j] || (reach[i][k] && reach[k][j]);
    for (size_t i = 0; i < n; i++) {
        bool start = false;
        for (size_t j = 0; j < n; j++)
            start = start || (strcmp(p->tickets[j].name, "a") == 0 &&
                              (i == j || ((p->places[j].flags & ROTA_PLACE_GRANTED) != 0 &&
                                          p->places[j].session == p->places[i].session)));
        for (size_t j = 0; start && j < n; j++)
            if (reach[j][j] && (i == j || reach[i][j]))
                return true;
    }
    return false;
}

static void drawn_pictures(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    uint32_t seed = 7;
    int with = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct picture p = {.count = 0};
        for (size_t line = 0; line < 4; line++) {
            bool granted = true;
            for (size_t i = 0; i < 3; i++) {
                seed = seed * 1664525 + 1013904223;
                granted = granted && (i == 0 || (seed >> 28 & 3) == 0);
                add(&p, names[line], seed >> 20 & 7, granted)->mode = seed >> 25 & 1;
            }
        }
        long found = find(&p, "a");
        assert_int_equal(found > 0, has_cycle(&p));
        check_steps(&p, found);
        with += found > 0;
    }
    assert_true(with > 1000 && with < 19000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody),
        cmocka_unit_test(a_chain_is_no_cycle),
        cmocka_unit_test(two_and_three),
        cmocka_unit_test(owners_are_told_apart),
        cmocka_unit_test(durable_tickets_wait_for_nothing),
        cmocka_unit_test(sharing_is_no_obstacle),
        cmocka_unit_test(through_a_waiter_ahead),
        cmocka_unit_test(permits_count_if_one_alone_is_in_the_way),
        cmocka_unit_test(waiting_for_oneself),
        cmocka_unit_test(only_what_the_line_hangs_on),
        cmocka_unit_test(certain_with_detection_only),
        cmocka_unit_test(too_many_are_left_alone),
        cmocka_unit_test(drawn_pictures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
