/* SPDX-License-Identifier: Apache-2.0 */
/* rota why: who holds a lock, who waits for it, and whether that can end. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/crowd.h"
#include "cli/json.h"
#include "cli/look.h"
#include "cli/out.h"
#include "cli/ticket.h"

#include <inttypes.h>

/* ---- In words ----------------------------------------------------------- */

/* host/7/job, which is process 7 on host, thread 1 */
static void print_who(const struct rota_place *place)
{
    struct rt_ticket_who who;
    char label[RT_TICKET_TEXT], owner[48];

    rt_out_clean(place->label, label, sizeof(label));
    rt_ticket_owner(place, owner, sizeof(owner));
    printf("%s%s%s", rt_out_color(stdout, RT_OUT_BOLD), label[0] != '\0' ? label : "somebody",
           rt_out_color(stdout, RT_OUT_PLAIN));
    if (rt_ticket_who(label, &who))
        printf(" (process %ld on %.*s%s%s)", who.process, who.host_bytes, label,
               owner[0] != '\0' ? ", " : "", owner);
    else if (owner[0] != '\0')
        printf(" (%s)", owner);
}

/* What ends the hold if its holder does nothing. */
static void print_left(const struct rota_place *place)
{
    bool durable = (place->flags & ROTA_PLACE_DURABLE) != 0;
    char left[32];

    if (place->left_ms >= 0)
        rt_out_time(place->left_ms, left, sizeof(left));
    if (durable && place->left_ms < 0)
        printf("    durable: it stays until 'rota break', whatever happens to its process\n");
    else if (durable)
        printf("    durable: it ends in %s, whatever happens to its process\n", left);
    else if (place->left_ms < 0 && (place->flags & ROTA_PLACE_FOREIGN) != 0)
        printf("    no lease ends it: it stays until its program takes it out, or 'rota break'\n");
    else if (place->left_ms < 0)
        printf("    it ends when the holder gives it back, or with its process\n");
    else
        printf("    if nothing more is heard of the holder, it ends in %s\n", left);
}

/* "for 3 s, ", or nothing if the engine does not know. */
static const char *for_how_long(const struct rota_place *place, char *out, size_t size)
{
    char since[32];

    out[0] = '\0';
    if (place->since_ms >= 0)
        snprintf(out, size, "for %s, ", rt_out_time(place->since_ms, since, sizeof(since)));
    return out;
}

static void print_holder(const struct rota_line *line, const struct rota_place *place)
{
    char since[48], mode[48], value[RT_TICKET_TEXT];

    printf("'%s' is held by ", line->name);
    print_who(place);
    printf("\n    %s%s, fence %" PRIu64 "\n", for_how_long(place, since, sizeof(since)),
           rt_ticket_mode(place, mode, sizeof(mode)), place->number);
    if (place->value[0] != '\0')
        printf("    it says: %s\n", rt_out_clean(place->value, value, sizeof(value)));
    print_left(place);
}

static void print_waiter(const struct rota_place *place, size_t number)
{
    char since[48], mode[48];

    printf("  %zu. ", number);
    print_who(place);
    printf(", %s%s\n", for_how_long(place, since, sizeof(since)),
           rt_ticket_mode(place, mode, sizeof(mode)));
}

static void print_line(const struct rota_line *line)
{
    size_t waiting = 0;

    if (line->count == 0)
        printf("'%s' is free\n", line->name);
    else if (line->granted == 0)
        printf("'%s' is held by nobody at this moment\n", line->name);
    for (size_t i = 0; i < line->count; i++) {
        if ((line->places[i].flags & ROTA_PLACE_GRANTED) != 0)
            print_holder(line, &line->places[i]);
    }
    if (line->count > line->granted)
        printf("%zu in line:\n", line->count - line->granted);
    for (size_t i = 0; i < line->count; i++) {
        if ((line->places[i].flags & ROTA_PLACE_GRANTED) == 0)
            print_waiter(&line->places[i], ++waiting);
    }
}

static void print_step(const struct rt_crowd *crowd, size_t i)
{
    const struct rt_cycle_ticket *waits = &crowd->tickets[crowd->steps[i].waits];
    size_t before = (i + crowd->step_count - 1) % crowd->step_count;
    const struct rt_cycle_ticket *has = &crowd->tickets[crowd->steps[before].behind];

    printf("  ");
    print_who(waits->place);
    if ((has->place->flags & ROTA_PLACE_GRANTED) != 0)
        printf(" holds '%s' (fence %" PRIu64 ") and", has->name, has->place->number);
    printf(" waits for '%s'\n", waits->name);
}

