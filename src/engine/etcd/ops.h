/* SPDX-License-Identifier: Apache-2.0 */
/* The ops side of the etcd engine: what its files share.
 *
 *   side.c     submit, cancel; works; one op at a time per name; opening and closing
 *   txn.c      transactions put together        table.c    tickets of ours that etcd knows
 *   join.c     JOIN and JOIN_ALL                leave.c    LEAVE, CHANGE    break.c   BREAK
 *   wait.c     waiting and armed tickets: watch the key that matters, look when it may be my turn
 *   least.c    at_least_ms: a lease of its own keeps the line taken
 *   session.c  BEAT, the session's key, its end  verify.c  what etcd knows of our tickets
 *   observe.c  OBSERVE    inspect.c  INSPECT     list.c    LIST             doctor.c  CHECK
 *   gather.c   many keys, for those three         leftovers.c  what should have ended and has not */
#ifndef RT_ETCD_OPS_H
#define RT_ETCD_OPS_H

#include "engine/etcd/etcd.h"
#include "engine/etcd/key.h"
#include "engine/etcd/line.h"
#include "engine/kit/check.h"
#include "engine/kit/observe.h"
#include "engine/kit/shown.h"
#include "engine/kit/turn.h"
#include "engine/kit/work.h"

#include <string.h>

#define RT_ETCD_OPS_MAX 128 /* of one transaction: etcd's --max-txn-ops unless told */

/* ---- The engine (etcd.c) on its connection (etcd.h) ------------------------------------------------ */

struct rt_etcd_side; /* the ops' own, made by rt_etcd_side_open */
struct rt_etcd_conn *rt_etcd_of(struct rt_conn *conn);
struct rt_etcd_side **rt_etcd_side(struct rt_etcd_conn *c); /* NULL until side_open sets it */

/* When the connection is made; sets *rt_etcd_side(c), reserves its timers. 0 or ROTA_NOMEM. */
int rt_etcd_side_open(struct rt_etcd_conn *c, const struct rt_url *url);
void rt_etcd_side_close(struct rt_etcd_conn *c); /* `close` of its user; frees *rt_etcd_side(c) */
/* What all our keys begin with, as etcd has it: ?prefix= spelled. */
const char *rt_etcd_prefix(struct rt_etcd_conn *c);
void rt_etcd_linked(struct rt_etcd_conn *c);

/* The engine's functions (engine.h). */
void rt_etcd_submit(struct rt_conn *conn, struct rt_op *op);
void rt_etcd_cancel(struct rt_conn *conn, struct rt_op *op);
bool rt_etcd_parting(struct rt_conn *conn);

/* ---- Transactions (txn.c) ---------------------------------------------------------------------- */

enum rt_etcd_branch { RT_ETCD_THEN, RT_ETCD_ELSE };

struct rt_etcd_txn { /* what it holds is in the side's arena until it is sent */
    struct rt_etcd_side *s;
    RtEtcd__TxnRequest message;
    size_t compares, branches[2]; /* room for */
    bool failed;                  /* no memory; then what is filled in is one of these */
    RtEtcd__RangeRequest no_range;
    RtEtcd__PutRequest no_put;
};

/* Only one is assembled at a time: nothing else is sent between open and send. */
void rt_etcd_txn_open(struct rt_etcd_conn *c, struct rt_etcd_txn *t, size_t compares, size_t thens,
                      size_t elses);

/* Conditions. A line's conditions cover all its tickets, and hold if it is empty. */
void rt_etcd_if_absent(struct rt_etcd_txn *t, const char *key, size_t size);
void rt_etcd_if_present(struct rt_etcd_txn *t, const char *key, size_t size);
void rt_etcd_if_created(struct rt_etcd_txn *t, const void *key, size_t size, uint64_t number);
void rt_etcd_if_leaseless(struct rt_etcd_txn *t, const void *key, size_t size);
void rt_etcd_if_changed_at(struct rt_etcd_txn *t, const void *key, size_t size, int64_t revision);
void rt_etcd_if_line_empty(struct rt_etcd_txn *t, const char *name);
void rt_etcd_if_line_older(struct rt_etcd_txn *t, const char *name, int64_t revision);

