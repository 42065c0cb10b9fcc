/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a circle of who waits for whom, in a snapshot of the lines. Pure.
 *
 * The nodes are the waiting tickets. An edge leads from each to every waiting ticket ahead of it and, for each granted
 * ticket ahead that excludes it, to what that ticket's owner waits for. */
#include "cli/cycle.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

struct node {
    size_t line_start; /* the first ticket of the line */
    size_t first_wait; /* the first place its owner waits; NONE: nowhere */
    size_t next_wait;  /* of a waiting ticket: where its owner waits too */
    bool entered;      /* the search was here */
    bool on_path;
};

struct frame {
    size_t node;
    size_t ahead;  /* the ticket ahead under examination */
    size_t target; /* the next node behind it; NONE: go to the next ticket ahead */
};

struct search {
    const struct rt_cycle_ticket *tickets;
    size_t count;
    struct node *nodes;
    struct frame *frames;
    size_t depth;
};

static bool is_granted(const struct search *s, size_t i)
{
    return (s->tickets[i].place->flags & ROTA_PLACE_GRANTED) != 0;
}

static bool same_owner(const struct rota_place *a, const struct rota_place *b)
{
    return a->session != 0 && a->owner != 0 && a->session == b->session && a->owner == b->owner;
}

/* Whether GRANTED alone keeps WAITING from being granted. */
static bool excludes(const struct rota_place *granted, const struct rota_place *waiting)
{
    if (granted->mode == ROTA_SHARED && waiting->mode == ROTA_SHARED)
        return false;
    if (granted->mode == ROTA_PERMITS && waiting->mode == ROTA_PERMITS)
        return (uint64_t)granted->take + waiting->take > waiting->of;
    return granted->mode <= ROTA_PERMITS;
}

static void link_owners(struct search *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct node *node = &s->nodes[i];
        bool same_line = i > 0 && s->tickets[i - 1].name == s->tickets[i].name;
        node->line_start = same_line ? s->nodes[i - 1].line_start : i;
        node->first_wait = node->next_wait = NONE;
        for (size_t j = 0; j < s->count; j++) {
            if (is_granted(s, j) || !same_owner(s->tickets[i].place, s->tickets[j].place))
                continue;
            if (node->first_wait == NONE)
                node->first_wait = j;
            if (j > i && node->next_wait == NONE)
                node->next_wait = j;
        }
    }
}

/* The first node to which the ticket AHEAD leads from NODE. */
static size_t first_target(const struct search *s, size_t node, size_t ahead)
{
    if (!is_granted(s, ahead))
        return ahead;
    if (!excludes(s->tickets[ahead].place, s->tickets[node].place))
        return NONE;
    return s->nodes[ahead].first_wait;
}

static void enter(struct search *s, size_t node)
{
    size_t start = s->nodes[node].line_start;

    s->nodes[node].entered = s->nodes[node].on_path = true;
    s->frames[s->depth++] = (struct frame){node, start,
                                           start < node ? first_target(s, node, start) : NONE};
}

/* The next node that the frame's node leads to; NONE: no more. *AHEAD: through which ticket. */
static size_t next_target(const struct search *s, struct frame *f, size_t *ahead)
{
    while (f->ahead < f->node) {
        size_t target = f->target;
        *ahead = f->ahead;
        if (target != NONE && is_granted(s, f->ahead)) {
            f->target = s->nodes[target].next_wait;
            return target;
        }
        if (++f->ahead < f->node)
            f->target = first_target(s, f->node, f->ahead);
        if (target != NONE)
            return target;
    }
    return NONE;
}

/* Writes the path from TARGET to its end, whose last step is because of AHEAD. */
static long write_cycle(const struct search *s, size_t target, struct rt_cycle_step *steps,
                        const size_t *behind)
{
    size_t begin = s->depth;
    long count = 0;

    while (s->frames[begin - 1].node != target)
        begin--;
    for (size_t i = begin - 1; i < s->depth; i++)
        steps[count++] = (struct rt_cycle_step){s->frames[i].node, behind[i]};
    return count;
}

/* Depth first from NODE. BEHIND: for each frame, the ticket through which it went on. */
static long search_from(struct search *s, size_t node, struct rt_cycle_step *steps, size_t *behind)
{
    if (s->nodes[node].entered)
        return 0;
    enter(s, node);
    while (s->depth > 0) {
        struct frame *top = &s->frames[s->depth - 1];
        size_t target = next_target(s, top, &behind[s->depth - 1]);
        if (target == NONE) {
            s->nodes[top->node].on_path = false;
            s->depth--;
        } else if (s->nodes[target].on_path) {
            return write_cycle(s, target, steps, behind);
        } else if (!s->nodes[target].entered) {
            enter(s, target);
        }
    }
    return 0;
}

static long search_line(struct search *s, const char *name, struct rt_cycle_step *steps,
                        size_t *behind)
{
    long found = 0;

    link_owners(s);
    for (size_t i = 0; i < s->count && found == 0; i++) {
        if (strcmp(s->tickets[i].name, name) != 0)
            continue;
        if (!is_granted(s, i)) {
            found = search_from(s, i, steps, behind);
            continue;
        }
        size_t from = s->nodes[i].first_wait;
        for (; from != NONE && found == 0; from = s->nodes[from].next_wait)
            found = search_from(s, from, steps, behind);
    }
    return found;
}

long rt_cycle_find(const struct rt_cycle_ticket *tickets, size_t count, const char *name,
                   struct rt_cycle_step *steps)
{
    struct search s = {.tickets = tickets, .count = count};
    size_t *behind;
    long found = -1;

    if (count == 0)
        return 0;
    if (count > RT_CYCLE_TICKETS)
        return -1;
    s.nodes = calloc(count, sizeof(struct node));
    s.frames = calloc(count, sizeof(struct frame));
    behind = calloc(count, sizeof(size_t));
    if (s.nodes != NULL && s.frames != NULL && behind != NULL)
        found = search_line(&s, name, steps, behind);
    free(behind);
    free(s.frames);
    free(s.nodes);
    return found;
}

bool rt_cycle_certain(const struct rt_cycle_ticket *tickets, const struct rt_cycle_step *steps,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t flags = tickets[steps[i].behind].place->flags;
        if ((flags & ROTA_PLACE_GRANTED) != 0 && (flags & ROTA_PLACE_DETECT) == 0)
            return false;
    }
    return true;
}