/* It names the first hold in the cycle: any of them would do. */
static void print_cycle(const struct rt_crowd *crowd)
{
    const struct rt_cycle_ticket *hold = NULL;

    if (crowd->step_count == 0)
        return;
    printf("%sA cycle%s: they wait for each other, and it will not end by itself%s\n",
           rt_out_color(stdout, RT_OUT_RED), rt_out_color(stdout, RT_OUT_PLAIN),
           rt_cycle_certain(crowd->tickets, crowd->steps, crowd->step_count)
               ? ""
               : " (as seen from\noutside: a hold may have been passed on inside its process)");
    for (size_t i = 0; i < crowd->step_count; i++) {
        const struct rt_cycle_ticket *behind = &crowd->tickets[crowd->steps[i].behind];
        print_step(crowd, i);
        if (hold == NULL && (behind->place->flags & ROTA_PLACE_GRANTED) != 0)
            hold = behind;
    }
    if (hold != NULL)
        printf("To end it, end one of them, or: rota break '%s' --fence %" PRIu64 "\n", hold->name,
               hold->place->number);
}

/* ---- In JSON ------------------------------------------------------------ */

static json_t *tickets_json(const struct rota_line *line, bool granted)
{
    json_t *tickets = json_array();

    for (size_t i = 0; i < line->count; i++) {
        bool holds = (line->places[i].flags & ROTA_PLACE_GRANTED) != 0;
        if (holds == granted &&
            json_array_append_new(tickets, rt_ticket_json(&line->places[i], i)) != 0) {
            json_decref(tickets);
            return NULL;
        }
    }
    return tickets;
}

static json_t *step_json(const struct rt_crowd *crowd, size_t i)
{
    const struct rt_cycle_ticket *waits = &crowd->tickets[crowd->steps[i].waits];
    size_t before = (i + crowd->step_count - 1) % crowd->step_count;
    const struct rt_cycle_ticket *has = &crowd->tickets[crowd->steps[before].behind];
    bool holds = (has->place->flags & ROTA_PLACE_GRANTED) != 0;

    return json_pack("{s:o, s:o, s:o, s:o}", "label", rt_json_text(waits->place->label), "holds",
                     holds ? rt_json_text(has->name) : json_null(), "fence",
                     holds ? rt_json_id(has->place->number) : json_null(), "waits_for",
                     rt_json_text(waits->name));
}

static json_t *cycle_json(const struct rt_crowd *crowd)
{
    json_t *steps = json_array();

    if (crowd->step_count == 0) {
        json_decref(steps);
        return json_null();
    }
    for (size_t i = 0; i < crowd->step_count; i++) {
        if (json_array_append_new(steps, step_json(crowd, i)) != 0) {
            json_decref(steps);
            return NULL;
        }
    }
    return json_pack("{s:b, s:o}", "certain",
                     rt_cycle_certain(crowd->tickets, crowd->steps, crowd->step_count), "steps",
                     steps);
}

static int print_json(const struct rota_line *line, const struct rt_crowd *crowd)
{
    return rt_json_print(json_pack("{s:o, s:s, s:o, s:o, s:o}", "name", rt_json_text(line->name),
                                   "state", line->count == 0 ? "free" : "held", "holders",
                                   tickets_json(line, true), "waiters", tickets_json(line, false),
                                   "cycle", cycle_json(crowd)),
                         false);
}

/* ---- Both --------------------------------------------------------------- */

static int explain(const struct rt_look *look, struct rota *r)
{
    struct rota_line *line;
    struct rt_crowd crowd;
    int code = RT_EXIT_OK;

    int err = rota_inspect(r, look->name, &line);
    if (err != 0)
        return rt_connect_report(r, err, "");
    err = rt_crowd_look(&crowd, r, look->name);
    if (err != 0) {
        code = rt_connect_report(r, err, "");
    } else if (look->json) {
        code = print_json(line, &crowd);
    } else {
        print_line(line);
        print_cycle(&crowd);
    }
    rt_crowd_free(&crowd);
    rota_line_free(line);
    return code;
}

int rt_why_main(const struct rt_cli *cli, int argc, char **argv)
{
    struct rt_look look = {.command = "why", .operand = RT_LOOK_NAME};
    struct rota *r;

    int code = rt_look_parse(&look, argc, argv);
    if (code != RT_EXIT_OK || look.done)
        return code;
    code = rt_connect_open(&r, cli, &(struct rota_options){.flags = ROTA_NO_KEEPER});
    if (code != RT_EXIT_OK)
        return code;
    code = explain(&look, r);
    rota_close(r);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}
