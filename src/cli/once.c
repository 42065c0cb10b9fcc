/* SPDX-License-Identifier: Apache-2.0 */
/* rota once: of all who come with a key, one runs the command. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/hold.h"
#include "cli/options.h"
#include "cli/out.h"

#include <getopt.h>
#include <unistd.h>

struct once {
    struct rt_hold hold;
    uint64_t for_ms; /* 0: for ever */
    bool keep_failed;
    bool shown; /* help was asked for */
};

enum { OPT_FOR = 256, OPT_KEEP_FAILED };

static int parse_for(struct once *once, const char *text)
{
    if (rt_options_duration_ms(text, &once->for_ms) && once->for_ms > 0)
        return RT_EXIT_OK;
    if (rt_options_too_long(text))
        return rt_out_usage("once", "--for '%s' is too long: 366d at most; for ever without it",
                            text);
    return rt_out_usage("once", "--for '%s' is not a time such as 30s, 5m, 24h or 7d", text);
}

static int parse_exit(struct once *once, const char *text)
{
    uint64_t code;

    if (!rt_options_number(text, 0, 255, &code))
        return rt_out_usage("once", "-E '%s' is not an exit code from 0 to 255", text);
    once->hold.busy_exit = (int)code;
    return RT_EXIT_OK;
}

static int parse_option(struct once *once, int c, char **argv)
{
    switch (c) {
    case OPT_FOR:
        return parse_for(once, optarg);
    case OPT_KEEP_FAILED:
        once->keep_failed = true;
        return RT_EXIT_OK;
    case 'E':
        return parse_exit(once, optarg);
    case 'h':
        once->shown = true;
        return rt_help_print(rt_command_find("once"));
    default:
        return rt_options_complain("once", argv, c);
    }
}

/* Up to the next word that is not an option. */
static int parse_options(struct once *once, int argc, char **argv)
{
    static const struct option options[] = {
        {"for", required_argument, NULL, OPT_FOR},
        {"keep-failed", no_argument, NULL, OPT_KEEP_FAILED},
        {"conflict-exit-code", required_argument, NULL, 'E'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = rt_options_next(argc, argv, "+:E:h", options)) != -1) {
        int code = parse_option(once, c, argv);
        if (code != RT_EXIT_OK || once->shown)
            return code;
    }
    return RT_EXIT_OK;
}

/* Options stand before the key or after it; then the command. */
static int parse(struct once *once, int argc, char **argv)
{
    optind = 0; /* glibc: begin anew, with another argv */
    int code = parse_options(once, argc, argv);
    if (code != RT_EXIT_OK || once->shown)
        return code;
    if (optind >= argc)
        return rt_out_usage("once", "the key is missing");
    once->hold.name = argv[optind++];
    code = parse_options(once, argc, argv);
    if (code != RT_EXIT_OK || once->shown)
        return code;
    if (optind >= argc)
        return rt_out_usage("once", "the command is missing: rota once %s -- COMMAND",
                            once->hold.name);
    once->hold.command = argv + optind;
    return RT_EXIT_OK;
}

/* Somebody has the key. If it is a lock that happens to be held, nothing was done: skipping the command silently would
 * be a lie. */
static int skip(const struct once *once)
{
    const struct rt_hold *hold = &once->hold;
    struct rota_line *line;

    int err = rota_inspect(hold->client, hold->name, &line);
    if (err != 0)
        return rt_connect_report(hold->client, err, "");
    bool lock = line->count > 0 && (line->places[0].flags & ROTA_PLACE_DURABLE) == 0;
    rota_line_free(line);
    if (lock) {
        rt_out_error("'%s' is in use as a lock; choose another key", hold->name);
        return RT_EXIT_BUSY;
    }
    if (isatty(STDERR_FILENO))
        rt_out_error("'%s' was done by somebody before", hold->name);
    return hold->busy_exit;
}

static int win(struct once *once, uint64_t fence)
{
    struct rt_hold *hold = &once->hold;
    int code = rt_hold_command(hold, fence);

    if (code == RT_EXIT_OK || once->keep_failed)
        return code;
    int err = rota_break(hold->client, hold->name, fence);
    if (err != 0 && err != ROTA_LOST)
        rt_connect_report(hold->client, err, "the command failed and its claim stays: ");
    return code;
}

int rt_once_main(const struct rt_cli *cli, int argc, char **argv)
{
    struct once once = {.for_ms = 0};
    uint64_t fence;

    rt_hold_init(&once.hold);
    once.hold.busy_exit = RT_EXIT_OK;
    int code = parse(&once, argc, argv);
    if (code != RT_EXIT_OK || once.shown)
        return code;
    code = rt_hold_open(&once.hold, cli);
    if (code == RT_EXIT_OK) {
        int err = rota_once(once.hold.client, once.hold.name, once.for_ms, &fence);
        if (err == 0)
            code = win(&once, fence);
        else if (err == ROTA_BUSY)
            code = skip(&once);
        else
            code = rt_connect_report(once.hold.client, err, "");
    }
    rt_hold_close(&once.hold);
    return code;
}
