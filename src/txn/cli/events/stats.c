/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn events stats: how many there are in each state, how old the oldest is, and how fast they go. */
#include "txn/cli/events/events.h"

#include "cli/out.h"

#include <inttypes.h>
#include <stdio.h>

#define WINDOW_MS INT64_C(60000)

static bool has_more(const struct rt_store_stats *s, unsigned state)
{
    return s->counts[state] >= RT_STORE_COUNTED;
}

static int print_json(const struct rt_store_stats *s, const struct rt_store_rates *r)
{
    json_t *counts = json_object(), *more = json_array();

    for (unsigned i = 0; i < RT_EVENT_STATES; i++) {
        json_object_set_new(counts, rt_event_state_names[i],
                            json_integer((json_int_t)s->counts[i]));
        if (has_more(s, i))
            json_array_append_new(more, json_string(rt_event_state_names[i]));
    }
    return rt_json_print(json_pack("{s:o, s:o, s:I, s:o, s:o, s:{s:o, s:b, s:o, s:o}}", "counts",
                                   counts, "more", more, "troubled", (json_int_t)s->troubled,
                                   "oldest_new_ms", rt_json_ms(s->oldest_new_ms),
                                   "oldest_published_ms", rt_json_ms(r->oldest_published_ms),
                                   "last_minute", "written", rt_json_ms(r->written), "written_more",
                                   r->written_more, "published", rt_json_ms(r->published),
                                   "processed", rt_json_ms(r->processed)),
                         false);
}

static void print_state(const struct rt_store_stats *s, unsigned state, int64_t oldest_ms,
                        const char *what)
{
    char age[32];

    printf("%-10s %10" PRIu64 "%s", rt_event_state_names[state], s->counts[state],
           has_more(s, state) ? " or more" : "");
    if (oldest_ms >= 0)
        printf("   %s %s", what, rt_out_time(oldest_ms, age, sizeof(age)));
    putchar('\n');
}

static void print_rate(const char *what, int64_t count, bool more)
{
    if (count >= 0)
        printf("%-10s %10" PRId64 "%s   in the last minute\n", what, count,
               more || count >= RT_STORE_COUNTED ? " or more" : "");
}

static void print_text(const struct rt_store_stats *s, const struct rt_store_rates *r)
{
    print_state(s, RT_EVENT_NEW, s->oldest_new_ms, "the oldest has waited for its relay for");
    if (s->troubled > 0)
        printf("%-10s %10" PRIu64 "   of the new ones: refused, and tried again\n", "  troubled",
               s->troubled);
    print_state(s, RT_EVENT_PUBLISHED, r->oldest_published_ms,
                "the oldest has waited for its consumer for");
    print_state(s, RT_EVENT_PROCESSED, -1, "");
    print_state(s, RT_EVENT_DEAD, -1, "");
    putchar('\n');
    print_rate("written", r->written, r->written_more);
    print_rate("published", r->published, false);
    print_rate("processed", r->processed, false);
}

int rt_events_stats(struct rt_events *e)
{
    struct rt_store_stats stats;
    struct rt_store_rates rates;

    int err = rt_store_stats(e->store, &stats);
    if (err == 0)
        err = rt_store_rates(e->store, WINDOW_MS, &rates);
    if (err != 0)
        return rt_events_report(e, err);
    if (e->json)
        return print_json(&stats, &rates);
    print_text(&stats, &rates);
    return RT_EXIT_OK;
}
