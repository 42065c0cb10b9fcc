/* SPDX-License-Identifier: Apache-2.0 */
/* Opening clients: which engine, with which parameters. */
#include "client/client.h"

#include "base/alloc.h"
#include "client/metrics.h"
#include "engine/trace/trace.h"
#include "engine/url.h"
#include "net/fd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define DEFAULT_URL "file:"
#define DEFAULT_TTL_MS 10000
#define TTL_LEAST_MS 1000
#define TTL_MOST_MS 3600000
#define DEFAULT_CALL_MS 5000
#define LABEL_MOST 127 /* bytes: it travels with every session */
#define PASSWORD_MOST 1024

/* What rota_open collects before there is a client. */
struct opening {
    struct rota_options opts;
    struct rt_url url;
    const struct rt_engine *engine;
    char password[PASSWORD_MOST];
    uint32_t ttl_ms;
    char errmsg[RT_ERRMSG_SIZE];
};

void rt_random(void *out, size_t size)
{
    char *at = out;

    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno != EINTR)
            abort(); /* a kernel without randomness: nonces would meet */
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        }
    }
}

/* ---- What to open ------------------------------------------------------- */

static int take_options(struct opening *o, const struct rota_options *opts, size_t size)
{
    if (opts == NULL)
        return 0;
    memcpy(&o->opts, opts, size < sizeof(o->opts) ? size : sizeof(o->opts));
    for (size_t i = sizeof(o->opts); i < size; i++)
        if (((const char *)opts)[i] != 0)
            return rt_fail(NULL, ROTA_INVALID,
                           "the options have fields this library does not "
                           "know: it is older than the program");
    if ((o->opts.flags & ~(ROTA_STRICT | ROTA_NO_KEEPER | ROTA_METRICS)) != 0 ||
        o->opts.reserved != 0)
        return rt_fail(NULL, ROTA_INVALID, "unknown flags %#x in the options", o->opts.flags);
    if (o->opts.label != NULL && strlen(o->opts.label) > LABEL_MOST)
        return rt_fail(NULL, ROTA_INVALID, "the label is longer than %d bytes: shorten it",
                       LABEL_MOST);
    return 0;
}

/* TEXT, $ROTA_URL, or the embedded engine; names are looked up. *OWN is to be freed. */
static int resolve(struct opening *o, const char *text, char **own)
{
    *own = NULL;
    if (text == NULL || text[0] == '\0')
        text = getenv("ROTA_URL");
    if (text == NULL || text[0] == '\0')
        text = DEFAULT_URL;
    if (strpbrk(text, ":@") ==
        NULL) { /* with an @ it was meant to be a URL, and may have a secret */
        int rv = rt_config_find(text, own, o->errmsg, sizeof(o->errmsg));
        if (rv != 0)
            return rv;
        text = *own;
    }
    return rt_url_parse(&o->url, text, o->errmsg, sizeof(o->errmsg));
}

static int read_password(struct opening *o, const char *path)
{
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        snprintf(o->errmsg, sizeof(o->errmsg), "the password_file %.100s cannot be read: %s", path,
                 strerror(errno));
        return ROTA_INVALID;
    }
    bool got = fgets(o->password, sizeof(o->password), file) != NULL;
    fclose(file);
    o->password[strcspn(o->password, "\r\n")] = '\0';
    if (got && o->password[0] != '\0')
        return 0;
    snprintf(o->errmsg, sizeof(o->errmsg),
             "the password_file %.100s is empty: its first line is "
             "the password",
             path);
    return ROTA_INVALID;
}

static int find_password(struct opening *o)
{
    const char *path = rt_url_param(&o->url, "password_file", NULL);
    const char *env = getenv("ROTA_PASSWORD");

    if (path != NULL)
        return read_password(o, path);
    if (o->url.password[0] == '\0' && env != NULL)
        snprintf(o->password, sizeof(o->password), "%s", env);
    return 0;
}

static int choose_engine(struct opening *o)
{
    const char *dialect = rt_url_param(&o->url, "dialect", NULL);

    o->engine = rt_engine_find(o->url.scheme);
    if (o->engine == NULL) {
        char known[128];
        rt_engine_list(known, sizeof(known));
        snprintf(o->errmsg, sizeof(o->errmsg),
                 "there is no engine '%.40s' in this build: use one of %s", o->url.scheme, known);
        return ROTA_INVALID;
    }
    int rv = rt_url_check_params(&o->url, o->engine->params, o->errmsg, sizeof(o->errmsg));
    if (rv == 0 && dialect != NULL && strcmp(dialect, "line") != 0) {
        bool own = false; /* engines with several list the parameter as theirs */
        for (const char *const *p = o->engine->params; *p != NULL; p++)
            own = own || strcmp(*p, "dialect") == 0;
        if (!own) {
            snprintf(o->errmsg, sizeof(o->errmsg), "%s: has no dialect '%.40s', only 'line'",
                     o->url.scheme, dialect);
            rv = ROTA_INVALID;
        }
    }
    return rv;
}

