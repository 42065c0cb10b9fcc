/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that look at lines have in common: their options. */
#include "cli/look.h"

#include "cli/options.h"
#include "cli/out.h"

#include <getopt.h>

enum { OPT_JSON = 256, OPT_FENCE, OPT_DDL };

static int parse_option(struct rt_look *look, int c, char **argv)
{
    if (c == OPT_JSON) {
        look->json = true;
    } else if (c == OPT_FENCE && (look->takes & RT_LOOK_TAKES_FENCE) != 0) {
        look->fence = optarg;
    } else if (c == '1' && (look->takes & RT_LOOK_TAKES_ONE) != 0) {
        look->one = true;
    } else if (c == OPT_DDL && (look->takes & RT_LOOK_TAKES_DDL) != 0) {
        look->ddl = true;
    } else if (c == OPT_FENCE || c == OPT_DDL || c == '1') {
        const char *option = c == '1' ? "-1" : c == OPT_DDL ? "--ddl" : "--fence";
        return rt_out_usage(look->command, "option '%s' is not known", option);
    } else {
        return rt_options_complain(look->command, argv, c);
    }
    return RT_EXIT_OK;
}

static int parse_operands(struct rt_look *look, int argc, char **argv)
{
    int most = look->operand == RT_LOOK_NO_NAME ? 0 : 1;

    if (argc > most)
        return rt_out_usage(look->command, "unexpected argument '%s'", argv[most]);
    if (argc == 0 && look->operand == RT_LOOK_NAME)
        return rt_out_usage(look->command, "the name of the lock is missing");
    look->name = argc > 0 ? argv[0] : NULL;
    return RT_EXIT_OK;
}

int rt_look_parse(struct rt_look *look, int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, OPT_JSON},
        {"fence", required_argument, NULL, OPT_FENCE},
        {"ddl", no_argument, NULL, OPT_DDL},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    optind = 0; /* glibc: begin anew, with another argv */
    while ((c = rt_options_next(argc, argv, ":1h", options)) != -1) {
        if (c == 'h') {
            look->done = true;
            return rt_help_print(rt_command_find(look->command));
        }
        int code = parse_option(look, c, argv);
        if (code != RT_EXIT_OK)
            return code;
    }
    return parse_operands(look, argc - optind, argv + optind);
}
