/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: the coordinator (0) and the participants, as their machines run them. */
#include "sim/three/three.h"

#include <assert.h>
#include <string.h>

static int64_t ms(uint32_t n)
{
    return n * TH_MS;
}

/* ---- The coordinator ----------------------------------------------------------- */

void th_node_begin(struct th_world *w, uint32_t fact)
{
    struct th_node *n = &w->nodes[0];
    const struct th_plan *plan = &w->plan;
    n->led[fact].used = true;
    rt_coordinator_begin(&n->led[fact].c, n->led[fact].parts, plan->parts, w->rules != TH_BLOCK,
                         ms(plan->t1_ms), ms(plan->t2_ms), ms(plan->margin_ms), w->now);
    TH_TRACE(w, "t%u begins", fact);
    th_node_run(w, 0);
}

static void adopt(struct th_world *w, uint32_t fact)
{
    struct th_node *n = &w->nodes[0];
    assert(!n->led[fact].used);
    n->led[fact].used = true;
    th_counts.adopted++;
    TH_TRACE(w, "the coordinator adopts t%u", fact);
    rt_coordinator_adopt(&n->led[fact].c, n->led[fact].parts, w->plan.parts, w->rules != TH_BLOCK,
                         w->now);
}

static void lead_send(struct th_world *w, uint32_t fact, const struct rt_coordinator_todo *todo)
{
    struct th_event e = {.fact = (uint8_t)fact, .seq = todo->seq, .gen = w->nodes[0].gen};
    struct th_event limit;
    if (todo->op == RT_COORDINATOR_TELL) {
        e.kind = TH_EV_REQUEST;
        e.ask = (uint8_t)todo->ask;
        e.to = (uint8_t)(todo->whom + 1);
        TH_TRACE(w, "t%u: %u to p%u", fact, todo->ask, e.to);
        th_send(w, &e);
        limit = e;
        limit.kind = TH_EV_REPLY;
        limit.from = e.to;
        limit.to = 0;
    } else {
        if (todo->op == RT_COORDINATOR_DECIDE && todo->decision == RT_DECISION_COMMIT)
            th_decides(w, fact);
        e.kind = TH_EV_JOURNAL;
        e.op = (uint8_t)todo->op;
        e.decision = (uint8_t)todo->decision;
        e.at = w->now + th_delay(w);
        if (!th_strikes(w, w->plan.lost))
            th_post(w, &e);
        limit = e;
        limit.kind = TH_EV_WROTE;
    }
    limit.lost = true;
    limit.at = w->now + ms(w->plan.call_ms);
    th_post(w, &limit);
}

static bool lead(struct th_world *w, uint32_t fact)
{
    struct rt_coordinator *c = &w->nodes[0].led[fact].c;
    struct rt_coordinator_todo todo;
    while (rt_coordinator_todo(c, &todo, w->now)) {
        if (!w->healing && sim_below(&w->random, 10000) < w->plan.dies) {
            th_crash(w, 0);
            return false;
        }
        lead_send(w, fact, &todo);
    }
    uint32_t news = rt_coordinator_news(c);
    if ((news & RT_COORDINATOR_TOLD) != 0)
        th_told(w, fact, rt_coordinator_stance(c));
    th_counts.told_by_coordinator += (news & RT_COORDINATOR_MIX) != 0;
    return true;
}

/* ---- A participant ------------------------------------------------------------- */

static struct rt_participant *taken(struct th_world *w, uint32_t node, uint32_t fact)
{
    struct th_node *n = &w->nodes[node];
    const struct th_plan *plan = &w->plan;
    struct rt_participant *p = &n->takes[fact].p;
    if (n->takes[fact].used)
        return p;
    memset(&n->takes[fact], 0, sizeof(n->takes[fact]));
    n->takes[fact].used = true;
    rt_participant_init(p, plan->parts - 1, w->rules != TH_BLOCK, ms(plan->t1_ms), ms(plan->t2_ms));
    const struct th_part *part = &w->facts[fact].parts[node - 1];
    p->refuses = part->refuses;
    if (part->row.stand.stance != RT_STANCE_NONE) {
        rt_participant_restore(p, &part->row, th_wall_ms(w, node), w->now);
        n->takes[fact].looked = true; /* its connection is gone */
    }
    return p;
}

/* The node that participant NODE calls WHOM: 0: the coordinator, then the others in their order. */
static uint32_t peer_node(uint32_t node, uint32_t whom)
{
    return whom == 0 ? 0 : whom < node ? whom : whom + 1;
}

