/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of participants share with branch.c: how a step ends, and how it says the next statement. */
#ifndef RT_PARTY_H
#define RT_PARTY_H

#include "txn/branch/branch.h"
#include "txn/branch/talk.h"

/* The op has ended; FORMAT NULL: errmsg stays as it is. Returns true, like a step that ends the op. */
__attribute__((format(printf, 4, 5))) bool rt_party_end(struct rt_party *p, enum rt_reply reply,
                                                        int err, const char *format, ...);

/* The same with LOST: the connection is given up. */
bool rt_party_lose(struct rt_party *p, const char *why);

/* Notes what went wrong while the branch is cleaned up; it is then in trouble and errmsg. */
void rt_party_trouble(struct rt_party *p, int err, const char *text);

/* The rest of a successful ATTACH: which database it is, in p->identity. A step, like a kind's; steps from
 * RT_PARTY_IDENTITY on are its own. (identity.c) */
#define RT_PARTY_IDENTITY 1000
bool rt_identity_step(struct rt_party *p);

/* Begins the next statement with the branch's `last` and a newline, which also ends a comment in it. False: no
 * memory. */
bool rt_last_add(struct rt_party *p);

/* A step that says a statement: return RT_PARTY_SAY(p, NEXT, "...", ...); the answer goes to step NEXT. Without memory
 * nothing is said, and branch.c ends the op. */
#define RT_PARTY_SAY(p, next, ...) \
    ((p)->step = (next), (void)rt_talk_add((p)->talk, __VA_ARGS__), false)

/* The same for a statement whose effect outlives a crash, or whose answer leads to such a one: there are crash points
 * around it (txn/point.h), named after the op. */
#define RT_PARTY_FORCE(p, next, ...) ((p)->forces = true, RT_PARTY_SAY(p, next, __VA_ARGS__))

#endif
