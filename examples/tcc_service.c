/* SPDX-License-Identifier: Apache-2.0 */
/* A service that takes part in transactions by try, confirm and cancel: a shelf, in SQLite, over libmicrohttpd.
 *
 *   tcc_service DATABASE ITEMS    serves on 127.0.0.1, prints its port; GET / says how many are free, reserved, sold
 *
 * The fence is one call in the same local transaction as the work: calls that come doubled, late, out of order, or
 * without their try do no harm (docs/transactions/tcc.md). tcc_service.py is the same in Python; tcc_order.c calls
 * them. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <rota_txn.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BODY_MOST 32

struct post { /* a request whose body is coming */
    char body[BODY_MOST];
    size_t size;
};

static const char *const works[] = {
    [ROTA_OP_TRY] = "UPDATE shelf SET free = free - ?1, reserved = reserved + ?1 WHERE free >= ?1",
    [ROTA_OP_CONFIRM] = "UPDATE shelf SET reserved = reserved - ?1, sold = sold + ?1",
    [ROTA_OP_CANCEL] = "UPDATE shelf SET reserved = reserved - ?1, free = free + ?1",
};

static bool say(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* False: there are not that many. */
static bool work(sqlite3 *db, int op, int items)
{
    sqlite3_stmt *s = NULL;
    bool done = sqlite3_prepare_v2(db, works[op], -1, &s, NULL) == SQLITE_OK &&
                sqlite3_bind_int(s, 1, items) == SQLITE_OK && sqlite3_step(s) == SQLITE_DONE &&
                sqlite3_changes(db) == 1;

    sqlite3_finalize(s);
    return done;
}

/* One local transaction: the fence, then the work if the fence says so. Returns the status to answer, once it is
 * committed. */
static int serve(sqlite3 *db, const struct rota_call *call, int items)
{
    enum rota_fenced verdict;
    int status;

    if (!say(db, "BEGIN IMMEDIATE"))
        return 425; /* locked: ask again */
    int err = rota_fence_sqlite(db, call, &verdict);
    if (err != 0)
        status = err == ROTA_BUSY ? 425 : 500;
    else if (verdict == ROTA_FENCE_DO)
        status = work(db, call->op, items) ? 200 : 409;
    else /* done before; or a cancel whose try never came: committing it makes the try be refused */
        status = verdict == ROTA_FENCE_DONE || verdict == ROTA_FENCE_EMPTY ? 200 : 409;
    if (status == 200 && !say(db, "COMMIT"))
        status = 425;
    if (status != 200)
        say(db, "ROLLBACK");
    return status;
}

/* ---- HTTP -------------------------------------------------------------------------------- */

static enum MHD_Result answer(struct MHD_Connection *c, int status, const char *text)
{
    char copy[100];
    int size = snprintf(copy, sizeof(copy), "%s\n", text);
    struct MHD_Response *r = MHD_create_response_from_buffer((size_t)size, copy,
                                                             MHD_RESPMEM_MUST_COPY);
    enum MHD_Result rv = MHD_queue_response(c, (unsigned)status, r);

    MHD_destroy_response(r);
    return rv;
}

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static enum MHD_Result on_post(struct MHD_Connection *c, sqlite3 *db, const char *body)
{
    int items = (int)strtol(body, NULL, 10);
    struct rota_call call;

    if (items <= 0 || rota_call_read(&call, header(c, "Rota-Txn"), header(c, "Rota-Branch"),
                                     header(c, "Rota-Op"), header(c, "Rota-Deadline")) != 0)
        return answer(c, 400, "what is that?");
    int status = serve(db, &call, items);
    return answer(c, status, status == 200 ? "done" : status == 409 ? "refused" : "under way");
}

static enum MHD_Result on_get(struct MHD_Connection *c, sqlite3 *db)
{
    sqlite3_stmt *s = NULL;
    char text[80] = "nothing";

    if (sqlite3_prepare_v2(db, "SELECT free, reserved, sold FROM shelf", -1, &s, NULL) ==
            SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        snprintf(text, sizeof(text), "%d free, %d reserved, %d sold", sqlite3_column_int(s, 0),
                 sqlite3_column_int(s, 1), sqlite3_column_int(s, 2));
    sqlite3_finalize(s);
    return answer(c, 200, text);
}

/* Called for the head, for parts of the body, and once more at its end. */
static enum MHD_Result on_request(void *db, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **arg)
{
    struct post *post = *arg;

    (void)url, (void)version;
    if (strcmp(method, "GET") == 0)
        return on_get(c, db);
    if (strcmp(method, "POST") != 0)
        return answer(c, 405, "POST or GET");
    if (post == NULL) {
        *arg = calloc(1, sizeof(*post));
        return *arg != NULL ? MHD_YES : MHD_NO;
    }
    if (*size > 0) { /* the body is a number; anything longer is not */
        for (size_t i = 0; i < *size && post->size < BODY_MOST - 1; i++)
            post->body[post->size++] = data[i];
        *size = 0;
        return MHD_YES;
    }
    return on_post(c, db, post->body);
}

static void on_end(void *arg, struct MHD_Connection *c, void **post,
                   enum MHD_RequestTerminationCode why)
{
    (void)arg, (void)c, (void)why;
    free(*post);
}

/* ---- The service ------------------------------------------------------------------------------ */

static sqlite3 *open_shelf(const char *path, int items)
{
    char sql[120];
    sqlite3 *db = NULL;

    snprintf(sql, sizeof(sql),
             "INSERT INTO shelf SELECT %d, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM shelf)", items);
    if (sqlite3_open(path, &db) == SQLITE_OK && sqlite3_busy_timeout(db, 5000) == SQLITE_OK &&
        say(db,
            "CREATE TABLE IF NOT EXISTS shelf (free INTEGER, reserved INTEGER, sold INTEGER)") &&
        say(db, sql) && rota_fence_make_sqlite(db) == 0)
        return db;
    fprintf(stderr, "%s: %s\n", path, sqlite3_errmsg(db));
    sqlite3_close(db);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET}; /* any port that is free */

    if (argc != 3) {
        fprintf(stderr, "usage: tcc_service DATABASE ITEMS\n");
        return 64;
    }
    sqlite3 *db = open_shelf(argv[1], (int)strtol(argv[2], NULL, 10));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct MHD_Daemon *d = /* one thread: one connection to the database is enough */
        db == NULL ? NULL
                   : MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, on_request,
                                      db, MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_NOTIFY_COMPLETED,
                                      on_end, NULL, MHD_OPTION_END);
    if (d == NULL)
        return 1;
    printf("%u\n", (unsigned)MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    for (;;)
        pause();
}
