/* SPDX-License-Identifier: Apache-2.0 */
/* MariaDB through its own library: prepared statements, each a transaction of its own. */
#include "sql.h"

#include "lib/mysql_server.h"

#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rt_mariadb server;
static char *server_url;

enum { INSERT, DELETE, LOCK, UNLOCK, BEGIN, UPDATE, COMMIT, STATEMENTS };

struct hand {
    MYSQL *db;
    MYSQL_STMT *statements[STATEMENTS];
};

static void die(MYSQL *db)
{
    fprintf(stderr, "rota-bench: mysql: %s\n", mysql_error(db));
    exit(1);
}

static void run(struct hand *h, int which, const char *arg)
{
    unsigned long size = arg != NULL ? strlen(arg) : 0;
    MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_STRING,
                       .buffer = (char *)(uintptr_t)arg,
                       .buffer_length = size,
                       .length = &size};
    MYSQL_STMT *s = h->statements[which];
    if ((arg != NULL && mysql_stmt_bind_param(s, &bind)) || mysql_stmt_execute(s) != 0 ||
        mysql_stmt_store_result(s) != 0)
        die(h->db);
    mysql_stmt_free_result(s);
}

/* Several statements in one write. */
static void run_text(struct hand *h, const char *sql)
{
    int more = mysql_query(h->db, sql);
    for (; more == 0; more = mysql_next_result(h->db)) {
        MYSQL_RES *result = mysql_store_result(h->db);
        if (result != NULL)
            mysql_free_result(result);
    }
    if (more > 0)
        die(h->db);
}

static void start(void)
{
    rt_mariadb_start(&server,
                     &(struct rt_mariadb_options){.extra = {"--innodb-flush-log-at-trx-commit=1",
                                                            "--max-connections=4000"}});
    server_url = rt_mariadb_url(&server, 0);
    rt_mariadb_do(&server, "CREATE TABLE " RT_MARIADB_DATABASE
                           ".bench (name VARBINARY(255) PRIMARY KEY) ENGINE=InnoDB");
    rt_mariadb_do(&server, "CREATE TABLE " RT_MARIADB_DATABASE
                           ".bench_line (name VARBINARY(255) PRIMARY KEY, count INT, waiting INT) "
                           "ENGINE=InnoDB");
    rt_mariadb_do(&server, "CREATE TABLE " RT_MARIADB_DATABASE
                           ".bench_ticket (name VARBINARY(255), number BIGINT, granted TINYINT, "
                           "since BIGINT, PRIMARY KEY (name, number)) ENGINE=InnoDB");
    rt_mariadb_do(&server, "INSERT INTO " RT_MARIADB_DATABASE ".bench VALUES ('row')");
}

static void stop(void)
{
    free(server_url);
    rt_mariadb_fini(&server);
}

static const char *url(void)
{
    return server_url;
}

static pid_t pid(void)
{
    return server.server.pid;
}

static void down(void)
{
    rt_mariadb_kill(&server);
}

static void up(void)
{
    rt_mariadb_run(&server);
}

static long kept(void)
{
    return strtol(rt_mariadb_ask(&server, "SELECT count(*) FROM " RT_MARIADB_DATABASE ".rota_line"),
                  NULL, 10);
}

static struct hand *dial(void)
{
    static const char *const texts[STATEMENTS] = {
        "INSERT INTO bench VALUES (?)",
        "DELETE FROM bench WHERE name=?",
        "SELECT GET_LOCK(?,10)",
        "SELECT RELEASE_LOCK(?)",
        "BEGIN",
        "SELECT 1 FROM bench WHERE name='row' FOR UPDATE",
        "COMMIT",
    };
    struct hand *h = calloc(1, sizeof *h);
    h->db = mysql_init(NULL);
    if (mysql_real_connect(h->db, "127.0.0.1", "rota", RT_MARIADB_PASSWORD, RT_MARIADB_DATABASE,
                           server.server.port, NULL, CLIENT_MULTI_STATEMENTS) == NULL)
        die(h->db);
    for (int i = 0; i < STATEMENTS; i++) {
        h->statements[i] = mysql_stmt_init(h->db);
        if (mysql_stmt_prepare(h->statements[i], texts[i], strlen(texts[i])) != 0)
            die(h->db);
    }
    return h;
}

static void hang_up(struct hand *h)
{
    for (int i = 0; i < STATEMENTS; i++)
        mysql_stmt_close(h->statements[i]);
    mysql_close(h->db);
    free(h);
}

static void row_pair(struct hand *h, const char *name)
{
    run(h, INSERT, name);
    run(h, DELETE, name);
}

static void own_pair(struct hand *h, const char *name)
{
    run(h, LOCK, name);
    run(h, UNLOCK, name);
}

static void update_pair(struct hand *h, const char *name)
{
    (void)name;
    run(h, BEGIN, NULL);
    run(h, UPDATE, NULL);
    run(h, COMMIT, NULL);
}

/* ---- Hand-overs ---------------------------------------------------------- */

#define WOKEN "DO GET_LOCK('bell', 30); DO RELEASE_LOCK('bell'); "

static void ready(struct hand *holder, struct hand *waiter)
{
    (void)waiter;
    run_text(holder, "DO GET_LOCK('bell', 0); INSERT IGNORE INTO bench VALUES ('turn')");
}

static void wait_for(struct hand *h)
{
    run_text(h, WOKEN "SELECT 1 FROM bench WHERE name='turn'");
}

static void wait_and_take(struct hand *h)
{
    run_text(h, WOKEN "INSERT INTO bench VALUES ('turn')");
}

static void ring(struct hand *h)
{
    run_text(h, "DELETE FROM bench WHERE name='turn'; DO RELEASE_LOCK('bell')");
}

/* As Rota does it: the line is locked and counted, the holder goes, the next one is granted. */
static void ready_same(struct hand *holder, struct hand *waiter)
{
    (void)waiter;
    run_text(holder,
             "DO GET_LOCK('bell', 0); BEGIN; DELETE FROM bench_ticket; "
             "REPLACE INTO bench_line VALUES ('turn', 2, 1); "
             "INSERT INTO bench_ticket VALUES ('turn', 1, 1, 0), ('turn', 2, 0, 0); COMMIT");
}

static void wait_same(struct hand *h)
{
    run_text(h, WOKEN "SELECT granted FROM bench_ticket WHERE name='turn' AND number=2");
}

static void ring_same(struct hand *h)
{
    run_text(h, "BEGIN; UPDATE bench_line SET count=count-1, waiting=waiting-1 "
                "WHERE name='turn' AND count=waiting+1; "
                "DELETE FROM bench_ticket WHERE name='turn' AND number=1 AND granted; "
                "UPDATE bench_ticket SET granted=1, since=UNIX_TIMESTAMP() WHERE name='turn' "
                "ORDER BY number LIMIT 1; COMMIT; DO RELEASE_LOCK('bell')");
}

const struct sql_way sql_mysql = {
    .name = "mysql",
    .own = "GET_LOCK pair",
    .start = start,
    .stop = stop,
    .url = url,
    .pid = pid,
    .down = down,
    .up = up,
    .kept = kept,
    .dial = dial,
    .hang_up = hang_up,
    .say = run_text,
    .row_pair = row_pair,
    .own_pair = own_pair,
    .update_pair = update_pair,
    .woken = {ready, wait_for, ring},
    .held = {ready, wait_and_take, ring},
    .same = {ready_same, wait_same, ring_same},
    .pair_goal = 1.3,
    .flight_goal = 0.8,
    .handover_goal = 1.3,
};
