/* SPDX-License-Identifier: Apache-2.0 */
/* The world of the reference engine: lines, tickets and sessions in memory.
 *
 *   world -- table --> line -- last --> ticket -> ticket -> ticket (circular, front first)
 *     |                                   |         |
 *     +-- sessions, by expiry --> session +---------+    (calm, inbox or lost of the session)
 *     +-- fading, by end -------> durable tickets that end by themselves
 *     +-- watches --------------> what clients observe, each pinning its line
 *
 * The life of a ticket:
 *
 *                 .-------- LEAVE, expiry, end --------------------------.
 *                 |                                                      v
 *   JOIN --> waiting --grant--> granted --LEAVE, expiry, end--> gone (freed)
 *                 |               |  `--ended before at_least_ms--> durable --end--> gone
 *                 `----BREAK------'
 *                         |
 *                         v
 *                  lost: out of the line, kept for its session until the session knows
 *
 * Granted tickets are always the front part of a line: rt_grant stops at the first that
 * waits. An event for another client is a bit in ticket->pending, and the ticket stands in
 * its session's inbox instead of among the calm: nothing is allocated to tell, so nothing
 * can fail to be told. Durable tickets are told to the connection that joined them.
 *
 * A held lock costs 88 bytes of ticket, 33 of line, its name, and 4 to 8 of table. All is
 * guarded by the world's mutex; the functions below want it held unless they say otherwise. */
#ifndef RT_MEM_WORLD_H
#define RT_MEM_WORLD_H

#include "core/timers.h"
#include "engine/kit/view.h"
#include "net/loop.h"

#include <pthread.h>
#include <stddef.h>

struct rt_mem_link { /* in a ring; a ring's head is a link too */
    struct rt_mem_link *next, *prev;
};

struct rt_mem_line {
    struct rt_mem_line *next;   /* in the table's chain */
    struct rt_mem_ticket *last; /* its next is the front; NULL: nobody stands here */
    uint32_t count, waiting;
    uint32_t of;   /* of all its tickets */
    uint32_t pins; /* observations, lost tickets and deliveries that need the name */
    char name[];
};

#define RT_MEM_GRANTED 0x01u
#define RT_MEM_ARMED 0x02u
#define RT_MEM_DETECT 0x04u
#define RT_MEM_WAITED 0x08u /* granted by an event, of which its client has not spoken yet */
#define RT_MEM_TOLD 0x10u   /* that somebody waits behind it */
#define RT_MEM_FRESH 0x20u  /* of the op under way: told by its answer, not by events */

#define RT_MEM_TELL_GRANTED 0x1u
#define RT_MEM_TELL_WANTED 0x2u
#define RT_MEM_TELL_LOST 0x4u

struct rt_mem_ticket {
    struct rt_mem_ticket *next; /* behind it; behind the last: the front */
    struct rt_mem_line *line;
    struct rt_mem_session *session; /* NULL: durable */
    struct rt_mem_link link;        /* calm, inbox or lost; durable with an end: fading */
    uint64_t number, nonce, owner;
    int64_t since; /* joined; once granted, granted; once lost, last named by a BEAT */
    struct rt_mem_extra *extra;
    uint32_t take;
    uint8_t mode;
    uint8_t flags;   /* RT_MEM_GRANTED.. */
    uint8_t pending; /* RT_MEM_TELL_* */
};

struct rt_mem_extra { /* what few tickets have */
    struct rt_mem_ticket *ticket;
    struct rt_mem_conn *conn; /* durable: who joined, while it is open; else NULL */
    struct rt_mem_link told;  /* conn's durables, or durable_inbox while pending */
    int64_t at_least_ms;
    int64_t until; /* durable: when it ends; RT_NEVER */
    uint64_t durable_id;
    /* late worlds: what its client may know it by instead of its number; 0: nothing */
    uint64_t name;
    char *value;
    char label[]; /* of whoever joined: a durable ticket has no session to ask */
};

struct rt_mem_session {
    struct rt_mem_link link;     /* in world->sessions, the soonest to expire first */
    struct rt_mem_session *next; /* of the same connection */
    struct rt_mem_conn *conn;    /* NULL: it was closed */
    uint64_t id;
    int64_t expires;
    struct rt_mem_link calm, inbox, lost;
    bool over; /* only here to be told of as SESSION_LOST */
    char label[];
};

