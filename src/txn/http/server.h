/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server on libmicrohttpd: routes to handlers, for rota-txn's own endpoints, the demo and tests.
 *
 *   a connection ──▶ door, token, route, kind and length of the body ──▶ the body ──▶ handler, on a pool ──▶ answer, on any thread
 *                    └ 421, 403, 401, 404, 405, 415, 413 at once          └ 413        └ it hangs: others go on
 *
 * - Listens on this machine only (127.0.0.1), unless told otherwise. Anything wider takes a token and TLS, or
 *   `insecure`.
 * - A web page in somebody's browser cannot drive it: door.h.
 * - Requests that wait for their handler, or whose handler has not answered, cost no thread but the handler's own.
 * - The program gets no signal from the server, and none of the program's interrupts the server. */
#ifndef RT_HTTP_SERVER_H
#define RT_HTTP_SERVER_H

#include "txn/http/door.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_http_server;

struct rt_http_request { /* the server's; until it is answered */
    const char *method;
    const char *path; /* decoded, without the query */
    const char *body; /* with a 0 behind it */
    size_t size;
};

/* The value of a header (its name in any case), or of a query parameter; NULL: there is none. */
const char *rt_http_request_header(const struct rt_http_request *r, const char *name);
const char *rt_http_request_query(const struct rt_http_request *r, const char *name);

/* Once for each request, from any thread; R is gone after that. BODY is copied; TYPE NULL: none. Also legal after the
 * server was stopped: then nobody hears it. If there is no memory for the answer, the connection is closed. */
void rt_http_request_answer(struct rt_http_request *r, int status, const char *type,
                            const void *body, size_t size);

struct rt_http_route {
    const char *method;
    const char *path; /* exact; with a * at its end: every path that begins so */
    void (*handle)(struct rt_http_request *r, void *arg);
    void *arg;
    bool
        quick; /* it never waits, and answers before it returns: called on the server's own thread */
    enum rt_http_body takes;
};

struct rt_http_server_options {
    const char *listen; /* ADDRESS:PORT; [::1]:PORT; 0: any port. NULL: 127.0.0.1:0 */
    const char *cert_file,
        *key_file; /* PEM: https. The key may be in the same file (NULL). Both NULL: http */
    const char *
        token_file; /* its first line must be sent as `Authorization: Bearer TOKEN`. NULL: none is needed */
    bool insecure; /* ... also where others can reach it */
    /* Names it is asked by beside its address, separated by commas. */
    const char *allow_hosts;
    size_t body_max;                    /* 0: 1 MB */
    uint32_t threads;                   /* of the pool; 0: 8 */
    const struct rt_http_route *routes; /* not copied; the first that fits counts */
    size_t route_count;
};

/* 0: it listens. Else *OUT is as before, and ERRMSG says in one line why not: ROTA_INVALID (an option, a file),
 * ROTA_UNREACHABLE (the address is taken, or not ours), ROTA_UNSUPPORTED (no libmicrohttpd, no TLS in it), ROTA_NOMEM. */
int rt_http_server_start(struct rt_http_server **out, const struct rt_http_server_options *options,
                         char *errmsg, size_t size);
uint16_t rt_http_server_port(const struct rt_http_server *s);

/* Takes no more connections; requests already there are answered, for at most GRACE_MS; then whatever is left is cut.
 * Waits for running handlers: none runs when it returns. Not from inside one. NULL is legal. */
void rt_http_server_stop(struct rt_http_server *s, uint32_t grace_ms);

#endif
