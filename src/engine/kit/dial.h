/* SPDX-License-Identifier: Apache-2.0 */
/* Whom to dial and with which certificate, as the URL says; how long to wait for it, and how long before dialing it
 * again.
 *
 *   hosts ──▶ a ring of endpoints: after one comes the next
 *   failed ──▶ a pause: half to all of 10, 20, 40, ... 200 ms, but at most a fiftieth of the ttl
 *
 * What fails sets errmsg, except for lack of memory. */
#ifndef RT_DIAL_H
#define RT_DIAL_H

#include "engine/engine.h"
#include "engine/url.h"
#include "net/loop.h"
#include "net/stream.h"

#define RT_DIAL_AT 280 /* room for an address as text */
#define RT_DIAL_PAUSE_FIRST_MS 10u
#define RT_DIAL_PAUSE_LAST_MS 200u
#define RT_DIAL_REFUSED_MS 500u /* ... but this long after a refusal for good */

/* A connection, whatever it speaks:
 *
 *   DOWN ── wanted ──▶ DIALING ── up ──▶ GREETING ──▶ READY
 *    ▲                    │                 │            │
 *    └────── pause ◀──────┴─────────────────┴────────────┘ cut, garbage, silence */
enum rt_dial_state { RT_DIAL_DOWN, RT_DIAL_DIALING, RT_DIAL_GREETING, RT_DIAL_READY };

struct rt_dial_end { /* an endpoint */
    char *host;      /* from a slash on: the path of a unix socket */
    uint16_t port;
    char at[RT_DIAL_AT]; /* "host:port", or the path */
    /* the last trouble with it that was told; "": none since it was well. Its user's */
    char said[256];
};

struct rt_dial_ring { /* zeroed before the first use */
    struct rt_dial_end *ends;
    size_t count, now; /* now: which is in use */
};

/* The hosts of URL, with PORT where it names none. 0, ROTA_INVALID (none, or one too long), ROTA_NOMEM: then
 * rt_dial_ring_fini is due as well. */
int rt_dial_hosts(struct rt_dial_ring *ring, struct rt_conn *conn, const struct rt_url *url,
                  uint16_t port);
/* The same for one more, wherever it is named. Before any of them is in use: they move. */
int rt_dial_add(struct rt_dial_ring *ring, struct rt_conn *conn, const char *host, uint16_t port);
const struct rt_dial_end *rt_dial_next(struct rt_dial_ring *ring); /* is in use from now on */
void rt_dial_ring_fini(struct rt_dial_ring *ring);

/* HOST:PORT, with brackets around a HOST that has colons; false: OUT is too small. */
bool rt_dial_text(char *out, size_t size, const char *host, uint16_t port);

/* *TLS from ?ca=, ?cert= and ?key= if SECURE; else they are refused, and the message names SCHEME, which takes them. */
int rt_dial_tls(struct rt_tls **tls, struct rt_conn *conn, const struct rt_url *url, bool secure,
                const char *scheme);

/* Sets a call_ms of 0 to 5 s, and a ttl_ms of 0 to 10 s. */
void rt_dial_times(struct rt_conn *conn);
int rt_dial_random(struct rt_conn *conn, void *out, size_t size); /* bytes from the system */

/* How long one of COUNT endpoints may take to let us in, so that the others have time left. */
uint32_t rt_dial_connect_ms(const struct rt_conn *conn, size_t count);
/* How long a server may owe an answer, in ns: a quarter of the ttl. */
int64_t rt_dial_patience(const struct rt_conn *conn);

/* From 0 to MOST. *JITTER is any number that few others have, and is changed. */
int64_t rt_dial_jitter(uint64_t *jitter, int64_t most);

struct rt_dial_pause { /* all zero: dial at once */
    uint32_t ms;       /* the last; 0: none since it was well */
    int64_t until;     /* not dialed before */
};

/* It could not be dialed, or was lost. A server that is back is found while those who hold there still have time to renew. */
void rt_dial_later(struct rt_dial_pause *p, const struct rt_conn *conn, uint64_t *jitter);

/* At which level to tell of trouble with a connection: one warning for an outage, and what else is heard until it is
 * over as information. *OUTAGE: false when all was well; is true from now on. */
int rt_dial_level(bool *outage);

#endif
