/* SPDX-License-Identifier: Apache-2.0 */
/* The scene in which locks are known to lose updates: a holder is stopped between look and write, past its ttl.
 *
 * Clients take a lock, look at a counter, write it plus one, and let go; each acknowledged write counts. One is stopped
 * in between (SIGSTOP), another takes over when the ttl has ended, and then the first writes what it had in mind. A
 * store is where the counter is; the lock is elsewhere, or in the same server. */
#ifndef RT_GUARD_SCENE_H
#define RT_GUARD_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct guard_store {
    const char *name;
    char *(*start)(void); /* servers, and the URL of the lock's engine, the caller's to free */
    void (*reset)(void);  /* the counter is 0, no fence was seen */
    void (*fini)(void);
    /* In each client, and in the test itself: */
    void *(*open)(void);
    void (*close)(void *db);
    /* 0, or an error as guards return them. FENCE 0: without the guard. */
    int (*look)(void *db, uint64_t fence, uint64_t *value);
    int (*write)(void *db, uint64_t fence, uint64_t value);
};

extern const struct guard_store guard_store; /* of this program */

#endif