static int choose_ttl(struct opening *o)
{
    const char *text = rt_url_param(&o->url, "ttl", NULL);
    uint64_t ms = o->opts.ttl_ms != 0 ? o->opts.ttl_ms : DEFAULT_TTL_MS;

    if (text != NULL && rt_url_duration_ms(text, &ms) != 0)
        ms = 0;
    if (ms < TTL_LEAST_MS || ms > TTL_MOST_MS) {
        snprintf(o->errmsg, sizeof(o->errmsg), "the ttl must be from 1s to 1h, like ttl=10s");
        return ROTA_INVALID;
    }
    o->ttl_ms = (uint32_t)ms;
    return 0;
}

static int choose(struct opening *o)
{
    int rv = choose_engine(o);

    if (rv == 0)
        rv = choose_ttl(o);
    return rv == 0 ? find_password(o) : rv;
}

/* ---- The client --------------------------------------------------------- */

static char *default_label(void)
{
    char host[64] = "localhost", label[LABEL_MOST + 1];

    gethostname(host, sizeof(host) - 1);
    snprintf(label, sizeof(label), "%s/%ld/%s", host, (long)getpid(),
             program_invocation_short_name);
    return rt_strdup(label);
}

static int spell(struct rota *r, struct opening *o)
{
    const char *names = rt_url_param(&o->url, "names", "");
    bool raw = strcmp(names, "raw") == 0;

    if (!raw && names[0] != '\0') {
        snprintf(o->errmsg, sizeof(o->errmsg),
                 "names=%.40s is unknown: leave it out, or say "
                 "names=raw",
                 names);
        return ROTA_INVALID;
    }
    return rt_spelling_init(&r->spelling, rt_url_param(&o->url, "prefix", ""), raw, o->errmsg,
                            sizeof(o->errmsg));
}

static int fill_client(struct rota *r, struct opening *o)
{
    static _Atomic uint64_t serials;

    r->serial = atomic_fetch_add(&serials, 1) + 1;
    r->flags = o->opts.flags;
    r->call_ms = o->opts.call_ms != 0 ? o->opts.call_ms : DEFAULT_CALL_MS;
    r->log = o->opts.log;
    r->log_arg = o->opts.log_arg;
    r->label = o->opts.label != NULL ? rt_strdup(o->opts.label) : default_label();
    r->shown_url = rt_strdup(o->url.redacted);
    if (r->label == NULL || r->shown_url == NULL)
        return ROTA_NOMEM;
    return spell(r, o);
}

/* The kernel did not give us what errno says. */
static int no_descriptor(struct opening *o)
{
    int err = errno;

    if (err == EMFILE)
        snprintf(o->errmsg, sizeof(o->errmsg), "too many open files: raise ulimit -n");
    else
        snprintf(o->errmsg, sizeof(o->errmsg), "no descriptor for the client: %s", strerror(err));
    return ROTA_UNREACHABLE;
}

/* For ROTA_NO_KEEPER: readable when the loop has something, or a callback waits. */
static int make_outer(struct rota *r, struct opening *o)
{
    struct epoll_event event = {.events = EPOLLIN};

    r->outer_fd = epoll_create1(EPOLL_CLOEXEC);
    if (r->outer_fd < 0 ||
        epoll_ctl(r->outer_fd, EPOLL_CTL_ADD, rt_loop_fd(&r->loop), &event) != 0 ||
        epoll_ctl(r->outer_fd, EPOLL_CTL_ADD, r->keeper.kick_fd, &event) != 0)
        return no_descriptor(o);
    return 0;
}

static int trace_if_wanted(struct rota *r, struct rt_conn **conn)
{
    const char *trace = getenv("ROTA_TRACE");

    if (trace == NULL || strcmp(trace, "1") != 0)
        return 0;
    if (r->log == NULL)
        r->log = rt_log_stderr;
    return rt_trace_wrap(conn);
}

static int connect_engine(struct rota *r, struct opening *o)
{
    const char *in_url = o->url.password;
    struct rt_conn *conn = rt_alloc(o->engine->conn_size);

    if (conn == NULL)
        return ROTA_NOMEM;
    conn->engine = o->engine;
    conn->up = &r->d.up;
    conn->loop = &r->loop;
    conn->label = r->label;
    conn->ttl_ms = o->ttl_ms;
    conn->call_ms = r->call_ms;
    if (o->password[0] != '\0')
        o->url.password = o->password;
    int rv = o->engine->open(conn, &o->url);
    o->url.password = in_url;
    if (rv != 0) {
        snprintf(o->errmsg, sizeof(o->errmsg), "%s", conn->errmsg);
        rt_free(conn);
        return rv;
    }
    rv = trace_if_wanted(r, &conn);
    if (rv != 0) {
        conn->engine->close(conn);
        rt_free(conn);
        return rv;
    }
    r->d.conn = conn;
    return 0;
}

