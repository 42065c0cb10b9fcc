/* SPDX-License-Identifier: Apache-2.0 */
/* A statement on a MYSQL *, by the nonblocking calls of MariaDB's client library.
 *
 *   QUERY ──▶ has rows: STORE ──▶ more results: NEXT ──▶ ... ──▶ IDLE */
#include "txn/branch/libmysql.h"
#include "txn/branch/talk.h"

#include <rota.h>

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>

enum { IDLE, QUERY, STORE, NEXT };

#define CLIENT_FIRST 2000 /* errors of the library itself */
#define CLIENT_LAST 2999
#define OUT_OF_SYNC 2014 /* an answer was not read: nothing was sent */
#define SHUTDOWN 1053
#define KILLED 1927
#define NET_FIRST 1156 /* broken packets, failed reads and writes */
#define NET_LAST 1161

static bool is_lost(unsigned code)
{
    return (code >= CLIENT_FIRST && code <= CLIENT_LAST && code != OUT_OF_SYNC) ||
           code == SHUTDOWN || code == KILLED || (code >= NET_FIRST && code <= NET_LAST);
}

static void take_error(struct rt_talk *t)
{
    struct rt_said *said = &t->said;

    if (said->failed || said->lost)
        return; /* the first counts */
    said->code = rt_my.mysql_errno(t->conn);
    said->failed = true;
    said->lost = is_lost(said->code);
    snprintf(said->state, sizeof(said->state), "%s", rt_my.mysql_sqlstate(t->conn));
    rt_talk_line(said->text, sizeof(said->text), rt_my.mysql_error(t->conn));
}

static void take_rows(struct rt_talk *t, struct st_mysql_res *rows)
{
    assert(rows != NULL);
    if (t->whole != NULL) {
        t->whole(t->whole_arg, rows);
        return;
    }
    int cells = (int)rt_my.mysql_num_fields(rows);
    for (char **row; (row = rt_my.mysql_fetch_row(rows)) != NULL;)
        rt_talk_row(t, cells, row);
    rt_my.mysql_free_result(rows);
}

/* WAIT is what the library waits for; 0: it has done the stage. */
static bool waits(struct rt_talk *t, int wait)
{
    struct timespec now;

    t->events = (short)(((wait & RT_MYSQL_WAIT_READ) != 0 ? POLLIN : 0) |
                        ((wait & RT_MYSQL_WAIT_WRITE) != 0 ? POLLOUT : 0) |
                        ((wait & RT_MYSQL_WAIT_EXCEPT) != 0 ? POLLPRI : 0));
    t->until = INT64_MAX;
    if ((wait & RT_MYSQL_WAIT_TIMEOUT) != 0) {
        clock_gettime(CLOCK_BOOTTIME, &now);
        t->until = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec +
                   (int64_t)rt_my.mysql_get_timeout_value_ms(t->conn) * 1000000;
    }
    return wait != 0;
}

/* Runs stages from the end of one whose call returned WAIT. True: all have ended. */
static bool run(struct rt_talk *t, int wait, int err, struct st_mysql_res *rows)
{
    for (;;) {
        if (waits(t, wait))
            return false;
        if (t->stage == STORE && rows != NULL)
            take_rows(t, rows);
        if (t->stage == STORE ? rows == NULL : err != 0) {
            take_error(t);
            break;
        }
        if (t->stage != STORE && rt_my.mysql_field_count(t->conn) > 0) {
            t->stage = STORE;
            rows = NULL;
            wait = rt_my.mysql_store_result_start(&rows, t->conn);
            continue;
        }
        unsigned warnings = rt_my.mysql_warning_count(t->conn);
        t->said.warnings += warnings;
        if (t->stage != STORE)
            t->said.affected = rt_my.mysql_affected_rows(t->conn);
        rt_talk_result(t, rt_my.mysql_affected_rows(t->conn), warnings, false);
        if (!rt_my.mysql_more_results(t->conn))
            break;
        t->stage = NEXT;
        wait = rt_my.mysql_next_result_start(&err, t->conn);
    }
    t->stage = IDLE;
    return true;
}

static bool talk_send(struct rt_talk *t)
{
    int err = 0;

    assert(t->stage == IDLE);
    t->stage = QUERY;
    int wait = rt_my.mysql_real_query_start(&err, t->conn, t->sql, t->size);
    return run(t, wait, err, NULL);
}

static bool talk_advance(struct rt_talk *t, short events)
{
    struct st_mysql_res *rows = NULL;
    int err = 0, wait = 0;
    int ready = ((events & (POLLIN | POLLERR | POLLHUP)) != 0 ? RT_MYSQL_WAIT_READ : 0) |
                ((events & (POLLOUT | POLLERR | POLLHUP)) != 0 ? RT_MYSQL_WAIT_WRITE : 0) |
                ((events & POLLPRI) != 0 ? RT_MYSQL_WAIT_EXCEPT : 0);

    if (ready == 0)
        ready = RT_MYSQL_WAIT_TIMEOUT;
    switch (t->stage) {
    case QUERY:
        wait = rt_my.mysql_real_query_cont(&err, t->conn, ready);
        break;
    case STORE:
        wait = rt_my.mysql_store_result_cont(&rows, t->conn, ready);
        break;
    default:
        assert(t->stage == NEXT);
        wait = rt_my.mysql_next_result_cont(&err, t->conn, ready);
    }
    return run(t, wait, err, rows);
}

static int talk_usable(struct rt_talk *t, char *errmsg, size_t size)
{
    /* Nonblocking calls need a stack of their own, which changes nothing for blocking ones. Only once, for each call
     * makes a new one. */
    t->ready = t->ready || rt_my.mysql_options(t->conn, RT_MYSQL_OPT_NONBLOCK, NULL) == 0;
    bool gone = rt_my.mysql_get_socket(t->conn) < 0;
    if (t->ready && !gone)
        return 0;
    snprintf(errmsg, size,
             gone ? "the connection is not connected" : "a call on the connection has not ended");
    return gone ? ROTA_UNREACHABLE : ROTA_INVALID;
}

static int talk_fd(struct rt_talk *t)
{
    return rt_my.mysql_get_socket(t->conn);
}

const struct rt_talk_kind rt_talk_mysql = {
    .load = rt_libmysql_load,
    .usable = talk_usable,
    .send = talk_send,
    .advance = talk_advance,
    .fd = talk_fd,
};
