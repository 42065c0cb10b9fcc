/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to MariaDB with the application's client library, as the engine's URLs say. */
#include "base/alloc.h"
#include "engine/mysql/mysql.h"
#include "net/fd.h"
#include "txn/branch/libmysql.h"
#include "txn/manager/resource_inside.h"

#include "net/loop.h"

#include <rota.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define PORT 3306
#define CA_BUNDLE "/etc/ssl/certs/ca-certificates.crt" /* from Debian's ca-certificates */
#define HANDSHAKE_S 30 /* the TLS one blocks inside the library, and cannot be cut */

#define CLIENT_FIRST 2000 /* errors of the library itself */
#define CLIENT_LAST 2999
#define CLIENT_SECURE 2026
#define CLIENT_PLUGIN 2059 /* an authentication method it does not know */
#define CLIENT_PLUGIN_FAILED 2061
#define CLIENT_NO_MEMORY 2008

static const char *const schemes[] = {"mysql",    "mysqls",       "mysql+unix", "mariadb",
                                      "mariadbs", "mariadb+unix", NULL};
static const char *const params[] = {"database", "user", NULL};

struct dialed {
    struct rt_conn words; /* for its errmsg */
    struct rt_dial_ring ring;
    struct rt_mysql *self;
    struct st_mysql *my;
};

static bool is_secure(const struct rt_url *url)
{
    return url->scheme[strlen(url->scheme) - 1] == 's';
}

static int read_url(struct dialed *d, const struct rt_url *url)
{
    d->self = rt_alloc(sizeof(*d->self));
    int rv = d->self == NULL ? ROTA_NOMEM
                             : rt_mysql_read_url(d->self, &d->words, url, &d->ring, false);

    if (rv == 0 && !is_secure(url)) /* certificates are only for mysqls */
        rv = rt_dial_tls(&d->self->tls, &d->words, url, false, "mysqls");
    if (rv == 0 && d->ring.count == 0)
        rv = rt_dial_hosts(&d->ring, &d->words, url, PORT);
    return rv;
}

static void fini(struct dialed *d)
{
    rt_mysql_close(d->self);
    rt_dial_ring_fini(&d->ring);
}

/* ---- Options ------------------------------------------------------------------------- */

static bool set_tls(struct st_mysql *my, const struct rt_url *url)
{
    const char *ca = rt_url_param(url, "ca", CA_BUNDLE);
    const char *cert = rt_url_param(url, "cert", NULL);
    const char *key = rt_url_param(url, "key", cert); /* it may be in the same file */
    const char yes = 1;
    struct stat st;
    bool folder = stat(ca, &st) == 0 && S_ISDIR(st.st_mode);

    return rt_my.mysql_options(my, RT_MYSQL_OPT_SSL_ENFORCE, &yes) == 0 &&
           rt_my.mysql_options(my, RT_MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes) == 0 &&
           rt_my.mysql_options(my, folder ? RT_MYSQL_OPT_SSL_CAPATH : RT_MYSQL_OPT_SSL_CA, ca) ==
               0 &&
           (cert == NULL || rt_my.mysql_options(my, RT_MYSQL_OPT_SSL_CERT, cert) == 0) &&
           (key == NULL || rt_my.mysql_options(my, RT_MYSQL_OPT_SSL_KEY, key) == 0);
}

static bool set_options(struct st_mysql *my, const struct rt_url *url, bool local)
{
    const unsigned protocol = local ? RT_MYSQL_PROTOCOL_SOCKET : RT_MYSQL_PROTOCOL_TCP;
    const unsigned seconds = HANDSHAKE_S, no = 0;

    return rt_my.mysql_options(my, RT_MYSQL_OPT_NONBLOCK, NULL) == 0 &&
           rt_my.mysql_options(my, RT_MYSQL_OPT_PROTOCOL, &protocol) == 0 &&
           rt_my.mysql_options(my, RT_MYSQL_OPT_CONNECT_TIMEOUT, &seconds) == 0 &&
           rt_my.mysql_options(my, RT_MYSQL_OPT_READ_TIMEOUT, &seconds) == 0 &&
           rt_my.mysql_options(my, RT_MYSQL_OPT_WRITE_TIMEOUT, &seconds) == 0 &&
           rt_my.mysql_options(my, RT_MYSQL_OPT_LOCAL_INFILE, &no) == 0 &&
           rt_my.mysql_options(my, RT_MYSQL_SET_CHARSET_NAME, "utf8mb4") == 0 &&
           (!is_secure(url) || set_tls(my, url));
}

/* ---- Connecting ------------------------------------------------------------------------- */

static int refused(struct st_mysql *my, const char *at, char *errmsg, size_t size)
{
    unsigned code = rt_my.mysql_errno(my);
    bool own = code >= CLIENT_FIRST && code <= CLIENT_LAST;
    const char *text = rt_my.mysql_error(my);
    int n = (int)strcspn(text, "\r\n");

    snprintf(errmsg, size, "%.80s: %.*s", at, n < 160 ? n : 160, text);
    if (!own)
        return rt_mysql_refusal(code);
    return code == CLIENT_SECURE                                   ? ROTA_AUTH
           : code == CLIENT_PLUGIN || code == CLIENT_PLUGIN_FAILED ? ROTA_UNSUPPORTED
           : code == CLIENT_NO_MEMORY                              ? ROTA_NOMEM
                                                                   : ROTA_UNREACHABLE;
}