/* Steps. The caller fills in the rest of the message; never NULL. */
RtEtcd__RangeRequest *rt_etcd_get(struct rt_etcd_txn *t, enum rt_etcd_branch b, const void *key,
                                  size_t size);
RtEtcd__RangeRequest *rt_etcd_get_line(struct rt_etcd_txn *t, enum rt_etcd_branch b,
                                       const char *name); /* from its front on */
RtEtcd__RangeRequest *rt_etcd_get_ahead(struct rt_etcd_txn *t, enum rt_etcd_branch b,
                                        const char *name, uint64_t number); /* the last ahead */
RtEtcd__RangeRequest *rt_etcd_get_behind(struct rt_etcd_txn *t, enum rt_etcd_branch b,
                                         const char *name, uint64_t number); /* the first behind */
RtEtcd__PutRequest *rt_etcd_put(struct rt_etcd_txn *t, enum rt_etcd_branch b, const void *key,
                                size_t size);
void rt_etcd_put_value(struct rt_etcd_txn *t, RtEtcd__PutRequest *put, const void *value, size_t n);
void rt_etcd_delete(struct rt_etcd_txn *t, enum rt_etcd_branch b, const void *key, size_t size);

/* May be done twice (`again`). OP, PENDING: as rt_etcd_ask_for. 0, or ROTA_NOMEM with errmsg: no answer will come. */
int rt_etcd_txn_send(struct rt_etcd_conn *c, struct rt_etcd_txn *t, rt_etcd_answer_fn *answer,
                     struct rt_op *op, void *owner, uint32_t *pending);

/* The Ith answer of a transaction; NULL: there is no such answer, which no etcd would send. */
const RtEtcd__RangeResponse *rt_etcd_got(const RtEtcd__TxnResponse *reply, size_t i);
/* The same for an ask that ended with *ERR. NULL: *ERR was not 0, or has been set to rt_etcd_odd because there is no
 * such answer. */
const RtEtcd__RangeResponse *rt_etcd_seen(struct rt_etcd_conn *c, const void *reply, size_t i,
                                          int *err);
int64_t rt_etcd_revision(const RtEtcd__Header *header); /* 0: none */
/* "That does not answer it": what was asked may have been done. */
int rt_etcd_odd(struct rt_etcd_conn *c);

/* ---- Tickets (table.c) --------------------------------------------------------------------------- */

struct rt_etcd_wait;
struct rt_etcd_least;

struct rt_etcd_ticket { /* in the table from the answer to its JOIN to its end */
    struct rt_etcd_ticket *hash_next, *next, **link;
    uint64_t session, nonce, number, serial;
    int64_t lease; /* its own lease, which ends it; 0: the session's, or none */
    int64_t at_least_ms;
    struct rt_etcd_wait *wait;   /* while it waits, or is armed and not wanted */
    struct rt_etcd_least *least; /* while at_least is not over */
    uint32_t mode, take, of;
    uint16_t name_size, key_size;
    bool durable, granted;
    bool leaving; /* its LEAVE is under way, and will say what became of it */
    bool told;    /* granted by an event, and the client has not spoken of it since */
    bool armed;   /* WANTED is to be told ... */
    bool wanted;  /* ... and was */
    bool plain;   /* its value is a leader's alone */
    char key[];
};

int rt_etcd_table_open(struct rt_etcd_side *s); /* 0 or ROTA_NOMEM */
/* NULL: no memory. Not in the table yet. ONCE: no other ticket will ever have its key. */
struct rt_etcd_ticket *rt_etcd_ticket_new(struct rt_etcd_conn *c, const struct rt_join *join,
                                          bool once);
struct rt_etcd_ticket *rt_etcd_ticket_with_key(const struct rt_join *join, const void *key,
                                               size_t size);
void rt_etcd_ticket_add(struct rt_etcd_conn *c, struct rt_etcd_ticket *t);
void rt_etcd_ticket_drop(struct rt_etcd_conn *c, struct rt_etcd_ticket *t);
/* T's JOIN was not answered: its key stays reserved, for the JOIN to be asked again or taken back. Takes T. */
void rt_etcd_ticket_doubt(struct rt_etcd_conn *c, struct rt_etcd_ticket *t);
/* The doubt about a JOIN is over; NONCE 0: about all of SESSION. */
void rt_etcd_doubts_end(struct rt_etcd_side *s, uint64_t session, uint64_t nonce);
struct rt_etcd_ticket *rt_etcd_ticket_find(struct rt_etcd_conn *c, const char *name,
                                           uint64_t session, uint64_t number, uint64_t nonce);
