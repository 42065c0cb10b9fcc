/* SPDX-License-Identifier: Apache-2.0 */
/* rota demo: the flash sale, first without a lock, then with one. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/sale.h"
#include "cli/scratch.h"
#include "cli/shop.h"
#include "cli/traps/traps.h"

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct demo {
    uint32_t buyers, stock;
    bool json;
    bool shown; /* help was asked for */
    struct rt_scratch scratch;
    char path[PATH_MAX]; /* the stock's file in it */
    char name[64];
};

enum { OPT_BUYERS = 256, OPT_STOCK, OPT_JSON };

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
        return rt_out_usage("demo", "'%s' is too much", argv[optind]);
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
    printf("A flash sale: a stock of %" PRIu32 ", %" PRIu32 " buyers at once, each a process.\n"
           "Each looks at the stock, thinks for %d ms, and writes back one less.\n\n"
           "%-30s %7s %9s %9s %9s %10s\n",
           demo->stock, demo->buyers, RT_SHOP_THINK_US / 1000, "", "sold", "too many", "time",
           "rate", "per buyer");
    fflush(stdout);
}

static void print_row(const struct rt_sale *sale)
{
    const char *color = is_exact(sale) ? "\033[32m" : "\033[31m";
    bool colored = rt_out_colored(stdout);
    char per_buyer[48];

    snprintf(per_buyer, sizeof(per_buyer), "%" PRIu64 "-%" PRIu64, sale->least, sale->most);
    printf("%-30.30s %7" PRIu64 " %s%9" PRId64 "%s %7.2f s %7.0f/s %10s\n", sale->title, sale->sold,
           colored ? color : "", oversold(sale), colored ? "\033[0m" : "", sale->seconds,
           rate(sale), per_buyer);
    fflush(stdout);
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
    return json_pack("{s:b, s:I, s:I, s:I, s:b, s:f, s:f, s:I, s:I}", "locked", sale->url != NULL,
                     "sold", (json_int_t)sale->sold, "oversold", (json_int_t)oversold(sale), "left",
                     (json_int_t)sale->left, "exact", is_exact(sale), "seconds", sale->seconds,
                     "per_second", rate(sale), "least_per_buyer", (json_int_t)sale->least,
                     "most_per_buyer", (json_int_t)sale->most);
}

static int print_json(const struct demo *demo, const struct rt_sale *bare,
                      const struct rt_sale *locked)
{
    json_t *all = json_pack("{s:s, s:I, s:I, s:o, s:o}", "engine", demo->scratch.shown, "buyers",
                            (json_int_t)demo->buyers, "stock", (json_int_t)demo->stock,
                            "without_lock", sale_json(bare), "with_lock", sale_json(locked));

    if (all == NULL) {
        rt_out_error("cannot write JSON: out of memory, or the URL is not UTF-8");
        return RT_EXIT_INTERNAL;
    }
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
    return RT_EXIT_OK;
}

/* ---- The two sales ------------------------------------------------------ */

static int hold_sales(const struct demo *demo)
{
    char title[64];
    struct rt_sale bare = {.path = demo->path, .title = "without a lock"};
    struct rt_sale locked = {
        .path = demo->path, .url = demo->scratch.url, .name = demo->name, .title = title};

    snprintf(title, sizeof(title), "with %.50s", demo->scratch.shown);
    bare.buyers = locked.buyers = demo->buyers;
    bare.stock = locked.stock = demo->stock;
    if (!demo->json)
        print_head(demo);
    int code = rt_sale_hold(&bare);
    if (code != RT_EXIT_OK)
        return code;
    if (!demo->json)
        print_row(&bare);
    code = rt_sale_hold(&locked);
    if (code != RT_EXIT_OK)
        return code;
    if (demo->json) {
        code = print_json(demo, &bare, &locked);
    } else {
        print_row(&locked);
        print_verdict(&bare, &locked);
    }
    if (rt_out_flush() != RT_EXIT_OK || code != RT_EXIT_OK)
        return code != RT_EXIT_OK ? code : RT_EXIT_FAILED;
    return is_exact(&locked) ? RT_EXIT_OK : RT_EXIT_FAILED;
}

int rt_demo_main(const struct rt_cli *cli, int argc, char **argv)
{
    static struct demo demo = {.buyers = 8, .stock = 100}; /* static: its paths are large */

    if (argc > 1 && strcmp(argv[1], "traps") == 0)
        return rt_traps_main(cli, argc - 1, argv + 1);
    int code = parse(&demo, argc, argv);
    if (code != RT_EXIT_OK || demo.shown)
        return code;
    rt_sale_catch_signals();
    code = choose_place(&demo, cli);
    if (code == RT_EXIT_OK)
        code = hold_sales(&demo);
    rt_scratch_remove(&demo.scratch);
    return code;
}
