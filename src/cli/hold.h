/* SPDX-License-Identifier: Apache-2.0 */
/* Running a command while a hold lasts: what run, elect and once have in common. */
#ifndef RT_HOLD_H
#define RT_HOLD_H

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/guardian.h"

#define RT_HOLD_NEVER INT64_MAX

struct rt_hold {
    /* what is wanted; the caller's */
    const char *noun; /* for messages: "lock" */
    const char *name;
    const char *value; /* for observers of an election; NULL: a plain lock */
    char **command;
    char *shell[4]; /* room for a shell's command */
    struct rota_ask ask;
    struct rota_options options;
    int busy_exit; /* the exit code when it is not granted in time */
    enum rt_on_lost on_lost;
    bool verbose;        /* tell how long it took, or who holds it */
    const char *metrics; /* where to write what the client counted, at the end; NULL: nowhere */

    /* what is there */
    struct rota *client;
    struct rota_lock *lock; /* NULL: there is nothing to lose */
    struct rt_child child;
    char label[128];
    int signal_fd;
    sigset_t inherited_mask;
    int64_t notice_at;
    char trouble[256]; /* what the engine said meanwhile; "": nothing */

    bool answered; /* the ask ended, with: */
    int answer;
    int interrupted; /* the signal that ended the waiting; 0: none */

    bool told_lost;   /* by the library */
    bool lost;        /* the child was told to end because of it */
    int64_t deadline; /* of the hold, when last seen in the future */
    int64_t kill_at;
    bool ended; /* the child */

    struct rt_guardian guardian;
    int guardians; /* how many were started */
    int64_t told_deadline;
};

/* With nothing wanted yet and nothing there. */
void rt_hold_init(struct rt_hold *hold);

/* Opens the engine, in the name of the command, and begins to watch for signals: from here on they only take effect in
 * the calls below. Returns an exit code: RT_EXIT_OK, or a message was printed. Close it in either case. */
int rt_hold_open(struct rt_hold *hold, const struct rt_cli *cli);
void rt_hold_close(struct rt_hold *hold);

/* Waits for the name, runs the command, gives the name back. Returns the exit code. */
int rt_hold_run(struct rt_hold *hold);

/* Runs the command to its end, or to the hold's, with ROTA_NAME and ROTA_FENCE = FENCE in its
 * environment. Returns the exit code. */
int rt_hold_command(struct rt_hold *hold, uint64_t fence);

/* Between the parts of a hold: the time as the library counts it, which goes on while the machine sleeps; how long the
 * hold still lasts; one turn: waits for the client, a signal, or UNTIL. */
int64_t rt_hold_now_ms(void);
int64_t rt_hold_remaining_ms(const struct rt_hold *hold);
void rt_hold_turn(struct rt_hold *hold, int64_t until);

#endif
