/* SPDX-License-Identifier: Apache-2.0 */
/* What journals share: an op from its submission to its one answer.
 *
 *   submit ──▶ checked, copied into an ask ──▶ the ledger (kit/ledger): kept, sent, sent again ──▶ told, once
 *
 * An ask owns all that it needs, so that whoever works on it (another thread, a flight) may go on after its op was told
 * ROTA_UNKNOWN. An op that cannot become an ask (bad input, no memory) is told from the next turn. */
#ifndef RT_JOURNAL_ASK_H
#define RT_JOURNAL_ASK_H

#include "engine/kit/arena.h"
#include "engine/kit/ledger.h"
#include "txn/journal/journal.h"

struct rt_journal_ask {
    struct rt_entry entry;    /* first: `again` is set, and `reads` if it only reads */
    struct rt_journal_op *op; /* NULL: it was told already */
    /* The op as submitted, except that what it points to is ours; answers are written here. Its branches are NULL: they
     * are kept as bytes (record.h). */
    struct rt_journal_op in;
    const uint8_t *bytes;
    size_t size;
    uint32_t round;      /* which steps are due; the journal's */
    size_t first, steps; /* in a flight; the journal's */
    void *extra;         /* the journal's */
};

struct rt_journal_desk { /* embedded in a journal; zeroed before the first use */
    struct rt_journal *j;
    struct rt_ledger ledger;
    struct rt_journal_op *refused, **tail; /* to be told from the next turn */
    struct rt_timer_call timer;
    uint32_t number; /* of the journal; 0: not known yet */
};

/* Reserves two timers of the loop. 0, or ROTA_NOMEM with errmsg. */
int rt_journal_desk_init(struct rt_journal_desk *d, struct rt_journal *j,
                         const struct rt_ledger_user *user);
/* FREE is called with each ask still in the ledger. */
void rt_journal_desk_fini(struct rt_journal_desk *d,
                          void (*free)(struct rt_ledger *l, struct rt_entry *e));

/* Checks and copies OP, and adds it to the ledger. */
void rt_journal_desk_submit(struct rt_journal_desk *d, struct rt_journal_op *op);

/* A, which has left the ledger, is answered: what A->in says goes into the op, which is given back with ERR. A was not
 * told before. A itself stays its owner's. */
void rt_journal_ask_tell(struct rt_journal_desk *d, struct rt_journal_ask *a, int err);
void rt_journal_ask_free(struct rt_journal_ask *a);

/* Whether the ask needs stable storage before it is answered, and whether it changes anything. */
bool rt_journal_ask_durable(const struct rt_journal_ask *a);
bool rt_journal_ask_reads(const struct rt_journal_ask *a);
/* The id it is about; NULL: none, or several. */
const struct rt_txn_id *rt_journal_ask_id(const struct rt_journal_ask *a);
/* ROTA_INVALID with errmsg: it is about an id of another journal than D->number, which is known. */
int rt_journal_ask_foreign(struct rt_journal_desk *d, const struct rt_journal_ask *a);
/* A FORGET: how far it may go, once it is known what time it is (NOW_MS) and up to when the floor may go (NEWEST_MS;
 * 0: it stays): before_ms sinks to that, and floor_ms is what the floor is to be raised to. */
void rt_journal_ask_clamp(struct rt_journal_ask *a, int64_t now_ms, int64_t newest_ms);

static inline struct rt_journal_ask *rt_journal_ask_of(struct rt_entry *e)
{
    return (struct rt_journal_ask *)(void *)e;
}

#endif
