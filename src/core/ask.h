/* SPDX-License-Identifier: Apache-2.0 */
/* One ask of a caller: from the asking until its owner is told that it was given back.
 *
 *        ask            granted           release, LEAVE        answered
 *   NEW ─────▶ QUEUED ──────────▶ HELD ──────────────▶ RELEASING ────────▶ DONE
 *    │ re-entry, a tenure here ────▲ │ lost, hold_ms is over                ▲ ▲
 *    │            │ refused          └──────────▶ LOST ── release ──────────┘ │
 *    └────────────┴──────────────────────────────────────────────────────────┘
 *  HELD ── passed on, kept by others, or closed ──▶ DONE
 */
#ifndef RT_ASK_H
#define RT_ASK_H

#include "core/ticket.h"
#include "core/timers.h"

struct rt_desk;
struct rt_line;
struct rt_set;

enum rt_ask_state {
    RT_ASK_NEW,
    RT_ASK_QUEUED, /* waits */
    RT_ASK_HELD,
    RT_ASK_LOST,      /* was held; its owner still has to release it */
    RT_ASK_RELEASING, /* waits for the answer to LEAVE */
    RT_ASK_DONE,      /* answered with an error, or released: its owner's to free */
};

/* rt_ask.news: what its owner has to be told, each once (I9) */
#define RT_NEWS_ANSWERED 0x1u /* the ask: err 0 it holds, else DONE */
#define RT_NEWS_LOST 0x2u     /* the hold, `lost` says why */
#define RT_NEWS_RELEASED 0x4u /* the release: err; DONE */
#define RT_NEWS_AWAY 0x8u     /* its place in line is gone, or cannot be had now; it waits on */
#define RT_NEWS_BACK 0x10u    /* it stands in line again; may come with ANSWERED */

/* rt_ask.flags */
#define RT_ASK_TRY 0x1u
#define RT_ASK_DETECT 0x2u
#define RT_ASK_REJOIN 0x4u /* an outage is not its end: it goes back into the line */
#define RT_ASK_AWAY 0x8u   /* ... and has not come there yet */

/* What an ask may want beyond a plain one: kept apart so that a plain hold is small. */
struct rt_terms {
    struct rt_timer timer; /* RT_TIMER_ASK: waiting: limit; holding: hold_ms */
    struct rt_ask *ask;
    int64_t limit_at; /* RT_NEVER: none */
    int64_t hold;     /* ns; 0: none */
    int64_t linger;   /* ns; 0: none */
    int64_t at_least_ms;
    const char *value; /* for elections; its owner keeps it until answered */
    struct rt_set *set;
};

struct rt_ask {
    struct rt_ask *next, *prev; /* in its line's queue, solos or holders */
    struct rt_ask *news_next;
    struct rt_line *line;
    struct rt_ticket *ticket; /* solo: its own, from the start; else while it holds */
    struct rt_terms *terms;   /* NULL: plain */
    uint64_t owner;           /* who re-enters; 0: nobody */
    union {
        int64_t since;  /* QUEUED: when it was asked */
        uint64_t fence; /* once granted */
    };
    int16_t err;   /* of RT_NEWS_ANSWERED, RT_NEWS_RELEASED */
    int16_t lost;  /* of RT_NEWS_LOST */
    uint8_t mode;  /* enum rt_mode */
    uint8_t state; /* enum rt_ask_state */
    uint8_t flags;
    uint8_t news;
};

/* ---- For core/ only ---- */

/* One of the arrows above; asserts that it is. */
void rt_ask_move(struct rt_ask *ask, enum rt_ask_state to);

void rt_ask_append(struct rt_ask *ask); /* to the list of its line that fits its state */
void rt_ask_drop(struct rt_ask *ask);   /* out of it */

void rt_ask_start_limit(struct rt_desk *desk, struct rt_ask *ask);
void rt_ask_start_hold(struct rt_desk *desk, struct rt_ask *ask, int64_t now);
void rt_ask_stop_timer(struct rt_desk *desk, struct rt_ask *ask);
bool rt_ask_is_over(const struct rt_ask *ask, int64_t now); /* by hold_ms, timer or not */

/* It holds through T from now on, and is told; a member of a set with the set. */
void rt_ask_grant(struct rt_desk *desk, struct rt_ask *ask, struct rt_ticket *t, int64_t now);

/* A NEW or QUEUED one is refused. The ticket of one that waited is left to the caller. */
void rt_ask_fail(struct rt_desk *desk, struct rt_ask *ask, int err);

/* Whether ERR is an outage that ASK, for which T stands, outlasts. */
bool rt_ask_waits_on(const struct rt_desk *desk, const struct rt_ask *ask,
                     const struct rt_ticket *t, int err);
/* Refuses a QUEUED one, for which T stood, with ERR, unless it waits on: then with a new ticket. A try whose T
 * is being taken back is told UNKNOWN. */
void rt_ask_refuse(struct rt_desk *desk, struct rt_ask *ask, const struct rt_ticket *t, int err);
/* Its ticket is in the line: if it was away, that is over. */
void rt_ask_back(struct rt_desk *desk, struct rt_ask *ask);

/* Takes a hold away without its owner asking: REASON goes to on_lost. */
void rt_ask_take_away(struct rt_desk *desk, struct rt_ask *ask, int reason);

/* The release is over; it is in no list any more. */
void rt_ask_released(struct rt_desk *desk, struct rt_ask *ask, int err);

static inline bool rt_ask_in_set(const struct rt_ask *ask)
{
    return ask->terms != NULL && ask->terms->set != NULL;
}

#endif
