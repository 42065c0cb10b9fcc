/* SPDX-License-Identifier: Apache-2.0 */
/* Taps: what a client sends and what reaches the engine, held against the truth. */
#include "sim/tap.h"

#include "base/alloc.h"
#include "engine/fault/copy.h"
#include "sim/calm.h"
#include "sim/excuse.h"
#include "sim/invariants.h"
#include "sim/sim.h"
#include "sim/world.h"

#include <assert.h>
#include <string.h>

struct sim_stray { /* a request that went astray */
    struct rt_timer_call timer;
    struct sim_stray *next;
    struct sim_tap *tap;
    struct rt_op op;
    void *block;
};

static struct sim_tap *tap_of(struct rt_conn *conn)
{
    return (struct sim_tap *)(void *)conn;
}

/* ---- What reaches the engine -------------------------------------------- */

static bool is_same(const struct sim *sim, const struct sim_place *a, const struct sim_place *b)
{
    if (sim->kind->late) /* its number changes when it is granted */
        return a->nonce == b->nonce && a->session == b->session;
    return a->number == b->number;
}

/* I8: a release wakes the tickets it grants and at most one more. */
static void check_woken(const struct sim *sim, const char *name, const struct sim_place *before,
                        size_t n)
{
    struct sim_place after[SIM_PLACES_MAX];
    size_t m = sim->kind->look(sim, name, after, SIM_PLACES_MAX), woken = 0, granted = 0;
    for (size_t i = 0, k = 0; i < m; i++) {
        while (k < n && !is_same(sim, &before[k], &after[i]))
            k++; /* both in the order of the line; LEAVE only takes out */
        if (k == n)
            break;
        woken += after[i].rung && !before[k].rung;
        granted += after[i].granted && !before[k].granted;
    }
    if (woken > granted + 1)
        sim_violated(sim, "I8", "a release of %s granted %zu and woke %zu", name, granted, woken);
}

static bool is_ours(const struct sim *sim, const struct rt_op *op, const struct sim_place *places,
                    size_t n)
{
    int64_t ends;
    for (size_t i = 0; i < n; i++) {
        if (rt_leave_names(op, places[i].number, places[i].nonce) && places[i].session != 0 &&
            places[i].session == op->leave.session)
            return sim->kind->session(sim, op->leave.session, op->leave.name, &ends) &&
                   ends > sim->now;
    }
    return false;
}

static void submit_leave(struct sim_tap *tap, struct rt_op *op)
{
    struct sim *sim = tap->client->sim;
    if (sim->kind->late)
        sim->kind->sweep(sim); /* as the engine does: those granted by it are numbered anew */
    struct sim_place before[SIM_PLACES_MAX];
    char name[sizeof(sim->lines[0].name)];
    size_t n = sim->kind->look(sim, op->leave.name, before, SIM_PLACES_MAX);
    bool ours = is_ours(sim, op, before, n);
    memcpy(name, op->leave.name, strlen(op->leave.name) + 1);
    tap->wrap.inner->engine->submit(tap->wrap.inner, op);
    if (op->err == 0 && !ours)
        sim_violated(sim, "I4", "c%u: a LEAVE of %s that was not ours succeeded",
                     tap->client->index, name);
    if (op->err == ROTA_LOST && ours)
        sim_violated(sim, "I5", "c%u: a LEAVE of %s found nothing where something was",
                     tap->client->index, name);
    check_woken(sim, name, before, n);
}

static uint64_t leaver_of(const struct rt_op *op)
{
    return op->kind == RT_OP_LEAVE ? op->leave.session : 0;
}

static void stray_free(struct sim_stray *s)
{
    struct rt_loop *loop = s->tap->wrap.conn.loop;
    rt_timers_stop(&loop->timers, &s->timer.timer);
    rt_loop_unreserve(loop, 1);
    rt_free(s->block);
    rt_free(s);
}

static void stray_arrives(struct rt_timer_call *call, int64_t now)
{
    (void)now;
    struct sim_stray *s = (struct sim_stray *)(void *)call; /* its first member */
    struct sim_tap *tap = s->tap;
    struct sim_stray **at = &tap->strays;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    SIM_TRACE(tap->client->sim, tap->client, "what went astray arrives");
    sim_counts.strays++;
    tap->arriving = &s->op;
    tap->wrap.inner->engine->submit(tap->wrap.inner, &s->op);
    tap->arriving = NULL;
    sim_check_lines(tap->client->sim, leaver_of(&s->op));
    stray_free(s);
}

