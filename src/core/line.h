/* SPDX-License-Identifier: Apache-2.0 */
/* The local line: who inside this process holds a name, and which tickets stand for them.
 *
 * Plain asks share two tickets per name, one exclusive (x) and one shared (s); others
 * ("solo": permits, at_least_ms, elections, sets, ROTA_DETECT, barriers, and everything when the
 * client is to keep strict order between processes) have one of their own.
 *
 *  - x stands for all local waiters that queued since it was taken; when it is granted the
 *    queue is served from its front: one writer, or all readers before the next writer.
 *  - s stands for the readers at the front of the queue; a reader joins it while it is
 *    held only if nobody is known to wait behind it. Whether somebody still does is asked
 *    again when a reader comes: whoever waited may have given up.
 *  - A tenure of x is passed on only by an explicit release (DESIGN 6), freely while nobody
 *    waits elsewhere, after WANTED at most pass_limit times and for pass_ms.
 *  - linger: a released x with an empty queue is kept until WANTED or the time is over.
 */
#ifndef RT_LINE_H
#define RT_LINE_H

#include "core/ask.h"
#include "core/ticket.h"
#include "core/timers.h"

#include <stddef.h>

struct rt_line {
    struct rt_line *hash_next; /* its keeper's: the table of names */
    struct rt_ask *queue;      /* plain asks that wait */
    struct rt_ask *solos;      /* waiting with tickets of their own */
    struct rt_ask *holders;    /* also lost and releasing ones */
    struct rt_ticket x;
    struct rt_ticket *s; /* NULL until a reader came */
    union {
        int64_t wanted_at;    /* while somebody waits elsewhere */
        int64_t linger_until; /* while it lingers: then nobody does */
    };
    struct rt_timer timer; /* RT_TIMER_LINE: the end of lingering */
    uint32_t hash;
    uint16_t passes; /* since WANTED */
    uint8_t lingering;
    uint8_t idle_listed;
    uint32_t solo_tickets; /* that point here; they may outlive their asks */
    struct rt_line *idle_next;
    char name[]; /* as spelled on the engine */
};

void rt_line_init(struct rt_line *line);

/* Nobody asks, holds, waits or is under way: it may be freed. */
bool rt_line_idle(const struct rt_line *line);

/* Whether one of us holds exclusively, or lingers: whoever waits here waits for that. */
static inline bool rt_line_is_held(const struct rt_line *line)
{
    return line->x.state == RT_TICKET_HELD;
}

/* The ticket with this number, or NULL. */
struct rt_ticket *rt_line_ticket(struct rt_line *line, uint64_t number);

/* ---- For core/ only: what desk.c and set.c let happen to a line ---- */

void rt_line_ask(struct rt_desk *desk, struct rt_ask *ask, int64_t now);
void rt_line_release(struct rt_desk *desk, struct rt_ask *ask, int64_t now);
void rt_line_cancel(struct rt_desk *desk, struct rt_ask *ask, int err, int64_t now);
void rt_line_hold_over(struct rt_desk *desk, struct rt_ask *ask, int64_t now);
void rt_line_linger_over(struct rt_desk *desk, struct rt_line *line, int64_t now);
void rt_line_downgraded(struct rt_desk *desk, struct rt_ask *ask, int64_t now);
void rt_line_close(struct rt_desk *desk, struct rt_line *line, int64_t now);

void rt_line_held(struct rt_desk *desk, struct rt_ticket *t, int64_t now); /* t is HELD now */
void rt_line_wanted(struct rt_desk *desk, struct rt_ticket *t, int64_t now);
void rt_line_armed(struct rt_desk *desk, struct rt_ticket *t, bool wanted, int64_t now);
void rt_line_end_linger(struct rt_desk *desk, struct rt_line *line, int64_t now);
void rt_line_refused(struct rt_desk *desk, struct rt_ticket *t, int err, int64_t now); /* JOIN */
/* Whether somebody T stands for waits on in spite of ERR, with T, or with a new ticket. */
bool rt_line_outlasts(const struct rt_desk *desk, const struct rt_ticket *t, int err);
void rt_line_joined(struct rt_desk *desk, struct rt_ticket *t); /* it is in the line now */
void rt_line_left(struct rt_desk *desk, struct rt_ticket *t, int err, int64_t now);
void rt_line_unconfirmed(struct rt_desk *desk, struct rt_ticket *t); /* the LEAVE takes too long */

/* The ticket is gone, alone or with the whole session: then only those on the line go on waiting
 * that asked with RT_ASK_REJOIN, with new tickets. */
void rt_line_lost(struct rt_desk *desk, struct rt_ticket *t, bool session, int64_t now);

/* Whether nobody else, by re-entry, holds ASK's ticket exclusively. */
bool rt_line_sole_writer(const struct rt_ask *ask);
void rt_line_wait(struct rt_desk *desk, struct rt_ask *ask, int64_t now); /* it is QUEUED now */

struct rt_ask *rt_line_solo(const struct rt_ticket *t);      /* who waits with it; or NULL */
struct rt_ask *rt_line_releasing(const struct rt_ticket *t); /* who waits for its LEAVE; or NULL */

#endif
