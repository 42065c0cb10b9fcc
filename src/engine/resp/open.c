/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis connection opened from its URL, and closed. */
#include "engine/resp/link.h"

#include "base/alloc.h"
#include "base/secret.h"
#include "engine/url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define PORT 6379
#define SENTINEL_PORT 26379
#define DB_MAX 1000000

/* ---- URLs -------------------------------------------------------------------------------------------- */

static int number(struct rt_resp_conn *c, const char *text, const char *what, uint32_t most,
                  uint32_t *out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || value > most)
        return rt_resp_fail(c, ROTA_INVALID, "%s is a number from 0 to %u, not '%.40s'", what, most,
                            text);
    *out = (uint32_t)value;
    return 0;
}

static int take_db(struct rt_resp_conn *c, const struct rt_url *url)
{
    const char *param = rt_url_param(url, "db", NULL);
    const char *path = url->path;
    if (c->unix_path != NULL)
        path = "";
    path += path[0] == '/';
    if (path[0] != '\0' && param != NULL)
        return rt_resp_fail(c, ROTA_INVALID, "the URL names its database twice: keep one");
    if (path[0] == '\0' && param == NULL)
        return 0;
    return number(c, param != NULL ? param : path, "the database of a Redis URL", DB_MAX, &c->db);
}

static char *copy_unless_empty(const char *text, bool *good)
{
    if (text == NULL || text[0] == '\0')
        return NULL;
    char *copy = rt_strdup(text);
    *good = *good && copy != NULL;
    return copy;
}

static int take_place(struct rt_resp_conn *c, const struct rt_url *url)
{
    bool good = true, local = strcmp(url->scheme, "redis+unix") == 0;
    c->secure = strcmp(url->scheme, "rediss") == 0;
    if (local && (url->host_count > 0 || url->path[0] != '/'))
        return rt_resp_fail(c, ROTA_INVALID,
                            "redis+unix: names a socket: write redis+unix:/path/redis.sock");
    if (local && strlen(url->path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return rt_resp_fail(c, ROTA_INVALID, "the path of the socket is longer than %zu bytes",
                            sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
    if (local)
        c->unix_path = copy_unless_empty(url->path, &good);
    c->sentinel = copy_unless_empty(rt_url_param(url, "sentinel", NULL), &good);
    c->user = copy_unless_empty(url->user, &good);
    c->password = url->password[0] != '\0' ? rt_secret_dup(url->password) : NULL;
    if (!good || (url->password[0] != '\0' && c->password == NULL))
        return ROTA_NOMEM;
    if (local && c->sentinel != NULL)
        return rt_resp_fail(c, ROTA_INVALID, "?sentinel= needs hosts: write redis://host");
    return local
               ? 0
               : rt_dial_hosts(&c->ring, c->base, url, c->sentinel != NULL ? SENTINEL_PORT : PORT);
}

/* Given, but empty: a variable that was not set where the URL was put together. */
static int check_empty(struct rt_resp_conn *c, const struct rt_url *url)
{
    static const char *const names[] = {"sentinel", "ca", "cert", "key"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = rt_url_param(url, names[i], NULL);
        if (value != NULL && value[0] == '\0')
            return rt_resp_fail(c, ROTA_INVALID, "?%s= is empty: give it a value, or leave it out",
                                names[i]);
    }
    return 0;
}

static int take_url(struct rt_resp_conn *c, const struct rt_url *url)
{
    const char *replicas = rt_url_param(url, "replicas", "0");
    int rv = check_empty(c, url);
    if (rv == 0)
        rv = take_place(c, url);
    if (rv == 0)
        rv = take_db(c, url);
    if (rv == 0)
        rv = number(c, replicas, "?replicas=", 100, &c->replicas);
    if (rv == 0)
        rv = rt_dial_tls(&c->tls, c->base, url, c->secure, "rediss");
    return rv;
}

/* ---- Opening and closing -------------------------------------------------------------------------------- */

static void free_all(struct rt_resp_conn *c)
{
    rt_resp_push_close(c);
    rt_dial_ring_fini(&c->ring);
    rt_free(c->places);
    rt_free(c->user);
    rt_free(c->sentinel);
    rt_free(c->unix_path);
    rt_secret_free(c->password);
    if (c->out != NULL)
        explicit_bzero(c->out, c->out_room);
    rt_free(c->out);
    rt_tls_free(c->tls); /* streams that are closing have let go of it */
}

static int make_nodes(struct rt_resp_conn *c)
{
    struct rt_resp_node *n;
    if (c->unix_path != NULL)
        n = rt_resp_node_new(c, c->unix_path, 0);
    else if (c->sentinel != NULL)
        n = rt_resp_node_new(c, "", 0);
    else
        n = rt_resp_node_new(c, c->ring.ends[0].host, c->ring.ends[0].port);
    if (n == NULL)
        return ROTA_NOMEM;
    return c->sentinel != NULL ? rt_resp_sentinel_open(c) : 0;
}

static void drop_nodes(struct rt_resp_conn *c)
{
    c->closing = true;
    while (c->nodes != NULL)
        rt_resp_node_drop(c, c->nodes);
    if (c->watcher != NULL)
        rt_resp_node_drop(c, c->watcher);
    c->watcher = NULL;
}

int rt_resp_conn_open(struct rt_resp_conn *c, struct rt_conn *base, const struct rt_url *url,
                      const struct rt_resp_user *user)
{
    c->base = base;
    c->on = user;
    c->checked = user->mark == NULL;
    rt_resp_ledger_open(c);
    rt_dial_times(base);
    int rv = take_url(c, url);
    if (rv == 0)
        rv = rt_dial_random(base, &c->jitter, sizeof(c->jitter));
    c->next_tag = c->jitter >> 16; /* where replies of another connection do not fit */
    if (rv == 0)
        rv = rt_resp_push_open(c);
    if (rv != 0)
        goto free_conn;
    rv = rt_loop_reserve(base->loop, 1);
    if (rv != 0)
        goto free_conn;
    rv = make_nodes(c);
    if (rv == 0)
        return 0;
    drop_nodes(c);
    rt_loop_unreserve(base->loop, 1);
free_conn:
    free_all(c);
    if (rv == ROTA_NOMEM)
        (void)rt_resp_fail(c, rv, "out of memory");
    return rv;
}

void rt_resp_conn_close(struct rt_resp_conn *c)
{
    c->closing = true;
    for (struct rt_resp_node *n = c->nodes; n != NULL; n = n->next)
        if (n->work.state != RT_DIAL_DOWN)
            rt_stream_flush_now(&n->work.stream); /* there may be no other turn */
    drop_nodes(c);
    rt_resp_ledger_close(c);
    rt_loop_unreserve(c->base->loop, 1);
    free_all(c);
}

void rt_resp_conn_forked(struct rt_resp_conn *c)
{
    for (struct rt_resp_node *n = c->nodes; n != NULL; n = n->next) {
        rt_stream_forked(&n->work.stream);
        rt_stream_forked(&n->push.stream);
        rt_stream_forked(&n->wait.stream);
    }
    if (c->watcher != NULL)
        rt_stream_forked(&c->watcher->work.stream);
}
