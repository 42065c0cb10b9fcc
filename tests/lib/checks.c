/* SPDX-License-Identifier: Apache-2.0 */
/* The checks besides exclusion: order, beliefs, the resource, clients, what is left, liveness. */
#include "checker.h"

#include <rota.h>
#include <stdio.h>
#include <stdlib.h>

typedef bool wanted_fn(const struct rt_record *r, uint64_t lock);
typedef int compare_fn(const void *a, const void *b);

static int cmp64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int cmp_time(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Pointers to the records that WANTED accepts, in the order of COMPARE. The caller's to free. */
static const struct rt_record **select_records(const struct rt_record *records, size_t n,
                                               wanted_fn *wanted, uint64_t lock,
                                               compare_fn *compare, size_t *count)
{
    const struct rt_record **out = calloc(n + 1, sizeof(*out));

    if (out == NULL)
        abort();
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        if (wanted(&records[i], lock))
            out[(*count)++] = &records[i];
    }
    qsort(out, *count, sizeof(*out), compare);
    return out;
}

/* ---- Order of arrival --------------------------------------------------- */

static bool has_ticket(const struct rt_record *r, uint64_t lock)
{
    (void)lock;
    return r->ticket != 0 && r->result == RT_OK &&
           (r->kind == RT_ACQUIRE || r->kind == RT_ENQUEUE || r->kind == RT_CANCEL);
}

/* Per ticket: acquires, then the enqueue, then a cancel. */
static int by_ticket(const void *a, const void *b)
{
    const struct rt_record *x = *(const struct rt_record *const *)a;
    const struct rt_record *y = *(const struct rt_record *const *)b;
    int c = cmp64(x->lock, y->lock);

    c = c != 0 ? c : cmp64(x->ticket, y->ticket);
    return c != 0 ? c : cmp64(x->kind, y->kind);
}

struct arrival {
    const struct rt_record *enqueue, *grant;
};

static int by_number_down(const void *a, const void *b)
{
    const struct arrival *x = a, *y = b;
    int c = cmp64(x->grant->lock, y->grant->lock);

    return c != 0 ? c : -cmp64(x->grant->fence, y->grant->fence);
}

static size_t arrivals_join(const struct rt_record **ops, size_t n, struct arrival *out)
{
    size_t count = 0;

    for (size_t i = 0, j; i < n; i = j) {
        const struct rt_record *enqueue = NULL;
        bool canceled = false;

        for (j = i; j < n && ops[j]->lock == ops[i]->lock && ops[j]->ticket == ops[i]->ticket;
             j++) {
            if (ops[j]->kind == RT_ENQUEUE)
                enqueue = ops[j];
            canceled = canceled || ops[j]->kind == RT_CANCEL;
        }
        if (enqueue != NULL && !canceled && ops[i]->kind == RT_ACQUIRE)
            out[count++] = (struct arrival){.enqueue = enqueue, .grant = ops[i]};
    }
    return count;
}

void rt_check_order(const struct rt_record *records, size_t n, struct rt_report *report)
{
    size_t op_count, count;
    const struct rt_record **ops = select_records(records, n, has_ticket, 0, by_ticket, &op_count);
    struct arrival *arrivals = calloc(op_count + 1, sizeof(*arrivals));
    const struct rt_record *first = NULL; /* of those granted later, who certainly came first */

    if (arrivals == NULL)
        abort();
    count = arrivals_join(ops, op_count, arrivals);
    qsort(arrivals, count, sizeof(*arrivals), by_number_down);
    for (size_t i = 0; i < count; i++) {
        const struct rt_record *e = arrivals[i].enqueue;

        if (first != NULL && first->lock != e->lock)
            first = NULL;
        if (first != NULL && e->t_inv > first->t_ret)
            rt_report_add(report, RT_FOUND_ORDER, first, e,
                          "the second came later and was granted first");
        if (first == NULL || e->t_ret < first->t_ret)
            first = e;
    }
    free(arrivals);
    free(ops);
}

/* ---- Beliefs ------------------------------------------------------------ */

static bool is_grant(const struct rt_record *r, uint64_t lock)
{
    (void)lock;
    return r->kind == RT_ACQUIRE && r->result == RT_OK && r->mode == ROTA_EXCLUSIVE;
}

static int by_lock_ret(const void *a, const void *b)
{
    const struct rt_record *x = *(const struct rt_record *const *)a;
    const struct rt_record *y = *(const struct rt_record *const *)b;
    int c = cmp64(x->lock, y->lock);

    return c != 0 ? c : cmp_time(x->t_ret, y->t_ret);
}

/* How many grants are of locks before R's, or of R's lock and had returned when R began. */
static size_t grants_before(const struct rt_record **grants, size_t n, const struct rt_record *r)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        const struct rt_record *g = grants[lo + (hi - lo) / 2];

        if (g->lock < r->lock || (g->lock == r->lock && g->t_ret <= r->t_inv))
            lo = lo + (hi - lo) / 2 + 1;
        else
            hi = lo + (hi - lo) / 2;
    }
    return lo;
}

