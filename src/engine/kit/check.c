/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of names, values and joins. */
#include "engine/kit/check.h"

#include "engine/kit/words.h"
#include "engine/name.h"

#include <assert.h>
#include <string.h>

int rt_check_name(struct rt_conn *conn, const char *name)
{
    if (name == NULL || name[0] == '\0')
        return rt_words_fail(conn, ROTA_INVALID, "a line needs a name");
    if (strlen(name) >= RT_NAME_ROOM)
        return rt_words_fail(conn, ROTA_INVALID, "a name is too long");
    return 0;
}

int rt_check_value(struct rt_conn *conn, const char *name, const char *value)
{
    if (value == NULL || strlen(value) <= ROTA_VALUE_MAX)
        return 0;
    return rt_words_fail(conn, ROTA_INVALID, "%.120s: a value has at most %d bytes", name,
                         ROTA_VALUE_MAX);
}

static int check_one(struct rt_conn *conn, const struct rt_join *join)
{
    int rv = rt_check_name(conn, join->name);
    if (rv != 0)
        return rv;
    if (join->nonce == 0)
        return rt_words_fail(conn, ROTA_INVALID, "a join of %.120s without a nonce", join->name);
    if (!rt_grant_valid(join->mode, join->take, join->of))
        return rt_words_fail(conn, ROTA_INVALID, "%.120s: mode %u cannot take %u of %u", join->name,
                             join->mode, join->take, join->of);
    if (join->at_least_ms < 0 || join->until_ms < 0)
        return rt_words_fail(conn, ROTA_INVALID, "%.120s: a time cannot be negative", join->name);
    return rt_check_value(conn, join->name, join->value);
}

int rt_check_joins(struct rt_conn *conn, const struct rt_op *op)
{
    const struct rt_join *first = op->join.joins;
    assert(op->kind == RT_OP_JOIN_ALL || (op->kind == RT_OP_JOIN && op->join.n == 1));
    for (size_t i = 0; i < op->join.n; i++) {
        const struct rt_join *join = &op->join.joins[i];
        int rv = check_one(conn, join);
        if (rv != 0)
            return rv;
        if (join->session != first->session || ((join->flags ^ first->flags) & RT_JOIN_DURABLE))
            return rt_words_fail(conn, ROTA_INVALID, "a set is of one session");
    }
    return 0;
}

int rt_check_session(struct rt_conn *conn, const struct rt_op *op, uint64_t session)
{
    const struct rt_join *join = op->join.joins;
    assert(op->join.n > 0);
    if (join->flags & RT_JOIN_DURABLE || (session != 0 && join->session == session))
        return 0;
    return rt_words_no_session(conn, join->session);
}
