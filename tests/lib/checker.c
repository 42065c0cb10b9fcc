/* SPDX-License-Identifier: Apache-2.0 */
/* The exact check of exclusive, shared and permit holds. */
#include "checker.h"

#include "holds.h"

#include <rota.h>
#include <stdlib.h>

/* A shared or permit hold at its shortest. */
struct span {
    int64_t from, to;
    const struct rt_hold *hold;
    size_t widest; /* among the spans up to this one, the one that ends last */
};

struct check {
    struct rt_holds holds;
    struct rt_report *report;
    struct span *spans; /* of one lock, by `from` */
    size_t span_count;
};

static int by_from(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return (x->from > y->from) - (x->from < y->from);
}

static const char *sentence(enum rt_finding finding)
{
    switch (finding) {
    case RT_FOUND_EARLY_GRANT:
        return "granted while the first was certainly held";
    case RT_FOUND_STALE_RENEW:
        return "renewed after the hold was certainly over";
    case RT_FOUND_STALE_RELEASE:
        return "released after the hold was certainly over, or once too often";
    default:
        return "shared and exclusive at once";
    }
}

/* ---- Shared holds and permits ------------------------------------------- */

static void span_add(struct check *c, const struct rt_hold *h)
{
    const struct rt_record *bad;
    enum rt_finding why;
    struct span s = {.from = h->first->t_ret - 1, .hold = h};

    for (size_t i = 0; i < h->n; i++) {
        if (h->ops[i] != h->first && h->ops[i]->t_inv < h->first->t_ret) {
            rt_report_add(c->report, RT_FOUND_MALFORMED, h->first, h->ops[i],
                          "used before its acquire returned");
            return;
        }
    }
    if (!rt_hold_place(&c->holds, h, s.from, &s.to, &bad, &why))
        rt_report_add(c->report, why, h->first, bad, sentence(why));
    else if (s.from < s.to)
        c->spans[c->span_count++] = s;
    else
        c->report->loose++; /* over before it was told: it may have been at any other time */
}

static void spans_collect(struct check *c, const struct rt_hold *holds, size_t n)
{
    c->span_count = 0;
    for (size_t i = 0; i < n; i++)
        span_add(c, &holds[i]);
    qsort(c->spans, c->span_count, sizeof(*c->spans), by_from);
    for (size_t i = 0; i < c->span_count; i++) {
        size_t before = i == 0 ? 0 : c->spans[i - 1].widest;

        c->spans[i].widest = c->spans[i].to >= c->spans[before].to ? i : before;
    }
}

/* The span that forbids a writer from FROM to TO and ends last, or NULL. */
static const struct span *span_between(const struct check *c, int64_t from, int64_t to)
{
    size_t lo = 0, hi = c->span_count;
    const struct span *s;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (c->spans[mid].from < to)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0)
        return NULL;
    s = &c->spans[c->spans[lo - 1].widest];
    return s->to > from ? s : NULL;
}

struct edge {
    int64_t at;
    bool begins; /* at one time, ends come first */
    const struct span *span;
};

static int by_edge(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    int c = (x->at > y->at) - (x->at < y->at);

    return c != 0 ? c : x->begins - y->begins;
}

/* Exclusive holds without fences are permits, 1 of 1. */
static uint32_t take_of(const struct rt_record *r)
{
    return r->mode == ROTA_PERMITS ? r->take : 1;
}

static uint32_t capacity_of(const struct rt_record *r)
{
    return r->mode == ROTA_PERMITS ? r->of : 1;
}

static void sweep(struct check *c, struct edge *edges, size_t n)
{
    uint64_t taken = 0;
    const struct rt_record *last = NULL;

    qsort(edges, n, sizeof(*edges), by_edge);
    for (size_t i = 0; i < n; i++) {
        const struct rt_record *r = edges[i].span->hold->first;

        if (!edges[i].begins) {
            taken -= take_of(r);
            continue;
        }
        taken += take_of(r);
        if (taken > capacity_of(r))
            rt_report_add(c->report,
                          r->mode == ROTA_PERMITS ? RT_FOUND_OVERDRAFT : RT_FOUND_EARLY_GRANT, last,
                          r, "more is held than there is");
        last = r;
    }
}

