/* SPDX-License-Identifier: Apache-2.0 */
/* INSPECT of a line or of a session, and LIST: they read lines, and tell all in one go. */
#include "engine/zookeeper/ops.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct one {                /* a line that is looked at */
    struct rt_zk_look look; /* first */
    char *name;
};

struct showing {
    struct rt_work work; /* first */
    struct rt_shown_list shown;
    struct one *ones;
    size_t n, room;
};

static struct showing *of(struct rt_work *w)
{
    return (struct showing *)(void *)w;
}

static void free_showing(struct rt_conn *conn, struct rt_work *w)
{
    struct showing *s = of(w);
    (void)conn;
    rt_shown_fini(&s->shown);
    for (size_t i = 0; i < s->n; i++) {
        rt_zk_look_fini(&s->ones[i].look);
        rt_free(s->ones[i].name);
    }
    rt_free(s->ones);
}

/* ---- INSPECT ---------------------------------------------------------------------------------- */

static int show(struct rt_zk *z, struct showing *s, const char *name, const struct rt_zk_place *p)
{
    struct rt_zk_card card;
    rt_zk_card_read(z, p->data, &card);
    size_t value = card.value.size < ROTA_VALUE_MAX ? card.value.size : ROTA_VALUE_MAX;
    struct rt_shown *shown = rt_shown_add(&s->shown, (struct rt_text){name, strlen(name)},
                                          card.foreign ? (struct rt_text){p->node, strlen(p->node)}
                                                       : card.label,
                                          (struct rt_text){card.value.at, value});
    if (shown == NULL)
        return rt_words_nomem(&z->base);
    struct rota_place *place = &shown->place;
    int64_t now = rt_zk_shown_ms(z), ends = rt_zk_ends_ms(p);
    place->number = rt_zk_number(p);
    place->session = p->id.durable                 ? 0
                     : p->id.ours && !card.foreign ? p->id.session
                                                   : (uint64_t)p->stat.owner;
    place->owner = card.owner;
    place->since_ms = p->stat.ctime == 0 ? -1 : now > p->stat.ctime ? now - p->stat.ctime : 0;
    place->left_ms = ends == 0 ? -1 : ends > now ? ends - now : 0;
    /* Nobody tells how long a session still has; at most its timeout, which we take to be ours, as for most it is. */
    if (!p->id.durable && (p->stat.owner != 0 || p->stat.czxid == 0)) /* others' may have none */
        place->left_ms = z->c.session.timeout_ms;
    place->mode = p->id.mode;
    place->take = p->id.take;
    place->of = p->id.of;
    place->flags = (p->granted ? ROTA_PLACE_GRANTED : 0u) |
                   (p->id.durable ? ROTA_PLACE_DURABLE : 0u) |
                   (p->id.detect ? ROTA_PLACE_DETECT : 0u) |
                   (card.foreign && !p->id.durable ? ROTA_PLACE_FOREIGN : 0u);
    if (p->id.ours && rt_zk_ticket_find(z, name, p->id.session, 0, p->id.nonce) != NULL &&
        !(p->id.durable && p->id.keep_ms > 0))
        place->flags |= ROTA_PLACE_MINE;
    return 0;
}

static void inspected(struct rt_zk *z, struct rt_zk_look *look)
{
    struct showing *s = look->owner;
    const struct rt_op *op = s->work.op;
    int err = look->err;
    for (size_t i = 0; err == 0 && i < look->line.count; i++) {
        const struct rt_zk_place *p = &look->line.places[i];
        if (op->inspect.name != NULL || (p->id.session == op->inspect.session && !p->id.durable))
            err = show(z, s, look->name, p);
    }
    rt_work_note(&z->base, &s->work, err);
    if (s->work.pending > 0)
        return;
    if (s->work.err == 0)
        rt_shown_tell(&s->shown, op);
    rt_zk_end(z, &s->work, 0);
}

/* Adds one more line to look at; looks begin when all are there. */
static int add(struct rt_zk *z, struct showing *s, struct rt_text name)
{
    char *copy = rt_alloc(name.size + 1);
    if (copy == NULL || !rt_grow(&s->ones, &s->room, s->n + 1, sizeof(*s->ones))) {
        rt_free(copy);
        return rt_words_nomem(&z->base);
    }
    memcpy(copy, name.at, name.size);
    s->ones[s->n++] = (struct one){.name = copy};
    return 0;
}

static void look_all(struct rt_zk *z, struct showing *s, uint32_t flags, rt_zk_looked_fn *fn,
                     int err)
{
    for (size_t i = 0; err == 0 && i < s->n; i++)
        err = rt_zk_work_look(z, &s->work, &s->ones[i].look, s->ones[i].name, flags, fn);
    rt_work_note(&z->base, &s->work, err);
    if (s->work.pending == 0)
        rt_zk_end(z, &s->work, 0);
}

