/* SPDX-License-Identifier: Apache-2.0 */
/* Where a stream goes: its addresses, one after the other, and the sockets to them. */
#include "net/dial.h"

#include "base/alloc.h"
#include "net/fd.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rota.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

/* A peer that is gone without a word is noticed after 19 s even where nothing is asked. */
#define KEEP_IDLE_S 10
#define KEEP_INTERVAL_S 3
#define KEEP_COUNT 3

#define PORT_DIGITS 5

static int numeric_address(struct rt_dial *d)
{
    struct rt_address *a = &d->addresses[0];

    if (uv_ip4_addr(d->host, d->port, (struct sockaddr_in *)&a->at) == 0)
        a->size = sizeof(struct sockaddr_in);
    else if (uv_ip6_addr(d->host, d->port, (struct sockaddr_in6 *)&a->at) == 0)
        a->size = sizeof(struct sockaddr_in6);
    else
        return 0; /* a name */
    return 1;
}

static int unix_address(struct rt_dial *d, const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t size = strlen(path);

    if (size == 0 || size >= sizeof(un.sun_path))
        return ROTA_INVALID;
    memcpy(un.sun_path, path, size);
    memcpy(&d->addresses[0].at, &un, sizeof(un));
    d->addresses[0].size = sizeof(un);
    d->count = 1;
    return 0;
}

static char *put(char **text, const char *s)
{
    char *at = *text;
    size_t size = strlen(s) + 1;

    memcpy(at, s, size);
    *text += size;
    return at;
}

static int fill(struct rt_dial *d, const struct rt_stream_target *t)
{
    char *text = d->text;

    d->tls = t->tls;
    d->alpn = t->alpn;
    d->port = t->port;
    if (t->unix_path != NULL) {
        d->peer = put(&text, t->unix_path);
        d->server_name = put(&text, t->server_name != NULL ? t->server_name : "localhost");
        return unix_address(d, t->unix_path);
    }
    d->host = put(&text, t->host);
    d->server_name = put(&text, t->server_name != NULL ? t->server_name : t->host);
    bool six = strchr(t->host, ':') != NULL;
    d->peer = text;
    sprintf(text, six ? "[%s]:%u" : "%s:%u", t->host, (unsigned)t->port);
    d->count = (uint32_t)numeric_address(d);
    return 0;
}

int rt_dial_new(struct rt_dial **out, const struct rt_stream_target *t)
{
    const char *place = t->unix_path != NULL ? t->unix_path : t->host;
    if (place == NULL || *place == '\0')
        return ROTA_INVALID;
    size_t size = 2 * strlen(place) + sizeof("[]:") + PORT_DIGITS + 1;
    size += t->server_name != NULL ? strlen(t->server_name) + 1
                                   : sizeof("localhost") + strlen(place);
    struct rt_dial *d = rt_alloc(sizeof(*d) + size);
    if (d == NULL)
        return ROTA_NOMEM;
    int rv = fill(d, t);
    if (rv != 0)
        rt_free(d);
    else
        *out = d;
    return rv;
}

void rt_dial_free(struct rt_dial *d)
{
    if (d == NULL)
        return;
    rt_lookup_drop(d);
    rt_free(d->own_name);
    rt_free(d);
}

static void set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof(value)); /* it works without, only worse */
}

int rt_dial_socket(struct rt_dial *d)
{
    assert(d->next < d->count);
    const struct rt_address *a = &d->addresses[d->next++];
    int fd = rt_fd_lift(socket(a->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    if (a->at.ss_family != AF_UNIX) {
        set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
        set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
        set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S);
        set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT);
    }
    if (connect(fd, (const struct sockaddr *)&a->at, a->size) == 0 || errno == EINPROGRESS ||
        errno == EINTR)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* A port nobody listens on may be the very one that the kernel chose for us: then TCP connects the
 * socket to itself, and whoever comes to listen there finds the port taken. */
static bool is_itself(int fd)
{
    struct sockaddr_storage us = {0}, them = {0};
    socklen_t our_size = sizeof(us), their_size = sizeof(them);

    if (getsockname(fd, (struct sockaddr *)&us, &our_size) != 0 || us.ss_family == AF_UNIX ||
        getpeername(fd, (struct sockaddr *)&them, &their_size) != 0)
        return false;
    return our_size == their_size && memcmp(&us, &them, our_size) == 0;
}

int rt_dial_outcome(int fd)
{
    int err = 0;
    socklen_t size = sizeof(err);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) != 0)
        err = errno;
    return err == 0 && is_itself(fd) ? ECONNREFUSED : err;
}
