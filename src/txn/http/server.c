/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server: libmicrohttpd's thread takes requests, a pool handles them. */
#include "txn/http/server.h"

#include "base/alloc.h"
#include "base/list.h"
#include "txn/http/libmicrohttpd.h"
#include "txn/http/listen.h"
#include "txn/http/site.h"
#include "txn/point.h"

#include <rota.h>

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define BODY_MAX (1024 * 1024)
#define THREADS 8
#define THREADS_MAX 256
#define CONNECTIONS_MAX 1000
#define IDLE_S 60
#define PEM_MAX (256 * 1024)
#define LINE 512

struct pair { /* a header or a parameter */
    struct pair *next;
    bool is_header;
    const char *key, *value;
    char text[];
};

struct request {
    struct rt_http_request face; /* first */
    struct request *next, *prev; /* all that were handed to a handler */
    struct request *queued;
    struct rt_http_server *server;
    const struct rt_http_route *route;
    struct pair *pairs;
    char *body;
    size_t room;
    char *method, *path;

    /* Under the server's mutex. */
    uint32_t refs;                     /* libmicrohttpd's, the handler's */
    struct MHD_Connection *connection; /* suspended; NULL: not, or not any more */
    bool handed;                       /* a handler has it, or had */
    bool answered;
    int status; /* 0: no memory for an answer */
    char *type, *said;
    size_t said_size;
};

struct rt_http_server {
    struct rt_http_server_options options;
    struct MHD_Daemon *daemon;
    struct rt_http_listen at;
    struct rt_http_door door;
    char *names; /* of the door */
    int fd;
    uint16_t port;
    char *cert, *key;
    size_t cert_size, key_size;
    char token[RT_HTTP_TOKEN_MAX + 1]; /* "": none is needed */

    pthread_mutex_t mu; /* for what follows */
    pthread_cond_t work, idle;
    uint32_t refs; /* its own, each request's */
    struct request all;
    struct request *first, **last; /* wait for a thread */
    bool stopping;
    pthread_t *threads;
    uint32_t thread_count;
};

/* ---- Requests ------------------------------------------------------------------------ */

static void server_let_go(struct rt_http_server *s, bool last)
{
    if (!last)
        return;
    if (s->key != NULL)
        rt_free_wiped(s->key, s->key_size);
    if (s->cert != NULL) /* the key may be in the same file */
        rt_free_wiped(s->cert, s->cert_size);
    explicit_bzero(s->token, sizeof(s->token));
    rt_free(s->names);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->mu);
    rt_free(s->threads);
    rt_free(s);
}

static void request_free(struct request *r)
{
    while (r->pairs != NULL) {
        struct pair *p = r->pairs;
        r->pairs = p->next;
        explicit_bzero(p->text,
                       strlen(p->value)); /* a token may be among them: the value comes first */
        rt_free(p);
    }
    rt_free(r->body);
    rt_free(r->method);
    rt_free(r->path);
    rt_free(r->type);
    rt_free(r->said);
    rt_free(r);
}

/* One of its two holders is done with it. */
static void request_let_go(struct request *r)
{
    struct rt_http_server *s = r->server;

    pthread_mutex_lock(&s->mu);
    bool gone = --r->refs == 0;
    bool last = gone && --s->refs == 0;
    if (gone && r->next != NULL)
        RT_RING_OUT(r);
    pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->mu);
    if (gone)
        request_free(r);
    server_let_go(s, last);
}

static struct request *request_new(struct rt_http_server *s, const char *method, const char *path)
{
    struct request *r = rt_alloc(sizeof(*r));

    if (r == NULL)
        return NULL;
    r->server = s;
    r->refs = 1;
    r->method = rt_strdup(method);
    r->path = rt_strdup(path);
    if (r->method == NULL || r->path == NULL) {
        request_free(r);
        return NULL;
    }
    pthread_mutex_lock(&s->mu);
    s->refs++;
    pthread_mutex_unlock(&s->mu);
    return r;
}

struct copying {
    struct pair **last;
    bool failed;
};

static enum MHD_Result copy_pair(void *arg, enum MHD_ValueKind kind, const char *key,
                                 const char *value)
{
    struct copying *c = arg;
    size_t keys = strlen(key) + 1, values = value != NULL ? strlen(value) + 1 : 1;
    struct pair *p = rt_alloc(sizeof(*p) + values + keys);

    if (p == NULL) {
        c->failed = true;
        return MHD_NO;
    }
    if (value != NULL)
        memcpy(p->text, value, values);
    memcpy(p->text + values, key, keys);
    p->value = p->text;
    p->key = p->text + values;
    p->is_header = kind == MHD_HEADER_KIND;
    *c->last = p; /* in their order: of a header that came twice, all see the first */
    c->last = &p->next;
    return MHD_YES;
}

