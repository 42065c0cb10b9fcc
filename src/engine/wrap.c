/* SPDX-License-Identifier: Apache-2.0 */
/* Wrappers: what all of them share. */
#include "engine/wrap.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

int rt_wrap_put(struct rt_conn **conn, const struct rt_engine *engine)
{
    assert(engine->conn_size >= sizeof(struct rt_wrap));
    struct rt_wrap *wrap = rt_alloc(engine->conn_size);
    if (wrap == NULL)
        return ROTA_NOMEM;
    wrap->conn = **conn;
    wrap->conn.engine = engine;
    wrap->inner = *conn;
    wrap->inner->up = &wrap->up;
    *conn = &wrap->conn;
    return 0;
}

void rt_wrap_close_inner(struct rt_wrap *wrap)
{
    struct rt_conn *inner = wrap->inner;
    inner->engine->close(inner);
    wrap->inner = NULL; /* first: another thread may fork */
    rt_free(inner);
}

void rt_wrap_follow(struct rt_wrap *wrap)
{
    memcpy(wrap->conn.errmsg, wrap->inner->errmsg, sizeof(wrap->conn.errmsg));
    memcpy(wrap->conn.unsafe, wrap->inner->unsafe, sizeof(wrap->conn.unsafe));
    wrap->conn.ttl_ms = wrap->inner->ttl_ms;
}

void rt_wrap_held(struct rt_up *up,
                  void (*each)(void *arg, const char *name, uint64_t number, bool granted),
                  void *arg)
{
    struct rt_up *outer = rt_wrap_of_up(up)->conn.up;
    if (outer->held != NULL)
        outer->held(outer, each, arg);
}

uint32_t rt_wrap_caps(const struct rt_conn *conn)
{
    const struct rt_conn *inner = ((const struct rt_wrap *)(const void *)conn)->inner;
    return inner->engine->caps(inner);
}

void rt_wrap_forked(struct rt_conn *conn)
{
    struct rt_conn *inner = ((struct rt_wrap *)(void *)conn)->inner;
    if (inner != NULL && inner->engine->forked != NULL)
        inner->engine->forked(inner);
}

bool rt_wrap_parting(struct rt_conn *conn)
{
    struct rt_conn *inner = ((struct rt_wrap *)(void *)conn)->inner;
    return inner->engine->parting != NULL && inner->engine->parting(inner);
}

const char *rt_wrap_trouble(const struct rt_conn *conn)
{
    const struct rt_conn *inner = ((const struct rt_wrap *)(const void *)conn)->inner;
    return inner->engine->trouble != NULL ? inner->engine->trouble(inner) : NULL;
}

int rt_wrap_keep(struct rt_conn *conn, int *fd)
{
    struct rt_conn *inner = ((struct rt_wrap *)(void *)conn)->inner;
    return inner->engine->keep != NULL ? inner->engine->keep(inner, fd) : ROTA_UNSUPPORTED;
}
