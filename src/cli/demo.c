/* SPDX-License-Identifier: Apache-2.0 */
/* rota demo: the flash sale, first without a lock, then with one. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/sale.h"
#include "cli/shop.h"

#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define URL_MAX 4096 /* as much as the library takes */

struct demo {
    uint32_t buyers, stock;
    bool json;
    bool shown;            /* help was asked for */
    char folder[PATH_MAX]; /* temporary */
    char path[PATH_MAX];   /* the stock's file in it */
    char url[URL_MAX];     /* where the locks are */
    char engine[URL_MAX];  /* the same, to be printed */
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
    while ((c = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
        int code = parse_option(demo, c, argv);
        if (code != RT_EXIT_OK || demo->shown)
            return code;
    }
    if (optind < argc)
        return rt_out_usage("demo", "'%s' is too much", argv[optind]);
    return RT_EXIT_OK;
}

/* ---- The temporary folder ----------------------------------------------- */

/* "file:" and PATH, its unusual bytes as %XX. False: too long. */
static bool format_url(char *url, size_t size, const char *path)
{
    size_t n = (size_t)snprintf(url, size, "file:");

    for (const char *p = path; *p != '\0'; p++) {
        bool plain = strchr("?#%", *p) == NULL && (unsigned char)*p > ' ';
        if (n + 4 > size)
            return false;
        n += (size_t)snprintf(url + n, size - n, plain ? "%c" : "%%%02X", (unsigned char)*p);
    }
    return true;
}

static int make_folder(struct demo *demo)
{
    const char *tmp = getenv("TMPDIR");

    if (tmp == NULL || tmp[0] != '/')
        tmp = "/tmp";
    int n = snprintf(demo->folder, sizeof(demo->folder), "%s/rota-demo.XXXXXX", tmp);
    if (n >= (int)sizeof(demo->folder) - 16) {
        rt_out_error("TMPDIR is too long");
        return RT_EXIT_USAGE;
    }
    if (mkdtemp(demo->folder) == NULL) {
        rt_out_error("cannot make a folder in %s: %s; set TMPDIR to another place", tmp,
                     strerror(errno));
        demo->folder[0] = '\0';
        return RT_EXIT_UNREACHABLE;
    }
    snprintf(demo->path, sizeof(demo->path), "%.*s/stock", (int)sizeof(demo->path) - 16,
             demo->folder);
    return RT_EXIT_OK;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void remove_folder(const struct demo *demo)
{
    if (demo->folder[0] != '\0')
        nftw(demo->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Where the locks are: as chosen, else embedded, in the temporary folder. */
static int choose_engine(struct demo *demo, const struct rt_cli *cli)
{
    const char *url = rt_connect_url(cli);
    char locks[PATH_MAX + 8];
    bool fits;

    int code = rt_connect_check(url);
    if (code != RT_EXIT_OK)
        return code;
    snprintf(demo->name, sizeof(demo->name), "rota-demo-%ld", (long)getpid());
    if (url != NULL) {
        fits = (size_t)snprintf(demo->url, sizeof(demo->url), "%s", url) < sizeof(demo->url);
        rt_connect_redact(url, demo->engine, sizeof(demo->engine));
    } else {
        snprintf(locks, sizeof(locks), "%s/locks", demo->folder);
        fits = format_url(demo->url, sizeof(demo->url), locks);
        snprintf(demo->engine, sizeof(demo->engine), "file:");
    }
    if (fits)
        return RT_EXIT_OK;
    rt_out_error("the engine's URL is too long: %d bytes at most", URL_MAX - 1);
    return RT_EXIT_USAGE;
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
           "%-24s %7s %9s %9s %9s %10s\n",
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
    printf("%-24.24s %7" PRIu64 " %s%9" PRId64 "%s %7.2f s %7.0f/s %10s\n", sale->title, sale->sold,
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
    json_t *all = json_pack("{s:s, s:I, s:I, s:o, s:o}", "engine", demo->engine, "buyers",
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
        .path = demo->path, .url = demo->url, .name = demo->name, .title = title};

    snprintf(title, sizeof(title), "with %.50s", demo->engine);
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

    int code = parse(&demo, argc, argv);
    if (code != RT_EXIT_OK || demo.shown)
        return code;
    rt_sale_catch_signals();
    code = make_folder(&demo);
    if (code == RT_EXIT_OK)
        code = choose_engine(&demo, cli);
    if (code == RT_EXIT_OK)
        code = hold_sales(&demo);
    remove_folder(&demo);
    return code;
}