void rt_check_beliefs(const struct rt_record *records, size_t n, struct rt_report *report)
{
    size_t count, before;
    const struct rt_record **grants = select_records(records, n, is_grant, 0, by_lock_ret, &count);

    /* Each becomes the highest of its lock so far. */
    for (size_t i = 1; i < count; i++) {
        if (grants[i]->lock == grants[i - 1]->lock && grants[i]->fence < grants[i - 1]->fence)
            grants[i] = grants[i - 1];
    }
    for (size_t i = 0; i < n; i++) {
        const struct rt_record *r = &records[i];

        if (r->kind != RT_BELIEF || r->result != RT_OK || r->mode != ROTA_EXCLUSIVE)
            continue;
        before = grants_before(grants, count, r);
        if (before > 0 && grants[before - 1]->lock == r->lock &&
            grants[before - 1]->fence > r->fence)
            rt_report_add(report, RT_FOUND_STALE_BELIEF, grants[before - 1], r,
                          "believed in its hold after the first had been granted");
    }
    free(grants);
}

/* ---- The resource ------------------------------------------------------- */

static bool is_write(const struct rt_record *r, uint64_t lock)
{
    return r->kind == RT_WRITE && r->lock == lock;
}

static int by_seq(const void *a, const void *b)
{
    const struct rt_record *x = *(const struct rt_record *const *)a;
    const struct rt_record *y = *(const struct rt_record *const *)b;

    return cmp64(x->resource_seq, y->resource_seq);
}

static void say_entry(struct rt_report *report, enum rt_finding finding, size_t seq,
                      const struct rt_resource_entry *e, const char *why)
{
    char text[256];

    snprintf(text, sizeof(text), "write %zu (fence %llu, client %llu, counter %llu): %s", seq,
             (unsigned long long)e->fence, (unsigned long long)e->client,
             (unsigned long long)e->value, why);
    rt_report_add(report, finding, NULL, NULL, text);
}

/* The accepted entry before the one at AT; N if there is none. */
static size_t accepted_before(const struct rt_resource_entry *log, size_t n, size_t at)
{
    while (at > 0)
        if (log[--at].accepted)
            return at;
    return n;
}

/* Whether the writer of log[AT] may have read before the first write that it misses came in: a killed
 * one left no record of when. TOLD: the writes by their place in the log. */
static bool under_way(const struct rt_resource_entry *log, size_t n, size_t at,
                      const struct rt_record *const *told)
{
    size_t missed = at;

    for (size_t p = accepted_before(log, n, at); p < n && log[p].value >= log[at].value;
         p = accepted_before(log, n, p))
        missed = p;
    return missed != at &&
           (told[at] == NULL || told[missed] == NULL || told[at]->t_inv < told[missed]->t_ret);
}

/* Returns how many were accepted. */
static size_t check_log(const struct rt_resource_entry *log, size_t n,
                        const struct rt_record *const *told, struct rt_report *report)
{
    uint64_t highest = 0, value = 0;
    size_t accepted = 0;

    for (size_t i = 0; i < n; i++) {
        const struct rt_resource_entry *e = &log[i];

        if (e->accepted && e->fence < highest)
            say_entry(report, RT_FOUND_STALE_WRITE, i + 1, e, "accepted below the highest fence");
        if (!e->accepted && e->fence >= highest)
            say_entry(report, RT_FOUND_BAD_REJECT, i + 1, e, "refused with the highest fence");
        if (!e->accepted)
            continue;
        accepted++;
        if (e->value != value + 1 && e->fence > highest && under_way(log, n, i, told))
            say_entry(report, RT_FOUND_OLD_VALUE, i + 1, e,
                      "built on the value before a late write of an earlier tenure");
        else if (e->value != value + 1)
            say_entry(report, RT_FOUND_LOST_UPDATE, i + 1, e, "built on an old value");
        value = e->value;
        highest = e->fence > highest ? e->fence : highest;
    }
    return accepted;
}

static void check_told(const struct rt_record **writes, size_t n,
                       const struct rt_resource_entry *log, size_t entries,
                       struct rt_report *report)
{
    uint64_t last = 0;

    for (size_t i = 0; i < n; i++) {
        const struct rt_record *w = writes[i];
        const struct rt_resource_entry *e;

        if (w->result == RT_INFO)
            continue;
        if (w->resource_seq == 0 || w->resource_seq > entries || w->resource_seq == last) {
            rt_report_add(report, RT_FOUND_LOST_UPDATE, w, NULL, "told, but not in the log once");
            continue;
        }
        last = w->resource_seq;
        e = &log[last - 1];
        if (e->client != w->client || e->fence != w->fence ||
            (e->accepted != 0) != (w->result == RT_OK))
            rt_report_add(report, RT_FOUND_LOST_UPDATE, w, NULL, "the log says something else");
    }
}

/* By their place in the log; the caller's to free(). */
static const struct rt_record **by_place(const struct rt_record **writes, size_t n, size_t entries)
{
    const struct rt_record **told = calloc(entries + 1, sizeof(*told));

    if (told == NULL)
        abort();
    for (size_t i = 0; i < n; i++)
        if (writes[i]->resource_seq > 0 && writes[i]->resource_seq <= entries)
            told[writes[i]->resource_seq - 1] = writes[i];
    return told;
}

