/* SPDX-License-Identifier: Apache-2.0 */
/* Places collected and told at once. */
#include "engine/kit/shown.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

static char *put_text(char *at, struct rt_text text)
{
    if (text.size > 0)
        memcpy(at, text.at, text.size);
    at[text.size] = '\0';
    return at + text.size + 1;
}

struct rt_shown *rt_shown_add(struct rt_shown_list *l, struct rt_text name, struct rt_text label,
                              struct rt_text value)
{
    if (!rt_grow(&l->places, &l->room, l->count + 1, sizeof(*l->places)))
        return NULL;
    char *block = rt_alloc(name.size + label.size + value.size + 3);
    if (block == NULL)
        return NULL;
    struct rt_shown *s = &l->places[l->count++];
    *s = (struct rt_shown){.name = block};
    s->place.label = put_text(block, name);
    s->place.value = put_text(block + name.size + 1, label);
    (void)put_text(block + name.size + label.size + 2, value);
    return s;
}

void rt_shown_tell(const struct rt_shown_list *l, const struct rt_op *op)
{
    assert(op->kind == RT_OP_INSPECT);
    for (size_t i = 0; i < l->count; i++)
        op->inspect.each(op->inspect.arg, l->places[i].name, &l->places[i].place);
}

void rt_shown_fini(struct rt_shown_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        rt_free(l->places[i].name);
    rt_free(l->places);
    *l = (struct rt_shown_list){0};
}
