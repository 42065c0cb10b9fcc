/* SPDX-License-Identifier: Apache-2.0 */
/* Asking again: 100 ms, doubling to 30 s, for ever; after ten tries a person is called.
 *
 * Each request that may come to nothing has one of its own, so that a dead participant keeps nobody else waiting. */
#ifndef RT_RETRY_H
#define RT_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#define RT_RETRY_FIRST INT64_C(100000000)  /* ns */
#define RT_RETRY_MOST INT64_C(30000000000) /* ns */
#define RT_RETRY_ATTENTION 10

struct rt_retry {
    uint32_t seq;   /* of the request that is under way; 0: none is */
    uint32_t tries; /* that came to nothing, in a row */
    int64_t at;     /* the next may leave then */
};

/* Whether a request may leave now. */
bool rt_retry_may(const struct rt_retry *r, int64_t now);
/* It left. */
void rt_retry_sent(struct rt_retry *r, uint32_t seq);
/* SEQ is answered; false: it is not the one that is under way, but late or doubled. */
bool rt_retry_answered(struct rt_retry *r, uint32_t seq);
/* That came to nothing: not before a pause. True: it is the tenth time. */
bool rt_retry_later(struct rt_retry *r, int64_t now);
/* Not before AT, whatever was. */
void rt_retry_not_before(struct rt_retry *r, int64_t at);
/* It succeeded, or whom it asks is back: the next leaves at once, and pauses are short again. */
void rt_retry_soon(struct rt_retry *r, int64_t now);

#endif