static uint32_t peer_number(uint32_t node, uint32_t other)
{
    return other == 0 ? 0 : other < node ? other : other - 1;
}

static void part_do(struct th_world *w, uint32_t node, uint32_t fact,
                    const struct rt_participant_todo *todo)
{
    struct th_node *n = &w->nodes[node];
    struct th_event e = {.fact = (uint8_t)fact, .seq = todo->seq, .gen = n->gen};
    e.from = (uint8_t)node;
    if (todo->op == RT_PARTICIPANT_ASK) {
        e.kind = TH_EV_ASK;
        e.to = (uint8_t)peer_node(node, todo->whom);
        e.stance = rt_participant_stand(&n->takes[fact].p).stance;
        th_send(w, &e);
        struct th_event limit = e;
        limit.kind = TH_EV_HEARD;
        limit.from = e.to;
        limit.to = e.from;
        limit.stance = RT_STANCE_NONE;
        limit.at = w->now + ms(w->plan.call_ms);
        th_post(w, &limit);
        return;
    }
    n->takes[fact].looked = n->takes[fact].looked || todo->op == RT_PARTICIPANT_LOOK;
    e.kind = TH_EV_EFFECT;
    e.to = (uint8_t)node;
    e.op = (uint8_t)todo->op;
    e.row = todo->row;
    e.at = w->now + th_delay(w);
    if (!th_strikes(w, w->plan.lost / 2)) {
        th_post(w, &e);
        return;
    }
    e.kind = TH_EV_DID; /* it never reached the database */
    e.reply = RT_REPLY_LOST;
    e.at = w->now + ms(w->plan.call_ms);
    th_post(w, &e);
}

static void answer_all(struct th_world *w, uint32_t node, uint32_t fact)
{
    struct th_node *n = &w->nodes[node];
    struct rt_stand stand = rt_participant_stand(&n->takes[fact].p);
    for (uint32_t i = 0; i < TH_WAITING; i++) {
        struct th_waiting *q = &n->takes[fact].waiting[i];
        if (!q->used)
            continue;
        q->used = false;
        th_answers(w, fact, node - 1, &stand, q->peer);
        struct th_event e = {.kind = q->peer ? TH_EV_HEARD : TH_EV_REPLY, .fact = (uint8_t)fact};
        e.from = (uint8_t)node;
        e.to = q->from;
        e.seq = q->seq;
        e.gen = q->gen;
        e.stand = stand;
        e.stance = stand.stance;
        th_send(w, &e);
    }
}

static bool take_part(struct th_world *w, uint32_t node, uint32_t fact)
{
    struct rt_participant *p = &w->nodes[node].takes[fact].p;
    struct rt_participant_todo todo;
    while (rt_participant_todo(p, &todo, th_wall_ms(w, node), w->now)) {
        if (!w->healing && sim_below(&w->random, 10000) < w->plan.dies) {
            th_crash(w, node);
            return false;
        }
        part_do(w, node, fact, &todo);
    }
    uint32_t news = rt_participant_news(p);
    th_counts.alone += (news & RT_PARTICIPANT_ALONE) != 0;
    th_counts.blocked += (news & RT_PARTICIPANT_BLOCKED) != 0;
    if (rt_participant_is_quiet(p))
        answer_all(w, node, fact);
    return true;
}

/* ---- What comes ----------------------------------------------------------------- */

static void wait_for_quiet(struct th_world *w, const struct th_event *e, bool peer)
{
    for (uint32_t i = 0; i < TH_WAITING; i++) {
        struct th_waiting *q = &w->nodes[e->to].takes[e->fact].waiting[i];
        if (q->used)
            continue;
        *q = (struct th_waiting){
            .used = true, .peer = peer, .from = e->from, .seq = e->seq, .gen = e->gen};
        return;
    }
}

/* A coordinator that knows nothing of the transaction finds out: it died over it. */
static void asked_coordinator(struct th_world *w, const struct th_event *e)
{
    struct th_node *n = &w->nodes[0];
    if (!n->led[e->fact].used)
        adopt(w, e->fact);
    struct th_event answer = *e;
    answer.kind = TH_EV_HEARD;
    answer.from = 0;
    answer.to = e->from;
    answer.stance = (uint8_t)rt_coordinator_stance(&n->led[e->fact].c);
    th_send(w, &answer);
}

