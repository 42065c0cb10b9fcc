/* SPDX-License-Identifier: Apache-2.0 */
/* Grouping of operations into holds, and the earliest end of one hold. */
#include "holds.h"

#include <rota.h>
#include <stdlib.h>

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int cmp64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* ---- Grouping ----------------------------------------------------------- */

/* An exclusive hold is named by its fence. Shared ones may share a number between the readers of a
 * process, and without fences there is none: there the client is the name. */
static bool by_fence(const struct rt_record *r)
{
    return r->mode == ROTA_EXCLUSIVE && r->fence != 0;
}

static uint64_t key_client(const struct rt_record *r)
{
    return by_fence(r) ? 0 : r->client;
}

static int cmp_group(const struct rt_record *a, const struct rt_record *b)
{
    int c = cmp64(a->lock, b->lock);

    c = c != 0 ? c : (a->mode > b->mode) - (a->mode < b->mode);
    c = c != 0 ? c : cmp64(a->fence, b->fence);
    return c != 0 ? c : cmp64(key_client(a), key_client(b));
}

static int cmp_owner(const struct rt_record *a, const struct rt_record *b)
{
    int c = cmp64(a->owner, b->owner);

    return c != 0 || a->owner != 0 ? c : cmp64(a->client, b->client);
}

static int by_group(const void *a, const void *b)
{
    const struct rt_record *x = *(const struct rt_record *const *)a;
    const struct rt_record *y = *(const struct rt_record *const *)b;
    int c = cmp_group(x, y);

    c = c != 0 ? c : cmp_owner(x, y);
    c = c != 0 ? c : (x->t_inv > y->t_inv) - (x->t_inv < y->t_inv);
    return c != 0 ? c : cmp64(x->kind, y->kind);
}

/* Broken fences (by lock and fence) first, then processes. */
static int by_end(const void *a, const void *b)
{
    const struct rt_record *x = *(const struct rt_record *const *)a;
    const struct rt_record *y = *(const struct rt_record *const *)b;
    int c = (x->fence == 0) - (y->fence == 0);

    if (c != 0)
        return c;
    if (x->fence == 0)
        return (x->process > y->process) - (x->process < y->process);
    c = cmp64(x->lock, y->lock);
    return c != 0 ? c : cmp64(x->fence, y->fence);
}

