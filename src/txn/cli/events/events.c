/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn events: the table of events that a relay publishes, for people. */
#include "txn/cli/events/events.h"

#include "cli/options.h"
#include "cli/out.h"
#include "txn/cli/visit.h"

#include <stdio.h>
#include <string.h>

#define LIMIT_MOST 100000
#define CALL_MS 30000 /* a reader holds nobody up */
#define LOCK_MS 3000  /* replay, for a row that another has */

const char rt_job_help_events[] =
    "Usage: rota txn events ls|show|replay|dead|stats --from URL [OPTION]... [ID]...\n"
    "The events that 'rota relay' publishes; states: new, published, processed, dead.\n"
    "  ls                list the events not yet processed, by number\n"
    "  show ID           show one event, with its payload; ID: its number or its id\n"
    "  replay ID...      make dead events new: published again, with the same id\n"
    "  dead              list the dead events, and why; exit 1 if there are any\n"
    "  stats             how many, how old, how fast\n"
    "\n"
    "      --from URL        postgres://, mysql://, sqlite:PATH, as for the relay\n"
    "      --map MAP         the columns of your own table, as for the relay\n"
    "      --state S[,S]     ls: only these states; --all: processed events too\n"
    "      --topic T         ls, dead, replay --all: only this topic\n"
    "      --key K           the same for a key\n"
    "      --limit N         ls, dead: at most N events (100)\n"
    "      --after N         ls, dead: only numbers greater than N\n"
    "      --raw             show: only the payload, byte for byte\n"
    "      --again           replay: published or processed events too\n"
    "      --all, --yes      replay: all dead events; do not ask\n"
    "      --json            one JSON object\n"
    "Exit: 0; 1 no such event, or (dead) there are some; 64 wrong usage, or no such\n"
    "table; 69 not reachable; 75 it was not dead, or not confirmed.\n";

/* ---- Words ---------------------------------------------------------------------------- */

enum letter {
    FROM = 256,
    MAP,
    STATE,
    TOPIC,
    KEY,
    LIMIT,
    AFTER,
    RAW,
    AGAIN,
    ALL,
    YES,
};

static const struct option options[] = {
    {"from", required_argument, NULL, FROM},   {"map", required_argument, NULL, MAP},
    {"state", required_argument, NULL, STATE}, {"topic", required_argument, NULL, TOPIC},
    {"key", required_argument, NULL, KEY},     {"limit", required_argument, NULL, LIMIT},
    {"after", required_argument, NULL, AFTER}, {"raw", no_argument, NULL, RAW},
    {"again", no_argument, NULL, AGAIN},       {"all", no_argument, NULL, ALL},
    {"yes", no_argument, NULL, YES},           {NULL, 0, NULL, 0},
};

#define BIT(letter) (1U << ((letter)-FROM))
#define FILTERS (BIT(TOPIC) | BIT(KEY))
#define PAGES (BIT(LIMIT) | BIT(AFTER))

static const struct deed {
    const char *name;
    unsigned options; /* beside --from and --map */
    int ids;          /* operands: 0, 1, or 2 for any number */
    int (*run)(struct rt_events *e);
} deeds[] = {
    {"ls", FILTERS | PAGES | BIT(STATE) | BIT(ALL), 0, rt_events_ls},
    {"show", BIT(RAW), 1, rt_events_show},
    {"replay", FILTERS | BIT(ALL) | BIT(YES) | BIT(AGAIN), 2, rt_events_replay},
    {"dead", FILTERS | PAGES, 0, rt_events_dead},
    {"stats", 0, 0, rt_events_stats},
};

static const struct deed *find(const char *name)
{
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++)
        if (strcmp(deeds[i].name, name) == 0)
            return &deeds[i];
    return NULL;
}

static int take_states(struct rt_events *e, const char *text)
{
    for (const char *at = text; *at != '\0';) {
        size_t n = strcspn(at, ",");
        unsigned i = 0;
        while (i < RT_EVENT_STATES && (strlen(rt_event_state_names[i]) != n ||
                                       strncmp(at, rt_event_state_names[i], n) != 0))
            i++;
        if (i == RT_EVENT_STATES)
            return rt_events_usage("--state '%s': new, published, processed or dead, with commas "
                                   "between them",
                                   text);
        e->filter.states |= 1U << i;
        at += n + (at[n] == ',');
    }
    return RT_EXIT_OK;
}

static int take_number(const char *option, uint64_t least, uint64_t most, uint64_t *number)
{
    if (rt_options_number(optarg, least, most, number))
        return RT_EXIT_OK;
    return rt_events_usage("--%s '%s' is not a number from %llu to %llu", option, optarg,
                           (unsigned long long)least, (unsigned long long)most);
}

