/* SPDX-License-Identifier: Apache-2.0 */
/* The command while a hold lasts: its start, its guardian, its end if the hold ends first. */
#include "cli/hold.h"
#include "cli/out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TERMINAL_MS \
    200 /* between two checks of whose the terminal is, while the command waits for it */
#define GUARDIANS_MAX 8 /* how many to start for one command, should they be killed */

/* When the command must be killed at the latest. A kill takes a moment, and on a busy machine so does waking up for it:
 * the command must be dead at the deadline, not about to die. */
static int64_t last_moment(const struct rt_hold *hold)
{
    return hold->deadline == RT_HOLD_NEVER ? RT_HOLD_NEVER
                                           : hold->deadline - rota_ttl_ms(hold->client) / 16;
}

/* The guardian acts only after us, should we be stopped: a sixteenth of the ttl before the last moment; and once we
 * have told the command to end, only at the last moment, so that it is told once. */
static void tell_guardian(const struct rt_hold *hold)
{
    rt_guardian_tell(&hold->guardian, hold->child.pid, last_moment(hold),
                     hold->lost ? 0 : rota_ttl_ms(hold->client) / 16);
}

/* How long the hold still lasts, as far as we know; at or below 0 it is over, and its deadline stays. */
static int64_t read_deadline(struct rt_hold *hold)
{
    int64_t now = rt_hold_now_ms(); /* first: if stopped in between, we count too little */
    int64_t remaining = rt_hold_remaining_ms(hold);

    if (remaining > 0)
        hold->deadline = remaining == INT64_MAX ? RT_HOLD_NEVER : now + remaining;
    return remaining;
}

/* Ends the child because the hold is in danger or, if GONE, over: with SIGTERM if there is time. */
static void begin_end(struct rt_hold *hold, int64_t now, bool gone)
{
    const char *what = hold->on_lost == RT_ON_LOST_IGNORE ? "the command goes on"
                                                          : "ending the command";

    hold->lost = true;
    if (!gone && hold->trouble[0] != '\0') /* why it was not renewed */
        rt_out_error("the %s '%s' is lost (%s): %s", hold->noun, hold->name, hold->trouble, what);
    else
        rt_out_error("the %s '%s' is lost: %s", hold->noun, hold->name, what);
    /* It was taken away with time left (somebody broke it): a short while to clean up. */
    hold->kill_at = last_moment(hold);
    if (gone && hold->kill_at > now + RT_GRACE_MS)
        hold->kill_at = now + RT_GRACE_MS;
    if (hold->on_lost == RT_ON_LOST_KILL)
        hold->kill_at = now;
    if (hold->on_lost == RT_ON_LOST_TERM && hold->kill_at > now) {
        rt_child_signal(&hold->child, SIGTERM);
        rt_child_signal(&hold->child, SIGCONT); /* a stopped one must hear it too */
        tell_guardian(hold);
    }
}

/* Ends the child in time when the hold is in danger or gone: SIGTERM a sixth of the ttl
 * before the deadline, SIGKILL at the last moment. Returns when to look again. */
static int64_t guard(struct rt_hold *hold)
{
    int64_t remaining = read_deadline(hold);
    int64_t now = rt_hold_now_ms();
    int64_t margin = rota_ttl_ms(hold->client) / 6;
    bool gone = hold->told_lost || remaining <= 0;
    if (!gone && !hold->lost && remaining > margin)
        return hold->deadline == RT_HOLD_NEVER ? RT_HOLD_NEVER : hold->deadline - margin;
    if (!hold->lost)
        begin_end(hold, now, gone);
    if (hold->on_lost == RT_ON_LOST_IGNORE)
        return RT_HOLD_NEVER;
    if (now < hold->kill_at)
        return hold->kill_at;
    rt_child_signal(&hold->child, SIGKILL);
    return RT_HOLD_NEVER;
}

/* Somebody kills guardians as fast as we start them. Said once. */
static void warn_unguarded(struct rt_hold *hold)
{
    if (hold->guardians == GUARDIANS_MAX)
        rt_out_error("%d guardians were started, none is left, no other follows: if rota is killed "
                     "too, the command may go on without the %s '%s'",
                     GUARDIANS_MAX, hold->noun, hold->name);
    hold->guardians = GUARDIANS_MAX + 1;
}

