/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a person: writes what recovery says into the journal, and runs the configured command (on_attention = CMD).
 *
 *   rt_hook_call ──▶ one thread: the journal ──▶ queue of 64 ──▶ the command ──▶ its end, or killed after 10 s
 *   (any thread)                  at once           │ full: dropped and counted
 *
 * The command is run as configured, with nothing inserted: it has ROTA_TXN, ROTA_RESOURCE and ROTA_LINE in its
 * environment. It runs with /bin/sh -c in a process group of its own, without input, and its output goes to our
 * standard error. One runs at a time; only rt_hook_stop waits for it, and one that hangs keeps nothing out of the
 * journal. For the same (transaction, resource) it is called once. */
#ifndef RT_HOOK_H
#define RT_HOOK_H

#include "txn/cli/visit.h"

struct rt_hook_counts {
    uint64_t ended, failed, killed, dropped; /* ended: with 0 */
};

/* From any thread, at any time, also before rt_hook_start; never waits. ID "": about no transaction. */
void rt_hook_call(const char *id, const char *resource, const char *line);

/* From now on calls are dealt with. V (NULL: there is no journal) must stay until rt_hook_stop. COMMAND (NULL: none) is
 * copied. False: no thread or memory. */
bool rt_hook_start(const struct rt_visit *v, const char *command);

/* From now on that command is run (NULL: none); no memory: the old one stays. Between start and stop. */
void rt_hook_use(const char *command);

/* Deals with the calls that are left, for at most 10 s; drops the rest. Legal twice, and if it was never started. */
void rt_hook_stop(void);

struct rt_hook_counts rt_hook_counts(void);

#endif
