/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn recover: a manager that recovers, and a watcher over it. A daemon; or with --once, until nothing is left
 * that may be settled. */
#include "cli/json.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/prometheus.h"
#include "cli/save.h"
#include "txn/cli/hook.h"
#include "txn/cli/notify.h"
#include "txn/cli/plans.h"
#include "txn/cli/survey.h"
#include "txn/cli/vigil.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define ONCE_FOR_MS 60000
#define ONCE_EVERY_MS 1000 /* between the passes of recovery */
#define LOOK_MS 250
#define WATCH_MS 10000 /* metrics and status */
#define SLACK_MS 1000  /* of clocks, that recovery allows */
#define TOLD_MOST 256

const char rt_job_help_recover[] =
    "Usage: rota txn recover [--once [--for TIME]] [--every TIME] [--metrics FILE]\n"
    "Finishes what dead processes left in the journal and prepared in the databases:\n"
    "decided transactions as decided; the rest is aborted after its deadline. Any\n"
    "number may run at once. Ends on SIGTERM; reads its resources again once the\n"
    "file has changed, and on SIGHUP; works with systemd (Type=notify, watchdog).\n"
    "A COMMAND in the resources file (on_attention = COMMAND) is run when\n"
    "something needs a person, with ROTA_TXN, ROTA_RESOURCE, ROTA_LINE set.\n"
    "\n"
    "      --once            run until nothing is left that may be settled\n"
    "      --for TIME        with --once: for at most this long (60s)\n"
    "      --every TIME      time between two looks: 1s to 1h (10s)\n"
    "      --metrics FILE    write Prometheus metrics to FILE every 10 s\n"
    "      --json            with --once: one JSON object at the end\n" RT_JOB_HELP "\n"
    "Exit: 0; with --once 1 if something needs a person or a database did not\n"
    "answer, 75 if time ran out.\n";

struct wish {
    bool once, json;
    uint64_t for_ms, every_ms;
    const char *metrics;
};

/* ---- What needs a person ------------------------------------------------------------ */

static struct {
    pthread_mutex_t mu;
    struct {
        struct rt_txn_id id;
        char resource[RT_JOURNAL_NAME_MAX + 1]; /* "": the whole transaction */
    } of[TOLD_MOST];
    size_t count;
    uint64_t times;
} told = {.mu = PTHREAD_MUTEX_INITIALIZER};

/* Whether ID's RESOURCE was reported; NULL: any branch of ID. */
static bool was_told(const struct rt_txn_id *id, const char *resource)
{
    bool is = false;

    pthread_mutex_lock(&told.mu);
    for (size_t i = 0; i < told.count; i++) {
        const char *of = told.of[i].resource;
        is = is || (rt_txn_id_same(&told.of[i].id, id) &&
                    (resource == NULL || of[0] == '\0' || strcmp(of, resource) == 0));
    }
    pthread_mutex_unlock(&told.mu);
    return is;
}

static void on_attention(void *arg, const char *id, const char *resource, const char *line)
{
    struct rt_txn_id parsed;
    int64_t deadline;

    (void)arg;
    rt_hook_call(id, resource, line);
    const char *of = resource != NULL ? resource : "";
    bool known = !rt_args_read_id(id, &parsed, &deadline) || was_told(&parsed, of);
    pthread_mutex_lock(&told.mu);
    told.times++;
    if (!known && told.count < TOLD_MOST) {
        told.of[told.count].id = parsed;
        snprintf(told.of[told.count++].resource, sizeof(told.of[0].resource), "%s", of);
    }
    pthread_mutex_unlock(&told.mu);
}

static void say(int level, const char *line)
{
    (void)level;
    rt_out_error("%s", line);
}

static void on_log(void *arg, int level, const char *line)
{
    (void)arg;
    if (level <= ROTA_LOG_WARN)
        rt_out_error("%s", line);
}

/* ---- What is there --------------------------------------------------------------------- */

struct tally {
    size_t open, overdue, committing, aborting; /* in the journal */
    size_t prepared, dark; /* at the databases; databases that could not be asked */
    size_t left, stuck;    /* that may be settled; of these, those reported */
    size_t served;         /* rota txn serve's, which finishes them */
    int64_t oldest_ms;     /* since it was decided or due */
};

