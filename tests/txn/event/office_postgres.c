/* SPDX-License-Identifier: Apache-2.0 */
#include "office.h"

#include <libpq-fe.h>
#include <stdio.h>

static int put(void *conn, const struct rota_event *e)
{
    return rota_event_put_postgres(conn, e);
}

static int make(void *conn)
{
    return rota_event_make_postgres(conn);
}

static int take(void *conn, const char *consumer, const char *event_id)
{
    return rota_event_take_postgres(conn, consumer, event_id);
}

static int processed(void *conn, const char *map, const char *event_id)
{
    return rota_event_processed_postgres(conn, map, event_id);
}

static void explain(void *conn, const char *sql, char *out, size_t size)
{
    PGresult *rows = PQexec(conn, sql);
    size_t n = 0;

    if (PQresultStatus(rows) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    out[0] = '\0';
    for (int i = 0; i < PQntuples(rows) && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s\n", PQgetvalue(rows, i, 0));
    PQclear(rows);
}

const struct office office_postgres = {
    .site = &site_postgres,
    .put = put,
    .make = make,
    .take = take,
    .processed = processed,
    .begin = "BEGIN",
    .orders =
        "CREATE TABLE tbl_order_event (id bigserial PRIMARY KEY, order_type text, process varchar(16) NOT NULL, content jsonb, create_time timestamp DEFAULT now(), update_time timestamp DEFAULT now())",
    .aged = "now() - interval '1 hour'",
    .short_wait = "SET lock_timeout = '300ms'",
    .text = "convert_from(payload, 'UTF8')",
    .explain = explain,
    .by_index = {"Index Scan using rota_event_new on rota_event e",
                 "Index Scan using rota_event_published on rota_event e"},
    .not_so = {"Seq Scan on rota_event ", "Sort"},
    .plans =
        {"Index Scan using rota_event_new on rota_event e|Index Scan using rota_event_published on rota_event e|Index Scan using rota_event_dead on rota_event e|",
         "Seq Scan on rota_event |rota_event_pkey|", "Index Scan using rota_event_|",
         "Seq Scan on rota_event |rota_event_pkey|",
         "Index Only Scan using rota_event_new |Index Only Scan using rota_event_published |Index Only Scan using rota_event_processed |Index Only Scan using rota_event_dead |",
         "Seq Scan on rota_event |Sort|",
         "Index Only Scan using rota_event_published |Index Only Scan using rota_event_processed |Index Scan Backward using rota_event_pkey |",
         "Seq Scan on rota_event |Sort|"},
    .rows_lock = true,
};
