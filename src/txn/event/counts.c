/* SPDX-License-Identifier: Apache-2.0 */
/* How many events there are, how old, and how fast they go: read through indexes, and never beyond a limit of rows. */
#include "txn/event/store_inside.h"

#include <inttypes.h>

#define WRITTEN_PAGE 10000 /* of the last ids, to see how many were written lately */

static void add_count(struct rt_store *s, enum rt_event_state state)
{
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, state == RT_EVENT_NEW ? "SELECT " : ", ");
    if (s->map.states[state][0] == '\0') {
        rt_stmt_add(q, "(SELECT COUNT(*) FROM " RT_EVENT_TROUBLE " WHERE ");
        rt_store_add_source(s);
        rt_stmt_add(q, " IS NOT NULL AND dead = 1)");
        return;
    }
    rt_stmt_add(q, "(SELECT COUNT(*) FROM (SELECT 1");
    rt_store_add_table(s);
    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, "e");
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, &s->map, state);
    rt_stmt_add(q, " LIMIT %d) c)", RT_STORE_COUNTED);
}

int rt_store_stats(struct rt_store *s, struct rt_store_stats *out)
{
    struct rt_store_stats stats = {0};
    struct rt_stmt *q = &s->q;
    int err = rt_store_settle(s);

    if (err != 0)
        return err;
    for (int i = 0; i < RT_EVENT_STATES; i++)
        add_count(s, (enum rt_event_state)i);
    rt_stmt_add(q, ", (SELECT COUNT(*) FROM " RT_EVENT_TROUBLE " WHERE ");
    rt_store_add_source(s);
    rt_stmt_add(q, " IS NOT NULL AND dead = 0); SELECT ");
    rt_store_add_age(s, RT_COLUMN_CREATED);
    rt_store_add_table(s);
    rt_store_add_index(s, 0);
    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, "e");
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, &s->map, RT_EVENT_NEW);
    rt_stmt_add(q, " ORDER BY ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(q, " LIMIT 1");
    err = rt_store_say(s);
    if (err != 0)
        return err;
    for (size_t i = 0; i < RT_EVENT_STATES; i++)
        stats.counts[i] = (uint64_t)rt_store_number(rt_store_cell(s, 0, 0, i), 0);
    stats.troubled = (uint64_t)rt_store_number(rt_store_cell(s, 0, 0, RT_EVENT_STATES), 0);
    stats.oldest_new_ms = rt_store_number(rt_store_cell(s, 1, 0, 0), -1);
    if (s->map.states[RT_EVENT_DEAD][0] == '\0' && stats.counts[RT_EVENT_NEW] < RT_STORE_COUNTED)
        stats.counts[RT_EVENT_NEW] -= stats.counts[RT_EVENT_DEAD] < stats.counts[RT_EVENT_NEW]
                                          ? stats.counts[RT_EVENT_DEAD]
                                          : stats.counts[RT_EVENT_NEW];
    *out = stats;
    return 0;
}

/* ", (SELECT COUNT(*) ... of a state, changed later than MS ago)" */
static void add_lately(struct rt_store *s, enum rt_event_state state, int64_t ms)
{
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, state == RT_EVENT_PUBLISHED ? "SELECT " : ", ");
    if (!rt_store_has(s, RT_COLUMN_UPDATED)) {
        rt_stmt_add(q, "-1");
        return;
    }
    rt_stmt_add(q, "(SELECT COUNT(*) FROM (SELECT 1");
    rt_store_add_table(s);
    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, "e");
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, &s->map, state);
    rt_stmt_add(q, " AND ");
    rt_stmt_column(q, &s->map, RT_COLUMN_UPDATED, "e");
    rt_stmt_add(q, " >= ");
    rt_stmt_before(q, ms);
    rt_stmt_add(q, " LIMIT %d) c)", RT_STORE_COUNTED);
}

/* No index has the time of writing: this looks at the last ids. */
static void add_written(struct rt_store *s, int64_t ms)
{
    struct rt_stmt *q = &s->q;

    if (!rt_store_has(s, RT_COLUMN_CREATED)) {
        rt_stmt_add(q, ", -1");
        return;
    }
    rt_stmt_add(q, ", (SELECT COUNT(*) FROM (SELECT ");
    rt_stmt_column(q, &s->map, RT_COLUMN_CREATED, "e");
    rt_stmt_add(q, " AS at");
    rt_store_add_table(s);
    rt_stmt_add(q, " ORDER BY ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(q, " DESC LIMIT %d) c WHERE at >= ", WRITTEN_PAGE);
    rt_stmt_before(q, ms);
    rt_stmt_add(q, ")");
}

int rt_store_rates(struct rt_store *s, int64_t ms, struct rt_store_rates *out)
{
    struct rt_stmt *q = &s->q;
    int err = rt_store_settle(s);

    if (err != 0)
        return err;
    add_lately(s, RT_EVENT_PUBLISHED, ms);
    add_lately(s, RT_EVENT_PROCESSED, ms);
    add_written(s, ms);
    rt_stmt_add(q, "; SELECT ");
    rt_store_add_age(s, RT_COLUMN_UPDATED);
    rt_store_add_table(s);
    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, "e");
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, &s->map, RT_EVENT_PUBLISHED);
    if (rt_store_has(s, RT_COLUMN_UPDATED)) {
        rt_stmt_add(q, " ORDER BY ");
        rt_stmt_column(q, &s->map, RT_COLUMN_UPDATED, "e");
    }
    rt_stmt_add(q, " LIMIT 1");
    err = rt_store_say(s);
    if (err != 0)
        return err;
    *out = (struct rt_store_rates){
        .published = rt_store_number(rt_store_cell(s, 0, 0, 0), -1),
        .processed = rt_store_number(rt_store_cell(s, 0, 0, 1), -1),
        .written = rt_store_number(rt_store_cell(s, 0, 0, 2), -1),
        .written_more = rt_store_number(rt_store_cell(s, 0, 0, 2), -1) == WRITTEN_PAGE,
        .oldest_published_ms = rt_store_number(rt_store_cell(s, 1, 0, 0), -1)};
    return 0;
}
