/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine: its table of functions, its URLs, what it can promise. */
#include "engine/redis/link.h"

#include "base/alloc.h"
#include "engine/url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/un.h>

#define PORT 6379
#define SENTINEL_PORT 26379
#define DB_MAX 1000000
#define CALL_MS 5000
#define TTL_MS 10000

/* ---- Rooms --------------------------------------------------------------------------------------- */

uint32_t rt_redis_room_of(const struct rt_redis_conn *c, const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    if (c->room_count <= 1)
        return 0;
    for (const char *at = name; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    return (uint32_t)((hash >> 32 ^ hash) & UINT32_MAX) % c->room_count;
}

void rt_redis_room_key(const struct rt_redis_conn *c, uint32_t room, char *out, size_t size)
{
    if (c->db == 0)
        snprintf(out, size, "rota:{%u}", room);
    else
        snprintf(out, size, "rota:{%u}@%u", room, c->db);
}

/* ---- URLs -------------------------------------------------------------------------------------------- */

static int number(struct rt_redis_conn *c, const char *text, const char *what, uint32_t most,
                  uint32_t *out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || value > most)
        return rt_redis_fail(c, ROTA_INVALID, "%s is a number from 0 to %u, not '%.40s'", what,
                             most, text);
    *out = (uint32_t)value;
    return 0;
}

