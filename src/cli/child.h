/* SPDX-License-Identifier: Apache-2.0 */
/* The command that rota run runs: its process group, its terminal, its end. */
#ifndef RT_CHILD_H
#define RT_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

enum rt_child_state { RT_CHILD_RUNNING, RT_CHILD_STOPPED, RT_CHILD_ENDED };

struct rt_child {
    pid_t pid;       /* also its process group; 0: not started */
    int tty;         /* the controlling terminal; -1: none */
    bool foreground; /* its group was given the terminal */
    int status;      /* of waitpid, once it ended */
};

/* Runs ARGV in a process group of its own, with the signal mask MASK and the environment
 * of now. The group gets the terminal if we are in its foreground and both stdin and
 * stdout are it: with one end of a pipeline there, the others need the terminal too.
 * SIGTTOU must be blocked. Returns 0, or the errno of what failed; then nothing runs. */
int rt_child_start(struct rt_child *child, char **argv, const sigset_t *mask);

/* Sees what became of the child; does not wait. */
enum rt_child_state rt_child_look(struct rt_child *child);

/* Sends SIGNO to the whole group. */
void rt_child_signal(const struct rt_child *child, int signo);

/* For a child that stopped: on a terminal stops us and our group too, as Ctrl-Z would have,
 * and returns true once we are continued; without one leaves it stopped: false. */
bool rt_child_suspend(struct rt_child *child);

/* Stops PID (as in kill: 0 is our group) the way Ctrl-Z does, us included; returns once we
 * are continued. SIGTSTP must be blocked and of default action. */
void rt_child_stop(pid_t pid);

/* Lets a stopped child go on, with the terminal if it is ours. */
void rt_child_resume(struct rt_child *child);

/* Gives the terminal back to us; returns the exit code for the ended child. */
int rt_child_finish(struct rt_child *child);

#endif