static int take_page(struct rt_events *e, int c)
{
    uint64_t number = 0;
    int code = c == LIMIT ? take_number("limit", 1, LIMIT_MOST, &number)
                          : take_number("after", 0, INT64_MAX, &number);

    if (code == RT_EXIT_OK && c == LIMIT)
        e->filter.limit = (uint32_t)number;
    else if (code == RT_EXIT_OK)
        e->filter.after = (int64_t)number;
    return code;
}

static int take_map(struct rt_events *e)
{
    char line[512];

    if (rt_event_map_load(&e->map, optarg, line, sizeof(line)) == 0)
        return RT_EXIT_OK;
    return rt_events_usage("--map: %s", line);
}

static int take(struct rt_events *e, int c)
{
    switch (c) {
    case FROM:
        e->from = optarg;
        return RT_EXIT_OK;
    case MAP:
        return take_map(e);
    case STATE:
        return take_states(e, optarg);
    case TOPIC:
        e->filter.topic = optarg;
        return RT_EXIT_OK;
    case KEY:
        e->filter.key = optarg;
        return RT_EXIT_OK;
    case LIMIT:
    case AFTER:
        return take_page(e, c);
    case RAW:
        e->raw = true;
        return RT_EXIT_OK;
    case AGAIN:
        e->again = true;
        return RT_EXIT_OK;
    case ALL:
        e->all = true;
        return RT_EXIT_OK;
    default:
        e->yes = true;
        return RT_EXIT_OK;
    }
}

static int check(const struct rt_events *e, const struct deed *deed, unsigned given)
{
    if ((given & ~(deed->options | BIT(FROM) | BIT(MAP))) != 0)
        for (const struct option *o = options; o->name != NULL; o++)
            if ((given & ~(deed->options | BIT(FROM) | BIT(MAP)) & BIT(o->val)) != 0)
                return rt_events_usage("--%s is not for %s", o->name, deed->name);
    if (e->from == NULL || e->from[0] == '\0')
        return rt_events_usage("--from is missing: the database of the events");
    if (e->count > deed->ids && deed->ids < 2)
        return rt_events_usage("unexpected argument '%s'", e->operands[deed->ids]);
    if (deed->ids == 1 && e->count == 0)
        return rt_events_usage("which one? 'rota txn events ls' lists their numbers");
    return RT_EXIT_OK;
}

/* ---- What all say ---------------------------------------------------------------------- */

int rt_events_report(const struct rt_events *e, int err)
{
    rt_out_error("%s", rt_store_errmsg(e->store));
    return rt_visit_exit(err);
}

const char *rt_events_state(const struct rt_store_item *item)
{
    return item->state < RT_EVENT_STATES ? rt_event_state_names[item->state] : "other";
}

static json_t *maybe(const char *text)
{
    return text != NULL ? rt_json_text(text) : json_null();
}

json_t *rt_events_json(const struct rt_store_item *item)
{
    return json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:I, s:o, s:o}", "id",
                     rt_json_id((uint64_t)item->id), "event_id", rt_json_text(item->event_id),
                     "state", rt_events_state(item), "topic", rt_json_text(item->topic), "key",
                     maybe(item->key), "type", maybe(item->type), "bytes", (json_int_t)item->size,
                     "age_ms", rt_json_ms(item->age_ms), "changed_ms", rt_json_ms(item->changed_ms),
                     "attempts", (json_int_t)item->attempts, "next_ms",
                     item->state == RT_EVENT_NEW && item->reason != NULL
                         ? rt_json_ms(item->next_in_ms)
                         : json_null(),
                     "reason", maybe(item->reason));
}

/* ---- The command -------------------------------------------------------------------------- */

static int run(struct rt_events *e, const struct deed *deed)
{
    const struct rt_store_options opts = {
        .reads_only = true, .call_ms = CALL_MS, .lock_ms = LOCK_MS};
    char line[512];

    int err = rt_store_open(&e->store, e->from, &e->map, &opts, line, sizeof(line));
    if (err != 0) {
        rt_out_error("%s", line);
        return rt_visit_exit(err);
    }
    int code = deed->run(e);
    rt_store_close(e->store);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}

int rt_job_events(struct rt_args *args, int argc, char **argv)
{
    struct rt_events e = {0};
    unsigned given = 0;
    int c;

    rt_event_map_default(&e.map);
    while ((c = rt_args_next(args, argc, argv, ":h", options)) != -1) {
        if (c < FROM || c > YES)
            return rt_args_other("events", argv, c);
        given |= BIT(c);
        int code = take(&e, c);
        if (code != RT_EXIT_OK)
            return code;
    }
    if (optind >= argc)
        return rt_events_usage("no command given: ls, show, replay, dead or stats");
    const struct deed *deed = find(argv[optind]);
    if (deed == NULL)
        return rt_events_usage("unknown command '%s': ls, show, replay, dead or stats",
                               argv[optind]);
    e.operands = argv + optind + 1;
    e.count = argc - optind - 1;
    e.json = args->json;
    int code = check(&e, deed, given);
    return code == RT_EXIT_OK ? run(&e, deed) : code;
}
