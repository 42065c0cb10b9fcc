/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn show: one transaction, with each branch as its database has it. */
#include "cli/json.h"
#include "cli/out.h"
#include "txn/cli/notes.h"
#include "txn/cli/parts.h"
#include "txn/cli/plans.h"

#include <inttypes.h>
#include <stdio.h>

const char rt_job_help_show[] =
    "Usage: rota txn show ID\n"
    "Shows the transaction ID: how it stands, its branches, what each database has of\n"
    "them (prepared, committed, absent), who waits for it, why a person was called,\n"
    "and who resolved what. For one of 'rota txn serve', the branches are those of\n"
    "its plan; that server's query tells how often each was called.\n"
    "\n"
    "      --json            one JSON object\n" RT_JOB_HELP "\n"
    "Exit: 0; 1 if neither the journal nor a database knows it.\n";

struct view {
    const struct rt_item *item;
    const struct rt_survey *survey;
    const struct rt_parts *parts;
    int64_t now_ms;
    json_t *notes, *calls; /* NULL: they are printed */
    json_t *served;        /* null: it is not */
};

/* ---- JSON --------------------------------------------------------------------- */

static json_t *waits_json(const struct view *view, const struct rt_found *found)
{
    const struct rt_survey *s = view->survey;
    json_t *rows = json_array();

    for (size_t i = 0; found != NULL && i < s->wait_count; i++) {
        const struct rt_wait *w = &s->waits[i];
        if (w->found != SIZE_MAX && &s->found[w->found] == found)
            json_array_append_new(
                rows, json_pack("{s:o, s:I, s:o, s:I}", "who", rt_json_text(w->who), "connection",
                                (json_int_t)w->connection, "on", rt_json_text(w->on), "since_ms",
                                (json_int_t)(view->now_ms - w->since_ms)));
    }
    return rows;
}

static json_t *piece_json(const struct view *view, const struct rt_piece *p)
{
    bool commit = view->item->stands == RT_JOURNAL_COMMIT;
    bool decided = commit || view->item->stands == RT_JOURNAL_ABORT;
    char text[512];

    return json_pack("{s:I, s:o, s:s, s:o, s:o, s:o, s:o}", "branch", (json_int_t)p->number,
                     "resource", rt_json_text(p->resource), "has", rt_parts_word(p->standing),
                     "why", p->standing == RT_STANDING_UNKNOWN ? rt_json_text(p->why) : json_null(),
                     "prepared_ms",
                     p->found != NULL && p->found->prepared_ms > 0
                         ? json_integer(view->now_ms - p->found->prepared_ms)
                         : json_null(),
                     "finish",
                     p->found != NULL && decided
                         ? rt_json_text(rt_survey_statement(p->found, commit, text, sizeof(text)))
                         : json_null(),
                     "blocks", waits_json(view, p->found));
}

static int print_json(struct view *view)
{
    const struct rt_item *item = view->item;
    json_t *pieces = json_array();
    char id[RT_TXN_ID_TEXT];

    rt_txn_id_text(&item->id, id);
    for (size_t i = 0; i < view->parts->count; i++)
        json_array_append_new(pieces, piece_json(view, &view->parts->pieces[i]));
    return rt_json_print(
        json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:O, s:O, s:O}", "id", id, "state",
                  rt_records_state(item, view->now_ms), "age_ms",
                  rt_plans_has(item) ? json_integer(view->now_ms - rt_plans_begun_ms(item))
                  : rt_txn_id_is_named(&item->id)
                      ? json_null()
                      : json_integer(view->now_ms - rt_txn_id_birth(&item->id)),
                  "left_ms",
                  item->deadline_ms > 0 && item->deadline_ms < RT_JOURNAL_SERVED
                      ? json_integer(item->deadline_ms - view->now_ms)
                      : json_null(),
                  "decided_ms",
                  item->decided_ms > 0 ? json_integer(view->now_ms - item->decided_ms)
                                       : json_null(),
                  "label", rt_json_text(item->label), "branches", pieces, "served", view->served,
                  "calls", view->calls, "notes", view->notes),
        false);
}

/* ---- Text ------------------------------------------------------------------------ */

static void print_waits(const struct view *view, const struct rt_found *found)
{
    const struct rt_survey *s = view->survey;
    char since[32], who[256], on[256];

    for (size_t i = 0; found != NULL && i < s->wait_count; i++) {
        const struct rt_wait *w = &s->waits[i];
        if (w->found == SIZE_MAX || &s->found[w->found] != found)
            continue;
        printf("          blocks %s, connection %" PRIu64 ", for %s%s%s\n",
               rt_out_clean(w->who, who, sizeof(who)), w->connection,
               rt_out_time(view->now_ms - w->since_ms, since, sizeof(since)),
               w->on[0] != '\0' ? ", on " : "", rt_out_clean(w->on, on, sizeof(on)));
    }
}

static void print_piece(const struct view *view, const struct rt_piece *p)
{
    bool commit = view->item->stands == RT_JOURNAL_COMMIT;
    char text[512], since[32];

    printf("%-10" PRIu32 "  ", p->number); /* a joiner's has ten digits */
    rt_out_padded(rt_out_clean(p->resource, text, sizeof(text)), 20);
    printf("  %s", rt_parts_word(p->standing));
    if (p->standing == RT_STANDING_UNKNOWN)
        printf(": %s", rt_out_clean(p->why, text, sizeof(text)));
    if (p->found != NULL && p->found->prepared_ms > 0)
        printf(" for %s", rt_out_time(view->now_ms - p->found->prepared_ms, since, sizeof(since)));
    putchar('\n');
    if (p->found != NULL && (commit || view->item->stands == RT_JOURNAL_ABORT))
        printf("          finish: %s\n",
               rt_out_clean(rt_survey_statement(p->found, commit, text, sizeof(text)), text,
                            sizeof(text)));
    print_waits(view, p->found);
}

