/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn indoubt: what is prepared at the databases, joined with what the journal says about it. */
#include "cli/json.h"
#include "cli/out.h"
#include "txn/cli/survey.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char rt_job_help_indoubt[] =
    "Usage: rota txn indoubt\n"
    "Asks every database with a URL here, or known to the journal, what is prepared\n"
    "there, and the journal what was decided: shows who blocks whom, since when, and\n"
    "what would finish each branch. Changes nothing.\n"
    "\n"
    "      --json            one JSON object\n" RT_JOB_HELP "\n"
    "  commit, abort  decided: its process or recovery is about to finish it\n"
    "  young          undecided, before its deadline: its process may be at work\n"
    "  undecided      past its deadline: recovery aborts it, or 'resolve --abort ID'\n"
    "  expired        too old to be decided any more: to be rolled back\n"
    "  elsewhere      belongs to another journal: ask there (--journal)\n"
    "  foreign        belongs to another program\n"
    "\n"
    "Exit: 0; 1 if a branch of this journal is in doubt and not young, or a database\n"
    "did not answer.\n";

enum about { COMMIT, ABORT, YOUNG, UNDECIDED, EXPIRED, ELSEWHERE, FOREIGN };
static const char *const words[] = {"commit",  "abort",     "young",  "undecided",
                                    "expired", "elsewhere", "foreign"};

struct doubt {
    const struct rt_visit *visit;
    struct rt_survey survey;
    enum about *about; /* parallel to survey.found */
    int64_t now_ms;
};

static int judge(struct doubt *d, size_t i)
{
    const struct rt_found *f = &d->survey.found[i];
    struct rt_records records = {0};
    int err = 0;

    if (!f->ours) {
        d->about[i] = f->rota ? ELSEWHERE : FOREIGN;
        return 0;
    }
    err = rt_records_read(&records, d->visit, &f->name.id);
    if (err == 0) {
        enum rt_journal_stand stands = records.items[0].stands;
        d->about[i] = stands == RT_JOURNAL_COMMIT       ? COMMIT
                      : stands == RT_JOURNAL_ABORT      ? ABORT
                      : stands == RT_JOURNAL_EXPIRED    ? EXPIRED
                      : f->name.deadline_ms < d->now_ms ? UNDECIDED
                                                        : YOUNG;
    }
    rt_records_free(&records);
    return err;
}

static int look(struct doubt *d)
{
    int err = rt_survey_make(&d->survey, d->visit);

    d->about = calloc(d->survey.found_count + 1, sizeof(*d->about));
    if (err == 0 && d->about == NULL)
        err = ROTA_NOMEM;
    for (size_t i = 0; err == 0 && i < d->survey.found_count; i++)
        err = judge(d, i);
    return err;
}

/* What finishes it: a statement; or what must happen first. */
static const char *way_out(const struct doubt *d, size_t i, char *out, size_t size)
{
    const struct rt_found *f = &d->survey.found[i];
    char id[RT_TXN_ID_TEXT];

    switch (d->about[i]) {
    case COMMIT:
    case ABORT:
    case EXPIRED:
        return rt_survey_statement(f, d->about[i] == COMMIT, out, size);
    case UNDECIDED:
    case YOUNG:
        rt_txn_id_text(&f->name.id, id);
        snprintf(out, size, "rota txn resolve --abort %s", id);
        return out;
    default:
        snprintf(out, size, "-");
        return out;
    }
}

/* ---- JSON ------------------------------------------------------------------------- */

static json_t *found_json(const struct doubt *d, size_t i)
{
    const struct rt_found *f = &d->survey.found[i];
    bool finish = d->about[i] == COMMIT || d->about[i] == ABORT || d->about[i] == EXPIRED;
    char id[RT_TXN_ID_TEXT] = "", journal[16], text[512];

    rt_txn_id_text(&f->name.id, id);
    snprintf(journal, sizeof(journal), "%08" PRIx32, rt_txn_id_journal(&f->name.id));
    return json_pack(
        "{s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "resource",
        rt_json_text(d->survey.sites[f->site].name), "name", rt_json_text(f->text), "about",
        words[d->about[i]], "journal", f->rota ? json_string(journal) : json_null(), "id",
        f->rota ? json_string(id) : json_null(), "branch",
        f->rota ? json_integer(f->name.branch) : json_null(), "prepared_ms",
        f->prepared_ms > 0 ? json_integer(d->now_ms - f->prepared_ms) : json_null(), "left_ms",
        f->rota ? json_integer(f->name.deadline_ms - d->now_ms) : json_null(), "finish",
        finish ? rt_json_text(way_out(d, i, text, sizeof(text))) : json_null());
}

static json_t *wait_json(const struct doubt *d, const struct rt_wait *w)
{
    return json_pack(
        "{s:o, s:o, s:I, s:o, s:I, s:o}", "resource", rt_json_text(d->survey.sites[w->site].name),
        "who", rt_json_text(w->who), "connection", (json_int_t)w->connection, "on",
        rt_json_text(w->on), "since_ms", (json_int_t)(d->now_ms - w->since_ms), "behind",
        w->found != SIZE_MAX ? rt_json_text(d->survey.found[w->found].text) : json_null());
}

