/* SPDX-License-Identifier: Apache-2.0 */
/* INSPECT: places are collected, from one answer or many, completed, and told in one go or not at all. */
#ifndef RT_SHOWN_H
#define RT_SHOWN_H

#include "engine/engine.h"

struct rt_text { /* no NUL at its end */
    const void *at;
    size_t size;
};

struct rt_shown {
    struct rota_place place;
    char *name;     /* label and value behind it: one block */
    int64_t tag;    /* the engine's, for what completes it later ... */
    uint32_t marks; /* ... and this */
};

struct rt_shown_list { /* zeroed before the first use */
    struct rt_shown *places;
    size_t count, room;
};

/* One more, zeroed except for copies of the texts, each with a NUL at its end. It stays where it is until the next is
 * added. NULL: no memory. */
struct rt_shown *rt_shown_add(struct rt_shown_list *l, struct rt_text name, struct rt_text label,
                              struct rt_text value);

/* Tells OP, an INSPECT, of all in their order. */
void rt_shown_tell(const struct rt_shown_list *l, const struct rt_op *op);

void rt_shown_fini(struct rt_shown_list *l);

#endif
