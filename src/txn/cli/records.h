/* SPDX-License-Identifier: Apache-2.0 */
/* What the journal says about transactions, kept for a command. */
#ifndef RT_RECORDS_H
#define RT_RECORDS_H

#include "txn/cli/visit.h"

struct rt_limb { /* a branch, as the journal has it */
    uint32_t number;
    uint16_t mode;
    char *resource;
    struct rt_place place; /* a database's: where its marker is */
    bool by_name; /* a service's: its URLs are paths, so whoever calls it must know its name */
};

struct rt_item {
    struct rt_txn_id id;
    enum rt_journal_stand stands;
    bool done;
    int64_t deadline_ms, decided_ms, claimed_ms;
    uint64_t claimer;
    uint32_t registered;
    char *label;
    bool called;           /* a person was called (notes.h); set by the command */
    struct rt_limb *limbs; /* by number, each once */
    size_t count;
};

struct rt_records {
    struct rt_item *items;
    size_t count, room;
    bool failed; /* no memory: something is missing */
};

/* Fill OUT, which rt_records_free empties in any case. 0, or a ROTA_* of the journal. SCAN: what is not done, by
 * deadline; ALL: everything else, too, by birth. */
int rt_records_scan(struct rt_records *out, const struct rt_visit *v, int64_t before_ms);
int rt_records_all(struct rt_records *out, const struct rt_visit *v);
int rt_records_read(struct rt_records *out, const struct rt_visit *v, const struct rt_txn_id *id);
void rt_records_free(struct rt_records *r);

/* NULL: not among them. */
const struct rt_item *rt_records_find(const struct rt_records *r, const struct rt_txn_id *id);

/* How it stands, in a word: "open", "overdue" (undecided past its deadline), "committing", "aborting", "committed",
 * "aborted", "unknown" (no row), "expired". */
const char *rt_records_state(const struct rt_item *item, int64_t now_ms);

/* The branches it has, as far as the journal knows. */
size_t rt_records_branches(const struct rt_item *item);

#endif
