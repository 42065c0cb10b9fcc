/* SPDX-License-Identifier: Apache-2.0 */
/* Ops of several requests. */
#include "engine/kit/work.h"

#include "base/alloc.h"
#include "base/list.h"
#include "engine/kit/words.h"

#include <assert.h>
#include <string.h>

void *rt_work_new(struct rt_work **list, struct rt_conn *conn, size_t size, struct rt_op *op)
{
    assert(size >= sizeof(struct rt_work));
    struct rt_work *w = rt_alloc(size);
    if (w == NULL) {
        (void)rt_words_nomem(conn);
        return NULL;
    }
    w->op = op;
    RT_LIST_ADD(list, w);
    return w;
}

static int gravity(int err)
{
    return err == 0 ? 0 : err == ROTA_LOST ? 3 : err == ROTA_UNKNOWN ? 2 : 1;
}

void rt_work_note(struct rt_conn *conn, struct rt_work *w, int err)
{
    if (gravity(err) <= gravity(w->err))
        return;
    w->err = err;
    memcpy(w->errmsg, conn->errmsg, sizeof(w->errmsg));
}

static void work_free(struct rt_conn *conn, struct rt_work *w)
{
    RT_LIST_OUT(w);
    if (w->free != NULL)
        w->free(conn, w);
    rt_free(w);
}

void rt_work_settle(struct rt_conn *conn, struct rt_work *w)
{
    if (w->pending == 0 && w->op == NULL)
        work_free(conn, w);
}

void rt_work_end(struct rt_conn *conn, struct rt_work *w, int err)
{
    struct rt_op *op = w->op;
    rt_work_note(conn, w, err);
    w->op = NULL;
    if (w->err != 0)
        memcpy(conn->errmsg, w->errmsg, sizeof(w->errmsg));
    if (op != NULL)
        rt_conn_done(conn, op, w->err);
    rt_work_settle(conn, w);
}

bool rt_work_has_time(const struct rt_op *op)
{
    if (op->kind != RT_OP_JOIN && op->kind != RT_OP_JOIN_ALL)
        return op->kind == RT_OP_LEAVE;
    const struct rt_join *join = &op->join.joins[0];
    return (join->flags & RT_JOIN_TRY) == 0 && join->mode <= RT_PERMITS;
}

void rt_work_close(struct rt_work **list, struct rt_conn *conn)
{
    while (*list != NULL)
        work_free(conn, *list);
}
