/* SPDX-License-Identifier: Apache-2.0 */
/* How the fault proxy tells messages in a stream of bytes: one of these per protocol. */
#ifndef RT_PROXY_FRAMING_H
#define RT_PROXY_FRAMING_H

#include <stddef.h>
#include <stdint.h>

/* From the client to the server; from the server to the client. */
enum rt_proxy_dir { RT_PROXY_UP, RT_PROXY_DOWN, RT_PROXY_BOTH };

enum rt_message_kind {
    RT_MESSAGE_BYTES,
    RT_MESSAGE_REQUEST,
    RT_MESSAGE_REPLY,
    RT_MESSAGE_PUSH,
    RT_MESSAGE_CONFIRM, /* from framings only: a part of the reply if the oldest unanswered request
                           awaits confirmations, else a push */
};

#define RT_WORDS_MAX 256

struct rt_proxy_message {
    enum rt_message_kind kind;
    uint32_t
        confirmations; /* of a request: answered by so many CONFIRMs, or by one REPLY (an error);
                               0: by one REPLY */
    /* What it says in short, for matching and tracing. RESP: the first words, by single blanks,
     * each cut at 64 bytes, what cannot be printed as dots: "EVALSHA <sha> 1 key op", "+OK". */
    char words[RT_WORDS_MAX];
};

struct rt_proxy_framing {
    const char *name;
    size_t state_size; /* of what it keeps per connection, zeroed at its begin */
    /* Looks for the end of the first message in DATA, which begins where the last one ended and
     * only grows between calls. Returns its length and fills MSG; 0: not complete; -1: this is
     * not the protocol (the rest of the direction then passes as bytes). Replies come in the order of
     * the requests. */
    ptrdiff_t (*next)(void *state, enum rt_proxy_dir dir, const char *data, size_t len,
                      struct rt_proxy_message *msg);
};

extern const struct rt_proxy_framing rt_proxy_raw;  /* every chunk a message of bytes */
extern const struct rt_proxy_framing rt_proxy_resp; /* Redis, RESP2 (and the pushes of RESP3) */

#endif
