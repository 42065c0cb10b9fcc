/* SPDX-License-Identifier: Apache-2.0 */
/* URLs: scheme://[user@]host[:port][,host...][/path][?param=value&...], or scheme:path. */
#ifndef RT_URL_H
#define RT_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_URL_HOSTS_MAX 16 /* more than any sane cluster */
#define RT_URL_PARAMS_MAX 32
#define RT_URL_MAX 4096 /* bytes of the whole */

struct rt_url_host {
    const char *host; /* without the brackets of an IPv6 address */
    uint16_t port;    /* 0: the engine's default */
};

struct rt_url_param {
    const char *key, *value; /* decoded */
};

struct rt_url {
    const char *scheme, *user, *password, *path; /* "" where absent; path decoded */
    struct rt_url_host hosts[RT_URL_HOSTS_MAX];
    size_t host_count;
    struct rt_url_param params[RT_URL_PARAMS_MAX];
    size_t param_count;
    char *text;     /* what the pointers above point into */
    bool secret;    /* it has a password: it is kept where no core dump sees it, and wiped */
    char *redacted; /* for logs and messages: no password, whole otherwise */
};

/* Parses TEXT. On failure ERRMSG (SIZE bytes) says in one line what is wrong and what to
 * do, without a secret in it. A password in a URL is taken, but documented as unwise. */
int rt_url_parse(struct rt_url *url, const char *text, char *errmsg, size_t size);
void rt_url_fini(struct rt_url *url);

/* The value of a parameter, or FALLBACK. */
const char *rt_url_param(const struct rt_url *url, const char *key, const char *fallback);

/* ROTA_INVALID and a message unless every parameter is one of the common ones (ttl, prefix,
 * names, dialect, also, ca, cert, key) or in ALLOWED (NULL-terminated). */
int rt_url_check_params(const struct rt_url *url, const char *const *allowed, char *errmsg,
                        size_t size);

/* The password that is not in the URL: the first line of ?password_file=, else $ROTA_PASSWORD if the URL has none;
 * "": there is none. Into OUT, which its owner wipes. ROTA_INVALID and a message: the file cannot be read, or is
 * empty. */
int rt_url_password(const struct rt_url *url, char *out, size_t room, char *errmsg, size_t size);

/* "500ms", "30s", "5m", "1h", or plain milliseconds. ROTA_INVALID if it is none of these. */
int rt_url_duration_ms(const char *text, uint64_t *ms);

#endif
