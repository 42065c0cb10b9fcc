/* SPDX-License-Identifier: Apache-2.0 */
/* The application's connections while they are lent: what is asked on them, and how they are given back. */
#include "txn/manager/inside.h"

#include "base/bug.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#define AT_ONCE 64 /* events in one look */

static void op_ended(struct rota_branch *b)
{
    uint32_t seq = b->op_seq;

    if (b->begins != NULL) {
        b->op_seq = 0;
        rt_xa_begun(b);
        return;
    }

    b->op_seq = 0;
    if (b->bond->op.err != 0)
        rt_entry_say(&b->line, "%s", b->seat->party->errmsg);
    bool vote = b->bond->op.what == RT_PARTY_PREPARE || b->bond->op.what == RT_PARTY_ONE_PHASE;
    if (vote && b->bond->changed != NULL && b->txn->call != NULL &&
        (b->bond->op.reply == RT_REPLY_YES || b->bond->op.reply == RT_REPLY_DONE))
        *b->bond->changed = b->bond->part.changed;
    if (vote && b->bond->op.err != 0)
        rt_drive_blame(b->txn, b, b->seat->party->errmsg);
    if (b->bond->op.what == RT_PARTY_COMMIT && RT_BUG(RT_BUG_MANAGER_LOST_IS_DONE))
        b->bond->op.reply = RT_REPLY_DONE;
    rt_drive_answer(b, seq, b->bond->op.reply);
}

static void on_event(struct rt_seat *seat, uint32_t what)
{
    struct rota_branch *b = seat->branch;
    bool failed = (what & (EPOLLERR | EPOLLHUP)) != 0;
    short events = (short)((failed || (what & EPOLLIN) != 0 ? POLLIN : 0) |
                           (failed || (what & EPOLLOUT) != 0 ? POLLOUT : 0));

    seat->armed = 0; /* each event comes once */
    if (b == NULL || b->op_seq == 0)
        return;
    struct rota_txn *t = b->txn;
    if (rt_party_go(seat->party, events))
        op_ended(b);
    rt_txns_due(t);
}

static void on_ready(struct rt_watch *w, bool readable, bool writable)
{
    struct rota_txns *m = w->user;
    struct epoll_event events[AT_ONCE];

    (void)readable;
    (void)writable;
    int n = epoll_wait(m->lent_fd, events, AT_ONCE, 0);
    for (int i = 0; i < n; i++)
        on_event(events[i].data.ptr, events[i].events);
}

/* One system call per wait, and none when the connection is given back: the kernel tells once, then never again. */
static void watch(struct rota_branch *b)
{
    struct rt_seat *seat = b->seat;
    struct rt_party_wait wait = rt_party_wait(seat->party);
    struct epoll_event e = {.events = EPOLLONESHOT, .data.ptr = seat};

    e.events |= (wait.events & (POLLIN | POLLPRI)) != 0 ? EPOLLIN : 0;
    e.events |= (wait.events & POLLOUT) != 0 ? EPOLLOUT : 0;
    if (seat->polled == wait.fd && seat->armed == e.events)
        return;
    int op = seat->polled == wait.fd ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    int rv = epoll_ctl(b->txn->m->lent_fd, op, wait.fd, &e);
    if (rv != 0 &&
        (errno == EEXIST || errno == ENOENT)) /* known by an earlier seat; or closed and opened */
        rv = epoll_ctl(b->txn->m->lent_fd, errno == EEXIST ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, wait.fd,
                       &e);
    seat->branch = b;
    seat->polled = rv == 0 ? wait.fd : -1;
    seat->armed = rv == 0 ? e.events : 0; /* on failure its deadline ends it */
}

void rt_lent_unwatch(struct rota_branch *b)
{
    struct rt_seat *seat = b->seat;

    assert(b->op_seq == 0);
    if (seat->armed != 0) {
        (void)epoll_ctl(b->txn->m->lent_fd, EPOLL_CTL_DEL, seat->polled, NULL);
        seat->armed = 0;
        seat->polled = -1;
    }
    seat->branch = NULL;
}

int rt_lent_start(struct rota_txns *m)
{
    m->lent_fd = epoll_create1(EPOLL_CLOEXEC);
    if (m->lent_fd < 0)
        return ROTA_UNREACHABLE;
    m->lent_watch.user = m;
    int rv = rt_watch_start(&m->loop, &m->lent_watch, m->lent_fd, on_ready);
    if (rv == 0)
        rt_watch_want(&m->lent_watch, true, false);
    return rv;
}

void rt_lent_stop(struct rota_txns *m)
{
    if (m->lent_watch.open)
        rt_watch_stop(&m->lent_watch, NULL);
    if (m->lent_fd >= 0)
        close(m->lent_fd);
    m->lent_fd = -1;
}

/* Whether nobody else can finish what is prepared while this connection lives: so with MariaDB, unless it said that
 * nothing is there. */
static bool holds(const struct rota_branch *b, const struct rt_branch *core)
{
    bool asked = core->state == RT_BRANCH_ASKING || core->state == RT_BRANCH_CHECKING;
    return core->gated && core->own && b->bond->part.prepared && !rt_branch_is_over(core) && !asked;
}

/* Whether the work done on it is still there, not rolled back: whoever got the connection back could commit it. */
static bool is_open(const struct rota_branch *b, const struct rt_branch *core)
{
    bool begun = b->bond->part.by != NULL && !b->bond->part.prepared && !rt_branch_is_over(core);
    return begun || b->seat->party->dead;
}

/* The connection is its owner's again. One that holds a branch is cut, so that another can finish the branch; and so is
 * one on which the branch could not be rolled back, so that nobody commits it. */
void rt_lent_give_back(struct rota_branch *b)
{
    struct rt_branch *core = rt_drive_core(b);
    struct rt_seat *seat = b->seat;

    assert(b->op_seq == 0);
    rt_lent_unwatch(b);
    if (holds(b, core) || is_open(b, core))
        rt_seat_cut(seat);
    if (!rt_branch_is_over(core))
        core->own = false;
    b->bond->part.by = NULL;
    b->seat = NULL;
    rt_seat_leave(b->txn->m, seat);
}

void rt_lent_ask(struct rota_branch *b, enum rt_party_what what, uint32_t seq)
{
    bool stays = b->txn->core.joined && what == RT_PARTY_PREPARE; /* its beginner asks for it */

    b->bond->op = (struct rt_party_op){
        .what = what, .part = &b->bond->part, .deadline = rt_drive_soon(b->txn)};
    b->bond->op.flags = stays ? RT_PARTY_WRITES : 0;
    if (!b->txn->core.joined) /* if joined, the application has it between its vote and this */
        b->bond->op.flags |= RT_PARTY_LENT;
    b->op_seq = seq;
    if (rt_party_start(b->seat->party, &b->bond->op))
        op_ended(b);
    else
        watch(b);
}

/* One lent connection: its op is over, or goes on until the time that is returned. */
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
