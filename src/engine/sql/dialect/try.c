/* SPDX-License-Identifier: Apache-2.0 */
/* JOIN and JOIN_ALL: all is taken, or nothing. Whoever does not get it waits in kit/spin and asks again.
 *
 *   (reads_first: LOOKs) ──▶ TAKE (GUARD) of each, LOOKs ── all are ours ──▶ granted
 *                               │ refused: LOOKs ──▶ busy       └── else ──▶ busy; free again: once more, so many times */
#include "engine/sql/dialect/lease.h"

#include "base/alloc.h"
#include "engine/kit/check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define OVERTAKEN 3 /* how often a look may be, per ask */

struct attempt { /* what is asked for: an op's joins, or tickets that wait */
    struct rt_lease_conn *c;
    uint64_t session;
    size_t count;
    uint32_t overtaken;
    uint32_t said; /* TAKEs, in which stage of the ask, + 1 */
    enum { SEES, TAKES, ASKS_WHO } doing;
    struct one {          /* by name, so sets never wait for each other in a circle */
        const char *name; /* behind them */
        size_t join;      /* which of the op's */
        uint64_t nonce, owner;
        int64_t seen;
        struct rt_lease_row row;
    } list[];
};

static struct attempt *attempt_new(struct rt_lease_conn *c, size_t count, size_t bytes)
{
    struct attempt *at = rt_alloc(sizeof(*at) + count * sizeof(at->list[0]) + bytes);
    if (at == NULL)
        return NULL;
    at->c = c;
    at->session = c->spin.session;
    at->count = count;
    at->doing = c->dialect->reads_first ? SEES : TAKES;
    return at;
}

static char *put_one(struct attempt *at, size_t i, char *text, const char *name, uint64_t nonce,
                     uint64_t owner)
{
    size_t size = strlen(name) + 1;
    at->list[i] = (struct one){
        .name = memcpy(text, name, size), .join = i, .nonce = nonce, .owner = owner};
    return text + size;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct one *)x)->name, ((const struct one *)y)->name);
}

static struct rt_lease_ticket ticket_of(const struct attempt *at, size_t i)
{
    const struct one *o = &at->list[i];
    return (struct rt_lease_ticket){.name = o->name,
                                    .session = at->session,
                                    .nonce = o->nonce,
                                    .owner = o->owner,
                                    .seen = o->seen};
}

static bool mine(const struct attempt *at, size_t i)
{
    const struct one *o = &at->list[i];
    return o->row.held && o->row.ours && o->row.session == at->session && o->row.nonce == o->nonce;
}

/* ---- Saying ------------------------------------------------------------------------------------- */

static void say_take(struct attempt *at, struct rt_sql_book *b, size_t i)
{
    struct rt_lease_ticket t = ticket_of(at, i);
    if (at->c->dialect->reads_first && mine(at, i)) /* an earlier try got it */
        rt_lease_say(at->c, b, RT_LEASE_RENEW, &t);
    else
        for (enum rt_lease_say kind = RT_LEASE_TAKE; kind <= RT_LEASE_TAKE_3; kind++)
            rt_lease_say(at->c, b, kind, &t);
    if (at->count > 1)
        rt_lease_say(at->c, b, RT_LEASE_GUARD, &t);
}

static void try_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    struct attempt *at = a->about;
    if (at->doing == TAKES && at->said == a->stage + 1 && at->c->dialect->reads_first)
        at->doing = SEES; /* the answer was lost: what was seen is out of date */
    for (size_t i = 0; at->doing == TAKES && i < at->count; i++)
        say_take(at, b, i);
    if (at->doing == TAKES)
        at->said = a->stage + 1;
    for (size_t i = 0; i < at->count; i++) /* the last of its steps */
        rt_sql_say_own(b, &at->c->says[RT_LEASE_LOOK], rt_sql_text(at->list[i].name));
}

/* ---- Hearing ------------------------------------------------------------------------------------ */

static void read_looks(const struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct attempt *at = a->about;
    assert(a->steps >= at->count);
    for (size_t i = 0; i < at->count; i++) {
        struct one *o = &at->list[i];
        const struct rt_sql_row *row = rt_sql_row_of(a, b, a->steps - at->count + i, NULL);
        rt_lease_read(at->c, row, &o->row);
        o->seen = row != NULL ? (int64_t)o->row.number : -1;
    }
}

/* The first that somebody else holds; COUNT: none. */
static size_t taken(const struct attempt *at)
{
    size_t i = 0;
    while (i < at->count && (!at->list[i].row.held || mine(at, i)))
        i++;
    return i;
}

static bool all_mine(const struct attempt *at)
{
    size_t i = 0;
    while (i < at->count && mine(at, i))
        i++;
    return i == at->count;
}

