/* SPDX-License-Identifier: Apache-2.0 */
/* Opening clients. */
#include "client/client.h"

#include "base/alloc.h"
#include "client/metrics.h"
#include "client/target.h"
#include "engine/trace/trace.h"
#include "net/fd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define LABEL_MOST 127 /* bytes: it travels with every session */

/* What rota_open collects before there is a client. */
struct opening {
    struct rota_options opts;
    struct rt_target target; /* its errmsg is what a failure says */
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
    const char *names = rt_url_param(&o->target.url, "names", "");
    bool raw = strcmp(names, "raw") == 0;

    if (!raw && names[0] != '\0') {
        snprintf(o->target.errmsg, sizeof(o->target.errmsg),
                 "names=%.40s is unknown: leave it out, or say "
                 "names=raw",
                 names);
        return ROTA_INVALID;
    }
    return rt_spelling_init(&r->spelling, rt_url_param(&o->target.url, "prefix", ""), raw,
                            o->target.errmsg, sizeof(o->target.errmsg));
}

static int fill_client(struct rota *r, struct opening *o)
{
    static _Atomic uint64_t serials;

    r->serial = atomic_fetch_add(&serials, 1) + 1;
    r->flags = o->opts.flags;
    r->call_ms = o->opts.call_ms != 0 ? o->opts.call_ms : RT_DEFAULT_CALL_MS;
    r->log = o->opts.log;
    r->log_arg = o->opts.log_arg;
    r->label = o->opts.label != NULL ? rt_strdup(o->opts.label) : default_label();
    r->shown_url = rt_strdup(o->target.url.redacted);
    if (r->label == NULL || r->shown_url == NULL)
        return ROTA_NOMEM;
    return spell(r, o);
}

/* The kernel refused us something: errno says what. */
static int no_descriptor(struct opening *o)
{
    int err = errno;

    if (err == EMFILE)
        snprintf(o->target.errmsg, sizeof(o->target.errmsg),
                 "too many open files: raise ulimit -n");
    else
        snprintf(o->target.errmsg, sizeof(o->target.errmsg), "no descriptor for the client: %s",
                 strerror(err));
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
    struct rt_conn given = {
        .up = &r->d.up, .loop = &r->loop, .label = r->label, .call_ms = r->call_ms};
    struct rt_conn *conn;

    int rv = rt_target_open(&o->target, &given, &conn);
    if (rv != 0)
        return rv;
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
        snprintf(o->target.errmsg, sizeof(o->target.errmsg), "strict: %s", r->d.conn->unsafe);
    else
        snprintf(o->target.errmsg, sizeof(o->target.errmsg),
                 "%.120s can forget grants or fences in a crash: change "
                 "its settings, or open it without ROTA_STRICT",
                 r->shown_url);
    return ROTA_UNSAFE;
}

/* Asks the server something, so that an address where nobody answers is noticed here. */
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
        snprintf(o->target.errmsg, sizeof(o->target.errmsg), "%s",
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
    rt_client_seize(r);
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
    struct rota *r = NULL;

    if (out == NULL)
        return rt_fail(NULL, ROTA_INVALID, "rota_open needs a place for the client");
    int rv = take_options(&o, opts, size);
    if (rv != 0)
        return rv;
    rv = rt_target_find(&o.target, url, o.opts.ttl_ms);
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
        rt_fail_waiter(0, rv, o.target.errmsg);
        if (r != NULL)
            rt_client_free(r);
    }
    rt_target_fini(&o.target);
    return rv;
}