static json_t *site_json(const struct rt_site *site)
{
    return json_pack("{s:o, s:o, s:b, s:o}", "resource", rt_json_text(site->name), "url",
                     rt_json_text(site->url), "asked", site->err == 0, "why",
                     site->err != 0        ? rt_json_text(site->why)
                     : site->blind != NULL ? rt_json_text(site->blind)
                                           : json_null());
}

static int print_json(const struct doubt *d)
{
    json_t *found = json_array(), *waits = json_array(), *sites = json_array();

    for (size_t i = 0; i < d->survey.found_count; i++)
        json_array_append_new(found, found_json(d, i));
    for (size_t i = 0; i < d->survey.wait_count; i++)
        json_array_append_new(waits, wait_json(d, &d->survey.waits[i]));
    for (size_t i = 0; i < d->survey.site_count; i++)
        json_array_append_new(sites, site_json(&d->survey.sites[i]));
    return rt_json_print(
        json_pack("{s:o, s:o, s:o}", "prepared", found, "waits", waits, "resources", sites), false);
}

/* ---- Text --------------------------------------------------------------------------- */

static void print_wait(const struct doubt *d, const struct rt_wait *w)
{
    char since[32], who[256], on[256];

    printf("    blocks %s, connection %" PRIu64 ", for %s%s%s%s\n",
           rt_out_clean(w->who, who, sizeof(who)), w->connection,
           rt_out_time(d->now_ms - w->since_ms, since, sizeof(since)),
           w->on[0] != '\0' ? ", on " : "", rt_out_clean(w->on, on, sizeof(on)),
           w->found == SIZE_MAX ? " (it, or another without a connection)" : "");
}

static void print_found(const struct doubt *d, size_t i)
{
    const struct rt_found *f = &d->survey.found[i];
    char text[512], since[32];

    rt_out_padded(rt_out_clean(d->survey.sites[f->site].name, text, sizeof(text)), 16);
    printf("  %-9s  ", words[d->about[i]]);
    if (f->prepared_ms > 0)
        rt_out_time(d->now_ms - f->prepared_ms, since, sizeof(since));
    else
        snprintf(since, sizeof(since), "-");
    rt_out_padded(since, 13);
    printf("%s\n", rt_out_clean(f->text, text, sizeof(text)));
    if (d->about[i] < ELSEWHERE)
        printf("    finish: %s\n",
               rt_out_clean(way_out(d, i, text, sizeof(text)), text, sizeof(text)));
    for (size_t k = 0; k < d->survey.wait_count; k++) {
        const struct rt_wait *w = &d->survey.waits[k];
        if (w->site == f->site && (w->found == i || (w->found == SIZE_MAX && f->ours)))
            print_wait(d, w);
    }
}

static void print_text(const struct doubt *d)
{
    char text[512], name[256];

    if (d->survey.found_count > 0)
        printf("%s%-16s  %-9s  %-13s%s%s\n", rt_out_color(stdout, RT_OUT_BOLD), "RESOURCE", "ABOUT",
               "PREPARED FOR", "NAME", rt_out_color(stdout, RT_OUT_PLAIN));
    for (size_t i = 0; i < d->survey.found_count; i++)
        print_found(d, i);
    for (size_t i = 0; i < d->survey.site_count; i++) {
        const struct rt_site *site = &d->survey.sites[i];
        const char *why = site->err != 0 ? site->why : site->blind;
        if (why != NULL)
            rt_out_error("%s: %s%s", rt_out_clean(site->name, name, sizeof(name)),
                         site->err != 0 ? "" : "cannot see who waits: ",
                         rt_out_clean(why, text, sizeof(text)));
    }
    if (d->survey.site_count == 0)
        rt_out_error(
            "no database was asked, none is known: add lines NAME = URL to ~/.config/rota/txn or "
            "/etc/rota/txn");
    else if (d->survey.found_count == 0 && isatty(STDOUT_FILENO))
        rt_out_error("nothing is prepared at any of %zu databases", d->survey.site_count);
}

static int exit_of(const struct doubt *d)
{
    for (size_t i = 0; i < d->survey.site_count; i++)
        if (d->survey.sites[i].err != 0)
            return RT_EXIT_FAILED;
    for (size_t i = 0; i < d->survey.found_count; i++)
        if (d->about[i] != YOUNG && d->about[i] < ELSEWHERE)
            return RT_EXIT_FAILED;
    return RT_EXIT_OK;
}

int rt_job_indoubt(struct rt_args *args, int argc, char **argv)
{
    static const struct option options[] = {{NULL, 0, NULL, 0}};
    struct rt_visit visit;
    int c = rt_args_next(args, argc, argv, ":h", options);

    if (c != -1)
        return rt_args_other("indoubt", argv, c);
    if (optind < argc)
        return rt_args_usage("indoubt", "unexpected argument '%s'", argv[optind]);
    int code = rt_visit_open(&visit, args, &(struct rota_txns_options){0});
    if (code != RT_EXIT_OK)
        return code;
    struct doubt doubt = {.visit = &visit, .now_ms = visit.now_ms};
    int err = look(&doubt);
    if (err != 0)
        code = rt_visit_report(&visit, err);
    else if (args->json)
        code = print_json(&doubt);
    else
        print_text(&doubt);
    if (code == RT_EXIT_OK)
        code = exit_of(&doubt);
    free(doubt.about);
    rt_survey_free(&doubt.survey);
    rt_visit_close(&visit);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}
