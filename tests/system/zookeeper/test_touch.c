/* SPDX-License-Identifier: Apache-2.0 */
/* A follower is killed right after it has answered a heartbeat, and takes with it what it had not passed on: whoever
 * waits is not granted before the deadline that the heartbeat promised (D1).
 *
 *   test_zookeeper_touch [ROUNDS]
 *
 * Two moments of one clock are judged: the deadline that the engine gave, and when the leader had ended the session, as
 * it told the waiter. A slow machine only makes the second later. What it may spoil is the scene: a holder that does
 * not get to its second heartbeat in time, so that its session is over before the kill. Such a round is judged like the
 * others, but not counted. */
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
#define SPOILT_MAX 20     /* more than that, and it is not the machine's fault */
#define TTL_MS 2000
#define APART_MS 1700 /* heartbeats, with no touch in between: nobody turns the loop */

static uint32_t rounds;

static void url_of(char out[96], size_t i)
{
    (void)snprintf(out, 96, "zk://127.0.0.1:%u" RT_ZKS_ROOT "?tick_ms=%d",
                   (unsigned)ensemble.node[i].server.port, RT_ZKS_TICK_MS);
}

/* Renews, and returns until when that holds, as core/session does; 0: it was not told that it was renewed. */
static int64_t beat(struct user *u, uint64_t number)
{
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
    int64_t begun = rt_loop_clock();

    op.beat.session = u->session;
    op.beat.tickets = &number;
    op.beat.ticket_count = 1;
    if (user_do(u, &op) != 0)
        return 0;
    return begun + (op.beat.ttl_ms - op.beat.ttl_ms / 100 - 2 - op.beat.allowance_ms) * RT_MS;
}

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

/* How long before DEADLINE it was granted at MOMENT; that must never be. */
static void judge(int64_t deadline, int64_t moment)
{
    if (moment < deadline)
        fail_msg("granted %lld us before the deadline of another",
                 (long long)((deadline - moment) / (RT_MS / 1000)));
}

/* Whether the round counts: both heartbeats said that the session was renewed, and somebody waited. */
static bool one_round(uint32_t number, size_t leader, size_t follower)
{
    static struct user holder, waiter;
    struct rt_join held = {0}, waits = {0};
    char at_leader[96], at_follower[96], name[32];
    int64_t first = 0, second = 0, granted_at = 0;

    (void)snprintf(name, sizeof(name), "prize-%u", (unsigned)number);
    url_of(at_leader, leader);
    url_of(at_follower, follower);
    user_start(&waiter, at_leader, USER_LIMIT_MS);
    user_start(&holder, at_follower, TTL_MS);
    if (user_join(&holder, name, &held) == 0 && held.granted)
        first = beat(&holder, held.number);
    bool stands = first > 0 && user_join(&waiter, name, &waits) == 0;
    if (waits.granted)
        granted_at = rt_loop_clock();
    if (stands) {
        pause_ms(APART_MS); /* the scene, not a wait for anything */
        second = beat(&holder, held.number);
    }
    rt_server_kill(trio.server(follower));
    if (stands && !waits.granted) {
        (void)user_hear(&waiter, RT_GRANTED, waits.number, 0);
        granted_at = rt_loop_clock();
    }
    if (stands)
        judge(second > first ? second : first, granted_at);
    user_close(&waiter);
    user_close(&holder);
    return first > 0 && second > 0 && stands && !waits.granted;
}

static void a_follower_dies_with_our_touch(void **state)
{
    uint32_t done = 0, spoilt = 0;

    (void)state;
    while (done < rounds) {
        size_t leader = trio_leader(-1);
        size_t follower = (leader + 1 + (done + spoilt) % 2) % TRIO_SERVERS;
        bool counts = one_round(done + spoilt, leader, follower);

        done += counts;
        spoilt += !counts;
        assert_true(spoilt <= SPOILT_MAX + done);
        trio.run(follower);
    }
    print_message("%u followers killed, every deadline held; %u rounds spoilt\n", (unsigned)done,
                  (unsigned)spoilt);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_follower_dies_with_our_touch)};

    rounds = stage_factor() == 1 ? ROUNDS : ROUNDS_TORTURE * stage_factor();
    rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : rounds;
    return cmocka_run_group_tests(tests, trio_setup, trio_teardown);
}
