/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of services, as applications write them and the journal keeps them: http://HOST[:PORT][/PATH][?QUERY], the same
 * with https, or a path of a service that has a name: /PATH[?QUERY]. Nothing else: no user, no password (the journal
 * would keep it), no fragment, no byte that is not visible ASCII. */
#ifndef RT_HTTP_ADDRESS_H
#define RT_HTTP_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_HTTP_URL_MAX 2048 /* bytes, without the end */

struct rt_http_address {
    bool is_path;     /* then the rest is unused */
    bool secure;      /* https */
    bool is_local;    /* this machine's loopback */
    size_t origin;    /* bytes of http://HOST[:PORT] */
    const char *host; /* in the text; an IPv6 address without its brackets */
    size_t host_size;
    uint16_t port;
};

/* 0; or ROTA_INVALID, and ERRMSG says in one line what is wrong with it, without quoting any of it: it may hold a
 * secret where none should be. OUT points into TEXT. */
int rt_http_address_read(struct rt_http_address *out, const char *text, char *errmsg, size_t size);

#endif
