/* SPDX-License-Identifier: Apache-2.0 */
/* Observations: only what differs is told. */
#include "engine/kit/view.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"
#include "core/timers.h"

#include <assert.h>
#include <string.h>

void *rt_view_new(struct rt_view **list, size_t size, const char *name, void *cookie)
{
    size_t room = strlen(name) + 1;
    char *block = rt_alloc(size + room);
    assert(size >= sizeof(struct rt_view));
    if (block == NULL)
        return NULL;
    struct rt_view *v = (struct rt_view *)(void *)block;
    v->name = memcpy(block + size, name, room);
    v->cookie = cookie;
    RT_LIST_ADD(list, v);
    return v;
}

void rt_view_free(struct rt_view *v)
{
    assert(*v->link == v);
    RT_LIST_OUT(v);
    rt_free(v);
}

void rt_view_close(struct rt_view **list)
{
    while (*list != NULL)
        rt_view_free(*list);
}

struct rt_view *rt_view_find(struct rt_view *list, const void *cookie)
{
    while (list != NULL && (list->over || list->cookie != cookie))
        list = list->next;
    return list;
}

struct rt_view *rt_view_of(struct rt_view *list, const char *name)
{
    while (list != NULL && (list->over || strcmp(list->name, name) != 0))
        list = list->next;
    return list;
}

int64_t rt_view_next(const struct rt_view *list)
{
    int64_t next = RT_NEVER;
    for (; list != NULL; list = list->next)
        if (!list->over && !list->looking && list->look_at < next)
            next = list->look_at;
    return next;
}

bool rt_view_begin(struct rt_view *v)
{
    assert(!v->over);
    bool begins = !v->looking;
    v->again = !begins && !RT_BUG(RT_BUG_NO_LOOK_ONCE_MORE);
    v->looking = true;
    return begins;
}

bool rt_view_end(struct rt_view *v)
{
    assert(v->looking);
    v->looking = false;
    if (!v->over)
        return true;
    rt_view_free(v);
    return false;
}

void rt_view_stop(struct rt_view *v)
{
    assert(!v->over);
    v->over = true;
    if (!v->looking)
        rt_view_free(v);
}

static void copy_text(char *out, size_t room, const void *text, size_t size)
{
    size_t n = size < room - 1 ? size : room - 1;
    if (n > 0)
        memcpy(out, text, n);
    out[n] = '\0';
}

void rt_view_value(struct rt_view_state *s, const void *text, size_t size)
{
    copy_text(s->value, sizeof(s->value), text, size);
}

void rt_view_label(struct rt_view_state *s, const void *text, size_t size)
{
    copy_text(s->label, sizeof(s->label), text, size);
}

static bool is_same(const struct rt_view_state *a, const struct rt_view_state *b)
{
    return a->fence == b->fence && a->count == b->count && a->mode == b->mode && a->of == b->of &&
           strcmp(a->value, b->value) == 0 && strcmp(a->label, b->label) == 0;
}

bool rt_view_news(struct rt_view *v, const struct rt_view_state *s, struct rt_event *event)
{
    if (v->told && is_same(s, &v->last) && !RT_BUG(RT_BUG_SAME_STATE_TOLD))
        return false;
    v->told = true;
    v->last = *s;
    *event = (struct rt_event){
        .kind = RT_CHANGED,
        .name = v->name,
        .cookie = v->cookie,
        .front = {.fence = s->fence, .value = v->last.value, .label = v->last.label},
        .count = s->count,
        .mode = s->mode,
        .of = s->of,
    };
    return true;
}

void rt_view_tell(struct rt_conn *conn, struct rt_view *v, const struct rt_view_state *s)
{
    struct rt_event event;
    if (rt_view_news(v, s, &event))
        rt_conn_event(conn, &event);
}
