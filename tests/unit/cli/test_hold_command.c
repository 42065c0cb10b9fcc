/* SPDX-License-Identifier: Apache-2.0 */
/* When the command is ended if its hold is in danger or lost: in virtual time, where this file
 * plays everything around src/cli/hold_command.c. */
#include "cli/hold.h"
#include "cli/out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#define TTL_MS 10000

static struct {
    int64_t now, deadline;      /* RT_HOLD_NEVER: none */
    int64_t broken_at, ends_at; /* somebody breaks the hold; the command ends by itself */
    int64_t renewed_at;         /* the deadline moves on by a ttl */
    bool deaf;                  /* to SIGTERM */
    int64_t term_at, kill_at;   /* when it was told; -1: never */
    bool let_go, guarded;
    int guardian_dies; /* how often */
    int keep_answer, guardians, messages;
    int64_t guardian_deadline;
} play;

/* ---- What is played ----------------------------------------------------- */

uint32_t rota_ttl_ms(const struct rota *r)
{
    (void)r;
    return play.deadline == RT_HOLD_NEVER ? 0 : TTL_MS;
}

int rota_keep_fd(struct rota *r, int *fd)
{
    (void)r, (void)fd;
    return play.keep_answer;
}

void rt_out_error(const char *format, ...)
{
    (void)format;
    play.messages++;
}

int64_t rt_hold_now_ms(void)
{
    return play.now;
}

int64_t rt_hold_remaining_ms(const struct rt_hold *hold)
{
    (void)hold;
    return play.deadline == RT_HOLD_NEVER ? RT_HOLD_NEVER : play.deadline - play.now;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return b > play.now && b < a ? b : a;
}

void rt_hold_turn(struct rt_hold *hold, int64_t until)
{
    int64_t next = sooner(sooner(sooner(until, play.broken_at), play.ends_at), play.renewed_at);

    hold->ended = play.kill_at >= 0 || (play.term_at >= 0 && !play.deaf);
    if (hold->ended)
        return;
    assert_true(next != RT_HOLD_NEVER); /* it would wait for ever */
    play.now = next > play.now ? next : play.now;
    if (play.now >= play.broken_at)
        hold->told_lost = true;
    if (play.now >= play.renewed_at && play.renewed_at != RT_HOLD_NEVER) {
        play.deadline = play.renewed_at + TTL_MS;
        play.renewed_at = RT_HOLD_NEVER;
    }
    hold->ended = play.now >= play.ends_at;
}

/* Of a command that does not end by itself. */
static int64_t last_moment(void)
{
    return play.deadline == RT_HOLD_NEVER ? RT_HOLD_NEVER : play.deadline - TTL_MS / 16;
}

int rt_child_fork(struct rt_child *child, char **argv, const sigset_t *mask, int death_signal)
{
    (void)argv, (void)mask, (void)death_signal;
    assert_true(play.guardians > 0); /* before it: see guardian.h */
    child->pid = 7;
    return 0;
}

int rt_child_go(struct rt_child *child)
{
    (void)child;
    assert_true(play.guarded);
    /* From here on it runs, whatever becomes of rota: stopped now, rota says nothing more. */
    assert_int_equal(play.guardian_deadline, last_moment());
    play.let_go = true;
    return 0;
}

void rt_child_drop(struct rt_child *child)
{
    child->pid = 0;
}

void rt_child_signal(const struct rt_child *child, int signo)
{
    assert_int_equal(child->pid, 7);
    if (signo == SIGTERM)
        play.term_at = play.now;
    if (signo == SIGKILL && play.kill_at < 0)
        play.kill_at = play.now;
}

bool rt_child_waits(struct rt_child *child)
{
    (void)child;
    return false;
}

int rt_child_finish(struct rt_child *child)
{
    (void)child;
    assert_int_equal(play.guardian_deadline, -1); /* dismissed: or it might signal another group */
    return 3;
}

int rt_guardian_start(struct rt_guardian *guardian, int keep_fd, enum rt_on_lost on_lost)
{
    (void)keep_fd, (void)on_lost;
    guardian->pid = 8;
    play.guardians++;
    return 0;
}

