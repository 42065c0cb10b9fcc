/* SPDX-License-Identifier: Apache-2.0 */
/* What the URL says, and ~/.my.cnf where it says nothing. */
#include "engine/mysql/mysql.h"

#include "base/alloc.h"
#include "base/secret.h"
#include "engine/kit/words.h"
#include "net/openssl.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define PORT 3306

/* ---- ~/.my.cnf --------------------------------------------------------------------------------------------------- */

/* TEXT without the blanks around it. */
static char *trim(char *text)
{
    size_t size = strlen(text);
    while (size > 0 && isspace((unsigned char)text[size - 1]))
        text[--size] = '\0';
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* Quotes around a value are not part of it; a # inside them is no comment. */
static char *value_of(char *text)
{
    char *end;
    text = trim(text);
    if ((*text == '"' || *text == '\'') && (end = strchr(text + 1, *text)) != NULL) {
        *end = '\0';
        return text + 1;
    }
    if ((end = strstr(text, " #")) != NULL)
        *end = '\0';
    return trim(text);
}

static bool keep(char **to, const char *value)
{
    if (*to != NULL || value[0] == '\0')
        return true;
    *to = rt_strdup(value);
    return *to != NULL;
}

static bool keep_password(struct rt_mysql *self, const char *value)
{
    if (self->password == NULL && value[0] != '\0')
        self->password = rt_secret_dup(value);
    return value[0] == '\0' || self->password != NULL;
}

static bool take_line(struct rt_mysql *self, char *line, bool *client, bool place)
{
    char *text = trim(line), *equals = strchr(text, '=');
    if (*text == '[')
        *client = strcmp(text, "[client]") == 0;
    if (!*client || *text == '[' || equals == NULL || *text == '#')
        return true;
    *equals = '\0';
    const char *key = trim(text), *value = value_of(equals + 1);
    if (strcmp(key, "user") == 0)
        return keep(&self->user, value);
    if (strcmp(key, "password") == 0)
        return keep_password(self, value);
    if (place && strcmp(key, "host") == 0)
        return keep(&self->host, value);
    if (place && strcmp(key, "socket") == 0)
        return keep(&self->socket, value);
    if (place && strcmp(key, "port") == 0)
        self->port = (uint16_t)strtoul(value, NULL, 10);
    return true;
}

/* PLACE: the URL does not say where, so the file may. */
static int take_file(struct rt_mysql *self, bool place)
{
    char path[512], line[1024], buffer[RT_SECRET_BUFFER];
    const char *home = getenv("HOME");
    bool client = false, good = true;
    if (home == NULL || snprintf(path, sizeof(path), "%s/.my.cnf", home) >= (int)sizeof(path))
        return 0;
    FILE *f = rt_secret_open(path, buffer);
    if (f == NULL)
        return 0;
    while (good && fgets(line, sizeof(line), f) != NULL)
        good = take_line(self, line, &client, place);
    fclose(f);
    explicit_bzero(line, sizeof(line));
    explicit_bzero(buffer, sizeof(buffer));
    return good ? 0 : ROTA_NOMEM;
}

/* ---- The URL ------------------------------------------------------------------------------------------------------- */

static bool ends(const char *text, const char *with)
{
    size_t n = strlen(text), m = strlen(with);
    return n >= m && strcmp(text + n - m, with) == 0;
}

static int take_socket(struct rt_mysql *self, struct rt_conn *conn, const struct rt_url *url)
{
    size_t most = sizeof(((struct sockaddr_un *)0)->sun_path);
    if (url->host_count > 0 || url->path[0] != '/')
        return rt_words_fail(conn, ROTA_INVALID,
                             "%s: names a socket: write %s:/path/mysqld.sock?database=name",
                             url->scheme, url->scheme);
    if (strlen(url->path) >= most)
        return rt_words_fail(conn, ROTA_INVALID, "the path of the socket is longer than %zu bytes",
                             most - 1);
    return keep(&self->socket, url->path) ? 0 : ROTA_NOMEM;
}

static int take_database(struct rt_mysql *self, struct rt_conn *conn, const struct rt_url *url,
                         bool local, bool must)
{
    const char *param = rt_url_param(url, "database", "");
    const char *path = local ? "" : url->path + (url->path[0] == '/');
    if (path[0] != '\0' && param[0] != '\0')
        return rt_words_fail(conn, ROTA_INVALID, "the URL names its database twice: keep one");
    const char *name = path[0] != '\0' ? path : param;
    if (name[0] == '\0' && !must)
        return 0;
    if (name[0] == '\0')
        return rt_words_fail(conn, ROTA_INVALID, "the URL names no database: write %s%s",
                             url->scheme,
                             local ? ":/path/mysqld.sock?database=name" : "://host/name");
    if (strlen(name) > 64 || strchr(name, '/') != NULL)
        return rt_words_fail(conn, ROTA_INVALID, "'%.70s' is no name of a database", name);
    return keep(&self->database, name) ? 0 : ROTA_NOMEM;
}

/* The URL's user and password, what mysql's own tools know, or nothing. */
static int take_user(struct rt_mysql *self, struct rt_conn *conn, const struct rt_url *url,
                     bool place)
{
    const char *param = rt_url_param(url, "user", ""), *env = getenv("MYSQL_PWD");
    if (url->user[0] != '\0' && param[0] != '\0')
        return rt_words_fail(conn, ROTA_INVALID, "the URL names its user twice: keep one");
    if (!keep(&self->user, url->user) || !keep(&self->user, param) ||
        !keep_password(self, url->password) || !keep_password(self, env != NULL ? env : ""))
        return ROTA_NOMEM;
    int rv = take_file(self, place);
    if (rv != 0)
        return rv;
    if (self->user == NULL)
        return rt_words_fail(conn, ROTA_INVALID, "the URL names no user: write %s",
                             strchr(url->scheme, '+') != NULL ? "?user=name"
                                                              : "name@ before the host");
    if (strlen(self->user) > 255)
        return rt_words_fail(conn, ROTA_INVALID, "the user's name is longer than 255 bytes");
    return self->password != NULL || (self->password = rt_secret_dup("")) != NULL ? 0 : ROTA_NOMEM;
}

/* "": given, but empty: a variable that was not set where the URL was put together. */
static int check_empty(struct rt_conn *conn, const struct rt_url *url)
{
    static const char *const names[] = {"database", "user", "ca", "cert", "key"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (rt_url_param(url, names[i], "x")[0] == '\0')
            return rt_words_fail(conn, ROTA_INVALID,
                                 "?%s= is empty: give it a value, or leave it out", names[i]);
    return 0;
}

int rt_mysql_read_url(struct rt_mysql *self, struct rt_conn *conn, const struct rt_url *url,
                      struct rt_dial_ring *ring, bool database)
{
    bool local = ends(url->scheme, "+unix");
    int rv = check_empty(conn, url);
    self->port = PORT;
    if (rv == 0 && local)
        rv = take_socket(self, conn, url);
    if (rv == 0)
        rv = take_database(self, conn, url, local, database);
    if (rv == 0)
        rv = take_user(self, conn, url, !local && url->host_count == 0);
    const char *place = self->socket != NULL ? self->socket : self->host;
    if (rv == 0 && place != NULL)
        rv = rt_dial_add(ring, conn, place, self->port);
    return rv;
}

static int take_url(struct rt_mysql *self, struct rt_conn *conn, const struct rt_url *url,
                    struct rt_dial_ring *ring)
{
    bool secure = ends(url->scheme, "s");
    int rv = rt_mysql_read_url(self, conn, url, ring, true);
    if (rv == 0 && self->password[0] != '\0') /* to transform it */
        rv = rt_openssl_load(conn->errmsg, sizeof(conn->errmsg));
    if (rv == 0)
        rv = rt_dial_tls(&self->tls, conn, url, secure,
                         url->scheme[1] == 'y' ? "mysqls" : "mariadbs");
    return rv;
}

int rt_mysql_open(struct rt_conn *conn, const struct rt_url *url, struct rt_dial_ring *ring,
                  void **out)
{
    struct rt_mysql *self = rt_alloc(sizeof(*self));
    int rv = ROTA_NOMEM;
    if (self != NULL)
        rv = take_url(self, conn, url, ring);
    if (rv == ROTA_NOMEM)
        (void)rt_words_nomem(conn);
    if (rv != 0) {
        rt_mysql_close(self);
        return rv;
    }
    *out = self;
    return 0;
}

void rt_mysql_close(void *arg)
{
    struct rt_mysql *self = arg;
    if (self == NULL)
        return;
    rt_free(self->user);
    rt_secret_free(self->password);
    rt_free(self->database);
    rt_free(self->socket);
    rt_free(self->host);
    rt_tls_free(self->tls);
    rt_free(self);
}
