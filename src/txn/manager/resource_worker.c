/* SPDX-License-Identifier: Apache-2.0 */
/* The worker of a resource: one connection, errand by errand.
 *
 *   forever: late errands are answered
 *            nothing to do: wait; for 60 s: leave
 *            no connection: connect, if the pause is over. On failure all that waits is answered
 *            an errand: place it, ask it, answer it
 *
 * Only this thread touches the connection. It waits in one place (rt_effort_wait), where it is woken to end. */
#include "txn/manager/resource_inside.h"

#include "base/bug.h"
#include "net/loop.h"

#include <rota.h>

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define IDLE (60000 * RT_RESOURCE_MS)
#define CONNECT (5000 * RT_RESOURCE_MS) /* limit for connecting, all places together */
#define PAUSE_FIRST (100 * RT_RESOURCE_MS)
#define PAUSE_MOST (2000 * RT_RESOURCE_MS)
#define REFUSED_FIRST (1000 * RT_RESOURCE_MS)
#define REFUSED_MOST (30000 * RT_RESOURCE_MS)
#define GATE_APART (120 * RT_RESOURCE_MS)
#define GATES_MOST 64 /* in one op */

/* ---- Answers ------------------------------------------------------------------------ */

void rt_worker_drop(struct rt_errand *e, int err, const char *format, ...)
{
    va_list args;

    e->op.reply = RT_REPLY_LOST;
    e->op.err = err;
    va_start(args, format);
    vsnprintf(e->errmsg, sizeof(e->errmsg), format, args);
    va_end(args);
    e->next = NULL;
    e->done(e);
}

static bool is_late(const struct rt_errand *e, int64_t now)
{
    return e->op.deadline <= now;
}

/* Takes the errands that WANTED accepts (NULL: all) out of all queues. */
static struct rt_errand *take_out(struct rt_resource *r,
                                  bool (*wanted)(const struct rt_errand *, int64_t), int64_t now)
{
    struct rt_errand *out = NULL, **last = &out;
    int64_t nearest = INT64_MAX;

    for (int i = 0; i < RT_QUEUES; i++) {
        struct rt_queue *q = &r->queues[i];
        struct rt_errand **at = &q->first;
        while (*at != NULL) {
            struct rt_errand *e = *at;
            if (wanted != NULL && !wanted(e, now)) {
                nearest = e->op.deadline < nearest ? e->op.deadline : nearest;
                at = &e->next;
                continue;
            }
            *at = e->next;
            e->next = NULL;
            *last = e;
            last = &e->next;
        }
        q->last = at;
    }
    r->nearest = nearest;
    return out;
}

/* Locked, and again when it returns. */
static void answer_late(struct rt_resource *r)
{
    int64_t now = rt_loop_clock();

    if (now < r->nearest)
        return;
    struct rt_errand *late = take_out(r, is_late, now);
    pthread_mutex_unlock(&r->mu);
    while (late != NULL) {
        struct rt_errand *e = late;
        late = e->next;
        rt_worker_drop(e, ROTA_UNREACHABLE, "%s: no answer in time%s%s", r->name,
                       r->why[0] != '\0' ? ": " : "", r->why);
    }
    pthread_mutex_lock(&r->mu);
}

/* Locked, and again when it returns. Answers all that waits with what connecting found out. */
static void answer_all(struct rt_resource *r, int err)
{
    struct rt_errand *all = take_out(r, NULL, 0);

    pthread_mutex_unlock(&r->mu);
    while (all != NULL) {
        struct rt_errand *e = all;
        all = e->next;
        e->op.reply = r->refused != 0 ? RT_REPLY_REFUSED : RT_REPLY_LOST;
        e->op.err = err;
        snprintf(e->errmsg, sizeof(e->errmsg), "%s", r->why);
        e->next = NULL;
        e->done(e);
    }
    pthread_mutex_lock(&r->mu);
}

/* ---- Waiting --------------------------------------------------------------------------- */

static void drain(int fd)
{
    uint64_t count;
    ssize_t n = read(fd, &count, sizeof(count));

    (void)n;
}

