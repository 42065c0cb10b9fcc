/* SPDX-License-Identifier: Apache-2.0 */
/* The fence on PostgreSQL.
 *
 * INSERT ... ON CONFLICT DO UPDATE waits for whoever inserts the same row, prepared transactions too. Under READ
 * COMMITTED it then changes the row that it finds. Under REPEATABLE READ and SERIALIZABLE a row that came after the
 * transaction's first statement is an error, which is reported as BUSY: the next attempt sees the row. */
#include "engine/postgres/libpq.h"
#include "txn/fence/fence.h"

#include <stdio.h>
#include <string.h>

static int ready(void *conn, enum rt_fence_in in, char *errmsg, size_t size)
{
    int err = rt_libpq_load(errmsg, size);
    const char *why = NULL;

    if (err != 0)
        return err;
    switch (rt_pq.PQtransactionStatus(conn)) {
    case PQTRANS_IDLE:
        why = in == RT_FENCE_INSIDE ? "there is no transaction: BEGIN comes first" : NULL;
        break;
    case PQTRANS_INTRANS:
        why = in == RT_FENCE_OUTSIDE
                  ? "the connection is in a transaction: COMMIT or ROLLBACK comes first"
                  : NULL;
        break;
    case PQTRANS_INERROR:
        why = "the transaction has failed: ROLLBACK comes first";
        break;
    case PQTRANS_ACTIVE:
        why = "an answer on the connection was not read to the end";
        break;
    default:
        snprintf(errmsg, size, "the connection has ended: answer 425");
        return ROTA_UNREACHABLE;
    }
    if (why == NULL && rt_pq.PQpipelineStatus(conn) != PQ_PIPELINE_OFF)
        why = "the connection is in pipeline mode: leave it first";
    if (why == NULL)
        return 0;
    snprintf(errmsg, size, "%s", why);
    return ROTA_INVALID;
}

static void say(void *conn, char *sql, struct rt_said *said,
                void (*row)(void *arg, int cells, char *const *values), void *arg)
{
    rt_fence_talk(&rt_talk_postgres, conn, sql, said, row, arg);
}

static int error_of(const struct rt_said *said)
{
    static const struct {
        const char *state;
        int err;
    } known[] = {
        {"40001", ROTA_BUSY},        {"40P01", ROTA_BUSY}, /* serialization, deadlock */
        {"55P03", ROTA_BUSY},        {"57014", ROTA_BUSY}, /* lock_timeout, statement_timeout */
        {"42501", ROTA_AUTH},        {"42P01", ROTA_UNSUPPORTED}, /* no table */
        {"42703", ROTA_UNSUPPORTED}, {"42P10", ROTA_UNSUPPORTED}, /* no column, no such key */
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(said->state, known[i].state) == 0)
            return known[i].err;
    return ROTA_INVALID;
}

const struct rt_fence_kind rt_fence_postgres = {
    .title = "PostgreSQL",
    .make = "rota_fence_make_postgres",
    .ddl =
        "CREATE TABLE IF NOT EXISTS " RT_FENCE_TABLE
        " (txn text COLLATE \"C\" NOT NULL, branch bigint NOT NULL, state smallint NOT NULL, was "
        "smallint NOT NULL, deadline bigint NOT NULL, PRIMARY KEY (txn, branch))",
    .there = "SELECT to_regclass('" RT_FENCE_TABLE "')",
    .ready = ready,
    .say = say,
    .error = error_of,
};
