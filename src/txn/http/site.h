/* SPDX-License-Identifier: Apache-2.0 */
/* A service by name, as it stands in the file of resources:
 *
 *   stock = https://stock.example/api/?ca=FILE&cert=FILE&key=FILE&token_file=FILE
 *
 * The journal keeps the name and the path of a call (`stock`, `/try`), so the service may move, and whoever finishes
 * the transaction elsewhere uses its own line. ca: a file or a folder of authorities, instead of the system's; cert,
 * key (if it is not in the same file): who we are; token_file: its first line is sent as `Authorization: Bearer ...`.
 * The file is read for each call, so a new token counts at once. A token is sent only over https, or to this
 * machine. */
#ifndef RT_HTTP_SITE_H
#define RT_HTTP_SITE_H

#include <stdbool.h>
#include <stddef.h>

#define RT_HTTP_TOKEN_MAX 1000 /* bytes */

struct rt_http_site {
    unsigned _Atomic refs;
    char *base; /* without parameters, and without a slash at its end */
    const char *ca, *cert, *key, *token_file; /* NULL: none */
    char *text;                               /* what they point into */
    char *redacted; /* for the journal and for people: whole, as it contains no secret */
};

/* Whether a resource's URL is that of a service. */
bool rt_http_site_is(const char *url);

/* *OUT is held once; or ROTA_INVALID and a line, or ROTA_NOMEM. No I/O: files are read when they are needed. */
int rt_http_site_new(struct rt_http_site **out, const char *url, char *errmsg, size_t size);
struct rt_http_site *rt_http_site_hold(struct rt_http_site *site);
void rt_http_site_let_go(struct rt_http_site *site); /* NULL is legal */

/* Reads a token, the first line of PATH, into OUT, which the caller wipes. ROTA_INVALID and a line without a secret: it
 * cannot be read, is empty, or has bytes that a header cannot have. */
int rt_http_token_read(const char *path, char out[RT_HTTP_TOKEN_MAX + 1], char *errmsg,
                       size_t size);

#endif
