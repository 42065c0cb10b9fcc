/* SPDX-License-Identifier: Apache-2.0 */
/* The network between coordinators and services: a proxy that doubles calls, loses them and their answers, and brings a try
 * after its cancel. What it does depends only on the order that is played. */
#include "txn/cli/order/network.h"

#include "base/alloc.h"
#include "net/loop.h"
#include "txn/cli/order/counter.h"
#include "txn/fence/call.h"
#include "txn/http/client.h"
#include "txn/http/payload.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_NS INT64_C(10000000000)
#define BODY_MOST 32

struct packet { /* a call on its way */
    struct rota_call call;
    int service;
    char body[BODY_MOST];
};

struct network {
    const struct rt_stage *stage;
    struct rt_http_calls *calls;
    _Atomic bool lost[RT_ORDER_SERVICES]; /* its confirm was lost */
    struct packet late;                   /* a try that is held up */
};

static void wake(struct rt_service_call *c)
{
    sem_post(c->user);
}

/* Brings P to its service. Returns the status that it answers; 502: none. */
static int bring(const struct network *n, const struct packet *p)
{
    char url[64], why[RT_SERVICE_LINE];
    struct rt_http_payload what = {
        .urls = {url, url, url}, .type = "text/plain", .body = p->body, .size = strlen(p->body)};
    unsigned char bytes[512];
    sem_t answered;
    size_t size = 0;

    snprintf(url, sizeof(url), "http://127.0.0.1:%u/%s", (unsigned)n->stage->ports[p->service],
             rt_call_op_name(p->call.op));
    if (rt_http_payload_check(&what, &size, why, sizeof(why)) != 0 || size > sizeof(bytes))
        return 502;
    rt_http_payload_write(&what, bytes);
    sem_init(&answered, 0, 0);
    struct rt_service_call c = {.op = (enum rt_service_op)p->call.op,
                                .payload = bytes,
                                .size = size,
                                .resource = "",
                                .deadline = rt_loop_clock() + ANSWER_NS,
                                .done = wake,
                                .user = &answered};
    bool sent = rt_call_check(&p->call, &c.name) == 0 && rt_http_calls_ask(n->calls, &c) == 0;
    while (sent && sem_wait(&answered) != 0)
        continue;
    sem_destroy(&answered);
    rt_free(c.body);
    return sent && c.status != 0 ? c.status : 502;
}

/* ---- What happens on the way ------------------------------------------------------------- */

/* Twice, one after the other. */
static int doubled(const struct network *n, const struct packet *p)
{
    (void)bring(n, p);
    return bring(n, p);
}

/* Loses the order's first confirm, and the stock's answer to its own. */
static int lossy(struct network *n, const struct packet *p)
{
    if (p->call.op != ROTA_OP_CONFIRM || p->service == RT_ORDER_PAYMENT ||
        atomic_exchange(&n->lost[p->service], true))
        return bring(n, p);
    if (p->service == RT_ORDER_STOCK) {
        (void)bring(n, p);
        rt_stage_says(n->stage, "network", p->call.op, "the answer of stock is lost");
    } else {
        rt_stage_says(n->stage, "network", p->call.op, "the confirm to order is lost");
    }
    return 504;
}

/* Holds up the payment's try until its cancel has arrived. */
static int slow(struct network *n, const struct packet *p)
{
    if (p->service != RT_ORDER_PAYMENT || p->call.op == ROTA_OP_CONFIRM)
        return bring(n, p);
    if (p->call.op == ROTA_OP_TRY) {
        n->late = *p;
        rt_stage_says(n->stage, "network", p->call.op,
                      "the try to payment is held up: nobody answers");
        return 504;
    }
    int status = bring(n, p);
    if (n->late.call.op == ROTA_OP_TRY) {
        rt_stage_says(n->stage, "network", p->call.op, "now that try arrives");
        (void)bring(n, &n->late);
        n->late.call.op = 0;
    }
    return status;
}

/* ---- The proxy ----------------------------------------------------------------------------- */

static bool read_packet(struct packet *p, const struct rt_http_request *r)
{
    *p = (struct packet){.service = 0};
    while (p->service < RT_ORDER_SERVICES) {
        size_t length = strlen(rt_order_names[p->service]);
        if (strncmp(r->path + 1, rt_order_names[p->service], length) == 0 &&
            r->path[1 + length] == '/')
            break;
        p->service++;
    }
    snprintf(p->body, sizeof(p->body), "%s", r->body);
    return p->service < RT_ORDER_SERVICES && rt_counter_asked(r, &p->call);
}

static void handle(struct rt_http_request *r, void *arg)
{
    struct network *n = arg;
    struct packet p;
    int status = 404;

    if (read_packet(&p, r)) {
        int order = n->stage->shared->order;
        status = order == RT_NETWORK_DOUBLES ? doubled(n, &p)
                 : order == RT_NETWORK_LOSES ? lossy(n, &p)
                                             : slow(n, &p);
    }
    rt_http_request_answer(r, status, NULL, NULL, 0);
}

int rt_network_run(const struct rt_stage *stage, void *arg)
{
    struct network n = {.stage = stage};
    const struct rt_http_route routes[] = {
        {.method = "POST", .path = "/*", .handle = handle, .arg = &n, .takes = RT_HTTP_ANY}};
    struct rt_http_server_options options = {.routes = routes, .route_count = 1};
    struct rt_http_server *server;
    char why[160];

    (void)arg;
    if (rt_http_calls_open(&n.calls, &(struct rt_http_calls_options){.site = NULL}) != 0)
        return rt_stage_fail(stage, "network", "no memory");
    if (rt_http_server_start(&server, &options, why, sizeof(why)) != 0)
        return rt_stage_fail(stage, "network", why);
    rt_stage_tell(stage, &(struct rt_event){.kind = RT_EVENT_READY,
                                            .service = -1,
                                            .number = rt_http_server_port(server)});
    for (;;)
        pause();
}
