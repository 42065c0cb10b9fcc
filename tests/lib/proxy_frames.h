/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2's frames for the fault proxy: found, made, and made independent of HPACK's table. */
#ifndef RT_PROXY_FRAMES_H
#define RT_PROXY_FRAMES_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_FRAME_HEAD 9
#define RT_FRAME_MAX 16384

struct rt_buffer {
    char *at; /* free()d by its owner */
    size_t size, room;
};

void rt_buffer_add(struct rt_buffer *b, const void *bytes, size_t n);
void rt_buffer_remove(struct rt_buffer *b, size_t n); /* the first N */
void rt_buffer_take(struct rt_buffer *to,
                    struct rt_buffer *from); /* all; TO then has FROM's memory */

struct rt_frame {
    uint8_t type, flags;
    uint32_t id;
    const char *data; /* with its head */
    size_t size;      /* of what follows the head */
    size_t whole;     /* with its head, and with what rt_frame_block added */
};

/* False: it is incomplete; if F->size is set, only its head is there. */
bool rt_frame_at(struct rt_frame *f, const char *data, size_t len);
/* Of a HEADERS frame: adds its CONTINUATIONs to `whole`; false: more is to come. */
bool rt_frame_block(struct rt_frame *f, size_t len);
void rt_frame_add(struct rt_buffer *b, uint8_t type, uint8_t flags, uint32_t id, const void *bytes,
                  size_t n);
uint32_t rt_frame_get32(const char *at);
void rt_frame_put32(char *at, uint32_t n);

struct rt_unpacker { /* of one direction; zeroed at first */
    nghttp2_hd_inflater *inflater;
    struct rt_buffer block;
};

typedef void rt_header_fn(void *arg, const char *name, const char *value, size_t size);

/* Adds the headers of FIRST, with its whole block, to OUT as one frame for stream ID that needs no table;
 * each is told. False: they are not headers. */
bool rt_unpack_headers(struct rt_unpacker *u, const struct rt_frame *first, uint32_t id,
                       struct rt_buffer *out, rt_header_fn *fn, void *arg);
void rt_unpacker_fini(struct rt_unpacker *u);

#endif
