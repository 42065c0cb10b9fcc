/* SPDX-License-Identifier: Apache-2.0 */
/* INSPECT of a line or of a session, and LIST: lines read, and told in one go. */
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
    size_t n;
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
    int64_t now = rt_zk_now_ms(z), ends = rt_zk_ends_ms(p);
    place->number = rt_zk_number(p);
    place->session = p->id.durable                 ? 0
                     : p->id.ours && !card.foreign ? p->id.session
                                                   : (uint64_t)p->stat.owner;
    place->owner = card.owner;
    place->since_ms = p->stat.ctime == 0 || now == 0 ? -1
                      : now > p->stat.ctime          ? now - p->stat.ctime
                                                     : 0;
    place->left_ms = ends == 0 || now == 0 ? -1 : ends > now ? ends - now : 0;
    if (!p->id
             .durable) /* nobody tells how long a session still has; it has no more than its timeout: ours, as most have */
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
    s->work.pending--;
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

/* One more line to look at; looks begin when all are there. */
static int add(struct rt_zk *z, struct showing *s, struct rt_text name)
{
    char *copy = rt_alloc(name.size + 1);
    if (copy == NULL)
        return rt_words_nomem(&z->base);
    memcpy(copy, name.at, name.size);
    s->ones[s->n++].name = copy;
    return 0;
}

static int room_for(struct rt_zk *z, struct showing *s, size_t n)
{
    s->ones = rt_alloc((n + 1) * sizeof(*s->ones));
    return s->ones != NULL ? 0 : rt_words_nomem(&z->base);
}

static void look_all(struct rt_zk *z, struct showing *s, uint32_t flags, rt_zk_looked_fn *fn,
                     int err)
{
    for (size_t i = 0; err == 0 && i < s->n; i++) {
        err = rt_zk_look(z, &s->ones[i].look, s->ones[i].name, flags, s->work.op, fn, s);
        s->work.pending += err == 0;
    }
    rt_work_note(&z->base, &s->work, err);
    if (s->work.pending == 0)
        rt_zk_end(z, &s->work, 0);
}

/* A session's node: the label, and the lines it waits in with DETECT, each behind a newline. */
static void session_seen(struct rt_zk_conn *c, struct rt_zk_ask *a, int err,
                         struct rt_zk_reply *reply)
{
    struct rt_zk *z = rt_zk_of(c);
    struct showing *s = a->owner;
    struct rt_text text = {0};
    size_t n = 0;
    if (err == 0 && reply->said == RT_ZK_OK)
        text = rt_jute_get_bytes(&reply->body);
    const char *at = text.at, *end = at + text.size;
    for (size_t i = 0; i < text.size; i++)
        n += at[i] == '\n';
    if (err == 0)
        err = room_for(z, s, n);
    while (err == 0 && at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        at++;
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct rt_text name = {at, (size_t)((stop != NULL ? stop : end) - at)};
        bool known = name.size == 0;
        for (size_t i = 0; i < s->n; i++)
            known = known || (strlen(s->ones[i].name) == name.size &&
                              memcmp(s->ones[i].name, at, name.size) == 0);
        if (!known)
            err = add(z, s, name);
    }
    look_all(z, s, RT_ZK_LOOK_DATA, inspected, err);
}

static int begin_inspect(void *engine, struct rt_work *w)
{
    struct rt_zk *z = engine;
    struct showing *s = of(w);
    const struct rt_op *op = w->op;
    char path[RT_ZK_PATH_ROOM];
    int rv = 0;
    if (op->inspect.name == NULL) {
        rt_zk_session_path(z, op->inspect.session, path);
        rv = rt_zk_post(&z->c, rt_zk_path(&z->c, RT_ZK_SYNC, path, NULL));
        return rv != 0 ? rv
                       : rt_zk_send(&z->c, rt_zk_read(&z->c, RT_ZK_GET, path, false, session_seen),
                                    w->op, s, 0, &w->pending);
    }
    rv = rt_check_name(&z->base, op->inspect.name);
    if (rv == 0)
        rv = room_for(z, s, 1);
    if (rv == 0)
        rv = add(z, s, (struct rt_text){op->inspect.name, strlen(op->inspect.name)});
    if (rv == 0)
        rv = rt_zk_look(z, &s->ones[0].look, s->ones[0].name, RT_ZK_LOOK_SYNC | RT_ZK_LOOK_DATA,
                        w->op, inspected, s);
    w->pending += rv == 0;
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
    s->work.pending--;
    rt_work_note(&z->base, &s->work, look->err);
    if (s->work.pending > 0)
        return;
    for (size_t i = 0; s->work.err == 0 && i < s->n; i++) {
        const struct rt_zk_line *line = &s->ones[i].look.line;
        if (line->count > 0) /* one that is empty is no line: it will be reaped */
            op->list.each(op->list.arg, s->ones[i].name, line->count, line->count - line->waiting);
    }
    rt_zk_end(z, &s->work, 0);
}

static void lines_seen(struct rt_zk_conn *c, struct rt_zk_ask *a, int err,
                       struct rt_zk_reply *reply)
{
    struct rt_zk *z = rt_zk_of(c);
    struct showing *s = a->owner;
    const char *prefix = s->work.op->list.prefix != NULL ? s->work.op->list.prefix : "";
    size_t n = err == 0 && reply->said == RT_ZK_OK ? rt_jute_get_count(&reply->body, 4) : 0;
    if (err == 0)
        err = room_for(z, s, n);
    for (size_t i = 0; err == 0 && i < n; i++) {
        struct rt_text name = rt_jute_get_bytes(&reply->body);
        if (name.size == 3 && memcmp(name.at, "%2E", 3) == 0)
            name = (struct rt_text){".", 1};
        else if (name.size == 6 && memcmp(name.at, "%2E%2E", 6) == 0)
            name = (struct rt_text){"..", 2};
        bool own = name.size == 5 && memcmp(name.at, RT_ZK_SESSIONS, 5) == 0;
        own = own || (z->root[0] == '\0' && name.size == 9 && memcmp(name.at, "zookeeper", 9) == 0);
        if (reply->body.bad)
            err = rt_zk_odd(c);
        else if (!own && name.size > 0 && name.size < RT_NAME_ROOM && name.size >= strlen(prefix) &&
                 memcmp(name.at, prefix, strlen(prefix)) == 0)
            err = add(z, s, name);
    }
    if (s->n > 1)
        qsort(s->ones, s->n, sizeof(*s->ones), by_name);
    look_all(z, s, 0, listed, err);
}

static int begin_list(void *engine, struct rt_work *w)
{
    struct rt_zk *z = engine;
    const char *prefix = w->op->list.prefix, *root = z->root[0] != '\0' ? z->root : "/";
    if (prefix != NULL && strlen(prefix) >= RT_NAME_ROOM)
        return rt_words_fail(&z->base, ROTA_INVALID, "a prefix is too long");
    int rv = rt_zk_post(&z->c, rt_zk_path(&z->c, RT_ZK_SYNC, root, NULL));
    return rv != 0 ? rv
                   : rt_zk_send(&z->c, rt_zk_read(&z->c, RT_ZK_CHILDREN, root, false, lines_seen),
                                w->op, w, 0, &w->pending);
}

const struct rt_turn_kind rt_zk_list = {
    .size = sizeof(struct showing), .begin = begin_list, .free = free_showing};