static void check_permits(struct check *c, const struct rt_hold *holds, size_t n)
{
    struct edge *edges = calloc(2 * n + 1, sizeof(*edges));
    size_t count = 0;

    if (edges == NULL)
        abort();
    spans_collect(c, holds, n);
    for (size_t i = 0; i < c->span_count; i++) {
        const struct span *s = &c->spans[i];

        if (capacity_of(s->hold->first) != capacity_of(holds[0].first))
            rt_report_add(c->report, RT_FOUND_MALFORMED, holds[0].first, s->hold->first,
                          "one line, two numbers of permits");
        edges[count++] = (struct edge){.at = s->from, .begins = true, .span = s};
        edges[count++] = (struct edge){.at = s->to, .begins = false, .span = s};
    }
    sweep(c, edges, count);
    free(edges);
}

/* ---- Exclusive holds ---------------------------------------------------- */

/* Puts H after T, past the readers that it cannot precede; returns when it is over. After a finding the
 * chain starts anew, so that one wrong grant is not reported again for all that follow. */
static int64_t chain_hold(struct check *c, const struct rt_hold *h, const struct rt_hold *before,
                          int64_t t)
{
    const struct rt_record *bad, *other = before != NULL ? before->first : NULL;
    const struct span *reader = NULL;
    enum rt_finding why;
    int64_t p = t > h->first->t_inv ? t : h->first->t_inv;
    int64_t end = 0;

    while (rt_hold_place(&c->holds, h, p, &end, &bad, &why)) {
        const struct span *s = span_between(c, p, end);

        if (s == NULL)
            return end;
        reader = s;
        p = s->to;
    }
    if (reader != NULL)
        rt_report_add(c->report, RT_FOUND_READER_WRITER, reader->hold->first, h->first,
                      sentence(RT_FOUND_READER_WRITER));
    else
        rt_report_add(c->report, why, bad->kind == RT_ACQUIRE ? other : h->first, bad,
                      sentence(why));
    return rt_hold_place(&c->holds, h, h->first->t_inv, &end, &bad, &why) ? end : INT64_MIN;
}

static void check_lock(struct check *c, const struct rt_hold *holds, size_t n)
{
    size_t unfenced = 0, exclusive, shared;
    int64_t t = INT64_MIN;

    while (unfenced < n && holds[unfenced].first->mode == ROTA_EXCLUSIVE &&
           holds[unfenced].first->fence == 0)
        unfenced++;
    for (exclusive = unfenced; exclusive < n; exclusive++) {
        if (holds[exclusive].first->mode != ROTA_EXCLUSIVE)
            break;
    }
    for (shared = exclusive; shared < n && holds[shared].first->mode == ROTA_SHARED; shared++)
        ;
    if ((unfenced > 0 && unfenced < n) || (shared > 0 && shared < n))
        rt_report_add(c->report, RT_FOUND_MALFORMED, holds[0].first, holds[n - 1].first,
                      "two kinds of line under one name");
    check_permits(c, holds, unfenced);
    check_permits(c, holds + shared, n - shared);
    spans_collect(c, holds + exclusive, shared - exclusive);
    for (size_t i = unfenced; i < exclusive; i++)
        t = chain_hold(c, &holds[i], i > unfenced ? &holds[i - 1] : NULL, t);
}

void rt_check_locks(const struct rt_record *records, size_t n, const struct rt_check_options *opts,
                    struct rt_report *report)
{
    const struct rt_check_options none = {0};
    struct check c = {.report = report, .spans = calloc(n + 1, sizeof(*c.spans))};

    if (c.spans == NULL)
        abort();
    rt_holds_init(&c.holds, records, n, opts != NULL ? opts : &none, report);
    report->records += n;
    report->holds += c.holds.count;
    for (size_t i = 0, j; i < c.holds.count; i = j) {
        uint64_t lock = c.holds.holds[i].first->lock;

        for (j = i + 1; j < c.holds.count && c.holds.holds[j].first->lock == lock; j++)
            ;
        check_lock(&c, c.holds.holds + i, j - i);
    }
    rt_holds_fini(&c.holds);
    free(c.spans);
}