static int check_strict(struct rota *r, struct opening *o)
{
    if ((r->flags & ROTA_STRICT) == 0 || (rota_caps(r) & ROTA_CAP_STRICT) != 0)
        return 0;
    if (r->d.conn->unsafe[0] != '\0')
        snprintf(o->errmsg, sizeof(o->errmsg), "strict: %s", r->d.conn->unsafe);
    else
        snprintf(o->errmsg, sizeof(o->errmsg),
                 "%.120s can forget grants or fences in a crash: change "
                 "its settings, or open it without ROTA_STRICT",
                 r->shown_url);
    return ROTA_UNSAFE;
}

/* A server is asked something, so that an address where nobody answers is told of here. */
static int check_reach(struct rota *r, struct opening *o)
{
    struct rt_call call;
    char name[RT_NAME_ROOM]; /* under the prefix: a user may be limited to it */

    if ((rota_caps(r) & ROTA_CAP_SHARED_HOSTS) == 0)
        return 0;
    (void)rt_name_spell(&r->spelling, "rota", name);
    rt_client_lock(r);
    rt_call_init(r, &call, RT_OP_INSPECT);
    call.rq.op.inspect.name = name;
    call.rq.op.inspect.each = rt_inspect_nobody;
    int rv = rt_call_insist(r, &call);
    if (rv != 0)
        snprintf(o->errmsg, sizeof(o->errmsg), "%s",
                 rota_errmsg(r)); /* R goes, what it said stays */
    return rv;
}

static int start_loop(struct rota *r, struct opening *o)
{
    struct rt_desk_options d = {
        .pass_limit = o->opts.pass_limit, .pass_ms = o->opts.pass_ms, .call_ms = r->call_ms};

    rt_random(&d.nonce, sizeof(d.nonce));
    r->outer_fd = -1;
    int rv = rt_loop_init(&r->loop);
    if (rv != 0)
        return rv == ROTA_UNREACHABLE ? no_descriptor(o) : rv;
    rv = rt_dispatch_init(&r->d, &r->loop, &d, &rt_client_hooks);
    if (rv != 0)
        goto fini_loop;
    r->keeper.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->keeper.kick_fd < 0) {
        rv = no_descriptor(o);
        goto fini_dispatch;
    }
    pthread_mutex_init(&r->mu, NULL);
    return 0;

fini_dispatch:
    rt_dispatch_fini(&r->d);
fini_loop:
    rt_loop_fini(&r->loop);
    return rv;
}

/* With descriptors 0 to 2 taken, so that what is opened here does not land there. */
static int start_above(struct rota *r, struct opening *o)
{
    int rv = start_loop(r, o);

    if (rv != 0)
        return rv;
    rt_fork_add(r);
    if ((r->flags & ROTA_METRICS) != 0 && (r->d.metrics = rt_metrics_new()) == NULL)
        rv = ROTA_NOMEM;
    if (rv == 0 && (r->flags & ROTA_NO_KEEPER) != 0)
        rv = make_outer(r, o);
    if (rv == 0)
        rv = connect_engine(r, o);
    if (rv == 0)
        rv = check_reach(r, o);
    if (rv == 0)
        rv = check_strict(r, o);
    if (rv == 0 && (r->flags & ROTA_NO_KEEPER) == 0)
        rv = rt_keeper_start(r);
    if (rv == 0)
        return 0;
    rt_client_disconnect(r);
    rt_fork_remove(r);
    rt_client_fini(r);
    return rv;
}

static int start(struct rota *r, struct opening *o)
{
    struct rt_fd_low low;

    if (rt_fd_keep(&low) != 0)
        return no_descriptor(o);
    int rv = start_above(r, o);
    rt_fd_leave(&low);
    return rv;
}

int rota_open_sized(struct rota **out, const char *url, const struct rota_options *opts,
                    size_t size)
{
    struct opening o = {0};
    char *own = NULL;
    struct rota *r = NULL;

    if (out == NULL)
        return rt_fail(NULL, ROTA_INVALID, "rota_open needs a place for the client");
    int rv = take_options(&o, opts, size);
    if (rv != 0)
        return rv;
    rv = resolve(&o, url, &own);
    if (rv != 0)
        goto failed;
    rv = choose(&o);
    if (rv != 0)
        goto failed;
    rv = ROTA_NOMEM;
    r = rt_alloc(sizeof(*r));
    if (r == NULL)
        goto failed;
    rv = fill_client(r, &o);
    if (rv == 0)
        rv = start(r, &o);
    if (rv == 0)
        *out = r;
failed:
    if (rv != 0) {
        rt_fail_waiter(0, rv, o.errmsg);
        if (r != NULL)
            rt_client_free(r);
    }
    rt_url_fini(&o.url);
    rt_free(own);
    explicit_bzero(o.password, sizeof(o.password));
    return rv;
}
