/* SPDX-License-Identifier: Apache-2.0 */
/* rota relay consume: a command for each event of a broker. */
#include "cli/json.h"
#include "cli/out.h"
#include "cli/save.h"
#include "txn/cli/notify.h"
#include "txn/relay/cli/cli.h"
#include "txn/relay/cli/errand.h"
#include "txn/relay/cli/report.h"
#include "txn/relay/receipts.h"
#include "txn/relay/taker.h"

#include <getopt.h>
#include <inttypes.h>
#include <rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS 10
#define LIMIT_MS 300000
#define WATCH_MS 10000 /* metrics and status */
#define MS INT64_C(1000000)
#define LINE 512

static const char help[] =
    "Usage: rota relay consume --from BROKER --source NAME --consumer NAME\n"
    "                          --exec COMMAND [OPTION]...\n"
    "Runs COMMAND (with sh) for each event, one after the other: the payload is its\n"
    "standard input; ROTA_EVENT_ID, ROTA_EVENT_TOPIC, ROTA_EVENT_KEY,\n"
    "ROTA_EVENT_TYPE, ROTA_EVENT_ATTEMPT and ROTA_CONSUMER are in its environment. An\n"
    "event is acknowledged when COMMAND exits with 0. Any number may run at once.\n"
    "\n"
    "Each event is run AT LEAST once. It takes effect EXACTLY once if COMMAND notes\n"
    "ROTA_EVENT_ID in the table rota_inbox, in the same transaction as its work, and\n"
    "does nothing (and exits with 0) if it is there: docs/transactions/outbox.md.\n"
    "\n"
    "      --from URL        amqp://host/vhost, nats://host, redis://host; amqps, ...\n"
    "      --source NAME     queue (RabbitMQ), STREAM or STREAM/SUBJECT (NATS),\n"
    "                        stream (Redis)\n"
    "      --consumer NAME   its name: the group in NATS and Redis, and in the inbox\n"
    "      --exec COMMAND    the command to run\n"
    "      --inbox URL       note there what was run (postgres://, mysql://,\n"
    "                        sqlite:PATH): it is not run again, unless we die between\n"
    "                        its end and that note\n"
    "      --report WHERE    report what is done: db:URL (of the events), topic:NAME\n"
    "                        (relay --receipts), http://HOST:PORT (relay --listen)\n"
    "      --map MAP         with --report db: columns, as for rota relay\n"
    "      --attempts N      give up an event that failed this often (10; 0: never)\n"
    "      --dead TOPIC      ... and send it there; else the broker keeps it as it\n"
    "                        can: see rota-relay(1)\n"
    "      --pause TIME      pause before the second attempt; doubles each time (1s)\n"
    "      --timeout TIME    end COMMAND after this long (5m; 0: never)\n"
    "      --lease TIME      a consumer stalled this long loses its events (30s)\n"
    "      --once            run until nothing comes for a second\n"
    "      --count N         run until N events are over\n"
    "      --metrics FILE    write Prometheus metrics to FILE every 10 s\n"
    "      --json            with --once, --count: JSON instead of text; what COMMAND\n"
    "                        prints goes to standard error\n"
    "  -h, --help\n"
    "Exit: 0; with --once and --count 1 if an event was given up; 64 wrong usage, 69\n"
    "the broker cannot be reached, or refuses.\n";

struct wish {
    const char *from, *source, *consumer, *exec, *inbox, *report, *dead, *metrics;
    struct rt_event_map map;
    bool mapped;
    uint32_t attempts, count, lease_ms;
    uint64_t limit_ms, pause_ms;
    bool once, json;
};

struct counts {
    uint64_t done, failed, skipped, moved, left;
};

struct desk {
    struct wish wish;
    struct rt_taker *taker;
    struct rt_store *inbox; /* NULL: none, or not now */
    struct rt_report *report;
    struct counts counts;
    sigset_t signals;
    bool ending, cut; /* a signal came; a second one */
    int64_t watch_at, report_at;
    char *noting;    /* the event whose command ran, not yet in the inbox */
    char said[LINE]; /* the last trouble of inbox or report; "": all is well */
};

/* ---- What is said ----------------------------------------------------------------------- */

static void on_log(void *arg, bool trouble, const char *line)
{
    (void)arg;
    rt_out_error("consume: %s%s", trouble ? "" : "well again: ", line);
}