static void print_text(const struct view *view)
{
    const struct rt_item *item = view->item;
    char id[RT_TXN_ID_TEXT], date[32], text[512];

    rt_txn_id_text(&item->id, id);
    printf("id        %s\nstate     %s\n", id, rt_records_state(item, view->now_ms));
    if (rt_plans_has(item))
        printf("begun     %s\n", rt_visit_date(rt_plans_begun_ms(item), date, sizeof(date)));
    else if (!rt_txn_id_is_named(&item->id))
        printf("begun     %s\n", rt_visit_date(rt_txn_id_birth(&item->id), date, sizeof(date)));
    if (item->deadline_ms > 0 && item->deadline_ms < RT_JOURNAL_SERVED)
        printf("deadline  %s\n", rt_visit_date(item->deadline_ms, date, sizeof(date)));
    if (item->decided_ms > 0)
        printf("decided   %s\n", rt_visit_date(item->decided_ms, date, sizeof(date)));
    if (item->label[0] != '\0')
        printf("label     %s\n", rt_out_clean(item->label, text, sizeof(text)));
    if (view->parts->count > 0)
        printf("\n%s%-10s  %-20s  %s%s\n", rt_out_color(stdout, RT_OUT_BOLD), "BRANCH", "RESOURCE",
               "HAS", rt_out_color(stdout, RT_OUT_PLAIN));
    for (size_t i = 0; i < view->parts->count; i++)
        print_piece(view, &view->parts->pieces[i]);
}

/* On the keeper's thread; nobody else prints meanwhile. */
static void on_note(void *arg, int64_t at_ms, const char *text)
{
    struct view *view = arg;
    char date[32], clean[512];

    if (view->notes != NULL)
        json_array_append_new(view->notes, json_pack("{s:I, s:o}", "at", (json_int_t)at_ms, "text",
                                                     rt_json_text(text)));
    else
        printf("resolved  %s  %s\n", rt_visit_date(at_ms, date, sizeof(date)),
               rt_out_clean(text, clean, sizeof(clean)));
}

/* A person was called. On the keeper's thread, too. */
static void on_call(void *arg, const char *id, const char *resource, const char *line,
                    int64_t at_ms)
{
    struct view *view = arg;
    char date[32], name[256], clean[512];

    (void)id;
    if (view->calls != NULL)
        json_array_append_new(view->calls,
                              json_pack("{s:I, s:o, s:o}", "at", (json_int_t)at_ms, "resource",
                                        rt_json_text(resource), "text", rt_json_text(line)));
    else
        printf("called    %s  %s: %s\n", rt_visit_date(at_ms, date, sizeof(date)),
               rt_out_clean(resource, name, sizeof(name)),
               rt_out_clean(line, clean, sizeof(clean)));
}

/* ---- The command ----------------------------------------------------------------- */

static int print(const struct rt_visit *v, struct view *view, bool json)
{
    bool nobody = view->parts->count == 0 && (view->item->stands == RT_JOURNAL_ABSENT ||
                                              view->item->stands == RT_JOURNAL_EXPIRED);
    int code = RT_EXIT_OK;

    view->notes = json ? json_array() : NULL;
    view->calls = json ? json_array() : NULL;
    view->served = json_null();
    if (!json)
        print_text(view);
    int err = rt_plans_has(view->item) ? rt_plans_show(v, view->item, json ? &view->served : NULL)
                                       : 0;
    if (err == 0)
        err = rt_notes_calls(v, &view->item->id, on_call, view);
    if (err == 0)
        err = rt_notes_read(v, &view->item->id, on_note, view);
    if (err != 0)
        code = rt_visit_report(v, err);
    else if (json)
        code = print_json(view);
    json_decref(view->notes);
    json_decref(view->calls);
    json_decref(view->served);
    return code == RT_EXIT_OK && nobody ? RT_EXIT_FAILED : code;
}

static int show(const struct rt_visit *v, const struct rt_txn_id *id, bool json)
{
    struct rt_records records;
    struct rt_survey survey = {0};
    struct rt_parts parts = {0};
    int code = RT_EXIT_OK;

    int err = rt_records_read(&records, v, id);
    if (err == 0)
        err = rt_survey_make(&survey, v);
    if (err == 0 && !rt_parts_make(&parts, v, &records.items[0], &survey))
        err = ROTA_NOMEM;
    if (err != 0)
        code = rt_visit_report(v, err);
    else
        code = print(
            v,
            &(struct view){
                .item = &records.items[0], .survey = &survey, .parts = &parts, .now_ms = v->now_ms},
            json);
    rt_parts_free(&parts);
    rt_survey_free(&survey);
    rt_records_free(&records);
    return code;
}

int rt_job_show(struct rt_args *args, int argc, char **argv)
{
    static const struct option options[] = {{NULL, 0, NULL, 0}};
    struct rt_visit visit;
    struct rt_txn_id id;
    int c = rt_args_next(args, argc, argv, ":h", options);

    if (c != -1)
        return rt_args_other("show", argv, c);
    int code = rt_args_id("show", argc - optind, argv + optind, &id);
    if (code != RT_EXIT_OK)
        return code;
    code = rt_visit_open(&visit, args, &(struct rota_txns_options){0});
    if (code != RT_EXIT_OK)
        return code;
    code = rt_visit_ours(&visit, &id);
    if (code == RT_EXIT_OK)
        code = show(&visit, &id, args->json);
    rt_visit_close(&visit);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}