struct rt_etcd_ticket *rt_etcd_ticket_of_key(struct rt_etcd_conn *c, const void *key, size_t size);
void rt_etcd_ticket_name(const struct rt_etcd_ticket *t, char out[RT_NAME_ROOM]);
void rt_etcd_tell(struct rt_etcd_conn *c, enum rt_event_kind kind, const struct rt_etcd_ticket *t);
/* T is gone. If not by our LEAVE, it is dropped and the loss is told. */
void rt_etcd_ticket_lost(struct rt_etcd_conn *c, struct rt_etcd_ticket *t);

/* ---- Works: ops under way (side.c) ---------------------------------------------------------------- */

extern const struct rt_turn_kind rt_etcd_beat, rt_etcd_join, rt_etcd_change, rt_etcd_leave,
    rt_etcd_observe, rt_etcd_inspect, rt_etcd_list, rt_etcd_break, rt_etcd_check;

/* Notes ERR and ends W, which has nothing pending; those behind it may begin. */
void rt_etcd_work_end(struct rt_etcd_conn *c, struct rt_work *w, int err);
/* Sends T for W, which then has it pending; OWNER is the answerer's. 0, or it could not be sent. */
int rt_etcd_work_txn(struct rt_etcd_conn *c, struct rt_work *w, struct rt_etcd_txn *t,
                     rt_etcd_answer_fn *answer, void *owner);
/* Reads the line NAME, or (NUMBER not 0) that ticket in it. */
int rt_etcd_work_look(struct rt_etcd_conn *c, struct rt_work *w, const char *name, uint64_t number,
                      rt_etcd_answer_fn *answer, void *owner);
int rt_etcd_work_ask(struct rt_etcd_conn *c, struct rt_work *w, enum rt_etcd_call call,
                     const void *message, rt_etcd_answer_fn *answer, void *owner, uint64_t extra);

/* ---- The side --------------------------------------------------------------------------------------- */

/* gather.c: many keys as of one revision, with the values of those that are wanted. */
struct rt_etcd_gather {     /* in the memory of a work, zeroed */
    RtEtcd__KeyValue **kvs; /* by key, until _fini; values are cut to RT_ETCD_CARD_MAX */
    size_t count;
    bool more;     /* and there are more */
    bool one_page; /* set before: a thousand keys are enough */
    /* the rest is its own */
    struct rt_work *work;
    bool (*wants)(struct rt_etcd_conn *c, const RtEtcd__KeyValue *kv);
    void (*fn)(struct rt_etcd_conn *c, struct rt_etcd_gather *g, int err);
    struct rt_arena arena;
    size_t room, valued, each;
    int64_t revision;
    uint32_t tries;
    size_t begin_size, end_size, last_size;
    char begin[RT_ETCD_KEY_MAX], end[RT_ETCD_KEY_MAX];
    char last[RT_ETCD_KEY_MAX + 1]; /* the next page begins behind it */
};
/* Which keys: one of these is called first. PREFIX and NAME are at most as long as names. */
void rt_etcd_gather_prefix(struct rt_etcd_gather *g, const char *prefix);
void rt_etcd_gather_line(struct rt_etcd_gather *g, const char *name);
/* Collects, on behalf of W, those that WANTS accepts by their key alone (KV has no lease and no value); then
 * calls FN, with errmsg if ERR. 0, or ROTA_NOMEM and FN is not called. */
int rt_etcd_gather(struct rt_etcd_conn *c, struct rt_etcd_gather *g, struct rt_work *w,
                   bool (*wants)(struct rt_etcd_conn *c, const RtEtcd__KeyValue *kv),
                   void (*fn)(struct rt_etcd_conn *c, struct rt_etcd_gather *g, int err));
void rt_etcd_gather_fini(struct rt_etcd_gather *g); /* a zeroed one is legal */

