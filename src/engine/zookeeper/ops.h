/* SPDX-License-Identifier: Apache-2.0 */
/* The lock engine on a ZooKeeper connection: what its files share.
 *
 *   engine.c   the engine: submit, cancel, tickets of ours, paths, opening and closing
 *   session.c  BEAT, the session's node, what the servers know of our tickets
 *   look.c     a line read, with what of its nodes matters      wait.c  waiting and armed tickets
 *   join.c     JOIN, JOIN_ALL      leave.c  LEAVE, BREAK, CHANGE     herd.c  waiting where there is one node for all
 *   show.c     INSPECT, LIST       observe.c  OBSERVE            doctor.c  CHECK
 *
 * A ticket of ours:
 *
 *   create ──▶ stands ── nobody ahead ──▶ [keeper made] ──▶ granted ──▶ delete ──▶ gone
 *                │ waits: watches the node ahead, and its own
 *                ├── the one ahead went, and it was the front ──▶ granted, without a word (D3)
 *                ├── anything else ──▶ look ──▶ granted, lost, or another to watch
 *                └── durable: a node without a session takes its place, with its number
 *
 * For each request, what if its reply is lost (the session is then resumed on another server, where all that the old
 * connection asked has been done or never will be), late (it is waited for), or comes twice (its xid is not the
 * oldest's: the connection is cut):
 *
 *   create     the list after it, asked again by itself, has (session, nonce) or not: adopted, or created now. One that
 *              was made twice is seen in the same list, and the later goes. Given up: LEAVE by nonce finds it
 *   delete     asked again: no path is used twice, so it takes nobody else's; "no such node" is then ROTA_UNKNOWN
 *   multi      ROTA_UNKNOWN; asked again by its op, which reads the line first and finds what was done by (session, nonce)
 *   setData    asked again: it says the same
 *   reads      asked again
 *   watches    set again (SetWatches, by the last zxid); what fires then is looked at, not believed
 *   closeSession  the session dies by its timeout */
#ifndef RT_ZK_OPS_H
#define RT_ZK_OPS_H

#include "engine/kit/arena.h"
#include "engine/kit/check.h"
#include "engine/kit/observe.h"
#include "engine/kit/turn.h"
#include "engine/name.h"
#include "engine/zookeeper/line.h"
#include "engine/zookeeper/zk.h"

#define RT_ZK_ROOT_MAX 1024
#define RT_ZK_PATH_ROOM (RT_ZK_ROOT_MAX + RT_NAME_ROOM + RT_ZK_NODE_ROOM + 8)
#define RT_ZK_PATHS 4
#define RT_ZK_SESSIONS "+rota" /* beside the lines: a node per session, whose data is its label */
#define RT_ZK_CARD_ROOM (ROTA_VALUE_MAX + RT_LABEL_MAX + 64)

struct rt_zk;

/* ---- look.c ----------------------------------------------------------------------------------- */

enum {
    RT_ZK_LOOK_SYNC = 1,  /* after all that anybody was answered before */
    RT_ZK_LOOK_DATA = 2,  /* the data of all, and when they were made */
    RT_ZK_LOOK_FRONT = 4, /* of the first, watched by `front` */
    RT_ZK_LOOK_TIDY = 8,  /* deletes what is over by time */
    RT_ZK_LOOK_WATCH =
        16, /* by `watch`, of the children, or of a barrier's line: the owner set it */
    RT_ZK_LOOK_SHOWN =
        32, /* only to be shown: rt_zk_shown_ms says what is over by time and left out */
};

