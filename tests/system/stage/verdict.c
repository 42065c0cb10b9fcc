/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict of a stage: what is left behind, what contradicts what, and the report. */
#include "stage_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVE_NS INT64_C(20000000000) /* after all healed, an ask is answered within this */
#define LEFT_ROUNDS 10               /* of some heartbeats: dead sessions end, then are swept */

struct verdict {
    struct rt_report report;
    struct rt_record *records;
    size_t n, ops, grants, entries;
    size_t old_values; /* excused: see judge_old_values */
    size_t beliefs;    /* STAGE_LOSSY: looks that said "ours" after another was granted */
    size_t others;     /* findings that the checker does not have */
    int64_t takeover_min, takeover_mid, takeover_max;
};

/* ---- What is left behind -------------------------------------------------- */

/* Whoever works there next sweeps dead sessions: so somebody has to. */
static void work_there(struct stage *st, struct rota *r)
{
    struct rota_ask ask = {.limit_ms = 5000};
    const struct stage_plan *plan = &st->shared->plan;
    uint32_t names = plan->locks + ((plan->flags & STAGE_PERMITS) != 0);
    char name[32];

    for (uint32_t i = 0; i < names; i++) {
        struct rota_lock *lock = NULL;

        stage_lock_name(i, name, sizeof(name));
        if (rota_acquire(r, name, &ask, &lock) == 0)
            rota_release(lock);
    }
}

static size_t lines_left(struct rota *r, bool tell)
{
    struct rota_line *lines = NULL;
    size_t n = 0;

    if (rota_list(r, "", &lines, &n) != 0)
        return 1;
    for (size_t i = 0; i < n && tell; i++)
        fprintf(stderr, "  left behind: line '%s' with %zu\n", lines[i].name, lines[i].count);
    rota_list_free(lines, n);
    return n;
}

/* One client comes, works for as long as some heartbeats take, and goes. */
static size_t look_for_left(struct stage *st, uint64_t stay_us, bool tell)
{
    struct rota_options opts = {.ttl_ms = st->shared->plan.ttl_ms, .call_ms = 5000};
    struct rota *r = NULL;
    int err = rota_open(&r, st->shared->url[0], &opts);
    size_t n;

    if (err != 0) {
        fprintf(stderr, "  cannot look: %s: %s\n", rota_strerror(err), rota_errmsg(NULL));
        return 1;
    }
    work_there(st, r);
    stage_sleep_us(stay_us);
    n = lines_left(r, tell);
    rota_close(r);
    return n;
}

static size_t judge_left(struct stage *st, stage_left_fn *left, void *arg)
{
    uint64_t stay_us = st->shared->plan.ttl_ms * UINT64_C(400); /* at least one heartbeat */
    char text[2048] = "";
    size_t n = look_for_left(st, 0, false);

    n += left != NULL ? left(arg, text, sizeof(text)) : 0;
    for (int i = 0; i < LEFT_ROUNDS && n > 0; i++) {
        n = look_for_left(st, stay_us, i == LEFT_ROUNDS - 1);
        n += left != NULL ? left(arg, text, sizeof(text)) : 0;
    }
    if (text[0] != '\0' && n > 0)
        fprintf(stderr, "  left behind:%s\n", text);
    return n;
}

/* ---- What contradicts what ------------------------------------------------ */

static int by_inv(const void *a, const void *b)
{
    const struct rt_record *x = *(const struct rt_record *const *)a;
    const struct rt_record *y = *(const struct rt_record *const *)b;

    return (x->t_inv > y->t_inv) - (x->t_inv < y->t_inv);
}

static int by_ret(const void *a, const void *b)
{
    const struct rt_record *x = *(const struct rt_record *const *)a;
    const struct rt_record *y = *(const struct rt_record *const *)b;

    return (x->t_ret > y->t_ret) - (x->t_ret < y->t_ret);
}

static bool is_fenced(const struct rt_record *r, uint64_t lock)
{
    return r->lock == lock && r->kind == RT_ACQUIRE && r->result == RT_OK &&
           r->mode == ROTA_EXCLUSIVE;
}

/* A grant requested after another was reported has the larger fence: the part of I2 that even an
 * engine that forgets must keep. */
static void judge_fences(struct verdict *v, uint64_t lock)
{
    const struct rt_record **inv = calloc(v->n + 1, sizeof(*inv));
    const struct rt_record **ret = calloc(v->n + 1, sizeof(*ret));
    const struct rt_record *highest = NULL;
    size_t count = 0, done = 0;

    if (inv == NULL || ret == NULL)
        abort();
    for (size_t i = 0; i < v->n; i++) {
        if (is_fenced(&v->records[i], lock))
            inv[count] = ret[count] = &v->records[i], count++;
    }
    qsort(inv, count, sizeof(*inv), by_inv);
    qsort(ret, count, sizeof(*ret), by_ret);
    for (size_t i = 0; i < count; i++) {
        for (; done < count && ret[done]->t_ret <= inv[i]->t_inv; done++) {
            if (highest == NULL || ret[done]->fence > highest->fence)
                highest = ret[done];
        }
        /* The same one again: passed on inside its process. */
        if (highest != NULL && inv[i]->fence <= highest->fence &&
            (inv[i]->fence != highest->fence || inv[i]->process != highest->process))
            rt_report_add(&v->report, RT_FOUND_DUP_FENCE, highest, inv[i], "the fence went back");
    }
    free(inv);
    free(ret);
}