static bool copy_pairs(struct request *r, struct MHD_Connection *connection)
{
    struct copying c = {.last = &r->pairs};

    (void)rt_mhd.get_connection_values(connection, MHD_HEADER_KIND, copy_pair, &c);
    (void)rt_mhd.get_connection_values(connection, MHD_GET_ARGUMENT_KIND, copy_pair, &c);
    return !c.failed;
}

static const char *find(const struct rt_http_request *face, bool is_header, const char *name)
{
    const struct request *r = (const struct request *)(const void *)face;

    for (const struct pair *p = r->pairs; p != NULL; p = p->next)
        if (p->is_header == is_header &&
            (is_header ? strcasecmp(p->key, name) : strcmp(p->key, name)) == 0)
            return p->value;
    return NULL;
}

const char *rt_http_request_header(const struct rt_http_request *r, const char *name)
{
    return find(r, true, name);
}

const char *rt_http_request_query(const struct rt_http_request *r, const char *name)
{
    return find(r, false, name);
}

/* ---- Answers ---------------------------------------------------------------------------- */

/* Under the mutex. */
static void wake(struct request *r)
{
    if (r->connection != NULL)
        rt_mhd.resume_connection(r->connection);
    r->connection = NULL;
}

void rt_http_request_answer(struct rt_http_request *r, int status, const char *type,
                            const void *body, size_t size)
{
    struct request *own = (struct request *)(void *)r;
    struct rt_http_server *s = own->server;
    char *said = rt_alloc(size + 1), *kind = type != NULL ? rt_strdup(type) : NULL;

    assert(status >= 200 && status <= 599);
    if (said != NULL && size > 0)
        memcpy(said, body, size);
    pthread_mutex_lock(&s->mu);
    bool mine = !own->answered; /* else it was cut */
    if (mine) {
        bool whole = said != NULL && (type == NULL || kind != NULL);
        own->answered = true;
        own->status = whole ? status : 0;
        own->type = kind;
        own->said = said;
        own->said_size = size;
        wake(own);
    }
    pthread_mutex_unlock(&s->mu);
    if (!mine) {
        rt_free(said);
        rt_free(kind);
    }
    request_let_go(own);
}

static enum MHD_Result respond(struct MHD_Connection *connection, int status, const char *type,
                               char *body, size_t size)
{
    static const char *const always[][2] = {{"X-Content-Type-Options", "nosniff"},
                                            {"Cache-Control", "no-store"}};
    struct MHD_Response *response = rt_mhd.create_response_from_buffer(size, body,
                                                                       MHD_RESPMEM_MUST_COPY);
    enum MHD_Result rv = MHD_YES;

    if (response == NULL)
        return MHD_NO;
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]) && rv == MHD_YES; i++)
        rv = rt_mhd.add_response_header(response, always[i][0], always[i][1]);
    if (type != NULL && rv == MHD_YES)
        rv = rt_mhd.add_response_header(response, "Content-Type", type);
    if (status == 401 && rv == MHD_YES)
        rv = rt_mhd.add_response_header(response, "WWW-Authenticate", "Bearer");
    if (rv == MHD_YES)
        rv = rt_mhd.queue_response(connection, (unsigned)status, response);
    rt_mhd.destroy_response(response);
    return rv;
}

static enum MHD_Result respond_line(struct MHD_Connection *connection, int status, const char *line)
{
    char text[LINE + 1];
    int n = snprintf(text, sizeof(text), "%s\n", line);

    return respond(connection, status, "text/plain", text, (size_t)n);
}

/* ---- Taking a request ---------------------------------------------------------------------- */

