/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of services over HTTP: service.h is the contract, payload.h what the bytes of a branch are.
 *
 * POST, HTTP/1.1, with the headers Rota-Txn, Rota-Branch, Rota-Op (try, confirm, cancel), Rota-Deadline (ms since 1970) and
 * the content type told. Status: 2xx YES, DONE; 409 NO, REFUSED; 425 HELD; all else, and none, LOST, with a line that says
 * what came.
 *
 * One thread has all calls, by libcurl's multi interface: one that hangs delays nobody. At most 64 at once go to one
 * host and port; what is beyond them waits in that host's own queue. Connections are kept and used again. Redirects are not
 * followed, certificates and names are always checked, no proxy is used and no cookie kept. Of an answer 64 KB are read:
 * a try's whose rest was cut counts by its status. One that ends before it is whole is LOST.
 *
 * No signal: none is raised for the program (SIGPIPE), and none of its own interrupt us. */
#ifndef RT_HTTP_CLIENT_H
#define RT_HTTP_CLIENT_H

#include "txn/http/site.h"
#include "txn/manager/service.h"

#define RT_HTTP_AT_ONCE 64 /* calls to one host and port */

struct rt_http_calls;

struct rt_http_calls_options {
    /* The service that a resource stands for, held for who asked; NULL: there is none. On the calls' own thread. May be
     * NULL: there are none. */
    struct rt_http_site *(*site)(void *arg, const char *resource);
    void *arg;
};

/* Whether they can be made here: 0; or ROTA_UNSUPPORTED and one line with the way out. Loads libcurl. */
int rt_http_calls_ready(char *errmsg, size_t size);

/* *OUT, or as before: ROTA_NOMEM. No I/O: the thread and libcurl come with the first call. Where libcurl cannot be had, calls
 * are LOST, with a line that says so. In a child of fork() it is left alone: no call of these is legal there. */
int rt_http_calls_open(struct rt_http_calls **out, const struct rt_http_calls_options *options);

/* Takes C, and returns at once. Else ROTA_NOMEM, ROTA_CANCELED (closing): it was not taken. Bytes that are no branch of
 * HTTP, a name that stands for no service: taken, and LOST. From any thread, also from inside done(). */
int rt_http_calls_ask(struct rt_http_calls *h, struct rt_service_call *c);

/* C, which was taken and has not been handed to done() yet, as far as its asker knows, is LOST soon, if it is not answered
 * before. Never waits. */
void rt_http_calls_cut(struct rt_http_calls *h, struct rt_service_call *c);

/* Cuts all; when it returns the last done() has. Quick, whatever the services do. No other call may be under way or follow.
 * NULL is legal. */
void rt_http_calls_close(struct rt_http_calls *h);

#endif
