/* SPDX-License-Identifier: Apache-2.0 */
/* One redis-server: its configuration, its life, commands to it. */
#include "redis_server.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_WITHIN_MS 20000
#define COMMAND_WITHIN_S 20

static void die(const struct rt_redis *node, const char *what, const char *why)
{
    fprintf(stderr, "redis at port %u: %s: %s\n", node != NULL ? (unsigned)node->server.port : 0,
            what, why);
    exit(1);
}

/* ---- Configuration ------------------------------------------------------ */

/* Secrets are in files of mode 0600, never in arguments. */
static FILE *new_file(const struct rt_redis *node, const char *name, char *path, size_t size)
{
    FILE *f;

    if (snprintf(path, size, "%s/%s", node->server.dir, name) >= (int)size)
        die(node, name, "path too long");
    f = fopen(path, "we");
    if (f == NULL || fchmod(fileno(f), 0600) != 0)
        die(node, path, "cannot be written");
    return f;
}

static void write_keep(FILE *f, enum rt_redis_keep keep)
{
    fprintf(f, "save \"\"\nappendonly %s\n", keep == RT_REDIS_FORGETS ? "no" : "yes");
    if (keep != RT_REDIS_FORGETS)
        fprintf(f, "appendfsync %s\n", keep == RT_REDIS_ALWAYS ? "always" : "everysec");
}

static void write_tls(FILE *f, struct rt_redis *node, const struct rt_redis_options *o)
{
    if (!o->tls) {
        fprintf(f, "port %u\n", (unsigned)node->server.port);
        return;
    }
    rt_certs_make(&node->certs, node->server.dir);
    fprintf(f, "port 0\ntls-port %u\ntls-ca-cert-file %s\ntls-auth-clients %s\n",
            (unsigned)node->server.port, node->certs.ca, o->tls_clients ? "yes" : "no");
    fprintf(f, "tls-cert-file %s\ntls-key-file %s\n",
            o->cert != NULL ? o->cert : node->certs.server_cert,
            o->key != NULL ? o->key : node->certs.server_key);
}

static void write_password_file(struct rt_redis *node, const char *password)
{
    FILE *f = new_file(node, "password", node->password_file, sizeof(node->password_file));

    fprintf(f, "%s\n", password);
    if (fclose(f) != 0)
        die(node, node->password_file, "cannot be written");
}

/* The rights of one user are worth nothing while the default one has no password. */
static void write_acl(FILE *f, struct rt_redis *node, const struct rt_redis_options *o)
{
    char path[300];
    FILE *acl = new_file(node, "users.acl", path, sizeof(path));

    node->has_admin = o->default_rules != NULL;
    if (node->has_admin)
        fprintf(acl, "user default %s\n", o->default_rules);
    fprintf(acl, "user %s on >%s ~* &* +@all\n", node->has_admin ? "admin" : "default",
            node->password);
    fprintf(acl, "user %s on >%s %s\n", o->user, o->user_password,
            o->user_rules != NULL ? o->user_rules : RT_REDIS_RULES);
    if (fclose(acl) != 0)
        die(node, path, "cannot be written");
    fprintf(f, "aclfile %s\nmasterauth %s\n", path, node->password);
    snprintf(node->user, sizeof(node->user), "%s", o->user);
    write_password_file(node, o->user_password);
}

static void write_users(FILE *f, struct rt_redis *node, const struct rt_redis_options *o)
{
    const char *password = o->password != NULL ? o->password : o->user != NULL ? "of-the-test" : "";

    if (snprintf(node->password, sizeof(node->password), "%s", password) >=
        (int)sizeof(node->password))
        die(node, "password", "too long");
    if (o->user != NULL) {
        write_acl(f, node, o);
    } else if (o->password != NULL) {
        fprintf(f, "requirepass %s\nmasterauth %s\n", password, password);
        write_password_file(node, password);
    }
}

static void write_cluster(FILE *f, struct rt_redis *node, const struct rt_redis_options *o)
{
    if (o->cluster) {
        node->bus_port = rt_port_reserve(&node->bus_anchor);
        fprintf(f, "cluster-enabled yes\ncluster-node-timeout %d\ncluster-port %u\n",
                o->patient ? 15000 : 2000, (unsigned)node->bus_port);
    }
    if (o->announce_port != 0)
        fprintf(f,
                o->cluster ? "cluster-announce-ip 127.0.0.1\ncluster-announce-port %u\n"
                           : "replica-announce-ip 127.0.0.1\nreplica-announce-port %u\n",
                (unsigned)o->announce_port);
    if (o->cluster && o->announce_port != 0)
        fprintf(f, "cluster-announce-bus-port %u\n", (unsigned)node->bus_port);
}

