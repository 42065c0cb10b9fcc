/* SPDX-License-Identifier: Apache-2.0 */
/* Real MariaDB for tests: one server, over TCP and a unix socket; TLS, a limited user, a replica.
 *
 * As servers.h: for the main thread, gone with the test, aborts when something is unavailable. */
#ifndef RT_MYSQL_SERVER_H
#define RT_MYSQL_SERVER_H

#include "certs.h"
#include "servers.h"

#define RT_MARIADB_DATABASE "locks"
#define RT_MARIADB_PASSWORD "of-the-test"

struct rt_mariadb;
struct rt_mariadb_options { /* all zero: the user rota may do anything in the database */
    bool tls;         /* TLS only, except on the unix socket, with certificates of node->certs */
    bool tls_clients; /* and asks the client for one */
    const char *cert, *key;     /* other than certs.server_* */
    const char *ddl;            /* the user may only read and write: these tables are made for it */
    const char *password;       /* of the user; NULL: one of the test's */
    bool log;                   /* has a binary log, for replicas */
    struct rt_mariadb *primary; /* is a replica of this one, which has a log */
    bool on_disk;               /* its folder is never in memory: what it syncs is on disk */
    const char *extra[8];       /* more arguments of mariadbd */
};

/* A client of it, the command mariadb, which may have a transaction of its own. */
struct rt_mariadb_client {
    pid_t pid; /* 0: none */
    int in, out;
    char *said; /* what was answered last */
    size_t size;
};

struct rt_mariadb {
    struct rt_server server;
    char socket[300], password_file[300];
    struct rt_certs certs;
    bool tls, tls_clients;
    struct rt_mariadb_client admin;
};

void rt_mariadb_start(struct rt_mariadb *m,
                      const struct rt_mariadb_options *opts); /* OPTS may be NULL */
void rt_mariadb_run(struct rt_mariadb *m);                    /* again, after a kill */
void rt_mariadb_kill(struct rt_mariadb *m);
void rt_mariadb_fini(struct rt_mariadb *m);

/* Runs SQL as root over the unix socket; returns the answer, columns separated by tabs and rows by newlines, without
 * the last newline. An error is answered as "ERROR ...", and the connection goes on. Valid until the next call. */
const char *rt_mariadb_ask(struct rt_mariadb *m, const char *sql, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for its effect: ends the test on an error. */
void rt_mariadb_do(struct rt_mariadb *m, const char *sql, ...)
    __attribute__((format(printf, 2, 3)));

/* More clients, each a connection. */
void rt_mariadb_client(struct rt_mariadb *m, struct rt_mariadb_client *c);
const char *rt_mariadb_client_ask(struct rt_mariadb_client *c, const char *sql);
void rt_mariadb_client_close(struct rt_mariadb_client *c);

/* What Rota opens: mysql://rota@127.0.0.1:port/locks?password_file=..., or mysqls://rota@localhost. PORT: one other
 * than its own (a proxy); 0: its own. The caller's to free. */
char *rt_mariadb_url(const struct rt_mariadb *m, uint16_t port);
char *rt_mariadb_unix_url(const struct rt_mariadb *m, const char *path); /* NULL: its own */

#endif
