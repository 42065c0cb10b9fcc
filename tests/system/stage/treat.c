/* SPDX-License-Identifier: Apache-2.0 */
/* Works through a list of (kind of request, what is done to it) on all lines at once. */
#include "treat.h"

#include "lib/history.h"

#include <stdio.h>
#include <stdlib.h>

#define UNREST_NS INT64_C(700000000)
#define PATIENCE_NS INT64_C(3000000000)   /* for a request that rarely comes; then another's turn */
#define ALL_DONE_NS INT64_C(180000000000) /* per round; a third of that on a busy machine */

/* ---- What is done to what ------------------------------------------------- */

struct treatment {
    const char *name;
    enum rt_fault_on on;
    enum rt_fault_do what;
    bool late;
};

static const struct treatment treatments[] = {
    {"reply dropped", RT_FAULT_REPLY, RT_FAULT_DROP, false},
    {"reply doubled", RT_FAULT_REPLY, RT_FAULT_DOUBLE, false},
    {"reply late by more than the ttl", RT_FAULT_REPLY, RT_FAULT_DELAY, true},
    {"reply cut off", RT_FAULT_REPLY, RT_FAULT_RESET, false},
    {"request doubled", RT_FAULT_REQUEST, RT_FAULT_DOUBLE, false},
    {"request dropped", RT_FAULT_REQUEST, RT_FAULT_DROP, false},
    {"request late by more than the ttl", RT_FAULT_REQUEST, RT_FAULT_DELAY, true},
};
#define TREATMENTS (sizeof(treatments) / sizeof(treatments[0]))
#define TREATMENTS_QUICK 3 /* in make test; the others in make torture */

static const struct treatment push_treatments[] = {
    {"push dropped", RT_FAULT_PUSH, RT_FAULT_DROP, false},
    {"push doubled", RT_FAULT_PUSH, RT_FAULT_DOUBLE, false},
    {"push late by more than the ttl", RT_FAULT_PUSH, RT_FAULT_DELAY, true},
};
#define PUSH_TREATMENTS (sizeof(push_treatments) / sizeof(push_treatments[0]))

struct job {
    const struct treatment *treatment;
    const struct treat_kind *kind;
    bool taken, done;
};

struct line { /* with its present fault */
    struct job *job;
    uint32_t faults[TREAT_PROXIES_MAX];
    int64_t since;
};

struct work {
    struct stage *st;
    const struct treat_plan *plan;
    struct job *jobs;
    size_t job_count;
    struct line *lines;
};

static void jobs_make(struct work *w)
{
    size_t quick = stage_factor() > 1 ? TREATMENTS : TREATMENTS_QUICK;

    w->job_count = 0;
    for (size_t k = 0; k < w->plan->kind_count; k++) {
        const struct treat_kind *kind = &w->plan->kinds[k];
        size_t n = kind->push ? PUSH_TREATMENTS : quick;

        for (size_t t = 0; t < n; t++) {
            const struct treatment *what = kind->push ? &push_treatments[t] : &treatments[t];

            if (!w->plan->in_order || what->on != RT_FAULT_REPLY || what->what != RT_FAULT_DOUBLE)
                w->jobs[w->job_count++] = (struct job){what, kind, false, false};
        }
    }
}

/* ---- One after the other, on all lines at once ------------------------------ */

static struct job *job_pick(struct work *w)
{
    uint32_t from = stage_below(w->st, (uint32_t)w->job_count);

    for (size_t i = 0; i < w->job_count; i++) {
        struct job *job = &w->jobs[(from + i) % w->job_count];

        if (!job->taken && !job->done)
            return job;
    }
    return NULL;
}

static void line_begin(struct work *w, size_t i)
{
    const struct treat_line *at = &w->plan->lines[i];
    struct line *line = &w->lines[i];
    struct rt_fault fault;

    line->job = job_pick(w);
    if (line->job == NULL)
        return;
    line->job->taken = true;
    fault = (struct rt_fault){.on = line->job->treatment->on,
                              .what = line->job->treatment->what,
                              .match = line->job->kind->match,
                              .nth = 1 + stage_below(w->st, 2),
                              .delay_us = line->job->treatment->late ? w->plan->late_ms * 1000 : 0};
    for (size_t p = 0; p < at->n; p++)
        line->faults[p] = rt_proxy_fault(at->proxies[p], &fault);
    line->since = rt_history_now();
}

/* True: this line's job is over, one way or the other. */
static bool line_look(struct work *w, size_t i)
{
    const struct treat_line *at = &w->plan->lines[i];
    struct line *line = &w->lines[i];
    bool hit = false;

    for (size_t p = 0; p < at->n; p++)
        hit = hit || rt_proxy_fault_hits(at->proxies[p], line->faults[p]) > 0;
    if (!hit && rt_history_now() - line->since < PATIENCE_NS)
        return false;
    if (hit)
        stage_mark(w->st);
    line->job->done = hit;
    line->job->taken = false;
    for (size_t p = 0; p < at->n; p++)
        rt_proxy_fault_end(at->proxies[p], line->faults[p]);
    return true;
}

static size_t tell_left(const struct work *w)
{
    size_t left = 0;

    for (size_t i = 0; i < w->job_count; i++) {
        const struct job *job = &w->jobs[i];

        if (!job->done)
            fprintf(stderr, "not seen: %s of %s\n", job->treatment->name, job->kind->name);
        left += !job->done;
    }
    return left;
}

static size_t work_off(struct work *w)
{
    int64_t until = rt_history_now() + ALL_DONE_NS, stirred_at = 0;
    bool more = true;

    for (size_t i = 0; i < w->plan->line_count; i++)
        line_begin(w, i);
    while (more && rt_history_now() < until) {
        more = false;
        stage_pause(w->st, 2);
        if (rt_history_now() - stirred_at >= UNREST_NS) {
            stirred_at = rt_history_now();
            w->plan->stir(w->st, w->plan->arg);
        }
        for (size_t i = 0; i < w->plan->line_count; i++) {
            if (w->lines[i].job == NULL || line_look(w, i))
                line_begin(w, i);
            more = more || w->lines[i].job != NULL;
        }
    }
    return tell_left(w);
}

size_t treat_all(struct stage *st, const struct treat_plan *plan)
{
    struct work w = {.st = st, .plan = plan};
    size_t left = 0;

    w.jobs = calloc(plan->kind_count * TREATMENTS, sizeof(*w.jobs));
    w.lines = calloc(plan->line_count, sizeof(*w.lines));
    if (w.jobs == NULL || w.lines == NULL)
        abort();
    for (uint32_t i = 0; i < plan->rounds && left == 0; i++) {
        jobs_make(&w);
        left = work_off(&w);
    }
    for (size_t i = 0; i < plan->line_count; i++)
        for (size_t p = 0; p < plan->lines[i].n; p++)
            rt_proxy_fault_end(plan->lines[i].proxies[p], 0);
    free(w.jobs);
    free(w.lines);
    return left;
}