void rt_redis_init(struct rt_redis *node, const struct rt_redis_options *opts)
{
    static const struct rt_redis_options none;
    const struct rt_redis_options *o = opts != NULL ? opts : &none;
    char path[300];
    FILE *f;

    memset(node, 0, sizeof(*node));
    rt_server_init(&node->server, "redis", "redis-server");
    node->bus_anchor = -1;
    node->tls = o->tls;
    node->announce_port = o->announce_port != 0 ? o->announce_port : node->server.port;
    if (snprintf(node->socket, sizeof(node->socket), "%s/sock", node->server.dir) >= 108)
        die(node, node->socket, "path too long for a unix socket");
    f = new_file(node, "redis.conf", path, sizeof(path));
    fprintf(f, "bind 127.0.0.1\ndir %s\nunixsocket %s\nunixsocketperm 700\ndaemonize no\n",
            node->server.dir, node->socket);
    fprintf(f, "repl-diskless-sync-delay 0\nenable-debug-command local\n");
    write_keep(f, o->keep);
    write_tls(f, node, o);
    write_users(f, node, o);
    write_cluster(f, node, o);
    if (o->maxmemory != NULL)
        fprintf(f, "maxmemory %s\n", o->maxmemory);
    if (o->policy != NULL)
        fprintf(f, "maxmemory-policy %s\n", o->policy);
    if (o->extra != NULL)
        fprintf(f, "%s\n", o->extra);
    if (fclose(f) != 0)
        die(node, path, "cannot be written");
    rt_server_arg(&node->server, "%s", path);
}

/* ---- Life --------------------------------------------------------------- */

static void forget_admin(struct rt_redis *node)
{
    if (node->admin != NULL)
        redisFree(node->admin);
    node->admin = NULL;
}

static bool answers(struct rt_server *s, void *arg)
{
    struct rt_redis *node = arg;
    redisReply *r;
    bool ready;

    (void)s;
    r = rt_redis_do(node, "PING");
    ready = r != NULL && r->type == REDIS_REPLY_STATUS;
    freeReplyObject(r);
    return ready;
}

void rt_redis_run(struct rt_redis *node)
{
    forget_admin(node);
    unlink(node->socket); /* of one that was killed: it would answer to nobody */
    rt_server_start(&node->server);
    rt_server_await(&node->server, answers, node, ANSWER_WITHIN_MS);
}

void rt_redis_start(struct rt_redis *node, const struct rt_redis_options *opts)
{
    rt_redis_init(node, opts);
    rt_redis_run(node);
}

void rt_redis_kill(struct rt_redis *node)
{
    rt_server_kill(&node->server);
    forget_admin(node);
}

void rt_redis_fini(struct rt_redis *node)
{
    if (node->server.argc == 0)
        return;
    forget_admin(node);
    rt_server_fini(&node->server);
    if (node->bus_anchor >= 0)
        close(node->bus_anchor);
}

void rt_redis_recertify(struct rt_redis *node, const char *cert, const char *key)
{
    rt_redis_must(node, "CONFIG SET tls-cert-file %s tls-key-file %s", cert, key);
}

/* ---- Commands ----------------------------------------------------------- */

/* This hiredis writes without MSG_NOSIGNAL. The signal is blocked for this thread only, and then
 * restored: whether the library raises one is for the tests to see. */
