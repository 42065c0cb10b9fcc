/* SPDX-License-Identifier: Apache-2.0 */
/* rota elect: runs the command as the leader, one at a time, with a value for observers. */
#include "cli/cli.h"
#include "cli/hold.h"
#include "cli/options.h"
#include "cli/out.h"

#include <getopt.h>
#include <string.h>

enum { OPT_VALUE = 256, OPT_TTL };

static int parse_ttl(struct rt_hold *hold, const char *text)
{
    uint64_t ms;

    if (!rt_options_duration_ms(text, &ms) || ms < 1000 || ms > 3600 * 1000)
        return rt_out_usage("elect", "--ttl '%s' is not a time from 1s to 1h", text);
    hold->options.ttl_ms = (uint32_t)ms;
    return RT_EXIT_OK;
}

static int parse_option(struct rt_hold *hold, int c, char **argv)
{
    switch (c) {
    case OPT_VALUE:
        /* Now, not when it finally leads, perhaps days from now. */
        if (strlen(optarg) > ROTA_VALUE_MAX)
            return rt_out_usage("elect", "--value is longer than %d bytes", ROTA_VALUE_MAX);
        hold->value = optarg;
        return RT_EXIT_OK;
    case OPT_TTL:
        return parse_ttl(hold, optarg);
    default:
        return rt_options_complain("elect", argv, c);
    }
}

/* Up to the next word that is not an option. */
static int parse_options(struct rt_hold *hold, int argc, char **argv, bool *done)
{
    static const struct option options[] = {
        {"value", required_argument, NULL, OPT_VALUE},
        {"ttl", required_argument, NULL, OPT_TTL},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = rt_options_next(argc, argv, "+:h", options)) != -1) {
        if (c == 'h') {
            *done = true;
            return rt_help_print(rt_command_find("elect"));
        }
        int code = parse_option(hold, c, argv);
        if (code != RT_EXIT_OK)
            return code;
    }
    return RT_EXIT_OK;
}

/* Options stand before the name or after it; then the command. */
static int parse(struct rt_hold *hold, int argc, char **argv, bool *done)
{
    optind = 0; /* glibc: begin anew, with another argv */
    int code = parse_options(hold, argc, argv, done);
    if (code != RT_EXIT_OK || *done)
        return code;
    if (optind >= argc)
        return rt_out_usage("elect", "the name of the election is missing");
    hold->name = argv[optind++];
    code = parse_options(hold, argc, argv, done);
    if (code != RT_EXIT_OK || *done)
        return code;
    if (optind >= argc)
        return rt_out_usage("elect", "the command is missing: rota elect %s -- COMMAND",
                            hold->name);
    hold->command = argv + optind;
    return RT_EXIT_OK;
}

int rt_elect_main(const struct rt_cli *cli, int argc, char **argv)
{
    struct rt_hold hold;
    bool done = false;

    rt_hold_init(&hold);
    hold.noun = "leadership";
    int code = parse(&hold, argc, argv, &done);
    if (code != RT_EXIT_OK || done)
        return code;
    code = rt_hold_open(&hold, cli);
    if (code == RT_EXIT_OK) {
        if (hold.value == NULL)
            hold.value = hold.label;
        code = rt_hold_run(&hold);
    }
    rt_hold_close(&hold);
    return code;
}