/* leftovers.c */
struct rt_etcd_leftovers {
    bool known, more; /* known: the search succeeded; more: and there are more keys */
    size_t sessions, dead_sessions, endless;
    uint64_t dead_session;   /* the first whose lease is over: its id */
    uint64_t number;         /* of the first ticket without a lease ... */
    char name[RT_NAME_ROOM]; /* ... and its line, as spelled after the prefix */
    size_t bare;             /* others without a lease that stand where tickets do; the first */
    char bare_key[RT_ETCD_KEY_MAX];
    /* the rest is its own */
    struct rt_work *work;
    void (*fn)(struct rt_etcd_conn *c, struct rt_work *w);
    struct rt_etcd_gather keys;
};
/* Looks for them on behalf of W, in whose memory OUT is; then calls FN. 0, or ROTA_NOMEM and FN is not called. */
int rt_etcd_leftovers(struct rt_etcd_conn *c, struct rt_work *w, struct rt_etcd_leftovers *out,
                      void (*fn)(struct rt_etcd_conn *c, struct rt_work *w));
void rt_etcd_leftovers_fini(struct rt_etcd_leftovers *out); /* a zeroed one is legal */
/* Certainly a ticket of Rota, by its key and its value: the key alone may be that of somebody's data, which is
 * never deleted unless somebody names it. With a leader's bare value it is not certain. */
bool rt_etcd_is_ours(const struct rt_etcd_id *id, const struct rt_etcd_card *card);
/* Such a ticket that no lease will end: nobody can be holding it. KV has its value. */
bool rt_etcd_is_endless(const RtEtcd__KeyValue *kv);

/* inspect.c: what is said of a ticket whose value is not written by us: "lease 7f", "no lease", "a later layout". */
#define RT_ETCD_BARE_LABEL 48
const char *rt_etcd_bare_label(char out[RT_ETCD_BARE_LABEL], int64_t lease, bool newer);

struct rt_etcd_chore;

struct rt_etcd_session {
    uint64_t id; /* its lease; 0: none */
    struct rt_etcd_watch watch;
    size_t unseen;   /* tickets that heartbeats could have looked at since the last look */
    uint64_t looked; /* the session whose keys are being asked for */
    uint32_t looks;  /* 1: they are */
    bool look_again;
    bool by_pages;                          /* without the names of the keys; then: */
    struct rt_etcd_ticket *page, *page_end; /* compared now: those before the latter */
    uint64_t page_serial;
    bool complained; /* that a look has failed */
    bool doubtful;   /* a ticket may stand that we were not told of, or a look has failed */
};

#define RT_ETCD_SPOTS 8 /* of a line, for tickets of ours */

struct rt_etcd_side {
    struct rt_etcd_conn *c;
    struct rt_arena arena;
    struct rt_etcd_line line; /* while an answer is looked at */
    struct rt_turns turns;
    struct rt_etcd_ticket **table, *tickets;
    struct rt_etcd_ticket *doubts;              /* through next */
    size_t table_size, ticket_count, key_bytes; /* bytes: of all their keys */
    int64_t marked_at; /* the revision of our last LEAVE that left a key behind, for at_least_ms */
    uint64_t serial;
    struct rt_etcd_wait *waits;
    uint64_t looks; /* of theirs, so far */
    struct rt_etcd_least *leasts;
    struct rt_etcd_chore *chores;
    struct rt_timer_call least_timer;
    struct rt_observers observers;
    struct rt_etcd_session session;
    bool closing;
    char prefix[RT_NAME_ROOM];
    size_t sessions_size; /* of the prefix of session keys */
    char sessions[RT_NAME_ROOM + sizeof(RT_ETCD_SESSIONS)];
};

static inline struct rt_etcd_side *rt_etcd_s(struct rt_etcd_conn *c)
{
    return *rt_etcd_side(c);
}

/* ---- Files to each other ----------------------------------------------------------------------------- */

/* wait.c. T waits (AIM: what to watch, or NULL: it finds out), or holds and is armed. */
void rt_etcd_wait_begin(struct rt_etcd_conn *c, struct rt_etcd_ticket *t,
                        const struct rt_etcd_aim *aim);