struct rt_mem_watch {    /* an observation */
    struct rt_view view; /* first; in the world's list */
    struct rt_mem_conn *conn;
    struct rt_mem_line *line; /* pinned */
    bool dirty;
};

struct rt_mem_world {
    struct rt_mem_world *next; /* in the process */
    uint32_t users;            /* connections; guarded by the mutex of all worlds */
    pthread_mutex_t mutex;
    int64_t now;     /* never goes back */
    uint64_t number; /* of the last ticket: one counter for all lines */
    uint64_t names;  /* late: of the last waiting ticket; below all numbers */
    bool late; /* numbers when it grants, and shows nobody who waits: as engines without order do */
    uint64_t session_id;
    struct rt_mem_line **table;
    size_t table_size, line_count;
    struct rt_mem_link sessions, fading;
    struct rt_view *watches;
    struct rt_mem_conn *actor; /* whose op is under way: it looks into its inbox anyway */
    uint32_t grants, waits;    /* counted for the planted bugs */
    char name[];
};

struct rt_mem_conn { /* one client */
    struct rt_conn conn;
    struct rt_mem_world *world;
    struct rt_mem_session *sessions;
    struct rt_mem_link durables, durable_inbox;
    struct rt_timer_call timer; /* the next time at which somebody's end may concern us */
    struct rt_mem_bell *bell;   /* NULL on a virtual loop */
    uint32_t interest;          /* waiting tickets and observations: why the timer runs */
    bool rung;                  /* something is in an inbox, or the timer is to be looked at */
};

static inline void rt_mem_ring_init(struct rt_mem_link *head)
{
    head->next = head->prev = head;
}

static inline void rt_mem_link_out(struct rt_mem_link *link)
{
    link->next->prev = link->prev;
    link->prev->next = link->next;
    rt_mem_ring_init(link);
}

/* Puts LINK, which is in no ring, before WHERE: at the end of the ring if that is its head. */
static inline void rt_mem_link_before(struct rt_mem_link *where, struct rt_mem_link *link)
{
    link->next = where;
    link->prev = where->prev;
    where->prev->next = link;
    where->prev = link;
}

static inline struct rt_mem_ticket *rt_mem_ticket_of(struct rt_mem_link *link)
{
    return (struct rt_mem_ticket *)(void *)((char *)link - offsetof(struct rt_mem_ticket, link));
}

/* The same for links in a connection's durables. */
static inline struct rt_mem_ticket *rt_mem_durable_of(struct rt_mem_link *link)
{
    char *extra = (char *)link - offsetof(struct rt_mem_extra, told);
    return ((struct rt_mem_extra *)(void *)extra)->ticket;
}

static inline struct rt_mem_watch *rt_mem_watch_of(struct rt_view *v)
{
    return (struct rt_mem_watch *)(void *)v; /* its first member */
}

static inline struct rt_mem_session *rt_mem_session_of(struct rt_mem_link *link)
{
    return (struct rt_mem_session *)(void *)link; /* its first member */
}

static inline struct rt_mem_ticket *rt_mem_line_front(const struct rt_mem_line *line)
{
    return line->last != NULL ? line->last->next : NULL;
}

/* ---- world.c: worlds, the table of lines ---- */

/* Takes no mutex but that of all worlds. NOW: for a world on a real clock the fences of a
 * former world of this process are remembered, so they grow across its end (I2). LATE: a world of its own, not
 * the one of the same name that is not late. */
struct rt_mem_world *rt_mem_world_get(const char *name, bool virtual_time, bool late);
void rt_mem_world_put(struct rt_mem_world *world); /* the last one takes everything with it */

struct rt_mem_line *rt_mem_line_find(struct rt_mem_world *world, const char *name);
struct rt_mem_line *rt_mem_line_get(struct rt_mem_world *world, const char *name); /* or NULL */
void rt_mem_line_tidy(struct rt_mem_world *world, struct rt_mem_line *line); /* frees it if idle */

/* ---- mem.c: connections ---- */

