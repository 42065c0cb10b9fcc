/* SPDX-License-Identifier: Apache-2.0 */
/* Just enough HTTP: see http.h. */
#include "lib/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int rt_http_open(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static int send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Reads until the head is there, then as much body as it announces; OUT ends with the body. */
static int receive(int fd, char *out, size_t room)
{
    size_t size = 0, wanted = 0, head = 0;

    while (head == 0 || size < head + wanted) {
        if (size + 1 >= room)
            return -1;
        ssize_t n = recv(fd, out + size, room - 1 - size, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        size += (size_t)n;
        out[size] = '\0';
        const char *end = strstr(out, "\r\n\r\n");
        if (head != 0 || end == NULL)
            continue;
        head = (size_t)(end - out) + 4;
        const char *length = strcasestr(out, "\r\nContent-Length:");
        if (length == NULL || length > end)
            return -1;
        wanted = strtoul(length + 17, NULL, 10);
    }
    memmove(out, out + head, wanted);
    out[wanted] = '\0';
    return 0;
}

int rt_http_post(int fd, const char *path, const char *body, char *out, size_t room)
{
    char head[512];
    int length = snprintf(
        head, sizeof(head),
        "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\n\r\n",
        path, strlen(body));

    if (length < 0 || (size_t)length >= sizeof(head) || send_all(fd, head, (size_t)length) != 0 ||
        send_all(fd, body, strlen(body)) != 0)
        return -1;
    return receive(fd, out, room);
}
