/* SPDX-License-Identifier: Apache-2.0 */
/* What the command prints: one-line errors on stderr, colour on terminals only. */
#ifndef RT_OUT_H
#define RT_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* "rota: ..." and a newline on stderr, cleaned as by rt_out_clean: it may quote names and engines. */
void rt_out_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Like rt_out_error, followed by where to read on: `rota COMMAND --help` or, if COMMAND is NULL, `rota --help`. Returns
 * RT_EXIT_USAGE. */
int rt_out_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Whether STREAM is a terminal that may be coloured: NO_COLOR and TERM=dumb say no. */
bool rt_out_colored(FILE *stream);

/* Colours, or "" where STREAM may not be coloured: RT_OUT_GREEN text RT_OUT_PLAIN. */
enum rt_out_color { RT_OUT_PLAIN, RT_OUT_BOLD, RT_OUT_RED, RT_OUT_GREEN, RT_OUT_YELLOW };
const char *rt_out_color(FILE *stream, enum rt_out_color color);

/* TEXT with '?' for each control character (C0, DEL, C1), each one that changes the direction of text, and each byte
 * that is not UTF-8: names, labels and values are others' words, and a terminal obeys them. Cut to SIZE bytes between
 * two characters. OUT may be TEXT. Returns OUT. */
const char *rt_out_clean(const char *text, char *out, size_t size);

/* How many bytes of TEXT fit into COLUMNS of a terminal, whole characters; *USED: the columns they
 * take, two for a wide character, none for a combining one, one for a byte that is not UTF-8. */
size_t rt_out_fit(const char *text, size_t columns, size_t *used);

/* How many columns wide TEXT is; and printing TEXT on stdout with blanks up to WIDTH. */
size_t rt_out_width(const char *text);
void rt_out_padded(const char *text, size_t width);

/* "850 ms", "12 s", "3 min 12 s", "2 h 5 min", "3 d 4 h". Returns OUT. */
const char *rt_out_time(int64_t ms, char *out, size_t size);

/* Flushes stdout. RT_EXIT_OK, or RT_EXIT_FAILED and a message: a full disk is no success. */
int rt_out_flush(void);

#endif
