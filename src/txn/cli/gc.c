/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn gc: forgets what is over, in the order of core/gc.h: the floor, rows below it that are done, then the
 * markers, the rows in fences of services, and promises of three-phase commit, of all that is below it and not undone. */
#include "cli/json.h"
#include "cli/options.h"
#include "cli/out.h"
#include "txn/cli/survey.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS UINT64_C(86400000)
#define KEEP_MS (7 * DAY_MS)
#define LEAST_MS (2 * DAY_MS) /* twice the longest time that a transaction may take */

const char rt_job_help_gc[] =
    "Usage: rota txn gc [--keep TIME]\n"
    "Forgets transactions that are over: removes their rows in the journal, then\n"
    "their markers in the databases, rows in the fences of services (rota_fence) and\n"
    "promises of three-phase commit (rota_promise). Unfinished and mixed ones stay,\n"
    "however old. It may run at any time.\n"
    "\n"
    "      --keep TIME       how long outcomes stay known: 7d (at least 2d)\n"
    "      --json            one JSON object\n" RT_JOB_HELP "\n"
    "Exit: 0; 1 if a database did not answer: its markers stay for the next run.\n";

struct sweep {
    const struct rt_visit *visit;
    int64_t keep_ms;
    int64_t before_ms; /* the journal says */
    uint64_t rows;
    struct rt_txn_id *undone;
    size_t undone_count;
    json_t *sites; /* NULL: they are printed */
    size_t failed;
};

static int forget_rows(struct sweep *s)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_FORGET,
                               .forget = {.before_ms = RT_TXN_BIRTH_MAX, .keep_ms = s->keep_ms}};
    int err;

    do {
        op.deadline = 0;
        err = rt_txns_ask(s->visit->m, &op);
        if (err == 0)
            s->rows += op.forget.count;
    } while (err == 0 && op.forget.more);
    s->before_ms = op.forget.floor_ms < op.forget.before_ms ? op.forget.floor_ms
                                                            : op.forget.before_ms;
    return err;
}

/* Finds what is below the floor and not done: its markers stay. */
static int find_undone(struct sweep *s)
{
    struct rt_records records;
    int err = rt_records_scan(&records, s->visit, INT64_MAX);

    s->undone = calloc(records.count + 1, sizeof(*s->undone));
    if (err == 0 && s->undone == NULL)
        err = ROTA_NOMEM;
    for (size_t i = 0; err == 0 && i < records.count; i++)
        if (rt_txn_id_birth(&records.items[i].id) < s->before_ms)
            s->undone[s->undone_count++] = records.items[i].id;
    rt_records_free(&records);
    return err;
}

/* Forgets all that FLAGS cover at NAME; returns how many, and in *ERR 0 or why not. */
static uint64_t forget_at(struct sweep *s, const char *name, uint32_t flags, int *err)
{
    struct rt_party_op op = {.what = RT_PARTY_FORGET, .flags = flags};
    uint64_t count = 0;

    do {
        op.deadline = 0;
        op.forget.journal = s->visit->number;
        op.forget.before_ms = s->before_ms;
        op.forget.keep = s->undone;
        op.forget.keep_count = s->undone_count;
        *err = rt_txns_errand(s->visit->m, name, &op);
        count += *err == 0 ? op.forget.count : 0;
    } while (*err == 0 && op.forget.more);
    return count;
}

/* MARKED: the journal has heard of it, so it may have markers. */
static void forget_all(struct sweep *s, const char *name, bool marked)
{
    uint64_t marks = 0, fences = 0, promises = 0;
    char text[256];
    int err = 0;

    if (marked)
        marks = forget_at(s, name, 0, &err);
    if (err == 0)
        fences = forget_at(s, name, RT_PARTY_FENCES, &err);
    if (err == 0)
        promises = forget_at(s, name, RT_PARTY_PROMISES, &err);
    const char *why = err != 0 ? rota_txn_errmsg(s->visit->m) : NULL;
    s->failed += err != 0;
    if (s->sites != NULL)
        json_array_append_new(s->sites,
                              json_pack("{s:o, s:I, s:I, s:I, s:o}", "resource", rt_json_text(name),
                                        "markers", (json_int_t)marks, "fences", (json_int_t)fences,
                                        "promises", (json_int_t)promises, "why",
                                        why != NULL ? rt_json_text(why) : json_null()));
    else if (why == NULL)
        printf("%s: %" PRIu64 " markers, %" PRIu64 " rows of fences, %" PRIu64 " promises\n",
               rt_out_clean(name, text, sizeof(text)), marks, fences, promises);
    else
        rt_out_error("%s: %s", rt_out_clean(name, text, sizeof(text)), why);
}