void rt_check_resource(const struct rt_record *records, size_t n, uint64_t lock,
                       const struct rt_resource_entry *log, size_t entries,
                       struct rt_report *report)
{
    size_t count, told = 0, open = 0;
    const struct rt_record **writes = select_records(records, n, is_write, lock, by_seq, &count);
    const struct rt_record **places = by_place(writes, count, entries);
    size_t accepted = check_log(log, entries, places, report);
    char text[200];

    check_told(writes, count, log, entries, report);
    for (size_t i = 0; i < count; i++) {
        told += writes[i]->result == RT_OK;
        open += writes[i]->result == RT_INFO;
    }
    if (accepted < told || accepted > told + open) {
        snprintf(text, sizeof(text), "%zu writes were accepted, %zu of them told, %zu cut short",
                 accepted, told, open);
        rt_report_add(report, RT_FOUND_LOST_UPDATE, NULL, NULL, text);
    }
    free(places);
    free(writes);
}

size_t rt_check_ops(const struct rt_record *records, size_t n)
{
    size_t ops = 0;

    for (size_t i = 0; i < n; i++) {
        const struct rt_record *r = &records[i];
        bool renewal = (r->kind == RT_RENEW || r->kind == RT_BELIEF) && !r->look;

        ops += r->kind == RT_ACQUIRE || r->kind == RT_RELEASE || renewal;
    }
    return ops;
}

/* ---- Clients, what is left, liveness ------------------------------------ */

static bool is_call(const struct rt_record *r, uint64_t lock)
{
    (void)lock;
    return r->kind == RT_ACQUIRE || r->kind == RT_RELEASE || r->kind == RT_WRITE;
}

static int by_client(const void *a, const void *b)
{
    const struct rt_record *x = *(const struct rt_record *const *)a;
    const struct rt_record *y = *(const struct rt_record *const *)b;
    int c = cmp64(x->client, y->client);

    c = c != 0 ? c : cmp64(x->lock, y->lock);
    return c != 0 ? c : cmp_time(x->t_inv, y->t_inv);
}

void rt_check_clients(const struct rt_record *records, size_t n, struct rt_report *report)
{
    size_t count;
    const struct rt_record **calls = select_records(records, n, is_call, 0, by_client, &count);

    for (size_t i = 1; i < count; i++) {
        const struct rt_record *a = calls[i - 1], *b = calls[i];

        if (a->result == RT_INFO && a->client == b->client && a->lock == b->lock)
            rt_report_add(report, RT_FOUND_CLIENT_REUSED, a, b,
                          "the recorder must take a new client id after info");
    }
    free(calls);
}

void rt_check_left_behind(const struct rt_record *records, size_t n, const struct rt_shown *shown,
                          size_t shown_count, struct rt_report *report)
{
    char text[400];

    for (size_t i = 0; i < shown_count; i++) {
        const struct rt_record *from = NULL;
        uint64_t lock = rt_history_name(shown[i].name);

        for (size_t k = 0; k < n && from == NULL; k++) {
            if (records[k].lock == lock && shown[i].number != 0 &&
                (records[k].fence == shown[i].number || records[k].ticket == shown[i].number))
                from = &records[k];
        }
        snprintf(text, sizeof(text), "'%.255s' still has ticket %llu", shown[i].name,
                 (unsigned long long)shown[i].number);
        rt_report_add(report, RT_FOUND_LEFT_BEHIND, from, NULL, text);
    }
}

static bool is_end(const struct rt_record *r, uint64_t lock)
{
    (void)lock;
    return r->kind == RT_END && r->fence == 0;
}

static int by_process(const void *a, const void *b)
{
    const struct rt_record *x = *(const struct rt_record *const *)a;
    const struct rt_record *y = *(const struct rt_record *const *)b;
    int c = cmp64(x->process, y->process);

    return c != 0 ? c : cmp_time(x->t_ret, y->t_ret);
}

/* The process of R ended after R had begun: the last END of that number decides, as pids are reused. */
static bool process_ended(const struct rt_record **ends, size_t n, const struct rt_record *r)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (ends[mid]->process <= r->process)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > 0 && ends[lo - 1]->process == r->process && ends[lo - 1]->t_ret > r->t_inv;
}

void rt_check_liveness(const struct rt_record *records, size_t n, int64_t healed_at,
                       int64_t bound_ns, int64_t now, struct rt_report *report)
{
    size_t count;
    const struct rt_record **ends = select_records(records, n, is_end, 0, by_process, &count);

    for (size_t i = 0; i < n; i++) {
        const struct rt_record *r = &records[i];
        int64_t until = (r->t_inv > healed_at ? r->t_inv : healed_at) + bound_ns;
        int64_t answered_at = r->answered && r->result == RT_INFO ? 0 : r->t_ret;

        if (r->kind != RT_ACQUIRE || answered_at <= until || now <= until)
            continue;
        if (r->result != RT_INFO || !process_ended(ends, count, r))
            rt_report_add(report, RT_FOUND_HANG, r, NULL, "not answered within the bound");
    }
    free(ends);
}