/* A hold from before everything was forgotten, given back successfully afterwards. */
static void judge_gaps(const struct stage *st, struct verdict *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct rt_record *r = &v->records[i];

        if (r->kind != RT_RELEASE || r->result != RT_OK)
            continue;
        for (size_t k = 0; k < v->n; k++) {
            const struct rt_record *a = &v->records[k];

            if (a->kind != RT_ACQUIRE || a->result != RT_OK || a->lock != r->lock ||
                a->fence != r->fence || a->client != r->client)
                continue;
            for (size_t g = 0; g < st->gap_count; g++) {
                if (a->t_ret < st->gaps[g].from && r->t_inv > st->gaps[g].to)
                    rt_report_add(&v->report, RT_FOUND_STALE_RELEASE, a, r,
                                  "given back with success after it was forgotten");
            }
            break;
        }
    }
}

/* Where holders overlap, the first write of a tenure may be built on what was read before the last one's
 * late write (checker.h). Each fault may make everybody's hold overlap with the next: that many are
 * counted, and are not findings. */
static size_t excused_old_values(const struct stage *st)
{
    const struct stage_plan *plan = &st->shared->plan;
    bool overlap = (plan->flags & (STAGE_LOSSY | STAGE_STOPS)) != 0;

    return overlap ? st->mark_count * plan->processes * plan->threads : 0;
}

static void judge_old_values(const struct stage *st, struct verdict *v)
{
    if (v->old_values <= excused_old_values(st))
        return;
    fprintf(stderr, "  %zu writes were built on old values: %zu faults excuse %zu of them\n",
            v->old_values, st->mark_count, excused_old_values(st));
    v->others += v->old_values - excused_old_values(st);
}

/* If a hold was over before that was reported, nobody can say when it ended (checker.h). A thread that is stopped, or
 * kept from running, at that moment may have one: each thread, and at each fault. */
static void judge_loose(const struct stage *st, struct verdict *v)
{
    const struct stage_plan *plan = &st->shared->plan;
    size_t most = (st->mark_count + 1) * plan->processes * plan->threads;

    if (v->report.loose <= most)
        return;
    fprintf(stderr, "  %zu holds could not be checked, %zu may be\n", v->report.loose, most);
    v->others += v->report.loose - most;
}

static void judge_resource(struct stage *st, struct verdict *v, uint32_t lock)
{
    struct rt_report own = {0};
    const struct rt_resource_entry *log;
    char name[32];
    size_t entries;

    stage_lock_name(lock, name, sizeof(name));
    log = rt_resource_log(st->resources[lock], &entries);
    v->entries += entries;
    rt_check_resource(v->records, v->n, rt_history_name(name), log, entries, &own);
    v->old_values += own.found[RT_FOUND_OLD_VALUE];
    if (own.total > own.found[RT_FOUND_OLD_VALUE]) {
        fprintf(stderr, "%s", own.text);
        v->others += own.total - own.found[RT_FOUND_OLD_VALUE];
    }
}

static void judge_liveness(struct stage *st, struct verdict *v)
{
    size_t all = v->n + st->end_count;
    struct rt_record *both = calloc(all + 1, sizeof(*both));

    if (both == NULL)
        abort();
    memcpy(both, v->records, v->n * sizeof(*both));
    if (st->end_count > 0)
        memcpy(both + v->n, st->ends, st->end_count * sizeof(*both));
    rt_check_liveness(both, all, st->healed_at, LIVE_NS, rt_history_now(), &v->report);
    free(both);
}

static void judge_history(struct stage *st, struct verdict *v)
{
    const struct stage_plan *plan = &st->shared->plan;
    struct rt_check_options opts = {.passing = plan->threads > 1};
    char name[32];

    if ((plan->flags & (STAGE_LOSSY | STAGE_UNFENCED)) == 0) {
        rt_check_locks(v->records, v->n, &opts, &v->report);
    } else if ((plan->flags & STAGE_UNFENCED) == 0) { /* counted: it cannot be promised there */
        struct rt_report beliefs = {0};
        rt_check_beliefs(v->records, v->n, &beliefs);
        v->beliefs = beliefs.found[RT_FOUND_STALE_BELIEF];
    }
    for (uint32_t i = 0; i < plan->locks; i++) {
        stage_lock_name(i, name, sizeof(name));
        if ((plan->flags & STAGE_UNFENCED) == 0)
            judge_fences(v, rt_history_name(name));
        judge_resource(st, v, i);
    }
    judge_old_values(st, v);
    judge_loose(st, v);
    if (st->gap_count > 0)
        judge_gaps(st, v);
    rt_check_clients(v->records, v->n, &v->report);
    judge_liveness(st, v);
}

