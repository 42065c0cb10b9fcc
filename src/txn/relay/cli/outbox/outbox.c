/* SPDX-License-Identifier: Apache-2.0 */
/* rota demo outbox: what it says. */
#include "txn/relay/cli/outbox/outbox.h"

#include "cli/json.h"
#include "cli/options.h"
#include "cli/out.h"
#include "txn/cli/watched.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "Usage: rota demo outbox [OPTION]...\n"
    "A shop takes orders, and a mail service sends a mail for each. The shop is\n"
    "killed after some of its COMMITs. By hand (the row, then the message), those\n"
    "mails never come. With an event in the order's transaction and 'rota relay', all\n"
    "of them do, once, although the relay and the broker are killed as well. The\n"
    "terminal shows the events going through their states. Starts a Redis, if it is\n"
    "installed, and keeps the orders in SQLite, in a temporary folder.\n"
    "\n"
    "      --from URL        use this database: postgres://, mysql://, sqlite:; it\n"
    "                        gets tables rota_demo_..., which are dropped at the\n"
    "                        end, and those of the relay\n"
    "      --to URL          use this Redis; it is not killed then\n"
    "      --orders N        how many orders (100)\n"
    "      --json            one JSON object\n"
    "Exit: 0; 1 if with the outbox a mail is lost, or sent twice; 69 if it cannot\n"
    "run here.\n";

enum { FROM = 256, TO, ORDERS, JSON };

static int complain(const char *format, const char *word)
{
    char line[300];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(line, sizeof(line), format, word);
#pragma GCC diagnostic pop
    rt_out_error("demo outbox: %s; see 'rota demo outbox --help'", line);
    return RT_EXIT_USAGE;
}

static int take(struct rt_outbox *o, int c, char **argv)
{
    switch (c) {
    case FROM:
        o->from_given = optarg;
        snprintf(o->from, sizeof(o->from), "%s", optarg);
        return RT_EXIT_OK;
    case TO:
        o->to_given = optarg;
        snprintf(o->to, sizeof(o->to), "%s", optarg);
        if (strncmp(optarg, "redis", 5) == 0)
            return RT_EXIT_OK;
        return complain("--to '%s': the mail service reads from Redis only, redis://HOST", optarg);
    case ORDERS:
        if (rt_options_number(optarg, 10, 100000, &o->orders))
            return RT_EXIT_OK;
        return complain("--orders '%s' is not a number from 10 to 100000", optarg);
    case JSON:
        o->json = true;
        return RT_EXIT_OK;
    default:
        return complain(c == ':' ? "option '%s' needs a value" : "option '%s' is not known",
                        argv[optind - 1]);
    }
}

static int parse(struct rt_outbox *o, int argc, char **argv, bool *shown)
{
    static const struct option options[] = {{"from", required_argument, NULL, FROM},
                                            {"to", required_argument, NULL, TO},
                                            {"orders", required_argument, NULL, ORDERS},
                                            {"json", no_argument, NULL, JSON},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int c;

    optind = 0; /* glibc: begin anew, with another argv */
    opterr = 0;
    while ((c = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
        if (c == 'h') {
            *shown = true;
            fputs(help, stdout);
            return rt_out_flush();
        }
        int code = take(o, c, argv);
        if (code != RT_EXIT_OK)
            return code;
    }
    return optind < argc ? complain("unexpected argument '%s'", argv[optind]) : RT_EXIT_OK;
}

static json_t *sum_json(const struct rt_outbox_sum *s)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I, s:I}}", "orders", (json_int_t)s->orders,
        "mails", (json_int_t)s->mails, "lost", (json_int_t)s->lost, "twice", (json_int_t)s->twice,
        "again", (json_int_t)s->again, "killed", "shop", (json_int_t)s->shop, "relay",
        (json_int_t)s->relay, "mail", (json_int_t)s->mail, "broker", (json_int_t)s->broker);
}

static int play(void *arg)
{
    struct rt_outbox *o = arg;
    int code = rt_outbox_play(o);

    if (o->json && (code == RT_EXIT_OK || code == RT_EXIT_FAILED)) {
        int printed = rt_json_print(json_pack("{s:o, s:o, s:b}", "by_hand", sum_json(&o->hand),
                                              "outbox", sum_json(&o->outbox), "exact",
                                              code == RT_EXIT_OK),
                                    false);
        code = code == RT_EXIT_OK ? printed : code;
    }
    int flushed = rt_out_flush();
    return code == RT_EXIT_OK ? flushed : code;
}

int rt_outbox_demo(int argc, char **argv)
{
    static struct rt_outbox o = {.orders = 100}; /* static: its paths are large */
    bool shown = false, stopped;

    int code = parse(&o, argc, argv, &shown);
    if (code != RT_EXIT_OK || shown)
        return code;
    code = rt_scratch_make(&o.scratch, "outbox");
    if (code == RT_EXIT_OK)
        code = rt_watched_run(play, &o, &stopped);
    rt_scratch_remove(&o.scratch);
    return code;
}
