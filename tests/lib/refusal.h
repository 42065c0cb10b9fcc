/* SPDX-License-Identifier: Apache-2.0 */
/* What a user is told by a client that cannot work: for tests with cmocka that link the library. */
#ifndef RT_REFUSAL_H
#define RT_REFUSAL_H

#include <stddef.h>
#include <stdint.h>

struct refusal {
    int err; /* 0: it could */
    int64_t ms;
    char text[512];
};

/* Notes ERR and what was said, at SINCE (rt_history_now). */
void refusal_note(struct refusal *r, int err, const char *text, int64_t since);

/* Opens a client, and takes and gives back a lock, with CALL_MS for each: returns the first error. */
struct refusal refusal_of(const char *url, uint32_t call_ms);

/* Asserts that it is ERR, in one line that a person understands: with each of WORDS (separated by "|",
 * any case; NULL: none) and with none of SECRETS (ends with NULL). Printed. */
void refusal_assert(const struct refusal *r, int err, const char *words,
                    const char *const *secrets);

#endif
