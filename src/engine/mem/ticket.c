/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets of a line: how they come, are granted, are told of, and go. */
#include "engine/mem/world.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "core/grant.h"

#include <assert.h>
#include <string.h>

_Static_assert(sizeof(struct rt_mem_ticket) <= 88, "a held lock is to cost at most 150 bytes");

uint64_t rt_mem_ticket_session(const struct rt_mem_ticket *t)
{
    return t->session != NULL ? t->session->id : t->extra->durable_id;
}

const char *rt_mem_ticket_label(const struct rt_mem_ticket *t)
{
    return t->session != NULL ? t->session->label : t->extra->label;
}

const char *rt_mem_ticket_value(const struct rt_mem_ticket *t)
{
    return t->extra != NULL && t->extra->value != NULL ? t->extra->value : "";
}

uint64_t rt_mem_ticket_name(const struct rt_mem_ticket *t)
{
    return t->extra != NULL ? t->extra->name : 0;
}

static bool waits_unseen(const struct rt_mem_world *world, uint32_t mode)
{
    return world->late && mode <= RT_PERMITS;
}

bool rt_mem_ticket_shown(const struct rt_mem_world *world, const struct rt_mem_ticket *t)
{
    return t->flags & RT_MEM_GRANTED || !waits_unseen(world, t->mode);
}

uint32_t rt_mem_line_shown(const struct rt_mem_world *world, const struct rt_mem_line *line)
{
    if (line->last == NULL || !waits_unseen(world, line->last->mode))
        return line->count;
    return line->count - line->waiting;
}

struct rt_mem_conn *rt_mem_ticket_conn(const struct rt_mem_ticket *t)
{
    return t->session != NULL ? t->session->conn : t->extra->conn;
}

/* A waiting ticket keeps its client's timer running, for I6. */
static void count_interest(struct rt_mem_ticket *t, bool waits)
{
    struct rt_mem_conn *mc = rt_mem_ticket_conn(t);
    if (mc != NULL)
        mc->interest += waits ? 1u : -1u;
}

static void ticket_free(struct rt_mem_ticket *t)
{
    rt_mem_link_out(&t->link);
    if (t->extra != NULL) {
        rt_mem_link_out(&t->extra->told);
        rt_free(t->extra->value);
    }
    rt_free(t->extra);
    rt_free(t);
}

/* ---- Coming ------------------------------------------------------------- */

int rt_mem_ticket_extend(struct rt_mem_conn *mc, struct rt_mem_ticket *t)
{
    if (t->extra != NULL)
        return 0;
    const char *label = mc->conn.label != NULL ? mc->conn.label : "";
    size_t length = strnlen(label, RT_LABEL_MAX);
    struct rt_mem_extra *extra = rt_alloc(sizeof(*extra) + length + 1);
    if (extra == NULL)
        return ROTA_NOMEM;
    memcpy(extra->label, label, length);
    rt_mem_ring_init(&extra->told);
    extra->until = RT_NEVER;
    extra->ticket = t;
    t->extra = extra;
    return 0;
}

static int extend_for(struct rt_mem_conn *mc, struct rt_mem_ticket *t, const struct rt_join *join)
{
    bool late = mc->world->late;
    if (t->session != NULL && join->value == NULL && join->at_least_ms == 0 && !late)
        return 0;
    if (rt_mem_ticket_extend(mc, t) != 0)
        return ROTA_NOMEM;
    t->extra->name = late ? ++mc->world->names : 0;
    if (join->value != NULL && (t->extra->value = rt_strdup(join->value)) == NULL)
        return ROTA_NOMEM;
    t->extra->at_least_ms = join->at_least_ms;
    if (t->session != NULL)
        return 0;
    t->extra->durable_id = join->session;
    t->extra->conn = mc;
    rt_mem_link_before(&mc->durables, &t->extra->told);
    if (join->until_ms > 0 && join->until_ms < (RT_NEVER - mc->world->now) / RT_MS)
        t->extra->until = mc->world->now + join->until_ms * RT_MS;
    return 0;
}

static void fading_put(struct rt_mem_world *world, struct rt_mem_ticket *t)
{
    if (t->extra->until == RT_NEVER)
        return;
    struct rt_mem_link *where = &world->fading;
    while (where->prev != &world->fading &&
           rt_mem_ticket_of(where->prev)->extra->until > t->extra->until)
        where = where->prev;
    rt_mem_link_before(where, &t->link);
}

