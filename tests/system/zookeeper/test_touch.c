/* SPDX-License-Identifier: Apache-2.0 */
/* A follower is killed right after it has answered a heartbeat, and takes with it what it had not passed on: whoever waits is not
 * granted before the deadline that the heartbeat promised (D1). */
#include "ensemble.h"
#include "lib/user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define ROUNDS 2
#define ROUNDS_TORTURE 12 /* x 17: the 200 of make torture */
#define TTL_MS 3000
#define APART_MS 2600 /* heartbeats, with no touch in between: nobody turns the loop */

static void url_of(char out[96], size_t i)
{
    (void)snprintf(out, 96, "zk://127.0.0.1:%u" RT_ZKS_ROOT "?tick_ms=%d",
                   (unsigned)ensemble.zks.node[i].server.port, RT_ZKS_TICK_MS);
}

/* Renews, and says until when that holds, as core/session does. */
static int64_t beat(struct user *u, uint64_t number)
{
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
    int64_t begun = rt_loop_clock();

    op.beat.session = u->session;
    op.beat.tickets = &number;
    op.beat.ticket_count = 1;
    if (user_do(u, &op) != 0)
        return 0; /* it does not say that it was renewed */
    return begun + (op.beat.ttl_ms - op.beat.ttl_ms / 100 - 2 - op.beat.allowance_ms) * RT_MS;
}

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

static void one_round(size_t leader, size_t follower)
{
    static struct user holder, waiter;
    struct rt_join held = {0}, waits = {0};
    char at_leader[96], at_follower[96];
    int64_t deadline;

    url_of(at_leader, leader);
    url_of(at_follower, follower);
    user_start(&holder, at_follower, TTL_MS);
    user_start(&waiter, at_leader, 20000);
    assert_int_equal(user_join(&holder, "prize", &held), 0);
    assert_true(held.granted);
    assert_int_equal(user_join(&waiter, "prize", &waits), 0);
    assert_false(waits.granted);
    deadline = beat(&holder, held.number);
    pause_ms(APART_MS);
    int64_t later = beat(&holder, held.number);
    rt_server_kill(&ensemble.zks.node[follower].server);
    deadline = later > deadline ? later : deadline;
    assert_true(deadline > 0);
    (void)user_hear(&waiter, RT_GRANTED, waits.number, 0);
    assert_true(rt_loop_clock() >= deadline);
    assert_int_equal(user_leave(&waiter, "prize", waits.number), 0);
    user_close(&waiter);
    user_close(&holder);
}

static void a_follower_dies_with_our_touch(void **state)
{
    uint32_t rounds = stage_factor() == 1 ? ROUNDS : ROUNDS_TORTURE * stage_factor();

    (void)state;
    for (uint32_t i = 0; i < rounds; i++) {
        size_t leader = ensemble_leader(), follower = (leader + 1 + i % 2) % ENSEMBLE_SERVERS;

        one_round(leader, follower);
        rt_zks_run(&ensemble.zks, follower);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_follower_dies_with_our_touch)};

    return cmocka_run_group_tests(tests, ensemble_setup, ensemble_teardown);
}
