/* SPDX-License-Identifier: Apache-2.0 */
/* Re-entry: whoever holds a name takes it again at once, with the same fence, whatever waits elsewhere.
 *
 * An owner (a thread, or what the caller says; 0: nobody) goes on with a hold of its own that is not over, an
 * exclusive one first. Shared inside exclusive is fine. Asks that would wait for themselves, or that want what the
 * ticket at hand does not have, are refused: see enum rt_reentry_fault. Permits are never re-entered. */
#ifndef RT_REENTRY_H
#define RT_REENTRY_H

#include "core/ask.h"

enum rt_reentry_fault {
    RT_REENTRY_FINE,      /* or there is nothing to re-enter */
    RT_REENTRY_TERMS,     /* a value, at_least_ms: those are the ticket's, which is there already */
    RT_REENTRY_UPGRADE,   /* exclusive inside shared: two of them would wait for ever */
    RT_REENTRY_TOO_OFTEN, /* RT_HOLDS_MOST */
};

/* Whether ASK is decided by this: granted, or refused with ROTA_INVALID. False: it has to wait its turn. For core/. */
bool rt_reentry_try(struct rt_desk *desk, struct rt_ask *ask, int64_t now);

/* Why ASK, refused at NOW, could not re-enter. */
enum rt_reentry_fault rt_reentry_why(const struct rt_ask *ask, int64_t now);

/* Whether ASK, which is HELD, shares its ticket with another hold of its owner. */
bool rt_reentry_is(const struct rt_ask *ask);

#endif
