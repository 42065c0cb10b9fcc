/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that look at lines have in common: their options. */
#ifndef RT_LOOK_H
#define RT_LOOK_H

#include "cli/cli.h"

enum rt_look_operand { RT_LOOK_NO_NAME, RT_LOOK_MAY_NAME, RT_LOOK_NAME };

#define RT_LOOK_TAKES_FENCE 0x1u
#define RT_LOOK_TAKES_ONE 0x2u
#define RT_LOOK_TAKES_DDL 0x4u

struct rt_look {
    const char *command;
    enum rt_look_operand operand;
    unsigned takes; /* RT_LOOK_TAKES_*: options besides --json and --help */

    const char *name;  /* NULL: none was given */
    const char *fence; /* --fence; NULL: none */
    bool json;
    bool one;  /* -1 */
    bool ddl;  /* --ddl */
    bool done; /* help was shown, there is nothing to do */
};

/* Reads ARGV; LOOK points into it afterwards. Options may stand before and after the name.
 * Returns an exit code: RT_EXIT_OK, or a message was printed. */
int rt_look_parse(struct rt_look *look, int argc, char **argv);

#endif
