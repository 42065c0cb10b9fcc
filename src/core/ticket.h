/* SPDX-License-Identifier: Apache-2.0 */
/* One ticket's life: from asking for a place in a line to its end.
 *
 *                  answer: granted
 *            ┌───────────────────────────────┐
 *   join     │   answer: waiting     GRANTED ▼   leave          answered
 *  IDLE ─▶ JOINING ────────▶ WAITING ────▶ HELD ────▶ LEAVING ─────────▶ IDLE
 *            │ ▲ unknown:       │ give up              ▲  │ unknown:
 *            └─┘ ask again      └──────────────────────┤  └ ask again
 *            │ given up meanwhile ("doomed"), answered │
 *            └─────────────────────────────────────────┘
 *  any ── ticket or session lost, definite refusal ──▶ IDLE
 *
 * A ticket never acts: it says in `want` what has to be sent, and whoever drives the
 * desk sends it. Answers name the ticket by its id as of the sending, so one that
 * comes late or twice finds nothing (I4, I5). */
#ifndef RT_TICKET_H
#define RT_TICKET_H

#include <stdbool.h>
#include <stdint.h>

struct rt_line;

enum rt_ticket_state {
    RT_TICKET_IDLE,
    RT_TICKET_JOINING,
    RT_TICKET_WAITING,
    RT_TICKET_HELD,
    RT_TICKET_LEAVING,
};

/* rt_ticket.want: requests to be sent. */
#define RT_WANT_JOIN 0x1u
#define RT_WANT_LEAVE 0x2u
#define RT_WANT_ARM 0x4u

/* rt_ticket.flags */
#define RT_TICKET_SOLO 0x1u    /* one hold's own ticket: never passed on */
#define RT_TICKET_TRY 0x2u     /* its JOIN does not wait */
#define RT_TICKET_DOOMED 0x4u  /* nobody wants it any more: leave as soon as the JOIN is answered */
#define RT_TICKET_ARMED 0x8u   /* the engine tells us when somebody waits behind it */
#define RT_TICKET_WANTED 0x10u /* somebody does */
#define RT_TICKET_NUMBERED 0x20u /* `id` is the number; before that the nonce of the JOIN */
#define RT_TICKET_AGAIN 0x40u    /* an earlier request of this kind may have taken effect */
#define RT_TICKET_SET 0x80u      /* joined by JOIN_ALL */
#define RT_TICKET_LISTED 0x100u  /* in one of the desk's lists, through out_next */
#define RT_TICKET_ASKING 0x200u  /* an ARM is under way, or will be */
#define RT_TICKET_TOLD 0x400u    /* WANTED came meanwhile: newer than the answer to come */
#define RT_TICKET_OWNED 0x800u   /* somebody was told that it holds through it */
#define RT_TICKET_SENT 0x1000u   /* what this state asks for was sent, once at least */
#define RT_TICKET_LATE \
    0x2000u /* it had waited for other requests of ours: `since` is when it was sent */

struct rt_ticket {
    struct rt_ticket *next, *prev; /* the desk's tickets that are not idle */
    struct rt_ticket *out_next;    /* the desk's outbox, unsent or retry list */
    struct rt_line *line;
    uint64_t id;    /* nonce until the JOIN is answered, then the number (exclusive: the fence) */
    uint64_t nonce; /* of its JOIN: a server that lost data may give a number again, to us too */
    int64_t since;  /* when the present state began; but see RT_TICKET_LATE */
    uint32_t take, of;
    uint16_t holds; /* how many hold through it: RT_HOLDS_MOST */
    uint16_t flags; /* RT_TICKET_* */
    uint8_t ops;    /* requests under way that point here: it must not be freed */
    uint8_t mode;   /* enum rt_mode */
    uint8_t state;  /* enum rt_ticket_state */
    uint8_t want;   /* RT_WANT_* */
};

/* More local holds of one tenure than any program has threads; whoever comes then waits for its end. */
#define RT_HOLDS_MOST UINT16_MAX

void rt_ticket_init(struct rt_ticket *t, struct rt_line *line, uint32_t mode, uint32_t take,
                    uint32_t of, unsigned flags);

/* The moves of the diagram; each asserts that it is allowed. */
void rt_ticket_join(struct rt_ticket *t, uint64_t nonce, bool try, bool arm, int64_t now);
void rt_ticket_numbered(struct rt_ticket *t, uint64_t number, int64_t now); /* now WAITING */
void rt_ticket_held(struct rt_ticket *t, int64_t now);
/* WAITING: its number was only a name; from its grant on it is FENCE. */
void rt_ticket_fenced(struct rt_ticket *t, uint64_t fence);
void rt_ticket_leave(struct rt_ticket *t, int64_t now); /* from JOINING, WAITING or HELD */
/* From HELD: asks to be told when somebody waits behind it, and whether somebody does now. Asked
 * again it finds out whether that is still so. No second request while one is under way. */
void rt_ticket_arm(struct rt_ticket *t);
void rt_ticket_idle(struct rt_ticket *t, int64_t now);

/* Gives up a ticket nobody waits with any more: at once, or when its JOIN is answered. */
void rt_ticket_give_up(struct rt_ticket *t, int64_t now);

/* The JOIN or LEAVE has to be sent again; UNKNOWN: the first may have taken effect. */
void rt_ticket_again(struct rt_ticket *t, bool unknown);

/* A request for it is handed out. LATE: it has waited for others of ours. */
void rt_ticket_sent(struct rt_ticket *t, bool late, int64_t now);

/* Whether an answer or event about (ID) in STATE is about the ticket as it is now. */
bool rt_ticket_is(const struct rt_ticket *t, enum rt_ticket_state state, uint64_t id);

static inline bool rt_ticket_has(const struct rt_ticket *t, unsigned flag)
{
    return (t->flags & flag) != 0;
}

#endif
