/* SPDX-License-Identifier: Apache-2.0 */
/* errmsg, the log, and sentences. A name is cut so that the rest of a sentence has room. */
#include "engine/kit/words.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#define LOG_ROOM 512

int rt_words_fail(struct rt_conn *conn, int err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(conn->errmsg, sizeof(conn->errmsg), format, args);
    va_end(args);
    return err;
}

int rt_words_nomem(struct rt_conn *conn)
{
    return rt_words_fail(conn, ROTA_NOMEM, "out of memory");
}

void rt_words_log(struct rt_conn *conn, int level, const char *format, ...)
{
    char line[LOG_ROOM];
    va_list args;
    if (conn->up == NULL || conn->up->log == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    conn->up->log(conn->up, level, line);
}

void rt_words_kind(char *out, size_t size, int64_t mode, int64_t of)
{
    static const char *const kinds[] = {"a lock", "a lock", "permits", "a latch", "a barrier"};
    if (mode < 0 || mode > RT_GATHER)
        (void)snprintf(out, size, "of an unknown kind");
    else if (mode <= RT_SHARED)
        (void)snprintf(out, size, "%s", kinds[mode]);
    else
        (void)snprintf(out, size, "%s of %lld", kinds[mode], (long long)of);
}

int rt_words_other_kind(struct rt_conn *conn, const struct rt_join *join, int64_t mode, int64_t of)
{
    char is[48], asked[48];
    rt_words_kind(is, sizeof(is), mode, of);
    rt_words_kind(asked, sizeof(asked), join->mode, join->of);
    return rt_words_fail(conn, ROTA_INVALID, "%.120s is %s now, not %s: use another name",
                         join->name, is, asked);
}

int rt_words_busy(struct rt_conn *conn, const char *name, const char *holder, size_t size)
{
    assert(holder != NULL || size == 0);
    if (size == 0)
        return rt_words_fail(conn, ROTA_BUSY, "%.120s is held", name);
    return rt_words_fail(conn, ROTA_BUSY, "%.100s is held by %.*s", name,
                         size < 100 ? (int)size : 100, holder);
}

int rt_words_no_ticket(struct rt_conn *conn, const char *name)
{
    return rt_words_fail(conn, ROTA_LOST, "the ticket is not in the line of %.120s any more", name);
}

int rt_words_no_session(struct rt_conn *conn, uint64_t session)
{
    return rt_words_fail(conn, ROTA_LOST, "session %llx has ended", (unsigned long long)session);
}

int rt_words_no_such(struct rt_conn *conn, const char *name)
{
    return rt_words_fail(conn, ROTA_LOST, "no such ticket in the line of %.120s", name);
}

int rt_words_set_ended(struct rt_conn *conn)
{
    return rt_words_fail(conn, ROTA_LOST, "one ticket of the set has ended");
}

int rt_words_not_exclusive(struct rt_conn *conn, const char *name)
{
    return rt_words_fail(conn, ROTA_INVALID, "%.120s: only a lock can be downgraded", name);
}

void rt_words_verdict(const struct rt_op *op, const char *promise, const char *verdict,
                      const char *setting, const char *remedy)
{
    assert(op->kind == RT_OP_CHECK);
    struct rota_verdict v = {promise, verdict, setting, remedy};
    op->check.each(op->check.arg, &v);
}