/* Takes as long for a wrong token as for the right one, wherever they differ. */
static bool same_token(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned differs = n != m;

    for (size_t i = 0; i < m; i++)
        differs |= (unsigned char)(n > 0 ? a[i % n] : 0) ^ (unsigned char)b[i];
    return differs == 0;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return rt_mhd.lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static struct rt_http_head head_of(struct MHD_Connection *connection)
{
    const char *length = header(connection, "Content-Length");

    return (struct rt_http_head){.host = header(connection, "Host"),
                                 .origin = header(connection, "Origin"),
                                 .site = header(connection, "Sec-Fetch-Site"),
                                 .type = header(connection, "Content-Type"),
                                 .has_body = header(connection, "Transfer-Encoding") != NULL ||
                                             (length != NULL && strtoull(length, NULL, 10) > 0)};
}

static bool is_let_in(const struct rt_http_server *s, struct MHD_Connection *connection)
{
    const char *said = header(connection, "Authorization");

    return s->token[0] == '\0' ||
           (said != NULL && strncasecmp(said, "Bearer ", 7) == 0 && same_token(s->token, said + 7));
}

static bool fits(const struct rt_http_route *route, const char *path)
{
    size_t n = strlen(route->path);

    return n > 0 && route->path[n - 1] == '*' ? strncmp(route->path, path, n - 1) == 0
                                              : strcmp(route->path, path) == 0;
}

/* NULL, and *STATUS is 404 or 405. */
static const struct rt_http_route *route_of(const struct rt_http_server *s, const char *method,
                                            const char *path, int *status)
{
    *status = 404;
    for (size_t i = 0; i < s->options.route_count; i++) {
        const struct rt_http_route *route = &s->options.routes[i];
        if (!fits(route, path))
            continue;
        if (strcmp(route->method, method) == 0)
            return route;
        *status = 405;
    }
    return NULL;
}

static bool is_too_large(const struct rt_http_server *s, struct MHD_Connection *connection)
{
    const char *told = header(connection, "Content-Length");

    return told != NULL && strtoull(told, NULL, 10) > s->options.body_max;
}

/* Its head is there. */
static enum MHD_Result begin(struct rt_http_server *s, struct MHD_Connection *connection,
                             const char *method, const char *path, void **state)
{
    const struct rt_http_head head = head_of(connection);
    char line[LINE];
    int status = rt_http_door_refuses(&s->door, &head, line, sizeof(line));

    if (status != 0)
        return respond_line(connection, status, line);
    if (!is_let_in(s, connection))
        return respond_line(connection, 401, "a token is needed: Authorization: Bearer TOKEN");
    const struct rt_http_route *route = route_of(s, method, path, &status);
    if (route == NULL)
        return respond_line(connection, status,
                            status == 404 ? "no such address here" : "method not allowed");
    status = rt_http_door_refuses_body(&s->door, &head, route->takes, line, sizeof(line));
    if (status != 0)
        return respond_line(connection, status, line);
    if (is_too_large(s, connection))
        return respond_line(connection, 413, "the body is too large");
    struct request *r = request_new(s, method, path);
    if (r == NULL)
        return MHD_NO;
    *state = r;
    r->route = route;
    return copy_pairs(r, connection) ? MHD_YES : MHD_NO;
}

static enum MHD_Result take_body(struct request *r, const char *bytes, size_t *size)
{
    if (r->face.size + *size > r->server->options.body_max ||
        !rt_grow(&r->body, &r->room, r->face.size + *size + 1, 1))
        return MHD_NO;
    memcpy(r->body + r->face.size, bytes, *size);
    r->face.size += *size;
    *size = 0;
    return MHD_YES;
}

/* All of it is there: hands it to its handler. */
static enum MHD_Result hand(struct request *r, struct MHD_Connection *connection)
{
    struct rt_http_server *s = r->server;

    if (!rt_grow(&r->body, &r->room, r->face.size + 1, 1))
        return MHD_NO;
    r->body[r->face.size] = '\0';
    r->face.body = r->body;
    r->face.method = r->method;
    r->face.path = r->path;
    pthread_mutex_lock(&s->mu);
    if (s->stopping) { /* on a connection that was there before */
        pthread_mutex_unlock(&s->mu);
        return MHD_NO;
    }
    r->refs++;
    r->handed = true;
    RT_RING_ADD(&s->all, r);
    if (!r->route->quick) {
        rt_mhd.suspend_connection(connection);
        r->connection = connection;
        r->queued = NULL;
        *s->last = r;
        s->last = &r->queued;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->mu);
    if (r->route->quick)
        r->route->handle(&r->face, r->route->arg);
    return MHD_YES;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *bytes,
                                  size_t *size, void **state)
{
    struct request *r = *state;

    (void)version;
    if (r == NULL)
        return begin(arg, connection, method, path, state);
    if (*size > 0)
        return take_body(r, bytes, size);
    if (!r->handed) {
        enum MHD_Result rv = hand(r, connection);
        if (rv != MHD_YES || !r->route->quick)
            return rv; /* suspended, and called again when it is answered */
    }
    pthread_mutex_lock(&r->server->mu);
    assert(r->answered);
    pthread_mutex_unlock(&r->server->mu);
    return r->status == 0 ? MHD_NO : respond(connection, r->status, r->type, r->said, r->said_size);
}

/* Answered and sent, or the connection has ended. */
static void on_completed(void *arg, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    (void)arg;
    (void)connection;
    if (*state != NULL && why == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        rt_point("service-answered");
    if (*state != NULL)
        request_let_go(*state);
    *state = NULL;
}

/* ---- The pool ---------------------------------------------------------------------------------- */

static void *serve(void *arg)
{
    struct rt_http_server *s = arg;

    pthread_mutex_lock(&s->mu);
    for (;;) {
        while (s->first == NULL && !s->stopping)
            pthread_cond_wait(&s->work, &s->mu);
        struct request *r = s->first;
        if (r == NULL)
            break;
        s->first = r->queued;
        if (s->first == NULL)
            s->last = &s->first;
        pthread_mutex_unlock(&s->mu);
        rt_point("service-asked");
        r->route->handle(&r->face, r->route->arg);
        pthread_mutex_lock(&s->mu);
    }
    pthread_mutex_unlock(&s->mu);
    return NULL;
}

static bool start_threads(struct rt_http_server *s)
{
    s->threads = rt_alloc(s->options.threads * sizeof(*s->threads));
    if (s->threads == NULL)
        return false;
    while (s->thread_count < s->options.threads &&
           pthread_create(&s->threads[s->thread_count], NULL, serve, s) == 0)
        pthread_setname_np(s->threads[s->thread_count++], "rota-serve");
    return s->thread_count == s->options.threads;
}

/* Requests that still wait for a thread are handled first. */
static void stop_threads(struct rt_http_server *s)
{
    pthread_mutex_lock(&s->mu);
    s->stopping = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->mu);
    for (uint32_t i = 0; i < s->thread_count; i++)
        pthread_join(s->threads[i], NULL);
}

/* ---- Starting ------------------------------------------------------------------------------------- */

static int fault(char *errmsg, size_t size, int err, const char *what)
{
    snprintf(errmsg, size, "%s", what);
    return err;
}

static int read_pem(const char *path, char **out, size_t *room, char *errmsg, size_t size)
{
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        snprintf(errmsg, size, "%.150s cannot be read: %s", path, strerror(errno));
        return ROTA_INVALID;
    }
    setbuf(file, NULL); /* no key is left in libc's buffer */
    char *text = rt_alloc(PEM_MAX);
    size_t n = text != NULL ? fread(text, 1, PEM_MAX - 1, file) : 0;
    fclose(file);
    if (text == NULL)
        return fault(errmsg, size, ROTA_NOMEM, "out of memory");
    *out = text;
    *room = PEM_MAX;
    if (n > 0 && strstr(text, "-----BEGIN ") != NULL)
        return 0;
    snprintf(errmsg, size, "%.150s is not a PEM file", path);
    return ROTA_INVALID;
}

