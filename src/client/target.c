/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL stands for: which engine, with which parameters; and the tables that it needs. */
#include "client/target.h"

#include "base/alloc.h"
#include "engine/also/also.h"
#include "net/loop.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_URL "file:"
#define DEFAULT_TTL_MS 10000
#define TTL_LEAST_MS 1000
#define TTL_MOST_MS 3600000

/* TEXT, $ROTA_URL, or the embedded engine; names are looked up. */
static int resolve(struct rt_target *t, const char *text)
{
    if (text == NULL || text[0] == '\0')
        text = getenv("ROTA_URL");
    if (text == NULL || text[0] == '\0')
        text = DEFAULT_URL;
    if (strpbrk(text, ":@") ==
        NULL) { /* with an @ it was meant to be a URL, and may have a secret */
        int rv = rt_config_find(text, &t->named, t->errmsg, sizeof(t->errmsg));
        if (rv != 0)
            return rv;
        text = t->named;
    }
    return rt_url_parse(&t->url, text, t->errmsg, sizeof(t->errmsg));
}

static int choose_engine(struct rt_target *t)
{
    const char *dialect = rt_url_param(&t->url, "dialect", NULL);

    t->engine = rt_engine_find(t->url.scheme);
    if (t->engine == NULL) {
        char known[128];
        rt_engine_list(known, sizeof(known));
        snprintf(t->errmsg, sizeof(t->errmsg),
                 "there is no engine '%.40s' in this build: use one of %s", t->url.scheme, known);
        return ROTA_INVALID;
    }
    int rv = rt_url_check_params(&t->url, t->engine->params, t->errmsg, sizeof(t->errmsg));
    if (rv == 0 && dialect != NULL && strcmp(dialect, "line") != 0) {
        bool own = false; /* engines with several list the parameter as theirs */
        for (const char *const *p = t->engine->params; *p != NULL; p++)
            own = own || strcmp(*p, "dialect") == 0;
        if (!own) {
            snprintf(t->errmsg, sizeof(t->errmsg), "%s: has no dialect '%.40s', only 'line'",
                     t->url.scheme, dialect);
            rv = ROTA_INVALID;
        }
    }
    if (rv == 0 && rt_url_param(&t->url, "also", NULL) != NULL)
        t->engine = &rt_engine_also; /* it opens the one that was found, twice */
    return rv;
}

static int choose_ttl(struct rt_target *t, uint32_t ttl_ms)
{
    const char *text = rt_url_param(&t->url, "ttl", NULL);
    uint64_t ms = ttl_ms != 0 ? ttl_ms : DEFAULT_TTL_MS;

    if (text != NULL && rt_url_duration_ms(text, &ms) != 0)
        ms = 0;
    if (ms < TTL_LEAST_MS || ms > TTL_MOST_MS) {
        snprintf(t->errmsg, sizeof(t->errmsg), "the ttl must be from 1s to 1h, like ttl=10s");
        return ROTA_INVALID;
    }
    t->ttl_ms = (uint32_t)ms;
    return 0;
}

int rt_target_find(struct rt_target *t, const char *text, uint32_t ttl_ms)
{
    memset(t, 0, sizeof(*t));
    int rv = resolve(t, text);
    if (rv == 0)
        rv = choose_engine(t);
    if (rv == 0)
        rv = choose_ttl(t, ttl_ms);
    if (rv == 0)
        rv = rt_url_password(&t->url, t->password, sizeof(t->password), t->errmsg,
                             sizeof(t->errmsg));
    return rv;
}

void rt_target_fini(struct rt_target *t)
{
    rt_url_fini(&t->url);
    rt_free(t->named);
    explicit_bzero(t->password, sizeof(t->password));
}

int rt_target_open(struct rt_target *t, const struct rt_conn *given, struct rt_conn **out)
{
    const char *in_url = t->url.password;
    struct rt_conn *conn = rt_alloc(t->engine->conn_size);

    assert(given->loop != NULL && given->up != NULL);
    if (conn == NULL)
        return ROTA_NOMEM;
    *conn = *given;
    conn->engine = t->engine;
    conn->ttl_ms = t->ttl_ms;
    if (t->password[0] != '\0')
        t->url.password = t->password;
    int rv = t->engine->open(conn, &t->url);
    t->url.password = in_url;
    if (rv != 0) {
        snprintf(t->errmsg, sizeof(t->errmsg), "%s", conn->errmsg);
        rt_free(conn);
        return rv;
    }
    *out = conn;
    return 0;
}

/* ---- Its tables --------------------------------------------------------- */

int rt_target_ddl(struct rt_target *t, rota_ddl_fn *fn, void *arg)
{
    struct rt_up nobody = {0}; /* nothing is submitted, so nothing is told */
    struct rt_conn given = {.up = &nobody, .label = "", .call_ms = RT_DEFAULT_CALL_MS};
    struct rt_conn *conn;
    struct rt_loop loop;

    if (t->engine->ddl == NULL)
        return 0;
    rt_loop_init_virtual(&loop); /* without a descriptor, and nobody turns it: nothing is dialed */
    given.loop = &loop;
    int rv = rt_target_open(t, &given, &conn);
    if (rv == 0) {
        const char *text = conn->engine->ddl(conn); /* a dialect's is its own */
        assert(text != NULL);
        if (fn != NULL && text[0] != '\0') /* with ?also= there may be none */
            fn(arg, text);
        conn->engine->close(conn);
        rt_free(conn);
    }
    rt_loop_fini(&loop);
    return rv;
}

int rota_ddl(const char *url, rota_ddl_fn *fn, void *arg)
{
    struct rt_target t;
    int rv = rt_target_find(&t, url, 0);

    if (rv == 0)
        rv = rt_target_ddl(&t, fn, arg);
    if (rv != 0)
        rt_fail_waiter(0, rv, t.errmsg);
    rt_target_fini(&t);
    return rv;
}