static void count_item(struct tally *t, const struct rt_item *item, int64_t now_ms)
{
    if (rt_plans_has(item)) {
        t->served++;
        return;
    }
    bool open = item->stands == RT_JOURNAL_OPEN;
    bool young = open && item->deadline_ms + SLACK_MS >= now_ms;
    int64_t since = now_ms - (open ? item->deadline_ms : item->decided_ms);

    t->open += young;
    t->overdue += open && !young;
    t->committing += item->stands == RT_JOURNAL_COMMIT;
    t->aborting += item->stands == RT_JOURNAL_ABORT;
    if (young)
        return;
    t->left++;
    t->stuck += was_told(&item->id, NULL);
    if (since > t->oldest_ms)
        t->oldest_ms = since;
}

/* Counts what the journal has. */
static int count_rows(const struct rt_visit *v, struct tally *t)
{
    struct rt_records records;
    int err = rt_records_scan(&records, v, INT64_MAX);
    int64_t now_ms = rt_visit_wall_ms();

    for (size_t i = 0; err == 0 && i < records.count; i++)
        count_item(t, &records.items[i], now_ms);
    rt_records_free(&records);
    return err;
}

/* Counts what is prepared of ours; a branch with no row, or one that is over, is left to be settled as well. */
static int count_found(const struct rt_visit *v, const struct rt_survey *s, struct tally *t)
{
    int64_t now_ms = rt_visit_wall_ms();
    int err = 0;

    for (size_t i = 0; i < s->site_count; i++)
        t->dark += s->sites[i].err != 0;
    for (size_t i = 0; err == 0 && i < s->found_count; i++) {
        const struct rt_found *f = &s->found[i];
        struct rt_records records = {0};
        if (!f->ours)
            continue;
        t->prepared++;
        err = rt_records_read(&records, v, &f->name.id);
        if (err == 0) {
            enum rt_journal_stand stands = records.items[0].stands;
            bool decided = stands == RT_JOURNAL_COMMIT || stands == RT_JOURNAL_ABORT;
            if (decided || f->name.deadline_ms + SLACK_MS < now_ms) {
                t->left++; /* another branch may need a person while this one is finished soon */
                t->stuck += was_told(&f->name.id, s->sites[f->site].name);
            }
        }
        rt_records_free(&records);
    }
    return err;
}

/* ---- Metrics ------------------------------------------------------------------------------ */

static void gauge(struct rt_prometheus *p, const char *name, const char *labels, const char *help,
                  double value)
{
    const struct rota_metric metric = {
        .name = name, .help = help, .labels = labels, .type = ROTA_GAUGE, .value = value};

    rt_prometheus_print(p, &metric);
}

static void print_sites(struct rt_prometheus *p, const struct rt_survey *s)
{
    char name[512], labels[540];

    for (size_t i = 0; i < s->site_count; i++) {
        rt_prometheus_label(s->sites[i].name, name, sizeof(name));
        snprintf(labels, sizeof(labels), "resource=\"%s\"", name);
        gauge(p, "rota_txn_resource_up", labels, "Whether the database answered.",
              s->sites[i].err == 0);
    }
    for (size_t i = 0; i < s->site_count; i++) {
        size_t n = 0;
        for (size_t k = 0; k < s->found_count; k++)
            n += s->found[k].site == i && s->found[k].ours;
        rt_prometheus_label(s->sites[i].name, name, sizeof(name));
        snprintf(labels, sizeof(labels), "resource=\"%s\"", name);
        gauge(p, "rota_txn_prepared", labels, "Branches of this journal that are prepared there.",
              (double)n);
    }
}

static void print_hooks(struct rt_prometheus *p)
{
    const struct rt_hook_counts counts = rt_hook_counts();
    const struct {
        const char *labels;
        uint64_t value;
    } rows[] = {{"result=\"ended\"", counts.ended},
                {"result=\"failed\"", counts.failed},
                {"result=\"killed\"", counts.killed},
                {"result=\"dropped\"", counts.dropped}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct rota_metric metric = {.name = "rota_txn_hooks_total",
                                           .help = "Runs of on_attention, and how they ended.",
                                           .labels = rows[i].labels,
                                           .type = ROTA_COUNTER,
                                           .value = (double)rows[i].value};
        rt_prometheus_print(p, &metric);
    }
}