/* Whether it flies once more. */
static bool goes_on(struct attempt *at)
{
    if (at->doing == SEES && taken(at) == at->count) {
        at->doing = TAKES;
        return true;
    }
    if (at->doing != TAKES || all_mine(at) || taken(at) < at->count || !at->c->dialect->reads_first)
        return false;
    return ++at->overtaken <
           OVERTAKEN; /* it was changed between look and take, and is free again */
}

static void note_highest(struct attempt *at)
{
    for (size_t i = 0; at->c->dialect->caps & ROTA_CAP_FENCE && i < at->count; i++)
        if (at->list[i].row.number > at->c->sql.highest)
            at->c->sql.highest = at->list[i].row.number;
}

static uint64_t number_of(const struct attempt *at, size_t i)
{
    return at->c->dialect->caps & ROTA_CAP_FENCE ? at->list[i].row.number : 0;
}

static void give_all_back(struct attempt *at)
{
    for (size_t i = 0; i < at->count; i++)
        rt_lease_give_back(at->c, at->list[i].name, at->session, at->list[i].nonce);
}

static int64_t left_of(const struct attempt *at)
{
    size_t i = taken(at);
    return i < at->count ? rt_lease_left(&at->list[i].row) : 0;
}

static int busy(struct attempt *at)
{
    size_t i = taken(at);
    const char *label = i < at->count ? at->list[i].row.label : "another, who has left";
    return rt_words_busy(&at->c->sql.base, at->list[i < at->count ? i : 0].name, label,
                         strlen(label));
}

static void free_attempt(struct rt_sql_ask *a)
{
    rt_free(a->about);
}

static bool try_refused(struct rt_sql_ask *a)
{
    struct attempt *at = a->about;
    if (at->doing != TAKES || at->count == 1)
        return false;
    at->doing = ASKS_WHO; /* a GUARD has said no, and nothing is done */
    return true;
}

/* ---- The op ------------------------------------------------------------------------------------- */

static void joined(struct attempt *at, struct rt_op *op)
{
    for (size_t i = 0; i < at->count; i++)
        rt_spin_joined(&at->c->spin, op, at->list[i].join, number_of(at, i));
    rt_conn_done(&at->c->sql.base, op, 0);
}

static bool join_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct attempt *at = a->about;
    struct rt_lease_conn *c = at->c;
    struct rt_op *op = a->entry.op;
    read_looks(a, b);
    if (goes_on(at))
        return false;
    a->entry.op = NULL;
    if (at->session != c->spin.session) {
        if (all_mine(at))
            give_all_back(at);
        rt_conn_done(&c->sql.base, op, rt_words_no_session(&c->sql.base, at->session));
    } else if (all_mine(at)) {
        note_highest(at);
        joined(at, op);
    } else if (op->join.joins[0].flags & RT_JOIN_TRY) {
        rt_spin_unmake(&c->spin, op);
        rt_conn_done(&c->sql.base, op, busy(at));
    } else {
        rt_spin_wait_all(&c->spin, op, left_of(at));
        rt_conn_done(&c->sql.base, op, 0);
    }
    return true;
}

static void join_failed(struct rt_sql_ask *a, int err)
{
    struct attempt *at = a->about;
    (void)err;
    if (at->session == at->c->spin.session && a->entry.op != NULL)
        rt_spin_unmake(&at->c->spin, a->entry.op);
}

static const struct rt_sql_plan join_plan = {.say = try_say,
                                             .heard = join_heard,
                                             .failed = join_failed,
                                             .refused = try_refused,
                                             .freed = free_attempt};
static const struct rt_sql_plan set_plan = {.alone = true,
                                            .say = try_say,
                                            .heard = join_heard,
                                            .failed = join_failed,
                                            .refused = try_refused,
                                            .freed = free_attempt};

static int check_one(struct rt_lease_conn *c, const struct rt_join *j)
{
    bool kept = j->flags & RT_JOIN_DURABLE || j->at_least_ms > 0 || j->until_ms > 0;
    if (kept || (j->value != NULL && j->value[0] != '\0') || j->mode != RT_EXCLUSIVE)
        return rt_lease_fail(c, ROTA_UNSUPPORTED, "%.80s: dialect %s has only exclusive locks",
                             j->name, c->dialect->name);
    if (c->name_most > 0 && strlen(j->name) > (size_t)c->name_most)
        return rt_lease_fail(c, ROTA_INVALID,
                             "%.40s...: the column name of %.60s has room for %lld characters, and "
                             "this has %zu",
                             j->name, c->table, (long long)c->name_most, strlen(j->name));
    return 0;
}

static int check(struct rt_lease_conn *c, const struct rt_op *op)
{
    int rv = rt_check_joins(&c->sql.base, op);
    if (rv == 0)
        rv = rt_check_session(&c->sql.base, op, c->spin.session);
    for (size_t i = 0; rv == 0 && i < op->join.n; i++) {
        rv = check_one(c, &op->join.joins[i]);
        for (size_t k = 0; rv == 0 && k < i; k++)
            if (strcmp(op->join.joins[k].name, op->join.joins[i].name) == 0)
                rv = rt_lease_fail(c, ROTA_INVALID, "%.80s: a set names a line once",
                                   op->join.joins[i].name);
    }
    return rv;
}

