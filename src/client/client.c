/* SPDX-License-Identifier: Apache-2.0 */
/* Small questions to a client. */
#include "client/client.h"

#include <string.h>

int rt_client_check(const struct rota *r, bool waits)
{
    if (r == NULL)
        return rt_fail(NULL, ROTA_INVALID, "there is no client");
    if (rt_forked(r))
        return rt_fail(r, ROTA_FORKED,
                       "this client belongs to the parent process: open another "
                       "one after fork()");
    if (waits && rt_callback_inside(r))
        return rt_fail(r, ROTA_INVALID,
                       "a call that waits cannot be made inside a callback: use "
                       "its _async twin");
    return 0;
}

int rt_client_begin(struct rota *r)
{
    rt_client_lock(r);
    if (!r->closing)
        return 0;
    uint64_t serial = r->serial;
    rt_client_unlock(r);
    return rt_fail_waiter(serial, ROTA_CLOSED, NULL);
}

uint32_t rota_caps(const struct rota *r)
{
    if (r == NULL || rt_forked(r))
        return 0;
    const struct rt_conn *conn = r->d.conn; /* once: rota_close takes it away */
    return conn != NULL ? conn->engine->caps(conn) : 0;
}

uint32_t rota_ttl_ms(const struct rota *r)
{
    if (r == NULL || rt_forked(r))
        return 0;
    const struct rt_conn *conn = r->d.conn;
    return conn != NULL ? conn->ttl_ms : 0;
}

int rota_keep_fd(struct rota *r, int *fd)
{
    int rv = rt_client_check(r, false);
    if (rv == 0 && fd == NULL)
        rv = rt_fail(r, ROTA_INVALID, "there is no place for the descriptor");
    if (rv == 0)
        rv = rt_client_begin(r);
    if (rv != 0)
        return rv;
    struct rt_conn *conn = r->d.conn;
    char text[sizeof(conn->errmsg)] = "sessions end by a time to live here, not with a process";
    rv = ROTA_UNSUPPORTED;
    if (conn->engine->keep != NULL) {
        rv = conn->engine->keep(conn, fd);
        memcpy(text, conn->errmsg, sizeof(text));
    }
    rt_client_leave(r);
    return rv != 0 ? rt_fail(r, rv, "%s", text) : 0;
}

void rota_interrupt(struct rota *r)
{
    if (r == NULL || rt_forked(r))
        return;
    atomic_fetch_add(&r->interrupts, 1);
    rt_loop_wake(&r->loop);
}
