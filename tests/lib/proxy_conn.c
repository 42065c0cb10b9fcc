/* SPDX-License-Identifier: Apache-2.0 */
/* The fault proxy's connections: two sockets, bytes in, bytes out when due, ends passed on. */
#include "proxy_int.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHUNK_MAX 65536
#define QUEUE_MAX (8u << 20) /* a reader that is behind stops its writer, as the kernel would */
#define VECTOR_MAX 32

static enum rt_proxy_dir other(enum rt_proxy_dir dir)
{
    return dir == RT_PROXY_UP ? RT_PROXY_DOWN : RT_PROXY_UP;
}

/* ---- Ends --------------------------------------------------------------- */

/* What epoll should watch at this end: its own pipe reads it, the other one writes it. */
static void watch(struct rt_end *end)
{
    struct rt_conn *c = end->conn;
    const struct rt_pipe *in = &c->pipe[end->side], *out = &c->pipe[other(end->side)];
    bool connecting = c->connecting && end->side == RT_PROXY_DOWN;
    uint32_t events = 0;
    struct epoll_event ev = {.data.ptr = end};

    if (end->fd < 0)
        return;
    if (!connecting && !in->eof && in->queued < QUEUE_MAX)
        events |= EPOLLIN;
    if (connecting || out->blocked)
        events |= EPOLLOUT;
    if (events == end->events)
        return;
    ev.events = events;
    /* Not watched at all, rather than for nothing: a hang-up is always reported, and would spin. */
    if (epoll_ctl(c->proxy->epoll,
                  events == 0        ? EPOLL_CTL_DEL
                  : end->events == 0 ? EPOLL_CTL_ADD
                                     : EPOLL_CTL_MOD,
                  end->fd, &ev) != 0)
        rt_proxy_die("epoll_ctl");
    end->events = events;
}

/* Forked children of the test may have copies of the descriptor: closing alone tells nobody. */
static void end_socket(int fd, enum rt_proxy_end how)
{
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    struct linger linger = {.l_onoff = 1};
    char waste[4096];

    if (how == RT_PROXY_RESET) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        (void)connect(fd, &none, sizeof(none)); /* Linux: sends RST at once (unix: no such thing) */
        shutdown(fd, SHUT_RDWR);
    } else {
        /* What is unread would turn the FIN into a RST. */
        while (recv(fd, waste, sizeof(waste), MSG_DONTWAIT) > 0)
            ;
        shutdown(fd, SHUT_RDWR);
    }
    close(fd);
}

void rt_conn_end(struct rt_conn *c, enum rt_proxy_end how)
{
    if (c->dead)
        return;
    c->dead = true;
    for (int i = 0; i < 2; i++) {
        if (c->end[i].fd >= 0) {
            if (c->end[i].events != 0)
                epoll_ctl(c->proxy->epoll, EPOLL_CTL_DEL, c->end[i].fd, NULL);
            end_socket(c->end[i].fd, how);
        }
        c->end[i].fd = -1;
        rt_pipe_drop_all(&c->pipe[i]);
    }
    c->proxy->counts[c->number].connections = 0;
}

void rt_conn_free(struct rt_conn *c)
{
    assert(c->dead);
    rt_conn_forget_unanswered(c);
    if (c->proxy->framing->fini != NULL)
        c->proxy->framing->fini(c->framing);
    free(c->pipe[0].part);
    free(c->pipe[1].part);
    free(c->framing);
    free(c);
}

/* ---- New ones ----------------------------------------------------------- */

static void count_connection(struct rt_proxy *p, struct rt_conn *c)
{
    c->number = ++p->counts[0].connections;
    if (c->number >= p->counts_cap) {
        p->counts_cap = c->number * 2;
        p->counts = realloc(p->counts, p->counts_cap * sizeof(*p->counts));
        if (p->counts == NULL)
            rt_proxy_die("realloc");
    }
    memset(&p->counts[c->number], 0, sizeof(*p->counts));
    p->counts[c->number].connections = 1;
}

static void no_delay(int fd)
{
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* unix: refused, not needed */
}

