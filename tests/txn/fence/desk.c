/* SPDX-License-Identifier: Apache-2.0 */
/* A service under test: its calls, what they did, and what they should do. */
#include "desk.h"

#include "txn/core/name.h"
#include "txn/fence/call.h"

#include <stdio.h>
#include <stdlib.h>

void *desk_open(void)
{
    return HERE->site->connect(0);
}

void desk_close(void *conn)
{
    HERE->site->close(conn);
}

void desk_sql(void *conn, const char *format, ...)
{
    char sql[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    if (!HERE->site->sql(conn, sql))
        fail_msg("%s", sql);
}

long long desk_number(const char *format, ...)
{
    char sql[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    return HERE->site->number(sql);
}

struct rota_call call_new(enum rota_op op)
{
    struct rt_part part = part_new(1 + (uint32_t)rand() % 3);
    struct rota_call call;

    rt_call_of(&call, &part.name, op);
    return call;
}

struct rota_call call_as(const struct rota_call *call, enum rota_op op)
{
    struct rota_call same = *call;

    same.op = (int32_t)op;
    return same;
}

struct rota_call call_aged(enum rota_op op, int64_t ms)
{
    struct rt_part part = part_new(1);
    struct rota_call call;

    int64_t birth = rt_txn_id_birth(&part.name.id) - ms - 60000;
    part.name.id = rt_txn_id_make(SITE_JOURNAL, birth, (uint64_t)rand());
    part.name.deadline_ms = birth + 60000;
    rt_call_of(&call, &part.name, op);
    return call;
}

enum rota_fenced fenced(void *conn, const struct rota_call *call)
{
    enum rota_fenced verdict = 0;
    int err = HERE->fence(conn, call, &verdict);

    if (err != 0)
        fail_msg("the fence: %s: %s", rota_strerror(err), rota_txn_errmsg(NULL));
    return verdict;
}

void effect(void *conn, const struct rota_call *call)
{
    desk_sql(conn, "INSERT INTO effects VALUES ('%s', %u, %d)", call->txn, call->branch, call->op);
}

enum rota_fenced serve(void *conn, const struct rota_call *call)
{
    desk_sql(conn, "%s", HERE->begin);
    enum rota_fenced verdict = fenced(conn, call);
    if (verdict == ROTA_FENCE_DO)
        effect(conn, call);
    desk_sql(conn, verdict == ROTA_FENCE_EARLY ? "ROLLBACK" : "COMMIT");
    return verdict;
}

long long effects(const struct rota_call *call, enum rota_op op)
{
    return desk_number("SELECT COUNT(*) FROM effects WHERE txn = '%s' AND branch = %u AND op = %d",
                       call->txn, call->branch, op);
}

long long fence_rows(const struct rota_call *call)
{
    return desk_number("SELECT COUNT(*) FROM rota_fence WHERE txn = '%s' AND branch = %u",
                       call->txn, call->branch);
}

enum rota_fenced model_call(struct model *m, enum rota_op op)
{
    struct model before = *m;

    if (op == ROTA_OP_TRY) {
        if (m->cancelled || m->closed)
            return ROTA_FENCE_LATE;
        m->tried = true;
        return before.tried ? ROTA_FENCE_DONE : ROTA_FENCE_DO;
    }
    if (op == ROTA_OP_CONFIRM) {
        if (m->cancelled)
            return ROTA_FENCE_CROSSED;
        if (!m->tried)
            return ROTA_FENCE_EARLY; /* which is rolled back */
        m->confirmed = true;
        return before.confirmed ? ROTA_FENCE_DONE : ROTA_FENCE_DO;
    }
    if (m->confirmed)
        return ROTA_FENCE_CROSSED;
    m->cancelled = m->tried;
    m->closed = !m->tried;
    if (before.cancelled || before.closed)
        return ROTA_FENCE_DONE;
    return m->tried ? ROTA_FENCE_DO : ROTA_FENCE_EMPTY;
}
