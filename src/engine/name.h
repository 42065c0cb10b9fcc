/* SPDX-License-Identifier: Apache-2.0 */
/* Names of locks: what a caller may say, and how it is spelled on the engine (DESIGN 4.4). */
#ifndef RT_NAME_H
#define RT_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define RT_NAME_MAX 255                                      /* bytes of a name */
#define RT_PREFIX_MAX 255                                    /* bytes of ?prefix= */
#define RT_NAME_ROOM (3 * (RT_NAME_MAX + RT_PREFIX_MAX) + 1) /* spelled, with its NUL */

/* How one client spells its names. */
struct rt_spelling {
    char prefix[3 * RT_PREFIX_MAX + 1]; /* spelled already; put before every name */
    size_t prefix_size;
    bool raw; /* bytes pass through */
};

/* PREFIX may be "". ROTA_INVALID and a message in ERRMSG if it is no good as one. */
int rt_spelling_init(struct rt_spelling *sp, const char *prefix, bool raw, char *errmsg,
                     size_t size);

/* NULL if NAME is 1 to 255 bytes of UTF-8 without control characters; else what is wrong with
 * it, in half a sentence. */
const char *rt_name_fault(const char *name);

/* Spells NAME into OUT (RT_NAME_ROOM bytes) and returns its length. NAME is valid, or the
 * beginning of a valid name. Equal spellings mean equal names, and a name's beginning is
 * spelled as the beginning of its spelling. */
size_t rt_name_spell(const struct rt_spelling *sp, const char *name, char *out);

/* As rt_name_spell, in OUT or NAME itself where nothing has to be changed. *EXTRA is NAME if
 * rt_name_escaped will say that the spelling (behind the prefix) is not the name; else NULL. */
const char *rt_name_spelled(const struct rt_spelling *sp, const char *name, char *out,
                            const char **extra);
bool rt_name_escaped(const struct rt_spelling *sp, const char *spelled);

/* The name behind a spelling, in OUT (RT_NAME_ROOM bytes); false if SPELLED is none of this
 * client's: another prefix, or not an escape that rt_name_spell writes. */
bool rt_name_read(const struct rt_spelling *sp, const char *spelled, char *out);

#endif
