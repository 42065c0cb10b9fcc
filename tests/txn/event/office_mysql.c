/* SPDX-License-Identifier: Apache-2.0 */
#include "office.h"

#include <mysql.h>
#include <stdio.h>

static int put(void *conn, const struct rota_event *e)
{
    return rota_event_put_mysql(conn, e);
}

static int make(void *conn)
{
    return rota_event_make_mysql(conn);
}

static int take(void *conn, const char *consumer, const char *event_id)
{
    return rota_event_take_mysql(conn, consumer, event_id);
}

static int processed(void *conn, const char *map, const char *event_id)
{
    return rota_event_processed_mysql(conn, map, event_id);
}

static void explain(void *conn, const char *sql, char *out, size_t size)
{
    size_t n = 0;

    if (mysql_query(conn, sql) != 0)
        fail_msg("%s: %s", sql, mysql_error(conn));
    MYSQL_RES *rows = mysql_store_result(conn);
    assert_non_null(rows);
    out[0] = '\0';
    for (MYSQL_ROW row; (row = mysql_fetch_row(rows)) != NULL;)
        for (unsigned i = 0; i < mysql_num_fields(rows) && n < size; i++)
            n += (size_t)snprintf(out + n, size - n, "%s%s", row[i] != NULL ? row[i] : "-",
                                  i + 1 < mysql_num_fields(rows) ? " " : "\n");
    mysql_free_result(rows);
}

const struct office office_mysql = {
    .site = &site_mysql,
    .put = put,
    .make = make,
    .take = take,
    .processed = processed,
    .begin = "BEGIN",
    .orders =
        "CREATE TABLE tbl_order_event (id BIGINT AUTO_INCREMENT PRIMARY KEY, order_type VARCHAR(64), process VARCHAR(16) NOT NULL, content TEXT, create_time DATETIME DEFAULT CURRENT_TIMESTAMP, update_time DATETIME DEFAULT CURRENT_TIMESTAMP)",
    .aged = "NOW() - INTERVAL 1 HOUR",
    .short_wait = "SET innodb_lock_wait_timeout = 1",
    .text = "payload",
    .explain = explain,
    .by_index = {" ref rota_event_state rota_event_state ",
                 " range rota_event_updated rota_event_updated "},
    .not_so = {"filesort", " ALL - "},
    .plans = {" e range rota_event_state rota_event_state |", " ALL - |filesort|",
              " rota_event_key rota_event_key |", " ALL - |filesort|", "Using index|",
              " e ALL - |filesort|",
              " range rota_event_state,rota_event_updated rota_event_updated |e index - PRIMARY |",
              " e ALL - |filesort|"},
    .rows_lock = true,
};
