/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of client and server share: a server with a few doors, and calls to send and wait for. */
#ifndef HOUSE_H
#define HOUSE_H

#include "txn/http/client.h"
#include "txn/http/server.h"

#include <pthread.h>
#include <stdbool.h>

/* Doors: /s/NNN answers NNN, with the body "said NNN"; /echo answers 200 with what came; /large 200 with 200,000 bytes;
 * /hang nothing until house_open_gate; /later 200 from another thread; /quick the same on the server's own. */
struct house {
    struct rt_http_server *server;
    struct rt_http_route routes[9];
    char base[64]; /* http://127.0.0.1:PORT */
    pthread_mutex_t mu;
    pthread_cond_t changed;
    int hanging; /* in /hang */
    bool gate_open;
};

/* OPTIONS: all but the routes. Aborts on failure. */
void house_start(struct house *h, const struct rt_http_server_options *options);
void house_await_hanging(struct house *h, int n);
void house_open_gate(struct house *h);
void house_stop(struct house *h); /* opens the gate */

struct ask {
    struct rt_service_call call;
    void *payload;
    pthread_mutex_t mu;
    pthread_cond_t answered;
    int times; /* done() was called */
};

/* A call of OP at URL, with BODY as text/plain and its deadline MS from now. */
void ask_init(struct ask *a, enum rt_service_op op, const char *url, const char *body, unsigned ms);
void ask_send(struct ask *a, struct rt_http_calls *h);
void ask_await(struct ask *a);
void ask_fini(struct ask *a);
/* Does all four; returns the call as it was answered (the caller frees its body). */
struct rt_service_call ask_do(struct rt_http_calls *h, enum rt_service_op op, const char *url,
                              const char *body, unsigned ms);

#endif
