/* SPDX-License-Identifier: Apache-2.0 */
/* A person is called: what recovery tells is written into the journal, and the command of the configuration is run
 * (on_attention = CMD).
 *
 *   rt_hook_call ──▶ one thread: the journal ──▶ queue of 64 ──▶ the command ──▶ its end, or killed after 10 s
 *   (any thread)                  at once           │ full: dropped and counted
 *
 * The command is the configuration's, and nothing is put into it: it has ROTA_TXN, ROTA_RESOURCE and ROTA_LINE in its
 * environment. It runs by /bin/sh -c in a process group of its own, without input, and its output is our standard
 * error. One at a time; nobody waits for it but rt_hook_stop, and one that hangs keeps nothing out of the journal. The same (transaction, resource) is called once. */
#ifndef RT_HOOK_H
#define RT_HOOK_H

#include "txn/cli/visit.h"

struct rt_hook_counts {
    uint64_t ended, failed, killed, dropped; /* ended: with 0 */
};

/* From any thread, at any time, also before rt_hook_start; never waits. ID "": of no transaction. */
void rt_hook_call(const char *id, const char *resource, const char *line);

/* From now on what was called is seen to. V (NULL: there is no journal) stays until rt_hook_stop. COMMAND (NULL: none) is copied. False: no
 * thread or memory. */
bool rt_hook_start(const struct rt_visit *v, const char *command);

/* What was called is seen to, for at most 10 s; the rest is dropped. Twice is legal, and so is never having started. */
void rt_hook_stop(void);

struct rt_hook_counts rt_hook_counts(void);

#endif
