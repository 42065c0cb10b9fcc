/* SPDX-License-Identifier: Apache-2.0 */
/* rota demo: the flash sale, first without a lock, then with one, then with each dialect that the engine has. */
#include "cli/bench/figures.h"
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/sale.h"
#include "cli/save.h"
#include "cli/scratch.h"
#include "cli/shop.h"
#include "cli/strategies.h"
#include "cli/traps/traps.h"

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR 20 /* columns of the longest */

/* One sale in the table: without a lock, or with a strategy. */
struct row {
    struct rt_strategy strategy;
    struct rt_sale sale;
    char title[64];
    char url[RT_SCRATCH_URL];
    char left_out[256]; /* why it was not held; "": it was */
};

struct demo {
    uint32_t buyers, stock;
    bool json;
    bool shown; /* help was asked for */
    const char *svg;
    struct rt_scratch scratch;
    char path[PATH_MAX]; /* the stock's file in it */
    char name[64];
    struct row
        rows[1 +
             RT_STRATEGIES_MOST]; /* the first: without a lock; the second: the engine's own way */
    size_t count;
    bool exact; /* with every lock that is not unsafe */
};

enum { OPT_BUYERS = 256, OPT_STOCK, OPT_JSON, OPT_SVG };

static int parse_count(const char *option, uint64_t min, uint64_t max, uint32_t *out)
{
    uint64_t number;

    if (!rt_options_number(optarg, min, max, &number))
        return rt_out_usage("demo", "%s '%s' is not a number from %" PRIu64 " to %" PRIu64, option,
                            optarg, min, max);
    *out = (uint32_t)number;
    return RT_EXIT_OK;
}

static int parse_option(struct demo *demo, int c, char **argv)
{
    switch (c) {
    case OPT_BUYERS:
        return parse_count("--buyers", 2, RT_SALE_BUYERS_MAX, &demo->buyers);
    case OPT_STOCK:
        return parse_count("--stock", 1, RT_SALE_STOCK_MAX, &demo->stock);
    case OPT_JSON:
        demo->json = true;
        return RT_EXIT_OK;
    case OPT_SVG:
        demo->svg = optarg;
        return rt_save_check(optarg);
    case 'h':
        demo->shown = true;
        return rt_help_print(rt_command_find("demo"));
    default:
        return rt_options_complain("demo", argv, c);
    }
}