static struct attempt *of_op(struct rt_lease_conn *c, const struct rt_op *op)
{
    size_t bytes = 0;
    for (size_t i = 0; i < op->join.n; i++)
        bytes += strlen(op->join.joins[i].name) + 1;
    struct attempt *at = attempt_new(c, op->join.n, bytes);
    char *text = at != NULL ? (char *)&at->list[at->count] : NULL;
    for (size_t i = 0; at != NULL && i < at->count; i++)
        text = put_one(at, i, text, op->join.joins[i].name, op->join.joins[i].nonce,
                       op->join.joins[i].owner);
    return at;
}

/* Sends it off; a set flies by itself, since it may come to nothing. NULL: no memory, and OP goes on. */
static struct rt_sql_ask *go(struct rt_lease_conn *c, const struct rt_sql_plan *plan,
                             struct rt_op *op, struct attempt *at)
{
    const char *name = at->count == 1 ? at->list[0].name : NULL;
    qsort(at->list, at->count, sizeof(at->list[0]), by_name);
    struct rt_sql_ask *a = rt_sql_ask_new(&c->sql, plan, NULL, name, at);
    if (a == NULL) {
        rt_free(at);
        return NULL;
    }
    a->entry.op = op;
    a->entry.deadline = op != NULL ? op->deadline : 0;
    a->single = at->count > 1;
    a->entry.again = true; /* it finds its own */
    rt_sql_ask_go(a);
    return a;
}

void rt_lease_begin_join(struct rt_lease_conn *c, struct rt_op *op)
{
    int rv = check(c, op);
    if (rv == 0 && rt_spin_stands(&c->spin, op))
        return;
    if (rv == 0)
        rv = rt_spin_make(&c->spin, op);
    struct attempt *at = rv == 0 ? of_op(c, op) : NULL;
    if (rv == 0 && (at == NULL || go(c, op->join.n > 1 ? &set_plan : &join_plan, op, at) == NULL)) {
        rt_spin_unmake(&c->spin, op);
        rv = rt_words_nomem(&c->sql.base);
    }
    if (rv != 0)
        rt_conn_done(&c->sql.base, op, rv);
}

/* ---- Who waits ---------------------------------------------------------------------------------- */

static bool retry_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    struct attempt *at = a->about;
    read_looks(a, b);
    if (goes_on(at))
        return false;
    bool granted = all_mine(at);
    if (granted)
        note_highest(at);
    for (size_t i = 0; i < at->count; i++) {
        const struct one *o = &at->list[i];
        bool leaving;
        struct rt_spin_ticket *t = rt_spin_answered(&at->c->spin, at->session, o->name, o->nonce,
                                                    &leaving);
        if (t == NULL && granted && !leaving)
            rt_lease_give_back(at->c, o->name, at->session, o->nonce);
        else if (t != NULL && granted)
            rt_spin_granted(&at->c->spin, t, number_of(at, i));
        else if (t != NULL) {
            t->doubt = false;
            rt_spin_wait(&at->c->spin, t, left_of(at));
        }
    }
    return true;
}

static void retry_failed(struct rt_sql_ask *a, int err)
{
    struct attempt *at = a->about;
    bool leaving;
    for (size_t i = 0; i < at->count; i++) {
        struct rt_spin_ticket *t = rt_spin_answered(&at->c->spin, at->session, at->list[i].name,
                                                    at->list[i].nonce, &leaving);
        if (t == NULL)
            continue;
        t->doubt = t->doubt || err == ROTA_UNKNOWN;
        rt_spin_wait(&at->c->spin, t, -1);
    }
}

static const struct rt_sql_plan retry_plan = {.say = try_say,
                                              .heard = retry_heard,
                                              .failed = retry_failed,
                                              .refused = try_refused,
                                              .freed = free_attempt};
static const struct rt_sql_plan retry_set_plan = {.alone = true,
                                                  .say = try_say,
                                                  .heard = retry_heard,
                                                  .failed = retry_failed,
                                                  .refused = try_refused,
                                                  .freed = free_attempt};

static bool ask_again(struct rt_spin *s, struct rt_spin_ticket **list, size_t n)
{
    struct rt_lease_conn *c = rt_lease_of_spin(s);
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += strlen(list[i]->name) + 1;
    struct attempt *at = attempt_new(c, n, bytes);
    char *text = at != NULL ? (char *)&at->list[n] : NULL;
    for (size_t i = 0; at != NULL && i < n; i++)
        text = put_one(at, i, text, list[i]->name, list[i]->nonce, list[i]->owner);
    return at != NULL && go(c, n > 1 ? &retry_set_plan : &retry_plan, NULL, at) != NULL;
}

const struct rt_spin_user rt_lease_spin_user = {.size = sizeof(struct rt_spin_ticket),
                                                .ask = ask_again};
