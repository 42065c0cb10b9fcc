/* SPDX-License-Identifier: Apache-2.0 */
/* Branches that are services over HTTP: rota_tcc_http, and the carrier of their calls. */
#include "txn/manager/tcc.h"

#include "base/alloc.h"
#include "txn/http/address.h"
#include "txn/http/client.h"
#include "txn/http/payload.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

_Static_assert(RT_HTTP_PAYLOAD_MAX <= RT_SERVICE_BYTES, "what is built here is taken");

/* ---- The carrier ------------------------------------------------------------------- */

static struct rt_http_site *find_site(void *arg, const char *name)
{
    const struct rota_txns *m = arg;

    return rt_resources_site(m->resources, name);
}

int rt_tcc_http_send(struct rota_txns *m, struct rt_service_call *c)
{
    const struct rt_http_calls_options options = {.site = find_site, .arg = m, .hosted = true};
    int rv = m->http != NULL ? 0 : rt_http_calls_open(&m->http, &options);

    return rv == 0 ? rt_http_calls_ask(m->http, c) : rv;
}

int rt_tcc_http_fd(const struct rota_txns *m)
{
    return m->http != NULL ? rt_http_calls_fd(m->http) : -1;
}

int64_t rt_tcc_http_turn(struct rota_txns *m, bool ready)
{
    if (m->http == NULL)
        return RT_NEVER;
    pthread_mutex_unlock(&m->mu);
    int64_t next = rt_http_calls_turn(m->http, ready);
    pthread_mutex_lock(&m->mu);
    return next;
}

void rt_tcc_http_close(struct rota_txns *m)
{
    rt_http_calls_close(m->http);
    m->http = NULL;
}

/* ---- The public calls ------------------------------------------------------------------ */

static void read_what(struct rota_tcc_http *out, const struct rota_tcc_http *what, size_t size)
{
    *out = (struct rota_tcc_http){0};
    if (what != NULL)
        memcpy(out, what, size < sizeof(*out) ? size : sizeof(*out));
}

/* The branch's name: its service's name, or where it is. */
static int name_it(struct rota_txns *m, const struct rota_tcc_http *what,
                   const struct rt_http_payload *p, char out[RT_JOURNAL_NAME_MAX + 1])
{
    struct rt_http_address a = {.is_path = true};
    char unused[RT_TXN_LINE];
    bool has_path = false;

    out[0] = '\0';
    for (size_t i = 0; i < 3; i++) {
        if (p->urls[i][0] == '\0' ||
            rt_http_address_read(&a, p->urls[i], unused, sizeof(unused)) != 0)
            continue;
        has_path = has_path || a.is_path;
        if (!a.is_path && out[0] == '\0')
            snprintf(out, RT_JOURNAL_NAME_MAX + 1, "%.*s", (int)a.origin, p->urls[i]);
    }
    if (what->resource != NULL)
        snprintf(out, RT_JOURNAL_NAME_MAX + 1, "%s", what->resource);
    if (has_path && what->resource == NULL)
        return rt_txns_fail(m, ROTA_INVALID,
                            "a path needs the name of its service: give that, or a whole URL");
    struct rt_http_site *site = has_path ? rt_resources_site(m->resources, what->resource) : NULL;
    rt_http_site_let_go(site);
    if (has_path && site == NULL)
        return rt_txns_fail(m, ROTA_UNSUPPORTED,
                            "no service %.60s is known here: add '%.60s = https://...' to "
                            "~/.config/rota/txn",
                            what->resource, what->resource);
    return 0;
}

