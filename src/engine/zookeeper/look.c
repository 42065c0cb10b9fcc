/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a line: its children, and then, only where it matters, the data of some and when they were made.
 *
 *   [sync] getChildren ──▶ [getData of a barrier's line, of what ends by time, of what is wanted] ──▶ judged, told */
#include "engine/zookeeper/ops.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_MOST (64u << 20)
#define LINE_ITSELF UINT64_MAX

static void finish(struct rt_zk *z, struct rt_zk_look *look)
{
    const struct rt_zk_line *line = &look->line;
    int64_t now = look->flags & RT_ZK_LOOK_SHOWN ? rt_zk_shown_ms(z) : rt_zk_now_ms(z);
    size_t over = look->err == 0 ? rt_zk_line_judge(&look->line, now) : 0;
    for (size_t i = 0; i < over && look->flags & RT_ZK_LOOK_TIDY; i++)
        (void)rt_zk_chore_delete(z, look->name, line->places[line->count + i].node);
    look->ends_ms = 0;
    for (size_t i = 0; look->err == 0 && i < line->count; i++) {
        int64_t ends = rt_zk_ends_ms(&line->places[i]);
        if (ends != 0 && (look->ends_ms == 0 || ends < look->ends_ms))
            look->ends_ms = ends;
    }
    if (look->work != NULL)
        look->work->pending--;
    look->work = NULL;
    look->fn(z, look);
}

/* "bound SEQ": what a barrier's line says. */
static void read_bound(struct rt_zk_line *line, struct rt_text data)
{
    char text[32] = "";
    if (data.size >= sizeof(text) || data.size < 7)
        return;
    memcpy(text, data.at, data.size);
    line->bounded = strncmp(text, "bound ", 6) == 0;
    line->bound = (int32_t)(uint32_t)(uint64_t)strtoll(text + 6, NULL, 10);
}

static int keep_data(struct rt_zk *z, struct rt_zk_look *look, struct rt_zk_place *p,
                     struct rt_text data)
{
    char *copy = rt_arena_get(&look->arena, data.size + 1);
    if (copy == NULL)
        return rt_words_nomem(&z->base);
    if (data.size > 0)
        memcpy(copy, data.at, data.size);
    p->data = (struct rt_text){copy, data.size};
    return 0;
}

static void data_seen(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_look *look = a->owner;
    struct rt_zk_stat stat;
    struct rt_text data = rt_zk_answered_node(err, reply, &stat);
    if (err == 0 && reply->body.bad)
        err = rt_zk_odd(&z->c);
    if (err == 0 && a->extra == LINE_ITSELF) {
        read_bound(&look->line, data);
        look->version = stat.version;
    } else if (err == 0) {
        look->line.places[a->extra].stat = stat; /* gone meanwhile: it was there when we looked */
        err = keep_data(z, look, &look->line.places[a->extra], data);
    }
    look->err = look->err != 0 ? look->err : err;
    if (look->pending == 0)
        finish(z, look);
}

static bool wants_data(const struct rt_zk_look *look, size_t i)
{
    const struct rt_zk_id *id = &look->line.places[i].id;
    return look->flags & RT_ZK_LOOK_DATA || (look->flags & RT_ZK_LOOK_FRONT && i == 0) ||
           (id->durable && (id->until_ms > 0 || id->keep_ms > 0));
}

/* Reads PATH, for LOOK. */
static int ask(struct rt_zk *z, struct rt_zk_look *look, enum rt_zk_call call, const char *path,
               bool watch, rt_zk_answer_fn *answer, uint64_t extra)
{
    return rt_zk_send(&z->c, rt_zk_read(&z->c, call, path, watch, answer), look->op, look, extra,
                      &look->pending);
}

static int ask_data(struct rt_zk *z, struct rt_zk_look *look)
{
    int rv = 0;
    if (look->line.gathers)
        rv = ask(z, look, RT_ZK_GET, rt_zk_line_path(z, look->name), look->flags & RT_ZK_LOOK_WATCH,
                 data_seen, LINE_ITSELF);
    for (size_t i = 0; rv == 0 && i < look->line.count; i++) {
        bool watch = i == 0 && look->flags & RT_ZK_LOOK_FRONT;
        if (!wants_data(look, i))
            continue;
        const char *path = rt_zk_node_path(z, look->name, look->line.places[i].node);
        if (watch)
            rv = rt_zk_watch(&z->c, &look->front, RT_ZK_WATCH_DATA, path, look->fired, look->owner);
        if (rv == 0)
            rv = ask(z, look, RT_ZK_GET, path, watch, data_seen, i);
    }
    return rv;
}

static int send_list(struct rt_zk *z, struct rt_zk_look *look);

/* There is no line: when one is made, the watch fires. */
static void absence_seen(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_look *look = a->owner;
    if (err == 0 && reply->said == RT_ZK_OK) { /* it was made meanwhile */
        look->watch->kind = RT_ZK_WATCH_CHILDREN;
        err = send_list(z, look);
        if (err == 0)
            return;
    }
    look->err = err;
    finish(z, look);
}

static int await_line(struct rt_zk *z, struct rt_zk_look *look)
{
    look->watch->kind = RT_ZK_WATCH_ABSENCE;
    return ask(z, look, RT_ZK_EXISTS, rt_zk_line_path(z, look->name), true, absence_seen, 0);
}

static void list_seen(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct rt_zk_look *look = a->owner;
    if (err == 0 && reply->said == RT_ZK_OK) {
        err = rt_zk_line_read(&look->line, z->dialect, &reply->body);
        if (err != 0)
            err = err == ROTA_NOMEM ? rt_words_nomem(&z->base) : rt_zk_odd(&z->c);
    }
    if (err == 0 && reply->said == RT_ZK_NO_NODE && look->flags & RT_ZK_LOOK_WATCH &&
        look->watch != NULL && look->watch->link != NULL)
        err = await_line(z, look);
    else if (err == 0)
        err = ask_data(z, look);
    look->err = err;
    if (look->pending == 0)
        finish(z, look);
}

static int send_list(struct rt_zk *z, struct rt_zk_look *look)
{
    return ask(z, look, RT_ZK_CHILDREN, rt_zk_line_path(z, look->name),
               look->flags & RT_ZK_LOOK_WATCH, list_seen, 0);
}

int rt_zk_look(struct rt_zk *z, struct rt_zk_look *look, const char *name, uint32_t flags,
               struct rt_op *op, rt_zk_looked_fn *fn, void *owner)
{
    int rv = 0;
    rt_zk_look_fini(look);
    look->arena.most = ARENA_MOST;
    look->name = name;
    look->flags = flags;
    look->op = op;
    look->fn = fn;
    look->owner = owner;
    if (flags & RT_ZK_LOOK_SYNC)
        rv = rt_zk_post(&z->c, rt_zk_path(&z->c, RT_ZK_SYNC, rt_zk_line_path(z, name), NULL));
    return rv != 0 ? rv : send_list(z, look);
}

int rt_zk_work_look(struct rt_zk *z, struct rt_work *w, struct rt_zk_look *look, const char *name,
                    uint32_t flags, rt_zk_looked_fn *fn)
{
    int rv = rt_zk_look(z, look, name, flags, w->op, fn, w);
    look->work = rv == 0 ? w : NULL;
    w->pending += rv == 0;
    return rv;
}

void rt_zk_look_fini(struct rt_zk_look *look)
{
    rt_zk_line_fini(&look->line);
    rt_arena_fini(&look->arena);
    look->err = 0;
}
