/* SPDX-License-Identifier: Apache-2.0 */
#include "txn/serve/course.h"

#include "base/bug.h"

#include <assert.h>
#include <stdio.h>

#define LOST_FIRST_MS 1000
#define LOST_MOST_MS 30000

void rt_course_init(struct rt_course *c, const struct rt_plan *plan, struct rt_course_step *steps,
                    enum rt_journal_stand stands)
{
    assert(plan->count == 0 || steps != NULL);
    *c = (struct rt_course){.plan = plan, .steps = steps, .stands = stands, .looked = true};
}

/* ---- What may run ------------------------------------------------------------------------ */

bool rt_course_may_run(const struct rt_course *c, size_t step)
{
    const struct rt_plan *p = c->plan;

    if (!p->concurrent && step > 0 && c->steps[step - 1].forward.state != RT_COURSE_DONE)
        return false;
    for (size_t i = 0; i < p->order_count; i++)
        if (p->orders[i].step == step && c->steps[p->orders[i].pre].forward.state != RT_COURSE_DONE)
            return false;
    return true;
}

/* Whether STEP left nothing behind: it was undone, or never ran. */
static bool is_back(const struct rt_course *c, size_t step)
{
    const struct rt_course_step *s = &c->steps[step];

    return s->back.state == RT_COURSE_DONE || !s->registered;
}

/* Whether STEP may be compensated: all steps after it have been. */
static bool may_go_back(const struct rt_course *c, size_t step)
{
    const struct rt_plan *p = c->plan;

    if (c->steps[step].forward.state == RT_COURSE_OUT && !RT_BUG(RT_BUG_SERVE_BACK_BESIDE))
        return false; /* its action is under way: its outcome will be known soon */
    for (size_t i = step + 1; !p->concurrent && i < p->count; i++)
        if (!is_back(c, i))
            return false;
    for (size_t i = 0; i < p->order_count; i++)
        if (p->orders[i].pre == step && !is_back(c, p->orders[i].step))
            return false;
    return true;
}

/* ---- What is next -------------------------------------------------------------------------- */

static struct rt_course_todo wait_until(int64_t ms)
{
    return (struct rt_course_todo){.what = RT_COURSE_WAIT, .until_ms = ms};
}

static struct rt_course_todo decide(bool commit)
{
    return (struct rt_course_todo){.what = RT_COURSE_DECIDE, .commit = commit};
}

static bool is_due(const struct rt_course_call *call, int64_t now_ms)
{
    return call->state == RT_COURSE_IDLE ||
           (call->state == RT_COURSE_PAUSED && call->again_ms <= now_ms);
}

/* TODO is a call, of CALL: it leaves if what stands is known. */
static struct rt_course_todo ask(const struct rt_course *c, struct rt_course_call *call,
                                 struct rt_course_todo todo)
{
    if (!c->looked)
        return (struct rt_course_todo){.what = RT_COURSE_LOOK};
    call->state = RT_COURSE_OUT;
    call->asked++;
    return todo;
}

static struct rt_course_todo ask_step(struct rt_course *c, size_t step, bool back)
{
    struct rt_course_step *s = &c->steps[step];

    return ask(c, back ? &s->back : &s->forward,
               (struct rt_course_todo){.what = RT_COURSE_CALL, .step = step, .back = back});
}

static int64_t timeout_ms(const struct rt_course *c)
{
    const struct rt_plan *p = c->plan;
    int64_t s = p->timeout_s != 0 || p->kind == RT_PLAN_SAGA ? p->timeout_s : RT_COURSE_TIMEOUT_S;

    return s == 0 ? INT64_MAX : p->created_ms + s * 1000;
}

static struct rt_course_todo too_late(struct rt_course *c)
{
    if (c->reason[0] == '\0')
        snprintf(c->reason, sizeof(c->reason), "Timeout after %lld seconds",
                 (long long)(c->plan->timeout_s != 0 ? c->plan->timeout_s : RT_COURSE_TIMEOUT_S));
    return decide(false);
}

static struct rt_course_todo next_query(struct rt_course *c, int64_t now_ms)
{
    if (c->query.state == RT_COURSE_DONE)
        return decide(c->queried == RT_COURSE_YES);
    if (c->query.state == RT_COURSE_OUT)
        return wait_until(INT64_MAX);
    int64_t at = c->query.state == RT_COURSE_PAUSED ? c->query.again_ms : timeout_ms(c);
    if (at > now_ms)
        return wait_until(at);
    return ask(c, &c->query, (struct rt_course_todo){.what = RT_COURSE_QUERY});
}

