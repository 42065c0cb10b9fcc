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
    bool whole;      /* stdin and stdout are a terminal: not part of a pipeline */
    bool foreground; /* its group was given the terminal */
    int stop;        /* the signal that stopped it last */
    bool stays;      /* stopped, and we go on: see rt_child_stay */
    int died_of;     /* the signal that ended it; 0: none */
    int talk;        /* until it runs: lets it go, and hears why it could not */
};

/* From here on writing past ulimit -f is an error and does not end us; the child gets SIGXFSZ as it was. */
void rt_child_ignore_file_size(void);

/* Makes a process that will run ARGV in a process group of its own, with the signal mask MASK and the present
 * environment, and that gets DEATH_SIGNAL (0: none) when we die. It waits for rt_child_go, and ends if we end before
 * that. The group gets the terminal if we are in its foreground and both stdin and stdout are the terminal: if we are
 * only one end of a pipeline, its other processes need the terminal too. SIGTTOU must be blocked. Returns 0, or the
 * errno of what failed; then there is no process. */
int rt_child_fork(struct rt_child *child, char **argv, const sigset_t *mask, int death_signal);

/* Lets it run. Returns 0, or the errno of what failed; then it has ended, as after rt_child_drop. */
int rt_child_go(struct rt_child *child);

/* Ends a process that was not let go. */
void rt_child_drop(struct rt_child *child);

/* Sees what became of the child; does not wait. One that ended stays unreaped until rt_child_finish, so that its pid,
 * which is also the group's id, is not reused. */
enum rt_child_state rt_child_look(struct rt_child *child);

/* Sends SIGNO to the whole group. */
void rt_child_signal(const struct rt_child *child, int signo);

/* For a child that stopped: on a terminal it stops us and our group too, as Ctrl-Z would have, so that the shell sees
 * the job stop; it returns when we are continued, with SIGCONT pending, which must be blocked. Without a shell it
 * leaves the child stopped, or ends it if it waits for a terminal that it will never get. */
void rt_child_suspend(struct rt_child *child);

/* For a child that stopped while we must not: gives it the terminal if it wants that and it is ours to give, ends it if
 * nobody could ever give it, else takes the terminal back. Returns whether somebody at the terminal should be told that
 * it is stopped. */
bool rt_child_stay(struct rt_child *child);

/* Whether it still waits for the terminal after rt_child_stay. Shells do not tell us when we are brought to the
 * foreground, so call this now and then; the child continues as soon as the terminal is ours to give. */
bool rt_child_waits(struct rt_child *child);

/* Stops PID (as in kill: 0 is our group) the way Ctrl-Z does, us included; returns once we
 * are continued. SIGTSTP must be blocked and of default action. */
void rt_child_stop(pid_t pid);

/* Lets a stopped child go on, with the terminal if it is ours. */
void rt_child_resume(struct rt_child *child);

/* Takes the terminal back from it. */
void rt_child_reclaim(struct rt_child *child);

/* Reaps the ended child and gives the terminal back to us; returns the exit code. */
int rt_child_finish(struct rt_child *child);

#endif
