/* SPDX-License-Identifier: Apache-2.0 */
/* Asking again: after 100 ms, doubling to 30 s, forever; after ten tries a person is called.
 *
 * Each request that may fail has its own, so that a dead participant keeps nobody else waiting. */
#ifndef RT_RETRY_H
#define RT_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#define RT_RETRY_FIRST INT64_C(100000000)  /* ns */
#define RT_RETRY_MOST INT64_C(30000000000) /* ns */
#define RT_RETRY_ATTENTION 10

struct rt_retry {
    uint32_t seq;   /* of the request that is under way; 0: none is */
    uint32_t tries; /* that failed, in a row */
    int64_t at;     /* the next may leave then */
};

/* Whether a request may leave now. */
bool rt_retry_may(const struct rt_retry *r, int64_t now);
/* It left. */
void rt_retry_sent(struct rt_retry *r, uint32_t seq);
/* SEQ is answered. False: it is not the request under way; the answer is late or doubled. */
bool rt_retry_answered(struct rt_retry *r, uint32_t seq);
/* The request failed: the next leaves only after a pause. True: it is the tenth failure. */
bool rt_retry_later(struct rt_retry *r, int64_t now);
/* Not before AT, whatever happened before. */
void rt_retry_not_before(struct rt_retry *r, int64_t at);
/* It succeeded, or the party it asks is back: the next leaves at once, and pauses are short again. */
void rt_retry_soon(struct rt_retry *r, int64_t now);

#endif
