/* SPDX-License-Identifier: Apache-2.0 */
/* Deep copies of ops and events: measured first, then laid out in one block. */
#include "engine/fault/copy.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

struct layout {
    char *block; /* NULL: only measuring */
    size_t used;
};

/* Both passes go through here: the first counts, the second copies. */
static void *lay(struct layout *layout, const void *bytes, size_t size)
{
    size_t at = (layout->used + 7) & ~(size_t)7;
    layout->used = at + size;
    if (layout->block == NULL)
        return NULL;
    memcpy(layout->block + at, bytes, size);
    return layout->block + at;
}

static void lay_string(struct layout *layout, const char **string)
{
    if (*string == NULL)
        return;
    void *copy = lay(layout, *string, strlen(*string) + 1);
    if (copy != NULL)
        *string = copy;
}

static void lay_joins(struct layout *layout, struct rt_op *op)
{
    struct rt_join *copy = lay(layout, op->join.joins, op->join.n * sizeof(struct rt_join));
    for (size_t i = 0; i < op->join.n; i++) {
        struct rt_join join = op->join.joins[i];
        lay_string(layout, &join.name);
        lay_string(layout, &join.value);
        if (copy != NULL)
            copy[i] = join;
    }
    if (copy != NULL)
        op->join.joins = copy;
}

static void lay_op(struct layout *layout, struct rt_op *op)
{
    switch (op->kind) {
    case RT_OP_BEAT:
        if (op->beat.ticket_count > 0) {
            size_t size = op->beat.ticket_count * sizeof(uint64_t);
            void *copy = lay(layout, op->beat.tickets, size);
            if (copy != NULL)
                op->beat.tickets = copy;
        }
        break;
    case RT_OP_JOIN:
    case RT_OP_JOIN_ALL:
        lay_joins(layout, op);
        break;
    case RT_OP_CHANGE:
        lay_string(layout, &op->change.name);
        lay_string(layout, &op->change.value);
        break;
    case RT_OP_LEAVE:
        lay_string(layout, &op->leave.name);
        break;
    case RT_OP_OBSERVE:
        lay_string(layout, &op->observe.name);
        break;
    case RT_OP_INSPECT:
        lay_string(layout, &op->inspect.name);
        break;
    case RT_OP_LIST:
        lay_string(layout, &op->list.prefix);
        break;
    case RT_OP_BREAK:
        lay_string(layout, &op->brk.name);
        break;
    case RT_OP_CHECK:
        break;
    }
}

int rt_fault_copy_op(struct rt_op *to, void **block, const struct rt_op *from)
{
    struct layout layout = {0};
    *to = *from;
    lay_op(&layout, to);
    layout.block = rt_alloc(layout.used + 1);
    if (layout.block == NULL)
        return ROTA_NOMEM;
    layout.used = 0;
    lay_op(&layout, to);
    *block = layout.block;
    return 0;
}

void rt_fault_copy_answer(struct rt_op *to, const struct rt_op *from)
{
    assert(to->kind == from->kind);
    if (from->kind == RT_OP_BEAT) {
        to->beat.session = from->beat.session;
        to->beat.ttl_ms = from->beat.ttl_ms;
        to->beat.allowance_ms = from->beat.allowance_ms;
    } else if (from->kind == RT_OP_JOIN || from->kind == RT_OP_JOIN_ALL) {
        for (size_t i = 0; i < from->join.n; i++) {
            to->join.joins[i].number = from->join.joins[i].number;
            to->join.joins[i].granted = from->join.joins[i].granted;
            to->join.joins[i].wanted = from->join.joins[i].wanted;
        }
    } else if (from->kind == RT_OP_CHANGE) {
        to->change.wanted = from->change.wanted;
    }
}

static void lay_event(struct layout *layout, struct rt_event *event)
{
    lay_string(layout, &event->name);
    lay_string(layout, &event->front.value);
    lay_string(layout, &event->front.label);
}

int rt_fault_copy_event(struct rt_event *to, void **block, const struct rt_event *from)
{
    struct layout layout = {0};
    *to = *from;
    lay_event(&layout, to);
    layout.block = rt_alloc(layout.used + 1);
    if (layout.block == NULL)
        return ROTA_NOMEM;
    layout.used = 0;
    lay_event(&layout, to);
    *block = layout.block;
    return 0;
}
