/* SPDX-License-Identifier: Apache-2.0 */
/* What the URL says, combined with what libpq's users have in the environment, service files and .pgpass. */
#include "base/alloc.h"
#include "base/secret.h"
#include "engine/kit/words.h"
#include "engine/postgres/postgres.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CA_BUNDLE "/etc/ssl/certs/ca-certificates.crt" /* of Debian's ca-certificates */
#define PORT 5432
#define TIMEOUT_MOST_S 3600

static int add(struct rt_postgres *p, const char *key, const char *value)
{
    assert(p->count < RT_POSTGRES_PARAMS);
    p->values[p->count] = rt_strdup(value);
    if (p->values[p->count] == NULL)
        return rt_words_nomem(p->conn);
    p->keys[p->count++] = key;
    return 0;
}

static int add_password(struct rt_postgres *p, const char *password)
{
    p->password = rt_secret_dup(password);
    if (p->password == NULL)
        return rt_words_nomem(p->conn);
    p->keys[p->count] = "password";
    p->values[p->count++] = p->password;
    return 0;
}

/* ---- Parameters --------------------------------------------------------------------------------- */

/* Those up to host are passed on under their own names. */
const char *const rt_postgres_params[] = {
    "service",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslcrl",
    "passfile",
    "options",
    "requirepeer",
    "application_name",
    "channel_binding",
    "gssencmode",
    "krbsrvname",
    "host",
    "port",
    "schema",
    "pooler",
    "connect_timeout",
    "dialect",
    "table",
    "column",
    "tables",
    "keys",
    "waits",
    NULL,
};

/* libpq's own; and those that all engines have, under libpq's names. */
static int add_params(struct rt_postgres *p, const struct rt_url *url)
{
    static const char *const common[][2] = {
        {"ca", "sslrootcert"}, {"cert", "sslcert"}, {"key", "sslkey"}};
    int rv = 0;
    for (const char *const *at = rt_postgres_params; rv == 0 && strcmp(*at, "host") != 0; at++)
        if (rt_url_param(url, *at, NULL) != NULL)
            rv = add(p, *at, rt_url_param(url, *at, NULL));
    for (size_t i = 0; rv == 0 && i < sizeof(common) / sizeof(common[0]); i++) {
        const char *value = rt_url_param(url, common[i][0], NULL);
        if (value != NULL && rt_url_param(url, common[i][1], NULL) != NULL)
            return rt_words_fail(p->conn, ROTA_INVALID, "?%s= and ?%s= are the same: keep one",
                                 common[i][0], common[i][1]);
        if (value != NULL)
            rv = add(p, common[i][1], value);
    }
    /* In other engines the key may be in the certificate's file. */
    const char *cert = rt_url_param(url, "cert", NULL);
    if (rv == 0 && cert != NULL && rt_url_param(url, "key", NULL) == NULL &&
        rt_url_param(url, "sslkey", NULL) == NULL)
        rv = add(p, "sslkey", cert);
    return rv;
}

static int add_ours(struct rt_postgres *p, const struct rt_url *url)
{
    static const char *const ours[][2] = {
        {"fallback_application_name", "rota"},
        {"client_encoding", "UTF8"},
        {"keepalives_idle", "10"}, /* as net/dial.c has them */
        {"keepalives_interval", "3"},
        {"keepalives_count", "3"},
    };
    int rv = 0;
    for (size_t i = 0; rv == 0 && i < sizeof(ours) / sizeof(ours[0]); i++)
        rv = add(p, ours[i][0], ours[i][1]);
    if (rv == 0 && url->user[0] != '\0')
        rv = add(p, "user", url->user);
    if (rv == 0 && url->password[0] != '\0')
        rv = add_password(p, url->password);
    if (rv == 0 && url->path[0] == '/' && url->path[1] != '\0')
        rv = add(p, "dbname", url->path + 1);
    return rv;
}

/* TEXT in QUOTEs, with those inside it doubled. */
static char *quoted(const char *text, char quote)
{
    char *out = rt_alloc(2 * strlen(text) + 3), *at = out;
    if (out == NULL)
        return NULL;
    *at++ = quote;
    for (; *text != '\0'; text++) {
        if (*text == quote)
            *at++ = quote;
        *at++ = *text;
    }
    *at = quote;
    return out;
}

