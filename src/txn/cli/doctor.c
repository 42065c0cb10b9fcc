/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn doctor: a verdict per promise of the journal and of each database, with the setting and the remedy; or the
 * tables that they need. */
#include "base/alloc.h"
#include "cli/connect.h"
#include "cli/json.h"
#include "cli/out.h"
#include "client/client.h"
#include "txn/cli/survey.h"
#include "txn/cli/verdicts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SKEW_MS 1000 /* recovery allows clocks to differ by less */

const char rt_job_help_doctor[] =
    "Usage: rota txn doctor\n"
    "  or:  rota txn doctor --ddl [journal | RESOURCE]\n"
    "Checks the settings of the journal and of each database that decide whether a\n"
    "crash can lose anything: a verdict for each promise, with a remedy. Refuses a\n"
    "Galera cluster, a replica and a server without two-phase commit, and says why.\n"
    "\n"
    "      --ddl             print the tables that they need, for somebody who may\n"
    "                        create them; no server is contacted\n"
    "      --json            one JSON object\n" RT_JOB_HELP "\n"
    "Exit: 0; 1 if a promise is broken.\n";

struct round {
    json_t *findings; /* NULL: in words */
    size_t broken;
    char of[256]; /* whose findings were printed last */
};

static void print_text(struct round *round, const struct rt_finding *f)
{
    bool kept = strcmp(f->verdict, "kept") == 0;
    bool broken = strcmp(f->verdict, "broken") == 0;
    char text[1024];

    if (strcmp(round->of, f->of) != 0) {
        snprintf(round->of, sizeof(round->of), "%s", f->of);
        printf("%s%s%s\n", rt_out_color(stdout, RT_OUT_BOLD),
               rt_out_clean(f->of, text, sizeof(text)), rt_out_color(stdout, RT_OUT_PLAIN));
    }
    printf("  %s", rt_out_color(stdout, kept ? RT_OUT_GREEN : broken ? RT_OUT_RED : RT_OUT_YELLOW));
    rt_out_padded(f->verdict, 9);
    printf("%s", rt_out_color(stdout, RT_OUT_PLAIN));
    rt_out_padded(f->promise, 38);
    printf("%s\n", rt_out_clean(f->setting, text, sizeof(text)));
    if (f->remedy[0] != '\0')
        printf("           remedy: %s\n", rt_out_clean(f->remedy, text, sizeof(text)));
}

static void on_finding(void *arg, const struct rt_finding *f)
{
    struct round *round = arg;

    round->broken += strcmp(f->verdict, "broken") == 0;
    if (round->findings == NULL)
        print_text(round, f);
    else
        json_array_append_new(round->findings,
                              json_pack("{s:o, s:o, s:s, s:o, s:o}", "of", rt_json_text(f->of),
                                        "promise", rt_json_text(f->promise), "verdict", f->verdict,
                                        "setting", rt_json_text(f->setting), "remedy",
                                        rt_json_text(f->remedy)));
}

/* What --journal or $ROTA_JOURNAL names, without a password. */
static const char *journal_text(const struct rt_args *args, char *out, size_t size)
{
    const char *url = args->journal != NULL ? args->journal : getenv("ROTA_JOURNAL");

    rt_connect_redact(url != NULL && url[0] != '\0' ? url : "file:", out, size);
    return out;
}

/* ---- The journal --------------------------------------------------------------------- */

/* A floor in the future forbids all that is begun before it. */
static void judge_floor(struct round *round, const struct rt_visit *v)
{
    int64_t now = rt_visit_wall_ms() < v->now_ms ? rt_visit_wall_ms() : v->now_ms;
    struct rt_finding f = {"journal", "new transactions are above its floor", "kept", "", ""};
    char date[32], text[96];

    snprintf(text, sizeof(text), "the floor is at %s",
             rt_visit_date(v->floor_ms, date, sizeof(date)));
    f.setting = v->floor_ms > 0 ? text : "nothing was forgotten yet";
    if (v->floor_ms > now) {
        f.verdict = "broken";
        f.remedy =
            "set this clock if it is behind; else wait until then; or finish what 'rota txn ls' shows, then "
            "give everybody a new journal (another folder, database or ?prefix=)";
    }
    on_finding(round, &f);
}

/* Writes what changes nothing: an id that nobody has is done; one below the floor is decided. */
static void judge_writing(struct round *round, const struct rt_visit *v)
{
    struct rt_txn_id id = rt_txn_id_make(v->number, 0, 0);
    struct rt_journal_op done = {.kind = RT_JOURNAL_DONE, .finish = {.ids = &id, .count = 1}};
    struct rt_journal_op decide = {.kind = RT_JOURNAL_DECIDE};
    struct rt_finding f = {"journal", "decisions can be written", "kept", "", ""};

    decide.decide.id = id;
    decide.decide.decision = RT_JOURNAL_ABORT;
    int err = rt_txns_ask(v->m, &done);
    if (err == 0 && v->floor_ms > 0)
        err = rt_txns_ask(v->m, &decide);
    if (err != 0) {
        f.verdict = "broken";
        f.setting = rota_txn_errmsg(v->m);
        f.remedy =
            "its user needs SELECT, INSERT, UPDATE and DELETE on rota_txn, rota_txn_branch, rota_txn_meta and "
            "rota_txn_resource (etcd: readwrite on the prefix)";
    }
    on_finding(round, &f);
}