struct rt_zk_look;
typedef void rt_zk_looked_fn(struct rt_zk *z, struct rt_zk_look *look);
struct rt_zk_look { /* embedded in its owner's struct; zeroed before the first use */
    struct rt_zk_line line;
    int err;         /* errmsg is set */
    int32_t version; /* of a barrier's line */
    int64_t ends_ms; /* when the first ends by time, by the servers' clock; 0: none does */
    void *owner;
    struct rt_zk_watch *watch; /* RT_ZK_LOOK_WATCH; if there is no line, it waits for one */
    struct rt_zk_watch front; /* RT_ZK_LOOK_FRONT: outlasts the look; its owner is the look's ... */
    rt_zk_fired_fn *fired;    /* ... which sets this */
    /* The rest is its own. */
    struct rt_arena arena;
    rt_zk_looked_fn *fn;
    struct rt_op *op;
    struct rt_work *work; /* that counts it; or NULL */
    const char *name;     /* the owner's */
    uint32_t flags, pending;
};
/* 0, and FN comes from a turn; or ROTA_NOMEM. NAME lasts until then. */
int rt_zk_look(struct rt_zk *z, struct rt_zk_look *look, const char *name, uint32_t flags,
               struct rt_op *op, rt_zk_looked_fn *fn, void *owner);
/* The same for W, which is the owner, and counts it until FN comes. */
int rt_zk_work_look(struct rt_zk *z, struct rt_work *w, struct rt_zk_look *look, const char *name,
                    uint32_t flags, rt_zk_looked_fn *fn);
void rt_zk_look_fini(struct rt_zk_look *look); /* while nothing is under way */

/* ---- Tickets (engine.c) ----------------------------------------------------------------------- */

struct rt_zk_ticket {                              /* from the answer to its JOIN to its end */
    struct rt_zk_ticket *next, **link;             /* of all */
    struct rt_zk_ticket *same_nonce, *same_number; /* the next in the bucket of each */
    struct rt_zk_id id;                            /* as its node says */
    uint64_t number, serial, looked;
    /* simple: its number while it waited, by which it may still be known; 0: it never waited */
    uint64_t called;
    int64_t at_least_ms, kept_until_ms; /* servers' clock; 0: there is no keeper */
    uint32_t kept_mode;                 /* of the keeper */
    int64_t ends_at;                    /* when to look, because something ahead ends by time */
    struct rt_zk_watch ahead, own, line;
    uint64_t own_set; /* the connection on which its own watch was answered */
    uint64_t owner;
    struct rt_zk_wait *look; /* under way; or NULL */
    struct rt_zk_herd *herd; /* simple: it waits; or NULL */
    bool granted, leaving, told, armed, wanted, securing;
    bool blind;    /* no memory to watch, or to look: the next BEAT looks */
    bool direct;   /* when the node ahead goes, it is granted */
    bool watch;    /* of the whole line: this ticket must look */
    bool misnamed; /* a node may have taken the place of `node` */
    bool seen;
    char *name, *value; /* value NULL: none */
    char node[RT_ZK_NODE_ROOM];
};

struct rt_zk_ticket *rt_zk_ticket_new(struct rt_zk *z, const struct rt_join *join, const char *node,
                                      uint64_t number);
void rt_zk_ticket_drop(struct rt_zk *z, struct rt_zk_ticket *t);
void rt_zk_ticket_lost(struct rt_zk *z, struct rt_zk_ticket *t); /* told, unless it is leaving */
void rt_zk_ticket_renumber(struct rt_zk *z, struct rt_zk_ticket *t, uint64_t number);
/* By both, or by the one that is not 0 (rt_names_ticket). */
struct rt_zk_ticket *rt_zk_ticket_find(struct rt_zk *z, const char *name, uint64_t session,
                                       uint64_t number, uint64_t nonce);
/* The ticket for which A was sent, with its nonce as `extra`; NULL: it has ended. */
struct rt_zk_ticket *rt_zk_ticket_of(struct rt_zk *z, const struct rt_zk_ask *a);
/* NODE has taken its place. */
void rt_zk_ticket_renamed(struct rt_zk_ticket *t, const char *node, const struct rt_zk_id *id);
void rt_zk_tell(struct rt_zk *z, enum rt_event_kind kind, const struct rt_zk_ticket *t);