static void trouble(struct desk *d, const char *what, const char *line)
{
    char whole[LINE];

    snprintf(whole, sizeof(whole), "%s: %.480s", what, line);
    if (strcmp(d->said, whole) != 0)
        on_log(d, true, whole);
    memcpy(d->said, whole, sizeof(d->said));
}

static void print_count(struct rt_prometheus *p, const char *result, uint64_t value)
{
    char labels[40];

    snprintf(labels, sizeof(labels), "result=\"%s\"", result);
    rt_relay_metric(p, "rota_consume_events_total", labels,
                    "Events that are over (failed: attempts that failed).", ROTA_COUNTER,
                    (double)value);
}

static void write_metrics(const struct desk *d)
{
    struct rt_save save;

    if (rt_save_begin(&save, d->wish.metrics) != RT_EXIT_OK)
        return; /* a message was printed */
    struct rt_prometheus p = {.out = save.file};
    print_count(&p, "done", d->counts.done);
    print_count(&p, "skipped", d->counts.skipped);
    print_count(&p, "failed", d->counts.failed);
    print_count(&p, "moved", d->counts.moved);
    print_count(&p, "left", d->counts.left);
    if (d->report != NULL) {
        rt_relay_metric(&p, "rota_consume_reported_total", "", "Events that were reported.",
                        ROTA_COUNTER, (double)rt_report_counts(d->report).reported);
        rt_relay_metric(&p, "rota_consume_unreported", "", "Events that wait to be reported.",
                        ROTA_GAUGE, (double)rt_report_left(d->report));
    }
    (void)rt_save_end(&save);
}

/* ---- Reports, now and then ------------------------------------------------------------------ */

static void report(struct desk *d, int64_t again_ms)
{
    char line[LINE] = "";

    if (d->report == NULL || rt_relay_now() < d->report_at)
        return;
    if (rt_report_send(d->report, line, sizeof(line)) == 0) {
        d->said[0] = '\0';
        return;
    }
    trouble(d, "reporting", line);
    d->report_at = rt_relay_now() + again_ms * MS;
}

static void watch(struct desk *d)
{
    int64_t now = rt_relay_now();

    rt_notify("WATCHDOG=1");
    if (now < d->watch_at)
        return;
    rt_notify("STATUS=%" PRIu64 " done, %" PRIu64 " attempts failed, %" PRIu64 " given up",
              d->counts.done, d->counts.failed, d->counts.moved + d->counts.left);
    if (d->wish.metrics != NULL)
        write_metrics(d);
    d->watch_at = now + WATCH_MS * MS;
}

static bool goes_on(void *arg, int64_t ms)
{
    struct desk *d = arg;

    d->ending = d->ending || rt_relay_signalled(&d->signals, ms);
    watch(d);
    return !d->ending;
}

static bool idle(void *arg)
{
    struct desk *d = arg;

    report(d, 1000);
    return !d->wish.once;
}

/* ---- The work of an event ---------------------------------------------------------------------- */

/* The first signal lets the command finish by itself. */
static bool beat(void *arg)
{
    struct desk *d = arg;
    bool signalled = rt_relay_signalled(&d->signals, 0);

    d->cut = d->cut || (d->ending && signalled);
    d->ending = d->ending || signalled;
    rt_taker_keep(d->taker);
    watch(d);
    return !d->cut;
}

static int reach_inbox(struct desk *d, char *line, size_t size)
{
    const struct rt_store_options opts = {.inbox = true};

    return d->inbox != NULL ? 0 : rt_store_open(&d->inbox, d->wish.inbox, NULL, &opts, line, size);
}

/* Whether it ran before. Without an id nobody knows. */
static int was_run(struct desk *d, const char *id, bool *yes)
{
    char line[LINE] = "";

    *yes = false;
    if (d->wish.inbox == NULL || id[0] == '\0')
        return 0;
    int err = reach_inbox(d, line, sizeof(line));
    if (err == 0 && (err = rt_store_taken(d->inbox, d->wish.consumer, id, yes)) != 0)
        snprintf(line, sizeof(line), "%s", rt_store_errmsg(d->inbox));
    if (err != 0)
        trouble(d, "the inbox", line);
    return err;
}