static void asked_peer(struct th_world *w, const struct th_event *e)
{
    struct rt_participant *p = taken(w, e->to, e->fact);
    rt_participant_met(p, (enum rt_stance)e->stance);
    wait_for_quiet(w, e, true);
}

void th_node_get(struct th_world *w, const struct th_event *e)
{
    struct th_node *n = &w->nodes[e->to];
    struct rt_participant *p = &n->takes[e->fact].p;
    bool ours = e->gen == n->gen; /* answers go to whoever asked */
    switch ((enum th_event_kind)e->kind) {
    case TH_EV_REQUEST:
        rt_participant_asked(taken(w, e->to, e->fact), (enum rt_three_ask)e->ask, w->now);
        wait_for_quiet(w, e, false);
        break;
    case TH_EV_ASK:
        if (e->to == 0)
            asked_coordinator(w, e);
        else
            asked_peer(w, e);
        break;
    case TH_EV_REPLY:
        if (ours && n->led[e->fact].used)
            rt_coordinator_answered(&n->led[e->fact].c, e->from - 1u, e->seq, e->lost, &e->stand,
                                    w->now);
        break;
    case TH_EV_WROTE:
        if (ours && n->led[e->fact].used)
            rt_coordinator_wrote(&n->led[e->fact].c, e->seq,
                                 e->lost ? RT_REPLY_LOST : (enum rt_reply)e->reply,
                                 (enum rt_decision)e->decision, w->now);
        break;
    case TH_EV_HEARD:
        if (ours && n->takes[e->fact].used)
            rt_participant_heard(p, peer_number(e->to, e->from), e->seq, (enum rt_stance)e->stance,
                                 w->now);
        break;
    case TH_EV_DID:
        if (ours && n->takes[e->fact].used)
            rt_participant_did(p, e->seq, (enum rt_reply)e->reply, w->now);
        break;
    default:
        assert(e->kind == TH_EV_WAKE);
        if (n->wake_at <= e->at)
            n->wake_at = RT_PARTICIPANT_NEVER;
    }
}

/* ---- Its life -------------------------------------------------------------------- */

void th_node_start(struct th_world *w, uint32_t node)
{
    struct th_node *n = &w->nodes[node];
    n->alive = true;
    n->gen++;
    n->paused_until = 0;
    n->wake_at = RT_PARTICIPANT_NEVER;
    memset(n->led, 0, sizeof(n->led));
    memset(n->takes, 0, sizeof(n->takes));
    TH_TRACE(w, "node %u starts", node);
    for (uint32_t i = 0; i < w->begun; i++)
        if (node > 0 && w->facts[i].parts[node - 1].row.stand.stance != RT_STANCE_NONE)
            (void)taken(w, node, i);
        else if (node == 0 && w->facts[i].stands != RT_DECISION_NONE && !w->facts[i].done)
            adopt(w, i);
}

static int64_t next_of(const struct th_world *w, const struct th_node *n)
{
    int64_t at = RT_PARTICIPANT_NEVER;
    for (uint32_t i = 0; i < w->begun; i++) {
        int64_t a = n->led[i].used ? rt_coordinator_next(&n->led[i].c) : at;
        int64_t b = n->takes[i].used ? rt_participant_next(&n->takes[i].p) : at;
        at = a < at ? a : at;
        at = b < at ? b : at;
    }
    return at;
}

void th_node_run(struct th_world *w, uint32_t node)
{
    struct th_node *n = &w->nodes[node];
    for (uint32_t i = 0; i < w->begun; i++)
        if ((n->led[i].used && !lead(w, i)) || (n->takes[i].used && !take_part(w, node, i)))
            return;
    int64_t at = next_of(w, n);
    assert(at > w->now);
    if (at == RT_PARTICIPANT_NEVER || at >= n->wake_at)
        return;
    n->wake_at = at;
    struct th_event e = {.kind = TH_EV_WAKE, .at = at, .gen = n->gen, .to = (uint8_t)node};
    th_post(w, &e);
}

bool th_node_idle(const struct th_world *w, uint32_t node)
{
    const struct th_node *n = &w->nodes[node];
    for (uint32_t i = 0; i < w->begun; i++) {
        if (n->led[i].used && n->led[i].c.state < RT_COORDINATOR_ENDED)
            return false;
        uint8_t stance = n->takes[i].p.kept.stand.stance;
        if (n->takes[i].used && stance != RT_STANCE_NONE && !n->takes[i].p.over)
            return false;
    }
    return true;
}
