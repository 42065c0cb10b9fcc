/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the engine the user chose, and turning errors into exit codes. */
#ifndef RT_CONNECT_H
#define RT_CONNECT_H

#include "cli/cli.h"

#include <stddef.h>

/* Opens the engine of --on, $ROTA_URL, or the embedded one, if processes can share it. RT_EXIT_OK,
 * or a message was printed and the exit code is returned. */
int rt_connect_open(struct rota **out, const struct rt_cli *cli, const struct rota_options *opts);

/* What --on or $ROTA_URL names; NULL: neither. */
const char *rt_connect_url(const struct rt_cli *cli);

/* The exit code for a library error. */
int rt_connect_exit(int err);

/* Prints the message of the last failing call on R, or the fixed sentence for ERR, after PREFIX.
 * Returns rt_connect_exit(ERR). */
int rt_connect_report(const struct rota *r, int err, const char *prefix);

/* URL without its password, for messages, in OUT. */
void rt_connect_redact(const char *url, char *out, size_t size);

#endif