static int note(struct desk *d, const char *id)
{
    char line[LINE] = "";

    if (d->wish.inbox == NULL || id[0] == '\0')
        return 0;
    int err = reach_inbox(d, line, sizeof(line));
    if (err == 0 && (err = rt_store_take(d->inbox, d->wish.consumer, id)) != 0)
        snprintf(line, sizeof(line), "%s", rt_store_errmsg(d->inbox));
    if (err != 0)
        trouble(d, "the inbox", line);
    return err;
}

/* An id that the inbox cannot hold, or would cut, is the event's fault: its command is not run. */
static bool fits_inbox(struct desk *d, const struct rt_message *m, uint32_t attempt)
{
    const char *fault = d->wish.inbox == NULL || m->id[0] == '\0'
                            ? NULL
                            : rt_receipts_fault(m->id, RT_EVENT_TAKEN);

    if (fault == NULL)
        return true;
    d->counts.failed++;
    rt_out_error("consume: %.64s of %.64s failed, attempt %u: the inbox cannot take it, its id %s",
                 m->id, m->topic, attempt, fault);
    return false;
}

static enum rt_taken run(struct desk *d, const struct rt_message *m, uint32_t attempt)
{
    const struct rt_errand command = {.text = d->wish.exec,
                                      .consumer = d->wish.consumer,
                                      .limit_ms = (uint32_t)d->wish.limit_ms,
                                      .aside = d->wish.json,
                                      .beat = beat,
                                      .arg = d};
    char why[LINE / 2] = "", of[24] = "";
    enum rt_errand_end how = rt_errand_run(&command, m, attempt, why, sizeof(why));

    if (how == RT_ERRAND_DONE)
        return RT_TAKEN_DONE;
    if (how == RT_ERRAND_CUT)
        return RT_TAKEN_STOP;
    if (d->wish.attempts != 0)
        snprintf(of, sizeof(of), " of %u", d->wish.attempts);
    d->counts.failed++;
    rt_out_error("consume: %.64s of %.64s failed, attempt %u%s: %s", m->id, m->topic, attempt, of,
                 why);
    return RT_TAKEN_FAILED;
}

/* An unreachable inbox is not the event's fault, and the command is not run again because of it. */
static enum rt_taken work(void *arg, struct rt_taker *t, const struct rt_message *m,
                          uint32_t attempt)
{
    struct desk *d = arg;
    bool yes = false;

    d->taker = t;
    if (!fits_inbox(d, m, attempt))
        return RT_TAKEN_FAILED;
    if (d->noting == NULL || strcmp(d->noting, m->id) != 0) {
        free(d->noting);
        d->noting = NULL;
        if (was_run(d, m->id, &yes) != 0)
            return RT_TAKEN_LATER;
        if (yes) {
            d->counts.skipped++;
            return RT_TAKEN_DONE;
        }
        enum rt_taken how = run(d, m, attempt);
        if (how != RT_TAKEN_DONE)
            return how;
        d->counts.done++;
        d->noting = strdup(m->id);
    }
    if (note(d, m->id) != 0)
        return RT_TAKEN_LATER;
    free(d->noting);
    d->noting = NULL;
    return RT_TAKEN_DONE;
}

static void over(void *arg, const char *id, enum rt_taker_over how)
{
    struct desk *d = arg;

    d->counts.moved += how == RT_TAKER_MOVED;
    d->counts.left += how == RT_TAKER_LEFT;
    if (how == RT_TAKER_MOVED)
        rt_out_error("consume: %.64s was given up: it is in %s now", id, d->wish.dead);
    if (how == RT_TAKER_LEFT)
        rt_out_error("consume: %.64s was given up, and left to the broker: see rota-relay(1), "
                     "--attempts; it comes again if a relay publishes it again",
                     id);
    if (d->report != NULL && how != RT_TAKER_LEFT) {
        if (!rt_report_add(d->report, id) && id[0] != '\0')
            rt_out_error("consume: %.64s is not reported: its id %s", id,
                         rt_receipts_fault(id, RT_EVENT_ID - 1));
        report(d, 1000);
    }
    uint64_t all = d->counts.done + d->counts.skipped + d->counts.moved + d->counts.left;
    d->ending = d->ending || (d->wish.count != 0 && all >= d->wish.count);
}

/* ---- Options ------------------------------------------------------------------------------------ */

enum letter {
    FROM = 256,
    SOURCE,
    CONSUMER,
    EXEC,
    INBOX,
    REPORT,
    DEAD,
    METRICS,
    MAP,
    ATTEMPTS_OF,
    PAUSE,
    TIMEOUT,
    LEASE,
    ONCE,
    COUNT,
    JSON,
};

