/* SPDX-License-Identifier: Apache-2.0 */
/* Events in PostgreSQL: several statements in one message, and NOTIFY. */
#include "engine/postgres/libpq.h"
#include "txn/event/store_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MS INT64_C(1000000)
#define BYTEA 17 /* the type's OID */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c - 'a' + 10;
}

/* \x6162, in place; it comes from the server, always in this form (bytea_output). */
static size_t decode(char *text, size_t size)
{
    size_t n = 0;

    if (size < 2 || text[0] != '\\' || text[1] != 'x')
        return size;
    for (size_t i = 2; i + 1 < size; i += 2)
        text[n++] = (char)(digit(text[i]) << 4 | digit(text[i + 1]));
    text[n] = '\0';
    return n;
}

static void take(void *arg, void *result)
{
    struct rt_store *s = arg;
    size_t rows = (size_t)rt_pq.PQntuples(result), cols = (size_t)rt_pq.PQnfields(result);
    struct rt_result *r = rt_store_result(s, rows, cols);

    if (r == NULL) {
        rt_pq.PQclear(result);
        s->q.failed = true;
        return;
    }
    r->raw = result;
    for (size_t i = 0; i < rows * cols; i++) {
        int row = (int)(i / cols), col = (int)(i % cols);
        if (rt_pq.PQgetisnull(result, row, col) != 0)
            continue;
        char *text = rt_pq.PQgetvalue(result, row, col);
        size_t size = (size_t)rt_pq.PQgetlength(result, row, col);
        if (rt_pq.PQftype(result, col) == BYTEA)
            size = decode(text, size);
        r->cells[i] = (struct rt_cell){.text = text, .size = size};
    }
}

static void release(struct rt_result *r)
{
    if (r->raw != NULL)
        rt_pq.PQclear(r->raw);
}

static void say(struct rt_store *s)
{
    rt_store_talk(s, take);
}

static int connect_to(struct rt_store *s, char *errmsg, size_t size)
{
    int err = rt_reach_dial(s->reach, &s->url, (int64_t)s->o.call_ms * MS, false, &s->conn, errmsg,
                            size);

    if (err != 0)
        return err;
    /* UTC: for a `timestamp` of the map each role may have a zone of its own, and relays must agree. */
    rt_stmt_clear(&s->q);
    rt_stmt_add(
        &s->q,
        "SET TimeZone = 'UTC'; SET default_transaction_isolation = 'read committed'; SET client_encoding = "
        "'UTF8'; SET bytea_output = 'hex'; SET standard_conforming_strings = on; SET "
        "synchronous_commit = on; SET idle_in_transaction_session_timeout = %" PRIu32
        "; SET lock_timeout = %" PRIu32 "%s",
        s->o.lease_ms, s->o.lock_ms != 0 ? s->o.lock_ms : s->o.call_ms / 2,
        s->o.reads_only ? "" : "; LISTEN " RT_EVENT_CHANNEL);
    return rt_store_say(s);
}

static void hang_up(struct rt_store *s)
{
    s->reach->hang_up(s->conn);
}

/* True: there was a NOTIFY. */
static bool drain(struct rt_store *s)
{
    bool some = false;

    for (PGnotify *n; (n = rt_pq.PQnotifies(s->conn)) != NULL; some = true)
        rt_pq.PQfreemem(n);
    return some;
}

static int wait_for(struct rt_store *s, int64_t ms, int wake_fd)
{
    if (drain(s))
        return 1;
    int woken = rt_store_poll(ms, wake_fd, rt_pq.PQsocket(s->conn));
    if (rt_pq.PQconsumeInput(s->conn) == 0) {
        hang_up(s);
        s->conn = NULL;
        return rt_store_fail(s, ROTA_UNREACHABLE, "%s: the connection has ended", s->map.table);
    }
    return drain(s) || woken;
}

const struct rt_store_kind rt_store_postgres = {
    .dialect = RT_STMT_POSTGRES,
    .fence = &rt_fence_postgres,
    .connect = connect_to,
    .hang_up = hang_up,
    .say = say,
    .release = release,
    .wait = wait_for,
};
