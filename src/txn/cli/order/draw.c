/* SPDX-License-Identifier: Apache-2.0 */
/* What the demo draws as it happens: a lane for each service, a line for each step; or the same as JSON. */
#include "txn/cli/order/draw.h"

#include "cli/json.h"
#include "cli/out.h"
#include "txn/fence/call.h"

#include <stdio.h>
#include <string.h>

#define MARGIN 14 /* columns of what is done */
#define LANE 20   /* ... of a service */

static const char *color(enum rt_out_color c)
{
    return rt_out_color(stdout, c);
}

/* A line: WHAT in the margin, TEXT in LANE's column (-1: right after the margin). */
static void step(struct rt_draw *d, const char *what, int lane, enum rt_out_color c,
                 const char *text)
{
    const char *service = lane >= 0 ? rt_order_names[lane] : NULL;

    json_array_append_new(d->steps, json_pack("{s:i, s:s, s:s?, s:s}", "order", d->order, "step",
                                              what, "service", service, "said", text));
    if (d->silent)
        return;
    printf("  %-*s%*s%s%s%s\n", MARGIN - 2, what, lane > 0 ? lane * LANE : 0, "", color(c), text,
           color(RT_OUT_PLAIN));
    fflush(stdout);
}

void rt_draw_head(struct rt_draw *d, enum rt_order_fail fail)
{
    d->steps = json_array();
    if (d->silent)
        return;
    printf("Three services, each with an HTTP server and an SQLite of its own; one journal.\n"
           "An order reserves at all of them (try), then all take it (confirm) or give it back\n"
           "(cancel), as the journal says.");
    if (fail == RT_ORDER_NOTHING)
        printf(" --fail stock, payment, coordinator, network: what\n"
               "happens then.");
    printf("\n");
}

void rt_draw_order(struct rt_draw *d, const struct rt_order *o)
{
    d->order++;
    d->decided = false;
    if (d->silent)
        return;
    printf("\n%sOrder %d: %s%s (%d items, %d coins)\n%*s%-*s%-*s%s\n", color(RT_OUT_BOLD), d->order,
           o->title, color(RT_OUT_PLAIN), o->amounts[RT_ORDER_STOCK], o->amounts[RT_ORDER_PAYMENT],
           MARGIN, "", LANE, rt_order_names[0], LANE, rt_order_names[1], rt_order_names[2]);
    fflush(stdout);
}

/* ---- Steps -------------------------------------------------------------------------------- */

/* Nobody confirms or cancels without a decision: the first to do so shows that it is written. */
static void draw_decision(struct rt_draw *d, int op)
{
    if (d->decided || (op != ROTA_OP_CONFIRM && op != ROTA_OP_CANCEL))
        return;
    d->decided = true;
    step(d, "journal", -1, RT_OUT_BOLD,
         op == ROTA_OP_CONFIRM ? "COMMIT: decided, durable" : "ABORT: decided, durable");
}

static void draw_call(struct rt_draw *d, const struct rt_event *e)
{
    static const char *const done[] = {
        [ROTA_OP_TRY] = "reserved", [ROTA_OP_CONFIRM] = "taken", [ROTA_OP_CANCEL] = "given back"};
    enum rt_out_color c = RT_OUT_YELLOW;
    char text[64];

    switch (e->verdict) {
    case ROTA_FENCE_DO:
        snprintf(text, sizeof(text), "%d %s", e->number, done[e->op]);
        c = RT_OUT_GREEN;
        break;
    case ROTA_FENCE_DONE:
        snprintf(text, sizeof(text), "again: no effect");
        d->again++;
        break;
    case ROTA_FENCE_EMPTY:
        snprintf(text, sizeof(text), "nothing to cancel");
        d->empty++;
        break;
    case ROTA_FENCE_LATE:
        snprintf(text, sizeof(text), "too late: refused");
        d->late++;
        break;
    case 0:
        snprintf(text, sizeof(text), "refused: %d free", e->number);
        c = RT_OUT_RED;
        break;
    default:
        snprintf(text, sizeof(text), "out of order: refused");
        c = RT_OUT_RED;
    }
    step(d, rt_call_op_name(e->op), e->service, c, text);
}

void rt_draw_event(struct rt_draw *d, const struct rt_event *e)
{
    draw_decision(d, e->op);
    if (e->kind == RT_EVENT_CALL)
        draw_call(d, e);
    else if (e->kind == RT_EVENT_SAYS)
        step(d, e->who, -1, RT_OUT_YELLOW, e->text);
    else if (e->kind == RT_EVENT_KILLED)
        step(d, e->who, -1, RT_OUT_RED, e->text);
    else if (e->kind == RT_EVENT_ENDED)
        step(d, "journal", -1, RT_OUT_BOLD, "finished: nobody has to be asked any more");
}

