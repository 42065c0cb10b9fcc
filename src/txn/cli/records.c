/* SPDX-License-Identifier: Apache-2.0 */
/* What the journal says about transactions, kept for a command. */
#include "txn/cli/records.h"

#include "txn/http/payload.h"
#include "txn/manager/tcc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct rt_limb *find_limb(const struct rt_item *item, uint32_t number)
{
    for (size_t i = 0; i < item->count; i++)
        if (item->limbs[i].number == number)
            return &item->limbs[i];
    return NULL;
}

static bool is_by_name(const struct rt_journal_branch *b)
{
    struct rt_http_payload p;
    bool is = false;

    if ((b->mode & ~RT_MODE_ORDERED) == RT_TCC_HTTP &&
        rt_http_payload_read(b->payload, b->size, &p))
        for (size_t i = 0; i < 3; i++)
            is = is || p.urls[i][0] == '/';
    return is;
}

/* False: no memory. */
static bool copy_limbs(struct rt_item *item, const struct rt_journal_record *record)
{
    item->limbs = calloc(record->branch_count + 1, sizeof(*item->limbs));
    if (item->limbs == NULL)
        return false;
    for (size_t i = 0; i < record->branch_count; i++) {
        const struct rt_journal_branch *b = &record->branches[i];
        if (find_limb(item, b->number) != NULL || b->mode == RT_VOUCHER)
            continue; /* both in the decision and registered; no branch */
        struct rt_limb *limb = &item->limbs[item->count];
        *limb = (struct rt_limb){
            .number = b->number, .mode = b->mode, .resource = strdup(b->resource)};
        limb->by_name = is_by_name(b);
        if (!rt_tcc_is(b->mode))
            (void)rt_place_read(b->payload, b->size, &limb->place);
        if (limb->resource == NULL)
            return false;
        item->count++;
    }
    return true;
}

static void take(void *arg, const struct rt_journal_record *record)
{
    struct rt_records *r = arg;

    if (r->failed)
        return;
    if (r->count == r->room) {
        size_t room = r->room == 0 ? 16 : r->room * 2;
        struct rt_item *items = realloc(r->items, room * sizeof(*items));
        r->failed = items == NULL;
        if (r->failed)
            return;
        r->items = items;
        r->room = room;
    }
    struct rt_item *item = &r->items[r->count++];
    *item = (struct rt_item){.id = record->id,
                             .stands = record->stands,
                             .done = record->done,
                             .deadline_ms = record->deadline_ms,
                             .decided_ms = record->decided_ms,
                             .claimed_ms = record->claimed_ms,
                             .claimer = record->claimer,
                             .registered = record->registered,
                             .label = strdup(record->label != NULL ? record->label : "")};
    r->failed = !copy_limbs(item, record) || item->label == NULL;
}

/* Page by page. */
static int scan(struct rt_records *out, const struct rt_visit *v, int64_t before_ms, bool all)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_SCAN,
                               .scan = {.before_ms = before_ms,
                                        .limit = RT_JOURNAL_PAGE_MAX,
                                        .all = all,
                                        .each = take,
                                        .arg = out}};
    int err;

    *out = (struct rt_records){0};
    do {
        op.deadline = 0;
        err = rt_txns_ask(v->m, &op);
    } while (err == 0 && op.scan.more && !out->failed);
    return err != 0 ? err : out->failed ? ROTA_NOMEM : 0;
}

int rt_records_scan(struct rt_records *out, const struct rt_visit *v, int64_t before_ms)
{
    return scan(out, v, before_ms, false);
}

int rt_records_all(struct rt_records *out, const struct rt_visit *v)
{
    return scan(out, v, INT64_MAX, true);
}

int rt_records_read(struct rt_records *out, const struct rt_visit *v, const struct rt_txn_id *id)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_READ,
                               .read = {.id = *id, .each = take, .arg = out}};

    *out = (struct rt_records){0};
    int err = rt_txns_ask(v->m, &op);
    if (err == 0 && out->failed)
        err = ROTA_NOMEM;
    assert(err != 0 || out->count == 1);
    return err;
}

void rt_records_free(struct rt_records *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct rt_item *item = &r->items[i];
        for (size_t k = 0; item->limbs != NULL && k < item->count; k++)
            free(item->limbs[k].resource);
        free(item->limbs);
        free(item->label);
    }
    free(r->items);
    *r = (struct rt_records){0};
}

const struct rt_item *rt_records_find(const struct rt_records *r, const struct rt_txn_id *id)
{
    for (size_t i = 0; i < r->count; i++)
        if (rt_txn_id_same(&r->items[i].id, id))
            return &r->items[i];
    return NULL;
}

const char *rt_records_state(const struct rt_item *item, int64_t now_ms)
{
    switch (item->stands) {
    case RT_JOURNAL_OPEN:
        return item->deadline_ms < now_ms ? "overdue" : "open";
    case RT_JOURNAL_COMMIT:
        return item->done ? "committed" : "committing";
    case RT_JOURNAL_ABORT:
        return item->done ? "aborted" : "aborting";
    case RT_JOURNAL_EXPIRED:
        return "expired";
    default:
        return "unknown";
    }
}

size_t rt_records_branches(const struct rt_item *item)
{
    return item->registered > item->count ? item->registered : item->count;
}
