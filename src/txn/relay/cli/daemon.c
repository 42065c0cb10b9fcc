/* SPDX-License-Identifier: Apache-2.0 */
/* rota relay: the lanes, and a watcher over them: clean-up, metrics, progress, the service manager. */
#include "cli/json.h"
#include "cli/out.h"
#include "cli/prometheus.h"
#include "cli/save.h"
#include "txn/cli/notify.h"
#include "txn/relay/cli/cli.h"

#include <inttypes.h>
#include <rota.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BEAT_MS 200
#define WATCH_MS 10000 /* metrics and status */
#define CLEAN_EVERY_MS 1000
#define CLEAN_PAGE 500
#define CLEAN_PAGES 20 /* in a row, then others get their turn */
#define MS INT64_C(1000000)

struct watch {
    const struct rt_relay_wish *wish;
    struct rt_relay *relay;
    struct rt_receipts *receipts; /* NULL: nobody sends any */
    struct rt_store *store;       /* its own: statistics and clean-up; NULL: not now */
    struct rt_store_stats stats;
    bool up; /* the statistics are true */
    struct rt_lane_counts counts;
    uint64_t cleaned;
    int64_t watch_at, clean_at, began;
    bool terminal;
};

static void on_log(void *arg, bool trouble, const char *line)
{
    (void)arg;
    rt_out_error("relay: %s%s", trouble ? "" : "well again: ", line);
}

/* ---- What there is ----------------------------------------------------------------------- */

static bool reach(struct watch *w)
{
    char line[512];

    return w->store != NULL || rt_store_open(&w->store, w->wish->from, &w->wish->map,
                                             &w->wish->store, line, sizeof(line)) == 0;
}

static void clean(struct watch *w)
{
    uint64_t gone = CLEAN_PAGE;

    for (int i = 0; i < CLEAN_PAGES && gone == CLEAN_PAGE && reach(w); i++) {
        if (rt_store_clean(w->store, (int64_t)w->wish->clean_ms, CLEAN_PAGE, &gone) != 0)
            return; /* a lane says what is wrong, if it is the database */
        w->cleaned += gone;
    }
}

static void count(struct watch *w)
{
    w->up = reach(w) && rt_store_stats(w->store, &w->stats) == 0;
}

/* ---- Metrics --------------------------------------------------------------------------------- */

static void print_states(struct rt_prometheus *p, const struct rt_store_stats *s)
{
    for (int i = 0; i < RT_EVENT_STATES; i++) {
        char labels[40];
        snprintf(labels, sizeof(labels), "state=\"%s\"", rt_event_state_names[i]);
        rt_relay_metric(p, "rota_relay_events", labels,
                        "Events in the table; counted up to 100,000.", ROTA_GAUGE,
                        (double)s->counts[i]);
    }
    rt_relay_metric(p, "rota_relay_troubled", "",
                    "Events that were refused, and will be tried again.", ROTA_GAUGE,
                    (double)s->troubled);
    rt_relay_metric(p, "rota_relay_lag_seconds", "", "How long the oldest new event has waited.",
                    ROTA_GAUGE, s->oldest_new_ms > 0 ? (double)s->oldest_new_ms / 1000 : 0);
}

