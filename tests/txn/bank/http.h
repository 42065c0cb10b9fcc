/* SPDX-License-Identifier: Apache-2.0 */
/* The bank over services that are processes of their own, reached by HTTP through a fault proxy each.
 *
 *   a teller, a recovery ── HTTP ──▶ fault proxy (the driver's) ──▶ a service ── SQL ──▶ its database, with its fence
 *        └──▶ the journal, a file
 *
 * Roles are forked by a server without threads, for the driver has those of the proxies. */
#ifndef BANK_HTTP_H
#define BANK_HTTP_H

#include "ledger.h"

#define ROLES 64
#define JOURNALS 40

enum work { TELLER, ABREAST, RECOVERY, SERVICE, CLEANER };

struct role {
    enum work work;
    char point[64]; /* for ROTA_POINT; "": none */
    int journal;
    int place;    /* SERVICE: which; TELLER: from where, -1: anywhere */
    int count;    /* transfers: one after the other, or all at once (ABREAST) */
    bool poor;    /* the second service refuses */
    bool forgets; /* RECOVERY: outcomes are kept but shortly; it stays until it is killed */
    uint32_t timeout_ms, call_ms; /* 0: SOON_MS; the manager's own */
};

/* ABREAST: transfer I begins at place I % PLACES, and is refused by the second for I from POOR_FROM on. */
#define POOR_FROM 12

extern struct town { /* all processes' */
    struct role role[ROLES];
    char journal[200];              /* a URL, to which the number of a journal is added */
    _Atomic unsigned proxy[PLACES]; /* ports: where callers go */
    _Atomic unsigned port[PLACES];  /* ... and where a service listens; 0: not yet */
    _Atomic int first;              /* ABREAST: the tid of its first transfer */
    _Atomic long served[PLACES];    /* calls that a service has answered since its start */
} * town;

int role_play(int index, void *unused);

#endif
