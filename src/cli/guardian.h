/* SPDX-License-Identifier: Apache-2.0 */
/* The guardian: a process beside rota that ends the command when rota itself is killed, or stands still. For `rota run`,
 * and for `rota relay consume`, where "the lock" below is the event, and the session the connection to the broker.
 *
 * It has two descriptors: one that keeps the session, where sessions live by descriptors, and one end of a socket whose
 * other end only rota has. When that closes, rota has ended: then the guardian ends the command's group, waits until it
 * has gone, and only then ends itself, which frees the lock. So no other holder ever runs beside the command.
 *
 * A hold with a deadline is over when that passes, whatever rota does meanwhile: a stopped rota cannot end the command.
 * So the guardian watches the deadline too, in shared memory: a message that is missing or late must not end a command
 * whose lock was renewed.
 *
 * The order of a start: the guardian; the command's process, which waits; the guardian is told its group; the process
 * runs the command. If rota is killed before the last step, the command never ran. */
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

/* From SIGTERM to SIGKILL if no deadline is nearer: as long as a service needs to notice, as short as a new holder can
 * bear. */
#define RT_GRACE_MS 2000

struct rt_guardian {
    pid_t pid; /* 0: there is none */
    int life;  /* rota's end of the socket */
    struct rt_guardian_note *note;
};

/* For KEEP_FD: copies of all descriptors but the standard ones. */
#define RT_GUARDIAN_KEEP_ALL (-2)

/* Starts a guardian that keeps a copy of KEEP_FD (-1: none). Threads of others (client libraries have some) do no harm:
 * it takes no lock but the heap's, which fork leaves in order. Returns 0 or an errno. */
int rt_guardian_start(struct rt_guardian *guardian, int keep_fd, enum rt_on_lost on_lost);

/* Tells it which process GROUP it guards, and when (CLOCK_BOOTTIME, ms; INT64_MAX: never) the group must be killed at
 * the latest. From here on the group ends with us; and if we have not ended it ourselves MARGIN_MS before that time,
 * the guardian does. */
void rt_guardian_tell(const struct rt_guardian *guardian, pid_t group, int64_t deadline_ms,
                      int64_t margin_ms);

/* Whether the guardian is still there; if not, it is forgotten. */
bool rt_guardian_look(struct rt_guardian *guardian);

/* Sends it away: nobody guards the group any more. To be called before the group's leader is reaped, or its number
 * might already be another's. Then wait for it with rt_guardian_reap. */
void rt_guardian_dismiss(const struct rt_guardian *guardian);
void rt_guardian_reap(struct rt_guardian *guardian);

#endif
