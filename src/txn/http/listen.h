/* SPDX-License-Identifier: Apache-2.0 */
/* Where a server listens: 127.0.0.1:8080, [::1]:8080, localhost:8080, 0.0.0.0:8080. Port 0: any that is free. */
#ifndef RT_HTTP_LISTEN_H
#define RT_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct rt_http_listen {
    struct sockaddr_storage at;
    socklen_t size;
    bool is_local; /* only this machine reaches it */
    char text[80]; /* for messages */
};

/* 0, or ROTA_INVALID and one line. No name is looked up. */
int rt_http_listen_read(struct rt_http_listen *out, const char *text, char *errmsg, size_t size);
/* *FD, above 2, listens on *PORT. ROTA_UNREACHABLE and one line: it cannot. */
int rt_http_listen_open(const struct rt_http_listen *at, int *fd, uint16_t *port, char *errmsg,
                        size_t size);

#endif