static void connect_on(struct rt_conn *c)
{
    struct rt_proxy *p = c->proxy;
    int fd = socket(p->target.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        rt_proxy_die("socket");
    no_delay(fd);
    c->end[RT_PROXY_DOWN].fd = fd;
    if (connect(fd, (const struct sockaddr *)&p->target, p->target_len) == 0)
        return;
    if (errno == EINPROGRESS)
        c->connecting = true;
    else
        rt_conn_end(c, RT_PROXY_RESET);
}

void rt_conn_accept(struct rt_proxy *p)
{
    int fd = accept4(p->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct rt_conn *c;

    if (fd < 0)
        return;
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        rt_proxy_die("calloc");
    no_delay(fd);
    c->proxy = p;
    c->newest = &c->oldest;
    for (int i = 0; i < 2; i++) {
        c->end[i] = (struct rt_end){.conn = c, .side = (enum rt_proxy_dir)i, .fd = -1};
        c->pipe[i].conn = c;
        c->pipe[i].dir = (enum rt_proxy_dir)i;
    }
    c->end[RT_PROXY_UP].fd = fd;
    c->framing = calloc(1, p->framing->state_size + 1);
    if (c->framing == NULL)
        rt_proxy_die("calloc");
    c->mute = p->door == RT_PROXY_MUTE;
    count_connection(p, c);
    c->next = p->conns;
    p->conns = c;
    if (!c->mute)
        connect_on(c);
    if (!c->dead) {
        watch(&c->end[0]);
        watch(&c->end[1]);
    }
}

/* ---- In ----------------------------------------------------------------- */

static void on_eof(struct rt_pipe *pipe, bool reset, int64_t now_ns)
{
    rt_pipe_flush_part(pipe, now_ns);
    pipe->eof = true;
    pipe->eof_reset = reset;
    if (pipe->conn->mute)
        rt_conn_end(pipe->conn, RT_PROXY_CUT);
}

static void read_some(struct rt_end *end, int64_t now_ns)
{
    static _Thread_local char chunk[CHUNK_MAX];
    struct rt_conn *c = end->conn;
    struct rt_pipe *pipe = &c->pipe[end->side];
    struct rt_proxy *p = c->proxy;
    ssize_t n = recv(end->fd, chunk, sizeof(chunk), 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (p->lose[pipe->dir])
        c->torn = true;
    if (n <= 0) {
        on_eof(pipe, n < 0, now_ns);
        return;
    }
    p->counts[0].chunks[pipe->dir]++;
    p->counts[c->number].chunks[pipe->dir]++;
    p->counts[0].bytes[pipe->dir] += (uint64_t)n;
    p->counts[c->number].bytes[pipe->dir] += (uint64_t)n;
    rt_pipe_take(pipe, chunk, (size_t)n, now_ns);
}

static void connected(struct rt_conn *c)
{
    int err = 0;
    socklen_t len = sizeof(err);

    if (getsockopt(c->end[RT_PROXY_DOWN].fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0 || err != 0)
        rt_conn_end(c, RT_PROXY_RESET);
    else
        c->connecting = false;
}

void rt_conn_ready(struct rt_end *end, uint32_t events)
{
    struct rt_conn *c = end->conn;
    int64_t now_ns = rt_proxy_now_ns();

    if (c->dead)
        return; /* by a command, after epoll had reported it */
    if (c->connecting && end->side == RT_PROXY_DOWN)
        connected(c);
    else if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !c->pipe[end->side].eof)
        read_some(end, now_ns);
}

/* ---- Out ---------------------------------------------------------------- */

static bool is_due(const struct rt_pipe *pipe, const struct rt_segment *seg, int64_t now_ns)
{
    return !pipe->conn->proxy->hold[pipe->dir] && seg->held_by == 0 && seg->due_ns <= now_ns;
}

/* How much may go out in one write. */
static size_t write_limit(struct rt_proxy *p, enum rt_proxy_dir dir)
{
    size_t limit = SIZE_MAX;

    if (p->split[dir] > 0)
        limit = 1 + rt_random_below(&p->random, p->split[dir]);
    if (p->ending[dir] && p->end_left[dir] < limit)
        limit = p->end_left[dir];
    return limit;
}

static int gather(const struct rt_pipe *pipe, struct iovec *iov, size_t limit, int64_t now_ns)
{
    int n = 0;

    for (struct rt_segment *s = pipe->head; s != NULL && n < VECTOR_MAX && limit > 0; s = s->next) {
        size_t len = s->len - s->sent;

        if (!is_due(pipe, s, now_ns))
            break;
        if (len > limit)
            len = limit;
        iov[n++] = (struct iovec){.iov_base = s->data + s->sent, .iov_len = len};
        limit -= len;
    }
    return n;
}

/* LEN bytes have gone out. */
static void delivered(struct rt_pipe *pipe, size_t len)
{
    struct rt_conn *c = pipe->conn;
    struct rt_proxy *p = c->proxy;

    p->counts[0].delivered[pipe->dir] += len;
    p->counts[c->number].delivered[pipe->dir] += len;
    pipe->queued -= len;
    if (p->ending[pipe->dir])
        p->end_left[pipe->dir] -= len;
    while (len > 0) {
        struct rt_segment *s = pipe->head;
        size_t part = s->len - s->sent < len ? s->len - s->sent : len;

        s->sent += part;
        len -= part;
        if (s->sent < s->len)
            break;
        c->outstanding -= s->answers;
        pipe->head = s->next;
        if (pipe->head == NULL)
            pipe->tail = NULL;
        free(s);
    }
    if (p->ending[pipe->dir] && p->end_left[pipe->dir] == 0) {
        p->ending[pipe->dir] = false;
        rt_conn_end(c, p->end_how[pipe->dir]);
    }
}

/* Writes once; false: there is nothing due or no room. */
static bool write_some(struct rt_pipe *pipe, int64_t now_ns)
{
    struct iovec iov[VECTOR_MAX];
    struct rt_conn *c = pipe->conn;
    struct rt_proxy *p = c->proxy;
    struct msghdr msg = {.msg_iov = iov};
    ssize_t n;

    msg.msg_iovlen = (size_t)gather(pipe, iov, write_limit(p, pipe->dir), now_ns);
    if (msg.msg_iovlen == 0)
        return false;
    n = sendmsg(c->end[other(pipe->dir)].fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    pipe->blocked = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (pipe->blocked)
        return false;
    if (n < 0) { /* its reader will tell how it ended */
        pipe->broken = true;
        return false;
    }
    delivered(pipe, (size_t)n);
    return !c->dead;
}

/* The end of a pipe follows its last byte. */
static void pass_end_on(struct rt_pipe *pipe)
{
    struct rt_conn *c = pipe->conn;
    const struct rt_proxy *p = c->proxy;

    if (!pipe->eof || pipe->shut || pipe->head != NULL || pipe->silent || p->hold[pipe->dir] ||
        p->lose[pipe->dir])
        return;
    if (pipe->eof_reset) {
        rt_conn_end(c, RT_PROXY_RESET);
        return;
    }
    shutdown(c->end[other(pipe->dir)].fd, SHUT_WR);
    pipe->shut = true;
    if (c->pipe[RT_PROXY_UP].shut && c->pipe[RT_PROXY_DOWN].shut)
        rt_conn_end(c, RT_PROXY_CUT);
}

static int64_t pump(struct rt_pipe *pipe, int64_t now_ns)
{
    struct rt_conn *c = pipe->conn;

    if (pipe->broken)
        rt_pipe_drop_all(pipe);
    while (write_some(pipe, now_ns))
        ;
    if (!c->dead)
        pass_end_on(pipe);
    if (c->dead || pipe->head == NULL || pipe->head->held_by != 0 || c->proxy->hold[pipe->dir] ||
        pipe->head->due_ns <= now_ns)
        return RT_PROXY_NEVER;
    return pipe->head->due_ns;
}

int64_t rt_conn_pump(struct rt_conn *c, int64_t now_ns)
{
    int64_t next = RT_PROXY_NEVER;

    if (c->dead || c->mute)
        return next;
    for (int i = 0; i < 2 && !c->dead; i++) {
        int64_t at = c->connecting ? RT_PROXY_NEVER : pump(&c->pipe[i], now_ns);

        next = at < next ? at : next;
    }
    for (int i = 0; i < 2 && !c->dead; i++)
        watch(&c->end[i]);
    return next;
}
