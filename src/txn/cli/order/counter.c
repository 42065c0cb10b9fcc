/* SPDX-License-Identifier: Apache-2.0 */
/* A service: what it has is free, reserved or taken; try, confirm and cancel over HTTP, behind the fence, in SQLite.
 *
 * Beside the account that the fence guards there is a second one, `bare`, on which every call is done as it comes: so
 * the demo can tell what a service without a fence would have. */
#include "txn/cli/order/counter.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUSY_MS 5000

struct service {
    const struct rt_stage *stage;
    int number;
    sqlite3 *db;
};

static const char *const works[] = {
    [ROTA_OP_TRY] = "UPDATE account SET free = free - ?1, reserved = reserved + ?1 "
                    "WHERE who = ?2 AND free >= ?1",
    [ROTA_OP_CONFIRM] = "UPDATE account SET reserved = reserved - ?1, taken = taken + ?1 "
                        "WHERE who = ?2",
    [ROTA_OP_CANCEL] = "UPDATE account SET reserved = reserved - ?1, free = free + ?1 "
                       "WHERE who = ?2",
};

static bool say(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* False: it says no. */
static bool work(sqlite3 *db, const char *who, int op, int amount)
{
    sqlite3_stmt *s = NULL;
    bool done = sqlite3_prepare_v2(db, works[op], -1, &s, NULL) == SQLITE_OK &&
                sqlite3_bind_int(s, 1, amount) == SQLITE_OK &&
                sqlite3_bind_text(s, 2, who, -1, SQLITE_STATIC) == SQLITE_OK &&
                sqlite3_step(s) == SQLITE_DONE && sqlite3_changes(db) == 1;

    sqlite3_finalize(s);
    return done;
}

/* The first row of SQL; false: there is none. */
static bool numbers(sqlite3 *db, const char *sql, int *out, int count)
{
    sqlite3_stmt *s = NULL;
    bool there = sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK &&
                 sqlite3_step(s) == SQLITE_ROW;

    for (int i = 0; there && i < count; i++)
        out[i] = sqlite3_column_int(s, i);
    sqlite3_finalize(s);
    return there;
}

/* ---- A call -------------------------------------------------------------------------------- */

static int status_of(int err, int verdict)
{
    if (err == ROTA_BUSY || err == ROTA_UNREACHABLE)
        return 425;
    if (err != 0)
        return 500;
    bool done = verdict == ROTA_FENCE_DO || verdict == ROTA_FENCE_DONE ||
                verdict == ROTA_FENCE_EMPTY;
    return done ? 200 : 409;
}

/* One local transaction: the fence, then the work, if the fence says so. The status to answer. */
static int fenced(const struct service *s, const struct rota_call *call, int amount,
                  struct rt_event *e)
{
    enum rota_fenced verdict = ROTA_FENCE_EARLY;

    if (!say(s->db, "BEGIN IMMEDIATE"))
        return 425;
    int err = rota_fence_sqlite(s->db, call, &verdict);
    bool refused = err == 0 && verdict == ROTA_FENCE_DO && !work(s->db, "fenced", call->op, amount);
    if (refused)
        (void)numbers(s->db, "SELECT free FROM account WHERE who = 'fenced'", &e->number, 1);
    else if (err == 0)
        (void)work(s->db, "bare", call->op, amount);
    e->verdict = refused || err != 0 ? 0 : (int)verdict;
    if (refused || err != 0 || verdict == ROTA_FENCE_EARLY)
        say(s->db, "ROLLBACK");
    else if (!say(s->db, "COMMIT"))
        err = ROTA_BUSY;
    if (err == ROTA_BUSY)
        say(s->db, "ROLLBACK");
    return refused ? 409 : status_of(err, (int)verdict);
}

/* The play may want the coordinator dead now: what it asked for is done, but it has not heard so. */
static void end_victim(const struct service *s, const struct rota_call *call)
{
    if (s->number != RT_ORDER_ORDER || call->op != ROTA_OP_CONFIRM)
        return;
    pid_t victim = atomic_exchange(&s->stage->shared->victim, 0);
    if (victim == 0)
        return;
    rt_stage_tell(s->stage,
                  &(struct rt_event){.kind = RT_EVENT_KILLED,
                                     .op = call->op,
                                     .who = "coordinator",
                                     .text = "killed with -9: two services were not asked yet"});
    kill(victim, SIGKILL);
}

bool rt_counter_asked(const struct rt_http_request *r, struct rota_call *out)
{
    return rota_call_read(out, rt_http_request_header(r, "Rota-Txn"),
                          rt_http_request_header(r, "Rota-Branch"),
                          rt_http_request_header(r, "Rota-Op"),
                          rt_http_request_header(r, "Rota-Deadline")) == 0;
}

static void handle(struct rt_http_request *r, void *arg)
{
    const struct service *s = arg;
    struct rota_call call;
    int amount = (int)strtol(r->body, NULL, 10);

    if (!rt_counter_asked(r, &call) || amount <= 0) {
        rt_http_request_answer(r, 400, NULL, NULL, 0);
        return;
    }
    struct rt_event e = {
        .kind = RT_EVENT_CALL, .service = s->number, .op = call.op, .number = amount};
    memcpy(e.txn, call.txn, sizeof(e.txn));
    int status = fenced(s, &call, amount, &e);
    if (status == 200 || status == 409) { /* else the call is repeated */
        rt_stage_tell(s->stage, &e);
        end_victim(s, &call);
    }
    rt_http_request_answer(r, status, NULL, NULL, 0);
}

/* ---- The service ------------------------------------------------------------------------------ */

static bool make(const struct service *s)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "INSERT INTO account VALUES ('fenced', %d, 0, 0), ('bare', %d, 0, 0)",
             rt_order_before[s->number], rt_order_before[s->number]);
    return say(s->db, "CREATE TABLE account (who TEXT PRIMARY KEY, free INTEGER, reserved INTEGER, "
                      "taken INTEGER)") &&
           say(s->db, sql) && rota_fence_make_sqlite(s->db) == 0;
}

