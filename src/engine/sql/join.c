/* SPDX-License-Identifier: Apache-2.0 */
/* JOIN and JOIN_ALL. */
#include "engine/sql/sql.h"

#include "engine/kit/check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE (INT64_C(1) << 62)  /* the weight of an exclusive ticket */
#define FAR_US (INT64_C(1) << 52) /* 142 years: a time that does not come */
#define SET_MOST 128              /* rota_acquire_all takes no more */
enum { TAKING, JOINING };         /* the stages of a plain JOIN */
enum { LIVES, NUMBER, GRANTED, WANTED, MODE, OF, LABEL, LEFT, BELL }; /* the columns of ANSWER */

/* The same in all engines that keep a line: an exclusive ticket that needs no row of its own. */
static bool is_plain(const struct rt_join *j)
{
    return j->mode == RT_EXCLUSIVE && !(j->flags & RT_JOIN_DURABLE) && j->at_least_ms == 0 &&
           j->value == NULL;
}

static int64_t weight_of(const struct rt_join *j)
{
    switch (j->mode) {
    case RT_EXCLUSIVE:
        return WHOLE;
    case RT_SHARED:
        return 1;
    case RT_PERMITS:
        return j->take;
    default:
        return 0;
    }
}

static uint64_t us_of(int64_t ms)
{
    return (uint64_t)(ms < FAR_US / 1000 ? ms * 1000 : FAR_US);
}

static uint64_t flags_of(const struct rt_join *j)
{
    return (j->flags & RT_JOIN_ARM ? RT_SQL_ARMED : 0u) |
           (j->flags & RT_JOIN_DETECT ? RT_SQL_DETECT : 0u);
}

/* ---- Saying --------------------------------------------------------------------------------------------------- */

static void say_take(struct rt_sql_conn *c, struct rt_sql_book *b, const struct rt_join *j)
{
    uint64_t bell = rt_sql_bell_take(c, b, rt_sql_lane_of(c, j->name), j->name, j->nonce);
    rt_sql_say(b, RT_SQL_TAKE, rt_sql_text(j->name), rt_sql_number(j->session),
               rt_sql_number(j->nonce), rt_sql_number(j->owner), rt_sql_number(flags_of(j)),
               rt_sql_number(bell), rt_sql_number((uint64_t)c->expires));
}

static void say_gate(struct rt_sql_book *b, const struct rt_join *j, bool try)
{
    rt_sql_say(b, RT_SQL_GATE, rt_sql_text(j->name), rt_sql_number(j->session),
               rt_sql_number(j->nonce), rt_sql_number(j->mode), rt_sql_number(j->of),
               rt_sql_number((uint64_t)weight_of(j)), rt_sql_number(try),
               rt_sql_number((j->flags & RT_JOIN_DURABLE) != 0));
}

static void say_join(const struct rt_sql_ask *a, struct rt_sql_book *b, const struct rt_join *j,
                     bool try, size_t gate)
{
    struct rt_sql_conn *c = a->c;
    bool durable = j->flags & RT_JOIN_DURABLE;
    uint64_t bell = durable ? c->ear
                            : rt_sql_bell_take(c, b, rt_sql_lane_of(c, a->name), j->name, j->nonce);
    rt_sql_say(b, RT_SQL_JOIN, rt_sql_text(j->name), rt_sql_number(j->session),
               rt_sql_number(j->nonce), rt_sql_number(j->owner), rt_sql_number(j->mode),
               rt_sql_number(j->take), rt_sql_number(j->of), rt_sql_number((uint64_t)weight_of(j)),
               rt_sql_number(flags_of(j)), rt_sql_number(us_of(j->at_least_ms)),
               rt_sql_number(us_of(j->until_ms)), rt_sql_number(durable), rt_sql_number(try),
               rt_sql_text(j->value), rt_sql_text(durable ? c->label : NULL), rt_sql_number(bell),
               rt_sql_number(gate));
}

static void say_answer(struct rt_sql_book *b, const struct rt_join *j)
{
    if (j->mode == RT_GATHER)
        rt_sql_say(b, RT_SQL_SETTLE, rt_sql_text(j->name));
    rt_sql_say(b, RT_SQL_WANT, rt_sql_text(j->name));
    rt_sql_say(b, RT_SQL_TELL, rt_sql_text(j->name));
    rt_sql_say(b, RT_SQL_ANSWER, rt_sql_text(j->name), rt_sql_number(j->session),
               rt_sql_number(j->nonce));
}

