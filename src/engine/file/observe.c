/* SPDX-License-Identifier: Apache-2.0 */
/* Observing lines: a row asks for rings, the state is read when one was heard. */
#include "base/alloc.h"
#include "engine/file/file.h"

#include <string.h>

#define STATE_TEXT 1024

struct state {
    struct rota_front front;
    size_t count;
    uint64_t hash;
    uint32_t mode, of;
    char value[STATE_TEXT], label[STATE_TEXT];
};

static void copy_text(char *out, const unsigned char *text)
{
    size_t n = text != NULL ? strnlen((const char *)text, STATE_TEXT - 1) : 0;
    if (n > 0)
        memcpy(out, text, n);
    out[n] = '\0';
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash;
}

static int read_state(struct rt_file_conn *c, const char *name, struct state *st)
{
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_LINE_FRONT);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    st->front = (struct rota_front){.value = st->value, .label = st->label};
    st->value[0] = st->label[0] = '\0';
    st->mode = st->of = 0;
    st->count = 0;
    (void)sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        st->mode = (uint32_t)sqlite3_column_int64(s, 4);
        st->of = (uint32_t)sqlite3_column_int64(s, 5);
        st->count = (size_t)sqlite3_column_int64(s, 6); /* of the same moment */
    }
    if (rc == SQLITE_ROW && (sqlite3_column_int64(s, 1) & RT_FILE_GRANTED) != 0) {
        st->front.fence = (uint64_t)sqlite3_column_int64(s, 0);
        copy_text(st->value, sqlite3_column_text(s, 2));
        copy_text(st->label, sqlite3_column_text(s, 3));
    }
    (void)sqlite3_reset(s);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return rt_file_db_error(c, rc);
    st->hash = hash_text(hash_text(UINT64_C(0xcbf29ce484222325), st->value), st->label);
    return 0;
}

static void tell_one(struct rt_file_conn *c, struct rt_file_observation *o)
{
    struct state st;
    if (read_state(c, o->name, &st) != 0) {
        rt_file_wait_look_soon(c); /* still dirty: again then */
        return;
    }
    bool first = !o->told;
    bool same = o->fence == st.front.fence && o->count == st.count && o->hash == st.hash;
    o->dirty = false;
    if (same && !first)
        return;
    o->told = true;
    o->fence = st.front.fence;
    o->count = st.count;
    o->hash = st.hash;
    rt_conn_event(&c->base, &(struct rt_event){.kind = RT_CHANGED,
                                               .name = o->name,
                                               .cookie = o->cookie,
                                               .front = st.front,
                                               .count = st.count,
                                               .mode = st.mode,
                                               .of = st.of});
}

void rt_file_observe_dirty(struct rt_file_conn *c, const char *name)
{
    for (struct rt_file_observation *o = c->observations; o != NULL; o = o->next)
        if (strcmp(o->name, name) == 0)
            o->dirty = true;
}

void rt_file_observe_tell(struct rt_file_conn *c, bool all)
{
    for (struct rt_file_observation *o = c->observations; o != NULL; o = o->next)
        if (all || o->dirty)
            tell_one(c, o);
}

int rt_file_observe_again(struct rt_file_conn *c)
{
    int rv = 0;
    for (struct rt_file_observation *o = c->observations; o != NULL && rv == 0; o = o->next)
        rv = rt_file_line_run(c, RT_FILE_OBSERVER_ADD, o->name, 1,
                              (int64_t[]){(int64_t)c->session});
    if (rv == 0 && c->observations != NULL)
        rv = rt_file_run(c, RT_FILE_META_OBSERVERS, 0, NULL);
    return rv;
}

/* Asks for rings, or no more. They go to a session's socket: who only observes gets a session
 * for it, which the next BEAT(open) takes over. */
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
    struct rt_file_observation **at = &c->observations, *o, *other;
    while (*at != NULL && (*at)->cookie != op->observe.cookie)
        at = &(*at)->next;
    o = *at;
    if (o == NULL)
        return 0;
    for (other = c->observations; other != NULL; other = other->next)
        if (other != o && strcmp(other->name, o->name) == 0)
            break;
    int rv = other == NULL ? set_row(c, RT_FILE_OBSERVER_DROP, o->name) : 0;
    if (rv != 0)
        return rv;
    *at = o->next;
    rt_free(o);
    return 0;
}

int rt_file_observe(struct rt_file_conn *c, struct rt_op *op)
{
    if (op->observe.stop)
        return stop(c, op);
    const char *name = op->observe.name;
    size_t size = name != NULL ? strlen(name) + 1 : 0;
    if (size < 2 || size > RT_FILE_NAME_MAX + 1)
        return ROTA_INVALID;
    struct rt_file_observation *o = c->observations;
    while (o != NULL && o->cookie != op->observe.cookie)
        o = o->next;
    if (o == NULL) {
        struct rt_file_observation *fresh = rt_alloc(sizeof(*fresh) + size);
        if (fresh == NULL)
            return ROTA_NOMEM;
        int rv = set_row(c, RT_FILE_OBSERVER_ADD, name);
        if (rv != 0) {
            rt_free(fresh);
            return rv;
        }
        memcpy(fresh->name, name, size);
        fresh->cookie = op->observe.cookie;
        fresh->next = c->observations;
        c->observations = o = fresh;
    }
    o->told = false;
    tell_one(c, o);
    rt_file_wait_look_soon(c);
    return 0;
}

void rt_file_observe_close(struct rt_file_conn *c)
{
    while (c->observations != NULL) {
        struct rt_file_observation *o = c->observations;
        c->observations = o->next;
        rt_free(o);
    }
}
