/* SPDX-License-Identifier: Apache-2.0 */
/* The desk: one client's whole state, its session, lines and tickets. Requests and answers in,
 * things to do and news out. Pure: no clock, no I/O, no allocation, no threads; the simulator
 * runs hundreds of desks over a made-up network, the client runs one over a real one.
 *
 * Its user
 *   - calls one of the functions below with the present time,
 *   - then takes everything out of its outbox: rt_outbox_todo (requests to send), rt_outbox_news (whom
 *     to tell), rt_outbox_dead (tickets to free) and rt_outbox_idle (lines to free, if still idle),
 *   - and keeps desk->timers: when one is due it goes to rt_desk_timer.
 */
#ifndef RT_DESK_H
#define RT_DESK_H

#include "core/line.h"
#include "core/outbox.h"
#include "core/session.h"

struct rt_desk {
    struct rt_session session;
    struct rt_timers *timers;
    struct rt_timer beat_timer;     /* RT_TIMER_DESK: next BEAT, or the session's end */
    struct rt_timer patience_timer; /* RT_TIMER_DESK: somebody has waited for `call` */
    struct rt_ticket *tickets;      /* all that are not idle */
    struct rt_set *sets;            /* all that are not over, or have a JOIN_ALL under way; ... */
    struct rt_set *sets_last;       /* ... the oldest first */
    struct rt_outbox out;
    uint64_t last_nonce;
    int64_t call; /* ns: how long a release or a try is waited for before it is UNKNOWN */
    int64_t pass; /* ns: how long a tenure is passed on after WANTED */
    uint32_t pass_limit;
    bool strict_order; /* every ask is solo */
    bool closing;
    bool away; /* rt_desk_away */
};

struct rt_desk_options {
    uint32_t pass_limit, pass_ms; /* ROTA_NEVER in either: strict order between processes */
    uint32_t call_ms;
    uint64_t nonce; /* where nonces begin: random, so that two lives of a client differ */
};

/* Needs three places in TIMERS for its own timers, one per rt_terms, one per line that may linger. */
void rt_desk_init(struct rt_desk *desk, struct rt_timers *timers, const struct rt_desk_options *o);
/* Stops its timers; the tickets and sets that are left are dead: rt_outbox_dead, rt_outbox_dead_set. */
void rt_desk_fini(struct rt_desk *desk);

/* ---- Questions ---- */

uint64_t rt_desk_session(
    const struct rt_desk *desk);                 /* the engine's name for it; 0: there is none */
int64_t rt_desk_ttl(const struct rt_desk *desk); /* of the session, ns; 0: as long as the process */
int64_t rt_desk_call(const struct rt_desk *desk); /* ns: the patience of releases and tries */
/* How much later than it was due the last BEAT left, ns; -1: none is due here. */
int64_t rt_desk_lag(const struct rt_desk *desk);
bool rt_desk_look(struct rt_desk *desk,
                  int64_t now); /* whether the session is alive; ends it if not */
/* The tickets that are not idle, one after the other: NULL gives the first, the last gives NULL. */
struct rt_ticket *rt_desk_next(const struct rt_desk *desk, const struct rt_ticket *t);
/* Whether T is due because somebody has waited for as long as rt_desk_call. */
bool rt_desk_is_patience(const struct rt_desk *desk, const struct rt_timer *t);

/* ---- Asks ---- */

/* Whether ASK (mode, flags, terms set) needs a ticket of its own in ask->ticket. */
bool rt_desk_solo(const struct rt_desk *desk, const struct rt_ask *ask);

/* A new ask; its answer comes as news, possibly at once. The caller filled in line, mode, flags, owner,
 * terms, ticket (solo, by rt_ticket_init), for RT_SHARED line->s. Everything stays the caller's, and
 * stays in place until the ask is DONE and its news was taken. */
void rt_desk_ask(struct rt_desk *desk, struct rt_ask *ask, int64_t now);

/* Several asks as one: all of asks[0..n) are solo, exclusive or shared, and have terms->set. The
 * answer comes as the news of asks[0] alone; on failure all are DONE. The asks stay in place until
 * then, SET with its arrays until rt_outbox_dead_set gives it back: it may be answered before its
 * JOIN_ALL is, which then finds only tickets to take back. */
struct rt_set {
    struct rt_set *next, *prev; /* the desk's sets, or the dead ones */
    struct rt_ask **asks;
    struct rt_ticket **tickets; /* room for n: what the JOIN_ALL under way has sent */
    size_t n, sent;
    size_t pending; /* members not granted yet */
    int64_t since;  /* when it was asked for */
    bool try;
    bool want_join; /* JOIN_ALL has to be sent, for the members that are QUEUED */
    bool in_flight; /* it was */
    bool again;     /* and came to nothing: send it again after a pause */
    bool over;      /* answered */
};
void rt_desk_ask_all(struct rt_desk *desk, struct rt_set *set, int64_t now);