struct names {
    char **at;
    size_t count, room;
    bool failed;
};

static void add_name(struct names *n, const char *name)
{
    if (n->failed || rt_survey_is_note(name))
        return;
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->at[i], name) == 0)
            return;
    if (n->count == n->room) {
        size_t room = n->room == 0 ? 16 : n->room * 2;
        char **at = realloc((void *)n->at, room * sizeof(*at));
        n->failed = at == NULL;
        if (n->failed)
            return;
        n->at = at;
        n->room = room;
    }
    n->at[n->count] = strdup(name);
    n->failed = n->at[n->count] == NULL;
    n->count += !n->failed;
}

static void take_name(void *arg, const char *name, const char *url, int64_t seen_ms)
{
    (void)url;
    (void)seen_ms;
    add_name(arg, name);
}

static void take_own(void *arg, struct rt_resource *r)
{
    add_name(arg, rt_resource_name(r));
}

/* First what the journal knows; then what only this machine knows: it may be a service's. */
static int all_resources(struct sweep *s)
{
    struct names names = {0};
    struct rt_journal_op op = {.kind = RT_JOURNAL_RESOURCES,
                               .resources = {.each = take_name, .arg = &names}};
    int err = rt_txns_ask(s->visit->m, &op);
    size_t known = names.count;

    rt_resources_each(rt_txns_resources(s->visit->m), take_own, &names);
    if (err == 0 && names.failed)
        err = ROTA_NOMEM;
    for (size_t i = 0; i < names.count; i++) {
        if (err == 0)
            forget_all(s, names.at[i], i < known);
        free(names.at[i]);
    }
    free((void *)names.at);
    return err;
}

static int collect(struct rt_visit *v, int64_t keep_ms, bool json)
{
    struct sweep s = {.visit = v, .keep_ms = keep_ms};
    int code = RT_EXIT_OK;

    s.sites = json ? json_array() : NULL;
    int err = forget_rows(&s);
    if (err == 0 && !json)
        printf("journal: %" PRIu64 " transactions\n", s.rows);
    if (err == 0)
        err = find_undone(&s);
    if (err == 0)
        err = all_resources(&s);
    if (err != 0)
        code = rt_visit_report(v, err);
    else if (json)
        code = rt_json_print(json_pack("{s:I, s:I, s:I, s:O}", "before", (json_int_t)s.before_ms,
                                       "transactions", (json_int_t)s.rows, "unfinished",
                                       (json_int_t)s.undone_count, "resources", s.sites),
                             false);
    json_decref(s.sites);
    free(s.undone);
    return code == RT_EXIT_OK && s.failed > 0 ? RT_EXIT_FAILED : code;
}

int rt_job_gc(struct rt_args *args, int argc, char **argv)
{
    static const struct option options[] = {{"keep", required_argument, NULL, 'k'},
                                            {NULL, 0, NULL, 0}};
    uint64_t keep_ms = KEEP_MS;
    struct rt_visit visit;
    int c;

    while ((c = rt_args_next(args, argc, argv, ":h", options)) != -1) {
        if (c != 'k')
            return rt_args_other("gc", argv, c);
        if (!rt_options_duration_ms(optarg, &keep_ms) || keep_ms < LEAST_MS)
            return rt_args_usage("gc", "--keep '%s' is not a time from 2d to 366d", optarg);
    }
    if (optind < argc)
        return rt_args_usage("gc", "unexpected argument '%s'", argv[optind]);
    int code = rt_visit_open(&visit, args, &(struct rota_txns_options){0});
    if (code != RT_EXIT_OK)
        return code;
    code = collect(&visit, (int64_t)keep_ms, args->json);
    rt_visit_close(&visit);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}