static int take_schema(struct rt_postgres *p, const char *schema)
{
    if (schema == NULL)
        return 0;
    if (schema[0] == '\0' || strchr(schema, '\\') != NULL)
        return rt_words_fail(p->conn, ROTA_INVALID, "?schema= has no name that a schema can have");
    p->search_path = quoted(schema, '"');
    p->schema = quoted(schema, '\'');
    return p->search_path != NULL && p->schema != NULL ? 0 : rt_words_nomem(p->conn);
}

static int take_pooler(struct rt_postgres *p, const char *text)
{
    p->pooler = text != NULL;
    if (text != NULL && strcmp(text, "session") != 0)
        return rt_words_fail(p->conn, ROTA_INVALID,
                             "?pooler= may only be session: no other can be used");
    return 0;
}

static int take_timeout(struct rt_postgres *p, const char *text)
{
    char *end;
    if (text == NULL)
        return 0;
    unsigned long s = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || s > TIMEOUT_MOST_S)
        return rt_words_fail(p->conn, ROTA_INVALID, "?connect_timeout= is in seconds, up to %d",
                             TIMEOUT_MOST_S);
    p->connect_ms = (uint32_t)s * 1000;
    return 0;
}

/* ---- What libpq makes of them -------------------------------------------------------------------- */

static const char *option(const PQconninfoOption *list, const char *key)
{
    for (; list->keyword != NULL; list++)
        if (strcmp(list->keyword, key) == 0)
            return list->val != NULL ? list->val : "";
    return "";
}

/* The I-th entry of a comma-separated list, into OUT, cut to its room; a single entry counts for all. */
static void entry(char *out, size_t size, const char *list, size_t i)
{
    if (strchr(list, ',') == NULL)
        i = 0;
    for (; i > 0 && *list != '\0'; list++)
        i -= *list == ',';
    snprintf(out, size, "%.*s", (int)strcspn(list, ","), list);
}

/* Folders with a socket in them, names, and "": libpq's own folder. */
static int take_places(struct rt_postgres *p, struct rt_dial_ring *ring,
                       const PQconninfoOption *all)
{
    /* A name given with its address needs no look-up, and an address alone is as good as a name. */
    const char *hosts = option(all, option(all, "host")[0] != '\0' ? "host" : "hostaddr");
    char host[RT_DIAL_AT], port[8];
    int rv = 0;
    size_t count = 1;
    for (const char *at = hosts; *at != '\0'; at++)
        count += *at == ',';
    for (size_t i = 0; rv == 0 && i < count; i++) {
        entry(host, sizeof(host), hosts, i);
        entry(port, sizeof(port), option(all, "port"), i);
        rv = rt_dial_add(ring, p->conn, host,
                         port[0] != '\0' ? (uint16_t)strtoul(port, NULL, 10) : PORT);
        if (rv == 0 && host[0] == '\0')
            snprintf(ring->ends[i].at, sizeof(ring->ends[i].at), "its usual socket");
    }
    return rv == ROTA_NOMEM ? rt_words_nomem(p->conn) : rv;
}

static int take_all(struct rt_postgres *p, const struct rt_url *url, struct rt_dial_ring *ring,
                    const PQconninfoOption *all)
{
    const char *mode = option(all, "sslmode"), *ca = option(all, "sslrootcert");
    p->ssl_said = rt_url_param(url, "sslmode", NULL) != NULL || getenv("PGSSLMODE") != NULL ||
                  (mode[0] != '\0' && strcmp(mode, "prefer") != 0);
    p->ca_said = ca[0] != '\0';
    snprintf(p->sslmode, sizeof(p->sslmode), "%s", mode);
    int rv = url->host_count == 0 ? take_places(p, ring, all) : 0;
    /* Looking for Kerberos tickets may block: only for those who ask for it. */
    if (rv == 0 && strcmp(option(all, "gssencmode"), "prefer") == 0 &&
        getenv("PGGSSENCMODE") == NULL)
        rv = add(p, "gssencmode", "disable");
    return rv;
}

/* libpq tells only through a connection what the environment and a service file add. This connection it refuses
 * to begin, because of its last parameter, after it has put all of them together. */
