/* SPDX-License-Identifier: Apache-2.0 */
/* What the user believes of its tickets (rt_up.held) against what a server says of them, after lost pushes or on a new
 * server:
 *
 *   the server says   the user believes    told
 *   granted           waits, or nothing    GRANTED (a user who does not know the ticket gives it back)
 *   wanted            holds                WANTED
 *   nothing           waits or holds       TICKET_LOST
 *   waits             holds                TICKET_LOST (this server knows less)
 *
 * While the server is being asked, tickets come and go, and pushes overtake its answer: a ticket is lost only if it was
 * believed in when the server was asked (`then`) and still is when it has answered (`now`). */
#ifndef RT_BELIEF_H
#define RT_BELIEF_H

#include "engine/engine.h"

struct rt_known { /* a ticket as one of them knows it */
    uint64_t number, nonce;
    char *name;
    bool granted, wanted;
    /* `then`: the server was not asked about it: its silence means nothing */
    bool unasked;
};

struct rt_belief { /* zeroed before the first use */
    struct rt_known *at;
    size_t count, room;
    bool failed; /* no memory: it lacks something */
};

/* One more; its name is copied. */
void rt_belief_add(struct rt_belief *l, struct rt_known k, const char *name);
void rt_belief_sort(struct rt_belief *l);
/* Whether that ticket is among the first SORTED, which were all there were when the list was sorted. */
bool rt_belief_has(const struct rt_belief *l, size_t sorted, const char *name, uint64_t number);
/* Adds all that the user believes in and IS (NULL: all) says yes to. Nothing, if the user cannot say. */
void rt_belief_ask(struct rt_belief *l, struct rt_conn *conn,
                   bool (*is)(void *arg, const char *name, uint64_t number), void *arg);
/* A loss that was told and not heard is told again: TICKET_LOST for all that the user believes in and IS says yes
 * to. */
void rt_belief_tell_lost(struct rt_conn *conn, uint64_t session,
                         bool (*is)(void *arg, const char *name, uint64_t number), void *arg);
/* Has TELL tell of all differences, unless one of the lists has failed: then false. Sorts the lists. */
bool rt_belief_compare(struct rt_belief *there, struct rt_belief *then, struct rt_belief *now,
                       void (*tell)(void *arg, enum rt_event_kind kind, const struct rt_known *k),
                       void *arg);
void rt_belief_fini(struct rt_belief *l);

#endif
