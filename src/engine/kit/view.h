/* SPDX-License-Identifier: Apache-2.0 */
/* Observations of lines (OBSERVE), by cookie: which there are, whether one is being looked at, and the one
 * place that decides what is told: a state that differs from the one told last.
 *
 *   rt_view_begin ── a look ──▶ rt_view_end ──▶ rt_view_tell ──▶ CHANGED, if it is news
 *        ▲ under way already: `again`  │ `again`
 *        └─────────────────────────────┘ */
#ifndef RT_VIEW_H
#define RT_VIEW_H

#include "engine/engine.h"

/* What CHANGED says. A line without a front, or one whose front is not granted: fence 0 and no texts. */
struct rt_view_state {
    uint64_t fence;
    size_t count;
    uint32_t mode, of;
    char value[ROTA_VALUE_MAX + 1], label[RT_LABEL_MAX + 1];
};

struct rt_view { /* first in the engine's struct */
    struct rt_view *next, **link;
    void *cookie;
    const char *name; /* behind the engine's struct */
    bool told;       /* `last` is what was told; set it to false and the next state is told again */
    bool looking;    /* between begin and end */
    bool again;      /* something came meanwhile: look once more after it */
    bool over;       /* stopped, but its look is under way */
    int64_t look_at; /* the engine's, if it looks by time: when next */
    struct rt_view_state last;
};

/* SIZE zeroed bytes that begin with a view, in *LIST. NULL: no memory. */
void *rt_view_new(struct rt_view **list, size_t size, const char *name, void *cookie);
void rt_view_free(struct rt_view *v);      /* out of its list */
void rt_view_close(struct rt_view **list); /* frees all */

/* Those that are not over: by cookie; the first of a line. Or NULL. */
struct rt_view *rt_view_find(struct rt_view *list, const void *cookie);
struct rt_view *rt_view_of(struct rt_view *list, const char *name);

/* When the first of those that are not being looked at is due; RT_NEVER: none. */
int64_t rt_view_next(const struct rt_view *list);

/* A look shall begin; false: one is under way, and `again` is set. */
bool rt_view_begin(struct rt_view *v);
/* The look has an answer; false: V was over, and is freed. */
bool rt_view_end(struct rt_view *v);
/* V is told nothing any more: freed now, or by the end of its look. */
void rt_view_stop(struct rt_view *v);

/* SIZE bytes of TEXT, with no NUL at their end, cut to fit. */
void rt_view_value(struct rt_view_state *s, const void *text, size_t size);
void rt_view_label(struct rt_view_state *s, const void *text, size_t size);

/* Whether S is to be told; then it is the last one told, and *EVENT says it, valid as long as V lives. */
bool rt_view_news(struct rt_view *v, const struct rt_view_state *s, struct rt_event *event);
/* The same, and tells it. */
void rt_view_tell(struct rt_conn *conn, struct rt_view *v, const struct rt_view_state *s);

#endif