static void print_counts(struct rt_prometheus *p, const struct rt_lane_counts *c)
{
    const struct {
        const char *labels;
        uint64_t value;
    } rows[] = {{"result=\"confirmed\"", c->confirmed},
                {"result=\"refused\"", c->refused},
                {"result=\"lost\"", c->lost}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        rt_relay_metric(p, "rota_relay_published_total", rows[i].labels,
                        "Events that were published, and what became of them.", ROTA_COUNTER,
                        (double)rows[i].value);
    rt_relay_metric(p, "rota_relay_again_total", "", "Events that were published once more.",
                    ROTA_COUNTER, (double)c->again);
    rt_relay_metric(p, "rota_relay_dead_total", "", "Events that are dead now.", ROTA_COUNTER,
                    (double)c->dead);
    rt_relay_metric(p, "rota_relay_turns_total", "", "Round trips to the database.", ROTA_COUNTER,
                    (double)c->turns);
    rt_relay_metric(p, "rota_relay_away_total", "",
                    "Times that the database or the broker was away.", ROTA_COUNTER,
                    (double)c->away);
}

static void print_receipts(struct rt_prometheus *p, struct rt_receipts *r)
{
    struct rt_receipts_counts c = rt_receipts_look(r);

    rt_relay_metric(p, "rota_relay_receipts_total", "way=\"topic\"",
                    "Events that consumers reported.", ROTA_COUNTER, (double)c.topic);
    rt_relay_metric(p, "rota_relay_receipts_total", "way=\"http\"",
                    "Events that consumers reported.", ROTA_COUNTER, (double)c.http);
    rt_relay_metric(p, "rota_relay_processed_total", "",
                    "Events that those reports made processed.", ROTA_COUNTER, (double)c.changed);
}

static void write_metrics(const struct watch *w)
{
    struct rt_save save;

    if (rt_save_begin(&save, w->wish->metrics) != RT_EXIT_OK)
        return; /* a message was printed */
    struct rt_prometheus p = {.out = save.file};
    rt_relay_metric(&p, "rota_relay_up", "", "Whether the database answered.", ROTA_GAUGE, w->up);
    if (w->up)
        print_states(&p, &w->stats);
    print_counts(&p, &w->counts);
    if (w->receipts != NULL)
        print_receipts(&p, w->receipts);
    rt_relay_metric(&p, "rota_relay_cleaned_total", "", "Rows that were deleted.", ROTA_COUNTER,
                    (double)w->cleaned);
    (void)rt_save_end(&save);
}

/* ---- Watching ----------------------------------------------------------------------------------- */

static void show(const struct watch *w)
{
    double seconds = (double)(rt_relay_now() - w->began) / 1e9;

    if (!w->terminal)
        return;
    fprintf(stderr,
            "\r%" PRIu64 " published, %.0f/s; %" PRIu64 " refused, %" PRIu64 " dead, %" PRIu64
            " cleaned ",
            w->counts.confirmed, seconds > 0 ? (double)w->counts.confirmed / seconds : 0,
            w->counts.refused, w->counts.dead, w->cleaned);
    fflush(stderr);
}

/* True: a lane still runs. */
static bool look(struct watch *w)
{
    int64_t now = rt_relay_now();
    bool runs = rt_relay_look(w->relay, &w->counts);

    if (w->wish->clean_ms > 0 && now >= w->clean_at && !w->wish->once) {
        clean(w);
        w->clean_at = rt_relay_now() + CLEAN_EVERY_MS * MS;
    }
    if (now >= w->watch_at) {
        count(w);
        rt_notify("STATUS=%" PRIu64 " published, %" PRIu64 " new, %" PRIu64 " in trouble",
                  w->counts.confirmed, w->stats.counts[RT_EVENT_NEW], w->stats.troubled);
        if (w->wish->metrics != NULL)
            write_metrics(w);
        w->watch_at = rt_relay_now() + WATCH_MS * MS;
    }
    rt_notify("WATCHDOG=1");
    show(w);
    return runs;
}

/* With --once: what was done, and what is left. */
static int tell(struct watch *w)
{
    count(w);
    uint64_t left = w->stats.counts[RT_EVENT_NEW];
    if (w->wish->json) {
        int code = rt_json_print(
            json_pack("{s:I, s:I, s:I, s:I, s:I}", "published", (json_int_t)w->counts.confirmed,
                      "refused", (json_int_t)w->counts.refused, "dead", (json_int_t)w->counts.dead,
                      "new", (json_int_t)left, "troubled", (json_int_t)w->stats.troubled),
            false);
        if (code != RT_EXIT_OK)
            return code;
    } else {
        printf("%" PRIu64 " published, %" PRIu64 " refused, %" PRIu64 " dead, %" PRIu64 " left\n",
               w->counts.confirmed, w->counts.refused, w->counts.dead, left);
    }
    int code = rt_out_flush();
    return code != RT_EXIT_OK ? code : left > 0 || w->counts.dead > 0 ? RT_EXIT_FAILED : RT_EXIT_OK;
}

/* Both are begun, or neither is. */
static int begin(struct watch *w, char *line, size_t size)
{
    const struct rt_relay_wish *wish = w->wish;
    const struct rt_relay_options opts = {.from = wish->from,
                                          .map = &wish->map,
                                          .store = wish->store,
                                          .to = wish->to,
                                          .lanes = wish->lanes,
                                          .batch = wish->batch,
                                          .attempts = wish->attempts,
                                          .once = wish->once,
                                          .log = on_log};
    const struct rt_receipts_options receipts = {.from = wish->from,
                                                 .map = &wish->map,
                                                 .to = wish->to,
                                                 .source = wish->receipts,
                                                 .http = wish->http,
                                                 .log = on_log};
    int err = rt_relay_start(&w->relay, &opts, !wish->once, line, size);

    if (err != 0 || (wish->receipts == NULL && wish->http.listen == NULL))
        return err;
    err = rt_receipts_start(&w->receipts, &receipts, !wish->once, line, size);
    if (err != 0)
        rt_relay_end(w->relay);
    else if (wish->http.listen != NULL)
        rt_out_error("relay: listens at port %u", rt_receipts_port(w->receipts));
    return err;
}

int rt_relay_run(const struct rt_relay_wish *wish)
{
    struct watch w = {
        .wish = wish, .began = rt_relay_now(), .terminal = isatty(STDERR_FILENO) == 1};
    char line[512];
    sigset_t set;

    rt_relay_block_signals(&set);
    int err = begin(&w, line, sizeof(line));
    if (err != 0) {
        rt_out_error("relay: %s", line);
        return rt_relay_exit(err);
    }
    rt_notify("READY=1");
    while (look(&w) && !rt_relay_signalled(&set, BEAT_MS))
        ;
    rt_notify("STOPPING=1");
    if (w.terminal)
        fputc('\n', stderr);
    (void)rt_relay_look(w.relay, &w.counts);
    bool gave_up = rt_relay_gave_up(w.relay);
    rt_receipts_end(w.receipts);
    rt_relay_end(w.relay);
    if (gave_up)
        rt_out_error("relay: given up; %" PRIu64 " published", w.counts.confirmed);
    int code = gave_up ? RT_EXIT_UNREACHABLE : wish->once ? tell(&w) : RT_EXIT_OK;
    rt_store_close(w.store);
    return code;
}
