/* SPDX-License-Identifier: Apache-2.0 */
/* How the fault proxy finds messages in a stream of bytes: one of these per protocol. */
#ifndef RT_PROXY_FRAMING_H
#define RT_PROXY_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From the client to the server; from the server to the client. */
enum rt_proxy_dir { RT_PROXY_UP, RT_PROXY_DOWN, RT_PROXY_BOTH };

enum rt_message_kind {
    RT_MESSAGE_BYTES, /* of the protocol itself: passes, no fault sees it */
    RT_MESSAGE_REQUEST,
    RT_MESSAGE_REPLY,
    RT_MESSAGE_PUSH,
    RT_MESSAGE_CONFIRM, /* from framings only: a part of the reply if the oldest unanswered request
                           awaits confirmations, else a push */
    RT_MESSAGE_NOTHING, /* from framings only: nothing to send on for what was taken */
};

#define RT_WORDS_MAX 256

struct rt_proxy_message {
    enum rt_message_kind kind;
    /* for a request: answered by so many CONFIRMs, or by one REPLY (an error); 0: by one REPLY */
    uint32_t confirmations;
    /* Replies answer the oldest unanswered request of the same channel; 0: there is only one channel.
     * The lower half is the stream's. */
    uint64_t channel;
    bool ends;  /* no more answers will come on this stream */
    bool alone; /* a request on a stream of its own: doubled as `twin` says */
    bool more;  /* `next` has another message, to be fetched before anything else */
    /* What to send on instead of what was taken, valid until the next call; NULL: send it as it is. */
    const char *bytes;
    size_t size;
    /* What it says in short, for matching and tracing. RESP: the first words, separated by single
     * blanks, each cut at 64 bytes, unprintable bytes as dots: "EVALSHA <sha> 1 key op", "+OK". HTTP/2:
     * see rt_proxy_h2. */
    char words[RT_WORDS_MAX];
};

struct rt_proxy_framing {
    const char *name;
    size_t state_size; /* of what it keeps per connection, zeroed at its begin */
    /* Looks for the end of the first message in DATA, which begins where the last one ended and
     * only grows between calls. Returns its length and fills MSG; 0: not complete; -1: this is
     * not the protocol (the rest of the direction then passes as bytes). If MSG->more was set the last
     * time, it takes nothing: DATA may be empty, and what it returns does not count. */
    ptrdiff_t (*next)(void *state, enum rt_proxy_dir dir, const char *data, size_t len,
                      struct rt_proxy_message *msg);
    void (*fini)(void *state); /* frees what hangs from it; NULL: nothing does */
    /* The three below may be NULL. Each returns how many bytes are in *OUT, valid until the next call. */
    /* DATA as it was sent on did not reach the other side: what the sender is told instead. */
    size_t (*dropped)(void *state, enum rt_proxy_dir dir, const char *data, size_t len,
                      const char **out);
    /* DATA, a reply or a push, as it looks when it comes twice. NULL: one after the other. */
    size_t (*twice)(void *state, const char *data, size_t len, const char **out);
    /* DATA, a request that is alone and was answered, once more, in a channel of its own. */
    size_t (*twin)(void *state, const char *data, size_t len, const char **out, uint64_t *channel);
};

extern const struct rt_proxy_framing rt_proxy_raw;  /* every chunk a message of bytes */
extern const struct rt_proxy_framing rt_proxy_resp; /* Redis, RESP2 (and the pushes of RESP3) */

/* PostgreSQL, version 3. A request is a flight: all up to a Sync (or a plain query); its words are the names of the
 * statements it binds and the beginnings of those without a name, each once and followed by a blank: "rota3 rota17 ".
 * Its reply goes up to ReadyForQuery, with notifications that came in between. A notification outside a reply is a
 * push: "CHANNEL PAYLOAD ". */
extern const struct rt_proxy_framing rt_proxy_postgres;

/* MariaDB, MySQL. A request is a command, its reply all its results; what comes before the client is let in is bytes.
 * Words: for a query each statement's first word, or what is prepared or executed, each followed by a blank ("BEGIN
 * rota12 COMMIT "); "prepare SQL"; "execute SQL" of what was prepared. */
extern const struct rt_proxy_framing rt_proxy_mysql;

/* ZooKeeper. Each message with an xid of its own is a request or its reply, events are pushes; the greeting,
 * authentication and watches that are set anew are bytes. Words: "create2 PATH", "multi delete PATH" (of its first
 * part), "closeSession"; "said 0"; "deleted PATH", "changed PATH", "children PATH". */
extern const struct rt_proxy_framing rt_proxy_zookeeper;

/* HTTP/1.1 without TLS, bodies by Content-Length (others pass as bytes). A request is head and body, with words "POST
 * /try BODY ", the beginning of each; its reply has "200 ". RT_FAULT_DOUBLE of a request: sent once more after it, on
 * its connection. */
extern const struct rt_proxy_framing rt_proxy_http;

/* etcd: gRPC over HTTP/2 without TLS, for programs that are linked with nghttp2 (testetcd). A call is one
 * request and one reply, from its HEADERS to its END_STREAM, reassembled from frames interleaved with others'.
 * On the two long-lived streams (Watch, LeaseKeepAlive) each message is a request or a reply, events of a
 * watch are pushes, and the HEADERS of the stream are bytes; so are SETTINGS, PING and the like, and the
 * client's RST_STREAM. Words, where BEGIN is the beginning of the message, unprintable bytes as dots:
 *   request  "/etcdserverpb.KV/Txn put,range #7 BEGIN"  (for a Txn: what it does when its condition holds)
 *            "/etcdserverpb.Watch/Watch create #3 BEGIN", "... cancel ...", "... progress ..."
 *   reply    "/etcdserverpb.KV/Txn status 0 #7 BEGIN", "... reset #7", "/etcdserverpb.Watch/Watch created #3 "
 *   push     "/etcdserverpb.Watch/Watch events #3 BEGIN"
 * Blocks of headers are sent on without HPACK's table, so any of them can be missing; windows are given
 * back for what was dropped; the numbers of streams are the proxy's own on the server's side.
 *   RT_FAULT_DOUBLE of a request: when it has been answered, it is sent once more on a stream of its own and
 *     that answer is swallowed: what a retry on the way does. On a long-lived stream: twice in a row.
 *   RT_FAULT_DOUBLE of a reply: its message twice, in one answer (illegal, unless the stream is long-lived).
 *   RT_FAULT_DROP of a reply: the call has no end. Messages beyond 32 KiB (up) and 512 KiB (down) are
 *     cut into parts so that windows do not fill, and faults apply to the last. */
extern const struct rt_proxy_framing rt_proxy_h2;

#endif
