/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn resolve: the way out for a person. It asks, never contradicts a decision that stands, and notes who did what
 * before it does it.
 *
 *   --abort   undecided: ABORT is decided first; if a COMMIT stood, nothing is touched. Then every branch is rolled
 *             back, also those that came while the person was asked
 *   --commit  only what is decided so: its branches are committed. Nobody but the process that began a transaction may
 *             decide COMMIT, because its caller may have been told that it was aborted
 *   --done    a person vouches for branches that nobody can ask: the transaction counts as finished */
#include "cli/json.h"
#include "cli/options.h"
#include "cli/out.h"
#include "txn/cli/notes.h"
#include "txn/cli/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FINISH_MS 5000 /* for each branch */

const char rt_job_help_resolve[] =
    "Usage: rota txn resolve [OPTION]... ID\n"
    "Finishes a transaction by hand when recovery cannot. Asks first, never goes\n"
    "against a decision that stands, and notes in the journal who did what:\n"
    "'rota txn show ID' shows it.\n"
    "\n"
    "      --abort           abort it if nothing is decided; roll back its branches\n"
    "      --commit          commit the branches of one that is committed\n"
    "      --branch N        only this branch\n"
    "      --done            count it as finished: for branches in databases that\n"
    "                        are gone; you vouch for them\n"
    "      --yes             do not ask; needed where there is no terminal\n"
    "      --json            one JSON object; needs --yes\n" RT_JOB_HELP "\n"
    "Exit: 0 everything is as decided; 1 something is left, and why; 75 a decision\n"
    "stands against it, or it was not confirmed.\n";

enum action { NOTHING, COMMIT, ABORT, DONE };
static const char *const actions[] = {"nothing", "commit", "abort", "done"};

struct wish {
    enum action action;
    bool yes, one; /* one: only BRANCH */
    uint32_t branch;
    bool json;
};

struct case_ {
    const struct rt_visit *visit;
    const struct wish *wish;
    struct rt_txn_id id;
    struct rt_records records;
    struct rt_survey survey;
    struct rt_parts parts;
    char text[RT_TXN_ID_TEXT];
};

static const struct rt_item *item_of(const struct case_ *c)
{
    return &c->records.items[0];
}

static bool is_meant(const struct case_ *c, const struct rt_piece *piece)
{
    return !c->wish->one || piece->number == c->wish->branch;
}

/* ---- What may be done --------------------------------------------------------------- */

static int refuse(const char *why)
{
    rt_out_error("%s", why);
    return RT_EXIT_BUSY;
}

static int may_commit(enum rt_journal_stand stands)
{
    switch (stands) {
    case RT_JOURNAL_COMMIT:
        return RT_EXIT_OK;
    case RT_JOURNAL_ABORT:
        return refuse("it is aborted, and that stands: --abort rolls back what is left of it");
    case RT_JOURNAL_EXPIRED:
        return refuse(
            "it is too old to be committed any more: --abort rolls back what is left of it");
    default:
        return refuse(
            "nothing is decided, and only the process that began it may commit it: its caller may have "
            "been told that it was aborted. --abort ends it");
    }
}

/* For --done: whatever can be finished must be. */
static int may_be_done(const struct case_ *c)
{
    const struct rt_item *item = item_of(c);
    bool commit = item->stands == RT_JOURNAL_COMMIT;

    if (!commit && item->stands != RT_JOURNAL_ABORT)
        return refuse("nothing is decided: --abort first");
    for (size_t i = 0; i < c->parts.count; i++) {
        const struct rt_piece *p = &c->parts.pieces[i];
        if (p->standing != RT_STANDING_PREPARED)
            continue;
        rt_out_error("branch %" PRIu32 " is prepared at %s: --%s finishes it", p->number,
                     p->resource, commit ? "commit" : "abort");
        return RT_EXIT_BUSY;
    }
    return RT_EXIT_OK;
}

static int may(const struct case_ *c)
{
    enum rt_journal_stand stands = item_of(c)->stands;

    if (item_of(c)->deadline_ms >= RT_JOURNAL_SERVED && c->wish->action != DONE)
        return refuse(
            "it belongs to 'rota txn serve', which finishes it: 'rota txn settle' aborts one that is open");
    switch (c->wish->action) {
    case COMMIT:
        return may_commit(stands);
    case ABORT:
        if (stands == RT_JOURNAL_COMMIT)
            return refuse("it is committed, and that stands: --commit finishes its branches");
        return RT_EXIT_OK;
    case DONE:
        return may_be_done(c);
    default:
        return rt_args_usage("resolve", "say what: %s",
                             stands == RT_JOURNAL_COMMIT
                                 ? "it is committed, so --commit (or --done)"
                             : stands == RT_JOURNAL_ABORT ? "it is aborted, so --abort (or --done)"
                                                          : "nothing is decided, so --abort");
    }
}

/* ---- Asking ----------------------------------------------------------------------------- */

static const char *plan_of(const struct case_ *c, const struct rt_piece *p)
{
    if (c->wish->action == DONE)
        return "count as finished:";
    if (p->service)
        return "leave to recovery:";
    return c->wish->action == COMMIT ? "commit" : "roll back";
}