static void judge_journal(struct round *round, const struct rt_args *args, const struct rt_visit *v,
                          const char *unsafe)
{
    struct rt_finding f = {"journal", "a decision survives a crash", "kept", "", ""};
    char text[2048], skew[96];
    bool local = strncmp(journal_text(args, text, sizeof(text)), "file:", 5) == 0;
    int64_t apart = rt_visit_wall_ms() - v->now_ms;

    f.setting = text;
    if (unsafe[0] != '\0') {
        f.verdict = "broken";
        f.setting = unsafe;
        f.remedy = "change that setting: a program that opens it with ROTA_TXN_STRICT is refused";
    }
    on_finding(round, &f);
    f = (struct rt_finding){
        "journal", "other machines can recover", local ? "limited" : "kept", text,
        local ? "a journal at postgres://, mysql:// or etcd:// can be shared" : ""};
    on_finding(round, &f);
    judge_floor(round, v);
    judge_writing(round, v);
    bool agree = apart > -SKEW_MS && apart < SKEW_MS;
    snprintf(skew, sizeof(skew), "this machine is %" PRId64 " ms %s", apart < 0 ? -apart : apart,
             apart < 0 ? "behind" : "ahead");
    f = (struct rt_finding){"journal", "its clock and ours agree", agree ? "kept" : "limited", skew,
                            agree ? ""
                                  : "recovery may abort too early, or late: set the clocks by NTP"};
    on_finding(round, &f);
}

/* RT_EXIT_OK; UNSAFE: why strict programs are refused, or "". */
static int open_journal(struct rt_visit *v, const struct rt_args *args, char *unsafe, size_t size)
{
    struct rota_txns_options strict = {.flags = ROTA_TXN_STRICT, .resources = args->resources};
    struct rota_txns *m = NULL;

    unsafe[0] = '\0';
    if (rota_txns_open(&m, args->journal, &strict) == ROTA_UNSAFE)
        snprintf(unsafe, size, "%s", rota_txn_errmsg(NULL));
    rota_txns_close(m);
    return rt_visit_open(v, args, &(struct rota_txns_options){0});
}

/* ---- Resources -------------------------------------------------------------------------- */

struct list {
    char *at[1024];
    size_t count;
};

static void take_known(void *arg, struct rt_resource *r)
{
    struct list *list = arg;

    if (list->count < sizeof(list->at) / sizeof(list->at[0]))
        list->at[list->count++] = strdup(rt_resource_name(r));
}

struct strangers {
    struct round *round;
    struct rt_resources *known;
};

static void take_stranger(void *arg, const char *name, const char *url, int64_t seen_ms)
{
    const struct strangers *s = arg;
    const struct rt_finding f = {
        name, "recovery here can reach it", "limited", url,
        "others use it: add a line NAME = URL to ~/.config/rota/txn or /etc/rota/txn"};

    (void)seen_ms;
    if (!rt_survey_is_note(name) && !rt_resources_knows(s->known, name))
        on_finding(s->round, &f);
}

static int judge_resources(struct round *round, const struct rt_visit *v)
{
    static struct list list;
    struct rt_resources *known = rt_txns_resources(v->m);
    struct strangers s = {round, known};
    struct rt_journal_op op = {.kind = RT_JOURNAL_RESOURCES,
                               .resources = {.each = take_stranger, .arg = &s}};

    rt_resources_each(known, take_known, &list);
    for (size_t i = 0; i < list.count; i++) {
        if (list.at[i] != NULL)
            rt_verdicts_of(v, list.at[i], on_finding, round);
        free(list.at[i]);
    }
    list.count = 0;
    return rt_txns_ask(v->m, &op);
}

static int examine(const struct rt_args *args)
{
    struct round round = {args->json ? json_array() : NULL, 0, ""};
    char unsafe[256], text[2048];
    struct rt_visit visit;
    int code = open_journal(&visit, args, unsafe, sizeof(unsafe));

    if (code == RT_EXIT_OK) {
        judge_journal(&round, args, &visit, unsafe);
        int err = judge_resources(&round, &visit);
        if (err != 0)
            code = rt_visit_report(&visit, err);
        else if (args->json)
            code = rt_json_print(json_pack("{s:o, s:I, s:O}", "journal",
                                           rt_json_text(journal_text(args, text, sizeof(text))),
                                           "broken", (json_int_t)round.broken, "verdicts",
                                           round.findings),
                                 false);
        rt_visit_close(&visit);
    }
    json_decref(round.findings);
    int flushed = rt_out_flush();
    if (code == RT_EXIT_OK)
        code = flushed;
    return code == RT_EXIT_OK && round.broken > 0 ? RT_EXIT_FAILED : code;
}

