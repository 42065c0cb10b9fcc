/* SPDX-License-Identifier: Apache-2.0 */
/* The hunt for deadlocks: a breadth-first search along who waits for whom. */
#include "core/hunt.h"

#include "core/grant.h"

#include <assert.h>
#include <string.h>

static const char *text_at(const struct rt_hunt *h, size_t at)
{
    assert(at < h->text_used);
    return h->text + at;
}

/* Keeps NAME; false if there is no room. */
static bool keep(struct rt_hunt *h, const char *name, size_t *at)
{
    size_t size = strlen(name) + 1;
    assert(h->text_used <= sizeof(h->text));
    if (sizeof(h->text) - h->text_used < size)
        return false;
    memcpy(h->text + h->text_used, name, size);
    *at = h->text_used;
    h->text_used += size;
    return true;
}

/* Everything but our own ticket and the signature of the first round. */
static void restart(struct rt_hunt *h)
{
    h->node_count = 1;
    h->node_asked = h->agent_count = h->agent_asked = h->seen_count = 0;
    h->text_used = strlen(h->text) + 1;
    h->step = RT_HUNT_LINE;
}

void rt_hunt_begin(struct rt_hunt *h, const char *name, uint64_t number, uint64_t session,
                   uint64_t owner)
{
    assert(name[0] != '\0' && number != 0);
    h->first = 0;
    h->text_used = 0;
    h->text[0] = '\0';
    h->verdict = RT_HUNT_NOTHING;
    size_t at;
    bool fits = keep(h, name, &at);
    h->nodes[0] = (struct rt_hunt_node){
        .name = 0, .number = number, .session = session, .owner = owner, .parent = -1};
    restart(h);
    if (!fits)
        h->step = RT_HUNT_OVER;
}

enum rt_hunt_step rt_hunt_next(struct rt_hunt *h, const char **name, uint64_t *session)
{
    assert(h->node_count >= 1);
    if (h->step == RT_HUNT_OVER)
        return RT_HUNT_OVER;
    h->seen_count = 0;
    h->found_self = h->passed_self = false;
    if (h->agent_asked < h->agent_count) {
        *session = h->agents[h->agent_asked].session;
        h->step = RT_HUNT_SESSION;
    } else if (h->node_asked < h->node_count) {
        *name = text_at(h, h->nodes[h->node_asked].name);
        h->step = RT_HUNT_LINE;
    } else {
        h->step = RT_HUNT_OVER; /* every way was gone, none led back */
    }
    return h->step;
}

/* ---- A line: whom does the node wait for? -------------------------------- */

static void see(struct rt_hunt *h, const struct rota_place *place)
{
    const struct rt_hunt_node *node = &h->nodes[h->node_asked];
    bool granted = (place->flags & ROTA_PLACE_GRANTED) != 0;
    assert(h->node_asked < h->node_count);
    if (h->passed_self)
        return; /* behind it: nobody it waits for */
    if (place->number == node->number) {
        h->passed_self = true;
        h->found_self = !granted;
        h->self_mode = place->mode;
        h->self_take = place->take;
        h->self_of = place->of;
        return;
    }
    /* A plain hold may have been passed on since it was joined: then somebody else has it by now,
     * and a cycle through it would be a guess. */
    if ((place->flags & ROTA_PLACE_DETECT) == 0 || h->seen_count == RT_HUNT_NODES)
        return;
    h->seen[h->seen_count++] = (struct rt_hunt_seen){
        .number = place->number,
        .session = place->session,
        .owner = place->owner,
        .mode = place->mode,
        .take = place->take,
        .granted = granted,
    };
}

/* Whether the node cannot be granted as long as S is there. */
static bool blocks(const struct rt_hunt *h, const struct rt_hunt_seen *s)
{
    assert(h->found_self); /* its mode is known */
    if (!s->granted)
        return true; /* nobody overtakes a waiting ticket */
    if (h->self_mode == RT_PERMITS)
        return (uint64_t)s->take + h->self_take > h->self_of;
    return h->self_mode == RT_EXCLUSIVE || s->mode == RT_EXCLUSIVE;
}