static bool is_known(const struct showing *s, struct rt_text name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strlen(s->ones[i].name) == name.size &&
            memcmp(s->ones[i].name, name.at, name.size) == 0)
            return true;
    return false;
}

/* A session's node: the label, and the lines it waits in with DETECT, each behind a newline. */
static void session_seen(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct showing *s = a->owner;
    struct rt_text text = rt_zk_answered_node(err, reply, NULL);
    const char *at = text.at, *end = at + text.size;
    while (err == 0 && at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        at++;
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct rt_text name = {at, (size_t)((stop != NULL ? stop : end) - at)};
        if (name.size > 0 && !is_known(s, name))
            err = add(z, s, name);
    }
    look_all(z, s, RT_ZK_LOOK_DATA | RT_ZK_LOOK_SHOWN, inspected, err);
}

/* Reads PATH for W, after all that anybody was answered before. */
static int read_synced(struct rt_zk *z, struct rt_work *w, enum rt_zk_call call, const char *path,
                       rt_zk_answer_fn *answer)
{
    int rv = rt_zk_post(&z->c, rt_zk_path(&z->c, RT_ZK_SYNC, path, NULL));
    return rv != 0 ? rv : rt_zk_work_send(z, w, rt_zk_read(&z->c, call, path, false, answer), 0);
}

static int begin_inspect(void *engine, struct rt_work *w)
{
    struct rt_zk *z = engine;
    struct showing *s = of(w);
    const char *name = w->op->inspect.name;
    if (name == NULL)
        return read_synced(z, w, RT_ZK_GET, rt_zk_session_path(z, w->op->inspect.session),
                           session_seen);
    int rv = rt_check_name(&z->base, name);
    if (rv == 0)
        rv = add(z, s, (struct rt_text){name, strlen(name)});
    if (rv == 0)
        rv = rt_zk_work_look(z, w, &s->ones[0].look, s->ones[0].name,
                             RT_ZK_LOOK_SYNC | RT_ZK_LOOK_DATA | RT_ZK_LOOK_SHOWN, inspected);
    return rv;
}

const struct rt_turn_kind rt_zk_inspect = {
    .size = sizeof(struct showing), .begin = begin_inspect, .free = free_showing};

/* ---- LIST ------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct one *)a)->name, ((const struct one *)b)->name);
}

static void listed(struct rt_zk *z, struct rt_zk_look *look)
{
    struct showing *s = look->owner;
    const struct rt_op *op = s->work.op;
    rt_work_note(&z->base, &s->work, look->err);
    if (s->work.pending > 0)
        return;
    for (size_t i = 0; s->work.err == 0 && i < s->n; i++) {
        const struct rt_zk_line *line = &s->ones[i].look.line;
        if (line->count > 0) /* an empty one is no line: it will be reaped */
            op->list.each(op->list.arg, s->ones[i].name, line->count, line->count - line->waiting);
    }
    rt_zk_end(z, &s->work, 0);
}

static void lines_seen(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct showing *s = a->owner;
    const char *prefix = s->work.op->list.prefix != NULL ? s->work.op->list.prefix : "";
    char name[RT_NAME_ROOM];
    size_t n = err == 0 && reply->said == RT_ZK_OK ? rt_jute_get_count(&reply->body, 4) : 0;
    for (size_t i = 0; err == 0 && i < n; i++) {
        struct rt_text node = rt_jute_get_bytes(&reply->body);
        if (reply->body.bad)
            err = rt_zk_odd(&z->c);
        else if (rt_zk_name_read(z, node, name) && strncmp(name, prefix, strlen(prefix)) == 0)
            err = add(z, s, (struct rt_text){name, strlen(name)});
    }
    if (s->n > 1)
        qsort(s->ones, s->n, sizeof(*s->ones), by_name);
    look_all(z, s, RT_ZK_LOOK_SHOWN, listed, err);
}

static int begin_list(void *engine, struct rt_work *w)
{
    struct rt_zk *z = engine;
    const char *prefix = w->op->list.prefix;
    if (prefix != NULL && strlen(prefix) >= RT_NAME_ROOM)
        return rt_words_fail(&z->base, ROTA_INVALID, "a prefix is too long");
    return read_synced(z, w, RT_ZK_CHILDREN, rt_zk_root(z), lines_seen);
}

const struct rt_turn_kind rt_zk_list = {
    .size = sizeof(struct showing), .begin = begin_list, .free = free_showing};
