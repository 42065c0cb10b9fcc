/* SPDX-License-Identifier: Apache-2.0 */
/* The guardian: a process beside rota that ends the command when rota itself is killed, or stands still.
 *
 * It has two descriptors: one that keeps the session, where sessions live by descriptors, and one
 * end of a socket whose other end only rota has. When that closes rota has ended: then the guardian
 * ends the command's group, waits until it has gone, and only then ends itself, which frees the
 * lock. So at no moment another holder runs beside the command.
 *
 * A hold with a deadline is over when that passes, whatever rota does meanwhile: stopped, it cannot
 * end the command. So the guardian looks at the deadline too, in memory that both share: a word too
 * few or too late must not end a command whose lock was renewed.
 *
 * The order of a start: the guardian; the command's process, which waits; the guardian is told
 * its group; the process runs the command. Killed before the last step, the command never ran. */
#ifndef RT_GUARDIAN_H
#define RT_GUARDIAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What becomes of the command when the hold is lost, or when rota is. */
enum rt_on_lost {
    RT_ON_LOST_TERM,   /* SIGTERM, and SIGKILL when there is no more time */
    RT_ON_LOST_KILL,   /* SIGKILL at once */
    RT_ON_LOST_IGNORE, /* it runs on; the guardian keeps the session until it has gone */
};

/* From SIGTERM to SIGKILL where no deadline is nearer: as long as a service needs to notice, as
 * short as a new holder can bear. */
#define RT_GRACE_MS 2000

struct rt_guardian {
    pid_t pid; /* 0: there is none */
    int life;  /* rota's end of the socket */
    struct rt_guardian_note *note;
};

/* Starts a guardian that keeps a copy of KEEP_FD (-1: none). To be called without threads.
 * Returns 0 or an errno. */
int rt_guardian_start(struct rt_guardian *guardian, int keep_fd, enum rt_on_lost on_lost);

/* Tells it which process GROUP it guards, and when (CLOCK_BOOTTIME, ms; INT64_MAX: never) it is to be
 * killed at the latest. From here on the group ends with us; and if we have not done so ourselves
 * MARGIN_MS before that time, also without. */
void rt_guardian_tell(const struct rt_guardian *guardian, pid_t group, int64_t deadline_ms,
                      int64_t margin_ms);

/* Whether the guardian is there still; if not, it is forgotten. */
bool rt_guardian_look(struct rt_guardian *guardian);

/* Sends it away: the group is nobody's any more. To be called before the group's leader is
 * reaped, or its number might be another's already. Then wait for it with rt_guardian_reap. */
void rt_guardian_dismiss(const struct rt_guardian *guardian);
void rt_guardian_reap(struct rt_guardian *guardian);

#endif
