/* SPDX-License-Identifier: Apache-2.0 */
/* rota demo order: what it says. */
#include "txn/cli/order/order.h"

#include "cli/out.h"
#include "cli/scratch.h"
#include "txn/cli/args.h"
#include "txn/cli/order/play.h"
#include "txn/cli/watched.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "Usage: rota demo order [--fail WHAT] [--json]\n"
    "Order, stock and payment are three services, each with its own HTTP server and\n"
    "SQLite database. They take part by try, confirm and cancel; a coordinator writes\n"
    "the decision to a journal. Each step is drawn as it happens; at the end come the\n"
    "sums of the three databases, and what they prove. Needs no server; everything is\n"
    "in a temporary folder, which is removed at the end.\n"
    "\n"
    "      --fail WHAT       stock: there is not enough\n"
    "                        payment: it cannot be paid\n"
    "                        coordinator: it is killed before the decision, then\n"
    "                        after it; another process finishes\n"
    "                        network: calls come twice, get lost, or come too late\n"
    "      --json            one JSON object\n"
    "Exit: 0; 1 if a sum is wrong; 69 if it cannot run here.\n";

/* False: TEXT is none of them. */
static bool read_fail(const char *text, enum rt_order_fail *out)
{
    for (int i = 1; i < RT_ORDER_FAILS; i++)
        if (strcmp(text, rt_order_fails[i]) == 0) {
            *out = (enum rt_order_fail)i;
            return true;
        }
    return false;
}

static int parse(struct rt_play *play, struct rt_args *args, int argc, char **argv, bool *shown)
{
    static const struct option options[] = {{"fail", required_argument, NULL, 'f'},
                                            {NULL, 0, NULL, 0}};
    int c;

    while ((c = rt_args_next(args, argc, argv, "+:h", options)) != -1) {
        if (c == 'h') {
            *shown = true;
            fputs(help, stdout);
            return rt_out_flush();
        }
        if (c != 'f')
            return rt_args_other("demo", argv, c);
        if (!read_fail(optarg, &play->fail))
            return rt_args_usage("demo", "--fail '%s': stock, payment, coordinator or network",
                                 optarg);
    }
    if (optind < argc)
        return rt_args_usage("demo", "unexpected argument '%s'", argv[optind]);
    play->json = args->json;
    return RT_EXIT_OK;
}

int rt_order_demo(struct rt_args *args, int argc, char **argv)
{
    static struct rt_scratch scratch; /* static: its paths are large */
    struct rt_play play = {.folder = scratch.folder};
    bool shown = false, stopped;

    int code = parse(&play, args, argc, argv, &shown);
    if (code != RT_EXIT_OK || shown)
        return code;
    code = rt_scratch_make(&scratch, "order");
    if (code == RT_EXIT_OK)
        code = rt_watched_run(rt_play_run, &play, &stopped);
    rt_scratch_remove(&scratch);
    return code;
}