static void print_plan(const struct case_ *c)
{
    char text[256];

    fprintf(stderr, "Transaction %s is %s. --%s will:\n", c->text,
            rt_records_state(item_of(c), c->visit->now_ms), actions[c->wish->action]);
    if (c->wish->action == ABORT && item_of(c)->stands != RT_JOURNAL_ABORT)
        fprintf(stderr, "  decide ABORT, for ever\n");
    for (size_t i = 0; i < c->parts.count; i++) {
        const struct rt_piece *p = &c->parts.pieces[i];
        if (!is_meant(c, p))
            continue;
        fprintf(stderr, "  %s branch %" PRIu32 " at %s (now: %s)\n", plan_of(c, p), p->number,
                rt_out_clean(p->resource, text, sizeof(text)), rt_parts_word(p->standing));
    }
}

static int confirm(const struct case_ *c)
{
    char answer[16] = "";

    if (c->wish->yes)
        return RT_EXIT_OK;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) || c->wish->json)
        return rt_args_usage("resolve", "there is nobody to ask: use --yes");
    print_plan(c);
    fprintf(stderr, "Type yes: ");
    if (fgets(answer, sizeof(answer), stdin) != NULL && strcmp(answer, "yes\n") == 0)
        return RT_EXIT_OK;
    rt_out_error("nothing was done");
    return RT_EXIT_BUSY;
}

/* ---- Doing -------------------------------------------------------------------------------- */

static int note(const struct case_ *c)
{
    char what[256];
    size_t n = (size_t)snprintf(what, sizeof(what), "resolve --%s", actions[c->wish->action]);

    if (c->wish->one)
        n += (size_t)snprintf(what + n, sizeof(what) - n, " --branch %" PRIu32, c->wish->branch);
    if (c->wish->action == DONE)
        for (size_t i = 0; i < c->parts.count && n < sizeof(what); i++)
            n += (size_t)snprintf(what + n, sizeof(what) - n, "%s %" PRIu32 " %s",
                                  i == 0 ? " with branches" : ",", c->parts.pieces[i].number,
                                  rt_parts_word(c->parts.pieces[i].standing));
    return rt_notes_write(c->visit, &c->id, what);
}

/* 0: ABORT now stands; ROTA_BUSY: a COMMIT does. */
static int decide(const struct case_ *c)
{
    const struct rt_item *item = item_of(c);
    int64_t deadline = item->deadline_ms;

    for (size_t i = 0; deadline == 0 && i < c->parts.count; i++)
        if (c->parts.pieces[i].found != NULL)
            deadline = c->parts.pieces[i].found->name.deadline_ms;
    if (deadline == 0)
        deadline = c->visit->now_ms;
    struct rt_journal_op op = {
        .kind = RT_JOURNAL_DECIDE,
        .decide = {.id = c->id, .decision = RT_JOURNAL_ABORT, .deadline_ms = deadline}};
    int err = rt_txns_ask(c->visit->m, &op);
    if (err == 0 && op.decide.stands == RT_JOURNAL_COMMIT)
        err = ROTA_BUSY;
    return err;
}

static size_t finish_all(struct case_ *c, bool commit)
{
    size_t left = 0;

    for (size_t i = 0; i < c->parts.count; i++) {
        struct rt_piece *p = &c->parts.pieces[i];
        if (is_meant(c, p) ? !rt_parts_finish(c->visit, &c->id, p, commit, FINISH_MS)
                           : p->standing != (commit ? RT_STANDING_COMMITTED : RT_STANDING_ABSENT))
            left++;
    }
    return left;
}

static int mark_done(const struct case_ *c)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_DONE, .finish = {.ids = &c->id, .count = 1}};

    return rt_txns_ask(c->visit->m, &op);
}

static int report(const struct case_ *c, size_t left, bool commit)
{
    json_t *pieces = json_array();
    char text[256];

    for (size_t i = 0; i < c->parts.count; i++) {
        const struct rt_piece *p = &c->parts.pieces[i];
        bool good = p->standing == (commit ? RT_STANDING_COMMITTED : RT_STANDING_ABSENT);
        json_array_append_new(
            pieces, json_pack("{s:I, s:o, s:s, s:o}", "branch", (json_int_t)p->number, "resource",
                              rt_json_text(p->resource), "has", rt_parts_word(p->standing), "why",
                              good ? json_null() : rt_json_text(p->why)));
        if (!c->wish->json)
            printf("branch %" PRIu32 " at %s: %s\n", p->number,
                   rt_out_clean(p->resource, text, sizeof(text)), rt_parts_word(p->standing));
        if (!c->wish->json && !good && is_meant(c, p) && p->why[0] != '\0')
            rt_out_error("branch %" PRIu32 ": %s", p->number, p->why);
    }
    int code = RT_EXIT_OK;
    if (c->wish->json)
        code = rt_json_print(json_pack("{s:s, s:s, s:b, s:O}", "id", c->text, "decision",
                                       commit ? "committed" : "aborted", "finished", left == 0,
                                       "branches", pieces),
                             false);
    else
        printf("%s%s\n", commit ? "committed" : "aborted", left > 0 ? ", not finished" : "");
    json_decref(pieces);
    return code != RT_EXIT_OK ? code : left > 0 ? RT_EXIT_FAILED : RT_EXIT_OK;
}

