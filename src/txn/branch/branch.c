/* SPDX-License-Identifier: Apache-2.0 */
/* What all participants have in common: one op at a time, statement by statement; lost and late answers; the blocking
 * twin. */
#include "txn/branch/party.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "txn/fence/forget.h"
#include "txn/point.h"

#include <rota.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define SQL_ROOM 2048 /* fits all statements but the longest FORGET: no memory is needed later */

/* ---- For the kinds ---------------------------------------------------------- */

bool rt_party_end(struct rt_party *p, enum rt_reply reply, int err, const char *format, ...)
{
    va_list args;

    assert(p->op != NULL);
    p->op->reply = reply;
    p->op->err = err;
    if (format != NULL) {
        va_start(args, format);
        vsnprintf(p->errmsg, sizeof(p->errmsg), format, args);
        va_end(args);
    }
    return true;
}

bool rt_party_lose(struct rt_party *p, const char *why)
{
    p->dead = true;
    if (p->op->part != NULL && p->op->part->by == p)
        p->op->part->by = NULL;
    return rt_party_end(p, RT_REPLY_LOST, ROTA_UNREACHABLE, "%s", why);
}

void rt_party_trouble(struct rt_party *p, int err, const char *text)
{
    p->trouble = err;
    snprintf(p->errmsg, sizeof(p->errmsg), "%s", text);
}

/* Without its own semicolon: MariaDB does not count an empty statement as one. */
bool rt_last_add(struct rt_party *p)
{
    const char *last = p->op->part->last;
    size_t size = strlen(last);

    assert(p->talk->size == 0);
    while (size > 0 && strchr("; \t\r\n", last[size - 1]) != NULL)
        size--;
    return size == 0 || rt_talk_add(p->talk, "%.*s\n; ", (int)size, last);
}

/* ---- Statement by statement -------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- Crash points: before a statement that forces something leaves, after it, and when its answer is there */

static void point_asked(const struct rt_party *p)
{
    switch (p->op->what) {
    case RT_PARTY_PREPARE:
        rt_point("prepare-asked");
        return;
    case RT_PARTY_ONE_PHASE:
        rt_point("one-phase-asked");
        return;
    case RT_PARTY_COMMIT:
        if (p->keeper)
            rt_point("takeover-commit-asked");
        else
            rt_point("commit-asked");
        return;
    case RT_PARTY_ROLLBACK:
        if (p->keeper)
            rt_point("takeover-rollback-asked");
        else
            rt_point("rollback-asked");
        return;
    case RT_PARTY_ASK:
        rt_point("fence-asked");
        return;
    case RT_PARTY_GATE:
        rt_point("gate-asked");
        return;
    case RT_PARTY_FORGET:
        rt_point("marks-asked");
        return;
    default:
        return;
    }
}

static void point_sent(const struct rt_party *p)
{
    switch (p->op->what) {
    case RT_PARTY_PREPARE:
        rt_point("prepare-sent");
        return;
    case RT_PARTY_ONE_PHASE:
        rt_point("one-phase-sent");
        return;
    case RT_PARTY_COMMIT:
        if (p->keeper)
            rt_point("takeover-commit-sent");
        else
            rt_point("commit-sent");
        return;
    case RT_PARTY_ROLLBACK:
        if (p->keeper)
            rt_point("takeover-rollback-sent");
        else
            rt_point("rollback-sent");
        return;
    case RT_PARTY_ASK:
        rt_point("fence-sent");
        return;
    case RT_PARTY_GATE:
        rt_point("gate-sent");
        return;
    case RT_PARTY_FORGET:
        rt_point("marks-sent");
        return;
    default:
        return;
    }
}

static void point_answered(const struct rt_party *p)
{
    switch (p->op->what) {
    case RT_PARTY_PREPARE:
        rt_point("prepare-answered");
        return;
    case RT_PARTY_ONE_PHASE:
        rt_point("one-phase-answered");
        return;
    case RT_PARTY_COMMIT:
        if (p->keeper)
            rt_point("takeover-commit-answered");
        else
            rt_point("commit-answered");
        return;
    case RT_PARTY_ROLLBACK:
        if (p->keeper)
            rt_point("takeover-rollback-answered");
        else
            rt_point("rollback-answered");
        return;
    case RT_PARTY_ASK:
        rt_point("fence-answered");
        return;
    case RT_PARTY_GATE:
        rt_point("gate-answered");
        return;
    case RT_PARTY_FORGET:
        rt_point("marks-answered");
        return;
    default:
        return;
    }
}

/* ---- The steps */

static bool ended(struct rt_party *p)
{
    if (p->op->what == RT_PARTY_BEGIN && p->op->reply == RT_REPLY_DONE)
        rt_point("branch-begun");
    p->op = NULL;
    p->forces = false;
    p->talk->row = NULL;
    return true;
}