/* ---- Tables -------------------------------------------------------------------------------- */

struct ddl {
    const char *only; /* "journal", or a resource; NULL: all */
    json_t *all;      /* NULL: printed */
    size_t count;
};

static void add_ddl(struct ddl *d, const char *of, const char *text)
{
    char clean[256];

    d->count++;
    if (d->all != NULL) {
        json_array_append_new(
            d->all, json_pack("{s:o, s:o}", "of", rt_json_text(of), "ddl", rt_json_text(text)));
        return;
    }
    if (d->only == NULL)
        printf("-- %s\n", rt_out_clean(of, clean, sizeof(clean)));
    fputs(text, stdout);
}

/* Statements, each with a semicolon and a newline. */
static int journal_ddl(struct ddl *d, const char *url)
{
    char scheme[32], text[8192] = "";
    size_t n = 0;

    snprintf(scheme, sizeof(scheme), "%.*s", (int)strcspn(url, ":"), url);
    const struct rt_journal_kind *kind = rt_journal_find(scheme);
    if (kind == NULL)
        return rt_args_usage(
            "doctor", "no journal for '%s:': use file:, postgres://, mysql:// or etcd://", scheme);
    for (const char *const *s = kind->ddl; s != NULL && *s != NULL; s++) {
        size_t size = strlen(*s);
        while (size > 0 && ((*s)[size - 1] == '\n' || (*s)[size - 1] == ' '))
            size--;
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s;\n", (int)size, *s);
        if (n >= sizeof(text))
            return RT_EXIT_INTERNAL;
    }
    if (n > 0)
        add_ddl(d, "journal", text);
    return RT_EXIT_OK;
}

static void resource_ddl(void *arg, struct rt_resource *r)
{
    struct ddl *d = arg;
    const struct rt_party_kind *kind = rt_resource_kind(r);
    const char *at = strstr(kind->ddl, "%s");
    char text[1024];

    if (d->only != NULL && strcmp(d->only, rt_resource_name(r)) != 0)
        return;
    snprintf(text, sizeof(text), "%.*srota_mark%s;\n", (int)(at - kind->ddl), kind->ddl, at + 2);
    add_ddl(d, rt_resource_name(r), text);
}

static int print_ddl(const struct rt_args *args, struct ddl *d)
{
    const char *url = args->journal != NULL ? args->journal : getenv("ROTA_JOURNAL");
    struct rt_resources *known = NULL;
    char line[512] = "out of memory", *found = NULL;
    int code = RT_EXIT_OK;

    url = url != NULL && url[0] != '\0' ? url : "file:";
    int err = strchr(url, ':') == NULL ? rt_config_find(url, &found, line, sizeof(line)) : 0;
    if (err == 0)
        err = rt_resources_open(&known, NULL);
    if (err == 0)
        err = rt_resources_load(known, args->resources, line, sizeof(line));
    if (err != 0) {
        rt_out_error("%s", line);
        code = rt_visit_exit(err);
    } else if (d->only == NULL || strcmp(d->only, "journal") == 0) {
        code = journal_ddl(d, found != NULL ? found : url);
    }
    if (code == RT_EXIT_OK)
        rt_resources_each(known, resource_ddl, d);
    if (code == RT_EXIT_OK && d->only != NULL && d->count == 0 && strcmp(d->only, "journal") != 0)
        code = rt_args_usage("doctor", "no resource '%s' is known on this machine", d->only);
    rt_resources_close(known);
    rt_free(found);
    return code;
}

static int tables(const struct rt_args *args, const char *only)
{
    struct ddl d = {only, args->json ? json_array() : NULL, 0};
    int code = print_ddl(args, &d);

    if (code == RT_EXIT_OK && args->json)
        code = rt_json_print(json_pack("{s:O}", "tables", d.all), false);
    else if (code == RT_EXIT_OK && d.count == 0)
        rt_out_error(
            "this journal needs no tables, and no resource is known here: there is nothing to create");
    json_decref(d.all);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}

int rt_job_doctor(struct rt_args *args, int argc, char **argv)
{
    static const struct option options[] = {{"ddl", no_argument, NULL, 'd'}, {NULL, 0, NULL, 0}};
    bool ddl = false;
    int c;

    while ((c = rt_args_next(args, argc, argv, ":h", options)) != -1) {
        if (c != 'd')
            return rt_args_other("doctor", argv, c);
        ddl = true;
    }
    if (optind + (ddl ? 1 : 0) < argc)
        return rt_args_usage("doctor", "unexpected argument '%s'", argv[optind + (ddl ? 1 : 0)]);
    return ddl ? tables(args, argv[optind]) : examine(args);
}
