/* SPDX-License-Identifier: Apache-2.0 */
/* ?also=DIALECT: Rota's own line, and at its front the lock of an incumbent as well. One connection made of two, both
 * of existing engines: `line` from the URL with dialect line, `foreign` from the same URL with DIALECT. Only the engine
 * contract is used, so any dialect that has a row in also.c will do.
 *
 *   also.c    the rows, the connection, what it can promise; asks of its own to either side
 *   ticket.c  tickets: one step function brings what is there to what is wanted
 *   join.c    JOIN, JOIN_ALL            leave.c  LEAVE, CHANGE, BREAK
 *   beat.c    the two sessions          look.c   INSPECT, CHECK
 *
 * A ticket has two halves:
 *
 *   line      OUT ──JOIN──▶ WAITING ──GRANTED──▶ FRONT ───LEAVE──▶ OUT        the place, the number, the order
 *   foreign   OUT ──────JOIN, at the front──▶ [WAITING] ──▶ HELD ──LEAVE──▶ OUT    the exclusion of everybody
 *
 *   user      joined                                        granted      left
 *
 * The user is told of a grant when both are held: the foreign half is asked for only at the front, and given back
 * before the line is left. So foreign clients meet one contender, not n, and those who stand behind keep their
 * order.
 *
 * What if ... (all by the contract: ops on a name take effect in order; the same nonce finds the same ticket)
 *   a reply of the line's JOIN is lost: UNKNOWN to the user, who asks again by its nonce, or leaves by it.
 *   a reply of the foreign JOIN is lost: the ticket waits on (a try: UNKNOWN), and is asked for again by its
 *     foreign nonce.
 *   a reply of the foreign LEAVE is lost: UNKNOWN; it is asked again, here and by the user; the line is not left
 *     until then.
 *   late, doubled: the engines below match answers to asks; what comes for a ticket that is no longer wanted is
 *     given back by its foreign nonce, never by a number that may have become another's.
 *   the foreign ticket or session is lost: a holder is told TICKET_LOST and leaves the line; whoever was only asking
 *     for it asks again in a new session: nobody loses its place in the line for that.
 *   the line's ticket or session is lost: the user is told, then the foreign lock is given back.
 * A ticket that nobody wants any more is brought to OUT on both sides in the background, as long as its sessions
 * live.
 *
 * Deadlines: a beat is answered when both sessions have answered; its ttl is the smaller one, its allowance the
 * larger one. */
#ifndef RT_ALSO_H
#define RT_ALSO_H

#include "engine/kit/turn.h"
#include "engine/url.h"
#include "net/loop.h"

#define RT_ALSO_BUCKETS 256
#define RT_ALSO_THEIRS 2

struct rt_also_conn;
struct rt_also_ask;
typedef void rt_also_answer_fn(struct rt_also_conn *c, struct rt_also_ask *ask);

struct rt_also_ask {          /* an op of our own; its owner keeps it until it was answered */
    struct rt_op op;          /* first */
    struct rt_also_ask *next; /* while it waits to be submitted */
    rt_also_answer_fn *answer;
    void *owner;
    bool busy; /* from its sending to its answer */
};

struct rt_also_side {
    struct rt_also_conn *c;
    struct rt_conn *conn;
    struct rt_up up;
    struct rt_also_ask *queue, **tail; /* to be submitted when the engine is not on the stack */
    uint32_t depth;                    /* it is, this many times */
};

enum rt_also_line { RT_ALSO_OUT, RT_ALSO_DOUBT, RT_ALSO_WAITING, RT_ALSO_FRONT };
enum rt_also_foreign {
    RT_ALSO_NONE,
    RT_ALSO_ASKED /* perhaps there */,
    RT_ALSO_QUEUED,
    RT_ALSO_HELD
};

struct rt_also_ticket {
    struct rt_also_ticket *next, **link; /* in its bucket */
    enum rt_also_line line;
    enum rt_also_foreign foreign;
    uint64_t session, nonce, number; /* the user's, and the line's */
    uint64_t foreign_session, foreign_nonce, foreign_number;
    uint32_t mode;
    bool joining;  /* the line's JOIN is under way: its answer says all that comes meanwhile */
    bool tries;    /* RT_JOIN_TRY: does not wait */
    bool unwanted; /* both halves are to be OUT */
    bool untold;   /* nobody was told that it was granted */
    bool was_lost; /* the foreign lock was gone before it was given back */
    bool had;      /* the foreign lock was held when it was left */
    bool behind;   /* its LEAVE came when the line was being left already */
    bool left;     /* the line was left, and left_err is what it said */
    int left_err;
    bool doubt;                      /* ASKED: an answer was lost, it may be held */
    uint64_t seen;                   /* by the last round of rt_also_each */
    struct rt_work *asker;           /* the JOIN that it is part of, until that is answered */
    struct rt_work *joiner, *leaver; /* ops that wait for what becomes of it */
    int64_t again_at;                /* what failed is tried again then */
    struct rt_also_ask line_ask, foreign_ask;
    struct rt_join join; /* of the foreign ask */
    char name[];
};