/* The first of the ends that is not before KEY in by_end's order. */
static size_t end_find(const struct rt_holds *hs, const struct rt_record *key)
{
    size_t lo = 0, hi = hs->end_count;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (by_end(&hs->ends[mid], &key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* A process number is reused, but not before the one that ended was reaped: what began after the END
 * had returned belongs to another process. */
static int64_t ends_from(const struct rt_holds *hs, const struct rt_record *acquire)
{
    const struct rt_record broken = {.lock = acquire->lock, .fence = acquire->fence};
    const struct rt_record gone = {.process = acquire->process};
    const struct rt_record *keys[] = {&broken, &gone};
    int64_t from = INT64_MAX;

    for (size_t k = acquire->fence == 0 ? 1 : 0; k < 2; k++) {
        for (size_t i = end_find(hs, keys[k]); i < hs->end_count; i++) {
            if (by_end(&hs->ends[i], &keys[k]) != 0)
                break;
            if (hs->ends[i]->t_ret > acquire->t_inv)
                from = min64(from, hs->ends[i]->t_inv);
        }
    }
    return from;
}

static void hold_add(struct rt_holds *hs, const struct rt_record **ops, size_t n)
{
    struct rt_hold *h = &hs->holds[hs->count++];
    size_t open = 0;

    *h = (struct rt_hold){.ops = ops, .n = n};
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->kind == RT_ACQUIRE) {
            open++;
            if (h->first == NULL || ops[i]->t_inv < h->first->t_inv)
                h->first = ops[i];
        } else if (ops[i]->kind == RT_RELEASE && open > 0) {
            open--;
        }
    }
    h->released = open == 0;
    h->ends_from = ends_from(hs, h->first);
}

/* Cuts the operations of one owner where its depth comes back to 0. What follows a cut and is not an
 * acquire stays with the hold before it, where it will be found stale. */
static void split_owner(struct rt_holds *hs, const struct rt_record **ops, size_t n,
                        struct rt_report *report)
{
    size_t begin = 0, depth = 0;
    bool any = false;

    for (size_t i = 0; i < n; i++) {
        bool acquire = ops[i]->kind == RT_ACQUIRE;

        if (!acquire && !any) {
            if (ops[i]->result == RT_OK)
                rt_report_add(report, RT_FOUND_ORPHAN_OP, ops[i], NULL, "nobody was granted that");
            begin = i + 1;
            continue;
        }
        if (acquire && depth == 0 && any) {
            hold_add(hs, ops + begin, i - begin);
            begin = i;
        }
        any = true;
        if (acquire)
            depth++;
        else if (ops[i]->kind == RT_RELEASE && ops[i]->result == RT_OK && depth > 0)
            depth--;
    }
    if (any)
        hold_add(hs, ops + begin, n - begin);
}

static int by_grant(const void *a, const void *b)
{
    const struct rt_hold *x = a, *y = b;

    return (x->first->t_ret > y->first->t_ret) - (x->first->t_ret < y->first->t_ret);
}

static void split_group(struct rt_holds *hs, const struct rt_record **ops, size_t n,
                        struct rt_report *report)
{
    size_t before = hs->count;
    struct rt_hold *h = hs->holds + before;

    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && cmp_owner(ops[i], ops[j]) == 0; j++)
            ;
        split_owner(hs, ops + i, j - i, report);
    }
    if (!by_fence(ops[0]))
        return;
    qsort(h, hs->count - before, sizeof(*h), by_grant);
    for (size_t i = 1; i < hs->count - before; i++) {
        if (h[i].first->process != h[i - 1].first->process)
            rt_report_add(report, RT_FOUND_DUP_FENCE, h[i - 1].first, h[i].first,
                          "one fence in two processes");
        else if (!h[i - 1].released)
            rt_report_add(report, RT_FOUND_BAD_PASS, h[i - 1].first, h[i].first,
                          "passed on though the first was not released");
    }
}

/* Without passing on, a fence is one hold: of one acquire, or of several by one owner. */
static void join_group(struct rt_holds *hs, const struct rt_record **ops, size_t n,
                       struct rt_report *report)
{
    const struct rt_record *first = NULL;

    for (size_t i = 0; i < n; i++) {
        if (ops[i]->kind != RT_ACQUIRE)
            continue;
        if (first != NULL && (first->owner == 0 || first->owner != ops[i]->owner)) {
            rt_report_add(report, RT_FOUND_DUP_FENCE, first, ops[i], "one fence granted twice");
            return;
        }
        first = ops[i];
    }
    if (first != NULL)
        hold_add(hs, ops, n);
    for (size_t i = 0; first == NULL && i < n; i++) {
        if (ops[i]->result == RT_OK)
            rt_report_add(report, RT_FOUND_ORPHAN_OP, ops[i], NULL, "nobody was granted that");
    }
}

static bool matters(const struct rt_record *r)
{
    switch (r->kind) {
    case RT_ACQUIRE: /* info: may never have happened; gaps between fences are legal */
    case RT_RENEW:
        return r->result == RT_OK;
    case RT_RELEASE:
        return r->result != RT_FAIL;
    default:
        return false;
    }
}

static void *need(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);

    if (p == NULL)
        abort();
    return p;
}