static redisReply *quiet_command(redisContext *c, const char *format, va_list ap)
{
    const struct timespec at_once = {0};
    sigset_t sigpipe, before, pending;
    redisReply *r;

    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
    r = redisvCommand(c, format, ap);
    sigpending(&pending);
    if (r == NULL && sigismember(&pending, SIGPIPE))
        sigtimedwait(&sigpipe, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

/* Nothing is sent on it unasked: if it is readable, it is closed (a failover ends all clients, ours too). */
static bool is_alive(const redisContext *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};

    return c->err == 0 && poll(&p, 1, 0) == 0;
}

static bool connect_admin(struct rt_redis *node)
{
    struct timeval limit = {.tv_sec = COMMAND_WITHIN_S};
    redisReply *r;

    if (node->admin != NULL && is_alive(node->admin))
        return true;
    forget_admin(node);
    node->admin = redisConnectUnix(node->socket);
    if (node->admin == NULL || node->admin->err != 0)
        return false;
    redisSetTimeout(node->admin, limit);
    if (node->password[0] == '\0')
        return true;
    r = node->has_admin ? redisCommand(node->admin, "AUTH admin %s", node->password)
                        : redisCommand(node->admin, "AUTH %s", node->password);
    freeReplyObject(r);
    return r != NULL;
}

static redisReply *do_command(struct rt_redis *node, const char *format, va_list ap)
{
    redisReply *r = NULL;

    if (connect_admin(node))
        r = quiet_command(node->admin, format, ap);
    if (r == NULL)
        forget_admin(node);
    return r;
}

redisReply *rt_redis_do(struct rt_redis *node, const char *format, ...)
{
    va_list ap;
    redisReply *r;

    va_start(ap, format);
    r = do_command(node, format, ap);
    va_end(ap);
    return r;
}

void rt_redis_must(struct rt_redis *node, const char *format, ...)
{
    va_list ap;
    redisReply *r;

    va_start(ap, format);
    r = do_command(node, format, ap);
    va_end(ap);
    if (r == NULL || r->type == REDIS_REPLY_ERROR)
        die(node, format, r != NULL ? r->str : "no answer");
    freeReplyObject(r);
}

long long rt_redis_integer(struct rt_redis *node, const char *format, ...)
{
    va_list ap;
    redisReply *r;
    long long n = 0;

    va_start(ap, format);
    r = do_command(node, format, ap);
    va_end(ap);
    if (r != NULL && r->type == REDIS_REPLY_INTEGER)
        n = r->integer;
    else if (r != NULL && r->type == REDIS_REPLY_STRING)
        n = strtoll(r->str, NULL, 10);
    else
        die(node, format, r != NULL && r->type == REDIS_REPLY_ERROR ? r->str : "no number");
    freeReplyObject(r);
    return n;
}

const char *rt_redis_info(struct rt_redis *node, const char *section, const char *field)
{
    static char out[256];
    redisReply *r = rt_redis_do(node, "INFO %s", section);
    size_t len = strlen(field);

    out[0] = '\0';
    if (r != NULL && r->type == REDIS_REPLY_STRING) {
        const char *at = r->str;

        while (at != NULL && !(strncmp(at, field, len) == 0 && at[len] == ':')) {
            at = strchr(at, '\n');
            at = at != NULL ? at + 1 : NULL;
        }
        if (at != NULL)
            snprintf(out, sizeof(out), "%.*s", (int)strcspn(at + len + 1, "\r\n"), at + len + 1);
    }
    freeReplyObject(r);
    return out;
}

redisReply *rt_redis_say(uint16_t port, const char *format, ...)
{
    struct timeval limit = {.tv_sec = COMMAND_WITHIN_S};
    redisContext *c = redisConnectWithTimeout("127.0.0.1", port, limit);
    redisReply *r = NULL;
    va_list ap;

    if (c != NULL && c->err == 0) {
        redisSetTimeout(c, limit);
        va_start(ap, format);
        r = quiet_command(c, format, ap);
        va_end(ap);
    }
    if (c != NULL)
        redisFree(c);
    return r;
}

/* ---- URLs --------------------------------------------------------------- */

static char *make_url(const struct rt_redis *node, const char *where)
{
    bool secret = node->password_file[0] != '\0';
    char *url = NULL;

    if (asprintf(&url, "%s%s%s%s%s%s", where, node->tls || secret ? "?" : "",
                 node->tls ? "ca=" : "", node->tls ? node->certs.ca : "",
                 secret ? (node->tls ? "&password_file=" : "password_file=") : "",
                 secret ? node->password_file : "") < 0)
        die(node, "url", "no memory");
    return url;
}

char *rt_redis_url(const struct rt_redis *node, uint16_t port)
{
    char where[128];

    snprintf(where, sizeof(where), "%s%s%s%s:%u/", node->tls ? "rediss://" : "redis://", node->user,
             node->user[0] != '\0' ? "@" : "", node->tls ? "localhost" : "127.0.0.1",
             (unsigned)(port != 0 ? port : node->server.port));
    return make_url(node, where);
}

char *rt_redis_unix_url(const struct rt_redis *node, const char *path)
{
    struct rt_redis plain = *node;
    char where[320];

    plain.tls = false;
    snprintf(where, sizeof(where), "redis+unix:%s", path != NULL ? path : node->socket);
    return make_url(&plain, where);
}