/* Sees to it that there is a guardian, and that it knows the deadline. */
static int keep_guardian(struct rt_hold *hold)
{
    int keep_fd = -1;

    if (rt_guardian_look(&hold->guardian)) {
        /* The same deadline comes out a millisecond earlier or later at each look. */
        if (llabs(hold->deadline - hold->told_deadline) < 100)
            return 0;
    } else if (hold->guardians >= GUARDIANS_MAX) {
        warn_unguarded(hold);
        return 0;
    } else {
        hold->guardians++;
        int err = hold->lock != NULL ? rota_keep_fd(hold->client, &keep_fd) : 0;
        if (err == ROTA_LOST)
            hold->told_lost = true;
        else if (err != 0 && err != ROTA_UNSUPPORTED) /* which has a deadline instead */
            return EMFILE;
        err = rt_guardian_start(&hold->guardian, keep_fd, hold->on_lost);
        if (keep_fd >= 0)
            close(keep_fd);
        if (err != 0)
            return err;
    }
    if (hold->child.pid > 0)
        tell_guardian(hold);
    hold->told_deadline = hold->deadline;
    return 0;
}

/* Starts the guardian, forks the waiting child, tells the guardian, lets the child go: see guardian.h. */
static int launch(struct rt_hold *hold)
{
    static const int death_signals[] = {
        [RT_ON_LOST_TERM] = SIGTERM, [RT_ON_LOST_KILL] = SIGKILL, [RT_ON_LOST_IGNORE] = 0};
    int err = keep_guardian(hold);

    if (err != 0)
        return err;
    err = rt_child_fork(&hold->child, hold->command, &hold->inherited_mask,
                        death_signals[hold->on_lost]);
    if (err == 0) {
        /* We may have slept past the deadline since the grant, and may be stopped from here on. */
        hold->lost = hold->told_lost || read_deadline(hold) <= 0;
        tell_guardian(hold);
        if (!hold->lost)
            err = rt_child_go(&hold->child);
        else
            rt_child_drop(&hold->child);
    }
    if (hold->child.pid == 0)
        rt_guardian_dismiss(&hold->guardian);
    return err;
}

static int start_child(struct rt_hold *hold, uint64_t fence)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, fence);
    if (setenv("ROTA_NAME", hold->name, 1) != 0 || setenv("ROTA_FENCE", text, 1) != 0) {
        rt_out_error("out of memory");
        return RT_EXIT_INTERNAL;
    }
    fflush(NULL);
    int err = launch(hold);
    if (hold->lost) {
        rt_out_error("the %s '%s' was lost before the command ran", hold->noun, hold->name);
        return RT_EXIT_LOST;
    }
    if (err == 0)
        return RT_EXIT_OK;
    const char *advice = err == ENOENT || err == EACCES ? "; check its spelling, PATH and mode"
                                                        : "";
    rt_out_error("cannot run '%s': %s%s", hold->command[0], strerror(err), advice);
    return err == ENOENT ? RT_EXIT_NOT_FOUND : RT_EXIT_CANNOT_RUN;
}

/* The leader ended. If the hold was lost nothing may stay; else what the command left behind is its own business. */
static int end_child(struct rt_hold *hold)
{
    if (hold->lost && hold->on_lost != RT_ON_LOST_IGNORE)
        rt_child_signal(&hold->child, SIGKILL);
    rt_guardian_dismiss(&hold->guardian);
    return rt_child_finish(&hold->child);
}

int rt_hold_command(struct rt_hold *hold, uint64_t fence)
{
    int code = start_child(hold, fence);

    if (code != RT_EXIT_OK)
        return code;
    while (!hold->ended) {
        int64_t until = guard(hold);
        int64_t look = rt_child_waits(&hold->child) ? rt_hold_now_ms() + TERMINAL_MS : until;
        keep_guardian(hold);
        rt_hold_turn(hold, look < until ? look : until);
    }
    code = end_child(hold);
    if (!hold->lost && (hold->told_lost || rt_hold_remaining_ms(hold) <= 0)) {
        hold->lost = true; /* we were stopped, and the guardian was first */
        rt_out_error("the %s '%s' was lost while the command ran", hold->noun, hold->name);
    }
    return hold->lost ? RT_EXIT_LOST : code;
}
