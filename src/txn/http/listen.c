/* SPDX-License-Identifier: Apache-2.0 */
/* Where a server listens. */
#include "txn/http/listen.h"

#include "net/fd.h"

#include <rota.h>

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fault(char *errmsg, size_t size)
{
    snprintf(errmsg, size,
             "an address to listen at is ADDRESS:PORT, like 127.0.0.1:8080 or [::1]:8080");
    return ROTA_INVALID;
}

static bool read_host(struct rt_http_listen *out, const char *host, uint16_t port)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&out->at;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out->at;

    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        out->size = sizeof(*v4);
        out->is_local = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
        return false;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    out->size = sizeof(*v6);
    out->is_local = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    return true;
}

int rt_http_listen_read(struct rt_http_listen *out, const char *text, char *errmsg, size_t size)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    size_t n = colon != NULL ? (size_t)(colon - text) : 0;
    bool brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';
    char *end;

    *out = (struct rt_http_listen){0};
    if (n == 0 || n >= sizeof(host) || strlen(text) >= sizeof(out->text) ||
        !isdigit((unsigned char)colon[1]))
        return fault(errmsg, size);
    unsigned long port = strtoul(colon + 1, &end, 10);
    memcpy(host, text + brackets, n - 2 * (size_t)brackets);
    host[n - 2 * (size_t)brackets] = '\0';
    if (*end != '\0' || port > 65535 || brackets != (strchr(host, ':') != NULL) ||
        !read_host(out, host, (uint16_t)port))
        return fault(errmsg, size);
    snprintf(out->text, sizeof(out->text), "%s", text);
    return 0;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof(at);

    if (getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        return 0;
    return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                          : ((struct sockaddr_in *)&at)->sin_port);
}

int rt_http_listen_open(const struct rt_http_listen *at, int *fd, uint16_t *port, char *errmsg,
                        size_t size)
{
    int s = rt_fd_lift(socket(at->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

    if (s >= 0)
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (s < 0 || bind(s, (const struct sockaddr *)&at->at, at->size) != 0 || listen(s, 1024) != 0) {
        snprintf(errmsg, size, "cannot listen at %s: %s", at->text, strerror(errno));
        if (s >= 0)
            close(s);
        return ROTA_UNREACHABLE;
    }
    *fd = s;
    *port = port_of(s);
    return 0;
}
