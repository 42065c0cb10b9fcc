/* SPDX-License-Identifier: Apache-2.0 */
/* A server that is not one: one thread, one poll over all its connections. */
#include "rogue.h"

#include "random.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64

struct talk { /* of one connection */
    bool begun;
    size_t sent; /* of the flood, this time */
};

struct rogue {
    pthread_t thread;
    struct rogue_options opts;
    struct rt_random random;
    struct pollfd fds[2 + CONNECTIONS_MAX]; /* the end, the listener, connections */
    struct talk talks[2 + CONNECTIONS_MAX];
    nfds_t count;
    int stop[2];
    uint16_t port;
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

static void say(int fd, const void *bytes, size_t n)
{
    if (n > 0)
        (void)send(fd, bytes, n, MSG_NOSIGNAL);
}

/* Sends as much as there is room for; never cuts a frame short. */
static void flood(const struct rogue *r, struct pollfd *at, struct talk *talk)
{
    const char *bytes = r->opts.then;
    ssize_t n = send(at->fd, bytes + talk->sent, r->opts.then_size - talk->sent,
                     MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n > 0)
        talk->sent = (talk->sent + (size_t)n) % r->opts.then_size;
}

/* False: the connection is to be closed. */
static bool answer(struct rogue *r, nfds_t i, const char *got, size_t len)
{
    const struct rogue_options *o = &r->opts;
    bool first = !r->talks[i].begun || o->way == ROGUE_SAYS;
    int fd = r->fds[i].fd;
    char noise[256], played[8192];

    r->talks[i].begun = true;
    switch (o->way) {
    case ROGUE_SAYS:
    case ROGUE_TALKS:
        say(fd, first ? o->first : o->then, first ? o->first_size : o->then_size);
        break;
    case ROGUE_FLOODS:
        if (first)
            say(fd, o->first, o->first_size);
        r->fds[i].events = POLLIN | POLLOUT;
        break;
    case ROGUE_HANGS_UP:
        say(fd, o->first, o->first_size);
        return false;
    case ROGUE_ECHOES:
        say(fd, got, len);
        break;
    case ROGUE_NOISE:
        for (size_t k = 0; k < sizeof(noise); k++)
            noise[k] = (char)rt_random_below(&r->random, 256);
        say(fd, noise, sizeof(noise));
        break;
    case ROGUE_PLAYS:
        say(fd, played, o->play(o->arg, first, got, len, played, sizeof(played)));
        break;
    case ROGUE_CLOSES:
    case ROGUE_MUTE:
        break;
    }
    return true;
}

static void take(struct rogue *r)
{
    int fd = accept4(r->fds[1].fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    if (r->opts.way == ROGUE_CLOSES || r->count == 2 + CONNECTIONS_MAX) {
        close(fd);
        return;
    }
    r->talks[r->count] = (struct talk){0};
    r->fds[r->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void hear(struct rogue *r, nfds_t i)
{
    char got[4096];
    ssize_t n = recv(r->fds[i].fd, got, sizeof(got), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && answer(r, i, got, (size_t)n))
        return;
    close(r->fds[i].fd);
    r->fds[i] = r->fds[--r->count];
    r->talks[i] = r->talks[r->count];
}

static void *serve(void *arg)
{
    struct rogue *r = arg;

    for (;;) {
        must(poll(r->fds, r->count, -1) >= 0, "poll");
        if (r->fds[0].revents != 0)
            return NULL;
        for (nfds_t i = r->count; i-- > 2;) {
            if ((r->fds[i].revents & POLLOUT) != 0)
                flood(r, &r->fds[i], &r->talks[i]);
            if ((r->fds[i].revents & ~POLLOUT) != 0)
                hear(r, i);
        }
        if (r->fds[1].revents != 0)
            take(r);
    }
}

struct rogue *rogue_start(const struct rogue_options *opts)
{
    struct rogue *r = calloc(1, sizeof(*r));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(r != NULL && fd >= 0 && pipe2(r->stop, O_CLOEXEC) == 0, "rogue");
    must(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 64) == 0, "listen");
    must(getsockname(fd, (struct sockaddr *)&at, &len) == 0, "getsockname");
    r->opts = *opts;
    r->random.state = opts->seed;
    r->port = ntohs(at.sin_port);
    r->fds[0] = (struct pollfd){.fd = r->stop[0], .events = POLLIN};
    r->fds[1] = (struct pollfd){.fd = fd, .events = POLLIN};
    r->count = 2;
    must(pthread_create(&r->thread, NULL, serve, r) == 0, "pthread_create");
    return r;
}

uint16_t rogue_port(const struct rogue *r)
{
    return r->port;
}

void rogue_stop(struct rogue *r)
{
    must(write(r->stop[1], "", 1) == 1, "write");
    pthread_join(r->thread, NULL);
    for (nfds_t i = 1; i < r->count; i++)
        close(r->fds[i].fd);
    close(r->stop[0]);
    close(r->stop[1]);
    free(r);
}

/* ---- What is no Redis --------------------------------------------------- */

#define SAYS(text) .way = ROGUE_SAYS, .first = text, .first_size = sizeof(text) - 1

static const char xs[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

const struct rogue_options rogue_no_redis[ROGUE_NO_REDIS] = {
    {.way = ROGUE_MUTE},
    {.way = ROGUE_CLOSES},
    {.way = ROGUE_NOISE, .seed = 3},
    {.way = ROGUE_ECHOES},
    {.way = ROGUE_FLOODS,
     .first = "$500000000\r\n",
     .first_size = 12,
     .then = xs,
     .then_size = sizeof(xs) - 1},
    {SAYS("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")},
    {SAYS("+OK\r\n")},
    {SAYS("+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n")},
    {SAYS("*1000000000\r\n")},
    {SAYS("*-1\r\n$-1\r\n")},
    {SAYS("*2\r\n$1\r\n1\r\n:0\r\n")},
    {SAYS("-ERR unknown command\r\n")},
    {SAYS("$0\r\n\r\n")},
};
