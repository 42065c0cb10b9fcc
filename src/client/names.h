/* SPDX-License-Identifier: Apache-2.0 */
/* The table of names: every line this client knows, by its spelling on the engine. */
#ifndef RT_NAMES_H
#define RT_NAMES_H

#include "core/line.h"

/* In line->hash: a bit for the table's user. */
#define RT_NAMES_MARK 0x80000000u

struct rt_names {
    struct rt_line **buckets; /* chains through line->hash_next */
    size_t size;              /* a power of two; 0 before the first line */
    size_t count;
    uint64_t seed; /* so that nobody can choose names that meet in one bucket */
};

void rt_names_init(struct rt_names *names, uint64_t seed);
void rt_names_fini(struct rt_names *names); /* frees the lines too */

/* A spelling as a number; accidental collisions are not to be expected. */
uint64_t rt_names_hash(const struct rt_names *names, const char *spelled);

struct rt_line *rt_names_find(const struct rt_names *names, const char *spelled);

/* Finds the line, or makes it. EXTRA (may be NULL) is kept behind the spelling of a new line: see
 * rt_names_extra. NULL: out of memory. */
struct rt_line *rt_names_get(struct rt_names *names, const char *spelled, const char *extra);
const char *rt_names_extra(const struct rt_line *line); /* only if it was given */

/* Takes an idle line out and frees it, and its shared ticket. */
void rt_names_drop(struct rt_names *names, struct rt_line *line);

/* The shared ticket of LINE, made if it has none yet. NULL: out of memory. */
struct rt_ticket *rt_names_shared(struct rt_line *line);

#endif