static int write_metrics(const char *path, const struct tally *t, const struct rt_survey *s,
                         bool up)
{
    static const char help[] = "Transactions of the journal that are open or not finished.";
    struct rt_save save;
    int code = rt_save_begin(&save, path);

    if (code != RT_EXIT_OK)
        return code;
    struct rt_prometheus p = {.out = save.file};
    gauge(&p, "rota_txn_up", "", "Whether the journal answered.", up);
    gauge(&p, "rota_txn_transactions", "state=\"open\"", help, (double)t->open);
    gauge(&p, "rota_txn_transactions", "state=\"overdue\"", help, (double)t->overdue);
    gauge(&p, "rota_txn_transactions", "state=\"committing\"", help, (double)t->committing);
    gauge(&p, "rota_txn_transactions", "state=\"aborting\"", help, (double)t->aborting);
    gauge(&p, "rota_txn_oldest_seconds", "",
          "How long ago the oldest of them was decided, or passed its deadline.",
          (double)t->oldest_ms / 1000);
    pthread_mutex_lock(&told.mu);
    double times = (double)told.times;
    pthread_mutex_unlock(&told.mu);
    const struct rota_metric attention = {.name = "rota_txn_attention_total",
                                          .help = "How often a person was called.",
                                          .labels = "",
                                          .type = ROTA_COUNTER,
                                          .value = times};
    rt_prometheus_print(&p, &attention);
    gauge(&p, "rota_txn_attention", "", "Transactions that need a person now.", (double)t->stuck);
    print_hooks(&p);
    print_sites(&p, s);
    return rt_save_end(&save);
}

/* One look at all of it. */
static void watch(const struct rt_visit *v, const struct wish *wish)
{
    struct rt_survey survey = {0};
    struct tally t = {0};
    int err = count_rows(v, &t);

    if (err == 0 && wish->metrics != NULL)
        err = rt_survey_make(&survey, v);
    if (err == 0)
        err = count_found(v, &survey, &t);
    rt_notify("STATUS=%s%zu open, %zu to be finished, %zu of rota txn serve",
              err != 0 ? "the journal does not answer; " : "", t.open, t.left, t.served);
    if (wish->metrics != NULL)
        (void)write_metrics(wish->metrics, &t, &survey, err == 0); /* a message was printed */
    rt_survey_free(&survey);
}

/* ---- The daemon ---------------------------------------------------------------------------- */

/* The keeper has answered, or a database did not in time: either way we are alive. */
static void feed_watchdog(void)
{
    rt_notify("WATCHDOG=1");
}

static int serve(struct rt_visit *v, const struct wish *wish, struct rt_vigil *vigil)
{
    int64_t watchdog = rt_notify_watchdog_ms(), next = 0;
    int64_t beat = watchdog > 0 && watchdog / 3 < WATCH_MS ? watchdog / 3 + 1 : WATCH_MS;

    v->beat = feed_watchdog;
    rt_notify("READY=1");
    do {
        int64_t now = rt_visit_wall_ms();
        if (now >= next || next > now + WATCH_MS) {
            watch(v, wish); /* also shows that the keeper lives */
            next = rt_visit_wall_ms() + WATCH_MS;
        }
        feed_watchdog();
    } while (!rt_vigil_wait(vigil, beat));
    rt_notify("STOPPING=1");
    return RT_EXIT_OK;
}

/* ---- Once ------------------------------------------------------------------------------------- */

static int look(const struct rt_visit *v, struct tally *t, struct rt_survey *survey)
{
    *t = (struct tally){0};
    int err = count_rows(v, t);
    if (err != 0 || t->left > t->stuck)
        return err; /* the databases are asked once the journal is quiet */
    err = rt_survey_make(survey, v);
    return err != 0 ? err : count_found(v, survey, t);
}

