/* SPDX-License-Identifier: Apache-2.0 */
#include "site.h"

#include "lib/mysql_client.h"
#include "lib/mysql_server.h"

static struct rt_mariadb server;

bool site_mysql_log;

static void start(void)
{
    const struct rt_mariadb_options opts = {.log = site_mysql_log};

    rt_mariadb_start(&server, &opts);
    rt_mariadb_do(&server, "GRANT PROCESS ON *.* TO rota@'%%'");
    rt_mariadb_do(&server, "CREATE TABLE work (id BIGINT PRIMARY KEY) ENGINE = InnoDB");
    rt_mariadb_do(&server, "CREATE TABLE old (id BIGINT PRIMARY KEY) ENGINE = MyISAM");
}

static void fini(void)
{
    rt_mariadb_fini(&server);
}

static void kill_server(void)
{
    rt_mariadb_kill(&server);
}

static void run(void)
{
    rt_mariadb_run(&server);
    rt_mariadb_do(&server, "USE " RT_MARIADB_DATABASE);
}

static uint16_t port_of(void)
{
    return server.server.port;
}

static char *url_of(uint16_t port)
{
    return rt_mariadb_url(&server, port);
}

static void *connect_to(uint16_t port)
{
    static char password[64];

    if (password[0] == '\0') {
        FILE *file = fopen(server.password_file, "re");
        if (file == NULL || fgets(password, sizeof(password), file) == NULL)
            abort();
        fclose(file);
        password[strcspn(password, "\n")] = '\0';
    }
    unsigned long flags = getenv("ROTA_SITE_SEVERAL") != NULL ? CLIENT_MULTI_STATEMENTS : 0;
    MYSQL *db = mysql_init(NULL);
    if (db == NULL || mysql_real_connect(db, "127.0.0.1", "rota", password, RT_MARIADB_DATABASE,
                                         port != 0 ? port : port_of(), NULL, flags) == NULL) {
        fprintf(stderr, "mysql_real_connect: %s\n", db != NULL ? mysql_error(db) : "no memory");
        abort();
    }
    return db;
}

static void close_conn(void *conn)
{
    mysql_close(conn);
}

static int fd_of(void *conn)
{
    return mysql_get_socket(conn);
}

static bool sql(void *conn, const char *text)
{
    if (mysql_query(conn, text) != 0)
        return false;
    MYSQL_RES *rows = mysql_store_result(conn);
    if (rows != NULL)
        mysql_free_result(rows);
    return mysql_errno(conn) == 0; /* RETURNING may fail while its rows come */
}

static long long number(const char *text)
{
    const char *said = rt_mariadb_ask(&server, "%s", text);
    char *end = NULL;
    long long n = strtoll(said, &end, 10);

    if (end == said || *end != '\0') {
        fprintf(stderr, "%s: %s\n", text, said);
        abort();
    }
    return n;
}

static void admin(const char *text)
{
    rt_mariadb_do(&server, "%s", text);
}

static long prepared(void)
{
    const char *said = rt_mariadb_ask(&server, "XA RECOVER");
    long n = said[0] != '\0';

    for (; *said != '\0'; said++)
        n += *said == '\n';
    return n;
}

static void kill_connection(void *conn)
{
    rt_mariadb_do(&server, "KILL %lu", mysql_thread_id(conn));
}

const struct site site_mysql = {
    .name = "MariaDB",
    .kind = &rt_xa_mysql,
    .framing = &rt_proxy_mysql,
    .hex = "x'",
    .hex_end = "'",
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
