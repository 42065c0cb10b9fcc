/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON that commands print; docs/json.md has the shapes. */
#ifndef RT_JSON_H
#define RT_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* TEXT as a string; anything in it that is not UTF-8 becomes U+FFFD. */
json_t *rt_json_text(const char *text);

/* A number of 64 bits as a string: readers that keep numbers as doubles would round it. */
json_t *rt_json_id(uint64_t number);

/* A time in ms; null if it is not known, or without end: negative. */
json_t *rt_json_ms(int64_t ms);

/* Prints ALL (consumed; NULL: out of memory) on stdout, on one line of its own if LINE. Returns
 * an exit code: RT_EXIT_OK, or a message was printed. The caller flushes. */
int rt_json_print(json_t *all, bool line);

#endif
