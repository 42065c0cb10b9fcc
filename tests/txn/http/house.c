/* SPDX-License-Identifier: Apache-2.0 */
/* A server with a few doors, and calls to send and wait for. */
#include "house.h"

#include "base/alloc.h"
#include "net/loop.h"
#include "txn/http/payload.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say_status(struct rt_http_request *r, void *arg)
{
    char said[32];
    int status = atoi(r->path + 3);

    (void)arg;
    int n = snprintf(said, sizeof(said), "said %d", status);
    rt_http_request_answer(r, status, "text/plain", said, status == 204 ? 0 : (size_t)n);
}

static void echo(struct rt_http_request *r, void *arg)
{
    static const char *const names[] = {"Rota-Txn",     "Rota-Branch",   "Rota-Op", "Rota-Deadline",
                                        "Content-Type", "Authorization", "Expect"};
    char said[4096];
    size_t n = (size_t)snprintf(
        said, sizeof(said), "%s %s q=%s\n", r->method, r->path,
        rt_http_request_query(r, "q") != NULL ? rt_http_request_query(r, "q") : "-");

    (void)arg;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = rt_http_request_header(r, names[i]);
        n += (size_t)snprintf(said + n, sizeof(said) - n, "%s=%s\n", names[i],
                              value != NULL ? value : "-");
    }
    n += (size_t)snprintf(said + n, sizeof(said) - n, "%.1000s", r->body);
    rt_http_request_answer(r, 200, "text/plain", said, n);
}

static void large(struct rt_http_request *r, void *arg)
{
    static char said[200000];

    (void)arg;
    rt_http_request_answer(r, 200, "text/plain", memset(said, 'x', sizeof(said)), sizeof(said));
}

static void hang(struct rt_http_request *r, void *arg)
{
    struct house *h = arg;

    pthread_mutex_lock(&h->mu);
    h->hanging++;
    pthread_cond_broadcast(&h->changed);
    while (!h->gate_open)
        pthread_cond_wait(&h->changed, &h->mu);
    pthread_mutex_unlock(&h->mu);
    rt_http_request_answer(r, 200, NULL, "late", 4);
}

static void *answer(void *arg)
{
    rt_http_request_answer(arg, 200, NULL, "later", 5);
    return NULL;
}

static void later(struct rt_http_request *r, void *arg)
{
    pthread_t thread;

    (void)arg;
    if (pthread_create(&thread, NULL, answer, r) == 0)
        pthread_detach(thread);
}

void house_start(struct house *h, const struct rt_http_server_options *options)
{
    struct rt_http_server_options o = *options;
    char errmsg[256] = "";

    *h = (struct house){.gate_open = false};
    const struct rt_http_route routes[] = {
        {"POST", "/s/*", say_status, h, false, RT_HTTP_ANY},
        {"POST", "/echo", echo, h, false, RT_HTTP_ANY},
        {"POST", "/large", large, h, false, RT_HTTP_ANY},
        {"POST", "/hang", hang, h, false, RT_HTTP_ANY},
        {"POST", "/later", later, h, false, RT_HTTP_ANY},
        {"POST", "/quick", echo, h, true, RT_HTTP_ANY},
        {"GET", "/echo", echo, h, false, RT_HTTP_JSON},
        {"POST", "/json", echo, h, false, RT_HTTP_JSON},
        {"POST", "/text", echo, h, false, RT_HTTP_JSON_OR_TEXT},
    };
    memcpy(h->routes, routes, sizeof(routes));
    pthread_mutex_init(&h->mu, NULL);
    pthread_cond_init(&h->changed, NULL);
    o.routes = h->routes;
    o.route_count = sizeof(routes) / sizeof(routes[0]);
    if (rt_http_server_start(&h->server, &o, errmsg, sizeof(errmsg)) != 0) {
        fprintf(stderr, "house: %s\n", errmsg);
        abort();
    }
    snprintf(h->base, sizeof(h->base), "http%s://127.0.0.1:%u", o.cert_file != NULL ? "s" : "",
             rt_http_server_port(h->server));
}

void house_await_hanging(struct house *h, int n)
{
    pthread_mutex_lock(&h->mu);
    while (h->hanging < n)
        pthread_cond_wait(&h->changed, &h->mu);
    pthread_mutex_unlock(&h->mu);
}

void house_open_gate(struct house *h)
{
    pthread_mutex_lock(&h->mu);
    h->gate_open = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mu);
}

void house_stop(struct house *h)
{
    house_open_gate(h);
    rt_http_server_stop(h->server, 5000);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->mu);
}

/* ---- Calls ------------------------------------------------------------------------------- */

static void on_done(struct rt_service_call *c)
{
    struct ask *a = c->user;

    pthread_mutex_lock(&a->mu);
    a->times++;
    pthread_cond_broadcast(&a->answered);
    pthread_mutex_unlock(&a->mu);
}

void ask_init(struct ask *a, enum rt_service_op op, const char *url, const char *body, unsigned ms)
{
    const struct rt_http_payload p = {
        .urls = {url, url, url}, .type = "text/plain", .body = body, .size = strlen(body)};
    char errmsg[256] = "";
    size_t n = 0;

    *a = (struct ask){.times = 0};
    if (rt_http_payload_check(&p, &n, errmsg, sizeof(errmsg)) != 0) {
        fprintf(stderr, "ask: %s\n", errmsg);
        abort();
    }
    a->payload = malloc(n);
    rt_http_payload_write(&p, a->payload);
    pthread_mutex_init(&a->mu, NULL);
    pthread_cond_init(&a->answered, NULL);
    a->call = (struct rt_service_call){
        .op = op,
        .name = {.id = rt_txn_id_make(7, 1000, 42), .branch = 3, .deadline_ms = 123456},
        .payload = a->payload,
        .size = n,
        .resource = "stock",
        .deadline = rt_loop_clock() + (int64_t)ms * 1000000,
        .done = on_done,
        .user = a,
    };
}

void ask_send(struct ask *a, struct rt_http_calls *h)
{
    int rv = rt_http_calls_ask(h, &a->call);

    if (rv != 0) {
        fprintf(stderr, "ask: not taken: %d\n", rv);
        abort();
    }
}

void ask_await(struct ask *a)
{
    pthread_mutex_lock(&a->mu);
    while (a->times == 0)
        pthread_cond_wait(&a->answered, &a->mu);
    pthread_mutex_unlock(&a->mu);
}

void ask_fini(struct ask *a)
{
    assert(a->times == 1);
    rt_free(a->call.body);
    free(a->payload);
    pthread_cond_destroy(&a->answered);
    pthread_mutex_destroy(&a->mu);
}

struct rt_service_call ask_do(struct rt_http_calls *h, enum rt_service_op op, const char *url,
                              const char *body, unsigned ms)
{
    struct ask a;

    ask_init(&a, op, url, body, ms);
    ask_send(&a, h);
    ask_await(&a);
    struct rt_service_call c = a.call;
    a.call.body = NULL;
    ask_fini(&a);
    return c;
}
