/* SPDX-License-Identifier: Apache-2.0 */
/* Just enough HTTP to post JSON to a server of a test: one connection, one request at a time. */
#ifndef RT_HTTP_H
#define RT_HTTP_H

#include <stddef.h>
#include <stdint.h>

/* Connects to 127.0.0.1:PORT; -1: it failed. Closed by close(2). */
int rt_http_open(uint16_t port);

/* Posts BODY to PATH and puts the answer's body, a string, into OUT, whatever its status. 0, or -1: the answer was
 * incomplete, or does not fit; close FD then. */
int rt_http_post(int fd, const char *path, const char *body, char *out, size_t room);

#endif