void rt_holds_init(struct rt_holds *hs, const struct rt_record *records, size_t n,
                   const struct rt_check_options *opts, struct rt_report *report)
{
    *hs = (struct rt_holds){
        .ops = need(n, sizeof(*hs->ops)),
        .ends = need(n, sizeof(*hs->ends)),
        .holds = need(n, sizeof(*hs->holds)),
        .points = need(n, sizeof(*hs->points)),
        .infos = need(n, sizeof(*hs->infos)),
        .releases = need(n, sizeof(*hs->releases)),
    };
    for (size_t i = 0; i < n; i++) {
        if (matters(&records[i]))
            hs->ops[hs->op_count++] = &records[i];
        else if (records[i].kind == RT_END)
            hs->ends[hs->end_count++] = &records[i];
    }
    qsort(hs->ops, hs->op_count, sizeof(*hs->ops), by_group);
    qsort(hs->ends, hs->end_count, sizeof(*hs->ends), by_end);
    for (size_t i = 0, j; i < hs->op_count; i = j) {
        for (j = i + 1; j < hs->op_count && cmp_group(hs->ops[i], hs->ops[j]) == 0; j++)
            ;
        if (by_fence(hs->ops[i]) && !opts->passing)
            join_group(hs, hs->ops + i, j - i, report);
        else
            split_group(hs, hs->ops + i, j - i, report);
    }
}

void rt_holds_fini(struct rt_holds *hs)
{
    free(hs->ops);
    free(hs->ends);
    free(hs->holds);
    free(hs->points);
    free(hs->infos);
    free(hs->releases);
}

/* ---- The earliest end --------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int by_ret(const void *a, const void *b)
{
    const struct rt_record *x = *(const struct rt_record *const *)a;
    const struct rt_record *y = *(const struct rt_record *const *)b;

    return (x->t_ret > y->t_ret) - (x->t_ret < y->t_ret);
}

struct placing {
    size_t acquires, releases, infos;
    int64_t end, deadline;
};

/* Acquires and renewals at their earliest; releases are only collected. */
static const struct rt_record *place_ops(struct rt_holds *hs, const struct rt_hold *h, int64_t p,
                                         struct placing *at)
{
    for (size_t i = 0; i < h->n; i++) {
        const struct rt_record *r = h->ops[i];
        int64_t q = max64(p, r->t_inv);

        if (r->kind == RT_RELEASE) {
            if (r->result == RT_OK)
                hs->releases[at->releases++] = r;
            else
                hs->infos[at->infos++] = r->t_inv;
            continue;
        }
        if (q >= r->t_ret)
            return r;
        if (r->kind == RT_ACQUIRE)
            hs->points[at->acquires++] = q;
        at->end = max64(at->end, q);
        at->deadline = max64(at->deadline, r->deadline == 0 ? INT64_MAX : r->deadline);
    }
    return NULL;
}

/* The k-th release may come once the (k+1)-th acquire has, or the hold would be over too early; the last
 * one when everything else has. So there are places that open one after the other, and the
 * release that must be first takes the one that opens first. */
static const struct rt_record *place_releases(struct rt_holds *hs, struct placing *at)
{
    int64_t all = at->end;

    if (at->releases > at->acquires)
        return hs->releases[at->releases - 1];
    qsort(hs->points, at->acquires, sizeof(*hs->points), by_value);
    qsort(hs->releases, at->releases, sizeof(*hs->releases), by_ret);
    for (size_t k = 0; k < at->releases; k++) {
        const struct rt_record *r = hs->releases[k];
        int64_t q = max64(k + 1 == at->acquires ? all : hs->points[k + 1], r->t_inv);

        if (q >= r->t_ret)
            return r;
        at->end = max64(at->end, q);
    }
    return NULL;
}

bool rt_hold_place(struct rt_holds *hs, const struct rt_hold *h, int64_t p, int64_t *end,
                   const struct rt_record **bad, enum rt_finding *why)
{
    struct placing at = {.end = p};

    *bad = place_ops(hs, h, p, &at);
    if (*bad != NULL) {
        *why = (*bad)->kind == RT_ACQUIRE ? RT_FOUND_EARLY_GRANT : RT_FOUND_STALE_RENEW;
        return false;
    }
    *bad = place_releases(hs, &at);
    *why = RT_FOUND_STALE_RELEASE;
    if (*bad != NULL)
        return false;
    if (at.releases < at.acquires) {
        size_t missing = at.acquires - at.releases;
        int64_t over = min64(at.deadline, h->ends_from);

        qsort(hs->infos, at.infos, sizeof(*hs->infos), by_value);
        if (at.infos >= missing)
            over = min64(over, hs->infos[missing - 1]);
        at.end = max64(at.end, over);
    }
    *end = at.end;
    return true;
}
