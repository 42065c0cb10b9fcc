/* SPDX-License-Identifier: Apache-2.0 */
/* Replies as they go over the wire (RESP2): written piece by piece into a buffer. */
#ifndef SIM_REDIS_REPLY_H
#define SIM_REDIS_REPLY_H

#include "sim/redis/store.h"

#include <stdint.h>

struct rs_buffer { /* all zero: empty */
    char *at;
    size_t n, room;
};

void rs_buffer_add(struct rs_buffer *b, const void *bytes, size_t n);
void rs_buffer_free(struct rs_buffer *b);

void rs_reply_status(struct rs_buffer *b, const char *text);
void rs_reply_error(struct rs_buffer *b, const char *text); /* with its code, without the minus */
void rs_reply_integer(struct rs_buffer *b, int64_t value);
void rs_reply_bulk(struct rs_buffer *b, struct rs_text text);
void rs_reply_string(struct rs_buffer *b, const char *text);
void rs_reply_double(struct rs_buffer *b, double value);
void rs_reply_null(struct rs_buffer *b);
void rs_reply_array(struct rs_buffer *b, size_t count);

#endif
