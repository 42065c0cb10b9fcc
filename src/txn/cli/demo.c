/* SPDX-License-Identifier: Apache-2.0 */
/* rota demo bank: tellers are killed while they carry coins between MariaDB and PostgreSQL, first without transactions,
 * then with them. */
#include "cli/options.h"
#include "cli/out.h"
#include "cli/scratch.h"
#include "cli/traps/house.h"
#include "txn/cli/args.h"
#include "txn/cli/bank/bank.h"
#include "txn/cli/order/order.h"
#include "txn/cli/watched.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char rt_job_help_demo[] =
    "Usage: rota demo bank [OPTION]...\n"
    "  or:  rota demo order [--fail WHAT] [--json]   (three services; --help)\n"
    "Half of a bank's accounts are in MariaDB, half in PostgreSQL. Tellers move coins\n"
    "between the two and are killed again and again. Without transactions, coins are\n"
    "created and lost; with them, the total stays the same. Starts both databases in\n"
    "a temporary folder, if they are installed.\n"
    "\n"
    "      --mysql URL       use this MariaDB instead of starting one; a table\n"
    "                        rota_demo_account there is dropped and created anew\n"
    "      --postgres URL    the same for PostgreSQL; needs max_prepared_transactions\n"
    "      --tellers N       tellers at work at once (4)\n"
    "      --kills N         how many are killed (20)\n"
    "      --json            one JSON object\n";

struct demo {
    struct rt_scratch scratch;
    struct rt_house house;
    struct rt_bank bare, with;
    const char *given[RT_BANK_SITES];
    char url[RT_BANK_SITES][RT_SCRATCH_URL];
    char journal[RT_SCRATCH_URL];
    uint64_t tellers, kills;
};

static bool silent; /* --json */

static void say(const char *line)
{
    if (!silent)
        printf("  %s\n", line);
    fflush(stdout);
}

/* ---- The databases -------------------------------------------------------------------- */

static int start_servers(struct demo *d)
{
    int code = RT_EXIT_OK;

    d->house.folder = d->scratch.folder;
    if (!silent && isatty(STDOUT_FILENO) && (d->given[0] == NULL || d->given[1] == NULL))
        printf("starting databases in %s ...\n", d->scratch.folder);
    fflush(stdout);
    if (d->given[RT_BANK_SHOP] == NULL) {
        code = rt_house_mariadb(&d->house);
        snprintf(d->url[RT_BANK_SHOP], sizeof(d->url[0]), "mysql+unix:%s?user=root&database=mysql",
                 d->house.mariadb.socket);
    } else {
        snprintf(d->url[RT_BANK_SHOP], sizeof(d->url[0]), "%s", d->given[RT_BANK_SHOP]);
    }
    if (code == RT_EXIT_OK && d->given[RT_BANK_LEDGER] == NULL) {
        code = rt_house_postgres(&d->house);
        snprintf(d->url[RT_BANK_LEDGER], sizeof(d->url[0]),
                 "postgres://postgres@/postgres?host=%.2000s/pg", d->scratch.folder);
    } else {
        snprintf(d->url[RT_BANK_LEDGER], sizeof(d->url[0]), "%s",
                 d->given[RT_BANK_LEDGER] != NULL ? d->given[RT_BANK_LEDGER] : "");
    }
    return code;
}

/* ---- What is told ------------------------------------------------------------------------ */

static void tell(const char *title, const struct rt_bank *bank)
{
    long long more = bank->after - bank->before;
    enum rt_out_color color = more == 0 ? RT_OUT_GREEN : RT_OUT_RED;

    if (silent)
        return;
    printf("%s%s%s\n", rt_out_color(stdout, RT_OUT_BOLD), title,
           rt_out_color(stdout, RT_OUT_PLAIN));
    printf("  %" PRIu64 " transfers, %" PRIu64 " tellers killed: %lld coins became %lld, %s",
           bank->carried, bank->killed, bank->before, bank->after, rt_out_color(stdout, color));
    if (more == 0)
        printf("none made, none lost");
    else
        printf("%lld %s", more > 0 ? more : -more, more > 0 ? "made" : "lost");
    printf("%s\n", rt_out_color(stdout, RT_OUT_PLAIN));
    if (bank->journal != NULL)
        printf("  %" PRIu64
               " branches were in doubt after the last kills; recovery finished them\n",
               bank->in_doubt);
    fflush(stdout);
}

static json_t *object(const struct rt_bank *bank)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "transfers", (json_int_t)bank->carried, "killed",
                     (json_int_t)bank->killed, "coins_before", (json_int_t)bank->before,
                     "coins_after", (json_int_t)bank->after, "in_doubt",
                     (json_int_t)bank->in_doubt);
}

