/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of three-phase commit over HTTP. */
#include "txn/cli/three/calls.h"

#include "base/alloc.h"
#include "net/loop.h"
#include "txn/http/client.h"
#include "txn/http/payload.h"

#include <stdlib.h>
#include <string.h>

#define CALL_NS INT64_C(6000000000) /* a participant answers within 5 s */

struct question {
    struct rt_service_call call;
    void (*told)(void *arg, uint32_t whom, uint32_t seq, const struct rt_stand *stand);
    void *arg;
    uint32_t whom, seq;
    unsigned char payload[];
};

int rt_three_calls_open(struct rt_three_calls **out)
{
    static const struct rt_http_calls_options none = {0};
    struct rt_http_calls *h = NULL;
    int rv = rt_http_calls_open(&h, &none);
    if (rv == 0)
        *out = (struct rt_three_calls *)h;
    return rv;
}

void rt_three_calls_close(struct rt_three_calls *c)
{
    rt_http_calls_close((struct rt_http_calls *)c);
}

static void done(struct rt_service_call *call)
{
    struct question *q = call->user;
    struct rt_stand stand;
    bool good = call->reply == RT_REPLY_YES && call->body != NULL &&
                rt_word_stand(call->body, call->body_size, &stand);
    rt_free(call->body);
    q->told(q->arg, q->whom, q->seq, good ? &stand : NULL);
    free(q);
}

bool rt_three_calls_ask(struct rt_three_calls *c, const char *url, const struct rt_name *name,
                        const char *text,
                        void (*told)(void *arg, uint32_t whom, uint32_t seq,
                                     const struct rt_stand *stand),
                        void *arg, uint32_t whom, uint32_t seq)
{
    struct rt_http_payload p = {.urls = {url, "", ""}, .type = RT_THREE_TYPE, .body = text};
    size_t bytes = 0;
    char why[256];
    p.size = strlen(text);
    if (rt_http_payload_check(&p, &bytes, why, sizeof(why)) != 0)
        return false;
    struct question *q = calloc(1, sizeof(*q) + bytes);
    if (q == NULL)
        return false;
    rt_http_payload_write(&p, q->payload);
    q->told = told;
    q->arg = arg;
    q->whom = whom;
    q->seq = seq;
    q->call = (struct rt_service_call){.op = RT_SERVICE_TRY,
                                       .name = *name,
                                       .payload = q->payload,
                                       .size = bytes,
                                       .resource = "",
                                       .done = done,
                                       .user = q};
    q->call.deadline = rt_loop_clock() + CALL_NS;
    if (rt_http_calls_ask((struct rt_http_calls *)c, &q->call) == 0)
        return true;
    free(q);
    return false;
}
