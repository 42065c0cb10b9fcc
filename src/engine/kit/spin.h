/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of which a server knows only who holds them: whoever waits does so in this table, and asks again after a time.
 *
 *   JOIN ──▶ JOINING ──▶ HELD ◀── rt_spin_granted ── WAITING ◀─┐ `ask`, when its time has come
 *               │ busy ── rt_spin_wait ───────────────▶ └──────┘
 *               ▼ error: rt_spin_free                LEAVE ──▶ LEAVING ──▶ gone
 *
 * The session too is the client's own: a number that nobody else draws, and the time it was last renewed. What it has
 * on the server ends there by its ttl, and is renewed ticket by ticket, in batches: all that is held, *and all that is
 * being asked for*, since what was sent before a renewal may be granted before it.
 *
 * Each answer is matched by (session, name, nonce): the ticket may be gone meanwhile, or its session. Then whoever
 * asked gives back what was granted. An ask whose answer was lost leaves its ticket in `doubt`: it may hold.
 *
 * Serialised by its user. One timer for all. */
#ifndef RT_SPIN_H
#define RT_SPIN_H

#include "engine/engine.h"
#include "net/loop.h"

#define RT_SPIN_BUCKETS 256
#define RT_SPIN_BATCH 100 /* tickets of one renewal, as Redisson's watchdog has it */

enum rt_spin_state { RT_SPIN_JOINING, RT_SPIN_WAITING, RT_SPIN_HELD, RT_SPIN_LEAVING };

struct rt_spin_ticket { /* first in the engine's struct */
    struct rt_spin_ticket *next, **link;
    const char *name; /* behind the engine's struct */
    enum rt_spin_state state;
    uint32_t mode;
    uint64_t nonce;
    uint64_t number; /* HELD: its fence, or name; WAITING: its name */
    uint64_t owner;
    uint64_t set;     /* not 0: asked for together with all of the same */
    int64_t retry_at; /* WAITING: when it is asked for again */
    bool detects;
    bool in_flight; /* WAITING: it is being asked for */
    bool doubt;     /* WAITING: an answer was lost: it may have been granted */
    bool waited;    /* LEAVING: ... before that */
    bool at_once;   /* a word came meanwhile: asked again as soon as it is answered */
};

struct rt_spin;

struct rt_spin_user {
    size_t size; /* of the engine's ticket */
    /* Asks once more for all N of LIST or none; in_flight is set. Each answer ends with rt_spin_answered. False: it
     * cannot be asked now. LIST is valid during the call. */
    bool (*ask)(struct rt_spin *s, struct rt_spin_ticket **list, size_t n);
    void (*freed)(struct rt_spin *s, struct rt_spin_ticket *t); /* its last word; or NULL */
};

struct rt_spin { /* embedded in its user's struct */
    const struct rt_spin_user *user;
    struct rt_conn *base;
    struct rt_spin_ticket *buckets[RT_SPIN_BUCKETS];
    size_t tickets, waiting;
    struct rt_timer_call timer;
    uint64_t session;     /* 0: none */
    int64_t beat_at;      /* its last renewal that was answered was sent then */
    uint64_t names, sets; /* the last given */
    uint64_t dice;
    uint32_t pause_ms; /* whoever waits asks again after half to all of it */
};

/* One timer of BASE's loop is to be reserved for it. DICE: anything random. */
void rt_spin_init(struct rt_spin *s, struct rt_conn *base, const struct rt_spin_user *user,
                  uint32_t pause_ms, uint64_t dice);
void rt_spin_fini(struct rt_spin *s); /* all tickets go, the timer stops */

/* ---- Tickets of the present session ------------------------------------------------------------ */

/* NULL: there is none. */
struct rt_spin_ticket *rt_spin_by_nonce(struct rt_spin *s, const char *name, uint64_t nonce);
struct rt_spin_ticket *rt_spin_by_number(struct rt_spin *s, const char *name, uint64_t number);
/* The ticket whose LEAVE OP is. */
struct rt_spin_ticket *rt_spin_leaver(struct rt_spin *s, const struct rt_op *op);
/* Calls EACH for all; it may free the one it is given. */
void rt_spin_each(struct rt_spin *s,
                  void (*each)(struct rt_spin *s, struct rt_spin_ticket *t, void *arg), void *arg);
void rt_spin_state(struct rt_spin *s, struct rt_spin_ticket *t, enum rt_spin_state state);
void rt_spin_free(struct rt_spin *s, struct rt_spin_ticket *t);
void rt_spin_forget_all(struct rt_spin *s);

/* ---- JOIN ------------------------------------------------------------------------------------- */

/* Tickets for all joins of OP; those that are there stay as they are. 0 or ROTA_NOMEM: none was added. */
int rt_spin_make(struct rt_spin *s, const struct rt_op *op);
/* OP is asked again while all its joins wait: answers it as it stands. False: they do not all wait. */
bool rt_spin_stands(struct rt_spin *s, struct rt_op *op);
/* OP's I-th JOIN holds. NUMBER 0: the engine has no fences, and it gets a name. */
void rt_spin_joined(struct rt_spin *s, struct rt_op *op, size_t i, uint64_t number);
/* All joins of OP wait; LEFT_MS: see rt_spin_wait. */
void rt_spin_wait_all(struct rt_spin *s, struct rt_op *op, int64_t left_ms);
/* Those of OP that are JOINING go. */
void rt_spin_unmake(struct rt_spin *s, const struct rt_op *op);

/* ---- Waiting ---------------------------------------------------------------------------------- */

/* T waits, and is asked for again in a while, at the latest in LEFT_MS, when what is in its way ends (-1: not
 * known). */
void rt_spin_wait(struct rt_spin *s, struct rt_spin_ticket *t, int64_t left_ms);
/* T is asked for at once, or as soon as it is answered. */
void rt_spin_now(struct rt_spin *s, struct rt_spin_ticket *t);
/* An ask for a WAITING ticket has an answer. NULL: nobody waits for it any more, and what was granted is to be given
 * back, unless *LEAVING: its LEAVE is behind it. */
struct rt_spin_ticket *rt_spin_answered(struct rt_spin *s, uint64_t session, const char *name,
                                        uint64_t nonce, bool *leaving);
/* T, which waited, holds: told. NUMBER as rt_spin_joined has it. */
void rt_spin_granted(struct rt_spin *s, struct rt_spin_ticket *t, uint64_t number);
/* T is gone, and not by a LEAVE: told, and freed. */
void rt_spin_lost(struct rt_spin *s, struct rt_spin_ticket *t);

/* ---- The session ------------------------------------------------------------------------------ */

/* A new one, opened by what was sent at AT; what an earlier one had is forgotten. */
void rt_spin_open(struct rt_spin *s, uint64_t session, int64_t at);
/* What was sent at AT has renewed SESSION. */
void rt_spin_renewed(struct rt_spin *s, uint64_t session, int64_t at);
/* Whether it is over, whether or not its user asks for another: nobody may be granted anything in its name. Told the
 * first time. */
bool rt_spin_over(struct rt_spin *s);

/* What is to be renewed: copies, for a ticket may go meanwhile. */
struct rt_spin_due {
    const char *name; /* behind them */
    uint64_t nonce;
    bool held; /* it was HELD then: a renewal that does not find it says that it is lost */
};
struct rt_spin_dues {
    uint64_t session;
    int64_t at; /* now */
    size_t count;
    struct rt_spin_due list[];
};
/* ASKED: include what is being asked for. NULL: no memory. To be freed by rt_free. */
struct rt_spin_dues *rt_spin_dues(struct rt_spin *s, bool asked);

#endif
