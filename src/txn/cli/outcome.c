/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn outcome and settle: how a transaction ended, in one word. */
#include "cli/json.h"
#include "cli/out.h"
#include "txn/cli/visit.h"

#include <inttypes.h>
#include <stdio.h>

#define EXITS                                                                  \
    "\n"                                                                       \
    "  open       nothing is decided: under way, or never heard of\n"          \
    "  committed  all of it happened, or will\n"                               \
    "  aborted    nothing of it happened or remains\n"                         \
    "  expired    too old: finished and forgotten, or never decided\n"         \
    "  stuck      decided, but a branch cannot be finished without a person\n" \
    "\n"

const char rt_job_help_outcome[] = "Usage: rota txn outcome ID\n"
                                   "Says in one word how the transaction ID stands.\n"
                                   "\n"
                                   "      --json            one JSON object\n" RT_JOB_HELP EXITS
                                   "Exit: 0 committed or aborted, 1 stuck or expired, 75 open.\n";

const char rt_job_help_settle[] =
    "Usage: rota txn settle ID\n"
    "Like outcome, but an open transaction is aborted now, even if its process is\n"
    "still at work: that process will be told.\n"
    "\n"
    "      --json            one JSON object\n" RT_JOB_HELP EXITS
    "Exit: 0 committed or aborted, 1 stuck or expired.\n";

static const char *const words[] = {[ROTA_STAND_OPEN] = "open",
                                    [ROTA_STAND_COMMITTED] = "committed",
                                    [ROTA_STAND_ABORTED] = "aborted",
                                    [ROTA_STAND_EXPIRED] = "expired",
                                    [ROTA_STAND_STUCK] = "stuck"};

static const char *word(int32_t stand)
{
    return stand >= 0 && stand <= ROTA_STAND_STUCK ? words[stand] : "unknown";
}

static int print_json(const char *id, const struct rota_outcome *o)
{
    return rt_json_print(
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "id", id, "stand", word(o->stand),
                  "decision", word(o->decision), "branches", (json_int_t)o->branches, "unfinished",
                  (json_int_t)o->unfinished, "deadline",
                  o->deadline_ms > 0 ? json_integer(o->deadline_ms) : json_null(), "decided",
                  o->decided_ms > 0 ? json_integer(o->decided_ms) : json_null(), "why",
                  o->why[0] != '\0' ? rt_json_text(o->why) : json_null()),
        false);
}

static void print_text(const struct rota_outcome *o)
{
    char text[256];

    printf("%s", word(o->stand));
    if (o->stand == ROTA_STAND_STUCK)
        printf(" (decided: %s): %s", word(o->decision), rt_out_clean(o->why, text, sizeof(text)));
    else if (o->unfinished > 0 && o->stand != ROTA_STAND_OPEN)
        printf(" (of %" PRIu32 " branches %" PRIu32 " not finished yet)", o->branches,
               o->unfinished);
    putchar('\n');
}

static int exit_of(const struct rota_outcome *o)
{
    switch (o->stand) {
    case ROTA_STAND_COMMITTED:
    case ROTA_STAND_ABORTED:
        return RT_EXIT_OK;
    case ROTA_STAND_OPEN:
        return RT_EXIT_BUSY;
    default:
        return RT_EXIT_FAILED;
    }
}

static int ask(struct rt_visit *v, const struct rt_txn_id *id, bool settle, bool json)
{
    struct rota_outcome outcome = {0};
    char text[RT_TXN_ID_TEXT];

    rt_txn_id_text(id, text);
    int err = settle ? rota_txn_settle(v->m, text, &outcome)
                     : rota_txn_outcome(v->m, text, &outcome);
    if (err != 0)
        return rt_visit_report(v, err);
    int code = RT_EXIT_OK;
    if (json)
        code = print_json(text, &outcome);
    else
        print_text(&outcome);
    return code != RT_EXIT_OK ? code : exit_of(&outcome);
}

static int job(const char *command, bool settle, struct rt_args *args, int argc, char **argv)
{
    static const struct option options[] = {{NULL, 0, NULL, 0}};
    struct rt_visit visit;
    struct rt_txn_id id;
    int c = rt_args_next(args, argc, argv, ":h", options);

    if (c != -1)
        return rt_args_other(command, argv, c);
    int code = rt_args_id(command, argc - optind, argv + optind, &id);
    if (code != RT_EXIT_OK)
        return code;
    code = rt_visit_open(&visit, args, &(struct rota_txns_options){0});
    if (code != RT_EXIT_OK)
        return code;
    code = rt_visit_ours(&visit, &id);
    if (code == RT_EXIT_OK)
        code = ask(&visit, &id, settle, args->json);
    rt_visit_close(&visit);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}

int rt_job_outcome(struct rt_args *args, int argc, char **argv)
{
    return job("outcome", false, args, argc, argv);
}

int rt_job_settle(struct rt_args *args, int argc, char **argv)
{
    return job("settle", true, args, argc, argv);
}
