/* SPDX-License-Identifier: Apache-2.0 */
/* Options that every command of rota-txn has, and how it complains. */
#ifndef RT_ARGS_H
#define RT_ARGS_H

#include "txn/cli/cli.h"
#include "txn/id.h"

#include <getopt.h>

struct rt_args {
    const char *journal;   /* --journal; NULL: $ROTA_JOURNAL, else the default */
    const char *resources; /* --resources; NULL: the default */
    bool json;
};

/* Like getopt_long, over OPTIONS and those above, which are handled here. 'h': help was asked for. */
int rt_args_next(struct rt_args *args, int argc, char **argv, const char *letters,
                 const struct option *options);
void rt_args_rewind(void); /* before reading another argv */

/* For what rt_args_next returned, if it is not one of the command's options: prints its help ('h'; RT_EXIT_OK), or
 * complains (RT_EXIT_USAGE). */
int rt_args_other(const char *command, char **argv, int c);
__attribute__((format(printf, 2, 3))) int rt_args_usage(const char *command, const char *format,
                                                        ...);

/* The only operand, an id: 32 hexadecimal digits, perhaps with its deadline behind them, as rota_txn_id gives it.
 * RT_EXIT_OK, or a complaint was printed. */
int rt_args_id(const char *command, int argc, char **argv, struct rt_txn_id *id);

/* False: TEXT is no id. *DEADLINE_MS: as TEXT gives it; -1: it does not. */
bool rt_args_read_id(const char *text, struct rt_txn_id *id, int64_t *deadline_ms);

#endif
