/* SPDX-License-Identifier: Apache-2.0 */
/* The branches of one transaction: what the journal knows of them, joined with what each database has. */
#include "txn/cli/parts.h"

#include "txn/cli/plans.h"
#include "txn/manager/tcc.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_MS 150 /* InnoDB shows news only to those who wait 100 ms */

const char *rt_parts_word(enum rt_standing standing)
{
    static const char *const words[] = {"prepared", "committed", "absent", "unknown"};

    return words[standing];
}

static void not_known(struct rt_piece *piece, int err, const char *why)
{
    piece->standing = RT_STANDING_UNKNOWN;
    piece->err = err;
    snprintf(piece->why, sizeof(piece->why), "%s", why);
}

static enum rt_reply order(const struct rt_visit *v, const struct rt_piece *piece,
                           struct rt_part *part, enum rt_party_what what, uint32_t flags, int *err)
{
    struct rt_party_op op = {.what = what, .part = part, .flags = flags};

    op.reply = RT_REPLY_LOST;
    *err = rt_txns_errand_at(v->m, piece->resource, piece->place, &op);
    return op.reply;
}

static struct rt_part part_of(const struct rt_txn_id *id, const struct rt_piece *piece)
{
    struct rt_part part = {.name = {.id = *id, .branch = piece->number}};

    if (piece->found != NULL)
        part.name.deadline_ms = piece->found->name.deadline_ms;
    return part;
}

static void ask(const struct rt_visit *v, const struct rt_txn_id *id, struct rt_piece *piece)
{
    struct rt_part part = part_of(id, piece);
    int err;

    switch (order(v, piece, &part, RT_PARTY_ASK, 0, &err)) {
    case RT_REPLY_PREPARED:
        piece->standing = RT_STANDING_PREPARED;
        break;
    case RT_REPLY_COMMITTED:
        piece->standing = RT_STANDING_COMMITTED;
        break;
    case RT_REPLY_ABSENT:
        piece->standing = RT_STANDING_ABSENT;
        break;
    default:
        not_known(piece, err, rota_txn_errmsg(v->m));
        break;
    }
}

static bool has(const struct rt_parts *p, uint32_t number)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->pieces[i].number == number)
            return true;
    return false;
}

/* Nobody can ask a service what it did with a call: who finishes it, and what that needs. */
static void take_service(struct rt_piece *piece, const struct rt_visit *v,
                         const struct rt_item *item, const struct rt_limb *limb)
{
    bool commit = item->stands == RT_JOURNAL_COMMIT;
    const char *does = commit ? "confirms" : "cancels";
    char why[sizeof(piece->why)];

    piece->service = true;
    if (item->done) {
        piece->standing = commit ? RT_STANDING_COMMITTED : RT_STANDING_ABSENT;
        return;
    }
    if (!commit && item->stands != RT_JOURNAL_ABORT)
        snprintf(why, sizeof(why), "a service: it is confirmed or cancelled once that is decided");
    else if ((limb->mode & ~RT_MODE_ORDERED) == RT_TCC_CALL)
        snprintf(why, sizeof(why),
                 "a service: recovery %s it, in a program that serves %.60s (rota_tcc_serve)", does,
                 limb->resource);
    else if (limb->by_name && !rt_resources_knows(rt_txns_resources(v->m), limb->resource))
        snprintf(why, sizeof(why),
                 "a service: recovery %s it where it knows it: "
                 "add '%.40s = https://...' to ~/.config/rota/txn and run 'rota txn recover'",
                 does, limb->resource);
    else
        snprintf(why, sizeof(why),
                 "a service: recovery %s it: run 'rota txn recover' if no recovery is running",
                 does);
    not_known(piece, 0, why);
}

