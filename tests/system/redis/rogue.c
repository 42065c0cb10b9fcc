/* SPDX-License-Identifier: Apache-2.0 */
/* A server that is none: one thread, one poll over all its connections. */
#include "rogue.h"

#include "lib/random.h"

#include <arpa/inet.h>
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

struct rogue {
    pthread_t thread;
    enum rogue_way way;
    const char *text;
    struct rt_random random;
    struct pollfd fds[2 + CONNECTIONS_MAX]; /* the end, the listener, connections */
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

static void say(struct rogue *r, int fd, const char *got, size_t len)
{
    char noise[256];
    ssize_t ignored = 0;

    switch (r->way) {
    case ROGUE_SAYS:
        ignored = send(fd, r->text, strlen(r->text), MSG_NOSIGNAL);
        break;
    case ROGUE_ECHOES:
        ignored = send(fd, got, len, MSG_NOSIGNAL);
        break;
    case ROGUE_NOISE:
        for (size_t i = 0; i < sizeof(noise); i++)
            noise[i] = (char)rt_random_below(&r->random, 256);
        ignored = send(fd, noise, sizeof(noise), MSG_NOSIGNAL);
        break;
    case ROGUE_ENDLESS:
        memset(noise, 'x', sizeof(noise));
        memcpy(noise, "$500000000\r\n", 12);
        for (int i = 0; i < 64 && ignored >= 0; i++)
            ignored = send(fd, noise, sizeof(noise), MSG_NOSIGNAL | MSG_DONTWAIT);
        break;
    case ROGUE_CLOSES:
    case ROGUE_MUTE:
        break;
    }
    (void)ignored;
}

static void take(struct rogue *r)
{
    int fd = accept4(r->fds[1].fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    if (r->way == ROGUE_CLOSES || r->count == 2 + CONNECTIONS_MAX)
        close(fd);
    else
        r->fds[r->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void hear(struct rogue *r, nfds_t i)
{
    char got[4096];
    ssize_t n = recv(r->fds[i].fd, got, sizeof(got), MSG_DONTWAIT);

    if (n > 0) {
        say(r, r->fds[i].fd, got, (size_t)n);
        return;
    }
    close(r->fds[i].fd);
    r->fds[i] = r->fds[--r->count];
}

static void *serve(void *arg)
{
    struct rogue *r = arg;

    for (;;) {
        must(poll(r->fds, r->count, -1) >= 0, "poll");
        if (r->fds[0].revents != 0)
            return NULL;
        for (nfds_t i = r->count; i-- > 2;) {
            if (r->fds[i].revents != 0)
                hear(r, i);
        }
        if (r->fds[1].revents != 0)
            take(r);
    }
}

struct rogue *rogue_start(enum rogue_way way, const char *text, uint64_t seed)
{
    struct rogue *r = calloc(1, sizeof(*r));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(r != NULL && fd >= 0 && pipe2(r->stop, O_CLOEXEC) == 0, "rogue");
    must(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 64) == 0, "listen");
    must(getsockname(fd, (struct sockaddr *)&at, &len) == 0, "getsockname");
    r->way = way;
    r->text = text;
    r->random.state = seed;
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