static struct rt_course_todo next_action(struct rt_course *c, int64_t now_ms)
{
    int64_t until = timeout_ms(c);
    bool all = true;

    if (c->failed)
        return decide(false);
    if (now_ms >= until)
        return too_late(c);
    for (size_t i = 0; i < c->plan->count; i++) {
        struct rt_course_step *s = &c->steps[i];
        all = all && s->forward.state == RT_COURSE_DONE;
        if (s->forward.state == RT_COURSE_PAUSED && s->forward.again_ms < until)
            until = s->forward.again_ms > now_ms ? s->forward.again_ms : now_ms;
        if (!is_due(&s->forward, now_ms) || !rt_course_may_run(c, i))
            continue;
        if (!s->registered && !RT_BUG(RT_BUG_SERVE_UNREGISTERED))
            return (struct rt_course_todo){.what = RT_COURSE_REGISTER, .step = i};
        return ask_step(c, i, false);
    }
    return all ? decide(true) : wait_until(until);
}

static struct rt_course_todo next_open(struct rt_course *c, int64_t now_ms)
{
    if (c->plan->kind == RT_PLAN_SAGA)
        return next_action(c, now_ms);
    if (c->plan->kind == RT_PLAN_MSG)
        return next_query(c, now_ms);
    return now_ms >= timeout_ms(c) ? too_late(c) : wait_until(timeout_ms(c));
}

/* Phase two: calls each of them, the first one first (LAST: the last one); IN_ORDER: one after the other. */
static struct rt_course_todo next_of_all(struct rt_course *c, bool back, bool last, bool in_order,
                                         int64_t now_ms)
{
    int64_t until = INT64_MAX;
    bool all = true;

    for (size_t k = 0; k < c->plan->count; k++) {
        size_t i = last ? c->plan->count - 1 - k : k;
        struct rt_course_call *call = back ? &c->steps[i].back : &c->steps[i].forward;
        bool saga = c->plan->kind == RT_PLAN_SAGA;
        if (call->state == RT_COURSE_DONE || (saga && is_back(c, i)) ||
            (call->state == RT_COURSE_OUT && RT_BUG(RT_BUG_SERVE_LEFT_IS_DONE)))
            continue;
        all = false;
        bool may = !saga || may_go_back(c, i);
        if (may && is_due(call, now_ms))
            return ask_step(c, i, back);
        if (call->state == RT_COURSE_PAUSED && call->again_ms < until)
            until = call->again_ms;
        if (in_order)
            break;
    }
    if (all)
        return (struct rt_course_todo){.what = RT_COURSE_FINISH};
    return wait_until(until);
}

static struct rt_course_todo next_decided(struct rt_course *c, int64_t now_ms)
{
    const struct rt_plan *p = c->plan;
    bool commit = c->stands == RT_JOURNAL_COMMIT;

    if ((p->kind == RT_PLAN_SAGA && commit) || (p->kind == RT_PLAN_MSG && !commit))
        return (struct rt_course_todo){.what = RT_COURSE_FINISH};
    if (p->kind == RT_PLAN_MSG && now_ms < p->created_ms + p->delay_s * 1000)
        return wait_until(p->created_ms + p->delay_s * 1000);
    if (p->kind == RT_PLAN_MSG)
        return next_of_all(c, false, false, !p->concurrent, now_ms);
    if (p->kind == RT_PLAN_SAGA)
        return next_of_all(c, true, true, false, now_ms);
    return next_of_all(c, !commit, true, true, now_ms); /* DTM: both from the last to the first */
}

struct rt_course_todo rt_course_next(struct rt_course *c, int64_t now_ms)
{
    if (c->done)
        return (struct rt_course_todo){.what = RT_COURSE_OVER};
    struct rt_course_todo todo = c->stands == RT_JOURNAL_OPEN ? next_open(c, now_ms)
                                                              : next_decided(c, now_ms);
    c->looked = c->looked && todo.what != RT_COURSE_WAIT;
    return todo;
}

/* ---- Answers --------------------------------------------------------------------------------- */