static int take_db(struct rt_redis_conn *c, const struct rt_url *url)
{
    const char *param = rt_url_param(url, "db", NULL);
    const char *path = url->path;
    if (c->unix_path != NULL)
        path = "";
    path += path[0] == '/';
    if (path[0] != '\0' && param != NULL)
        return rt_redis_fail(c, ROTA_INVALID, "the URL names its database twice: keep one");
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

static int take_seeds(struct rt_redis_conn *c, const struct rt_url *url)
{
    uint16_t port = c->sentinel != NULL ? SENTINEL_PORT : PORT;
    c->seeds = rt_alloc((url->host_count + 1) * sizeof(*c->seeds));
    if (c->seeds == NULL)
        return ROTA_NOMEM;
    for (size_t i = 0; i < url->host_count; i++) {
        c->seeds[i].host = rt_strdup(url->hosts[i].host);
        c->seeds[i].port = url->hosts[i].port != 0 ? url->hosts[i].port : port;
        if (c->seeds[i].host == NULL)
            return ROTA_NOMEM;
        c->seed_count++;
    }
    return 0;
}

static int take_place(struct rt_redis_conn *c, const struct rt_url *url)
{
    bool good = true, local = strcmp(url->scheme, "redis+unix") == 0;
    c->secure = strcmp(url->scheme, "rediss") == 0;
    if (local && (url->host_count > 0 || url->path[0] != '/'))
        return rt_redis_fail(c, ROTA_INVALID,
                             "redis+unix: names a socket: write redis+unix:/path/redis.sock");
    if (!local && url->host_count == 0)
        return rt_redis_fail(c, ROTA_INVALID, "%s: names no host: write %s://host", url->scheme,
                             url->scheme);
    if (local && strlen(url->path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return rt_redis_fail(c, ROTA_INVALID, "the path of the socket is longer than %zu bytes",
                             sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
    if (local)
        c->unix_path = copy_unless_empty(url->path, &good);
    c->sentinel = copy_unless_empty(rt_url_param(url, "sentinel", NULL), &good);
    c->user = copy_unless_empty(url->user, &good);
    c->password = copy_unless_empty(url->password, &good);
    if (!good)
        return ROTA_NOMEM;
    if (local && c->sentinel != NULL)
        return rt_redis_fail(c, ROTA_INVALID, "?sentinel= needs hosts: write redis://host");
    return take_seeds(c, url);
}

/* Given, but with nothing: a variable that was not set where the URL was put together. */
static int check_empty(struct rt_redis_conn *c, const struct rt_url *url)
{
    static const char *const names[] = {"sentinel", "ca", "cert", "key"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = rt_url_param(url, names[i], NULL);
        if (value != NULL && value[0] == '\0')
            return rt_redis_fail(c, ROTA_INVALID, "?%s= is empty: give it a value, or leave it out",
                                 names[i]);
    }
    return 0;
}

static int take_url(struct rt_redis_conn *c, const struct rt_url *url)
{
    const char *replicas = rt_url_param(url, "replicas", "0");
    int rv = check_empty(c, url);
    if (rv == 0)
        rv = take_place(c, url);
    if (rv == 0)
        rv = take_db(c, url);
    if (rv == 0)
        rv = number(c, replicas, "?replicas=", 100, &c->replicas);
    const char *ca = rt_url_param(url, "ca", NULL), *cert = rt_url_param(url, "cert", NULL);
    const char *key = rt_url_param(url, "key", NULL);
    if (rv == 0 && !c->secure && (ca != NULL || cert != NULL || key != NULL))
        rv = rt_redis_fail(c, ROTA_INVALID, "?ca=, ?cert= and ?key= are for rediss://");
    if (rv == 0 && c->secure)
        rv = rt_tls_new(&c->tls, ca, cert, key, c->base.errmsg, sizeof(c->base.errmsg));
    return rv;
}

/* ---- Opening and closing -------------------------------------------------------------------------------- */

static void wipe(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    rt_free(secret);
}

static void free_all(struct rt_redis_conn *c)
{
    rt_redis_push_close(c);
    for (size_t i = 0; i < c->seed_count; i++)
        rt_free(c->seeds[i].host);
    rt_free(c->seeds);
    rt_free(c->rooms);
    rt_free(c->user);
    rt_free(c->sentinel);
    rt_free(c->unix_path);
    wipe(c->password);
    if (c->out != NULL)
        explicit_bzero(c->out, c->out_room);
    rt_free(c->out);
}

static int draw_ids(struct rt_redis_conn *c)
{
    uint8_t bytes[6];
    uint64_t tag;
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes) ||
        getrandom(&tag, sizeof(tag), 0) != sizeof(tag))
        return rt_redis_fail(c, ROTA_INTERNAL, "the system gave no random bytes");
    bytes[0] &= 0x7f; /* a session id is below 2^63, and never begins like a durable one, with d */
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(c->cid + 2 * i, 3, "%02x", bytes[i]);
    c->next_tag = tag >> 16; /* where replies of another connection do not fit */
    c->jitter = tag;
    return 0;
}

static int make_nodes(struct rt_redis_conn *c)
{
    struct rt_redis_node *n;
    if (c->unix_path != NULL)
        n = rt_redis_node_new(c, c->unix_path, 0);
    else if (c->sentinel != NULL)
        n = rt_redis_node_new(c, "", 0);
    else
        n = rt_redis_node_new(c, c->seeds[0].host, c->seeds[0].port);
    if (n == NULL)
        return ROTA_NOMEM;
    return c->sentinel != NULL ? rt_redis_sentinel_open(c) : 0;
}

static void drop_nodes(struct rt_redis_conn *c)
{
    c->closing = true;
    while (c->nodes != NULL)
        rt_redis_node_drop(c, c->nodes);
    if (c->watcher != NULL)
        rt_redis_node_drop(c, c->watcher);
    c->watcher = NULL;
}

static int redis_open(struct rt_conn *conn, const struct rt_url *url)
{
    struct rt_redis_conn *c = (struct rt_redis_conn *)conn;
    c->deadline_timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL},
                                               .fire = rt_redis_deadline_fire};
    conn->call_ms = conn->call_ms != 0 ? conn->call_ms : CALL_MS;
    conn->ttl_ms = conn->ttl_ms != 0 ? conn->ttl_ms : TTL_MS;
    snprintf(conn->unsafe, sizeof(conn->unsafe), "the server has not been reached yet");
    int rv = take_url(c, url);
    if (rv == 0)
        rv = draw_ids(c);
    if (rv == 0)
        rv = rt_redis_push_open(c);
    if (rv != 0)
        goto free_conn;
    rv = rt_loop_reserve(conn->loop, 1);
    if (rv != 0)
        goto free_conn;
    rv = make_nodes(c);
    if (rv == 0)
        rv = rt_redis_side_open(c);
    if (rv == 0) {
        rt_redis_want_link(c);
        return 0;
    }
    drop_nodes(c);
    rt_loop_unreserve(conn->loop, 1);
free_conn:
    free_all(c);
    rt_tls_free(c->tls);
    if (rv == ROTA_NOMEM)
        (void)rt_redis_fail(c, rv, "out of memory");
    return rv;
}

/* What was written in this turn leaves now: there may be no other. */
static void flush_now(struct rt_redis_link *l)
{
    struct rt_defer *d = &l->stream.flush;
    if (l->state == RT_REDIS_DOWN || !d->waits)
        return;
    rt_loop_undefer(l->conn->base.loop, d);
    d->run(d);
}