static void stray_add(struct sim_tap *tap, const struct rt_op *op)
{
    struct sim *sim = tap->client->sim;
    uint32_t starving = sim_starving;
    sim_starving = 0; /* what is ours does not fail */
    struct sim_stray *s = rt_alloc(sizeof(*s));
    assert(s != NULL);
    int rv = rt_fault_copy_op(&s->op, &s->block, op);
    assert(rv == 0);
    rv = rt_loop_reserve(tap->wrap.conn.loop, 1);
    assert(rv == 0);
    (void)rv;
    s->op.deadline = INT64_MAX;
    s->tap = tap;
    s->timer.timer.kind = RT_TIMER_CALL;
    s->timer.fire = stray_arrives;
    s->next = tap->strays;
    tap->strays = s;
    rt_timers_start(&tap->wrap.conn.loop->timers, &s->timer.timer,
                    sim->now + sim_spread_ns(&sim->random, sim->plan.ttl_ms * 1000));
    sim_starving = starving;
}

static bool go_astray(struct sim_tap *tap, const struct rt_op *op)
{
    struct sim *sim = tap->client->sim;
    if (op->kind > RT_OP_LEAVE || (op->kind == RT_OP_BEAT && op->beat.open))
        return false;
    if (sim->healing || !sim_chance(&sim->random, sim->plan.stray))
        return false;
    stray_add(tap, op);
    return true;
}

static void bottom_submit(struct sim_tap *tap, struct rt_op *op)
{
    struct sim *sim = tap->client->sim;
    if (go_astray(tap, op)) {
        SIM_TRACE(sim, tap->client, "a request, op %d, goes astray", (int)op->kind);
        rt_conn_done(&tap->wrap.conn, op, ROTA_UNKNOWN);
        return;
    }
    uint64_t leaver = leaver_of(op);
    if (op->kind == RT_OP_LEAVE)
        submit_leave(tap, op);
    else
        tap->wrap.inner->engine->submit(tap->wrap.inner, op);
    sim_check_lines(sim, leaver);
}

/* ---- The engine --------------------------------------------------------- */

static void trace_done(const struct sim_tap *tap, const struct rt_op *op)
{
    const struct sim *sim = tap->client->sim;
    const char *err = op->err == 0 ? "" : rota_strerror(op->err);
    switch (op->kind) {
    case RT_OP_BEAT:
        sim_trace(sim, tap->client, "  engine: BEAT%s session %llu %s",
                  op->beat.open ? " open" : "", (unsigned long long)op->beat.session, err);
        break;
    case RT_OP_JOIN:
    case RT_OP_JOIN_ALL:
        for (size_t i = 0; i < op->join.n; i++)
            sim_trace(sim, tap->client, "  engine: JOIN %s mode %u nonce %llx -> %llu%s %s",
                      op->join.joins[i].name, op->join.joins[i].mode,
                      (unsigned long long)op->join.joins[i].nonce & 0xffff,
                      (unsigned long long)op->join.joins[i].number,
                      op->join.joins[i].granted ? " granted" : "", err);
        break;
    case RT_OP_LEAVE:
        sim_trace(sim, tap->client, "  engine: LEAVE %s number %llu nonce %llx %s", op->leave.name,
                  (unsigned long long)op->leave.number,
                  (unsigned long long)op->leave.nonce & 0xffff, err);
        break;
    case RT_OP_CHANGE:
        sim_trace(sim, tap->client, "  engine: CHANGE %s number %llu what %u %s", op->change.name,
                  (unsigned long long)op->change.number, op->change.what, err);
        break;
    default:
        sim_trace(sim, tap->client, "  engine: op %d %s", (int)op->kind, err);
    }
}

static void tap_submit(struct rt_conn *conn, struct rt_op *op)
{
    struct sim_tap *tap = tap_of(conn);
    if (tap->is_bottom) {
        bottom_submit(tap, op);
    } else {
        sim_check_sent(tap->client, op);
        if (op->kind == RT_OP_BEAT)
            tap->client->beat_at = tap->client->sim->now;
        tap->wrap.inner->engine->submit(tap->wrap.inner, op);
    }
}

