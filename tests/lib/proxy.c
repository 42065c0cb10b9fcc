/* SPDX-License-Identifier: Apache-2.0 */
/* The fault proxy's thread and its doors: listening, turning, stopping. */
#include "proxy.h"

#include "proxy_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 512
#define EVENTS_MAX 64

void rt_proxy_die(const char *what)
{
    fprintf(stderr, "proxy: %s: %s\n", what, strerror(errno));
    abort();
}

int64_t rt_proxy_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- Addresses ---------------------------------------------------------- */

/* "/path" or an IPv4 address. */
static socklen_t address(struct sockaddr_storage *out, const char *host, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    memset(out, 0, sizeof(*out));
    if (host == NULL)
        host = "127.0.0.1";
    if (host[0] == '/' && strlen(host) < sizeof(un.sun_path)) {
        memcpy(un.sun_path, host, strlen(host));
        memcpy(out, &un, sizeof(un));
        return sizeof(un);
    }
    errno = EINVAL;
    if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
        rt_proxy_die(host);
    memcpy(out, &in, sizeof(in));
    return sizeof(in);
}

static int bound_socket(const struct rt_proxy *p)
{
    struct sockaddr_storage ss;
    socklen_t len = address(&ss, p->listen_path[0] != '\0' ? p->listen_path : NULL, p->port);
    int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;

    if (fd < 0)
        rt_proxy_die("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (const struct sockaddr *)&ss, len) != 0)
        rt_proxy_die("bind");
    return fd;
}

static void watch_fd(struct rt_proxy *p, int *fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = fd};

    if (*fd < 0 || epoll_ctl(p->epoll, EPOLL_CTL_ADD, *fd, &ev) != 0)
        rt_proxy_die("epoll_ctl");
}

static void open_door(struct rt_proxy *p)
{
    if (p->listener >= 0)
        return;
    p->listener = bound_socket(p);
    if (listen(p->listener, BACKLOG) != 0)
        rt_proxy_die("listen");
    watch_fd(p, &p->listener);
}

static void shut_door(struct rt_proxy *p)
{
    if (p->listener < 0)
        return;
    epoll_ctl(p->epoll, EPOLL_CTL_DEL, p->listener, NULL);
    shutdown(p->listener, SHUT_RDWR); /* a forked child may have a copy */
    close(p->listener);
    p->listener = -1;
    if (p->listen_path[0] != '\0')
        unlink(p->listen_path);
}

/* A second socket, bound but not listening, keeps the port ours while the door is shut. */
static void reserve_port(struct rt_proxy *p)
{
    struct sockaddr_in in;
    socklen_t len = sizeof(in);

    p->anchor = bound_socket(p);
    if (getsockname(p->anchor, (struct sockaddr *)&in, &len) != 0)
        rt_proxy_die("getsockname");
    p->port = ntohs(in.sin_port);
}

/* ---- The thread --------------------------------------------------------- */

static void drain(int fd)
{
    uint64_t n;

    while (read(fd, &n, sizeof(n)) > 0)
        ;
}

static void handle(struct rt_proxy *p, const struct epoll_event *ev)
{
    if (ev->data.ptr == &p->wake || ev->data.ptr == &p->timer) {
        drain(*(int *)ev->data.ptr);
    } else if (ev->data.ptr == &p->listener) {
        if (p->listener >= 0)
            rt_conn_accept(p);
    } else {
        rt_conn_ready(ev->data.ptr, ev->events);
    }
}

static void arm(struct rt_proxy *p, int64_t at_ns)
{
    struct itimerspec when = {0};

    if (at_ns != RT_PROXY_NEVER) {
        when.it_value.tv_sec = at_ns / 1000000000;
        when.it_value.tv_nsec = at_ns % 1000000000;
    }
    if (timerfd_settime(p->timer, TFD_TIMER_ABSTIME, &when, NULL) != 0)
        rt_proxy_die("timerfd_settime");
}

