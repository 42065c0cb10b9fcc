/* SPDX-License-Identifier: Apache-2.0 */
/* Wrappers: engines that stand between a client and another engine's open connection.
 *
 *     client  --submit-->  wrap.conn  --submit-->  inner
 *     client  <--done---   wrap.conn  <--done----  inner   (inner->up is &wrap.up)
 *
 * Wrappers are put on after the inner connection was opened and before anything was
 * submitted; any number may be stacked. All connections come from rt_alloc: a wrapper's
 * close closes its inner connection and frees it; the wrapper's own memory is given back by
 * whoever gives back connections. */
#ifndef RT_WRAP_H
#define RT_WRAP_H

#include "engine/engine.h"

#include <stddef.h>

struct rt_wrap {
    struct rt_conn conn;
    struct rt_up up; /* what the inner connection talks to */
    struct rt_conn *inner;
};

/* Puts a connection of ENGINE, whose struct begins with a struct rt_wrap, around *CONN and
 * stores it there. The caller fills wrap->up. ROTA_NOMEM: *CONN is as it was. */
int rt_wrap_put(struct rt_conn **conn, const struct rt_engine *engine);

/* Closes and frees the inner connection. */
void rt_wrap_close_inner(struct rt_wrap *wrap);

/* Takes over what an inner op's end may have changed: errmsg, unsafe and ttl_ms. */
void rt_wrap_follow(struct rt_wrap *wrap);

/* What a wrapper passes through unchanged. */
uint32_t rt_wrap_caps(const struct rt_conn *conn);
void rt_wrap_forked(struct rt_conn *conn);
int rt_wrap_keep(struct rt_conn *conn, int *fd);
bool rt_wrap_parting(struct rt_conn *conn);
const char *rt_wrap_trouble(const struct rt_conn *conn);
void rt_wrap_held(struct rt_up *up,
                  void (*each)(void *arg, const char *name, uint64_t number, bool granted),
                  void *arg);

static inline struct rt_wrap *rt_wrap_of_up(struct rt_up *up)
{
    return (struct rt_wrap *)((char *)up - offsetof(struct rt_wrap, up));
}

#endif
