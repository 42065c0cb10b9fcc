/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of three-phase commit over HTTP. */
#include "txn/phase/calls.h"

#include "base/alloc.h"
#include "net/loop.h"
#include "txn/http/address.h"
#include "txn/http/client.h"
#include "txn/http/payload.h"

#include <rota.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define CALL_NS INT64_C(6000000000) /* a participant answers within 5 s */

struct rt_three_calls {
    struct rt_http_calls *http;
    char params[]; /* ?token_file=...&ca=..., as in a URL */
};

struct question {
    struct rt_service_call call;
    rt_three_told_fn *told;
    void *arg;
    uint32_t whom, seq;
    char *origin;
    unsigned char payload[];
};

/* ---- Whom it asks, and by which token ------------------------------------------------ */

/* Writes VALUE as a URL's parameter NAME to AT, without an end; only counts the bytes if AT is NULL. */
static size_t add(char *at, const char *name, const char *value)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;
    for (; value != NULL && *name != '\0'; name++, n++)
        if (at != NULL)
            at[n] = *name;
    for (; value != NULL && *value != '\0'; value++) {
        unsigned char b = (unsigned char)*value;
        bool plain = isalnum(b) || strchr("-._/", b) != NULL;
        const char three[] = {'%', hex[b >> 4], hex[b & 15]};
        for (int i = 0; i < (plain ? 1 : 3); i++, n++)
            if (at != NULL)
                at[n] = plain ? *value : three[i];
    }
    return n;
}

static size_t params(char *at, const char *token_file, const char *ca_file, bool secure)
{
    size_t n = add(at, "?token_file=", token_file);
    return n + add(at != NULL ? at + n : NULL, n > 0 ? "&ca=" : "?ca=", secure ? ca_file : NULL);
}

/* How many bytes of URL are its scheme, host and port; 0: it is not a URL, and WHY says what is wrong. */
static size_t origin_of(const char *url, bool *secure, char *why, size_t room)
{
    struct rt_http_address a;
    if (rt_http_address_read(&a, url, why, room) != 0)
        return 0;
    if (a.is_path) {
        snprintf(why, room, "an address is http://HOST:PORT, or the same with https");
        return 0;
    }
    *secure = a.secure;
    return a.origin;
}

/* Where the parameters for https:// or http:// are: PARAMS has one after the other. */
static const char *params_of(const struct rt_three_calls *c, bool secure)
{
    return secure ? c->params : c->params + strlen(c->params) + 1;
}

static int make_site(const struct rt_three_calls *c, const char *url, struct rt_http_site **out,
                     char *why, size_t room)
{
    bool secure = false;
    size_t n = origin_of(url, &secure, why, room);
    if (n == 0)
        return ROTA_INVALID;
    const char *tail = params_of(c, secure);
    char *whole = rt_alloc(n + strlen(tail) + 1);
    if (whole == NULL)
        return ROTA_NOMEM;
    memcpy(whole, url, n);
    memcpy(whole + n, tail, strlen(tail) + 1);
    int rv = rt_http_site_new(out, whole, why, room);
    rt_free(whole);
    return rv;
}

static struct rt_http_site *site_of(void *arg, const char *resource)
{
    struct rt_http_site *site = NULL;
    char why[256];
    (void)make_site(arg, resource, &site, why, sizeof(why));
    return site;
}

int rt_three_calls_check(const struct rt_three_calls *c, const char *url, char *why, size_t room)
{
    struct rt_http_site *site = NULL;
    int rv = make_site(c, url, &site, why, room);
    rt_http_site_let_go(site);
    return rv;
}

int rt_three_calls_open(struct rt_three_calls **out, const char *token_file, const char *ca_file)
{
    size_t secure = params(NULL, token_file, ca_file, true);
    size_t plain = params(NULL, token_file, ca_file, false);
    struct rt_three_calls *c = rt_alloc(sizeof(*c) + secure + plain + 2);
    if (c == NULL)
        return ROTA_NOMEM;
    (void)params(c->params, token_file, ca_file, true);
    (void)params(c->params + secure + 1, token_file, ca_file, false);
    const struct rt_http_calls_options options = {.site = site_of, .arg = c};
    int rv = rt_http_calls_open(&c->http, &options);
    if (rv == 0)
        *out = c;
    else
        rt_free(c);
    return rv;
}

void rt_three_calls_close(struct rt_three_calls *c)
{
    if (c == NULL)
        return;
    rt_http_calls_close(c->http);
    rt_free(c);
}

/* ---- Questions ------------------------------------------------------------------------ */

static void let_go(struct question *q)
{
    rt_free(q->origin);
    rt_free(q);
}

static void done(struct rt_service_call *call)
{
    struct question *q = call->user;
    struct rt_answer answer;
    bool good = call->reply == RT_REPLY_YES && call->body != NULL &&
                rt_word_heard(call->body, call->body_size, &answer);
    rt_free(call->body);
    q->told(q->arg, q->whom, q->seq, good ? &answer : NULL,
            call->errmsg[0] != '\0' ? call->errmsg : "it is not one of ours that answers there");
    let_go(q);
}

/* What to send, in the form that the client of services wants. 0 bytes: it cannot be sent. */
static size_t payload_of(struct rt_http_payload *p, const char *url, const char *text)
{
    bool secure;
    char why[256];
    size_t bytes = 0, n = origin_of(url, &secure, why, sizeof(why));
    const char *path = url[n] == '/' ? url + n : RT_THREE_PATH;
    *p = (struct rt_http_payload){
        .urls = {path, "", ""}, .type = RT_THREE_TYPE, .body = text, .size = strlen(text)};
    return n > 0 && rt_http_payload_check(p, &bytes, why, sizeof(why)) == 0 ? bytes : 0;
}

bool rt_three_calls_fits(const char *url, const char *text)
{
    struct rt_http_payload p;
    return payload_of(&p, url, text) > 0;
}

bool rt_three_calls_ask(struct rt_three_calls *c, const char *url, const struct rt_name *name,
                        const char *text, rt_three_told_fn *told, void *arg, uint32_t whom,
                        uint32_t seq)
{
    struct rt_http_payload p;
    size_t bytes = payload_of(&p, url, text);
    struct question *q = bytes > 0 ? rt_alloc(sizeof(*q) + bytes) : NULL;
    if (q == NULL)
        return false;
    rt_http_payload_write(&p, q->payload);
    q->told = told;
    q->arg = arg;
    q->whom = whom;
    q->seq = seq;
    q->origin = rt_strdup(url);
    q->call = (struct rt_service_call){.op = RT_SERVICE_TRY,
                                       .name = *name,
                                       .payload = q->payload,
                                       .size = bytes,
                                       .resource = q->origin,
                                       .done = done,
                                       .user = q};
    q->call.deadline = rt_loop_clock() + CALL_NS;
    if (q->origin != NULL && rt_http_calls_ask(c->http, &q->call) == 0)
        return true;
    let_go(q);
    return false;
}