static void add(struct rt_parts *p, const struct rt_visit *v, const struct rt_item *item,
                const struct rt_limb *limb, const struct rt_survey *s)
{
    const char *resource = limb->resource;
    struct rt_piece *piece = &p->pieces[p->count++];
    const struct rt_site *site = rt_survey_site(s, resource);

    *piece = (struct rt_piece){.number = limb->number, .resource = resource};
    if (rt_tcc_is(limb->mode)) {
        take_service(piece, v, item, limb);
        return;
    }
    piece->place = limb->place.identity != 0 || limb->place.marks[0] != '\0' ? &limb->place : NULL;
    piece->found = rt_survey_find(s, resource, &item->id, limb->number);
    if (piece->found != NULL)
        piece->standing = RT_STANDING_PREPARED;
    else if (site != NULL && site->err != 0)
        not_known(piece, site->err, site->why);
    else
        ask(v, &item->id, piece);
}

static int by_number(const void *a, const void *b)
{
    const struct rt_piece *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

bool rt_parts_make(struct rt_parts *p, const struct rt_visit *v, const struct rt_item *item,
                   const struct rt_survey *s)
{
    p->count = 0;
    p->pieces = calloc(item->count + s->found_count + 1, sizeof(*p->pieces));
    if (p->pieces == NULL)
        return false;
    for (size_t i = 0; !rt_plans_has(item) && i < item->count; i++) /* those are not databases' */
        add(p, v, item, &item->limbs[i], s);
    for (size_t i = 0; i < s->found_count; i++) {
        const struct rt_found *f = &s->found[i];
        const struct rt_limb orphan = {.number = f->name.branch,
                                       .resource = s->sites[f->site].name};
        if (f->ours && rt_txn_id_same(&f->name.id, &item->id) && !has(p, f->name.branch))
            add(p, v, item, &orphan, s);
    }
    qsort(p->pieces, p->count, sizeof(*p->pieces), by_number);
    return true;
}

void rt_parts_free(struct rt_parts *p)
{
    free(p->pieces);
    *p = (struct rt_parts){0};
}

/* ---- Finishing ------------------------------------------------------------------ */

/* One try. True: it is over, as PIECE says. */
static bool try_once(const struct rt_visit *v, const struct rt_txn_id *id, struct rt_piece *piece,
                     bool commit)
{
    struct rt_part part = part_of(id, piece);
    int err;
    enum rt_reply reply = order(v, piece, &part, RT_PARTY_GATE, 0, &err);

    if (reply == RT_REPLY_CLEAR)
        reply = order(v, piece, &part, commit ? RT_PARTY_COMMIT : RT_PARTY_ROLLBACK, 0, &err);
    if (reply == RT_REPLY_DONE) {
        piece->standing = commit ? RT_STANDING_COMMITTED : RT_STANDING_ABSENT;
        return true;
    }
    if (reply == RT_REPLY_ABSENT) /* a fence: what is not yet prepared never will be */
        reply = order(v, piece, &part, RT_PARTY_ASK, commit ? 0 : RT_PARTY_FENCE, &err);
    if (reply == RT_REPLY_COMMITTED || reply == RT_REPLY_ABSENT) {
        piece->standing = reply == RT_REPLY_COMMITTED ? RT_STANDING_COMMITTED : RT_STANDING_ABSENT;
        return true;
    }
    not_known(piece, err, rota_txn_errmsg(v->m));
    return err == ROTA_UNSUPPORTED || err == ROTA_AUTH; /* nobody would fare better */
}

bool rt_parts_finish(const struct rt_visit *v, const struct rt_txn_id *id, struct rt_piece *piece,
                     bool commit, int64_t limit_ms)
{
    int64_t until = rt_visit_wall_ms() + limit_ms;

    while (!piece->service && !try_once(v, id, piece, commit) && rt_visit_wall_ms() < until)
        (void)poll(NULL, 0, PAUSE_MS);
    if (piece->standing == (commit ? RT_STANDING_COMMITTED : RT_STANDING_ABSENT))
        return true;
    if (piece->standing == RT_STANDING_ABSENT)
        snprintf(
            piece->why, sizeof(piece->why),
            "the database has neither the branch nor its marker; MariaDB may have lost it, and will have it again after a restart");
    else if (piece->standing == RT_STANDING_COMMITTED)
        snprintf(piece->why, sizeof(piece->why),
                 "the database has committed it, against the decision");
    return false;
}
