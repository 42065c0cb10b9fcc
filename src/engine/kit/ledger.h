/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, from being asked to their one answer: kept until they can be sent, sent, sent again, ended at their
 * deadline.
 *
 *   add ──▶ waiting ── send ──▶ flying ── rt_ledger_out: it was answered
 *              ▲                   │
 *              └── rt_ledger_again ┤ refused for now; or its connection is lost, and it may be asked twice
 *                                  └──▶ `ended`: deadline, given up, lost, refused
 *
 * What a request that ends without an answer is told: ROTA_UNKNOWN if bytes of it may have left, no answer said that
 * nothing was done, and it does not merely read; else the error given (at its deadline ROTA_UNREACHABLE). Each
 * ends exactly once, and never from inside rt_ledger_add or rt_ledger_abandon.
 *
 * What waits only for other requests of ours does not end as long as those are answered: its call_ms counts from when it
 * is sent. (Not so what is `first`, or `last`.) And what `has_time` stays under way as long as the server is only slow:
 * it answers, but nothing yet that was sent call_ms later.
 *
 * Those that wait keep the order in which they were added, also when they come back; a `first` one goes before all
 * others, a `last` one after them. Serialised by its user. One timer for all. */
#ifndef RT_LEDGER_H
#define RT_LEDGER_H

#include "engine/engine.h"
#include "net/loop.h"

struct rt_ledger;

struct rt_entry {                 /* first in the user's struct */
    struct rt_entry *next, *prev; /* NULL: in no ledger */
    struct rt_op *op; /* for which: rt_ledger_cancel finds it; NULL: for none, or not any more */
    /* Set before it is added. */
    uint32_t *pending; /* counts those added and not yet ended or taken out; NULL: nobody counts */
    int64_t deadline;  /* 0: call_ms from then; RT_NEVER: none */
    bool first;        /* goes before those that wait */
    bool last;         /* goes after them, also after those that are added later */
    bool reads;        /* has no effect: sent again as often as need be, never ROTA_UNKNOWN */
    /* may be done twice without harm: sent again after a lost reply; ROTA_UNKNOWN only at its
     * deadline */
    bool again;
    bool has_time; /* nobody needs an answer by its deadline */
    /* To be read. */
    bool was_again; /* it was sent more than once: an earlier try may have taken effect */
    bool flying;    /* it was sent; also in `ended` */
    bool given_up;  /* ends with `err` from the next turn */
    /* The ledger's; `maybe` also its user's. */
    bool maybe;   /* bytes may have left, and no answer said that nothing was done */
    bool delayed; /* it waits beyond its deadline, for other requests of ours */
    int err;
    uint32_t pauses; /* in a row: the back-off */
    uint64_t order;
    int64_t not_before; /* while it waits; 0: until somebody flushes */
    int64_t sent_at;
    const void *via; /* what it flies by */
};

struct rt_ledger_user {
    /* Sends E if possible. 0: it flies, and *VIA is set; ROTA_UNREACHABLE: not now (E->not_before may have been
     * set: then it is tried again); any other error: E is given up with it. */
    int (*send)(struct rt_ledger *l, struct rt_entry *e, const void **via);
    /* E has left the ledger: its owner is to be told ERR. WHY: as given to rt_ledger_lost or _refuse; NULL: it was
     * given up, or its time is over. */
    void (*ended)(struct rt_ledger *l, struct rt_entry *e, int err, const char *why);
    /* Called by the timer, after all that is over has ended: when to fire next for something else. NULL: never. */
    int64_t (*tick)(struct rt_ledger *l, int64_t now);
    /* Nothing that waits can be sent now, whichever it is, but for what is `first`: a flush ends there, so that it costs what
     * it sends, not what waits. NULL: never. */
    bool (*full)(const struct rt_ledger *l);
    /* E waits for nothing but other requests of ours. NULL: never. */
    bool (*queues)(const struct rt_ledger *l, const struct rt_entry *e);
};

struct rt_ledger { /* embedded in its user's struct */
    const struct rt_ledger_user *user;
    struct rt_conn *base;            /* loop, call_ms */
    struct rt_entry waiting, flying; /* heads of rings; flying in the order they were sent */
    struct rt_timer_call timer;
    uint64_t orders;
    int64_t heard_at; /* when something was answered last: rt_ledger_heard */
    int64_t heard_of; /* the latest time at which something was sent that was answered */
};

/* Before E is added: it is for OP, whose time is its own; NULL: for none, and it has call_ms. */
void rt_ledger_for(struct rt_ledger *l, struct rt_entry *e, struct rt_op *op);

/* One timer of BASE's loop is to be reserved for it. */
void rt_ledger_init(struct rt_ledger *l, struct rt_conn *base, const struct rt_ledger_user *user);

/* Sends E, or keeps it. True: it was sent. */
bool rt_ledger_add(struct rt_ledger *l, struct rt_entry *e);

/* The server has said something to E, which flies. */
void rt_ledger_heard(struct rt_ledger *l, const struct rt_entry *e);

/* E was answered, or is to be told something else: it leaves the ledger, and nobody is told. Call this before its owner
 * hears of it, so that `pending` has counted it. */
void rt_ledger_out(struct rt_entry *e);

/* E, which flies, is to be sent again: from the next turn of the timer, or with PAUSE after a delay that doubles. */
void rt_ledger_again(struct rt_ledger *l, struct rt_entry *e, bool pause);
/* The same, but now if possible. True: it was sent. */
bool rt_ledger_resend(struct rt_ledger *l, struct rt_entry *e);

/* Ends E early, from the next turn, unless it has ended. */
void rt_ledger_abandon(struct rt_ledger *l, struct rt_entry *e, int err);

/* The same, with ROTA_CANCELED, for the first that belongs to OP. False: there is none. */
bool rt_ledger_cancel(struct rt_ledger *l, const struct rt_op *op);

void rt_ledger_flush(struct rt_ledger *l); /* sends what waits and may go */

/* What flies by VIA is lost: it waits again, or ends. */
void rt_ledger_lost(struct rt_ledger *l, const void *via, const char *why);

/* Ends all that waits, with ERR. */
void rt_ledger_refuse(struct rt_ledger *l, int err, const char *why);

/* Sets errmsg for the end of E, of which `ended` was told ERR and WHY. WHO ("redis") is at AT, and has TROUBLE ("":
 * none is known). Returns ERR. */
int rt_ledger_say(struct rt_ledger *l, const struct rt_entry *e, int err, const char *why,
                  const char *who, const char *at, const char *trouble);

/* The first that IS says yes to, or NULL. */
struct rt_entry *rt_ledger_find(const struct rt_ledger *l,
                                bool (*is)(const struct rt_entry *e, const void *arg),
                                const void *arg);

void rt_ledger_by(struct rt_ledger *l, int64_t at); /* the timer fires no later than AT */

/* Stops the timer and empties it: FREE gets each entry; no owner is told, or need be there any more. */
void rt_ledger_fini(struct rt_ledger *l, void (*free)(struct rt_ledger *l, struct rt_entry *e));

#endif