static const struct option options[] = {
    {"from", required_argument, NULL, FROM},
    {"source", required_argument, NULL, SOURCE},
    {"consumer", required_argument, NULL, CONSUMER},
    {"exec", required_argument, NULL, EXEC},
    {"inbox", required_argument, NULL, INBOX},
    {"report", required_argument, NULL, REPORT},
    {"dead", required_argument, NULL, DEAD},
    {"metrics", required_argument, NULL, METRICS},
    {"map", required_argument, NULL, MAP},
    {"attempts", required_argument, NULL, ATTEMPTS_OF},
    {"pause", required_argument, NULL, PAUSE},
    {"timeout", required_argument, NULL, TIMEOUT},
    {"lease", required_argument, NULL, LEASE},
    {"once", no_argument, NULL, ONCE},
    {"count", required_argument, NULL, COUNT},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int take_limit(const char *option, uint64_t *out)
{
    int code = rt_relay_time(option, 0, out);

    if (code == RT_EXIT_OK && *out > UINT32_MAX)
        return rt_relay_usage("--%s can be at most 49 days", option);
    return code;
}

static int take_map(struct wish *w)
{
    char line[LINE];

    w->mapped = true;
    if (rt_event_map_load(&w->map, optarg, line, sizeof(line)) == 0)
        return RT_EXIT_OK;
    return rt_relay_usage("--map: %s", line);
}

static int take(struct wish *w, int c, const char *word)
{
    const char **const texts[] = {&w->from,  &w->source, &w->consumer, &w->exec,
                                  &w->inbox, &w->report, &w->dead,     &w->metrics};

    if (c >= FROM && c <= METRICS) {
        *texts[c - FROM] = optarg;
        return RT_EXIT_OK;
    }
    switch (c) {
    case MAP:
        return take_map(w);
    case ATTEMPTS_OF:
        if (strcmp(optarg, "0") != 0)
            return rt_relay_number("attempts", 1000000, &w->attempts);
        w->attempts = 0;
        return RT_EXIT_OK;
    case PAUSE:
        return take_limit("pause", &w->pause_ms);
    case TIMEOUT:
        return take_limit("timeout", &w->limit_ms);
    case LEASE:
        return rt_relay_time32("lease", &w->lease_ms);
    case COUNT:
        return rt_relay_number("count", UINT32_MAX, &w->count);
    case ONCE:
        w->once = true;
        return RT_EXIT_OK;
    case JSON:
        w->json = true;
        return RT_EXIT_OK;
    default:
        return c == ':' ? rt_relay_usage("%s needs a value", word)
                        : rt_relay_usage("unknown option '%s'", word);
    }
}

/* Events given up to their own source would come back from there for ever. */
static bool is_source(const struct wish *w, const char *topic)
{
    const char *slash = strchr(w->source, '/');

    return strcmp(topic, w->source) == 0 || (slash != NULL && strcmp(topic, slash + 1) == 0);
}

/* sh does nothing for an empty command and exits with 0: every event would be acknowledged. */
static int check(const struct wish *w, int argc, char **argv)
{
    if (optind < argc)
        return rt_relay_usage(
            "unexpected argument '%s': quote a command of several words for --exec", argv[optind]);
    if (w->from == NULL)
        return rt_relay_usage("--from is missing: the broker");
    if (w->source == NULL || w->source[0] == '\0')
        return rt_relay_usage("--source is missing, or empty: the queue or the stream");
    if (w->exec == NULL || w->exec[strspn(w->exec, " \t\n")] == '\0')
        return rt_relay_usage("--exec is missing, or empty: the command");
    if (w->dead != NULL && (w->dead[0] == '\0' || is_source(w, w->dead)))
        return rt_relay_usage("--dead is empty, or where the events come from: use another topic");
    if (w->consumer == NULL || w->consumer[0] == '\0' || strlen(w->consumer) > 100)
        return rt_relay_usage("--consumer is missing, or longer than 100 bytes: who takes, by "
                              "which others of its kind share the work");
    if (w->consumer[0] == ' ' || w->consumer[strlen(w->consumer) - 1] == ' ')
        return rt_relay_usage("--consumer '%s' begins or ends with a blank", w->consumer);
    if (w->json && !w->once && w->count == 0)
        return rt_relay_usage("--json is for --once and --count");
    if (w->mapped && (w->report == NULL || strncmp(w->report, "db:", 3) != 0))
        return rt_relay_usage("--map is for --report db:URL");
    return w->metrics != NULL ? rt_save_check(w->metrics) : RT_EXIT_OK;
}

/* ---- The command ------------------------------------------------------------------------------------ */

static int tell(const struct desk *d)
{
    const struct counts *c = &d->counts;
    uint64_t unreported = d->report != NULL ? rt_report_left(d->report) : 0;
    int code = RT_EXIT_OK;

    if (d->wish.json)
        code = rt_json_print(json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "done",
                                       (json_int_t)c->done, "skipped", (json_int_t)c->skipped,
                                       "failed", (json_int_t)c->failed, "moved",
                                       (json_int_t)c->moved, "left", (json_int_t)c->left,
                                       "unreported", (json_int_t)unreported),
                             false);
    else
        printf("%" PRIu64 " done, %" PRIu64 " known, %" PRIu64 " attempts failed, %" PRIu64
               " given up\n",
               c->done, c->skipped, c->failed, c->moved + c->left);
    int flushed = rt_out_flush();
    if (code == RT_EXIT_OK)
        code = flushed;
    return code != RT_EXIT_OK ? code : c->moved + c->left > 0 ? RT_EXIT_FAILED : RT_EXIT_OK;
}

