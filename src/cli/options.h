/* SPDX-License-Identifier: Apache-2.0 */
/* Reading option values, and complaining about options in one way. */
#ifndef RT_OPTIONS_H
#define RT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* "30", "0.5" (seconds), "500ms", "30s", "5m", "24h", up to a year; rounded up to whole
 * milliseconds, so that what is not 0 stays so. False if TEXT is none of these. */
bool rt_options_duration_ms(const char *text, uint64_t *ms);

/* Whether TEXT, which rt_options_duration_ms refused, is a time, but longer than that year: 366d. */
bool rt_options_too_long(const char *text);

/* A whole number from MIN to MAX, in decimal digits only. */
bool rt_options_number(const char *text, uint64_t min, uint64_t max, uint64_t *number);

struct option;
struct rt_cli;

/* CLI's engine is the one that --on and --system choose, wherever they stand before the operands. */
void rt_options_begin(struct rt_cli *cli);

/* Like getopt_long, over OPTIONS and those that every command has, which are handled here. An abbreviation must stand
 * for one option only, and none stands for --on, which must be spelt out. */
int rt_options_next(int argc, char **argv, const char *letters, const struct option *options);

/* Complains when rt_options_next returned ':' or '?': C. Returns RT_EXIT_USAGE. */
int rt_options_complain(const char *command, char **argv, int c);

#endif
