/* SPDX-License-Identifier: Apache-2.0 */
/* Inside net/: what a stream and its TLS session know of each other. */
#ifndef RT_WIRE_H
#define RT_WIRE_H

#include "net/stream.h"

/* Appends; 0 or ROTA_NOMEM. */
int rt_bytes_add(struct rt_bytes *b, const void *bytes, size_t n);
void rt_bytes_sent(struct rt_bytes *b, size_t n); /* the first N have gone */
void rt_bytes_free(struct rt_bytes *b);
static inline size_t rt_bytes_waiting(const struct rt_bytes *b)
{
    return b->end - b->begin;
}

/* Notes why S ends, unless it is known; told from a turn. WHY is one line. */
__attribute__((format(printf, 3, 4))) void rt_stream_fail(struct rt_stream *s, int err,
                                                          const char *why, ...);
/* The timer fires at AT, or before. */
void rt_stream_alarm(struct rt_stream *s, int64_t at);
void rt_stream_drop_socket(struct rt_stream *s);
void rt_stream_flush(struct rt_defer *d); /* before the loop polls: no word to the user from here */
static inline struct rt_stream *rt_stream_of(struct rt_watch *w)
{
    return (struct rt_stream *)((char *)w - offsetof(struct rt_stream, watch));
}

/* Looks the name up if it must, then tries the addresses. Only from a turn, as all below. */
void rt_connect_start(struct rt_stream *s);
void rt_connect_next(struct rt_stream *s, int errnum); /* why the last one failed; 0: S knows */
void rt_stream_ready(struct rt_stream *s, bool readable, bool writable);
void rt_stream_tell(struct rt_stream *s); /* the end, if there is one */
void rt_stream_go_down(struct rt_stream *s);
void rt_stream_go_up(struct rt_stream *s);
void rt_stream_deliver(struct rt_stream *s, const char *bytes, size_t n);
static inline bool rt_stream_lives(const struct rt_stream *s)
{
    return s->err == 0 && (s->state == RT_STREAM_UP || s->state == RT_STREAM_GREETING);
}

/* Begins a session on S: the first message goes to S->out. On failure S is failed, as below. */
void rt_tls_greet(struct rt_stream *s);
/* Takes encrypted bytes from the peer; S goes up, gets data, or fails. */
void rt_tls_feed(struct rt_stream *s, const char *bytes, size_t n);
/* The peer ended its side: says what that means before the session is agreed on. */
const char *rt_tls_cut(const struct rt_stream *s);
/* Encrypts S->plain into S->out. */
void rt_tls_encrypt(struct rt_stream *s);
void rt_tls_end(struct rt_tls_session *session); /* NULL too */

#endif