/* The steps of LOOK: the same for all participants. */
static bool look(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;
    bool rights = said->code == 1044 || said->code == 1045 || said->code == 1142 ||
                  said->code == 1143 || said->code == 1227 || strcmp(said->state, "42501") == 0;

    if (p->step == 0) {
        p->talk->row = p->op->look.row;
        p->talk->row_arg = p->op->look.arg;
        return RT_PARTY_SAY(p, 1, "%s", p->op->look.sql);
    }
    if (said->failed)
        return rt_party_end(p, RT_REPLY_REFUSED, rights ? ROTA_AUTH : ROTA_INVALID, "%s",
                            said->text);
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}

/* If ATTACH has a table of markers, it goes on until it knows which database that is in. */
static bool step(struct rt_party *p)
{
    bool own = p->step >= RT_PARTY_IDENTITY;

    if (p->op->what == RT_PARTY_LOOK)
        return look(p);
    if (p->op->what == RT_PARTY_FORGET &&
        (p->op->flags & (RT_PARTY_FENCES | RT_PARTY_PROMISES)) != 0)
        return rt_forget_step(p);
    if (!own && !p->kind->step(p))
        return false;
    if (own)
        return rt_identity_step(p);
    return p->op->what != RT_PARTY_ATTACH || p->op->reply != RT_REPLY_DONE ||
           (p->op->flags & RT_PARTY_UNMARKED) != 0 || rt_identity_step(p);
}

/* From a step whose statement was answered (or the first step) to the next that waits. */
static bool run(struct rt_party *p)
{
    struct rt_talk *t = p->talk;

    for (;;) {
        if (t->said.lost) {
            rt_party_lose(p, t->said.text[0] != '\0' ? t->said.text : "the connection has ended");
            if (RT_BUG(RT_BUG_BRANCH_LOST_IS_NO))
                p->op->reply = RT_REPLY_NO;
            return ended(p);
        }
        if (p->forces)
            point_answered(p);
        p->forces = false;
        t->size = 0;
        t->row = NULL;
        if (step(p))
            return ended(p);
        if (t->size == 0) { /* no memory for it: it was not sent */
            bool first = p->begun++ == 0;
            if (first)
                rt_party_end(p, RT_REPLY_NO, ROTA_NOMEM, "out of memory");
            else
                rt_party_lose(p, "out of memory");
            return ended(p);
        }
        p->begun++;
        memset(&t->said, 0, sizeof(t->said));
        if (p->forces)
            point_asked(p);
        bool over = t->kind->send(t);
        if (p->forces)
            point_sent(p);
        if (!over)
            return false;
    }
}

/* Whether OP is allowed on this connection at all. */
static bool may(struct rt_party *p, const struct rt_party_op *op)
{
    static const bool of_keeper[] = {[RT_PARTY_ASK] = true,
                                     [RT_PARTY_GATE] = true,
                                     [RT_PARTY_LIST] = true,
                                     [RT_PARTY_FORGET] = true,
                                     [RT_PARTY_LOOK] = true};
    bool finishes = op->what == RT_PARTY_COMMIT || op->what == RT_PARTY_ROLLBACK;

    if (op->what != RT_PARTY_ATTACH && !p->attached)
        rt_party_end(p, RT_REPLY_REFUSED, ROTA_INVALID, "the connection is not attached");
    else if (op->what != RT_PARTY_ATTACH && !finishes && p->keeper != of_keeper[op->what])
        rt_party_end(p, RT_REPLY_REFUSED, ROTA_INVALID,
                     p->keeper ? "a keeper's connection has no branches of its own"
                               : "only a keeper's connection may ask that");
    else if (finishes && !p->keeper && op->part->by != p)
        rt_party_end(
            p, RT_REPLY_REFUSED, ROTA_INVALID,
            "the branch does not belong to this connection, and only a keeper's may take it over");
    else
        return true;
    return false;
}

/* The connection ended before OP could be said on it, and with it its own unprepared branch: the server rolls that
 * back. False: OP is not about such a branch. */
static bool gone(struct rt_party *p, const struct rt_party_op *op)
{
    bool votes = op->what == RT_PARTY_PREPARE || op->what == RT_PARTY_ONE_PHASE;
    bool ends = op->what == RT_PARTY_COMMIT || op->what == RT_PARTY_ROLLBACK;

    if ((!votes && !ends) || op->part->by != p)
        return false;
    if (op->part->prepared) /* another connection finishes it */
        return rt_party_lose(p, "the connection has ended");
    if (op->what == RT_PARTY_COMMIT)
        return false;
    op->part->by = NULL;
    return rt_party_end(p, votes ? RT_REPLY_NO : RT_REPLY_DONE, votes ? ROTA_INVALID : 0, NULL);
}