/* Over mem a network that loses nothing may be slower than call_ms: a client that gave up did not hear the answer,
 * though it came. So each question may be in vain, and nobody can say by which of them the client must know. Models
 * know what they lost (harmed_at). */
static void note_given_up(struct sim_client *c, const struct rt_op *op)
{
    if (c->fault != NULL && op->err == ROTA_UNKNOWN)
        sim_harm(c->sim, c->sim->now);
}

static void tap_done(struct rt_up *up, struct rt_op *op)
{
    struct sim_tap *tap = tap_of(&rt_wrap_of_up(up)->conn);
    rt_wrap_follow(&tap->wrap);
    if (tap->is_bottom && op->kind == RT_OP_BEAT && tap->client->sim->plan.forever)
        op->beat.ttl_ms = 0;
    if ((tap->is_bottom || tap->client->bottom == NULL) && tap->client->sim->tracing)
        trace_done(tap, op);
    if (!tap->is_bottom && op->kind == RT_OP_BEAT && op->err == 0)
        sim_excuse_ends(tap->client);
    if (!tap->is_bottom)
        note_given_up(tap->client, op);
    if (!tap->is_bottom && op->kind == RT_OP_LEAVE)
        sim_check_left(tap->client, op);
    if (!tap->is_bottom && op->kind == RT_OP_CHANGE)
        sim_note_changed(tap->client, op);
    if (op != tap->arriving)
        rt_conn_done(&tap->wrap.conn, op, op->err);
}

static void tap_event(struct rt_up *up, const struct rt_event *event)
{
    static const char *const kinds[] = {"GRANTED",     "WANTED",       "CHANGED",
                                        "TICKET_LOST", "SESSION_LOST", "LINK"};
    struct sim_tap *tap = tap_of(&rt_wrap_of_up(up)->conn);
    if (!tap->is_bottom)
        SIM_TRACE(tap->client->sim, tap->client, "  hears: %s %s %llu%s%llu session %llu",
                  kinds[event->kind], event->name != NULL ? event->name : "",
                  (unsigned long long)event->number, event->fence != 0 ? " is now " : "/",
                  (unsigned long long)event->fence, (unsigned long long)event->session);
    if (!tap->is_bottom && event->kind == RT_WANTED)
        sim_note_wanted(tap->client, event);
    if (!tap->is_bottom && event->kind == RT_TICKET_LOST)
        sim_check_lost(tap->client, event);
    rt_conn_event(&tap->wrap.conn, event);
}

static void tap_cancel(struct rt_conn *conn, struct rt_op *op)
{
    struct rt_conn *inner = tap_of(conn)->wrap.inner;
    inner->engine->cancel(inner, op);
}

static void tap_close(struct rt_conn *conn)
{
    struct sim_tap *tap = tap_of(conn);
    while (tap->strays != NULL) {
        struct sim_stray *s = tap->strays;
        tap->strays = s->next;
        stray_free(s);
    }
    rt_wrap_close_inner(&tap->wrap);
}

static uint32_t tap_caps(const struct rt_conn *conn)
{
    const struct rt_conn *inner = ((const struct sim_tap *)(const void *)conn)->wrap.inner;
    return inner->engine->caps(inner);
}

static const char *const none[] = {NULL};

static const struct rt_engine tap_engine = {
    .schemes = none,
    .params = none,
    .conn_size = sizeof(struct sim_tap),
    .parting = rt_wrap_parting,
    .trouble = rt_wrap_trouble,
    .close = tap_close,
    .submit = tap_submit,
    .cancel = tap_cancel,
    .caps = tap_caps,
};

struct sim_tap *sim_tap_put(struct rt_conn **conn, struct sim_client *client, bool is_bottom)
{
    int rv = rt_wrap_put(conn, &tap_engine);
    assert(rv == 0);
    (void)rv;
    struct sim_tap *tap = tap_of(*conn);
    tap->wrap.up = (struct rt_up){.done = tap_done, .event = tap_event, .held = rt_wrap_held};
    tap->client = client;
    tap->is_bottom = is_bottom;
    return tap;
}
