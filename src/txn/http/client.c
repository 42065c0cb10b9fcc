/* SPDX-License-Identifier: Apache-2.0 */
/* All calls of services on one thread: queues per host, deadlines, libcurl's sockets in one epoll. */
#include "txn/http/client_inside.h"

#include "base/alloc.h"
#include "base/list.h"
#include "net/fd.h"
#include "net/loop.h"
#include "txn/http/address.h"

#include <rota.h>

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define NEVER INT64_MAX
#define SPARE_MAX 64  /* handles that wait for the next call */
#define EVENTS_MAX 64 /* of one turn */
#define TURNS_MAX 8   /* of what libcurl wants done at once, before its host does other work */
#define CONNECTIONS_MAX 4096L /* kept; per host there are RT_HTTP_AT_ONCE at most */

struct spare {
    CURL *easy;
    struct rt_http_site *site; /* whose settings it has; NULL: none's */
};

struct rt_http_calls {
    struct rt_http_calls_options options;
    int wake, epoll;
    pthread_t thread;

    pthread_mutex_t mu; /* for what follows */
    struct rt_http_flight inbox;
    bool started, closing, cuts; /* started: a thread runs it, its own or its host's */

    /* The thread's own. */
    struct rt_http_flight all; /* out of the inbox */
    struct rt_http_host *hosts;
    CURLM *multi;
    struct spare spares[SPARE_MAX];
    size_t spare_count;
    int64_t curl_at;           /* libcurl wants to be called */
    int64_t nearest;           /* no deadline is earlier */
    char why[RT_SERVICE_LINE]; /* nothing can be called; "": it can */
};

static void ring(struct rt_http_calls *h)
{
    uint64_t one = 1;
    ssize_t n = write(h->wake, &one, sizeof(one));

    (void)n; /* a full counter rings, too */
}

/* ---- Hosts ------------------------------------------------------------------------- */

static struct rt_http_host *host_of(struct rt_http_calls *h, const char *url)
{
    struct rt_http_address a = {0};
    char unused[RT_SERVICE_LINE];
    struct rt_http_host *host = h->hosts;

    int rv = rt_http_address_read(&a, url, unused, sizeof(unused));
    if (rv != 0 || a.is_path)
        return NULL;
    while (host != NULL && (host->size != a.origin || memcmp(host->origin, url, a.origin) != 0))
        host = host->next;
    if (host != NULL)
        return host;
    host = rt_alloc(sizeof(*host) + a.origin);
    if (host == NULL)
        return NULL;
    host->last = &host->first;
    host->size = a.origin;
    memcpy(host->origin, url, a.origin);
    host->next = h->hosts;
    h->hosts = host;
    return host;
}

/* Nothing is under way to it, and nothing waits for it. */
static void host_drop(struct rt_http_calls *h, struct rt_http_host *host)
{
    struct rt_http_host **at = &h->hosts;

    while (*at != host)
        at = &(*at)->next;
    *at = host->next;
    rt_free(host);
}

static void host_queue(struct rt_http_host *host, struct rt_http_flight *f)
{
    f->host = host;
    f->queued = NULL;
    *host->last = f;
    host->last = &f->queued;
}

static void host_unqueue(struct rt_http_host *host, struct rt_http_flight *f)
{
    struct rt_http_flight **at = &host->first;

    while (*at != f)
        at = &(*at)->queued;
    *at = f->queued;
    if (host->last == &f->queued)
        host->last = at;
}

/* ---- Handles ------------------------------------------------------------------------- */

/* A handle with the settings of SITE; NULL: none could be made. */
static CURL *handle_take(struct rt_http_calls *h, struct rt_http_site *site)
{
    struct spare found = {0};

    for (size_t i = h->spare_count; found.easy == NULL && i-- > 0;)
        if (h->spares[i].site == site || i == 0) {
            found = h->spares[i];
            h->spares[i] = h->spares[--h->spare_count];
        }
    bool fits = found.easy != NULL && found.site == site;
    if (found.easy == NULL)
        found.easy = rt_curl.easy_init();
    rt_http_site_let_go(found.site);
    if (found.easy == NULL || fits || rt_http_talk_set_up(found.easy, site))
        return found.easy;
    rt_curl.easy_cleanup(found.easy);
    return NULL;
}

static void handle_give(struct rt_http_calls *h, CURL *easy, struct rt_http_site *site)
{
    (void)rt_curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
    (void)rt_curl.easy_setopt(easy, CURLOPT_HTTPHEADER, NULL);
    if (h->spare_count == SPARE_MAX) {
        rt_curl.easy_cleanup(easy);
        return;
    }
    h->spares[h->spare_count++] = (struct spare){easy,
                                                 site != NULL ? rt_http_site_hold(site) : NULL};
}

