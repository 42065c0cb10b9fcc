/* SPDX-License-Identifier: Apache-2.0 */
/* OBSERVE where ops take turns and a look takes requests: the first look ends the op, others follow when something
 * came.
 *
 *   rt_observe ──▶ `look` ──▶ rt_observed ──▶ the op ends; told, if it is news
 *                    ▲             │ something came meanwhile
 *                    └─────────────┘
 *
 * One that is stopped while it looks goes when that look ends. */
#ifndef RT_OBSERVE_H
#define RT_OBSERVE_H

#include "engine/kit/turn.h"
#include "engine/kit/view.h"

struct rt_observer {      /* first in the engine's struct */
    struct rt_view view;  /* first */
    struct rt_work *work; /* OBSERVE, until the first look has ended; or NULL */
};

struct rt_observer_user {
    size_t size;                                          /* of the engine's struct */
    int (*check)(void *engine, const char *name);         /* 0, or an error with errmsg */
    int (*made)(void *engine, struct rt_observer *o);     /* the same, of a new one; or NULL */
    void (*look)(void *engine, struct rt_observer *o);    /* rt_observed is due, also from inside */
    void (*unwatch)(void *engine, struct rt_observer *o); /* it is not to look any more */
    void (*empty)(void *engine, struct rt_observer *o);   /* its memory goes; or NULL */
};

struct rt_observers { /* embedded in its user's struct */
    const struct rt_observer_user *user;
    struct rt_turns *turns; /* whose engine, whose conn */
    struct rt_view *views;
};

int rt_observe(struct rt_observers *all, struct rt_work *w); /* as `begin` of a kind of turns */
/* It looks, now or once more after the look under way; not if it is over. */
void rt_observe_look(struct rt_observers *all, struct rt_observer *o);
void rt_observe_look_all(struct rt_observers *all);
/* The look has ended: with ERR and errmsg, or S is the state. AGAIN: what was unreachable is looked at once more. */
void rt_observed(struct rt_observers *all, struct rt_observer *o, int err,
                 const struct rt_view_state *s, bool again);
void rt_observe_close(struct rt_observers *all); /* all go */

#endif