/* ---- The end ---------------------------------------------------------------------------------- */

static void draw_sums(const struct rt_audit *a)
{
    printf("\n%*s%10s%10s%10s%10s\n", MARGIN, "", "before", "free", "reserved", "taken");
    for (int i = 0; i < RT_ORDER_SERVICES; i++)
        printf("  %-*s%10d%10d%10d%10d   %s%s%s\n", MARGIN - 2, rt_order_names[i],
               rt_order_before[i], a->has[i].free, a->has[i].reserved, a->has[i].taken,
               color(a->exact[i] ? RT_OUT_GREEN : RT_OUT_RED), a->exact[i] ? "exact" : "WRONG",
               color(RT_OUT_PLAIN));
}

static void draw_fence(const struct rt_draw *d, const struct rt_audit *a)
{
    if (d->again + d->empty + d->late == 0)
        return;
    printf("The fence let these do no harm: calls that came again: %d; cancels without a try: %d;\n"
           "tries after their cancel: %d. Without it the services would have:\n",
           d->again, d->empty, d->late);
    for (int i = 0; i < RT_ORDER_SERVICES; i++) {
        const struct rt_counter *bare = &a->bare[i], *has = &a->has[i];
        bool same = bare->free == has->free && bare->reserved == has->reserved &&
                    bare->taken == has->taken;
        printf("  %-*s%20d%10d%10d   %s%s%s\n", MARGIN - 2, rt_order_names[i], bare->free,
               bare->reserved, bare->taken, color(same ? RT_OUT_GREEN : RT_OUT_RED),
               same ? "the same" : "wrong", color(RT_OUT_PLAIN));
    }
}

void rt_draw_end(const struct rt_draw *d, const struct rt_audit *a, const struct rt_order *orders,
                 int count)
{
    if (d->silent)
        return;
    draw_sums(a);
    printf("\n");
    for (int i = 0; i < count; i++)
        if (orders[i].committed != orders[i].commits || !orders[i].finished)
            printf("%sOrder %d was %s%s%s\n", color(RT_OUT_RED), i + 1,
                   orders[i].committed ? "committed" : "aborted",
                   orders[i].finished ? "" : ", and is not finished", color(RT_OUT_PLAIN));
    if (a->all)
        printf(
            "%sProven:%s %d of %d orders committed, as the journal says. Each of them was taken exactly\n"
            "once at every service; of the others nothing is left; nothing is reserved for ever.\n",
            color(RT_OUT_GREEN), color(RT_OUT_PLAIN), a->committed, count);
    else
        printf("%sThe sums are wrong: please tell us.%s\n", color(RT_OUT_RED), color(RT_OUT_PLAIN));
    draw_fence(d, a);
}

static json_t *counter_json(const struct rt_counter *c)
{
    return json_pack("{s:i, s:i, s:i}", "free", c->free, "reserved", c->reserved, "taken",
                     c->taken);
}

static json_t *services_json(const struct rt_audit *a)
{
    json_t *list = json_array();

    for (int i = 0; i < RT_ORDER_SERVICES; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:b, s:o}", "service",
                                        rt_order_names[i], "before", rt_order_before[i], "free",
                                        a->has[i].free, "reserved", a->has[i].reserved, "taken",
                                        a->has[i].taken, "expected", a->expected[i], "exact",
                                        a->exact[i], "without_fence", counter_json(&a->bare[i])));
    return list;
}

static json_t *orders_json(const struct rt_order *orders, int count)
{
    json_t *list = json_array();

    for (int i = 0; i < count; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:i, s:i, s:s, s:b, s:b, s:b}", "id", orders[i].id, "title",
                            orders[i].title, "items", orders[i].amounts[RT_ORDER_STOCK], "coins",
                            orders[i].amounts[RT_ORDER_PAYMENT], "outcome",
                            orders[i].committed ? "committed" : "aborted", "expected",
                            orders[i].committed == orders[i].commits, "finished",
                            orders[i].finished, "recovered", orders[i].recovered));
    return list;
}

int rt_draw_json(struct rt_draw *d, const struct rt_audit *a, const struct rt_order *orders,
                 int count, enum rt_order_fail fail)
{
    json_t *steps = d->steps;

    d->steps = NULL;
    return rt_json_print(json_pack("{s:s?, s:b, s:o, s:o, s:{s:i, s:i, s:i}, s:o}", "fail",
                                   fail != RT_ORDER_NOTHING ? rt_order_fails[fail] : NULL, "exact",
                                   a->all, "orders", orders_json(orders, count), "services",
                                   services_json(a), "fence", "again", d->again, "empty", d->empty,
                                   "late", d->late, "steps", steps),
                         false);
}