/* ---- Flights ------------------------------------------------------------------------------ */

/* F's call has its answer: hands it to done(), and F is gone. */
static void finish(struct rt_http_calls *h, struct rt_http_flight *f)
{
    struct rt_service_call *c = f->call;
    struct rt_http_host *host = f->host;

    RT_RING_OUT(f);
    if (f->easy != NULL) {
        rt_curl.multi_remove_handle(h->multi, f->easy);
        handle_give(h, f->easy, f->site);
        assert(host != NULL && host->running > 0);
        host->running--;
    } else if (host != NULL) {
        host_unqueue(host, f);
    }
    if (host != NULL && host->running == 0 && host->first == NULL)
        host_drop(h, host);
    rt_http_talk_free(f);
    pthread_mutex_lock(&h->mu);
    c->next = NULL; /* from now on a cut does nothing */
    pthread_mutex_unlock(&h->mu);
    c->done(c);
}

/* Sends off the first of HOST's queue. */
static void launch(struct rt_http_calls *h, struct rt_http_host *host)
{
    struct rt_http_flight *f = host->first;
    CURL *easy = handle_take(h, f->site);

    if (easy == NULL) {
        rt_http_talk_lost(f, "out of memory, or a libcurl older than 7.85");
        finish(h, f);
        return;
    }
    bool begun = rt_http_talk_begin(f, easy);
    if (begun && rt_curl.multi_add_handle(h->multi, easy) != CURLM_OK) {
        rt_http_talk_lost(f, "out of memory");
        begun = false;
    }
    if (!begun) {
        f->easy = NULL;
        handle_give(h, easy, f->site);
        finish(h, f);
        return;
    }
    host_unqueue(host, f);
    host->running++;
}

static void launch_all(struct rt_http_calls *h)
{
    struct rt_http_host *host = h->hosts;

    while (host != NULL) {
        if (host->first == NULL || host->running >= RT_HTTP_AT_ONCE) {
            host = host->next;
            continue;
        }
        launch(h, host); /* HOST may be gone after that */
        host = h->hosts;
    }
}

/* ---- The inbox, cuts, deadlines --------------------------------------------------------------- */

static void take(struct rt_http_calls *h, struct rt_http_flight *f)
{
    if (h->why[0] != '\0') {
        rt_http_talk_lost(f, "%s", h->why);
        finish(h, f);
        return;
    }
    if (!rt_http_talk_prepare(f, &h->options)) {
        finish(h, f);
        return;
    }
    struct rt_http_host *host = host_of(h, f->url);
    if (host == NULL) {
        rt_http_talk_lost(f, "out of memory, or its URL is too long");
        finish(h, f);
        return;
    }
    host_queue(host, f);
    h->nearest = f->call->deadline < h->nearest ? f->call->deadline : h->nearest;
}

static void expire(struct rt_http_flight *f)
{
    if (f->easy == NULL)
        rt_http_talk_lost(
            f, "could not be called in time: it was late, or %d calls to it are under way",
            RT_HTTP_AT_ONCE);
    else if (rt_http_talk_connected(f))
        rt_http_talk_lost(f, "did not answer in time");
    else
        rt_http_talk_lost(f, "could not be connected to in time");
}

/* Ends what is late or cut; all, if CLOSING. */
static void sweep(struct rt_http_calls *h, bool closing, bool cuts, int64_t now)
{
    struct rt_http_flight *f = h->all.next;

    if (!closing && !cuts && now < h->nearest)
        return;
    h->nearest = NEVER;
    while (f != &h->all) {
        struct rt_http_flight *next = f->next;
        pthread_mutex_lock(&h->mu);
        bool cut = f->cut;
        pthread_mutex_unlock(&h->mu);
        if (closing || cut)
            rt_http_talk_lost(f, closing ? "the manager was closed" : "it was given up");
        else if (f->call->deadline <= now)
            expire(f);
        else
            h->nearest = f->call->deadline < h->nearest ? f->call->deadline : h->nearest;
        if (closing || cut || f->call->deadline <= now)
            finish(h, f);
        f = next;
    }
}

/* Takes what was asked since the last turn. False: it is closing, and everything is answered. */
static bool attend(struct rt_http_calls *h)
{
    struct rt_http_flight inbox;

    pthread_mutex_lock(&h->mu);
    RT_RING_MOVE(&inbox, &h->inbox);
    bool closing = h->closing, cuts = h->cuts;
    h->cuts = false;
    pthread_mutex_unlock(&h->mu);
    while (!RT_RING_EMPTY(&inbox)) {
        struct rt_http_flight *f = inbox.next;
        RT_RING_OUT(f);
        RT_RING_ADD(&h->all, f);
        take(h, f);
    }
    sweep(h, closing, cuts, rt_loop_clock());
    launch_all(h);
    return !closing;
}

