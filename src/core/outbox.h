/* SPDX-License-Identifier: Apache-2.0 */
/* What leaves the desk: requests in their order, news, and what may be freed.
 *
 *   a ticket wants something ──▶ posted ──▶ rt_outbox_todo ──▶ answered
 *                                  ▲      │ a JOIN without a session     │ came to nothing
 *                                  ├──────┴──▶ unsent: until it is open  │
 *                                  └───────────── retry: after a pause ◀─┘
 *
 * A ticket is in at most one of these lists (RT_TICKET_LISTED); what it wants is in ticket->want.
 *
 * At most RT_UNDER_WAY_MOST requests are under way when a JOIN is sent, and twice as many when a LEAVE or an ARM is: a
 * JOIN may wait for what a LEAVE gives back. BEATs are apart. The others wait here, where they cost nobody anything and their
 * time (`call`) does not run as long as those that went before are answered. A JOIN_ALL has its place among JOINs. */
#ifndef RT_OUTBOX_H
#define RT_OUTBOX_H

#include "core/ask.h"
#include "core/ticket.h"
#include "core/timers.h"

#define RT_UNDER_WAY_MOST 1000 /* enough for any engine to be busy */

struct rt_posted { /* in the order in which they are to be sent */
    struct rt_ticket *first, *last;
};

struct rt_outbox { /* of a desk */
    struct rt_posted posted;
    struct rt_posted held_back;  /* JOINs, before all of `posted`: there were too many under way */
    struct rt_ticket *unsent;    /* JOINs that wait for a session; newest first */
    struct rt_ticket *retry;     /* requests that came to nothing */
    struct rt_timer retry_timer; /* RT_TIMER_DESK */
    int64_t retry_pause;         /* ns; grows with each failure in a row */
    bool beat_due, open_due;     /* a BEAT goes before all */
    uint32_t under_way;          /* requests for tickets that were handed out and not answered */
    uint32_t most;               /* RT_UNDER_WAY_MOST, and few in the simulator */
    int64_t full_at;             /* when something waited last because there were too many */
    int64_t heard_at; /* when one of them was answered last, by an engine that is there */
    struct rt_ask *news, *news_last;
    struct rt_ticket *dead;
    struct rt_set *dead_sets;
    struct rt_line *idle;
};

/* ---- For the desk's user ---- */

enum rt_todo_kind { RT_TODO_BEAT, RT_TODO_JOIN, RT_TODO_JOIN_ALL, RT_TODO_LEAVE, RT_TODO_ARM };

struct rt_todo {
    enum rt_todo_kind kind;
    struct rt_ticket *ticket; /* JOIN, LEAVE, ARM: pinned (ops counted up) until answered */
    struct rt_set *set;       /* JOIN_ALL: set->tickets[0..sent); there until answered */
    uint64_t id;      /* JOIN, LEAVE, ARM: ticket->id as sent; give it back with the answer */
    uint64_t session; /* the session to act in */
    bool open;        /* BEAT: open one */
    bool again;       /* JOIN, LEAVE */
    bool untold;      /* LEAVE: nobody was ever told that it is held */
};

/* The next thing to send, in order; false: nothing now. */
bool rt_outbox_todo(struct rt_desk *desk, struct rt_todo *todo, int64_t now);

struct rt_ask *rt_outbox_news(struct rt_desk *desk);    /* and clears its link, not its news bits */
struct rt_ticket *rt_outbox_dead(struct rt_desk *desk); /* a solo ticket that may be freed */
struct rt_set *rt_outbox_dead_set(struct rt_desk *desk);
struct rt_line *rt_outbox_idle(struct rt_desk *desk); /* a line that was idle: check, then free */

/* LINE may have become idle other than through the desk: if so, rt_outbox_idle tells. */
void rt_outbox_line_settle(struct rt_desk *desk, struct rt_line *line);

/* ---- For core/ only ---- */

void rt_outbox_init(struct rt_outbox *out);
/* Nothing can be sent any more: requests that wait are forgotten. */
void rt_outbox_end(struct rt_desk *desk);
/* All that is left is dead, whatever it has reached: for rt_desk_fini. */
void rt_outbox_fini(struct rt_desk *desk);

void rt_outbox_post(struct rt_desk *desk, struct rt_ticket *t); /* its want has to be sent */
/* A request for T has ended with ERR. */
void rt_outbox_back(struct rt_desk *desk, struct rt_ticket *t, int err, int64_t now);
/* When the time of what began at SINCE, and for which T has something to send, began to run. */
int64_t rt_outbox_since(const struct rt_desk *desk, const struct rt_ticket *t, int64_t since);
void rt_outbox_tell(struct rt_desk *desk, struct rt_ask *ask, unsigned news); /* RT_NEWS_* */
void rt_outbox_settle(struct rt_desk *desk, struct rt_ticket *t); /* after it became idle */

/* Moves of a ticket, with what has to be sent for them. */
uint64_t rt_outbox_nonce(struct rt_desk *desk);
void rt_outbox_join(struct rt_desk *desk, struct rt_ticket *t, bool try, bool arm, int64_t now);
void rt_outbox_rejoin(struct rt_desk *desk, struct rt_ticket *t, bool arm,
                      int64_t now); /* is idle */
void rt_outbox_leave(struct rt_desk *desk, struct rt_ticket *t, int64_t now);
void rt_outbox_give_up(struct rt_desk *desk, struct rt_ticket *t, int64_t now);

/* What T wants came to nothing, or its JOIN was refused: it is sent again after a pause. */
void rt_outbox_later(struct rt_desk *desk, struct rt_ticket *t, int64_t now);
void rt_outbox_again(struct rt_desk *desk, struct rt_ticket *t, int64_t now);
void rt_outbox_retry_soon(struct rt_desk *desk, int64_t now); /* for sets, which are in no list */
void rt_outbox_retry(struct rt_desk *desk);                   /* the pause is over */
void rt_outbox_answered(struct rt_desk *desk); /* the engine is there: pauses are short again */

/* The JOINs that wait for a session, in the order they were taken: a list for rt_outbox_pop. */
struct rt_ticket *rt_outbox_unsent(struct rt_desk *desk);
struct rt_ticket *rt_outbox_pop(struct rt_ticket **list);
bool rt_outbox_holds(const struct rt_desk *desk,
                     const struct rt_ticket *t); /* among desk->tickets */

#endif