/* Behind the last; with a planted bug before it, now and then. */
static void line_append(struct rt_mem_world *world, struct rt_mem_line *line,
                        struct rt_mem_ticket *t)
{
    struct rt_mem_ticket *last = line->last;
    if (last == NULL) {
        line->last = t->next = t;
        return;
    }
    bool swap = RT_BUG(RT_BUG_ORDER_BROKEN) && !(last->flags & RT_MEM_GRANTED) &&
                ++world->waits % 3 == 0;
    struct rt_mem_ticket *before = last;
    if (swap)
        while (before->next != last)
            before = before->next;
    t->next = before->next;
    before->next = t;
    if (!swap)
        line->last = t;
}

static uint8_t flags_of(uint32_t join_flags)
{
    unsigned flags = RT_MEM_FRESH;
    if (join_flags & RT_JOIN_ARM)
        flags |= RT_MEM_ARMED;
    if (join_flags & RT_JOIN_DETECT)
        flags |= RT_MEM_DETECT;
    return (uint8_t)flags;
}

static void untell_wanted(struct rt_mem_line *line)
{
    struct rt_mem_ticket *t = line->last;
    for (uint32_t left = line->count; left > 0; left--, t = t->next)
        t->flags &= (uint8_t)~RT_MEM_TOLD;
}

struct rt_mem_ticket *rt_mem_ticket_add(struct rt_mem_conn *mc, struct rt_mem_line *line,
                                        struct rt_mem_session *session, const struct rt_join *join)
{
    struct rt_mem_world *world = mc->world;
    struct rt_mem_ticket *t = rt_alloc(sizeof(*t));
    if (t == NULL)
        return NULL;
    rt_mem_ring_init(&t->link);
    t->session = session;
    if (extend_for(mc, t, join) != 0) {
        ticket_free(t);
        return NULL;
    }
    t->line = line;
    t->number = world->late ? t->extra->name : ++world->number;
    t->nonce = join->nonce;
    t->owner = join->owner;
    t->since = world->now;
    t->take = join->take;
    t->mode = (uint8_t)join->mode;
    t->flags = flags_of(join->flags);
    if (session != NULL)
        rt_mem_link_before(&session->calm, &t->link);
    else
        fading_put(world, t);
    if (line->waiting == 0)
        untell_wanted(line);
    line_append(world, line, t);
    line->of = join->of;
    line->count++;
    line->waiting++;
    count_interest(t, true);
    return t;
}

/* ---- Going -------------------------------------------------------------- */

static void line_unlink(struct rt_mem_line *line, struct rt_mem_ticket *t)
{
    struct rt_mem_ticket *before = line->last;
    while (before->next != t)
        before = before->next;
    before->next = t->next;
    if (line->last == t)
        line->last = before == t ? NULL : before;
    line->count--;
    if (!(t->flags & RT_MEM_GRANTED)) {
        line->waiting--;
        count_interest(t, false);
    }
}

void rt_mem_ticket_drop(struct rt_mem_ticket *t)
{
    line_unlink(t->line, t);
    ticket_free(t);
}

void rt_mem_ticket_end(struct rt_mem_world *world, struct rt_mem_ticket *t)
{
    int64_t until = 0;
    if (t->flags & RT_MEM_GRANTED && t->extra != NULL)
        until = t->since + t->extra->at_least_ms * RT_MS;
    if (until <= world->now) {
        rt_mem_ticket_drop(t);
        return;
    }
    rt_mem_link_out(&t->link);
    rt_mem_link_out(&t->extra->told);
    t->extra->conn = NULL;
    t->session = NULL;
    t->pending = 0;
    t->flags = RT_MEM_GRANTED;
    t->nonce = t->owner = 0;
    t->extra->durable_id = t->extra->name = 0;
    t->extra->until = until;
    fading_put(world, t);
}

void rt_mem_ticket_rename(struct rt_mem_ticket *t)
{
    uint64_t name = rt_mem_ticket_name(t);
    if (name == 0)
        return;
    t->extra->name = t->number;
    t->number = name;
}

void rt_mem_ticket_break(struct rt_mem_ticket *t)
{
    if (t->session == NULL || t->session->conn == NULL) {
        rt_mem_ticket_drop(t);
        return;
    }
    line_unlink(t->line, t);
    t->line->pins++;
    if (t->pending & RT_MEM_TELL_GRANTED)
        rt_mem_ticket_rename(t); /* it has not heard of its number */
    t->pending = 0;
    t->since = t->session->conn->world->now;
    rt_mem_ticket_tell(t, RT_MEM_TELL_LOST);
}

void rt_mem_ticket_forget(struct rt_mem_world *world, struct rt_mem_ticket *t)
{
    struct rt_mem_line *line = t->line;
    ticket_free(t);
    line->pins--;
    rt_mem_line_tidy(world, line);
}

/* ---- Granting ----------------------------------------------------------- */