bool rt_party_start(struct rt_party *p, struct rt_party_op *op)
{
    assert(p->op == NULL &&
           (op->part != NULL || op->what == RT_PARTY_ATTACH || op->what == RT_PARTY_LIST ||
            op->what == RT_PARTY_FORGET || op->what == RT_PARTY_LOOK));
    p->op = op;
    p->step = 0;
    p->begun = 0;
    p->trouble = 0;
    p->errmsg[0] = '\0';
    if (op->what == RT_PARTY_ATTACH)
        p->identity = 0;
    op->err = 0;
    memset(&p->talk->said, 0, sizeof(p->talk->said));
    if (op->what == RT_PARTY_FAIL) {
        op->part->failed = true;
        rt_party_end(p, RT_REPLY_DONE, 0, NULL);
        return ended(p);
    }
    if (p->dead) {
        rt_party_lose(p, "an answer was lost on this connection: it cannot be used any more");
        return ended(p);
    }
    if (!may(p, op))
        return ended(p);
    int err = p->talk->kind->usable(p->talk, p->errmsg, sizeof(p->errmsg));
    if (err == 0)
        return run(p);
    if (err != ROTA_UNREACHABLE || !gone(p, op))
        rt_party_end(p, RT_REPLY_REFUSED, ROTA_INVALID, NULL);
    return ended(p);
}

struct rt_party_wait rt_party_wait(const struct rt_party *p)
{
    struct rt_talk *t = p->talk;
    int64_t until = t->until;

    assert(p->op != NULL);
    if (p->op->deadline != 0 && p->op->deadline < until)
        until = p->op->deadline;
    return (struct rt_party_wait){.fd = t->kind->fd(t), .events = t->events, .until = until};
}

/* It is late: after this its answer cannot be taken for another's. The library is run to its end, for it now sees the
 * connection closed. */
static bool cut(struct rt_party *p)
{
    struct rt_talk *t = p->talk;
    int fd = t->kind->fd(t);

    if (fd >= 0)
        shutdown(fd, SHUT_RDWR);
    while (!t->kind->advance(t, POLLIN | POLLOUT | POLLHUP)) {
    }
    rt_party_lose(p, "no answer in time: the connection was cut");
    return ended(p);
}

bool rt_party_go(struct rt_party *p, short events)
{
    assert(p->op != NULL);
    if (events == 0 && p->op->deadline != 0 && now_ns() >= p->op->deadline)
        return cut(p);
    if (events == 0 && p->talk->until == INT64_MAX)
        return false; /* too early */
    return p->talk->kind->advance(p->talk, events) && run(p);
}

enum rt_reply rt_party_do(struct rt_party *p, struct rt_party_op *op)
{
    bool over = rt_party_start(p, op);

    while (!over) {
        struct rt_party_wait w = rt_party_wait(p);
        struct pollfd fd = {.fd = w.fd, .events = w.events};
        int64_t left = w.until == INT64_MAX ? -1 : (w.until - now_ns() + 999999) / 1000000;
        int limit = w.until == INT64_MAX ? -1 : left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
        int n = poll(&fd, 1, limit);
        if (n < 0 && errno == EINTR)
            continue;
        over = rt_party_go(p, n > 0 ? fd.revents : 0);
    }
    return op->reply;
}

/* ---- Life --------------------------------------------------------------------- */

int rt_party_open(struct rt_party **out, const struct rt_party_kind *kind, void *conn, bool keeper,
                  const char *marks, char *errmsg, size_t size)
{
    int err = kind->talk->load(errmsg, size);

    if (err != 0)
        return err;
    if (conn == NULL || (marks != NULL && strlen(marks) >= RT_PARTY_MARKS_MAX)) {
        snprintf(errmsg, size,
                 conn == NULL ? "no connection" : "the name of the marker table is too long");
        return ROTA_INVALID;
    }
    struct rt_party *p = rt_alloc(sizeof(*p));
    struct rt_talk *t = rt_alloc(sizeof(*t));
    if (p == NULL || t == NULL || !rt_grow(&t->sql, &t->room, SQL_ROOM, 1)) {
        rt_free(p);
        rt_free(t);
        snprintf(errmsg, size, "out of memory");
        return ROTA_NOMEM;
    }
    *t = (struct rt_talk){
        .kind = kind->talk, .conn = conn, .sql = t->sql, .room = t->room, .until = INT64_MAX};
    *p = (struct rt_party){.kind = kind, .conn = conn, .keeper = keeper, .talk = t};
    snprintf(p->marks, sizeof(p->marks), "%s", marks != NULL ? marks : "");
    *out = p;
    return 0;
}

int rt_party_room(struct rt_party *p, size_t size)
{
    struct rt_talk *t = p->talk;

    assert(p->op == NULL);
    if (p->packet != 0 && size >= p->packet) { /* a packet has one byte more than the text */
        snprintf(p->errmsg, sizeof(p->errmsg),
                 "the statement has %zu bytes, and the server takes less than %" PRIu64
                 " in one packet: SET GLOBAL max_allowed_packet to more, and reconnect",
                 size - 1, p->packet);
        return ROTA_INVALID;
    }
    if (rt_grow(&t->sql, &t->room, SQL_ROOM + size, 1))
        return 0;
    snprintf(p->errmsg, sizeof(p->errmsg), "out of memory");
    return ROTA_NOMEM;
}

void rt_party_close(struct rt_party *p)
{
    if (p == NULL)
        return;
    rt_free(p->talk->sql);
    rt_free(p->talk);
    rt_free(p);
}