void rt_guardian_tell(const struct rt_guardian *guardian, pid_t group, int64_t deadline_ms,
                      int64_t margin_ms)
{
    assert_in_range(margin_ms, 0, TTL_MS / 6 - 1); /* rota itself is first */
    play.guarded = guardian->pid == 8 && group == 7;
    play.guardian_deadline = deadline_ms;
}

bool rt_guardian_look(struct rt_guardian *guardian)
{
    if (guardian->pid == 8 && play.guardian_dies > 0) {
        play.guardian_dies--;
        guardian->pid = 0;
    }
    return guardian->pid == 8;
}

void rt_guardian_dismiss(const struct rt_guardian *guardian)
{
    (void)guardian;
    play.guardian_deadline = -1;
}

/* ---- The plays ---------------------------------------------------------- */

static struct rt_hold hold;

static int set_up(void **state)
{
    static char *command[] = {NULL};
    static int lock;

    (void)state;
    memset(&play, 0, sizeof(play));
    play.now = 100000;
    play.deadline = play.broken_at = play.ends_at = play.renewed_at = RT_HOLD_NEVER;
    play.term_at = play.kill_at = -1;
    hold = (struct rt_hold){.noun = "lock", .name = "a", .command = command};
    hold.lock = (struct rota_lock *)&lock; /* never looked into */
    hold.deadline = RT_HOLD_NEVER;
    return 0;
}

static void ends_by_itself(void **state)
{
    (void)state;
    play.ends_at = play.now + 5;
    assert_int_equal(rt_hold_command(&hold, 1), 3);
    assert_true(play.let_go);
    assert_int_equal(play.term_at, -1);
    assert_int_equal(play.kill_at, -1);
    assert_int_equal(play.guardians, 1);
}

static void told_a_sixth_before_the_deadline(void **state)
{
    (void)state;
    play.deadline = play.now + TTL_MS;
    assert_int_equal(rt_hold_command(&hold, 1), RT_EXIT_LOST);
    assert_int_equal(play.term_at, play.deadline - TTL_MS / 6);
    assert_int_equal(play.messages, 1);
}

static void killed_before_the_deadline(void **state)
{
    (void)state;
    play.deadline = play.now + TTL_MS;
    play.deaf = true;
    assert_int_equal(rt_hold_command(&hold, 1), RT_EXIT_LOST);
    assert_int_equal(play.term_at, play.deadline - TTL_MS / 6);
    assert_int_equal(play.kill_at, last_moment());
    assert_int_equal(play.messages, 1);
}

static void a_renewal_moves_the_deadline(void **state)
{
    (void)state;
    int64_t begin = play.now;
    play.deadline = begin + TTL_MS;
    play.renewed_at = begin + TTL_MS / 2;
    play.deaf = true;
    assert_int_equal(rt_hold_command(&hold, 1), RT_EXIT_LOST);
    assert_int_equal(play.term_at, begin + TTL_MS / 2 + TTL_MS - TTL_MS / 6);
    assert_int_equal(play.kill_at, last_moment());
}

static void broken_with_time_left(void **state)
{
    (void)state;
    play.deadline = play.now + TTL_MS;
    play.broken_at = play.now + 50;
    play.deaf = true;
    assert_int_equal(rt_hold_command(&hold, 1), RT_EXIT_LOST);
    assert_int_equal(play.term_at, play.broken_at);
    assert_int_equal(play.kill_at, play.broken_at + RT_GRACE_MS);
}

static void broken_without_a_deadline(void **state)
{
    (void)state;
    play.broken_at = play.now + 50;
    play.deaf = true;
    assert_int_equal(rt_hold_command(&hold, 1), RT_EXIT_LOST);
    assert_int_equal(play.kill_at, play.broken_at + RT_GRACE_MS);
}

static void broken_shortly_before_the_deadline(void **state)
{
    (void)state;
    play.deadline = play.now + TTL_MS;
    play.broken_at = play.deadline - TTL_MS / 6 - 1;
    play.deaf = true;
    assert_int_equal(rt_hold_command(&hold, 1), RT_EXIT_LOST);
    assert_true(play.kill_at <= play.deadline);
}