static int end(const struct wish *wish, const struct tally *t, const struct rt_survey *s, bool late)
{
    int code = RT_EXIT_OK;

    for (size_t i = 0; i < s->site_count; i++)
        if (s->sites[i].err != 0)
            rt_out_error("%s: %s", s->sites[i].name, s->sites[i].why);
    if (wish->json)
        code = rt_json_print(json_pack("{s:I, s:I, s:I, s:I, s:I}", "left", (json_int_t)t->left,
                                       "attention", (json_int_t)t->stuck, "open",
                                       (json_int_t)t->open, "unasked", (json_int_t)t->dark,
                                       "served", (json_int_t)t->served),
                             false);
    else if (t->left > 0)
        rt_out_error("%zu left, %zu of which need a person: see 'rota txn ls', 'rota txn indoubt'",
                     t->left, t->stuck);
    if (!wish->json && t->served > 0)
        rt_out_error("%zu of 'rota txn serve': a server that runs on this journal finishes them",
                     t->served);
    if (code != RT_EXIT_OK)
        return code;
    return late ? RT_EXIT_BUSY : t->left > 0 || t->dark > 0 ? RT_EXIT_FAILED : RT_EXIT_OK;
}

static int once(const struct rt_visit *v, const struct wish *wish, struct rt_vigil *vigil)
{
    int64_t until = rt_visit_wall_ms() + (int64_t)wish->for_ms;
    struct rt_survey survey = {0};
    struct tally t;
    bool stopped = false;

    for (;;) {
        int err = look(v, &t, &survey);
        if (err != 0) {
            rt_survey_free(&survey);
            return rt_visit_report(v, err);
        }
        bool late = rt_visit_wall_ms() >= until;
        if (t.left == t.stuck || late || stopped) {
            int code = end(wish, &t, &survey, t.left > t.stuck);
            rt_survey_free(&survey);
            return code;
        }
        rt_survey_free(&survey);
        stopped = rt_vigil_wait(vigil, LOOK_MS);
    }
}

/* ---- The command ------------------------------------------------------------------------------- */

static int parse(struct wish *wish, struct rt_args *args, int argc, char **argv, bool *over)
{
    static const struct option options[] = {
        {"once", no_argument, NULL, 'o'},
        {"for", required_argument, NULL, 'f'},
        {"every", required_argument, NULL, 'e'},
        {"metrics", required_argument, NULL, 'm'},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = rt_args_next(args, argc, argv, ":h", options)) != -1) {
        if (c == 'o') {
            wish->once = true;
        } else if (c == 'm') {
            wish->metrics = optarg;
        } else if (c == 'f' || c == 'e') {
            uint64_t *ms = c == 'f' ? &wish->for_ms : &wish->every_ms;
            if (!rt_options_duration_ms(optarg, ms) || *ms < 1000 || *ms > 3600000)
                return rt_args_usage("recover", "'%s' is not a time from 1s to 1h", optarg);
        } else {
            *over = true;
            return rt_args_other("recover", argv, c);
        }
    }
    if (optind < argc)
        return rt_args_usage("recover", "unexpected argument '%s'", argv[optind]);
    if (wish->for_ms != 0 && !wish->once)
        return rt_args_usage("recover", "--for needs --once");
    if (wish->metrics != NULL && wish->once)
        return rt_args_usage("recover", "--metrics is for the daemon, not for --once");
    wish->json = args->json;
    return wish->metrics != NULL ? rt_save_check(wish->metrics) : RT_EXIT_OK;
}

int rt_job_recover(struct rt_args *args, int argc, char **argv)
{
    struct wish wish = {.once = false};
    struct rt_visit visit;
    struct rt_vigil vigil;
    bool over = false;
    int code = parse(&wish, args, argc, argv, &over);

    if (code != RT_EXIT_OK || over)
        return code;
    wish.for_ms = wish.for_ms != 0 ? wish.for_ms : ONCE_FOR_MS;
    rt_vigil_begin(&vigil, &visit, args, say);
    struct rota_txns_options opts = {.flags = ROTA_TXN_RECOVER,
                                     .recover_ms = (uint32_t)wish.every_ms,
                                     .log = on_log,
                                     .attention = on_attention};
    if (wish.once && wish.every_ms == 0)
        opts.recover_ms = ONCE_EVERY_MS;
    code = rt_visit_open(&visit, args, &opts);
    if (code != RT_EXIT_OK)
        return code;
    if (!rt_hook_start(&visit, rt_resources_on_attention(rt_txns_resources(visit.m))))
        rt_out_error("no thread for on_attention: nobody will be called");
    code = wish.once ? once(&visit, &wish, &vigil) : serve(&visit, &wish, &vigil);
    rt_hook_stop();
    rt_visit_close(&visit);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}
