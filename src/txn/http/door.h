/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests a server takes, judged by their heads alone. A web page can make the browser of somebody on this machine
 * send requests to a server that only this machine reaches; the browser adds Host, Origin, Sec-Fetch-Site and Content-Type,
 * and the page cannot forge them.
 *
 *   Host            its own address, localhost, or a name it was told; else 421: a name that leads here by DNS rebinding.
 *                   None at all: it is no browser
 *   Origin,
 *   Sec-Fetch-Site  absent, or the server itself; else 403: a page of another origin
 *   Content-Type    of a body: application/json; else 415: what a page may send to others without being asked is not it */
#ifndef RT_HTTP_DOOR_H
#define RT_HTTP_DOOR_H

#include "txn/http/listen.h"

#include <stdbool.h>
#include <stddef.h>

enum rt_http_body { /* which bodies a route takes */
                    RT_HTTP_JSON,
                    RT_HTTP_JSON_OR_TEXT, /* text/plain only where a token is required: the token is proof enough */
                    RT_HTTP_ANY,
};

struct rt_http_door {
    const struct rt_http_listen *at;
    const char *names; /* host names beside its address, separated by commas; NULL: none */
    bool secure;       /* https */
    bool has_token;
};

struct rt_http_head { /* the values of headers; NULL: absent */
    const char *host, *origin, *site, *type;
    bool has_body;
};

/* 0: both may pass. Else the status for the answer, and in LINE (SIZE bytes) what to change. */
int rt_http_door_refuses(const struct rt_http_door *door, const struct rt_http_head *head,
                         char *line, size_t size);
int rt_http_door_refuses_body(const struct rt_http_door *door, const struct rt_http_head *head,
                              enum rt_http_body takes, char *line, size_t size);

/* Whether NAMES, separated by commas, are host names or addresses, without ports. */
bool rt_http_door_names_fit(const char *names);

/* Appends NAME, of --allow-host, to NAMES (SIZE bytes). NULL; or why not, and NAMES is as before. */
const char *rt_http_door_add(char *names, size_t size, const char *name);

#endif
