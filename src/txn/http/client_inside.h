/* SPDX-License-Identifier: Apache-2.0 */
/* Inside client.h.
 *
 *   ask() ──▶ inbox ──▶ its host's queue ──▶ at a handle of libcurl ──▶ done()
 *                 └ bad bytes, no service    └ deadline, cut, close, an answer
 *                   deadline, cut, close
 *
 *   client.c        queues, the thread, deadlines
 *   client_talk.c   one call: its request, what comes back, what that means */
#ifndef RT_HTTP_CLIENT_INSIDE_H
#define RT_HTTP_CLIENT_INSIDE_H

#include "txn/http/client.h"
#include "txn/http/libcurl.h"
#include "txn/http/payload.h"

#include <stdbool.h>

struct rt_http_host { /* a scheme, host and port that calls are under way to, or wait for */
    struct rt_http_host *next;
    struct rt_http_flight *first, **last; /* wait */
    uint32_t running;
    size_t size;
    char origin[]; /* not ended */
};

struct rt_http_flight {
    struct rt_http_flight *next, *prev; /* the inbox, all that are under way */
    struct rt_http_flight *queued;      /* its host's queue */
    struct rt_service_call *call;
    struct rt_http_host *host; /* NULL: it never got that far */
    struct rt_http_site *site;
    struct rt_http_payload payload;
    bool cut; /* under the mutex */

    char *url;  /* whole */
    CURL *easy; /* it runs */
    struct curl_slist *headers;
    char *body;
    size_t body_size, body_room;
    size_t seen;    /* bytes of the answer's body */
    size_t heads;   /* and of its heads */
    bool is_headed; /* its head is whole */
    bool is_cut;    /* the body was too long to read whole */
    bool endless;   /* its heads were too long */
    bool starved;   /* no memory for the body */
    char error[CURL_ERROR_SIZE];
};

/* Reads its bytes, finds its service, makes its URL. False: its call has the answer. */
bool rt_http_talk_prepare(struct rt_http_flight *f, const struct rt_http_calls_options *options);
/* Makes a fresh handle ready for F; false: its call has the answer. */
bool rt_http_talk_begin(struct rt_http_flight *f, CURL *easy);
/* Makes a handle that other calls have used like a fresh one. False: libcurl is too old, or has no memory. */
bool rt_http_talk_set_up(CURL *easy, const struct rt_http_site *site);
/* The transfer is over: what it means for the call. */
void rt_http_talk_judge(struct rt_http_flight *f, CURLcode code);
/* The call is LOST; its line says where it went, then WHAT. */
__attribute__((format(printf, 2, 3))) void rt_http_talk_lost(struct rt_http_flight *f,
                                                             const char *what, ...);
/* Whether anything was said to the service, for messages. */
bool rt_http_talk_connected(const struct rt_http_flight *f);
void rt_http_talk_free(struct rt_http_flight *f);

#endif
