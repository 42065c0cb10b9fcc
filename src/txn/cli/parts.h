/* SPDX-License-Identifier: Apache-2.0 */
/* The branches of one transaction: what the journal knows of them, joined with what each database has. */
#ifndef RT_PARTS_H
#define RT_PARTS_H

#include "txn/cli/survey.h"

enum rt_standing {
    RT_STANDING_PREPARED,
    RT_STANDING_COMMITTED, /* its marker is there */
    RT_STANDING_ABSENT,    /* neither */
    RT_STANDING_UNKNOWN, /* the database cannot be asked, or it is a service, which never can: `why` */
};

struct rt_piece {
    uint32_t number;
    const char *resource;         /* the record's or survey's */
    const struct rt_place *place; /* where its marker is; NULL: not known */
    const struct rt_found *found; /* prepared: as the survey found it; NULL: it did not */
    bool service; /* only recovery calls it. UNKNOWN until the transaction is done */
    enum rt_standing standing;
    int err;       /* UNKNOWN: ROTA_*; UNSUPPORTED: the resource is not known on this machine */
    char why[200]; /* UNKNOWN: in words */
};

struct rt_parts {
    struct rt_piece *pieces; /* by number */
    size_t count;
};

/* ITEM's branches: the journal's, and any others that the survey found. Asks about those that are not prepared. False:
 * no memory. rt_parts_free in any case. ITEM and S must stay valid. */
bool rt_parts_make(struct rt_parts *p, const struct rt_visit *v, const struct rt_item *item,
                   const struct rt_survey *s);
void rt_parts_free(struct rt_parts *p);

const char *rt_parts_word(enum rt_standing standing);

/* Finishes PIECE as decided: takes it over on a keeper's connection once the one that prepared it is gone, and asks
 * what became of it. Tries for LIMIT_MS. True: it is as COMMIT says; else its `why` says what is in the way. Its
 * standing is updated in any case. */
bool rt_parts_finish(const struct rt_visit *v, const struct rt_txn_id *id, struct rt_piece *piece,
                     bool commit, int64_t limit_ms);

#endif