static void what_stays_of_a_lost_group_is_killed(void **state)
{
    (void)state;
    play.broken_at = play.now + 50;
    assert_int_equal(rt_hold_command(&hold, 1), RT_EXIT_LOST);
    assert_int_equal(play.term_at, play.broken_at);
    assert_int_equal(play.kill_at, play.broken_at); /* the leader heard it */
}

static void on_lost_kill(void **state)
{
    (void)state;
    hold.on_lost = RT_ON_LOST_KILL;
    play.broken_at = play.now + 50;
    assert_int_equal(rt_hold_command(&hold, 1), RT_EXIT_LOST);
    assert_int_equal(play.term_at, -1);
    assert_int_equal(play.kill_at, play.broken_at);
}

static void on_lost_ignore(void **state)
{
    (void)state;
    hold.on_lost = RT_ON_LOST_IGNORE;
    play.deadline = play.now + TTL_MS;
    play.ends_at = play.deadline + 1000;
    assert_int_equal(rt_hold_command(&hold, 1), RT_EXIT_LOST);
    assert_int_equal(play.term_at, -1);
    assert_int_equal(play.kill_at, -1);
    assert_int_equal(play.messages, 1);
}

static void slept_past_the_deadline(void **state)
{
    (void)state;
    play.deadline = play.now - 1;
    assert_int_equal(rt_hold_command(&hold, 1), RT_EXIT_LOST);
    assert_false(play.let_go);
    assert_int_equal(play.guardian_deadline, -1);
}

static void without_what_keeps_the_session(void **state)
{
    (void)state;
    play.keep_answer = ROTA_UNREACHABLE; /* too many open files */
    assert_int_equal(rt_hold_command(&hold, 1), RT_EXIT_CANNOT_RUN);
    assert_false(play.let_go);
    set_up(state);
    play.keep_answer = ROTA_LOST;
    assert_int_equal(rt_hold_command(&hold, 1), RT_EXIT_LOST);
    assert_false(play.let_go);
    set_up(state);
    play.keep_answer = ROTA_UNSUPPORTED; /* the engine has a deadline instead */
    play.ends_at = play.now + 5;
    assert_int_equal(rt_hold_command(&hold, 1), 3);
}

static void guardians_are_replaced_but_not_for_ever(void **state)
{
    (void)state;
    play.deadline = play.now + TTL_MS;
    play.ends_at = play.now + 5;
    play.renewed_at = play.now + 1;
    play.guardian_dies = 1;
    assert_int_equal(rt_hold_command(&hold, 1), 3);
    assert_int_equal(play.guardians, 2);
    set_up(state);
    play.ends_at = play.now + 5;
    play.guardian_dies = 1000;
    hold.guardians = 7; /* that many went before */
    assert_int_equal(rt_hold_command(&hold, 1), 3);
    assert_int_equal(play.guardians, 1);
}

static void the_guardian_knows_the_last_deadline(void **state)
{
    (void)state;
    play.deadline = play.now + TTL_MS;
    play.renewed_at = play.now + 1000;
    play.ends_at = play.now + 2000;
    assert_int_equal(rt_hold_command(&hold, 1), 3);
    assert_int_equal(hold.told_deadline, 100000 + 1000 + TTL_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ends_by_itself, set_up),
        cmocka_unit_test_setup(told_a_sixth_before_the_deadline, set_up),
        cmocka_unit_test_setup(killed_before_the_deadline, set_up),
        cmocka_unit_test_setup(a_renewal_moves_the_deadline, set_up),
        cmocka_unit_test_setup(broken_with_time_left, set_up),
        cmocka_unit_test_setup(broken_without_a_deadline, set_up),
        cmocka_unit_test_setup(broken_shortly_before_the_deadline, set_up),
        cmocka_unit_test_setup(what_stays_of_a_lost_group_is_killed, set_up),
        cmocka_unit_test_setup(on_lost_kill, set_up),
        cmocka_unit_test_setup(on_lost_ignore, set_up),
        cmocka_unit_test_setup(slept_past_the_deadline, set_up),
        cmocka_unit_test_setup(without_what_keeps_the_session, set_up),
        cmocka_unit_test_setup(guardians_are_replaced_but_not_for_ever, set_up),
        cmocka_unit_test_setup(the_guardian_knows_the_last_deadline, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