/* Moves what is due, and frees what has ended, but nothing that epoll may still report. */
static void pump_all(struct rt_proxy *p)
{
    int64_t now_ns = rt_proxy_now_ns(), next = RT_PROXY_NEVER;
    struct rt_conn **at = &p->conns;

    while (*at != NULL) {
        struct rt_conn *c = *at;
        int64_t due_ns = rt_conn_pump(c, now_ns);

        next = due_ns < next ? due_ns : next;
        if (c->dead) {
            *at = c->next;
            rt_conn_free(c);
        } else {
            at = &c->next;
        }
    }
    arm(p, next);
}

static void *turn(void *arg)
{
    struct rt_proxy *p = arg;
    struct epoll_event events[EVENTS_MAX];
    bool stop = false;

    while (!stop) {
        int n = epoll_wait(p->epoll, events, EVENTS_MAX, -1);

        pthread_mutex_lock(&p->mutex);
        for (int i = 0; i < n; i++)
            handle(p, &events[i]);
        pump_all(p);
        stop = p->stop;
        pthread_cond_broadcast(&p->turned);
        pthread_mutex_unlock(&p->mutex);
    }
    return NULL;
}

/* ---- Life --------------------------------------------------------------- */

static void start_thread(struct rt_proxy *p)
{
    sigset_t all, before;
    pthread_condattr_t attr;

    pthread_mutex_init(&p->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->turned, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all); /* signals are the test's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&p->thread, NULL, turn, p);
    if (errno != 0)
        rt_proxy_die("pthread_create");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct rt_proxy *rt_proxy_start(const struct rt_proxy_options *opts)
{
    struct rt_proxy *p = calloc(1, sizeof(*p));

    if (p == NULL)
        rt_proxy_die("calloc");
    p->framing = opts->framing != NULL ? opts->framing : &rt_proxy_raw;
    p->random.state = opts->seed;
    p->counts_cap = 16;
    p->counts = calloc(p->counts_cap, sizeof(*p->counts));
    if (p->counts == NULL)
        rt_proxy_die("calloc");
    p->target_len = address(&p->target, opts->host, opts->port);
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    watch_fd(p, &p->wake);
    watch_fd(p, &p->timer);
    p->listener = p->anchor = -1;
    if (opts->listen != NULL)
        snprintf(p->listen_path, sizeof(p->listen_path), "%s", opts->listen);
    else
        reserve_port(p);
    open_door(p);
    start_thread(p);
    return p;
}

/* Every command wakes the thread. */
static void unlock(struct rt_proxy *p)
{
    uint64_t one = 1;

    if (write(p->wake, &one, sizeof(one)) != (ssize_t)sizeof(one))
        rt_proxy_die("eventfd");
    pthread_mutex_unlock(&p->mutex);
}

void rt_proxy_stop(struct rt_proxy *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->mutex);
    p->stop = true;
    shut_door(p);
    for (struct rt_conn *c = p->conns; c != NULL; c = c->next)
        rt_conn_end(c, RT_PROXY_RESET);
    unlock(p);
    pthread_join(p->thread, NULL);
    for (uint32_t i = 0; i < p->fault_count; i++)
        free(p->faults[i].match);
    free(p->faults);
    close(p->epoll);
    close(p->wake);
    close(p->timer);
    if (p->anchor >= 0)
        close(p->anchor);
    pthread_cond_destroy(&p->turned);
    pthread_mutex_destroy(&p->mutex);
    free(p->counts);
    free(p);
}

uint16_t rt_proxy_port(const struct rt_proxy *p)
{
    return p->port;
}

void rt_proxy_target(struct rt_proxy *p, const char *host, uint16_t port)
{
    pthread_mutex_lock(&p->mutex);
    p->target_len = address(&p->target, host, port);
    unlock(p);
}

void rt_proxy_door(struct rt_proxy *p, enum rt_proxy_door door)
{
    pthread_mutex_lock(&p->mutex);
    p->door = door;
    if (door == RT_PROXY_REFUSE)
        shut_door(p);
    else
        open_door(p);
    unlock(p);
}
