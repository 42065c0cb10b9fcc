/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the application's while they are lent: what is asked on them, and how they are given back. */
#include "txn/manager/inside.h"

#include "base/bug.h"
#include "txn/branch/talk.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void op_ended(struct rota_branch *b)
{
    uint32_t seq = b->op_seq;

    if (b->begins != NULL) {
        b->op_seq = 0;
        rt_xa_begun(b);
        return;
    }

    b->op_seq = 0;
    if (b->watching)
        rt_watch_want(&b->watch, false, false);
    if (b->op.err != 0)
        snprintf(b->line, sizeof(b->line), "%s", b->seat->party->errmsg);
    bool vote = b->op.what == RT_PARTY_PREPARE || b->op.what == RT_PARTY_ONE_PHASE;
    if (vote && b->op.err != 0)
        rt_drive_blame(b->txn, b, b->line);
    if (b->op.what == RT_PARTY_COMMIT && RT_BUG(RT_BUG_MANAGER_LOST_IS_DONE))
        b->op.reply = RT_REPLY_DONE;
    rt_drive_answer(b, seq, b->op.reply);
}

static void on_ready(struct rt_watch *w, bool readable, bool writable)
{
    struct rota_branch *b = w->user;
    short events = (short)((readable ? POLLIN : 0) | (writable ? POLLOUT : 0));

    if (b->op_seq == 0)
        return;
    struct rota_txn *t = b->txn;
    if (rt_party_go(b->seat->party, events))
        op_ended(b);
    rt_txns_due(t);
}

static void watch(struct rota_branch *b)
{
    struct rt_party_wait wait = rt_party_wait(b->seat->party);

    if (!b->watching && !b->closing) { /* when that has closed, T is due again */
        memset(&b->watch, 0, sizeof(b->watch));
        b->watch.user = b;
        b->watching = rt_watch_start(&b->txn->m->loop, &b->watch, wait.fd, on_ready) == 0;
    }
    if (b->watching) /* without: its deadline ends it */
        rt_watch_want(&b->watch, (wait.events & (POLLIN | POLLPRI)) != 0,
                      (wait.events & POLLOUT) != 0);
}

static void on_closed(struct rt_watch *w)
{
    struct rota_branch *b = w->user;

    b->closing = false;
    if (b->orphan)
        rt_entry_free_branch(b); /* its transaction may be gone: that has not waited for it */
    else
        rt_txns_due(b->txn);
}

void rt_lent_unwatch(struct rota_branch *b)
{
    assert(b->op_seq == 0);
    if (!b->watching)
        return;
    b->watching = false;
    b->closing = true;
    rt_watch_stop(&b->watch, on_closed);
}

/* The connection is its owner's again. What is prepared on it is finished by another one, which cannot before this one
 * has ended: so it is cut. */
void rt_lent_give_back(struct rota_branch *b)
{
    struct rt_branch *core = rt_drive_core(b);
    struct rt_seat *seat = b->seat;
    struct rt_talk *talk = seat->party->talk;

    assert(b->op_seq == 0);
    rt_lent_unwatch(b);
    if (!rt_branch_is_over(core) && b->part.prepared && core->own && talk->kind->fd(talk) >= 0)
        shutdown(talk->kind->fd(talk), SHUT_RDWR);
    if (!rt_branch_is_over(core))
        core->own = false;
    b->part.by = NULL;
    b->seat = NULL;
    rt_seat_leave(b->txn->m, seat);
}

void rt_lent_ask(struct rota_branch *b, enum rt_party_what what, uint32_t seq)
{
    bool stays = b->txn->core.joined && what == RT_PARTY_PREPARE; /* who began it asks for it */

    b->op = (struct rt_party_op){.what = what, .part = &b->part, .deadline = rt_drive_soon(b->txn)};
    b->op.flags = stays ? RT_PARTY_WRITES : 0;
    b->op_seq = seq;
    if (rt_party_start(b->seat->party, &b->op))
        op_ended(b);
    else
        watch(b);
}

/* One connection that is lent: its op is over, or goes on until what is returned. */
int64_t rt_lent_clock(struct rota_branch *b)
{
    if (b->op_seq != 0 && rt_party_wait(b->seat->party).until <= rt_loop_now(&b->txn->m->loop) &&
        rt_party_go(b->seat->party, 0)) {
        op_ended(b);
        return rt_loop_now(&b->txn->m->loop); /* B may be gone */
    }
    if (b->op_seq == 0)
        return RT_NEVER;
    watch(b);
    return rt_party_wait(b->seat->party).until;
}
