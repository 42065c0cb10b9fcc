/* SPDX-License-Identifier: Apache-2.0 */
/* One transaction over two processes: an order is written here, and paid by a service, which joins through a header.
 *
 *   join_http serve 8080      the service: PostgreSQL, found through PGHOST etc.
 *   join_http order 8080      the caller: MariaDB, found through ~/.my.cnf
 *
 * Both use the same journal ($ROTA_JOURNAL). The service prepares, answers 200, and then waits for the decision. */
#include <arpa/inet.h>
#include <libpq-fe.h>
#include <mysql.h>
#include <netinet/in.h>
#include <rota_txn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    return -1;
}

static int socket_at(const char *port, int (*use)(int, const struct sockaddr *, socklen_t))
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (use(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* All of a message without a body. */
static int read_head(int fd, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    while (used + 1 < size && strstr(out, "\r\n\r\n") == NULL) {
        ssize_t got = read(fd, out + used, size - used - 1);
        if (got <= 0)
            return -1;
        used += (size_t)got;
        out[used] = '\0';
    }
    return 0;
}

/* ---- The service --------------------------------------------------------------------- */

static int pay(struct rota_txn *t, PGconn *pg)
{
    int err = rota_xa_postgres(t, "ledger", pg, NULL);
    if (err != 0)
        return err;
    PQclear(PQexec(pg, "INSERT INTO payment VALUES (10)")); /* if it fails, the vote is no */
    return rota_txn_vote(t);
}

static void answer(struct rota_txns *m, PGconn *pg, int fd)
{
    char head[2048], id[64];
    struct rota_txn *t = NULL;

    const char *at = read_head(fd, head, sizeof(head)) == 0 ? strstr(head, "\r\nRota-Txn: ") : NULL;
    int err = at != NULL && sscanf(at + 12, "%63s", id) == 1 ? rota_txn_join(m, id, &t)
                                                             : ROTA_INVALID;
    if (err == 0)
        err = pay(t, pg);
    dprintf(fd, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", err == 0 ? "200 OK" : "409 Conflict");
    close(fd);
    if (t != NULL) { /* as the caller decides */
        err = rota_txn_commit(t);
        printf("payment: %s\n", err == 0 ? "committed" : rota_txn_errmsg(m));
        fflush(stdout);
    }
}

static int serve(struct rota_txns *m, const char *port)
{
    PGconn *pg = PQconnectdb("");
    int fd = socket_at(port, bind);

    if (PQstatus(pg) != CONNECTION_OK)
        return fail("PostgreSQL", PQerrorMessage(pg));
    PQclear(PQexec(pg, "CREATE TABLE IF NOT EXISTS payment (coins INT)"));
    if (fd < 0 || listen(fd, 8) != 0)
        return fail("port", port);
    printf("serving\n");
    fflush(stdout);
    for (;;) {
        int client = accept(fd, NULL, NULL);
        if (client >= 0)
            answer(m, pg, client);
    }
}

/* ---- The caller ----------------------------------------------------------------------- */

static int ask_to_pay(struct rota_txn *t, const char *port)
{
    char head[2048] = "";
    int fd = socket_at(port, connect);

    if (fd < 0)
        return fail("service", "it cannot be reached");
    dprintf(fd,
            "POST /pay HTTP/1.1\r\nHost: localhost\r\nRota-Txn: %s\r\nContent-Length: 0\r\n\r\n",
            rota_txn_id(t));
    int err = read_head(fd, head, sizeof(head));
    close(fd);
    return err == 0 && strncmp(head, "HTTP/1.1 200", 12) == 0 ? 0 : -1;
}

static int order(struct rota_txns *m, const char *port)
{
    MYSQL *my = mysql_init(NULL);
    struct rota_txn *t;

    mysql_optionsv(my, MYSQL_READ_DEFAULT_GROUP, "client");
    if (mysql_real_connect(my, NULL, NULL, NULL, NULL, 0, NULL, 0) == NULL ||
        mysql_query(my, "CREATE TABLE IF NOT EXISTS orders (coins INT) ENGINE = InnoDB") != 0)
        return fail("MariaDB", mysql_error(my));
    if (rota_txn_begin(m, NULL, &t) != 0 || rota_xa_mysql(t, "shop", my, NULL) != 0)
        return fail("branch", rota_txn_errmsg(m));
    bool good = mysql_query(my, "INSERT INTO orders VALUES (10)") == 0 && ask_to_pay(t, port) == 0;
    int err = good ? rota_txn_commit(t) : rota_txn_abort(t);
    printf("order: %s\n", good && err == 0 ? "committed"
                          : good           ? rota_txn_errmsg(m)
                                           : "rolled back");
    mysql_close(my);
    return good && err == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct rota_txns *m = NULL;

    if (argc != 3) {
        fprintf(stderr, "usage: join_http serve|order PORT\n");
        return 64;
    }
    if (rota_txns_open(&m, NULL, NULL) != 0)
        return fail("journal", rota_txn_errmsg(NULL)) != 0;
    int rv = strcmp(argv[1], "serve") == 0 ? serve(m, argv[2]) : order(m, argv[2]);
    rota_txns_close(m);
    return rv != 0;
}