static int parse(struct demo *demo, int argc, char **argv)
{
    static const struct option options[] = {
        {"buyers", required_argument, NULL, OPT_BUYERS},
        {"stock", required_argument, NULL, OPT_STOCK},
        {"json", no_argument, NULL, OPT_JSON},
        {"svg", required_argument, NULL, OPT_SVG},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    optind = 0; /* glibc: begin anew, with another argv */
    while ((c = rt_options_next(argc, argv, "+:h", options)) != -1) {
        int code = parse_option(demo, c, argv);
        if (code != RT_EXIT_OK || demo->shown)
            return code;
    }
    if (optind < argc)
        return rt_out_usage("demo", "unexpected argument '%s'", argv[optind]);
    return RT_EXIT_OK;
}

/* ---- Where it is held --------------------------------------------------- */

static int choose_place(struct demo *demo, const struct rt_cli *cli)
{
    int code = rt_scratch_make(&demo->scratch, "demo");

    if (code != RT_EXIT_OK)
        return code;
    snprintf(demo->path, sizeof(demo->path), "%.*s/stock", (int)sizeof(demo->path) - 16,
             demo->scratch.folder);
    snprintf(demo->name, sizeof(demo->name), "rota-demo-%ld", (long)getpid());
    return rt_scratch_engine(&demo->scratch, cli);
}

/* ---- What it prints ----------------------------------------------------- */

static int64_t oversold(const struct rt_sale *sale)
{
    return (int64_t)sale->sold - (int64_t)sale->stock;
}

static bool is_exact(const struct rt_sale *sale)
{
    return sale->sold == sale->stock && sale->left == 0;
}

static double rate(const struct rt_sale *sale)
{
    return sale->seconds > 0 ? (double)sale->sold / sale->seconds : 0;
}

static void print_head(const struct demo *demo)
{
    printf("A flash sale: a stock of %" PRIu32 ", %" PRIu32
           " buyers at once, each a process; locks are on %s\n"
           "Each looks at the stock, thinks for %d ms, and writes back one less.\n\n"
           "%-26s %6s %9s %8s %8s %9s %12s %7s\n",
           demo->stock, demo->buyers, demo->scratch.shown, RT_SHOP_THINK_US / 1000, "", "sold",
           "too many", "time", "rate", "per buyer", "longest wait", "retries");
    fflush(stdout);
}

static void print_row(const struct row *row)
{
    const struct rt_sale *sale = &row->sale;
    const char *color = rt_out_color(stdout, is_exact(sale) ? RT_OUT_GREEN : RT_OUT_RED);
    char per_buyer[48], wait[32] = "-", retries[32] = "-";

    if (row->left_out[0] != '\0') {
        printf("%-26.26s left out: %s\n", row->title, row->left_out);
        return;
    }
    snprintf(per_buyer, sizeof(per_buyer), "%" PRIu64 "-%" PRIu64, sale->least, sale->most);
    if (sale->url != NULL) {
        snprintf(wait, sizeof(wait), "%.0f ms", sale->longest_ms);
        snprintf(retries, sizeof(retries), "%" PRIu64, sale->retries);
    }
    printf("%-26.26s %6" PRIu64 " %s%9" PRId64 "%s %6.2f s %6.0f/s %9s %12s %7s\n", row->title,
           sale->sold, color, oversold(sale), rt_out_color(stdout, RT_OUT_PLAIN), sale->seconds,
           rate(sale), per_buyer, wait, retries);
    fflush(stdout);
}

/* The rates of those with a lock, side by side; one alone needs no picture. */
static void print_bars(const struct demo *demo)
{
    double most = 0;

    for (size_t i = 1; i < demo->count; i++)
        most = rate(&demo->rows[i].sale) > most ? rate(&demo->rows[i].sale) : most;
    if (demo->count < 3 || most <= 0)
        return;
    printf("\nSold per second, with a lock:\n");
    for (size_t i = 1; i < demo->count; i++) {
        int length = (int)(rate(&demo->rows[i].sale) / most * BAR + 0.5);
        if (demo->rows[i].left_out[0] != '\0')
            continue;
        printf("  %-24.24s ", demo->rows[i].title);
        for (int k = 0; k < length || k == 0; k++)
            fputs("\u2588", stdout);
        printf(" %.0f/s\n", rate(&demo->rows[i].sale));
    }
}

static void print_verdict(const struct rt_sale *bare, const struct rt_sale *locked)
{
    if (oversold(bare) > 0)
        printf("\nWithout a lock %" PRId64 " too many were sold: items that did not exist.\n",
               oversold(bare));
    else
        printf("\nWithout a lock nothing went wrong: luck, this time.\n");
    if (is_exact(locked))
        printf("With the lock each buyer waited for its turn: exactly %" PRIu32 " sold.\n",
               locked->stock);
    else
        printf("With the lock %" PRIu64 " of %" PRIu32 " were sold: this engine failed.\n",
               locked->sold, locked->stock);
}

static json_t *sale_json(const struct rt_sale *sale)
{
    return json_pack("{s:b, s:I, s:I, s:I, s:b, s:f, s:f, s:I, s:I, s:f, s:I}", "locked",
                     sale->url != NULL, "sold", (json_int_t)sale->sold, "oversold",
                     (json_int_t)oversold(sale), "left", (json_int_t)sale->left, "exact",
                     is_exact(sale), "seconds", sale->seconds, "per_second", rate(sale),
                     "least_per_buyer", (json_int_t)sale->least, "most_per_buyer",
                     (json_int_t)sale->most, "longest_wait_ms", sale->longest_ms, "retries",
                     (json_int_t)sale->retries);
}

static json_t *dialects_json(const struct demo *demo)
{
    json_t *list = json_array();

    for (size_t i = 2; i < demo->count && list != NULL; i++) {
        const struct row *row = &demo->rows[i];
        bool held = row->left_out[0] == '\0';
        json_array_append_new(list, json_pack("{s:s, s:b, s:o, s:s?}", "dialect",
                                              row->strategy.dialect, "unsafe", row->strategy.unsafe,
                                              "sale", held ? sale_json(&row->sale) : json_null(),
                                              "left_out", held ? NULL : row->left_out));
    }
    return list;
}

static int print_json(const struct demo *demo)
{
    json_t *all = json_pack("{s:s, s:I, s:I, s:o, s:o, s:o}", "engine", demo->scratch.shown,
                            "buyers", (json_int_t)demo->buyers, "stock", (json_int_t)demo->stock,
                            "without_lock", sale_json(&demo->rows[0].sale), "with_lock",
                            sale_json(&demo->rows[1].sale), "dialects", dialects_json(demo));

    if (all == NULL) {
        rt_out_error("cannot write JSON: out of memory, or the URL is not UTF-8");
        return RT_EXIT_INTERNAL;
    }
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
    return RT_EXIT_OK;
}

static int save_svg(const struct demo *demo)
{
    static struct rt_figures figures = {.of = "demo"}; /* static: it is large */
    struct rt_save save;

    figures.engine = demo->scratch.shown;
    for (size_t i = 0; i < demo->count; i++) {
        const struct row *row = &demo->rows[i];
        if (row->left_out[0] == '\0')
            rt_figures_add(&figures, "sold per second", rate(&row->sale), "/s", "%s%s", row->title,
                           is_exact(&row->sale) ? "" : " (oversold)")
                ->more = true;
    }
    for (size_t i = 1; i < demo->count; i++)
        if (demo->rows[i].left_out[0] == '\0')
            rt_figures_add(&figures, "longest wait", demo->rows[i].sale.longest_ms, "ms", "%s",
                           demo->rows[i].title);
    int code = rt_save_begin(&save, demo->svg);
    if (code != RT_EXIT_OK)
        return code;
    rt_figures_svg(&figures, save.file);
    return rt_save_end(&save);
}

/* ---- The sales ---------------------------------------------------------- */

/* Chooses the rows: one without a lock, and one for each way that the engine has. */
static void choose_rows(struct demo *demo)
{
    struct rt_strategy strategies[RT_STRATEGIES_MOST];
    size_t count = rt_strategies_of(demo->scratch.url, strategies);
    struct row *row = &demo->rows[0];

    snprintf(row->title, sizeof(row->title), "without a lock");
    demo->count = 1;
    for (size_t i = 0; i < count; i++) {
        row = &demo->rows[demo->count];
        row->strategy = strategies[i];
        if (!rt_strategies_url(&strategies[i], demo->scratch.url, row->url, sizeof(row->url)))
            continue;
        if (i == 0)
            snprintf(row->title, sizeof(row->title), "with Rota's own line");
        else
            snprintf(row->title, sizeof(row->title), "dialect %s%s", strategies[i].dialect,
                     strategies[i].unsafe ? " (unsafe)" : "");
        row->sale.url = row->url;
        demo->count++;
    }
    for (size_t i = 0; i < demo->count; i++) {
        struct rt_sale *sale = &demo->rows[i].sale;
        sale->path = demo->path;
        sale->name = demo->name;
        sale->title = demo->rows[i].title;
        sale->buyers = demo->buyers;
        sale->stock = demo->stock;
    }
}

/* Whether a dialect opens here; else why not. No client may be open when the sale forks. */
static bool opens(struct row *row)
{
    struct rota *r;

    if (rota_open(&r, row->url, &(struct rota_options){.flags = ROTA_NO_KEEPER}) == 0) {
        rota_close(r);
        return true;
    }
    snprintf(row->left_out, sizeof(row->left_out), "%s", rota_errmsg(NULL));
    return false;
}

static int hold_sales(struct demo *demo)
{
    choose_rows(demo);
    demo->exact = true;
    if (!demo->json)
        print_head(demo);
    for (size_t i = 0; i < demo->count; i++) {
        struct row *row = &demo->rows[i];
        if (i < 2 || opens(row)) {
            int code = rt_sale_hold(&row->sale);
            if (code != RT_EXIT_OK)
                return code;
            demo->exact = demo->exact && (i == 0 || row->strategy.unsafe || is_exact(&row->sale));
        }
        if (!demo->json)
            print_row(row);
    }
    return RT_EXIT_OK;
}

static int report(const struct demo *demo)
{
    int code = RT_EXIT_OK;

    if (demo->json) {
        code = print_json(demo);
    } else {
        print_bars(demo);
        print_verdict(&demo->rows[0].sale, &demo->rows[1].sale);
    }
    if (rt_out_flush() != RT_EXIT_OK)
        return RT_EXIT_FAILED;
    if (code == RT_EXIT_OK && demo->svg != NULL)
        code = save_svg(demo);
    return code;
}

int rt_demo_main(const struct rt_cli *cli, int argc, char **argv)
{
    static struct demo demo = {.buyers = 8, .stock = 100}; /* static: its paths are large */

    if (argc > 1 && strcmp(argv[1], "traps") == 0)
        return rt_traps_main(cli, argc - 1, argv + 1);
    if (argc > 1 && (strcmp(argv[1], "bank") == 0 || strcmp(argv[1], "order") == 0))
        return rt_txn_main(cli, argc + 1, argv - 1); /* there is always a word before ours */
    if (argc > 1 && strcmp(argv[1], "outbox") == 0)
        return rt_relay_main(cli, argc + 1, argv - 1); /* the same */
    int code = parse(&demo, argc, argv);
    if (code != RT_EXIT_OK || demo.shown)
        return code;
    rt_sale_catch_signals();
    code = choose_place(&demo, cli);
    if (code == RT_EXIT_OK)
        code = hold_sales(&demo);
    if (code == RT_EXIT_OK)
        code = report(&demo);
    if (code == RT_EXIT_OK && !demo.exact)
        code = RT_EXIT_FAILED;
    rt_scratch_remove(&demo.scratch);
    return code;
}