static void greet(const struct desk *d)
{
    rt_out_error("consume: %s of %s, as %s: each event at least once%s", d->wish.source,
                 rt_taker_place(d->taker), d->wish.consumer,
                 d->wish.inbox != NULL
                     ? "; what is in the inbox is not run again"
                     : "; exactly once in its effect only if the command notes ROTA_EVENT_ID "
                       "in its own transaction (rota_inbox)");
}

static int open_all(struct desk *d, char *line, size_t size)
{
    const struct wish *w = &d->wish;
    bool waits = !w->once && w->count == 0;
    const struct rt_taker_options opts = {.from = w->from,
                                          .source = w->source,
                                          .group = w->consumer,
                                          .ack_ms = w->lease_ms,
                                          .attempts = w->attempts,
                                          .pause_ms = (uint32_t)w->pause_ms,
                                          .dead = w->dead,
                                          .arg = d,
                                          .work = work,
                                          .over = over,
                                          .goes_on = goes_on,
                                          .idle = idle,
                                          .log = on_log};
    int err = 0;

    if (w->report != NULL)
        err = rt_report_open(&d->report, w->report, &w->map, w->from, waits, line, size);
    if (err == 0 && w->inbox != NULL)
        err = reach_inbox(d, line, size);
    if (err == ROTA_UNREACHABLE && waits)
        err = 0;
    return err != 0 ? err : rt_taker_open(&d->taker, &opts, waits, line, size);
}

static int serve(struct desk *d)
{
    char line[LINE] = "";

    rt_relay_block_signals(&d->signals);
    int err = open_all(d, line, sizeof(line));
    if (err != 0) {
        rt_out_error("consume: %s", line);
        rt_report_close(d->report);
        rt_store_close(d->inbox);
        return rt_relay_exit(err);
    }
    greet(d);
    rt_notify("READY=1");
    rt_taker_run(d->taker);
    rt_notify("STOPPING=1");
    d->report_at = 0;
    report(d, 0);
    if (d->wish.metrics != NULL)
        write_metrics(d);
    int code = d->wish.once || d->wish.count != 0 ? tell(d) : RT_EXIT_OK;
    rt_taker_close(d->taker);
    rt_report_close(d->report);
    rt_store_close(d->inbox);
    free(d->noting);
    return code;
}

int rt_consume(int argc, char **argv)
{
    struct desk d = {.wish = {.attempts = ATTEMPTS, .limit_ms = LIMIT_MS}};
    int c;

    rt_relay_command = "relay consume";
    rt_event_map_default(&d.wish.map);
    while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (c == 'h') {
            fputs(help, stdout);
            return rt_out_flush();
        }
        int code = take(&d.wish, c, argv[optind - 1]);
        if (code != RT_EXIT_OK)
            return code;
    }
    int code = check(&d.wish, argc, argv);
    return code != RT_EXIT_OK ? code : serve(&d);
}