void rt_course_registered(struct rt_course *c, size_t step)
{
    assert(step < c->plan->count);
    c->steps[step].registered = true;
    c->looked = true;
}

/* A call that was in progress is repeated at the given interval; one that was lost, ever more rarely. */
static void pause_call(const struct rt_course *c, struct rt_course_call *call,
                       enum rt_course_reply reply, int64_t now_ms)
{
    int64_t told = c->plan->retry_s * 1000, ms = told != 0 ? told : RT_COURSE_ONGOING_S * 1000;

    if (reply == RT_COURSE_ONGOING) {
        call->ongoing++;
    } else {
        int64_t most = told > LOST_MOST_MS ? told : LOST_MOST_MS;
        ms = told != 0 ? told : LOST_FIRST_MS;
        for (uint32_t i = 0; i < call->tries && ms < most; i++)
            ms *= 2;
        ms = ms > most ? most : ms;
        call->tries++;
    }
    call->state = RT_COURSE_PAUSED;
    call->again_ms = now_ms + ms;
}

static void stall(struct rt_course *c, enum rt_course_reply reply, const char *why)
{
    c->stalled = true;
    c->stalled_by = reply;
    if (c->stands != RT_JOURNAL_ABORT) /* the reason for the abort stays */
        snprintf(c->reason, sizeof(c->reason), "%s", why);
}

bool rt_course_answered(struct rt_course *c, size_t step, bool back, enum rt_course_reply reply,
                        const char *why, int64_t now_ms)
{
    struct rt_course_call *call = back ? &c->steps[step].back : &c->steps[step].forward;
    bool action = c->plan->kind == RT_PLAN_SAGA && !back;

    assert(step < c->plan->count && call->state == RT_COURSE_OUT);
    c->looked = false;
    if (reply == RT_COURSE_YES || (reply == RT_COURSE_ONGOING && c->stands != RT_JOURNAL_OPEN &&
                                   RT_BUG(RT_BUG_SERVE_ONGOING_IS_DONE))) {
        *call = (struct rt_course_call){.state = RT_COURSE_DONE, .asked = call->asked};
        return false;
    }
    snprintf(call->said, sizeof(call->said), "%s", why);
    if (action && c->stands == RT_JOURNAL_OPEN &&
        (reply == RT_COURSE_NO ||
         (c->plan->retry_limit > 0 && ++c->retries > c->plan->retry_limit))) {
        call->state = RT_COURSE_FAILED;
        if (!c->failed)
            snprintf(c->reason, sizeof(c->reason), "%s", why);
        c->failed = true;
        return false;
    }
    pause_call(c, call, reply, now_ms);
    if (!action || c->stands == RT_JOURNAL_OPEN)
        stall(c, reply, why);
    if (reply == RT_COURSE_ONGOING)
        return call->ongoing == RT_COURSE_ATTENTION && (back || c->plan->kind == RT_PLAN_TCC);
    return call->tries == RT_COURSE_ATTENTION;
}

bool rt_course_queried(struct rt_course *c, enum rt_course_reply reply, const char *why,
                       int64_t now_ms)
{
    assert(c->query.state == RT_COURSE_OUT);
    c->looked = false;
    if (reply == RT_COURSE_LOST && RT_BUG(RT_BUG_SERVE_SILENCE_IS_NO))
        reply = RT_COURSE_NO;
    c->queried = reply;
    if (reply == RT_COURSE_YES || reply == RT_COURSE_NO)
        c->query.state = RT_COURSE_DONE;
    else
        pause_call(c, &c->query, reply, now_ms);
    if (reply == RT_COURSE_NO && c->reason[0] == '\0')
        snprintf(c->reason, sizeof(c->reason), "the back-check said no: %.200s", why);
    return c->query.tries == RT_COURSE_ATTENTION && reply == RT_COURSE_LOST;
}

void rt_course_decided(struct rt_course *c, enum rt_journal_stand stands)
{
    assert(stands == RT_JOURNAL_COMMIT || stands == RT_JOURNAL_ABORT);
    c->looked = true;
    if (c->stands == RT_JOURNAL_OPEN) {
        c->stands = stands;
        c->stalled = false;
    }
}

void rt_course_looked(struct rt_course *c)
{
    c->looked = true;
}

void rt_course_finished(struct rt_course *c)
{
    c->done = true;
}
