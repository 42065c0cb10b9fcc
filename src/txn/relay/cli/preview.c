/* SPDX-License-Identifier: Apache-2.0 */
/* rota relay --dry-run: what would be published now, in order; nothing is claimed. */
#include "cli/json.h"
#include "cli/out.h"
#include "txn/relay/cli/cli.h"

#include <inttypes.h>
#include <stdio.h>

#define PAGE 500

static int show_json(const struct rt_store_item *item)
{
    return rt_json_print(
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:I}", "id", rt_json_id((uint64_t)item->id),
                  "event_id", rt_json_text(item->event_id), "topic", rt_json_text(item->topic),
                  "key", item->key != NULL ? rt_json_text(item->key) : json_null(), "type",
                  item->type != NULL ? rt_json_text(item->type) : json_null(), "bytes",
                  (json_int_t)item->size, "age_ms", rt_json_ms(item->age_ms), "attempts",
                  (json_int_t)item->attempts),
        true);
}

static int show_text(const struct rt_store_item *item)
{
    char topic[128], key[128];

    printf("%" PRId64 "  %s  %s%s%s  %zu byte%s%s\n", item->id, item->event_id,
           rt_out_clean(item->topic, topic, sizeof(topic)), item->key != NULL ? "  " : "",
           item->key != NULL ? rt_out_clean(item->key, key, sizeof(key)) : "", item->size,
           item->size == 1 ? "" : "s", item->attempts > 0 ? "  (refused before)" : "");
    return RT_EXIT_OK;
}

int rt_relay_dry_run(const struct rt_relay_wish *wish)
{
    struct rt_store_options opts = wish->store;
    struct rt_store_filter filter = {.states = 1u << RT_EVENT_NEW, .limit = PAGE};
    struct rt_store *store = NULL;
    const struct rt_store_item *items = NULL;
    char line[512];
    size_t count = PAGE;
    int code = RT_EXIT_OK;

    opts.reads_only = true;
    int err = rt_store_open(&store, wish->from, &wish->map, &opts, line, sizeof(line));
    if (err != 0) {
        rt_out_error("relay: %s", line);
        return rt_relay_exit(err);
    }
    while (err == 0 && code == RT_EXIT_OK && count == PAGE) {
        err = rt_store_list(store, &filter, &items, &count);
        for (size_t i = 0; err == 0 && code == RT_EXIT_OK && i < count; i++) {
            filter.after = items[i].id;
            code = wish->json ? show_json(&items[i]) : show_text(&items[i]);
        }
    }
    if (err != 0) {
        rt_out_error("relay: %s", rt_store_errmsg(store));
        code = rt_relay_exit(err);
    }
    rt_store_close(store);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}
