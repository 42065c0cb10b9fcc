/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests a server takes. Pure. */
#include "txn/http/door.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 256

struct host {            /* of a Host header */
    char name[HOST_MAX]; /* without brackets and port */
    struct in6_addr ip;  /* of an address; IPv4 in its last four bytes */
    bool is_ip;
};

static bool is_host_char(char c)
{
    return isalnum((unsigned char)c) || strchr("-._:", c) != NULL;
}

static bool read_ip(const char *text, struct in6_addr *out)
{
    *out = (struct in6_addr){0};
    return inet_pton(AF_INET, text, &out->s6_addr[12]) == 1 || inet_pton(AF_INET6, text, out) == 1;
}

/* The name of N bytes at TEXT: a host without a port. */
static bool read_name(struct host *out, const char *text, size_t n)
{
    n -= n > 1 && text[n - 1] == '.'; /* as DNS has it */
    if (n == 0 || n >= sizeof(out->name) || !(isalnum((unsigned char)text[0]) || text[0] == ':'))
        return false;
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\0' || !is_host_char(text[i]))
            return false;
    memcpy(out->name, text, n);
    out->name[n] = '\0';
    out->is_ip = read_ip(out->name, &out->ip);
    return out->is_ip || strchr(out->name, ':') == NULL;
}

/* NAME, NAME:PORT, [ADDRESS], [ADDRESS]:PORT. */
static bool read_host(struct host *out, const char *text)
{
    bool brackets = text[0] == '[';
    size_t n = brackets ? strcspn(text, "]") : strcspn(text, ":");
    const char *rest = text + n + (brackets && text[n] == ']');

    if (brackets && text[n] != ']')
        return false;
    if (rest[0] == ':')
        rest += 1 + strspn(rest + 1, "0123456789");
    return *rest == '\0' && read_name(out, text + brackets, n - brackets);
}

static bool is_named(const char *names, const struct host *host)
{
    struct host one;

    for (const char *at = names; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (read_name(&one, at, strcspn(at, ",")) &&
            (host->is_ip && one.is_ip ? memcmp(&host->ip, &one.ip, sizeof(one.ip)) == 0
                                      : strcasecmp(one.name, host->name) == 0))
            return true;
    }
    return false;
}

/* Its own address; where it listens at every address, any: only names can be made to lead somewhere else. */
static bool is_own(const struct rt_http_listen *at, const struct in6_addr *ip)
{
    struct in6_addr own = {0};

    if (at->at.ss_family == AF_INET6)
        own = ((const struct sockaddr_in6 *)&at->at)->sin6_addr;
    else
        memcpy(&own.s6_addr[12], &((const struct sockaddr_in *)&at->at)->sin_addr, 4);
    return IN6_IS_ADDR_UNSPECIFIED(&own) || memcmp(&own, ip, sizeof(own)) == 0;
}

static bool answers_for(const struct rt_http_door *door, const struct host *host)
{
    return strcasecmp(host->name, "localhost") == 0 || is_named(door->names, host) ||
           (host->is_ip && is_own(door->at, &host->ip));
}

/* ORIGIN is the server itself, as HOST calls it. A proxy in front of it may add TLS. */
static bool is_same(const struct rt_http_door *door, const char *origin, const char *host)
{
    if (strncasecmp(origin, "https://", 8) == 0)
        return strcasecmp(origin + 8, host) == 0;
    return !door->secure && strncasecmp(origin, "http://", 7) == 0 &&
           strcasecmp(origin + 7, host) == 0;
}

int rt_http_door_refuses(const struct rt_http_door *door, const struct rt_http_head *head,
                         char *line, size_t size)
{
    struct host host;

    if (head->host != NULL && !read_host(&host, head->host)) {
        snprintf(line, size,
                 "the Host of this request is neither a name nor an address: correct its URL");
        return 421;
    }
    if (head->host != NULL && !answers_for(door, &host)) {
        snprintf(line, size,
                 "start it with --allow-host %.250s, or ask for its address: this server does not "
                 "answer for that name",
                 host.name);
        return 421;
    }
    if (head->origin != NULL && (head->host == NULL || !is_same(door, head->origin, head->host))) {
        snprintf(
            line, size,
            "web pages of other origins may not ask this server (a proxy before it must pass Host on)");
        return 403;
    }
    if (head->site != NULL && strcasecmp(head->site, "same-origin") != 0 &&
        strcasecmp(head->site, "none") != 0) {
        snprintf(line, size, "web pages of other sites may not ask this server");
        return 403;
    }
    return 0;
}

/* TYPE is WANTED, with or without parameters. */
static bool is_type(const char *type, const char *wanted)
{
    size_t n = strlen(wanted);

    return type != NULL && strncasecmp(type, wanted, n) == 0 && strchr("; \t", type[n]) != NULL;
}

int rt_http_door_refuses_body(const struct rt_http_door *door, const struct rt_http_head *head,
                              enum rt_http_body takes, char *line, size_t size)
{
    if (!head->has_body || takes == RT_HTTP_ANY || is_type(head->type, "application/json"))
        return 0;
    if (takes == RT_HTTP_JSON_OR_TEXT && is_type(head->type, "text/plain")) {
        if (door->has_token)
            return 0;
        snprintf(line, size,
                 "text/plain needs a server with a token (--token-file); without one, "
                 "send JSON with Content-Type: application/json");
        return 415;
    }
    snprintf(line, size, "the body must be JSON, sent with Content-Type: application/json");
    return 415;
}

bool rt_http_door_names_fit(const char *names)
{
    struct host host;

    for (const char *at = names;; at++) {
        size_t n = strcspn(at, ",");
        if (!read_name(&host, at, n))
            return false;
        at += n;
        if (*at == '\0')
            return true;
    }
}

const char *rt_http_door_add(char *names, size_t size, const char *name)
{
    size_t used = strlen(names), n = strlen(name);
    struct host host;

    if (strchr(name, ',') != NULL || !read_name(&host, name, n))
        return "--allow-host takes a host name or an address, without a port and without brackets";
    if (used + (used > 0) + n >= size)
        return "--allow-host: these are too many names";
    snprintf(names + used, size - used, "%s%s", used > 0 ? "," : "", name);
    return NULL;
}