static int take_defaults(struct rt_postgres *p, const struct rt_url *url, struct rt_dial_ring *ring)
{
    const char *keys[RT_POSTGRES_PARAMS + 4], *values[RT_POSTGRES_PARAMS + 4];
    const char *host = rt_url_param(url, "host", NULL), *port = rt_url_param(url, "port", NULL);
    char gist[160];
    size_t n = p->count;

    memcpy(keys, p->keys, n * sizeof(keys[0]));
    memcpy(values, p->values, n * sizeof(values[0]));
    keys[n] = "host", values[n++] = host;
    keys[n] = "port", values[n++] = port;
    keys[n] = "target_session_attrs", values[n++] = "none of them";
    keys[n] = NULL, values[n] = NULL;
    PGconn *pg = rt_pq.PQconnectStartParams(keys, values, 0);
    PQconninfoOption *all = pg != NULL ? rt_pq.PQconninfo(pg) : NULL;
    int rv;
    if (all == NULL) {
        rv = rt_words_nomem(p->conn);
    } else if (strstr(rt_pq.PQerrorMessage(pg), "none of them") == NULL) {
        rt_postgres_one_line(gist, sizeof(gist),
                             rt_pq.PQerrorMessage(pg)); /* another parameter, or no such service */
        rv = rt_words_fail(p->conn, ROTA_INVALID, "PostgreSQL: %s", gist);
    } else {
        rv = take_all(p, url, ring, all);
    }
    rt_pq.PQconninfoFree(all);
    rt_pq.PQfinish(pg);
    return rv;
}

/* ---- TLS ------------------------------------------------------------------------------------------- */

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

const char *rt_postgres_sslmode(const struct rt_postgres *p, const char *host)
{
    return p->ssl_said || (is_loopback(host) && !p->ca_said) ? NULL : "verify-full";
}

const char *rt_postgres_ca(const struct rt_postgres *p, const char *chosen)
{
    const char *home = getenv("HOME");
    char own[512];

    if (p->ca_said || strcmp(chosen != NULL ? chosen : p->sslmode, "verify-full") != 0)
        return NULL;
    snprintf(own, sizeof(own), "%s/.postgresql/root.crt", home != NULL ? home : "");
    return access(own, F_OK) == 0 || access(CA_BUNDLE, R_OK) != 0 ? NULL : CA_BUNDLE;
}

/* ---- Life ------------------------------------------------------------------------------------------ */

static int take_url(struct rt_postgres *p, const struct rt_url *url, struct rt_dial_ring *ring)
{
    if (url->host_count > 0 &&
        (rt_url_param(url, "host", NULL) != NULL || rt_url_param(url, "port", NULL) != NULL))
        return rt_words_fail(p->conn, ROTA_INVALID,
                             "?host= and ?port= are for %s:///DATABASE, without a host",
                             url->scheme);
    int rv = add_ours(p, url);
    if (rv == 0)
        rv = add_params(p, url);
    if (rv == 0)
        rv = take_schema(p, rt_url_param(url, "schema", NULL));
    if (rv == 0)
        rv = take_timeout(p, rt_url_param(url, "connect_timeout", NULL));
    if (rv == 0)
        rv = take_pooler(p, rt_url_param(url, "pooler", NULL));
    return rv == 0 ? take_defaults(p, url, ring) : rv;
}

int rt_postgres_open(struct rt_conn *conn, const struct rt_url *url, struct rt_dial_ring *ring,
                     void **self)
{
    int rv = rt_libpq_load(conn->errmsg, sizeof(conn->errmsg));
    if (rv != 0)
        return rv;
    struct rt_postgres *p = rt_alloc(sizeof(*p));
    if (p == NULL)
        return rt_words_nomem(conn);
    p->conn = conn;
    rv = take_url(p, url, ring);
    if (rv != 0)
        rt_postgres_close(p);
    else
        *self = p;
    return rv;
}

void rt_postgres_close(void *self)
{
    struct rt_postgres *p = self;

    for (size_t i = 0; i < p->count; i++)
        if (p->values[i] != p->password)
            rt_free(p->values[i]);
    rt_secret_free(p->password);
    rt_free(p->search_path);
    rt_free(p->schema);
    rt_free(p);
}
