/* SPDX-License-Identifier: Apache-2.0 */
/* A story of one transaction: what happens, line by line, and what the core asks and tells in turn, word by word.
 *
 *   happens(s, "0 yes", "")              branch 0 answers; nothing follows
 *   happens(s, "journal COMMIT", "told COMMITTED, COMMIT 0, COMMIT 1")
 *
 * Events: add N, service N, try N (it leaves), serve N (somebody does again), vote, commit, commit wait, abort, +MS
 * (time passes), back RESOURCE, again (the last answer comes twice), N yes|readonly|no|lost|done|absent|
 * prepared|committed|held|clear|refused, journal COMMIT [N...]|ABORT|below|open N...| done|lost|COMMIT done; a service
 * among them is Ns, or Nv if it is vouched for.
 * What follows: REGISTER and branches, VOUCH, CONFIRM or CANCEL and a service, DECIDE, LOOK, DONE; PREPARE, ONE_PHASE,
 * COMMIT, ROLLBACK, ASK, GATE and a branch, "over" after an order for a takeover, "fence" after an ASK with one,
 * "stays" after a PREPARE; told OUTCOME, attention, stuck, ended. */
#ifndef TXN_STORY_H
#define TXN_STORY_H

#include "txn/core/txn.h"

#define STORY_ROOM 8
#define STORY_MS INT64_C(1000000)

struct story {
    struct rt_txn t;
    struct rt_branch b[STORY_ROOM];
    int64_t now;
    struct rt_txn_answer last;
    struct rt_branch *last_of;
    struct rt_txn_part parts[STORY_ROOM], last_parts[STORY_ROOM];
    char said[512];
};

/* A transaction of N branches, on the resources 0 to N - 1; its deadline is in 60 s, its caller's patience 5 s. */
void story_begin(struct story *s, uint32_t n);
void story_begin_gated(struct story *s, uint32_t n);
/* Another process's, joined; its deadline is in 60 s, and 5 s later it is settled. */
void story_join(struct story *s);
/* Left behind by somebody; those of its branches whose numbers are below N were found. */
void story_adopt(struct story *s, uint32_t n, bool gated);

void story_happens(struct story *s, const char *event, const char *follows, const char *file,
                   int line);
#define happens(s, event, follows) story_happens(s, event, follows, __FILE__, __LINE__)

#endif