void rt_etcd_arm(struct rt_etcd_conn *c, struct rt_etcd_ticket *t);
void rt_etcd_wait_end(struct rt_etcd_conn *c, struct rt_etcd_ticket *t); /* also if there is none */
/* Everything that a BEAT catches up on. */
void rt_etcd_wait_catch_up(struct rt_etcd_conn *c);
/* Looks at one ticket of ours: lost if it is not there. */
void rt_etcd_wait_verify(struct rt_etcd_conn *c, struct rt_etcd_ticket *t);
void rt_etcd_wait_close(struct rt_etcd_side *s);

/* Things that nobody waits for, sent until etcd has answered: a ticket NUMBER is touched; a ticket that has
 * no lease and was last changed at NUMBER is taken out (SWEEP: as it was read, or not at all); the lease
 * NUMBER is revoked. */
enum rt_etcd_chore_kind { RT_ETCD_TOUCH, RT_ETCD_SWEEP, RT_ETCD_REVOKE };
void rt_etcd_chore(struct rt_etcd_conn *c, enum rt_etcd_chore_kind kind, const void *key,
                   size_t size, uint64_t number);
void rt_etcd_chores_close(struct rt_etcd_side *s);

/* least.c. T is granted: puts it on a lease of its own, then calls FN, with an error if that failed. */
typedef void rt_etcd_secured_fn(struct rt_etcd_conn *c, void *arg, int err);
void rt_etcd_least_take(struct rt_etcd_conn *c, struct rt_etcd_ticket *t, struct rt_op *op,
                        rt_etcd_secured_fn *fn, void *arg);
/* Whether T's time is not over yet; then its LEAVE leaves the key. */
bool rt_etcd_least_holds(struct rt_etcd_conn *c, const struct rt_etcd_ticket *t);
/* How much of TTL_MS may be promised from now: no hold lasts longer than the lease it is on. */
uint32_t rt_etcd_least_clamp(struct rt_etcd_conn *c, uint32_t ttl_ms);
/* A LEAVE has failed: the ticket ends with its time all the same. */
void rt_etcd_least_refused(struct rt_etcd_conn *c, struct rt_etcd_ticket *t);
/* The key is marked, and on LEASE now (0: still on its own): it ends with its time. */
void rt_etcd_least_left(struct rt_etcd_conn *c, struct rt_etcd_ticket *t, int64_t lease);
/* Seconds for a lease that lasts as long as T's time, even on a server whose clock is a thousandth fast. */
int64_t rt_etcd_least_seconds(struct rt_etcd_conn *c, const struct rt_etcd_ticket *t);
void rt_etcd_least_end(struct rt_etcd_conn *c, struct rt_etcd_ticket *t); /* the ticket has ended */
void rt_etcd_least_fire(struct rt_timer_call *call, int64_t now);
bool rt_etcd_leasts_busy(const struct rt_etcd_side *s); /* an answer may leave one to revoke */
void rt_etcd_leasts_close(struct rt_etcd_side *s);

/* session.c, verify.c */
void rt_etcd_session_lost(struct rt_etcd_conn *c, uint64_t id);
void rt_etcd_session_end(struct rt_etcd_conn *c); /* ours is over, unless tickets stand on it */
void rt_etcd_verify(struct rt_etcd_conn *c);      /* asks what etcd knows of our tickets */
size_t rt_etcd_session_key(struct rt_etcd_conn *c, uint64_t id, char out[RT_ETCD_KEY_MAX]);
/* Asks for the key of session ID, for W (may be NULL): its value is the label. 0, or ROTA_NOMEM. */
int rt_etcd_ask_session(struct rt_etcd_conn *c, struct rt_work *w, uint64_t id,
                        rt_etcd_answer_fn *answer, void *owner, uint64_t extra);

/* observe.c */
extern const struct rt_observer_user rt_etcd_observer_user;

/* side.c: whether a JOIN of this ticket is under way. */
bool rt_etcd_joining(struct rt_etcd_conn *c, const char *name, uint64_t nonce);
void rt_etcd_label(struct rt_etcd_conn *c, struct rt_etcd_card *card); /* ours, into CARD */
int rt_etcd_check_name(struct rt_etcd_conn *c, const char *name);
int64_t rt_etcd_wall_ms(void);
/* Seconds for a lease of MS milliseconds, at least 1. */
int64_t rt_etcd_seconds(int64_t ms);

#endif