struct rt_also_row {                    /* a dialect that may be named by ?also= */
    const char *also, *scheme;          /* of the URL, as it begins */
    const char *key, *value;            /* the parameter that opens it */
    const char *beside;                 /* goes behind the path; "": nothing */
    const char *theirs[RT_ALSO_THEIRS]; /* parameters that only the dialect is told of */
};

struct rt_also_conn {
    struct rt_conn base; /* first */
    const struct rt_also_row *row;
    struct rt_also_side line, foreign;
    struct rt_turns turns;
    struct rt_also_ticket *buckets[RT_ALSO_BUCKETS];
    size_t tickets;
    struct rt_timer_call timer; /* what waits for the stack to be empty, or for another try */
    uint64_t session, foreign_session; /* 0: none */
    uint64_t nonces;                   /* the last foreign one */
    uint64_t rounds;
    struct rt_also_ask opening; /* of a foreign session that no BEAT waits for */
    int64_t open_at;            /* not to be opened before then */
    int open_err;               /* why it was not, the last time */
    char *ddl;                  /* the tables of both */
};

extern const struct rt_engine rt_engine_also;

static inline struct rt_also_conn *rt_also_of(struct rt_conn *conn)
{
    return (struct rt_also_conn *)(void *)conn;
}

/* ---- Asks (also.c) -------------------------------------------------------------------------- */

/* Submits ASK, whose op is filled in but for `user`, to SIDE: at once, or when the engine may be called again. */
void rt_also_send(struct rt_also_side *side, struct rt_also_ask *ask, rt_also_answer_fn *answer,
                  void *owner);
void rt_also_cancel(struct rt_also_side *side, struct rt_also_ask *ask); /* if it is busy */
/* The timer fires at AT at the latest. */
void rt_also_wake(struct rt_also_conn *c, int64_t at);

/* ---- Tickets (ticket.c) --------------------------------------------------------------------- */

struct rt_also_ticket *rt_also_by_nonce(struct rt_also_conn *c, const char *name, uint64_t session,
                                        uint64_t nonce);
struct rt_also_ticket *rt_also_by_number(struct rt_also_conn *c, const char *name, uint64_t session,
                                         uint64_t number);
struct rt_also_ticket *rt_also_ticket_new(struct rt_also_conn *c, const struct rt_join *join);
/* Does whatever is next for T, if nothing of it is under way; T may be gone afterwards. */
void rt_also_step(struct rt_also_conn *c, struct rt_also_ticket *t);
void rt_also_step_all(struct rt_also_conn *c);
/* T is not in the line any more; its user knows, or is told first. */
void rt_also_line_gone(struct rt_also_conn *c, struct rt_also_ticket *t);
/* T's foreign lock is gone: its holder is told. */
void rt_also_foreign_gone(struct rt_also_conn *c, struct rt_also_ticket *t);
void rt_also_free_all(struct rt_also_conn *c);
/* Calls EACH for all; it may free the one it is given. */
void rt_also_each(struct rt_also_conn *c,
                  void (*each)(struct rt_also_conn *c, struct rt_also_ticket *t));
void rt_also_line_event(struct rt_also_conn *c, const struct rt_event *event);
void rt_also_foreign_event(struct rt_also_conn *c, const struct rt_event *event);
void rt_also_held(struct rt_also_conn *c, bool foreign,
                  void (*each)(void *arg, const char *name, uint64_t number, bool granted),
                  void *arg);

/* ---- Ops ------------------------------------------------------------------------------------ */

extern const struct rt_turn_kind rt_also_join_kind, rt_also_leave_kind, rt_also_change_kind,
    rt_also_break_kind, rt_also_beat_kind, rt_also_inspect_kind, rt_also_check_kind;

/* join.c: what became of the foreign half of T, which its joiner waits for: T as it stands (0), not known, or a
 * refusal: then all that was asked for together is given back first. */
void rt_also_joined(struct rt_also_conn *c, struct rt_also_ticket *t, int err);
/* T, which was lost or which its asker gave up, is gone, or has to be gone later. */
void rt_also_join_gone(struct rt_also_conn *c, struct rt_also_ticket *t);
/* leave.c: T's LEAVE ends with ERR. */
void rt_also_left(struct rt_also_conn *c, struct rt_also_ticket *t, int err);
/* beat.c: the line's session is over, and its user knows. */
void rt_also_session_over(struct rt_also_conn *c);
void rt_also_foreign_over(struct rt_also_conn *c); /* the foreign one is */
void rt_also_want_foreign(struct rt_also_conn *c); /* one is needed */
/* ticket.c: T's foreign half could not be asked for: ERR. */
void rt_also_not_asked(struct rt_also_conn *c, struct rt_also_ticket *t, int err);
/* How long an ask for T has time. */
int64_t rt_also_deadline(const struct rt_also_conn *c, const struct rt_work *w);

#endif
