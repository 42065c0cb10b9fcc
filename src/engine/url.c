/* SPDX-License-Identifier: Apache-2.0 */
/* URLs: which engine, where, with which parameters. */
#include "engine/url.h"

#include "base/alloc.h"
#include "base/secret.h"

#include <ctype.h>
#include <errno.h>
#include <rota.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const common_params[] = {
    "ttl", "prefix", "names", "dialect", "also", "ca", "cert", "key", "password_file", NULL,
};

struct parser {
    struct rt_url *url;
    char *at;
    char *errmsg;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static int fault(const struct parser *p, const char *format,
                                                       ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(p->errmsg, p->size, format, args);
    va_end(args);
    return ROTA_INVALID;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decodes %XX in place. NULL, or what is wrong with it. */
static const char *decode(char *text)
{
    char *out = text;

    for (const char *in = text; *in != '\0'; in++) {
        if (*in != '%') {
            *out++ = *in;
            continue;
        }
        int high = hex_value(in[1]);
        int low = high < 0 ? -1 : hex_value(in[2]);
        if (low < 0)
            return "a broken % escape";
        if (high * 16 + low == 0)
            return "%00, which nothing in it may contain,";
        *out++ = (char)(high * 16 + low);
        in += 2;
    }
    *out = '\0';
    return NULL;
}

/* Cuts TEXT at the first of MARKS: returns what comes after the mark, NULL if there is none. */
static char *cut(char *text, const char *marks)
{
    char *at = strpbrk(text, marks);
    if (at == NULL)
        return NULL;
    *at = '\0';
    return at + 1;
}

static int parse_scheme(struct parser *p)
{
    char *colon = strchr(p->at, ':');
    size_t size = colon == NULL ? 0 : (size_t)(colon - p->at);
    bool good = size > 0 && islower((unsigned char)p->at[0]);

    for (size_t i = 0; good && i < size; i++) {
        unsigned char c = (unsigned char)p->at[i];
        good = islower(c) || isdigit(c) || c == '+' || c == '-' || c == '.';
    }
    if (!good)
        return fault(p, "the URL does not begin with an engine's name and a colon: write it like "
                        "file: or redis://host");
    p->url->scheme = p->at;
    *colon = '\0';
    p->at = colon + 1;
    return 0;
}

static int parse_port(struct parser *p, const char *text, uint16_t *port)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (!isdigit((unsigned char)text[0]) || *end != '\0' || value == 0 || value > 65535)
        return fault(p, "the URL has a port that is no number from 1 to 65535: correct what "
                        "follows the colon after the host");
    *port = (uint16_t)value;
    return 0;
}

/* host, host:port, [v6] or [v6]:port */
static int parse_host(struct parser *p, char *text)
{
    struct rt_url *url = p->url;
    char *port = NULL;

    if (url->host_count == RT_URL_HOSTS_MAX)
        return fault(p, "the URL names more than %d hosts: leave some out", RT_URL_HOSTS_MAX);
    struct rt_url_host *host = &url->hosts[url->host_count++];
    if (text[0] == '[') {
        host->host = text + 1;
        char *after = cut(text, "]");
        if (after == NULL || (after[0] != '\0' && after[0] != ':'))
            return fault(p, "the URL has a [ without its ]: write IPv6 hosts like [::1]:6379");
        port = after[0] == ':' ? after + 1 : NULL;
    } else {
        host->host = text;
        port = cut(text, ":");
        if (port != NULL && strchr(port, ':') != NULL)
            return fault(p, "the URL has a host with several colons: write IPv6 hosts like [::1]");
    }
    if (host->host[0] == '\0')
        return fault(p, "the URL has an empty host: write it like scheme://host:port");
    return port == NULL ? 0 : parse_port(p, port, &host->port);
}

static int parse_user(struct parser *p, char *text)
{
    char *password = cut(text, ":");

    const char *wrong = decode(text);
    if (wrong == NULL && password != NULL)
        wrong = decode(password);
    if (wrong != NULL)
        return fault(p, "the URL has %s before the @: write %% itself as %%25", wrong);
    p->url->user = text;
    if (password != NULL)
        p->url->password = password;
    return 0;
}

static int parse_authority(struct parser *p, char *text)
{
    char *at = strrchr(text, '@');

    if (at != NULL) {
        *at = '\0';
        int rv = parse_user(p, text);
        if (rv != 0)
            return rv;
        text = at + 1;
    }
    if (text[0] == '\0')
        return 0; /* scheme:///path, scheme://user@/path */
    while (text != NULL) {
        char *next = cut(text, ",");
        int rv = parse_host(p, text);
        if (rv != 0)
            return rv;
        text = next;
    }
    return 0;
}

static int parse_param(struct parser *p, char *text)
{
    struct rt_url *url = p->url;
    char *value = cut(text, "=");

    if (value == NULL || text[0] == '\0')
        return fault(p, "the URL has a parameter that is not name=value: correct what follows the "
                        "question mark");
    if (url->param_count == RT_URL_PARAMS_MAX)
        return fault(p, "the URL has more than %d parameters: leave some out", RT_URL_PARAMS_MAX);
    const char *wrong = decode(text);
    if (wrong == NULL)
        wrong = decode(value);
    if (wrong != NULL)
        return fault(p, "the URL has %s in a parameter: write %% itself as %%25", wrong);
    if (rt_url_param(url, text, NULL) != NULL)
        return fault(p, "the URL has the parameter %.40s twice: keep one", text);
    url->params[url->param_count++] = (struct rt_url_param){text, value};
    return 0;
}

static int parse_params(struct parser *p, char *text)
{
    while (text != NULL && text[0] != '\0') {
        char *next = cut(text, "&");
        int rv = parse_param(p, text);
        if (rv != 0)
            return rv;
        text = next;
    }
    return 0;
}

/* Behind the scheme. The path keeps its first slash, for which a place is made by moving what
 * comes before it: "//host/path" has two to spare. */
static int parse_rest(struct parser *p)
{
    struct rt_url *url = p->url;
    char *params = cut(p->at, "?");
    char *path = p->at;

    if (path[0] == '/' && path[1] == '/') {
        char *authority = path + 1; /* one byte to the left of where it stands */
        char *slash = strchr(path + 2, '/');
        size_t size = slash != NULL ? (size_t)(slash - (path + 2)) : strlen(path + 2);
        memmove(authority, path + 2, size);
        authority[size] = '\0';
        path = slash != NULL ? slash : authority + size;
        int rv = parse_authority(p, authority);
        if (rv != 0)
            return rv;
    }
    const char *wrong = decode(path);
    if (wrong != NULL)
        return fault(p, "the URL has %s in its path: write %% itself as %%25", wrong);
    url->path = path;
    return parse_params(p, params);
}

/* Where a password begins, or seems to: behind the first ':' that comes before any / or ?; *AT is the last @ of
 * all, since whoever did not escape / or ? in it may have more behind them. NULL: there is none. */
static const char *find_password(const char *text, const char **at)
{
    const char *host = strchr(text, ':');
    if (host == NULL || strncmp(text, "file:", 5) == 0 || strncmp(text, "mem:", 4) == 0)
        return NULL; /* those have paths and no passwords */
    host += 1 + strspn(host + 1, "/");
    const char *colon = memchr(host, ':', strcspn(host, "/?"));
    *at = strrchr(host, '@');
    return colon != NULL && *at != NULL && *at > colon ? colon + 1 : NULL;
}

/* A password with / or ? in it that are not escaped: its tail would be taken for a path or parameters, and
 * shown in messages as what is wrong with them. */
static int check_password(const struct parser *p, const char *secret, const char *at)
{
    if (secret == NULL || secret + strcspn(secret, "/?") > at)
        return 0;
    return fault(p,
                 "the URL has an @ behind its first / or ?: in a password write / as %%2F and ? as "
                 "%%3F, elsewhere write @ as %%40");
}

/* TEXT without its password, which is from SECRET (NULL: there is none) to AT. */
static char *redact(const char *text, const char *secret, const char *at)
{
    if (secret == NULL)
        return rt_strdup(text);
    size_t stars = (size_t)(at - secret) < 3 ? (size_t)(at - secret) : 3;
    size_t before = (size_t)(secret - text);
    char *out = rt_alloc(before + stars + strlen(at) + 1);
    if (out == NULL)
        return NULL;
    memcpy(out, text, before);
    memset(out + before, '*', stars);
    memcpy(out + before + stars, at, strlen(at) + 1);
    return out;
}

int rt_url_parse(struct rt_url *url, const char *text, char *errmsg, size_t size)
{
    struct parser p = {.url = url, .errmsg = errmsg, .size = size};
    const char *at = NULL, *secret;
    int rv;

    *url = (struct rt_url){.scheme = "", .user = "", .password = "", .path = ""};
    if (strlen(text) > RT_URL_MAX)
        return fault(&p, "the URL is longer than %d bytes: shorten it", RT_URL_MAX);
    secret = find_password(text, &at);
    url->redacted = redact(text, secret, at);
    url->secret = secret != NULL;
    url->text = url->secret ? rt_secret_dup(text) : rt_strdup(text);
    if (url->text == NULL || url->redacted == NULL) {
        snprintf(errmsg, size, "%s", rota_strerror(ROTA_NOMEM));
        rv = ROTA_NOMEM;
        goto fini;
    }
    p.at = url->text;
    rv = check_password(&p, secret, at);
    if (rv == 0)
        rv = parse_scheme(&p);
    if (rv == 0)
        rv = parse_rest(&p);
    if (rv == 0)
        return 0;
fini:
    rt_url_fini(url);
    return rv;
}

void rt_url_fini(struct rt_url *url)
{
    if (url->secret)
        rt_secret_free(url->text);
    else
        rt_free(url->text);
    rt_free(url->redacted);
    *url = (struct rt_url){0};
}

const char *rt_url_param(const struct rt_url *url, const char *key, const char *fallback)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].key, key) == 0)
            return url->params[i].value;
    return fallback;
}

