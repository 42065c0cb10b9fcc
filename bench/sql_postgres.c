/* SPDX-License-Identifier: Apache-2.0 */
/* PostgreSQL through libpq: prepared statements, each a transaction of its own. */
#include "sql.h"

#include "lib/postgres_server.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct rt_pg server;
static char *server_url;

struct hand {
    PGconn *db;
};

static void must(PGconn *db, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fprintf(stderr, "rota-bench: postgres: %s", PQerrorMessage(db));
        exit(1);
    }
    PQclear(result);
}

static void run(struct hand *h, const char *statement, const char *arg)
{
    must(h->db, PQexecPrepared(h->db, statement, arg != NULL, &arg, NULL, NULL, 0));
}

static void start(void)
{
    rt_pg_start(&server,
                &(struct rt_pg_options){.durable = true, .extra = {"max_connections=1500"}});
    server_url = rt_pg_url(&server, 0);
    rt_pg_do(&server,
             "create table bench (name text collate \"C\" primary key) with (fillfactor = 60);"
             "insert into bench values ('row')");
}

static void stop(void)
{
    free(server_url);
    rt_pg_fini(&server);
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
    rt_pg_kill(&server);
}

static void up(void)
{
    rt_pg_run(&server);
}

static long kept(void)
{
    return (long)rt_pg_number(&server, "select count(*) from rota_line");
}

static struct hand *dial(void)
{
    static const char *const statements[][2] = {
        {"insert", "insert into bench values ($1)"},
        {"delete", "delete from bench where name = $1"},
        {"lock", "select pg_advisory_lock(hashtext($1))"},
        {"unlock", "select pg_advisory_unlock(hashtext($1))"},
        {"begin", "begin"},
        {"update", "select 1 from bench where name = 'row' for update"},
        {"commit", "commit"},
    };
    char conninfo[128];
    struct hand *h = calloc(1, sizeof *h);
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%u user=postgres dbname=postgres",
             (unsigned)server.server.port);
    h->db = PQconnectdb(conninfo);
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++)
        must(h->db, PQprepare(h->db, statements[i][0], statements[i][1], 0, NULL));
    return h;
}

static void hang_up(struct hand *h)
{
    PQfinish(h->db);
    free(h);
}

static void say(struct hand *h, const char *sql)
{
    must(h->db, PQexec(h->db, sql));
}

static void row_pair(struct hand *h, const char *name)
{
    run(h, "insert", name);
    run(h, "delete", name);
}

static void own_pair(struct hand *h, const char *name)
{
    run(h, "lock", name);
    run(h, "unlock", name);
}

static void update_pair(struct hand *h, const char *name)
{
    (void)name;
    run(h, "begin", NULL);
    run(h, "update", NULL);
    run(h, "commit", NULL);
}

static void ready(struct hand *holder, struct hand *waiter)
{
    PGnotify *n;
    must(holder->db,
         PQexec(holder->db, "insert into bench values ('turn') on conflict do nothing"));
    must(waiter->db, PQexec(waiter->db, "listen bench"));
    while ((n = PQnotifies(waiter->db)) != NULL) /* its own, from when it held */
        PQfreemem(n);
}

static void wait_for(struct hand *h)
{
    PGnotify *n;
    while ((n = PQnotifies(h->db)) == NULL) {
        struct pollfd fd = {PQsocket(h->db), POLLIN, 0};
        poll(&fd, 1, -1);
        PQconsumeInput(h->db);
    }
    PQfreemem(n);
}

static void wait_and_take(struct hand *h)
{
    wait_for(h);
    run(h, "insert", "turn");
}

static void ring(struct hand *h)
{
    must(h->db, PQexec(h->db, "delete from bench where name = 'turn'; notify bench"));
}

const struct sql_way sql_postgres = {
    .name = "postgres",
    .own = "advisory lock pair",
    .start = start,
    .stop = stop,
    .url = url,
    .pid = pid,
    .down = down,
    .up = up,
    .kept = kept,
    .dial = dial,
    .hang_up = hang_up,
    .say = say,
    .row_pair = row_pair,
    .own_pair = own_pair,
    .update_pair = update_pair,
    .woken = {ready, wait_for, ring},
    .held = {ready, wait_and_take, ring},
    .pair_goal = 1.2,
    .flight_goal = 1.5,
    .handover_goal = 1.5,
};