/* A call of the library, which may block (it looks up the host, and shakes hands). False: it was left to itself. */
static bool call_on(struct dialed *d, struct rt_effort *effort, const struct rt_dial_end *end,
                    int *wait, int ready, struct st_mysql **out)
{
    bool local = end->host[0] == '/';
    struct rt_fd_low low;

    if (rt_fd_keep(&low) != 0)
        low.taken = 0;
    rt_effort_blind(effort);
    *wait = ready != 0 ? rt_my.mysql_real_connect_cont(out, d->my, ready)
                       : rt_my.mysql_real_connect_start(
                             out, d->my, local ? NULL : end->host, d->self->user, d->self->password,
                             d->self->database, local ? 0 : end->port, local ? end->host : NULL,
                             effort->several ? RT_MYSQL_MULTI_STATEMENTS : 0);
    bool goes_on = rt_effort_seeing(effort);
    rt_fd_leave(&low);
    return goes_on;
}

/* It takes too long, or is no longer wanted: runs the library to its end. */
static void give_up(struct st_mysql *my)
{
    struct st_mysql *out = NULL;
    int fd = rt_my.mysql_get_socket(my);

    if (fd >= 0)
        shutdown(fd, SHUT_RDWR);
    while (rt_my.mysql_real_connect_cont(&out, my, RT_MYSQL_WAIT_TIMEOUT) != 0) {
    }
}

static int ready_of(int said)
{
    return ((said & (POLLIN | POLLERR | POLLHUP)) != 0 ? RT_MYSQL_WAIT_READ : 0) |
           ((said & (POLLOUT | POLLERR | POLLHUP)) != 0 ? RT_MYSQL_WAIT_WRITE : 0) |
           ((said & POLLPRI) != 0 ? RT_MYSQL_WAIT_EXCEPT : 0);
}

static int dial(struct dialed *d, const struct rt_dial_end *end, struct rt_effort *effort,
                char *errmsg, size_t size)
{
    struct st_mysql *out = NULL;
    int wait;

    bool goes_on = call_on(d, effort, end, &wait, 0, &out);
    while (goes_on && wait != 0) {
        short events = (short)(((wait & RT_MYSQL_WAIT_READ) != 0 ? POLLIN : 0) |
                               ((wait & RT_MYSQL_WAIT_WRITE) != 0 ? POLLOUT : 0) |
                               ((wait & RT_MYSQL_WAIT_EXCEPT) != 0 ? POLLPRI : 0));
        int said = rt_effort_wait(effort, rt_my.mysql_get_socket(d->my), events, INT64_MAX);
        if (said <= 0) {
            give_up(d->my);
            snprintf(errmsg, size, "%.80s: no answer in time", end->at);
            return said < 0 ? ROTA_CANCELED : ROTA_UNREACHABLE;
        }
        goes_on = call_on(d, effort, end, &wait, ready_of(said), &out);
    }
    if (!goes_on && wait != 0)
        give_up(d->my);
    if (!goes_on)
        return ROTA_CANCELED;
    return out != NULL ? 0 : refused(d->my, end->at, errmsg, size);
}

static int open_one(struct dialed *d, const struct rt_url *url, size_t i, struct rt_effort *effort,
                    char *errmsg, size_t size)
{
    const struct rt_dial_end *end = &d->ring.ends[i];
    int rv = rt_libmysql_load(errmsg, size);

    if (rv != 0)
        return rv;
    d->my = rt_my.mysql_init(NULL);
    if (d->my == NULL || !set_options(d->my, url, end->host[0] == '/')) {
        snprintf(errmsg, size, "out of memory");
        rv = ROTA_NOMEM;
    }
    if (rv == 0)
        rv = dial(d, end, effort, errmsg, size);
    if (rv != 0 && d->my != NULL)
        rt_my.mysql_close(d->my);
    return rv;
}

static int dial_to(const struct rt_url *url, size_t i, size_t *count, struct rt_effort *effort,
                   void **conn, char *marks, char *errmsg, size_t size)
{
    struct dialed d = {.self = NULL};
    int rv = read_url(&d, url);

    (void)marks;
    if (rv != 0) {
        snprintf(errmsg, size, "%s",
                 d.words.errmsg[0] != '\0' ? d.words.errmsg : rota_strerror(rv));
    } else {
        *count = d.ring.count;
        assert(i < d.ring.count);
        rv = open_one(&d, url, i, effort, errmsg, size);
    }
    if (rv == 0) {
        (void)fcntl(rt_my.mysql_get_socket(d.my), F_SETFD, FD_CLOEXEC);
        *conn = d.my;
    }
    fini(&d);
    return rv;
}

static int fd_of(void *conn)
{
    return rt_my.mysql_get_socket(conn);
}

static void hang_up(void *conn)
{
    rt_my.mysql_close(conn);
}

const struct rt_reach rt_reach_mysql = {
    .schemes = schemes,
    .params = params,
    .kind = &rt_xa_mysql,
    .connect = dial_to,
    .fd = fd_of,
    .hang_up = hang_up,
};