static int look(struct case_ *c)
{
    int err = rt_records_read(&c->records, c->visit, &c->id);

    if (err == 0)
        err = rt_survey_make(&c->survey, c->visit);
    if (err == 0 && !rt_parts_make(&c->parts, c->visit, item_of(c), &c->survey))
        err = ROTA_NOMEM;
    return err;
}

static void forget(struct case_ *c)
{
    rt_parts_free(&c->parts);
    rt_survey_free(&c->survey);
    rt_records_free(&c->records);
}

/* ABORT stands: nobody adds branches any more, but some may have come since we looked. */
static int look_again(struct case_ *c)
{
    forget(c);
    return look(c);
}

static int act(struct case_ *c)
{
    bool commit = item_of(c)->stands == RT_JOURNAL_COMMIT;
    bool decided = commit || item_of(c)->stands == RT_JOURNAL_ABORT;
    size_t left = 0;
    int err = note(c);

    if (err == 0 && c->wish->action == ABORT && !decided) {
        err = decide(c);
        if (err == ROTA_BUSY)
            return refuse("it was committed just now, and that stands: nothing was changed");
        if (err == 0)
            err = look_again(c);
    }
    if (err == 0 && c->wish->action != DONE)
        left = finish_all(c, commit);
    if (err == 0 && left == 0)
        err = mark_done(c);
    if (err != 0)
        return rt_visit_report(c->visit, err);
    return report(c, left, commit);
}

static int resolve(struct case_ *c)
{
    int err = look(c);

    if (err != 0)
        return rt_visit_report(c->visit, err);
    int code = may(c);
    bool there = !c->wish->one;
    for (size_t i = 0; i < c->parts.count; i++)
        there = there || is_meant(c, &c->parts.pieces[i]);
    if (code == RT_EXIT_OK && !there)
        code = rt_args_usage("resolve", "it has no branch %" PRIu32, c->wish->branch);
    if (code == RT_EXIT_OK)
        code = confirm(c);
    return code != RT_EXIT_OK ? code : act(c);
}

/* ---- The command ---------------------------------------------------------------------------- */

static int take_action(struct wish *wish, enum action action)
{
    if (wish->action != NOTHING && wish->action != action)
        return rt_args_usage("resolve", "--%s and --%s exclude each other", actions[wish->action],
                             actions[action]);
    wish->action = action;
    return RT_EXIT_OK;
}

static int parse(struct wish *wish, struct rt_args *args, int argc, char **argv, bool *over)
{
    static const struct option options[] = {
        {"commit", no_argument, NULL, 'c'}, {"abort", no_argument, NULL, 'a'},
        {"done", no_argument, NULL, 'd'},   {"branch", required_argument, NULL, 'b'},
        {"yes", no_argument, NULL, 'y'},    {NULL, 0, NULL, 0},
    };
    uint64_t number;
    int c, code = RT_EXIT_OK;

    while (code == RT_EXIT_OK && (c = rt_args_next(args, argc, argv, ":h", options)) != -1) {
        switch (c) {
        case 'c':
        case 'a':
        case 'd':
            code = take_action(wish, c == 'c' ? COMMIT : c == 'a' ? ABORT : DONE);
            break;
        case 'b':
            if (!rt_options_number(optarg, 0, UINT32_MAX, &number))
                return rt_args_usage("resolve",
                                     "--branch '%s' is not a number from 'rota txn show'", optarg);
            wish->one = true;
            wish->branch = (uint32_t)number;
            break;
        case 'y':
            wish->yes = true;
            break;
        default:
            *over = true;
            return rt_args_other("resolve", argv, c);
        }
    }
    if (code == RT_EXIT_OK && wish->one && wish->action == DONE)
        code = rt_args_usage("resolve", "--done is for the whole transaction, not for a branch");
    wish->json = args->json;
    return code;
}

int rt_job_resolve(struct rt_args *args, int argc, char **argv)
{
    struct wish wish = {0};
    struct rt_visit visit;
    struct case_ c = {.visit = &visit, .wish = &wish};
    bool over = false;
    int code = parse(&wish, args, argc, argv, &over);

    if (code != RT_EXIT_OK || over)
        return code;
    code = rt_args_id("resolve", argc - optind, argv + optind, &c.id);
    if (code != RT_EXIT_OK)
        return code;
    rt_txn_id_text(&c.id, c.text);
    code = rt_visit_open(&visit, args, &(struct rota_txns_options){0});
    if (code != RT_EXIT_OK)
        return code;
    code = rt_visit_ours(&visit, &c.id);
    if (code == RT_EXIT_OK)
        code = resolve(&c);
    forget(&c);
    rt_visit_close(&visit);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}