static void join_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct rt_join *j = a->entry.op->join.joins;
    if (a->stage == TAKING && is_plain(j)) {
        say_take(a->c, b, j);
        return;
    }
    bool try = j->flags & RT_JOIN_TRY;
    if (!a->follows) {
        rt_sql_say_unfold(b, j->name);
        rt_sql_say(b, RT_SQL_PURGE, rt_sql_text(j->name));
        rt_sql_say(b, RT_SQL_SETTLE, rt_sql_text(j->name));
    }
    say_join(a, b, j, try, 0);
    say_answer(b, j);
}

static int by_name(const void *x, const void *y)
{
    const struct rt_join *a = *(const struct rt_join *const *)x,
                         *b = *(const struct rt_join *const *)y;
    return strcmp(a->name, b->name);
}

/* All lines are locked, in the order in which all flights lock them, before any of them is changed for this set. */
static void set_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    const struct rt_join *sorted[SET_MOST];
    size_t n = op->join.n;
    bool try = op->join.joins[0].flags & RT_JOIN_TRY;
    assert(n <= SET_MOST);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &op->join.joins[i];
    qsort(sorted, n, sizeof(sorted[0]), by_name);
    for (size_t i = 0; i < n; i++) {
        rt_sql_say_unfold(b, sorted[i]->name);
        rt_sql_say(b, RT_SQL_PURGE, rt_sql_text(sorted[i]->name));
        rt_sql_say(b, RT_SQL_SETTLE, rt_sql_text(sorted[i]->name));
    }
    for (size_t i = 0; i < n; i++)
        say_gate(b, &op->join.joins[i], try);
    for (size_t i = 0; i < n; i++)
        say_join(a, b, &op->join.joins[i], try, n);
    for (size_t i = 0; i < n; i++)
        say_answer(b, &op->join.joins[i]);
}

/* ---- Hearing -------------------------------------------------------------------------------------------------- */

/* Why there is no ticket of J. */
static int judge(struct rt_sql_conn *c, const struct rt_join *j, const struct rt_sql_row *row,
                 bool try)
{
    uint32_t mode = (uint32_t)rt_sql_int(row, MODE), of = (uint32_t)rt_sql_int(row, OF);
    const char *label = rt_sql_str(row, LABEL);
    if (!(j->flags & RT_JOIN_DURABLE) && rt_sql_int(row, LIVES) == 0)
        return rt_words_no_session(&c->base, j->session);
    if (!rt_sql_null(row, MODE) && !rt_grant_same_kind(mode, of, j->mode, j->of))
        return rt_words_other_kind(&c->base, j, mode, of);
    if (try && !rt_sql_null(row, MODE))
        return rt_words_busy(&c->base, j->name, label, strlen(label));
    return 0;
}

static void note_number(struct rt_sql_conn *c, struct rt_join *j, int64_t number)
{
    j->number = (uint64_t)number;
    if (j->number > c->highest)
        c->highest = j->number;
}

static void answer(struct rt_sql_conn *c, struct rt_join *j, const struct rt_sql_row *row)
{
    note_number(c, j, rt_sql_int(row, NUMBER));
    rt_sql_bell_number(c, j->name, j->nonce, j->number);
    j->granted = rt_sql_int(row, GRANTED) != 0;
    j->wanted = j->granted && j->flags & RT_JOIN_ARM && rt_sql_int(row, WANTED) != 0;
    rt_sql_wait_add(c, j, rt_sql_null(row, LEFT) ? -1 : rt_sql_int(row, LEFT),
                    (uint64_t)rt_sql_int(row, BELL));
}

static void may_wait(struct rt_sql_ask *a)
{
    a->ears = a->ears || !(a->entry.op->join.joins->flags & RT_JOIN_TRY);
}

static bool take_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_join *j = a->entry.op->join.joins;
    const struct rt_sql_row *row = rt_sql_row(a, b, RT_SQL_TAKE, 0);
    if (row == NULL) {
        may_wait(a);
        return false;
    }
    note_number(a->c, j, rt_sql_int(row, 0));
    rt_sql_bell_number(a->c, j->name, j->nonce, j->number);
    j->granted = true;
    j->wanted = false;
    rt_sql_wait_add(a->c, j, -1, 0);
    rt_sql_done(a, 0);
    return true;
}

