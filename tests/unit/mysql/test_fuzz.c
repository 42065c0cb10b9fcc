/* SPDX-License-Identifier: Apache-2.0 */
/* Answers fuzzed: random bytes, and good answers mutated, cut and rejoined, while greeting and in flights. Nothing
 * crashes or hangs, every flight ends exactly once, the link at most once, and memory stays bounded.
 *
 *   test_mysql_fuzz [ROUNDS [SEED]] */
#include "played.h"

#include "lib/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS 4000
#define FLIGHTS 4
#define MOST_BYTES (1 << 20)

static struct played p;
static struct said s;
static uint64_t seed = 1;
static int rounds = ROUNDS;
static long greeted, flown, landed;

static uint32_t roll(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* ---- What is said ------------------------------------------------------------------------------------------------------- */

static void mutate(void)
{
    static const uint8_t telling[] = {0, 1, 2, 3, 4, 5, 8, 0xfb, 0xfc, 0xfd, 0xfe, 0xff};
    for (uint32_t k = 1 + roll(4); s.size > 0 && k > 0; k--) {
        size_t at = roll((uint32_t)s.size);
        switch (roll(4)) {
        case 0:
            s.at[at] = (uint8_t)roll(256);
            break;
        case 1:
            s.at[at] = telling[roll(sizeof(telling))];
            break;
        case 2: /* something is missing */
            memmove(s.at + at, s.at + at + 1, s.size - at - 1);
            s.size--;
            break;
        default: { /* something stands twice */
            size_t n = roll((uint32_t)(s.size - at));
            if (s.size + n > sizeof(s.at))
                break;
            memmove(s.at + at + n, s.at + at, s.size - at);
            s.size += n;
        }
        }
    }
}

static void say_something(void)
{
    if (!said_answer(&s, &p))
        s.size = 0;
    uint32_t how = roll(p.ups > 0 ? 12 : 24);
    if (how == 0) {
        s.size = roll(60);
        for (size_t i = 0; i < s.size; i++)
            s.at[i] = (uint8_t)roll(256);
    } else if (how == 1) {
        said_begin(&s, rt_mysql_of(p.link)->seq);
        said_error(&s, (unsigned[]){1205, 1213, 1317, 1927, 1146, 1045, 9}[roll(7)], "no");
    } else if (how == 2) {
        said_begin(&s, rt_mysql_of(p.link)->seq);
        said_columns(&s, roll(20), (uint8_t)roll(256), roll(2) != 0);
        for (uint32_t n = roll(3); n > 0; n--)
            said_row(&s, roll(4), roll(2) != 0 ? "1" : "");
    }
    if (how < 5)
        mutate();
    for (size_t at = 0, n; at < s.size && p.downs == 0; at += n) {
        n = roll(3) == 0 ? 1 + roll((uint32_t)(s.size - at)) : s.size - at;
        played_bytes(&p, s.at + at, n);
    }
}

/* ---- Rounds ------------------------------------------------------------------------------------------------------------- */

static struct rt_sql_cell cells[RT_SQL_ARGS];

static bool fly(void)
{
    static const struct {
        enum rt_sql_step_kind kind;
        uint32_t count;
    } kinds[] = {{RT_SQL_FACTS, 0}, {RT_SQL_TAKE, 7}, {RT_SQL_VERIFY, 3}, {RT_SQL_LOCK, 1},
                 {RT_SQL_JOIN, 17}, {RT_SQL_GATE, 8}, {RT_SQL_LEAVE, 5},  {RT_SQL_BELL_RING, 1}};
    struct rt_sql_step steps[5];
    size_t count = 1 + roll(5);
    for (size_t i = 0; i < RT_SQL_ARGS; i++)
        cells[i] = (struct rt_sql_cell){.number = (int64_t)i - 3};
    cells[0] = (struct rt_sql_cell){.text = "name", .size = 4};
    for (size_t i = 0; i < count; i++) {
        uint32_t k = roll(8);
        steps[i] = (struct rt_sql_step){
            .kind = kinds[k].kind, .count = kinds[k].count, .args = cells};
    }
    assert_int_equal(played_send(&p, steps, count), 0);
    flown++;
    for (int i = 0; i < 50 && p.lands == 0 && p.downs == 0; i++)
        say_something();
    if (p.lands == 0)
        played_hang_up(&p);
    assert_int_equal(p.lands, 1);
    landed += p.end == RT_SQL_LANDED;
    return p.downs == 0;
}

static void round_of(void)
{
    assert_true(played_open(&p, "mysql://rota@h/locks", roll(4) == 0 ? "" : PLAYED_PASSWORD));
    for (int i = 0; i < 20 && p.ups == 0 && p.downs == 0; i++)
        say_something();
    greeted += p.ups;
    for (int i = 0; i < FLIGHTS && p.ups > 0 && p.downs == 0; i++)
        if (!fly())
            break;
    assert_true(scarce.bytes < MOST_BYTES);
    assert_true(p.ups <= 1 && p.downs <= 1);
    played_close(&p);
    assert_int_equal(scarce.live, 0);
}

static void rounds_of_garbage(void **state)
{
    uint64_t first = seed;
    (void)state;
    scarce_begin();
    for (int i = 0; i < rounds; i++)
        round_of();
    scarce_end();
    print_message("seed %llu: %ld greeted, %ld flights, %ld landed\n", (unsigned long long)first,
                  greeted, flown, landed);
    assert_true(greeted > rounds / 4 && landed > rounds / 4); /* else nothing was tried */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounds_of_garbage)};
    if (argc > 1)
        rounds = (int)strtol(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
