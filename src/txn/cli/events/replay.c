/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn events replay: what is dead becomes new, and its trouble is forgotten; some by their ids, or all of them. */
#include "txn/cli/events/events.h"

#include "cli/out.h"

#include <inttypes.h>
#include <rota.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PAGE 1000 /* in one short transaction */

static int print(const struct rt_events *e, uint64_t done, uint64_t left, int code)
{
    int printed = RT_EXIT_OK;

    if (e->json)
        printed = rt_json_print(
            json_pack("{s:I, s:I}", "replayed", (json_int_t)done, "left", (json_int_t)left), false);
    else if (done > 0)
        printf("%" PRIu64 " event%s new again: a relay will publish %s\n", done,
               done == 1 ? " is" : "s are", done == 1 ? "it" : "them");
    else if (code == RT_EXIT_OK)
        printf("none is dead\n");
    return code != RT_EXIT_OK ? code : printed;
}

/* For rows that another transaction has locked, and that it waited for in vain: nobody can tell from here whose it is.
 * ID NULL: for all. */
static int report(const struct rt_events *e, const char *id, int err)
{
    if (err != ROTA_BUSY)
        return rt_events_report(e, err);
    rt_out_error("%s%.80s%s locked by another transaction: nothing was changed; try again when "
                 "that has ended (if it is prepared, rota txn indoubt shows it)",
                 id != NULL ? "'" : "", id != NULL ? id : "dead events are",
                 id != NULL ? "' is" : "");
    return RT_EXIT_BUSY;
}

/* ---- By their ids ------------------------------------------------------------------------- */

/* RT_EXIT_OK: it may be replayed; else a message was printed. */
static int may(const struct rt_events *e, const struct rt_store_item *item, const char *id)
{
    if (item == NULL) {
        rt_out_error("there is no event '%.80s' in %s", id, e->map.table);
        return RT_EXIT_FAILED;
    }
    if (item->state == RT_EVENT_DEAD || (item->state == RT_EVENT_NEW && item->reason != NULL))
        return RT_EXIT_OK;
    if (item->state == RT_EVENT_PUBLISHED || item->state == RT_EVENT_PROCESSED) {
        if (e->again)
            return RT_EXIT_OK;
        rt_out_error("'%.80s' is %s, not dead: --again publishes it once more, with the same id",
                     id, rt_events_state(item));
    } else {
        rt_out_error("'%.80s' is %s: there is nothing to replay", id, rt_events_state(item));
    }
    return RT_EXIT_BUSY;
}

static int replay_one(struct rt_events *e, const char *id, uint64_t *done)
{
    const struct rt_store_item *item = NULL;
    uint64_t changed = 0;

    int err = rt_store_show(e->store, id, &item);
    if (err != 0)
        return rt_events_report(e, err);
    int code = may(e, item, id);
    if (code != RT_EXIT_OK)
        return code;
    int64_t row = item->id;
    err = rt_store_replay_rows(e->store, &row, 1, item->state, &changed);
    if (err != 0)
        return report(e, id, err);
    if (changed == 0) {
        rt_out_error("'%.80s' has just changed: look again", id);
        return RT_EXIT_BUSY;
    }
    *done += changed;
    return RT_EXIT_OK;
}

static int replay_some(struct rt_events *e)
{
    uint64_t done = 0, left = 0;
    int code = RT_EXIT_OK;

    for (int i = 0; i < e->count; i++) {
        int one = replay_one(e, e->operands[i], &done);
        left += one != RT_EXIT_OK;
        code = code == RT_EXIT_OK ? one : code;
        if (one == RT_EXIT_UNREACHABLE)
            break;
    }
    return print(e, done, left, code);
}

/* ---- All of them -------------------------------------------------------------------------- */

static int confirm(struct rt_events *e)
{
    struct rt_store_stats stats;
    char answer[16] = "";

    if (e->yes)
        return RT_EXIT_OK;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) || e->json)
        return rt_events_usage("there is nobody to ask: use --yes");
    int err = rt_store_stats(e->store, &stats);
    if (err != 0)
        return rt_events_report(e, err);
    fprintf(stderr, "Of %" PRIu64 " dead events %s will be published again. Type yes: ",
            stats.counts[RT_EVENT_DEAD],
            e->filter.topic != NULL || e->filter.key != NULL ? "those" : "all");
    if (fgets(answer, sizeof(answer), stdin) != NULL && strcmp(answer, "yes\n") == 0)
        return RT_EXIT_OK;
    rt_out_error("nothing was done");
    return RT_EXIT_BUSY;
}

/* Page by page, each row once: one that dies again at once is not replayed a second time. */
static int replay_all(struct rt_events *e)
{
    struct rt_store_filter filter = e->filter;
    const struct rt_store_item *items = NULL;
    uint64_t done = 0;
    size_t n = PAGE;
    int err = 0;

    int code = confirm(e);
    if (code != RT_EXIT_OK)
        return code;
    filter.states = 1U << RT_EVENT_DEAD;
    filter.limit = PAGE;
    while (err == 0 && n == PAGE) {
        int64_t ids[PAGE];
        uint64_t changed = 0;
        err = rt_store_list(e->store, &filter, &items, &n);
        for (size_t i = 0; err == 0 && i < n; i++)
            filter.after = ids[i] = items[i].id;
        if (err == 0)
            err = rt_store_replay_rows(e->store, ids, n, RT_EVENT_DEAD, &changed);
        done += changed;
    }
    if (err != 0)
        code = report(e, NULL, err);
    return print(e, done, 0, code);
}

int rt_events_replay(struct rt_events *e)
{
    if (e->all && (e->count > 0 || e->again))
        return rt_events_usage("--all is for the dead ones: not with %s",
                               e->count > 0 ? "an id" : "--again");
    if (!e->all && e->count == 0)
        return rt_events_usage("which ones? Give their ids, or --all");
    if (!e->all && (e->filter.topic != NULL || e->filter.key != NULL))
        return rt_events_usage("--topic and --key are for --all");
    return e->all ? replay_all(e) : replay_some(e);
}