/* ---- The report ----------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* From each fault to the next grant of anything to anybody. */
static void measure_takeovers(const struct stage *st, struct verdict *v)
{
    int64_t times[STAGE_MARKS_MAX];
    size_t n = 0;

    for (size_t m = 0; m < st->mark_count; m++) {
        int64_t first = INT64_MAX;

        for (size_t i = 0; i < v->n; i++) {
            const struct rt_record *r = &v->records[i];

            if (r->kind == RT_ACQUIRE && r->result == RT_OK && r->t_ret > st->marks[m] &&
                r->t_ret < first)
                first = r->t_ret;
        }
        if (first != INT64_MAX)
            times[n++] = first - st->marks[m];
    }
    if (n == 0)
        return;
    qsort(times, n, sizeof(times[0]), by_value);
    v->takeover_min = times[0];
    v->takeover_mid = times[n / 2];
    v->takeover_max = times[n - 1];
}

static void count_ops(struct verdict *v)
{
    v->ops = rt_check_ops(v->records, v->n);
    for (size_t i = 0; i < v->n; i++) {
        const struct rt_record *r = &v->records[i];

        v->grants += r->kind == RT_ACQUIRE && r->result == RT_OK;
    }
}

static void print_errors(const struct stage_shared *sh)
{
    for (int e = 1; e < STAGE_ERRORS; e++) {
        if (sh->errors[e] > 0)
            fprintf(stderr, "  %llu x %s", (unsigned long long)sh->errors[e], rota_strerror(-e));
    }
    fprintf(stderr, "\n");
}

/* One line per stage for the script that sums up (scripts/torture.sh). */
static void append_report(const struct stage *st, const struct verdict *v, size_t found)
{
    const struct stage_shared *sh = st->shared;
    const char *path = getenv("ROTA_REPORT");
    FILE *f = path != NULL && path[0] != '\0' ? fopen(path, "ae") : NULL;

    if (f == NULL)
        return;
    fprintf(f, "%s\t%zu\t%zu\t%zu\t%llu\t%llu\t%llu\t%llu\t%zu\t%.1f\t%.1f\t%.1f\t%zu\n",
            sh->plan.title, v->ops, v->grants, st->mark_count, (unsigned long long)sh->told_before,
            (unsigned long long)sh->told_after, (unsigned long long)sh->told_starved,
            (unsigned long long)sh->refused, v->old_values, (double)v->takeover_min / 1e6,
            (double)v->takeover_mid / 1e6, (double)v->takeover_max / 1e6, found);
    fclose(f);
}

static void print_report(const struct stage *st, const struct verdict *v, size_t found)
{
    const struct stage_shared *sh = st->shared;

    fprintf(stderr,
            "%s: %zu ops checked, %zu grants (%zu could not be), "
            "%zu writes (%llu refused, %zu on old values), %zu faults\n",
            sh->plan.title, v->ops, v->grants, v->report.loose, v->entries,
            (unsigned long long)sh->refused, v->old_values, st->mark_count);
    fprintf(stderr,
            "  losses told: %llu before the deadline, %llu after, %llu after a starvation\n",
            (unsigned long long)sh->told_before, (unsigned long long)sh->told_after,
            (unsigned long long)sh->told_starved);
    fprintf(stderr, "  fault to next grant: %.1f to %.1f ms, median %.1f\n",
            (double)v->takeover_min / 1e6, (double)v->takeover_max / 1e6,
            (double)v->takeover_mid / 1e6);
    if ((sh->plan.flags & STAGE_LOSSY) != 0)
        fprintf(stderr, "  two at once: %zu looks said \"ours\" after another had been granted\n",
                v->beliefs);
    print_errors(sh);
    fprintf(stderr, "  %zu findings\n%s", found, v->report.text);
    append_report(st, v, found);
}

size_t stage_judge(struct stage *st, stage_left_fn *left, void *arg)
{
    const struct stage_shared *sh = st->shared;
    struct verdict *v = calloc(1, sizeof(*v));
    size_t found;

    if (v == NULL || rt_history_load(sh->folder, &v->records, &v->n) != 0)
        abort();
    judge_history(st, v);
    measure_takeovers(st, v);
    st->longest = v->takeover_max;
    count_ops(v);
    v->others += judge_left(st, left, arg);
    if (sh->odd > 0)
        fprintf(stderr, "  %llu errors that no fault explains: %s\n", (unsigned long long)sh->odd,
                sh->odd_text);
    if (sh->told_after > 0)
        fprintf(stderr, "  a running holder was told after its deadline\n");
    found = v->report.total + v->others + sh->odd + sh->told_after;
    print_report(st, v, found);
    free(v->records);
    free(v);
    return found;
}