static int read_files(struct rt_http_server *s, char *errmsg, size_t size)
{
    const struct rt_http_server_options *o = &s->options;
    int rv = 0;

    if (o->key_file != NULL && o->cert_file == NULL)
        return fault(errmsg, size, ROTA_INVALID, "a key needs its certificate");
    if (o->token_file != NULL)
        rv = rt_http_token_read(o->token_file, s->token, errmsg, size);
    if (rv == 0 && o->cert_file != NULL)
        rv = read_pem(o->cert_file, &s->cert, &s->cert_size, errmsg, size);
    if (rv == 0 && o->cert_file != NULL)
        rv = read_pem(o->key_file != NULL ? o->key_file : o->cert_file, &s->key, &s->key_size,
                      errmsg, size);
    return rv;
}

static int start_daemon(struct rt_http_server *s, char *errmsg, size_t size)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    const struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, s->cert},
                                         {MHD_OPTION_HTTPS_MEM_KEY, 0, s->key},
                                         {MHD_OPTION_END, 0, NULL}};

    if (s->cert != NULL && rt_mhd.is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return fault(errmsg, size, ROTA_UNSUPPORTED, "this libmicrohttpd was built without TLS");
    s->daemon = rt_mhd.start_daemon(
        flags | (s->cert != NULL ? MHD_USE_TLS : 0), 0, NULL, NULL, on_request, s,
        MHD_OPTION_LISTEN_SOCKET, s->fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_S, MHD_OPTION_ARRAY, s->cert != NULL ? tls : tls + 2, MHD_OPTION_END);
    if (s->daemon != NULL)
        return 0;
    return fault(errmsg, size, s->cert != NULL ? ROTA_INVALID : ROTA_NOMEM,
                 s->cert != NULL
                     ? "the certificate and the key are not accepted: do they belong together?"
                     : "the server could not be started: out of memory, or of descriptors");
}

