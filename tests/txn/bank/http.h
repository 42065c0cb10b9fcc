/* SPDX-License-Identifier: Apache-2.0 */
/* The bank over services in processes of their own, each reached by HTTP through a fault proxy.
 *
 *   a teller, a recovery ── HTTP ──▶ fault proxy (the driver's) ──▶ a service ── SQL ──▶ its database, with its fence
 *        └──▶ the journal, a file
 *
 * A fork server without threads forks the roles, because the driver itself has the proxies' threads. */
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
    bool forgets; /* RECOVERY: keeps outcomes only briefly; it stays until it is killed */
    uint32_t timeout_ms, call_ms; /* 0: SOON_MS; the manager's own */
};

/* ABREAST: transfer I begins at place I % PLACES; from I = POOR_FROM on, the second place refuses it. */
#define POOR_FROM 12

extern struct town { /* shared by all */
    struct role role[ROLES];
    char journal[200];              /* a URL; the number of a journal is appended */
    _Atomic unsigned proxy[PLACES]; /* ports: where callers go */
    _Atomic unsigned port[PLACES];  /* ... and where a service listens; 0: not yet */
    _Atomic int first;              /* ABREAST: the tid of its first transfer */
    _Atomic long served[PLACES];    /* calls that a service has answered since its start */
} * town;

int role_play(int index, void *unused);

#endif