void rt_mem_ticket_tell(struct rt_mem_ticket *t, uint8_t what)
{
    struct rt_mem_conn *mc = rt_mem_ticket_conn(t);
    if (mc == NULL)
        return;
    struct rt_mem_link *link = t->session != NULL ? &t->link : &t->extra->told;
    t->pending |= what;
    rt_mem_link_out(link);
    rt_mem_link_before(t->session != NULL ? &t->session->inbox : &mc->durable_inbox, link);
    rt_mem_ring(mc);
}

void rt_mem_ticket_told(struct rt_mem_ticket *t)
{
    struct rt_mem_session *s = t->session;
    if (s == NULL) {
        rt_mem_link_out(&t->extra->told);
        rt_mem_link_before(&t->extra->conn->durables, &t->extra->told);
        return;
    }
    bool lost = t->pending & RT_MEM_TELL_LOST;
    rt_mem_link_out(&t->link);
    rt_mem_link_before(lost ? &s->lost : &s->calm, &t->link);
}

bool rt_mem_would_grant(const struct rt_mem_ticket *mine)
{
    const struct rt_mem_line *line = mine->line;
    struct rt_grant g;
    rt_grant_init(&g, line->waiting);
    const struct rt_mem_ticket *t = rt_mem_line_front(line);
    for (;; t = t->next) {
        bool granted = t->flags & RT_MEM_GRANTED;
        if (rt_grant_next(&g, t->mode, t->take, line->of, granted) == RT_GRANT_WAITS)
            return false;
        if (t == mine)
            return true;
    }
}

static void grant(struct rt_mem_world *world, struct rt_mem_ticket *t)
{
    t->flags |= RT_MEM_GRANTED;
    t->since = world->now;
    t->line->waiting--;
    count_interest(t, false);
    if (world->late)
        t->number = ++world->number;
    if (t->flags & RT_MEM_FRESH) {
        if (world->late)
            t->extra->name = 0; /* the answer has its number */
        return;
    }
    if (RT_BUG(RT_BUG_LOST_WAKE_UP) && ++world->grants % 5 == 0)
        return;
    t->flags |= RT_MEM_WAITED;
    rt_mem_ticket_tell(t, RT_MEM_TELL_GRANTED);
}

static void grant_waiting(struct rt_mem_world *world, struct rt_mem_line *line)
{
    struct rt_grant g;
    rt_grant_init(&g, line->waiting);
    struct rt_mem_ticket *t = rt_mem_line_front(line);
    for (uint32_t left = line->count; left > 0; left--, t = t->next) {
        bool granted = t->flags & RT_MEM_GRANTED;
        if (rt_grant_next(&g, t->mode, t->take, line->of, granted) == RT_GRANT_WAITS)
            return;
        if (!granted)
            grant(world, t);
    }
}

/* Armed tickets that hold are told once that somebody waits; a fresh one by its answer. */
static void tell_wanted(struct rt_mem_line *line)
{
    struct rt_mem_ticket *t = rt_mem_line_front(line);
    for (; t->flags & RT_MEM_GRANTED; t = t->next) {
        if (!(t->flags & RT_MEM_ARMED) || t->flags & RT_MEM_TOLD)
            continue;
        t->flags |= RT_MEM_TOLD;
        if (!(t->flags & RT_MEM_FRESH))
            rt_mem_ticket_tell(t, RT_MEM_TELL_WANTED);
    }
}

static void tell_watches(struct rt_mem_world *world, const struct rt_mem_line *line)
{
    if (line->pins == 0)
        return;
    for (struct rt_view *v = world->watches; v != NULL; v = v->next) {
        struct rt_mem_watch *w = rt_mem_watch_of(v);
        if (w->line == line) {
            w->dirty = true;
            rt_mem_ring(w->conn);
        }
    }
}

/* The first that waits goes by the ends of sessions; behind a ticket that ends by itself its client
 * has to look at the time anew, even when it has just become the first. */
static void ring_first_waiting(struct rt_mem_line *line)
{
    bool fades = false;
    struct rt_mem_ticket *t = rt_mem_line_front(line);
    for (; t->flags & RT_MEM_GRANTED; t = t->next)
        fades = fades || (t->session == NULL && t->extra->until != RT_NEVER);
    if (fades && rt_mem_ticket_conn(t) != NULL)
        rt_mem_ring(rt_mem_ticket_conn(t));
}

void rt_mem_settle(struct rt_mem_world *world, struct rt_mem_line *line)
{
    if (line->waiting > 0)
        grant_waiting(world, line);
    if (line->waiting > 0) {
        tell_wanted(line);
        ring_first_waiting(line);
    }
    tell_watches(world, line);
    rt_mem_line_tidy(world, line);
}