int rt_counter_serve(const struct rt_stage *stage, void *arg)
{
    struct service s = {.stage = stage, .number = *(int *)arg};
    const char *name = rt_order_names[s.number];
    const struct rt_http_route routes[] = {
        {.method = "POST", .path = "/*", .handle = handle, .arg = &s, .takes = RT_HTTP_ANY}};
    struct rt_http_server_options options = {.threads = 1, .routes = routes, .route_count = 1};
    struct rt_http_server *server;
    char path[PATH_MAX + 32], why[160];

    if (sqlite3_open(rt_stage_database(stage, s.number, path), &s.db) != SQLITE_OK || !make(&s))
        return rt_stage_fail(stage, name, sqlite3_errmsg(s.db));
    sqlite3_busy_timeout(s.db, BUSY_MS);
    if (rt_http_server_start(&server, &options, why, sizeof(why)) != 0)
        return rt_stage_fail(stage, name, why);
    rt_stage_tell(stage, &(struct rt_event){.kind = RT_EVENT_READY,
                                            .service = s.number,
                                            .number = rt_http_server_port(server)});
    for (;;)
        pause();
}

bool rt_counter_read(const struct rt_stage *stage, int service, struct rt_counter *with,
                     struct rt_counter *bare, int *tried, char *why, size_t size)
{
    char path[PATH_MAX + 32];
    int both[2][3];
    sqlite3 *db = NULL;
    bool good = sqlite3_open(rt_stage_database(stage, service, path), &db) == SQLITE_OK &&
                numbers(db, "SELECT free, reserved, taken FROM account WHERE who = 'fenced'",
                        both[0], 3) &&
                numbers(db, "SELECT free, reserved, taken FROM account WHERE who = 'bare'", both[1],
                        3) &&
                numbers(db, "SELECT COUNT(*) FROM rota_fence WHERE state = 1", tried, 1);

    if (good) {
        *with = (struct rt_counter){both[0][0], both[0][1], both[0][2]};
        *bare = (struct rt_counter){both[1][0], both[1][1], both[1][2]};
    } else
        snprintf(why, size, "%s: %s", rt_order_names[service], sqlite3_errmsg(db));
    sqlite3_close(db);
    return good;
}