static int print_json(const struct demo *d)
{
    json_t *all = json_pack("{s:o, s:o}", "without", object(&d->bare), "with", object(&d->with));

    if (all == NULL)
        return RT_EXIT_INTERNAL;
    json_dumpf(all, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(all);
    return RT_EXIT_OK;
}

/* ---- The command --------------------------------------------------------------------------- */

static int run(struct demo *d)
{
    struct rt_bank bank = {.tellers = (uint32_t)d->tellers, .kills = (uint32_t)d->kills};

    for (int i = 0; i < RT_BANK_SITES; i++)
        bank.url[i] = d->url[i];
    d->bare = d->with = bank;
    d->with.journal = d->journal;
    struct rt_bank *at = &d->bare;
    int rv = rt_bank_run(at);
    if (rv == 0) {
        tell("Without transactions: one database, then the other", at);
        at = &d->with;
        rv = rt_bank_run(at);
    }
    if (rv == 0) {
        tell("With transactions: two-phase commit, one decision in a journal", at);
        rv = rt_bank_scene(at, say);
    }
    if (rv != 0) {
        rt_out_error("%s", at->errmsg);
        return RT_EXIT_UNREACHABLE;
    }
    int code = silent ? print_json(d) : RT_EXIT_OK;
    if (rt_out_flush() != RT_EXIT_OK || code != RT_EXIT_OK)
        return RT_EXIT_FAILED;
    return d->with.after == d->with.before ? RT_EXIT_OK : RT_EXIT_FAILED;
}

/* ---- Whoever stops it leaves nothing behind --------------------------------------------------- */

/* Settings meant for the user's own servers must not reach ours. */
static void forget_others(const struct demo *d)
{
    static const char *const names[] = {"PGHOST",     "PGHOSTADDR", "PGPORT",    "PGPASSWORD",
                                        "PGPASSFILE", "PGSERVICE",  "PGSSLMODE", "PGOPTIONS"};
    bool shop = d->given[RT_BANK_SHOP] == NULL, ledger = d->given[RT_BANK_LEDGER] == NULL;

    for (size_t i = 0; ledger && i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    if (shop)
        unsetenv("MYSQL_PWD");
    if (shop && ledger)
        setenv("HOME", d->scratch.folder, 1); /* with ~/.my.cnf */
}

static int play(void *arg)
{
    struct demo *d = arg;

    forget_others(d);
    int code = start_servers(d);
    if (code == RT_EXIT_OK)
        code = run(d);
    rt_house_close(&d->house);
    return code;
}

/* Leaves nothing in doubt at databases that stay, because its journal goes. */
static void mend(struct demo *d)
{
    struct rt_bank bank = {.journal = d->journal};

    for (int i = 0; i < RT_BANK_SITES; i++)
        bank.url[i] = d->given[i];
    if (bank.url[0] == NULL && bank.url[1] == NULL)
        return;
    rt_out_error("stopped: first finishing what is in doubt, which takes some seconds");
    if (rt_bank_mend(&bank) == 0)
        return;
    rt_out_error("%s; their journal is kept: %s", bank.errmsg, d->journal);
    d->scratch.folder[0] = '\0';
}

/* ---- Its words ------------------------------------------------------------------------------- */

enum { OPT_MYSQL = 512, OPT_POSTGRES, OPT_TELLERS, OPT_KILLS };

static int parse(struct demo *d, struct rt_args *args, int argc, char **argv, bool *shown)
{
    static const struct option options[] = {{"mysql", required_argument, NULL, OPT_MYSQL},
                                            {"postgres", required_argument, NULL, OPT_POSTGRES},
                                            {"tellers", required_argument, NULL, OPT_TELLERS},
                                            {"kills", required_argument, NULL, OPT_KILLS},
                                            {NULL, 0, NULL, 0}};
    int c;

    while ((c = rt_args_next(args, argc, argv, "+:h", options)) != -1) {
        bool good = true;
        if (c == OPT_MYSQL)
            d->given[RT_BANK_SHOP] = optarg;
        else if (c == OPT_POSTGRES)
            d->given[RT_BANK_LEDGER] = optarg;
        else if (c == OPT_TELLERS)
            good = rt_options_number(optarg, 1, 16, &d->tellers);
        else if (c == OPT_KILLS)
            good = rt_options_number(optarg, 1, 1000, &d->kills);
        else {
            *shown = c == 'h';
            return rt_args_other("demo", argv, c);
        }
        if (!good)
            return rt_args_usage("demo", "'%s' is not a valid number", optarg);
    }
    if (optind < argc && strcmp(argv[optind], "bank") != 0)
        return rt_args_usage("demo", "there is no transaction demo '%s': use bank or order",
                             argv[optind]);
    return RT_EXIT_OK;
}

int rt_job_demo(struct rt_args *args, int argc, char **argv)
{
    static struct demo d = {.tellers = 4, .kills = 20}; /* static: its paths are large */
    bool shown = false, stopped;

    if (argc > 1 && strcmp(argv[1], "order") == 0)
        return rt_order_demo(args, argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "bank") == 0) {
        argv++;
        argc--;
    }
    int code = parse(&d, args, argc, argv, &shown);
    if (code != RT_EXIT_OK || shown)
        return code;
    silent = args->json;
    code = rt_scratch_make(&d.scratch, "bank");
    if (code == RT_EXIT_OK) {
        snprintf(d.journal, sizeof(d.journal), "file:%.2000s/journal", d.scratch.folder);
        code = rt_watched_run(play, &d, &stopped);
        if (stopped)
            mend(&d);
    }
    rt_scratch_remove(&d.scratch);
    return code;
}
