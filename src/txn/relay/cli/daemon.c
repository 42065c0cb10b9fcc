/* SPDX-License-Identifier: Apache-2.0 */
/* rota relay: the lanes, and somebody who watches them: clean-up, metrics, progress, the service manager. */
#include "cli/json.h"
#include "cli/out.h"
#include "cli/prometheus.h"
#include "cli/save.h"
#include "txn/cli/notify.h"
#include "txn/relay/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <rota.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BEAT_MS 200
#define WATCH_MS 10000 /* metrics and status */
#define CLEAN_EVERY_MS 1000
#define CLEAN_PAGE 500
#define CLEAN_PAGES 20 /* in a row, then others have their turn */
#define MS INT64_C(1000000)

struct watch {
    const struct rt_relay_wish *wish;
    struct rt_relay *relay;
    struct rt_store *store; /* of its own: statistics and clean-up; NULL: not now */
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

static void print(struct rt_prometheus *p, const char *name, const char *labels, const char *help,
                  unsigned type, double value)
{
    const struct rota_metric metric = {
        .name = name, .help = help, .labels = labels, .type = type, .value = value};

    rt_prometheus_print(p, &metric);
}

static void print_states(struct rt_prometheus *p, const struct rt_store_stats *s)
{
    for (int i = 0; i < RT_EVENT_STATES; i++) {
        char labels[40];
        snprintf(labels, sizeof(labels), "state=\"%s\"", rt_event_state_names[i]);
        print(p, "rota_relay_events", labels, "Events in the table; counted up to 100,000.",
              ROTA_GAUGE, (double)s->counts[i]);
    }
    print(p, "rota_relay_troubled", "", "Events that were refused, and will be tried again.",
          ROTA_GAUGE, (double)s->troubled);
    print(p, "rota_relay_lag_seconds", "", "How long the oldest new event has waited.", ROTA_GAUGE,
          s->oldest_new_ms > 0 ? (double)s->oldest_new_ms / 1000 : 0);
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
        print(p, "rota_relay_published_total", rows[i].labels,
              "Events that were published, and what became of it.", ROTA_COUNTER,
              (double)rows[i].value);
    print(p, "rota_relay_again_total", "", "Events that were published once more.", ROTA_COUNTER,
          (double)c->again);
    print(p, "rota_relay_dead_total", "", "Events that are dead now.", ROTA_COUNTER,
          (double)c->dead);
    print(p, "rota_relay_turns_total", "", "Round trips to the database.", ROTA_COUNTER,
          (double)c->turns);
    print(p, "rota_relay_away_total", "", "Times that the database or the broker was away.",
          ROTA_COUNTER, (double)c->away);
}

static void write_metrics(const struct watch *w)
{
    struct rt_save save;

    if (rt_save_begin(&save, w->wish->metrics) != RT_EXIT_OK)
        return; /* a message was printed */
    struct rt_prometheus p = {.out = save.file};
    print(&p, "rota_relay_up", "", "Whether the database answered.", ROTA_GAUGE, w->up);
    if (w->up)
        print_states(&p, &w->stats);
    print_counts(&p, &w->counts);
    print(&p, "rota_relay_cleaned_total", "", "Rows that were taken away.", ROTA_COUNTER,
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

/* True: a lane runs still. */
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

/* The signals that end it; they stay blocked in all threads. */
static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

static bool signalled(const sigset_t *set)
{
    const struct timespec limit = {.tv_nsec = BEAT_MS * MS};
    int signo;

    do
        signo = sigtimedwait(set, NULL, &limit);
    while (signo < 0 && errno == EINTR);
    return signo > 0;
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

int rt_relay_run(const struct rt_relay_wish *wish)
{
    const struct rt_relay_options opts = {.from = wish->from,
                                          .map = &wish->map,
                                          .store = wish->store,
                                          .to = wish->to,
                                          .lanes = wish->lanes,
                                          .batch = wish->batch,
                                          .attempts = wish->attempts,
                                          .once = wish->once,
                                          .log = on_log};
    struct watch w = {
        .wish = wish, .began = rt_relay_now(), .terminal = isatty(STDERR_FILENO) == 1};
    char line[512];
    sigset_t set;

    block_signals(&set);
    int err = rt_relay_start(&w.relay, &opts, !wish->once, line, sizeof(line));
    if (err != 0) {
        rt_out_error("relay: %s", line);
        return rt_relay_exit(err);
    }
    rt_notify("READY=1");
    while (look(&w) && !signalled(&set))
        ;
    rt_notify("STOPPING=1");
    if (w.terminal)
        fputc('\n', stderr);
    (void)rt_relay_look(w.relay, &w.counts);
    rt_relay_end(w.relay);
    int code = wish->once ? tell(&w) : RT_EXIT_OK;
    rt_store_close(w.store);
    return code;
}
