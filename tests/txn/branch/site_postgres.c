/* SPDX-License-Identifier: Apache-2.0 */
#include "site.h"

#include "lib/postgres_server.h"

#include <stdio.h>
#include <stdlib.h>

static struct rt_pg server;

static void start(void)
{
    const struct rt_pg_options opts = {.extra = {"max_prepared_transactions=64"}};

    rt_pg_start(&server, &opts);
    rt_pg_do(&server, "CREATE TABLE work (id bigint PRIMARY KEY)");
}

static void fini(void)
{
    rt_pg_fini(&server);
}

static void kill_server(void)
{
    rt_pg_kill(&server);
}

static void run(void)
{
    rt_pg_run(&server);
}

static uint16_t port_of(void)
{
    return server.server.port;
}

static char *url_of(uint16_t port)
{
    return rt_pg_url(&server, port);
}

static void *connect_to(uint16_t port)
{
    char info[160];

    snprintf(
        info, sizeof(info),
        "host=127.0.0.1 port=%u user=postgres dbname=postgres sslmode=disable gssencmode=disable",
        (unsigned)(port != 0 ? port : port_of()));
    PGconn *pg = PQconnectdb(info);
    if (PQstatus(pg) != CONNECTION_OK) {
        fprintf(stderr, "PQconnectdb: %s\n", PQerrorMessage(pg));
        abort();
    }
    return pg;
}

static void close_conn(void *conn)
{
    PQfinish(conn);
}

static int fd_of(void *conn)
{
    return PQsocket(conn);
}

static bool sql(void *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    ExecStatusType status = PQresultStatus(result);

    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static long long number(const char *text)
{
    return rt_pg_number(&server, "%s", text);
}

static void admin(const char *text)
{
    rt_pg_do(&server, "%s", text);
}

static long prepared(void)
{
    return (long)rt_pg_number(&server, "SELECT COUNT(*) FROM pg_prepared_xacts");
}

static void kill_connection(void *conn)
{
    rt_pg_do(&server, "SELECT pg_terminate_backend(%d, 10000)", PQbackendPID(conn));
}

const struct site site_postgres = {
    .name = "PostgreSQL",
    .kind = &rt_xa_postgres,
    .framing = &rt_proxy_postgres,
    .hex = "decode('",
    .hex_end = "', 'hex')",
    .start = start,
    .fini = fini,
    .kill = kill_server,
    .run = run,
    .port = port_of,
    .url = url_of,
    .connect = connect_to,
    .close = close_conn,
    .fd = fd_of,
    .sql = sql,
    .number = number,
    .admin = admin,
    .prepared = prepared,
    .kill_connection = kill_connection,
};
