/* SPDX-License-Identifier: Apache-2.0 */
/* Every step of engine/sql/driver.h on a real server, the same stories for each driver.
 *
 * A program sets `steps`, then runs STEPS_TESTS as cmocka cases. */
#ifndef SQL_STEPS_H
#define SQL_STEPS_H

#include "rider.h"

struct steps {
    const struct rt_sql_driver *driver;
    const char *url;
    /* Run as a user who may do everything, where the tables are: for its effect; for the first column of the first
     * row. */
    void (*run)(const char *sql);
    long long (*number)(const char *sql);
};
extern struct steps steps;

#define STEPS_STORIES(X)    \
    X(sessions)             \
    X(a_line_stays_folded)  \
    X(numbers_only_grow)    \
    X(watched_lines_unfold) \
    X(unfolding)            \
    X(one_after_the_other)  \
    X(readers)              \
    X(permits)              \
    X(counted)              \
    X(barrier)              \
    X(trying)               \
    X(asked_twice)          \
    X(kinds_do_not_mix)     \
    X(the_dead_are_purged)  \
    X(time_that_is_owed)    \
    X(a_clock_set_back)     \
    X(durable_tickets)      \
    X(pass)                 \
    X(pass_plain_ones_only) \
    X(all_or_none)          \
    X(changes)              \
    X(breaking)             \
    X(looking)              \
    X(front_and_list)       \
    X(inspecting)           \
    X(sweeping)             \
    X(strays)               \
    X(many_idle_lines)      \
    X(who_sweeps)           \
    X(what_a_session_has)   \
    X(odd_texts)            \
    X(whole_or_not_at_all)  \
    X(notices)              \
    X(the_rule_at_random)

#define STEPS_DECLARE(name) void steps_##name(void **state);
STEPS_STORIES(STEPS_DECLARE)
#undef STEPS_DECLARE

#define STEPS_CASE(name) cmocka_unit_test_setup_teardown(steps_##name, rider_setup, rider_teardown),
#define STEPS_TESTS STEPS_STORIES(STEPS_CASE)

#endif