/* ---- The engine ------------------------------------------------------------------------------- */

struct rt_zk {
    struct rt_conn base; /* first */
    struct rt_zk_conn c;
    struct rt_turns turns;
    const struct rt_zk_dialect *dialect;
    char root[RT_ZK_ROOT_MAX + 1]; /* without a trailing slash: "" is the root of all */
    struct rt_zk_ticket *tickets, **by_nonce, **by_number;
    size_t ticket_count, bucket_count; /* of each; a power of two, or 0 */
    struct rt_zk_herd *herds;
    uint64_t serial;
    char paths[RT_ZK_PATHS][RT_ZK_PATH_ROOM], card[RT_ZK_CARD_ROOM]; /* written last */
    size_t path_count;
    struct rt_timer_call timer; /* what ends by time */
    struct rt_observers observers;
    struct rt_zk_wait *waits;     /* looks under way */
    int64_t server_ms, server_at; /* a clock of the servers, and when it was heard */
    struct {
        int err; /* 0: nothing in the last one was refused */
        char said[256];
    } way;
    struct {
        uint64_t id; /* 0: none */
        struct rt_zk_watch watch;
        int32_t version; /* of its node, as we wrote it */
        size_t unseen;
        bool doubtful, verifying, again, parting, parted;
    } session;
};

#define rt_zk_end(z, w, err) rt_turn_end(&(z)->turns, (w), (err))
/* Sends A for W, which is its owner and counts it. As rt_zk_send. */
static inline int rt_zk_work_send(struct rt_zk *z, struct rt_work *w, struct rt_zk_ask *a,
                                  uint64_t extra)
{
    return rt_zk_send(&z->c, a, w->op, w, extra, &w->pending);
}

int rt_zk_check_name(struct rt_zk *z, const char *name);
/* The name of the line whose node is PART, below the root. False: it is not a line's. */
bool rt_zk_name_read(const struct rt_zk *z, struct rt_text part, char out[RT_NAME_ROOM]);
/* Paths. What they return lasts until RT_ZK_PATHS more have been made. */
const char *rt_zk_line_path(struct rt_zk *z, const char *name);
const char *rt_zk_node_path(struct rt_zk *z, const char *name, const char *node);
const char *rt_zk_session_path(struct rt_zk *z, uint64_t id);
const char *rt_zk_root(const struct rt_zk *z); /* lasts */
struct rt_text rt_zk_label(const struct rt_zk *z);
/* The servers' clock: it is this, or later. 0: it was never heard. */
int64_t rt_zk_now_ms(const struct rt_zk *z);
void rt_zk_clock(struct rt_zk *z, int64_t ms);
/* The same, or our own machine's: a client that only looks makes nothing, and so never hears theirs.
 * It decides nothing. */
int64_t rt_zk_shown_ms(const struct rt_zk *z);
/* Makes the parents of a node at PATH; those already there are left alone. Sent, and not waited for: what follows
 * comes after it. */
int rt_zk_make_way(struct rt_zk *z, const char *path);
int rt_zk_no_way(struct rt_zk *z, const char *path); /* what became of the last */
/* Takes a ticket of ours out of its line, with the one node if there is one. May be asked twice, as rt_zk_delete. */
struct rt_zk_ask *rt_zk_take_out(struct rt_zk *z, const char *name, const char *node,
                                 rt_zk_answer_fn *answer);
/* Deletes a ticket's node, and nobody waits for that. 0, or ROTA_NOMEM: the next BEAT finds it, if it belongs
 * to the session. */
int rt_zk_chore_delete(struct rt_zk *z, const char *name, const char *node);
/* Three parts of a MULTI: HEIR, with DATA, takes the place of NODE. Whoever watches NODE sees it change before it goes,
 * and looks. */
