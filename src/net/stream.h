/* SPDX-License-Identifier: Apache-2.0 */
/* One byte stream for TCP, unix sockets and TLS, driven by the loop.
 *
 *   open ──▶ resolving ──▶ connecting ──▶ (TLS) ──▶ up ──▶ down     secure: from up through TLS to up
 *     └──────────┴─────────────┴────────────┴────────┴───────┴──▶ close ──▶ closed
 *
 * Serialised by its user, as the loop is. No callback runs from inside open, write, expect or
 * close: all come from a turn. A round trip costs one send and one recv, and neither a timer nor a
 * change of the watch. Nothing here raises SIGPIPE. */
#ifndef RT_STREAM_H
#define RT_STREAM_H

#include "net/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_STREAM_WHY_MAX 320
#define RT_STREAM_UNSENT_MAX (64u << 20) /* bytes that a peer who does not read may cost us */

/* ---- TLS settings ---------------------------------------------------------- */

/* Shared by all streams of a client, which must be closed before it is freed. TLS 1.2 or later; the
 * peer's certificate and name are always verified.
 *
 * CA: a file of certificates, or a folder as c_rehash makes it; CERT, KEY: files in PEM; NULL or ""
 * each: the system's CAs, no certificate, the key is in CERT. On failure (ROTA_INVALID, ROTA_NOMEM,
 * ROTA_UNSUPPORTED: OpenSSL is not installed) ERRMSG says in one line what is wrong. */
struct rt_tls;
int rt_tls_new(struct rt_tls **out, const char *ca, const char *cert, const char *key, char *errmsg,
               size_t size);
void rt_tls_free(struct rt_tls *tls); /* NULL too */

/* ---- Streams --------------------------------------------------------------- */

struct rt_stream_target {    /* strings are copied */
    const char *unix_path;   /* not NULL: this and no host */
    const char *host;        /* a name, or a numeric address without brackets */
    struct rt_tls *tls;      /* NULL: plain */
    const char *server_name; /* what the certificate must be for; NULL: host */
    const char *alpn; /* "h2": the protocol asked for in TLS; NULL: none. Static, not copied */
    uint16_t port;
};

struct rt_stream;
/* In each of them rt_stream_write, _expect and _close are legal. Fields may be NULL. */
struct rt_stream_user {
    /* Connected; with TLS the certificate and the name are verified. */
    void (*up)(struct rt_stream *s);
    /* N > 0 bytes, which are valid until it returns. Many replies come at once. */
    void (*data)(struct rt_stream *s, const char *bytes, size_t n);
    /* It ended by itself: exactly once, never after rt_stream_close. The socket is closed already;
     * rt_stream_close is still needed. ERR: ROTA_UNREACHABLE, ROTA_AUTH (certificates), ROTA_PROTOCOL
     * (no TLS), ROTA_NOMEM. WHY: one line without a secret; valid until closed. */
    void (*down)(struct rt_stream *s, int err, const char *why);
};

enum rt_stream_state {
    RT_STREAM_IDLE, /* never opened, or closed: may be opened */
    RT_STREAM_STARTING,
    RT_STREAM_RESOLVING,
    RT_STREAM_CONNECTING,
    RT_STREAM_GREETING, /* TLS */
    RT_STREAM_UP,
    RT_STREAM_DOWN,
    RT_STREAM_CLOSING,
};

struct rt_bytes {
    char *at;
    size_t begin, end, room; /* begin to end are waiting */
};

struct rt_dial;        /* dial.c: addresses, and what is said of the peer */
struct rt_tls_session; /* tls.c */

