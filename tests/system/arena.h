/* SPDX-License-Identifier: Apache-2.0 */
/* What system tests have in common: an engine in a temporary folder, a history, a resource. */
#ifndef RT_ARENA_H
#define RT_ARENA_H

#include "lib/checker.h"
#include "lib/proc.h"
#include "lib/recorded.h"

struct sys_arena {
    char folder[4096]; /* of the history */
    char url[4400];    /* $ROTA_TEST_URL, else file: in a folder of its own */
    struct rt_resource *resource;
};

/* A new one per test; the resource has room for WRITES. On failure calls abort(). */
void sys_arena_init(struct sys_arena *arena, size_t writes);
void sys_arena_fini(struct sys_arena *arena);

/* In the process that acts: a history file with room for RECORDS, a client, an id. */
void sys_arena_enter(const struct sys_arena *arena, struct rt_actor *actor, size_t records,
                     const struct rota_options *opts);
void sys_arena_leave(struct rt_actor *actor);

/* Merges the history and checks locks, order, beliefs, clients, the resource against the lock
 * NAME, and that nothing is left behind. Prints what was found and how much was examined; returns the report's
 * total. If OUT is given, the caller frees the records. */
size_t sys_arena_check(const struct sys_arena *arena, const char *name, struct rt_record **out,
                       size_t *count);

#endif