static int limit_ms(int64_t until, int64_t now)
{
    int64_t left = (until - now + RT_RESOURCE_MS - 1) / RT_RESOURCE_MS;

    return until == INT64_MAX ? -1 : left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

/* Locked, and again when it returns: waits until rung, FD is ready, UNTIL, or an errand is late. */
static int rest(struct rt_resource *r, int fd, short events, int64_t until)
{
    struct pollfd fds[2] = {{.fd = r->wake, .events = POLLIN}, {.fd = fd, .events = events}};
    int64_t wait = r->nearest < until ? r->nearest : until;

    pthread_mutex_unlock(&r->mu);
    int n = poll(fds, 2, limit_ms(wait, rt_loop_clock()));
    if (n > 0 && fds[0].revents != 0)
        drain(r->wake);
    pthread_mutex_lock(&r->mu);
    answer_late(r);
    return n > 0 ? fds[1].revents : 0;
}

int rt_effort_wait(struct rt_effort *effort, int fd, short events, int64_t until)
{
    struct rt_resource *r = effort->r;
    int said = 0;

    until = effort->until < until ? effort->until : until;
    pthread_mutex_lock(&r->mu);
    while (said == 0 && !r->closing && rt_loop_clock() < until)
        said = rest(r, fd, events, until);
    if (said == 0 && r->closing)
        said = -1;
    pthread_mutex_unlock(&r->mu);
    return said;
}

void rt_effort_blind(struct rt_effort *effort)
{
    pthread_mutex_lock(&effort->r->mu);
    assert(!effort->r->blind);
    effort->r->blind = true;
    pthread_mutex_unlock(&effort->r->mu);
}

bool rt_effort_seeing(struct rt_effort *effort)
{
    struct rt_resource *r = effort->r;

    pthread_mutex_lock(&r->mu);
    r->blind = false;
    bool goes_on = !r->abandoned;
    pthread_cond_broadcast(&r->seen);
    pthread_mutex_unlock(&r->mu);
    return goes_on;
}

bool rt_effort_is_over(struct rt_effort *effort)
{
    pthread_mutex_lock(&effort->r->mu);
    bool over = effort->r->closing;
    pthread_mutex_unlock(&effort->r->mu);
    return over;
}

/* ---- Connecting --------------------------------------------------------------------------- */

/* Locked. */
static void close_contact(struct rt_resource *r)
{
    struct rt_spot *spot = r->contact.spot;

    pthread_mutex_unlock(&r->mu);
    rt_contact_close(&r->contact);
    pthread_mutex_lock(&r->mu);
    rt_spot_let_go(spot);
}

static int64_t pause_of(const struct rt_resource *r)
{
    int64_t pause = r->refused != 0 ? REFUSED_FIRST : PAUSE_FIRST;
    int64_t most = r->refused != 0 ? REFUSED_MOST : PAUSE_MOST;

    for (uint32_t i = 1; i < r->failures && pause < most; i++)
        pause *= 2;
    return pause < most ? pause : most;
}

/* Locked, and again when it returns. */
static void failed(struct rt_resource *r, int err, const char *why)
{
    const struct rt_resources_hooks *hooks = &r->table->hooks;
    bool told = strcmp(r->why, why) == 0 && !r->up;
    bool passing = err == ROTA_UNREACHABLE || err == ROTA_CANCELED || err == ROTA_NOMEM;

    r->refused = passing ? 0 : err;
    r->failures++;
    r->next_try = rt_loop_clock() + pause_of(r);
    snprintf(r->why, sizeof(r->why), "%s", why);
    r->up = false;
    r->told_up = false;
    if (!told && hooks->down != NULL) {
        pthread_mutex_unlock(&r->mu);
        hooks->down(hooks->arg, r, err, why);
        pthread_mutex_lock(&r->mu);
    }
    answer_all(r, err);
}

/* Locked, and again when it returns. */
static void succeeded(struct rt_resource *r)
{
    const struct rt_resources_hooks *hooks = &r->table->hooks;

    r->failures = 0;
    r->refused = 0;
    r->next_try = 0;
    r->why[0] = '\0';
    r->up = true;
    if (r->told_up || hooks->back == NULL)
        return;
    r->told_up = true;
    pthread_mutex_unlock(&r->mu);
    hooks->back(hooks->arg, r);
    pthread_mutex_lock(&r->mu);
}

/* Locked, and again when it returns. False: the resource was left to this thread. */
static bool connect_now(struct rt_resource *r)
{
    struct rt_effort effort = {.r = r, .until = rt_loop_clock() + CONNECT};
    char why[RT_RESOURCE_LINE] = "";

    r->version_tried = r->version;
    r->spot->refs++;
    struct rt_spot *spot = r->spot;
    pthread_mutex_unlock(&r->mu);
    int err = rt_contact_open(&r->contact, spot, &effort, why, sizeof(why));
    pthread_mutex_lock(&r->mu);
    if (err != 0)
        rt_spot_let_go(spot);
    if (r->abandoned)
        return false;
    if (r->closing)
        return true;
    if (err != 0)
        failed(r, err, why);
    else
        succeeded(r);
    return true;
}

/* ---- One errand ----------------------------------------------------------------------------- */

/* Like rt_party_do, but it can be stopped. */
static enum rt_reply ask(struct rt_resource *r, struct rt_party_op *op)
{
    struct rt_party *p = r->contact.party;
    struct rt_effort effort = {.r = r, .until = INT64_MAX};
    bool over = rt_party_start(p, op);

    while (!over) {
        struct rt_party_wait w = rt_party_wait(p);
        int said = rt_effort_wait(&effort, w.fd, w.events, w.until);
        if (said < 0)
            op->deadline = 1; /* it is late from now on: cut */
        over = rt_party_go(p, (short)(said > 0 ? said : 0));
    }
    return op->reply;
}

/* The op of E was answered. */
static void copy_words(const struct rt_resource *r, struct rt_errand *e)
{
    const struct rt_party *p = r->contact.party;
    bool bad = e->op.reply == RT_REPLY_LOST || e->op.err != 0;

    rt_place_of(p, &e->seen);
    if (bad && p->errmsg[0] != '\0')
        snprintf(e->errmsg, sizeof(e->errmsg), "%.60s: %.190s", r->name, p->errmsg);
}

static void do_one(struct rt_resource *r, struct rt_errand *e)
{
    struct rt_effort effort = {.r = r, .until = e->op.deadline};

    if (rt_contact_place(&r->contact, &effort, r->name, e)) {
        e->unsent = false;
        ask(r, &e->op);
        e->unsent = e->op.reply == RT_REPLY_LOST && RT_BUG(RT_BUG_RESOURCE_LOST_IS_UNSENT);
        copy_words(r, e);
    }
    e->done(e);
}

static bool is_same_place(const struct rt_errand *a, const struct rt_errand *b)
{
    return a->place.identity == b->place.identity && strcmp(a->place.marks, b->place.marks) == 0;
}

/* What the common op's reply means for one. */
static enum rt_reply gate_reply(const struct rt_resource *r, enum rt_reply all,
                                const struct rt_part *part)
{
    if (all != RT_REPLY_CLEAR && all != RT_REPLY_HELD)
        return all;
    if (part->clear)
        return RT_REPLY_CLEAR;
    return r->contact.reach->kind->gated && part->seen == 0 ? RT_REPLY_ABSENT : RT_REPLY_HELD;
}

/* FIRST, with those that follow it, all of one place. */
static void do_gates(struct rt_resource *r, struct rt_errand *first)
{
    struct rt_part parts[GATES_MOST];
    struct rt_party_op op = {.what = RT_PARTY_GATE, .part = parts};
    struct rt_effort effort = {.r = r, .until = first->op.deadline};

    bool placed = rt_contact_place(&r->contact, &effort, r->name, first);
    for (struct rt_errand *e = first; e != NULL; e = e->next) {
        assert(op.count < GATES_MOST);
        parts[op.count++] = e->part;
        op.deadline = e->op.deadline > op.deadline ? e->op.deadline : op.deadline;
    }
    if (placed)
        ask(r, &op);
    size_t i = 0;
    const struct rt_errand told = *first;
    for (struct rt_errand *e = first, *next; e != NULL; e = next) {
        next = e->next;
        e->next = NULL;
        if (placed) {
            e->unsent = false;
            e->part = parts[i++];
            e->op.reply = gate_reply(r, op.reply, &e->part);
            e->op.err = e->op.reply == RT_REPLY_CLEAR || e->op.reply == RT_REPLY_ABSENT ? 0
                                                                                        : op.err;
            copy_words(r, e);
        } else { /* the same for all */
            e->op.reply = told.op.reply;
            e->op.err = told.op.err;
            e->seen = told.seen;
            memcpy(e->errmsg, told.errmsg, sizeof(e->errmsg));
        }
        e->done(e);
    }
}

/* ---- Which --------------------------------------------------------------------------------------- */

static struct rt_errand *pop(struct rt_queue *q)
{
    struct rt_errand *e = q->first;

    q->first = e->next;
    if (q->first == NULL)
        q->last = &q->first;
    e->next = NULL;
    return e;
}

/* Takes the first, and all others of the same place. */
static struct rt_errand *pop_gates(struct rt_queue *q)
{
    struct rt_errand *first = pop(q), *last = first, **at = &q->first;

    int most = RT_BUG(RT_BUG_RESOURCE_GATES_ALONE) ? 1 : GATES_MOST;

    for (int n = 1; *at != NULL && n < most;) {
        struct rt_errand *e = *at;
        if (!is_same_place(first, e)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        e->next = NULL;
        last->next = e;
        last = e;
        n++;
    }
    for (at = &q->first; *at != NULL;)
        at = &(*at)->next;
    q->last = at;
    return first;
}

/* Locked, and again when it returns. The connection is there. True: something was done; false: nothing to do before
 * *UNTIL. */
static bool do_next(struct rt_resource *r, int64_t *until)
{
    bool gated = r->contact.reach->kind->gated;
    bool gate_due = r->queues[RT_GATES].first != NULL && (!gated || rt_loop_clock() >= r->gate_at);
    int which = r->queues[RT_FIRST].first != NULL  ? RT_FIRST
                : gate_due                         ? RT_GATES
                : r->queues[RT_LAST].first != NULL ? RT_LAST
                                                   : RT_QUEUES;

    if (which == RT_QUEUES) {
        *until = r->queues[RT_GATES].first != NULL ? r->gate_at : INT64_MAX;
        return false;
    }
    struct rt_queue *q = &r->queues[which];
    struct rt_errand *e = which == RT_GATES ? pop_gates(q) : pop(q);
    pthread_mutex_unlock(&r->mu);
    if (which == RT_GATES)
        do_gates(r, e);
    else
        do_one(r, e);
    if (which == RT_GATES)
        r->gate_at = rt_loop_clock() + GATE_APART;
    pthread_mutex_lock(&r->mu);
    return true;
}

/* ---- The thread ------------------------------------------------------------------------------------- */

static bool has_errands(const struct rt_resource *r)
{
    return r->queues[RT_FIRST].first != NULL || r->queues[RT_GATES].first != NULL ||
           r->queues[RT_LAST].first != NULL;
}

/* Locked, and again when it returns. No connection. False: the resource was left to this thread. */
static bool without(struct rt_resource *r)
{
    int64_t now = rt_loop_clock();
    bool wanted = has_errands(r) || (r->failures > 0 && r->refused == 0);

    if (!wanted)
        rest(r, -1, 0, r->asked_at + IDLE);
    else if (now >= r->next_try)
        return connect_now(r);
    else if (r->refused != 0)
        answer_all(r, r->refused);
    else
        rest(r, -1, 0, r->next_try);
    return true;
}

/* Locked, and again when it returns. The connection still works, as far as can be seen. */
static void with(struct rt_resource *r)
{
    int64_t until = INT64_MAX;

    if (has_errands(r) && rt_contact_has_ended(&r->contact))
        close_contact(r);
    else if (!do_next(r, &until))
        rest(r, -1, 0, until < r->asked_at + IDLE ? until : r->asked_at + IDLE);
    else if (r->contact.party->dead)
        close_contact(r);
}

/* Another URL: nothing known of the last one counts. */
static void look_at_spot(struct rt_resource *r)
{
    if (r->version == r->version_tried)
        return;
    r->version_tried = r->version;
    r->failures = 0;
    r->refused = 0;
    r->next_try = 0;
    if (r->contact.conn != NULL)
        close_contact(r);
}

/* Locked, and again when it returns: one turn. False: the resource was left to this thread. */
static bool turn(struct rt_resource *r)
{
    answer_late(r);
    look_at_spot(r);
    if (r->contact.conn != NULL)
        with(r);
    else
        return without(r);
    return true;
}

void *rt_worker_main(void *arg)
{
    struct rt_resource *r = arg;
    bool ours = false, idle = false;

    pthread_mutex_lock(&r->mu);
    while (!r->closing && !ours && !idle) {
        ours = !turn(r);
        idle = !has_errands(r) && rt_loop_clock() >= r->asked_at + IDLE;
        if (idle && r->contact.conn != NULL)
            close_contact(r);
        idle = idle && !has_errands(r); /* nobody asked in the meantime */
    }
    if (r->contact.conn != NULL)
        close_contact(r);
    r->left = true;
    pthread_cond_broadcast(&r->seen);
    pthread_mutex_unlock(&r->mu);
    if (ours)
        rt_resource_free(r);
    return NULL;
}
