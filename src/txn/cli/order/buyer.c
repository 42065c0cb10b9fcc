/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator of an order, and the recovery of what a dead one left: each a process. */
#include "txn/cli/order/buyer.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHORT_MS 2000 /* the deadline of an order never decided: the demo is short */
#define RECOVER_MS 200
#define LOOK_NS 20000000

static int open_manager(const struct rt_stage *s, uint32_t flags, struct rota_txns **out)
{
    struct rota_txns_options opts = {
        .flags = flags, .recover_ms = RECOVER_MS, .resources = s->resources};

    return rota_txns_open(out, s->journal, &opts);
}

/* Waits until every service has heard of ID, and tells how it ended. */
static int await_end(const struct rt_stage *s, struct rota_txns *m, const char *who, const char *id)
{
    struct rt_event e = {.kind = RT_EVENT_ENDED};
    struct rota_outcome o;

    do {
        (void)nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
        if (rota_txn_outcome(m, id, &o) != 0)
            return rt_stage_fail(s, who, rota_txn_errmsg(m));
    } while (o.decision == ROTA_STAND_OPEN || o.unfinished > 0);
    e.op = o.decision == ROTA_STAND_COMMITTED ? ROTA_OP_CONFIRM : ROTA_OP_CANCEL;
    snprintf(e.txn, sizeof(e.txn), "%s", id);
    rt_stage_tell(s, &e);
    return 0;
}

/* ---- The coordinator ------------------------------------------------------------------------ */

static int reserve(struct rota_txn *t, int service, int amount)
{
    char body[16];
    const struct rota_tcc_http what = {
        .resource = rt_order_names[service],
        .try_url = "/try",
        .confirm_url = "/confirm",
        .cancel_url = "/cancel",
        .content_type = "text/plain",
        .body = body,
        .size = (size_t)snprintf(body, sizeof(body), "%d", amount),
    };

    return rota_tcc_http(t, &what, NULL, 0);
}

static int reserve_all(struct rota_txn *t, const struct rt_order *o)
{
    int err = 0;

    for (int i = 0; err == 0 && i < RT_ORDER_SERVICES; i++)
        err = reserve(t, i, o->amounts[i]);
    return err;
}

static void tell_begun(const struct rt_stage *s, const char *id)
{
    struct rt_event e = {.kind = RT_EVENT_BEGUN};

    snprintf(e.txn, sizeof(e.txn), "%s", id);
    rt_stage_tell(s, &e);
}

__attribute__((noreturn)) static void die(const struct rt_stage *s)
{
    rt_stage_tell(s, &(struct rt_event){.kind = RT_EVENT_KILLED,
                                        .who = "coordinator",
                                        .text = "killed with -9: nothing is decided"});
    for (;;)
        (void)raise(SIGKILL);
}

/* All or nothing; ERR: the result of reserving. */
static int decide(const struct rt_stage *s, struct rota_txns *m, struct rota_txn *t, int err,
                  const struct rt_order *o)
{
    if (err == 0 && o->death == RT_ORDER_DIES_UNDECIDED)
        die(s);
    if (err == 0 && o->death == RT_ORDER_DIES_DECIDED)
        s->shared->victim = getpid();
    char why[200];
    snprintf(why, sizeof(why), "%s", err != 0 ? rota_txn_errmsg(m) : "");
    int rv = err == 0 ? rota_txn_commit(t) : rota_txn_abort(t);
    bool played = err == 0 || err == ROTA_ABORTED || err == ROTA_UNKNOWN;
    return played && (rv == 0 || rv == ROTA_ABORTED)
               ? 0
               : rt_stage_fail(s, "coordinator", played ? rota_txn_errmsg(m) : why);
}

int rt_buyer_order(const struct rt_stage *s, void *arg)
{
    const struct rt_order *o = arg;
    struct rota_txn_options opts = {.label = o->title, .flags = ROTA_TXN_ORDERED};
    struct rota_txns *m;
    struct rota_txn *t;
    char id[48];

    if (o->death == RT_ORDER_DIES_UNDECIDED)
        opts.timeout_ms = SHORT_MS;
    if (open_manager(s, 0, &m) != 0)
        return rt_stage_fail(s, "coordinator", rota_txn_errmsg(NULL));
    if (rota_txn_begin(m, &opts, &t) != 0)
        return rt_stage_fail(s, "coordinator", rota_txn_errmsg(m));
    snprintf(id, sizeof(id), "%s", rota_txn_id(t));
    tell_begun(s, id);
    int rv = decide(s, m, t, reserve_all(t, o), o);
    if (rv == 0)
        rv = await_end(s, m, "coordinator", id);
    rota_txns_close(m);
    return rv;
}

/* ---- Recovery ------------------------------------------------------------------------------------ */

/* Tells what recovery finds. */
static void tell_found(const struct rt_stage *s, const struct rota_outcome *o)
{
    if (o->decision == ROTA_STAND_OPEN)
        rt_stage_says(s, "recovery", 0,
                      "another process finds it undecided: it aborts after its deadline");
    else
        rt_stage_says(s, "recovery", 0, "another process finds it decided, not finished");
}

int rt_buyer_recover(const struct rt_stage *s, void *arg)
{
    const struct rt_order *order = arg;
    struct rota_outcome o;
    struct rota_txns *m;

    if (open_manager(s, ROTA_TXN_RECOVER, &m) != 0)
        return rt_stage_fail(s, "recovery", rota_txn_errmsg(NULL));
    if (rota_txn_outcome(m, order->id, &o) != 0)
        return rt_stage_fail(s, "recovery", rota_txn_errmsg(m));
    tell_found(s, &o);
    int rv = await_end(s, m, "recovery", order->id);
    rota_txns_close(m);
    return rv;
}
