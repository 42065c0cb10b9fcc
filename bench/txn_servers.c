/* SPDX-License-Identifier: Apache-2.0 */
/* The databases of the transfers: durable, and otherwise as they come. */
#include "txn.h"

#include "lib/mysql_server.h"
#include "lib/postgres_server.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct rt_mariadb mariadb;
static struct rt_pg postgres;
static char *postgres_url, *mysql_url;
static bool running;

static const char *const databases[] = {"left", "right"};

const struct txn_pair txn_pairs[3] = {
    {"MariaDB + MariaDB", {true, true}},
    {"PostgreSQL + PostgreSQL", {false, false}},
    {"MariaDB + PostgreSQL", {true, false}},
};

__attribute__((noreturn)) static void die(const char *who, const char *why)
{
    fprintf(stderr, "rota-bench: %s: %s\n", who, why);
    exit(1);
}

/* Accounts, and what DTM needs for its barrier. */
static void fill(int side)
{
    struct txn_branch my = txn_dial(true, side), pg = txn_dial(false, side);
    int last = TXN_CLIENTS * TXN_ACCOUNTS - 1;
    txn_say(&my,
            "CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL) ENGINE=InnoDB");
    txn_say(&my, "INSERT INTO account SELECT seq, 0 FROM seq_0_to_%d", last);
    txn_say(&my,
            "CREATE TABLE mark (client INT, number INT UNSIGNED, PRIMARY KEY (client, number)) "
            "ENGINE=InnoDB");
    txn_say(&my, "CREATE TABLE barrier (id BIGINT PRIMARY KEY AUTO_INCREMENT, trans_type "
                 "VARCHAR(45), gid VARCHAR(128), branch_id VARCHAR(128), op VARCHAR(45), "
                 "barrier_id VARCHAR(45), reason VARCHAR(45), UNIQUE KEY (gid, branch_id, op, "
                 "barrier_id)) ENGINE=InnoDB");
    txn_say(&pg, "create table account (id int primary key, balance bigint not null) with "
                 "(fillfactor = 60)");
    txn_say(&pg, "insert into account select i, 0 from generate_series(0, %d) i", last);
    txn_say(&pg, "create table mark (client int, number bigint, primary key (client, number))");
    txn_say(&pg, "create table barrier (id bigserial primary key, trans_type text, gid text, "
                 "branch_id text, op text, barrier_id text, reason text, constraint uniq_barrier "
                 "unique (gid, branch_id, op, barrier_id))");
    txn_hang_up(&my);
    txn_hang_up(&pg);
}

void txn_start(void)
{
    if (running)
        return;
    rt_mariadb_start(
        &mariadb, &(struct rt_mariadb_options){
                      .on_disk = true,
                      .extra = {"--innodb-flush-log-at-trx-commit=1", "--max-connections=1000",
                                "--innodb-log-file-size=96M", "--innodb-buffer-pool-size=128M"}});
    rt_pg_start(&postgres,
                &(struct rt_pg_options){.durable = true,
                                        .extra = {"max_prepared_transactions=100",
                                                  "shared_buffers=128MB", "max_wal_size=1GB"}});
    running = true;
    postgres_url = rt_pg_url(&postgres, 0);
    mysql_url = rt_mariadb_url(&mariadb, 0);
    rt_mariadb_do(&mariadb, "GRANT ALL ON *.* TO rota@'%%'");
    for (int i = 0; i < 2; i++) {
        rt_mariadb_do(&mariadb, "CREATE DATABASE `%s`", databases[i]);
        rt_pg_do(&postgres, "create database \"%s\"", databases[i]);
        fill(i);
    }
}

void bench_txn_stop(void)
{
    if (!running)
        return;
    running = false;
    txn_hand_close();
    txn_rota_close();
    free(postgres_url);
    free(mysql_url);
    rt_mariadb_fini(&mariadb);
    rt_pg_fini(&postgres);
}

const char *txn_postgres_url(void)
{
    return postgres_url;
}

const char *txn_mysql_url(void)
{
    return mysql_url;
}

void txn_endpoint(const struct bench *b, char *out, size_t size)
{
    snprintf(out, size, "%u:%s:%u:%s", (unsigned)mariadb.server.port, RT_MARIADB_PASSWORD,
             (unsigned)postgres.server.port, b->folder);
}

double txn_servers_cpu_us(void)
{
    return rt_bench_tree_cpu_us(mariadb.server.pid) + rt_bench_tree_cpu_us(postgres.server.pid);
}

/* ---- Connections --------------------------------------------------------------- */

struct txn_branch txn_dial(bool mysql, int side)
{
    struct txn_branch b = {.database = databases[side]};
    char conninfo[128];
    if (mysql) {
        b.my = mysql_init(NULL);
        if (b.my == NULL ||
            mysql_real_connect(b.my, "127.0.0.1", "rota", RT_MARIADB_PASSWORD, b.database,
                               mariadb.server.port, NULL, CLIENT_MULTI_STATEMENTS) == NULL)
            die("mysql", b.my != NULL ? mysql_error(b.my) : "no memory");
        return b;
    }
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%u user=postgres dbname=%s",
             (unsigned)postgres.server.port, b.database);
    b.pg = PQconnectdb(conninfo);
    if (PQstatus(b.pg) != CONNECTION_OK)
        die("postgres", PQerrorMessage(b.pg));
    return b;
}

void txn_hang_up(struct txn_branch *b)
{
    if (b->my != NULL)
        mysql_close(b->my);
    if (b->pg != NULL)
        PQfinish(b->pg);
    *b = (struct txn_branch){0};
}

__attribute__((format(printf, 2, 0))) static void send_text(struct txn_branch *b,
                                                            const char *format, va_list args)
{
    char sql[1024];
    int n = vsnprintf(sql, sizeof sql, format, args);
    if (n < 0 || n >= (int)sizeof sql)
        die("a statement", "too long");
    if (b->my != NULL ? mysql_send_query(b->my, sql, (unsigned long)n) != 0
                      : PQsendQuery(b->pg, sql) != 1)
        die(sql, b->my != NULL ? mysql_error(b->my) : PQerrorMessage(b->pg));
}

void txn_send(struct txn_branch *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    send_text(b, format, args);
    va_end(args);
}

void txn_say(struct txn_branch *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    send_text(b, format, args);
    va_end(args);
    txn_hear(b);
}

void txn_hear(struct txn_branch *b)
{
    if (b->my != NULL) {
        int more = mysql_read_query_result(b->my) ? 1 : 0;
        for (; more == 0; more = mysql_next_result(b->my)) {
            MYSQL_RES *result = mysql_store_result(b->my);
            if (result != NULL)
                mysql_free_result(result);
        }
        if (more > 0)
            die("mysql", mysql_error(b->my));
        return;
    }
    for (PGresult *result; (result = PQgetResult(b->pg)) != NULL; PQclear(result)) {
        ExecStatusType status = PQresultStatus(result);
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
            die("postgres", PQerrorMessage(b->pg));
    }
}

double txn_number(bool mysql, const char *sql)
{
    return mysql ? strtod(rt_mariadb_ask(&mariadb, "%s", sql), NULL)
                 : strtod(rt_pg_do(&postgres, "%s", sql), NULL);
}

void txn_settle(void)
{
    while (txn_number(false, "select count(*) from pg_stat_activity where datname in ('left', "
                             "'right')") > 0)
        poll(NULL, 0, 10);
}