static int set_up(struct rt_http_server *s, char *errmsg, size_t size)
{
    const struct rt_http_server_options *o = &s->options;
    int rv = rt_http_listen_read(&s->at, o->listen != NULL ? o->listen : "127.0.0.1:0", errmsg,
                                 size);

    if (rv == 0 && o->allow_hosts != NULL && (s->names = rt_strdup(o->allow_hosts)) == NULL)
        return fault(errmsg, size, ROTA_NOMEM, "out of memory");
    s->door = (struct rt_http_door){.at = &s->at,
                                    .names = s->names,
                                    .secure = o->cert_file != NULL,
                                    .has_token = o->token_file != NULL};
    if (rv == 0 && o->allow_hosts != NULL && !rt_http_door_names_fit(o->allow_hosts))
        rv = fault(errmsg, size, ROTA_INVALID,
                   "allow_hosts are host names or addresses, without ports, separated by commas");
    if (rv == 0 && !s->at.is_local && !o->insecure &&
        (o->token_file == NULL || o->cert_file == NULL))
        rv = fault(
            errmsg, size, ROTA_INVALID,
            "listening beyond this machine needs a token and a certificate, or the option to be insecure");
    if (rv == 0)
        rv = read_files(s, errmsg, size);
    if (rv == 0)
        rv = rt_libmicrohttpd_load(errmsg, size);
    if (rv == 0)
        rv = rt_http_listen_open(&s->at, &s->fd, &s->port, errmsg, size);
    if (rv == 0 && !start_threads(s))
        rv = fault(errmsg, size, ROTA_NOMEM, "out of memory, or of threads");
    return rv == 0 ? start_daemon(s, errmsg, size) : rv;
}

int rt_http_server_start(struct rt_http_server **out, const struct rt_http_server_options *options,
                         char *errmsg, size_t size)
{
    struct rt_http_server *s = rt_alloc(sizeof(*s));
    pthread_condattr_t attr;
    sigset_t all, old;

    assert(size > 0 && options->threads <= THREADS_MAX);
    if (s == NULL)
        return fault(errmsg, size, ROTA_NOMEM, "out of memory");
    s->options = *options;
    s->options.body_max = options->body_max != 0 ? options->body_max : BODY_MAX;
    s->options.threads = options->threads != 0 ? options->threads : THREADS;
    s->fd = -1;
    s->refs = 1;
    s->last = &s->first;
    RT_RING_INIT(&s->all);
    pthread_mutex_init(&s->mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->idle, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &old); /* for the threads that start here: no signal is theirs */
    int rv = set_up(s, errmsg, size);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rv == 0) {
        *out = s;
        return 0;
    }
    stop_threads(s);
    if (s->fd >= 0)
        close(s->fd);
    server_let_go(s, true);
    return rv;
}

uint16_t rt_http_server_port(const struct rt_http_server *s)
{
    return s->port;
}

/* ---- Stopping ---------------------------------------------------------------------------------------- */

static void await_idle(struct rt_http_server *s, uint32_t grace_ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += grace_ms / 1000;
    until.tv_nsec += (long)(grace_ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&s->mu);
    while (!RT_RING_EMPTY(&s->all) &&
           pthread_cond_timedwait(&s->idle, &s->mu, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&s->mu);
}

/* From now on nobody hears their answers. */
static void cut_all(struct rt_http_server *s)
{
    pthread_mutex_lock(&s->mu);
    for (struct request *r = s->all.next; r != &s->all; r = r->next) {
        r->answered = true;
        wake(r);
    }
    pthread_mutex_unlock(&s->mu);
}

void rt_http_server_stop(struct rt_http_server *s, uint32_t grace_ms)
{
    if (s == NULL)
        return;
    int fd = rt_mhd.quiesce_daemon(s->daemon);
    await_idle(s, grace_ms);
    cut_all(s);
    stop_threads(s);
    cut_all(s); /* requests that came on connections already open */
    rt_mhd.stop_daemon(s->daemon);
    if (fd >= 0)
        close(fd); /* until then its thread may use it */
    pthread_mutex_lock(&s->mu);
    bool last = --s->refs == 0;
    pthread_mutex_unlock(&s->mu);
    server_let_go(s, last);
}