struct rt_stream { /* embedded in its user's struct; zeroed before the first use */
    struct rt_loop *loop;
    const struct rt_stream_user *user;
    void *arg; /* the user's */
    struct rt_dial *dial;
    struct rt_tls_session *tls;
    struct rt_watch watch;
    struct rt_timer_call timer;
    struct rt_defer flush;
    struct rt_bytes plain; /* written, with TLS not yet encrypted */
    struct rt_bytes out;   /* encrypted */
    int64_t deadline;      /* of the connecting, or of an answer; RT_NEVER: none */
    void (*closed)(struct rt_stream *s);
    int fd;
    uint32_t state;       /* enum rt_stream_state */
    uint32_t expected_ms; /* for the message */
    int err;              /* not 0: ended, to be told from the next turn */
    int errnum;           /* why the last address failed */
    bool wants_write;     /* the watch waits for room */
    bool played;          /* by the dialer of the loop */
    bool watch_closing;
    char why[RT_STREAM_WHY_MAX];
};

/* Begins to connect: addresses are tried one after the other, TLS is agreed on, all within
 * CONNECT_MS. T's strings and USER's address are kept until closed. 0, ROTA_NOMEM or ROTA_INVALID;
 * everything else is told by `down`. */
int rt_stream_open(struct rt_stream *s, struct rt_loop *loop, const struct rt_stream_target *t,
                   const struct rt_stream_user *user, uint32_t connect_ms);

/* Appends; all writes of a turn leave in one send, before the loop polls. Before `up`, they wait
 * for it. 0, ROTA_NOMEM (nothing was taken), or ROTA_UNREACHABLE: it is down, or about to be. */
int rt_stream_write(struct rt_stream *s, const void *bytes, size_t n);
/* What was written in this turn leaves now: for users that have no other turn. */
void rt_stream_flush_now(struct rt_stream *s);

/* TLS on a stream that is up and plain, for protocols that begin so. What was written before still leaves in
 * plain, what is written from now on waits: `up` comes once more when the certificate and the name (NULL: the
 * host) are verified, or `down`, within the connect_ms of the opening. The user has read all that its peer said
 * in plain: bytes that came along and do not belong there are no greeting, and must be refused first (somebody
 * in between may have put them there). Also legal inside `data` and `up`. TLS outlives the stream.
 * 0, ROTA_NOMEM (it stays plain), ROTA_INVALID: it is not up, not plain, or played; ROTA_UNREACHABLE: about to
 * be down. */
int rt_stream_secure(struct rt_stream *s, struct rt_tls *tls, const char *server_name);

/* `down` with ROTA_UNREACHABLE unless some bytes come within MS from now; any bytes clear it, and so does 0.
 * The latest call counts. Not before `up`: until then connect_ms rules. */
void rt_stream_expect(struct rt_stream *s, uint32_t ms);

/* Ends it at once, what was not sent is dropped; CLOSED (may be NULL) runs from a later turn, then
 * the memory may go or be opened anew. Legal at any time, once; nothing happens if it is idle. */
void rt_stream_close(struct rt_stream *s, void (*closed)(struct rt_stream *s));

/* In a child of fork(), async-signal-safe: lets go of the connection without touching it. */
void rt_stream_forked(struct rt_stream *s);

/* ---- Other ends in the same process ---------------------------------------- */

/* A simulator's network, set as rt_loop.dialer. It answers later, from a timer of the loop, by the
 * feeds below; after close S is never fed again. TLS is not played. */
struct rt_dialer {
    /* 0, or an error that becomes rt_stream_open's. */
    int (*open)(struct rt_dialer *d, struct rt_stream *s, const struct rt_stream_target *t);
    /* What one flush sends: N > 0 bytes, to be copied. From rt_loop_arm. */
    void (*write)(struct rt_dialer *d, struct rt_stream *s, const char *bytes, size_t n);
    /* The user closed it, or it went down by its deadline. Once, not after rt_stream_feed_down. */
    void (*close)(struct rt_dialer *d, struct rt_stream *s);
};
void rt_stream_feed_up(struct rt_stream *s);
void rt_stream_feed_data(struct rt_stream *s, const char *bytes, size_t n);
void rt_stream_feed_down(struct rt_stream *s, int err, const char *why);

#endif
