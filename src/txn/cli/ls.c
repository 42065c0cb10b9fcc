/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn ls: what is open or unfinished in the journal, by deadline; or everything in it. */
#include "cli/json.h"
#include "cli/out.h"
#include "txn/cli/notes.h"
#include "txn/cli/plans.h"
#include "txn/cli/records.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ATTENTION_MS 60000 /* ten tries of the keeper, and some patience */

const char rt_job_help_ls[] =
    "Usage: rota txn ls [--all | --attention]\n"
    "Lists the transactions in the journal that are open or not finished, earliest\n"
    "deadline first.\n"
    "\n"
    "      --all             also the finished ones not yet forgotten (gc); oldest\n"
    "                        first\n"
    "      --attention       only those that a person was called for, or that are\n"
    "                        not finished a minute after their decision, or open a\n"
    "                        minute after their deadline\n"
    "      --json            one JSON object\n" RT_JOB_HELP "\n"
    "STATE is open; overdue: undecided past its deadline, recovery will abort it;\n"
    "committing, aborting: decided, but a branch has not been told yet; committed,\n"
    "aborted: all have.\n"
    "DEADLINE 'served': it belongs to 'rota txn serve', which finishes it.\n"
    "The journal has no row for a transaction that prepared but was never decided:\n"
    "'rota txn indoubt' looks for those in the databases.\n"
    "Exit: 0; with --attention 1 if there are any.\n";

static bool needs_attention(const struct rt_item *item, int64_t now_ms)
{
    int64_t since = item->decided_ms != 0 ? item->decided_ms : item->deadline_ms;

    /* rota txn serve's: it decides how long one takes */
    if (rt_plans_has(item) && item->stands == RT_JOURNAL_OPEN)
        return !item->done && item->called;
    return !item->done && (item->called || now_ms - since > ATTENTION_MS);
}

static void on_call(void *arg, const char *id, const char *resource, const char *line,
                    int64_t at_ms)
{
    struct rt_records *r = arg;
    char text[RT_TXN_ID_TEXT];

    (void)resource;
    (void)line;
    (void)at_ms;
    for (size_t i = 0; i < r->count; i++) {
        rt_txn_id_text(&r->items[i].id, text);
        r->items[i].called = r->items[i].called || strncmp(text, id, sizeof(text) - 1) == 0;
    }
}

static bool has_age(const struct rt_item *item)
{
    return rt_plans_has(item) || !rt_txn_id_is_named(&item->id);
}

static int64_t age_of(const struct rt_item *item, int64_t now_ms)
{
    return now_ms - (rt_plans_has(item) ? rt_plans_begun_ms(item) : rt_txn_id_birth(&item->id));
}

static json_t *item_json(const struct rt_item *item, int64_t now_ms)
{
    char id[RT_TXN_ID_TEXT];

    rt_txn_id_text(&item->id, id);
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:b, s:b}", "id", id, "state",
        rt_records_state(item, now_ms), "age_ms",
        has_age(item) ? json_integer(age_of(item, now_ms)) : json_null(), "left_ms",
        item->deadline_ms < RT_JOURNAL_SERVED ? json_integer(item->deadline_ms - now_ms)
                                              : json_null(),
        "decided_ms", item->decided_ms != 0 ? json_integer(now_ms - item->decided_ms) : json_null(),
        "label", rt_json_text(item->label), "branches", (json_int_t)rt_records_branches(item),
        "served", rt_plans_has(item), "attention", needs_attention(item, now_ms));
}

static int print_json(const struct rt_records *r, int64_t now_ms, bool attention)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < r->count; i++)
        if (!attention || needs_attention(&r->items[i], now_ms))
            json_array_append_new(rows, item_json(&r->items[i], now_ms));
    return rt_json_print(json_pack("{s:o}", "transactions", rows), false);
}

static void print_item(const struct rt_item *item, int64_t now_ms)
{
    char id[RT_TXN_ID_TEXT], age[32], left[32], text[512];
    int64_t to_go = item->deadline_ms - now_ms;

    rt_txn_id_text(&item->id, id);
    printf("%s  %-10s  ", id, rt_records_state(item, now_ms));
    if (!has_age(item))
        snprintf(age, sizeof(age), "-");
    else
        rt_out_time(age_of(item, now_ms), age, sizeof(age));
    rt_out_padded(age, 13);
    if (rt_plans_has(item))
        snprintf(text, sizeof(text), "served"); /* its server knows */
    else if (to_go >= 0)
        snprintf(text, sizeof(text), "in %s", rt_out_time(to_go, left, sizeof(left)));
    else
        snprintf(text, sizeof(text), "%s ago", rt_out_time(-to_go, left, sizeof(left)));
    rt_out_padded(text, 18);
    printf("%-8zu  ", rt_records_branches(item));
    printf("%s\n", item->label[0] != '\0' ? rt_out_clean(item->label, text, sizeof(text)) : "-");
}

static size_t print_text(const struct rt_records *r, int64_t now_ms, bool attention)
{
    size_t shown = 0;

    for (size_t i = 0; i < r->count; i++) {
        if (attention && !needs_attention(&r->items[i], now_ms))
            continue;
        if (shown++ == 0)
            printf("%s%-32s  %-10s  %-13s%-18s%-8s  %s%s\n", rt_out_color(stdout, RT_OUT_BOLD),
                   "ID", "STATE", "AGE", "DEADLINE", "BRANCHES", "LABEL",
                   rt_out_color(stdout, RT_OUT_PLAIN));
        print_item(&r->items[i], now_ms);
    }
    return shown;
}

static int print(const struct rt_records *r, const struct rt_args *args, int64_t now_ms, bool all,
                 bool attention)
{
    size_t bad = 0;
    int code = RT_EXIT_OK;

    for (size_t i = 0; i < r->count; i++)
        bad += needs_attention(&r->items[i], now_ms);
    if (args->json)
        code = print_json(r, now_ms, attention);
    else if (print_text(r, now_ms, attention) == 0 && isatty(STDOUT_FILENO))
        rt_out_error("%s%s",
                     all ? "the journal has no transaction" : "nothing is open or unfinished",
                     attention ? " for so long" : "");
    if (code == RT_EXIT_OK && attention && bad > 0)
        code = RT_EXIT_FAILED;
    return code;
}

int rt_job_ls(struct rt_args *args, int argc, char **argv)
{
    static const struct option options[] = {
        {"all", no_argument, NULL, 'A'}, {"attention", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
    struct rt_records records;
    struct rt_visit visit;
    bool all = false, attention = false;
    int c;

    while ((c = rt_args_next(args, argc, argv, ":h", options)) != -1) {
        if (c != 'a' && c != 'A')
            return rt_args_other("ls", argv, c);
        *(c == 'A' ? &all : &attention) = true;
    }
    if (all && attention)
        return rt_args_usage("ls", "--all and --attention exclude each other");
    if (optind < argc)
        return rt_args_usage("ls", "unexpected argument '%s'", argv[optind]);
    int code = rt_visit_open(&visit, args, &(struct rota_txns_options){0});
    if (code != RT_EXIT_OK)
        return code;
    int err = all ? rt_records_all(&records, &visit) : rt_records_scan(&records, &visit, INT64_MAX);
    if (err == 0 && records.count > 0)
        err = rt_notes_calls(&visit, NULL, on_call, &records);
    code = err != 0 ? rt_visit_report(&visit, err)
                    : print(&records, args, visit.now_ms, all, attention);
    rt_records_free(&records);
    rt_visit_close(&visit);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}
