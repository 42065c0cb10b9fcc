/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to services over HTTP: service.h is the contract, payload.h says what the bytes of a branch are.
 *
 * POST, HTTP/1.1, with the headers Rota-Txn, Rota-Branch, Rota-Op (try, confirm, cancel), Rota-Deadline (ms since 1970)
 * and the payload's content type. Status: 2xx YES, DONE; 409 NO, REFUSED; 425 HELD; any other, or none, LOST, with a
 * line that says what came.
 *
 * One thread (its own, or its owner's if hosted) makes all calls through libcurl's multi interface: a call that hangs
 * delays no other. At most 64 calls at once go to one host and port; the rest wait in that host's own queue.
 * Connections are kept and reused. Redirects are not followed, certificates and names are always checked, no proxy is
 * used and no cookie kept. At most 64 KB of an answer are read: a try's answer that was cut there counts by its status.
 * An answer that ends before it is whole is LOST.
 *
 * Signals: it raises none in the program (SIGPIPE), and none of the program's interrupts it. */
#ifndef RT_HTTP_CLIENT_H
#define RT_HTTP_CLIENT_H

#include "txn/http/site.h"
#include "txn/manager/service.h"

#define RT_HTTP_AT_ONCE 64 /* calls to one host and port */

struct rt_http_calls;

struct rt_http_calls_options {
    /* The service that a resource stands for, held for whoever asked; NULL: there is none. Called on the calls' own
     * thread. SITE itself may be NULL: there are no services by name. */
    struct rt_http_site *(*site)(void *arg, const char *resource);
    void *arg;
    /* There is no thread of its own: whoever opened it polls rt_http_calls_fd and calls rt_http_calls_turn. All of
     * these calls, and done(), are on one thread, which has SIGPIPE blocked. */
    bool hosted;
};

/* Whether calls can be made here: 0; or ROTA_UNSUPPORTED and one line with the way out. Loads libcurl. */
int rt_http_calls_ready(char *errmsg, size_t size);

/* Makes *OUT; ROTA_NOMEM: it is as before. No I/O: the thread and libcurl come with the first call. Where libcurl
 * cannot be loaded, calls are LOST, with a line that says so. A child of fork() leaves it alone: none of these
 * functions is legal there. */
int rt_http_calls_open(struct rt_http_calls **out, const struct rt_http_calls_options *options);

/* Takes C, and returns at once. ROTA_NOMEM, ROTA_CANCELED (closing): it was not taken. Bytes that are no HTTP branch,
 * or a name that stands for no service: taken, and LOST. From any thread, also from inside done(). */
int rt_http_calls_ask(struct rt_http_calls *h, struct rt_service_call *c);

/* C, which was taken and, as far as its caller knows, not yet handed to done(), is soon LOST unless it is answered
 * first. Never waits. */
void rt_http_calls_cut(struct rt_http_calls *h, struct rt_service_call *c);

/* Hosted: does what there is to do. To be called after calls were asked, when the fd was found READY (readable), and at
 * the time the last turn returned (CLOCK_BOOTTIME, ns; INT64_MAX: none). Never waits. */
int rt_http_calls_fd(const struct rt_http_calls *h);
int64_t rt_http_calls_turn(struct rt_http_calls *h, bool ready);

/* Cuts all calls; the last done() has returned before it does. Quick, whatever the services do. No other function may
 * be running on H or follow. NULL is legal. */
void rt_http_calls_close(struct rt_http_calls *h);

#endif
