/* SPDX-License-Identifier: Apache-2.0 */
/* Processes for tests: children, signals, a barrier between them, a folder that goes away. */
#ifndef RT_PROC_H
#define RT_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- Folders and time --------------------------------------------------- */

/* Makes a folder of this test's own under $TMPDIR (else /tmp), removed with everything in it when this
 * process exits, even after a failed test. The string is static. */
const char *rt_tmpdir(void);

/* As rt_tmpdir, but in memory if there is plenty of it and $TMPDIR does not say otherwise: for servers
 * that wait for the disk with every step, in tests that kill processes and not the machine. */
const char *rt_memdir(void);

/* Ends the process and its children started here, and so the test, with MESSAGE, unless called again within
 * SECONDS (times $ROTA_PATIENCE); 0 disarms. So a hang is a failure that says where. Uses SIGALRM. */
void rt_watchdog(unsigned seconds, const char *message);

/* ---- Children ----------------------------------------------------------- */

/* What runs in a child; its return is the exit code, 0 to 125. */
typedef int rt_proc_fn(int index, void *arg);

/* Forks a child that runs FN and leaves by _exit, without the parent's atexit work. The child dies with
 * the parent. Aborts if it cannot fork. */
pid_t rt_proc_start(rt_proc_fn *fn, int index, void *arg);

#define RT_PROC_SIGNALED 1000 /* + signal: the code of a child that a signal ended */

/* Waits for the end of PID, which rt_proc_start returned. */
int rt_proc_wait(pid_t pid);

/* Forks N, waits for all; returns how many did not return 0. */
size_t rt_proc_run_all(size_t n, rt_proc_fn *fn, void *arg);

void rt_proc_kill(pid_t pid); /* kill -9, and waits */
void rt_proc_stop(pid_t pid); /* SIGSTOP, and waits until it stands still */
void rt_proc_cont(pid_t pid);

/* ---- A fork server ------------------------------------------------------ */

/* For tests whose own process has threads, and so had better not fork: started first, it forks on
 * demand from a process without any. Functions and arguments are those at the moment it started; only
 * INDEX is passed on. */
struct rt_forkserver;
struct rt_forkserver *rt_forkserver_start(rt_proc_fn *fn, void *arg);
pid_t rt_forkserver_spawn(struct rt_forkserver *fs, int index);
int rt_forkserver_wait(struct rt_forkserver *fs, pid_t pid); /* its code, as rt_proc_wait */
/* True: it has ended, and *CODE is its code (PID is no longer anybody's). */
bool rt_forkserver_ended(struct rt_forkserver *fs, pid_t pid, int *code);
void rt_forkserver_stop(struct rt_forkserver *fs); /* kills what still runs */

/* ---- Memory and a barrier between processes ----------------------------- */

/* Zeroed memory that forked children share. */
void *rt_shared_new(size_t size);
void rt_shared_free(void *p, size_t size);

/* Waits, asleep, until a shared word has reached VALUE; raised by rt_shared_add. */
void rt_shared_wait(uint32_t *word, uint32_t value);
uint32_t rt_shared_add(uint32_t *word, uint32_t n); /* the new value; wakes the waiters */

/* For N processes to begin at once. Lives in shared memory. One use. */
struct rt_barrier {
    uint32_t arrived, parties;
};
struct rt_barrier *rt_barrier_new(uint32_t parties);
void rt_barrier_free(struct rt_barrier *b);
void rt_barrier_wait(struct rt_barrier *b);

#endif