static void redis_close(struct rt_conn *conn)
{
    struct rt_redis_conn *c = (struct rt_redis_conn *)conn;
    rt_redis_side_close(c);
    c->closing = true;
    for (struct rt_redis_node *n = c->nodes; n != NULL; n = n->next)
        flush_now(&n->work);
    rt_redis_refuse(c, ROTA_CLOSED, "the client is closing");
    drop_nodes(c);
    rt_timers_stop(&conn->loop->timers, &c->deadline_timer.timer);
    rt_loop_unreserve(conn->loop, 1);
    free_all(c);
    rt_tls_free(c->tls); /* streams that are closing have let go of it */
}

static void redis_forked(struct rt_conn *conn)
{
    struct rt_redis_conn *c = (struct rt_redis_conn *)conn;
    for (struct rt_redis_node *n = c->nodes; n != NULL; n = n->next) {
        rt_stream_forked(&n->work.stream);
        rt_stream_forked(&n->push.stream);
        rt_stream_forked(&n->wait.stream);
    }
    if (c->watcher != NULL)
        rt_stream_forked(&c->watcher->work.stream);
}

/* ---- What it can promise ------------------------------------------------------------------------------------ */

/* Why a crash could forget a grant or a fence; "": nothing that is known. */
static const char *danger(const struct rt_redis_conn *c)
{
    const struct rt_redis_facts *f = c->nodes != NULL ? &c->nodes->facts : NULL;
    if (c->rooms != NULL && (c->sentinel != NULL || c->room_count > 1))
        return "a replica that is promoted may lack the last grants: use a single server";
    if (c->rooms == NULL || f == NULL || !f->known)
        return "the server has not been reached yet";
    if (c->seed_count > 1)
        return "the URL names several servers, and two of them may be primaries, which know nothing "
               "of each other: name one";
    if (f->replicas > 0)
        return "the server has replicas, and one that is promoted may lack the last grants: use a "
               "server without";
    if (strncmp(f->policy, "volatile-", 9) == 0)
        return "maxmemory-policy is volatile: it spares locks, which have no ttl, but strict takes "
               "no other than noeviction: set maxmemory-policy noeviction";
    if (strcmp(f->policy, "noeviction") != 0)
        return "the server may evict locks when memory is short: set maxmemory-policy noeviction";
    if (!f->aof)
        return "appendonly is no: a crash forgets what was not saved; set appendonly yes and "
               "appendfsync always";
    if (f->replay == RT_REDIS_REPLAY_DROPPED)
        return "a restart drops what scripts wrote, as the user default may not write: "
               "ACL SETUSER default ~* &* +@all, on or off, and save it";
    if (f->replay == RT_REDIS_REPLAY_UNKNOWN)
        return "the user may not ask whether a restart keeps what scripts wrote: allow it "
               "+acl|getuser";
    if (f->config_refused || f->appendfsync[0] == '\0')
        return "the user may not ask for appendfsync: allow it +config|get";
    if (strcmp(f->rewrite, "no") != 0)
        return "no-appendfsync-on-rewrite is yes: a crash while the server saves may forget the "
               "last writes; set no-appendfsync-on-rewrite no";
    if (strcmp(f->appendfsync, "no") == 0)
        return "appendfsync is no: a crash may forget the last writes; set appendfsync always";
    if (strcmp(f->appendfsync, "always") != 0)
        return "appendfsync is everysec: a crash may forget the last second; set appendfsync "
               "always";
    return "";
}

void rt_redis_judge(struct rt_redis_conn *c)
{
    snprintf(c->base.unsafe, sizeof(c->base.unsafe), "%s", danger(c));
    atomic_store_explicit(&c->strict, c->base.unsafe[0] == '\0', memory_order_relaxed);
}

static uint32_t redis_caps(const struct rt_conn *conn)
{
    uint32_t caps = ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_SHARED | ROTA_CAP_PERMITS |
                    ROTA_CAP_WANTED | ROTA_CAP_DURABLE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS;
    const struct rt_redis_conn *c = (const struct rt_redis_conn *)(const void *)conn;
    bool strict = atomic_load_explicit(&c->strict, memory_order_relaxed);
    return strict ? caps | ROTA_CAP_STRICT : caps;
}

static const char *const schemes[] = {"redis", "rediss", "redis+unix", NULL};
static const char *const params[] = {"sentinel", "replicas", "db", NULL};

const struct rt_engine rt_engine_redis = {
    .schemes = schemes,
    .params = params,
    .conn_size = sizeof(struct rt_redis_conn),
    .layout_major = 1,
    .layout_minor = 0,
    .open = redis_open,
    .close = redis_close,
    .submit = rt_redis_submit,
    .cancel = rt_redis_cancel,
    .caps = redis_caps,
    .forked = redis_forked,
    .trouble = rt_redis_trouble,
};