static bool listed(const char *key, const char *const *list)
{
    for (; list != NULL && *list != NULL; list++)
        if (strcmp(*list, key) == 0)
            return true;
    return false;
}

int rt_url_check_params(const struct rt_url *url, const char *const *allowed, char *errmsg,
                        size_t size)
{
    for (size_t i = 0; i < url->param_count; i++) {
        const char *key = url->params[i].key;
        if (listed(key, common_params) || listed(key, allowed))
            continue;
        int used = snprintf(errmsg, size, "%s: has no parameter '%.40s'; it knows", url->scheme,
                            key);
        for (const char *const *l = allowed; l != NULL && *l != NULL; l++)
            if (used > 0 && (size_t)used < size)
                used += snprintf(errmsg + used, size - (size_t)used, " %s", *l);
        for (const char *const *l = common_params; *l != NULL; l++)
            if (used > 0 && (size_t)used < size && !listed(*l, allowed))
                used += snprintf(errmsg + used, size - (size_t)used, " %s", *l);
        return ROTA_INVALID;
    }
    return 0;
}

int rt_url_duration_ms(const char *text, uint64_t *ms)
{
    static const struct {
        const char *unit;
        uint64_t ms;
    } units[] = {{"", 1}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    const uint64_t most = UINT64_C(1000) * 3600000; /* more is a mistake, and would overflow */
    uint64_t value = 0;
    const char *at = text;

    for (; isdigit((unsigned char)*at); at++) {
        value = value * 10 + (uint64_t)(*at - '0');
        if (value > most)
            return ROTA_INVALID;
    }
    if (at == text)
        return ROTA_INVALID;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(at, units[i].unit) == 0) {
            *ms = value * units[i].ms;
            return 0;
        }
    return ROTA_INVALID;
}

/* ---- Passwords ------------------------------------------------------------------------------------- */

static int read_password(const char *path, char *out, size_t room, char *errmsg, size_t size)
{
    char buffer[RT_SECRET_BUFFER];
    FILE *file = rt_secret_open(path, buffer);
    if (file == NULL) {
        snprintf(errmsg, size, "the password_file %.100s cannot be read: %s", path,
                 strerror(errno));
        return ROTA_INVALID;
    }
    bool got = fgets(out, (int)room, file) != NULL;
    fclose(file);
    explicit_bzero(buffer, sizeof(buffer));
    out[got ? strcspn(out, "\r\n") : 0] = '\0';
    if (out[0] != '\0')
        return 0;
    snprintf(errmsg, size, "the password_file %.100s is empty: its first line is the password",
             path);
    return ROTA_INVALID;
}

int rt_url_password(const struct rt_url *url, char *out, size_t room, char *errmsg, size_t size)
{
    const char *path = rt_url_param(url, "password_file", NULL);
    const char *env = getenv("ROTA_PASSWORD");
    out[0] = '\0';
    if (path != NULL)
        return read_password(path, out, room, errmsg, size);
    if (url->password[0] == '\0' && env != NULL)
        snprintf(out, room, "%s", env);
    return 0;
}
