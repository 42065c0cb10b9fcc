/* SPDX-License-Identifier: Apache-2.0 */
/* What the command prints: one-line errors on stderr, colour on terminals only. */
#ifndef RT_OUT_H
#define RT_OUT_H

#include <stdbool.h>
#include <stdio.h>

/* "rota: ..." and a newline on stderr. Control characters, which may come from names or
 * from an engine, are shown as '?'. */
void rt_out_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As rt_out_error, followed by where to read on: `rota COMMAND --help`, or with COMMAND NULL
 * `rota --help`. Returns RT_EXIT_USAGE. */
int rt_out_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Whether STREAM is a terminal that may be coloured: NO_COLOR and TERM=dumb say no. */
bool rt_out_colored(FILE *stream);

/* Flushes stdout. RT_EXIT_OK, or RT_EXIT_FAILED and a message: a full disk is no success. */
int rt_out_flush(void);

#endif
