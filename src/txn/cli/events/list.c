/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn events ls, dead: a page of the table. */
#include "txn/cli/events/events.h"

#include "cli/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define LIMIT 100
#define OPEN (1U << RT_EVENT_NEW | 1U << RT_EVENT_PUBLISHED | 1U << RT_EVENT_DEAD)

/* Reads one more than is shown, to see whether there are more. */
static int read_page(struct rt_events *e, const struct rt_store_item **items, size_t *count,
                     bool *more)
{
    struct rt_store_filter filter = e->filter;
    uint32_t limit = filter.limit != 0 ? filter.limit : LIMIT;

    filter.limit = limit + 1;
    int err = rt_store_list(e->store, &filter, items, count);
    if (err != 0)
        return err;
    *more = *count > limit;
    *count = *more ? limit : *count;
    return 0;
}

static int print_json(const struct rt_store_item *items, size_t count, bool more)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(rows, rt_events_json(&items[i]));
    return rt_json_print(json_pack("{s:o, s:o}", "events", rows, "next",
                                   more ? rt_json_id((uint64_t)items[count - 1].id) : json_null()),
                         false);
}

static const char *age(int64_t ms, char *out, size_t size)
{
    if (ms >= 0)
        return rt_out_time(ms, out, size);
    snprintf(out, size, "-");
    return out;
}

/* TOPIC KEY TYPE, each if it has one. */
static void print_names(const struct rt_store_item *item)
{
    char text[256];

    printf("%s", rt_out_clean(item->topic, text, sizeof(text)));
    printf("  %s", item->key != NULL ? rt_out_clean(item->key, text, sizeof(text)) : "-");
    if (item->type != NULL)
        printf("  %s", rt_out_clean(item->type, text, sizeof(text)));
}

static void print_row(const struct rt_store_item *item)
{
    char since[32], next[32], often[48] = "waits", why[512];

    printf("%10" PRId64 "  %-9s  ", item->id, rt_events_state(item));
    rt_out_padded(age(item->age_ms, since, sizeof(since)), 13);
    printf("%8zu  ", item->size);
    print_names(item);
    putchar('\n');
    if (item->reason == NULL || item->state != RT_EVENT_NEW)
        return;
    if (item->attempts > 0)
        snprintf(often, sizeof(often), "refused %" PRIu32 " time%s", item->attempts,
                 item->attempts == 1 ? "" : "s");
    printf("%12s%s, next %s%s: %s\n", "", often, item->next_in_ms > 0 ? "in " : "",
           item->next_in_ms > 0 ? rt_out_time(item->next_in_ms, next, sizeof(next)) : "now",
           rt_out_clean(item->reason, why, sizeof(why)));
}

static void print_dead(const struct rt_store_item *item)
{
    char since[32], why[512];

    printf("%10" PRId64 "  ", item->id);
    rt_out_padded(age(item->changed_ms, since, sizeof(since)), 13);
    printf("%8" PRIu32 "  ", item->attempts);
    print_names(item);
    printf("\n%12s%s\n", "",
           item->reason != NULL ? rt_out_clean(item->reason, why, sizeof(why))
                                : "no reason was noted");
}

static void print_text(const struct rt_store_item *items, size_t count, bool dead)
{
    if (count > 0 && dead)
        printf("%s%10s  %-13s%8s  %s%s\n", rt_out_color(stdout, RT_OUT_BOLD), "NUMBER", "DEAD FOR",
               "REFUSED", "TOPIC  KEY  TYPE, and why", rt_out_color(stdout, RT_OUT_PLAIN));
    else if (count > 0)
        printf("%s%10s  %-9s  %-13s%8s  %s%s\n", rt_out_color(stdout, RT_OUT_BOLD), "NUMBER",
               "STATE", "AGE", "BYTES", "TOPIC  KEY  TYPE", rt_out_color(stdout, RT_OUT_PLAIN));
    for (size_t i = 0; i < count; i++)
        (dead ? print_dead : print_row)(&items[i]);
}

static int list(struct rt_events *e, bool dead, size_t *count)
{
    const struct rt_store_item *items = NULL;
    bool more = false;

    int err = read_page(e, &items, count, &more);
    if (err != 0)
        return rt_events_report(e, err);
    if (e->json)
        return print_json(items, *count, more);
    print_text(items, *count, dead);
    if (*count == 0 && isatty(STDOUT_FILENO))
        rt_out_error(dead ? "none is dead" : "there is no such event");
    if (more)
        rt_out_error("there are more: --after %" PRId64, items[*count - 1].id);
    return RT_EXIT_OK;
}

int rt_events_ls(struct rt_events *e)
{
    size_t count = 0;

    if (e->all && e->filter.states != 0)
        return rt_events_usage("--all and --state exclude each other");
    if (!e->all && e->filter.states == 0)
        e->filter.states = OPEN;
    return list(e, false, &count);
}

int rt_events_dead(struct rt_events *e)
{
    size_t count = 0;

    e->filter.states = 1U << RT_EVENT_DEAD;
    int code = list(e, true, &count);
    return code == RT_EXIT_OK && count > 0 ? RT_EXIT_FAILED : code;
}