static bool join_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct rt_join *j = a->entry.op->join.joins;
    if (a->stage == TAKING && is_plain(j))
        return take_heard(a, b);
    const struct rt_sql_row *row = rt_sql_row(a, b, RT_SQL_ANSWER, 0);
    int rv = 0;
    if (row == NULL) {
        rv = rt_sql_odd(a->c);
    } else if (rt_sql_null(row, NUMBER)) {
        rv = judge(a->c, j, row, j->flags & RT_JOIN_TRY);
        rv = rv != 0 ? rv : rt_sql_odd(a->c);
    } else {
        answer(a->c, j, row);
    }
    if (rv != 0)
        rt_sql_bell_idle(a->c, j->name, j->nonce);
    rt_sql_done(a, rv);
    return true;
}

static int set_judge(struct rt_sql_ask *a, const struct rt_sql_book *b, size_t there)
{
    const struct rt_op *op = a->entry.op;
    bool try = op->join.joins[0].flags & RT_JOIN_TRY;
    if (there > 0)
        return rt_words_set_ended(&a->c->base);
    for (size_t i = 0; i < op->join.n; i++) {
        int rv = judge(a->c, &op->join.joins[i], rt_sql_row(a, b, RT_SQL_ANSWER, i), false);
        if (rv != 0)
            return rv;
    }
    for (size_t i = 0; try && i < op->join.n; i++) {
        int rv = judge(a->c, &op->join.joins[i], rt_sql_row(a, b, RT_SQL_ANSWER, i), true);
        if (rv != 0)
            return rv;
    }
    return rt_sql_odd(a->c);
}

static bool set_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    const struct rt_op *op = a->entry.op;
    size_t there = 0;
    int rv = rt_sql_row(a, b, RT_SQL_ANSWER, op->join.n - 1) == NULL ? rt_sql_odd(a->c) : 0;
    for (size_t i = 0; rv == 0 && i < op->join.n; i++)
        there += !rt_sql_null(rt_sql_row(a, b, RT_SQL_ANSWER, i), NUMBER);
    if (rv == 0 && there < op->join.n)
        rv = set_judge(a, b, there);
    for (size_t i = 0; i < op->join.n; i++) {
        struct rt_join *j = &op->join.joins[i];
        if (rv == 0)
            answer(a->c, j, rt_sql_row(a, b, RT_SQL_ANSWER, i));
        else
            rt_sql_bell_idle(a->c, j->name, j->nonce);
    }
    rt_sql_done(a, rv);
    return true;
}

/* It may still arrive, folded, where no look by session finds it. */
static void join_failed(struct rt_sql_ask *a, int err)
{
    const struct rt_op *op = a->entry.op;
    if (err == ROTA_UNKNOWN && op->kind == RT_OP_JOIN && is_plain(op->join.joins))
        rt_sql_doubt(a->c, a->name);
    for (size_t i = 0; err != ROTA_UNKNOWN && i < op->join.n; i++)
        rt_sql_bell_idle(a->c, op->join.joins[i].name, op->join.joins[i].nonce);
}

static bool join_refused(struct rt_sql_ask *a)
{
    bool took = a->stage == TAKING && is_plain(a->entry.op->join.joins);
    a->stage = JOINING;
    may_wait(a);
    return took;
}

static void join_share(struct rt_sql_ask *a)
{
    (void)join_refused(a);
}

static const struct rt_sql_plan join_plan = {.say = join_say,
                                             .heard = join_heard,
                                             .failed = join_failed,
                                             .refused = join_refused,
                                             .share = join_share};
static const struct rt_sql_plan set_plan = {
    .alone = true, .say = set_say, .heard = set_heard, .failed = join_failed};

void rt_sql_begin_join(struct rt_sql_conn *c, struct rt_op *op)
{
    bool set = op->kind == RT_OP_JOIN_ALL;
    int rv = rt_check_joins(&c->base, op);
    if (rv == 0)
        rv = rt_check_session(&c->base, op, c->session);
    if (rv == 0 && op->join.n > SET_MOST)
        rv = rt_sql_fail(c, ROTA_INVALID, "a set has at most %d locks here", SET_MOST);
    if (rv != 0) {
        rt_conn_done(&c->base, op, rv);
        return;
    }
    struct rt_sql_ask *a = rt_sql_ask_new(c, set ? &set_plan : &join_plan, op,
                                          set ? NULL : op->join.joins[0].name, NULL);
    if (a == NULL)
        return;
    const struct rt_join *j = op->join.joins;
    a->shares = !set;
    a->ears = j->flags & RT_JOIN_ARM || (!(j->flags & RT_JOIN_TRY) && (set || !is_plain(j)));
    rt_sql_ask_go(a);
}
