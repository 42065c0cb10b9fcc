/* SPDX-License-Identifier: Apache-2.0 */
/* Events in MariaDB: several statements in one packet; READ COMMITTED, so that no gap is locked and no writer waits. */
#include "txn/branch/libmysql.h"
#include "txn/event/store_inside.h"

#include <inttypes.h>
#include <stdio.h>

#define MS INT64_C(1000000)

static void take(void *arg, void *result)
{
    struct rt_store *s = arg;
    size_t rows = (size_t)rt_my.mysql_num_rows(result), cols = rt_my.mysql_num_fields(result);
    struct rt_result *r = rt_store_result(s, rows, cols);
    struct rt_cell *cell = r != NULL ? r->cells : NULL;

    if (r == NULL) {
        rt_my.mysql_free_result(result);
        s->q.failed = true;
        return;
    }
    r->raw = result;
    for (char **row; (row = rt_my.mysql_fetch_row(result)) != NULL;) {
        const unsigned long *sizes = rt_my.mysql_fetch_lengths(result);
        for (size_t i = 0; i < cols; i++)
            *cell++ = (struct rt_cell){.text = row[i], .size = sizes[i]};
    }
}

static void release(struct rt_result *r)
{
    if (r->raw != NULL)
        rt_my.mysql_free_result(r->raw);
}

static void say(struct rt_store *s)
{
    rt_store_talk(s, take);
}

static int connect_to(struct rt_store *s, char *errmsg, size_t size)
{
    int err = rt_reach_dial(s->reach, &s->url, (int64_t)s->o.call_ms * MS, true, &s->conn, errmsg,
                            size);

    if (err != 0)
        return err;
    /* No cache of subqueries: it takes keys that differ only by their collation for one. Strict: what does not fit is
     * an error. */
    unsigned lock_s = (s->o.lock_ms != 0 ? s->o.lock_ms : s->o.call_ms / 2) / 1000;
    rt_stmt_clear(&s->q);
    rt_stmt_add(&s->q,
                "SET SESSION tx_isolation = 'READ-COMMITTED', autocommit = 1, optimizer_switch = "
                "'subquery_cache=off', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
                "sql_select_limit = 18446744073709551615, idle_transaction_timeout = %" PRIu32
                ", innodb_lock_wait_timeout = %u%s",
                (s->o.lease_ms + 999) / 1000, lock_s > 0 ? lock_s : 1,
                s->utc ? ", time_zone = '+00:00'" : "");
    return rt_store_say(s);
}

static void hang_up(struct rt_store *s)
{
    s->reach->hang_up(s->conn);
}

static int wait_for(struct rt_store *s, int64_t ms, int wake_fd)
{
    (void)s;
    return rt_store_poll(ms, wake_fd, -1);
}

const struct rt_store_kind rt_store_mysql = {
    .dialect = RT_STMT_MYSQL,
    .fence = &rt_fence_mysql,
    .connect = connect_to,
    .hang_up = hang_up,
    .say = say,
    .release = release,
    .wait = wait_for,
};