/* Something is there for this client: wakes it, if it is not the one at work. */
void rt_mem_ring(struct rt_mem_conn *mc);

struct rt_mem_watch *rt_mem_watch_new(struct rt_mem_conn *mc, const char *name, void *cookie);
void rt_mem_watch_free(struct rt_mem_world *world, struct rt_mem_watch *watch);

/* ---- session.c: leases and what ends by time ---- */

struct rt_mem_session *rt_mem_session_open(struct rt_mem_conn *mc); /* NULL: no memory */
void rt_mem_session_renew(struct rt_mem_world *world, struct rt_mem_session *s, uint32_t ttl_ms);
struct rt_mem_session *rt_mem_session_find(struct rt_mem_conn *mc, uint64_t id);
void rt_mem_session_announce(struct rt_mem_session *s, const uint64_t *tickets, size_t count);
void rt_mem_durables_detach(struct rt_mem_conn *mc);
void rt_mem_session_detach(struct rt_mem_world *world, struct rt_mem_session *s);
void rt_mem_session_free(struct rt_mem_world *world, struct rt_mem_session *s);

/* Ends all that is over by world->now. */
void rt_mem_sweep(struct rt_mem_world *world);
/* When something is over next; RT_NEVER. */
int64_t rt_mem_next_end(const struct rt_mem_world *world);

/* ---- ticket.c: one line's tickets ---- */

/* Gives T an extra if it has none: ROTA_NOMEM. */
int rt_mem_ticket_extend(struct rt_mem_conn *mc, struct rt_mem_ticket *t);

/* Puts a new ticket at the end of LINE, waiting and fresh. SESSION NULL: durable. NULL: no
 * memory, nothing changed. */
struct rt_mem_ticket *rt_mem_ticket_add(struct rt_mem_conn *mc, struct rt_mem_line *line,
                                        struct rt_mem_session *session, const struct rt_join *join);
/* Takes it out of its line and frees it. */
void rt_mem_ticket_drop(struct rt_mem_ticket *t);
/* Ends T, unless by BREAK or for a client that was never told: drops it, or keeps the line taken for at_least_ms. */
void rt_mem_ticket_end(struct rt_mem_world *world, struct rt_mem_ticket *t);
/* A lost one of a late world is told by its name from now on, or by its number again: whichever its client knows. */
void rt_mem_ticket_rename(struct rt_mem_ticket *t);
/* BREAK: its session is told. */
void rt_mem_ticket_break(struct rt_mem_ticket *t);
/* Frees a lost ticket. */
void rt_mem_ticket_forget(struct rt_mem_world *world, struct rt_mem_ticket *t);

void rt_mem_ticket_tell(struct rt_mem_ticket *t, uint8_t what);        /* RT_MEM_TELL_* */
void rt_mem_ticket_told(struct rt_mem_ticket *t);                      /* out of the inbox */
struct rt_mem_conn *rt_mem_ticket_conn(const struct rt_mem_ticket *t); /* or NULL */
uint64_t rt_mem_ticket_session(const struct rt_mem_ticket *t);
const char *rt_mem_ticket_label(const struct rt_mem_ticket *t);
const char *rt_mem_ticket_value(const struct rt_mem_ticket *t);
uint64_t rt_mem_ticket_name(const struct rt_mem_ticket *t); /* 0: it goes by its number */

/* Whether others see T: in late worlds those that wait for a lock or permits are known to their clients only. */
bool rt_mem_ticket_shown(const struct rt_mem_world *world, const struct rt_mem_ticket *t);
uint32_t rt_mem_line_shown(const struct rt_mem_world *world, const struct rt_mem_line *line);

/* Whether T would be granted if the line were settled now. */
bool rt_mem_would_grant(const struct rt_mem_ticket *t);

/* After any change of LINE: grants whoever that lets in (I1, I7), tells them and nobody else (I8),
 * tells observers, and frees LINE if nothing is left of it. */
void rt_mem_settle(struct rt_mem_world *world, struct rt_mem_line *line);

/* ---- ops.c: the operations ---- */

/* Does OP in one step; the world is swept. What it answers is in OP, errors also in errmsg. */
int rt_mem_do(struct rt_mem_conn *mc, struct rt_op *op);

#endif
