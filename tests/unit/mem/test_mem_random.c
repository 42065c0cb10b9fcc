/* SPDX-License-Identifier: Apache-2.0 */
/* The reference engine under random ops, time and failing allocations: after every step each
 * line is as the grant rule says, and what clients were told is what is there. */
#include "base/alloc.h"
#include "player.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PLAYERS 4
#define STEPS 3000
#define SEEDS 12

static struct stage stage;
static struct player players[PLAYERS];
static uint64_t random_state;
static int cookies[PLAYERS];

static uint32_t pick(uint32_t n) /* xorshift64* */
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % n;
}

static bool failing; /* one allocation in eight */

static void *sometimes_calloc(size_t n, size_t size)
{
    return failing && pick(8) == 0 ? NULL : calloc(n, size);
}

static void *sometimes_realloc(void *p, size_t size)
{
    return failing && pick(8) == 0 ? NULL : realloc(p, size);
}

static const struct rt_allocator sometimes = {sometimes_calloc, sometimes_realloc, free};

/* ---- The lines, by INSPECT ---------------------------------------------- */

struct seen {
    uint64_t last_number;
    uint32_t exclusive, shared, taken, of, waiting;
    size_t count;
};

static void see_place(void *arg, const char *name, const struct rota_place *place)
{
    struct seen *seen = arg;
    (void)name;
    assert_true(place->number > seen->last_number); /* order (I7) */
    seen->last_number = place->number;
    seen->count++;
    bool granted = place->flags & ROTA_PLACE_GRANTED;
    bool room;
    if (place->mode == RT_PERMITS)
        room = seen->taken + place->take <= place->of;
    else if (place->mode == RT_SHARED)
        room = seen->exclusive == 0;
    else
        room = seen->exclusive == 0 && seen->shared == 0;
    if (seen->waiting > 0)
        room = false;             /* nobody overtakes */
    assert_true(granted == room); /* I1, and no wake-up forgotten */
    assert_true(place->left_ms >= -1);
    if (!granted)
        seen->waiting++;
    else if (place->mode == RT_PERMITS)
        seen->taken += place->take;
    else if (place->mode == RT_SHARED)
        seen->shared++;
    else
        seen->exclusive++;
}

static const char *const names[] = {"lock:a", "lock:b", "permits"};

static void check_lines(void)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct seen seen = {0};
        struct rt_op op = {.kind = RT_OP_INSPECT,
                           .inspect = {.name = names[i], .each = see_place, .arg = &seen}};
        player_submit(&players[0], &op);
        assert_int_equal(op.err, 0);
    }
}

/* ---- Steps -------------------------------------------------------------- */

static void step_join(struct player *p)
{
    uint32_t line = pick(3);
    struct rt_join join = {.name = names[line], .mode = line == 2 ? RT_PERMITS : pick(2)};
    if (line == 2) {
        join.of = 3;
        join.take = 1 + pick(3);
    }
    join.flags = pick(4) == 0 ? RT_JOIN_TRY : pick(2) * RT_JOIN_ARM;
    join.at_least_ms = pick(6) == 0 ? 1 + pick(400) : 0;
    join.value = pick(3) == 0 ? "value" : NULL;
    if (pick(8) == 0) {
        join.flags |= RT_JOIN_DURABLE;
        join.session = 77;
        join.until_ms = 1 + pick(900);
    }
    int rv = player_join(p, &join);
    assert_true(rv == 0 || rv == ROTA_BUSY || rv == ROTA_LOST || rv == ROTA_NOMEM);
}

/* One of the last dozen, anybody's, in any line: right mostly by luck. */
static void step_ticket(struct player *p, uint64_t most)
{
    uint64_t number = most > 12 ? most - pick(12) : most;
    const char *name = names[pick(3)];
    switch (pick(6)) {
    case 0:
        player_break(p, name, number, 0);
        break;
    case 1:
        player_change(p, name, number, pick(8), "other", NULL);
        break;
    default:
        player_leave(p, name, number);
    }
}

static void reopen(size_t i)
{
    player_close(&stage, &players[i]);
    failing = false;
    assert_int_equal(player_open(&stage, &players[i], "again", 500 + pick(1000)), 0);
    assert_int_equal(player_beat_open(&players[i]), 0);
}

static void step(uint64_t most)
{
    size_t i = pick(PLAYERS);
    struct player *p = &players[i];
    failing = pick(4) == 0;
    uint32_t dice = pick(100);
    if (dice < 40)
        step_join(p);
    else if (dice < 75)
        step_ticket(p, most);
    else if (dice < 85)
        player_observe(p, names[pick(3)], &cookies[i], pick(2));
    else if (dice < 93 && player_beat(p, &most, 1) == ROTA_LOST)
        player_beat_open(p);
    else if (dice == 99)
        reopen(i);
    failing = false;
    if (pick(8) == 0)
        stage_advance(&stage, pick(400));
    else if (pick(8) == 0)
        rt_loop_advance(&stage.loop, rt_loop_now(&stage.loop) + pick(400) * RT_MS); /* unswept */
    if (pick(3) != 0) /* else inboxes fill */
        stage_settle(&stage);
    for (i = 0; i < PLAYERS; i++)
        player_told(&players[i]);
    check_lines();
}

static uint64_t newest(void)
{
    struct rt_join join = {.name = "probe", .flags = RT_JOIN_DURABLE, .session = 1};
    assert_int_equal(player_join(&players[0], &join), 0);
    assert_int_equal(player_break(&players[0], "probe", join.number, 0), 0);
    return join.number;
}

static void test_random(void **state)
{
    (void)state;
    rt_alloc_set(&sometimes);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
        stage_init(&stage);
        for (size_t i = 0; i < PLAYERS; i++) {
            assert_int_equal(player_open(&stage, &players[i], "p", 1000), 0);
            assert_int_equal(player_beat_open(&players[i]), 0);
        }
        for (int i = 0; i < STEPS; i++)
            step(newest());
        stage_fini(&stage);
    }
    rt_alloc_set(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests_name("mem under random ops", tests, NULL, NULL);
}