/* ---- libcurl's sockets and its clock ------------------------------------------------------------ */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    struct rt_http_calls *h = arg;
    struct epoll_event e = {.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) |
                                      (what & CURL_POLL_OUT ? EPOLLOUT : 0u),
                            .data.fd = fd};

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        (void)epoll_ctl(h->epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    /* If this fails, no event comes, but the deadline does. */
    (void)epoll_ctl(h->epoll, known != NULL ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e);
    if (known == NULL)
        (void)rt_curl.multi_assign(h->multi, fd, h);
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *arg)
{
    struct rt_http_calls *h = arg;

    (void)multi;
    h->curl_at = ms < 0 ? NEVER : rt_loop_clock() + ms * MS;
    return 0;
}

/* Whether any call was over: others may leave in its place. */
static bool hear(struct rt_http_calls *h)
{
    CURLMsg *m;
    int left;
    bool any = false;

    while ((m = rt_curl.multi_info_read(h->multi, &left)) != NULL) {
        struct rt_http_flight *f = NULL;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE ||
            rt_curl.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&f) != 0)
            continue;
        assert(f != NULL && f->easy == m->easy_handle);
        rt_http_talk_judge(f, code);
        finish(h, f);
        any = true;
    }
    return any;
}

static int64_t next_at(const struct rt_http_calls *h)
{
    return h->curl_at < h->nearest ? h->curl_at : h->nearest;
}

static int wait_ms(const struct rt_http_calls *h)
{
    int64_t at = next_at(h), now = rt_loop_clock();

    if (at == NEVER)
        return -1;
    int64_t ms = at <= now ? 0 : (at - now) / MS + 1;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Serves sockets that are ready; returns whether any were. */
static bool look(struct rt_http_calls *h, int ms)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(h->epoll, events, EVENTS_MAX, ms);
    int running;
    uint64_t rung;

    for (int i = 0; i < n; i++) {
        uint32_t e = events[i].events;
        int fd = events[i].data.fd;
        int mask = ((e & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) |
                   ((e & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                   ((e & (EPOLLERR | EPOLLHUP)) != 0 ? CURL_CSELECT_ERR : 0);
        if (fd == h->wake)
            (void)read(h->wake, &rung, sizeof(rung));
        else
            (void)rt_curl.multi_socket_action(h->multi, fd, mask, &running);
    }
    return n > 0;
}

/* Whether libcurl wants to be called: after a launch it does, at once. */
static bool is_due(const struct rt_http_calls *h)
{
    return h->multi != NULL && h->curl_at <= rt_loop_clock();
}

static bool serve(struct rt_http_calls *h)
{
    int running;

    if (is_due(h)) {
        h->curl_at = NEVER;
        (void)rt_curl.multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    return h->multi != NULL && hear(h);
}

/* ---- The thread ---------------------------------------------------------------------------------- */

static void begin(struct rt_http_calls *h)
{
    if (rt_libcurl_load(h->why, sizeof(h->why)) != 0)
        return;
    h->multi = rt_curl.multi_init();
    if (h->multi == NULL ||
        rt_curl.multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, on_socket) != 0 ||
        rt_curl.multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h) != 0 ||
        rt_curl.multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, on_timer) != 0 ||
        rt_curl.multi_setopt(h->multi, CURLMOPT_TIMERDATA, h) != 0 ||
        rt_curl.multi_setopt(h->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING) != 0 ||
        rt_curl.multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_MAX) != 0)
        memcpy(h->why, "out of memory", sizeof("out of memory"));
}

static void end(struct rt_http_calls *h)
{
    assert(RT_RING_EMPTY(&h->all) && h->hosts == NULL);
    for (size_t i = 0; i < h->spare_count; i++) {
        rt_curl.easy_cleanup(h->spares[i].easy);
        rt_http_site_let_go(h->spares[i].site);
    }
    if (h->multi != NULL)
        rt_curl.multi_cleanup(h->multi);
}

static void *run(void *arg)
{
    struct rt_http_calls *h = arg;

    begin(h);
    while (attend(h)) {
        bool any = serve(h); /* what was launched leaves before anybody waits */
        (void)look(h, any ? 0 : wait_ms(h));
        (void)serve(h);
    }
    end(h);
    return NULL;
}

