/* SPDX-License-Identifier: Apache-2.0 */
/* Real PostgreSQL for tests: one server, with TLS, with a limited user, with standbys.
 *
 * As servers.h: for the main thread, gone with the test, aborts when something is unavailable. Each listens on
 * 127.0.0.1 and on a unix socket in its folder, over which the superuser "postgres" commands it without a password. It
 * does not wait for the disk unless asked to. Started by root, it runs as the user postgres. */
#ifndef RT_POSTGRES_SERVER_H
#define RT_POSTGRES_SERVER_H

#include "certs.h"
#include "servers.h"

#include <libpq-fe.h>

struct rt_pg_options {      /* all zero: anybody may connect by TCP without a password */
    bool tls;               /* TCP only with TLS, with certificates of certs */
    bool tls_clients;       /* and with one from the client */
    bool user;              /* a user "rota" with a password, who may only use the four tables */
    bool durable;           /* fsync and the like as a server has them */
    const char *cert, *key; /* other than certs.server_* */
    const char *extra[8];   /* more settings: "name=value" */
};

struct rt_pg {
    struct rt_server server; /* its port: server.port; its sockets are in server.dir */
    struct rt_certs certs;   /* with tls */
    bool tls, tls_clients, user;
    char password[40];       /* of "rota" */
    char password_file[300]; /* holds it, for ?password_file= */
    PGconn *admin;
};

/* Started, and answers. OPTS may be NULL. */
void rt_pg_start(struct rt_pg *p, const struct rt_pg_options *opts);
/* A standby of PRIMARY, a copy of it that follows; NAME is what synchronous_standby_names may say. */
void rt_pg_start_standby(struct rt_pg *p, struct rt_pg *primary, const char *name);
void rt_pg_fini(struct rt_pg *p); /* a zeroed struct is legal */

void rt_pg_kill(struct rt_pg *p);    /* kill -9 of all its processes */
void rt_pg_run(struct rt_pg *p);     /* again: same port, same folder; waits until it answers */
void rt_pg_promote(struct rt_pg *p); /* a standby becomes a primary */

/* Runs SQL (may be several statements) as the superuser, in the database "postgres". Returns the first column of the
 * last one's first row, "" if there is none; static, valid until the next call. Ends the test if it fails. */
const char *rt_pg_do(struct rt_pg *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
long long rt_pg_number(struct rt_pg *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Makes the tables by DDL (what `rota doctor --ddl` prints), and gives "rota" its rights. */
void rt_pg_make_tables(struct rt_pg *p, const char *ddl);

/* What Rota opens: postgres://postgres@127.0.0.1:port/postgres, with tls at localhost and with ?ca=; with the user "rota" if
 * there is one. PORT: one other than its own (a proxy); 0: its own. The caller's to free. */
char *rt_pg_url(const struct rt_pg *p, uint16_t port);
char *rt_pg_unix_url(const struct rt_pg *p); /* the same over its unix socket */

#endif
