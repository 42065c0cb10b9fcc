/* SPDX-License-Identifier: Apache-2.0 */
/* Observing lines: a row asks for rings, the state is read when one was heard. */
#include "engine/file/file.h"

static struct rt_file_observation *observation_of(struct rt_view *v)
{
    return (struct rt_file_observation *)(void *)v;
}

static int read_state(struct rt_file_conn *c, const char *name, struct rt_view_state *st)
{
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_LINE_FRONT);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    *st = (struct rt_view_state){0};
    (void)sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        st->mode = (uint32_t)sqlite3_column_int64(s, 4);
        st->of = (uint32_t)sqlite3_column_int64(s, 5);
        st->count = (size_t)sqlite3_column_int64(s, 6); /* of the same moment */
    }
    if (rc == SQLITE_ROW && (sqlite3_column_int64(s, 1) & RT_FILE_GRANTED) != 0) {
        st->fence = (uint64_t)sqlite3_column_int64(s, 0);
        rt_view_value(st, sqlite3_column_text(s, 2), (size_t)sqlite3_column_bytes(s, 2));
        rt_view_label(st, sqlite3_column_text(s, 3), (size_t)sqlite3_column_bytes(s, 3));
    }
    (void)sqlite3_reset(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
}

static void tell_one(struct rt_file_conn *c, struct rt_view *v)
{
    struct rt_view_state st;
    if (read_state(c, v->name, &st) != 0) {
        rt_file_wait_look_soon(c); /* still dirty: again then */
        return;
    }
    observation_of(v)->dirty = false;
    rt_view_tell(&c->base, v, &st);
}

void rt_file_observe_dirty(struct rt_file_conn *c, const char *name)
{
    struct rt_view *v = c->observations;
    while ((v = rt_view_of(v, name)) != NULL) {
        observation_of(v)->dirty = true;
        v = v->next;
    }
}

void rt_file_observe_tell(struct rt_file_conn *c, bool all)
{
    for (struct rt_view *v = c->observations; v != NULL; v = v->next)
        if (all || observation_of(v)->dirty)
            tell_one(c, v);
}

int rt_file_observe_again(struct rt_file_conn *c)
{
    int rv = 0;
    for (struct rt_view *v = c->observations; v != NULL && rv == 0; v = v->next)
        rv = rt_file_line_run(c, RT_FILE_OBSERVER_ADD, v->name, 1,
                              (int64_t[]){(int64_t)c->session});
    if (rv == 0 && c->observations != NULL)
        rv = rt_file_run(c, RT_FILE_META_OBSERVERS, 0, NULL);
    return rv;
}

/* Asks for rings, or no longer. They go to a session's socket: a client that only observes gets a
 * session for it, which the next BEAT(open) takes over. */
static int set_row(struct rt_file_conn *c, enum rt_file_stmt which, const char *name)
{
    int rv = 0;
    if (c->session == 0 && which == RT_FILE_OBSERVER_ADD) {
        rv = rt_file_session_open(c);
        c->session_spare = rv == 0;
    }
    if (rv == 0 && c->session == 0)
        return 0;
    if (rv == 0)
        rv = rt_file_begin(c);
    if (rv != 0)
        return rv;
    rv = rt_file_line_run(c, which, name, 1, (int64_t[]){(int64_t)c->session});
    if (rv == 0)
        rv = rt_file_run(c, RT_FILE_META_OBSERVERS, 0, NULL);
    if (rv == 0)
        return rt_file_commit(c);
    rt_file_rollback(c);
    return rv;
}

static int stop(struct rt_file_conn *c, struct rt_op *op)
{
    struct rt_view *v = rt_view_find(c->observations, op->observe.cookie);
    if (v == NULL)
        return 0;
    bool last = rt_view_of(c->observations, v->name) == v && rt_view_of(v->next, v->name) == NULL;
    int rv = last ? set_row(c, RT_FILE_OBSERVER_DROP, v->name) : 0;
    if (rv == 0)
        rt_view_stop(v);
    return rv;
}

int rt_file_observe(struct rt_file_conn *c, struct rt_op *op)
{
    if (op->observe.stop)
        return stop(c, op);
    struct rt_view *v = rt_view_find(c->observations, op->observe.cookie);
    int rv = rt_file_check_name(c, op->observe.name);
    if (rv == 0 && v == NULL) {
        v = rt_view_new(&c->observations, sizeof(struct rt_file_observation), op->observe.name,
                        op->observe.cookie);
        rv = v != NULL ? set_row(c, RT_FILE_OBSERVER_ADD, v->name) : ROTA_NOMEM;
        if (v != NULL && rv != 0)
            rt_view_free(v);
    }
    if (rv != 0)
        return rv;
    v->told = false;
    tell_one(c, v);
    rt_file_wait_look_soon(c);
    return 0;
}
