/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of participants share with branch.c: how a step ends, and what it says next. */
#ifndef RT_PARTY_H
#define RT_PARTY_H

#include "txn/branch/branch.h"
#include "txn/branch/talk.h"

/* The op has ended; FORMAT NULL: errmsg is as it was. Returns true, as a step does that ends. */
__attribute__((format(printf, 4, 5))) bool rt_party_end(struct rt_party *p, enum rt_reply reply,
                                                        int err, const char *format, ...);

/* The same with LOST: the connection is given up. */
bool rt_party_lose(struct rt_party *p, const char *why);

/* Notes what went wrong, while the branch is cleaned up; read it from trouble and errmsg. */
void rt_party_trouble(struct rt_party *p, int err, const char *text);

/* The rest of an ATTACH that went well: which database it is, in p->identity. A step, as a kind's; steps from
 * RT_PARTY_IDENTITY on are its own. (identity.c) */
#define RT_PARTY_IDENTITY 1000
bool rt_identity_step(struct rt_party *p);

/* Begins the statement to come with the branch's `last`, and the end of a line, which ends a comment of it, too. False: no
 * memory. */
bool rt_last_add(struct rt_party *p);

/* A step that says a statement: return RT_PARTY_SAY(p, NEXT, "...", ...); what is answered comes to step NEXT.
 * Without memory nothing is said, and branch.c ends the op. */
#define RT_PARTY_SAY(p, next, ...) \
    ((p)->step = (next), (void)rt_talk_add((p)->talk, __VA_ARGS__), false)

/* The same of a statement whose effect outlives a crash, or on whose answer such a one follows: there are crash points
 * around it (txn/point.h), named by the op. */
#define RT_PARTY_FORCE(p, next, ...) ((p)->forces = true, RT_PARTY_SAY(p, next, __VA_ARGS__))

#endif