int rt_http_calls_fd(const struct rt_http_calls *h)
{
    return h->epoll;
}

/* Hears what has come before deadlines are checked: an answer that came in time counts, however late our host is.
 * Bounded: a service that never stops sending has a deadline, too. */
static void catch_up(struct rt_http_calls *h)
{
    bool any = true;

    for (int i = 0; any && i < TURNS_MAX; i++) {
        any = look(h, 0);
        any = serve(h) || any;
    }
}

int64_t rt_http_calls_turn(struct rt_http_calls *h, bool ready)
{
    bool again = h->started;

    if (h->nearest <= rt_loop_clock())
        catch_up(h);
    else if (ready)
        (void)look(h, 0);
    for (int i = 0; again && i < TURNS_MAX; i++) {
        (void)attend(h);
        again = serve(h) || is_due(h);
    }
    return again ? 0 : next_at(h);
}

/* Under the mutex. */
static int start(struct rt_http_calls *h)
{
    sigset_t all, old;

    if (h->started)
        return 0;
    if (h->options.hosted) {
        begin(h);
        h->started = true;
        return 0;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &old); /* our thread takes none of the program's signals, nor SIGPIPE */
    h->started = pthread_create(&h->thread, NULL, run, h) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (h->started)
        pthread_setname_np(h->thread, "rota-http");
    return h->started ? 0 : ROTA_NOMEM;
}

/* ---- The contract ------------------------------------------------------------------------------ */

int rt_http_calls_ready(char *errmsg, size_t size)
{
    return rt_libcurl_load(errmsg, size);
}

int rt_http_calls_open(struct rt_http_calls **out, const struct rt_http_calls_options *options)
{
    struct rt_http_calls *h = rt_alloc(sizeof(*h));

    if (h == NULL)
        return ROTA_NOMEM;
    struct epoll_event e = {.events = EPOLLIN};
    h->wake = rt_fd_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    h->epoll = rt_fd_lift(epoll_create1(EPOLL_CLOEXEC));
    e.data.fd = h->wake;
    if (h->wake < 0 || h->epoll < 0 || epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->wake, &e) != 0) {
        if (h->wake >= 0)
            close(h->wake);
        if (h->epoll >= 0)
            close(h->epoll);
        rt_free(h);
        return ROTA_NOMEM;
    }
    if (options != NULL)
        h->options = *options;
    pthread_mutex_init(&h->mu, NULL);
    RT_RING_INIT(&h->inbox);
    RT_RING_INIT(&h->all);
    h->curl_at = h->nearest = NEVER;
    *out = h;
    return 0;
}

int rt_http_calls_ask(struct rt_http_calls *h, struct rt_service_call *c)
{
    struct rt_http_flight *f = rt_alloc(sizeof(*f));

    assert(c->done != NULL);
    if (f == NULL)
        return ROTA_NOMEM;
    f->call = c;
    pthread_mutex_lock(&h->mu);
    bool rings = RT_RING_EMPTY(&h->inbox); /* else somebody rang; all are taken at once */
    int rv = h->closing ? ROTA_CANCELED : start(h);
    if (rv == 0) {
        c->next = (struct rt_service_call *)(void *)f; /* for cut; it is ours meanwhile */
        c->reply = RT_REPLY_LOST;
        c->status = 0;
        c->errmsg[0] = '\0';
        c->body = NULL;
        c->body_size = 0;
        RT_RING_ADD(&h->inbox, f);
    }
    pthread_mutex_unlock(&h->mu);
    if (rv != 0)
        rt_free(f);
    else if (rings && !h->options.hosted) /* without the mutex: whoever wakes wants it first */
        ring(h);
    return rv;
}

void rt_http_calls_cut(struct rt_http_calls *h, struct rt_service_call *c)
{
    pthread_mutex_lock(&h->mu);
    struct rt_http_flight *f = (struct rt_http_flight *)(void *)c->next;
    if (f != NULL) {
        f->cut = h->cuts = true;
        ring(h);
    }
    pthread_mutex_unlock(&h->mu);
}

void rt_http_calls_close(struct rt_http_calls *h)
{
    if (h == NULL)
        return;
    pthread_mutex_lock(&h->mu);
    h->closing = true;
    ring(h);
    bool started = h->started;
    pthread_mutex_unlock(&h->mu);
    if (started && h->options.hosted) {
        (void)attend(h);
        end(h);
    } else if (started) {
        pthread_join(h->thread, NULL);
    }
    assert(RT_RING_EMPTY(&h->inbox));
    close(h->wake);
    close(h->epoll);
    pthread_mutex_destroy(&h->mu);
    rt_free(h);
}