void rt_zk_multi_heir(struct rt_zk *z, struct rt_zk_ask *a, const char *name, const char *node,
                      const char *heir, struct rt_text data, uint32_t flags);

struct rt_zk_card { /* a ticket's data: "rota1 OWNER SIZE LABEL VALUE" */
    uint64_t owner;
    struct rt_text label, value;
    bool foreign;
};
/* Lasts until the next is written. VALUE may be NULL. */
struct rt_text rt_zk_card_write(struct rt_zk *z, uint64_t owner, const char *value);
void rt_zk_card_read(const struct rt_zk *z, struct rt_text data, struct rt_zk_card *card);

/* ---- wait.c ----------------------------------------------------------------------------------- */

/* T waits, or holds and is armed. LINE and PLACE: as last seen, or NULL. */
void rt_zk_wait(struct rt_zk *z, struct rt_zk_ticket *t, const struct rt_zk_line *line,
                const struct rt_zk_place *place, int64_t ends_ms);
void rt_zk_wait_look(struct rt_zk *z, struct rt_zk_ticket *t);
void rt_zk_wait_end(struct rt_zk_ticket *t);
void rt_zk_waits_close(struct rt_zk *z); /* no more answers come */
rt_zk_fired_fn rt_zk_wait_fired;         /* of what its owner, a ticket, must look at */
void rt_zk_wait_fire(struct rt_timer_call *call, int64_t now);
/* Makes the keeper of a granted ticket; ANSWER comes. 0, or ROTA_NOMEM. */
int rt_zk_keep(struct rt_zk *z, struct rt_zk_ticket *t, struct rt_op *op, rt_zk_answer_fn *answer,
               void *owner, uint64_t extra, uint32_t *pending);
/* Reads the answer to that. 0, or an error with errmsg. */
int rt_zk_kept(struct rt_zk *z, struct rt_zk_ticket *t, int err, struct rt_zk_reply *reply);
const char *rt_zk_keeper_path(struct rt_zk *z, const struct rt_zk_ticket *t);

/* ---- herd.c: the dialect `simple` ------------------------------------------------------------- */

#define RT_ZK_CALLED (UINT64_C(1) << 63) /* waiting tickets have a number that is no fence */

/* TICKETS, one or a set, wait: they watch the one node at BUSY, and try again for all when it goes. They wait nowhere
 * yet. 0, or ROTA_NOMEM. */
int rt_zk_herd_wait(struct rt_zk *z, struct rt_zk_ticket *const *tickets, size_t n, size_t busy);
void rt_zk_herd_look(struct rt_zk *z, struct rt_zk_ticket *t); /* it waits: is it granted by now? */
void rt_zk_herd_part(struct rt_zk_ticket *t);                  /* also if it does not wait */
/* T waits no longer: it has NUMBER. Nobody is told. */
void rt_zk_herd_won(struct rt_zk *z, struct rt_zk_ticket *t, uint64_t number);
/* The two nodes of a holder, as parts of a MULTI; A may be NULL. */
void rt_zk_herd_create(struct rt_zk *z, struct rt_zk_ask *a, const char *name, const char *node,
                       struct rt_text data);

/* ---- session.c -------------------------------------------------------------------------------- */

void rt_zk_expired(struct rt_zk *z);
void rt_zk_verify(struct rt_zk *z); /* asks what the servers know of our tickets */
bool rt_zk_parting(struct rt_conn *conn);
/* Writes the lines in which we wait with DETECT into the session's node. */
int rt_zk_show_lines(struct rt_zk *z, const struct rt_op *op);

/* ---- The others ------------------------------------------------------------------------------- */

extern const struct rt_observer_user rt_zk_observer_user;
extern const struct rt_turn_kind rt_zk_beat, rt_zk_join, rt_zk_change, rt_zk_leave, rt_zk_break,
    rt_zk_observe, rt_zk_inspect, rt_zk_list, rt_zk_doctor;

#endif
