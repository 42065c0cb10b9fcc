/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of all lines in which somebody waits, and the cycle in it. */
#include "cli/crowd.h"

#include <stdlib.h>
#include <string.h>

void rt_crowd_free(struct rt_crowd *crowd)
{
    for (size_t i = 0; i < crowd->line_count; i++)
        rota_line_free(crowd->lines[i]);
    free(crowd->lines);
    free(crowd->tickets);
    free(crowd->steps);
    *crowd = (struct rt_crowd){.lines = NULL};
}

/* Reads only lines where somebody waits, and NAME itself: a cycle needs no others. */
static int inspect_lines(struct rt_crowd *crowd, struct rota *r, const char *name,
                         const struct rota_line *found, size_t count)
{
    crowd->lines = calloc(count + 1, sizeof(struct rota_line *));
    if (crowd->lines == NULL)
        return ROTA_NOMEM;
    for (size_t i = 0; i < count; i++) {
        if (found[i].count == found[i].granted && strcmp(found[i].name, name) != 0)
            continue;
        int err = rota_inspect(r, found[i].name, &crowd->lines[crowd->line_count]);
        if (err != 0)
            return err;
        crowd->ticket_count += crowd->lines[crowd->line_count++]->count;
    }
    return 0;
}

static int search_lines(struct rt_crowd *crowd, const char *name)
{
    size_t n = 0;

    crowd->tickets = calloc(crowd->ticket_count + 1, sizeof(struct rt_cycle_ticket));
    crowd->steps = calloc(crowd->ticket_count + 1, sizeof(struct rt_cycle_step));
    if (crowd->tickets == NULL || crowd->steps == NULL)
        return ROTA_NOMEM;
    for (size_t i = 0; i < crowd->line_count; i++) {
        const struct rota_line *line = crowd->lines[i];
        for (size_t j = 0; j < line->count; j++)
            crowd->tickets[n++] = (struct rt_cycle_ticket){line->name, &line->places[j]};
    }
    long found = rt_cycle_find(crowd->tickets, n, name, crowd->steps);
    crowd->step_count = found > 0 ? (size_t)found : 0;
    return 0;
}

static int look_once(struct rt_crowd *crowd, struct rota *r, const char *name)
{
    struct rota_line *found;
    size_t count;

    *crowd = (struct rt_crowd){.lines = NULL};
    int err = rota_list(r, "", &found, &count);
    if (err != 0)
        return err;
    err = inspect_lines(crowd, r, name, found, count);
    rota_list_free(found, count);
    return err != 0 ? err : search_lines(crowd, name);
}

static bool same_ticket(const struct rt_cycle_ticket *a, const struct rt_cycle_ticket *b)
{
    return strcmp(a->name, b->name) == 0 && a->place->number == b->place->number &&
           ((a->place->flags ^ b->place->flags) & ROTA_PLACE_GRANTED) == 0;
}

static bool same_cycle(const struct rt_crowd *a, const struct rt_crowd *b)
{
    if (a->step_count != b->step_count)
        return false;
    for (size_t i = 0; i < a->step_count; i++) {
        const struct rt_cycle_step *x = &a->steps[i], *y = &b->steps[i];
        if (!same_ticket(&a->tickets[x->waits], &b->tickets[y->waits]) ||
            !same_ticket(&a->tickets[x->behind], &b->tickets[y->behind]))
            return false;
    }
    return true;
}

int rt_crowd_look(struct rt_crowd *crowd, struct rota *r, const char *name)
{
    struct rt_crowd again;

    int err = look_once(crowd, r, name);
    if (err != 0 || crowd->step_count == 0)
        return err;
    err = look_once(&again, r, name);
    if (err == 0 && !same_cycle(crowd, &again))
        crowd->step_count = 0;
    rt_crowd_free(&again);
    return err;
}
