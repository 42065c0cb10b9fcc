/* SPDX-License-Identifier: Apache-2.0 */
/* A statement, or several in one packet, on a PGconn *. */
#include "engine/postgres/libpq.h"
#include "txn/branch/talk.h"

#include <rota.h>

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void lose(struct rt_talk *t)
{
    struct rt_said *said = &t->said;

    said->lost = said->failed = true;
    rt_talk_line(said->text, sizeof(said->text), rt_pq.PQerrorMessage(t->conn));
}

static void take_error(struct rt_talk *t, const PGresult *result)
{
    struct rt_said *said = &t->said;
    const char *state = rt_pq.PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = rt_pq.PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    /* Without a state it is the library's own error: the connection is gone. So it is with the classes 08 and 57P. */
    if (state == NULL || strncmp(state, "08", 2) == 0 || strncmp(state, "57P", 3) == 0) {
        lose(t);
        return;
    }
    if (said->failed)
        return; /* the first counts */
    said->failed = true;
    snprintf(said->state, sizeof(said->state), "%s", state);
    rt_talk_line(said->text, sizeof(said->text), text != NULL ? text : state);
}

static void take_rows(struct rt_talk *t, const PGresult *result)
{
    char *values[RT_SAID_CELLS];
    int cells = rt_pq.PQnfields(result), rows = rt_pq.PQntuples(result);

    cells = cells < RT_SAID_CELLS ? cells : RT_SAID_CELLS;
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < cells; c++)
            values[c] = rt_pq.PQgetisnull(result, r, c) != 0 ? NULL
                                                             : rt_pq.PQgetvalue(result, r, c);
        rt_talk_row(t, cells, values);
    }
}

/* By its tag; also for a ROLLBACK TO a savepoint, which has the same tag. */
static bool ends_a_transaction(const char *tag)
{
    return strcmp(tag, "COMMIT") == 0 || strcmp(tag, "ROLLBACK") == 0 ||
           strcmp(tag, "PREPARE TRANSACTION") == 0;
}

static void take(struct rt_talk *t, PGresult *result)
{
    const char *counted = rt_pq.PQcmdTuples(result), *tag = rt_pq.PQcmdStatus(result);

    assert(result != NULL);
    if (t->whole != NULL && rt_pq.PQresultStatus(result) == PGRES_TUPLES_OK) {
        t->whole(t->whole_arg, result);
        return;
    }
    switch (rt_pq.PQresultStatus(result)) {
    case PGRES_TUPLES_OK:
        take_rows(t, result);
        break;
    case PGRES_COMMAND_OK:
        if (counted[0] != '\0')
            t->said.affected = strtoull(counted, NULL, 10);
        break;
    case PGRES_EMPTY_QUERY:
        break;
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
        t->said.lost = t->said.failed = true;
        rt_talk_line(
            t->said.text, sizeof(t->said.text),
            "COPY has data for the client, or wants some, which cannot be handled here: run "
            "it on the connection itself, before");
        break;
    default:
        take_error(t, result);
    }
    if (!t->said.failed) {
        snprintf(t->said.tag, sizeof(t->said.tag), "%s", tag);
        rt_talk_result(t, strtoull(counted, NULL, 10), 0, ends_a_transaction(tag));
    }
    rt_pq.PQclear(result);
}

static bool read_results(struct rt_talk *t)
{
    while (rt_pq.PQisBusy(t->conn) == 0) {
        PGresult *result = rt_pq.PQgetResult(t->conn);
        if (result == NULL) {
            if (rt_pq.PQstatus(t->conn) != CONNECTION_OK && !t->said.lost)
                lose(t);
            return true;
        }
        ExecStatusType status = rt_pq.PQresultStatus(result);
        take(t, result);
        if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH)
            return true; /* lost: nobody here has what it wants */
    }
    t->events = POLLIN;
    return false;
}

static bool go_on(struct rt_talk *t)
{
    int left = rt_pq.PQflush(t->conn);

    if (left == 0)
        return read_results(t);
    if (left > 0) {
        t->events = POLLIN | POLLOUT;
        return false;
    }
    lose(t);
    return true;
}

static bool talk_send(struct rt_talk *t)
{
    t->until = INT64_MAX;
    if (rt_pq.PQsendQuery(t->conn, t->sql) == 1)
        return go_on(t);
    lose(t);
    return true;
}

static bool talk_advance(struct rt_talk *t, short events)
{
    PGresult *result;

    if (events == 0 || rt_pq.PQconsumeInput(t->conn) != 0)
        return go_on(t);
    while ((result = rt_pq.PQgetResult(t->conn)) !=
           NULL) /* what came before the end, and the end */
        take(t, result);
    if (!t->said.lost)
        lose(t);
    return true;
}

static int talk_usable(struct rt_talk *t, char *errmsg, size_t size)
{
    const char *why = rt_pq.PQstatus(t->conn) != CONNECTION_OK ? "the connection is not connected"
                      : rt_pq.PQpipelineStatus(t->conn) != PQ_PIPELINE_OFF
                          ? "the connection is in pipeline mode: leave it first"
                      : rt_pq.PQtransactionStatus(t->conn) == PQTRANS_ACTIVE
                          ? "an answer on the connection was not read to the end"
                          : NULL;
    if (why == NULL)
        return 0;
    snprintf(errmsg, size, "%s", why);
    return rt_pq.PQstatus(t->conn) != CONNECTION_OK ? ROTA_UNREACHABLE : ROTA_INVALID;
}

static int talk_fd(struct rt_talk *t)
{
    return rt_pq.PQsocket(t->conn);
}

const struct rt_talk_kind rt_talk_postgres = {
    .load = rt_libpq_load,
    .usable = talk_usable,
    .send = talk_send,
    .advance = talk_advance,
    .fd = talk_fd,
};