static void add_agent(struct rt_hunt *h, const struct rt_hunt_seen *s)
{
    assert(s->session != 0 && s->owner != 0); /* without these nothing can be asked */
    for (int i = 0; i < h->agent_count; i++)
        if (h->agents[i].session == s->session && h->agents[i].owner == s->owner)
            return;
    if (h->agent_count == RT_HUNT_NODES)
        return;
    h->agents[h->agent_count++] = (struct rt_hunt_agent){
        .session = s->session, .owner = s->owner, .behind = s->number, .parent = h->node_asked};
}

/* ---- The cycle ----------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t signature(const struct rt_hunt *h)
{
    uint64_t sum = mix(1, h->last_behind);
    for (int i = h->last; i >= 0; i = h->nodes[i].parent) {
        const struct rt_hunt_node *node = &h->nodes[i];
        sum = mix(mix(sum, node->number), node->behind);
        for (const char *c = text_at(h, node->name); *c != '\0'; c++)
            sum = mix(sum, (unsigned char)*c);
    }
    return sum != 0 ? sum : 1;
}

static bool is_larger(const struct rt_hunt *h, const struct rt_hunt_node *a,
                      const struct rt_hunt_node *b)
{
    if (a->number != b->number)
        return a->number > b->number;
    return strcmp(text_at(h, a->name), text_at(h, b->name)) > 0;
}

static bool are_we_largest(const struct rt_hunt *h)
{
    for (int i = h->last; i > 0; i = h->nodes[i].parent)
        if (is_larger(h, &h->nodes[i], &h->nodes[0]))
            return false;
    return true;
}

static void close_cycle(struct rt_hunt *h, uint64_t behind)
{
    h->last = h->node_asked;
    h->last_behind = behind;
    uint64_t sum = signature(h);
    if (h->first == 0) {
        h->first = sum;
        restart(h);
        return;
    }
    if (h->first == sum)
        h->verdict = are_we_largest(h) ? RT_HUNT_VICTIM : RT_HUNT_SOMEBODY_ELSE;
    h->step = RT_HUNT_OVER;
}

static void line_answered(struct rt_hunt *h)
{
    const struct rt_hunt_node *us = &h->nodes[0];
    if (h->found_self) {
        for (int i = 0; i < h->seen_count; i++) {
            const struct rt_hunt_seen *s = &h->seen[i];
            if (s->session == 0 || s->owner == 0 || !blocks(h, s))
                continue;
            if (s->session == us->session && s->owner == us->owner) {
                close_cycle(h, s->number);
                return;
            }
            add_agent(h, s);
        }
    }
    h->node_asked++;
}

/* ---- A session: where does the agent wait? -------------------------------- */

static void add_node(struct rt_hunt *h, const char *name, const struct rota_place *place)
{
    const struct rt_hunt_agent *agent = &h->agents[h->agent_asked];
    assert(h->agent_asked < h->agent_count);
    if (place->owner != agent->owner || (place->flags & ROTA_PLACE_GRANTED) != 0 ||
        (place->flags & ROTA_PLACE_DETECT) == 0 || h->node_count == RT_HUNT_NODES)
        return;
    struct rt_hunt_node node = {.number = place->number,
                                .session = agent->session,
                                .owner = agent->owner,
                                .behind = agent->behind,
                                .parent = agent->parent};
    if (keep(h, name, &node.name))
        h->nodes[h->node_count++] = node;
}

void rt_hunt_place(struct rt_hunt *h, const char *name, const struct rota_place *place)
{
    assert(h->step != RT_HUNT_OVER);
    if (h->step == RT_HUNT_LINE)
        see(h, place);
    else
        add_node(h, name, place);
}

void rt_hunt_answered(struct rt_hunt *h)
{
    assert(h->step != RT_HUNT_OVER);
    if (h->step == RT_HUNT_LINE)
        line_answered(h);
    else
        h->agent_asked++;
}

void rt_hunt_fail(struct rt_hunt *h)
{
    assert(h->node_count >= 1);
    h->verdict = RT_HUNT_NOTHING;
    h->step = RT_HUNT_OVER;
}