/* Makes the branch's bytes, *OUT (to be freed), *BYTES long, and its name. */
static int build(struct rota_txn *t, const struct rota_tcc_http *what,
                 char name[RT_JOURNAL_NAME_MAX + 1], void **out, size_t *bytes)
{
    struct rt_http_payload p = {
        .urls = {what->try_url != NULL ? what->try_url : "",
                 what->confirm_url != NULL ? what->confirm_url : "",
                 what->cancel_url != NULL ? what->cancel_url : ""},
        .type = what->content_type != NULL ? what->content_type : "",
        .body = what->body,
        .size = what->size,
    };
    char line[RT_TXN_LINE] = "";

    if (what->body == NULL && what->size > 0)
        return rt_txns_fail(t->m, ROTA_INVALID, "a body of %zu bytes cannot be NULL", what->size);
    if (p.urls[0][0] == '\0' && p.urls[1][0] == '\0' && p.urls[2][0] == '\0')
        return rt_txns_fail(t->m, ROTA_INVALID,
                            "a service needs a URL for at least one of try, confirm, cancel");
    int rv = rt_http_payload_check(&p, bytes, line, sizeof(line));
    if (rv == 0)
        rv = rt_http_calls_ready(line, sizeof(line));
    if (rv != 0)
        return rt_txns_fail(t->m, rv, "%s", line);
    rv = name_it(t->m, what, &p, name);
    if (rv != 0)
        return rv;
    *out = rt_alloc(*bytes);
    if (*out == NULL)
        return rt_txns_fail(t->m, ROTA_NOMEM, "out of memory");
    rt_http_payload_write(&p, *out);
    return 0;
}

static int check(struct rota_txn *t, struct rota_tcc_http *own, const struct rota_tcc_http *what,
                 size_t size, const char *answer, size_t room)
{
    read_what(own, what, size);
    int rv = rt_tcc_check(t, own->resource != NULL ? own->resource : "-", NULL, 0);
    if (rv == 0 && (answer == NULL) != (room == 0))
        rv = rt_txns_fail(t->m, ROTA_INVALID, "an answer needs both a place and its size");
    return rv;
}

/* Adds it, with the mutex; CALL is told when its try is answered. */
static int begin(struct rota_txn *t, const struct rota_tcc_http *what, char *answer, size_t room,
                 struct rt_caller *call)
{
    char name[RT_JOURNAL_NAME_MAX + 1];
    struct rota_branch *b;
    void *bytes = NULL;
    size_t n = 0;
    int rv = build(t, what, name, &bytes, &n);

    if (rv != 0)
        return rv;
    pthread_mutex_lock(&t->m->mu);
    rv = rt_tcc_add(t, RT_TCC_HTTP, name, bytes, n, call, false, &b);
    if (rv == 0) {
        b->answer = answer;
        b->answer_room = room;
    }
    pthread_mutex_unlock(&t->m->mu);
    rt_free(bytes);
    return rv == 0 ? 0 : rt_txns_fail(t->m, rv, "%s", rt_tcc_why_not(rv));
}

int rota_tcc_http_sized(struct rota_txn *t, const struct rota_tcc_http *what, size_t size,
                        char *answer, size_t room)
{
    struct rota_tcc_http own;
    struct rt_caller call;

    int rv = check(t, &own, what, size, answer, room);
    if (rv == 0)
        rv = rt_txns_enter(t->m, "rota_tcc_http");
    if (rv != 0)
        return rv;
    uint64_t serial = t->m->serial; /* once it is added, M may be closed by another thread */
    rt_caller_waits(&call);
    if (answer != NULL)
        answer[0] = '\0';
    rv = begin(t, &own, answer, room, &call);
    if (rv != 0) {
        sem_destroy(&call.sem);
        return rv;
    }
    return rt_txns_await(serial, &call);
}

int rota_tcc_http_async_sized(struct rota_txn *t, const struct rota_tcc_http *what, size_t size,
                              char *answer, size_t room, rota_txn_fn *fn, void *arg)
{
    struct rota_tcc_http own;

    int rv = check(t, &own, what, size, answer, room);
    if (rv == 0 && fn == NULL)
        rv = rt_txns_fail(t->m, ROTA_INVALID, "rota_tcc_http_async needs a function to call");
    if (rv != 0)
        return rv;
    struct rt_caller *call = rt_caller_new(fn, arg);
    if (call == NULL)
        return rt_txns_fail(t->m, ROTA_NOMEM, "out of memory");
    if (answer != NULL)
        answer[0] = '\0';
    rv = begin(t, &own, answer, room, call);
    if (rv != 0)
        rt_caller_free(call);
    return rv;
}