/* Gives a hold back; RT_NEWS_RELEASED follows, possibly at once. ASK is HELD or LOST. */
void rt_desk_release(struct rt_desk *desk, struct rt_ask *ask, int64_t now);

/* The same for a hold whose owner never got it: it keeps nothing for its at_least_ms. */
void rt_desk_take_back(struct rt_desk *desk, struct rt_ask *ask, int64_t now);

/* Ends a QUEUED ask with ERR; false if it is not queued any more. For a set: any member. */
bool rt_desk_cancel(struct rt_desk *desk, struct rt_ask *ask, int err, int64_t now);

/* The holder's ask is shared from now on. Called before the engine is asked for that: once the request
 * is sent it may be so, whatever becomes of the answer. */
void rt_desk_downgraded(struct rt_desk *desk, struct rt_ask *ask, int64_t now);

/* Until when ASK's hold is certainly ours; 0 once lost; RT_NEVER. */
int64_t rt_desk_until(const struct rt_desk *desk, const struct rt_ask *ask);

/* No ask is taken from now on (ROTA_CLOSED). The caller then closes each of its lines, which fails
 * what waits there with ROTA_CLOSED and gives back what is held or lingers: holders become DONE
 * without news. */
void rt_desk_close(struct rt_desk *desk);
void rt_desk_close_line(struct rt_desk *desk, struct rt_line *line, int64_t now);
/* Nothing can be sent or answered any more: what was under way is over, with ROTA_UNKNOWN for
 * releases, and its tickets are dead. */
void rt_desk_end(struct rt_desk *desk, int64_t now);
bool rt_desk_quiet(const struct rt_desk *desk); /* no ticket left: the engine may be closed */

/* ---- Answers and events ---- */

void rt_desk_beaten(struct rt_desk *desk, int err, uint64_t session, uint32_t ttl_ms,
                    uint32_t allowance_ms, int64_t now);
struct rt_joined {
    uint64_t number;
    bool granted, wanted;
};
void rt_desk_joined(struct rt_desk *desk, struct rt_ticket *t, uint64_t id, int err,
                    const struct rt_joined *j, int64_t now);
/* J[i] answers set->tickets[i]. */
void rt_desk_joined_all(struct rt_desk *desk, struct rt_set *set, int err,
                        const struct rt_joined *j, int64_t now);
void rt_desk_left(struct rt_desk *desk, struct rt_ticket *t, uint64_t id, int err, int64_t now);
void rt_desk_armed(struct rt_desk *desk, struct rt_ticket *t, uint64_t id, int err, bool wanted,
                   int64_t now);

/* For events: the ticket is found by rt_line_ticket; events about unknown ones are dropped. */
/* FENCE: its number from now on; 0: as it is. */
void rt_desk_granted(struct rt_desk *desk, struct rt_ticket *t, uint64_t fence, int64_t now);
void rt_desk_wanted(struct rt_desk *desk, struct rt_ticket *t, int64_t now);
void rt_desk_ticket_lost(struct rt_desk *desk, struct rt_ticket *t, int64_t now);
void rt_desk_session_lost(struct rt_desk *desk, uint64_t session, int64_t now);

/* The engine is known to be away, or to refuse: a limit that ends before the engine has taken the ask
 * is then ROTA_UNREACHABLE. */
void rt_desk_away(struct rt_desk *desk, bool away);
/* A timer of kind RT_TIMER_ASK, RT_TIMER_LINE or RT_TIMER_DESK is due. */
void rt_desk_timer(struct rt_desk *desk, struct rt_timer *t, int64_t now);

/* ---- For core/ only ---- */

void rt_desk_bind(struct rt_ask *ask);
void rt_desk_want_session(struct rt_desk *desk,
                          int64_t now); /* opens one, unless one is there or coming */
void rt_set_held(struct rt_desk *desk, struct rt_ask *ask, int64_t now);
void rt_set_fail(struct rt_desk *desk, struct rt_set *set, int err, int64_t now);
/* A member that held by re-entry lost its hold while the others still wait: the set fails with ROTA_LOST. */
void rt_set_member_lost(struct rt_desk *desk, struct rt_ask *ask, int64_t now);
void rt_set_retry(struct rt_desk *desk);
struct rt_set *rt_set_todo(struct rt_desk *desk);
void rt_patience_start(struct rt_desk *desk, int64_t now); /* somebody waits from now on */
void rt_patience_over(struct rt_desk *desk, int64_t now);  /* sees whose time is over */
void rt_patience_try_ended(struct rt_desk *desk, const struct rt_ticket *t, int64_t now);

#endif
